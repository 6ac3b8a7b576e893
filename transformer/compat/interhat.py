"""The modules of zyli93/InterHAt, a model of feature interactions.

Instead of `from modules import ...`:

    from transformer.compat.interhat import *

Like `tutorial`, but attention projects its output (with a bias and a ReLU), takes no
`causality`, and returns its weights as well; `zero_pad` is False by default.
"""

import tensorflow.compat.v1 as tf

from transformer import modules
from transformer.blocks.layers import shape_list
from transformer.compat import kyubyong_legacy
from transformer.compat.kyubyong_legacy import *  # noqa: F403
from transformer.compat.variables import original_variables
from transformer.dialects import DIALECTS

__all__ = kyubyong_legacy.__all__

DIALECT = DIALECTS["tutorial"]._replace(
    described_in="zyli93/InterHAt",
    output_projection=True,
    output_bias=True,
    output_relu=True,
)


def embedding(  # type: ignore[no-redef]
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


@original_variables("interhat")  # type: ignore[no-redef]
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
      (float [N, Tq, D], weights [H * N, Tq, Tk] before dropout and query masks).
    """
    weights_by_scope = {}
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
        weights=weights_by_scope,
    )
    [masked_weights] = weights_by_scope.values()
    weights = masked_weights.op.inputs[0]  # before the query masks: [N, H, Tq, Tk]
    lengths = shape_list(weights)[2:]
    weights = tf.reshape(tf.transpose(weights, [1, 0, 2, 3]), [-1, *lengths])
    return outputs, weights  # [N, Tq, D], [H * N, Tq, Tk]
