"""evaluation.py, `eval.py --compare`: intervals, and p-values that hold their level."""

import json
import os
import random
import re
import threading

import corpora
import numpy as np
import pytest
import sacrebleu
import significance
from sacrebleu.metrics import BLEU
from slow import slow_except

from transformer import evaluation
from transformer.evaluation import check_samples, score
from transformer.runtime.errors import EngineError

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


# --- The p-value ----------------------------------------------------------------------


@pytest.mark.parametrize("key", ["bleu", "chrf", "ter"])
@pytest.mark.parametrize("num_differing", slow_except([20], [8, 20, 60]))
def test_equally_good_systems_differ_in_5_percent_of_comparisons(key, num_differing):
    """The level is exact; 200 comparisons add 1.5 % of chance, three times of it."""
    references = corpora.read_lines("data/sample/test.en")[:60]
    simulation = significance.Simulation(key, references)
    rate = simulation.measure_rate(simulation.compute_p, num_differing, 200, 100)
    assert 0.01 <= rate <= 0.05 + 3 * 0.0154


def test_few_differing_lines_are_not_significant():
    """Two better lines: the other may be better in both, in 1 of 2 cases."""
    references = [f"The dog number {i} sleeps in the house." for i in range(200)]
    worse = [line.replace("the house", "a house") for line in references]
    better = [references[i] if i in (3, 77) else worse[i] for i in range(200)]
    for comparison in evaluation.compare({"a": worse, "b": better}, references):
        assert comparison.systems[1].p_value == 0.5
    one_better = [references[0], *worse[1:]]
    for comparison in evaluation.compare({"a": worse, "b": one_better}, references):
        assert comparison.systems[1].p_value == 1


def test_all_exchanges_of_few_lines_are_tried():
    """By hand: six lines, all better; only two of 64 exchanges differ by as much."""
    references = ["a b c d e f g h"] * 6
    worse = ["a b c d x f g h"] * 6
    for comparison in evaluation.compare({"a": worse, "b": references}, references):
        first, second = comparison.systems
        assert first.p_value is None and second.p_value == 2 / 64
        assert "is significant" in evaluation.describe_difference(second, "a", "BLEU")


def test_the_best_p_value_of_many_lines_counts_the_observed_exchange(lines):
    systems = {"a": damaged(lines, 1, 2), "b": lines}
    for comparison in evaluation.compare(systems, lines):
        assert comparison.systems[1].p_value == 1 / 10001


@pytest.mark.parametrize(
    "change, metrics",
    [
        (lambda line: line + " ", ["BLEU", "chrF2", "TER"]),
        (lambda line: line + "\r", ["BLEU", "chrF2", "TER"]),
        (lambda line: "  ".join(line.split(" ")), ["BLEU", "chrF2", "TER"]),
        (lambda line: line[:-1] + " .", ["BLEU", "chrF2"]),
        (str.upper, ["TER"]),
    ],
    ids=["space", "CR", "spaces", "space before the full stop", "case"],
)
def test_equal_statistics_are_no_difference(lines, change, metrics):
    hypotheses = [line + "." for line in damaged(lines, 0.2, 2)]
    systems = {"a": hypotheses, "b": [change(line) for line in hypotheses]}
    references = [line + "." for line in lines]
    equal = []
    for comparison in evaluation.compare(systems, references):
        second = comparison.systems[1]
        sentence = evaluation.describe_difference(second, "a", comparison.metric)
        if second.same:
            equal.append(comparison.metric)
            assert second.p_value == 1 and second.difference == 0
            assert f"the same {comparison.metric} statistics on every line" in sentence
            assert "significant" not in sentence
    assert equal == metrics


# --- Intervals ------------------------------------------------------------------------


def test_an_interval_is_within_the_possible():
    references = [f"The dog number {i} sleeps in the house." for i in range(200)]
    hypotheses = [references[0].replace("dog", "cat"), *references[1:]]
    scores = score(hypotheses, references, 1000, list(evaluation.METRICS))
    assert scores["bleu"].interval[1] == scores["chrf"].interval[1] == 100
    assert scores["ter"].interval[0] == 0
    for value, _, (low, high) in scores.values():
        assert 0 <= low <= value <= high <= 100


@pytest.mark.parametrize("samples", [0, SAMPLES])
def test_equal_texts_have_a_bleu_of_100(lines, samples):
    assert BLEU().corpus_score(lines, [lines]).score != 100
    scores = score(lines, lines, samples)
    assert scores.bleu == scores.chrf == 100
    assert evaluation.score_sentences(lines, lines)["bleu"] == [100.0] * len(lines)


def test_the_samples_are_those_of_sacrebleu(lines):
    """Its mean is of the same samples; it computes them in float32."""
    hypotheses = damaged(lines, 0.3, 2)
    metric = BLEU()
    theirs = metric.corpus_score(hypotheses, [lines], n_bootstrap=200)
    sample_scores = []
    statistics = evaluation.extract_statistics(metric, hypotheses, lines)
    generator = evaluation.make_generator()
    for _ in range(200):
        drawn = generator.choice(len(lines), len(lines))
        sums = statistics[drawn].sum(0)
        sample_scores.append(evaluation.score_statistics(metric, sums))
    assert np.mean(sample_scores) == pytest.approx(theirs._mean, rel=1e-5)
    interval = score(hypotheses, lines, 200)["bleu"].interval
    assert interval == pytest.approx(np.percentile(sample_scores, [2.5, 97.5]))


def test_another_sacrebleu_without_statistics_is_refused(lines, monkeypatch):
    monkeypatch.setattr(evaluation, "STATISTICS", ("_extract_corpus_statistics", "_no"))
    with pytest.raises(EngineError, match=f"got {sacrebleu.__version__}, without _no"):
        score(lines, lines, SAMPLES)
    assert score(lines, lines).bleu == pytest.approx(100)  # needs none


@pytest.mark.parametrize("seed", ["0", "x", "-1"])
def test_a_seed_that_sacrebleu_does_not_take_is_refused(seed, monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    check_samples(0)
    with pytest.raises(ValueError, match=f"SACREBLEU_SEED: expected .*, got {seed}"):
        check_samples(SAMPLES)


def test_too_few_samples_are_refused():
    for samples in (-1, 1, 39):
        with pytest.raises(ValueError, match=f"samples: expected 40 .*, got {samples}"):
            check_samples(samples)
    check_samples(0)


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
