"""The functions of bojone/attention, `attention_tf.py`, built from our blocks.

They take lengths instead of masks, and add no residual connection, no normalization and
no output projection. The dimension letters are those of `modules`.
"""

from typing import Optional

import tensorflow.compat.v1 as tf

from transformer.blocks.arguments import check_size
from transformer.blocks.layers import (
    dense,
    expand_dims,
    join_heads,
    shape_list,
    split_heads,
)
from transformer.blocks.masks import mask_to_bias
from transformer.blocks.positions import interleaved_sinusoids
from transformer.compat.variables import original_variables
from transformer.modules import scaled_dot_product_attention

SUBTRACTED = 1e12  # by `mask` with mode "add"; its docstring states the value
# The original opens no scopes. The scopes of our blocks must not take a name that a
# caller may use, or the caller's scope "attention" would become "attention_1".
ATTENTION = "bojone.Attention"
DENSE = "bojone.Dense"


def attention(
    Q,
    K,
    V,
    nb_head: int,
    size_per_head: int,
    Q_len=None,
    V_len=None,
    scope: str = "attention",
    reuse: Optional[bool] = None,
):
    """Attend with several heads, and concatenate them (section 3.2.2).

    The values attended to are not projected.

    Args:
      Q: float [N, Tq, any width], the queries.
      K: float [N, Tk, any width], the keys.
      V: float [N, Tk, any width], the values.
      nb_head: int, H.
      size_per_head: int, the width of each head, d_k and d_v.
      Q_len: int [N], the lengths of the queries; output rows beyond are zeros.
      V_len: int [N], the lengths of the keys and values; keys beyond are masked. If
        all keys are masked, all have equal weights.
      scope, reuse: for the variables `q/kernel` `k/kernel` `v/kernel`; there are no
        biases.

    Returns:
      float [N, Tq, H * size_per_head].
    """
    if Q_len is not None:
        Q_len = _check_lengths(Q_len, "attention: Q_len")
    nb_head = check_size("attention: nb_head", nb_head)
    size_per_head = check_size("attention: size_per_head", size_per_head)
    with tf.variable_scope(scope, reuse=reuse):
        queries, keys, values = (
            split_heads(dense(x, nb_head * size_per_head, False, name), nb_head, x)
            for x, name in ((Q, "q"), (K, "k"), (V, "v"))
        )  # [N, H, T, size]
        bias = None
        if V_len is not None:
            # Subtracted, so that keys get gradients where all of them are masked.
            key_mask = expand_dims(_length_mask(V, V_len, "attention: V_len"), 1, 1)
            bias = mask_to_bias(key_mask, -SUBTRACTED)
        context, _ = scaled_dot_product_attention(queries, keys, values, bias=bias)
        return mask(join_heads(context), Q_len, "mul")


def position_embedding(inputs, position_size: int):
    """Return the sinusoids of section 3.5, with all cosines before all sines.

    Args:
      inputs: [N, T] or [N, T, any width], any type; only its shape is used.
      position_size: int, the width; if it is odd, there is one more sine than cosines.

    Returns:
      float32 [N, T, position_size], to be added or concatenated. With size 4,
      position 1 is `[cos 1, cos 0.01, sin 1, sin 0.01]`.
    """
    position_size = check_size("position_embedding: position_size", position_size)
    batch, length = shape_list(tf.convert_to_tensor(inputs))[:2]
    table = interleaved_sinusoids(tf.range(length), position_size)  # [T, size]
    encoding = tf.concat([table[:, 1::2], table[:, 0::2]], axis=-1)
    return tf.tile(expand_dims(encoding, 0), [batch, 1, 1])


def mask(inputs, seq_len, mode: str = "mul"):
    """Mask the positions beyond the length of each sequence.

    Args:
      inputs: float [N, T, ...].
      seq_len: int [N], the lengths; None returns `inputs`.
      mode: "mul" sets masked positions to zero; "add" subtracts 1e12 from them (in
        float16, half of the largest number), for a softmax or a maximum over T.

    Returns:
      A tensor like `inputs`.

    Raises:
      ValueError: `mode` is neither "mul" nor "add".
    """
    if mode not in ("mul", "add"):
        raise ValueError(f"mask: expected mode 'mul' or 'add', got {mode!r}")
    inputs = tf.convert_to_tensor(inputs)
    if seq_len is None:
        return inputs
    is_token = _length_mask(inputs, seq_len, "mask: seq_len")  # [N, T]
    ones = tf.ones([inputs.shape.ndims - 2], tf.int32)
    is_token = tf.reshape(is_token, tf.concat([tf.shape(is_token), ones], 0))
    if mode == "mul":
        return inputs * tf.cast(is_token, inputs.dtype)
    masked = inputs - min(SUBTRACTED, float(inputs.dtype.max) / 2)
    return tf.where_v2(is_token, inputs, masked)


# The original names


Mask = mask
Position_Embedding = position_embedding


@original_variables("bojone")
def Dense(inputs, ouput_size, bias=True, seq_len=None):
    """Return x W + b along the last axis; `ouput_size` (sic) is the new width.

    Args:
      inputs: float [N, ..., in].
      ouput_size: int.
      bias: bool, whether to add b.
      seq_len: int [N], the lengths; positions beyond the end become zeros.
    """
    outputs = dense(inputs, ouput_size, bias, DENSE)
    return mask(outputs, seq_len)


@original_variables("bojone")
def Attention(Q, K, V, nb_head, size_per_head, Q_len=None, V_len=None):
    """Attend with several heads, and join them: see `attention`."""
    return attention(Q, K, V, nb_head, size_per_head, Q_len, V_len, ATTENTION)


def _check_lengths(lengths, name):
    """Convert lengths to a tensor; raise ValueError if they are not [N]."""
    lengths = tf.convert_to_tensor(lengths)
    if lengths.shape.ndims not in (None, 1):
        raise ValueError(
            f"{name}: expected lengths [N], got {lengths.shape}; reshape them"
        )
    return lengths


def _length_mask(inputs, lengths, name):
    """Return bool [N, T] for inputs [N, T, ...]: True below each length, int [N]."""
    max_length = shape_list(tf.convert_to_tensor(inputs))[1]
    return tf.sequence_mask(_check_lengths(lengths, name), max_length)
