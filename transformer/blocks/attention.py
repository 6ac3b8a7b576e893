"""Attention: masks, the formula (section 3.2.1), the cache, relative positions.

A mask is a bool tensor, True = may attend, that broadcasts to [N, H, Tq, Tk].
`modules.multihead_attention` makes the padding mask of the keys and the causal mask;
`mask_and_bias` combines them; `scaled_dot_product_attention` applies the result.
"""

import warnings
from typing import Callable, NamedTuple, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.primitives import shape_list, widened
from transformer.dialects import Dialect

# Operations after which a mask of padding is still a mask of padding.
KEEP_MEANING = ("All", "Any", "Cast", "ExpandDims", "Reshape", "StridedSlice")
MASKED_LOGIT = -1e9  # the softmax makes it exactly 0 in float32, never NaN

# Masks


def is_token(ids):
    """Return which ids are tokens: int of any shape, 0 = padding → bool."""
    return tf.not_equal(ids, 0)


def padding_mask(ids):
    """Allow keys that hold a token: int [N, Tk], 0 = padding → bool [N, 1, 1, Tk]."""
    return is_token(ids)[:, None, None, :]


def distances(query_positions, key_positions=None):
    """Return key position - query position: int [Tq, Tk], negative for earlier keys.

    Args:
      query_positions: int [Tq].
      key_positions: int [Tk]; by default `query_positions`.
    """
    query_positions = tf.convert_to_tensor(query_positions)
    if key_positions is None:
        key_positions = query_positions
    key_positions = tf.cast(key_positions, query_positions.dtype)
    return key_positions[None, :] - query_positions[:, None]


def causal_mask(query_positions, key_positions=None):
    """Allow keys up to the position of the query: bool [1, 1, Tq, Tk] (section 3.2.3).

    `causal_mask(tf.range(T))` is the lower triangle. Args: as in `distances`.
    """
    return (distances(query_positions, key_positions) <= 0)[None, None, :, :]


def local_mask(positions, window: int):
    """Allow keys up to `window` positions away: bool [1, 1, T, T] (section 4)."""
    return (tf.abs(distances(positions)) <= window)[None, None, :, :]


def proximity_bias(query_positions, key_positions=None):
    """Return -log(1 + distance), a bias towards near keys: float32 [1, 1, Tq, Tk].

    Args: as in `distances`.

    Source: tensor2tensor, `attention_bias_proximal`.
    """
    distance = tf.abs(distances(query_positions, key_positions))
    return -tf.log1p(tf.cast(distance, tf.float32))[None, None, :, :]


def found_mask(x, padded_row: str = "is zero"):
    """Detect padding in vectors: float [N, T, D] → bool [N, T], False = padding.

    Args:
      padded_row: a row is padding if it "is zero" or, as in the tutorial, if it "sums
        to zero". Rows of a normalized tensor may sum to zero by accident.
    """
    if padded_row == "sums to zero":
        return tf.not_equal(tf.reduce_sum(x, axis=-1), 0)
    return tf.reduce_any(tf.not_equal(x, 0), axis=-1)


def as_mask(
    mask, name: str, meaning: str = "True or 1 = may attend, False or 0 = may not"
):
    """Return a numeric mask as bool: 0 is False. None and True are unchanged.

    Args:
      mask: a mask.
      name: the block and the argument, for the message.
      meaning: of the values, for the message.

    Raises:
      ValueError: the mask is a constant with numbers below 0.
    """
    if mask is None or mask is True:
        return mask
    mask = tf.convert_to_tensor(mask)
    value = tf.get_static_value(mask)
    if value is not None and (value.astype(np.float32) < 0).any():
        raise ValueError(
            f"{name}: expected {meaning}, got {float(value.min()):g}; what is added to "
            "logits is a bias, not a mask"
        )
    return mask if mask.dtype == tf.bool else tf.not_equal(mask, 0)


def both(mask, other):
    """Return the logical AND of two masks; the first may be None, which allows all."""
    return other if mask is None else tf.logical_and(mask, other)


def lowering(mask, value: float = MASKED_LOGIT):
    """Return a mask as a bias: 0 where the mask is True, else `value`."""
    return value * (1.0 - tf.cast(mask, tf.float32))


def mask_and_bias(dialect: Dialect, key_mask, order_mask, bias) -> tuple:
    """Combine the padding mask and the causal mask as a dialect does.

    A forbidden logit is replaced (by `mask`) or lowered (by `bias`). Both give the same
    weights, unless a query may attend to nothing.

    Args:
      dialect: a Dialect.
      key_mask: the padding mask of the keys, bool [N, Tk] or [N, 1, 1, Tk]; Python True
        if no key is padding.
      order_mask: a causal mask or another one, bool, broadcastable to
        [N, H, Tq, Tk], or None.
      bias: float, broadcastable to [N, H, Tq, Tk], or None.

    Returns:
      (mask or None, bias or None) for `scaled_dot_product_attention`.
    """
    mask = None
    if tf.is_tensor(key_mask) and key_mask.shape.ndims == 2:
        key_mask = key_mask[:, None, None, :]  # [N, 1, 1, Tk]
    for allowed, masking in (
        (key_mask, dialect.key_masking),
        (order_mask, dialect.future_masking),
    ):
        if allowed is None or allowed is True:
            continue
        if masking == "replaced":
            mask = both(mask, allowed)
        else:
            bias = lowering(allowed) if bias is None else bias + lowering(allowed)
    return mask, bias


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
    """Return softmax(Q K^T / sqrt(d_k)) V and the weights (equation 1).

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
    queries = tf.cast(widened(queries) * scale, queries.dtype)
    logits = widened(tf.matmul(queries, keys, transpose_b=True))  # [N, H, Tq, Tk]
    if relative is not None:
        of_keys, of_values = (tf.cast(each, queries.dtype) for each in relative)
        logits += widened(tf.einsum("nhqd,qkd->nhqk", queries, of_keys))
    if bias is not None:
        logits += tf.cast(bias, logits.dtype)
    if mask is not None:
        logits = tf.where_v2(mask, logits, MASKED_LOGIT)  # padding, later positions
    weights = tf.nn.softmax(logits)  # [N, H, Tq, Tk]
    dropped = weights if drop is None else drop(weights)
    dropped = tf.cast(dropped, values.dtype)
    context = tf.matmul(dropped, values)  # [N, H, Tq, d_v]
    if relative is not None:
        context += tf.einsum("nhqk,qkd->nhqd", dropped, of_values)
    if mask is not None and fully_masked_is_zero:
        sees_a_key = tf.reduce_any(mask, -1, keepdims=True)
        context *= tf.cast(sees_a_key, context.dtype)
        weights *= tf.cast(sees_a_key, weights.dtype)
    return context, weights


class KeyValueCache(NamedTuple):
    """The keys and values of the earlier positions in one self-attention."""

    keys: tf.Tensor  # float [N, H, T, D / H]
    values: tf.Tensor  # float [N, H, T, D / H]
    mask: tf.Tensor  # bool [N, T], False = padding; [N, 0] if no key is padding

    def known_lengths(self) -> tuple:
        """Return the static lengths of keys and mask; None where one is unknown."""
        keys = tf.TensorShape(self.keys.shape).with_rank(4).as_list()[2]
        if self.mask is None:
            return keys, 0
        return keys, tf.TensorShape(self.mask.shape).with_rank(2).as_list()[1]

    def followed_by(self, keys, values, mask) -> "KeyValueCache":
        """Return the cache with more positions at its end.

        Args:
          keys, values: float [N, H, Tk, D / H].
          mask: bool [N, Tk] or [N, 1, 1, Tk]; Python True if none of these keys is
            padding.
        """
        if mask is True and self.known_lengths()[1]:  # they follow keys with a mask
            batch, _, length, _ = shape_list(keys)
            mask = tf.ones([batch, length], tf.bool)
        if mask is not True and mask.shape.ndims == 4:
            mask = mask[:, 0, 0, :]
        return KeyValueCache(
            tf.concat([self.keys, keys], axis=2),
            tf.concat([self.values, values], axis=2),
            self.mask if mask is True else tf.concat([self.mask, mask], axis=1),
        )


# Relative positions (Shaw et al. 2018; Huang et al. 2018)


def relative_positions(
    query_positions,
    key_positions,
    width: int,
    max_distance: int,
    scope: str = "relative",
    reuse: Optional[bool] = None,
) -> tuple:
    """Return a vector for each distance, for keys and for values (Shaw et al., 3.2).

    Args:
      query_positions: int [Tq].
      key_positions: int [Tk].
      width: int, d, the width of one head; the heads share the vectors.
      max_distance: int, m; larger distances are clipped to m.
      scope, reuse: for the variables `keys` and `values` [2m + 1, d]; row m + r is for
        a key r positions after its query.

    Returns:
      (float [Tq, Tk, d], float [Tq, Tk, d]): the argument `relative` of
      `scaled_dot_product_attention`.
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
    """Return the bias for relative positions of the Music Transformer.

    Each head has its own vectors; the bias is 0 for distances of `max_distance` or
    more. No tensor is larger than the logits (Huang et al. 2018, section 3.4).

    Args:
      queries: float [N, H, T, d], as in `scaled_dot_product_attention`; H and d must be
        static.
      max_distance: int, m.
      causality: if True, later positions have no vectors and their bias is 0; mask
        them.
      scope, reuse: for the variable `keys`. With causality, it is [H, m, d], and the
        last row is for the position itself; without, it is [H, 2m - 1, d], and the
        middle row is for the position itself.

    Returns:
      float [N, H, T, T], the argument `bias` of `scaled_dot_product_attention`.
    """
    _, heads, length, width = shape_list(queries)
    rows = max_distance if causality else 2 * max_distance - 1
    with tf.variable_scope(scope, reuse=reuse):
        table = tf.cast(_table("keys", [heads, rows], width), queries.dtype)
    by_distance = tf.matmul(queries * width**-0.5, table[None], transpose_b=True)
    # Cut or pad the m - 1 distances of each side to T - 1.
    cut = tf.maximum(max_distance - length, 0)
    added = tf.maximum(length - max_distance, 0)
    if causality:
        by_distance = by_distance[..., cut:]
        end = tf.maximum(length - 1, 0)
    else:
        by_distance = by_distance[..., cut : rows - cut]
        end = added
    return _by_position(tf.pad(by_distance, [[0, 0]] * 3 + [[added, end]]))


def _by_position(by_distance):
    """Move column T - 1 + j - i of row i to column j: [N, H, T, 2T - 1] → [N, H, T, T].

    Each row gets one more column; then the rows are concatenated, and cut into rows of
    2T - 1 columns again. This shifts row i to the right by i.
    """
    batch, heads, length, columns = shape_list(by_distance)
    flat = tf.reshape(
        tf.pad(by_distance, [[0, 0]] * 3 + [[0, 1]]),
        [batch, heads, length * (columns + 1)],
    )
    flat = flat[:, :, : length * columns]
    return tf.reshape(flat, [batch, heads, length, columns])[..., length - 1 :]


def _table(name, rows, width):
    """Return a variable that holds vectors: [*rows, width]."""
    initializer = tf.random_normal_initializer(stddev=width**-0.5)
    return tf.get_variable(name, [*rows, width], initializer=initializer)


def _is_zero(x):
    """Return whether a tensor is a constant of zeros."""
    value = tf.get_static_value(x)
    return value is not None and not value.any()


def _negated(operation):
    """Return the mask that an operation negates, or None: not x, or float(x) == 0."""
    if operation.type == "LogicalNot":
        return operation.inputs[0]
    if operation.type == "Equal" and any(map(_is_zero, operation.inputs)):
        for each in operation.inputs:
            if each.op.type == "Cast" and each.op.inputs[0].dtype == tf.bool:
                return each.op.inputs[0]
    return None


def warn_of_inverted(key_masks) -> None:
    """Warn about key masks made by `tf.equal(ids, 0)`, in which True means padding."""
    operation = getattr(key_masks, "op", None)  # arrays and True have none
    inverted = "Equal"
    while operation:
        negated = _negated(operation)
        if negated is not None:
            inverted = "NotEqual" if inverted == "Equal" else "Equal"
            operation = negated.op
        elif operation.type in KEEP_MEANING:
            operation = operation.inputs[0].op
        else:
            break
    if not operation or operation.type != inverted:
        return
    if any(map(_is_zero, operation.inputs)):
        warnings.warn(
            "multihead_attention: expected key_masks in which True = may attend, as "
            "tf.not_equal(ids, 0) makes them, got masks made as tf.equal(ids, 0); for "
            "masks in which True means padding, use transformer.compat.kyubyong",
            stacklevel=3,
        )
