"""The ops of a training run: an update that reads a batch, the loss on dev."""

import collections
import dataclasses
import hashlib
import os
import time
from typing import Callable, Dict, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.data import BatchPlan, Corpus, evaluation_dataset
from transformer.evaluation import load_text
from transformer.model import Transformer
from transformer.runtime import checkpoints, ram, tensors
from transformer.runtime.cluster import Cluster
from transformer.runtime.devices import training_devices
from transformer.runtime.exchange import Exchange, checksums, refuse_impossible_workers
from transformer.runtime.files import sha256_of
from transformer.runtime.precision import compute_type, getter_to
from transformer.runtime.sessions import compilation, set_up_process
from transformer.shards import Shards, chosen_count, prefetched, training_dataset
from transformer.text.corpus import ID_FILES
from transformer.text.summary import verify
from transformer.text.vocabulary_files import vocabulary_names
from transformer.training import cross_entropy, make_update

MEASURED = 5  # updates, from which is told what several workers gain


class Data:
    """The corpora of a training run, and which pairs make a batch.

    Raises:
      FileNotFoundError: a split is missing.
      ValueError: it is broken, or has a pair that is longer than a batch may be.
    """

    def __init__(self, hp):
        verify(hp.data)
        self.train, self.dev = (Corpus(hp.data, split) for split in ("train", "dev"))
        for corpus in (self.train, self.dev):
            corpus.refuse_other_ids(hp.source_vocab_size, hp.target_vocab_size)
        self.train_plan, self.dev_plan = _plan(self.train, hp), _plan(self.dev, hp)
        self.dev_text = load_text(hp.data, "dev")

    def checksums(self) -> Dict[str, str]:
        """Return the SHA-256 of each part of the corpora, by its name."""
        names = [name for name in ID_FILES if not name.startswith("test.")]
        names += vocabulary_names(self.train.folder)
        sums = {
            name: sha256_of(os.path.join(self.train.folder, name)) for name in names
        }
        for side, lines in zip(("source", "target"), self.dev_text):
            text = "\n".join(lines).encode("utf-8")
            sums[f"dev.{side}.text"] = hashlib.sha256(text).hexdigest()
        return sums

    def forecast(self, hp, parameters: int) -> ram.Forecast:
        """Return the memory that training on this data needs."""
        longest = max(
            side.max()
            for side in (self.train.source_lengths, self.train.target_lengths)
        )
        return ram.forecast(hp, parameters, len(self.train), int(longest))


def settled(hp, cluster: Optional[Cluster] = None):
    """Return the settings with the number of shards, which a run keeps.

    Args:
      hp: the settings.
      cluster: the workers that compute together; None: this process alone.

    Raises:
      ValueError: there are more workers than this TensorFlow, or the shards, allow.
    """
    devices = len(training_devices(hp))
    if cluster:
        refuse_impossible_workers(hp, cluster, devices)
        devices *= cluster.size
    return dataclasses.replace(hp, shards=chosen_count(hp.shards, devices))


def _plan(corpus, hp):
    """Return the batches of a corpus; those of dev may exceed the budget."""
    lengths = corpus.source_lengths, corpus.target_lengths
    budget = hp.batch_tokens
    if corpus.split == "dev":
        budget = max(budget, *(side.max() for side in lengths))
    return BatchPlan(*lengths, budget, hp.seed)


class TrainingGraph:
    """The ops of a training run in the current graph: an update, the loss on dev.

    Args:
      hp: the settings.
      data: the corpora.
      start: how many updates were made already.
      cluster: the workers that compute together; None: this process alone.
    """

    def __init__(self, hp, data: Data, start: int, cluster: Optional[Cluster] = None):
        self.hp, self.data = hp, data
        self.durations = collections.deque(maxlen=MEASURED)  # of updates, in s
        set_up_process(hp)
        tf.set_random_seed(hp.seed)
        model = Transformer(hp, getter_to(compute_type(hp)))
        global_step = tf.train.get_or_create_global_step()
        devices = training_devices(hp)
        part = (cluster.size, cluster.index) if cluster else ()
        count = settled(hp, cluster).shards
        self.shards = Shards(data.train_plan, count, len(devices), *part)
        self.exchange = cluster and Exchange(cluster, devices[0])
        rounds = training_dataset(data.train, self.shards, start * hp.accumulate)
        next_batches = tf.data.make_one_shot_iterator(rounds).get_next()
        losses, self._batches, take_next = self._towers(model, next_batches, devices)
        with compilation(hp):
            update = make_update(losses, hp, global_step, self.shards, self.exchange)
        self.update = update._replace(
            collect=tf.group(update.collect, take_next),
            apply=tf.group(update.apply, take_next),
        )

        self._dev = tf.data.make_initializable_iterator(
            evaluation_dataset(data.dev, data.dev_plan)
        )
        [batch] = self._dev.get_next()
        with tf.device(devices[0]):
            self._dev_loss = _loss(model, batch)
        self.saver = checkpoints.make_saver()
        if self.exchange:
            self.sent = 4 * self.exchange.numbers  # bytes of an update
            self.sent *= self.update.runs if hp.deterministic else 1
            self._take_over = self.exchange.of_the_chief(tf.trainable_variables())
        self.initialize = tf.group(
            tf.global_variables_initializer(),
            tf.local_variables_initializer(),
            take_next,
        )
        self.size = sum(
            int(np.prod(variable.shape.as_list()))
            for variable in tf.trainable_variables()
        )

    def _towers(self, model, next_batches, devices):
        """Return (the loss on each device, its batch, an op that takes the next ones).

        The first tower creates all variables. TensorFlow 1.15 draws initial values by
        the number of ops created before, so it must not depend on the other devices.
        """
        hp, losses, batches, take_next = self.hp, [], [], []
        for device, next_batch in zip(devices, next_batches):
            batch, take = prefetched(next_batch, device)
            batches.append(batch)
            take_next += take
            with compilation(hp):
                with tf.device("/cpu:0"):  # see `dropout`
                    seed = tf.stack([tf.constant(hp.seed, tf.int64), batch.number])
                with tf.device(device):
                    losses.append(_loss(model, batch, hp.label_smoothing, True, seed))
        return losses, batches, tf.group(*take_next)

    def open(
        self,
        session: tf.Session,
        checkpoint: Optional[str],
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        """Give the variables their first values, or those of a checkpoint.

        Args:
          session: a session of this graph.
          checkpoint: what `checkpoints.find` returned; None: none.
          begin: waits until all workers are ready.
        """
        with ram.shortage_explained(
            "when the variables were made",
            "lower --d_model, --d_ff, --num_blocks or the vocabulary's size",
        ):
            session.run(self.initialize)
        if checkpoint:
            tensors.restore(session, self.saver, checkpoint)
        begin()
        if self.exchange:
            session.run(self._take_over)

    def make_step(self, session: tf.Session):
        """Make an update, from `accumulate` batches; return its Metrics."""
        began = time.monotonic()
        for _ in range(self.update.runs - 1):
            session.run(self.update.collect)
        metrics, _ = session.run([self.update.metrics, self.update.apply])
        self.durations.append(time.monotonic() - began)
        return metrics

    def traffic(self) -> str:
        """Return, in words, what each of several workers computes and sends."""
        shards = self.shards
        tokens = self.hp.batch_tokens * shards.rounds // shards.count
        return (
            f"{shards.workers} workers: of each batch a device computes up to "
            f"{shards.rounds} of {shards.count} shards, about {tokens:,} tokens; an "
            f"update adds up {self.sent:,} bytes over the workers"
        )

    def gain(self, session: tf.Session, step: int) -> str:
        """Return, in words, how much faster all workers are than one.

        This worker computes its part of the last updates again, while the others wait;
        nothing is changed.

        Args:
          session: a session of this graph.
          step: how many updates were made.
        """
        runs, part = self.update.runs, self.update.local_loss_and_norm
        size, count = self.shards.workers, len(self.durations)
        numbers = range((step - count) * runs, step * runs)
        feeds = [self.feed(number) for number in numbers]
        session.run(part, feeds[0])  # TensorFlow prepares the first run
        began = time.monotonic()
        for feed in feeds:
            session.run(part, feed)
        alone, together = time.monotonic() - began, sum(self.durations)
        return (
            f"{size} workers are {size * alone / together:.2f} times as fast as one: "
            f"the chief's part of {count} updates takes {alone:.2f} s alone, "
            f"{together:.2f} s with the others"
        )

    def checksums(self, session: tf.Session) -> Dict[str, int]:
        """Return a checksum of each variable that a checkpoint has, by its name."""
        with session.graph.as_default():
            return checksums(session, tf.global_variables())

    def feed(self, number: int) -> Dict:
        """Return what to feed to compute a round; the iterator stays in place."""
        batches = zip(self._batches, self.shards.batches(self.data.train, number))
        return {key: array for pair in batches for key, array in zip(*pair)}

    def dev_loss(self, session: tf.Session) -> float:
        """Return the cross entropy on dev, in nats per token, not label-smoothed."""
        session.run(self._dev.initializer)
        total = count = 0.0
        while True:
            try:
                part = session.run(self._dev_loss)
            except tf.errors.OutOfRangeError:
                return float(total / count)
            total, count = total + part.sum, count + part.count


def _loss(model, batch, label_smoothing=0.0, is_training=False, dropout_seed=None):
    """Return the Loss of a batch."""
    encoded = model.encode(batch.source, is_training, dropout_seed)
    logits = model.decode(batch.target_in, encoded, is_training, dropout_seed)
    return cross_entropy(
        logits, batch.target_out, label_smoothing, model.dialect.smoothing
    )
