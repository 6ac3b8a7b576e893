"""Relative positions: attention sees the distance between two positions.

`relative_positions` is what `modules.multihead_attention` uses (Shaw et al. 2018);
`relative_bias` is a building block for logits of your own (Huang et al. 2018).
"""

from typing import Optional

import tensorflow.compat.v1 as tf

from transformer.blocks.masks import distances
from transformer.blocks.shapes import shape_list


def relative_positions(
    query_positions,
    key_positions,
    width: int,
    max_distance: int,
    scope: str = "relative",
    reuse: Optional[bool] = None,
):
    """Return a vector for each distance, for keys and for values (Shaw et al., 3.2).

    Args:
      query_positions: int [Tq].
      key_positions: int [Tk].
      width: int, d, the width of one head; the heads share the vectors.
      max_distance: int, m; positions further apart count as m apart.
      scope, reuse: of the variables `keys` and `values` [2m + 1, d]; row m + r is for
        a key r positions after its query.

    Returns:
      (float [Tq, Tk, d], the same shape): the `relative` of
      `attention.scaled_dot_product_attention`.
    """
    rows = max_distance + tf.clip_by_value(
        distances(query_positions, key_positions), -max_distance, max_distance
    )  # [Tq, Tk]
    with tf.variable_scope(scope, reuse=reuse):
        return tuple(
            tf.gather(_table(name, [2 * max_distance + 1], width), rows)
            for name in ("keys", "values")
        )


def relative_bias(
    queries,
    max_distance: int,
    causality: bool,
    scope: str = "relative",
    reuse: Optional[bool] = None,
):
    """Return the bias of relative positions in the Music Transformer.

    Each head has vectors of its own; the bias is 0 from `max_distance` on. No tensor is
    larger than the logits (Huang et al. 2018, section 3.4).

    Args:
      queries: float [N, H, T, d], as `attention.scaled_dot_product_attention` has them;
        H and d known.
      max_distance: int, m.
      causality: True: there are no vectors for later positions, and their bias is 0;
        mask them.
      scope, reuse: of the variable `keys`: [H, m, d], the last row for the position
        itself, or without causality [H, 2m - 1, d], the middle row for it.

    Returns:
      float [N, H, T, T], the `bias` of `attention.scaled_dot_product_attention`.
    """
    _, heads, length, width = shape_list(queries)
    rows = max_distance if causality else 2 * max_distance - 1
    with tf.variable_scope(scope, reuse=reuse):
        table = _table("keys", [heads, rows], width)
    by_distance = tf.matmul(queries * width**-0.5, table[None], transpose_b=True)
    # From the m - 1 distances on each side to T - 1: some cut off, or zeros added.
    cut, added = (
        tf.maximum(difference, 0)
        for difference in (max_distance - length, length - max_distance)
    )
    if causality:
        by_distance, end = by_distance[..., cut:], length - 1
    else:
        by_distance, end = by_distance[..., cut : rows - cut], added
    return _by_position(tf.pad(by_distance, [[0, 0]] * 3 + [[added, end]]))


def _by_position(by_distance):
    """Move column T - 1 + j - i of row i to column j: [N, H, T, 2T - 1] → [N, H, T, T].

    Each row gets one column more; all are laid end to end, and cut into rows of 2T - 1
    again: row i is then shifted to the right by i.
    """
    batch, heads, length, columns = shape_list(by_distance)
    flat = tf.reshape(
        tf.pad(by_distance, [[0, 0]] * 3 + [[0, 1]]),
        [batch, heads, length * (columns + 1)],
    )
    flat = flat[:, :, : length * columns]
    return tf.reshape(flat, [batch, heads, length, columns])[..., length - 1 :]


def _table(name, rows, width):
    """Return a variable of vectors: [*rows, width]."""
    initializer = tf.random_normal_initializer(stddev=width**-0.5)
    return tf.get_variable(name, [*rows, width], initializer=initializer)
