"""Warnings about inverted masks, in which True means padding."""

import sys
import warnings

import tensorflow.compat.v1 as tf

# The ops that make a mask from ids or lengths: such a mask needs no check.
TRUE_FOR_TOKENS = ("NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "Const")


def warn_once(suspicious, kind: str, message: str, mask):
    """Return `mask`; the first time `suspicious` is True in a session, print a message.

    Args:
      suspicious: bool, scalar tensor.
      kind: which warning it is; of those of a kind, one is printed.
      message: what was found, and what was wanted.
      mask: a tensor.
    """
    message += "; ignore this where rows are padded on the left"

    def check():
        # Both need no initialization. The area remembers that it was printed; the lock
        # keeps two checks of one step apart.
        lock = tf.raw_ops.MutexLock(
            mutex=tf.raw_ops.MutexV2(shared_name=kind + "_lock")
        )
        area = {"dtypes": [tf.bool], "shared_name": kind}
        with tf.control_dependencies([lock]):
            said = tf.raw_ops.StageSize(**area)
        done = tf.cond(tf.equal(said, 0), say, tf.no_op)
        with tf.control_dependencies([done]):
            return tf.group(tf.raw_ops.ConsumeMutexLock(mutex_lock=lock))

    def say():
        with tf.control_dependencies([tf.print(message, output_stream=sys.stderr)]):
            return tf.group(tf.raw_ops.Stage(values=[True], shared_name=kind))

    with tf.device("/cpu:0"):
        checked = tf.cond(suspicious, check, tf.no_op)
    with tf.control_dependencies([checked]):
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
            "key_masks_of_modules",
            message.format("in which the first key of every row is padding"),
            given,
        )
    return given
