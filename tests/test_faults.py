"""What a training survives: signals, a full disk, broken checkpoints, SIGKILL."""

import functools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import corpora
import pytest
from slow import slow_except

from transformer import hparams, trainer
from transformer.evaluation import Score, Scores
from transformer.logdir import manifests
from transformer.logdir.history import Lock, read_dev_scores
from transformer.logdir.names import BEST, SAVING
from transformer.runtime.signals import Stopped

pytestmark = pytest.mark.usefixtures("one_thread_only")


@pytest.fixture
def logdir(whole, tmp_path):
    """A copy of `whole`, to be written."""
    shutil.copytree(whole, str(tmp_path / "logs"))
    return tmp_path / "logs"


@pytest.fixture
def data(digits, tmp_path):
    """A copy of a data folder, to be damaged."""
    shutil.copytree(digits, str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def before_update(monkeypatch):
    """before_update({step: function}): calls them when the update after it begins."""
    update = trainer.Training.update

    def before_update(functions):
        def watched(training):
            functions.get(training.step, lambda: None)()
            update(training)

        monkeypatch.setattr(trainer.Training, "update", watched)

    return before_update


# --- Signals --------------------------------------------------------------------------


@pytest.mark.slow
def test_a_signal_finishes_the_step_and_saves(
    digits, whole, tmp_path, before_update, capsys
):
    before_update({6: lambda: os.kill(os.getpid(), signal.SIGTERM)})
    with pytest.raises(SystemExit) as stopped:
        corpora.run_train(digits, tmp_path, *corpora.HARD)
    assert stopped.value.code == 128 + signal.SIGTERM
    assert manifests.list_steps(str(tmp_path)) == [4, 7]
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"train.py: {Stopped(signal.SIGTERM)}; ")
    before_update({})
    corpora.run_train(digits, tmp_path, *corpora.HARD)
    corpora.assert_same_training(tmp_path, whole)


# --- The log directory goes -----------------------------------------------------------


@pytest.mark.slow
def test_a_log_directory_that_is_moved_ends_the_training_that_continues_there(
    digits, whole, tmp_path, before_update, capsys
):
    logdir, moved = tmp_path / "logs", tmp_path / "moved"
    before_update({6: lambda: logdir.rename(moved)})
    with pytest.raises(SystemExit) as stopped:
        corpora.run_train(digits, logdir, *corpora.HARD)
    assert stopped.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert f"step 8: the log directory {logdir} was moved or removed" in lines[-1]
    assert "last checkpoint: 4" in lines[-1]
    assert os.listdir(str(tmp_path)) == ["moved"]
    assert manifests.list_steps(str(moved)) == [4]
    before_update({})
    corpora.run_train(digits, moved, *corpora.HARD)
    corpora.assert_same_training(moved, whole)


def empty(path):
    path.write_bytes(b"")


def replace_by_pipe(path):
    path.unlink()
    os.mkfifo(str(path))


def replace_by_folder(path):
    path.unlink()
    path.mkdir()


DAMAGES = [
    {"hparams.json": pathlib.Path.unlink, "spm.model": pathlib.Path.unlink},
    {"hparams.json": replace_by_pipe, "spm.model": empty},
    {"hparams.json": replace_by_folder, "spm.model": replace_by_folder},
    {"hparams.json": lambda path: path.write_text("{}")},
]


def test_what_translating_needs_is_written_again_if_somebody_damages_it(
    digits, whole, tmp_path, before_update, capsys
):
    """Before each checkpoint, in another way."""
    names = ("hparams.json", "spm.model")
    seen = []

    def damage_by(functions):
        seen.append([(tmp_path / name).read_bytes() for name in names])
        for name, damage in functions.items():
            damage(tmp_path / name)

    steps = [2, 4, 6, 8]
    before_update(
        {
            step: functools.partial(damage_by, functions)
            for step, functions in zip(steps, DAMAGES)
        }
    )
    corpora.run_train(digits, tmp_path, *corpora.HARD, "--save_every=2")
    named = re.findall(
        f": (.*) had been removed or damaged in {tmp_path}", capsys.readouterr().err
    )
    assert named == [*["spm.model, hparams.json"] * 3, "hparams.json"]
    damage_by({})
    assert len(seen) == 5 and seen == seen[:1] * 5 and all(seen[0])
    corpora.assert_same_training(tmp_path, whole)
    assert not manifests.find_fault(str(tmp_path / "model.ckpt-10"))


@pytest.mark.parametrize(
    "name", slow_except(["spm.model"], ["hparams.json", "spm.model"])
)
def test_damage_after_the_last_checkpoint_is_mended_before_the_training_ends(
    digits, whole, tmp_path, monkeypatch, name
):
    evaluate = trainer.Training.evaluate

    def damage_and_evaluate(training):
        evaluate(training)
        if training.step == training.hp.max_steps:
            empty(tmp_path / name)

    monkeypatch.setattr(trainer.Training, "evaluate", damage_and_evaluate)
    corpora.run_train(digits, tmp_path, *corpora.HARD)
    with open(os.path.join(whole, name), "rb") as file:
        assert (tmp_path / name).read_bytes() == file.read()


def test_settings_that_were_edited_during_training_stay(
    digits, tmp_path, before_update
):
    def edit():
        hparams.save(hparams.load(str(tmp_path), {"beam_size": 2}), str(tmp_path))

    before_update({6: edit})
    corpora.run_train(digits, tmp_path, *corpora.HARD)
    assert hparams.load(str(tmp_path)).beam_size == 2


def test_a_vocabulary_that_cannot_be_written_again_ends_the_training(
    data, tmp_path, before_update, capsys
):
    """Its checkpoint is written; without a vocabulary, it could not translate."""

    def remove():
        (tmp_path / "logs" / "spm.model").unlink()
        (data / "spm.model").write_bytes(b"another")

    before_update({6: remove})
    with pytest.raises(SystemExit) as stopped:
        corpora.run_train(data, tmp_path / "logs", *corpora.HARD)
    assert stopped.value.code == 2
    assert "spm.model is missing or damaged" in capsys.readouterr().err.splitlines()[-1]
    assert manifests.list_steps(str(tmp_path / "logs")) == [4, 8]


# --- Broken checkpoints ---------------------------------------------------------------


def test_training_goes_on_from_the_newest_whole_checkpoint(
    digits, whole, logdir, capsys
):
    (logdir / "model.ckpt-12.data-00000-of-00001").write_bytes(b"torn")
    (logdir / "model.ckpt-8.index").unlink()
    for path in logdir.glob("best.ckpt-*"):
        path.unlink()
    (logdir / SAVING).mkdir()
    corpora.run_train(digits, logdir, *corpora.HARD)
    lines = capsys.readouterr().err.splitlines()
    for line, name in zip(lines, ("model.ckpt-12.data", "model.ckpt-8.index")):
        assert name in line and "model.ckpt-4 " in line
    assert "step 4 of 12" in lines[2]
    assert not (logdir / SAVING).exists()
    corpora.assert_same_training(logdir, whole)


@pytest.mark.slow
def test_the_best_is_the_best_of_the_steps_that_there_were(
    digits, tmp_path, monkeypatch
):
    """Not one of a run that got further, was thrown back, and came out otherwise."""
    bleus = iter([3.0, 1.0, 5.0, 1.0, 2.0])
    monkeypatch.setattr(
        trainer,
        "evaluate",
        lambda *_, **__: (Scores(bleu=Score(next(bleus)), chrf=Score(0.0)), []),
    )
    corpora.run_train(digits, tmp_path, *corpora.HARD)
    assert manifests.list_steps(str(tmp_path), BEST) == [12]
    for name in ("model.ckpt-12", "best.ckpt-12", "model.ckpt-8"):
        (tmp_path / f"{name}.index").unlink()
    corpora.run_train(digits, tmp_path, *corpora.HARD)
    assert [row["bleu"] for row in read_dev_scores(str(tmp_path))] == [3.0, 1.0, 2.0]
    assert manifests.list_steps(str(tmp_path), BEST) == [4]


def test_without_a_whole_checkpoint_nothing_begins_anew(digits, logdir, capsys):
    for path in logdir.glob("*.ckpt-*.index"):
        path.write_bytes(b"torn")
    line = corpora.refuse_training(capsys, digits, logdir)
    for step in (8, 12):
        assert f"model.ckpt-{step}.index" in line
    assert "best.ckpt-" in line and "; and 1 more)" in line
    for path in logdir.glob("*.ckpt-*"):
        path.unlink()
    line = corpora.refuse_training(capsys, digits, logdir)
    assert "dev scores" in line and "choose another logdir" in line


def test_a_second_training_is_refused(digits, logdir, capsys):
    with Lock(str(logdir)):
        line = corpora.refuse_training(capsys, digits, logdir)
    assert str(os.getpid()) in line and "--logdir" in line


# --- A full disk: a limit of the system on the size of a file -------------------------


LITTLE = 20000  # bytes: less than a checkpoint, more than all the rest


@pytest.mark.slow
def test_without_room_training_stops_and_keeps_what_there_is(
    digits, whole, tmp_path, before_update, capsys, limit_file_size
):
    before_update({5: lambda: limit_file_size(LITTLE)})
    with pytest.raises(SystemExit) as stopped:
        corpora.run_train(digits, tmp_path, *corpora.HARD)
    limit_file_size()
    assert stopped.value.code == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("train.py: step 8: ")
    for words in ("model.ckpt-8 ", "File too large", "last checkpoint: 4;"):
        assert words in message
    assert sorted(name for name in os.listdir(str(tmp_path)) if "ckpt" in name) == [
        f"{kind}.ckpt-4{ending}"
        for kind in ("best", "model")
        for ending in (".data-00000-of-00001", ".index", ".sha256")
    ]
    before_update({})
    corpora.run_train(digits, tmp_path, *corpora.HARD)
    corpora.assert_same_training(tmp_path, whole)


def test_without_room_training_goes_on_where_it_is_told_to(
    digits, whole, tmp_path, before_update, capsys, limit_file_size
):
    before_update({5: lambda: limit_file_size(LITTLE), 9: limit_file_size})
    corpora.run_train(digits, tmp_path, *corpora.HARD, "--on_save_error", "continue")
    lines = capsys.readouterr().err.splitlines()
    (line,) = [line for line in lines if line.endswith("continuing")]
    assert line.startswith("step 8: ") and "last checkpoint: 4" in line
    assert manifests.list_steps(str(tmp_path)) == [4, 12]
    assert [row["step"] for row in read_dev_scores(str(tmp_path))] == [4, 12]
    corpora.assert_same_variables(
        *(manifests.find_checkpoint(str(folder), "12") for folder in (tmp_path, whole))
    )


# --- SIGKILL --------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_it_is_the_uninterrupted_training(digits, tmp_path):
    """A process that is killed after a checkpoint, at whatever it does then."""
    logdir = tmp_path / "killed"
    command = [sys.executable, "train.py", f"--data={digits}", f"--logdir={logdir}"]
    command += [*corpora.TINY, *corpora.HARD, "--deterministic"]
    process = subprocess.Popen(command, cwd=corpora.ROOT)
    corpora.wait_until(lambda: 8 in manifests.list_steps(str(logdir)))
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert corpora.run_python(*command[1:]).returncode == 0
    alone = tmp_path / "alone"
    command[3] = f"--logdir={alone}"
    assert corpora.run_python(*command[1:]).returncode == 0
    corpora.assert_same_variables(
        *(manifests.find_checkpoint(str(folder), "12") for folder in (logdir, alone))
    )
