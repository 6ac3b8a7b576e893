"""From logits to one update of the variables: loss, learning rate, gradients, Adam.

A loss is a sum and a count over tokens. What an update applies and logs is divided in
one place, `make_update`: the sums over all its batches, shards and workers are divided
by the count of all their tokens. (It also divides the sums of each session run, but
only the checks for numbers that are not finite read these.)
"""

import functools
import math
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from transformer.blocks.gradients import register_gradient, with_gradient
from transformer.blocks.layers import cast_to_int64
from transformer.blocks.masks import is_token
from transformer.dialects import resolve
from transformer.hparams import HParams
from transformer.text.batches import Shards
from transformer.workers.exchange import Exchange

# Loss scaling in float16. The loss is a sum over thousands of tokens, which already
# scales its gradients.
FIRST_SCALE = 2.0**7
LEAST_SCALE = 1.0
MOST_SCALE = 2.0**100
GROW_AFTER = 2000  # updates
LOSS_SCALE = "loss_scale"  # scope of variables that only checkpoints of float16 have


class Loss(NamedTuple):
    """A loss before division."""

    sum: tf.Tensor  # float32 scalar, in nats
    count: tf.Tensor  # float32 scalar, real target tokens


class Scaling(NamedTuple):
    """Numbers of an update in float16: tensors, or their values."""

    scale: tf.Tensor  # float32, the factor in the gradients of this update
    skipped: tf.Tensor  # int64, updates of the run skipped before this one
    is_skipped: tf.Tensor  # bool, whether this update is skipped


class Metrics(NamedTuple):
    """Numbers of an update, which `trainer.Training.log_metrics` logs."""

    loss: tf.Tensor  # mean over the real tokens, with label smoothing, in nats
    tokens: tf.Tensor  # real target tokens; with R-Drop, each counts twice
    learning_rate: tf.Tensor
    gradient_norm: tf.Tensor  # before clipping
    scaling: tuple = ()  # in float16: a Scaling


class Update(NamedTuple):
    """The ops of an update.

    An update takes `runs` session runs, one for each batch or round of shards:
    `collect` in all but the last, `apply` in the last. Each of them fetches the next
    batch.
    """

    collect: tf.Operation
    apply: tf.Operation
    metrics: Metrics  # valid in the same run as `apply`
    # (loss, norm of the gradients) of what this process computes in the current run;
    # reading them changes nothing
    local_loss_and_norm: Tuple[tf.Tensor, tf.Tensor]
    runs: int = 1  # session runs per update


# The loss: cross entropy with smoothed labels (section 5.4)


def smooth_all(epsilon: float, vocab_size: int) -> Tuple[float, float, float]:
    """Return the smoothed labels of the dialect `paper` (Szegedy et al. 2015).

    They are (1 - epsilon) times the one-hot label, plus epsilon / V for every piece.

    Returns:
      (label of the true piece, label of each other piece, what is subtracted from the
      loss of a token: 0).
    """
    return 1 - epsilon + epsilon / vocab_size, epsilon / vocab_size, 0.0


def smooth_others(epsilon: float, vocab_size: int) -> Tuple[float, float, float]:
    """Return tensor2tensor's smoothed labels: the other pieces share epsilon.

    The entropy of the labels is subtracted, so that a perfect model has a loss of 0.
    """
    true = 1 - epsilon
    other = epsilon / (vocab_size - 1)
    entropy = -sum(
        times * label * math.log(label)
        for times, label in ((1, true), (vocab_size - 1, other))
        if label > 0
    )
    return true, other, entropy


SMOOTHINGS: Dict[str, Callable] = {"all": smooth_all, "others": smooth_others}


def cross_entropy(
    logits, target_out, epsilon: float = 0.0, smoothing: str = "all"
) -> Loss:
    """Return the cross entropy of the real tokens with smoothed labels (section 5.4).

    Args:
      logits: float [N, T, V].
      target_out: int32 [N, T], 0 = padding, which is not counted.
      epsilon: float, the probability taken from the true piece.
      smoothing: a key of `SMOOTHINGS`; "all" gives the labels of
        `modules.label_smoothing`.

    Returns:
      Loss.
    """
    pieces = tf.reshape(cast_to_int64(target_out), [-1])  # [M]
    losses = cross_entropies(logits, pieces, epsilon, smoothing)
    real = tf.cast(is_token(pieces), tf.float32)
    return Loss(tf.reduce_sum(losses * real), tf.reduce_sum(real))


def cross_entropies(logits, pieces, epsilon: float = 0.0, smoothing: str = "all"):
    """Return the cross entropy of each token, including padding: float [M].

    Args:
      logits: float [..., V], M rows.
      pieces: int [M].
      epsilon, smoothing: as in `cross_entropy`.
    """
    vocab_size = logits.shape.as_list()[-1]
    true, other, entropy = SMOOTHINGS[smoothing](epsilon, vocab_size)

    # -sum(labels * log_softmax(logits)), without writing or reading labels as large as
    # the logits.

    def losses(logits):
        probabilities = tf.nn.softmax(logits)
        # log sum exp(logits), from the likeliest piece: its probability is at least 1 /
        # V, but that of the true piece may be too small for a float.
        normalizer = tf.reduce_max(logits, -1) - tf.log(
            tf.reduce_max(probabilities, -1)
        )
        logit = tf.gather(logits, pieces[:, None], batch_dims=1)[:, 0]  # [M]
        result = normalizer - (true - other) * logit
        if other:
            result -= other * tf.reduce_sum(logits, -1)
        more = tf.constant(true - other, logits.dtype)
        of_others = tf.constant(other, logits.dtype)
        return result, probabilities, pieces, more, of_others

    logits = tf.reshape(logits, [-1, vocab_size])
    return with_gradient("transformer/cross_entropy", losses, logits) - entropy


def _losses_gradient(output, logits, probabilities, pieces, more, other, upstream):
    # 0, 1, ..., exact in float32, and computed on the device of the logits.
    rows = cast_to_int64(tf.cumsum(tf.ones_like(pieces, tf.float32), exclusive=True))
    true_pieces = tf.stack([rows, cast_to_int64(pieces)], axis=1)  # [M, 2]
    less = tf.fill(tf.shape(rows), more)
    difference = tf.tensor_scatter_nd_sub(probabilities - other, true_pieces, less)
    return [difference * upstream[:, None]]


register_gradient("transformer/cross_entropy", _losses_gradient)


def disagreement(logits, target_out):
    """Return how far two passes with dropout disagree: R-Drop (Liang et al. 2021).

    Args:
      logits: float32 [2 N, T, V], the logits of one pass, then those of the other.
      target_out: int32 [N, T], 0 = padding, which is not counted.

    Returns:
      float32 scalar: the sum of (KL(p, q) + KL(q, p)) / 2 over the real tokens.
    """
    p, q = tf.split(tf.nn.softmax(logits), 2)
    p_logits, q_logits = tf.split(logits, 2)
    # This is sum (p - q) (log p - log q) / 2. The normalizers of the logarithms cancel,
    # because p - q sums to 0.
    both = tf.reduce_sum((p - q) * (p_logits - q_logits), -1)  # [N, T]
    return tf.reduce_sum(both * tf.cast(is_token(target_out), tf.float32)) / 2


# The learning rate (section 5.3)


def noam(step, hp: HParams):
    """Return d_model^-0.5 * min(step^-0.5, step * warmup^-1.5): equation 3."""
    return hp.d_model**-0.5 * tf.minimum(step**-0.5, step * hp.warmup_steps**-1.5)


def noam_by_peak(step, hp: HParams):
    """Return the schedule `noam`, scaled to 1 at the end of the warm-up (Kyubyong)."""
    return hp.warmup_steps**0.5 * tf.minimum(step**-0.5, step * hp.warmup_steps**-1.5)


def rsqrt(step, hp: HParams):
    """Return the schedule `noam`, with steps counted from 0 (tensor2tensor)."""
    warmup = float(hp.warmup_steps)
    step -= 1
    return (
        hp.d_model**-0.5
        * tf.minimum(1.0, step / warmup)
        * tf.rsqrt(tf.maximum(step, warmup))
    )


def constant(step, hp: HParams):
    """Return 1."""
    return tf.ones_like(step)


def linear(step, hp: HParams):
    """Rise to 1 at the end of the warm-up, then fall to 0 one step after the last.

    If the number of steps is known, it gives better models than `noam`, whose rate is
    still high when training ends.
    """
    up = step / hp.warmup_steps
    down = (hp.max_steps + 1 - step) / max(1, hp.max_steps + 1 - hp.warmup_steps)
    return tf.minimum(up, down)


# Functions of the number of the update, a float32 scalar from 1, and of the settings.
# Their result is multiplied by the setting `learning_rate`, or by the dialect's.
SCHEDULES: Dict[str, Callable] = {
    "noam": noam,
    "noam_by_peak": noam_by_peak,
    "rsqrt": rsqrt,
    "constant": constant,
    "linear": linear,
}


# Schedules for which `learning_rate` is a factor, not the peak.
TIMES_FACTOR = ("noam", "rsqrt")


def peak_rate(hp: HParams) -> float:
    """Return the learning rate at the end of the warm-up; it is never higher."""
    dialect = resolve(hp.dialect)
    factor = hp.learning_rate or dialect.learning_rate
    if (hp.schedule or dialect.schedule) in TIMES_FACTOR:
        return factor * (hp.d_model * hp.warmup_steps) ** -0.5
    return factor


def learning_rate(hp: HParams, global_step):
    """Return the learning rate after `global_step` updates: float32 scalar."""
    dialect = resolve(hp.dialect)
    schedule = SCHEDULES[hp.schedule or dialect.schedule]
    factor = hp.learning_rate or dialect.learning_rate
    step = tf.cast(global_step + 1, tf.float32)
    return factor * schedule(step, hp)


# One update


def make_update(
    loss: Loss,
    hp: HParams,
    global_step,
    shards: Optional[Shards] = None,
    exchange: Optional[Exchange] = None,
):
    """Make an Adam update with the schedule, clipping and accumulation of `hp`.

    Args:
      loss: the Loss of the current batch, or of the part of it that is computed now.
      hp: the settings.
      global_step: int64 variable, incremented by each update.
      shards: how batches are cut; None: batches are not cut.
      exchange: the Exchange with the other workers; None: there are no other workers.

    Returns:
      Update. If the loss or the norm of the gradients is not finite, `apply` changes
      nothing, not even the step. In float16, a skipped update counts as a step: see
      `LossScale`.
    """
    variables = tf.trainable_variables()
    loss_scale = LossScale() if hp.precision == "float16" else None
    gradients = tf.gradients(loss.sum, variables, loss_scale and loss_scale.value)
    gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
    for gradient, variable in zip(gradients, variables):
        gradient.set_shape(variable.shape)
    sums = [*gradients, loss.sum, loss.count]  # what an update adds up
    in_order = hp.deterministic and shards is not None and shards.count > 1
    most = tf.maximum(loss.count, 1.0)
    local_divisor = most * loss_scale.value if loss_scale else most
    local_loss_and_norm = loss.sum / most, tf.global_norm(gradients) / local_divisor
    runs = hp.accumulate * (shards.rounds if shards else 1)
    if in_order:  # one shard after another, whichever worker computed it
        parts = exchange.all(sums) if exchange else [sums]
        collect, update_sums, clear = _accumulated(parts)
    else:
        if runs == 1:
            collect = tf.no_op()
            update_sums = sums
            clear = list  # nothing is stored
        else:
            collect, update_sums, clear = _accumulated([sums])
        if exchange:
            update_sums = exchange.sums(update_sums)
    # Compute all of them before any variable changes: otherwise, TensorFlow 1.15 would
    # compute some gradients with variables that this update has already changed.
    *gradients, loss_sum, count = tf.tuple(update_sums)
    count = tf.maximum(count, 1.0)  # not 0 / 0 if all shards of a batch are empty
    divisor = count * loss_scale.value if loss_scale else count
    gradients = [gradient / divisor for gradient in gradients]
    mean_loss = loss_sum / count
    norm = tf.global_norm(gradients)
    if hp.clip_norm:
        gradients, _ = tf.clip_by_global_norm(gradients, hp.clip_norm, norm)
    rate = learning_rate(hp, global_step)
    beta1, beta2, epsilon = resolve(hp.dialect).adam
    # It also depends on the loss, so that the loss is read before the accumulators are
    # cleared.
    are_finite = tf.is_finite(mean_loss + norm)
    adam = tf.train.AdamOptimizer(only_if(are_finite, rate), beta1, beta2, epsilon)
    applied = adam.apply_gradients(zip(gradients, variables), global_step)
    with tf.control_dependencies([applied]):
        applied = tf.group(*clear())
    scaling = ()
    if loss_scale:
        scaling, skip = loss_scale.after(are_finite, global_step, rate, clear)
        applied = tf.group(applied, skip)
    metrics = Metrics(mean_loss, count, rate, norm, scaling)
    return Update(collect, applied, metrics, local_loss_and_norm, runs)


def _accumulated(parts):
    """Sum over the runs of an update.

    The parts of a run are added one after another to a stored sum. `assign_add` keeps
    this order. TensorFlow would rewrite a plain sum of tensors: it adds tensors of
    equal shapes in one operation, whose rounding depends on their number.

    Args:
      parts: lists of tensors of static shapes, which the current run computes.

    Returns:
      (op that adds the current run, the sums including the current run, a function that
      makes the ops that clear them).
    """
    # Not saved: checkpoints are written between updates, when these variables are zero.
    kept = [
        tf.get_variable(
            f"accumulated_{i}",
            tensor.shape,
            trainable=False,
            initializer=tf.zeros_initializer(),
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
        )
        for i, tensor in enumerate(parts[0])
    ]
    totals = [
        functools.reduce(tf.assign_add, tensors, total)
        for total, *tensors in zip(kept, *parts)
    ]
    return (
        tf.group(*totals),
        [tf.convert_to_tensor(total) for total in totals],
        lambda: [tf.assign(total, tf.zeros_like(total)) for total in kept],
    )


# Loss scaling: it keeps small float16 gradients from becoming zero


class LossScale:
    """Variables: the factor of a loss, and how many updates were good or skipped.

    The loss is multiplied by the factor before its gradients are computed, and the
    gradients are divided by it afterwards. If they are not finite, the factor was too
    large: the update is skipped and the factor is halved. After many good updates, the
    factor is doubled. The factor and the counts are saved in the checkpoint.
    (Micikevicius et al. 2018, section 3.2.)
    """

    def __init__(self):
        with tf.variable_scope(LOSS_SCALE):
            self._scale = _variable("scale", FIRST_SCALE, tf.float32)
            self._good = _variable("good_updates", 0, tf.int64)
            self._skipped = _variable("skipped_updates", 0, tf.int64)
        self.value = tf.identity(self._scale)

    def after(self, are_finite, global_step, rate, clear):
        """Return (Scaling, the op that adapts the factor and counts a skipped update).

        A skipped update counts as a step: batches are a function of the step, and the
        update has used its own.

        Args:
          are_finite: bool scalar, whether the loss and the gradients of the update are
            finite. If they are not finite and the factor is at its floor, the update
            does not count as skipped: training fails.
          global_step: int64 variable.
          rate: the learning rate, computed from the step before.
          clear: function that makes the ops that clear accumulated sums.
        """
        good = tf.identity(self._good) + 1
        skipped = tf.identity(self._skipped)
        is_skipped = tf.logical_and(
            tf.logical_not(are_finite), self.value > LEAST_SCALE
        )
        grows = tf.equal(good, GROW_AFTER)
        grown = tf.where_v2(grows, tf.minimum(self.value * 2, MOST_SCALE), self.value)
        halved = tf.maximum(self.value / 2, LEAST_SCALE)
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


def only_if(condition, value):
    """Return `value`, or a dead tensor if `condition` is False.

    TensorFlow skips every op with a dead input: if the learning rate is dead, no
    variable changes.
    """
    return tf.raw_ops.Switch(data=value, pred=condition).output_true


def are_fine(metrics) -> bool:
    """Return whether training can go on after an update with these Metrics."""
    is_finite = math.isfinite(metrics.loss + metrics.gradient_norm)
    return is_finite or any(metrics.scaling[-1:])


def scaling_scalars(scaling: Any) -> Dict[str, float]:
    """Return the scalars to log for the values of a Scaling; {} for ()."""
    if not scaling:
        return {}
    skipped = float(scaling.skipped + scaling.is_skipped)
    return {"loss_scale": float(scaling.scale), "skipped_updates": skipped}


def scaling_report(scaling: Any) -> str:
    """Return the end of a log line: the values of a Scaling; "" for ()."""
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
