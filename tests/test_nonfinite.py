"""nonfinite.py: the first tensor that is not finite is named, and nothing is lost."""

import glob
import os
import shutil

import corpora
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import hparams
from transformer import training_graph
from transformer.runtime import checkpoints
from transformer.runtime.nonfinite import first_bad
from transformer.shards import APART

pytestmark = pytest.mark.usefixtures("one_thread_only")

FLAGS = [
    "--dropout_rate",
    "0.1",
    "--save_every",
    "2",
    "--eval_every",
    "4",
    "--max_steps",
    "4",
]
HUGE = "2e9"  # as a learning rate: finite variables, whose products are not


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
    """The last line of a training that must end, the checkpoints of which are good."""
    with pytest.raises(SystemExit) as stop:
        corpora.run_train(data, logdir, *FLAGS, "--max_steps", "12", *flags)
    assert stop.value.code == 2
    line = capsys.readouterr().err.splitlines()[-1]
    for step in checkpoints.steps(logdir):
        values = corpora.read_variables(checkpoints.path_of(logdir, step))
        for name, value in values.items():
            assert np.isfinite(value).all(), name
    return line


def rewrite(logdir, step, change):
    """Puts other values into a checkpoint; `change` gets {name: array}."""
    prefix = checkpoints.path_of(logdir, step)
    values = corpora.read_variables(prefix)
    change(values)
    for path in glob.glob(glob.escape(prefix) + ".*"):
        os.remove(path)
    with tf.Graph().as_default(), tf.Session() as session:
        for name, value in values.items():
            tf.get_variable(name, initializer=value, use_resource=False)
        session.run(tf.global_variables_initializer())
        checkpoints.save(session, tf.train.Saver(), str(logdir), step, keep=100)


# --- Which tensor ---------------------------------------------------------------------


def name_of(result, feed=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        fault = first_bad(session, [result], feed or {})
    return fault and fault.name


def test_finite_numbers_have_no_fault():
    x = tf.placeholder(tf.float32, [3])
    assert name_of(tf.reduce_sum(tf.exp(x)), {x: [1.0, 2.0, 3.0]}) is None


def test_the_op_that_began_it_is_named_not_those_that_pass_it_on():
    x = tf.placeholder(tf.float32, [2])
    begin = tf.log(x - 1, name="begin")
    passed = tf.exp(begin, name="passed") + tf.log(begin)
    assert name_of(tf.reduce_sum(passed), {x: [3.0, 0.5]}) == "begin"


def test_of_two_that_began_it_the_one_made_first_is_named():
    x = tf.placeholder(tf.float32, [])
    both = tf.log(x, name="first") * tf.sqrt(x, name="second")
    assert name_of(tf.identity(both), {x: -1.0}) == "first"


def test_an_infinity_that_is_masked_away_is_not_blamed():
    x = tf.placeholder(tf.float32, [2])
    logs = tf.log(x, name="masked")  # -inf where x is 0
    kept = tf.where_v2(x > 0, logs, tf.zeros_like(x))
    assert name_of(kept, {x: [0.0, 1.0]}) is None
    assert name_of(tf.sqrt(kept - 1, name="late"), {x: [0.0, 1.0]}) == "late"


def test_a_variable_is_named_before_what_is_made_of_it():
    poison = tf.get_variable("scope/poison", initializer=np.array([1, np.inf, np.nan]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        fault = first_bad(session, [tf.reduce_sum(poison)], {})
    assert fault == ("scope/poison", True, 1, 1, 3)
    assert str(fault) == "the variable scope/poison (1 NaN and 1 inf of 3 numbers)"


def test_what_is_fed_is_not_read():
    read = tf.numpy_function(lambda: np.float32(np.nan), [], tf.float32)
    x = tf.reshape(read, [])
    assert name_of(tf.sqrt(x), {x: 4.0}) is None
    assert name_of(tf.sqrt(x - 5, name="root"), {x: 4.0}) == "root"


# --- A training -----------------------------------------------------------------------


@pytest.mark.slow
def test_numbers_that_grow_too_large_are_named_and_the_last_checkpoint_is_good(
    digits, logdir, capsys
):
    """The update with the rate makes 2e9 of the variables; the next overflows."""
    line = stopped(
        capsys,
        digits,
        logdir,
        "--learning_rate",
        HUGE,
        "--schedule",
        "constant",
        "--save_every",
        "20",
        "--eval_every",
        "20",
    )
    assert line.startswith("train.py: step 6: found loss ")
    assert "the first bad tensor is encoder/block_0/" in line
    assert f"the last good checkpoint is {logdir}{os.sep}model.ckpt-4" in line
    assert "--learning_rate (the rate is 2e+09)" in line and "--clip_norm" in line

    corpora.run_train(
        digits, logdir, *FLAGS, "--max_steps", "6", "--learning_rate", "0.001"
    )  # and from there it goes on
    assert checkpoints.steps(logdir)[-1] == 6


@pytest.mark.slow
def test_variables_from_which_nobody_can_go_on_are_not_saved(digits, logdir, capsys):
    before = corpora.tree(logdir)
    stopped(
        capsys,
        digits,
        logdir,
        "--learning_rate",
        HUGE,
        "--schedule",
        "constant",
        "--save_every",
        "1",
    )
    after = corpora.tree(logdir)
    kept = [name for name in before if ".ckpt-" in name]
    assert [name for name in after if ".ckpt-" in name] == kept
    assert [before[name] for name in kept] == [after[name] for name in kept]


def test_a_poisoned_variable_is_named_and_the_checkpoint_before_it_too(
    digits, logdir, capsys
):
    name = "decoder/block_0/feedforward/inner/kernel"

    def poison(values):
        values[name][3, 5] = np.nan

    rewrite(logdir, 4, poison)
    with pytest.raises(SystemExit) as stop:
        corpora.run_train(digits, logdir, *FLAGS, "--max_steps", "12")
    assert stop.value.code == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert "step 5: found loss nan" in line
    assert f"the variable {name} (1 NaN of 512 numbers)" in line
    assert "the last good checkpoint is that of step 2" in line
    assert f"remove the files {checkpoints.path_of(logdir, 4)}.*" in line


THIRD_OF_FIVE = [
    ("--accumulate", 4 * 3 + 2, "batch"),  # the third batch of the fifth update
    ("--shards", 4 + 2 * APART, "part"),  # the third shard of the fifth batch
]


@pytest.mark.parametrize(
    "flag, number, part",
    [THIRD_OF_FIVE[0], pytest.param(*THIRD_OF_FIVE[1], marks=pytest.mark.slow)],
)
def test_of_what_goes_into_an_update_the_bad_part_is_named(
    digits, logdir, capsys, monkeypatch, flag, number, part
):
    broken = overflowing(number, training_graph.make_update)
    monkeypatch.setattr(training_graph, "make_update", broken)
    line = stopped(capsys, digits, logdir, flag, "3")
    assert "step 5: found loss" in line
    assert f"in {part} 3 of 3 of the update" in line
    assert "the first bad tensor is broken/Exp " in line


def overflowing(number, make_update):
    """make_update with a loss that overflows in one batch of a training."""

    def made(losses, *others):
        [loss] = losses
        [here] = [
            op.outputs[0]
            for op in tf.get_default_graph().get_operations()
            if op.type == "Unstage" and len(op.outputs) == 1  # the batch's number
        ]
        with tf.name_scope("broken"):
            grown = tf.exp(tf.where_v2(tf.equal(here, number), 100.0, 0.0))
        return make_update([loss._replace(sum=loss.sum * grown)], *others)

    return made


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
        graph = training_graph.TrainingGraph(hp, training_graph.Data(hp), 0)
        (table,) = [v for v in tf.trainable_variables() if "lookup" in v.op.name]
        bad = tf.assign(table, tf.fill(table.shape, np.float32(1e30)))
        with tf.Session() as session:
            session.run(graph.initialize)
            for spoil in (False, True):
                if spoil:
                    session.run(bad)
                before = session.run(tf.global_variables())
                session.run(graph.update.collect)
                _, metrics = session.run([graph.update.apply, graph.update.metrics])
                after = session.run(tf.global_variables())
                assert np.isfinite(metrics.gradient_norm) == (not spoil)
                same = [np.array_equal(*pair) for pair in zip(before, after)]
                assert all(same) if spoil else not any(same)
