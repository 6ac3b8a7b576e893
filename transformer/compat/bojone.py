"""The functions of bojone/attention, `attention_tf.py`.

Instead of `from attention_tf import *`:

    from transformer.compat.bojone import *

Each call makes variables of its own, which nothing shares. They have no names:
TensorFlow calls them `Variable`, `Variable_1`, ... in the name scope of the caller, in
their order. An attention makes those of Q, K and V, a dense layer kernel and bias.

Where no sequence of a batch is as long as the batch is wide, a mask there has another
width than what it masks, and TensorFlow refuses it; here, it is as wide.
"""

import tensorflow.compat.v1 as tf

from transformer import functional
from transformer.blocks.primitives import dense
from transformer.compat.variables import variables_named_as

__all__ = ["Attention", "Dense", "Mask", "Position_Embedding", "tf"]

# The source opens no scopes. Those of our blocks must not take a name that a caller may
# want: its second "attention" would be "attention_1", and so would its variables.
ATTENTION, DENSE = "bojone.Attention", "bojone.Dense"


def Position_Embedding(inputs, position_size):
    """Return its sinusoids, cosines first: see `functional.position_embedding`.

    The width may be odd, which fails there.
    """
    return functional.position_embedding(inputs, position_size)


def Mask(inputs, seq_len, mode="mul"):
    """Mask what is after the end of each sequence: see `functional.mask`.

    A mode other than "mul" and "add" raises ValueError; there, it gives None.
    """
    return functional.mask(inputs, seq_len, mode)


@variables_named_as("bojone")
def Dense(inputs, ouput_size, bias=True, seq_len=None):
    """Return x W + b along the last axis; `ouput_size` (so spelled) is its width.

    Args:
      inputs: float [N, ..., in].
      ouput_size: int.
      bias: bool; without it, there is no b.
      seq_len: int [N]; what is after the end of each sequence becomes zeros.
    """
    outputs = dense(inputs, ouput_size, bias, DENSE)
    return functional.mask(outputs, seq_len)


@variables_named_as("bojone")
def Attention(Q, K, V, nb_head, size_per_head, Q_len=None, V_len=None):
    """Attend with several heads, and join them: see `functional.attention`."""
    return functional.attention(
        Q, K, V, nb_head, size_per_head, Q_len, V_len, ATTENTION
    )
