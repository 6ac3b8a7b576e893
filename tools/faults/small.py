"""Stand-ins for what takes seconds and writes nothing: the model, its translations.

A training run of `train.py` with them writes every file that one of the real model
writes, by the same code, in a tenth of a second.
"""

import os
import sys
from typing import List

import numpy as np
import tensorflow.compat.v1 as tf

import hparams
from transformer import trainer
from transformer.originals.convert import STEP, variable_shapes
from transformer.originals.names import original_name
from transformer.runtime import checkpoints, tensors
from transformer.shards import Shards
from transformer.text.vocabulary_files import copy_vocabularies, load_vocabularies
from transformer.training import Metrics, Update
from transformer.training_graph import TrainingGraph
from transformer.translator import Translation


class SmallGraph(TrainingGraph):
    """The ops of a training run of fifty numbers."""

    def __init__(self, hp, data, start: int, cluster=None):
        self.data, self.size, self.shards = data, 50, Shards(data.train_plan)
        self.exchange, self.durations = None, []
        step = tf.train.get_or_create_global_step()
        numbers = tf.get_variable(
            "numbers", [self.size], initializer=tf.ones_initializer
        )
        self._mean = tf.reduce_mean(numbers)
        one = tf.constant(1.0)
        with tf.control_dependencies([self._mean]):
            change = tf.assign(numbers, numbers * 0.9 + tf.cast(step, tf.float32))
        with tf.control_dependencies([change]):
            applied = tf.assign_add(step, 1).op
        metrics = Metrics(self._mean, one, one, one)
        self.update = Update(tf.no_op(), applied, metrics, metrics[::3])
        self.saver = checkpoints.make_saver()
        self.initialize = tf.global_variables_initializer()

    def feed(self, number: int):
        """Return what to feed: nothing."""
        return {}

    def dev_loss(self, session) -> float:
        """Return a number that depends on the variables."""
        return float(session.run(self._mean))


class SmallTranslator:
    """Translates the better, the more steps a checkpoint has."""

    def __init__(self, hp, logdir: str, n_best: int = 1):
        self.hp, self.logdir = hp, logdir

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def restore(self, checkpoint: str) -> None:
        """Load a checkpoint."""
        self._step = int(tensors.read(checkpoint)["global_step"])

    def translate(self, lines: List[str]) -> List[List[Translation]]:
        """Return lines backwards, cut off."""
        return [
            [Translation(" ".join(line.split()[::-1][: self._step + 2]), 0.0)]
            for line in lines
        ]


def small_session(hp, cluster=None) -> tf.Session:
    """Return a session that runs everything in the thread that calls it."""
    config = tf.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=-1
    )
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.Session(config=config)


def use() -> None:
    """Have `train.py` train fifty numbers, in this process."""
    trainer.TrainingGraph, trainer.Translator = SmallGraph, SmallTranslator
    trainer.make_session = small_session


def _random(hp):
    """Return variables of a model with random values: name → array."""
    draw = np.random.RandomState(1)
    return {
        name: draw.uniform(-0.5, 0.5, shape).astype(np.float32)
        for name, shape in sorted(variable_shapes(hp).items())
        if name != STEP
    }


def write_logdir(data: str, logdir: str) -> None:
    """Write the log directory of a model that was never trained."""
    size = load_vocabularies(data).source.size
    sizes = {"source_vocab_size": size, "target_vocab_size": size}
    hp = hparams.HParams(num_blocks=1, d_model=8, d_ff=8, num_heads=2, **sizes)
    os.makedirs(logdir)
    copy_vocabularies(data, logdir)
    hparams.save(hp, logdir)
    checkpoints.write({**_random(hp), STEP: np.int64(1)}, logdir, 1)


def write_original(data: str, folder: str) -> None:
    """Write a checkpoint as an original system does."""
    size = load_vocabularies(data).source.size
    sizes = {"source_vocab_size": size, "target_vocab_size": size}
    hp = hparams.HParams(
        num_blocks=1, d_model=8, d_ff=8, num_heads=2, dialect="kyubyong", **sizes
    )
    arrays = {STEP: np.int64(3)}
    for name, array in _random(hp).items():
        arrays[original_name(name, hp.dialect, array.shape)] = array
    os.makedirs(folder)
    checkpoints.write(arrays, folder, 3)


def write_carelessly(data: str, folder: str) -> None:
    """Write a folder as no command here does: in place, a file after the other."""
    os.makedirs(folder, exist_ok=True)
    draft = os.path.join(folder, f"{os.getpid()}.tmp")
    for path in (draft, os.path.join(folder, "first")):
        with open(path, "w", encoding="utf-8") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    os.rename(draft, os.path.join(folder, "second"))
    with open(os.path.join(folder, "third"), "w", encoding="utf-8"):
        os.unlink(os.path.join(folder, "third"))


def main(argv: List[str]) -> None:
    """Write what another command reads: kind, data folder, place."""
    kind, data, place = argv
    kinds = {
        "logdir": write_logdir,
        "original": write_original,
        "careless": write_carelessly,
    }
    kinds[kind](data, place)


if __name__ == "__main__":
    main(sys.argv[1:])
