"""The attention formula of section 3.2.1, and the masks that it applies.

`modules.multihead_attention` gives `mask_and_bias` the padding mask of the keys and the
causal mask; `scaled_dot_product_attention` applies the result to the logits.
"""

from typing import Callable, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from transformer.blocks.masks import both, broadcast_keys
from transformer.blocks.primitives import widened
from transformer.dialects import Dialect

MASKED_LOGIT = -1e9  # after the softmax exactly 0 in float32, and never a NaN


def scaled_dot_product_attention(
    queries,
    keys,
    values,
    mask=None,
    *,
    bias=None,
    relative: Optional[tuple] = None,
    scale: Optional[float] = None,
    blind_queries_are_zero: bool = True,
    drop: Optional[Callable] = None,
):
    """Return softmax(Q K^T / sqrt(d_k)) V, and the weights: equation 1.

    There may be any number of dimensions between N and Tq, the same in all three.

    Args:
      queries: float [N, H, Tq, d_k].
      keys: float [N, H, Tk, d_k].
      values: float [N, H, Tk, d_v].
      mask: bool, broadcastable to [N, H, Tq, Tk], True = may attend.
      bias: float, broadcastable to [N, H, Tq, Tk], added to the logits.
      relative: (float [Tq, Tk, d_k], float [Tq, Tk, d_v]), what each pair of positions
        adds to the key and to the value; see `relative.relative_positions`.
      scale: float, the factor of the logits; d_k ** -0.5 where not given.
      blind_queries_are_zero: a query that may attend to nothing gets zeros; otherwise
        it attends to every key alike. Never a NaN.
      drop: function that applies dropout to weights.

    Returns:
      (context float [N, H, Tq, d_v], weights float [N, H, Tq, Tk] before dropout, in
      float32 where queries, keys and values have 16 bits).
    """
    scale = queries.shape.as_list()[-1] ** -0.5 if scale is None else scale
    queries = tf.cast(widened(queries) * scale, queries.dtype)
    logits = widened(tf.matmul(queries, keys, transpose_b=True))  # [N, H, Tq, Tk]
    if relative is not None:
        relative = [tf.cast(vectors, queries.dtype) for vectors in relative]
        logits += widened(tf.einsum("nhqd,qkd->nhqk", queries, relative[0]))
    if bias is not None:
        logits += bias
    if mask is not None:
        logits = tf.where_v2(mask, logits, MASKED_LOGIT)  # padding, later positions
    weights = tf.nn.softmax(logits)  # [N, H, Tq, Tk]
    dropped = weights if drop is None else drop(weights)
    dropped = tf.cast(dropped, values.dtype)
    context = tf.matmul(dropped, values)  # [N, H, Tq, d_v]
    if relative is not None:
        context += tf.einsum("nhqk,qkd->nhqd", dropped, relative[1])
    if mask is not None and blind_queries_are_zero:
        sees_a_key = tf.reduce_any(mask, -1, keepdims=True)
        return tuple(x * tf.cast(sees_a_key, x.dtype) for x in (context, weights))
    return context, weights


def unscaled(queries):
    """Return queries that the blocks scale back: times sqrt(d_k).

    For the queries of code that scales them itself, as tensor2tensor does.
    """
    return queries * queries.shape.as_list()[-1] ** 0.5


def lowering(mask, value: float = MASKED_LOGIT):
    """Return the bias that a mask becomes: 0 where it is True, else `value`."""
    return value * (1.0 - tf.cast(mask, tf.float32))


def mask_and_bias(dialect: Dialect, key_mask, order_mask, bias):
    """Combine the padding mask and the causal mask, as a dialect does.

    A forbidden logit is replaced (by `mask`) or lowered (by `bias`). Both give the same
    weights, unless a query may attend to nothing.

    Args:
      dialect: a Dialect.
      key_mask: the padding mask of the keys, bool [N, Tk] or [N, 1, 1, Tk]; True: no
        key is padding.
      order_mask: a causal mask or another one of positions, or None.
      bias: float, broadcastable to [N, H, Tq, Tk], or None.

    Returns:
      (mask or None, bias or None) for `scaled_dot_product_attention`.
    """
    mask = None
    for allowed, masking in (
        (key_mask, dialect.key_masking),
        (order_mask, dialect.future_masking),
    ):
        if allowed is None or allowed is True:
            continue
        allowed = broadcast_keys(allowed)
        if masking == "replaced":
            mask = both(mask, allowed)
        else:
            bias = lowering(allowed) if bias is None else bias + lowering(allowed)
    return mask, bias


class KeyValueCache(NamedTuple):
    """The keys and values of earlier positions in one self-attention."""

    keys: tf.Tensor  # float [N, H, T, D / H]
    values: tf.Tensor  # float [N, H, T, D / H]
    mask: tf.Tensor  # bool [N, T], False = padding; [N, 0] where no key is padding

    def followed_by(self, keys, values, mask):
        """Return the cache with further positions added.

        Args:
          keys, values: float [N, H, Tk, D / H].
          mask: bool [N, Tk], or True where no key is padding.
        """
        return KeyValueCache(
            tf.concat([self.keys, keys], axis=2),
            tf.concat([self.values, values], axis=2),
            self.mask if mask is True else tf.concat([self.mask, mask], axis=1),
        )
