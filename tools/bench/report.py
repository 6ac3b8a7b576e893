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


def row(
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


def line(one: Row) -> str:
    """Return a row as a line of a Markdown table."""
    shown = UNITS[one["unit"]]
    low, high = (shown.format(value) for value in one["spread"])
    spread = f"{low} – {high}" if low != high else ""
    cells = [
        one["work"],
        one["system"],
        one["precision"],
        shown.format(one["value"]),
        one["unit"],
        spread,
    ]
    return f"| {' | '.join(cells)} |\n"


def table(rows: List[Row]) -> str:
    """Return all rows as a Markdown table, with the best of each work first."""
    works = list(dict.fromkeys(one["work"] for one in rows))
    less_is_better = {"ms", "MiB", "s"}
    head = "| work | system | precision | median | unit | min – max |\n" + "|---" * 6
    ordered = sorted(
        rows,
        key=lambda one: (
            works.index(one["work"]),
            one["value"] * (1 if one["unit"] in less_is_better else -1),
        ),
    )
    return head + "|\n" + "".join(map(line, ordered))


def summary(rows: List[Row]) -> str:
    """Return the medians as a Markdown table, without the limits of the machine.

    The table has a row for each work, and a column for each system and precision.
    """
    found = {}
    for one in rows:
        if one["system"] != "machine":
            key = f"{one['work']}, {one['unit']}"
            column = f"{one['system']} {one['precision']}"
            found.setdefault(key, {})[column] = UNITS[one["unit"]].format(one["value"])
    columns = list(dict.fromkeys(name for cells in found.values() for name in cells))
    lines = [["median", *columns], ["---"] * (len(columns) + 1)]
    lines += [
        [key, *(cells.get(name, "") for name in columns)]
        for key, cells in found.items()
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
