"""Training: a prepared corpus → a log directory, starting at its newest checkpoint.

In this order: `train` sets up a run; `Data` holds its corpora; `TrainingGraph` holds
the ops of an update and of the dev loss; `Training` is the loop: update, log, save,
evaluate. If there are several workers, one is the chief, which does all this; the
others run `follow`: they make the same updates, but write nothing.
"""

import dataclasses
import hashlib
import os
import sys
import time
from typing import Any, Callable, Dict, Optional

import tensorflow.compat.v1 as tf

from transformer import hparams
from transformer.blocks.positions import LEARNED, POSITIONS, chosen_positions
from transformer.decoding import SEARCHES
from transformer.dialects import resolve
from transformer.evaluation import evaluate
from transformer.hparams import HParams
from transformer.logdir import checkpoints
from transformer.logdir.history import (
    LEAST_BLEU,
    DevScores,
    Events,
    Lock,
    Meter,
    RunHistory,
    name_of_dev,
    read_dev_scores,
    versions,
)
from transformer.logdir.nonfinite import FiniteGuard
from transformer.model import Transformer
from transformer.runtime import ram
from transformer.runtime.files import sha256_of
from transformer.runtime.names import refuse_unknown
from transformer.runtime.precision import PRECISIONS, compute_type, getter_to
from transformer.runtime.progress import Progress, format_duration
from transformer.runtime.sessions import make_session, parts_at_once, set_up_process
from transformer.runtime.signals import Stopped, StopSignals, signals_passed_to
from transformer.text.batches import (
    Batch,
    BatchPlan,
    Corpus,
    Shards,
    evaluation_dataset,
    prefetched,
    shard_count,
    training_dataset,
)
from transformer.text.data_folder import ID_FILES, read_parallel, verify_checksums
from transformer.text.vocabulary import copy_vocabularies, vocabulary_names
from transformer.training import (
    SCHEDULES,
    TIMES_FACTOR,
    Loss,
    Metrics,
    are_fine,
    cross_entropy,
    disagreement,
    make_update,
    peak_rate,
    scaling_report,
    scaling_scalars,
)
from transformer.translator import Translator
from transformer.workers.cluster import Cluster
from transformer.workers.exchange import FAILURES, Exchange, refuse_old_tensorflow
from transformer.workers.team import Ended, Team

HIGHEST_RATE = 0.1  # of Adam
LOWEST_RATE = 2e-5  # a lower peak is said to be low


def train(
    hp: HParams,
    logdir: str,
    warn: Callable[[str], None],
    accept_changes: bool = False,
    cluster: Optional[Cluster] = None,
    init_from: Optional[str] = None,
) -> None:
    """Train in `logdir` with the settings `hp`, from its newest checkpoint, if any.

    Args:
      hp: the settings, with the sizes of the vocabularies.
      logdir: the log directory; it is created if necessary.
      warn: function of a text; called for each broken checkpoint that is skipped, and
        for changes since the previous steps.
      accept_changes: continue even if the corpus has changed.
      cluster: the workers that train together; None: a single process.
      init_from: a log directory whose best weights are the first weights of a new run;
        ignored once `logdir` has a checkpoint. None: use the log directory recorded in
        `logdir`; if none is recorded, the first weights are random.

    Raises:
      ValueError: the settings, the data folder or the log directory cannot be used;
        nothing was trained.
      FloatingPointError: a loss or gradient is not finite.
      MemoryError: training needs more memory than is free.
      OSError: a checkpoint could not be written.
      Stopped: a signal was received, and a checkpoint was saved; or another worker
        ended the run.
    """
    refuse_unknown_names(hp)
    refuse_high_rate(hp)
    for setting in ("precision", "decode_precision"):
        compute_type(getattr(hp, setting), setting)  # refuse what TensorFlow lacks
    refuse_old_tensorflow(cluster)
    hp = with_shards(hp, cluster)
    data = Data(hp)
    is_learned = chosen_positions(hp.positions, resolve(hp.dialect)) == LEARNED
    if is_learned and data.longest() > hp.max_positions:
        warn(
            f"max_positions: {hp.max_positions}, but the longest sentence has "
            f"{data.longest()} tokens: all later positions share the last vector"
        )
    corpus = data.checksums()
    compared = configuration(hp, corpus) if cluster else {}
    team = Team(cluster, compared, warn, FAILURES)
    if not team.is_chief:
        follow(hp, logdir, data, team)
        return
    with Lock(logdir) as lock, tf.Graph().as_default(), team:
        checkpoint = newest_checkpoint(logdir, warn)
        start = checkpoints.step_of(checkpoint) if checkpoint else 0
        if start > hp.max_steps:
            raise ValueError(
                f"max_steps: expected {start} or more, got {hp.max_steps}: {logdir} "
                f"is at step {start}"
            )
        # A run killed before its first checkpoint starts again from the same weights.
        history = RunHistory(logdir, start, hp, corpus, init_from)
        is_known = not init_from or history.begun_from == os.path.abspath(init_from)
        if checkpoint and not is_known:
            first_weights = history.begun_from or "random"
            warn(
                f"--init_from {init_from}: ignored, because {logdir} already has a "
                f"checkpoint (its first weights: {first_weights})"
            )
        if checkpoint:
            described = checkpoints.description_of(checkpoint)
            history.refuse_other_corpus(described.get("corpus", {}), accept_changes)
        team.meet(identity_of(checkpoint))
        graph = TrainingGraph(hp, data, start, cluster)
        with graph.make_session() as session:
            # If this fails, nothing has been written yet.
            first = None if checkpoint else history.init_from
            team.compute(lambda: graph.open(session, checkpoint, team.begin, first))
            if history.changes():
                warn(f"{logdir}: {history.changes()}")
            os.makedirs(logdir, exist_ok=True)
            lock.take()
            if checkpoints.exist(logdir) and not checkpoint:
                raise ValueError(
                    f"{logdir}: expected no checkpoints, got those of a training run "
                    "that began at the same time; run the same command again to "
                    "continue it"
                )
            if checkpoint == checkpoints.path_of(logdir, start, checkpoints.BEST):
                checkpoints.copy_best(logdir, start)
            checkpoints.clean_up(logdir, start, hp.keep_checkpoints)
            copy_vocabularies(hp.data, logdir)  # refuses to replace a different one
            refuse_prepared_again(hp.data, logdir, corpus)
            history.write()
            hparams.save(hp, logdir)
            with Translator.for_settings(hp, logdir) as translator:
                training = Training(
                    session=session,
                    graph=graph,
                    translator=translator,
                    scores=DevScores(logdir, start, name_of_dev(corpus)),
                    start=start,
                    team=team,
                    corpus=corpus,
                )
                with training.signals:
                    training.run()


def refuse_prepared_again(data: str, logdir: str, corpus: Dict[str, str]) -> None:
    """Raise ValueError if `logdir` has another vocabulary than the ids that were read.

    Args:
      data: the data folder, for the message.
      logdir: the log directory, with the copy of the vocabulary.
      corpus: the checksum of each part of the corpus.
    """
    for name in vocabulary_names(logdir):
        if sha256_of(os.path.join(logdir, name)) != corpus[name]:
            raise ValueError(
                f"{data}: expected the vocabulary of the ids that were read, got "
                f"another {name}: the folder was prepared again in the meantime; run "
                "the same command again"
            )


def refuse_unknown_names(hp: HParams) -> None:
    """Raise ValueError for a setting that names no entry of its table."""
    for name, table in (
        ("search", SEARCHES),
        ("schedule", [*SCHEDULES, ""]),
        ("positions", [*POSITIONS, LEARNED, ""]),
        ("precision", PRECISIONS),
    ):
        refuse_unknown(name, getattr(hp, name), table)


def refuse_high_rate(hp: HParams) -> None:
    """Raise ValueError for a factor of `noam` with a schedule that takes the peak."""
    schedule = hp.schedule or resolve(hp.dialect).schedule
    peak = peak_rate(hp)
    if peak > HIGHEST_RATE and schedule not in TIMES_FACTOR:
        raise ValueError(
            f"learning_rate: expected at most {HIGHEST_RATE}, because it is the peak "
            f"with the schedule {schedule} (with {' and '.join(TIMES_FACTOR)}, it is a "
            f"factor), got {peak:g}; try --learning_rate 0.001"
        )


def low_factor(hp: HParams) -> str:
    """Return a remark if a factor is so small that it may be meant as a peak, or ""."""
    schedule = hp.schedule or resolve(hp.dialect).schedule
    if schedule not in TIMES_FACTOR or peak_rate(hp) >= LOWEST_RATE:
        return ""
    return (
        f"; this is low: with the schedule {schedule}, learning_rate is a factor (1 in "
        "the paper), not the peak"
    )


def with_shards(hp: HParams, cluster: Optional[Cluster] = None) -> HParams:
    """Return the settings, with the number of shards set for a deterministic run.

    Raises:
      ValueError: there are more workers than shards.
    """
    workers = cluster.size if cluster else 1
    if not hp.deterministic:
        return hp
    if 0 < hp.shards < workers:
        raise ValueError(
            f"shards: expected {workers} or more, one for each worker, got "
            f"{hp.shards}; start fewer workers, or set --shards {workers}, which "
            "changes dropout from here on"
        )
    return dataclasses.replace(hp, shards=shard_count(hp.shards, workers))


def newest_checkpoint(logdir: str, warn: Callable[[str], None]) -> Optional[str]:
    """Return the checkpoint to continue from; None if nothing was trained yet.

    Raises:
      ValueError: there was a checkpoint, but now there is no whole one.
    """
    if checkpoints.exist(logdir):
        return checkpoints.find(logdir, "newest", warn)
    if read_dev_scores(logdir):
        raise ValueError(
            f"{logdir}: expected a checkpoint, got dev scores only; choose another "
            "--logdir to train from the beginning"
        )
    return None


class Data:
    """The corpora of a training run, and the plans of their batches.

    Raises:
      FileNotFoundError: a split is missing.
      ValueError: a split is broken, or has a pair that is too long for a batch.
    """

    def __init__(self, hp: HParams):
        self._verified = verify_checksums(hp.data)
        self.train = Corpus(hp.data, "train")
        self.dev = Corpus(hp.data, "dev")
        for corpus in (self.train, self.dev):
            corpus.refuse_other_ids(hp.source_vocab_size, hp.target_vocab_size)
        lengths = (self.train.source_lengths, self.train.target_lengths)
        self.train_plan = BatchPlan(*lengths, hp.batch_tokens, hp.seed)
        lengths = (self.dev.source_lengths, self.dev.target_lengths)
        # No pair of dev is too long for a batch.
        most = max(hp.batch_tokens, *(side.max() for side in lengths))
        self.dev_plan = BatchPlan(*lengths, most, hp.seed)
        self.dev_text = read_parallel(hp.data, "dev")

    def checksums(self) -> Dict[str, str]:
        """Return the SHA-256 of each part of the corpora: name → SHA-256."""
        names = [name for name in ID_FILES if not name.startswith("test.")]
        names += vocabulary_names(self.train.folder)
        sums = {}
        for name in names:
            path = os.path.join(self.train.folder, name)
            sums[name] = self._verified.get(name) or sha256_of(path)
        texts = (self.dev_text.sources, self.dev_text.references)
        for side, lines in zip(("source", "target"), texts):
            text = "\n".join(lines).encode("utf-8")
            sums[f"dev.{side}.text"] = hashlib.sha256(text).hexdigest()
        return sums

    def longest(self) -> int:
        """Return the number of tokens of the longest sentence of train."""
        lengths = (self.train.source_lengths, self.train.target_lengths)
        return int(max(side.max() for side in lengths))


class TrainingGraph:
    """The ops of a training run in the current graph: an update and the dev loss.

    Args:
      hp: the settings.
      data: the corpora.
      start: how many updates have already been made.
      cluster: the workers that compute together; None: a single process.
    """

    def __init__(
        self, hp: HParams, data: Data, start: int, cluster: Optional[Cluster] = None
    ):
        self.hp = hp
        self.data = data
        self._cluster = cluster
        self._parts = parts_at_once(hp)
        set_up_process(hp)
        tf.set_random_seed(hp.seed)
        model = Transformer(hp, getter_to(compute_type(hp.precision)))
        global_step = tf.train.get_or_create_global_step()
        workers = cluster.size if cluster else 1
        worker = cluster.index if cluster else 0
        # Each worker computes one part, unless the number of parts must not affect the
        # result.
        count = shard_count(hp.shards, workers) if hp.deterministic else workers
        self.shards = Shards(data.train_plan, count, workers, worker)
        self.exchange = Exchange(cluster) if cluster else None

        batches = training_dataset(data.train, self.shards, start * hp.accumulate)
        next_batch = tf.data.make_one_shot_iterator(batches).get_next()
        self._batch, queue_ops = prefetched(next_batch)
        loss = _loss_of_parts(model, self._batch, hp, self._parts)
        take_next = tf.group(*queue_ops)
        update = make_update(loss, hp, global_step, self.shards, self.exchange)
        self.update = update._replace(
            collect=tf.group(update.collect, take_next),
            apply=tf.group(update.apply, take_next),
        )

        self._dev = tf.data.make_initializable_iterator(
            evaluation_dataset(data.dev, data.dev_plan)
        )
        batch = self._dev.get_next()
        logits = model.decode(batch.target_in, model.encode(batch.source))
        self._dev_loss = cross_entropy(logits, batch.target_out)
        self.saver = checkpoints.make_saver()
        variables = tf.trainable_variables()
        self._copy_from_chief = tf.no_op()
        if self.exchange:
            self._copy_from_chief = self.exchange.copy_from_chief(variables)
        self.initialize = tf.group(
            tf.global_variables_initializer(),
            tf.local_variables_initializer(),
            take_next,
        )
        self.size = sum(variable.shape.num_elements() for variable in variables)

    def make_session(self) -> tf.Session:
        """Return a session of this graph; the parts of a batch run in parallel."""
        return make_session(self.hp, parts=self._parts, cluster=self._cluster)

    def open(
        self,
        session: tf.Session,
        checkpoint: Optional[str],
        begin: Callable[[], None] = lambda: None,
        init_from: Optional[str] = None,
    ) -> None:
        """Initialize the variables, or load them from a checkpoint.

        Args:
          session: a session of this graph.
          checkpoint: what `checkpoints.find` returned, or None.
          begin: waits until all workers are ready.
          init_from: a log directory; the weights of its best checkpoint are the first
            values of the weights. None: the first values are random.
        """
        with ram.shortage_explained(
            "when the variables were created",
            "lower --d_model, --d_ff, --num_blocks or the vocabulary size",
        ):
            session.run(self.initialize)
        if checkpoint:
            checkpoints.restore(session, self.saver, checkpoint)
        if init_from:
            checkpoints.find_and_load(
                init_from, lambda path: checkpoints.restore_weights(session, path)
            )
        begin()
        session.run(self._copy_from_chief)

    def make_step(self, session: tf.Session) -> Metrics:
        """Make an update from `accumulate` batches; return the values of Metrics."""
        for _ in range(self.update.runs - 1):
            session.run(self.update.collect)
        metrics, _ = session.run([self.update.metrics, self.update.apply])
        return metrics

    def feed(self, number: int) -> Dict:
        """Return what to feed to compute a round without advancing the iterator."""
        return dict(zip(self._batch, self.shards.batch(self.data.train, number)))

    def dev_loss(self, session: tf.Session) -> float:
        """Return the cross entropy on dev, in nats per token, not label-smoothed."""
        session.run(self._dev.initializer)
        total = 0.0
        count = 0.0
        while True:
            try:
                part = session.run(self._dev_loss)
            except tf.errors.OutOfRangeError:
                return float(total / count)
            total += part.sum
            count += part.count

    def parts_of_batch(self) -> str:
        """Return, in words, how a batch is divided; "" if it is not."""
        shards = self.shards
        if shards.workers > 1:
            size = ram.readable(4 * self.size)
            return (
                f"{shards.workers} workers: each computes {shards.rounds} of "
                f"{shards.count} parts of a batch; an update adds up {size} of "
                "gradients over the workers"
            )
        return f"each batch is cut into {shards.count} shards" * (shards.count > 1)


def _loss_of_parts(model, batch, hp, parts):
    """Return the training Loss of a batch, summed over its parts.

    Args:
      model, batch, hp: as in `training_loss`.
      parts: int, the number of parts. They do not wait for each other.
    """
    rows = tf.shape(batch.source)[0]
    losses = []
    for i in range(parts):
        part = batch
        if parts > 1:
            ours = slice(i * rows // parts, (i + 1) * rows // parts)
            part = Batch(
                batch.source[ours],
                batch.target_in[ours],
                batch.target_out[ours],
                batch.number,
            )
        with tf.device("/cpu:0"):  # see `dropout`
            seed = tf.constant(hp.seed, tf.int64)
            seed = tf.stack([seed, parts * batch.number + i])
        losses.append(training_loss(model, part, hp, seed))
    return Loss(
        tf.add_n([loss.sum for loss in losses]),
        tf.add_n([loss.count for loss in losses]),
    )


def training_loss(
    model: Transformer, batch: Batch, hp: HParams, dropout_seed: Optional[tf.Tensor]
) -> Loss:
    """Return the Loss of a batch with dropout, smoothed labels and R-Drop.

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
    encoded = model.encode(source, True, dropout_seed)
    logits = model.decode(target_in, encoded, True, dropout_seed)
    smoothing = model.dialect.smoothing
    loss = cross_entropy(logits, target_out, hp.label_smoothing, smoothing)
    if hp.r_drop:
        apart = disagreement(logits, batch.target_out)
        loss = Loss(loss.sum + hp.r_drop * apart, loss.count)
    return loss


class Training:
    """A training run in progress: its session, log directory and step.

    Args:
      session: a session with the variables of `graph`.
      graph: the ops.
      translator: translates dev, with the same settings.
      scores: the dev scores so far.
      start: how many updates have already been made.
      team: the other workers, if any.
      corpus: the checksum of each part of the corpus.
    """

    def __init__(
        self,
        session: tf.Session,
        graph: TrainingGraph,
        translator: Translator,
        scores: DevScores,
        start: int,
        team: Team,
        corpus: Dict[str, str],
    ):
        self.hp = translator.hp
        self.logdir = translator.logdir
        self.session = session
        self.graph = graph
        self.translator = translator
        self.scores = scores
        self.step = start
        self.saved = start  # the step of the last checkpoint
        self.team = team
        self.corpus = corpus
        self.events = Events(self.logdir, start)
        self.guard = _guard(session, graph, self.logdir)
        self.meter = Meter()
        self.progress = Progress(sys.stderr, start)
        self.signals = StopSignals()

    def run(self) -> None:
        """Train until the last step, or until patience runs out."""
        hp = self.hp
        self.announce()
        self.keep_best()
        self.evaluate_if_due()
        while self.step < hp.max_steps and not self.is_out_of_patience():
            self.update()
            received = self.signals.received
            if self.is_due(hp.save_every) or self.is_due(hp.eval_every) or received:
                self.save()
            if received:
                raise Stopped(received)
            self.evaluate_if_due()
        best = self.scores.best()
        assert best  # the last step was evaluated
        reason = "the last step"
        if self.step < hp.max_steps:
            reason = f"after {hp.patience} evaluations without a better dev BLEU"
        why = ""
        if best["bleu"] < LEAST_BLEU:
            why = f" (the lowest dev loss, as no BLEU reached {LEAST_BLEU:g})"
        self.progress.say(
            f"stopped at step {self.step}, {reason}; best dev BLEU "
            f"{best['bleu']:.2f}, at step {best['step']}{why}"
        )

    def announce(self) -> None:
        """Report the size of the model, the step, the shards and the memory needed."""
        self.progress.say(
            f"{self.graph.size:,} parameters; step {self.step} of "
            f"{self.hp.max_steps}; logs in {self.logdir}"
        )
        if self.graph.shards.count > 1:
            self.progress.say(self.graph.parts_of_batch())
        rate = f"at most {peak_rate(self.hp):.2g}{low_factor(self.hp)}"
        if self.step:
            now = self.session.run(self.graph.update.metrics.learning_rate)
            rate = f"{now:.2g} now, {rate}"
        self.progress.say(f"learning rate: {rate}")
        data = self.graph.data
        pairs = len(data.train)
        needed = ram.forecast(
            self.hp, self.graph.size, pairs, data.longest(), self.graph.shards.count
        )
        self.progress.say(ram.report(needed, self.session))

    def keep_best(self) -> None:
        """Copy the checkpoint with the best dev BLEU, unless a copy exists.

        The best score may have no copy if an earlier process got further and its newest
        checkpoints broke.
        """
        best = self.scores.best()
        if not best or best["step"] in checkpoints.steps(self.logdir, checkpoints.BEST):
            return
        path = checkpoints.path_of(self.logdir, best["step"])
        is_there = best["step"] in checkpoints.steps(self.logdir)
        if is_there and not checkpoints.fault_of(path):
            self.try_to_write(checkpoints.save_best, self.logdir, best["step"])

    def is_due(self, every: int) -> bool:
        """Return whether this step is a multiple of `every`, or the last one."""
        is_last = self.step == self.hp.max_steps
        return self.step > 0 and (self.step % every == 0 or is_last)

    def is_out_of_patience(self) -> bool:
        """Return whether dev BLEU has not improved for as long as `patience` allows."""
        return 0 < self.hp.patience <= self.scores.evaluations_since_best()

    def update(self) -> None:
        """Update the variables once from `accumulate` batches."""
        hp = self.hp
        with ram.shortage_explained(
            f"in step {self.step + 1}",
            f"lower --batch_tokens (now {hp.batch_tokens}); raise --accumulate (now "
            f"{hp.accumulate}) by the same factor to keep the size of an update",
        ):
            metrics = _finite_step(
                self.session, self.graph, self.guard, self.team, self.step
            )
        self.step += 1
        self.meter.add(metrics.loss, metrics.tokens)
        if self.is_due(hp.log_every):
            self.log_metrics(metrics)

    def log_metrics(self, metrics: Metrics) -> None:
        """Show the metrics since the last call, and write them for TensorBoard.

        To log another number, add it to `training.Metrics` and here.
        """
        step = self.step
        last = self.hp.max_steps
        loss, tokens_per_second = self.meter.read()
        speed = f"{tokens_per_second:,.0f} tokens/s"
        if self.team.cluster:
            each = tokens_per_second / self.graph.shards.workers
            speed += f", {each:,.0f} per worker"
        left = self.progress.left(step, last)
        self.progress.show(
            step,
            last,
            f"step {step}/{last}  loss {loss:.3f}  {speed}  {left} left"
            f"{scaling_report(metrics.scaling)}",
        )
        self.try_to_write(
            self.events.write,
            step,
            {
                **scaling_scalars(metrics.scaling),
                "loss": loss,
                "tokens_per_second": tokens_per_second,
                "minutes": self.meter.minutes(),
                "learning_rate": metrics.learning_rate,
                "gradient_norm": metrics.gradient_norm,
            },
        )

    def save(self) -> None:
        """Write a checkpoint if training can continue from it."""
        self.guard.check_before_saving(self.step)
        if self.try_to_write(
            checkpoints.save,
            self.session,
            self.graph.saver,
            self.logdir,
            self.step,
            self.hp.keep_checkpoints,
            {"settings": hparams.model_settings(self.hp), "corpus": self.corpus},
        ):
            self.saved = self.step

    def try_to_write(self, function: Callable, *args) -> bool:
        """Call a function that writes to disk; return whether it succeeded.

        Raises:
          OSError: it failed, and training cannot or should not continue.
        """
        try:
            function(*args)
        except OSError as error:
            message = (
                f"step {self.step}: {error}; last checkpoint: {self.saved or 'none'}"
            )
            if (
                self.hp.on_save_error == "stop"
                or self.signals.received
                or self.step >= self.hp.max_steps
            ):
                raise OSError(
                    f"{message}; fix that, then run the same command to continue"
                ) from error
            self.progress.say(f"{message}; continuing")
            return False
        return True

    def evaluate_if_due(self) -> None:
        """Score dev, unless this step has already been scored or could not be saved."""
        if (
            self.is_due(self.hp.eval_every)
            and not self.scores.has(self.step)
            and self.saved == self.step
        ):
            self.evaluate()

    def evaluate(self) -> None:
        """Score dev like the command eval; keep the checkpoint if it is the best."""
        self.meter.pause()
        began = time.monotonic()
        explained = ram.shortage_explained(
            f"when dev was evaluated at step {self.step}",
            f"lower --decode_batch_size (now {self.hp.decode_batch_size}), "
            "--beam_size or --batch_tokens",
        )
        with self.signals.at_once(), explained:  # the checkpoint is written
            self.translator.restore(checkpoints.path_of(self.logdir, self.step))
            loss = self.graph.dev_loss(self.session)
            dev = self.graph.data.dev_text
            scores, _ = evaluate(
                self.translator.translate,
                dev.sources,
                dev.references,
                tokenizer=dev.tokenizer,
            )
        row = {
            "step": self.step,
            "bleu": scores.bleu,
            "chrf": scores.chrf,
            "loss": loss,
        }
        is_best = self.scores.would_be_best(row)
        self.try_to_write(
            self.events.write,
            self.step,
            {
                "dev/bleu": scores.bleu,
                "dev/loss": loss,
                "minutes": self.meter.minutes(),
            },
        )
        if not is_best or self.try_to_write(
            checkpoints.save_best, self.logdir, self.step
        ):
            # This comes last: a step with dev scores is not evaluated again.
            self.try_to_write(self.scores.add, row)
        self.progress.say(
            f"step {self.step}: dev BLEU {scores.bleu:.2f}, dev loss "
            f"{loss:.3f} ({format_duration(time.monotonic() - began)})"
        )
        self.meter.resume()


def _guard(session, graph, logdir):
    """Return the FiniteGuard, which reports numbers that are not finite."""
    return FiniteGuard(
        session=session,
        update=graph.update,
        feed=graph.feed,
        logdir=logdir,
        has_others=graph.shards.workers > 1,
    )


def _finite_step(session, graph, guard, team, step):
    """Make the update that follows `step` updates; return the values of Metrics.

    Raises:
      FloatingPointError: its loss or gradients are not finite.
      Ended: the run ended on another worker.
    """
    metrics = team.compute(lambda: graph.make_step(session))
    if not are_fine(metrics):
        raise team.cause(guard.error(step))
    return metrics


def follow(hp: HParams, logdir: str, data: Data, team: Team) -> None:
    """Train with the chief, from the checkpoint it names, until it ends the run.

    Args:
      hp: the settings, the same as the chief's.
      logdir: the log directory, which is only read.
      data: the corpora, the same as the chief's.
      team: the connection to the chief.

    Raises:
      ValueError: something differs from the chief.
      FloatingPointError: a loss or gradient is not finite.
      Ended: the chief was stopped, or a worker was lost.
    """
    try:
        with team, tf.Graph().as_default():
            checkpoint = described_checkpoint(logdir, team.meet())
            start = checkpoints.step_of(checkpoint) if checkpoint else 0
            graph = TrainingGraph(hp, data, start, team.cluster)
            with graph.make_session() as session:
                guard = _guard(session, graph, logdir)
                team.compute(lambda: graph.open(session, checkpoint, team.begin))
                with signals_passed_to(team.pass_on_signal):
                    for step in range(start, hp.max_steps):
                        _finite_step(session, graph, guard, team, step)
                    team.wait_for_the_end()
    except Ended as ended:
        if ended.status:
            raise


def configuration(hp: HParams, corpus: Dict[str, str]) -> Dict[str, Any]:
    """Return what must be the same on all workers: name → value.

    Args:
      hp: the settings.
      corpus: the checksum of each part of the corpus.
    """
    found = dataclasses.asdict(hp)
    del found["data"]  # its path may differ from machine to machine
    found.update(versions())
    found["code"] = checksum_of_code()
    found.update((f"corpus {name}", value[:8]) for name, value in corpus.items())
    return found


def checksum_of_code() -> str:
    """Return a checksum of the files of this package."""
    package = os.path.dirname(os.path.abspath(__file__))
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(package):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    digest.update(name.encode("utf-8") + b"\0" + file.read())
    return digest.hexdigest()[:8]


def identity_of(checkpoint: Optional[str]) -> Dict[str, str]:
    """Return the name of a checkpoint, and its manifest, which lists its checksums.

    Args:
      checkpoint: its path, without file extensions, or None.
    """
    if not checkpoint:
        return {}
    with open(checkpoint + checkpoints.MANIFEST, encoding="utf-8") as file:
        return {"name": os.path.basename(checkpoint), "manifest": file.read()}


def described_checkpoint(logdir: str, description: Dict[str, str]) -> Optional[str]:
    """Return the checkpoint from which the chief continues, verified; None for none.

    Args:
      logdir: the log directory of this worker: the chief's, or a copy of it.
      description: what `identity_of` returned there.

    Raises:
      ValueError: the checkpoint in `logdir` is not the chief's.
    """
    if not description:
        return None
    name = os.path.basename(description["name"])
    path = os.path.join(logdir, name)
    fault = checkpoints.fault_of(path)
    if not fault and identity_of(path) != description:
        fault = f"{name} differs from the chief's"
    if fault:
        raise ValueError(
            f"{logdir}: expected the checkpoint from which the chief continues, got "
            f"none or another one ({fault}); give all workers the same folder, or a "
            "copy of it"
        )
    return path
