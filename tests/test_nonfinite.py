"""nonfinite.py: the first tensor that is not finite is named, and nothing is lost."""

import glob
import os
import re
import shutil

import corpora
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from transformer import hparams, trainer
from transformer.logdir import checkpoints, manifests
from transformer.logdir.names import checkpoint_path
from transformer.text.batches import SHARD_STRIDE

pytestmark = pytest.mark.usefixtures("one_thread_only")

FLAGS = "--dropout_rate 0.1 --save_every 2 --eval_every 4 --max_steps 4".split()


@pytest.fixture(scope="module")
def begun(digits, tmp_path_factory):
    """The log directory of a training of four steps; do not write."""
    logdir = str(tmp_path_factory.mktemp("logs") / "begun")
    corpora.run_train(digits, logdir, *FLAGS)
    return logdir


@pytest.fixture
def logdir(begun, tmp_path):
    """A copy of it, to be written."""
    return shutil.copytree(begun, str(tmp_path / "logs"))


def stopped(capsys, data, logdir, *flags):
    """The last line of a training that must end; no checkpoint was added."""
    before = manifests.list_steps(logdir)
    with pytest.raises(SystemExit) as stop:
        corpora.run_train(data, logdir, *FLAGS, "--max_steps", "12", *flags)
    assert stop.value.code == 2 and manifests.list_steps(logdir) == before
    return capsys.readouterr().err.splitlines()[-1]


def rewrite(logdir, step, change):
    """Puts other values into a checkpoint; `change` gets {name: array}."""
    prefix = checkpoint_path(logdir, step)
    values = corpora.read_variables(prefix)
    change(values)
    for path in glob.glob(glob.escape(prefix) + ".*"):
        os.remove(path)
    with tf.Graph().as_default(), tf.Session() as session:
        for name, value in values.items():
            tf.get_variable(name, initializer=value, use_resource=False)
        session.run(tf.global_variables_initializer())
        checkpoints.save(session, tf.train.Saver(), str(logdir), step, keep=100)


# --- A training -----------------------------------------------------------------------


def test_a_poisoned_variable_is_named_and_the_last_checkpoints_too(
    digits, logdir, capsys
):
    name = "decoder/block_0/feedforward/inner/kernel"

    def poison(values):
        values[name][3, 5] = np.nan

    rewrite(logdir, 4, poison)
    line = stopped(capsys, digits, logdir)
    assert "step 5: expected a finite loss and gradient, got loss nan" in line
    assert f"; the variable {name} is not finite" in line
    assert f"{logdir}{os.sep}model.ckpt-4, {logdir}{os.sep}model.ckpt-2;" in line
    assert line.endswith("if it happens again, remove the newest checkpoint")


@pytest.mark.parametrize(
    "flags, number",
    [
        (["--accumulate=3"], 4 * 3 + 2),  # the third batch of the fifth update
        pytest.param(
            ["--shards=3", "--deterministic"],
            4 + 2 * SHARD_STRIDE,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_gradients_of_the_bad_part_of_an_update_are_named(
    digits, logdir, capsys, monkeypatch, flags, number
):
    broken = overflowing(number, trainer.make_update)
    monkeypatch.setattr(trainer, "make_update", broken)
    line = stopped(capsys, digits, logdir, *flags)
    assert "step 5: expected a finite loss and gradient, got loss inf" in line
    assert re.search(r"; the gradient of \S+, the first of \d+, is not finite", line)
    assert "lower learning_rate or set clip_norm" in line


def overflowing(number, make_update):
    """make_update with a loss that overflows in one batch of a training."""

    def make_overflowing_update(loss, *args):
        [here] = [
            op.outputs[0]
            for op in tf.get_default_graph().get_operations()
            if op.type == "Unstage" and len(op.outputs) == 1  # the batch's number
        ]
        with tf.name_scope("broken"):
            grown = tf.exp(tf.where_v2(tf.equal(here, number), 100.0, 0.0))
        return make_update(loss._replace(sum=loss.sum * grown), *args)

    return make_overflowing_update


def test_a_bad_update_changes_nothing(digits):
    """Not even the step, nor the moments: so what is diagnosed is what was there."""
    hp = hparams.resolve(
        {
            "data": digits,
            "num_blocks": 1,
            "d_model": 16,
            "d_ff": 32,
            "num_heads": 2,
            "batch_tokens": 200,
            "source_vocab_size": 25,
            "target_vocab_size": 25,
            "accumulate": 2,
        }
    )
    with tf.Graph().as_default():
        graph = trainer.TrainingGraph(hp, trainer.TrainingData(hp), 0)
        (table,) = [v for v in tf.trainable_variables() if "lookup" in v.op.name]
        bad = tf.assign(table, tf.fill(table.shape, np.float32(1e30)))
        with tf.Session() as session:
            session.run(graph.initialize)
            for spoil in (False, True):
                if spoil:
                    session.run(bad)
                before = session.run(tf.global_variables())
                session.run(graph.update.accumulate)
                _, metrics = session.run([graph.update.apply, graph.update.metrics])
                after = session.run(tf.global_variables())
                assert np.isfinite(metrics.gradient_norm) == (not spoil)
                same = [np.array_equal(*pair) for pair in zip(before, after)]
                assert all(same) if spoil else not any(same)
