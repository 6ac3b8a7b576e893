"""The attention formula, and what a dialect makes of masks and projections."""

import tensorflow.compat.v1 as tf

from transformer.blocks.masks import broadcast_keys, causal_mask
from transformer.blocks.primitives import dense_side_by_side, reshape, shape_list
from transformer.dialects import dialect_named

MASKED_LOGIT = -1e9  # after the softmax exactly 0 in float32, and never a NaN


def scaled_dot_product_attention(
    queries,
    keys,
    values,
    mask=None,
    *,
    bias=None,
    relative=None,
    blind_queries_are_zero=True,
    query_mask=None,
    drop=None,
):
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V: equation 1.

    There may be any number of dimensions between N and Tq, the same in all three.

    Args:
      queries: float [N, H, Tq, d_k].
      keys: float [N, H, Tk, d_k].
      values: float [N, H, Tk, d_v].
      mask: bool, broadcastable to [N, H, Tq, Tk], True = may attend.
      bias: float, broadcastable to [N, H, Tq, Tk], added to the logits.
      relative: (float [Tq, Tk, d_k], float [Tq, Tk, d_v]), what each pair of positions
        adds to the key and to the value; see `relative.relative_positions`.
      blind_queries_are_zero: a query that may attend to nothing gets zeros; otherwise
        it attends to every key alike. Never a NaN.
      query_mask: bool, broadcastable to [N, H, Tq, 1]; False zeroes a query's weights.
      drop: function of weights, their dropout.

    Returns:
      (context float [N, H, Tq, d_v], weights float [N, H, Tq, Tk] before dropout).
    """
    scale = queries.shape.as_list()[-1] ** -0.5
    queries *= scale
    logits = tf.matmul(queries, keys, transpose_b=True)  # [N, H, Tq, Tk]
    if relative is not None:
        logits += tf.einsum("nhqd,qkd->nhqk", queries, relative[0])
    if bias is not None:
        logits += bias
    if mask is not None:
        logits = tf.where_v2(mask, logits, MASKED_LOGIT)
    weights = tf.nn.softmax(logits)  # [N, H, Tq, Tk]
    if mask is not None and blind_queries_are_zero:
        weights *= tf.cast(tf.reduce_any(mask, -1, keepdims=True), weights.dtype)
    if query_mask is not None:
        weights *= tf.cast(query_mask, weights.dtype)
    dropped = weights if drop is None else drop(weights)
    context = tf.matmul(dropped, values)  # [N, H, Tq, d_v]
    if relative is not None:
        context += tf.einsum("nhqk,qkd->nhqd", dropped, relative[1])
    return context, weights


def attend(
    Q, K, V, row, *, key_mask, causality, offset, query_mask, bias, relative, drop
):
    """Attention with the masks of a dialect: what scaled_dot_product_attention returns.

    A forbidden logit is replaced by MASKED_LOGIT, or lowered by as much: the same
    weights, unless a query may attend to nothing.
    """
    masks = []
    if key_mask is not None:
        masks.append((broadcast_keys(key_mask), row.key_masking))
    if causality:
        masks.append(
            (causal_mask(tf.shape(Q)[2], tf.shape(K)[2], offset), row.future_masking)
        )
    mask = None
    for allowed, masking in masks:
        if masking == "replaced":
            mask = allowed if mask is None else tf.logical_and(mask, allowed)
        else:
            lowered = MASKED_LOGIT * (1.0 - tf.cast(allowed, Q.dtype))
            bias = lowered if bias is None else bias + lowered
    return scaled_dot_product_attention(
        Q,
        K,
        V,
        mask,
        bias=bias,
        relative=relative,
        query_mask=query_mask,
        drop=drop,
        blind_queries_are_zero=row.blind_queries_are_zero,
    )


def project(x, num_units, num_heads, row, names):
    """Those of Q, K and V that are made of `x`, by one product.

    Args:
      x: float [N, T, any width].
      num_units: int, the width of all heads together.
      names: of the variable scopes, some of "q", "k", "v".

    Returns:
      A list of as many float [N, H, T, num_units / H].
    """
    activation = tf.nn.relu if row.projection_relu else None
    joined = dense_side_by_side(x, num_units, row.projection_bias, names, activation)
    batch, length, _ = shape_list(x)
    heads = reshape(
        joined, [batch, length, len(names), num_heads, num_units // num_heads]
    )
    return tf.unstack(tf.transpose(heads, [2, 0, 3, 1, 4]), num=len(names))


def keys_and_values(keys, num_units, num_heads, dialect="paper"):
    """K and V of the attention in whose scope it is called: [N, H, Tk, D / H] each."""
    row = dialect_named(dialect)
    return tuple(project(keys, num_units, num_heads, row, ["k", "v"]))


def queries_keys_values(x, keys, num_units, num_heads, dialect, cache):
    """Q of `x`; K and V of `keys`, or those of the cache where there are none."""
    row = dialect_named(dialect)
    if keys is x and cache is None:
        return project(x, num_units, num_heads, row, ["q", "k", "v"])
    # Behind a cache there is little to multiply, and joining the weights costs more.
    [Q] = project(x, num_units, num_heads, row, ["q"])
    if keys is x:
        return (Q, *(project(x, num_units, num_heads, row, [name])[0] for name in "kv"))
    if keys is None:
        return Q, cache["k"], cache["v"]
    return (Q, *keys_and_values(keys, num_units, num_heads, dialect))


def behind_cached(cache, K, V, key_masks):
    """The cached keys and values followed by the new ones, which the cache receives.

    Returns:
      (K, V, their mask, how many of them were cached).
    """
    offset = 0
    if cache:
        offset = tf.shape(cache["k"])[2]
        K, V = tf.concat([cache["k"], K], axis=2), tf.concat([cache["v"], V], axis=2)
        if cache["mask"].shape.ndims == 4:
            itself = tf.eye(breadth(cache), dtype=tf.bool)  # but not those beside it
            key_masks = tf.logical_and(broadcast_keys(key_masks), itself)
        key_masks = tf.concat([cache["mask"], key_masks], axis=-1)
    cache.update(k=K, v=V, mask=key_masks)
    return K, V, key_masks, offset


def is_last_place(cache, queries):
    """Whether all of `queries` are at the place behind what is cached: none is later
    than another."""
    return cache is not None and (breadth(cache) > 1 or queries.shape.as_list()[1] == 1)


def breadth(cache):
    """How many hypotheses share each place of a cache; 1 without one."""
    mask = cache.get("mask") if cache else None
    several = mask is not None and mask.shape.ndims == 4
    return mask.shape.as_list()[2] if several else 1
