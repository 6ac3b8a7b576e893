"""The attention of tensor2tensor's common_attention.

The attention functions expect queries that the caller has multiplied by d_k ** -0.5.
With `scaled=False`, which `multihead_attention` passes, they scale the queries
themselves. `save_weights_to` receives the weights under the scope name, and the logits
under "<scope>/logits". No images are written for TensorBoard (`image_shapes`,
`make_image_summary`).
"""

import functools
import inspect

import tensorflow.compat.v1 as tf

from transformer.blocks.arguments import check_size
from transformer.blocks.attention import (
    KeyValueCache,
    local_attention,
    relative_bias,
    relative_positions,
    scaled_dot_product_attention,
)
from transformer.blocks.layers import dropout, shape_list, split_heads
from transformer.blocks.layers import join_heads as combine_heads
from transformer.blocks.masks import nonzero_rows
from transformer.compat.tensor2tensor.layers import (
    dense,
    open_scope,
    refuse_unsupported,
)

__all__ = [
    "combine_heads",
    "compute_qkv",
    "dot_product_attention",
    "dot_product_attention_relative",
    "dot_product_self_attention_relative_v2",
    "dot_product_unmasked_self_attention_relative_v2",
    "local_attention_1d",
    "masked_local_attention_1d",
    "masked_within_block_local_attention_1d",
    "multihead_attention",
    "split_heads",
]


def dot_product_attention(
    q,
    k,
    v,
    bias,
    dropout_rate=0.0,
    image_shapes=None,
    name=None,
    make_image_summary=True,
    save_weights_to=None,
    dropout_broadcast_dims=None,
    activation_dtype=None,
    weight_dtype=None,
    hard_attention_k=0,
    gumbel_noise_weight=0.0,
    *,
    scaled=True,
):
    """Return softmax(Q K^T + bias) V: see `modules.scaled_dot_product_attention`.

    Args:
      q, k, v: float [..., Tq, d_k], [..., Tk, d_k], [..., Tk, d_v].
      bias: float, broadcastable to [..., Tq, Tk], or None.
      dropout_rate, dropout_broadcast_dims: for the weights.
      name: the variable scope.
      save_weights_to: dict; receives the weights by scope name and, in graph mode, the
        logits.
      scaled: whether the queries are already scaled; False: multiply them by d_k **
        -0.5.

    Returns:
      float [..., Tq, d_v].

    Raises:
      ValueError: `hard_attention_k`, or a type other than float32, is given.
    """
    refuse_unsupported(
        "dot_product_attention",
        ("activation_dtype", tf.as_dtype(activation_dtype or "float32"), tf.float32),
        ("weight_dtype", tf.as_dtype(weight_dtype or "float32"), tf.float32),
        ("hard_attention_k", hard_attention_k, 0),
    )
    drop = _weight_dropout(dropout_rate, dropout_broadcast_dims)
    with open_scope(name, "dot_product_attention"):
        return _attend((q, k, v), bias, scaled, drop, save_weights_to)


def _weight_dropout(rate, broadcast_dims=None):
    """Return a function that applies dropout to attention weights."""
    return functools.partial(
        dropout, rate=rate, broadcast_dims=broadcast_dims or (), name="weights"
    )


def _attend(heads, bias, scaled, drop, save_weights_to, relative=None):
    """Attend, and save the weights under the name of the current scope."""
    context, weights = scaled_dot_product_attention(
        *heads,
        bias=None if bias is None else tf.cast(bias, tf.float32),
        relative=relative,
        scale=1.0 if scaled else None,
        drop=drop,
    )
    if save_weights_to is not None:
        name = tf.get_variable_scope().name
        save_weights_to[name] = weights
        if not tf.executing_eagerly():
            # The inputs of the softmax are the logits, because there is no mask.
            save_weights_to[f"{name}/logits"] = weights.op.inputs[0]
    return context


def dot_product_attention_relative(
    q,
    k,
    v,
    bias,
    max_relative_position,
    dropout_rate=0.0,
    image_shapes=None,
    save_weights_to=None,
    name=None,
    make_image_summary=True,
    cache=False,
    allow_memory=False,
    hard_attention_k=0,
    gumbel_noise_weight=0.0,
    *,
    scaled=True,
):
    """Attend with relative positions: see `modules.relative_positions`.

    Args:
      q, k, v: float [N, H, T, d]; with `cache` or `allow_memory`, there may be fewer
        queries, which then have the last positions.
      max_relative_position: int; larger distances are clipped to this value.
      bias, dropout_rate, save_weights_to, name, scaled: as in `dot_product_attention`.

    Returns:
      float [N, H, Tq, d].

    Raises:
      ValueError: `max_relative_position` is missing, `hard_attention_k` is given, or
        the shapes differ.
    """
    refuse_unsupported(
        "dot_product_attention_relative", ("hard_attention_k", hard_attention_k, 0)
    )
    _check_max_relative_position(
        "dot_product_attention_relative", max_relative_position
    )
    if not (cache or allow_memory):
        q.shape.assert_is_compatible_with(k.shape)
        q.shape.assert_is_compatible_with(v.shape)
    positions = tf.range(shape_list(k)[2])
    with open_scope(name, "dot_product_attention_relative"):
        relative = relative_positions(
            positions[-shape_list(q)[2] :],
            positions,
            q.shape.as_list()[-1],
            max_relative_position,
            scope="positions",
        )
        drop = _weight_dropout(dropout_rate)
        return _attend((q, k, v), bias, scaled, drop, save_weights_to, relative)


def _check_max_relative_position(function, max_relative_position):
    """Raise ValueError if `max_relative_position` is missing."""
    if not max_relative_position:
        raise ValueError(
            f"{function}: expected a positive max_relative_position, got "
            f"{max_relative_position}"
        )


def dot_product_self_attention_relative_v2(
    q,
    k,
    v,
    bias,
    max_relative_position=None,
    dropout_rate=0.0,
    image_shapes=None,
    save_weights_to=None,
    name=None,
    make_image_summary=True,
    dropout_broadcast_dims=None,
    heads_share_relative_embedding=False,
    add_relative_to_values=False,
    *,
    scaled=True,
    causality=True,
):
    """Attend to earlier positions as the Music Transformer does: see `relative_bias`.

    Args: as in `dot_product_attention_relative` and `dot_product_attention`, and
      causality: False: attend to all positions.

    Raises:
      ValueError: `max_relative_position` is missing, or
        `heads_share_relative_embedding` or `add_relative_to_values` is True.
    """
    kind = "" if causality else "unmasked_"
    function = f"dot_product_{kind}self_attention_relative_v2"
    refuse_unsupported(
        function,
        ("heads_share_relative_embedding", heads_share_relative_embedding, False),
        ("add_relative_to_values", add_relative_to_values, False),
    )
    _check_max_relative_position(function, max_relative_position)
    drop = _weight_dropout(dropout_rate, dropout_broadcast_dims)
    with open_scope(name, function):
        total_bias = relative_bias(
            _undo_scaling(q) if scaled else q,
            max_relative_position,
            causality,
            "relative_bias",
        )
        if bias is not None:
            total_bias += tf.cast(bias, total_bias.dtype)
        return _attend((q, k, v), total_bias, scaled, drop, save_weights_to)


# Attends to all positions; arguments and result are those of the function above.
dot_product_unmasked_self_attention_relative_v2 = functools.partial(
    dot_product_self_attention_relative_v2, causality=False
)


def local_attention_1d(
    q, k, v, block_length=128, filter_width=100, name=None, *, scaled=True
):
    """Attend within blocks and to a window around them: see `modules.local_attention`.

    Args:
      q, k, v: float [N, H, T, d_k], [N, H, T, d_k], [N, H, T, d_v]; keys of zeros are
        padding.
      block_length: int.
      filter_width: int, the number of positions before and after the block.
      scaled: as in `dot_product_attention`.
    """
    return local_attention(
        _undo_scaling(q) if scaled else q,
        k,
        v,
        block_length,
        window=(filter_width, filter_width),
        key_mask=nonzero_rows(k),
        fully_masked_is_zero=False,
    )[0]


def masked_local_attention_1d(
    q,
    k,
    v,
    block_length=128,
    make_image_summary=False,
    dropout_rate=0.0,
    name=None,
    *,
    scaled=True,
):
    """Attend to earlier positions in the block and in the previous block.

    Args: as in `local_attention_1d`.

    Raises:
      ValueError: a `dropout_rate` is given.
    """
    refuse_unsupported("masked_local_attention_1d", ("dropout_rate", dropout_rate, 0.0))
    q = _undo_scaling(q) if scaled else q
    window = (block_length, 0)
    return local_attention(q, k, v, block_length, window=window, causality=True)[0]


def masked_within_block_local_attention_1d(
    q, k, v, block_length=64, name=None, *, scaled=True
):
    """Attend to earlier positions in the block.

    Args: as in `local_attention_1d`.
    """
    q = _undo_scaling(q) if scaled else q
    return local_attention(q, k, v, block_length, causality=True)[0]


# `attention_type` → the function that attends.
ATTENTION_TYPES = {
    "dot_product": dot_product_attention,
    "dot_product_relative": dot_product_attention_relative,
    "dot_product_relative_v2": dot_product_self_attention_relative_v2,
    "dot_product_unmasked_relative_v2": dot_product_unmasked_self_attention_relative_v2,
    "local_mask_right": masked_local_attention_1d,
    "local_unmasked": local_attention_1d,
    "local_within_block_mask_right": masked_within_block_local_attention_1d,
}
TYPES_WITH_CACHE = ("dot_product", "dot_product_relative")


def compute_qkv(
    query_antecedent,
    memory_antecedent,
    total_key_depth,
    total_value_depth,
    q_filter_width=1,
    kv_filter_width=1,
    q_padding="VALID",
    kv_padding="VALID",
    vars_3d_num_heads=0,
    layer_collection=None,
):
    """Return Q, K and V with concatenated heads: float [N, T, depth] each.

    Args:
      query_antecedent: float [N, Tq, any width].
      memory_antecedent: float [N, Tk, any width], or None for self-attention.
      total_key_depth, total_value_depth: int, the width of all heads together.

    Raises:
      ValueError: filters wider than 1, variables of three dimensions, or a
        `layer_collection` are given.
    """
    refuse_unsupported(
        "compute_qkv",
        ("q_filter_width", q_filter_width, 1),
        ("kv_filter_width", kv_filter_width, 1),
        ("vars_3d_num_heads", vars_3d_num_heads or 0, 0),
        ("layer_collection", layer_collection, None),
    )
    memory = query_antecedent if memory_antecedent is None else memory_antecedent
    q = dense(query_antecedent, total_key_depth, use_bias=False, name="q")
    k = dense(memory, total_key_depth, use_bias=False, name="k")
    v = dense(memory, total_value_depth, use_bias=False, name="v")
    return q, k, v


def _compute_heads(query_antecedent, memory_antecedent, depths, num_heads, cache, step):
    """Return Q, K and V in heads; with a cache, K and V of all positions so far.

    Args:
      depths: (total_key_depth, total_value_depth).
      cache: None; for self-attention, a dict whose "k" and "v" [N, H, T, D / H] are
        replaced; otherwise a dict with "k_encdec" and "v_encdec".
      step: None, or the position of the query in a cache of fixed length.
    """
    if cache is not None and memory_antecedent is not None:
        q = dense(query_antecedent, depths[0], use_bias=False, name="q")
        q = split_heads(q, num_heads, like=query_antecedent)
        return q, cache["k_encdec"], cache["v_encdec"]
    memory = query_antecedent if memory_antecedent is None else memory_antecedent
    qkv = compute_qkv(query_antecedent, memory_antecedent, *depths)
    q, k, v = (
        split_heads(x, num_heads, like)
        for x, like in zip(qkv, (query_antecedent, memory, memory))
    )
    if cache is not None and step is None:
        past = KeyValueCache(cache["k"], cache["v"]).append(KeyValueCache(k, v))
        cache.update(k=past.keys, v=past.values)
    elif cache is not None:
        is_new = tf.equal(tf.range(tf.shape(cache["k"])[2]), step)[:, None]  # [T, 1]
        cache.update(
            k=tf.where_v2(is_new, k, cache["k"]), v=tf.where_v2(is_new, v, cache["v"])
        )
    return (q, k, v) if cache is None else (q, cache["k"], cache["v"])


def multihead_attention(
    query_antecedent,
    memory_antecedent,
    bias,
    total_key_depth,
    total_value_depth,
    output_depth,
    num_heads,
    dropout_rate,
    attention_type="dot_product",
    max_relative_position=None,
    heads_share_relative_embedding=False,
    add_relative_to_values=False,
    image_shapes=None,
    block_length=128,
    block_width=128,
    q_filter_width=1,
    kv_filter_width=1,
    q_padding="VALID",
    kv_padding="VALID",
    cache=None,
    gap_size=0,
    num_memory_blocks=2,
    name="multihead_attention",
    save_weights_to=None,
    make_image_summary=True,
    dropout_broadcast_dims=None,
    vars_3d=False,
    layer_collection=None,
    recurrent_memory=None,
    chunk_number=None,
    hard_attention_k=0,
    gumbel_noise_weight=0.0,
    max_area_width=1,
    max_area_height=1,
    memory_height=1,
    area_key_mode="mean",
    area_value_mode="sum",
    training=True,
    *,
    activation_dtype=None,
    weight_dtype=None,
    decode_loop_step=None,
    **ignored,
):
    """Attend with several heads: see `modules.multihead_attention`.

    Nothing is added or normalized: see `layer_preprocess` and `layer_postprocess`.
    Arguments that are not listed below have no effect, or must have their default
    values. Any other name may also be given, such as `max_length`.

    Args:
      query_antecedent: float [N, Tq, any width].
      memory_antecedent: float [N, Tk, any width], or None for self-attention.
      bias: float, broadcastable to [N, H, Tq, Tk], added to the logits, or None. Local
        attention ignores it.
      total_key_depth, total_value_depth: int, the width of all heads together.
      output_depth: int, D.
      num_heads: int, H; it must divide the depths.
      dropout_rate, dropout_broadcast_dims: for the weights. Local attention has no
        dropout.
      attention_type: a key of `ATTENTION_TYPES`.
      max_relative_position: int, for relative attention.
      block_length, block_width: int, for local attention.
      cache: dict, for step-by-step decoding: "k" and "v" [N, H, T, depth / H] of the
        earlier positions, which this function replaces; or "k_encdec" and "v_encdec" of
        a memory.
      decode_loop_step: int scalar, the position of the single query in a cache of fixed
        length.
      name: the variable scope; None: a default name, which is numbered.
      save_weights_to: dict; receives the weights and the logits by scope name.

    Returns:
      float [N, Tq, output_depth].

    Raises:
      ValueError: `num_heads` does not divide the depths, a cache is given without a
        bias, or an argument is not supported.
    """
    refuse_unsupported(
        "multihead_attention",
        ("vars_3d", vars_3d, False),
        ("layer_collection", layer_collection, None),
        ("recurrent_memory", recurrent_memory, None),
        ("max_area_width", max_area_width, 1),
        ("max_area_height", max_area_height, 1),
        ("q_filter_width", q_filter_width, 1),
        ("kv_filter_width", kv_filter_width, 1),
    )
    total_key_depth, total_value_depth, output_depth, num_heads = (
        check_size(f"multihead_attention: {name}", size)
        for name, size in (
            ("total_key_depth", total_key_depth),
            ("total_value_depth", total_value_depth),
            ("output_depth", output_depth),
            ("num_heads", num_heads),
        )
    )
    depths = (total_key_depth, total_value_depth)
    _check_attention(depths, num_heads, attention_type, bias, cache)
    is_local = attention_type.startswith("local")  # local attention has no dropout
    arguments = {
        "bias": bias,
        "dropout_rate": 0.0 if is_local else dropout_rate,
        "save_weights_to": save_weights_to,
        "dropout_broadcast_dims": dropout_broadcast_dims,
        "hard_attention_k": hard_attention_k,
        "activation_dtype": activation_dtype,
        "weight_dtype": weight_dtype,
        "max_relative_position": max_relative_position,
        "cache": cache is not None,
        "heads_share_relative_embedding": heads_share_relative_embedding,
        "add_relative_to_values": add_relative_to_values,
        "block_length": block_length,
        "filter_width": block_width,
    }
    attend = ATTENTION_TYPES[attention_type]
    accepted = inspect.signature(attend).parameters
    arguments = {name: arguments[name] for name in arguments if name in accepted}
    with open_scope(name, "multihead_attention"):
        heads = _compute_heads(
            query_antecedent,
            memory_antecedent,
            depths,
            num_heads,
            cache,
            decode_loop_step,
        )
        context = attend(*heads, scaled=False, **arguments)
        x = combine_heads(context)  # [N, Tq, total_value_depth]
        x.set_shape([*x.shape.as_list()[:-1], total_value_depth])
        return dense(x, output_depth, use_bias=False, name="output_transform")


def _check_attention(depths, num_heads, attention_type, bias, cache):
    """Raise ValueError for arguments that `multihead_attention` does not support."""
    for name, depth in zip(("total_key_depth", "total_value_depth"), depths):
        if depth % num_heads:
            raise ValueError(
                f"multihead_attention: expected num_heads to divide {name} "
                f"= {depth}, got {num_heads}"
            )
    supported = tuple(ATTENTION_TYPES) if cache is None else TYPES_WITH_CACHE
    if attention_type not in supported:
        raise ValueError(
            "multihead_attention: expected attention_type to be one of "
            f"{list(supported)}, got {attention_type!r}"
            + (" with a cache" if cache is not None else "")
        )
    if cache is not None and bias is None:
        raise ValueError(
            "multihead_attention: expected the bias that masks later "
            "positions, got a cache and bias = None"
        )


def _undo_scaling(q):
    """Multiply queries by sqrt(d_k), because our blocks divide the logits by it."""
    return q * q.shape.as_list()[-1] ** 0.5
