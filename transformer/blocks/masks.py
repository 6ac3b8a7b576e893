"""The padding mask, the causal mask, local masks, and a bias for near positions.

A mask is a bool tensor, True = may attend, that broadcasts to [N, H, Tq, Tk].
"""

import tensorflow.compat.v1 as tf


def is_token(ids):
    """Return where ids hold a token: int of any shape, 0 = padding → bool, like it."""
    return tf.not_equal(ids, 0)


def padding_mask(ids):
    """Allow keys that hold a token: int [N, Tk], 0 = padding → bool [N, 1, 1, Tk]."""
    return is_token(ids)[:, None, None, :]


def distances(query_positions, key_positions=None):
    """Return key position - query position: int32 [Tq, Tk], negative = an earlier key.

    Args:
      query_positions: int [Tq].
      key_positions: int [Tk]; those of the queries where not given.
    """
    if key_positions is None:
        key_positions = query_positions
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
    """Return -log(1 + distance), a bias for near keys: float32 [1, 1, Tq, Tk].

    Args: as in `distances`.

    Source: tensor2tensor, `attention_bias_proximal`.
    """
    distance = tf.abs(distances(query_positions, key_positions))
    return -tf.log1p(tf.cast(distance, tf.float32))[None, None, :, :]


def both(mask, other):
    """Return what two masks allow; the first may be None, which allows all."""
    return other if mask is None else tf.logical_and(mask, other)


def found_mask(x, padded_row: str = "is zero"):
    """Return the padding mask that vectors imply: float [N, T, D] → bool [N, T].

    Args:
      padded_row: a row is padding if it "is zero", or, as the tutorial has it, if it
        "sums to zero", which the rows of a normalized tensor do by accident.
    """
    if padded_row == "sums to zero":
        return tf.not_equal(tf.reduce_sum(x, axis=-1), 0)
    return tf.reduce_any(tf.not_equal(x, 0), axis=-1)


def given_or_found(mask, x, padded_row: str):
    """Return a padding mask as bool; where it is None, the one that `x` implies."""
    return found_mask(x, padded_row) if mask is None else as_mask(mask)


def as_mask(mask):
    """Return a mask of numbers as bool: all but 0 is True. None and True stay."""
    if mask is None or mask is True:
        return mask
    mask = tf.convert_to_tensor(mask)
    return mask if mask.dtype == tf.bool else tf.not_equal(mask, 0)


def broadcast_keys(mask):
    """Return bool [N, Tk] as [N, 1, 1, Tk]; a mask of more dimensions as it is."""
    mask = as_mask(mask)
    return mask[:, None, None, :] if mask.shape.ndims == 2 else mask
