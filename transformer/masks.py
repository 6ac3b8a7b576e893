"""Masks: bool tensors, True = may attend, that broadcast to [N, H, Tq, Tk]."""
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


def nonzero_rows(x):
    """Which rows hold a token: float [N, T, D] → bool [N, T]; padding is all zero."""
    return tf.reduce_any(tf.not_equal(x, 0), axis=-1)


def attention_mask(key_masks, causality, query_length, key_length, cache=None):
    """The mask of an attention, [N or 1, 1, Tq or 1, Tk], or None for no limits.

    Args:
      key_masks: bool [N, Tk], or a mask, or None.
      causality: whether a query sees only keys up to its own position.
      query_length: int or scalar tensor, Tq.
      key_length: int or scalar tensor, Tk, the cached keys included.
      cache: not None where the queries stand behind cached ones.
    """
    mask = key_masks
    if mask is not None and mask.shape.ndims == 2:
        mask = mask[:, None, None, :]
    if causality:
        offset = 0 if cache is None else key_length - query_length
        causal = causal_mask(query_length, key_length, offset)
        mask = causal if mask is None else tf.logical_and(mask, causal)
    return mask
