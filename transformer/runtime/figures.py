"""Plots by matplotlib, an optional dependency: figures, colours, curves."""

import contextlib
import itertools
from typing import Any, Dict, Iterator

# Lines that can be told apart in grey print too: by their dashes and markers. The
# colours are those of Okabe and Ito, which colour-blind people can tell apart.
COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")
DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))
MARKERS = "os^Dvx*"


@contextlib.contextmanager
def saved_figure(
    out: str, width: float, height: float, rows: int = 1, columns: int = 1
) -> Iterator[Any]:
    """Yield the axes of a new picture, and save it when the body ends.

        with saved_figure("curve.svg", 7, 4) as axes:
            axes.plot([1, 2, 3])

    Args:
      out: the file; its ending says which format.
      width: in inches.
      height: in inches.
      rows, columns: how many axes there are; of more than one, an array [rows,
        columns] is yielded.

    Raises:
      ValueError: matplotlib is not installed, or does not know the format.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError(
            f"expected matplotlib, got none ({error}): "
            "pip install 'transformer-tf[plot]'"
        ) from error
    figure = Figure(figsize=(width, height), layout="constrained")
    yield figure.subplots(rows, columns, squeeze=rows * columns == 1)
    figure.savefig(out, dpi=150)


def line_styles() -> Iterator[Dict[str, Any]]:
    """Yield the look of one line after the other, as arguments of `axes.plot`."""
    looks = zip(*map(itertools.cycle, (COLOURS, DASHES, MARKERS)))
    for colour, dashes, marker in looks:
        yield {"color": colour, "linestyle": dashes, "marker": marker, "markersize": 4}


def as_written(texts: Iterator[Any]) -> None:
    """Let texts of a picture be shown as they are: a $ begins no formula."""
    for text in texts:
        text.set_parse_math(False)
