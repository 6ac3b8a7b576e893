"""train.py: what a training writes, how it goes on, what it refuses."""

import dataclasses
import os
import re
import shutil

import corpora
import numpy as np
import pytest

from transformer import hparams, trainer
from transformer.evaluation import Score, Scores
from transformer.logdir import checkpoints, manifests
from transformer.logdir import history as run
from transformer.logdir.names import BEST, checkpoint_step
from transformer.text.vocabulary import load_vocabularies

pytestmark = pytest.mark.usefixtures("one_thread_only")


class Killed(BaseException):
    """Ends a training in this process where it stands, as SIGKILL would."""


@pytest.fixture
def stop_at(monkeypatch):
    """stop_at(step): from now on, training ends when the update after it begins."""

    def stop_at(step):
        update = trainer.Training.update

        def interrupted(training):
            if training.step == step:
                monkeypatch.setattr(trainer.Training, "update", update)
                raise Killed
            update(training)

        monkeypatch.setattr(trainer.Training, "update", interrupted)

    return stop_at


@pytest.fixture
def script(monkeypatch):
    """script(bleu, …): what the evaluations to come find, instead of translating."""

    def script(*bleus):
        following = iter(bleus)

        def evaluate(translate, sources, references, tokenizer):
            return Scores(bleu=Score(next(following)), chrf=Score(0.0)), sources

        monkeypatch.setattr(trainer, "evaluate", evaluate)

    return script


def dev_bleus(logdir):
    return {row["step"]: row["bleu"] for row in run.read_dev_scores(str(logdir))}


def newest(logdir):
    return corpora.read_variables(manifests.find_checkpoint(str(logdir), "newest"))


# --- Going on -------------------------------------------------------------------------


def interrupt(*arguments, **options):
    raise Killed


@pytest.mark.slow
def test_a_training_that_stops_again_and_again_is_the_uninterrupted_one(
    digits, whole, tmp_path, stop_at, monkeypatch
):
    logdir, moved = tmp_path / "logs", tmp_path / "moved"
    stop_at(3)  # before the first checkpoint
    with pytest.raises(Killed):
        corpora.run_train(digits, logdir, *corpora.HARD)
    assert manifests.list_steps(str(logdir)) == []
    for place, name in ((trainer, "evaluate"), (checkpoints, "save_best")):
        with monkeypatch.context() as patched, pytest.raises(Killed):
            patched.setattr(place, name, interrupt)
            corpora.run_train(digits, logdir, *corpora.HARD)
        assert manifests.list_steps(str(logdir)) == [4]
        assert manifests.list_steps(str(logdir), BEST) == []
    corpora.run_train(digits, logdir, *corpora.HARD, "--max_steps", "4")  # at its end
    assert manifests.list_steps(str(logdir), BEST) == [4]
    stop_at(6)  # between two checkpoints
    with pytest.raises(Killed):
        corpora.run_train(digits, logdir, *corpora.HARD)
    assert manifests.list_steps(str(logdir)) == [4]
    shutil.move(str(logdir), str(moved))
    corpora.run_train(digits, moved, *corpora.HARD)
    corpora.assert_same_training(moved, whole)


def test_a_last_step_before_where_training_stands_is_refused(
    digits, tmp_path, script, capsys
):
    script(1.0, 1.0)
    corpora.run_train(digits, tmp_path, "--max_steps", "4")
    saved = hparams.load(str(tmp_path))
    capsys.readouterr()
    line = corpora.refusal(
        capsys,
        "train",
        "--logdir",
        tmp_path,
        "--data",
        digits,
        *corpora.TINY,
        "--max_steps",
        "3",
    )
    assert "max_steps: expected 4 or more, got 3" in line
    assert hparams.load(str(tmp_path)) == saved
    corpora.run_train(digits, tmp_path, "--max_steps", "5")


@pytest.mark.parametrize("is_cut", [True, False], ids=["cut", "zeros"])
def test_ids_that_change_during_training_end_it_with_a_checkpoint(
    digits, tmp_path, monkeypatch, capsys, is_cut
):
    data = corpora.copy_folder(digits, tmp_path / "data")
    path = os.path.join(data, "train.source.ids.npy")
    update = trainer.Training.update

    def change_then_update(training):
        if training.step == 5:
            size = os.path.getsize(path)
            with open(path, "r+b") as file:
                file.truncate(200)
                file.truncate(200 if is_cut else size)
        update(training)

    monkeypatch.setattr(trainer.Training, "update", change_then_update)
    flags = ["--save_every=100", "--eval_every=100", "--max_steps=100"]
    where = ["--data", data, "--logdir", tmp_path / "logs"]
    assert corpora.exit_status("train", *where, *corpora.TINY, *flags) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert f"step 6: {path}: expected the ids that training began with" in message
    assert "last checkpoint: 6" in message
    assert manifests.list_steps(str(tmp_path / "logs")) == [6]


@pytest.mark.parametrize("moment, last", [("save", "none"), ("evaluate", "4")])
def test_a_log_directory_that_is_moved_during_training_is_named(
    digits, tmp_path, monkeypatch, capsys, moment, last
):
    logdir, moved = tmp_path / "logs", tmp_path / "moved"
    function = getattr(trainer.Training, moment)

    def move_then_call(training):
        logdir.rename(moved)
        function(training)

    monkeypatch.setattr(trainer.Training, moment, move_then_call)
    where = ["--data", digits, "--logdir", logdir, *corpora.TINY, "--max_steps=4"]
    assert corpora.exit_status("train", *where) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert f"step 4: the log directory {logdir} was moved or removed" in message
    assert f"last checkpoint: {last}; " in message
    assert os.listdir(str(tmp_path)) == ["moved"]


# --- Checkpoints, the best one, patience ----------------------------------------------

PATIENT = [
    "--max_steps=20",
    "--save_every=1",
    "--eval_every=2",
    "--keep_checkpoints=3",
    "--patience=3",
]


@pytest.mark.slow
def test_the_lowest_dev_loss_is_the_best_while_bleu_is_near_zero(
    digits, tmp_path, script, capsys
):
    script(0.9, 0.5, 0.0)
    corpora.run_train(digits, tmp_path, *PATIENT, "--max_steps", "6")
    said = capsys.readouterr().err.splitlines()[-1]
    losses = {row["step"]: row["loss"] for row in run.read_dev_scores(str(tmp_path))}
    best = min(losses, key=losses.get)
    assert best != 2
    assert f"at step {best} (the lowest dev loss" in said
    assert manifests.list_steps(str(tmp_path), BEST) == [best]


def test_the_best_is_kept_older_ones_go_and_patience_ends(
    digits, tmp_path, script, capsys
):
    script(1.0, 3.0, 2.0, 3.0, 2.5)
    corpora.run_train(digits, tmp_path, *PATIENT)
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("stopped at step 10")
    assert "best dev BLEU 3.00, at step 4" in said[-1]
    assert dev_bleus(tmp_path) == {2: 1.0, 4: 3.0, 6: 2.0, 8: 3.0, 10: 2.5}
    assert manifests.list_steps(str(tmp_path)) == [8, 9, 10]
    assert manifests.list_steps(str(tmp_path), BEST) == [4]
    best, last = (
        corpora.read_variables(manifests.find_checkpoint(str(tmp_path), which))
        for which in ("best", "newest")
    )
    assert (best["global_step"], last["global_step"]) == (4, 10)

    script()  # nothing is evaluated any more, and nothing is trained
    kept = {
        name: content
        for name, content in corpora.read_tree(tmp_path).items()
        if not name.startswith("events")
    }
    corpora.run_train(digits, tmp_path, *PATIENT)
    assert capsys.readouterr().err.splitlines()[-1] == said[-1]
    now = corpora.read_tree(tmp_path)
    assert {name: now[name] for name in now if not name.startswith("events")} == kept

    script(1.5, 1.2)  # another search: a comparison of its own, from this step on
    other = corpora.copy_folder(str(tmp_path), str(tmp_path) + ".other")
    capsys.readouterr()
    corpora.run_train(digits, other, *PATIENT, "--max_steps=11", "--search=beam")
    output = capsys.readouterr().err
    assert "search greedy -> beam; dev scores of another search are not" in output
    assert output.splitlines()[-1].endswith("best dev BLEU 1.50, at step 10")
    assert manifests.list_steps(other, BEST) == [10]

    script(2.0)  # but with more patience it goes on
    corpora.run_train(digits, tmp_path, *PATIENT, "--patience=4", "--max_steps=11")
    assert manifests.list_steps(str(tmp_path)) == [9, 10, 11]
    assert dev_bleus(tmp_path)[11] == 2.0
    assert manifests.list_steps(str(tmp_path), BEST) == [4]


# --- The log directory ----------------------------------------------------------------


def test_the_log_directory_holds_what_it_should(trained):
    best = checkpoint_step(manifests.find_checkpoint(trained, "best"))
    names = {"hparams.json", "spm.model", "dev_scores.jsonl", "lock"}
    names |= {"run.jsonl", "checkpoint"}
    for checkpoint in (
        "model.ckpt-160",
        "model.ckpt-200",
        "model.ckpt-240",
        f"best.ckpt-{best}",
    ):
        names |= {
            checkpoint + ending
            for ending in (".index", ".data-00000-of-00001", ".sha256")
        }
    found = set(os.listdir(trained))
    events = {name for name in found if name.startswith("events.out.tfevents.")}
    assert found - events == names
    assert len(events) == 1


def test_the_settings_are_saved_with_what_the_data_folder_decides(trained, digits):
    hp = hparams.load(trained)
    assert hp == dataclasses.replace(
        hparams.HParams(),
        data=digits,
        num_blocks=1,
        d_model=32,
        d_ff=64,
        num_heads=4,
        batch_tokens=512,
        max_extra_length=5,
        schedule="linear",
        learning_rate=0.006,
        warmup_steps=60,
        max_steps=240,
        log_every=40,
        eval_every=80,
        save_every=40,
        keep_checkpoints=3,
        source_vocab_size=25,
        target_vocab_size=25,
    )


def test_the_log_directory_has_its_own_vocabulary(trained, digits):
    assert (
        corpora.read_tree(trained)["spm.model"]
        == corpora.read_tree(digits)["spm.model"]
    )


@pytest.mark.slow
def test_separate_vocabularies_are_both_kept(tmp_path):
    folder, logdir = str(tmp_path / "data"), str(tmp_path / "logs")
    splits = corpora.reversed_symbols({"train": 40, "dev": 5})
    corpora.write_text(folder, splits)
    corpora.run_command("prepare", "--out", folder, "--vocab-size", "25", "--separate")
    before = corpora.read_tree(folder)
    corpora.run_train(folder, logdir, "--max_steps", "2")
    assert corpora.read_tree(folder) == before  # and the data folder is only read
    assert not hparams.load(logdir).joint_vocab
    assert not load_vocabularies(logdir).joint
    names = set(newest(logdir))
    assert {"encoder/embedding/lookup_table", "decoder/embedding/lookup_table"} <= names


def test_events(trained):
    events = corpora.read_scalars(trained)
    logged, evaluated = list(range(40, 241, 40)), [80, 160, 240]
    assert {tag: sorted(steps) for tag, steps in events.items()} == {
        "loss": logged,
        "tokens_per_second": logged,
        "learning_rate": logged,
        "gradient_norm": logged,
        "dev/loss": evaluated,
        "dev/bleu": evaluated,
        "minutes": logged,
    }  # and at every evaluation, which is one of those steps
    minutes = [value for _, value in sorted(events["minutes"].items())]
    assert minutes == sorted(minutes) and 0 < minutes[0]
    for tag in ("loss", "tokens_per_second", "gradient_norm", "dev/loss"):
        assert all(0 < value < np.inf for value in events[tag].values()), tag
    for tag in ("loss", "dev/loss"):
        values = [value for _, value in sorted(events[tag].items())]
        assert values == sorted(values, reverse=True)
    for step, rate in events["learning_rate"].items():
        # The schedule "linear": up to 0.006 at step 60, then down, 0 after the last.
        assert rate == pytest.approx(0.006 * min(step / 60, (241 - step) / 181))


def test_dev_scores_and_events_agree(trained):
    events = corpora.read_scalars(trained)
    rows = run.read_dev_scores(trained)
    assert [row["step"] for row in rows] == [80, 160, 240]
    for row in rows:
        assert set(row) == {"step", "bleu", "chrf", "loss", "dev", "search"}
        assert events["dev/bleu"][row["step"]] == pytest.approx(row["bleu"])
        assert events["dev/loss"][row["step"]] == pytest.approx(row["loss"])
    best = max(rows, key=lambda row: row["bleu"])
    assert manifests.list_steps(trained, BEST) == [best["step"]]


def test_without_a_terminal_progress_is_plain_lines(digits, tmp_path, script, capsys):
    script(12.5)
    shards = ["--deterministic", "--shards", "2"]
    corpora.run_train(digits, tmp_path, "--max_steps", "2", *shards)
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == ""
    assert re.match(r"[\d,]+ parameters; step 0 of 2; logs in ", lines[0])
    assert lines[1] == "each batch is cut into 2 shards"
    assert lines[2] == "learning rate: at most 0.004"
    assert lines[3].startswith("memory for training: about ")
    for step, line in enumerate(lines[4:6], 1):
        assert re.match(rf"step {step}/2  loss \d\.\d+  [\d,]+ tokens/s", line)
    assert lines[6].startswith("step 2: dev BLEU 12.50, dev loss ")
    assert lines[7].startswith("stopped at step 2") and len(lines) == 8
    assert "\r" not in captured.err and "\x1b" not in captured.err


# --- Refusals: one line, before anything is written -----------------------------------


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--num_heads", "3"], ["num_heads", "3", "16"]),
        (
            ["--source_vocab_size", "30", "--target_vocab_size", "30"],
            ["vocab_size", "30", "25"],
        ),
        (["--joint_vocab", "false"], ["joint_vocab"]),
        (["--schedule", "linear", "--learning_rate", "1"], ["learning_rate", "0.1"]),
        (
            ["--batch_tokens", "9"],
            ["batch_tokens", "10"],
        ),  # the longest pair and its end
    ],
    ids=lambda value: value[0].lstrip("-") if value[0].startswith("-") else "",
)
def test_settings_are_refused(digits, tmp_path, capsys, flags, words):
    line = corpora.refuse_training(capsys, digits, tmp_path / "logs", *flags)
    assert [word for word in words if word not in line] == []


@pytest.mark.parametrize(
    "schedule, rate, is_low",
    [("noam", 0.001, True), ("noam", 0.0, False), ("linear", 1e-5, False)],
)
def test_a_peak_that_is_taken_for_a_factor_is_remarked_on(schedule, rate, is_low):
    hp = hparams.HParams(schedule=schedule, learning_rate=rate)
    assert ("is a factor" in trainer.describe_low_rate(hp)) == is_low


def test_positions_beyond_a_table_are_reported(digits, tmp_path, script, capsys):
    script(1.0)
    flags = ("--positions", "learned", "--max_positions", "4", "--max_steps", "1")
    corpora.run_train(digits, tmp_path, *flags)
    assert "max_positions: 4, but the longest" in capsys.readouterr().err


def test_a_data_folder_that_is_not_prepared(tmp_path, capsys):
    splits = corpora.reversed_symbols({"train": 9, "dev": 3})
    folder = corpora.write_text(tmp_path / "data", splits)
    line = corpora.refuse_training(capsys, folder, tmp_path / "logs")
    assert folder in line and "prepare.py" in line


@pytest.mark.parametrize(
    "name", ["spm.model", "corpus.json", "dev.de", "dev.target.ids.npy"]
)
def test_a_data_folder_with_a_missing_file(digits, tmp_path, capsys, name):
    folder = str(tmp_path / "data")
    shutil.copytree(digits, folder)
    os.remove(os.path.join(folder, name))
    assert folder in corpora.refuse_training(capsys, folder, tmp_path / "logs")


@pytest.fixture
def existing(whole, tmp_path):
    """A log directory that holds a training, to be written."""
    shutil.copytree(whole, str(tmp_path / "existing"))
    return tmp_path / "existing"


def test_checkpoints_without_settings(digits, existing, capsys):
    (existing / "hparams.json").unlink()
    line = corpora.refuse_training(capsys, digits, existing)
    assert "hparams.json" in line and str(existing) in line


@pytest.mark.parametrize("separate", [[], ["--separate"]], ids=["joint", "separate"])
def test_going_on_with_another_vocabulary_of_the_same_size(
    existing, tmp_path, capsys, separate
):
    """The pieces of the log directory's model must not be replaced by others."""
    splits = corpora.reversed_symbols({"train": 100, "dev": 5}, "abcdefghij")
    folder = corpora.write_text(tmp_path / "data", splits)
    corpora.run_command(
        "prepare", "--out", folder, "--vocab-size", corpora.VOCAB_SIZE, *separate
    )
    capsys.readouterr()
    corpora.refuse_training(capsys, folder, existing)


# --- Where it writes, and what it finds again -----------------------------------------


def test_a_folder_of_other_things_becomes_no_log_directory(digits, tmp_path, capsys):
    home = tmp_path / "home"
    (home / "Documents").mkdir(parents=True)
    (home / ".profile").write_text("mine")
    line = corpora.refuse_training(capsys, digits, home)
    assert "expected a new folder" in line and ".profile, Documents" in line


@pytest.mark.slow
def test_a_log_of_the_users_own_is_no_other_thing(digits, tmp_path):
    """As of `train.py --logdir logs/x 2> logs/x/train.log`; a killed start too."""
    for name in ("train.log", "nohup.out", "lock", "spm.model.tmp"):
        (tmp_path / name).write_text("")
    corpora.run_train(digits, tmp_path, "--max_steps", "1")
    assert hparams.load(str(tmp_path))


@pytest.mark.slow
def test_the_data_folder_is_found_from_another_folder(
    digits, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(os.path.dirname(digits))
    corpora.run_train(os.path.basename(digits), tmp_path / "logs", "--max_steps", "1")
    monkeypatch.chdir(str(tmp_path))
    corpora.run_command("eval", "--logdir", "logs", "--search", "greedy")
    assert "BLEU = " in capsys.readouterr().out
    missing = ["--logdir", "logs", "--data", "gone"]
    line = corpora.refusal(capsys, "eval", *missing)
    assert "gone/corpus.json" in line and "--data" in line
    line = corpora.refusal(capsys, "eval", "--logdir", "logs", "--split", "tset")
    assert "split: expected one of dev, test" in line and "got tset" in line
