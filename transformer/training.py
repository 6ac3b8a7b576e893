"""From logits to one update of the variables: loss, gradients, Adam.

A loss is a sum and a count, over tokens. What an update applies and logs is divided in
one place, `make_update`: the sums over all its batches, shards and workers by the count
of all their tokens. (`_mean_and_norm` divides the sums of one run; only the checks for
numbers that are not finite read that.)
"""

import functools
import math
import operator
from typing import NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from transformer.blocks.gradients import register, with_gradient
from transformer.blocks.masks import is_token
from transformer.blocks.shapes import as_int64
from transformer.dialects import resolve
from transformer.loss_scale import LossScale, only_if
from transformer.runtime.exchange import Exchange
from transformer.schedules import learning_rate
from transformer.shards import Shards


class Loss(NamedTuple):
    """A loss before its division."""

    sum: tf.Tensor  # float32 scalar, in nats
    count: tf.Tensor  # float32 scalar, real target tokens


def smooth_all(epsilon: float, vocab_size: int):
    """Return the paper's labels: epsilon / V is added to all.

    Returns:
      (label of the true piece, label of each other piece, what is subtracted from the
      loss of a token: 0).
    """
    return 1 - epsilon + epsilon / vocab_size, epsilon / vocab_size, 0.0


def smooth_others(epsilon: float, vocab_size: int):
    """Return tensor2tensor's labels: the other pieces share epsilon.

    The entropy of the labels is subtracted, so that a perfect model has the loss 0.
    """
    true, other = 1 - epsilon, epsilon / (vocab_size - 1)
    entropy = -sum(
        times * label * math.log(label)
        for times, label in ((1, true), (vocab_size - 1, other))
        if label > 0
    )
    return true, other, entropy


SMOOTHINGS = {"all": smooth_all, "others": smooth_others}


def cross_entropy(logits, target_out, epsilon: float = 0.0, smoothing: str = "all"):
    """Return the cross entropy of the real tokens with smoothed labels (section 5.4).

    Args:
      logits: float [N, T, V].
      target_out: int32 [N, T], 0 = padding, which does not count.
      epsilon: float, the probability taken from the true piece.
      smoothing: a key of `SMOOTHINGS`; "all" has the labels of
        `modules.label_smoothing`.

    Returns:
      Loss.
    """
    pieces = tf.reshape(as_int64(target_out), [-1])  # [M]
    losses = cross_entropies(logits, pieces, epsilon, smoothing)
    real = tf.cast(is_token(pieces), tf.float32)
    return Loss(tf.reduce_sum(losses * real), tf.reduce_sum(real))


def cross_entropies(logits, pieces, epsilon: float = 0.0, smoothing: str = "all"):
    """Return the cross entropy of each token, padding included: float [M].

    Args:
      logits: float [..., V], M rows.
      pieces: int [M].
      epsilon, smoothing: as in `cross_entropy`.
    """
    vocab_size = logits.shape.as_list()[-1]
    true, other, entropy = SMOOTHINGS[smoothing](epsilon, vocab_size)
    logits = tf.reshape(logits, [-1, vocab_size])
    return _token_losses(logits, pieces, true, other) - entropy


def _token_losses(logits, pieces, true, other):
    """Return -sum(labels * log_softmax(logits)) without making the labels: float [M].

    Labels of the size of the logits are neither written nor read.

    Args:
      logits: float [M, V].
      pieces: int [M], the true pieces.
      true: float, the label of the true piece.
      other: float, the label of each other piece; all labels add up to 1.
    """

    def losses(logits):
        probabilities = tf.nn.softmax(logits)
        # log sum exp(logits), from the likeliest piece: its probability is at least
        # 1 / V, where that of the true one may be too small for a float.
        normalizer = tf.reduce_max(logits, -1) - tf.log(
            tf.reduce_max(probabilities, -1)
        )
        logit = tf.gather(logits, pieces[:, None], batch_dims=1)[:, 0]  # [M]
        result = normalizer - (true - other) * logit
        if other:
            result -= other * tf.reduce_sum(logits, -1)
        labels = (tf.constant(each, logits.dtype) for each in (true - other, other))
        return (result, probabilities, pieces, *labels)

    return with_gradient("transformer/cross_entropy", losses, logits)


def _losses_gradient(output, logits, probabilities, pieces, more, other, upstream):
    # 0, 1, ..., exact in float32, and counted where the logits are.
    rows = tf.cumsum(tf.ones_like(pieces, tf.float32), exclusive=True)
    rows = as_int64(rows)  # [M]
    places = tf.stack([rows, as_int64(pieces)], axis=1)  # [M, 2]
    less = tf.fill(tf.shape(rows), more)
    difference = tf.tensor_scatter_nd_sub(probabilities - other, places, less)
    return [difference * upstream[:, None]]


register("transformer/cross_entropy", _losses_gradient)


class Metrics(NamedTuple):
    """Numbers of an update, logged by `trainer.Training.log_metrics`."""

    loss: tf.Tensor  # mean over the real tokens, with label smoothing, in nats
    tokens: tf.Tensor  # real target tokens
    learning_rate: tf.Tensor
    gradient_norm: tf.Tensor  # before clipping
    scaling: tuple = ()  # in float16: a Scaling


class Update(NamedTuple):
    """The ops of an update.

    Run `collect` for all that goes into it but the last (several batches, or rounds of
    shards), `apply` for the last; each run reads what comes next.
    """

    collect: tf.Operation
    apply: tf.Operation
    metrics: Metrics  # valid in the same run as `apply`
    # (loss, norm of the gradients) of what this process computes in the current run;
    # nothing is changed by reading them
    local_loss_and_norm: Tuple[tf.Tensor, tf.Tensor]
    runs: int = 1  # of an update: `collect` in all but the last


def make_update(
    losses,
    hp,
    global_step,
    shards: Optional[Shards] = None,
    exchange: Optional[Exchange] = None,
):
    """Make an update by Adam, with the schedule, clipping and accumulation of `hp`.

    Args:
      losses: Loss of the current batch, or a list: of the current shard of each
        device, computed there.
      hp: the settings.
      global_step: int64 variable, counted up by each update.
      shards: how batches are cut; None: they are not.
      exchange: with the other workers; None: there are none.

    Returns:
      Update. Where the loss or the norm of the gradients is not finite, `apply` changes
      nothing, not even the step; in float16 see `LossScale`: it counts the step.
    """
    variables = tf.trainable_variables()
    losses = [losses] if isinstance(losses, Loss) else losses
    loss_scale = LossScale() if hp.precision == "float16" else None
    sums = [_gradients_and_loss(loss, variables, loss_scale) for loss in losses]
    shapes = [variable.shape for variable in variables] + [[], []]
    is_cut = shards is not None and shards.count > 1
    in_order = is_cut and hp.deterministic
    local_loss_and_norm = _mean_and_norm(_total(sums), loss_scale)
    if exchange and in_order:
        sums = exchange.all(sums)
    groups = [sums] if in_order else [[x] for x in sums]
    runs = hp.accumulate * (shards.rounds if is_cut else 1)
    if runs == 1 and not in_order:
        collect, update_sums, clear = tf.no_op(), _total(sums), list
    else:
        collect, update_sums, clear = _accumulated(groups, shapes)
    if exchange and not in_order:
        update_sums = exchange.sums(update_sums)
    # All of them before any variable changes: TensorFlow 1.15 would otherwise compute
    # some gradients with variables that this update has changed already.
    *gradients, loss_sum, count = tf.tuple(update_sums)
    count = tf.maximum(count, 1.0)  # where only a round without a pair is computed
    divisor = count * loss_scale.value if loss_scale else count
    gradients = [gradient / divisor for gradient in gradients]
    loss, norm = loss_sum / count, tf.global_norm(gradients)
    if hp.clip_norm:
        gradients, _ = tf.clip_by_global_norm(gradients, hp.clip_norm, norm)
    rate = learning_rate(hp, global_step)
    beta1, beta2, epsilon = resolve(hp.dialect).adam
    # With the loss, so that it is computed before what is added up is emptied.
    are_finite = tf.is_finite(loss + norm)
    adam = tf.train.AdamOptimizer(only_if(are_finite, rate), beta1, beta2, epsilon)
    applied = adam.apply_gradients(zip(gradients, variables), global_step)
    with tf.control_dependencies([applied]):
        applied = tf.group(*clear())
    scaling = ()
    if loss_scale:
        scaling, skip = loss_scale.after(are_finite, global_step, rate, clear)
        applied = tf.group(applied, skip)
    metrics = Metrics(loss, count, rate, norm, scaling)
    return Update(collect, applied, metrics, local_loss_and_norm, runs)


def _mean_and_norm(sums, loss_scale):
    """Return (loss, norm of the gradients) of sums that were not divided yet."""
    *gradients, loss_sum, count = sums
    count = tf.maximum(count, 1.0)
    divisor = count * loss_scale.value if loss_scale else count
    return loss_sum / count, tf.global_norm(gradients) / divisor


def _gradients_and_loss(loss, variables, loss_scale):
    """Return what is added up over an update: gradients, the loss, its count.

    They are computed on the device of the loss. With a LossScale, gradients are scaled.
    """
    with tf.device(loss.sum.device):
        gradients = tf.gradients(loss.sum, variables, loss_scale and loss_scale.value)
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        for gradient, variable in zip(gradients, variables):
            gradient.set_shape(variable.shape)
        return gradients + list(loss)


def _accumulated(groups, shapes):
    """Sum over the runs of an update.

    The members of a group are added one after the other to a sum that is kept on the
    device of its first; then the sums of the groups are added up. `assign_add` keeps
    this order. TensorFlow would rewrite a plain sum of tensors: it adds those of equal
    shapes in one operation, whose rounding depends on how many there are.

    Args:
      groups: lists of lists of tensors, what is computed in the current run.
      shapes: the static shapes of the tensors of a list.

    Returns:
      (op that adds the current run, the sums with the current run, a function that
      makes the ops that empty them).
    """
    kept, totals = [], []
    for number, group in enumerate(groups):
        with tf.device(group[0][-1].device):
            sums = _empty_sums(shapes, f"_{number}" if number else "")
            parts = zip(sums, *group)
            totals.append([functools.reduce(tf.assign_add, part) for part in parts])
        kept += sums
    collect = tf.group(*[total for group in totals for total in group])
    return (
        collect,
        _total([[tf.convert_to_tensor(total) for total in group] for group in totals]),
        lambda: [tf.assign(total, tf.zeros_like(total)) for total in kept],
    )


def _total(lists):
    """Return the sum over lists of each of their tensors, from the first list on."""
    return [functools.reduce(operator.add, tensors) for tensors in zip(*lists)]


def _empty_sums(shapes, ending):
    """Return a variable of zeros of each shape.

    They are not saved: a checkpoint is written between updates, where they are empty.
    """
    return [
        tf.get_variable(
            f"accumulated_{i}{ending}",
            shape,
            trainable=False,
            initializer=tf.zeros_initializer(),
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
        )
        for i, shape in enumerate(shapes)
    ]
