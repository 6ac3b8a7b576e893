"""The parts of the blocks: dropout, dense layers, tables, normalization, residual."""

import functools
import operator
import zlib
from typing import Callable, Optional, Sequence, Union

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.gradients import register, with_gradient
from transformer.blocks.shapes import join_heads, shape_list, split_heads
from transformer.dialects import Dialect, resolve


def widened(x):
    """Return a float tensor of 16 bits as float32; any other tensor as it is.

    Sums, statistics and exponentials lose digits or overflow in 16 bits.
    """
    return tf.cast(x, tf.float32) if is_short(x) else x


def is_short(x):
    """Return whether a tensor has floats of 16 bits."""
    return x.dtype.base_dtype in (tf.float16, tf.bfloat16)


def dropout(
    inputs,
    rate: float,
    is_training=True,
    seed=None,
    name: str = "dropout",
    shared: Sequence[int] = (),
):
    """Zero elements with probability `rate` and scale up the rest (section 5.4).

    Args:
      inputs: float tensor of any shape.
      rate: float in [0, 1), rounded to a multiple of 1/256; or a scalar tensor.
      is_training: Python bool or scalar bool tensor; False returns `inputs`.
      seed: int [2] tensor. With it the mask is a function of the seed, of the variable
        scope and of `name` alone; without, every run draws new numbers.
      name: distinguishes the dropouts of one scope.
      shared: dimensions along which elements are zeroed together.

    Returns:
      A tensor like `inputs`. In 16 bits it is scaled as exactly as in float32.
    """
    if not tf.is_tensor(rate) and not 0 <= rate < 1:
        raise ValueError(f"dropout: found rate {rate}, wanted 0 <= rate < 1")
    if tf.is_tensor(is_training):
        return tf.cond(
            is_training,
            lambda: dropout(inputs, rate, True, seed, name, shared),
            lambda: tf.identity(inputs),
        )
    if not is_training:
        return inputs
    wide = widened(inputs)
    if tf.is_tensor(rate):
        threshold = tf.cast(tf.minimum(tf.round(rate * 256), 255), wide.dtype)
        limit = tf.cast(threshold, tf.uint8)
    elif rate:
        threshold = min(round(rate * 256), 255)
        limit = np.uint8(threshold)
    else:
        return inputs
    shape, size = tf.shape(inputs), tf.size(inputs)
    if shared:
        sizes = shape_list(inputs)
        for dimension in shared:
            sizes[dimension] = 1
        shape, size = tf.stack(sizes), functools.reduce(operator.mul, sizes)
    keep = _random_bytes(size, seed, name) >= limit
    keep = tf.reshape(keep[:size], shape)
    dropped = wide * (tf.cast(keep, wide.dtype) * (256 / (256 - threshold)))
    return tf.cast(dropped, inputs.dtype)


def _random_bytes(size, seed, name):
    """Draw uniform uint8: a quarter of the random bits that floats would need.

    Args:
      size: int scalar, how many are needed.
      seed, name: as in `dropout`.

    Returns:
      uint8, `size` rounded up to a multiple of 4.
    """
    with tf.device("/cpu:0"):  # every kernel reads its seed there
        if seed is None:
            seed = tf.random_uniform([2], maxval=2**31 - 1, dtype=tf.int32)
        place = zlib.crc32(f"{tf.get_variable_scope().name}/{name}".encode())
        seed = tf.cast(seed, tf.int64) + tf.constant([place, 0], tf.int64)
    words = tf.random.stateless_uniform(
        [(size + 3) // 4], seed, -(2**31), 2**31 - 1, tf.int32
    )
    return tf.reshape(tf.bitcast(words, tf.uint8), [-1])


def dense(
    inputs,
    num_units: int,
    use_bias: bool,
    scope: str,
    activation: Optional[Callable] = None,
):
    """Return activation(x W + b) along the last axis.

    Args:
      inputs: float [..., in], `in` known.
      num_units: int, the width of the result.
      use_bias: bool.
      scope: of the variables `kernel` [in, num_units] and, with `use_bias`, `bias`.
      activation: function of a tensor, or None.

    Returns:
      float [..., num_units], of 16 bits where a custom getter makes the kernel so.
    """
    *leading, width = shape_list(inputs)
    kernel, bias = dense_variables(width, num_units, use_bias, scope)
    if is_short(kernel):
        inputs = tf.cast(inputs, kernel.dtype)
    outputs = tf.matmul(tf.reshape(inputs, [-1, width]), kernel)
    if use_bias:
        outputs = _add_bias(outputs, bias)
    if activation is not None:
        outputs = activation(outputs)
    return tf.reshape(outputs, leading + [num_units])


def _add_bias(x, bias):
    """Return x [M, D] + bias [D].

    In 16 bits the gradient of the bias is a matrix product, which adds up in float32:
    TensorFlow's own adds up in 16 bits, and 25,000 times 0.01 is 4.
    """
    if not is_short(x):
        return tf.nn.bias_add(x, bias)

    def add(x, bias):
        return (tf.nn.bias_add(x, bias),)

    return with_gradient("transformer/add_bias", add, x, bias)


def _bias_gradients(output, x, bias, upstream):
    ones = tf.ones([1, tf.shape(upstream)[0]], upstream.dtype)
    return [upstream, tf.matmul(ones, upstream)[0]]


register("transformer/add_bias", _bias_gradients)


def dense_variables(width: int, num_units: int, use_bias: bool, scope: str):
    """Return (kernel [width, num_units], bias [num_units] or None) of a dense layer."""
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


def embedding_table(
    vocab_size: int,
    num_units: int,
    scope: str = "embedding",
    reuse: Optional[bool] = None,
):
    """Return the variable `lookup_table` [V, D] of an `embedding` of the same scope."""
    with tf.variable_scope(scope, reuse=reuse):
        return tf.get_variable(
            "lookup_table",
            [vocab_size, num_units],
            initializer=tf.random_normal_initializer(stddev=num_units**-0.5),
        )


def looked_up(table, inputs, scale: bool):
    """Return the rows of a table for ids: [V, D], int [N, T] → float [N, T, D].

    Args:
      table: float [V, D], D known.
      inputs: int [N, T].
      scale: multiply by sqrt(D).
    """
    outputs = tf.gather(table, inputs)
    return outputs * table.shape.as_list()[-1] ** 0.5 if scale else outputs


def with_zero_row(table):
    """Return a table [V, D] whose row 0, that of padding, is zeros.

    The gradient of `table` is dense, also where a few rows of it are looked up.
    """
    real = tf.cast(tf.not_equal(tf.range(tf.shape(table)[0]), 0), table.dtype)
    return table * real[:, None]


def project(x, num_units: int, num_heads: int, dialect: Dialect, name: str):
    """Return Q, K or V: float [N, T, any width] → [N, H, T, num_units / H].

    Args:
      num_units: int, the width of all heads together.
      dialect: a Dialect: with a bias or not, with a ReLU or not.
      name: the scope of the variables: "q", "k" or "v".
    """
    activation = tf.nn.relu if dialect.projection_relu else None
    x = dense(x, num_units, dialect.projection_bias, name, activation)
    return split_heads(x, num_heads)


def project_output(context, num_units: int, dialect: Dialect):
    """Return the heads joined, times W^O: float [N, H, T, d_v] → [N, T, num_units].

    Args:
      context: what each head attends to.
      num_units: int, the width of the residual.
      dialect: a Dialect: with W^O or not, with a bias or not, with a ReLU or not.
    """
    x = join_heads(context)  # [N, T, H * d_v]
    if not dialect.output_projection:
        return x
    activation = tf.nn.relu if dialect.output_relu else None
    return dense(x, num_units, dialect.output_bias, "o", activation)


def keys_and_values(
    keys, num_units: int, num_heads: int, dialect: Union[str, Dialect] = "paper"
):
    """Return K and V of the attention in whose scope it is called.

    Args:
      keys: float [N, Tk, any width].
      num_units: int, the width of all heads together.
      num_heads: int, H.
      dialect: a Dialect or its name.

    Returns:
      Two float [N, H, Tk, num_units / H].
    """
    dialect = resolve(dialect)
    return tuple(project(keys, num_units, num_heads, dialect, name) for name in "kv")


def normalize(
    inputs, epsilon: float = 1e-8, scope: str = "ln", reuse: Optional[bool] = None
):
    """Return (x - mean) / sqrt(variance + epsilon) * gamma + beta: layer normalization.

    Args:
      inputs: float [..., D]; mean and (biased) variance are over the last axis.
      epsilon: float, inside the root.
      scope, reuse: of the variables `gamma` [D], ones at first, and `beta` [D], zeros.

    Returns:
      float [..., D], float32 where `inputs` have 16 bits. `[[1., 3.]]` gives
      `[[-1., 1.]]` at first.

    Source: Ba, Kiros, Hinton 2016.
    """
    width = [inputs.shape.as_list()[-1]]
    with tf.variable_scope(scope, reuse=reuse):
        beta = tf.get_variable("beta", width, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", width, initializer=tf.ones_initializer())
        # Not `+ beta`: the graph optimizer of TensorFlow 2.16 fails on that form.
        return tf.nn.bias_add(_standardize(widened(inputs), epsilon) * gamma, beta)


def _standardize(inputs, epsilon):
    """Return mean 0 and variance 1 along the last axis, with an exact gradient.

    The gradient that TensorFlow derives loses digits where the variance is small: in
    float32 it is off by 3e-5 in a case that tensor2tensor has recorded.
    """

    def standardized(x):
        centred = x - tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
        scale = tf.rsqrt(variance + epsilon)
        return centred * scale, scale

    return with_gradient("transformer/standardize", standardized, inputs)


def _standardize_gradient(output, x, scale, upstream):
    along = tf.reduce_mean(upstream * output, -1, keepdims=True) * scale
    upstream = upstream * scale
    shared = tf.reduce_mean(upstream, -1, keepdims=True)
    return [upstream - output * along - shared]


register("transformer/standardize", _standardize_gradient)


def apply_steps(steps: Sequence[str], x, residual, dialect: Dialect, drop: Callable):
    """Apply the steps of a dialect before or after a sub-layer, in their order.

    Args:
      steps: some of "dropout", "add", "norm".
      x: float [N, T, D].
      residual: float [N, T, D], what "add" adds; float32 where `x` has 16 bits.
      dialect: a Dialect.
      drop: function of a tensor and the name of its dropout.
    """
    x = widened(x) if steps else x
    for step in steps:
        if step == "dropout":
            x = drop(x, name="residual")
        elif step == "add":
            x = residual + tf.cast(x, residual.dtype)
        elif step == "norm":
            x = normalize(x, dialect.norm_epsilon)
        else:
            raise ValueError(
                f"a step of a dialect: found {step!r}, wanted 'dropout', 'add' or "
                "'norm'"
            )
    return x
