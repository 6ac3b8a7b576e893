"""Pictures by matplotlib, which need not be installed."""

import contextlib
from typing import Any, Iterator


@contextlib.contextmanager
def saved_figure(out: str, width: float, height: float) -> Iterator[Any]:
    """Yield the axes of a new picture, and save it when the body ends.

        with saved_figure("curve.svg", 7, 4) as axes:
            axes.plot([1, 2, 3])

    Args:
      out: the file; its ending says which format.
      width: in inches.
      height: in inches.

    Raises:
      ValueError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError(
            f"found no matplotlib ({error}), wanted it installed: "
            "pip install -e '.[plot]'"
        ) from error
    figure = Figure(figsize=(width, height), layout="constrained")
    yield figure.subplots()
    figure.savefig(out, dpi=150)
