"""Learning-rate schedules: the number of an update → its learning rate.

A schedule gives a factor; what it is multiplied with is the setting `learning_rate`, or
that of the dialect.
"""

import tensorflow.compat.v1 as tf

from transformer.dialects import resolve


def noam(step, hp):
    """Return d_model^-0.5 * min(step^-0.5, step * warmup^-1.5): equation 3."""
    return hp.d_model**-0.5 * tf.minimum(step**-0.5, step * hp.warmup_steps**-1.5)


def noam_by_peak(step, hp):
    """Return the curve of `noam`, scaled to 1 at the end of the warm-up (Kyubyong)."""
    return hp.warmup_steps**0.5 * tf.minimum(step**-0.5, step * hp.warmup_steps**-1.5)


def rsqrt(step, hp):
    """Return the curve of `noam`, counting steps from 0 (tensor2tensor)."""
    warmup, step = float(hp.warmup_steps), step - 1
    return (
        hp.d_model**-0.5
        * tf.minimum(1.0, step / warmup)
        * tf.rsqrt(tf.maximum(step, warmup))
    )


def constant(step, hp):
    """Return 1."""
    return tf.ones_like(step)


def linear(step, hp):
    """Rise to 1 at the end of the warm-up, then fall to 0 at the last step.

    Where the number of steps is known it gives better models than `noam`, whose rate is
    still high when training ends.
    """
    up = step / hp.warmup_steps
    down = (hp.max_steps + 1 - step) / max(1, hp.max_steps + 1 - hp.warmup_steps)
    return tf.minimum(up, down)


# Functions of the number of the update, a float32 scalar from 1, and the settings.
SCHEDULES = {
    "noam": noam,
    "noam_by_peak": noam_by_peak,
    "rsqrt": rsqrt,
    "constant": constant,
    "linear": linear,
}


def learning_rate(hp, global_step):
    """Return the learning rate after `global_step` updates: float32 scalar."""
    dialect = resolve(hp.dialect)
    schedule = SCHEDULES[hp.schedule or dialect.schedule]
    factor = hp.learning_rate or dialect.learning_rate
    step = tf.cast(global_step + 1, tf.float32)
    return factor * schedule(step, hp)
