"""Custom gradients, for functions whose automatic gradients lose precision.

`register_gradient` registers a gradient by name; `with_gradient` applies it.
"""

import contextlib
from typing import Callable, Dict

import tensorflow.compat.v1 as tf

from transformer.runtime.versions import IS_TENSORFLOW_1

# Name → function: see `register_gradient`. It survives a reload of this module.
BACKWARD: Dict[str, Callable] = globals().get("BACKWARD", {})


def register_gradient(name: str, backward: Callable) -> None:
    """Register a gradient for `with_gradient`, and for graphs that are imported.

    Args:
      name: the name of the gradient in every graph that uses it.
      backward: function of the tensors output, *inputs, *saved, upstream that returns a
        list with the gradient of each input.
    """

    def gradient(op, upstream, *_):
        gradients = BACKWARD[name](*op.inputs, upstream)
        return [None, *gradients] + [None] * (len(op.inputs) - 1 - len(gradients))

    BACKWARD[name] = backward
    with contextlib.suppress(KeyError):  # registered before a reload
        tf.RegisterGradient(name)(gradient)


def with_gradient(name: str, forward: Callable, *inputs):
    """Apply a function whose gradient is registered.

    In a graph, `tf.custom_gradient` would register a gradient for each call. Its
    registry is never cleared, so it would keep the graph in memory. (A
    `tf.GradientTape` in a graph derives the gradient from `forward`; the result differs
    only by rounding.)

    Args:
      name: the name of the gradient.
      forward: function of `inputs` that returns the tensors (output, *saved); only the
        gradient uses `saved`.
      inputs: float tensors.

    Returns:
      `output`.
    """
    if is_eager():

        @tf.custom_gradient
        def apply(*inputs):
            output, *saved = forward(*inputs)

            def gradient(upstream):
                return BACKWARD[name](output, *inputs, *saved, upstream)

            return output, gradient

        return apply(*inputs)
    output, *saved = forward(*inputs)
    with tf.get_default_graph().gradient_override_map({"IdentityN": name}):
        return tf.identity_n([output, *inputs, *saved])[0]


def is_eager() -> bool:
    """Return whether the program uses eager mode, even inside a tf.function."""
    if IS_TENSORFLOW_1:
        return tf.executing_eagerly()
    return tf.executing_eagerly_outside_functions()
