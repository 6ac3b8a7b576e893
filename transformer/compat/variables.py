"""Create variables with an original program's names, shapes and initial values.

When a block calls `tf.get_variable("q/kernel")` inside `original_variables`, it gets
the variable that the original would have created: `dense/kernel`, or a new
`ln/Variable` for each call.
"""

import contextlib
import re
from typing import Callable, Iterator, Optional

import tensorflow.compat.v1 as tf

from transformer.blocks.arguments import refuse_function
from transformer.compat.names import BLOCKS, apply_rules

# `tf.Variable` without a name: never shared, numbered in its name scope.
ANONYMOUS = re.compile(r"(^|/)Variable(_\d+)?$")
# A dense layer that the original computes as a convolution of width 1.
CONVOLUTION = re.compile(r"(^|/)conv1d(_\d+)?/kernel$")
TABLE = re.compile(r"(^|/)(lookup_table|weight_mat|embeddings)$")
# The initializers of originals that use the same one for all variables.
INITIALIZERS = {"bojone": tf.random_uniform_initializer(-0.05, 0.05)}


@contextlib.contextmanager
def original_variables(
    source: str, regularizer: Optional[Callable] = None
) -> Iterator[None]:
    """Create the variables of blocks as an original does; also works as a decorator.

    Args:
      source: a key of `names.BLOCKS`.
      regularizer: function of a variable, added to the regularization losses.
    """

    outer = tf.get_variable_scope()
    caller = tf.get_default_graph().get_name_scope()

    def create_variable(getter, name, shape=None, **settings):
        refuse_function(f"transformer.compat.{source}")
        our_name = name
        name = apply_rules(our_name, BLOCKS[source])
        if TABLE.search(name):
            settings["initializer"] = tf.glorot_uniform_initializer()
        if name.endswith(("/kernel", "/embeddings")) and outer.initializer is not None:
            settings["initializer"] = outer.initializer  # as tf.layers does
        if source in INITIALIZERS:
            settings["initializer"] = INITIALIZERS[source]
        if ANONYMOUS.search(name):
            # The original may not open a scope around it, although the block does.
            is_outside = name.rpartition("/")[0] == outer.name
            scope = tf.get_variable_scope().original_name_scope
            if is_outside:
                scope = caller
            return _create_anonymous(scope, shape, **settings)
        if name != our_name and CONVOLUTION.search(name):
            return tf.squeeze(getter(name, shape=[1, *shape], **settings), axis=0)
        return getter(name, shape=shape, **settings)

    with tf.variable_scope(
        outer,
        custom_getter=create_variable,
        regularizer=regularizer,
        auxiliary_name_scope=False,
    ):
        yield


def _create_anonymous(scope, shape, initializer, dtype, trainable, **_):
    """Create a variable that only its name scope names: "scope/Variable_1".

    It is not named itself: the replicas of a `tf.distribute.Strategy` have name scopes
    of their own, and share variables by name.
    """
    with tf.name_scope(scope.rstrip("/") + "/" if scope else None):
        return tf.Variable(
            initializer(shape, dtype=dtype), trainable=trainable is not False
        )


def l2_regularizer(scale: float) -> Callable:
    """Make the regularizer of `tf.contrib.layers.l2_regularizer`.

    For scale 0, it adds no loss; unlike None, it replaces the one of the scope, too.
    """
    return lambda weights: scale * tf.nn.l2_loss(weights) if scale else None
