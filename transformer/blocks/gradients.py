"""Gradients that are written out, where the one that TensorFlow derives is worse."""

import contextlib
from typing import Callable, Dict

import tensorflow.compat.v1 as tf

BACKWARD: Dict[str, Callable] = {}  # name → function, see `register`


def register(name: str, backward: Callable) -> None:
    """Make a gradient known to `with_gradient`, and to graphs that are imported.

    Args:
      name: of the gradient, in every graph that uses it.
      backward: function (output, *inputs, *saved, upstream) of tensors that returns a
        list: the gradient of each input.
    """

    def gradient(op, upstream, *_):
        gradients = BACKWARD[name](*op.inputs, upstream)
        return [None, *gradients] + [None] * (len(op.inputs) - 1 - len(gradients))

    BACKWARD[name] = backward
    with contextlib.suppress(KeyError):  # this module was loaded again
        tf.RegisterGradient(name)(gradient)


def with_gradient(name: str, forward: Callable, *inputs):
    """Return the output of a function, with a gradient that was registered.

    In a graph, `tf.custom_gradient` would register each call anew; what it registers is
    never freed, and keeps the graph. (A `tf.GradientTape` in a graph derives the
    gradient from `forward`: the same but for rounding.)

    Args:
      name: of the gradient.
      forward: function of `inputs` that returns (output, *saved): tensors, those in
        `saved` for the gradient alone.
      inputs: float tensors.
    """
    if is_eager():

        @tf.custom_gradient
        def computed(*inputs):
            output, *saved = forward(*inputs)

            def gradient(upstream):
                return BACKWARD[name](output, *inputs, *saved, upstream)

            return output, gradient

        return computed(*inputs)
    output, *saved = forward(*inputs)
    with tf.get_default_graph().gradient_override_map({"IdentityN": name}):
        return tf.identity_n([output, *inputs, *saved])[0]


def is_eager() -> bool:
    """Return whether the program is one of eager mode, also within its functions."""
    known = getattr(tf, "executing_eagerly_outside_functions", tf.executing_eagerly)
    return known()  # TensorFlow 1.15 has the second alone
