"""Warnings about inverted masks, in which True means padding."""

import sys
import warnings

import tensorflow.compat.v1 as tf

# The ops that make a mask from ids or lengths: such a mask needs no check.
TRUE_FOR_TOKENS = ("NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "Const")


def warn_once(suspicious, message: str, mask):
    """Return `mask`; the first time `suspicious` is True in a session, print a message.

    Args:
      suspicious: bool, scalar tensor.
      message: what was found, and what was wanted.
      mask: a tensor.
    """
    # A staging area remembers that it was printed: it needs no initialization.
    place = {"shared_name": tf.get_default_graph().unique_name("warned")}
    said = tf.raw_ops.StageSize(dtypes=[tf.bool], **place)

    def say():
        with tf.control_dependencies([tf.print(message, output_stream=sys.stderr)]):
            return tf.group(tf.raw_ops.Stage(values=[True], **place))

    first = tf.logical_and(suspicious, tf.equal(said, 0))
    with tf.control_dependencies([tf.cond(first, say, tf.no_op)]):
        return tf.identity(mask)


def check_key_masks(given):
    """Warn of key masks, bool or of numbers [N, Tk], in which True means padding.

    Masks made by `tf.equal` are reported at once; those of unknown origin when they are
    run, if the first key of every row is padding.

    Returns:
      The masks.
    """
    if given is None or given is True:
        return given
    given = tf.convert_to_tensor(given)
    message = (
        "multihead_attention: found key_masks {}, wanted True = may attend, as "
        "tf.not_equal(ids, 0) makes it; for masks in which True means padding, there "
        "is transformer.compat.kyubyong"
    )
    if given.op.type == "Equal":
        warnings.warn(message.format("made by tf.equal"), stacklevel=3)
    elif given.shape.ndims == 2 and given.op.type not in TRUE_FOR_TOKENS:
        first_is_padding = tf.equal(given[:, 0], tf.zeros([], given.dtype))
        return warn_once(
            tf.reduce_all(first_is_padding),
            message.format("in which the first key of every row is padding"),
            given,
        )
    return given
