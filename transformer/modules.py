"""The building blocks of the Transformer, for any TensorFlow 1.x-style graph.

Dimension letters, here and in the other files of the Transformer: N batch, T length (S
and T: source and target length), Tq queries, Tk keys, H heads, D d_model, F d_ff,
V vocabulary.

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

import functools
import operator
from typing import Dict, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.arguments import (
    check_is_training,
    check_size,
    check_tensor,
    refuse_eager,
)
from transformer.blocks.attention import (
    KeyValueCache,
    RelativePositions,
    keys_and_values,
    local_attention,
    project,
    relative_bias,
    relative_positions,
    scaled_dot_product_attention,
)
from transformer.blocks.layers import (
    Dropout,
    cast_to_float32,
    dense,
    dropout,
    embedding_table,
    expand_dims,
    join_heads,
    look_up,
    normalize,
    shape_list,
)
from transformer.blocks.masks import (
    AttentionMasks,
    CallerMasks,
    causal_mask,
    is_token,
    local_mask,
    make_masks,
    nonzero_rows,
    normalize_masks,
    normalize_padding,
    padding_mask,
    proximity_bias,
    zero_masked,
)
from transformer.blocks.positions import POSITIONS
from transformer.dialects import Dialect, resolve

__all__ = [
    "AttentionMasks",
    "AttentionSettings",
    "Dropout",
    "FeedforwardSettings",
    "KeyValueCache",
    "RelativePositions",
    "attention_sublayer",
    "causal_mask",
    "dense",
    "dropout",
    "embedding",
    "embedding_table",
    "feedforward",
    "feedforward_sublayer",
    "keys_and_values",
    "label_smoothing",
    "local_attention",
    "local_mask",
    "make_masks",
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

    Each id selects a row of a table of variables. The rows are multiplied by sqrt(D).
    Padding, id 0, becomes a vector of zeros, so that later blocks can detect it.

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
    scales = tf.cast(is_token(inputs), outputs.dtype)  # 0 for padding
    return outputs * expand_dims(scales * (num_units**0.5 if scale else 1.0), -1)


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
    """Compute a vector for each position: sines and cosines (section 3.5).

    Attention does not see the order of its keys, so the position is added to each
    embedding. In the dialect "paper", each pair of channels holds the sine and the
    cosine of the position at one frequency; the frequencies fall from 1 towards
    1/10000. The dialect's field `positions` names the function. Padding gets zeros.

    Args:
      inputs: int [N, T] ids, or float [N, T, D]; only their shape, and which ids or
        rows are 0, matter.
      num_units: int, D.
      zero_pad: return zeros for padding (where `inputs` are 0), so that it can still be
        recognized; some dialects return zeros for position 0 instead.
      scale: multiply by sqrt(num_units); by default, the dialect decides: "paper" does
        not scale, the tutorials do.
      scope, reuse: for the names of the ops; there are no variables.
      positions: int [T], from 0, without a maximum; by default 0, 1, ..., T - 1. If
        they are float64, the sines are computed in float64.
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
        positions = tf.range(length) if positions is None else positions
        table = tf.cast(POSITIONS[dialect.positions](positions, num_units), tf.float32)
        scale = dialect.scaled_positions if scale is None else scale
        if scale:
            table *= num_units**0.5  # [T, D]
        if zero_pad and dialect.first_position_padded:
            table *= expand_dims(tf.cast(tf.not_equal(positions, 0), tf.float32), 1)
        elif zero_pad:
            is_ids = inputs.shape.ndims == 2
            mask = tf.not_equal(inputs, 0) if is_ids else nonzero_rows(inputs)
            return table * expand_dims(tf.cast(mask, tf.float32), -1)  # [N, T, D]
        return tf.tile(expand_dims(table, 0), [batch, 1, 1])  # [N, T, D]


class HeadTensors(NamedTuple):
    """What the heads of an attention compute."""

    queries: tf.Tensor  # float [N, H, Tq, d_k]
    keys: tf.Tensor  # float [N, H, Tk, d_k]
    values: tf.Tensor  # float [N, H, Tk, d_v]
    # float [N, H, Tq, d_v], softmax(Q K^T / sqrt(d_k)) V; zero where a head is off
    context: tf.Tensor


class Probe(NamedTuple):
    """Reads the tensors of sub-layers, and switches attention heads off, by scope name.

    A head is off if the head mask makes its context zero: the other heads, W^O and the
    residual connection stay as they are (Michel et al. 2019, "Are Sixteen Heads Really
    Better than One?", equation 2; Voita et al. 2019).
    """

    head_masks: Dict[str, tf.Tensor]  # float [N, H] of each attention, 0 = off
    heads: Dict[str, HeadTensors]  # receives those of each attention
    # Receives float [N, T, D] of each sub-layer: its inputs and outputs, added.
    sums: Dict[str, tf.Tensor]

    def read_heads(self, name: str, tensors: HeadTensors) -> tf.Tensor:
        """Read the tensors of an attention; return its context without masked heads."""
        mask = tf.cast(self.head_masks[name], tensors.context.dtype)
        context = tensors.context * mask[:, :, None, None]
        self.heads[name] = tensors._replace(context=context)
        return context

    def read_sum(self, name: str, inputs: tf.Tensor, outputs: tf.Tensor) -> None:
        """Read what a sub-layer normalizes, if its dialect does so after it."""
        self.sums[name] = inputs + tf.cast(outputs, inputs.dtype)


class AttentionSettings(NamedTuple):
    """The arguments of `attention_sublayer` that all blocks of a model share."""

    num_units: int  # the width of the keys of all heads together
    num_heads: int  # H
    dialect: Dialect
    dropout: Dropout = Dropout()  # of the outputs
    weights_dropout: Dropout = Dropout()  # of the attention weights
    weights: Optional[Dict] = None  # receives [N, H, Tq, Tk] by scope name
    value_units: Optional[int] = None  # the width of all values; None: num_units
    probe: Optional[Probe] = None


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
    max_relative_position: Optional[int] = None,
    attention_dropout: Optional[float] = None,
    dialect: Union[str, Dialect] = "paper",
    weights: Optional[Dict] = None,
):
    """Perform multi-head attention, then add and normalize (section 3.2.2).

    First, the masks are combined. Keys that are padding are masked. By default, the
    dialect's `padded_row` tells which rows of `keys` these are: in "paper", those that
    are exactly zero. With `causality`, the keys after a query are masked, too.

    Then `queries` are projected to Q, and `keys` to K and V. Each is split into
    `num_heads` heads of the width num_units / num_heads. (In practice, one matrix
    product projects all heads, and a transposition separates them.)

    Each head computes softmax(Q K^T / sqrt(d_k)) V. Masked keys get the weight 0. A
    query that may attend to nothing gets zeros in the dialect "paper".

    Finally, the heads are concatenated and projected to the width of `queries`;
    dropout is applied, `queries` are added, and the sum is normalized. Without
    `query_masks`, rows of `queries` that are padding stay zero in the dialect "paper".

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
      key_masks: bool or numbers [N, Tk] or [N, 1, 1, Tk], False or 0 = padding; Python
        True: no key is padding. By default, the dialect's `padded_row` tells which rows
        of `keys` are padding.
      query_masks: bool or numbers [N, Tq], or True; no effect in dialects without
        `mask_queries`. By default, the dialect's `padded_row` tells which rows of
        `queries` are padding; they stay zero in dialects with `padding_stays_zero`.
      mask: a further mask, [Tq, Tk] or [N, H, Tq, Tk], such as `local_mask`.
      bias: float, broadcastable to [N, H, Tq, Tk], added to the logits; finite: what
        is forbidden belongs in `mask`.
      max_relative_position: int; distances beyond it share a vector (see
        `relative_positions`). None or 0: no relative positions.
      attention_dropout: float or scalar tensor, the rate for the attention weights; by
        default, the dialect decides.
      dialect: a Dialect or its name, a key of `DIALECTS`.
      weights: dict; receives the attention weights [N, H, Tq, Tk] by scope name.

    Returns:
      float [N, Tq, D].

    Raises:
      ValueError: an argument has a wrong type, rank or size, or eager mode is on;
        `num_heads` does not divide `num_units`, or the result cannot be added to the
        queries.
      tf.errors.InvalidArgumentError: when the graph runs, a mask is negative somewhere
        (it is a bias), or True exactly for padding, rows of zeros (it is inverted).

    Warns:
      UserWarning: a mask that is computed from ids or lengths allows padding alone, or
        forbids queries instead of keys; a bias lowers tokens instead of padding, or
        has the zeros and ones of a mask.
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
    num_units, num_heads = _check_heads(width, num_units, num_heads, dialect)
    check_is_training("multihead_attention", is_training)
    caller_masks = CallerMasks(key_masks, query_masks, mask, bias)
    masks = normalize_masks(dialect, queries, keys, num_heads, caller_masks, causality)
    relative = None
    if max_relative_position:
        relative = RelativePositions(
            tf.range(tf.shape(queries)[1]),
            tf.range(tf.shape(keys)[1]),
            max_relative_position,
        )
    output_dropout = Dropout(dropout_rate, is_training)
    settings = AttentionSettings(
        num_units,
        num_heads,
        dialect,
        output_dropout,
        output_dropout.replace_rate(attention_dropout, dialect.attention_dropout),
        weights,
    )
    outputs, _ = attention_sublayer(
        queries, keys, masks, settings, scope, reuse, relative
    )
    if query_masks is None:
        return _zero_padding(outputs, queries, dialect)
    return outputs


def attention_sublayer(
    queries,
    keys,
    masks: AttentionMasks,
    settings: AttentionSettings,
    scope: str,
    reuse: Optional[bool] = None,
    relative: Optional[RelativePositions] = None,
    past: Optional[KeyValueCache] = None,
) -> Tuple[tf.Tensor, KeyValueCache]:
    """Perform `multihead_attention` with masks that are already made.

    It does not check its arguments, finds no padding, and does not zero the outputs of
    padding. The model calls it in training, and in each step of a search.

    Args:
      queries: float [N, Tq, D].
      keys: float [N, Tk, any width]; for self-attention, the same tensor as `queries`.
        Or a KeyValueCache: the keys and values are already computed.
      masks: AttentionMasks for all keys, those of `past` included.
      settings: AttentionSettings.
      scope, reuse: as in `multihead_attention`.
      relative: RelativePositions of the queries and all keys, or None.
      past: KeyValueCache of the positions before `keys`, or None.

    Returns:
      (float [N, Tq, D], the KeyValueCache of all keys).
    """
    num_units = settings.num_units
    value_units = num_units if settings.value_units is None else settings.value_units
    num_heads = settings.num_heads
    dialect = settings.dialect
    with tf.variable_scope(scope, reuse=reuse):
        x = _normalize_inputs(queries, dialect)
        Q = project(x, num_units, num_heads, dialect, "q")  # [N, H, Tq, d_k]
        if isinstance(keys, KeyValueCache):
            present = keys  # [N, H, Tk, d_k], [N, H, Tk, d_v]
        else:
            keys = x if keys is queries else keys
            present = keys_and_values(keys, num_units, num_heads, dialect, value_units)
        if past is not None:
            present = past.append(present)
        relative_vectors = None
        if relative is not None:
            widths = (num_units // num_heads, value_units // num_heads)
            relative_vectors = relative.look_up(*widths)
        context, attention = scaled_dot_product_attention(
            Q,
            present.keys,
            present.values,
            masks.allowed,
            bias=masks.bias,
            relative=relative_vectors,
            fully_masked_is_zero=dialect.fully_masked_is_zero,
            drop=functools.partial(settings.weights_dropout.apply, name="weights"),
        )  # [N, H, Tq, d_v], [N, H, Tq, Tk]
        context = zero_masked(context, masks.queries)
        name = tf.get_variable_scope().name
        if settings.weights is not None:
            settings.weights[name] = zero_masked(attention, masks.queries)
        if settings.probe is not None:
            context = settings.probe.read_heads(name, HeadTensors(Q, *present, context))
        x = join_heads(context)  # [N, Tq, H * d_v]
        x = _project_outputs(x, queries.shape.as_list()[-1], dialect)  # [N, Tq, D]
        if settings.probe is not None:
            settings.probe.read_sum(name, queries, x)
        return _add_and_normalize(queries, x, dialect, settings.dropout), present


class FeedforwardSettings(NamedTuple):
    """The arguments of `feedforward_sublayer` that all blocks of a model share."""

    num_units: Tuple[int, int]  # F and D
    dialect: Dialect
    dropout: Dropout = Dropout()  # of the outputs
    inner_dropout: Dropout = Dropout()  # of the inner layer
    probe: Optional[Probe] = None


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
):
    """Compute max(0, x W1 + b1) W2 + b2, then add and normalize (equation 2).

    Each position goes through the same two dense layers: the first widens it from D to
    F and applies a ReLU, the second returns to D. Then dropout is applied, `inputs` are
    added, and the sum is normalized. No position sees another one. Without `mask`,
    rows of `inputs` that are padding (exactly zero) stay zero in the dialect "paper".

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
        to its inputs. Python True: no position is masked. By default, rows of padding
        (see the dialect's `padded_row`) stay zero in dialects with
        `padding_stays_zero`.
      dialect: a Dialect or its name, a key of `DIALECTS`.

    Returns:
      float [N, T, D].

    Raises:
      ValueError: an argument has a wrong type, rank or size, or eager mode is on; the
        outer width is not the width of `inputs`.
      tf.errors.InvalidArgumentError: when the graph runs: as in `multihead_attention`.
    """
    refuse_eager("feedforward")
    check_is_training("feedforward", is_training)
    dialect = resolve(dialect)
    inputs = check_tensor("feedforward: inputs", inputs, "float", "[N, T, D]")
    num_units = _check_widths(inputs.shape.as_list()[-1], num_units, dialect)
    token_mask = None
    if mask is not None:
        token_mask = normalize_padding("feedforward: mask", mask, inputs)
    output_dropout = Dropout(dropout_rate, is_training)
    settings = FeedforwardSettings(
        num_units,
        dialect,
        output_dropout,
        output_dropout.replace_rate(inner_dropout, dialect.inner_dropout),
    )
    outputs = feedforward_sublayer(inputs, settings, scope, reuse, token_mask)
    return _zero_padding(outputs, inputs, dialect) if mask is None else outputs


def feedforward_sublayer(
    inputs,
    settings: FeedforwardSettings,
    scope: str,
    reuse: Optional[bool] = None,
    mask=None,
):
    """Compute `feedforward` with a mask that is already made.

    It does not check its arguments, finds no padding, and does not zero the outputs of
    padding.

    Args:
      inputs: float [N, T, D].
      settings: FeedforwardSettings.
      scope, reuse: as in `feedforward`.
      mask: bool [N, T, 1]; where it is False, nothing is added to the inputs. None: no
        position is masked.

    Returns:
      float [N, T, D].
    """
    inner_units, outer_units = settings.num_units
    dialect = settings.dialect
    with tf.variable_scope(scope, reuse=reuse):
        x = _normalize_inputs(inputs, dialect)
        x = dense(x, inner_units, True, "inner", tf.nn.relu)  # [N, T, F]
        x = settings.inner_dropout.apply(x, "inner")
        x = dense(x, outer_units, True, "outer")  # [N, T, D]
        x = zero_masked(x, mask)
        if settings.probe is not None:
            settings.probe.read_sum(tf.get_variable_scope().name, inputs, x)
        return _add_and_normalize(inputs, x, dialect, settings.dropout)


def _project_outputs(x, width: int, dialect: Dialect):
    """Multiply the concatenated heads by W^O, if the dialect does."""
    if not dialect.output_projection:
        return x
    activation = tf.nn.relu if dialect.output_relu else None
    return dense(x, width, dialect.output_bias, "o", activation)


def _normalize_inputs(inputs, dialect: Dialect):
    """Normalize the inputs of a sub-layer in a pre-norm dialect: float [N, T, D]."""
    if dialect.norm == "before":
        return normalize(inputs, dialect.norm_epsilon)
    return inputs


def _add_and_normalize(inputs, outputs, dialect: Dialect, dropout: Dropout):
    """Compute LayerNorm(inputs + Dropout(outputs)), with the steps of the dialect.

    Args:
      inputs: float [N, T, D], the inputs of the sub-layer.
      outputs: float [N, T, D], its outputs.
      dialect: a Dialect; a pre-norm dialect does not normalize here.
      dropout: Dropout of the outputs.
    """
    x = cast_to_float32(outputs)
    if dialect.residual_dropout:
        x = dropout.apply(x, "residual")
    if dialect.residual:
        x = inputs + tf.cast(x, inputs.dtype)
    if dialect.norm == "after":
        x = normalize(x, dialect.norm_epsilon)
    return x


def _zero_padding(outputs, inputs, dialect: Dialect):
    """Zero the outputs of padding, so that the next block detects it, too.

    Args:
      outputs: float [N, T, D].
      inputs: float [N, T, D], whose rows of padding are zero.
      dialect: a Dialect; not all keep padding zero.
    """
    if dialect.padding_stays_zero:
        token_mask = nonzero_rows(inputs, dialect.padded_row)  # [N, T]
        outputs = zero_masked(outputs, expand_dims(token_mask, -1))
    return outputs


def _check_heads(width, num_units, num_heads, dialect) -> Tuple[int, int]:
    """Convert num_units and num_heads to ints, and check them.

    Raises:
      ValueError: the width cannot be divided into heads, or added to the queries.
    """
    sizes = []
    if num_units is None:
        num_units = width
    for name, size in (("num_units", num_units), ("num_heads", num_heads)):
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


def _check_widths(width: int, num_units, dialect: Dialect) -> Tuple[int, int]:
    """Convert the widths (F, D) of a feed-forward layer to ints, and check them.

    Raises:
      ValueError: they are not two sizes, or the result cannot be added to the inputs.
    """
    if np.shape(num_units) != (2,):
        raise ValueError(
            f"feedforward: expected num_units = (F, D), got {num_units}; give both "
            f"widths, such as ({4 * width}, {width})"
        )
    inner, outer = (check_size("feedforward: num_units", size) for size in num_units)
    if dialect.residual and outer != width:
        raise ValueError(
            f"feedforward: expected num_units = (..., {width}), the width of the "
            f"inputs, got {tuple(num_units)}"
        )
    return inner, outer


def label_smoothing(inputs, epsilon: float = 0.1):
    """Compute (1 - epsilon) * inputs + epsilon / V (section 5.4; Szegedy et al. 2015).

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
