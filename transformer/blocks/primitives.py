"""What the blocks are made of: shapes, dropout, the dense layer, heads."""

import zlib

import numpy as np
import tensorflow.compat.v1 as tf


def shape_list(x):
    """The shape of `x` as a list: an int where it is known, else a scalar tensor."""
    static, dynamic = x.shape.as_list(), tf.shape(x)
    return [dynamic[i] if size is None else size for i, size in enumerate(static)]


def reshape(x, shape):
    """tf.reshape to a shape as `shape_list` gives it: of one unknown size, what it is
    need not be computed."""
    unknown = [tf.is_tensor(size) for size in shape]
    if sum(unknown) == 1:
        shape = [-1 if is_unknown else size for size, is_unknown in zip(shape, unknown)]
    return tf.reshape(x, shape)


def dropout(inputs, rate, is_training=True, seed=None, name="dropout"):
    """Zeroes elements with probability `rate` and scales up the rest (section 5.4).

    Args:
      inputs: float tensor of any shape.
      rate: Python float in [0, 1), used to the nearest 256th below 1.
      is_training: Python bool or scalar bool tensor; False returns `inputs`.
      seed: int [2] tensor. With it the mask is a function of the seed, of the variable
        scope and of `name` alone; without, every run draws anew.
      name: tells the dropouts of one scope apart.

    Returns:
      A tensor like `inputs`.
    """
    if not 0 <= rate < 1:
        raise ValueError(f"dropout: found rate {rate}, wanted 0 <= rate < 1")
    if tf.is_tensor(is_training):
        return tf.cond(
            is_training,
            lambda: dropout(inputs, rate, True, seed, name),
            lambda: tf.identity(inputs),
        )
    if rate == 0 or not is_training:
        return inputs
    threshold = min(round(rate * 256), 255)
    keep = _random_bytes(tf.shape(inputs), seed, name) >= np.uint8(threshold)
    return inputs * (tf.cast(keep, inputs.dtype) * (256 / (256 - threshold)))


def _random_bytes(shape, seed, name):
    """Uniform uint8 of a shape: a quarter of the random bits that floats would need."""
    size = tf.reduce_prod(shape)
    if seed is None:
        seed = tf.random_uniform([2], maxval=2**31 - 1, dtype=tf.int32)
    place = zlib.crc32(f"{tf.get_variable_scope().name}/{name}".encode())
    seed = tf.cast(seed, tf.int64) + tf.constant([place, 0], tf.int64)
    words = tf.random.stateless_uniform(
        [(size + 3) // 4], seed, -(2**31), 2**31 - 1, tf.int32
    )
    return tf.reshape(tf.reshape(tf.bitcast(words, tf.uint8), [-1])[:size], shape)


def dense(inputs, num_units, use_bias, scope, activation=None):
    """activation(x W + b) along the last axis; variables `kernel` [in, out] and `bias`.

    Args:
      inputs: float [..., in], `in` known.
      num_units: int, the width of the result.

    Returns:
      float [..., num_units].
    """
    return dense_side_by_side(inputs, num_units, use_bias, [scope], activation)


def dense_side_by_side(inputs, num_units, use_bias, scopes, activation=None):
    """Several dense layers of the same inputs, by one product.

    Args:
      scopes: of the variables of each layer.

    Returns:
      float [..., len(scopes) * num_units], the results side by side.
    """
    *leading, width = shape_list(inputs)
    kernels, biases = zip(
        *[dense_variables(width, num_units, use_bias, scope) for scope in scopes]
    )
    outputs = tf.matmul(tf.reshape(inputs, [-1, width]), _side_by_side(kernels))
    if use_bias:
        outputs = tf.nn.bias_add(outputs, _side_by_side(biases))
    if activation is not None:
        outputs = activation(outputs)
    return reshape(outputs, leading + [len(scopes) * num_units])


def dense_variables(width, num_units, use_bias, scope):
    """The variables of a dense layer: (kernel [width, num_units], bias or None)."""
    bias = None
    with tf.variable_scope(scope):
        kernel = tf.get_variable(
            "kernel", [width, num_units], initializer=tf.glorot_uniform_initializer()
        )
        if use_bias:
            bias = tf.get_variable(
                "bias", [num_units], initializer=tf.zeros_initializer()
            )
    return kernel, bias


def _side_by_side(variables):
    """The variables joined along their last axis; once, where a loop uses them."""
    if len(variables) == 1:
        return variables[0]
    with tf.control_dependencies(None):
        return tf.concat(variables, axis=-1)


@tf.custom_gradient
def with_dense_gradient(table):
    """The table itself, to look rows up in. Its gradient is made dense before it meets
    another (that of a tied output layer, say), for TensorFlow would otherwise turn that
    one into a slice for each row."""
    return tf.identity(table), tf.convert_to_tensor


def split_heads(x, num_heads):
    """[N, T, D] → [N, H, T, D / H]."""
    batch, length, width = shape_list(x)
    x = reshape(x, [batch, length, num_heads, width // num_heads])
    return tf.transpose(x, [0, 2, 1, 3])


def join_heads(x):
    """[N, H, T, D / H] → [N, T, D]."""
    batch, num_heads, length, width = shape_list(x)
    return reshape(tf.transpose(x, [0, 2, 1, 3]), [batch, length, num_heads * width])
