"""Make rows from measurements, and tables from rows."""

import statistics
from typing import Any, Dict, Iterable, List

Row = Dict[str, Any]

UNITS = {
    "tokens/s": "{:,.0f}",
    "sentences/s": "{:,.1f}",
    "ms": "{:,.1f}",
    "GFLOP/s": "{:,.0f}",
    "GB/s": "{:,.1f}",
    "MiB": "{:,.0f}",
    "%": "{:,.0f}",
    "BLEU": "{:.2f}",
    "s": "{:.1f}",
}


def make_row(
    system: str, work: str, precision: str, values: Iterable[float], unit: str
) -> Row:
    """Return a row: the median of values, and their minimum and maximum as spread."""
    values = list(values)
    return {
        "system": system,
        "work": work,
        "precision": precision,
        "value": statistics.median(values),
        "unit": unit,
        "spread": [min(values), max(values)],
    }


def percentile(values: Iterable[float], share: float) -> float:
    """Return the value below which a share of the values lies, by nearest rank."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def format_row(row: Row) -> str:
    """Return a row as a line of a Markdown table."""
    number = UNITS[row["unit"]]
    low, high = (number.format(value) for value in row["spread"])
    spread = f"{low} – {high}" if low != high else ""
    cells = [
        row["work"],
        row["system"],
        row["precision"],
        number.format(row["value"]),
        row["unit"],
        spread,
    ]
    return f"| {' | '.join(cells)} |\n"


def format_table(rows: List[Row]) -> str:
    """Return all rows as a Markdown table, with the best of each work first."""
    works = list(dict.fromkeys(row["work"] for row in rows))
    less_is_better = {"ms", "MiB", "s"}
    head = "| work | system | precision | median | unit | min – max |\n" + "|---" * 6
    sorted_rows = sorted(
        rows,
        key=lambda row: (
            works.index(row["work"]),
            row["value"] * (1 if row["unit"] in less_is_better else -1),
        ),
    )
    return head + "|\n" + "".join(map(format_row, sorted_rows))


def format_summary(rows: List[Row]) -> str:
    """Return the medians as a Markdown table, without the limits of the machine.

    The table has a row for each work, and a column for each system and precision.
    """
    table = {}
    for row in rows:
        if row["system"] != "machine":
            key = f"{row['work']}, {row['unit']}"
            column = f"{row['system']} {row['precision']}"
            table.setdefault(key, {})[column] = UNITS[row["unit"]].format(row["value"])
    columns = list(dict.fromkeys(name for cells in table.values() for name in cells))
    lines = [["median", *columns], ["---"] * (len(columns) + 1)]
    lines += [
        [key, *(cells.get(name, "") for name in columns)]
        for key, cells in table.items()
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
