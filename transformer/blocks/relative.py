"""Relative positions: what two positions say of each other is how far apart they are.

`relative_positions` is what `modules.multihead_attention` uses (Shaw et al. 2018);
`relative_bias` is a building block, for logits of one's own (Huang et al. 2018).
"""

import tensorflow.compat.v1 as tf

from transformer.blocks.primitives import shape_list, with_dense_gradient


def relative_positions(
    query_length,
    key_length,
    width,
    max_distance,
    offset=0,
    breadth=1,
    scope="relative",
    reuse=None,
):
    """A vector for each distance, for keys and for values (Shaw et al. 2018, eq. 3, 4).

    Args:
      query_length: int or scalar tensor, Tq.
      key_length: int or scalar tensor, Tk.
      width: int, d, the width of one head; the heads share the vectors.
      max_distance: int, m; positions further apart count as m apart.
      offset: how many keys lie before the first query (those of a cache).
      breadth: how many keys and queries, side by side, share each position.
      scope, reuse: of the variables `keys` and `values` [2m + 1, d]; row m + r is for
        a key r positions after its query.

    Returns:
      (float [Tq, Tk, d], the same shape): the `relative` of
      `attention.scaled_dot_product_attention`.
    """
    places = (tf.range(query_length)[:, None] + offset) // breadth
    distances = tf.range(key_length)[None, :] // breadth - places  # [Tq, Tk]
    rows = tf.clip_by_value(distances, -max_distance, max_distance) + max_distance
    with tf.variable_scope(scope, reuse=reuse):
        return tuple(
            tf.gather(_table(name, [2 * max_distance + 1, width]), rows)
            for name in ("keys", "values")
        )


def relative_bias(queries, max_distance, causality, scope="relative", reuse=None):
    """What distances add to the logits in the Music Transformer (Huang et al. 2018).

    Each head has vectors of its own; positions `max_distance` and further apart say
    nothing of each other. No tensor is larger than the logits (section 3.4 there).

    Args:
      queries: float [N, H, T, d], as `attention.scaled_dot_product_attention` has them;
        H and d known.
      max_distance: int, m.
      causality: there are no vectors for later positions, and what this returns for
        them is 0: they are to be masked.
      scope, reuse: of the variable `keys`: [H, m, d], the last row for the position
        itself, or without causality [H, 2m - 1, d], the middle row for it.

    Returns:
      float [N, H, T, T], the `bias` of `attention.scaled_dot_product_attention`.
    """
    _, heads, length, width = shape_list(queries)
    rows = max_distance if causality else 2 * max_distance - 1
    with tf.variable_scope(scope, reuse=reuse):
        table = _table("keys", [heads, rows, width])
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
    """[N, H, T, 2T - 1] → [N, H, T, T]: column T - 1 + j - i of row i becomes column j.

    With one column more, the rows laid end to end are those of 2T - 1 columns, each a
    step further to the right than the one before.
    """
    batch, heads, length, columns = shape_list(by_distance)
    flat = tf.reshape(
        tf.pad(by_distance, [[0, 0]] * 3 + [[0, 1]]),
        [batch, heads, length * (columns + 1)],
    )
    flat = flat[:, :, : length * columns]
    return tf.reshape(flat, [batch, heads, length, columns])[..., length - 1 :]


def _table(name, shape):
    """A variable of vectors, to look rows up in."""
    initializer = tf.random_normal_initializer(stddev=shape[-1] ** -0.5)
    return with_dense_gradient(tf.get_variable(name, shape, initializer=initializer))
