"""Dynamic loss scaling: it keeps small gradients in float16 from becoming zero.

The loss is multiplied before its gradients are computed, and the gradients are divided
after. Where they are not finite, the factor was too large: the update is skipped and
the factor halved. After many good updates it is doubled. Factor and counts are saved
with the checkpoint. (Micikevicius et al. 2018, section 3.2.)
"""

import math
from typing import Dict, NamedTuple

import tensorflow.compat.v1 as tf

# The loss is a sum over thousands of tokens: that alone is a factor.
FIRST, FLOOR, MOST = 2.0**7, 1.0, 2.0**100
GROW_AFTER = 2000  # updates
SCOPE = "loss_scale"


class Scaling(NamedTuple):
    """Numbers of an update in float16: tensors, or their values."""

    scale: tf.Tensor  # float32, with which the gradients of this update were computed
    skipped: tf.Tensor  # int64, updates of the run that were skipped before this one
    is_skipped: tf.Tensor  # bool, whether this one is


def only_if(condition, value):
    """Return `value`, or a dead tensor if `condition` is False.

    TensorFlow skips every op with a dead input: if the learning rate is dead, no
    variable changes.
    """
    return tf.raw_ops.Switch(data=value, pred=condition).output_true


class LossScale:
    """The factor of a loss, and how many updates were good or skipped: variables."""

    def __init__(self):
        with tf.variable_scope(SCOPE):
            self._scale = _variable("scale", FIRST, tf.float32)
            self._good = _variable("good_updates", 0, tf.int64)
            self._skipped = _variable("skipped_updates", 0, tf.int64)
        self.value = tf.identity(self._scale)

    def after(self, are_finite, global_step, rate, clear):
        """Return (Scaling, the op that adapts the factor and skips) of an update.

        A skipped update counts as a step: batches are a function of the step, and it
        has used its own.

        Args:
          are_finite: bool scalar, whether its loss and its gradients are. If they are
            not although the factor is at its floor, the update does not count as
            skipped: training fails.
          global_step: int64 variable.
          rate: the learning rate, computed from the step before.
          clear: function that makes the ops that empty accumulated sums.
        """
        good, skipped = tf.identity(self._good) + 1, tf.identity(self._skipped)
        is_skipped = tf.logical_and(tf.logical_not(are_finite), self.value > FLOOR)
        grows = tf.equal(good, GROW_AFTER)
        grown = tf.where_v2(grows, tf.minimum(self.value * 2, MOST), self.value)
        halved = tf.maximum(self.value / 2, FLOOR)
        none = tf.zeros_like(good)
        adapt = tf.group(
            tf.assign(self._scale, tf.where_v2(are_finite, grown, halved)),
            tf.assign(
                self._good, tf.where_v2(tf.logical_and(are_finite, ~grows), good, none)
            ),
            tf.assign(self._skipped, skipped + tf.cast(is_skipped, tf.int64)),
        )
        with tf.control_dependencies([rate]):
            one = only_if(is_skipped, tf.ones([], tf.int64))
            counted = tf.group(tf.assign_add(global_step, one))
        with tf.control_dependencies([counted]):
            skip = tf.group(*clear())
        return Scaling(self.value, skipped, is_skipped), tf.group(adapt, skip)


def are_fine(metrics) -> bool:
    """Return whether training goes on after an update: it has the values of Metrics."""
    is_finite = math.isfinite(metrics.loss + metrics.gradient_norm)
    return is_finite or any(metrics.scaling[-1:])


def scalars(scaling: tuple) -> Dict[str, float]:
    """Return what TensorBoard shows of the values of a Scaling, nothing of ()."""
    if not scaling:
        return {}
    skipped = float(scaling.skipped + scaling.is_skipped)
    return {"loss_scale": float(scaling.scale), "skipped_updates": skipped}


def report(scaling: tuple) -> str:
    """Return the end of a line of the log: the values of a Scaling, nothing of ()."""
    if not scaling:
        return ""
    skipped = scaling.skipped + scaling.is_skipped
    return f"  loss scale {scaling.scale:g}, {skipped} skipped"


def _variable(name, value, dtype):
    return tf.get_variable(
        name,
        [],
        dtype,
        tf.constant_initializer(value),
        trainable=False,
        use_resource=True,
    )
