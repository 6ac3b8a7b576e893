"""The attention functions of tensor2tensor's common_attention.

They expect scaled queries: the caller has multiplied them by d_k ** -0.5. With
`scaled=False`, which our `multihead_attention` passes, they scale the queries
themselves. `save_weights_to` receives the weights by scope name, and the logits by
"<scope>/logits"; no images are written for TensorBoard (`image_shapes`,
`make_image_summary`).
"""

import functools

import tensorflow.compat.v1 as tf

from transformer.blocks.attention import (
    found_mask,
    relative_bias,
    relative_positions,
    scaled_dot_product_attention,
    unscaled,
)
from transformer.blocks.local import local_attention
from transformer.blocks.primitives import dropout, shape_list
from transformer.compat.tensor2tensor_layers import refuse, scope_of

FLOATS = (None, "float32", tf.float32)


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
      save_weights_to: dict; receives the weights by scope name.
      scaled: whether the queries are scaled; False: multiply them by d_k ** -0.5.

    Returns:
      float [..., Tq, d_v].

    Raises:
      ValueError: `hard_attention_k` or a type other than float32 is given.
    """
    for kind, found in (
        ("activation_dtype", activation_dtype),
        ("weight_dtype", weight_dtype),
    ):
        if found not in FLOATS:
            raise ValueError(
                f"dot_product_attention: expected {kind} = float32, got {found!r}"
            )
    refuse("dot_product_attention", ("hard_attention_k", hard_attention_k, 0))
    drop = _dropout_of(dropout_rate, dropout_broadcast_dims)
    with scope_of(name, "dot_product_attention"):
        return _attended((q, k, v), bias, scaled, drop, save_weights_to)


def _dropout_of(rate, shared=None):
    """Return a function that applies dropout to the weights."""
    return functools.partial(dropout, rate=rate, shared=shared or (), name="weights")


def _attended(heads, bias, scaled, drop, saved, relative=None):
    """Attend; save the weights by the name of the current scope."""
    context, weights = scaled_dot_product_attention(
        *heads,
        bias=None if bias is None else tf.cast(bias, heads[0].dtype),
        relative=relative,
        scale=1.0 if scaled else None,
        drop=drop,
    )
    if saved is not None:
        name = tf.get_variable_scope().name
        saved[name] = weights
        saved[f"{name}/logits"] = weights.op.inputs[0]  # of the softmax: no mask, no 0
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
        queries, which have the last positions.
      max_relative_position: int; larger distances are clipped to it.
      bias, dropout_rate, save_weights_to, name, scaled: as in `dot_product_attention`.

    Returns:
      float [N, H, Tq, d].

    Raises:
      ValueError: `max_relative_position` is missing, `hard_attention_k` is given, or
        the shapes differ.
    """
    refuse("dot_product_attention_relative", ("hard_attention_k", hard_attention_k, 0))
    _check_distance("dot_product_attention_relative", max_relative_position)
    if not (cache or allow_memory):
        q.shape.assert_is_compatible_with(k.shape)
        q.shape.assert_is_compatible_with(v.shape)
    positions = tf.range(shape_list(k)[2])
    with scope_of(name, "dot_product_attention_relative"):
        relative = relative_positions(
            positions[-shape_list(q)[2] :],
            positions,
            q.shape.as_list()[-1],
            max_relative_position,
            scope="positions",
        )
        drop = _dropout_of(dropout_rate)
        return _attended((q, k, v), bias, scaled, drop, save_weights_to, relative)


def _check_distance(function, max_relative_position):
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
):
    """Attend to earlier positions like the Music Transformer: see `relative_bias`.

    Args: as in `dot_product_attention_relative`, and in `dot_product_attention`.

    Raises:
      ValueError: `max_relative_position` is missing, or heads that share embeddings or
        values with relative positions are requested.
    """
    function = "dot_product_self_attention_relative_v2"
    refuse(
        function,
        ("heads_share_relative_embedding", heads_share_relative_embedding, False),
        ("add_relative_to_values", add_relative_to_values, False),
    )
    drop = _dropout_of(dropout_rate, dropout_broadcast_dims)
    with scope_of(name, function):
        bias = _distance_bias(q, bias, max_relative_position, True, scaled)
        return _attended((q, k, v), bias, scaled, drop, save_weights_to)


def dot_product_unmasked_self_attention_relative_v2(
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
):
    """Attend to all positions like the Music Transformer: see `relative_bias`.

    Args, Raises: as in `dot_product_self_attention_relative_v2`.
    """
    function = "dot_product_unmasked_self_attention_relative_v2"
    refuse(
        function,
        ("heads_share_relative_embedding", heads_share_relative_embedding, False),
        ("add_relative_to_values", add_relative_to_values, False),
    )
    drop = _dropout_of(dropout_rate, dropout_broadcast_dims)
    with scope_of(name, function):
        bias = _distance_bias(q, bias, max_relative_position, False, scaled)
        return _attended((q, k, v), bias, scaled, drop, save_weights_to)


def _distance_bias(q, bias, max_relative_position, causality, scaled):
    """Return the bias of the distances plus the given bias: [N, H, T, T]."""
    _check_distance("relative attention", max_relative_position)
    q = unscaled(q) if scaled else q
    of_distances = relative_bias(q, max_relative_position, causality, "relative_bias")
    return of_distances if bias is None else of_distances + bias


def local_attention_1d(
    q, k, v, block_length=128, filter_width=100, name=None, *, scaled=True
):
    """Attend within blocks and to a window around: see `modules.local_attention`.

    Args:
      q, k, v: float [N, H, T, d_k], [N, H, T, d_k], [N, H, T, d_v]; keys of zeros are
        padding.
      block_length: int.
      filter_width: int, positions before and after the block.
      scaled: as in `dot_product_attention`.
    """
    return local_attention(
        unscaled(q) if scaled else q,
        k,
        v,
        block_length,
        window=(filter_width, filter_width),
        key_mask=found_mask(k),
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
    """Attend to earlier positions of the block and of the one before.

    Args: as in `local_attention_1d`.

    Raises:
      ValueError: a `dropout_rate` is given.
    """
    refuse("masked_local_attention_1d", ("dropout_rate", dropout_rate, 0.0))
    q = unscaled(q) if scaled else q
    window = (block_length, 0)
    return local_attention(q, k, v, block_length, window=window, causality=True)[0]


def masked_within_block_local_attention_1d(
    q, k, v, block_length=64, name=None, *, scaled=True
):
    """Attend to earlier positions of the block.

    Args: as in `local_attention_1d`.
    """
    q = unscaled(q) if scaled else q
    return local_attention(q, k, v, block_length, causality=True)[0]
