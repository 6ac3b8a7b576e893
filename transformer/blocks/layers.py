"""Layers: dropout, dense layers, embedding tables, layer normalization.

Some have custom gradients, because the gradients that TensorFlow derives lose
precision: see `gradients`.
"""

import functools
import operator
import zlib
from typing import Any, Callable, List, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.arguments import (
    check_is_training,
    check_size,
    check_tensor,
    refuse_eager,
)
from transformer.blocks.gradients import register_gradient, with_gradient

# Shapes and types


def shape_list(x) -> List:
    """Return the shape of `x` as a list: ints for static sizes, else scalar tensors."""
    sizes = x.shape.as_list()
    if None not in sizes:
        return sizes
    # Not tf.unstack: in the condition of a while loop, where some sizes are static,
    # TensorFlow's graph optimizer crashes on it.
    dynamic = tf.shape(x)
    return [dynamic[i] if size is None else size for i, size in enumerate(sizes)]


def reshape(x, sizes: Sequence):
    """Reshape a tensor to sizes of which some may be scalar tensors.

    If only one size is dynamic, TensorFlow infers it. This saves operations, which
    count in a search step: most of them would compute sizes.
    """
    static = [size for size in sizes if not tf.is_tensor(size)]
    if len(static) == len(sizes) - 1 and 0 not in static:  # beside 0, -1 is ambiguous
        sizes = [-1 if tf.is_tensor(size) else size for size in sizes]
    return tf.reshape(x, sizes)


def expand_dims(x, *axes: int):
    """Insert dimensions of size 1, one after the other.

    It is `x[:, None]`, in a form that LiteRT converts where several sizes are unknown.
    """
    for axis in axes:
        x = tf.expand_dims(x, axis)
    return x


def cast_to_int64(integers):
    """Cast integers to int64.

    TensorFlow runs int32 ops on the CPU even if there is a GPU; int64 ops avoid copies
    to the CPU and back.
    """
    return tf.cast(integers, tf.int64)


def append_zeros(x, count, axis: int):
    """Append `count` zeros to a dimension.

    Unlike TensorFlow's `pad`, it runs on the GPU for int64: see `cast_to_int64`.
    """
    sizes = shape_list(x)
    sizes[axis] = count
    return tf.concat([x, tf.zeros(tf.stack(sizes), x.dtype)], axis)


def split_heads(x, num_heads: int, like=None):
    """Reshape [N, T, D] → [N, H, T, D / H].

    Args:
      x: float [N, T, D].
      num_heads: int, H.
      like: tensor [N, T, any width], the inputs of the dense layer that computed `x`.
        From sizes of `x` itself, tf2onnx 1.17 makes a graph that fails: it joins this
        reshape and the layer's (findings/tf2onnx_joins_reshapes.sh).
    """
    if tf.is_tensor(like):
        batch, length = shape_list(like)[:2]
        width = x.shape.as_list()[-1]
    else:
        batch, length, width = shape_list(x)
    x = reshape(x, [batch, length, num_heads, width // num_heads])
    return tf.transpose(x, [0, 2, 1, 3])


def join_heads(x):
    """Reshape [N, H, T, D / H] → [N, T, D]."""
    batch, num_heads, length, width = shape_list(x)
    return reshape(tf.transpose(x, [0, 2, 1, 3]), [batch, length, num_heads * width])


def has_16_bits(x) -> bool:
    """Return whether a tensor is float16 or bfloat16."""
    return x.dtype.base_dtype in (tf.float16, tf.bfloat16)


def cast_to_float32(x):
    """Cast float16 and bfloat16 to float32; return other tensors unchanged.

    Sums, statistics and exponentials lose precision or overflow in 16 bits.
    """
    return tf.cast(x, tf.float32) if has_16_bits(x) else x


# Dropout


def dropout(
    inputs,
    rate: float,
    is_training=True,
    seed=None,
    name: str = "dropout",
    broadcast_dims: Sequence[int] = (),
):
    """Zero elements with probability `rate` and scale up the rest (section 5.4).

    Args:
      inputs: float tensor of any shape.
      rate: float in [0, 1), rounded to a multiple of 1/256; or a scalar tensor.
      is_training: Python bool or scalar bool tensor; False returns `inputs`.
      seed: int [2] tensor. With a seed, the mask depends only on the seed, the variable
        scope and `name`; without one, every run draws new numbers.
      name: distinguishes the dropouts in one scope.
      broadcast_dims: dimensions along which elements are zeroed together.

    Returns:
      A tensor like `inputs`, scaled in float32 even if `inputs` have 16 bits.

    Raises:
      ValueError: an argument has a wrong type or value.
    """
    if not tf.is_tensor(rate) and (isinstance(rate, str) or not 0 <= rate < 1):
        raise ValueError(f"dropout: expected 0 <= rate < 1, got {rate!r}")
    check_is_training("dropout", is_training)
    if not tf.is_tensor(inputs):
        inputs = check_tensor("dropout: inputs", inputs, "numbers", "[...]")
    if not inputs.dtype.is_floating:
        raise ValueError(
            f"dropout: expected inputs of floats, got {inputs.dtype.name}; embed or "
            "cast them first"
        )
    if tf.is_tensor(is_training):
        return tf.cond(
            is_training,
            lambda: dropout(inputs, rate, True, seed, name, broadcast_dims),
            lambda: tf.identity(inputs),
        )
    if not is_training:
        return inputs
    inputs32 = cast_to_float32(inputs)
    # Of the 256 values of a random byte, those below the threshold drop an element.
    if tf.is_tensor(rate):
        threshold = tf.cast(tf.minimum(tf.round(rate * 256), 255), inputs32.dtype)
        byte_threshold = tf.cast(threshold, tf.uint8)
    elif rate:
        threshold = min(round(rate * 256), 255)
        byte_threshold = np.uint8(threshold)
    else:
        return inputs
    shape = tf.shape(inputs)
    size = tf.size(inputs)
    if broadcast_dims:
        sizes = shape_list(inputs)
        for dimension in broadcast_dims:
            sizes[dimension] = 1
        shape = tf.stack(sizes)
        size = functools.reduce(operator.mul, sizes)
    keep = _random_bytes(size, seed, name) >= byte_threshold
    keep = tf.reshape(keep[:size], shape)
    scales = tf.cast(keep, inputs32.dtype) * (256 / (256 - threshold))
    dropped = inputs32 * scales
    return tf.cast(dropped, inputs.dtype)


class Dropout(NamedTuple):
    """The dropout at one place in a block."""

    rate: Any = 0.0  # float or scalar tensor
    is_training: Any = True  # Python bool or scalar bool tensor
    seed: Optional[tf.Tensor] = None  # int [2]

    def apply(self, inputs, name: str):
        """Apply `dropout`; the name distinguishes the dropouts in one scope."""
        return dropout(inputs, self.rate, self.is_training, self.seed, name)

    def replace_rate(self, rate, by_default: bool) -> "Dropout":
        """Return this dropout at another rate, for the inside of a sub-layer.

        Args:
          rate: float or scalar tensor; None: as by default.
          by_default: whether there is dropout by default, at the same rate.
        """
        if rate is None:
            rate = self.rate if by_default else 0.0
        return self._replace(rate=rate)


def _random_bytes(size, seed, name):
    """Draw uniform uint8 values, which take a quarter of the random bits of floats.

    Args:
      size: int scalar, the number of values.
      seed, name: as in `dropout`.

    Returns:
      uint8 [`size` rounded up to a multiple of 4].
    """
    with tf.device("/cpu:0"):  # kernels read their seed on the CPU
        if seed is None:
            seed = tf.random_uniform([2], maxval=2**31 - 1, dtype=tf.int32)
        op_seed = zlib.crc32(f"{tf.get_variable_scope().name}/{name}".encode())
        seed = tf.cast(seed, tf.int64) + tf.constant([op_seed, 0], tf.int64)
    words = tf.random.stateless_uniform(
        [(size + 3) // 4], seed, -(2**31), 2**31 - 1, tf.int32
    )
    return tf.reshape(tf.bitcast(words, tf.uint8), [-1])


# Dense layers


def dense(
    inputs,
    num_units: int,
    use_bias: bool = True,
    scope: str = "dense",
    activation: Optional[Callable] = None,
):
    """Compute activation(x W + b) along the last axis.

    Args:
      inputs: float [..., in]; `in` must be static.
      num_units: int, the width of the result.
      use_bias: bool.
      scope: for the variables `kernel` [in, num_units] and, with `use_bias`, `bias`.
      activation: function of a tensor, or None.

    Returns:
      float [..., num_units]; it has 16 bits if a custom getter gives the kernel 16
      bits.

    Raises:
      ValueError: an argument has a wrong type, rank or size, or eager mode is on.
    """
    refuse_eager("dense")
    num_units = check_size("dense: num_units", num_units)
    inputs = check_tensor("dense: inputs", inputs, "float", "[..., D]")
    *leading, width = shape_list(inputs)
    kernel, bias = dense_variables(width, num_units, use_bias, scope)
    inputs = tf.cast(inputs, kernel.dtype)
    outputs = tf.matmul(tf.reshape(inputs, [-1, width]), kernel)
    if use_bias:
        bias = tf.cast(bias, outputs.dtype)
    if use_bias and has_16_bits(outputs):
        outputs = with_gradient("transformer/add_bias", _add_bias, outputs, bias)
    elif use_bias:
        outputs = tf.nn.bias_add(outputs, bias)
    if activation is not None:
        outputs = activation(outputs)
    return reshape(outputs, leading + [num_units])


def dense_variables(width: int, num_units: int, use_bias: bool, scope: str) -> tuple:
    """Get the variables of a dense layer: (kernel [in, out], bias [out] or None)."""
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


def _add_bias(x, bias):
    """Compute x [M, D] + bias [D], for `with_gradient`.

    TensorFlow's own gradient for a 16-bit bias sums in 16 bits, where 25,000 times 0.01
    gives 4.
    """
    return (tf.nn.bias_add(x, bias),)


def _bias_gradients(output, x, bias, upstream):
    return [upstream, _sum_rows(upstream, bias.shape.as_list()[0])]


register_gradient("transformer/add_bias", _bias_gradients)


def _sum_rows(x, width: int):
    """Sum over all but the last dimension: float [..., width] → [width].

    This is a matrix product, which sums in float32 even for 16-bit inputs, and is
    faster than TensorFlow's sum on a GPU.
    """
    rows = tf.reshape(x, [-1, width])
    return tf.matmul(tf.ones([1, tf.shape(rows)[0]], rows.dtype), rows)[0]


# Embedding tables


def embedding_table(
    vocab_size: int,
    num_units: int,
    scope: str = "embedding",
    reuse: Optional[bool] = None,
):
    """Get the variable `lookup_table` [V, D] of `embedding` in a scope."""
    refuse_eager("embedding")
    vocab_size = check_size("embedding: vocab_size", vocab_size)
    num_units = check_size("embedding: num_units", num_units)
    with tf.variable_scope(scope, reuse=reuse):
        return tf.get_variable(
            "lookup_table",
            [vocab_size, num_units],
            initializer=tf.random_normal_initializer(stddev=num_units**-0.5),
        )


def look_up(table, inputs, scale: bool):
    """Look up ids in a table: float [V, D], int [N, T] → float [N, T, D].

    Args:
      table: float [V, D]; D must be static.
      inputs: int [N, T].
      scale: whether to multiply by sqrt(D).
    """
    outputs = tf.gather(table, inputs)
    return outputs * table.shape.as_list()[-1] ** 0.5 if scale else outputs


def zero_first_row(table):
    """Zero row 0 of a table, the row for padding: float [V, D] → [V, D].

    The gradient of `table` is dense, even if only a few rows are looked up.
    """
    is_nonzero = tf.not_equal(tf.range(tf.shape(table)[0]), 0)  # [V]
    return table * expand_dims(tf.cast(is_nonzero, table.dtype), 1)


# Layer normalization


def normalize(
    inputs, epsilon: float = 1e-8, scope: str = "ln", reuse: Optional[bool] = None
):
    """Compute (x - mean) / sqrt(variance + epsilon) * gamma + beta for each vector.

    Each vector is normalized on its own: its elements get the mean 0 and the variance
    1. Then they are scaled and shifted by two learned vectors, gamma and beta. Neither
    the batch nor the other positions matter.

    Args:
      inputs: float [..., D]; the mean and the (biased) variance are over the last axis.
      epsilon: float, inside the root.
      scope, reuse: for the variables `gamma` [D], initially 1, and `beta` [D],
        initially 0.

    Returns:
      float [..., D]; float32 if `inputs` have 16 bits. Initially, `[[1., 3.]]` gives
      `[[-1., 1.]]`.

    Raises:
      ValueError: an argument has a wrong type, rank or size, or eager mode is on.

    Source: Ba, Kiros, Hinton 2016.
    """
    refuse_eager("normalize")
    inputs = check_tensor("normalize: inputs", inputs, "float", "[..., D]")
    width = [inputs.shape.as_list()[-1]]
    with tf.variable_scope(scope, reuse=reuse):
        beta = tf.get_variable("beta", width, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", width, initializer=tf.ones_initializer())
        return standardize(inputs, epsilon, gamma, beta)


def standardize(inputs, epsilon: float, gamma, beta):
    """Compute (x - mean) / sqrt(variance + epsilon) * gamma + beta, like `normalize`.

    The gradient that TensorFlow derives loses precision if the variance is small: in a
    case recorded from tensor2tensor, its float32 error is 3e-5. This gradient is exact.
    """

    def forward(x, gamma):
        centred = x - tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
        scale = tf.rsqrt(variance + epsilon)
        standard = centred * scale
        return standard * gamma, standard, scale

    x = cast_to_float32(inputs)
    gamma = tf.cast(tf.convert_to_tensor(gamma), x.dtype)
    beta = tf.cast(beta, x.dtype)
    x = with_gradient("transformer/standardize", forward, x, gamma)
    if x.shape.ndims == 1:
        return x + beta
    # Not `+ beta`: the graph optimizer of TensorFlow 2.16 fails on that form.
    return tf.nn.bias_add(x, beta)


def _standardize_gradients(output, x, gamma, standard, scale, upstream):
    gamma_gradient = _sum_rows(upstream * standard, gamma.shape.as_list()[0])
    upstream = upstream * gamma
    projection = tf.reduce_mean(upstream * standard, -1, keepdims=True) * scale
    upstream = upstream * scale
    mean = tf.reduce_mean(upstream, -1, keepdims=True)
    return [upstream - standard * projection - mean, gamma_gradient]


register_gradient("transformer/standardize", _standardize_gradients)
