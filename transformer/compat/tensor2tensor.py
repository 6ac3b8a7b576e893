"""The layers of tensor2tensor 1.15.7: common_attention and common_layers.

Instead of `from tensor2tensor.layers import common_attention, common_layers`:

    from transformer.compat import tensor2tensor as common_attention
    from transformer.compat import tensor2tensor as common_layers

Likewise `transformer_layers` (`transformer_prepare_encoder`) and `beam_search` (the
function of this name).

Arguments that are not supported raise ValueError: other kinds of attention (in two
dimensions, dilated, of areas, of graphs) and of normalization, queries and keys from
filters wider than 1, variables of three dimensions.
"""

import tensorflow.compat.v1 as tf

from transformer.blocks.attention import KeyValueCache
from transformer.blocks.primitives import join_heads as combine_heads
from transformer.blocks.primitives import split_heads
from transformer.compat.tensor2tensor_attention import (
    dot_product_attention,
    dot_product_attention_relative,
    dot_product_self_attention_relative_v2,
    dot_product_unmasked_self_attention_relative_v2,
    local_attention_1d,
    masked_local_attention_1d,
    masked_within_block_local_attention_1d,
)
from transformer.compat.tensor2tensor_biases import (
    add_positional_embedding,
    add_timing_signal_1d,
    add_timing_signal_1d_given_position,
    add_timing_signal_nd,
    attention_bias_ignore_padding,
    attention_bias_local,
    attention_bias_lower_triangle,
    attention_bias_proximal,
    attention_bias_same_segment,
    attention_bias_to_padding,
    embedding_to_padding,
    get_timing_signal_1d,
    transformer_prepare_encoder,
)
from transformer.compat.tensor2tensor_layers import (
    apply_norm,
    cast_like,
    comma_separated_string_to_integer_list,
    conv1d,
    conv_hidden_relu,
    dense,
    dense_layer,
    dense_relu_dense,
    dropout_with_broadcast_dims,
    embedding,
    flatten4d3d,
    layer_norm,
    layer_norm_vars,
    layer_postprocess,
    layer_prepostprocess,
    layer_preprocess,
    pad_to_same_length,
    padded_cross_entropy,
    refuse,
    sample_with_temperature,
    scope_of,
    shape_list,
    shift_right,
    shift_right_2d,
    shift_right_3d,
    smoothing_cross_entropy,
    weights_all,
    weights_nonzero,
)
from transformer.compat.tensor2tensor_search import beam_search

# `attention_type` → (function, the names of its arguments).
KINDS = {
    "dot_product": (
        dot_product_attention,
        "bias dropout_rate save_weights_to dropout_broadcast_dims hard_attention_k "
        "activation_dtype weight_dtype",
    ),
    "dot_product_relative": (
        dot_product_attention_relative,
        "bias dropout_rate save_weights_to hard_attention_k "
        "max_relative_position cache",
    ),
    "dot_product_relative_v2": (
        dot_product_self_attention_relative_v2,
        "bias dropout_rate save_weights_to dropout_broadcast_dims "
        "max_relative_position heads_share_relative_embedding add_relative_to_values",
    ),
    "dot_product_unmasked_relative_v2": (
        dot_product_unmasked_self_attention_relative_v2,
        "bias dropout_rate save_weights_to dropout_broadcast_dims "
        "max_relative_position heads_share_relative_embedding add_relative_to_values",
    ),
    "local_mask_right": (masked_local_attention_1d, "block_length"),
    "local_unmasked": (local_attention_1d, "block_length filter_width"),
    "local_within_block_mask_right": (
        masked_within_block_local_attention_1d,
        "block_length",
    ),
}
WITH_CACHE = ("dot_product", "dot_product_relative")

__all__ = [
    "add_positional_embedding",
    "add_timing_signal_1d",
    "add_timing_signal_1d_given_position",
    "add_timing_signal_nd",
    "apply_norm",
    "attention_bias_ignore_padding",
    "attention_bias_local",
    "attention_bias_lower_triangle",
    "attention_bias_proximal",
    "attention_bias_same_segment",
    "attention_bias_to_padding",
    "beam_search",
    "cast_like",
    "combine_heads",
    "comma_separated_string_to_integer_list",
    "compute_qkv",
    "conv1d",
    "conv_hidden_relu",
    "dense",
    "dense_relu_dense",
    "dot_product_attention",
    "dot_product_attention_relative",
    "dot_product_self_attention_relative_v2",
    "dot_product_unmasked_self_attention_relative_v2",
    "dropout_with_broadcast_dims",
    "embedding",
    "embedding_to_padding",
    "flatten4d3d",
    "get_timing_signal_1d",
    "layer_norm",
    "layer_norm_vars",
    "layer_postprocess",
    "layer_preprocess",
    "layer_prepostprocess",
    "local_attention_1d",
    "masked_local_attention_1d",
    "masked_within_block_local_attention_1d",
    "multihead_attention",
    "pad_to_same_length",
    "padded_cross_entropy",
    "sample_with_temperature",
    "shape_list",
    "shift_right",
    "shift_right_2d",
    "shift_right_3d",
    "smoothing_cross_entropy",
    "split_heads",
    "transformer_prepare_encoder",
    "weights_all",
    "weights_nonzero",
]


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
    """Return Q, K and V, heads side by side: float [N, T, depth] each.

    Args:
      query_antecedent: float [N, Tq, any width].
      memory_antecedent: float [N, Tk, any width], or None for self-attention.
      total_key_depth, total_value_depth: int, the width of all heads together.

    Raises:
      ValueError: filters wider than 1, variables of three dimensions, or a
        `layer_collection` are given.
    """
    refuse(
        "compute_qkv",
        ("q_filter_width", q_filter_width, 1),
        ("kv_filter_width", kv_filter_width, 1),
        ("vars_3d_num_heads", vars_3d_num_heads or 0, 0),
        ("layer_collection", layer_collection, None),
    )
    memory = query_antecedent if memory_antecedent is None else memory_antecedent
    q = dense_layer(query_antecedent, total_key_depth, False, "q")
    k = dense_layer(memory, total_key_depth, False, "k")
    v = dense_layer(memory, total_value_depth, False, "v")
    return q, k, v


def _cached(query_antecedent, memory_antecedent, depths, num_heads, cache, step):
    """Return the heads of Q, K and V; with a cache, those of all positions so far.

    Args:
      depths: (total_key_depth, total_value_depth).
      cache: None; for self-attention, a dict whose "k" and "v" [N, H, T, D / H] are
        replaced; otherwise a dict with "k_encdec" and "v_encdec".
      step: None, or the position of the query in a cache of fixed length.
    """
    if cache is not None and memory_antecedent is not None:
        q = dense_layer(query_antecedent, depths[0], False, "q")
        return split_heads(q, num_heads), cache["k_encdec"], cache["v_encdec"]
    q, k, v = (
        split_heads(x, num_heads)
        for x in compute_qkv(query_antecedent, memory_antecedent, *depths)
    )
    if cache is not None and step is None:
        past = KeyValueCache(cache["k"], cache["v"], None).followed_by(k, v, True)
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
    Arguments that are not listed have no effect (any other name may be given, such as
    `max_length`), or must have their defaults.

    Args:
      query_antecedent: float [N, Tq, any width].
      memory_antecedent: float [N, Tk, any width], or None for self-attention.
      bias: float, broadcastable to [N, H, Tq, Tk], added to the logits, or None; local
        attention ignores it.
      total_key_depth, total_value_depth: int, the width of all heads together.
      output_depth: int, D.
      num_heads: int, H; divides the depths.
      dropout_rate, dropout_broadcast_dims: for the weights; local attention has no
        dropout.
      attention_type: a key of `KINDS`.
      max_relative_position: int, for relative attention.
      block_length, block_width: int, for local attention.
      cache: dict, for step-by-step decoding: "k" and "v" [N, H, T, depth / H] of the
        earlier positions, which are replaced; or "k_encdec" and "v_encdec" of a memory.
      decode_loop_step: int scalar; the cache has a fixed length, and the one query is
        at this position of it.
      name: the variable scope; None: a default, which is numbered.
      save_weights_to: dict; receives the weights by scope name, and the logits.

    Returns:
      float [N, Tq, output_depth].

    Raises:
      ValueError: `num_heads` does not divide the depths, a cache has no bias, or an
        argument is not supported.
    """
    refuse(
        "multihead_attention",
        ("vars_3d", vars_3d, False),
        ("layer_collection", layer_collection, None),
        ("recurrent_memory", recurrent_memory, None),
        ("max_area_width", max_area_width, 1),
        ("max_area_height", max_area_height, 1),
        ("q_filter_width", q_filter_width, 1),
        ("kv_filter_width", kv_filter_width, 1),
    )
    depths = (total_key_depth, total_value_depth)
    _check_attention(depths, num_heads, attention_type, bias, cache)
    arguments = {
        "bias": bias,
        "dropout_rate": dropout_rate,
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
    attend, names = KINDS[attention_type]
    with scope_of(name, "multihead_attention"):
        heads = _cached(
            query_antecedent,
            memory_antecedent,
            depths,
            num_heads,
            cache,
            decode_loop_step,
        )
        context = attend(
            *heads, scaled=False, **{name: arguments[name] for name in names.split()}
        )
        x = combine_heads(context)  # [N, Tq, total_value_depth]
        x.set_shape([*x.shape.as_list()[:-1], total_value_depth])
        return dense_layer(x, output_depth, False, "output_transform")


def _check_attention(depths, num_heads, attention_type, bias, cache):
    """Raise ValueError for arguments that `multihead_attention` does not support."""
    for kind, depth in zip(("total_key_depth", "total_value_depth"), depths):
        if depth % num_heads:
            raise ValueError(
                f"multihead_attention: expected num_heads that divide {kind} "
                f"= {depth}, got {num_heads}"
            )
    kinds = tuple(KINDS) if cache is None else WITH_CACHE
    if attention_type not in kinds:
        raise ValueError(
            "multihead_attention: expected attention_type to be one of "
            f"{list(kinds)}, got {attention_type!r}"
            + (" with a cache" if cache is not None else "")
        )
    if cache is not None and bias is None:
        raise ValueError(
            "multihead_attention: expected the bias that masks later "
            "positions, got a cache and bias = None"
        )
