"""Shapes and types of tensors: sizes, heads, 16 bits as 32, integers of a device."""

import tensorflow.compat.v1 as tf


def shape_list(x):
    """Return the shape of `x` as a list: ints where known, else scalar tensors."""
    static, dynamic = x.shape.as_list(), tf.shape(x)
    return [dynamic[i] if size is None else size for i, size in enumerate(static)]


def widened(x):
    """Return a float tensor of 16 bits as float32; any other tensor as it is.

    Sums, statistics and exponentials lose digits or overflow in 16 bits.
    """
    return tf.cast(x, tf.float32) if is_short(x) else x


def is_short(x):
    """Return whether a tensor has floats of 16 bits."""
    return x.dtype.base_dtype in (tf.float16, tf.bfloat16)


def on_device(integers):
    """Return integers as int64: TensorFlow computes with int32 on the host, always.

    On a GPU, int64 spares the copies there and back.
    """
    return tf.cast(integers, tf.int64)


def followed_by_zeros(x, count, axis: int):
    """Return `x` with `count` zeros at the end of a dimension.

    TensorFlow's `pad` computes int64 on the host: see `on_device`.
    """
    sizes = shape_list(x)
    sizes[axis] = count
    return tf.concat([x, tf.zeros(tf.stack(sizes), x.dtype)], axis)


def split_heads(x, num_heads: int):
    """Reshape [N, T, D] → [N, H, T, D / H]."""
    batch, length, width = shape_list(x)
    x = tf.reshape(x, [batch, length, num_heads, width // num_heads])
    return tf.transpose(x, [0, 2, 1, 3])


def join_heads(x):
    """Reshape [N, H, T, D / H] → [N, T, D]."""
    batch, num_heads, length, width = shape_list(x)
    return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), [batch, length, num_heads * width])


def stack_heads(x):
    """Reshape [N, H, ...] → [H * N, ...], heads first, as in the TF1 tutorials."""
    batch, num_heads, *rest = shape_list(x)
    x = tf.transpose(x, [1, 0, *range(2, x.shape.ndims)])
    return tf.reshape(x, [num_heads * batch, *rest])
