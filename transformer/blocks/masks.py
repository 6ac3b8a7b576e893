"""Masks: who may attend to whom (section 3.2.3).

A mask is a bool tensor, True = may attend, that broadcasts to [N, H, Tq, Tk].
"""

import warnings

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.dialects import Dialect

# Operations after which a mask of padding is still a mask of padding.
KEEP_MEANING = ("All", "Any", "Cast", "ExpandDims", "Reshape", "StridedSlice")
MASKED_LOGIT = -1e9  # the softmax makes it exactly 0 in float32, never NaN


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


def nonzero_rows(x, padded_row: str = "is zero"):
    """Detect padding in vectors: float [N, T, D] → bool [N, T], False = padding.

    Args:
      padded_row: a row is padding if it "is zero" or, as in the tutorial, if it "sums
        to zero". Rows of a normalized tensor may sum to zero by accident.
    """
    if padded_row == "sums to zero":
        return tf.not_equal(tf.reduce_sum(x, axis=-1), 0)
    return tf.reduce_any(tf.not_equal(x, 0), axis=-1)


def mask_to_bool(
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


def combine_masks(mask, other):
    """Return the logical AND of two masks; the first may be None, which allows all."""
    return other if mask is None else tf.logical_and(mask, other)


def mask_to_bias(mask, value: float = MASKED_LOGIT):
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
            mask = combine_masks(mask, allowed)
        else:
            bias = (
                mask_to_bias(allowed) if bias is None else bias + mask_to_bias(allowed)
            )
    return mask, bias


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
