"""scripts/average_checkpoints.py: the average of section 6.1, in a log directory."""

import glob
import os
import shutil

import corpora
import numpy as np
import pytest
from conftest import HAS_BFLOAT16

from transformer import hparams
from transformer.logdir import checkpoints, manifests
from transformer.logdir.history import DevScores
from transformer.logdir.names import DEV_SCORES, checkpoint_path
from transformer.translator import Translator


@pytest.fixture(scope="module")
def logdir(digits, tmp_path_factory):
    """That of a training with checkpoints of the steps 2, 4 and 6."""
    logdir = str(tmp_path_factory.mktemp("logs") / "tiny")
    corpora.run_train(
        digits, logdir, "--max_steps", "6", "--save_every", "2", "--eval_every", "6"
    )
    return logdir


def average(logdir, out, last):
    corpora.run_command("average", "--logdir", logdir, "--out", out, "--last", last)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [(4, 6), (2, 4, 6)])
def test_it_is_the_mean(logdir, tmp_path, capsys, steps):
    average(logdir, tmp_path / "out", str(len(steps)))
    assert f"of steps {', '.join(map(str, steps))}\n" in capsys.readouterr().out
    checkpoints_read = [
        corpora.read_variables(checkpoint_path(logdir, step)) for step in steps
    ]
    averages = corpora.read_variables(checkpoint_path(str(tmp_path / "out"), 6))
    assert averages.keys() == checkpoints_read[0].keys()
    assert averages.pop("global_step") == 6
    for name, array in averages.items():
        mean = sum(
            arrays[name].astype(np.float64) for arrays in checkpoints_read
        ) / len(checkpoints_read)
        np.testing.assert_array_equal(array, mean.astype(np.float32), name)


@pytest.mark.parametrize("count, steps", [(2, "2, 6"), (3, "2, 4, 6")])
def test_the_best_by_dev_score(logdir, tmp_path, capsys, count, steps):
    """Also one that is kept only as the best."""
    copied = corpora.copy_folder(logdir, tmp_path / "copied")
    os.remove(os.path.join(copied, DEV_SCORES))
    scores = DevScores(copied, 9)
    for step, bleu in [(2, 30.0), (4, 20.0), (5, 50.0), (6, 40.0)]:
        scores.add({"step": step, "bleu": bleu})
    checkpoints.save_best(copied, 2)
    for path in glob.glob(glob.escape(checkpoint_path(copied, 2)) + ".*"):
        os.remove(path)
    out = str(tmp_path / "out")
    flags = ["average", "--logdir", copied, "--best"]
    corpora.run_command(*flags, str(count), "--out", out)
    assert f"of steps {steps}\n" in capsys.readouterr().out
    arrays = [
        corpora.read_variables(manifests.find_checkpoint(copied, int(step)))
        for step in steps.split(", ")
    ]
    for name, array in corpora.read_variables(checkpoint_path(out, 6)).items():
        if name != "global_step":
            mean = sum(values[name].astype(np.float64) for values in arrays) / count
            np.testing.assert_array_equal(array, mean.astype(np.float32), name)
    message = corpora.refusal(capsys, *flags, "4", "--out", tmp_path / "other")
    assert "--best: expected 2 to 3, the number of checkpoints with" in message


@pytest.mark.skipif(not HAS_BFLOAT16, reason="TensorFlow 1.15 cannot on CPUs")
def test_runs_that_went_on_in_float16(digits, tmp_path):
    """Only the later checkpoints have a loss scale, which is not averaged."""
    logdir = str(tmp_path / "logs")
    flags = ("--save_every", "2", "--eval_every", "4")
    corpora.run_train(digits, logdir, "--max_steps", "2", *flags)
    corpora.run_train(
        digits, logdir, "--max_steps", "4", "--precision", "float16", *flags
    )
    average(logdir, tmp_path / "out", "2")
    last = corpora.read_variables(checkpoint_path(logdir, 4))
    averages = corpora.read_variables(checkpoint_path(str(tmp_path / "out"), 4))
    assert averages["loss_scale/scale"] == last["loss_scale/scale"]


def test_a_checkpoint_that_training_removes_meanwhile(
    logdir, tmp_path, capsys, monkeypatch
):
    copied = corpora.copy_folder(logdir, tmp_path / "copied")
    average_of = checkpoints.average

    def too_late(prefixes):
        monkeypatch.setattr(checkpoints, "average", average_of)
        for path in glob.glob(prefixes[0] + ".*"):
            os.remove(path)
        return average_of(prefixes)

    monkeypatch.setattr(checkpoints, "average", too_late)
    average(copied, tmp_path / "out", "2")
    assert "of steps 2, 6\n" in capsys.readouterr().out


def test_it_translates_and_the_others_are_as_they_were(logdir, tmp_path):
    before, out = corpora.read_tree(logdir), str(tmp_path / "out")
    average(logdir, out, "3")
    assert corpora.read_tree(logdir) == before
    assert hparams.load(out) == hparams.load(logdir)
    with Translator.for_settings(hparams.load(out), out) as translator:
        translator.find_and_restore()
        [[translation]] = translator.translate(["3 1 4"])
        assert np.isfinite(translation.score)


@pytest.mark.parametrize("last", ["0", "1", "4"])
def test_as_many_as_there_are_or_fewer(logdir, tmp_path, capsys, last):
    message = corpora.refusal(
        capsys, "average", "--logdir", logdir, "--out", tmp_path / "out", "--last", last
    )
    assert "--last: expected 2 to 3" in message
    assert not (tmp_path / "out").exists()


def test_a_single_checkpoint_has_no_average(logdir, tmp_path, capsys):
    alone = tmp_path / "alone"
    shutil.copytree(logdir, alone)
    for step in manifests.list_steps(alone)[:-1]:
        for path in alone.glob(f"model.ckpt-{step}.*"):
            path.unlink()
    message = corpora.refusal(
        capsys, "average", "--logdir", alone, "--out", tmp_path / "out"
    )
    assert "expected two or more checkpoints to average, got 1; lower" in message


def test_nothing_is_overwritten(logdir, tmp_path, capsys):
    before = corpora.read_tree(logdir)
    message = corpora.refusal(
        capsys, "average", "--logdir", logdir, "--out", logdir, "--last", "2"
    )
    assert "expected a new folder" in message
    assert corpora.read_tree(logdir) == before


def test_the_newest_and_the_best_exclude_each_other(logdir, tmp_path, capsys):
    flags = ["--logdir", logdir, "--out", tmp_path / "out", "--last", "2", "--best"]
    message = corpora.refusal(capsys, "average", *flags, "2")
    assert "--last and --best: expected one of them, got both" in message


@pytest.mark.parametrize("content", ["", '{"step": 6, "bl'])
def test_the_best_without_dev_scores(logdir, tmp_path, capsys, content):
    copied = corpora.copy_folder(logdir, tmp_path / "copied")
    with open(os.path.join(copied, DEV_SCORES), "w") as file:
        file.write(content)
    flags = ["--logdir", copied, "--out", tmp_path / "out", "--best", "2"]
    message = corpora.refusal(capsys, "average", *flags)
    assert f"{DEV_SCORES}: expected dev scores to choose checkpoints by" in message
