"""The modules of zyli93/InterHAt, a model of feature interactions.

Instead of `from modules import ...`:

    from transformer.compat.interhat import *

Like `tutorial`, but attention projects its output (with a bias and a ReLU), takes no
`causality`, and returns its weights as well; `zero_pad` is False by default.
"""

import numpy as np
import tensorflow.compat.v1 as tf

from transformer import modules
from transformer.blocks.attention import broadcast_keys, found_mask
from transformer.blocks.primitives import project, stack_heads
from transformer.compat import kyubyong_legacy
from transformer.compat.kyubyong_legacy import (
    feedforward,
    label_smoothing,
    normalize,
    positional_encoding,
)
from transformer.compat.variables import variables_named_as
from transformer.dialects import DIALECTS

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

DIALECT = DIALECTS["tutorial"]._replace(
    described_in="zyli93/InterHAt",
    output_projection=True,
    output_bias=True,
    output_relu=True,
)


def embedding(
    inputs,
    vocab_size,
    num_units,
    zero_pad=False,
    scale=True,
    scope="embedding",
    reuse=None,
):
    """Turn ids into vectors: see `modules.embedding`; id 0 is an ordinary feature."""
    return kyubyong_legacy.embedding(
        inputs, vocab_size, num_units, zero_pad, scale, scope, reuse
    )


@variables_named_as("interhat")
def multihead_attention(
    queries,
    keys,
    num_units=None,
    num_heads=8,
    dropout_rate=0,
    is_training=True,
    scope="multihead_attention",
    reuse=None,
):
    """Attend with several heads, project, add and normalize: see `modules`.

    Returns:
      (float [N, Tq, D], the weights before dropout and query masks [H * N, Tq, Tk]).
    """
    outputs = modules.multihead_attention(
        queries,
        keys,
        num_units,
        num_heads,
        dropout_rate,
        is_training,
        scope=scope,
        reuse=reuse,
        dialect=DIALECT,
    )
    return outputs, _weights(queries, keys, num_units, num_heads, scope)


def _weights(queries, keys, num_units, num_heads, scope):
    """Return the weights of the attention in `scope`, with those of padded queries."""
    num_units = num_units or queries.shape.as_list()[-1]
    # Without a name scope, which would rename the anonymous variables of later calls.
    with tf.variable_scope(scope, reuse=True, auxiliary_name_scope=False):
        Q = project(queries, num_units, num_heads, DIALECT, "q")
        K = project(keys, num_units, num_heads, DIALECT, "k")
    real = broadcast_keys(found_mask(keys, DIALECT.padded_row))
    _, weights = modules.scaled_dot_product_attention(
        Q, K, K, real, fully_masked_is_zero=DIALECT.fully_masked_is_zero
    )
    return stack_heads(weights)
