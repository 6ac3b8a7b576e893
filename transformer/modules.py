"""The building blocks of the Transformer, for any TensorFlow 1.x-style graph.

Dimension letters, here and in every other file: N batch, S source length, T target
length, Tq queries, Tk keys, H heads, D d_model, F d_ff, V vocabulary.

A mask is a bool tensor, True = may attend, that broadcasts to [N, H, Tq, Tk].
Variables are made by `tf.get_variable` below `scope`: `reuse=True` shares them, and
their names are stable. A block that holds a sub-layer (`multihead_attention`,
`feedforward`) includes the residual connection and the layer normalization around it.

    import tensorflow.compat.v1 as tf
    from transformer.modules import (
        embedding, feedforward, multihead_attention, positional_encoding)

    ids = tf.placeholder(tf.int32, [None, None])                            # [N, T]
    x = embedding(ids, vocab_size=100, num_units=64)                        # [N, T, 64]
    x += positional_encoding(ids, num_units=64, scale=False)                # [N, T, 64]
    x = multihead_attention(x, x, num_heads=4, dropout_rate=0.1)            # [N, T, 64]
    x = feedforward(x, num_units=(256, 64))                                 # [N, T, 64]
"""

import tensorflow.compat.v1 as tf

from transformer.blocks.attention import (
    attend,
    behind_cached,
    breadth,
    is_last_place,
    keys_and_values,
    queries_keys_values,
    scaled_dot_product_attention,
)
from transformer.blocks.masks import causal_mask, found_mask, local_mask, padding_mask
from transformer.blocks.positions import POSITIONS
from transformer.blocks.primitives import (
    dense,
    dropout,
    join_heads,
    shape_list,
    with_dense_gradient,
)
from transformer.blocks.relative import relative_positions
from transformer.dialects import dialect_named

__all__ = [
    "causal_mask",
    "embedding",
    "embedding_table",
    "feedforward",
    "keys_and_values",
    "label_smoothing",
    "local_mask",
    "multihead_attention",
    "normalize",
    "padding_mask",
    "positional_encoding",
    "scaled_dot_product_attention",
]


def embedding_table(vocab_size, num_units, scope="embedding", reuse=None):
    """The variable `lookup_table` [V, D] of an `embedding` of the same scope."""
    with tf.variable_scope(scope, reuse=reuse):
        return tf.get_variable(
            "lookup_table",
            [vocab_size, num_units],
            initializer=tf.random_normal_initializer(stddev=num_units**-0.5),
        )


def embedding(
    inputs,
    vocab_size,
    num_units,
    zero_pad=True,
    scale=True,
    scope="embedding",
    reuse=None,
):
    """Turns ids into vectors (section 3.4).

    Args:
      inputs: int [N, T], ids below `vocab_size`.
      vocab_size: int, V.
      num_units: int, D.
      zero_pad: id 0 becomes a vector of zeros, and gets no gradient.
      scale: multiply by sqrt(num_units), as the paper does.
      scope, reuse: of the variable `lookup_table` [V, D].

    Returns:
      float [N, T, D]. `[[5, 0]]` gives `[[table[5] * sqrt(D), zeros]]`.
    """
    table = with_dense_gradient(
        embedding_table(vocab_size, num_units, scope, reuse)
    )  # [V, D]
    outputs = tf.gather(table, inputs)  # [N, T, D]
    factor = num_units**0.5 if scale else 1.0
    if zero_pad:
        real = tf.cast(tf.not_equal(inputs, 0), outputs.dtype)
        return outputs * (real * factor)[..., None]
    return outputs * factor if scale else outputs


def positional_encoding(
    inputs,
    num_units,
    zero_pad=True,
    scale=True,
    scope="positional_encoding",
    reuse=None,
    *,
    dialect="paper",
    offset=0,
):
    """The vectors that tell positions apart (section 3.5); no maximum length.

    Args:
      inputs: int [N, T] ids, or float [N, T, D]; what counts is their shape, and where
        they are 0.
      num_units: int, D.
      zero_pad: padding (where `inputs` are 0) gets zeros, so that it stays recognizable
        as padding; position 0 instead where the dialect says so.
      scale: multiply by sqrt(num_units); the paper does not.
      scope, reuse: for the names of the ops; there are no variables.
      dialect: a row of `DIALECTS`; its `positions` is a key of `POSITIONS`.
      offset: int or scalar tensor, the position of the first column.

    Returns:
      float32 [N, T, D], to be added to the embeddings. With D = 4, position 0 is
      `[0, 1, 0, 1]` and position 1 is `[sin 1, cos 1, sin 0.01, cos 0.01]`.
    """
    row = dialect_named(dialect)
    batch, length = shape_list(inputs)[:2]
    with tf.variable_scope(scope, reuse=reuse):
        # In float64: at position 1,000 a float32 angle is already wrong by 6e-5.
        positions = tf.cast(tf.range(length) + offset, tf.float64)
        table = tf.cast(POSITIONS[row.positions](positions, num_units), tf.float32)
        if scale:
            table *= num_units**0.5  # [T, D]
        if zero_pad and row.first_position_padded:
            table *= tf.cast(tf.not_equal(positions, 0), tf.float32)[:, None]
        elif zero_pad:
            real = tf.cast(tf.not_equal(inputs, 0), tf.float32)
            return table * (real if inputs.shape.ndims == 3 else real[..., None])
        return tf.tile(table[None, :, :], [batch, 1, 1])  # [N, T, D]


def normalize(inputs, epsilon=1e-8, scope="ln", reuse=None):
    """Layer normalization: (x - mean) / sqrt(variance + epsilon) * gamma + beta.

    Args:
      inputs: float [..., D]; mean and (biased) variance are over the last axis.
      epsilon: float, inside the root.
      scope, reuse: of the variables `gamma` [D], ones at first, and `beta` [D], zeros.

    Returns:
      float [..., D]. `[[1., 3.]]` gives `[[-1., 1.]]` at first.

    Source: Ba, Kiros, Hinton 2016.
    """
    width = [inputs.shape.as_list()[-1]]
    with tf.variable_scope(scope, reuse=reuse):
        gamma = tf.get_variable("gamma", width, initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", width, initializer=tf.zeros_initializer())
        # Not `+ beta`: the graph optimizer of TensorFlow 2.16 fails on that form.
        return tf.nn.bias_add(_standardize(inputs, epsilon) * gamma, beta)


def _standardize(inputs, epsilon):
    """Mean 0 and variance 1 along the last axis, with a gradient of few passes."""

    @tf.custom_gradient
    def standardized(x):
        centred = x - tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
        scale = tf.rsqrt(variance + epsilon)
        outputs = centred * scale

        def gradient(upstream):
            along = tf.reduce_mean(upstream * outputs, -1, keepdims=True) * scale
            upstream = upstream * scale
            shared = tf.reduce_mean(upstream, -1, keepdims=True)
            return upstream - outputs * along - shared

        return outputs, gradient

    return standardized(inputs)


def apply_steps(steps, x, residual, dialect, drop):
    """The steps of a dialect before or after a sub-layer, in their order."""
    for step in steps:
        if step == "dropout":
            x = drop(x, "residual")
        elif step == "add":
            x = residual + x
        elif step == "norm":
            x = normalize(x, dialect.norm_epsilon)
        else:
            raise ValueError(
                f"a step of a dialect: found {step!r}, wanted 'dropout', "
                "'add' or 'norm'"
            )
    return x


def multihead_attention(
    queries,
    keys,
    num_units=None,
    num_heads=8,
    dropout_rate=0,
    is_training=True,
    causality=False,
    scope="multihead_attention",
    reuse=None,
    *,
    key_masks=None,
    query_masks=None,
    bias=None,
    max_relative_position=None,
    dialect="paper",
    cache=None,
    weights=None,
    dropout_seed=None,
):
    """Multi-head attention with its residual connection and normalization (3.2.2).

    Args:
      queries: float [N, Tq, D].
      keys: float [N, Tk, any width], the keys and the values; the tensor `queries`
        itself for self-attention; None to attend to what `cache` holds.
      num_units: int, the width of all heads together; D where not given.
      num_heads: int, H; divides `num_units`.
      dropout_rate: float, for the weights and, where the dialect says so, the output.
      is_training: Python bool or scalar bool tensor; no dropout where False.
      causality: a query sees only keys up to its own position.
      scope, reuse: of the variables `q/kernel` `k/kernel` `v/kernel` `o/kernel`
        (`.../bias` where the dialect has one) and `ln/gamma` `ln/beta`; and of
        `relative/keys` `relative/values` where there are relative positions.
      key_masks: bool [N, Tk], or any mask as `padding_mask` and `local_mask` make it.
        Not given: the rows of `keys` that are not all exactly zero.
      query_masks: bool [N, Tq]. Not given: likewise from `queries`.
      bias: float, broadcastable to [N, H, Tq, Tk], added to the logits.
      max_relative_position: int, the distance from which on all distances are alike in
        relative positions (see `relative.relative_positions`); None or 0: there are no
        relative positions.
      dialect: a row of `DIALECTS`.
      cache: dict; the keys seen so far, "k" and "v" [N, H, T, D / H], and which of them
        are not padding, "mask" [N, T]. This call extends it in place by its own. With
        a mask [N, 1, Tq, T] the queries are hypotheses for one place: each sees what
        the mask says, and itself.
      weights: dict; receives the attention weights [N, H, Tq, Tk] by scope name.
      dropout_seed: int [2] tensor, see `dropout`.

    Returns:
      float [N, Tq, D].

    Raises:
      ValueError: heads that do not divide the units, or a result too wide to be added.
    """
    row = dialect_named(dialect)
    num_units = _attention_width(queries, num_units, num_heads, row)
    if query_masks is None:
        query_masks = found_mask(queries, row.padded_row)
    if key_masks is None and keys is not None:
        key_masks = found_mask(keys, row.padded_row)

    def drop(x, name):
        return dropout(x, dropout_rate, is_training, dropout_seed, name)

    with tf.variable_scope(scope, reuse=reuse):
        x = apply_steps(row.before, queries, None, row, drop)
        Q, K, V = queries_keys_values(
            x, x if keys is queries else keys, num_units, num_heads, dialect, cache
        )
        offset, relative = 0, None
        if cache is not None and keys is not None:
            K, V, key_masks, offset = behind_cached(cache, K, V, key_masks)
        if max_relative_position:
            relative = relative_positions(
                tf.shape(Q)[2],
                tf.shape(K)[2],
                num_units // num_heads,
                max_relative_position,
                offset,
                breadth(cache),
            )
        causality = causality and not is_last_place(cache, queries)
        context, attention = attend(
            Q,
            K,
            V,
            row,
            key_mask=key_masks,
            causality=causality,
            offset=offset,
            query_mask=query_masks[:, None, :, None] if row.mask_queries else None,
            bias=bias,
            relative=relative,
            drop=lambda x: drop(x, "weights"),
        )
        x = join_heads(context)  # [N, Tq, num_units]
        if row.output_projection:
            x = dense(x, shape_list(queries)[-1], False, "o")  # [N, Tq, D]
        if weights is not None:
            weights[tf.get_variable_scope().name] = attention
        return apply_steps(row.after, x, queries, row, drop)


def _attention_width(queries, num_units, num_heads, row):
    """The width of all heads together, once it is known to fit."""
    width = queries.shape.as_list()[-1]
    num_units = width if num_units is None else num_units
    if num_heads < 1 or num_units % num_heads:
        raise ValueError(
            f"multihead_attention: found num_heads = {num_heads}, wanted "
            f"a divisor of num_units = {num_units}"
        )
    if num_units != width and not row.output_projection:
        raise ValueError(
            f"multihead_attention: found num_units = {num_units}, wanted "
            f"{width}, the width of the queries it is added to"
        )
    return num_units


def feedforward(
    inputs,
    num_units=(2048, 512),
    scope="feedforward",
    reuse=None,
    *,
    dropout_rate=0,
    is_training=True,
    mask=None,
    dialect="paper",
    dropout_seed=None,
):
    """max(0, x W1 + b1) W2 + b2 with residual and normalization: equation 2.

    Args:
      inputs: float [N, T, D].
      num_units: (F, D): the inner width, and the width of `inputs`.
      scope, reuse: of the variables `inner/kernel` `inner/bias` `outer/kernel`
        `outer/bias` `ln/gamma` `ln/beta`.
      dropout_rate: float, where the dialect says so.
      is_training: Python bool or scalar bool tensor; no dropout where False.
      mask: bool [N, T]; positions where it is False get nothing but the residual.
      dialect: a row of `DIALECTS`.
      dropout_seed: int [2] tensor, see `dropout`.

    Returns:
      float [N, T, D].

    Raises:
      ValueError: an outer width other than that of `inputs`.
    """
    inner_units, outer_units = num_units
    row, width = dialect_named(dialect), inputs.shape.as_list()[-1]
    if outer_units != width:
        raise ValueError(
            f"feedforward: found num_units = {tuple(num_units)}, wanted "
            f"(..., {width}), the width of the inputs"
        )

    def drop(x, name):
        return dropout(x, dropout_rate, is_training, dropout_seed, name)

    with tf.variable_scope(scope, reuse=reuse):
        x = apply_steps(row.before, inputs, None, row, drop)
        x = dense(x, inner_units, True, "inner", tf.nn.relu)  # [N, T, F]
        if row.inner_dropout:
            x = drop(x, "inner")
        x = dense(x, outer_units, True, "outer")  # [N, T, D]
        if mask is not None:
            x *= tf.cast(mask, x.dtype)[..., None]
        return apply_steps(row.after, x, inputs, row, drop)


def label_smoothing(inputs, epsilon=0.1):
    """(1 - epsilon) * inputs + epsilon / V (section 5.4; Szegedy et al. 2015).

    Args:
      inputs: float [..., V], one-hot or any distribution.
      epsilon: float in [0, 1].

    Returns:
      float [..., V]. `[0, 1]` with epsilon 0.1 gives `[0.05, 0.95]`.
    """
    return (1 - epsilon) * inputs + epsilon / inputs.shape.as_list()[-1]
