"""Provide a file with the TensorFlow 1 names that it needs and that are missing.

Use this only in a process that measures, because `lend` changes TensorFlow itself.
Under TensorFlow 2, `import tensorflow` then gives `tensorflow.compat.v1`, with those
parts of `tf.layers` and `tf.contrib` that published Transformers use. Random numbers,
and thus dropout masks, become fixed patterns, both in the file's functions and in ours,
and what is dropped is recorded.
"""

import importlib.util
import re
import sys
import types
from typing import Any, Callable, Iterable, List, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow
import tensorflow.compat.v1 as tf
from tensorflow.python.ops import nn_ops, random_ops

from transformer.blocks import layers as block_layers

drawn_uniform = random_ops.random_uniform
drawn_dropout = nn_ops.dropout_v2  # all dropouts of TensorFlow call it
OLD_OF_NUMPY = {"int": int, "float": float, "bool": bool, "object": object, "str": str}


def lend(text: str, ours: Iterable[types.ModuleType]) -> None:
    """Provide TensorFlow 1 names to files that are imported from now on.

    Args:
      text: the content of the file, which shows whether it needs `tf.contrib` of
        TensorFlow 1.15; loading that takes seconds.
      ours: our modules, whose dropout becomes a fixed pattern.
    """
    tf.disable_v2_behavior()
    tf.enable_resource_variables()  # Keras 3 regularizers take no others
    tf.logging.set_verbosity(tf.logging.ERROR)
    random_ops.random_uniform = fixed_uniform
    tf.random_uniform = fixed_uniform
    nn_ops.dropout_v2 = noted_dropout
    dropped = block_layers.dropout
    for module in ours:
        if vars(module).get("dropout") is dropped:
            vars(module)["dropout"] = fixed_dropout
    for name, kind in OLD_OF_NUMPY.items():
        if name not in vars(np):
            setattr(np, name, kind)
    is_first = tf.__version__.startswith("1.")
    for name in set(re.findall(r"\btensorflow_\w+", text)) - set(sys.modules):
        # Under TensorFlow 2, it would need the TensorFlow that is hidden below.
        if not is_first or importlib.util.find_spec(name) is None:
            sys.modules[name] = Absent(name)
    if is_first:
        if "contrib" in text:
            _module("contrib.linalg", tensorflow.contrib, **LINALG)
        return
    tf.__path__ = list(tf.__path__) + list(tensorflow.__path__)
    tf.compat.v1 = tf
    sys.modules["tensorflow"] = tf
    _module("layers", tf, **LAYERS)
    framework = types.SimpleNamespace(nest=tf.nest)
    others = Absent("tf.contrib").__getattr__
    contrib = _module("contrib", tf, framework=framework, __getattr__=others)
    _module("contrib.linalg", contrib, **LINALG)
    others = Absent("tf.contrib.layers").__getattr__
    layers = _module("contrib.layers", contrib, **CONTRIB_LAYERS, __getattr__=others)
    inside = _module("contrib.layers.python", layers)
    inside = _module("contrib.layers.python.layers", inside, __getattr__=others)
    _module("contrib.layers.python.layers.initializers", inside, **CONTRIB_LAYERS)
    _module("contrib.layers.python.layers.regularizers", inside, **CONTRIB_LAYERS)
    if "keras.regularizers" in text:
        regularizers = tf.keras.regularizers
        for name in ("l1", "L1", "l2", "L2"):
            setattr(regularizers, name, _with_l(getattr(regularizers, name)))


class Absent(types.ModuleType):
    """A missing module or name: a file can import it, but a function cannot call it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"{self.__name__} is not available to the file")


def _with_l(regularizer: Callable) -> Callable:
    """Return a Keras regularizer that also takes the scale by its old name, `l`."""

    def made(*scale: Any, **named: Any) -> Any:
        return regularizer(*scale, *named.values())

    return made


def _module(name: str, parent: Any, **names: Any) -> types.ModuleType:
    """Make the module `tensorflow.<name>`, an attribute of its parent."""
    made = types.ModuleType(f"tensorflow.{name}")
    made.__dict__.update(names, __path__=[])
    sys.modules[made.__name__] = made
    setattr(parent, name.rpartition(".")[2], made)
    return made


# Random numbers


class Mask(NamedTuple):
    """Random numbers that were drawn, usually for a dropout mask."""

    name: str  # the name of what is dropped
    sizes: Optional[Tuple[int, ...]]  # the shape of the mask
    rate: Optional[float]  # None: a tensor, or not drawn by TensorFlow's dropout


masks: List[Mask] = []  # drawn since this list was last cleared
dropping: List[Tuple[str, Any]] = []  # the current dropout: (what is dropped, the rate)


def noted_dropout(x: Any, rate: Any, *settings: Any, **more: Any) -> Any:
    """Apply `tf.nn.dropout`; tell `fixed_uniform` what is dropped."""
    dropping.append((tf.convert_to_tensor(x).op.name, rate))
    try:
        return drawn_dropout(x, rate, *settings, **more)
    finally:
        dropping.pop()


def fixed_uniform(shape: Any, *settings: Any, **more: Any) -> Any:
    """Return fixed numbers like `tf.random_uniform`; record them in `masks`.

    They depend on the last two dimensions, and on how many masks with these dimensions
    were drawn before, so attention weights get the same mask as [N, H, Tq, Tk] and as
    [H * N, Tq, Tk]. With bounds, which initializers pass, the numbers are random.
    """
    if settings or "minval" in more or "maxval" in more:
        return drawn_uniform(shape, *settings, **more)
    shape = tf.convert_to_tensor(shape, tf.int32)
    known = tf.get_static_value(shape)
    sizes = None if known is None else tuple(int(size) for size in known)
    earlier = [each for each in masks if (each.sizes or ())[-2:] == (sizes or ())[-2:]]
    name, rate = dropping[-1] if dropping else ("a mask of its own", None)
    rate = tf.get_static_value(rate) if tf.is_tensor(rate) else rate
    masks.append(Mask(name, sizes, rate if rate is None else round(float(rate), 6)))
    last = shape[-min(shape.shape.as_list()[0], 2) :]
    drawn = tf.random.stateless_uniform([tf.reduce_prod(last)], [1, 2 + len(earlier)])
    drawn = tf.reshape(drawn, last) + tf.zeros(shape)
    return tf.cast(drawn, more.get("dtype", tf.float32))


def fixed_dropout(inputs, rate, is_training=True, seed=None, name="dropout", shared=()):
    """Apply `blocks.layers.dropout` with the mask that TensorFlow's dropout gets."""
    sizes = block_layers.shape_list(inputs)
    for dimension in shared:
        sizes[dimension] = 1
    return dropout(inputs, rate, tf.stack(sizes), training=is_training)


# The functions of tf.layers and tf.contrib.layers, with the original parameters


def dense(
    inputs,
    units,
    activation=None,
    use_bias=True,
    kernel_initializer=None,
    bias_initializer=None,
    kernel_regularizer=None,
    bias_regularizer=None,
    trainable=True,
    name=None,
    reuse=None,
    names=("dense", "kernel", "bias"),
    size=None,
    padding="valid",
):
    """Return activation(x W + b); with `size`, convolve along the time axis."""
    scope, kernel_name, bias_name = names
    *leading, depth = inputs.shape.as_list()
    with tf.variable_scope(name, scope, reuse=reuse):
        kernel = tf.get_variable(
            kernel_name,
            [depth, units] if size is None else [size, depth, units],
            initializer=kernel_initializer,
            regularizer=kernel_regularizer,
            trainable=trainable,
        )
        if size is None:
            outputs = tf.tensordot(inputs, kernel, 1)
            outputs.set_shape([*leading, units])
        else:
            outputs = tf.nn.conv1d(inputs, kernel, stride=1, padding=padding.upper())
        if use_bias:
            outputs += tf.get_variable(
                bias_name,
                [units],
                initializer=bias_initializer or tf.zeros_initializer(),
                regularizer=bias_regularizer,
                trainable=trainable,
            )
        return outputs if activation is None else activation(outputs)


def conv1d(inputs, filters, kernel_size, **settings):
    names = ("conv1d", "kernel", "bias")
    size = int(np.ravel(kernel_size)[0])
    return dense(inputs, filters, names=names, size=size, **settings)


def fully_connected(
    inputs,
    num_outputs,
    activation_fn=tf.nn.relu,
    weights_initializer=None,
    weights_regularizer=None,
    biases_initializer=tf.zeros_initializer,
    biases_regularizer=None,
    reuse=None,
    trainable=True,
    scope=None,
):
    return dense(
        inputs,
        num_outputs,
        activation_fn,
        biases_initializer is not None,
        weights_initializer,
        biases_initializer,
        weights_regularizer,
        biases_regularizer,
        trainable,
        scope,
        reuse,
        ("fully_connected", "weights", "biases"),
    )


def dropout(inputs, rate=0.5, noise_shape=None, seed=None, training=False, name=None):
    def dropped():
        return tf.nn.dropout(inputs, rate=rate, noise_shape=noise_shape)

    if tf.is_tensor(training) and tf.get_static_value(training) is not None:
        training = bool(tf.get_static_value(training))
    if tf.is_tensor(training):
        is_training = tf.cast(training, tf.bool)
        return tf.cond(is_training, dropped, lambda: tf.identity(inputs))
    return dropped() if training else tf.identity(inputs)


def contrib_dropout(inputs, keep_prob=0.5, noise_shape=None, is_training=True):
    return dropout(inputs, 1 - keep_prob, noise_shape, training=is_training)


def flatten(inputs):
    return tf.reshape(inputs, [-1, int(np.prod(inputs.shape.as_list()[1:]))])


def layer_norm(inputs, begin_norm_axis=1, begin_params_axis=-1, reuse=None, scope=None):
    with tf.variable_scope(scope, "LayerNorm", reuse=reuse):
        width = inputs.shape.as_list()[begin_params_axis:]
        axes = list(range(inputs.shape.ndims))[begin_norm_axis:]
        mean, variance = tf.nn.moments(inputs, axes, keepdims=True)
        beta = tf.get_variable("beta", width, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", width, initializer=tf.ones_initializer())
        return (inputs - mean) * tf.rsqrt(variance + 1e-12) * gamma + beta


def first_values(*_, **__):
    """Return any initializer, because the first values are replaced anyway."""
    return tf.glorot_uniform_initializer()


def l1_regularizer(scale, scope=None):
    return lambda weights: scale * tf.reduce_sum(tf.abs(weights))


def l2_regularizer(scale, scope=None):
    return lambda weights: scale * tf.nn.l2_loss(weights)


LAYERS = {"conv1d": conv1d, "dense": dense, "dropout": dropout, "flatten": flatten}
CONTRIB_LAYERS = {
    "dropout": contrib_dropout,
    "flatten": flatten,
    "fully_connected": fully_connected,
    "l1_regularizer": l1_regularizer,
    "l2_regularizer": l2_regularizer,
    "layer_norm": layer_norm,
    "variance_scaling_initializer": first_values,
    "xavier_initializer": first_values,
}
TRIL = tf.linalg.LinearOperatorLowerTriangular
LINALG = {"LinearOperatorLowerTriangular": TRIL, "LinearOperatorTriL": TRIL}
