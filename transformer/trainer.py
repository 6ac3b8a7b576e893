"""Training: a prepared corpus → a log directory, from its newest checkpoint on."""

import os
import sys
import time
from typing import Callable, Optional

import tensorflow.compat.v1 as tf

from transformer import loss_scale
from transformer.evaluation import evaluate
from transformer.following import follow
from transformer.runtime import checkpoints, ram
from transformer.runtime.cluster import Cluster
from transformer.runtime.devices import has_gpu
from transformer.runtime.events import Events
from transformer.runtime.exchange import FAILURES
from transformer.runtime.history import RunHistory, name_of_dev
from transformer.runtime.nonfinite import FiniteGuard
from transformer.runtime.process import Lock, Stopped, StopSignals
from transformer.runtime.reporting import DevScores, Meter, Progress, clock
from transformer.runtime.sessions import make_session, refuse_impossible
from transformer.runtime.workers import Chief, Member
from transformer.starting import facts, newest_checkpoint, refuse_unknown_names, welcome
from transformer.text.vocabulary_files import copy_vocabularies
from transformer.training_graph import Data, TrainingGraph, settled
from transformer.translator import Translator

MEASURED_AFTER = 100  # updates: what several workers gain


def train(
    hp,
    logdir: str,
    save_settings: Callable[[object, str], None],
    warn: Callable[[str], None],
    accept_changes: bool = False,
    cluster: Optional[Cluster] = None,
) -> None:
    """Train by the settings `hp` in `logdir`, from its newest checkpoint if any.

    Args:
      hp: the settings, with the sizes of the vocabularies.
      logdir: the log directory; it is made if need be.
      save_settings: function of `hp` and `logdir`; writes the settings.
      warn: function of a text; called for each broken checkpoint that is skipped, and
        for what changed since the steps before.
      accept_changes: continue with another corpus, too.
      cluster: the workers that train together; None: this process alone.

    Raises:
      ValueError: the settings, the data folder or the log directory cannot work;
        nothing was written.
      FloatingPointError: a loss or gradient is not finite.
      MemoryError: there is too little.
      OSError: a checkpoint could not be written.
      Stopped: a signal was received, a checkpoint was saved; or another worker ended.
    """
    refuse_unknown_names(hp)
    refuse_impossible(hp)
    hp = settled(hp, cluster)
    # Those of training, of the dev scores, two moments and a gradient of each.
    ram.refuse_too_large(hp, copies=1 if has_gpu() else 5)
    data = Data(hp)
    corpus = data.checksums()
    alike = facts(hp, corpus) if cluster else {}
    if cluster and cluster.index:
        return follow(hp, logdir, data, Member(cluster, alike, warn))
    team = Chief(cluster, alike, warn)
    with Lock(logdir) as lock, tf.Graph().as_default(), team:
        checkpoint = newest_checkpoint(logdir, warn)
        start = checkpoints.step_of(checkpoint) if checkpoint else 0
        if start > hp.max_steps:
            raise ValueError(
                f"max_steps: found {hp.max_steps}, wanted {start} or "
                f"more: {logdir} is at step {start}"
            )
        history = RunHistory(logdir, start, hp, corpus)
        if not accept_changes:
            history.refuse_other_corpus()
        team.meet(welcome(checkpoint))
        graph = TrainingGraph(hp, data, start, cluster)
        with make_session(hp, cluster=cluster) as session:
            # Fails, if so, before anything is written.
            team.computed(lambda: graph.open(session, checkpoint, team.begin), FAILURES)
            if history.changes():
                warn(f"{logdir}: {history.changes()}")
            os.makedirs(logdir, exist_ok=True)
            lock.take()
            if checkpoints.exist(logdir) and not checkpoint:
                raise ValueError(
                    f"{logdir}: found checkpoints of a training run that began at the "
                    "same time; run the same command again to continue it"
                )
            checkpoints.clean_up(logdir, start, hp.keep_checkpoints)
            copy_vocabularies(hp.data, logdir)  # refuses to replace one by another
            save_settings(hp, logdir)
            history.write()
            scores = DevScores(logdir, start, name_of_dev(corpus))
            with Translator(hp, logdir) as translator:
                parts = lock, session, graph, translator, scores, start
                training = Training(*parts, team)
                with training.signals:
                    training.run()


class Training:
    """A training run in progress: its session, its log directory, its step.

    Args:
      lock: that of the log directory, taken.
      session: a session with the variables of `graph`.
      graph: the ops.
      translator: translates dev, with the same settings.
      scores: the dev scores so far.
      start: how many updates were made already.
      team: the other workers; None: there are none.
    """

    def __init__(
        self,
        lock: Lock,
        session: tf.Session,
        graph: TrainingGraph,
        translator: Translator,
        scores: DevScores,
        start: int,
        team: Optional[Chief] = None,
    ):
        self.team = team or Chief()
        self.hp, self.logdir = hp, logdir = translator.hp, translator.logdir
        self.lock, self.start, self.step, self.saved = lock, start, start, start
        self.session, self.graph, self.translator = session, graph, translator
        self.scores, self.events = scores, Events(logdir)
        self.guard = FiniteGuard(
            session, graph.update, graph.feed, hp, logdir, graph.shards.workers > 1
        )
        self.meter = Meter()
        self.progress = Progress(sys.stderr, start)
        self.signals = StopSignals()

    def run(self) -> None:
        """Update until the last step, or until patience ends."""
        hp = self.hp
        self.announce()
        self.keep_best()
        while True:
            if (
                self.is_due(hp.eval_every)
                and not self.scores.has(self.step)
                and self.saved == self.step
            ):
                self.evaluate()
            if self.step >= hp.max_steps or self.is_out_of_patience():
                break
            self.update()
            received = self.signals.received
            if self.is_due(hp.save_every) or self.is_due(hp.eval_every) or received:
                self.save()
            if received:
                raise Stopped(received)
        best = self.scores.best()
        reason = (
            "the last step"
            if self.step >= hp.max_steps
            else f"{hp.patience} evaluations without a better dev BLEU"
        )
        self.progress.say(
            f"stopped at step {self.step}, {reason}; best dev BLEU "
            f"{best['bleu']:.2f}, of step {best['step']}"
        )

    def announce(self) -> None:
        """Report the size of the model, the step, the shards, the memory needed."""
        self.progress.say(
            f"{self.graph.size:,} parameters; step {self.step} of "
            f"{self.hp.max_steps}; logs in {self.logdir}"
        )
        if self.graph.shards.count > 1:
            self.progress.say(str(self.graph.shards))
        if self.team.cluster:
            self.progress.say(self.graph.traffic())
        forecast = self.graph.data.forecast(self.hp, self.graph.size)
        self.progress.say(ram.report(forecast, self.session, self.hp.batch_tokens))

    def keep_best(self) -> None:
        """Copy the checkpoint with the best dev BLEU so far, unless it is the one kept.

        They differ if an earlier process got further and its newest checkpoints broke.
        """
        best = self.scores.best()
        kept = checkpoints.steps(self.logdir, checkpoints.BEST)
        if best and best["step"] not in kept:
            wanted = checkpoints.path_of(self.logdir, best["step"])
            if best["step"] in checkpoints.steps(
                self.logdir
            ) and not checkpoints.fault_of(wanted):
                self.try_to_write(checkpoints.save_best, self.logdir, best["step"])

    def is_due(self, every: int) -> bool:
        """Return whether this step is a multiple of `every`, or the last one."""
        return self.step > 0 and (
            self.step % every == 0 or self.step == self.hp.max_steps
        )

    def is_out_of_patience(self) -> bool:
        """Return whether dev BLEU has not improved for as long as `patience` allows."""
        return 0 < self.hp.patience <= self.scores.evaluations_since_best()

    def update(self) -> None:
        """Update the variables once, from `accumulate` batches."""
        hp, graph, team = self.hp, self.graph, self.team
        with ram.shortage_explained(
            f"in step {self.step + 1}",
            f"lower --batch_tokens (found "
            f"{hp.batch_tokens}); raise --accumulate (found {hp.accumulate}) by the "
            "same factor to keep the size of an update",
        ):
            metrics = team.computed(lambda: graph.make_step(self.session), FAILURES)
        if not loss_scale.are_fine(metrics):
            raise team.cause(self.guard.error(self.step))
        self.step += 1
        self.meter.add(metrics.loss, metrics.tokens)
        if team.cluster and hp.audit_every and self.step % hp.audit_every == 0:
            sums = team.computed(lambda: graph.checksums(self.session), FAILURES)
            team.audit(self.step, sums)
        if team.cluster and self.step == self.start + MEASURED_AFTER:
            self.meter.pause()
            self.progress.say(
                f"step {self.step}: {graph.gain(self.session, self.step)}"
            )
            self.meter.resume()
        if self.is_due(hp.log_every):
            self.log_metrics(metrics)

    def log_metrics(self, metrics) -> None:
        """Show the progress since the last call, and write it for TensorBoard.

        To log one more number, add it to `training.Metrics`, and here.
        """
        step, last = self.step, self.hp.max_steps
        loss, tokens_per_second = self.meter.read()
        each = tokens_per_second / self.graph.shards.workers
        of_each = f", {each:,.0f} a worker" if self.team.cluster else ""
        self.progress.show(
            step,
            last,
            f"step {step}/{last}  loss {loss:.3f}  {tokens_per_second:,.0f} tokens/s"
            f"{of_each}  "
            f"{self.progress.left(step, last)} left"
            f"{loss_scale.report(metrics.scaling)}",
        )
        self.try_to_write(
            self.events.write,
            step,
            {
                **loss_scale.scalars(metrics.scaling),
                "loss": loss,
                "tokens_per_second": tokens_per_second,
                "minutes": self.meter.minutes(),
                "learning_rate": metrics.learning_rate,
                "gradient_norm": metrics.gradient_norm,
            },
        )

    def save(self) -> None:
        """Write a checkpoint, provided that training can continue from it."""
        self.guard.check_before_saving(self.step)
        if self.try_to_write(
            checkpoints.save,
            self.session,
            self.graph.saver,
            self.logdir,
            self.step,
            self.hp.keep_checkpoints,
        ):
            self.saved = self.step

    def try_to_write(self, function: Callable, *args) -> bool:
        """Call a function that writes to the disk; return whether it succeeded.

        Raises:
          OSError: it failed, and training must not or cannot continue without it; the
            log directory was moved or deleted.
        """
        self.lock.check()
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
                    f"{message}; make room, and the same command continues from there"
                ) from error
            self.progress.say(f"{message}; continuing")
            return False
        return True

    def evaluate(self) -> None:
        """Score dev as eval.py does; keep the checkpoint if it is the best."""
        self.lock.check()
        self.meter.pause()
        began = time.monotonic()
        explained = ram.shortage_explained(
            f"when dev was evaluated at step {self.step}",
            f"lower --decode_batch_size (found {self.hp.decode_batch_size}), "
            "--beam_size or --batch_tokens",
        )
        with self.signals.at_once(), explained:  # the checkpoint is written
            self.translator.restore(checkpoints.path_of(self.logdir, self.step))
            loss = self.graph.dev_loss(self.session)
            scores, _ = evaluate(self.translator, *self.graph.data.dev_text)
        best = self.scores.best()
        is_best = best is None or scores.bleu > best["bleu"]
        self.try_to_write(
            self.events.write,
            self.step,
            {
                "dev/bleu": scores.bleu,
                "dev/loss": loss,
                "minutes": self.meter.minutes(),
            },
        )
        row = {"step": self.step, "bleu": scores.bleu, "chrf": scores.chrf}
        if not is_best or self.try_to_write(
            checkpoints.save_best, self.logdir, self.step
        ):
            # Last: a step that has its dev scores is not evaluated again.
            self.try_to_write(self.scores.add, dict(row, loss=loss))
        self.progress.say(
            f"step {self.step}: dev BLEU {scores.bleu:.2f}, dev loss "
            f"{loss:.3f} ({clock(time.monotonic() - began)})"
        )
        self.meter.resume()
