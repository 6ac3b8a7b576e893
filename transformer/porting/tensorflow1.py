"""Provide a file with the TensorFlow 1 names that it needs and that are missing.

Use this only in a process of its own, because `install_tf1_names` changes TensorFlow.
Under TensorFlow 2, `import tensorflow` then gives `tensorflow.compat.v1`, with those
parts of `tf.layers` and `tf.contrib` that published Transformers use. Random numbers,
and thus dropout masks, become fixed patterns, both in the file's functions and in ours,
and what is dropped is recorded.
"""

import importlib.machinery
import importlib.util
import re
import sys
import types
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow
import tensorflow.compat.v1 as tf
from tensorflow.python.ops import nn_ops, random_ops

from transformer.blocks import layers as block_layers
from transformer.runtime.versions import IS_TENSORFLOW_1

random_uniform = random_ops.random_uniform
random_dropout = nn_ops.dropout_v2  # all dropouts of TensorFlow call it
OLD_NUMPY_TYPES = {
    "int": int,
    "float": float,
    "bool": bool,
    "object": object,
    "str": str,
}


def install_tf1_names(text: str) -> None:
    """Provide TensorFlow 1 names to files that are imported from now on.

    The dropout of our modules that are already imported becomes a fixed pattern, too.

    Args:
      text: the content of the file, which shows whether it needs `tf.contrib` of
        TensorFlow 1.15; loading that takes seconds.
    """
    tf.disable_v2_behavior()
    use_resource_variables()
    tf.logging.set_verbosity(tf.logging.ERROR)
    random_ops.random_uniform = deterministic_uniform
    tf.random_uniform = deterministic_uniform
    nn_ops.dropout_v2 = record_dropout
    _replace_our_dropout()
    for name, python_type in OLD_NUMPY_TYPES.items():
        if name not in vars(np):
            setattr(np, name, python_type)
    for name in set(re.findall(r"\btensorflow_\w+", text)) - set(sys.modules):
        # Under TensorFlow 2, it would need the TensorFlow that is hidden below.
        if not IS_TENSORFLOW_1 or importlib.util.find_spec(name) is None:
            sys.modules[name] = MissingModule(name)
    sys.meta_path.append(MissingModuleFinder())  # asked last
    if IS_TENSORFLOW_1:
        if "contrib" in text:
            _install_module("contrib.linalg", tensorflow.contrib, **LINALG)
    else:
        _install_tf1_modules(text)


def use_resource_variables() -> None:
    """Create resource variables from now on: Keras 3 regularizers take no others."""
    tf.enable_resource_variables()


def _replace_our_dropout() -> None:
    """Replace `blocks.layers.dropout` in the modules that have imported it."""
    our_dropout = block_layers.dropout
    for name, module in list(sys.modules.items()):
        is_ours = name.startswith("transformer.")
        if is_ours and vars(module).get("dropout") is our_dropout:
            vars(module)["dropout"] = deterministic_dropout


def _install_tf1_modules(text: str) -> None:
    """Make `tensorflow` mean `tensorflow.compat.v1`, with `layers` and `contrib`."""
    tf.__path__ = list(tf.__path__) + list(tensorflow.__path__)
    tf.compat.v1 = tf
    sys.modules["tensorflow"] = tf
    _install_module("layers", tf, **LAYERS)
    missing = MissingModule("tf.contrib").__getattr__
    contrib = _install_module("contrib", tf, __getattr__=missing)
    missing = MissingModule("tf.contrib.framework").__getattr__
    _install_module("contrib.framework", contrib, nest=tf.nest, __getattr__=missing)
    _install_module("contrib.linalg", contrib, **LINALG)
    missing = MissingModule("tf.contrib.layers").__getattr__
    layers = _install_module(
        "contrib.layers", contrib, **CONTRIB_LAYERS, __getattr__=missing
    )
    path = "contrib.layers.python"
    module = _install_module(path, layers)
    module = _install_module(f"{path}.layers", module, __getattr__=missing)
    _install_module(f"{path}.layers.initializers", module, **CONTRIB_LAYERS)
    _install_module(f"{path}.layers.regularizers", module, **CONTRIB_LAYERS)
    if "keras.regularizers" in text:
        regularizers = tf.keras.regularizers
        for name in ("l1", "L1", "l2", "L2"):
            setattr(regularizers, name, _accept_l(getattr(regularizers, name)))


class MissingModule(types.ModuleType):
    """A missing module or name: a file can import it, but a function cannot call it."""

    def __init__(self, name: str):
        super().__init__(name)
        self.__path__: List[str] = []  # it may have modules

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MissingModule(f"{self.__name__}.{name}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"{self.__name__} is not available to the file")


class MissingModuleFinder:
    """Finds what a file imports of missing modules: a MissingModule for each."""

    def find_spec(self, name: str, *_: Any) -> Any:
        parent = sys.modules.get(name.rpartition(".")[0])
        if isinstance(parent, MissingModule) or name.startswith("tensorflow.contrib."):
            return importlib.machinery.ModuleSpec(name, self)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return MissingModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: there is no code."""


def _accept_l(regularizer: Callable) -> Callable:
    """Let a Keras regularizer take the scale by its old name, `l`."""

    def make_regularizer(*scale: Any, **named_scale: Any) -> Any:
        return regularizer(*scale, *named_scale.values())

    return make_regularizer


def _install_module(name: str, parent: Any, **names: Any) -> types.ModuleType:
    """Make the module `tensorflow.<name>`, an attribute of its parent."""
    module = types.ModuleType(f"tensorflow.{name}")
    module.__dict__.update(names, __path__=[])
    sys.modules[module.__name__] = module
    setattr(parent, name.rpartition(".")[2], module)
    return module


# Random numbers


class Mask(NamedTuple):
    """Uniform random numbers, usually for a dropout mask."""

    name: str  # the name of what is dropped
    sizes: Optional[Tuple[int, ...]]  # the shape of the mask
    rate: Optional[float]  # None: a tensor, or not of TensorFlow's dropout


masks: List[Mask] = []  # made since this list was last cleared
dropping: List[Tuple[str, Any]] = []  # the current dropout: (what is dropped, the rate)


def record_dropout(x: Any, rate: Any, *args: Any, **kwargs: Any) -> Any:
    """Apply `tf.nn.dropout`, and tell `deterministic_uniform` what is dropped."""
    dropping.append((tf.convert_to_tensor(x).op.name, rate))
    try:
        return random_dropout(x, rate, *args, **kwargs)
    finally:
        dropping.pop()


def deterministic_uniform(shape: Any, *args: Any, **kwargs: Any) -> Any:
    """Return fixed numbers like `tf.random_uniform`; record them in `masks`.

    They depend on the last two dimensions, and on the number of earlier masks with
    these dimensions, so attention weights get the same mask as [N, H, Tq, Tk] and as
    [H * N, Tq, Tk]. With bounds, which initializers pass, the numbers are random.
    """
    if args or "minval" in kwargs or "maxval" in kwargs:
        return random_uniform(shape, *args, **kwargs)
    shape = tf.convert_to_tensor(shape, tf.int32)
    static_shape = tf.get_static_value(shape)
    sizes = None
    if static_shape is not None:
        sizes = tuple(int(size) for size in static_shape)
    last_sizes = (sizes or ())[-2:]
    num_earlier = sum((mask.sizes or ())[-2:] == last_sizes for mask in masks)
    name, rate = dropping[-1] if dropping else ("a mask of its own", None)
    rate = tf.get_static_value(rate) if tf.is_tensor(rate) else rate
    masks.append(Mask(name, sizes, rate if rate is None else round(float(rate), 6)))
    last = shape[-min(shape.shape.as_list()[0], 2) :]
    numbers = tf.random.stateless_uniform([tf.reduce_prod(last)], [1, 2 + num_earlier])
    numbers = tf.reshape(numbers, last) + tf.zeros(shape)
    return tf.cast(numbers, kwargs.get("dtype", tf.float32))


def deterministic_dropout(
    inputs, rate, is_training=True, seed=None, name="dropout", broadcast_dims=()
):
    """Apply `blocks.layers.dropout` with the mask that TensorFlow's dropout gets."""
    sizes = block_layers.shape_list(inputs)
    for dimension in broadcast_dims:
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


def conv1d(inputs, filters, kernel_size, **kwargs):
    names = ("conv1d", "kernel", "bias")
    size = int(np.ravel(kernel_size)[0])
    return dense(inputs, filters, names=names, size=size, **kwargs)


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
    def drop():
        return tf.nn.dropout(inputs, rate=rate, noise_shape=noise_shape)

    if tf.is_tensor(training) and tf.get_static_value(training) is not None:
        training = bool(tf.get_static_value(training))
    if tf.is_tensor(training):
        is_training = tf.cast(training, tf.bool)
        return tf.cond(is_training, drop, lambda: tf.identity(inputs))
    return drop() if training else tf.identity(inputs)


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


def any_initializer(*_, **__):
    """Return some initializer, because the initial values are replaced anyway."""
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
    "variance_scaling_initializer": any_initializer,
    "xavier_initializer": any_initializer,
}
TRIL = tf.linalg.LinearOperatorLowerTriangular
LINALG = {"LinearOperatorLowerTriangular": TRIL, "LinearOperatorTriL": TRIL}
