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

`functions` has the same functions with scopes, shared variables and lower-case names;
`layers` has the layers of `attention_keras.py`.
"""

import tensorflow.compat.v1 as tf

from transformer.compat.bojone.functions import (
    Attention,
    Dense,
    Mask,
    Position_Embedding,
)

__all__ = ["Attention", "Dense", "Mask", "Position_Embedding", "tf"]
