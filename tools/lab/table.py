"""The table and the picture of the laboratory, from its results.

A difference is the mean, over the seeds, of BLEU minus the base's BLEU with the same
seed; its interval is the 95 % interval of Student's t distribution.
"""

import json
import math
import os
import statistics
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from rows import BASE, ROWS, Row

RESULTS = "results.jsonl"  # in the folder of a laboratory: a line for each run
# The quantile 0.975 of the t distribution with 1, 2, ... degrees of freedom.
T_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


COLUMNS = (
    "row",
    "BLEU",
    "seeds",
    "difference",
    "expected",
    "paper",
    "same sign",
    "training loss",
    "dev loss",
    "doctor",
)


class Result(NamedTuple):
    """What was measured of a row."""

    row: Row
    bleu: float  # the mean over the seeds
    seeds: int
    difference: float  # from the base, with the same seeds
    interval: Optional[float]  # half the width; None for one seed
    train_loss: Optional[float]
    dev_loss: Optional[float]
    doctor: Dict[str, int]  # a finding of the command doctor → in how many runs


def read_lines(out: str) -> List[Dict[str, Any]]:
    """Read the results in a folder; [] if there are none."""
    path = os.path.join(out, RESULTS)
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def half_interval(values: List[float]) -> Optional[float]:
    """Return half the width of the 95 % interval of a mean; None for one value."""
    count = len(values)
    if count < 2:
        return None
    quantile = T_QUANTILES[min(count - 1, len(T_QUANTILES)) - 1]
    return quantile * statistics.stdev(values) / math.sqrt(count)


def summarize(lines: List[Dict[str, Any]]) -> List[Result]:
    """Summarize the runs with the code and the base of the last line: Result by row.

    Args:
      lines: the results, oldest first; of two lines of a run, the later counts.
    """
    by_run = {
        (line["row"], line["seed"]): line
        for line in lines
        if [line["code"], line["base"]] == [lines[-1]["code"], lines[-1]["base"]]
    }
    results = []
    for row in ROWS:
        runs = [line for (name, _), line in sorted(by_run.items()) if name == row.name]
        pairs = [(run, by_run.get((BASE.name, run["seed"]))) for run in runs]
        differences = [run["bleu"] - base["bleu"] for run, base in pairs if base]
        if not differences:
            continue
        train_loss, dev_loss = (
            mean_if_any([run[name] for run in runs if run.get(name) is not None])
            for name in ("train_loss", "dev_loss")
        )
        doctor: Dict[str, int] = {}
        for run in runs:
            for name in run["doctor"]:
                doctor[name] = doctor.get(name, 0) + 1
        results.append(
            Result(
                row,
                statistics.mean(run["bleu"] for run in runs),
                len(runs),
                statistics.mean(differences),
                half_interval(differences),
                train_loss,
                dev_loss,
                doctor,
            )
        )
    return results


def mean_if_any(values: List[float]) -> Optional[float]:
    """Return the mean of values; None if there are none."""
    return statistics.mean(values) if values else None


def format_difference(result: Result) -> str:
    """Return the difference from the base with its interval."""
    interval = "" if result.interval is None else f" ± {result.interval:.2f}"
    return f"{result.difference:+.2f}{interval}"


def format_doctor(result: Result) -> str:
    """Return what the command doctor found, and in how many runs if not in all."""
    return ", ".join(
        name if count == result.seeds else f"{name} ({count} of {result.seeds} runs)"
        for name, count in result.doctor.items()
    )


def compare_signs(result: Result) -> str:
    """Say whether the difference has the sign of the paper's: a cell of the table."""
    paper = result.row.paper
    if paper is None:
        return ""
    if result.interval is None or abs(result.difference) <= result.interval:
        return "no clear difference"
    return "yes" if result.difference * paper > 0 else "no"


def make_cells(result: Result) -> List[str]:
    """Return the cells of a row of the table: see COLUMNS."""
    row = result.row
    return [
        row.name,
        f"{result.bleu:.2f}",
        str(result.seeds),
        format_difference(result),
        f"{row.expected:+.1f}",
        "" if row.paper is None else f"{row.paper:+.1f}",
        compare_signs(result),
        *(
            "" if loss is None else f"{loss:.3f}"
            for loss in (result.train_loss, result.dev_loss)
        ),
        format_doctor(result),
    ]


def format_row(cells: Sequence[str]) -> str:
    """Return a row of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


def make_group(results: List[Result], group: str) -> str:
    """Return the results of a group as a table in Markdown, ranked.

    Columns without a value are left out.
    """
    of_group = [result for result in results if result.row.group == group]
    ranked = sorted(of_group, key=lambda result: -result.difference)
    columns = zip(COLUMNS, *map(make_cells, ranked))
    filled = [column for column in columns if any(column[1:])]
    first, *rows = map(format_row, zip(*filled))
    return "\n".join([first, "|---" * len(filled) + "|", *rows, ""])


def make_table(results: List[Result]) -> str:
    """Return the results as Markdown, a table for each group."""
    groups = dict.fromkeys(result.row.group for result in results)
    return "\n".join(f"## {group}\n\n{make_group(results, group)}" for group in groups)


def draw(results: List[Result], path: str) -> None:
    """Draw the differences with their intervals, ranked, and what was expected."""
    from matplotlib.figure import Figure

    ranked = sorted(results, key=lambda result: result.difference)
    places = range(len(ranked))
    figure = Figure(figsize=(8, 1 + 0.22 * len(ranked)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color="0.8")
    axes.errorbar(
        [result.difference for result in ranked],
        places,
        xerr=[result.interval or 0 for result in ranked],
        fmt="o",
        label="measured, 95 % interval",
    )
    expected = [result.row.expected for result in ranked]
    axes.plot(expected, places, "D", markerfacecolor="none", label="expected")
    axes.set_yticks(places, [result.row.name for result in ranked])
    axes.set_xlabel("dev BLEU, difference from the base")
    axes.legend()
    figure.savefig(path)


def write(lines: List[Dict[str, Any]], out: str) -> None:
    """Write table.md, and table.png if matplotlib is installed, into a folder."""
    results = summarize(lines)
    with open(os.path.join(out, "table.md"), "w", encoding="utf-8") as file:
        file.write(make_table(results))
    try:
        draw(results, os.path.join(out, "table.png"))
    except ImportError:
        print("no picture: matplotlib is not installed: pip install matplotlib")
