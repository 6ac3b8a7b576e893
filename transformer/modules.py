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

import functools
from typing import Optional, Sequence, Union

import tensorflow.compat.v1 as tf

from transformer.blocks.attention import (
    KeyValueCache,
    mask_and_bias,
    scaled_dot_product_attention,
)
from transformer.blocks.local import local_attention
from transformer.blocks.masks import (
    as_mask,
    both,
    causal_mask,
    given_or_found,
    is_token,
    local_mask,
    padding_mask,
    proximity_bias,
)
from transformer.blocks.polarity import check_key_masks
from transformer.blocks.positions import POSITIONS
from transformer.blocks.primitives import (
    apply_steps,
    dense,
    dropout,
    embedding_table,
    keys_and_values,
    looked_up,
    normalize,
    project,
    project_output,
)
from transformer.blocks.relative import relative_bias, relative_positions
from transformer.blocks.shapes import shape_list
from transformer.dialects import Dialect, resolve

__all__ = [
    "KeyValueCache",
    "Past",
    "causal_mask",
    "embedding",
    "embedding_table",
    "feedforward",
    "keys_and_values",
    "label_smoothing",
    "local_attention",
    "local_mask",
    "multihead_attention",
    "normalize",
    "padding_mask",
    "positional_encoding",
    "proximity_bias",
    "relative_bias",
    "relative_positions",
    "scaled_dot_product_attention",
]
Past = KeyValueCache  # its earlier name


def embedding(
    inputs,
    vocab_size: int,
    num_units: int,
    zero_pad: bool = True,
    scale: bool = True,
    scope: str = "embedding",
    reuse: Optional[bool] = None,
):
    """Turn ids into vectors (section 3.4).

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
    table = embedding_table(vocab_size, num_units, scope, reuse)  # [V, D]
    if not zero_pad:
        return looked_up(table, inputs, scale)
    outputs = looked_up(table, inputs, scale=False)  # [N, T, D]
    real = tf.cast(is_token(inputs), outputs.dtype)
    return outputs * (real * (num_units**0.5 if scale else 1.0))[..., None]


def positional_encoding(
    inputs,
    num_units: int,
    zero_pad: bool = True,
    scale: bool = True,
    scope: str = "positional_encoding",
    reuse: Optional[bool] = None,
    *,
    positions=None,
    dialect: Union[str, Dialect] = "paper",
):
    """Return the position encoding, a vector for each position (section 3.5).

    Args:
      inputs: int [N, T] ids, or float [N, T, D]; only their shape counts, and where
        they are 0.
      num_units: int, D.
      zero_pad: padding (where `inputs` are 0) gets zeros, so that it stays recognizable
        as padding; position 0 instead where the dialect says so.
      scale: multiply by sqrt(num_units); the paper does not.
      scope, reuse: for the names of the ops; there are no variables.
      positions: int [T], from 0; 0, 1, ..., T - 1 where not given. There is no maximum.
      dialect: a Dialect or its name; its `positions` is a key of `POSITIONS`.

    Returns:
      float32 [N, T, D], to be added to the embeddings. With D = 4, position 0 is
      `[0, 1, 0, 1]` and position 1 is `[sin 1, cos 1, sin 0.01, cos 0.01]`.
    """
    dialect = resolve(dialect)
    batch, length = shape_list(inputs)[:2]
    with tf.variable_scope(scope, reuse=reuse):
        # In float64: at position 1,000 a float32 angle is already wrong by 6e-5.
        positions = tf.range(length) if positions is None else positions
        positions = tf.cast(positions, tf.float64)
        table = tf.cast(POSITIONS[dialect.positions](positions, num_units), tf.float32)
        if scale:
            table *= num_units**0.5  # [T, D]
        if zero_pad and dialect.first_position_padded:
            table *= tf.cast(tf.not_equal(positions, 0), tf.float32)[:, None]
        elif zero_pad:
            real = tf.cast(tf.not_equal(inputs, 0), tf.float32)
            return table * (real if inputs.shape.ndims == 3 else real[..., None])
        return tf.tile(table[None, :, :], [batch, 1, 1])  # [N, T, D]


def multihead_attention(
    queries,
    keys,
    num_units: Optional[int] = None,
    num_heads: int = 8,
    dropout_rate: float = 0,
    is_training=True,
    causality: bool = False,
    scope: str = "multihead_attention",
    reuse: Optional[bool] = None,
    *,
    key_masks=None,
    query_masks=None,
    mask=None,
    bias=None,
    query_positions=None,
    key_positions=None,
    max_relative_position: Optional[int] = None,
    projected: Optional[tuple] = None,
    past: Optional[KeyValueCache] = None,
    dialect: Union[str, Dialect] = "paper",
    weights: Optional[dict] = None,
    dropout_seed=None,
):
    """Attend with several heads, then add and normalize (section 3.2.2).

    Args:
      queries: float [N, Tq, D].
      keys: float [N, Tk, any width], the keys and the values; the tensor `queries`
        itself for self-attention.
      num_units: int, the width of all heads together; D where not given.
      num_heads: int, H; divides `num_units`.
      dropout_rate: float or scalar tensor, for the weights and, by dialect, the output.
      is_training: Python bool or scalar bool tensor; no dropout where False.
      causality: a query sees only keys up to its own position.
      scope, reuse: of the variables `q/kernel` `k/kernel` `v/kernel` `o/kernel`
        (`.../bias` where the dialect has one) and `ln/gamma` `ln/beta`; and of
        `relative/keys` `relative/values` where there are relative positions.
      key_masks: bool [N, Tk], False = padding, or a mask as `padding_mask` makes it;
        Python True where no key is padding. Not given: the rows of `keys` that are not
        all exactly zero. Masks of numbers are taken as bool: 0 is False.
      query_masks: bool [N, Tq]. Not given: likewise from `queries`.
      mask: a further mask: `local_mask`, or an order other than `causality`.
      bias: float, broadcastable to [N, H, Tq, Tk], added to the logits.
      query_positions, key_positions: int [Tq], [Tk], for `causality` and relative
        positions. Not given: 0, 1, ... for keys; queries continue after `past`.
      max_relative_position: int; distances beyond it share a vector (see
        `relative_positions`). None or 0: no relative positions.
      projected: (K, V) as `keys_and_values` made them of `keys`, to use them again.
      past: KeyValueCache of the positions before `keys`.
      dialect: a Dialect or its name, a key of `DIALECTS`.
      weights: dict; receives the attention weights [N, H, Tq, Tk] by scope name.
      dropout_seed: int [2] tensor, see `dropout`.

    Returns:
      float [N, Tq, D]; with `past`, (that, the KeyValueCache of the next call).

    Raises:
      ValueError: heads that do not divide the units, or a result too wide to be added.
    """
    dialect, is_self = resolve(dialect), keys is queries
    num_units = _attention_width(queries, num_units, num_heads, dialect)
    if dialect.mask_queries:
        query_masks = given_or_found(query_masks, queries, dialect.padded_row)
    key_masks = given_or_found(check_key_masks(key_masks), keys, dialect.padded_row)
    mask = as_mask(mask)
    drop = functools.partial(
        dropout, rate=dropout_rate, is_training=is_training, seed=dropout_seed
    )
    before = 0 if past is None else tf.shape(past.keys)[2]
    if query_positions is None:
        query_positions = tf.range(tf.shape(queries)[1]) + before  # [Tq]
    if key_positions is None:
        key_positions = tf.range(tf.shape(keys)[1] + before)  # [Tk]
    if causality:
        mask = both(mask, causal_mask(query_positions, key_positions))
    with tf.variable_scope(scope, reuse=reuse):
        x = apply_steps(dialect.before, queries, None, dialect, drop)
        Q = project(x, num_units, num_heads, dialect, "q")  # [N, H, Tq, D / H]
        keys = x if is_self else keys
        K, V = projected or keys_and_values(keys, num_units, num_heads, dialect)
        if past is not None:
            past = past.followed_by(K, V, key_masks)
            K, V = past.keys, past.values
            key_masks = key_masks is True or past.mask
        width = num_units // num_heads
        relative = max_relative_position and relative_positions(
            query_positions, key_positions, width, max_relative_position
        )
        mask, bias = mask_and_bias(dialect, key_masks, mask, bias)
        context, attention = scaled_dot_product_attention(
            Q,
            K,
            V,
            mask,
            bias=bias,
            relative=relative or None,
            blind_queries_are_zero=dialect.blind_queries_are_zero,
            drop=functools.partial(drop, name="weights"),
        )
        if dialect.mask_queries:
            context *= tf.cast(query_masks, context.dtype)[:, None, :, None]
            attention *= tf.cast(query_masks, attention.dtype)[:, None, :, None]
        x = project_output(context, queries.shape.as_list()[-1], dialect)  # [N, Tq, D]
        if weights is not None:
            weights[tf.get_variable_scope().name] = attention
        x = apply_steps(dialect.after, x, queries, dialect, drop)
    return x if past is None else (x, past)


def _attention_width(queries, num_units, num_heads, dialect):
    """Check and return the width of all heads together."""
    width = queries.shape.as_list()[-1]
    num_units = width if num_units is None else num_units
    if num_heads < 1 or num_units % num_heads:
        raise ValueError(
            f"multihead_attention: found num_heads = {num_heads}, wanted "
            f"a divisor of num_units = {num_units}"
        )
    if num_units != width and not dialect.output_projection:
        raise ValueError(
            f"multihead_attention: found num_units = {num_units}, wanted "
            f"{width}, the width of the queries it is added to"
        )
    return num_units


def feedforward(
    inputs,
    num_units: Sequence[int] = (2048, 512),
    scope: str = "feedforward",
    reuse: Optional[bool] = None,
    *,
    dropout_rate: float = 0,
    is_training=True,
    mask=None,
    dialect: Union[str, Dialect] = "paper",
    dropout_seed=None,
):
    """Compute max(0, x W1 + b1) W2 + b2, then add and normalize: equation 2.

    Args:
      inputs: float [N, T, D].
      num_units: (F, D): the inner width, and the width of `inputs`.
      scope, reuse: of the variables `inner/kernel` `inner/bias` `outer/kernel`
        `outer/bias` `ln/gamma` `ln/beta`.
      dropout_rate: float or scalar tensor, where the dialect says so.
      is_training: Python bool or scalar bool tensor; no dropout where False.
      mask: bool [N, T] or of numbers, 0 = False; positions where it is False get
        nothing but the residual.
      dialect: a Dialect or its name, a key of `DIALECTS`.
      dropout_seed: int [2] tensor, see `dropout`.

    Returns:
      float [N, T, D].

    Raises:
      ValueError: an outer width other than that of `inputs`.
    """
    dialect, width = resolve(dialect), inputs.shape.as_list()[-1]
    inner_units, outer_units = num_units
    if outer_units != width and "add" in dialect.after:
        raise ValueError(
            f"feedforward: found num_units = {tuple(num_units)}, wanted "
            f"(..., {width}), the width of the inputs"
        )
    drop = functools.partial(
        dropout, rate=dropout_rate, is_training=is_training, seed=dropout_seed
    )
    with tf.variable_scope(scope, reuse=reuse):
        x = apply_steps(dialect.before, inputs, None, dialect, drop)
        x = dense(x, inner_units, True, "inner", tf.nn.relu)  # [N, T, F]
        if dialect.inner_dropout:
            x = drop(x, name="inner")
        x = dense(x, outer_units, True, "outer")  # [N, T, D]
        if mask is not None:
            x *= tf.cast(as_mask(mask), x.dtype)[..., None]
        return apply_steps(dialect.after, x, inputs, dialect, drop)


def label_smoothing(inputs, epsilon: float = 0.1):
    """Return (1 - epsilon) * inputs + epsilon / V (section 5.4; Szegedy et al. 2015).

    Args:
      inputs: float [..., V], one-hot or any distribution.
      epsilon: float in [0, 1].

    Returns:
      float [..., V]. `[0, 1]` with epsilon 0.1 gives `[0.05, 0.95]`.
    """
    return (1 - epsilon) * inputs + epsilon / inputs.shape.as_list()[-1]
