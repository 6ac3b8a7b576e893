"""The functions of bojone/attention, `attention_tf.py`.

Instead of `from attention_tf import *`:

    from transformer.compat.bojone import *

Each call creates new variables, which are never shared. The original does not name
them, so TensorFlow calls them `Variable`, `Variable_1`, ... in the caller's name scope,
in order of creation: Q, K and V for attention, kernel and bias for a dense layer.

If every sequence is shorter than the width of the batch, the original makes a mask that
is too narrow, and TensorFlow raises an error; here, the mask is as wide as the batch.
`Position_Embedding` with an odd width works here, and `Mask` with an unknown mode
raises ValueError.
"""

import tensorflow.compat.v1 as tf

from transformer import functional
from transformer.blocks.primitives import dense
from transformer.compat.variables import variables_named_as
from transformer.functional import mask as Mask
from transformer.functional import position_embedding as Position_Embedding

__all__ = ["Attention", "Dense", "Mask", "Position_Embedding", "tf"]

# The original opens no scopes. The scopes of our blocks must not take a name that a
# caller may use, or the caller's scope "attention" would become "attention_1".
ATTENTION = "bojone.Attention"
DENSE = "bojone.Dense"


@variables_named_as("bojone")
def Dense(inputs, ouput_size, bias=True, seq_len=None):
    """Return x W + b along the last axis; `ouput_size` (sic) is the new width.

    Args:
      inputs: float [N, ..., in].
      ouput_size: int.
      bias: bool, whether to add b.
      seq_len: int [N], the lengths; positions beyond the end become zeros.
    """
    outputs = dense(inputs, ouput_size, bias, DENSE)
    return Mask(outputs, seq_len)


@variables_named_as("bojone")
def Attention(Q, K, V, nb_head, size_per_head, Q_len=None, V_len=None):
    """Attend with several heads, and join them: see `functional.attention`."""
    return functional.attention(
        Q, K, V, nb_head, size_per_head, Q_len, V_len, ATTENTION
    )
