"""Shapes of tensors: sizes, heads split and joined; integers as int64."""

import tensorflow.compat.v1 as tf


def shape_list(x):
    """Return the shape of `x` as a list: ints where known, else scalar tensors."""
    static, dynamic = x.shape.as_list(), tf.shape(x)
    return [dynamic[i] if size is None else size for i, size in enumerate(static)]


def as_int64(integers):
    """Cast integers to int64.

    TensorFlow runs int32 ops on the CPU even where there is a GPU; int64 ops avoid the
    copies there and back.
    """
    return tf.cast(integers, tf.int64)


def followed_by_zeros(x, count, axis: int):
    """Return `x` with `count` zeros at the end of a dimension.

    TensorFlow's `pad` computes int64 on the host: see `as_int64`.
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
