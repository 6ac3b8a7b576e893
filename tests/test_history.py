"""history.py: what changed since the steps before is recorded, said, or refused."""

import io
import json
import os
import platform
import shutil

import corpora
import pytest

import hparams
import train
from transformer.runtime import checkpoints, history, reporting
from transformer.runtime.devices import cores
from transformer.runtime.history import RUN, RunHistory, name_of_dev
from transformer.runtime.reporting import DevScores

pytestmark = pytest.mark.usefixtures("one_thread_only")

HP = hparams.HParams()
CORPUS = {"train.source.ids.npy": "a", "dev.source.text": "b"}


def segment(logdir, step, hp=HP, corpus=CORPUS):
    """Begins a segment; returns what is said to have changed."""
    history = RunHistory(str(logdir), step, hp, corpus)
    history.write()
    return history.changes()


def segments(logdir):
    return [json.loads(line) for line in corpora.read_lines(logdir / RUN)]


def test_each_segment_is_recorded_and_its_changes_are_told(tmp_path):
    assert segment(tmp_path, 0) == ""
    assert segment(tmp_path, 4) == ""
    other = hparams.HParams(batch_tokens=9, seed=7, data="elsewhere")
    assert segment(tmp_path, 8, other) == (
        "changed at step 8: batch_tokens 4096 -> 9, seed 1 -> 7"
    )
    assert segment(tmp_path, 12, other) == ""
    found = segments(tmp_path)
    assert [row["step"] for row in found] == [0, 8]
    assert found[1]["settings"]["batch_tokens"] == 9 and found[0]["corpus"] == CORPUS
    assert set(found[0]["versions"]) == {"python", "tensorflow", "numpy"}


def test_a_segment_of_which_no_checkpoint_is_left_is_forgotten(tmp_path):
    """It may have been one with another corpus, killed before it saved."""
    segment(tmp_path, 0)
    for _ in range(3):
        other = RunHistory(
            str(tmp_path), 4, HP, dict(CORPUS, **{"dev.source.text": "c"})
        )
        with pytest.raises(ValueError, match="dev.source.text.*--accept_changes"):
            other.refuse_other_corpus()
        assert other.changes() == "changed at step 4: another corpus"
        other.write()
    assert segment(tmp_path, 4) == ""
    assert [row["step"] for row in segments(tmp_path)] == [0]
    assert segment(tmp_path, 0, hparams.HParams(seed=2)) == ""


@pytest.mark.parametrize("said", ["3", "0", "many", ""])
def test_threads_are_those_that_tensorflow_has(monkeypatch, said):
    """As many as are asked for; else one for each core."""
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", said)
    assert history.machine()["threads"] == (3 if said == "3" else cores())


@pytest.mark.parametrize(
    "content, wanted",
    [
        ("processor: 0\nmodel name\t: Some CPU: 3 GHz \nflags: a\n", "Some CPU: 3 GHz"),
        ("processor: 0\nCPU part: 0xd0c\n", "arm"),  # it has no name there
        (None, "arm"),
    ],
)
def test_the_processor_has_a_name(monkeypatch, content, wanted):
    def opened(path, encoding):
        if content is None:
            raise FileNotFoundError(path)
        return io.StringIO(content)

    monkeypatch.setattr(history, "open", opened, raising=False)
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "arm")
    assert history.machine()["processor"] == wanted


def test_a_setting_that_an_older_version_did_not_have_is_no_change(tmp_path):
    segment(tmp_path, 0)
    (row,) = segments(tmp_path)
    del row["settings"]["seed"]
    corpora.write_lines(tmp_path / RUN, [json.dumps(row), "{cut off"])
    text = (tmp_path / RUN).read_text()[:-1]
    (tmp_path / RUN).write_text(text)
    assert segment(tmp_path, 4, hparams.HParams(seed=2)) == ""


@pytest.mark.parametrize(
    "line",
    ["", "x", "7", "[]", "{}", '{"step": 1}', "null", "[" * 100000, "\x1b]52;c;x\x07"],
)
def test_lines_that_are_no_segments_are_refused(tmp_path, line):
    segment(tmp_path, 0)
    with open(str(tmp_path / RUN), "a") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match="run.jsonl:2: ") as error:
        RunHistory(str(tmp_path), 4, HP, CORPUS)
    assert str(error.value).isprintable()


def test_scores_on_another_dev_set_are_not_compared(tmp_path):
    first, second = (name_of_dev(dict(CORPUS, **{"dev.x": x})) for x in "ab")
    scores = DevScores(str(tmp_path), 0, first)
    scores.add({"step": 4, "bleu": 50.0})
    scores = DevScores(str(tmp_path), 4, second)
    assert scores.best() is None and not scores.has(4)
    scores.add({"step": 4, "bleu": 10.0})
    assert scores.best()["bleu"] == 10.0 and scores.evaluations_since_best() == 0
    rows = reporting.read_dev_scores(str(tmp_path))
    assert [(row["bleu"], row["dev"]) for row in rows] == [
        (50.0, first),
        (10.0, second),
    ]
    assert DevScores(str(tmp_path), 4, first).best()["bleu"] == 50.0


# --- The command ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def others(digits, tmp_path_factory):
    """A copy of `digits` in which train is another, and one in which dev is."""
    folders = {}
    for split in ("train", "dev"):
        folders[split] = str(tmp_path_factory.mktemp("others") / split)
        shutil.copytree(digits, folders[split])
        # Source and target changed places: as many lines, the same vocabulary.
        for name in sorted(os.listdir(digits)):
            for side, other in (("source", "target"), ("de", "en")):
                if name.startswith(split + ".") and f".{side}" in name:
                    swapped = name.replace(side, other)
                    for a, b in ((name, swapped), (swapped, name)):
                        if os.path.exists(os.path.join(digits, a)):
                            shutil.copy(
                                os.path.join(digits, a), os.path.join(folders[split], b)
                            )
        summary = os.path.join(folders[split], "corpus.json")
        with open(summary, encoding="utf-8") as file:
            found = json.load(file)
        found.pop("sha256", None)  # it is another corpus, not a broken one
        with open(summary, "w", encoding="utf-8") as file:
            json.dump(found, file)
    return folders


@pytest.mark.slow
def test_training_says_what_changed_and_refuses_another_corpus(
    digits, others, tmp_path, capsys
):
    logdir = tmp_path / "logs"
    corpora.run_train(digits, logdir, "--max_steps", "4")
    before = corpora.tree(logdir)
    for split in others:
        capsys.readouterr()
        said = corpora.refusal(
            capsys,
            train.main,
            "--data",
            others[split],
            "--logdir",
            logdir,
            *corpora.TINY,
        )
        assert f"{split}." in said and "--accept_changes" in said
        assert corpora.tree(logdir) == before
    more = ["--max_steps", "8", "--batch_tokens", "300", "--preset", "sample"]
    corpora.run_train(digits, logdir, *more)
    said = capsys.readouterr().err.splitlines()
    (preset,) = [line for line in said if "--preset sample" in line]
    assert "warmup_steps 4000 (preset: 200)" in preset and "max_steps" not in preset
    (changed,) = [line for line in said if "changed at step 4" in line]
    assert "max_steps 4 -> 8" in changed and "batch_tokens 200 -> 300" in changed

    corpora.run_train(
        others["dev"],
        logdir,
        "--max_steps",
        "8",
        "--batch-tokens=300",
        "--accept-changes",
    )
    said = capsys.readouterr().err
    assert "another corpus" in said
    rows = reporting.read_dev_scores(str(logdir))
    assert [row["step"] for row in rows] == [4, 8, 8]
    assert len({row["dev"] for row in rows}) == 2
    assert checkpoints.steps(str(logdir), checkpoints.BEST) == [8]
    assert [row["step"] for row in segments(logdir)] == [0, 4, 8]


@pytest.mark.slow
def test_the_same_command_says_nothing(digits, tmp_path, capsys):
    flags = ["--preset", "sample", "--max_steps", "4", "--warmup_steps", "9"]
    for _ in range(2):
        capsys.readouterr()
        corpora.run_train(digits, tmp_path / "logs", *flags)
    assert "train.py:" not in capsys.readouterr().err
