"""The modules of Kyubyong/transformer, tf1.2_legacy, and of code derived from them.

Instead of `from modules import *`:

    from transformer.compat.kyubyong_legacy import *

`normalize` creates new variables in each call, even with `reuse`: in the original, they
are anonymous. Like the original, this module exports `tf` (`tensorflow.compat.v1`) and
`np`.
"""

import numpy as np
import tensorflow.compat.v1 as tf

from transformer import modules
from transformer.blocks.layers import embedding_table, look_up, zero_first_row
from transformer.compat.variables import original_variables
from transformer.dialects import DIALECTS
from transformer.modules import label_smoothing

__all__ = [
    "embedding",
    "feedforward",
    "label_smoothing",
    "multihead_attention",
    "normalize",
    "np",
    "positional_encoding",
    "tf",
]

DIALECT = DIALECTS["kyubyong_legacy"]


@original_variables("kyubyong_legacy")
def normalize(inputs, epsilon=1e-8, scope="ln", reuse=None):
    """Normalize the last axis: see `modules.normalize`. Variables are never shared."""
    return modules.normalize(inputs, epsilon, scope, reuse)


@original_variables("kyubyong_legacy")
def embedding(
    inputs,
    vocab_size,
    num_units,
    zero_pad=True,
    scale=True,
    scope="embedding",
    reuse=None,
):
    """Turn ids into vectors: see `modules.embedding`.

    With `zero_pad`, the gradient of the table is dense, as in the original: clipping by
    norm, and optimizers with slots, treat it differently from `tf.IndexedSlices`.
    """
    table = embedding_table(vocab_size, num_units, scope, reuse)
    return look_up(zero_first_row(table) if zero_pad else table, inputs, scale)


def positional_encoding(
    inputs,
    num_units,
    zero_pad=True,
    scale=True,
    scope="positional_encoding",
    reuse=None,
):
    """Return the position encoding, float32 [N, T, D], for any N and T.

    See `modules.positional_encoding`; `zero_pad` zeroes position 0.
    """
    return modules.positional_encoding(
        inputs, num_units, zero_pad, scale, scope, reuse, dialect=DIALECT
    )


@original_variables("kyubyong_legacy")
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
):
    """Attend with several heads, then add and normalize: see `modules`."""
    return modules.multihead_attention(
        queries,
        keys,
        num_units,
        num_heads,
        dropout_rate,
        is_training,
        causality,
        scope,
        reuse,
        dialect=DIALECT,
    )


@original_variables("kyubyong_legacy")
def feedforward(inputs, num_units=(2048, 512), scope="multihead_attention", reuse=None):
    """Apply two dense layers, then add and normalize: see `modules.feedforward`.

    The default scope is the same as for attention, as in the original; the variable
    names differ.
    """
    return modules.feedforward(inputs, num_units, scope, reuse, dialect=DIALECT)
