"""Loss scaling in float16: it grows, backs off, skips, and goes on after a resume."""

import re

import corpora
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from conftest import HAS_BFLOAT16

from transformer import hparams, training
from transformer.logdir import checkpoints
from transformer.logdir.names import checkpoint_path
from transformer.training import Loss, UpdateResult, can_continue, make_update

needs_float16 = pytest.mark.skipif(
    not HAS_BFLOAT16, reason="TensorFlow 1.15 cannot on CPUs"
)
SCALE, GOOD, SKIPPED = (
    f"loss_scale/{name}" for name in ("scale", "good_updates", "skipped_updates")
)


class Line:
    """A model of one number w, whose loss w * x has the gradient x."""

    def __init__(self, start, accumulate=1):
        self.x = tf.placeholder(tf.float32, [])
        w = tf.get_variable("w", [], initializer=tf.ones_initializer())
        short = tf.cast(w, tf.float16) * tf.cast(self.x, tf.float16)
        hp = hparams.HParams(precision="float16", accumulate=accumulate)
        loss = Loss(tf.cast(short, tf.float32), tf.constant(1.0))
        step = tf.train.get_or_create_global_step()
        self.update = make_update(loss, hp, step)
        self.variables = {v.op.name: v for v in tf.global_variables()}
        with tf.Session() as session:
            session.run(
                [tf.global_variables_initializer(), tf.local_variables_initializer()]
            )
            start(self, session)

    @classmethod
    def run(cls, test, accumulate=1):
        cls(test, accumulate)

    def step(self, session, x):
        """The values of the variables after an update, and of its metrics."""
        fetches = [self.update.apply, self.update.metrics, self.update.scaling]
        _, metrics, scaling = session.run(fetches, {self.x: x})
        return session.run(self.variables), metrics, scaling


def test_it_grows_and_backs_off(graph, monkeypatch):
    monkeypatch.setattr(training, "GROW_AFTER", 3)

    def test(line, session):
        scales = []
        for x in (1, 1, 1, 1, np.inf, 1, 1, 1, 1):
            values, _, scaling = line.step(session, x)
            assert scaling.is_skipped == np.isinf(x)
            scales.append(values[SCALE] / training.FIRST_SCALE)
        assert scales == [1, 1, 2, 2, 1, 1, 1, 2, 2]
        assert (values[GOOD], values[SKIPPED], values["global_step"]) == (1, 1, 9)

    Line.run(test)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_skipped_update_changes_nothing_but_the_step(graph, accumulate):
    def test(line, session):
        before = line.step(session, 1)[0]
        for _ in range(accumulate - 1):
            session.run(line.update.accumulate, {line.x: np.nan})
        after, metrics, scaling = line.step(session, np.nan)
        assert scaling.is_skipped and not np.isfinite(metrics.gradient_norm)
        assert after["global_step"] == before["global_step"] + 1
        changed = {SCALE, GOOD, SKIPPED, "global_step"}
        for name in set(before) - changed:
            np.testing.assert_array_equal(after[name], before[name])
        again, metrics, _ = line.step(session, 1)  # and nothing is left of it
        assert again["w"] < after["w"] and metrics.gradient_norm == 1

    Line.run(test, accumulate)


def test_at_the_least_factor_a_bad_update_is_not_skipped(graph):
    def test(line, session):
        line.variables[SCALE].load(training.MIN_SCALE, session)
        before = session.run(line.variables)
        after, metrics, scaling = line.step(session, np.inf)
        assert not scaling.is_skipped and not can_continue(
            UpdateResult(metrics, scaling)
        )
        assert after[SCALE] == training.MIN_SCALE
        for name in ("w", SKIPPED, "global_step"):
            np.testing.assert_array_equal(after[name], before[name])

    Line.run(test)


@pytest.mark.parametrize("scale, found", [(training.FIRST_SCALE, 2.0**-28), (1.0, 0.0)])
def test_gradients_that_vanish_without_it_do_not_with_it(graph, scale, found):
    """The gradient passes a number of float16 that is 2^-28 without the factor."""

    def test(session):
        w = tf.get_variable("w", [], initializer=tf.ones_initializer())
        small = tf.cast(tf.cast(w, tf.float16), tf.float32) * 2.0**-28
        hp = hparams.HParams(precision="float16")
        step = tf.train.get_or_create_global_step()
        update = make_update(Loss(small, tf.constant(1.0)), hp, step)
        session.run(tf.global_variables_initializer())
        variables = {v.op.name: v for v in tf.global_variables()}
        variables[SCALE].load(scale, session)
        return session.run(update.metrics.gradient_norm)

    with tf.Session() as session:
        assert test(session) == found


def test_a_checkpoint_of_float32_is_continued_in_float16(graph, tmp_path):
    """It has no factor: the first one is used."""
    values = {"w": np.float32(7), "global_step": np.int64(5)}
    values.update({"w/Adam": np.float32(0), "w/Adam_1": np.float32(0)})
    values.update({"beta1_power": np.float32(0.9), "beta2_power": np.float32(0.9)})
    path = checkpoints.save_arrays(values, str(tmp_path), 5)

    def test(line, session):
        checkpoints.restore(session, checkpoints.make_saver(), path)
        values_found = session.run(line.variables)
        assert (values_found["w"], values_found["global_step"], values_found[GOOD]) == (
            7,
            5,
            0,
        )
        assert values_found[SCALE] == training.FIRST_SCALE

    Line.run(test)


@pytest.mark.slow
@needs_float16
def test_a_resumed_run_skips_what_one_run_skips(digits, tmp_path, monkeypatch, capsys):
    """The first factors are too large for float16; the settings are deterministic."""
    monkeypatch.setattr(training, "FIRST_SCALE", 2.0**14)
    monkeypatch.setattr(training, "GROW_AFTER", 6)
    sizes = "--num_blocks 1 --d_model 16 --d_ff 16 --num_heads 2 --batch_tokens 300"
    machine = "--precision float16 --deterministic --save_every 6 --log_every 3"
    arguments = f"{sizes} {machine} --eval_every 100 --beam_size 1".split()
    for name, ends in (("whole", [12]), ("resumed", [6, 12])):
        for steps in ends:
            places = ["--data", digits, "--logdir", str(tmp_path / name)]
            corpora.run_command("train", *places, *arguments, "--max_steps", steps)
    whole, resumed = (
        checkpoints.read_variables(checkpoint_path(str(tmp_path / name), 12))
        for name in ("whole", "resumed")
    )
    for variable in whole:
        np.testing.assert_array_equal(whole[variable], resumed[variable], variable)
    assert whole["global_step"] == 12 and 0 < whole[SKIPPED] < 12
    log = capsys.readouterr().err
    assert re.search(rf"step 12/12 .* loss scale \d+.*, {whole[SKIPPED]} skipped", log)
