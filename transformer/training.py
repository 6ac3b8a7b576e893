"""From logits to one update of the variables: loss, schedule, Adam.

A loss is a sum and a count. They are divided once, in `make_update`, over all that goes
into one update.
"""

import math
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from transformer.blocks.primitives import with_dense_gradient
from transformer.dialects import dialect_named


class Loss(NamedTuple):
    """A loss before its division."""

    sum: tf.Tensor  # float32 scalar, in nats
    count: tf.Tensor  # float32 scalar, real target tokens


def smooth_all(epsilon, vocab_size):
    """The paper's labels, epsilon / V added to all: (of the true piece, of others, 0).

    Returns:
      (label of the true piece, label of each other piece, what is taken off the loss).
    """
    return 1 - epsilon + epsilon / vocab_size, epsilon / vocab_size, 0.0


def smooth_others(epsilon, vocab_size):
    """tensor2tensor's labels: epsilon is shared by the others, and the entropy of the
    labels is taken off, so that a perfect model has the loss 0."""
    true, other = 1 - epsilon, epsilon / (vocab_size - 1)
    entropy = -sum(
        times * label * math.log(label)
        for times, label in ((1, true), (vocab_size - 1, other))
        if label > 0
    )
    return true, other, entropy


SMOOTHINGS = {"all": smooth_all, "others": smooth_others}


def cross_entropy(logits, target_out, epsilon=0.0, smoothing="all"):
    """Cross entropy of the real tokens with smoothed labels (section 5.4).

    Args:
      logits: float [N, T, V].
      target_out: int32 [N, T], 0 = padding, which does not count.
      epsilon: float, the probability taken from the true piece.
      smoothing: a key of `SMOOTHINGS`; "all" has the labels of
        `modules.label_smoothing`, without a second pass over [N, T, V].

    Returns:
      Loss.
    """
    vocab_size = logits.shape.as_list()[-1]
    true, other, entropy = SMOOTHINGS[smoothing](epsilon, vocab_size)
    labels = tf.one_hot(target_out, vocab_size, true, other)
    losses = tf.nn.softmax_cross_entropy_with_logits_v2(labels, logits)  # [N, T]
    real = tf.cast(tf.not_equal(target_out, 0), tf.float32)
    return Loss(tf.reduce_sum((losses - entropy) * real), tf.reduce_sum(real))


def cross_entropy_of_product(states, table, target_out, epsilon=0.0, smoothing="all"):
    """`cross_entropy` of the logits `states` table^T, which are never written as such.

    With the label `true` for the true piece y and `other` for each other one, the loss
    of a token is log sum exp(logits) - (true - other) logits_y - other sum(logits).
    Only its first term needs all logits; the others are products of small tensors.

    Args:
      states: float [N, T, D], what the output layer makes logits of.
      table: float [V, D], its weights.
      target_out, epsilon, smoothing: as in `cross_entropy`.

    Returns:
      Loss.
    """
    vocab_size, width = table.shape.as_list()
    true, other, entropy = SMOOTHINGS[smoothing](epsilon, vocab_size)
    states, targets = tf.reshape(states, [-1, width]), tf.reshape(target_out, [-1])
    table = with_dense_gradient(table)
    true_logits = tf.reduce_sum(states * tf.gather(table, targets), -1)  # [M]
    losses = log_normalizers(states, table, targets) - (true - other) * true_logits
    if other:
        all_logits = tf.matmul(states, tf.reduce_sum(table, 0)[:, None])[:, 0]
        losses -= other * all_logits
    real = tf.cast(tf.not_equal(targets, 0), tf.float32)
    return Loss(tf.reduce_sum((losses - entropy) * real), tf.reduce_sum(real))


@tf.custom_gradient
def log_normalizers(states, table, pieces):
    """log sum exp(states table^T): float [M].

    Args:
      states: float [M, D].
      table: float [V, D].
      pieces: int [M], at whose logit and probability the sum is read off.
    """
    logits = tf.matmul(states, table, transpose_b=True)  # [M, V]
    probabilities = tf.nn.softmax(logits)
    logit, probability = (
        tf.gather(x, pieces[:, None], batch_dims=1)[:, 0]
        for x in (logits, probabilities)
    )  # [M]

    def gradient(upstream):
        weighted = states * upstream[:, None]
        return (
            tf.matmul(probabilities, table) * upstream[:, None],
            tf.matmul(probabilities, weighted, transpose_a=True),
            None,
        )

    # A probability too small for a float32 is told as the smallest.
    return logit - tf.log(tf.maximum(probability, 1e-38)), gradient


def noam(step, hp):
    """d_model^-0.5 * min(step^-0.5, step * warmup^-1.5): equation 3 of the paper."""
    return hp.d_model**-0.5 * tf.minimum(step**-0.5, step * hp.warmup_steps**-1.5)


def noam_by_peak(step, hp):
    """The same curve, but 1 at its peak, the end of the warm-up (Kyubyong)."""
    return hp.warmup_steps**0.5 * tf.minimum(step**-0.5, step * hp.warmup_steps**-1.5)


def rsqrt(step, hp):
    """tensor2tensor's: the curve of `noam`, but at the first update the step is 0."""
    warmup, step = float(hp.warmup_steps), step - 1
    return (
        hp.d_model**-0.5
        * tf.minimum(1.0, step / warmup)
        * tf.rsqrt(tf.maximum(step, warmup))
    )


def constant(step, hp):
    """Always 1."""
    return tf.ones_like(step)


def linear(step, hp):
    """Up to 1 at the end of the warm-up, then down to 0 at the last step.

    Where the number of steps is known, it makes more of them than `noam`, whose rate is
    still a good part of its peak when training ends.
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


class Metrics(NamedTuple):
    """What an update was."""

    loss: tf.Tensor  # mean over the real tokens, with label smoothing, in nats
    tokens: tf.Tensor  # real target tokens
    learning_rate: tf.Tensor
    gradient_norm: tf.Tensor  # before clipping


class Update(NamedTuple):
    """How the variables are changed: `collect` with each batch but the last of an
    update, `apply` with the last. Each reads a batch of its own."""

    collect: tf.Operation
    apply: tf.Operation
    metrics: Metrics  # valid in the same run as `apply`


def learning_rate(hp, global_step):
    """The rate of the update that follows `global_step` updates: float32 scalar."""
    row = dialect_named(hp.dialect)
    schedule = SCHEDULES[hp.schedule or row.schedule]
    factor = hp.learning_rate or row.learning_rate
    step = tf.cast(global_step + 1, tf.float32)
    return factor * schedule(step, hp)


def make_update(model_loss, hp, global_step):
    """Adam with the schedule, the clipping and the accumulation of `hp`.

    Args:
      model_loss: Loss of the current batch.
      hp: the settings.
      global_step: int64 variable, counted up by each update.

    Returns:
      Update. Where the loss or the norm of the gradients is not finite, `apply` changes
      nothing, not even the step.
    """
    variables = tf.trainable_variables()
    here = tf.gradients(model_loss.sum, variables) + list(model_loss)
    shapes = [variable.shape for variable in variables] + [[], []]
    collect, sums, clear = _accumulated(here, shapes, hp.accumulate)
    # All of them before any variable changes: neither a gradient nor the loss may see
    # half an update.
    *gradients, loss_sum, count = tf.tuple(sums)
    gradients = [gradient / count for gradient in gradients]
    norm = tf.global_norm(gradients)
    if hp.clip_norm:
        gradients, _ = tf.clip_by_global_norm(gradients, hp.clip_norm, norm)
    rate = learning_rate(hp, global_step)
    beta1, beta2, epsilon = dialect_named(hp.dialect).adam
    # Every change of a variable needs the rate, and without it none is made: what comes
    # out of the other end of this switch is where numbers that are not finite go.
    finite = tf.raw_ops.Switch(data=rate, pred=tf.is_finite(loss_sum + norm))
    adam = tf.train.AdamOptimizer(finite.output_true, beta1, beta2, epsilon)
    applied = adam.apply_gradients(zip(gradients, variables), global_step)
    with tf.control_dependencies([applied]):
        applied = tf.group(*clear())
    return Update(collect, applied, Metrics(loss_sum / count, count, rate, norm))


def _accumulated(here, shapes, accumulate):
    """Sums over the batches of an update.

    Args:
      here: tensors of the current batch.
      shapes: their static shapes.
      accumulate: int, batches an update.

    Returns:
      (op that adds the current batch, the sums with the current batch, a function that
      makes the ops that empty them).
    """
    if accumulate == 1:
        return tf.no_op(), here, list
    # Not saved: a checkpoint is written between updates, where they are empty.
    sums = [
        tf.get_variable(
            f"accumulated_{i}",
            shape,
            trainable=False,
            initializer=tf.zeros_initializer(),
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
        )
        for i, shape in enumerate(shapes)
    ]
    collect = tf.group(*[tf.assign_add(total, x) for total, x in zip(sums, here)])
    totals = [total + x for total, x in zip(sums, here)]
    return (
        collect,
        totals,
        lambda: [tf.assign(total, tf.zeros_like(total)) for total in sums],
    )
