"""Attention → a picture made by matplotlib: one heat map, or a grid of heat maps.

The picture is black on white, so that it looks the same in greyscale print. Cells that
cannot have attention are hatched.
"""

from typing import Any, List, NamedTuple, Optional, Sequence

import numpy as np

from transformer.runtime.errors import missing_package
from transformer.runtime.files import name_file_in_errors
from transformer.text.words import word_attention
from transformer.viewer.inspection import KINDS, LineInspection

MAX_NUMBERED = 16  # words of a map that shows numbers in its cells
MAX_LABELLED = 40  # words of a map that shows its words at the edges
MEAN = "mean"  # of the heads of a layer


class Map(NamedTuple):
    """The attention of one head, or the mean of several heads."""

    title: str
    weights: np.ndarray  # float [Tq, Tk]
    allowed: np.ndarray  # bool [Tq, Tk]
    queries: List[str]
    keys: List[str]


def select_maps(
    inspection: LineInspection,
    kinds: Sequence[str] = tuple(KINDS),
    layer: Optional[int] = None,
    head: Any = None,
    pieces: bool = False,
) -> List[List[Map]]:
    """Select maps: a row for each kind and layer, a column for each head.

    Args:
      inspection: a LineInspection.
      kinds: keys of KINDS.
      layer: the layer, from 1; None: all layers.
      head: the head, from 1; "mean": the mean of all heads; None: each head.
      pieces: whether attention is between pieces instead of words.

    Raises:
      ValueError: there is no such layer or head.
    """
    rows = []
    for kind in kinds:
        weights = inspection.attention[kind]  # [layers, H, Tq, Tk]
        layers = _select(f"{kind}: layer", layer, len(weights))
        heads = [None]
        if head != MEAN:
            heads = _select(f"{kind}: head", head, weights.shape[1])
        for i in layers:
            rows.append([_make_map(inspection, kind, i, j, pieces) for j in heads])
    return rows


def _select(name, index, count):
    """Return the indices, from 0, of one layer or head, or of all."""
    if index is None:
        return range(count)
    if not 1 <= index <= count:
        raise ValueError(f"{name}: expected 1 to {count}, got {index}")
    return [index - 1]


def _make_map(inspection, kind, layer, head, pieces):
    """Make a Map of one head; `head` None: the mean of the heads."""
    weights = inspection.attention[kind][layer]
    weights = weights.mean(0) if head is None else weights[head]
    queries, keys = {
        "encoder": (inspection.source, inspection.source),
        "decoder": (inspection.target_in, inspection.target_in),
        "cross": (inspection.target, inspection.source),
    }[kind]
    allowed = inspection.allowed[kind]
    heads = "mean of the heads" if head is None else f"head {head + 1}"
    title = f"{kind}, layer {layer + 1}, {heads}"
    if pieces:
        return Map(title, weights, allowed, queries.pieces, keys.pieces)
    spans = queries.spans, keys.spans
    allowed = word_attention(allowed.astype(float), *spans) > 0
    weights = word_attention(weights, *spans)
    return Map(title, weights, allowed, queries.words, keys.words)


def draw(rows: List[List[Map]], out: str) -> None:
    """Draw maps to a file; its extension determines the format.

    Args:
      rows: rows of maps, as from `select_maps`.
      out: the file.

    Raises:
      PackageNotInstalled: matplotlib is not installed.
      ValueError: matplotlib does not know the format.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_package("matplotlib", "plot", error) from error
    columns = len(rows[0])
    single = len(rows) * columns == 1
    sizes = [_map_size(row[0], single) for row in rows]
    width = max(size[0] for size in sizes) * columns
    height = sum(size[1] for size in sizes)
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for row, row_axes in zip(rows, grid):
        for attention_map, axes in zip(row, row_axes):
            draw_map(axes, attention_map, single)
    with name_file_in_errors(out):
        figure.savefig(out, dpi=150)


def _map_size(attention_map, single):
    """Return (width, height) of a map in inches."""
    cell, smallest, largest = (0.42, 3.5, 22) if single else (0.16, 2.2, 8)
    return tuple(
        min(largest, max(smallest, cell * len(words) + (1.5 if single else 0.9)))
        for words in (attention_map.keys, attention_map.queries)
    )


def draw_map(axes, attention_map: Map, single: bool = True) -> None:
    """Draw one map, in which rows attend to columns.

    Args:
      axes: the axes of matplotlib.
      attention_map: the Map.
      single: whether the picture has only this map, so that there is room for numbers.
    """
    from matplotlib.patches import Rectangle

    weights = attention_map.weights
    axes.imshow(weights, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    axes.set_title(attention_map.title, fontsize=10 if single else 8)
    size = 9 if single else 6
    for axis, words, angle in (
        (axes.xaxis, attention_map.keys, 90),
        (axes.yaxis, attention_map.queries, 0),
    ):
        labels = words if len(words) <= MAX_LABELLED or single else []
        axis.set_ticks(range(len(labels)), labels=labels, fontsize=size, rotation=angle)
        for label in axis.get_ticklabels():
            label.set_parse_math(False)  # a $ does not begin a formula
        axis.set_tick_params(length=0)
    for i, j in zip(*np.nonzero(~attention_map.allowed)):
        corner = (j - 0.5, i - 0.5)
        cell = Rectangle(corner, 1, 1, fill=False, hatch="////", ec="0.75", lw=0)
        axes.add_patch(cell)
    if single and max(weights.shape) <= MAX_NUMBERED:
        for i, j in zip(*np.nonzero(attention_map.allowed)):
            colour = "white" if weights[i, j] > 0.5 else "black"
            text = f"{weights[i, j]:.2f}".lstrip("0")
            axes.text(j, i, text, color=colour, ha="center", va="center", fontsize=7)
