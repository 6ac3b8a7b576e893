"""From a batch to one update of the variables: loss, learning rate, gradients, Adam.

The loss that training minimizes is computed in these steps:

1. A shard (a whole batch in a single process) is cut into micro-batches: independent
   subgraphs, which TensorFlow can run side by side (`shard_loss`).
2. The model computes the logits of each micro-batch with dropout (`training_loss`).
   With R-Drop, it does so twice, with different dropout.
3. Each target token is compared with its smoothed label: its cross entropy, in nats
   (`cross_entropy`). Padding does not count.
4. With R-Drop, the disagreement of the two passes is added (`disagreement`).

The result is a `Loss`: a sum and a count over tokens. It is divided in one place,
`make_update`: the sums over all batches, shards and workers of an update, by the count
of all their tokens. (The sums of each session run are also divided, but only the checks
for numbers that are not finite read these.) `make_update` then clips the gradients and
applies Adam with the learning rate of a schedule.

Dimension letters: N batch, T target length, V vocabulary, M tokens.
"""

import functools
import math
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from transformer.blocks.gradients import register_gradient, with_gradient
from transformer.blocks.layers import cast_to_int64
from transformer.blocks.masks import is_token
from transformer.hparams import HParams
from transformer.model import Transformer
from transformer.text.batches import Batch, Shards
from transformer.workers.exchange import Exchange

# Loss scaling in float16. The loss is a sum over thousands of tokens, which already
# scales its gradients.
FIRST_SCALE = 2.0**7
MIN_SCALE = 1.0
MAX_SCALE = 2.0**100
GROW_AFTER = 2000  # updates
LOSS_SCALE = "loss_scale"  # scope of variables that only checkpoints of float16 have


class Loss(NamedTuple):
    """A loss summed over target tokens, and their number."""

    sum: tf.Tensor  # float32 scalar, in nats
    count: tf.Tensor  # float32 scalar, target tokens without padding


class SmoothedLabels(NamedTuple):
    """A smoothed one-hot label over V pieces, described by three numbers."""

    on_target: float  # the label of the true piece
    off_target: float  # the label of each other piece
    entropy: float  # subtracted from the loss of a token; 0: nothing is


class LossScaleState(NamedTuple):
    """The loss scale of an update in float16: tensors, or their values."""

    scale: tf.Tensor  # float32, the factor in the gradients of this update
    skipped: tf.Tensor  # int64, updates of the run skipped before this one
    is_skipped: tf.Tensor  # bool, whether this update is skipped


class Metrics(NamedTuple):
    """Numbers of an update, which `trainer.Training.log_metrics` logs."""

    loss: tf.Tensor  # mean over the target tokens, with label smoothing, in nats
    tokens: tf.Tensor  # target tokens without padding; R-Drop counts its two passes
    learning_rate: tf.Tensor
    gradient_norm: tf.Tensor  # before clipping


class Update(NamedTuple):
    """The operations of an update.

    An update takes `num_runs` session runs, one for each shard of this worker in each
    of its batches: `accumulate` in all but the last, `apply` in the last. `run_update`
    runs them. `trainer.TrainingGraph` makes each of them fetch the next shard, too.
    """

    accumulate: tf.Operation
    apply: tf.Operation
    metrics: Metrics  # valid in the same run as `apply`
    # For diagnosis: the mean loss, and the norm of its gradients, of this worker's
    # current shard.
    local_loss_and_norm: Tuple[tf.Tensor, tf.Tensor]
    num_runs: int = 1
    scaling: Optional[LossScaleState] = None  # only in float16; valid with `apply`


class UpdateResult(NamedTuple):
    """The values of the numbers of an update."""

    metrics: Metrics
    scaling: Optional[LossScaleState]  # only in float16


# --- The loss: cross entropy with smoothed labels (section 5.4) -----------------------


def shard_loss(
    model: Transformer, shard: Batch, hp: HParams, micro_batches: int
) -> Loss:
    """Compute the training loss of a shard, summed over its micro-batches.

    Dropout depends on the number of micro-batches: each has a seed of its own.

    Args:
      model: the model.
      shard: what this worker computes of a batch.
      hp: the settings.
      micro_batches: the number of micro-batches.
    """
    rows = tf.shape(shard.source)[0]
    losses = []
    for i in range(micro_batches):
        micro_batch = shard
        if micro_batches > 1:
            share = slice(i * rows // micro_batches, (i + 1) * rows // micro_batches)
            micro_batch = Batch(
                shard.source[share],
                shard.target_in[share],
                shard.target_out[share],
                shard.number,
            )
        with tf.device("/cpu:0"):  # see `dropout`
            seed = tf.constant(hp.seed, tf.int64)
            seed = tf.stack([seed, micro_batches * shard.number + i])
        losses.append(training_loss(model, micro_batch, hp, seed))
    return Loss(
        tf.add_n([loss.sum for loss in losses]),
        tf.add_n([loss.count for loss in losses]),
    )


def training_loss(
    model: Transformer, batch: Batch, hp: HParams, dropout_seed: Optional[tf.Tensor]
) -> Loss:
    """Compute the loss of a batch with dropout, smoothed labels and R-Drop.

    With R-Drop, the Loss counts each token twice, once per pass, and its sum includes
    the disagreement of the passes.

    Args:
      model: the model.
      batch: the pairs.
      hp: the settings.
      dropout_seed: int64 [2]; None: the seed of the graph.
    """
    source, target_in, target_out, _ = batch
    if hp.r_drop:  # each pair twice, with different dropout
        source = tf.concat([source, source], axis=0)
        target_in = tf.concat([target_in, target_in], axis=0)
        target_out = tf.concat([target_out, target_out], axis=0)
    memory = model.encode(source, True, dropout_seed)
    logits = model.decode(target_in, memory, True, dropout_seed)  # [N, T, V]
    smoothing = model.dialect.smoothing
    loss = cross_entropy(logits, target_out, hp.label_smoothing, smoothing)
    if hp.r_drop:
        penalty = hp.r_drop * disagreement(logits, batch.target_out)
        loss = Loss(loss.sum + penalty, loss.count)
    return loss


def smooth_all(epsilon: float, vocab_size: int) -> SmoothedLabels:
    """Smooth the labels of the dialect `paper` (Szegedy et al. 2015).

    They are (1 - epsilon) times the one-hot label, plus epsilon / V for every piece.
    Nothing is subtracted from the loss.
    """
    share = epsilon / vocab_size  # of each piece
    return SmoothedLabels(1 - epsilon + share, off_target=share, entropy=0.0)


def smooth_others(epsilon: float, vocab_size: int) -> SmoothedLabels:
    """Smooth the labels as tensor2tensor does: the other pieces share epsilon.

    The entropy of the labels is subtracted, so that a perfect model has a loss of 0.
    """
    on_target = 1 - epsilon
    off_target = epsilon / (vocab_size - 1)
    entropy = -sum(
        times * label * math.log(label)
        for times, label in ((1, on_target), (vocab_size - 1, off_target))
        if label > 0
    )
    return SmoothedLabels(on_target, off_target, entropy)


SMOOTHINGS: Dict[str, Callable[[float, int], SmoothedLabels]] = {
    "all": smooth_all,
    "others": smooth_others,
}


def cross_entropy(
    logits, target_out, epsilon: float = 0.0, smoothing: str = "all"
) -> Loss:
    """Sum the cross entropy with smoothed labels over the tokens (section 5.4).

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
    losses = token_cross_entropies(logits, pieces, epsilon, smoothing)  # [M]
    is_counted = tf.cast(is_token(pieces), tf.float32)  # [M]
    return Loss(tf.reduce_sum(losses * is_counted), tf.reduce_sum(is_counted))


def token_cross_entropies(logits, pieces, epsilon: float = 0.0, smoothing: str = "all"):
    """Compute the cross entropy of each token, including padding: float [M].

    Args:
      logits: float [..., V], M rows.
      pieces: int [M].
      epsilon, smoothing: as in `cross_entropy`.
    """
    vocab_size = logits.shape.as_list()[-1]
    labels = SMOOTHINGS[smoothing](epsilon, vocab_size)

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
        surplus = labels.on_target - labels.off_target
        result = normalizer - surplus * logit
        if labels.off_target:
            result -= labels.off_target * tf.reduce_sum(logits, -1)
        surplus = tf.constant(surplus, logits.dtype)
        off_target = tf.constant(labels.off_target, logits.dtype)
        return result, probabilities, pieces, surplus, off_target

    logits = tf.reshape(logits, [-1, vocab_size])
    return with_gradient("transformer/cross_entropy", losses, logits) - labels.entropy


def _losses_gradient(
    output, logits, probabilities, pieces, surplus, off_target, upstream
):
    # 0, 1, ..., exact in float32, and computed on the device of the logits.
    rows = cast_to_int64(tf.cumsum(tf.ones_like(pieces, tf.float32), exclusive=True))
    true_pieces = tf.stack([rows, cast_to_int64(pieces)], axis=1)  # [M, 2]
    labels = tf.fill(tf.shape(rows), surplus)  # [M]
    difference = tf.tensor_scatter_nd_sub(
        probabilities - off_target, true_pieces, labels
    )
    return [difference * upstream[:, None]]


register_gradient("transformer/cross_entropy", _losses_gradient)


def disagreement(logits, target_out):
    """Measure the disagreement of two passes with dropout: R-Drop (Liang et al. 2021).

    Args:
      logits: float32 [2 N, T, V], the logits of one pass, then those of the other.
      target_out: int32 [N, T], 0 = padding, which is not counted.

    Returns:
      float32 scalar: the sum of (KL(p, q) + KL(q, p)) / 2 over the target tokens.
    """
    p, q = tf.split(tf.nn.softmax(logits), 2)
    p_logits, q_logits = tf.split(logits, 2)
    # This is sum (p - q) (log p - log q) / 2. The normalizers of the logarithms cancel,
    # because p - q sums to 0.
    divergence = tf.reduce_sum((p - q) * (p_logits - q_logits), -1)  # [N, T]
    return tf.reduce_sum(divergence * tf.cast(is_token(target_out), tf.float32)) / 2


# --- The learning rate (section 5.3) --------------------------------------------------


def noam(step, d_model: int, warmup_steps: int):
    """Return d_model^-0.5 * min(step^-0.5, step * warmup^-1.5): equation 3."""
    return d_model**-0.5 * tf.minimum(step**-0.5, step * warmup_steps**-1.5)


def noam_by_peak(step, warmup_steps: int):
    """Return the schedule `noam`, scaled to 1 at the end of the warm-up (Kyubyong)."""
    return warmup_steps**0.5 * tf.minimum(step**-0.5, step * warmup_steps**-1.5)


def rsqrt(step, d_model: int, warmup_steps: int):
    """Return the schedule `noam`, with steps counted from 0 (tensor2tensor)."""
    warmup = float(warmup_steps)
    step -= 1
    return (
        d_model**-0.5
        * tf.minimum(1.0, step / warmup)
        * tf.rsqrt(tf.maximum(step, warmup))
    )


def constant(step):
    """Keep the learning rate constant: 1."""
    return tf.ones_like(step)


def linear(step, warmup_steps: int, max_steps: int):
    """Rise to 1 at the end of the warm-up, then fall to 0 one step after the last.

    If the number of steps is known, it gives better models than `noam`, whose rate is
    still high when training ends.
    """
    rise = step / warmup_steps
    fall = (max_steps + 1 - step) / max(1, max_steps + 1 - warmup_steps)
    return tf.minimum(rise, fall)


class Schedule(NamedTuple):
    """A learning-rate schedule.

    The setting `learning_rate`, or the dialect's, multiplies the result of the
    function. If the function peaks at 1, the setting is the peak of the learning rate.
    If it peaks at (d_model * warmup_steps)^-0.5, as in the paper, it is a factor.
    """

    function: Callable  # of the number of the update (float32 scalar, from 1) and:
    settings: Sequence[str]  # the names of its other arguments
    rate_is_factor: bool  # whether `learning_rate` is a factor, not the peak


# The extension point for schedules.
SCHEDULES: Dict[str, Schedule] = {
    "noam": Schedule(noam, ["d_model", "warmup_steps"], rate_is_factor=True),
    "noam_by_peak": Schedule(noam_by_peak, ["warmup_steps"], rate_is_factor=False),
    "rsqrt": Schedule(rsqrt, ["d_model", "warmup_steps"], rate_is_factor=True),
    "constant": Schedule(constant, [], rate_is_factor=False),
    "linear": Schedule(linear, ["warmup_steps", "max_steps"], rate_is_factor=False),
}


def schedule_name(hp: HParams) -> str:
    """Return the name of the schedule: that of the settings, or of their dialect."""
    return hp.schedule or hp.resolved_dialect.schedule


def peak_rate(hp: HParams) -> float:
    """Return the highest learning rate: that at the end of the warm-up, if any."""
    factor = hp.learning_rate or hp.resolved_dialect.learning_rate
    if SCHEDULES[schedule_name(hp)].rate_is_factor:
        return factor * (hp.d_model * hp.warmup_steps) ** -0.5
    return factor


def learning_rate(hp: HParams, global_step):
    """Return the learning rate of update `global_step` + 1: float32 scalar."""
    schedule = SCHEDULES[schedule_name(hp)]
    factor = hp.learning_rate or hp.resolved_dialect.learning_rate
    step = tf.cast(global_step + 1, tf.float32)
    settings = {name: getattr(hp, name) for name in schedule.settings}
    return factor * schedule.function(step, **settings)


# --- One update -----------------------------------------------------------------------


def make_update(
    loss: Loss,
    hp: HParams,
    global_step,
    shards: Optional[Shards] = None,
    exchange: Optional[Exchange] = None,
) -> Update:
    """Make an Adam update with the schedule, clipping and accumulation of `hp`.

    Args:
      loss: the Loss of the shard that is computed now.
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
    scale = loss_scale.value if loss_scale else None
    gradients = tf.gradients(loss.sum, variables, scale)
    gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
    for gradient, variable in zip(gradients, variables):
        gradient.set_shape(variable.shape)
    sums = [*gradients, loss.sum, loss.count]  # summed over the runs of an update
    token_count = tf.maximum(loss.count, 1.0)  # an empty shard has no tokens
    local_divisor = token_count * scale if loss_scale else token_count
    local_loss_and_norm = (
        loss.sum / token_count,
        tf.global_norm(gradients) / local_divisor,
    )
    num_runs = hp.accumulate * (shards.per_worker if shards else 1)
    if hp.deterministic and shards is not None and shards.count > 1:
        # One shard after another, whichever worker computed it.
        shard_sums = exchange.all_gather(sums) if exchange else [sums]
        accumulate, update_sums, clear = _accumulate(shard_sums)
    else:
        if num_runs == 1:
            accumulate = tf.no_op()
            update_sums = sums

            def clear():  # nothing is stored
                return []

        else:
            accumulate, update_sums, clear = _accumulate([sums])
        if exchange:
            update_sums = exchange.all_reduce(update_sums)
    # Compute all of them before any variable changes: otherwise, TensorFlow 1.15 would
    # compute some gradients with variables that this update has already changed.
    *gradients, loss_sum, token_count = tf.tuple(update_sums)
    token_count = tf.maximum(token_count, 1.0)  # if all shards of a batch are empty
    divisor = token_count * scale if loss_scale else token_count
    gradients = [gradient / divisor for gradient in gradients]
    mean_loss = loss_sum / token_count
    norm = tf.global_norm(gradients)
    if hp.clip_norm:
        gradients, _ = tf.clip_by_global_norm(gradients, hp.clip_norm, norm)
    rate = learning_rate(hp, global_step)
    beta1, beta2, epsilon = hp.resolved_dialect.adam
    # `are_finite` reads `mean_loss`, so the loss is read before the accumulators are
    # cleared. If it is False, the learning rate is dead, and Adam is skipped.
    are_finite = tf.is_finite(mean_loss + norm)
    adam = tf.train.AdamOptimizer(dead_unless(are_finite, rate), beta1, beta2, epsilon)
    apply = adam.apply_gradients(zip(gradients, variables), global_step)
    with tf.control_dependencies([apply]):
        apply = tf.group(*clear())
    scaling = None
    if loss_scale:
        scaling, adapt = loss_scale.adapt(are_finite, global_step, rate, clear)
        apply = tf.group(apply, adapt)
    metrics = Metrics(mean_loss, token_count, rate, norm)
    return Update(accumulate, apply, metrics, local_loss_and_norm, num_runs, scaling)


def run_update(session: tf.Session, update: Update) -> UpdateResult:
    """Run an update; return the values of its metrics."""
    for _ in range(update.num_runs - 1):
        session.run(update.accumulate)
    scaling = update.scaling or ()  # a session cannot fetch None
    metrics, scaling, _ = session.run([update.metrics, scaling, update.apply])
    return UpdateResult(metrics, scaling or None)


def _accumulate(shard_sums: List[List[tf.Tensor]]):
    """Sum over the session runs of an update.

    The sums of a run's shards are added one after another to a stored total.
    `assign_add` keeps this order. TensorFlow would rewrite a plain sum of tensors: it
    adds tensors of equal shapes in one operation, whose rounding depends on their
    number.

    Args:
      shard_sums: for each shard of the current run, tensors of static shapes.

    Returns:
      (operation that adds the current run, the totals including the current run, a
      function that makes the operations that clear them).
    """
    # Not saved: checkpoints are written between updates, when these variables are zero.
    totals = [
        tf.get_variable(
            f"accumulated_{i}",
            tensor.shape,
            trainable=False,
            initializer=tf.zeros_initializer(),
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
        )
        for i, tensor in enumerate(shard_sums[0])
    ]
    added = [
        functools.reduce(tf.assign_add, tensors, total)
        for total, *tensors in zip(totals, *shard_sums)
    ]
    return (
        tf.group(*added),
        [tf.convert_to_tensor(total) for total in added],
        lambda: [tf.assign(total, tf.zeros_like(total)) for total in totals],
    )


# --- Loss scaling: it keeps small float16 gradients from becoming zero ----------------


class LossScale:
    """Variables: the factor of a loss, and the numbers of good and skipped updates.

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

    def adapt(
        self, are_finite, global_step, rate, clear
    ) -> Tuple[LossScaleState, tf.Operation]:
        """Make the operation that adapts the factor and counts a skipped update.

        A skipped update counts as a step: batches are a function of the step, and the
        update has used its own.

        Args:
          are_finite: bool scalar, whether the loss and the gradients of the update are
            finite. If they are not finite and the factor is at its floor, the update
            does not count as skipped: training fails.
          global_step: int64 variable.
          rate: the learning rate, computed before the step is counted.
          clear: function that makes the operations that clear accumulated sums.

        Returns:
          (LossScaleState, the operation).
        """
        good = tf.identity(self._good) + 1
        skipped = tf.identity(self._skipped)
        is_skipped = tf.logical_and(tf.logical_not(are_finite), self.value > MIN_SCALE)
        grows = tf.equal(good, GROW_AFTER)
        doubled = tf.where_v2(grows, tf.minimum(self.value * 2, MAX_SCALE), self.value)
        halved = tf.maximum(self.value / 2, MIN_SCALE)
        zero = tf.zeros_like(good)
        adapt = tf.group(
            tf.assign(self._scale, tf.where_v2(are_finite, doubled, halved)),
            tf.assign(
                self._good, tf.where_v2(tf.logical_and(are_finite, ~grows), good, zero)
            ),
            tf.assign(self._skipped, skipped + tf.cast(is_skipped, tf.int64)),
        )
        with tf.control_dependencies([rate]):
            one = dead_unless(is_skipped, tf.ones([], tf.int64))
            count_step = tf.group(tf.assign_add(global_step, one))
        with tf.control_dependencies([count_step]):
            skip = tf.group(*clear())
        return LossScaleState(self.value, skipped, is_skipped), tf.group(adapt, skip)


def dead_unless(condition, value):
    """Return `value`, or a dead tensor if `condition` is False.

    TensorFlow skips every operation with a dead input: if the learning rate is dead, no
    variable changes.
    """
    return tf.raw_ops.Switch(data=value, pred=condition).output_true


def can_continue(result: UpdateResult) -> bool:
    """Return whether training can go on after an update."""
    metrics, scaling = result
    is_finite = math.isfinite(metrics.loss + metrics.gradient_norm)
    return is_finite or bool(scaling and scaling.is_skipped)


def scaling_scalars(scaling: Optional[LossScaleState]) -> Dict[str, float]:
    """Return the scalars to log for the values of a LossScaleState: name → value."""
    if scaling is None:
        return {}
    skipped = float(scaling.skipped + scaling.is_skipped)
    return {"loss_scale": float(scaling.scale), "skipped_updates": skipped}


def format_scaling(scaling: Optional[LossScaleState]) -> str:
    """Format the values of a LossScaleState as the end of a log line; "" for None."""
    if scaling is None:
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
