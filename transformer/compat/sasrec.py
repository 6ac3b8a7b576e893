"""The modules of kang205/SASRec, the sequential recommender.

Instead of `from modules import *`:

    from transformer.compat.sasrec import *

Attention has no ReLU, adds the queries, and does not normalize: the program calls
`normalize` first. The feed-forward has dropout after each layer.
"""

import numpy as np
import tensorflow.compat.v1 as tf

from transformer import modules
from transformer.blocks.arguments import check_size
from transformer.blocks.layers import dense, embedding_table, look_up, zero_first_row
from transformer.compat.kyubyong_legacy import normalize
from transformer.compat.variables import l2_regularizer, original_variables
from transformer.dialects import DIALECTS

__all__ = [
    "embedding",
    "feedforward",
    "multihead_attention",
    "normalize",
    "np",
    "positional_encoding",
    "tf",
]

ATTENTION = DIALECTS["kyubyong_legacy"]._replace(
    described_in="kang205/SASRec, multihead_attention", projection_relu=False, norm=""
)
FEEDFORWARD = ATTENTION._replace(
    described_in="kang205/SASRec, feedforward",
    inner_dropout=True,
    residual_dropout=True,
)
FEEDFORWARD_ONLY = FEEDFORWARD._replace(residual=False)


def positional_encoding(dim, sentence_length, dtype=tf.float32):
    """Return the sinusoids of positions 0, 1, ...: [sentence_length, dim].

    Raises:
      ValueError: `dim` is odd; in that case, the original swaps channels.
    """
    dim = check_size("positional_encoding: dim", dim)
    if dim % 2:
        raise ValueError(f"positional_encoding: expected an even dim, got {dim}")
    return tf.cast(
        modules.positional_encoding(
            tf.zeros([1, sentence_length], tf.int32),
            dim,
            zero_pad=False,
            scale=False,
            dialect=ATTENTION,
        )[0],
        dtype,
    )


def embedding(
    inputs,
    vocab_size,
    num_units,
    zero_pad=True,
    scale=True,
    l2_reg=0.0,
    scope="embedding",
    with_t=False,
    reuse=None,
):
    """Turn ids into vectors; with `with_t`, return the table as well.

    Args:
      inputs: int [N, T].
      vocab_size, num_units: int, V and D.
      zero_pad: whether row 0 of the table is zeros; the gradient of the table is then
        dense.
      scale: whether to multiply by sqrt(num_units).
      l2_reg: float; l2_reg / 2 times the sum of squares of the table is added to the
        collection `tf.GraphKeys.REGULARIZATION_LOSSES`.
      scope, reuse: for the variable `lookup_table` [V, D].
      with_t: whether to return the table, too.

    Returns:
      float [N, T, D]; with `with_t`, (float [N, T, D], the unscaled table [V, D]).
    """
    with original_variables("sasrec", l2_regularizer(l2_reg)):
        table = embedding_table(vocab_size, num_units, scope, reuse)
    table = zero_first_row(table) if zero_pad else table
    outputs = look_up(table, inputs, scale)
    return (outputs, table) if with_t else outputs


@original_variables("sasrec")
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
    with_qk=False,
    *,
    dialect=ATTENTION,
):
    """Attend with several heads and add the queries: see `modules`.

    Returns:
      float [N, Tq, D]; with `with_qk`, instead (Q [N, Tq, D], K [N, Tk, D]), not split
      into heads.
    """
    outputs = modules.multihead_attention(
        queries,
        keys,
        num_units,
        num_heads,
        dropout_rate,
        is_training,
        causality,
        scope,
        reuse,
        dialect=dialect,
    )
    if not with_qk:
        return outputs
    num_units = num_units or queries.shape.as_list()[-1]
    with tf.variable_scope(scope, reuse=True):
        return tuple(
            dense(x, num_units, dialect.projection_bias, name)
            for x, name in ((queries, "q"), (keys, "k"))
        )


@original_variables("sasrec")
def feedforward(
    inputs,
    num_units=(2048, 512),
    scope="multihead_attention",
    dropout_rate=0.2,
    is_training=True,
    reuse=None,
    *,
    adds=lambda num_units, width: num_units[1] == width,
):
    """Apply two dense layers, dropout after each, and add: see `modules.feedforward`.

    Args:
      adds: function of `num_units` and the width of `inputs`; True: the inputs are
        added. If the widths differ, the original fails; here, nothing is added.
    """
    is_residual = adds(num_units, inputs.shape.as_list()[-1])
    return modules.feedforward(
        inputs,
        num_units,
        scope,
        reuse,
        dropout_rate=dropout_rate,
        is_training=is_training,
        dialect=FEEDFORWARD if is_residual else FEEDFORWARD_ONLY,
    )
