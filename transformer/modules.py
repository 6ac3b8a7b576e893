"""The building blocks of the Transformer, for any TensorFlow 1.x-style graph.

Dimension letters, here and in every other file: N batch, T length (S and T: source and
target length), Tq queries, Tk keys, H heads, D d_model, F d_ff, V vocabulary.

A mask is a bool tensor, True = may attend, that broadcasts to [N, H, Tq, Tk].
`tf.get_variable` creates the variables in `scope`: `reuse=True` shares them, and their
names are stable. `multihead_attention` and `feedforward` include the residual
connection and the layer normalization.

    import tensorflow.compat.v1 as tf
    from transformer.modules import (
        embedding, feedforward, multihead_attention, positional_encoding)

    tf.disable_eager_execution()
    ids = tf.placeholder(tf.int32, [None, None])                            # [N, T]
    x = embedding(ids, vocab_size=100, num_units=64)                        # [N, T, 64]
    x += positional_encoding(ids, num_units=64)                             # [N, T, 64]
    for i in range(2):
        with tf.variable_scope(f"block_{i}"):
            x = multihead_attention(x, x, num_heads=4, dropout_rate=0.1)    # [N, T, 64]
            x = feedforward(x, num_units=(256, 64), dropout_rate=0.1)       # [N, T, 64]

`embedding` returns rows of zeros for padding. In the dialect "paper" each block detects
these rows and returns zeros for them, so that the next block detects them too.
"""

import operator
from typing import Dict, Optional, Sequence, Tuple, Union

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.arguments import (
    check_broadcast,
    check_is_training,
    check_size,
    check_tensor,
    refuse_eager,
)
from transformer.blocks.attention import (
    KeyValueCache,
    local_attention,
    relative_bias,
    relative_positions,
    scaled_dot_product_attention,
)
from transformer.blocks.layers import (
    cast_to_float32,
    dense,
    dropout,
    embedding_table,
    join_heads,
    keys_and_values,
    look_up,
    normalize,
    project,
    shape_list,
)
from transformer.blocks.masks import (
    causal_mask,
    combine_masks,
    is_token,
    local_mask,
    mask_and_bias,
    mask_to_bool,
    nonzero_rows,
    padding_mask,
    proximity_bias,
    warn_of_inverted,
)
from transformer.blocks.positions import POSITIONS
from transformer.dialects import Dialect, resolve

__all__ = [
    "KeyValueCache",
    "causal_mask",
    "dense",
    "dropout",
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
      zero_pad: id 0 becomes a vector of zeros, and receives no gradient.
      scale: multiply by sqrt(num_units), as the paper does.
      scope, reuse: of the variable `lookup_table` [V, D].

    Returns:
      float [N, T, D]. `[[5, 0]]` gives `[[table[5] * sqrt(D), zeros]]`.

    Raises:
      ValueError: an argument has a wrong type, rank or size, or eager mode is on.
    """
    inputs = check_tensor("embedding: inputs", inputs, "int", "[...]")
    num_units = check_size("embedding: num_units", num_units)
    table = embedding_table(vocab_size, num_units, scope, reuse)  # [V, D]
    if not zero_pad:
        return look_up(table, inputs, scale)
    outputs = tf.gather(table, inputs)  # [N, T, D]
    real = tf.cast(is_token(inputs), outputs.dtype)
    return outputs * (real * (num_units**0.5 if scale else 1.0))[..., None]


def positional_encoding(
    inputs,
    num_units: int,
    zero_pad: bool = True,
    scale: Optional[bool] = None,
    scope: str = "positional_encoding",
    reuse: Optional[bool] = None,
    *,
    positions=None,
    dialect: Union[str, Dialect] = "paper",
):
    """Return a vector for each position: sines and cosines (section 3.5).

    Args:
      inputs: int [N, T] ids, or float [N, T, D]; only their shape, and which ids or
        rows are 0, matter.
      num_units: int, D.
      zero_pad: return zeros for padding (where `inputs` are 0), so that it can still be
        recognized; some dialects return zeros for position 0 instead.
      scale: multiply by sqrt(num_units); by default, the dialect decides: "paper" does
        not scale, the tutorials do.
      scope, reuse: for the names of the ops; there are no variables.
      positions: int [T], from 0, without a maximum; by default 0, 1, ..., T - 1.
      dialect: a Dialect or its name; its field `positions` is a key of `POSITIONS`.

    Returns:
      float32 [N, T, D], to be added to the embeddings. With D = 4, position 0 is
      `[0, 1, 0, 1]` and position 1 is `[sin 1, cos 1, sin 0.01, cos 0.01]`.

    Raises:
      ValueError: `inputs` have a wrong type or rank.
    """
    dialect = resolve(dialect)
    inputs = check_tensor(
        "positional_encoding: inputs", inputs, "numbers", "[N, T]", "[N, T, D]"
    )
    num_units = check_size("positional_encoding: num_units", num_units)
    batch, length = shape_list(inputs)[:2]
    with tf.variable_scope(scope, reuse=reuse):
        # In float64: at position 1,000 a float32 angle is already wrong by 6e-5.
        positions = tf.range(length) if positions is None else positions
        positions = tf.cast(positions, tf.float64)
        table = tf.cast(POSITIONS[dialect.positions](positions, num_units), tf.float32)
        scale = dialect.scaled_positions if scale is None else scale
        if scale:
            table *= num_units**0.5  # [T, D]
        if zero_pad and dialect.first_position_padded:
            table *= tf.cast(tf.not_equal(positions, 0), tf.float32)[:, None]
        elif zero_pad:
            is_ids = inputs.shape.ndims == 2
            real = tf.not_equal(inputs, 0) if is_ids else nonzero_rows(inputs)
            return table * tf.cast(real, tf.float32)[..., None]
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
    attention_dropout: Optional[float] = None,
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
    weights: Optional[Dict] = None,
    dropout_seed=None,
):
    """Attend with several heads, then add and normalize (section 3.2.2).

    Args:
      queries: float [N, Tq, D].
      keys: float [N, Tk, any width], the keys and the values; for self-attention, the
        same tensor as `queries`.
      num_units: int, the width of all heads together; by default D.
      num_heads: int, H; divides `num_units`.
      dropout_rate: float or scalar tensor, for the output and the attention weights,
        if the dialect has dropout there.
      is_training: Python bool or scalar bool tensor; False: no dropout.
      causality: a query sees only keys up to its own position.
      scope, reuse: of the variables `q/kernel` `k/kernel` `v/kernel` `o/kernel`
        (`.../bias` if the dialect has biases) and `ln/gamma` `ln/beta`; and, with
        relative positions, of `relative/keys` `relative/values`.
      attention_dropout: float or scalar tensor, the rate for the attention weights; by
        default, the dialect decides.
      key_masks: bool [N, Tk], False = padding, or a mask from `padding_mask`; Python
        True: no key is padding. By default, rows of `keys` that are exactly zero are
        padding. In numeric masks, 0 is False.
      query_masks: bool [N, Tq], or True; by default derived in the same way from
        `queries`, and then their rows of padding stay zero in dialects with
        `padding_stays_zero`. Given masks have no effect in dialects without
        `mask_queries`.
      mask: a further mask, [Tq, Tk] or [N, H, Tq, Tk], such as `local_mask`.
      bias: float, broadcastable to [N, H, Tq, Tk], added to the logits; finite: what
        is forbidden belongs in `mask`.
      query_positions, key_positions: int [Tq], [Tk], for `causality` and relative
        positions. By default, keys have the positions 0, 1, ..., and queries continue
        after `past`.
      max_relative_position: int; distances beyond it share a vector (see
        `relative_positions`). None or 0: no relative positions.
      projected: (K, V) that `keys_and_values` has already computed from `keys`.
      past: KeyValueCache of the positions before `keys`. If the first call has
        `key_masks` = True, all others need it, too.
      dialect: a Dialect or its name, a key of `DIALECTS`.
      weights: dict; receives the attention weights [N, H, Tq, Tk] by scope name.
      dropout_seed: int [2] tensor: see `dropout`.

    Returns:
      float [N, Tq, D]; with `past`, (float [N, Tq, D], the next KeyValueCache).

    Raises:
      ValueError: an argument has a wrong type, rank or size, or eager mode is on;
        `num_heads` does not divide `num_units`, or the result cannot be added to the
        queries.
    """
    refuse_eager("multihead_attention")
    dialect = resolve(dialect)
    is_self = keys is queries
    queries = check_tensor(
        "multihead_attention: queries", queries, "float", "[N, Tq, D]"
    )
    if is_self:
        keys = queries
    else:
        keys = check_tensor("multihead_attention: keys", keys, "float", "[N, Tk, D]")
    width = queries.shape.as_list()[-1]
    num_units, num_heads = _attention_sizes(width, num_units, num_heads, dialect)
    check_is_training("multihead_attention", is_training)
    if attention_dropout is None:
        attention_dropout = dropout_rate if dialect.attention_dropout else 0.0
    stays_zero = dialect.padding_stays_zero and query_masks is None
    if query_masks is None and (dialect.mask_queries or stays_zero):
        query_masks = nonzero_rows(queries, dialect.padded_row)
    if key_masks is None:
        key_masks = nonzero_rows(keys, dialect.padded_row)
    warn_of_inverted(key_masks)
    query_masks = mask_to_bool(query_masks, "multihead_attention: query_masks")
    key_masks = mask_to_bool(key_masks, "multihead_attention: key_masks")
    mask = mask_to_bool(mask, "multihead_attention: mask")
    bias = None if bias is None else tf.cast(bias, tf.float32)
    _check_masks(queries, keys, query_masks, key_masks, past)
    seen = keys.shape.as_list()[1] if past is None else None  # the number of keys
    for name, x in (("mask", mask), ("bias", bias)):
        _check_pairs(name, x, queries, seen, num_heads)
    if causality or max_relative_position:
        past_length = 0 if past is None else tf.shape(past.keys)[2]
        if query_positions is None:
            query_positions = tf.range(tf.shape(queries)[1]) + past_length  # [Tq]
        if key_positions is None:
            key_positions = tf.range(tf.shape(keys)[1] + past_length)  # [Tk]
    if causality:
        mask = combine_masks(mask, causal_mask(query_positions, key_positions))

    def drop_weights(x):
        return dropout(x, attention_dropout, is_training, dropout_seed, "weights")

    with tf.variable_scope(scope, reuse=reuse):
        x = queries
        if dialect.norm == "before":
            x = normalize(x, dialect.norm_epsilon)
        Q = project(x, num_units, num_heads, dialect, "q")  # [N, H, Tq, D / H]
        if projected is None:
            keys = x if is_self else keys
            projected = keys_and_values(keys, num_units, num_heads, dialect)
        K, V = projected  # [N, H, Tk, D / H] each
        if past is not None:
            past = past.followed_by(K, V, key_masks)
            K = past.keys
            V = past.values
            if key_masks is not True or past.known_lengths()[1]:
                key_masks = past.mask
        relative = None
        if max_relative_position:
            relative = relative_positions(
                query_positions,
                key_positions,
                num_units // num_heads,
                max_relative_position,
            )
        mask, bias = mask_and_bias(dialect, key_masks, mask, bias)
        context, attention = scaled_dot_product_attention(
            Q,
            K,
            V,
            mask,
            bias=bias,
            relative=relative,
            fully_masked_is_zero=dialect.fully_masked_is_zero,
            drop=drop_weights,
        )  # [N, H, Tq, D / H], [N, H, Tq, Tk]
        if dialect.mask_queries and query_masks is not True:
            context *= tf.cast(query_masks, context.dtype)[..., None, :, None]
            attention *= tf.cast(query_masks, attention.dtype)[..., None, :, None]
        if weights is not None:
            weights[tf.get_variable_scope().name] = attention
        x = join_heads(context)  # [N, Tq, H * D / H]
        if dialect.output_projection:
            relu = tf.nn.relu if dialect.output_relu else None
            x = dense(x, width, dialect.output_bias, "o", relu)  # [N, Tq, D]
        x = _add_and_normalize(
            queries, x, dialect, dropout_rate, is_training, dropout_seed
        )
        if stays_zero:
            x *= tf.cast(query_masks, x.dtype)[..., None]
    return x if past is None else (x, past)


def feedforward(
    inputs,
    num_units: Sequence[int] = (2048, 512),
    scope: str = "feedforward",
    reuse: Optional[bool] = None,
    *,
    dropout_rate: float = 0,
    inner_dropout: Optional[float] = None,
    is_training=True,
    mask=None,
    dialect: Union[str, Dialect] = "paper",
    dropout_seed=None,
):
    """Compute max(0, x W1 + b1) W2 + b2, then add and normalize (equation 2).

    Args:
      inputs: float [N, T, D].
      num_units: (F, D): the inner width, and the width of `inputs`.
      scope, reuse: of the variables `inner/kernel` `inner/bias` `outer/kernel`
        `outer/bias` `ln/gamma` `ln/beta`.
      dropout_rate: float or scalar tensor, for the output and the inner layer, if the
        dialect has dropout there.
      inner_dropout: float or scalar tensor, the rate for the inner layer; by default,
        the dialect decides.
      is_training: Python bool or scalar bool tensor; False: no dropout.
      mask: bool or numbers [N, T]; where it is False or 0, the sub-layer adds nothing
        to its inputs. Python True: no position is masked. By default, rows that are
        exactly zero stay zero in dialects with `padding_stays_zero`.
      dialect: a Dialect or its name, a key of `DIALECTS`.
      dropout_seed: int [2] tensor: see `dropout`.

    Returns:
      float [N, T, D].

    Raises:
      ValueError: an argument has a wrong type, rank or size, or eager mode is on; the
        outer width is not the width of `inputs`.
    """
    refuse_eager("feedforward")
    check_is_training("feedforward", is_training)
    dialect = resolve(dialect)
    inputs = check_tensor("feedforward: inputs", inputs, "float", "[N, T, D]")
    batch, length, width = inputs.shape.as_list()
    if np.shape(num_units) != (2,):
        raise ValueError(
            f"feedforward: expected num_units = (F, D), got {num_units}; give both "
            f"widths, such as ({4 * width}, {width})"
        )
    inner_units, outer_units = (
        check_size("feedforward: num_units", each) for each in num_units
    )
    if dialect.residual and outer_units != width:
        raise ValueError(
            f"feedforward: expected num_units = (..., {width}), the width of the "
            f"inputs, got {tuple(num_units)}"
        )
    mask = mask_to_bool(mask, "feedforward: mask")
    if mask is not None and mask is not True:
        check_broadcast("feedforward: mask", mask, "[N, T]", (batch, length))
    if inner_dropout is None:
        inner_dropout = dropout_rate if dialect.inner_dropout else 0.0

    with tf.variable_scope(scope, reuse=reuse):
        x = inputs
        if dialect.norm == "before":
            x = normalize(x, dialect.norm_epsilon)
        x = dense(x, inner_units, True, "inner", tf.nn.relu)  # [N, T, F]
        x = dropout(x, inner_dropout, is_training, dropout_seed, "inner")
        x = dense(x, outer_units, True, "outer")  # [N, T, D]
        if mask is not None and mask is not True:
            x *= tf.cast(mask, x.dtype)[..., None]
        x = _add_and_normalize(
            inputs, x, dialect, dropout_rate, is_training, dropout_seed
        )
        if mask is None and dialect.padding_stays_zero:
            real = nonzero_rows(inputs, dialect.padded_row)
            x *= tf.cast(real, x.dtype)[..., None]
        return x


def _add_and_normalize(
    inputs, outputs, dialect: Dialect, dropout_rate, is_training, dropout_seed
):
    """Return LayerNorm(inputs + Dropout(outputs)), with the steps of the dialect.

    Args:
      inputs: float [N, T, D], the inputs of the sub-layer.
      outputs: float [N, T, D], its outputs.
      dialect: a Dialect; a pre-norm dialect does not normalize here.
      dropout_rate, is_training, dropout_seed: for the dropout of the outputs.
    """
    x = cast_to_float32(outputs)
    if dialect.residual_dropout:
        x = dropout(x, dropout_rate, is_training, dropout_seed, "residual")
    if dialect.residual:
        x = inputs + tf.cast(x, inputs.dtype)
    if dialect.norm == "after":
        x = normalize(x, dialect.norm_epsilon)
    return x


def _attention_sizes(width, num_units, num_heads, dialect) -> Tuple[int, int]:
    """Return num_units and num_heads as ints.

    Raises:
      ValueError: the width cannot be divided into heads, or added to the queries.
    """
    sizes = []
    given = width if num_units is None else num_units
    for name, size in (("num_units", given), ("num_heads", num_heads)):
        try:
            sizes.append(operator.index(size))
        except TypeError as error:
            advice = "give an int"
            if tf.is_tensor(size) or isinstance(size, np.ndarray):
                advice = (
                    "for (queries, keys, values, key_masks, ...) import it from "
                    "transformer.compat.kyubyong"
                )
            raise ValueError(
                f"multihead_attention: expected {name} to be an int, got "
                f"{type(size).__name__}; {advice}"
            ) from error
    num_units, num_heads = sizes
    if num_heads < 1 or num_units % num_heads:
        raise ValueError(
            "multihead_attention: expected num_heads to divide num_units = "
            f"{num_units}, got {num_heads}"
        )
    if num_units != width and not dialect.output_projection:
        raise ValueError(
            f"multihead_attention: expected num_units = {width}, the width of the "
            f"queries it is added to, got {num_units}"
        )
    return num_units, num_heads


def _check_masks(queries, keys, query_masks, key_masks, past) -> None:
    """Raise ValueError for keys and padding masks that do not fit the queries."""
    batch, query_length, _ = queries.shape.as_list()
    _, key_length, key_width = keys.shape.as_list()
    block = "multihead_attention"
    check_broadcast(f"{block}: keys", keys, "[N, Tk, D]", (batch, None, key_width))
    if query_masks is not None and query_masks is not True:
        sizes = (batch, query_length)
        check_broadcast(f"{block}: query_masks", query_masks, "[N, Tq]", sizes)
    if key_masks is True:
        return
    if key_masks.shape.ndims == 4:
        _check_pairs("key_masks", key_masks, queries, key_length, None)
    else:
        sizes = (batch, key_length)
        check_broadcast(f"{block}: key_masks", key_masks, "[N, Tk]", sizes)
    if past is None:
        return
    length, masked = past.known_lengths()
    if length and masked == 0:
        raise ValueError(
            f"{block}: key_masks: expected True, as for the {length} keys of past, got "
            "a mask; give True, or masks in every call"
        )
    shape = key_masks.shape.as_list()
    advice = ""
    if len(shape) not in (2, 4) or shape[0] == 1 and batch not in (1, None):
        advice = "repeat it for each of the N lines"
    elif shape[1:-1] not in ([], [1, 1]):
        advice = "give what depends on the query as mask"
    if advice:
        raise ValueError(
            f"{block}: key_masks: expected [N, Tk] or [N, 1, 1, Tk] with past, got "
            f"{key_masks.shape}; {advice}"
        )


def _check_pairs(name, x, queries, key_length, num_heads) -> None:
    """Raise ValueError for a mask or a bias that does not broadcast to [N, H, Tq, Tk].

    Three dimensions broadcast as [H, Tq, Tk], but most callers mean [N, Tq, Tk].
    """
    if x is None or x is True:
        return
    batch, query_length, _ = queries.shape.as_list()
    block = "multihead_attention"
    sizes = (batch, None, query_length, key_length)
    check_broadcast(f"{block}: {name}", x, "[N, H, Tq, Tk]", sizes)
    first = x.shape.as_list()[0] if x.shape.ndims == 3 else 1
    is_of_heads = first == num_heads and first != batch
    if first != 1 and not is_of_heads:
        raise ValueError(
            f"{block}: {name}: expected [Tq, Tk] or [N, H, Tq, Tk], got three "
            f"dimensions; for [N, Tq, Tk], give {name}[:, None], and for [H, Tq, Tk], "
            f"{name}[None]"
        )


def label_smoothing(inputs, epsilon: float = 0.1):
    """Return (1 - epsilon) * inputs + epsilon / V (section 5.4; Szegedy et al. 2015).

    Args:
      inputs: float [..., V], one-hot or any distribution.
      epsilon: float in [0, 1].

    Returns:
      float [..., V]. `[0, 1]` with epsilon 0.1 gives `[0.05, 0.95]`.

    Raises:
      ValueError: `inputs` have a wrong type or size, or epsilon a wrong value.
    """
    inputs = check_tensor("label_smoothing: inputs", inputs, "float", "[..., V]")
    is_number = not tf.is_tensor(epsilon)
    if is_number and (isinstance(epsilon, str) or not 0 <= epsilon <= 1):
        raise ValueError(
            f"label_smoothing: expected 0 <= epsilon <= 1, got {epsilon!r}"
        )
    return (1 - epsilon) * inputs + epsilon / inputs.shape.as_list()[-1]
