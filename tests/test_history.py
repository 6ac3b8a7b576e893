"""run.py: one run in a log directory; its history, dev scores, events and speed."""

import json
import math
import os
import shutil
import socket
import subprocess
import sys

import corpora
import pytest
import tensorflow.compat.v1 as tf

from transformer import hparams, trainer
from transformer.commands.advice import advice_for
from transformer.logdir import history as run
from transformer.logdir import manifests
from transformer.logdir.history import (
    DEV_SCORES,
    LOCK,
    RUN,
    DevScores,
    Events,
    Lock,
    Meter,
    RunHistory,
    dev_hash,
    dev_search,
    read_dev_scores,
)
from transformer.logdir.names import BEST
from transformer.text.vocabulary import train_vocabulary

pytestmark = pytest.mark.usefixtures("one_thread_only")

# --- The lock -------------------------------------------------------------------------

HOLDER = """
import sys, time
from transformer.logdir.history import Lock
with Lock(sys.argv[1]):
    print("taken", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that has the lock of `tmp_path`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        cwd=corpora.ROOT,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"taken\n"
    yield process
    process.kill()
    process.communicate()


def test_the_second_is_refused_and_told_by_whom(tmp_path, holder):
    with pytest.raises(ValueError) as refused, Lock(str(tmp_path)):
        raise AssertionError("the lock was given twice")
    for word in (str(tmp_path), str(holder.pid), socket.gethostname()):
        assert word in str(refused.value)
    assert "--logdir" in advice_for(refused.value)
    assert str(holder.pid) in (tmp_path / LOCK).read_text()  # and that stays


def test_a_killed_process_leaves_no_lock(tmp_path, holder):
    holder.kill()
    holder.wait()
    with Lock(str(tmp_path)):
        assert str(os.getpid()) in (tmp_path / LOCK).read_text()


def test_a_log_directory_that_is_not_there_yet_is_not_made(tmp_path):
    folder = tmp_path / "none"
    for _ in range(2):  # a lock that was given back can be taken again
        with Lock(str(folder)) as lock:
            folder.mkdir(exist_ok=True)
            lock.take()
            lock.take()  # once is enough, twice no harm
            with pytest.raises(ValueError):
                Lock(str(folder)).take()


# --- The history ----------------------------------------------------------------------

HP = hparams.HParams()
CORPUS = {"train.source.ids.npy": "a", "dev.source.text": "b"}


def segment(logdir, step, hp=HP, corpus=CORPUS):
    """Begins a segment; returns what is said to have changed."""
    history = RunHistory(str(logdir), step, hp, corpus)
    history.write()
    return history.describe_changes()


def segments(logdir):
    return [json.loads(line) for line in corpora.read_lines(logdir / RUN)]


def test_each_segment_is_recorded_and_its_changes_are_told(tmp_path):
    assert segment(tmp_path, 0) == ""
    assert segment(tmp_path, 4) == ""
    other_hp = hparams.HParams(batch_tokens=9, seed=7, data="elsewhere")
    assert segment(tmp_path, 8, other_hp) == (
        "changed at step 8: batch_tokens 4096 -> 9, seed 1 -> 7"
    )
    assert segment(tmp_path, 12, other_hp) == ""
    rows = segments(tmp_path)
    assert [row["step"] for row in rows] == [0, 8]
    assert rows[1]["settings"]["batch_tokens"] == 9 and rows[0]["corpus"] == CORPUS
    assert set(rows[0]["versions"]) == {"python", "tensorflow", "numpy"}


def test_a_segment_of_which_no_checkpoint_is_left_is_forgotten(tmp_path):
    """It may have been one with another corpus, killed before it saved."""
    segment(tmp_path, 0)
    for _ in range(3):
        history = RunHistory(
            str(tmp_path), 4, HP, dict(CORPUS, **{"dev.source.text": "c"})
        )
        with pytest.raises(ValueError, match="dev.source.text differ") as refused:
            history.refuse_other_corpus({}, accept=False)
        assert "--accept_changes" in advice_for(refused.value)
        history.refuse_other_corpus({}, accept=True)
        assert history.describe_changes() == "changed at step 4: another corpus"
        history.write()
    assert segment(tmp_path, 4) == ""
    assert [row["step"] for row in segments(tmp_path)] == [0]
    assert segment(tmp_path, 0, hparams.HParams(seed=2)) == ""


def test_another_vocabulary_is_refused_even_if_changes_are_accepted(tmp_path):
    segment(tmp_path, 0, corpus=dict(CORPUS, **{"spm.model": "a"}))
    history = RunHistory(str(tmp_path), 4, HP, dict(CORPUS, **{"spm.model": "b"}))
    with pytest.raises(ValueError, match=f"the vocabulary of {tmp_path}") as refused:
        history.refuse_other_corpus({}, accept=True)
    assert f"--vocab_from {tmp_path}" in advice_for(refused.value)


def test_a_setting_that_an_older_version_did_not_have_is_no_change(tmp_path):
    segment(tmp_path, 0)
    (row,) = segments(tmp_path)
    del row["settings"]["seed"]
    corpora.write_lines(tmp_path / RUN, [json.dumps(row), "{cut off"])
    text = (tmp_path / RUN).read_text()[:-1]
    (tmp_path / RUN).write_text(text)
    assert segment(tmp_path, 4, hparams.HParams(seed=2)) == ""


@pytest.mark.parametrize(
    "line", ["x", "7", '{"step": 1}', "[" * 100000, "\x1b]52;c;x\x07"]
)
def test_lines_that_are_no_segments_are_refused(tmp_path, line):
    segment(tmp_path, 0)
    with open(str(tmp_path / RUN), "a") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match="run.jsonl:2: ") as error:
        RunHistory(str(tmp_path), 4, HP, CORPUS)
    assert str(error.value).isprintable()


def test_scores_on_another_dev_set_are_not_compared(tmp_path):
    first, second = (dev_hash(dict(CORPUS, **{"dev.x": x})) for x in "ab")
    scores = DevScores(str(tmp_path), 0, first)
    scores.add({"step": 4, "bleu": 50.0})
    scores = DevScores(str(tmp_path), 4, second)
    assert scores.best() is None and not scores.has(4)
    scores.add({"step": 4, "bleu": 10.0})
    assert scores.best()["bleu"] == 10.0 and scores.evaluations_since_best() == 0
    rows = read_dev_scores(str(tmp_path))
    assert [(row["bleu"], row["dev"]) for row in rows] == [
        (50.0, first),
        (10.0, second),
    ]
    # Its best checkpoint was replaced, so it is not compared with after a change back.
    assert DevScores(str(tmp_path), 4, first).best() is None


def test_scores_of_another_search_are_not_compared(tmp_path):
    searches = [
        dev_search({"search": "beam", "beam_size": size, "top_k": 0}) for size in (4, 1)
    ]
    scores = DevScores(str(tmp_path), 0, search=searches[0])
    scores.add({"step": 4, "bleu": 50.0})
    scores = DevScores(str(tmp_path), 4, search=searches[1])
    assert scores.best() is None and not scores.has(4)
    scores.add({"step": 4, "bleu": 10.0})
    scores.add({"step": 8, "bleu": 9.0})
    assert scores.best()["bleu"] == 10.0 and scores.evaluations_since_best() == 1
    scores = DevScores(str(tmp_path), 8, search=searches[0])
    assert scores.best() is None and not scores.has(4)  # its checkpoint was replaced
    scores.add({"step": 8, "bleu": 2.0})
    assert DevScores(str(tmp_path), 8, search=searches[0]).best()["bleu"] == 2.0
    rows = read_dev_scores(str(tmp_path))
    assert [row["search"]["beam_size"] for row in rows] == [4, 1, 1, 4]


def test_the_search_of_older_scores_is_that_of_their_segment(tmp_path):
    """Earlier versions did not write it beside each score."""
    for bleu in (50.0, 40.0):
        DevScores(str(tmp_path), 9).add({"step": 4 if bleu == 50 else 8, "bleu": bleu})
    current = {"beam_size": 1}
    search = dev_search(current)
    assert DevScores(str(tmp_path), 8, search=search).best()["bleu"] == 50.0  # unknown
    segment(tmp_path, 0)
    assert segment(tmp_path, 4, hparams.HParams(**current)) == (
        "changed at step 4: beam_size 4 -> 1; dev scores of another search are not "
        "compared with the new ones, which alone decide on the best checkpoint and on "
        "patience"
    )
    scores = DevScores(str(tmp_path), 8, search=search)
    assert scores.best()["bleu"] == 40.0 and not scores.has(4)
    faster = dev_search({**current, "decode_batch_size": 7, "seed": 3, "max_steps": 4})
    assert faster == search  # no other translations


def test_a_search_setting_that_an_older_version_did_not_have(tmp_path):
    """It has its default, so the scores are compared."""
    search = dev_search({"beam_size": 5})
    older = {name: search[name] for name in search if name != "repetition_penalty"}
    scores = DevScores(str(tmp_path), 0, search=older)
    scores.add({"step": 4, "bleu": 50.0})
    assert DevScores(str(tmp_path), 4, search=search).best()["bleu"] == 50.0
    changed = {**search, "repetition_penalty": 1.5}
    assert DevScores(str(tmp_path), 4, search=changed).best() is None


@pytest.fixture
def now(monkeypatch):
    """A clock that stands still: now[0] is the time."""
    time = [1000.0]
    monkeypatch.setattr(run.time, "monotonic", lambda: time[0])
    return time


# --- Events and dev scores ------------------------------------------------------------


def test_events_are_those_of_tensorboard(tmp_path):
    events = Events(str(tmp_path))
    events.write(3, {"loss": 0.5, "dev/bleu": 25})
    events.write(4, {"loss": 0.25})
    assert corpora.read_scalars(tmp_path) == {
        "loss": {3: 0.5, 4: 0.25},
        "dev/bleu": {3: 25.0},
    }


def test_tensorboard_drops_what_a_killed_process_wrote_too_much(tmp_path):
    Events(str(tmp_path), 2).write(10, {"loss": 0.5})
    (path,) = map(str, tmp_path.iterdir())
    started = [
        event for event in tf.train.summary_iterator(path) if event.session_log.status
    ]
    assert [(event.step, event.session_log.status) for event in started] == [
        (3, tf.SessionLog.START)
    ]


def row(step, bleu):
    return {"step": step, "bleu": bleu, "chrf": 1.5, "loss": 2.5}


def scored(folder, *bleus, start=100):
    scores = DevScores(str(folder), start)
    for number, bleu in enumerate(bleus, 1):
        scores.add(row(10 * number, bleu))
    return scores


def test_below_a_bleu_of_1_the_dev_loss_decides(tmp_path):
    scores = DevScores(str(tmp_path), 0)
    rows = [(0.4, 7.0), (0.0, 5.0), (0.9, 6.0), (1.1, 6.5), (0.0, 1.0), (1.2, 9.0)]
    best = []
    for step, (bleu, loss) in enumerate(rows):
        evaluation = {"step": step, "bleu": bleu, "loss": loss}
        is_best = scores.is_best(evaluation)
        scores.add(evaluation)
        assert is_best == (scores.best() == evaluation)
        best.append(scores.best()["step"])
    assert best == [0, 1, 1, 3, 3, 5]


@pytest.mark.parametrize(
    "bleus, best, since", [([5, 7, 6], 20, 1), ([7, 7, 7], 10, 2), ([0, 0], 10, 1)]
)
def test_the_best_is_the_first_of_equals(tmp_path, bleus, best, since):
    scores = scored(tmp_path, *bleus)
    assert scores.best()["step"] == best
    assert scores.evaluations_since_best() == since
    again = DevScores(str(tmp_path), 100)
    assert again.best() == scores.best()
    assert again.evaluations_since_best() == since


def test_what_comes_after_the_start_is_forgotten(tmp_path):
    scored(tmp_path, 5, 6, 7)
    scores = DevScores(str(tmp_path), 20)
    assert [scores.has(step) for step in (10, 20, 30)] == [True, True, False]
    assert scores.best()["step"] == 20
    scores.add(row(30, 1))
    assert [row["bleu"] for row in read_dev_scores(str(tmp_path))] == [5, 6, 1]
    path = str(tmp_path / DEV_SCORES)
    os.truncate(path, os.path.getsize(path) - 9)  # killed while it wrote the line
    assert not DevScores(str(tmp_path), 30).has(30)


# --- The meter ------------------------------------------------------------------------


def test_the_meter_weighs_losses_by_tokens_and_pauses_do_not_count(now):
    meter = Meter()
    meter.add(4.0, 100)
    now[0] += 7
    meter.pause()
    now[0] += 1000
    meter.resume()
    now[0] += 1
    meter.add(1.0, 300)
    assert meter.read() == (1.75, 50)
    now[0] += 1
    meter.add(math.inf, 300)  # float16 has skipped the update
    assert math.isnan(meter.read()[0])


# --- The command ----------------------------------------------------------------------


@pytest.fixture
def other(digits, tmp_path):
    """A copy of `digits` with another dev split."""
    folder = corpora.copy_folder(digits, tmp_path / "other")
    corpora.write_text(folder, corpora.reversed_symbols({"dev": 20}, seed=2))
    corpora.run_command("prepare", "--out", folder, "--vocab_from", digits)
    return folder


def test_a_corpus_that_is_prepared_again_while_training_starts_is_refused(
    digits, tmp_path, monkeypatch, capsys
):
    """The ids are those of the vocabulary before."""
    data = str(tmp_path / "data")
    shutil.copytree(digits, data)
    text = str(tmp_path / "text")
    corpora.write_lines(text, ["a b c d", "d c b a"])
    copy = trainer.copy_vocabularies

    def prepared_again(source, target):
        train_vocabulary([text], os.path.join(data, "spm.model"), 12, model_type="bpe")
        copy(source, target)

    monkeypatch.setattr(trainer, "copy_vocabularies", prepared_again)
    flags = ["--data", data, "--logdir", tmp_path / "logs", *corpora.TINY]
    assert "prepared again in the meantime" in corpora.refusal(capsys, "train", *flags)


@pytest.mark.slow
def test_training_says_what_changed_and_refuses_another_corpus(
    digits, other, tmp_path, capsys
):
    logdir = tmp_path / "logs"
    corpora.run_train(digits, logdir, "--max_steps", "4")
    before = corpora.read_tree(logdir)
    capsys.readouterr()
    argv = ["--data", other, "--logdir", logdir, *corpora.TINY]
    message = corpora.refusal(capsys, "train", *argv)
    assert "dev." in message and "--accept_changes" in message
    assert corpora.read_tree(logdir) == before
    (logdir / "run.jsonl").rename(tmp_path / "run.jsonl")  # the checkpoint knows it
    assert "dev." in corpora.refusal(capsys, "train", *argv)
    (tmp_path / "run.jsonl").rename(logdir / "run.jsonl")
    more = ["--max_steps", "8", "--batch_tokens", "300", "--preset", "sample"]
    corpora.run_train(digits, logdir, *more)
    lines = capsys.readouterr().err.splitlines()
    (preset,) = [line for line in lines if "--preset sample" in line]
    assert "warmup_steps 4000 (preset: 200)" in preset and "max_steps" not in preset
    (changed,) = [line for line in lines if "changed at step 4" in line]
    assert "max_steps 4 -> 8" in changed and "batch_tokens 200 -> 300" in changed

    flags = ["--max_steps", "8", "--batch-tokens=300", "--accept-changes"]
    corpora.run_train(other, logdir, *flags)
    message = capsys.readouterr().err
    assert "another corpus" in message
    rows = read_dev_scores(str(logdir))
    assert [row["step"] for row in rows] == [4, 8, 8]
    assert len({row["dev"] for row in rows}) == 2
    assert manifests.list_steps(str(logdir), BEST) == [8]
    assert [row["step"] for row in segments(logdir)] == [0, 4, 8]
