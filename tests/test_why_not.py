"""Why not another translation: beside a search by hand; references; training pairs."""

import json
import os
import random

import corpora
import numpy as np
import pytest
import sacrebleu
from javascript import needs_node, run_node
from test_page_model import (
    MAKE_ENGINE,
    encode_base64,
    export,
    open_translator,
    read_kernels,
)

from transformer.text import batches
from transformer.text.vocabulary import load_vocabularies
from transformer.viewer import why_not
from transformer.viewer.inspection import inspect_line
from transformer.viewer.test_sentences import TestSentences, read_references
from transformer.viewer.training_pairs import open_training_pairs
from transformer.viewer.tree import OPEN, path_ids
from transformer.viewer.why_not import Verdict, explain_line

pytestmark = pytest.mark.usefixtures("one_thread_only")

LINE = "1 2 3"
KNOWN = {}  # results of `next_log_probs`


@pytest.fixture(scope="module")
def translator(trained):
    with open_translator(trained, {"beam_size": 3}) as translator:
        yield translator


def next_log_probs(translator, source, ids):
    """The log-probability of each piece that may follow."""
    key = translator, tuple(source), tuple(ids)
    if key not in KNOWN:
        KNOWN[key] = compute_next_log_probs(translator, source, ids)
    return KNOWN[key].copy()


def compute_next_log_probs(translator, source, ids):
    log_probs = translator.inspect([source], [ids], lambda x: x.log_probs)
    log_probs = np.array(log_probs[0, len(ids)], np.float64)
    log_probs[[0, 2]] = -np.inf  # PAD and BOS
    return log_probs


def penalty(length, alpha=0.6):
    return ((5 + length) / 6) ** alpha


def search_by_hand(translator, source):
    """The candidates of every step, [(log-probability, ids)], and what has ended."""
    hp, eos = translator.hp, translator.vocabularies.target.eos
    limit = len(source) + 1 + hp.max_extra_length
    open_ones, ended, steps = [(0.0, [])], [], []
    while True:
        step = len(steps) + 1
        everything = [
            (log_prob + gain, [*ids, piece])
            for log_prob, ids in open_ones
            for piece, gain in enumerate(next_log_probs(translator, source, ids))
            if step < limit or piece == eos
        ]
        everything.sort(key=lambda pair: -pair[0])
        candidates = everything[: 2 * hp.beam_size]
        steps.append(candidates)
        ended += [
            (log_prob / penalty(step, hp.length_penalty), ids)
            for log_prob, ids in candidates
            if ids[-1] == eos
        ]
        ended = sorted(ended, key=lambda pair: -pair[0])[: hp.beam_size]
        open_ones = [x for x in candidates if x[1][-1] != eos][: hp.beam_size]
        if not open_ones:
            return steps, ended
        bound = open_ones[0][0] / penalty(limit, hp.length_penalty)
        if len(ended) == hp.beam_size and bound <= ended[-1][0]:
            return steps, ended


def judge_by_hand(translator, source, target, steps, ended):
    """The Verdict of a target, by the search by hand."""
    size, eos = translator.hp.beam_size, translator.vocabularies.target.eos
    limit = len(source) + translator.hp.max_extra_length
    ids = [*target, eos]
    for rank, (_, result) in enumerate(ended, 1):
        if result == ids:
            return Verdict("best") if rank == 1 else Verdict("n_best", rank=rank)
    log_prob = 0.0
    for step, candidates in enumerate(steps, 1):
        prefix = ids[:step]
        log_probs = next_log_probs(translator, source, ids[: step - 1])
        log_prob += log_probs[ids[step - 1]]
        if prefix not in [candidate for _, candidate in candidates]:
            if step > limit and step < len(ids):
                return Verdict("too_long", step, limit=limit)
            rank = 1 + sum(log_probs > log_probs[ids[step - 1]])
            behind = candidates[-1][0] - log_prob
            return Verdict("unconsidered", step, rank, 2 * size, behind)
        if prefix == ids:
            return Verdict("beaten")
        going_on = [pair for pair in candidates if pair[1][-1] != eos]
        rank = 1 + [candidate for _, candidate in going_on].index(prefix)
        if rank > size:
            behind = going_on[size - 1][0] - log_prob
            return Verdict("dropped", step, rank, size, behind)
    return Verdict("beaten")


def make_targets(translator, source, steps, ended):
    """Translations that end in many ways."""
    draws, eos = random.Random(1), translator.vocabularies.target.eos
    targets = [ids[:-1] for _, ids in ended]
    for candidates in steps:
        for _, ids in candidates:
            targets.append(ids[:-1] if ids[-1] == eos else ids)
    pieces = range(4, translator.vocabularies.target.size)
    targets += [[*ids, draws.choice(pieces)] for ids in draws.sample(targets, 20)]
    return targets


def assert_same_verdict(actual, expected):
    assert actual._replace(behind=0) == expected._replace(behind=0)
    assert abs(actual.behind - expected.behind) < 1e-4


def test_verdicts_are_those_of_a_search_by_hand(translator):
    kinds = set()
    for line in (LINE, "9 8 7"):
        [source] = translator.encode([line])
        steps, ended = search_by_hand(translator, source)
        for target in make_targets(translator, source, steps, ended):
            expected = judge_by_hand(translator, source, target, steps, ended)
            explanation = explain_line(translator, line, target)
            assert_same_verdict(explanation.verdict, expected)
            kinds.add(expected.kind)
    assert kinds >= {"best", "n_best", "beaten", "dropped", "unconsidered"}


def test_probabilities_ranks_and_scores_are_those_of_the_model(translator):
    [source] = translator.encode([LINE])
    eos = translator.vocabularies.target.eos
    target = translator.vocabularies.target.encode("3 2 ? 1")
    explanation = explain_line(translator, LINE, "3 2 ? 1")
    assert explanation.target.ids == [*target, eos]
    assert explanation.target.words == ["3", "2", "?", "1", "⟨end⟩"]
    total = 0.0
    for i, piece in enumerate([*target, eos]):
        log_probs = next_log_probs(translator, source, target[:i])
        assert abs(explanation.log_probs[i] - log_probs[piece]) < 1e-5
        assert explanation.ranks[i] == 1 + sum(log_probs > log_probs[piece])
        if explanation.turn == i:
            assert explanation.instead[1] == pytest.approx(max(log_probs), abs=1e-5)
            assert explanation.instead[0] in "".join(
                translator.vocabularies.target.pieces([int(np.argmax(log_probs))])
            )
        total += log_probs[piece]
    ranks = explanation.ranks
    assert ranks[explanation.turn] > 1 == max(ranks[: explanation.turn], default=1)
    best = inspect_line(translator, LINE).n_best[0]
    assert abs(explanation.best_score - best.score) < 1e-5
    *best_ids, end = explanation.best_target.ids
    assert end == eos and translator.translation(best_ids, 0.0).text == best.text
    assert abs(explanation.score - total / penalty(len(target) + 1)) < 1e-4


def test_the_text_of_a_result_is_that_result(translator):
    """The search may have found it with other pieces than those of its text."""
    texts = [translation.text for translation in inspect_line(translator, LINE).n_best]
    for text in texts:
        verdict = explain_line(translator, LINE, f" {text}\n").verdict
        assert max(verdict.rank - 1, 0) == texts.index(text)


@pytest.mark.parametrize("changes", [{"beam_size": 1}, {"search": "greedy"}])
def test_greedy_search_keeps_the_likeliest_piece(trained, changes):
    with open_translator(trained, changes) as translator:
        [source] = translator.encode([LINE])
        best = inspect_line(translator, LINE).best_ids[0]
        assert explain_line(translator, LINE, best).verdict == Verdict("best")
        log_probs = next_log_probs(translator, source, best[:1])
        third = int(np.argsort(-log_probs)[2])
        verdict = explain_line(translator, LINE, [best[0], third]).verdict
        behind = log_probs.max() - log_probs[third]
        assert_same_verdict(verdict, Verdict("dropped", 2, 3, 1, behind))


def test_rules_of_the_search_are_named(trained):
    rules = {"min_length": 3, "no_repeat_ngram": 2}
    with open_translator(trained, rules) as translator:
        first = inspect_line(translator, LINE).best_ids[0][0]
        verdict = explain_line(translator, LINE, [first]).verdict
        assert verdict == Verdict("forbidden", 2)
    with open_translator(trained, {"max_extra_length": 0}) as translator:
        nodes = inspect_line(translator, LINE).nodes
        [index, *_] = [
            i for i, node in enumerate(nodes) if (node.step, node.fate) == (3, OPEN)
        ]
        verdict = explain_line(translator, LINE, [*path_ids(nodes, index), 5]).verdict
        assert verdict == Verdict("too_long", 4, limit=3)
    with open_translator(trained, {"search": "sample"}) as translator:
        best = inspect_line(translator, LINE).best_ids[0]
        other = [best[0], 5 if best[1:2] != [5] else 6]
        assert explain_line(translator, LINE, other).verdict.kind == "drawn"


# References, and training pairs


def test_a_test_sentence_is_translated_once_and_scored(translator, digits):
    text = read_references(digits)
    assert text.name == "test" and read_references("nowhere") is None
    tests = TestSentences(text, translator)
    assert tests.total == len(text.sources)
    calls = []
    translate = translator.translate
    translator.translate = lambda lines: calls.append(lines) or translate(lines)
    first, both = tests.translate([0]), tests.translate([0, 2])
    del translator.translate
    assert calls == [text.sources[:1], text.sources[2:3]] and both[:1] == first
    for row, i in zip(both, (0, 2)):
        assert (row["source"], row["reference"]) == (
            text.sources[i],
            text.references[i],
        )
        assert row["translation"] == translate([text.sources[i]])[0][0].text
        chrf = sacrebleu.sentence_chrf(row["translation"], [row["reference"]]).score
        assert abs(row["chrf"] - chrf) < 0.01


def test_training_pairs_are_those_of_a_search_in_the_text(trained, digits, monkeypatch):
    vocabularies = load_vocabularies(trained)
    lines = corpora.read_lines(os.path.join(digits, "train.de"))
    references = corpora.read_lines(os.path.join(digits, "train.en"))
    for chunk in (1 << 20, 100):  # pieces that are read at once
        monkeypatch.setattr(batches, "READ_IDS", chunk)
        pairs = open_training_pairs(digits, trained, vocabularies)
        found = pairs.find("7 3 5, nothing")
        assert found["total"] == len(lines)
        counts = {x["word"]: x["count"] for x in found["words"]}
        for word in "735":
            assert counts[word] == sum(word in line.split() for line in lines)
        assert counts.get("nothing", 0) == 0
        in_order = [x["count"] for x in found["words"]]
        assert in_order == sorted(in_order)
        assert len(found["pairs"]) == 3
        for pair in found["pairs"]:
            assert pair["target"] == references[lines.index(pair["source"])]
            assert {*pair["shared"]} == {"7", "3", "5"}
        assert found["phrases"] == find_phrases(lines, "7 3 5".split())
        assert pairs.find("7 , 3")["phrases"] == []  # another sign than in train
    assert open_training_pairs("nowhere", trained, vocabularies) is None


def find_phrases(lines, words):
    """Find the longest phrases by a search in the text."""
    phrases = []
    end = 0
    for i in range(len(words)):
        for j in range(len(words), max(end, i + 1), -1):
            phrase = " ".join(words[i:j])
            count = sum(f" {phrase} " in f" {line} " for line in lines)
            if count:
                phrases.append({"phrase": phrase, "count": count})
                end = j
                break
    return phrases


@needs_node
def test_chrf_in_the_page_is_that_of_sacrebleu():
    pairs = [("the cat", "the cat sat"), ("a b", "a b"), ("x", "yz"), ("", "a")]
    pairs += [("Ein Haus 🐕 am See", "ein Haus am  See 🐕"), ("aaaa", "aaaaaaa")]
    scores = run_node("return input.map((pair) => chrf(...pair));", pairs, ["chrf.js"])
    for score, (translation, reference) in zip(scores, pairs):
        expected = sacrebleu.sentence_chrf(translation, [reference]).score
        assert score == pytest.approx(expected, abs=1e-6)


@needs_node
@pytest.mark.parametrize("changes", [{"beam_size": 3}, {"beam_size": 1}])
def test_the_model_in_the_page_explains_as_the_server_does(trained, changes):
    with open_translator(trained, changes) as translator:
        inspection = inspect_line(translator, LINE)
        targets = [translation.text for translation in inspection.n_best]
        targets += ["3 2 1", "3 2 ? 1", "9", "1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7 8 9", ""]
        targets += inspection.best_ids
        nodes = inspection.nodes
        targets += [path_ids(nodes, i)[:-1] for i in range(len(nodes))]
        results = [
            why_not.explanation_to_json(explain_line(translator, LINE, target))
            for target in targets
        ]
    kinds = {result["verdict"]["kind"] for result in results}
    assert "best" in kinds and len(kinds) > 1  # the others depend on the model
    data = {
        "weights": encode_base64(export(trained, changes=changes)),
        "kernels": read_kernels(),
        "requests": [{"text": LINE, "target": target} for target in targets],
    }
    explain = "return input.requests.map((request) => engine.explain(request));"
    for actual, expected in zip(run_node(MAKE_ENGINE + explain, data), results):
        assert actual == approximate(json.loads(json.dumps(expected)))


def approximate(value):
    """Let the floats in JSON differ as much as those of two programs do."""
    if isinstance(value, dict):
        return {key: approximate(item) for key, item in value.items()}
    if isinstance(value, list):
        return [approximate(item) for item in value]
    return pytest.approx(value, abs=1e-3) if isinstance(value, float) else value
