"""Attention → a picture made by matplotlib: one heat map, or a grid of heat maps.

The picture is black on white, so that it looks the same in greyscale print. Cells that
cannot have attention are hatched.
"""

from typing import Any, List, NamedTuple, Optional, Sequence

import numpy as np

from transformer.runtime.files import named
from transformer.text.words import word_attention
from transformer.viewer.sight import KINDS, Sight

NUMBERED = 16  # the most words of a map that shows numbers in its cells
LETTERED = 40  # the most words of a map that shows its words at the edges
MEAN = "mean"  # of the heads of a layer


class Map(NamedTuple):
    """The attention of one head, or the mean of several heads."""

    title: str
    weights: np.ndarray  # float [Tq, Tk]
    allowed: np.ndarray  # bool [Tq, Tk]
    queries: List[str]
    keys: List[str]


def maps(
    sight: Sight,
    kinds: Sequence[str] = tuple(KINDS),
    layer: Optional[int] = None,
    head: Any = None,
    pieces: bool = False,
) -> List[List[Map]]:
    """Return rows of maps: a row for each kind and layer, a column for each head.

    Args:
      sight: a Sight.
      kinds: keys of KINDS.
      layer: the layer, from 1; None: all layers.
      head: the head, from 1; "mean": the mean of all heads; None: each head.
      pieces: whether attention is between pieces instead of words.

    Raises:
      ValueError: there is no such layer or head.
    """
    rows = []
    for kind in kinds:
        weights = sight.attention[kind]  # [layers, H, Tq, Tk]
        layers = _chosen(f"{kind}: layer", layer, len(weights))
        heads = [None]
        if head != MEAN:
            heads = _chosen(f"{kind}: head", head, weights.shape[1])
        for i in layers:
            rows.append([_map(sight, kind, i, one, pieces) for one in heads])
    return rows


def _chosen(what, number, count):
    """Return the indices, from 0, of one layer or head, or of all."""
    if number is None:
        return range(count)
    if not 1 <= number <= count:
        raise ValueError(
            f"{what}: expected 1 to {count}, got {number}; choose another, or a --kind "
            "that has it"
        )
    return [number - 1]


def _map(sight, kind, layer, head, pieces):
    """Return a Map; `head` None: the mean of the heads."""
    weights = sight.attention[kind][layer]
    weights = weights.mean(0) if head is None else weights[head]
    queries, keys = {
        "encoder": (sight.source, sight.source),
        "decoder": (sight.target_in, sight.target_in),
        "cross": (sight.target, sight.source),
    }[kind]
    allowed = sight.allowed[kind]
    who = "mean of the heads" if head is None else f"head {head + 1}"
    title = f"{kind}, layer {layer + 1}, {who}"
    if pieces:
        return Map(title, weights, allowed, queries.pieces, keys.pieces)
    spans = queries.spans, keys.spans
    seen = word_attention(allowed.astype(float), *spans) > 0
    return Map(title, word_attention(weights, *spans), seen, queries.words, keys.words)


def draw(rows: List[List[Map]], out: str) -> None:
    """Draw maps to a file; its extension determines the format.

    Args:
      rows: what `maps` returned.
      out: the file.

    Raises:
      ValueError: matplotlib is not installed, or does not know the format.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError(
            f"expected matplotlib, got none ({error}): "
            "pip install 'transformer-tf[plot]', with Python 3.10 or newer"
        ) from error
    columns = len(rows[0])
    single = len(rows) * columns == 1
    sizes = [_size(row[0], single) for row in rows]
    width = max(size[0] for size in sizes) * columns
    height = sum(size[1] for size in sizes)
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for row, of_row in zip(rows, grid):
        for each, axes in zip(row, of_row):
            draw_map(axes, each, single)
    with named(out):
        figure.savefig(out, dpi=150)


def _size(each, single):
    """Return (width, height) of a map in inches."""
    cell, least, most = (0.42, 3.5, 22) if single else (0.16, 2.2, 8)
    return tuple(
        min(most, max(least, cell * len(words) + (1.5 if single else 0.9)))
        for words in (each.keys, each.queries)
    )


def draw_map(axes, each: Map, single: bool = True) -> None:
    """Draw one map, in which rows attend to columns.

    Args:
      axes: the axes of matplotlib.
      each: the Map.
      single: whether there is room for numbers.
    """
    from matplotlib.patches import Rectangle

    axes.imshow(each.weights, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    axes.set_title(each.title, fontsize=10 if single else 8)
    size = 9 if single else 6
    for axis, words, turned in (
        (axes.xaxis, each.keys, 90),
        (axes.yaxis, each.queries, 0),
    ):
        shown = words if len(words) <= LETTERED or single else []
        axis.set_ticks(range(len(shown)), labels=shown, fontsize=size, rotation=turned)
        for label in axis.get_ticklabels():
            label.set_parse_math(False)  # a $ does not begin a formula
        axis.set_tick_params(length=0)
    for i, j in zip(*np.nonzero(~each.allowed)):
        corner = (j - 0.5, i - 0.5)
        cell = Rectangle(corner, 1, 1, fill=False, hatch="////", ec="0.75", lw=0)
        axes.add_patch(cell)
    if single and max(each.weights.shape) <= NUMBERED:
        for i, j in zip(*np.nonzero(each.allowed)):
            colour = "white" if each.weights[i, j] > 0.5 else "black"
            text = f"{each.weights[i, j]:.2f}".lstrip("0")
            axes.text(j, i, text, color=colour, ha="center", va="center", fontsize=7)
