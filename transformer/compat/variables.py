"""Create variables with an original program's names, shapes and initial values.

When a block calls `tf.get_variable("q/kernel")` inside `variables_named_as`, it gets
the variable that the original would have created: `dense/kernel`, or a new
`ln/Variable` for each call.
"""

import contextlib
import re
from typing import Callable, Iterator, Optional

import tensorflow.compat.v1 as tf

from transformer.compat.names import BLOCKS, renamed

# `tf.Variable` without a name: never shared, numbered in its name scope.
ANONYMOUS = re.compile(r"(^|/)Variable(_\d+)?$")
# A dense layer that the original computes as a convolution of width 1.
CONVOLUTION = re.compile(r"(^|/)conv1d(_\d+)?/kernel$")
TABLE = re.compile(r"(^|/)(lookup_table|weight_mat|embeddings)$")
# The initializers of originals that use the same one for all variables.
FIRST_VALUES = {"bojone": tf.random_uniform_initializer(-0.05, 0.05)}


@contextlib.contextmanager
def variables_named_as(
    source: str, regularizer: Optional[Callable] = None
) -> Iterator[None]:
    """Create the variables of blocks as an original does; also works as a decorator.

    Args:
      source: a key of `names.BLOCKS`.
      regularizer: function of a variable, added to the regularization losses.
    """

    outer = tf.get_variable_scope()
    caller = tf.get_default_graph().get_name_scope()

    def named_as_there(getter, name, shape=None, **settings):
        ours = name
        name = renamed(ours, BLOCKS[source])
        if TABLE.search(name):
            settings["initializer"] = tf.glorot_uniform_initializer()
        if name.endswith(("/kernel", "/embeddings")) and outer.initializer is not None:
            settings["initializer"] = outer.initializer  # as tf.layers does
        if source in FIRST_VALUES:
            settings["initializer"] = FIRST_VALUES[source]
        if ANONYMOUS.search(name):
            # The original may not open a scope around it, although the block does.
            scopeless = name.rpartition("/")[0] == outer.name
            scope = caller if scopeless else tf.get_variable_scope().original_name_scope
            return _anonymous_variable(scope, shape, **settings)
        if name != ours and CONVOLUTION.search(name):
            return tf.squeeze(getter(name, shape=[1, *shape], **settings), axis=0)
        return getter(name, shape=shape, **settings)

    with tf.variable_scope(
        outer,
        custom_getter=named_as_there,
        regularizer=regularizer,
        auxiliary_name_scope=False,
    ):
        yield


def _anonymous_variable(scope, shape, initializer, dtype, trainable, **_):
    """Return a new variable, named by a name scope: "scope/Variable_1"."""
    return tf.Variable(
        initializer(shape, dtype=dtype),
        name=(scope.rstrip("/") + "/Variable").lstrip("/"),
        trainable=trainable is not False,
    )


def l2_regularizer(scale: float) -> Optional[Callable]:
    """Return what `tf.contrib.layers.l2_regularizer` returns; None for scale 0."""
    return (lambda weights: scale * tf.nn.l2_loss(weights)) if scale else None
