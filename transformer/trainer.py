"""Training: a data folder → a log directory, starting at its newest checkpoint.

In this order: `train` is the recipe of a run, with its stages; `TrainingData` holds the
splits; `TrainingGraph` holds the operations of an update and of the dev loss;
`Training` is the loop: update, log, save, evaluate. If there are several workers, one
is the chief, which does all this; the others run `follow`: they make the same updates,
but write nothing.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import os
import sys
import time
from typing import Callable, Dict, Iterator, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from transformer import hparams
from transformer.blocks.positions import LEARNED, POSITIONS, choose_positions
from transformer.decoding import SEARCHES
from transformer.evaluation import evaluate
from transformer.footprint import (
    describe_footprint,
    estimate_footprint,
    estimate_memory,
)
from transformer.hparams import HParams
from transformer.logdir import checkpoints, manifests
from transformer.logdir.history import (
    MIN_BLEU,
    DevScores,
    Events,
    Lock,
    Meter,
    RunHistory,
    dev_hash,
    dev_search,
    read_dev_scores,
)
from transformer.logdir.names import BEST, checkpoint_path, checkpoint_step
from transformer.logdir.nonfinite import FiniteGuard
from transformer.model import Transformer
from transformer.runtime import ram
from transformer.runtime.devices import has_gpu
from transformer.runtime.errors import (
    CorpusError,
    DataFolderChanged,
    LogDirectoryError,
    LogDirectoryInUse,
    SettingsError,
)
from transformer.runtime.files import read_file, replace_file, sha256_of
from transformer.runtime.names import refuse_unknown
from transformer.runtime.precision import PRECISIONS, compute_type, make_getter
from transformer.runtime.progress import Progress, format_count, format_duration
from transformer.runtime.sessions import Session, make_session_config, set_up_process
from transformer.runtime.signals import Stopped, StopSignals, forward_signals
from transformer.text.batches import (
    BatchPlan,
    Shards,
    Split,
    evaluation_dataset,
    prefetch_to_device,
    shard_count,
    training_dataset,
)
from transformer.text.data_folder import ID_FILES, read_parallel, verify_checksums
from transformer.text.vocabulary import FILE_NAMES, copy_vocabularies, vocabulary_names
from transformer.training import (
    SCHEDULES,
    Update,
    UpdateResult,
    can_continue,
    cross_entropy,
    format_scaling,
    make_update,
    peak_rate,
    run_update,
    scaling_scalars,
    schedule_name,
    shard_loss,
)
from transformer.translator import Translator
from transformer.workers.agreement import (
    describe_configuration,
    find_agreed_checkpoint,
    identify_checkpoint,
)
from transformer.workers.cluster import Cluster
from transformer.workers.exchange import (
    FAILURES,
    Exchange,
    make_cluster_session,
    refuse_old_tensorflow,
)
from transformer.workers.team import TIMEOUT, Ended, Team

# If the learning rate is the peak of its schedule, a peak above this is refused.
HIGHEST_PEAK = 0.1
# If the learning rate is a factor, a peak below this is reported.
LOWEST_PEAK = 2e-5
# Micro-batches that a process computes side by side. Dropout depends on this number, so
# it does not depend on the number of cores.
MICRO_BATCHES = 2
# Shapes of the batches of dev, at most: there are few batches, and many sentences.
DEV_SHAPES = 8


class Run(NamedTuple):
    """The validated settings and data of a training run."""

    hp: HParams
    data: "TrainingData"
    checksums: Dict[str, str]  # of the corpus and its vocabulary: name → SHA-256
    cluster: Optional[Cluster]  # the workers; None: a single process


class Start(NamedTuple):
    """Where a training run begins or continues."""

    step: int  # updates already made
    checkpoint: Optional[str] = None  # None: nothing was trained yet
    init_from: Optional[str] = None  # without a checkpoint: where weights come from


class OpenRun(NamedTuple):
    """A run with its graph and a session, whose variables have their values."""

    run: Run
    start: Start
    graph: "TrainingGraph"
    session: tf.Session


def train(
    hp: HParams,
    logdir: str,
    warn: Callable[[str], None],
    accept_changes: bool = False,
    cluster: Optional[Cluster] = None,
    init_from: Optional[str] = None,
) -> None:
    """Train in `logdir` with the settings `hp`, from its newest checkpoint, if any.

    A run goes through these stages; each needs what the one before returns:

    1. `prepare_run` checks the settings and reads the data: a `Run`.
    2. The chief finds the checkpoint (`find_start`) and tells the other workers
       (`find_agreed_checkpoint`): a `Start`.
    3. `open_run` builds the graph, and gives the variables their values: an `OpenRun`.
    4. The chief locks the log directory, and writes its first files (`claim_logdir`).
       Before this stage, only the file `lock` is written, if the log directory exists.
    5. `Training.run` trains. The other workers make the same updates (`follow`).

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
        nothing was trained. See `runtime/errors.py` for its kinds.
      FloatingPointError: a loss or gradient is not finite.
      MemoryError: training needs more memory than is free.
      OSError: a checkpoint could not be written.
      Stopped: a signal was received, and a checkpoint was saved; or another worker
        ended the run.
    """
    run = prepare_run(hp, cluster, warn)
    configuration = describe_configuration(run.hp, run.checksums) if cluster else {}
    team = Team(cluster, configuration, warn, FAILURES)
    if not team.is_chief:
        follow(run, logdir, team)
        return
    with Lock(logdir) as lock, tf.Graph().as_default(), team:
        start, history = find_start(run, logdir, warn, accept_changes, init_from)
        team.handshake(identify_checkpoint(start.checkpoint))
        with open_run(run, start, team) as opened:
            if history.describe_changes():
                warn(f"{logdir}: {history.describe_changes()}")
            scores = claim_logdir(logdir, lock, opened, history)
            with Translator.for_settings(run.hp, logdir) as translator:
                training = Training(opened, logdir, scores, translator, team)
                with training.signals:
                    team.stop = training.signals.request
                    training.run()


def prepare_run(
    hp: HParams, cluster: Optional[Cluster], warn: Callable[[str], None]
) -> Run:
    """Check the settings, and read the data of a training run.

    Args:
      hp, cluster, warn: as in `train`.

    Raises:
      ValueError: the settings or the data folder cannot be used.
    """
    refuse_unknown_names(hp)
    refuse_high_rate(hp)
    for setting in ("precision", "decode_precision"):
        compute_type(getattr(hp, setting), setting)  # refuse what TensorFlow lacks
    refuse_old_tensorflow(cluster)
    hp = resolve_shards(hp, cluster)
    data = TrainingData(hp)
    is_learned = choose_positions(hp.positions, hp.resolved_dialect) == LEARNED
    if is_learned and data.longest() > hp.max_positions:
        warn(
            f"max_positions: {hp.max_positions}, but the longest sentence has "
            f"{data.longest()} tokens: all later positions share the last vector"
        )
    return Run(hp, data, data.checksums(), cluster)


def find_start(
    run: Run,
    logdir: str,
    warn: Callable[[str], None],
    accept_changes: bool = False,
    init_from: Optional[str] = None,
) -> Tuple[Start, RunHistory]:
    """Find where a run in `logdir` begins or continues; write nothing.

    Args:
      run: the run.
      logdir, warn, accept_changes, init_from: as in `train`.

    Raises:
      ValueError: the log directory cannot be used, or belongs to another corpus.
    """
    checkpoint = newest_checkpoint(logdir, warn)
    step = checkpoint_step(checkpoint) if checkpoint else 0
    if step > run.hp.max_steps:
        raise SettingsError(
            f"max_steps: expected {step} or more, got {run.hp.max_steps}: {logdir} "
            f"is at step {step}"
        )
    history = RunHistory(logdir, step, run.hp, run.checksums, init_from)
    if not checkpoint:
        # A run killed before its first checkpoint starts again from the same weights.
        return Start(0, init_from=history.init_from), history
    if init_from and history.begun_from != os.path.abspath(init_from):
        warn(
            f"init_from {init_from}: ignored, because {logdir} already has a "
            f"checkpoint (its first weights: {history.begun_from or 'random'})"
        )
    trained_on = manifests.read_description(checkpoint).get("corpus", {})
    history.refuse_other_corpus(trained_on, accept_changes)
    return Start(step, checkpoint), history


@contextlib.contextmanager
def open_run(run: Run, start: Start, team: Team) -> Iterator[OpenRun]:
    """Build the training graph, and initialize or restore its variables."""
    graph = TrainingGraph(run.hp, run.data, start.step, run.cluster)
    with graph.make_session() as session:
        team.compute(lambda: graph.initialize_or_restore(session, start, team.barrier))
        yield OpenRun(run, start, graph, session)


def claim_logdir(
    logdir: str, lock: Lock, opened: OpenRun, history: RunHistory
) -> DevScores:
    """Lock a log directory; write its settings, vocabulary and history.

    Args:
      logdir: the log directory; it is created if necessary.
      lock: its lock, taken here if the folder is new.
      opened: the open run. Only a run that fits in memory and matches its checkpoint
        can be opened.
      history: the segments of the run.

    Returns:
      The dev scores of the log directory.

    Raises:
      LogDirectoryInUse: another process trains there, or has begun to.
      CorpusError: the data folder was prepared again in the meantime.
    """
    run, start = opened.run, opened.start
    os.makedirs(logdir, exist_ok=True)
    lock.take()
    if manifests.has_checkpoint(logdir) and not start.checkpoint:
        raise LogDirectoryInUse(
            f"{logdir}: another training run began there at the same time; run the "
            "same command again to continue it",
            logdir,
        )
    if start.checkpoint == checkpoint_path(logdir, start.step, BEST):
        checkpoints.copy_best_as_newest(logdir, start.step)
    checkpoints.clean_up(logdir, start.step, run.hp.keep_checkpoints)
    copy_vocabularies(run.hp.data, logdir)  # refuses to replace a different one
    refuse_changed_vocabulary(run, logdir)
    history.write()
    hparams.save(run.hp, logdir)
    search = dev_search(dataclasses.asdict(run.hp))
    dev = dev_hash(run.checksums)
    return DevScores(logdir, start.step, dev, search)


def refuse_changed_vocabulary(run: Run, logdir: str) -> None:
    """Raise CorpusError if `logdir` has another vocabulary than the ids read."""
    for name in vocabulary_names(logdir):
        if sha256_of(os.path.join(logdir, name)) != run.checksums[name]:
            raise CorpusError(
                f"{run.hp.data}: expected the vocabulary of the ids that were read, "
                f"got another {name}: the folder was prepared again in the meantime; "
                "run the same command again"
            )


def refuse_unknown_names(hp: HParams) -> None:
    """Raise SettingsError for a setting that names no entry of its table."""
    for name, table in (
        ("search", SEARCHES),
        ("schedule", [*SCHEDULES, ""]),
        ("positions", [*POSITIONS, LEARNED, ""]),
        ("precision", PRECISIONS),
    ):
        refuse_unknown(name, getattr(hp, name), table)


def refuse_high_rate(hp: HParams) -> None:
    """Raise SettingsError for a factor of `noam` given to a schedule with a peak."""
    name = schedule_name(hp)
    peak = peak_rate(hp)
    if peak > HIGHEST_PEAK and not SCHEDULES[name].rate_is_factor:
        scaled = [other for other, row in SCHEDULES.items() if row.rate_is_factor]
        raise SettingsError(
            f"learning_rate: expected at most {HIGHEST_PEAK}, because it is the peak "
            f"with the schedule {name} (with {' and '.join(scaled)}, it is a factor), "
            f"got {peak:g}; try 0.001"
        )


def describe_low_rate(hp: HParams) -> str:
    """Describe a factor so low that it looks like a peak; return "" for any other."""
    name = schedule_name(hp)
    if not SCHEDULES[name].rate_is_factor or peak_rate(hp) >= LOWEST_PEAK:
        return ""
    return (
        f"; this is low: with the schedule {name}, learning_rate is a factor (1 in the "
        "paper), not the peak"
    )


def resolve_shards(hp: HParams, cluster: Optional[Cluster] = None) -> HParams:
    """Set the number of shards for a deterministic run.

    Raises:
      SettingsError: there are more workers than shards.
    """
    workers = cluster.size if cluster else 1
    if not hp.deterministic:
        return hp
    if 0 < hp.shards < workers:
        raise SettingsError(
            f"shards: expected {workers} or more, one for each worker, got "
            f"{hp.shards}; start fewer workers, or set shards to {workers}, which "
            "changes dropout from here on"
        )
    return dataclasses.replace(hp, shards=shard_count(hp.shards, workers))


def newest_checkpoint(logdir: str, warn: Callable[[str], None]) -> Optional[str]:
    """Find the checkpoint to continue from; None if nothing was trained yet.

    Raises:
      CheckpointError: no checkpoint is whole.
      LogDirectoryError: there are dev scores, but no checkpoints.
    """
    if manifests.has_checkpoint(logdir):
        return manifests.find_checkpoint(logdir, "newest", warn)
    if read_dev_scores(logdir):
        raise LogDirectoryError(
            f"{logdir}: the checkpoint to continue from is missing, dev scores are "
            "there; choose another logdir"
        )
    return None


class TrainingData:
    """The splits of a training run, and the plans of their batches.

    Raises:
      DataFolderNotPrepared: a split is missing.
      CorpusError: a split is broken, or has a pair that is too long for a batch.
    """

    def __init__(self, hp: HParams):
        self._verified = verify_checksums(hp.data)
        self.train = Split(hp.data, "train")
        self.dev = Split(hp.data, "dev")
        for split in (self.train, self.dev):
            split.refuse_other_ids(hp.source_vocab_size, hp.target_vocab_size)
        lengths = (self.train.source_lengths, self.train.target_lengths)
        self.train_plan = BatchPlan(*lengths, hp.batch_tokens, hp.seed, hp.batch_shapes)
        lengths = (self.dev.source_lengths, self.dev.target_lengths)
        # A batch holds at least the longest pair of dev.
        batch_tokens = max(hp.batch_tokens, *(side.max() for side in lengths))
        max_shapes = min(hp.batch_shapes, DEV_SHAPES)
        self.dev_plan = BatchPlan(*lengths, batch_tokens, hp.seed, max_shapes)
        self.dev_text = read_parallel(hp.data, "dev")

    def checksums(self) -> Dict[str, str]:
        """Compute the SHA-256 of the ids, the vocabulary and the dev text, by name."""
        names = [name for name in ID_FILES if not name.startswith("test.")]
        names += vocabulary_names(self.train.folder)
        checksums = {}
        for name in names:
            path = os.path.join(self.train.folder, name)
            checksums[name] = self._verified.get(name) or sha256_of(path)
        texts = (self.dev_text.sources, self.dev_text.references)
        for side, lines in zip(("source", "target"), texts):
            text = "\n".join(lines).encode("utf-8")
            checksums[f"dev.{side}.text"] = hashlib.sha256(text).hexdigest()
        return checksums

    def refuse_changes(self, checksums: Dict[str, str]) -> None:
        """Raise DataFolderChanged if ids have changed since they were opened.

        Args:
          checksums: file name → SHA-256, from `checksums`.
        """
        for split in (self.train, self.dev):
            split.refuse_changes(checksums)

    def longest(self) -> int:
        """Count the tokens of the longest sentence of train."""
        lengths = (self.train.source_lengths, self.train.target_lengths)
        return int(max(side.max() for side in lengths))


def count_micro_batches(deterministic: bool) -> int:
    """Count the micro-batches that a process computes side by side.

    A GPU does not divide a shard into micro-batches, nor does a deterministic run.
    """
    return 1 if deterministic or has_gpu() else MICRO_BATCHES


class TrainingGraph:
    """The operations of a training run in the current graph: update and dev loss.

    Args:
      hp: the settings.
      data: the splits.
      start: the number of updates already made.
      cluster: the workers that compute together; None: a single process.
    """

    def __init__(
        self,
        hp: HParams,
        data: TrainingData,
        start: int,
        cluster: Optional[Cluster] = None,
    ):
        self.hp = hp
        self.data = data
        self._cluster = cluster
        self._micro_batches = count_micro_batches(hp.deterministic)
        set_up_process(hp.deterministic)
        tf.set_random_seed(hp.seed)
        model = Transformer(hp, make_getter(compute_type(hp.precision)))
        global_step = tf.train.get_or_create_global_step()
        workers = cluster.size if cluster else 1
        worker = cluster.index if cluster else 0
        # Each worker computes one shard, unless the number of workers must not affect
        # the result.
        count = shard_count(hp.shards, workers) if hp.deterministic else workers
        self.shards = Shards(data.train_plan, count, workers, worker)
        self.exchange = Exchange(cluster) if cluster else None

        batches = training_dataset(data.train, self.shards, start * hp.accumulate)
        next_batch = tf.data.make_one_shot_iterator(batches).get_next()
        self._batch, fetch_ops = prefetch_to_device(next_batch)
        loss = shard_loss(model, self._batch, hp, self._micro_batches)
        fetch_next = tf.group(*fetch_ops)
        update = make_update(loss, hp, global_step, self.shards, self.exchange)
        self.update = update._replace(
            accumulate=tf.group(update.accumulate, fetch_next),
            apply=tf.group(update.apply, fetch_next),
        )

        self._dev = tf.data.make_initializable_iterator(
            evaluation_dataset(data.dev, data.dev_plan)
        )
        batch = self._dev.get_next()
        logits = model.decode(batch.target_in, model.encode(batch.source))
        self._dev_loss = cross_entropy(logits, batch.target_out)
        self.saver = checkpoints.make_saver()
        variables = tf.trainable_variables()
        self._broadcast = tf.no_op()
        if self.exchange:
            self._broadcast = self.exchange.broadcast(variables)
        self.initialize = tf.group(
            tf.global_variables_initializer(),
            tf.local_variables_initializer(),
            fetch_next,
        )
        self.num_parameters = sum(
            variable.shape.num_elements() for variable in variables
        )

    def make_session(self) -> tf.Session:
        """Make a session of this graph; micro-batches are computed side by side."""
        config = make_session_config(
            deterministic=self.hp.deterministic, branches=self._micro_batches
        )
        if self._cluster:
            return make_cluster_session(self._cluster, None, config)
        return Session(config=config)

    def initialize_or_restore(
        self,
        session: tf.Session,
        start: Start,
        barrier: Callable[[], None] = lambda: None,
    ) -> None:
        """Initialize the variables, or load them from a checkpoint.

        Args:
          session: a session of this graph.
          start: where the run begins or continues. Without a checkpoint, the weights of
            the best checkpoint of `init_from` are the first weights, or random ones.
          barrier: waits until all workers are ready.
        """
        with ram.explain_memory_errors(
            "when the variables were created",
            "lower d_model, d_ff, num_blocks or the vocabulary size",
        ):
            session.run(self.initialize)
        if start.checkpoint:
            checkpoints.restore(session, self.saver, start.checkpoint)
        if start.init_from:
            checkpoints.find_and_load(
                start.init_from, lambda path: checkpoints.restore_weights(session, path)
            )
        barrier()
        session.run(self._broadcast)

    def feed(self, position: int) -> Dict:
        """Make the feed of a shard, which does not advance the iterator.

        Args:
          position: as in `Shards.shard`.
        """
        return dict(zip(self._batch, self.shards.shard(self.data.train, position)))

    def dev_loss(self, session: tf.Session) -> float:
        """Compute the cross entropy on dev, in nats per token, unsmoothed."""
        session.run(self._dev.initializer)
        total = 0.0
        count = 0.0
        while True:
            try:
                loss = session.run(self._dev_loss)
            except tf.errors.OutOfRangeError:
                return float(total / count)
            total += loss.sum
            count += loss.count

    def describe_shards(self) -> str:
        """Describe how a batch is divided into shards; return "" for one shard."""
        shards = self.shards
        if shards.workers > 1:
            size = ram.format_bytes(4 * self.num_parameters)
            return (
                f"{shards.workers} workers: each computes {shards.per_worker} of "
                f"{shards.count} shards of a batch; an update adds up {size} of "
                "gradients over the workers"
            )
        if shards.count > 1:
            return f"each batch is cut into {shards.count} shards"
        return ""


class Training:
    """A training run in progress: its session, log directory and step.

    Args:
      opened: the run, its graph and its session.
      logdir, scores: its log directory and its dev scores, from `claim_logdir`.
      translator: translates dev, with the same settings.
      team: the other workers, if any.
    """

    def __init__(
        self,
        opened: OpenRun,
        logdir: str,
        scores: DevScores,
        translator: Translator,
        team: Team,
    ):
        self.hp = opened.run.hp
        self.checksums = opened.run.checksums
        self.step = opened.start.step
        self.last_saved_step = self.step
        self.graph = opened.graph
        self.session = opened.session
        self.logdir = logdir
        self.scores = scores
        self.translator = translator
        self.team = team
        self.events = Events(self.logdir, self.step)
        self.guard = make_guard(opened, self.logdir)
        self.meter = Meter()
        self.progress = Progress(sys.stderr, self.step)
        self.signals = StopSignals()

    def run(self) -> None:
        """Train until the last step, or until patience runs out.

        Raises:
          OSError: a checkpoint could not be written, or the log directory has vanished.
        """
        try:
            self.train()
        except (OSError, ValueError) as error:
            if os.path.isdir(self.logdir):
                raise
            last = self.last_saved_step or "none"
            raise OSError(
                f"step {self.step}: the log directory {self.logdir} was moved or "
                f"removed; last checkpoint: {last}; continue from it where it is now"
            ) from error

    def train(self) -> None:
        """Update, save and evaluate."""
        hp = self.hp
        self.announce()
        self.copy_missing_best()
        self.evaluate_if_due()
        while self.step < hp.max_steps and not self.is_out_of_patience():
            self.refuse_changed_ids()
            self.update()
            received = self.signals.received
            if self.is_due(hp.save_every) or self.is_due(hp.eval_every) or received:
                self.save()
            if received:
                raise Stopped(received)
            self.evaluate_if_due()
        self.restore_damaged()
        self.report_end()

    def report_end(self) -> None:
        """Report why training stopped, and the best dev BLEU."""
        hp = self.hp
        best = self.scores.best()
        assert best  # the last step was evaluated
        reason = "the last step"
        if self.step < hp.max_steps:
            evaluations = format_count(hp.patience, "evaluation")
            reason = f"after {evaluations} without a better dev BLEU"
        criterion = ""
        if best["bleu"] < MIN_BLEU:
            criterion = f" (the lowest dev loss, as no BLEU reached {MIN_BLEU:g})"
        self.progress.say(
            f"stopped at step {self.step}, {reason}; best dev BLEU "
            f"{best['bleu']:.2f}, at step {best['step']}{criterion}"
        )

    def announce(self) -> None:
        """Report the size of the model, the step, the shards and the memory needed."""
        self.progress.say(
            f"{self.graph.num_parameters:,} parameters; step {self.step} of "
            f"{self.hp.max_steps}; logs in {self.logdir}"
        )
        if self.graph.describe_shards():
            self.progress.say(self.graph.describe_shards())
        rate = f"at most {peak_rate(self.hp):.2g}{describe_low_rate(self.hp)}"
        if self.step:
            current = self.session.run(self.graph.update.metrics.learning_rate)
            rate = f"{current:.2g} now, {rate}"
        self.progress.say(f"learning rate: {rate}")
        data = self.graph.data
        tensors = estimate_footprint(
            self.hp,
            self.graph.num_parameters,
            len(data.train),
            data.longest(),
            self.graph.shards.count,
        )
        threads = count_micro_batches(self.hp.deterministic)
        num_shapes = data.train_plan.num_shapes
        needed = estimate_memory(tensors, self.hp, num_shapes, threads)
        available = ram.available_memory(self.session)
        self.progress.say(describe_footprint(needed, available))

    def copy_missing_best(self) -> None:
        """Copy the checkpoint with the best dev BLEU, unless a copy exists.

        The best score may have no copy if an earlier process got further and its newest
        checkpoints broke.
        """
        best = self.scores.best()
        if not best or best["step"] in manifests.list_steps(self.logdir, BEST):
            return
        path = checkpoint_path(self.logdir, best["step"])
        is_present = best["step"] in manifests.list_steps(self.logdir)
        if is_present and not manifests.find_fault(path):
            self.try_to_write(checkpoints.save_best, self.logdir, best["step"])

    def is_due(self, interval: int) -> bool:
        """Return whether this step is a multiple of `interval`, or the last one."""
        is_last = self.step == self.hp.max_steps
        return self.step > 0 and (self.step % interval == 0 or is_last)

    def is_out_of_patience(self) -> bool:
        """Return whether dev BLEU has not improved for as long as `patience` allows."""
        return 0 < self.hp.patience <= self.scores.evaluations_since_best()

    def refuse_changed_ids(self) -> None:
        """Save and raise DataFolderChanged if ids of the data folder have changed.

        Nothing was computed from the changed ids: each batch was read before this check
        and is used after it.
        """
        try:
            self.graph.data.refuse_changes(self.checksums)
        except DataFolderChanged as error:
            if self.last_saved_step < self.step:
                self.save()
            last = self.last_saved_step or "none"
            message = f"step {self.step}: {error}; last checkpoint: {last}"
            raise DataFolderChanged(message, error.folder) from error

    def update(self) -> None:
        """Update the variables once from `accumulate` batches."""
        hp = self.hp
        with ram.explain_memory_errors(
            f"in step {self.step + 1}",
            f"lower batch_tokens (now {hp.batch_tokens}); raise accumulate (now "
            f"{hp.accumulate}) by the same factor to keep the size of an update",
        ):
            result = run_finite_update(
                self.session, self.graph.update, self.guard, self.team, self.step
            )
        self.step += 1
        self.meter.add(result.metrics.loss, result.metrics.tokens)
        if self.is_due(hp.log_every):
            self.log_metrics(result)

    def log_metrics(self, result: UpdateResult) -> None:
        """Show the metrics of training, and write them for TensorBoard.

        Loss and speed are means since the last call; the learning rate and the norm of
        the gradient are those of the newest update.

        To log another number, add it to `training.Metrics` and here.
        """
        metrics, scaling = result
        step = self.step
        last = self.hp.max_steps
        loss, tokens_per_second = self.meter.read()
        speed = f"{tokens_per_second:,.0f} tokens/s"
        if self.team.cluster:
            per_worker = tokens_per_second / self.graph.shards.workers
            speed += f", {per_worker:,.0f} per worker"
        time_left = self.progress.time_left(step, last)
        self.progress.show(
            step,
            last,
            f"step {step}/{last}  loss {loss:.3f}  {speed}  {time_left} left"
            f"{format_scaling(scaling)}",
        )
        self.try_to_write(
            self.events.write,
            step,
            {
                **scaling_scalars(scaling),
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
        self.try_to_write(self.write_checkpoint)

    def write_checkpoint(self) -> None:
        """Write a checkpoint, and before it what its manifest refers to.

        Raises:
          OSError: the checkpoint, the settings or the vocabulary cannot be written.
        """
        try:
            self.restore_damaged()
        finally:
            checkpoints.save(
                self.session,
                self.graph.saver,
                self.logdir,
                self.step,
                self.hp.keep_checkpoints,
                {"settings": hparams.model_settings(self.hp), "corpus": self.checksums},
            )
            self.last_saved_step = self.step

    def write_best(self) -> None:
        """Copy the checkpoint of this step as the best one; see `write_checkpoint`."""
        self.restore_damaged()
        checkpoints.save_best(self.logdir, self.step)

    def restore_damaged(self) -> None:
        """Write the settings and the vocabulary again if they were removed or damaged.

        Without them, nothing could translate with the checkpoints.

        Raises:
          OSError: they cannot be written, or the data folder has another vocabulary.
        """
        names = [*itertools.chain(*FILE_NAMES), hparams.FILE_NAME]
        damaged = [
            name
            for name in names
            if name in (hparams.FILE_NAME, *self.checksums) and not self.is_intact(name)
        ]
        if not damaged:
            return
        for name in damaged:
            path = os.path.join(self.logdir, name)
            if os.path.isdir(path) and not os.path.islink(path):
                os.rmdir(path)  # fails if there is something in it
            if name == hparams.FILE_NAME:
                hparams.save(self.hp, self.logdir)
                continue
            original = os.path.join(self.hp.data, name)
            if sha256_of(original) != self.checksums[name]:
                raise OSError(
                    f"{self.logdir}: {name} is missing or damaged, and {original} is "
                    "another one"
                )
            with replace_file(path, "wb") as file:
                file.write(read_file(original))
        self.progress.say(
            f"step {self.step}: {', '.join(damaged)} had been removed or damaged in "
            f"{self.logdir}, written again"
        )

    def is_intact(self, name: str) -> bool:
        """Return whether a file of the log directory has what translating needs.

        Settings that do not change the model may have been edited.

        Args:
          name: that of the settings or of a vocabulary.
        """
        try:
            if name != hparams.FILE_NAME:
                path = os.path.join(self.logdir, name)
                return sha256_of(path) == self.checksums[name]
            is_complete = set(hparams.read(self.logdir)) == set(hparams.FIELDS)
            model = hparams.model_settings(hparams.load(self.logdir))
            return is_complete and model == hparams.model_settings(self.hp)
        except (OSError, ValueError):
            return False

    def try_to_write(self, function: Callable, *args) -> bool:
        """Call a function that writes to disk; return whether it succeeded.

        Raises:
          OSError: it failed, and training cannot or should not continue.
        """
        try:
            function(*args)
        except OSError as error:
            last = self.last_saved_step or "none"
            message = f"step {self.step}: {error}; last checkpoint: {last}"
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
            and self.last_saved_step == self.step
        ):
            self.evaluate()

    def evaluate(self) -> None:
        """Score dev like the command eval; keep the checkpoint if it is the best."""
        self.meter.pause()
        began = time.monotonic()
        memory_errors = ram.explain_memory_errors(
            f"when dev was evaluated at step {self.step}",
            f"lower decode_batch_size (now {self.hp.decode_batch_size}), beam_size or "
            "batch_tokens",
        )
        with self.signals.at_once(), memory_errors:  # the checkpoint is written
            self.translator.restore(checkpoint_path(self.logdir, self.step))
            loss = self.graph.dev_loss(self.session)
            self.refuse_changed_ids()
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
        is_best = self.scores.is_best(row)
        self.try_to_write(
            self.events.write,
            self.step,
            {
                "dev/bleu": scores.bleu,
                "dev/loss": loss,
                "minutes": self.meter.minutes(),
            },
        )
        if not is_best or self.try_to_write(self.write_best):
            # This comes last: a step with dev scores is not evaluated again.
            self.try_to_write(self.scores.add, row)
        self.progress.say(
            f"step {self.step}: dev BLEU {scores.bleu:.2f}, dev loss "
            f"{loss:.3f} ({format_duration(time.monotonic() - began)})"
        )
        self.meter.resume()


def make_guard(opened: OpenRun, logdir: str) -> FiniteGuard:
    """Make the FiniteGuard of a run, which reports numbers that are not finite."""
    graph = opened.graph
    return FiniteGuard(
        session=opened.session,
        update=graph.update,
        feed=graph.feed,
        logdir=logdir,
        has_other_workers=graph.shards.workers > 1,
    )


def run_finite_update(
    session: tf.Session, update: Update, guard: FiniteGuard, team: Team, step: int
) -> UpdateResult:
    """Run the update that follows `step` updates, together with the other workers.

    Raises:
      FloatingPointError: its loss or gradients are not finite.
      Ended: the run ended on another worker.
    """
    result = team.compute(lambda: run_update(session, update))
    if not can_continue(result):
        raise team.find_cause(guard.make_error(step))
    return result


# --- The other workers ----------------------------------------------------------------


def follow(run: Run, logdir: str, team: Team) -> None:
    """Train with the chief, from the checkpoint it names, until it ends the run.

    Args:
      run: the run, with the same settings and data as the chief's.
      logdir: the log directory, which is only read.
      team: the connection to the chief.

    Raises:
      ValueError: the settings, the data or the checkpoint differ from the chief's.
      FloatingPointError: a loss or gradient is not finite.
      Ended: the chief was stopped, or a worker was lost.
    """
    try:
        with team, tf.Graph().as_default():
            checkpoint = find_agreed_checkpoint(logdir, team.handshake())
            step = checkpoint_step(checkpoint) if checkpoint else 0
            start = Start(step, checkpoint)
            with open_run(run, start, team) as opened:
                guard = make_guard(opened, logdir)
                update = opened.graph.update
                with forward_signals(team.forward_signal):
                    for step in range(start.step, run.hp.max_steps):
                        refuse_changed_ids(run, team)
                        run_finite_update(opened.session, update, guard, team, step)
                    team.wait_for_end()
    except Ended as ended:
        if ended.status:
            raise


def refuse_changed_ids(run: Run, team: Team) -> None:
    """Raise DataFolderChanged if ids of the data folder have changed.

    If the chief sees it too, it saves a checkpoint, and its verdict is raised.
    """
    try:
        run.data.refuse_changes(run.checksums)
    except DataFolderChanged:
        team.wait_for_end(TIMEOUT)
        raise
