"""Trains a translation model: `python train.py --preset sample --logdir logs/sample`.

The same command again goes on where the last one stopped.
"""

import argparse
import dataclasses
import math
import os
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf

import hparams
from transformer.data import BatchPlan, Corpus, evaluation_dataset, training_dataset
from transformer.decoding import SEARCHES
from transformer.dialects import DIALECTS
from transformer.evaluation import evaluate, load_text
from transformer.model import Transformer
from transformer.runtime import checkpoints, ram
from transformer.runtime.events import Events
from transformer.runtime.nonfinite import Watch
from transformer.runtime.process import Lock, Stopped, StopSignals
from transformer.runtime.reporting import (
    DevScores,
    Meter,
    Progress,
    clock,
    read_dev_scores,
)
from transformer.runtime.sessions import (
    PRECISIONS,
    compilation,
    make_session,
    refuse_impossible,
)
from transformer.text.vocabulary import copy_vocabularies, load_vocabularies
from transformer.training import SCHEDULES, cross_entropy_of_product, make_update
from transformer.translator import Translator


class Data:
    """The corpora of a training, and which pairs make a batch; refuses bad ones.

    Raises:
      FileNotFoundError: a split is missing.
      ValueError: it is broken, or has a pair that is longer than a batch may be.
    """

    def __init__(self, hp):
        self.train, self.dev = (Corpus(hp.data, split) for split in ("train", "dev"))
        self.train_plan, self.dev_plan = _plan(self.train, hp), _plan(self.dev, hp)
        self.dev_text = load_text(hp.data, "dev")

    def forecast(self, hp, parameters):
        """The memory that training on it takes: a Forecast."""
        longest = max(
            side.max()
            for side in (self.train.source_lengths, self.train.target_lengths)
        )
        return ram.forecast(hp, parameters, len(self.train), int(longest))


class TrainingGraph:
    """The ops of a training: an update that reads a batch, the loss on dev."""

    def __init__(self, hp, start, data=None):
        self.data = data or Data(hp)
        tf.set_random_seed(hp.seed)
        model = Transformer(hp)
        global_step = tf.train.get_or_create_global_step()
        batches = training_dataset(
            self.data.train, self.data.train_plan, start * hp.accumulate
        )
        self._batch = batch = tf.data.make_one_shot_iterator(batches).get_next()
        seed = tf.stack([tf.constant(hp.seed, tf.int64), batch.number])
        with compilation(hp):
            self.update = make_update(
                _loss(model, batch, hp.label_smoothing, True, seed), hp, global_step
            )

        self._dev = tf.data.make_initializable_iterator(
            evaluation_dataset(self.data.dev, self.data.dev_plan)
        )
        self._dev_loss = _loss(model, self._dev.get_next())
        self.saver = checkpoints.make_saver()
        self.initialize = tf.group(
            tf.global_variables_initializer(), tf.local_variables_initializer()
        )
        self.size = sum(
            int(np.prod(variable.shape.as_list()))
            for variable in tf.trainable_variables()
        )

    def feed(self, number):
        """What makes a run read this batch; the next one is still the next."""
        pairs = self.data.train_plan.batch(number)
        return dict(zip(self._batch, self.data.train.batch(pairs, number)))

    def dev_loss(self, session):
        """Cross entropy on the dev split, in nats a token, without label smoothing."""
        session.run(self._dev.initializer)
        total = count = 0.0
        while True:
            try:
                part = session.run(self._dev_loss)
            except tf.errors.OutOfRangeError:
                return float(total / count)
            total, count = total + part.sum, count + part.count


def _plan(corpus, hp):
    """The batches of a corpus; the dev split may hold longer pairs than the budget."""
    lengths = corpus.source_lengths, corpus.target_lengths
    budget = hp.batch_tokens
    if corpus.split == "dev":
        budget = max(budget, *(side.max() for side in lengths))
    return BatchPlan(*lengths, budget, hp.seed)


def _loss(model, batch, label_smoothing=0.0, is_training=False, dropout_seed=None):
    encoded = model.encode(batch.source, is_training, dropout_seed)
    states, _ = model.decoder_states(
        batch.target_in, encoded, is_training, dropout_seed
    )
    return cross_entropy_of_product(
        *model.output_factors(states),
        batch.target_out,
        label_smoothing,
        model.dialect.smoothing,
    )


class Training:
    """A training in progress: its session, its log directory, where it stands."""

    def __init__(self, hp, logdir, session, graph, translator, start):
        self.hp, self.logdir, self.step, self.saved = hp, logdir, start, start
        self.session, self.graph, self.translator = session, graph, translator
        self.scores, self.events = DevScores(logdir, start), Events(logdir)
        self.watch = Watch(session, graph.update, graph.feed, hp, logdir)
        self.meter = Meter()
        self.progress = Progress(sys.stderr, start)
        self.signals = StopSignals()

    def run(self):
        """Updates until the last step, or until patience ends."""
        hp = self.hp
        self.progress.say(
            f"{self.graph.size:,} parameters; step {self.step} of "
            f"{hp.max_steps}; logs in {self.logdir}"
        )
        self.progress.say(
            ram.report(
                self.graph.data.forecast(hp, self.graph.size),
                self.session,
                hp.batch_tokens,
            )
        )
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
            came = self.signals.came
            if self.is_due(hp.save_every) or self.is_due(hp.eval_every) or came:
                self.save()
            if came:
                raise Stopped(came)
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

    def keep_best(self):
        """Keeps the checkpoint with the best dev BLEU so far, if another one is kept:
        that of a run that got further, before its newest checkpoints broke."""
        best = self.scores.best()
        kept = checkpoints.steps(self.logdir, checkpoints.BEST)
        if best and best["step"] not in kept:
            wanted = checkpoints.prefix(self.logdir, best["step"])
            if best["step"] in checkpoints.steps(
                self.logdir
            ) and not checkpoints.fault_of(wanted):
                self.write(checkpoints.save_best, self.logdir, best["step"])

    def is_due(self, every):
        """Whether what happens every so many steps, and at the end, happens now."""
        return self.step > 0 and (
            self.step % every == 0 or self.step == self.hp.max_steps
        )

    def is_out_of_patience(self):
        return 0 < self.hp.patience <= self.scores.evaluations_since_best()

    def update(self):
        """One update of the variables, from `accumulate` batches."""
        hp, update = self.hp, self.graph.update
        with ram.shortage_explained(
            f"in step {self.step + 1}",
            f"lower --batch_tokens (found "
            f"{hp.batch_tokens}); raise --accumulate (found {hp.accumulate}) as "
            "much, and an update stays what it was",
        ):
            for _ in range(hp.accumulate - 1):
                self.session.run(update.collect)
            _, metrics = self.session.run([update.apply, update.metrics])
        if not math.isfinite(metrics.loss + metrics.gradient_norm):
            raise self.watch.error(self.step)
        self.step += 1
        self.meter.add(metrics.loss, metrics.tokens)
        if self.is_due(self.hp.log_every):
            loss, tokens_per_second = self.meter.read()
            left = self.progress.left(self.step, hp.max_steps)
            self.progress.show(
                self.step,
                hp.max_steps,
                f"step {self.step}/{hp.max_steps}  loss {loss:.3f}  "
                f"{tokens_per_second:,.0f} tokens/s  {left} left",
            )
            self.write(
                self.events.write,
                self.step,
                {
                    "loss": loss,
                    "tokens_per_second": tokens_per_second,
                    "minutes": self.meter.minutes(),
                    "learning_rate": metrics.learning_rate,
                    "gradient_norm": metrics.gradient_norm,
                },
            )

    def save(self):
        """Writes a checkpoint, if one could go on from it."""
        self.watch.check_before_saving(self.step)
        if self.write(
            checkpoints.save,
            self.session,
            self.graph.saver,
            self.logdir,
            self.step,
            self.hp.keep_checkpoints,
        ):
            self.saved = self.step

    def write(self, function, *args):
        """Calls a function that writes to the disk; returns whether it could.

        Raises:
          OSError: it could not, and training must not or cannot go on without it.
        """
        try:
            function(*args)
        except OSError as error:
            message = (
                f"step {self.step}: {error}; last checkpoint: {self.saved or 'none'}"
            )
            if (
                self.hp.on_save_error == "stop"
                or self.signals.came
                or self.step >= self.hp.max_steps
            ):
                raise OSError(
                    f"{message}; make room, and the same command goes on from there"
                ) from error
            self.progress.say(f"{message}; going on")
            return False
        return True

    def evaluate(self):
        """Dev loss, and dev BLEU as eval.py computes it; keeps the best checkpoint."""
        self.meter.pause()
        began = time.monotonic()
        explained = ram.shortage_explained(
            f"when dev was evaluated at step {self.step}",
            f"lower --decode_batch_size (found {self.hp.decode_batch_size}), "
            "--beam_size or --batch_tokens",
        )
        with self.signals.at_once(), explained:  # the checkpoint is written
            self.translator.restore(checkpoints.prefix(self.logdir, self.step))
            loss = self.graph.dev_loss(self.session)
            scores, _ = evaluate(self.translator, *self.graph.data.dev_text)
        best = self.scores.best()
        is_best = best is None or scores.bleu > best["bleu"]
        if not is_best or self.write(checkpoints.save_best, self.logdir, self.step):
            # Last: a step that has its dev scores is not evaluated again.
            self.write(
                self.scores.add,
                {
                    "step": self.step,
                    "bleu": scores.bleu,
                    "chrf": scores.chrf,
                    "loss": loss,
                },
            )
        self.write(
            self.events.write,
            self.step,
            {
                "dev/bleu": scores.bleu,
                "dev/loss": loss,
                "minutes": self.meter.minutes(),
            },
        )
        self.progress.say(
            f"step {self.step}: dev BLEU {scores.bleu:.2f}, dev loss "
            f"{loss:.3f} ({clock(time.monotonic() - began)})"
        )
        self.meter.resume()


def newest_checkpoint(logdir):
    """The checkpoint from which training goes on, None where nothing was trained yet.

    Raises:
      ValueError: there was one, and is none any more that is whole.
    """
    if checkpoints.exist(logdir):
        return checkpoints.find(logdir, "newest", warn)
    if read_dev_scores(logdir):
        raise ValueError(
            f"{logdir}: found dev scores, but no checkpoint; choose "
            "another --logdir to train from the beginning"
        )
    return None


def warn(text):
    print(f"train.py: {text}", file=sys.stderr)


def train(hp, logdir):
    """Trains by the settings `hp` in `logdir`, from its newest checkpoint if any."""
    data = Data(hp)
    with Lock(logdir) as lock, tf.Graph().as_default():
        checkpoint = newest_checkpoint(logdir)
        start = checkpoints.step_of(checkpoint) if checkpoint else 0
        if start > hp.max_steps:
            raise ValueError(
                f"max_steps: found {hp.max_steps}, wanted {start} or "
                f"more: {logdir} is at step {start}"
            )
        os.makedirs(logdir, exist_ok=True)
        lock.take()
        checkpoints.sweep(logdir)
        copy_vocabularies(hp.data, logdir)  # refuses to replace one by another
        hparams.save(hp, logdir)
        graph = TrainingGraph(hp, start, data)
        with make_session(hp, precision=hp.precision) as session, Translator(
            hp, logdir
        ) as translator:
            with ram.shortage_explained(
                "when the variables were made",
                "lower --d_model, --d_ff, --num_blocks or the vocabulary's size",
            ):
                session.run(graph.initialize)
            if checkpoint:
                checkpoints.restore(session, graph.saver, checkpoint)
            training = Training(hp, logdir, session, graph, translator, start)
            with training.signals:
                training.run()


def settings(args):
    """The settings of a run; those of the vocabulary come from the data folder.

    Raises:
      ValueError: they contradict each other, the data or the log directory.
    """
    given = hparams.given_settings(args)
    hp = hparams.resolve(given, args.preset, args.logdir)
    for name, table in (
        ("dialect", DIALECTS),
        ("search", SEARCHES),
        ("schedule", [*SCHEDULES, ""]),
        ("positions", ["sinusoid", "learned", ""]),
        ("on_save_error", ["stop", "continue"]),
        ("precision", PRECISIONS),
    ):
        hparams.refuse_unknown(name, getattr(hp, name), table)
    refuse_impossible(hp)
    hparams.refuse_unwritable(args.logdir)
    saved = os.path.exists(os.path.join(args.logdir, hparams.FILE_NAME))
    if checkpoints.steps(args.logdir) and not saved:
        raise ValueError(
            f"{args.logdir}: found checkpoints, but no "
            f"{hparams.FILE_NAME}; choose another --logdir"
        )
    vocabularies = load_vocabularies(hp.data)
    facts = {
        "source_vocab_size": vocabularies.source.size,
        "target_vocab_size": vocabularies.target.size,
        "joint_vocab": vocabularies.joint,
    }
    for name, fact in facts.items():
        found = getattr(hp, name)
        was_said = name in given or saved
        if was_said and found != fact and (found or name == "joint_vocab"):
            raise ValueError(
                f"{name}: found {found}, wanted {fact} as in {hp.data}; "
                "choose another --data, or another --logdir"
            )
    return dataclasses.replace(hp, **facts)


def main(argv=None):
    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.ERROR)
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], allow_abbrev=False
    )
    parser.add_argument(
        "--logdir",
        required=True,
        metavar="DIR",
        help="where everything is written; the same again goes on",
    )
    parser.add_argument(
        "--preset",
        metavar="NAME",
        help=f"settings to start from: {', '.join(hparams.PRESETS)}",
    )
    hparams.add_flags(parser)
    args = hparams.parse_flags(parser, sys.argv[1:] if argv is None else argv)
    try:
        train(settings(args), args.logdir)
    except (ValueError, OSError, FloatingPointError, MemoryError) as error:
        sys.exit(f"train.py: {error}")
    except (Stopped, KeyboardInterrupt) as stopped:
        warn(
            f"{str(stopped) or 'interrupted'}; the same command goes on from the last "
            "checkpoint"
        )
        sys.exit(getattr(stopped, "status", 130))


if __name__ == "__main__":
    main()
