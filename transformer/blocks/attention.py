"""Attention: the formula (section 3.2.1), heads, relative positions, local attention.

`modules.multihead_attention` is made of these. The file `masks` makes the masks that
`scaled_dot_product_attention` applies.
"""

from typing import Callable, NamedTuple, Optional, Tuple, Union

import tensorflow.compat.v1 as tf

from transformer.blocks.arguments import check_size, check_tensor, refuse_function
from transformer.blocks.layers import (
    cast_to_float32,
    dense,
    expand_dims,
    shape_list,
    split_heads,
)
from transformer.blocks.masks import MASKED_LOGIT, distances, mask_to_bool
from transformer.dialects import Dialect, resolve

# The formula


def scaled_dot_product_attention(
    queries,
    keys,
    values,
    mask=None,
    *,
    bias=None,
    relative: Optional[tuple] = None,
    scale: Optional[float] = None,
    fully_masked_is_zero: bool = True,
    drop: Optional[Callable] = None,
) -> tuple:
    """Compute softmax(Q K^T / sqrt(d_k)) V and the weights (equation 1).

    Without `relative`, there may be any number of dimensions between N and Tq, if they
    are the same for queries, keys and values.

    Args:
      queries: float [N, H, Tq, d_k].
      keys: float [N, H, Tk, d_k].
      values: float [N, H, Tk, d_v].
      mask: bool, broadcastable to [N, H, Tq, Tk], True = may attend.
      bias: float, broadcastable to [N, H, Tq, Tk], added to the logits; finite: what
        is forbidden belongs in `mask`.
      relative: (float [Tq, Tk, d_k], float [Tq, Tk, d_v]), added to the key and the
        value for each pair of positions: see `relative_positions`.
      scale: float, the factor for the logits; by default d_k ** -0.5.
      fully_masked_is_zero: whether a query that may attend to nothing gets zeros;
        otherwise, it attends equally to all keys. The result is never NaN.
      drop: function that applies dropout to weights.

    Returns:
      (context float [N, H, Tq, d_v], weights float [N, H, Tq, Tk] before dropout). The
      weights are float32 even if queries, keys and values have 16 bits.
    """
    queries = tf.convert_to_tensor(queries)
    keys = tf.convert_to_tensor(keys)
    values = tf.convert_to_tensor(values)
    scale = queries.shape.as_list()[-1] ** -0.5 if scale is None else scale
    queries = tf.cast(cast_to_float32(queries) * scale, queries.dtype)
    logits = cast_to_float32(
        tf.matmul(queries, keys, transpose_b=True)
    )  # [N, H, Tq, Tk]
    if relative is not None:
        relative_keys, relative_values = (tf.cast(x, queries.dtype) for x in relative)
        logits += cast_to_float32(tf.einsum("nhqd,qkd->nhqk", queries, relative_keys))
    if bias is not None:
        logits += tf.cast(bias, logits.dtype)
    if mask is not None:
        logits = tf.where_v2(mask, logits, MASKED_LOGIT)  # padding, later positions
    weights = tf.nn.softmax(logits)  # [N, H, Tq, Tk]
    dropped = weights if drop is None else drop(weights)
    dropped = tf.cast(dropped, values.dtype)
    context = tf.matmul(dropped, values)  # [N, H, Tq, d_v]
    if relative is not None:
        context += tf.einsum("nhqk,qkd->nhqd", dropped, relative_values)
    if mask is not None and fully_masked_is_zero:
        sees_a_key = tf.reduce_any(mask, -1, keepdims=True)
        context *= tf.cast(sees_a_key, context.dtype)
        weights *= tf.cast(sees_a_key, weights.dtype)
    return context, weights


# Heads (section 3.2.2)


class KeyValueCache(NamedTuple):
    """The keys and values of an attention, in heads, so that they are computed once."""

    keys: tf.Tensor  # float [N, H, T, d_k]
    values: tf.Tensor  # float [N, H, T, d_v]

    def append(self, later: "KeyValueCache") -> "KeyValueCache":
        """Append the keys and values of later positions."""
        return KeyValueCache(
            tf.concat([self.keys, later.keys], axis=2),
            tf.concat([self.values, later.values], axis=2),
        )


def project(x, num_units: int, num_heads: int, dialect: Dialect, name: str):
    """Project to Q, K or V: float [N, T, any width] → [N, H, T, num_units / H].

    Args:
      num_units: int, the width of all heads together.
      dialect: a Dialect, which decides on bias and ReLU.
      name: the variable scope: "q", "k" or "v".
    """
    activation = tf.nn.relu if dialect.projection_relu else None
    outputs = dense(x, num_units, dialect.projection_bias, name, activation)
    return split_heads(outputs, num_heads, like=x)


def keys_and_values(
    keys,
    num_units: int,
    num_heads: int,
    dialect: Union[str, Dialect] = "paper",
    value_units: Optional[int] = None,
) -> KeyValueCache:
    """Compute K and V for attention, with variables in the current scope.

    Args:
      keys: float [N, Tk, any width].
      num_units: int, the width of all heads together.
      num_heads: int, H.
      dialect: a Dialect or its name.
      value_units: int, the width of the values of all heads; None: `num_units`.

    Returns:
      KeyValueCache, float [N, H, Tk, num_units / H] and [N, H, Tk, value_units / H].
    """
    dialect = resolve(dialect)
    value_units = num_units if value_units is None else value_units
    return KeyValueCache(
        project(keys, num_units, num_heads, dialect, "k"),
        project(keys, value_units, num_heads, dialect, "v"),
    )


# Relative positions (Shaw et al. 2018; Huang et al. 2018)


class RelativePositions(NamedTuple):
    """The positions of queries and keys; distances are clipped to `max_distance`."""

    queries: tf.Tensor  # int [Tq]
    keys: tf.Tensor  # int [Tk]
    max_distance: int

    def look_up(self, width: int, value_width: Optional[int] = None) -> tuple:
        """Look up the vectors of all distances: see `relative_positions`."""
        return relative_positions(
            self.queries, self.keys, width, self.max_distance, value_width=value_width
        )


def relative_positions(
    query_positions,
    key_positions,
    width: int,
    max_distance: int,
    scope: str = "relative",
    reuse: Optional[bool] = None,
    *,
    value_width: Optional[int] = None,
) -> tuple:
    """Look up a vector for each distance, for keys and for values (Shaw et al., 3.2).

    Args:
      query_positions: int [Tq].
      key_positions: int [Tk].
      width: int, d_k, the width of one head; the heads share the vectors.
      max_distance: int, m; larger distances are clipped to m.
      scope, reuse: for the variables `keys` [2m + 1, d_k] and `values` [2m + 1, d_v];
        row m + r is for a key r positions after its query.
      value_width: int, d_v; None: d_k.

    Returns:
      (float [Tq, Tk, d_k], float [Tq, Tk, d_v]): the argument `relative` of
      `scaled_dot_product_attention`.
    """
    width = check_size("relative_positions: width", width)
    value_width = check_size("relative_positions: value_width", value_width or width)
    max_distance = check_size("relative_positions: max_distance", max_distance)
    rows = max_distance + tf.clip_by_value(
        distances(query_positions, key_positions), -max_distance, max_distance
    )  # [Tq, Tk]
    with tf.variable_scope(scope, reuse=reuse):
        return tuple(
            tf.gather(_table(name, [2 * max_distance + 1], size), rows)
            for name, size in (("keys", width), ("values", value_width))
        )


def relative_bias(
    queries,
    max_distance: int,
    causality: bool,
    scope: str = "relative",
    reuse: Optional[bool] = None,
):
    """Compute the bias for relative positions of the Music Transformer.

    Each head has its own vectors; the bias is 0 for distances of `max_distance` or
    more. No tensor is larger than the logits (Huang et al. 2018, section 3.4).

    Args:
      queries: float [N, H, T, d], as in `scaled_dot_product_attention`; H and d must be
        static.
      max_distance: int, m. Only distances below m have vectors, 2m - 1 in all;
        `relative_positions` has vectors for m, too, 2m + 1 in all.
      causality: if True, later positions have no vectors and their bias is 0; mask
        them.
      scope, reuse: for the variable `keys`. With causality, it is [H, m, d], and the
        last row is for the position itself; without, it is [H, 2m - 1, d], and the
        middle row is for the position itself.

    Returns:
      float [N, H, T, T], the argument `bias` of `scaled_dot_product_attention`.
    """
    max_distance = check_size("relative_bias: max_distance", max_distance)
    _, heads, length, width = shape_list(queries)
    rows = max_distance if causality else 2 * max_distance - 1
    with tf.variable_scope(scope, reuse=reuse):
        table = tf.cast(_table("keys", [heads, rows], width), queries.dtype)
    by_distance = tf.matmul(queries * width**-0.5, table[None], transpose_b=True)
    # Cut or pad the m - 1 distances of each side to T - 1.
    num_cut = tf.maximum(max_distance - length, 0)
    num_left = tf.maximum(length - max_distance, 0)
    if causality:
        by_distance = by_distance[..., num_cut:]
        num_right = tf.maximum(length - 1, 0)
    else:
        by_distance = by_distance[..., num_cut : rows - num_cut]
        num_right = num_left
    return _skew(tf.pad(by_distance, [[0, 0]] * 3 + [[num_left, num_right]]))


def _skew(by_distance):
    """Turn distances into positions: [N, H, T, 2T - 1] → [N, H, T, T] (Huang et al.).

    Column T - 1 + j - i of row i becomes column j. Each row gets one more column; then
    the rows are concatenated, and cut into rows of 2T - 1 columns again. This shifts
    row i to the right by i.
    """
    batch, heads, length, columns = shape_list(by_distance)
    flat = tf.reshape(
        tf.pad(by_distance, [[0, 0]] * 3 + [[0, 1]]),
        [batch, heads, length * (columns + 1)],
    )
    flat = flat[:, :, : length * columns]
    return tf.reshape(flat, [batch, heads, length, columns])[..., length - 1 :]


def _table(name, rows, width):
    """Get a variable that holds vectors: [*rows, width]."""
    refuse_function("relative positions")
    initializer = tf.random_normal_initializer(stddev=width**-0.5)
    return tf.get_variable(name, [*rows, width], initializer=initializer)


# Local attention (section 4)


def local_attention(
    queries,
    keys,
    values,
    block_length: int,
    *,
    window: Tuple[int, int] = (0, 0),
    causality: bool = False,
    key_mask=None,
    fully_masked_is_zero: bool = True,
) -> tuple:
    """Attend within blocks of a sequence, and to a window around each block.

    The sequence is cut into blocks of `block_length` positions. A position sees the
    positions in its block, and those in a window before and after the block. The local
    attentions of tensor2tensor are

        local_attention_1d:                      window = (filter_width, filter_width)
        masked_local_attention_1d:               window = (block_length, 0), causality
        masked_within_block_local_attention_1d:  window = (0, 0), causality

    Args:
      queries, keys: float [N, H, T, d_k]; T need not be a multiple of B.
      values: float [N, H, T, d_v].
      block_length: int, B.
      window: (int, int), the numbers of positions before and after the block.
      causality: of these positions, a position sees only itself and earlier ones.
      key_mask: bool or numbers [N, T] or [N, H, T], True or 1 = may attend.
      fully_masked_is_zero: as in `scaled_dot_product_attention`.

    Returns:
      (context float [N, H, T, d_v], weights float
      [N, H, blocks, B, before + B + after]).

    Raises:
      ValueError: a size is no integer, or `key_mask` has another rank or is a bias.
    """
    queries = tf.convert_to_tensor(queries)
    keys = tf.convert_to_tensor(keys)
    values = tf.convert_to_tensor(values)
    block_length = check_size("local_attention: block_length", block_length)
    batch, heads, length, _ = shape_list(queries)
    before, after = (check_size("local_attention: window", size, 0) for size in window)
    blocks = (length + block_length - 1) // block_length
    padding = blocks * block_length - length
    starts = expand_dims(tf.range(blocks), 1) * block_length  # [blocks, 1]
    block_positions = starts + tf.range(block_length)  # [blocks, B]
    positions = starts + tf.range(-before, block_length + after)  # [blocks, W]

    def in_blocks(x, axis):
        return tf.gather(_pad_axis(x, axis, 0, padding), block_positions, axis=axis)

    def in_windows(x, axis):
        return tf.gather(
            _pad_axis(x, axis, before, padding + after), positions + before, axis=axis
        )

    inside = tf.logical_and(positions >= 0, positions < length)
    mask = expand_dims(inside, 1)  # [blocks, 1, W]
    if causality:
        mask = tf.logical_and(
            mask, expand_dims(positions, 1) <= expand_dims(block_positions, 2)
        )
    if key_mask is not None:
        name = "local_attention: key_mask"
        key_mask = check_tensor(name, key_mask, "numbers", "[N, T]", "[N, H, T]")
        key_mask = mask_to_bool(name, key_mask)
        if key_mask.shape.ndims == 2:
            key_mask = expand_dims(key_mask, 1)  # [N, 1, T]
        key_mask = expand_dims(in_windows(key_mask, axis=2), -2)
        mask = tf.logical_and(mask, key_mask)  # [N, 1 or H, blocks, 1 or B, W]
    context, weights = scaled_dot_product_attention(
        in_blocks(queries, 2),
        in_windows(keys, 2),
        in_windows(values, 2),
        mask,
        fully_masked_is_zero=fully_masked_is_zero,
    )
    context = tf.reshape(
        context, [batch, heads, blocks * block_length, shape_list(values)[-1]]
    )
    return context[:, :, :length], weights


def _pad_axis(x, axis, before, after):
    """Pad `x` with zeros (or False) before and after it along an axis."""
    sizes = [[0, 0]] * x.shape.ndims
    sizes[axis] = [before, after]
    return tf.pad(x, sizes)
