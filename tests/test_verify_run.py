"""scripts/verify_run.py: what was changed in a log directory is noticed, each part.

A run of eight steps in two segments; the second continues at step 4.
"""

import glob
import json
import os
import shutil

import corpora
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import verify_run

import hparams
from transformer import verification
from transformer.runtime import checkpoints, files
from transformer.runtime.events import Events, read_events
from transformer.runtime.records import read_records
from transformer.text import summary

pytestmark = pytest.mark.usefixtures("one_thread_only")


@pytest.fixture(scope="module")
def original(tmp_path_factory, one_thread_only):
    """A folder with `data` and `logs`; do not write."""
    folder = tmp_path_factory.mktemp("run")
    splits = corpora.reversed_symbols({"train": 60, "dev": 4})
    data = corpora.prepared(folder / "data", splits)
    for steps in ("4", "8"):
        flags = ("--log_every", "3", "--accumulate", "2", "--max_steps", steps)
        corpora.run_train(data, folder / "logs", *flags)
    return folder


@pytest.fixture
def run(original, tmp_path):
    """A copy of it."""
    shutil.copytree(str(original), str(tmp_path / "run"))
    return tmp_path / "run"


@pytest.fixture(autouse=True)
def one_thread_is_exact(monkeypatch):
    """TensorFlow 1.15 promises equal bits with one thread, which it has here."""
    monkeypatch.setattr(verification, "has_gpu", lambda: False)
    if tf.__version__ < "2":
        why = verification.why_not_exact
        text = "TensorFlow 1.15 without --deterministic"
        monkeypatch.setattr(
            verification,
            "why_not_exact",
            lambda *given: "" if why(*given) == text else why(*given),
        )


@pytest.fixture
def verify(run, capsys, monkeypatch):
    """verify(*flags, compute=True) → (status, lines); of the files alone if not."""

    def verify(*flags, compute=True):
        capsys.readouterr()
        if not compute:
            monkeypatch.setattr(verification, "compute", lambda *work: [])
        argv = [f"--logdir={run / 'logs'}", f"--data={run / 'data'}", "--draw=1"]
        try:
            verify_run.main([*argv, "--reach=4", *flags])
            status = 0
        except SystemExit as stopped:
            status = stopped.code
        lines = capsys.readouterr().out.splitlines()
        assert status == int(any(line.startswith("DIFFERS") for line in lines))
        return status, lines

    return verify


def differing(verified):
    return [line[9:] for line in verified[1] if line.startswith("DIFFERS: ")]


def change_byte(path, place=-1):
    with open(str(path), "r+b") as file:
        file.seek(place, os.SEEK_END if place < 0 else os.SEEK_SET)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def edit_settings(run, **changes):
    path = run / "logs" / "hparams.json"
    path.write_text(json.dumps(dict(json.loads(path.read_text()), **changes)))


def edit_segments(run, edit):
    path = run / "logs" / "run.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        edit(row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_an_untouched_run_is_what_it_recorded(run, verify):
    before = corpora.tree(run)
    status, lines = verify()
    assert status == 0
    assert corpora.tree(run) == before
    every = "loss of {0}, gradient_norm of {0}, learning_rate of {0}"
    for begin, what in (
        (0, f"variables of 4, {every.format('3 4')}"),
        (4, "dev loss of 4"),
        (4, f"variables of 8, {every.format('6 8')}"),
        (8, "dev loss of 8"),
    ):
        assert (
            f"same: computed again from step {begin}: {what}: equal to the bit" in lines
        )
    known = len(set(hparams.FIELDS) - {"data", "devices"})
    assert f"same: settings: {known} as recorded" in lines
    assert "same: vocabulary: 1 as recorded" in lines
    assert "same: checkpoints with the checksums of their manifests: 4, 8" in lines
    told = [line for line in lines if line.startswith("not checked: ")]
    assert [line.split(": ")[1] for line in told] == ["BLEU and chrF"]


def test_what_is_out_of_reach_is_told(verify):
    _, lines = verify("--steps=1", "--reach=2", compute=False)
    text = "\n".join(lines)
    assert "losses of 3 of 4 steps that were logged: no checkpoint within 2" in text
    assert "what the optimizer keeps in the checkpoint of step 8: no step" in text


def test_a_byte_of_the_data(run, verify):
    path = run / "data" / "train.source.ids.npy"
    change_byte(path, -2)
    [one, two] = differing(verify())
    assert "train.source.ids.npy: found another file" in one
    sums = json.loads((run / "data" / "corpus.json").read_text())
    sums["sha256"]["train.source.ids.npy"] = files.sha256_of(str(path))
    (run / "data" / "corpus.json").write_text(json.dumps(sums))
    summary.verify(str(run / "data"))  # the folder agrees with itself again
    [one, two] = differing(verify())
    assert "from 0 on: train.source.ids.npy: found" in one and "from 4 on" in two


def test_a_byte_of_the_vocabulary(run, verify):
    change_byte(run / "logs" / "spm.model")
    [line] = differing(verify(compute=False))
    assert line.startswith("vocabulary: spm.model: found ")


def test_one_setting(run, verify):
    edit_settings(run, label_smoothing=0.2)
    [line] = differing(verify(compute=False))
    assert line == "settings: label_smoothing: found 0.2, recorded 0.1"


def rewrite_loss(path, logdir, at):
    """Changes the last bit of the loss of a step; returns what it was and is."""
    rows = list(read_events(path))
    os.remove(path)
    others, events, pair = set(os.listdir(logdir)), Events(logdir), None
    for step, values in rows:
        if step == at and "loss" in values:
            pair = [values["loss"]]
            values["loss"] = float(np.nextafter(np.float32(pair[0]), np.float32(0)))
            pair.append(values["loss"])
        events.write(step, values)
    [made] = set(os.listdir(logdir)) - others
    os.rename(os.path.join(logdir, made), path)
    return pair


def rewrite_variable(logdir, step, name, aside):
    """Changes the first number of a variable; the manifest is made anew."""
    arrays = corpora.read_variables(checkpoints.path_of(logdir, step))
    array = np.array(arrays[name])
    array.reshape(-1)[0] += np.float32(0.01)
    os.mkdir(aside)
    checkpoints.write(dict(arrays, **{name: array}), aside, step)
    for path in glob.glob(os.path.join(aside, "model.ckpt-*")):
        shutil.copy(path, logdir)
    assert checkpoints.fault_of(checkpoints.path_of(logdir, step)) is None


@pytest.mark.slow
def test_what_only_computing_again_can_tell(run, verify, tmp_path):
    """The last bit of a loss; a number of a checkpoint, with a manifest that fits."""
    logdir = str(run / "logs")
    first = sorted(glob.glob(os.path.join(logdir, "events.*")))[0]
    was, is_now = rewrite_loss(first, logdir, 3)
    kernel = "encoder/block_0/feedforward/inner/kernel"
    rewrite_variable(logdir, 4, kernel, str(tmp_path / "a"))
    rewrite_variable(logdir, 8, "beta1_power", str(tmp_path / "b"))
    lines = differing(verify())
    again = "computed again from step "
    assert f"{again}0: loss of step 3: found {was!r}, recorded {is_now!r}" in lines
    for beginning in (
        f"{again}0: {kernel}, number 0, of step 4: found ",
        f"{again}4: dev loss of step 4: found ",
        f"{again}4: beta1_power, number 0, of step 8: found ",
    ):
        assert any(line.startswith(beginning) for line in lines), beginning


def test_a_byte_of_the_events(run, verify):
    path = sorted(glob.glob(str(run / "logs" / "events.*")))[0]
    change_byte(path, 80)
    status, lines = verify(compute=False)
    assert "a record does not have its checksum" in "\n".join(
        differing((status, lines))
    )
    assert any("found no record of them" in line for line in lines)


def test_a_byte_of_a_checkpoint(run, verify):
    change_byte(run / "logs" / "model.ckpt-4.data-00000-of-00001")
    [line] = differing(verify(compute=False))
    assert "model.ckpt-4.data-00000-of-00001 does not have the checksum" in line


def test_a_dev_score(run, verify):
    path = run / "logs" / "dev_scores.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[1]["bleu"] += 1
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    [line] = differing(verify(compute=False))
    assert line.startswith("bleu in dev_scores.jsonl, by the events: 8: found")


@pytest.mark.slow
def test_a_setting_in_both_files_and_another_machine(run, verify, monkeypatch):
    """Another machine excuses the last bits, and no more."""

    def other(row):
        row["settings"]["label_smoothing"] = 0.5
        row["versions"]["numpy"], row["machine"]["threads"] = "1.0", 99

    edit_settings(run, label_smoothing=0.5)
    edit_segments(run, other)
    lines = differing(verify("--steps=9"))
    assert any("loss of step 3" in line for line in lines)
    assert not any("dev loss" in line for line in lines)  # it is not smoothed
    monkeypatch.setattr(verification, "DRIFT", 1.0)
    status, lines = verify("--steps=9")
    text = "\n".join(lines)
    assert status == 0
    assert "versions from step 4 on: numpy 1.0 (here: " in text
    assert "the last bits of what was computed again: numpy 1.0 (here: " in text
    assert "threads 99 (here: " in text and ": but for a part of " in text


@pytest.mark.parametrize(
    "updates, found, kind",
    [
        (5, 2.0001, "same"),
        (5, 2.01, "differs"),
        (50, 2.01, "unchecked"),
        (50, 2.5, "differs"),
        (50, float("nan"), "differs"),
    ],
)
def test_far_from_a_checkpoint_rounding_may_go_far(updates, found, kind):
    """And is told where it may be the reason; without a reason it is never one."""
    replay = verification.Replay(10, None, 0, [], None, {})
    number = verification.Compared("loss", 10 + updates, 2.0, found)
    sure = verification.Compared("learning_rate", 10 + updates, 0.5, 0.5)
    report = verify_run.Report()
    verify_run.judge(report, replay, [number, sure], "threads 1 (here: 2)")
    line = f"computed again from step 10: loss of {10 + updates}"
    told = {name: lines for name, lines in vars(report).items() if lines}
    if kind == "same":
        assert line in told["same"][0]
    else:
        assert (
            told[kind][0].replace(" step ", " ").startswith(line.replace(" step ", " "))
        )
    assert ("differs" in told) == (kind == "differs")
    report = verify_run.Report()
    verify_run.judge(report, replay, [number, sure], "")
    assert len(report.differs) == 1 and not report.same


def test_no_data_folder_and_nothing_recorded(run, capsys):
    shutil.rmtree(str(run / "data"))
    flags = [f"--logdir={run / 'logs'}", f"--data={run / 'data'}"]
    verify_run.main(flags)
    said = capsys.readouterr().out
    assert f"no {run / 'data'}; name it with --data" in said and "DIFFERS" not in said
    os.remove(str(run / "logs" / "run.jsonl"))
    said = corpora.refusal(capsys, verify_run.main, *flags)
    assert "found no run.jsonl, wanted what train.py records" in said


# --- What counts of several processes -------------------------------------------------


def test_what_was_trained_anew_counts_once(tmp_path, monkeypatch):
    """Killed at 8 and continued from 4: the first loss may begin at 4, 5 or later."""
    segments = [{"step": 0, "settings": {"log_every": 3}}]
    clock = iter(range(10, 99))
    monkeypatch.setattr("transformer.runtime.events.time.time", lambda: next(clock))
    for losses in ({3: 1.0, 6: 2.0}, {6: 3.0, 9: 4.0}):
        events = Events(str(tmp_path))
        for step, loss in losses.items():
            events.write(step, {"loss": loss})
    records = read_records(str(tmp_path), segments)
    found = [(each.step, each.begins, each.values["loss"]) for each in records.updates]
    assert found == [(3, (0, 1, 2), 1.0), (6, (3, 4, 5), 3.0), (9, (6,), 4.0)]
    assert records.replaced == 1 and records.damaged == []
