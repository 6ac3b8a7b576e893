"""evaluation.py, `eval.py --compare`: intervals and p-values are of a bootstrap."""

import json
import os
import random
import re
import threading

import corpora
import pytest

from transformer import evaluation
from transformer.evaluation import check_samples, score
from transformer.runtime import ram

SAMPLES = 80


def damaged(lines, share, seed):
    """The lines with some of their words replaced."""
    draw = random.Random(seed)
    return [
        " ".join("xx" if draw.random() < share else word for word in line.split())
        for line in lines
    ]


@pytest.fixture(scope="module")
def lines():
    draw = random.Random(1)
    return [
        " ".join(draw.choice("abcdefgh") * 3 for _ in range(draw.randint(5, 9)))
        for _ in range(30)
    ]


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter"])
def test_an_interval_is_around_the_score_and_in_its_signature(name, lines):
    hypotheses = damaged(lines, 0.3, 2)
    actual = score(hypotheses, lines, SAMPLES, list(evaluation.METRICS))
    low, high = actual[name].interval
    assert low < actual[name].value < high
    assert actual[name].value == getattr(actual, name)
    assert f"|bs:{SAMPLES}|seed:12345|" in actual[name].signature
    plain = score(hypotheses, lines, 0, list(evaluation.METRICS))
    assert actual[name].value == plain[name].value
    assert plain[name].interval == ()
    assert "bs:" not in plain[name].signature


def test_a_clear_difference_is_significant_and_a_slight_one_is_not(lines):
    systems = {
        "good": damaged(lines, 0.2, 2),
        "bad": damaged(lines, 0.7, 3),
        "alike": damaged(lines, 0.2, 4),
        "same": damaged(lines, 0.2, 2),
    }
    [bleu, *_] = evaluation.compare(systems, lines)
    output = [
        evaluation.describe_difference(system, "good", "BLEU")
        for system in bleu.systems[1:]
    ]
    assert re.match(r"bad is \d+\.\d\d BLEU below ", output[0])
    assert "is significant at 5 %" in output[0]
    assert "is not significant at 5 %" in output[1]
    assert output[2] == "same and good have the same translations"


@pytest.mark.parametrize("seed", ["0", "x", "-1"])
def test_a_seed_that_sacrebleu_does_not_take_is_refused(seed, monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    check_samples(0, 30)
    with pytest.raises(ValueError, match=f"SACREBLEU_SEED: expected .*, got {seed}"):
        check_samples(SAMPLES, 30)


def test_samples_that_give_no_interval_or_do_not_fit_are_refused(monkeypatch):
    for samples in (-1, 1, 39):
        with pytest.raises(ValueError, match=f"samples: expected 40 .*, got {samples}"):
            check_samples(samples, 30)
    monkeypatch.setattr(ram, "free_memory", lambda: 100_000_000)
    check_samples(1000, 1000)
    check_samples(0, 10**9)
    with pytest.raises(ValueError, match="1,000 samples of 1,001 lines"):
        check_samples(1000, 1001)
    monkeypatch.setattr(ram, "free_memory", lambda: 0)  # unknown
    check_samples(1000, 1001)


def test_systems_with_other_numbers_of_lines_are_refused(lines):
    with pytest.raises(ValueError, match="b: expected 30 translations, .*, got 29"):
        evaluation.compare({"a": lines, "b": lines[1:]}, lines)


# --- eval.py --compare ----------------------------------------------------------------


@pytest.fixture
def run(trained, digits, tmp_path):
    """run(flag, ...) → (the lines that eval.py printed, what it wrote to --json)."""

    def run(*flags):
        path = tmp_path / "scores.json"
        argv = ["--logdir", logdir, "--data", digits, "--json", path, *flags]
        return corpora.command_output("eval", *argv), json.loads(path.read_text())

    logdir = corpora.copy_folder(trained, tmp_path / "first")
    run.logdir = logdir
    return run


@pytest.mark.slow
def test_a_log_directory_and_a_file_are_compared(run, trained, digits, tmp_path):
    other = corpora.copy_folder(trained, tmp_path / "other")
    references = corpora.read_lines(os.path.join(digits, "test.en"))
    perfect = corpora.write_lines(tmp_path / "perfect.en", references)
    lines, actual = run("--compare", other, perfect)
    written = corpora.read_lines(actual["translations"])
    systems = {run.logdir: written, other: written, perfect: references}
    expected = evaluation.compare(systems, references)
    for answer, comparison in zip(actual["compared"], expected):
        assert answer["signature"] == comparison.signature in lines
        for row, system in zip(answer["systems"], comparison.systems):
            assert row == json.loads(json.dumps(system._asdict()))
        first, _, best = comparison.systems
        sentence = evaluation.describe_difference(best, first.name, answer["metric"])
        assert sentence in lines
    assert f"{other} and {run.logdir} have the same translations" in lines
    assert any(name.endswith(".translations") for name in os.listdir(other))


def test_translations_may_come_through_a_pipe(run, digits, tmp_path):
    """As from the shell's <(...)."""
    references = corpora.read_lines(os.path.join(digits, "test.en"))
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    writer = threading.Thread(target=corpora.write_lines, args=[pipe, references])
    writer.start()
    _, actual = run("--compare", pipe)
    writer.join()
    assert actual["compared"][0]["systems"][1]["score"] == pytest.approx(100)


def test_no_samples_no_intervals(run):
    lines, actual = run("--samples", "0")
    assert lines[-6] == f"BLEU = {actual['bleu']:.2f}"
    assert actual["bleu_interval"] == [] and "bs:" not in lines[-5]


def test_what_cannot_be_compared_is_one_line(run, digits, tmp_path, capsys):
    short = corpora.write_lines(tmp_path / "short.en", ["1 2"])
    common = ["--logdir", run.logdir, "--data", digits]
    for flags, words in (
        (["--compare", short], [short, "expected 20 translations, one"]),
        (["--compare", "no/such"], ["no/such"]),
        (["--compare", short, short], ["twice"]),
        (["--compare", run.logdir], ["twice"]),
        (["--compare", short, "--samples", "0"], ["--samples 0"]),
        (["--samples", "5"], ["got 5", "40"]),
    ):
        line = corpora.refusal(capsys, "eval", *common, *flags)
        assert [word for word in words if word not in line] == []
