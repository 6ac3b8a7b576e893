"""train.py --init_from: a new training run begins with the weights of another."""

import dataclasses
import os
import shutil

import corpora
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from transformer import hparams, trainer
from transformer.exports import card
from transformer.hparams import model_settings
from transformer.logdir import checkpoints, manifests
from transformer.logdir import history as run

pytestmark = pytest.mark.usefixtures("one_thread_only")

STILL = ["--schedule", "constant", "--learning_rate", "1e-30", "--dropout_rate", "0"]


class Killed(BaseException):
    """As if the process had been killed."""


@pytest.fixture(scope="module")
def others(trained, tmp_path_factory):
    """Another corpus, prepared with the vocabulary of `trained`."""
    splits = corpora.reversed_symbols({"train": 200, "dev": 10}, seed=2)
    folder = corpora.write_text(tmp_path_factory.mktemp("others"), splits)
    corpora.run_command("prepare", "--out", folder, "--vocab_from", trained)
    return folder


def weights(logdir, which="newest"):
    with tf.Graph().as_default():
        arrays = checkpoints.read_variables(manifests.find_checkpoint(logdir, which))
    step = arrays.pop("global_step")
    adam = ("Adam", "beta1_power", "beta2_power")
    trained = {
        name: x for name, x in arrays.items() if not any(a in name for a in adam)
    }
    return trained, step


def test_it_begins_with_the_weights_and_at_step_0(trained, others, tmp_path):
    """The rate is too small to move a weight."""
    logdir = str(tmp_path / "logs")
    flags = ["--data", others, "--logdir", logdir, "--init_from", trained, *STILL]
    corpora.run_command("train", *flags, "--max_steps", "1")
    expected, _ = weights(trained, "best")
    arrays, step = weights(logdir)
    assert step == 1
    assert sorted(arrays) == sorted(expected) and len(arrays) > 20
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)
    saved = hparams.load(logdir)
    assert model_settings(saved) == model_settings(hparams.load(trained))
    assert saved.data == os.path.abspath(others)


def test_killed_before_its_first_checkpoint_it_begins_so_again(
    trained, others, tmp_path, monkeypatch, capsys
):
    """Without the flag, too, and never with random weights."""
    parent = corpora.copy_folder(trained, tmp_path / "parent")
    logdir = str(tmp_path / "logs")
    flags = ["--data", others, "--logdir", logdir, *STILL, "--max_steps", "1"]

    def killed(training):
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(trainer.Training, "run", killed)
        corpora.run_command("train", *flags, "--init_from", parent)
    assert not manifests.has_checkpoint(logdir)
    away = shutil.move(parent, str(tmp_path / "away"))
    assert parent in corpora.refusal(capsys, "train", *flags)
    shutil.move(away, parent)
    corpora.run_command("train", *flags)
    expected, _ = weights(parent, "best")
    arrays, _ = weights(logdir)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)
    capsys.readouterr()
    corpora.run_command("train", *flags, "--init_from", logdir)
    assert "ignored, because" in capsys.readouterr().err
    card_of = card.model_card(
        hparams.load(logdir),
        manifests.find_checkpoint(logdir),
        card.Exported("for nothing", [], []),
    )
    assert "--init_from logs/parent " in card_of and str(tmp_path) not in card_of
    strange = dataclasses.replace(hparams.load(logdir), data="/x/digits; rm y")
    assert "train --data 'data/digits; rm y' " in card._describe_training(
        strange, logdir, run.read_run(logdir)
    )


def test_another_architecture_or_vocabulary_is_refused(
    trained, digits, others, tmp_path, capsys
):
    logdir = tmp_path / "logs"
    flags = ["--logdir", logdir, "--init_from", trained]
    message = corpora.refusal(
        capsys, "train", "--data", others, "--num_blocks", "5", *flags
    )
    assert (
        "num_blocks is fixed by" in message and "choose another --init_from" in message
    )
    message = corpora.refusal(
        capsys, "train", "--data", others, "--preset", "big", *flags
    )
    assert "is fixed by" in message
    splits = corpora.reversed_symbols({"train": 200, "dev": 10}, symbols="abcdefghij")
    letters = corpora.prepare_corpus(tmp_path / "letters", splits)
    message = corpora.refusal(capsys, "train", "--data", letters, *flags)
    assert f"prepare the corpus with --vocab_from {trained}" in message
    assert not os.path.exists(str(logdir))
    # Also if an earlier process was killed before its first checkpoint.
    hp = dataclasses.replace(hparams.load(trained), num_heads=1)
    hparams.save(hp, str(logdir))
    message = corpora.refusal(capsys, "train", "--data", others, *flags)
    assert f"num_heads is fixed by {trained}" in message
    hparams.save(hparams.load(trained), str(logdir))
    message = corpora.refusal(capsys, "train", "--data", letters, *flags)
    assert f"--vocab_from {trained}" in message
