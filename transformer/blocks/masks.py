"""Masks: bool tensors, True = may attend, that broadcast to [N, H, Tq, Tk]; a bias."""

import tensorflow.compat.v1 as tf


def padding_mask(ids):
    """Which keys hold a token: [N, Tk] int ids (0 = padding) → bool [N, 1, 1, Tk]."""
    return tf.not_equal(ids, 0)[:, None, None, :]


def causal_mask(query_length, key_length=None, offset=0):
    """Each position sees itself and those before: bool [1, 1, Tq, Tk] (section 3.2.3).

    Args:
      query_length: int or scalar tensor, Tq.
      key_length: int or scalar tensor, Tk; Tq where not given.
      offset: how many keys lie before the first query (those of a cache).
    """
    key_length = query_length if key_length is None else key_length
    places = tf.range(query_length)[:, None] + offset
    return (tf.range(key_length)[None, :] <= places)[None, None, :, :]


def local_mask(length, window):
    """Only neighbours up to `window` away: bool [1, 1, T, T] (section 4)."""
    places = tf.range(length)
    return (tf.abs(places[:, None] - places[None, :]) <= window)[None, None, :, :]


def proximity_bias(query_length, key_length=None, offset=0, breadth=1):
    """-log(1 + distance), a `bias` that favours neighbours: float32 [1, 1, Tq, Tk].

    Args: as in `causal_mask`, and
      breadth: how many keys and queries, side by side, share each position.

    Source: tensor2tensor, `attention_bias_proximal`.
    """
    key_length = query_length if key_length is None else key_length
    places = (tf.range(query_length)[:, None] + offset) // breadth
    distances = tf.abs(tf.range(key_length)[None, :] // breadth - places)
    return -tf.log1p(tf.cast(distances, tf.float32))[None, None, :, :]


def found_mask(x, padded_row="is zero"):
    """Which rows hold a token, by their content: float [N, T, D] → bool [N, T].

    Args:
      padded_row: a row is padding if it "is zero", or, as the tutorial has it, if it
        "sums to zero", which the rows of a normalized tensor do by accident.
    """
    if padded_row == "sums to zero":
        return tf.not_equal(tf.reduce_sum(x, axis=-1), 0)
    return tf.reduce_any(tf.not_equal(x, 0), axis=-1)


def broadcast_keys(mask):
    """bool [N, Tk] → [N, 1, 1, Tk]; a mask of more dimensions as it is."""
    mask = tf.convert_to_tensor(mask)
    return mask[:, None, None, :] if mask.shape.ndims == 2 else mask
