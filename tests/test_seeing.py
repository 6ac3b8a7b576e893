"""viewer/: the page shows the numbers that the model and the search computed."""

import base64
import dataclasses
import json
import os
import re

import corpora
import numpy as np
import originals
import pytest

from transformer import hparams
from transformer.logdir import manifests
from transformer.text import words
from transformer.text.public_corpora import CORPORA, DOMAINS
from transformer.text.vocabulary import (
    UNK,
    SubwordVocabulary,
    Vocabulary,
    WordVocabulary,
)
from transformer.translator import Translator
from transformer.viewer import roles
from transformer.viewer.inspection import (
    STEPS,
    inspect_line,
    leave_out_each,
    list_choices,
    to_json,
)
from transformer.viewer.models import describe_checkpoint
from transformer.viewer.searches import RecentTranslator
from transformer.viewer.tree import CHOSEN, ENDED, OPEN, path_ids, search_tree

pytestmark = pytest.mark.usefixtures("one_thread_only")


@pytest.fixture(scope="module")
def translator(trained):
    with Translator.for_settings(
        hparams.load(trained), trained, 4, keep_history=True
    ) as opened:
        opened.find_and_restore()
        yield opened


@pytest.fixture(scope="module")
def inspection(translator, lines):
    return inspect_line(translator, lines[0], padding=2)


def test_rows_of_attention_sum_to_one_and_masked_cells_are_zero(inspection):
    for kind, weights in inspection.attention.items():
        allowed = inspection.allowed[kind]
        is_query = allowed.any(-1)
        np.testing.assert_allclose(weights[:, :, is_query].sum(-1), 1, atol=1e-5)
        assert (weights[:, :, ~allowed & is_query[:, None]] == 0).all()
    assert not np.triu(inspection.attention["decoder"], 1).any()
    assert inspection.source.words[-3:] == ["⟨end⟩", "⟨pad⟩", "⟨pad⟩"]


def test_the_tokens_are_those_of_the_line_and_its_translation(inspection, lines):
    assert " ".join(inspection.source.words[:-3]) == lines[0]
    assert " ".join(inspection.target.words[:-1]) == inspection.n_best[0].text
    assert inspection.target_in.ids[1:] == inspection.target.ids[:-1]


@pytest.mark.parametrize(
    "kind, write, listed, line, expected",
    [
        # Each word of a word list is a piece.
        (
            WordVocabulary,
            originals.word_list,
            ["der", "Hund"],
            "der graue Hund",
            ["der", "⟨unk⟩", "Hund", "⟨end⟩", "⟨pad⟩"],
        ),
        # A subtoken of tensor2tensor ends a word by "_"; two spaces are a word.
        (
            SubwordVocabulary,
            originals.subword_list,
            ["der_", "Hun", "de", " "],
            "der Hunde  der",
            ["der", "Hunde", "  ", "der", "⟨end⟩", "⟨pad⟩"],
        ),
    ],
)
def test_other_vocabularies_make_words_too(
    tmp_path, kind, write, listed, line, expected
):
    vocabulary = kind(write(tmp_path / "listed", 40, listed))
    tokens = words.split_into_words(
        vocabulary, [*vocabulary.encode(line), vocabulary.eos, 0]
    )
    assert tokens.words == expected
    joined = ["".join(tokens.pieces[begin:end]) for begin, end in tokens.spans]
    assert [word.rstrip("_") for word in joined] == expected
    # They cannot say what the text of an unknown word was.
    assert words.restore_unknown_words(tokens, vocabulary, line) == tokens


def test_words_of_a_line_that_was_cut_stay_as_they_are(digits):
    vocabulary = Vocabulary(os.path.join(digits, "spm.model"))
    line = "1 2 ? 4"
    tokens = words.split_into_words(
        vocabulary, [*vocabulary.encode(line), vocabulary.eos]
    )
    whole = words.restore_unknown_words(tokens, vocabulary, line)
    assert whole.words == ["1", "2", "?", "4", "⟨end⟩"]
    assert words.restore_unknown_words(tokens, vocabulary, line + " 5") == tokens
    assert tokens.words != whole.words


def test_words_sum_keys_and_average_queries():
    weights = np.array([[0.5, 0.2, 0.3], [0.1, 0.1, 0.8], [0.0, 1.0, 0.0]])
    attention = words.word_attention(weights, [(0, 2), (2, 3)], [(0, 1), (1, 3)])
    np.testing.assert_allclose(attention, [[0.3, 0.7], [0.0, 1.0]])


@pytest.mark.parametrize(
    "offset, text", [(-1, "previous"), (0, "its own"), (1, "next")]
)
def test_a_head_that_looks_at_one_place_gets_this_role(offset, text):
    place = np.clip(np.arange(6) + offset, 0, 5)
    weights = 0.9 * np.eye(6)[place] + 0.1 / 6
    [[role]] = roles.describe_heads(
        weights[None, None], np.ones([6, 6], bool), "encoder"
    )
    assert text in role.text and role.share == pytest.approx(0.9 + 0.1 / 6)


def test_a_head_that_looks_everywhere_has_the_greatest_entropy():
    weights = np.full([1, 1, 4, 8], 1 / 8)
    [[role]] = roles.describe_heads(weights, np.ones([4, 8], bool), "cross")
    assert (role.text, role.entropy, role.max_entropy) == (
        "looks everywhere equally",
        3,
        3,
    )


def test_a_translation_begins_with_its_prefix_and_has_the_models_score(
    translator, lines
):
    prefixes = ["7", "", "1 2", "3 4 5"]
    n_bests = translator.translate(lines[:4], prefixes)
    for n_best, prefix in zip(n_bests, prefixes):
        assert all(best.text.startswith(prefix) for best in n_best)
        assert len({best.text for best in n_best}) == 4
    [free] = translator.translate(lines[1:2])
    assert [best.text for best in n_bests[1]] == [best.text for best in free]
    texts = [n_best[0].text for n_best in n_bests]
    np.testing.assert_allclose(
        translator.score(lines[:4], texts),
        [n_best[0].score for n_best in n_bests],
        atol=1e-4,
    )


@pytest.mark.parametrize("search", ["greedy", "sample"])
def test_a_search_of_one_hypothesis_keeps_the_prefix(trained, search, lines):
    hp = dataclasses.replace(hparams.load(trained), search=search)
    with Translator.for_settings(hp, trained, keep_history=True) as translator:
        translator.find_and_restore()
        [[best], _] = translator.translate(lines[:2], ["7 7", ""])
        assert best.text.startswith("7 7")
        inspection = inspect_line(translator, lines[0])
        assert (
            path_ids(inspection.nodes, len(inspection.nodes) - 1)
            == inspection.target.ids
        )
        *before, end = inspection.nodes
        assert {(node.fate, node.rank) for node in before} == {(OPEN, -1)}
        assert (end.fate, end.rank) == (ENDED, 0)
        assert end.score == pytest.approx(inspection.n_best[0].score, abs=1e-5)
        other = inspect_line(
            translator, lines[0], target=inspection.target.ids[:-2]
        ).nodes[-1]
        assert (other.fate, other.rank) == (CHOSEN, -1)


@pytest.mark.parametrize("prefix", [[["x"]], [[3]], [[10**6]], [[-1]], ["1", "2"]])
def test_invalid_prefixes_are_refused(translator, prefix):
    with pytest.raises((ValueError, TypeError)):
        translator.translate(["1 2"], prefix)


def test_the_tree_ends_in_the_n_best(inspection, translator):
    ended = {
        node.rank: index
        for index, node in enumerate(inspection.nodes)
        if node.rank >= 0
    }
    assert sorted(ended) == list(range(len(inspection.n_best)))
    for rank, index in ended.items():
        node, best = inspection.nodes[index], inspection.n_best[rank]
        ids = path_ids(inspection.nodes, index)
        assert node.fate == ENDED and ids[:-1] == inspection.best_ids[rank]
        assert translator.vocabularies.target.decode(ids) == best.text
        assert node.score == pytest.approx(best.score, abs=1e-5)


def test_translations_that_are_kept_open_are_in_the_tree(trained, lines):
    hp = hparams.load(trained, {"keep_open": True, "max_extra_length": 0})
    with Translator.for_settings(hp, trained, 4, keep_history=True) as translator:
        translator.find_and_restore()
        inspected = [inspect_line(translator, line) for line in lines]
        eos = translator.vocabularies.target.eos
    open_paths = 0
    for inspection in inspected:
        ranks = [node.rank for node in inspection.nodes if node.fate == ENDED]
        assert sorted(ranks) == list(range(len(inspection.n_best)))
        open_paths += sum(n.rank >= 0 and n.piece != eos for n in inspection.nodes)
    assert open_paths


def test_the_tree_of_a_line_of_two_is_that_of_the_line_alone(translator):
    sources = translator.encode(["1 2 3 4 5 6 7 8 9", "3"])
    trees = []
    for chosen in (sources[1:], sources):
        [(indices, hypotheses)] = translator.search(chosen)
        line = list(indices).index(len(chosen) - 1)
        trees.append(search_tree(hypotheses, line, translator.vocabularies.target.eos))
    for node, other in zip(*trees):
        assert node == other._replace(log_prob=node.log_prob, score=node.score)
        np.testing.assert_allclose(node[3:5], other[3:5], atol=1e-4)
    assert len(trees[0]) == len(trees[1])


def test_the_tree_has_the_candidates_of_each_step(inspection, translator):
    hp, by_step = translator.hp, {}
    for node in inspection.nodes:
        by_step.setdefault(node.step, []).append(node)
        before = inspection.nodes[node.parent] if node.parent >= 0 else None
        assert node.step == (before.step + 1 if before else 1)
        assert before is None or before.log_prob >= node.log_prob
        assert before is None or before.fate == "open"
    for nodes in by_step.values():
        assert len(nodes) <= 2 * hp.beam_size
        assert sum(node.fate == "open" for node in nodes) <= hp.beam_size
        worst = min((n.log_prob for n in nodes if n.fate == "open"), default=0)
        assert all(n.log_prob <= worst for n in nodes if n.fate == "cut")
    alpha = hp.length_penalty
    for node in inspection.nodes[::7]:
        expected = node.log_prob / ((5 + node.step) / 6) ** alpha
        assert node.score == pytest.approx(expected, rel=1e-5)


def test_probabilities_are_those_of_the_score(inspection, translator, lines):
    [score] = translator.score(lines[:1], [inspection.n_best[0].text])
    length = len(inspection.target.ids)
    factor = ((5 + length) / 6) ** translator.hp.length_penalty
    assert inspection.log_probs.sum() / factor == pytest.approx(score, abs=1e-4)
    for piece, log_prob, likely in zip(
        inspection.target.ids, inspection.log_probs, inspection.alternatives
    ):
        chances = [p for _, _, p in likely]
        assert len(likely) == 5 and chances == sorted(chances, reverse=True)
        probabilities = {i: p for i, _, p in likely}
        assert probabilities.get(piece, np.exp(log_prob)) == pytest.approx(
            np.exp(log_prob)
        )


def test_leaving_a_word_out_changes_what_unk_changes(inspection, translator, lines):
    [source] = translator.encode(lines[:1])
    target = inspection.target.ids[:-1]
    assert len(inspection.without) == len(lines[0].split())
    begin, end = inspection.source.spans[1]
    replaced = [*source[:begin], *[UNK] * (end - begin), *source[end:]]
    log_probs = translator.inspect(
        [replaced], [target], lambda inside: inside.target_log_probs
    )[0]
    np.testing.assert_allclose(
        inspection.without[1], log_probs - inspection.log_probs, atol=1e-4
    )


def test_another_translation_can_be_inspected(inspection, translator, lines):
    other = inspect_line(translator, lines[0], target=inspection.best_ids[2])
    assert other.target.ids[:-1] == inspection.best_ids[2]
    for name in ("prefix", "target"):
        with pytest.raises(ValueError, match=f"^{name}: expected ids .* got 0"):
            inspect_line(translator, lines[0], **{name: [0]})
    assert other.n_best[0].text == inspection.n_best[0].text
    with pytest.raises(ValueError, match="without pieces"):
        inspect_line(translator, "  ")


def test_json_has_the_weights(inspection):
    pack = json.loads(json.dumps(to_json(inspection)))
    for kind, weights in inspection.attention.items():
        stored = pack["attention"][kind]
        steps = np.frombuffer(base64.b64decode(stored["data"]), "<u2")
        decoded = steps.reshape(stored["shape"]) / STEPS
        np.testing.assert_allclose(decoded, weights, atol=1 / STEPS)
    assert pack["target"]["words"] == inspection.target.words


def test_the_command_writes_one_small_file(trained, lines, tmp_path, capsys):
    path = tmp_path / "seen.html"
    corpora.run_command("attention", "--logdir", trained, "--html", path, *lines[:2])
    page, printed = (
        path.read_text(encoding="utf-8"),
        capsys.readouterr().out.splitlines(),
    )
    assert len(printed) == 3 and printed[-1] == str(path)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page).group(1))
    assert (
        list(dict.fromkeys(entry["text"] for entry in data["inspections"])) == lines[:2]
    )
    assert data["inspections"][0]["inspection"]["nBest"][0]["text"] == printed[0]
    assert len(page) - len(json.dumps(data)) < 1_000_000


def test_what_was_translated_is_not_searched_again(translator, trained, lines):
    with RecentTranslator.for_settings(
        hparams.load(trained), trained, 4, keep_history=True
    ) as recent:
        recent.find_and_restore()
        n_bests = recent.translate(lines)  # as a batch

        def refuse(*_):
            raise AssertionError("the search was repeated")

        search, recent.search = recent.search, refuse
        actual = inspect_line(recent, lines[0], leave_out=False)
        assert actual.n_best == n_bests[0] and actual.without is None
        eos = recent.vocabularies.target.eos
        for source in recent.encode(lines):
            nodes, alone = (
                search_tree(opened.search_line(source), 0, eos)
                for opened in (recent, translator)
            )
            assert [node[:3] + node[5:] for node in nodes] == [
                node[:3] + node[5:] for node in alone
            ]
            np.testing.assert_allclose(
                [node.score for node in nodes],
                [node.score for node in alone],
                atol=1e-4,
            )
        recent.search = search
        prefix = n_bests[0][-1].text.split()[0]
        inspection = inspect_line(recent, lines[0], prefix, leave_out=False)
        assert inspection.target.words[0] == prefix
        recent.find_and_restore()
        recent.search = refuse
        with pytest.raises(AssertionError, match="repeated"):
            inspect_line(recent, lines[0])


def test_words_are_left_out_alone_as_with_the_rest(translator, inspection, lines):
    target = inspection.target.ids[:-1]
    without = leave_out_each(translator, lines[0], target)
    np.testing.assert_allclose(without, inspection.without, atol=1e-5)


def test_a_model_is_described_by_its_corpus(trained, digits, tmp_path):
    hp, [checkpoint, *_] = hparams.load(trained), manifests.list_candidates(trained)
    facts = describe_checkpoint(hp, checkpoint, True)
    assert facts[1] == "best at sentences like the examples"
    assert len(describe_checkpoint(hp, checkpoint, False)) == len(facts) - 1
    assert set(DOMAINS) == {"sample", *CORPORA}
    for name, domain in DOMAINS.items():
        os.symlink(digits, tmp_path / name)
        hp = dataclasses.replace(hp, data=str(tmp_path / name))
        assert f"best at {domain}" in describe_checkpoint(hp, checkpoint, True)
    hp = dataclasses.replace(hp, data="nowhere")
    assert describe_checkpoint(hp, checkpoint, True) == facts[1:]


def test_the_choices_of_a_word_are_likely_and_whole(translator, lines):
    vocabulary = translator.vocabularies.target
    target = vocabulary.encode("3 " + "12" * 2 + " 7")
    [source] = translator.encode(lines[:1])
    spans = words.split_into_words(vocabulary, target).spans
    assert max(end - begin for begin, end in spans) > 1  # a word of several pieces
    for index, (begin, end) in enumerate(spans):
        choices = list_choices(translator, lines[0], target, index)
        assert 1 < len({choice.word for choice in choices}) == len(choices) <= 6
        probabilities = [choice.probability for choice in choices]
        assert probabilities == sorted(probabilities, reverse=True)
        [own] = [choice for choice in choices if choice.ids == target[:end]]
        assert own.word == words.split_into_words(vocabulary, target).words[index]
        for word, probability, ids, is_end in choices:
            assert ids[:begin] == target[:begin]
            forced = inspect_line(translator, lines[0], target=ids, leave_out=False)
            kept = [*ids, vocabulary.eos] if is_end else ids
            tokens = words.split_into_words(vocabulary, kept)
            assert tokens.words[index] == word or (is_end and not word)
            if ids != target[:end] and not is_end and len(tokens.words) == index + 1:
                # The word is complete: what is likeliest next does not belong to it.
                [(piece, *_), *_] = forced.alternatives[len(ids)]
                longer = words.split_into_words(vocabulary, [*ids, piece])
                assert longer.words[index] == word
            # Its pieces, and any piece that does not continue it.
            last = begin if not word else tokens.spans[index][1]
            log_probs = translator.inspect(
                [source], [kept[:last]], lambda inspection: inspection.log_probs[0, -1]
            )
            ends = [
                piece
                for piece in range(vocabulary.size)
                if piece == vocabulary.eos
                or word
                and vocabulary.pieces([piece])[0].startswith("▁")
                and piece not in vocabulary.forbidden
            ]
            of_end = np.exp(log_probs[ends]).sum()
            expected = np.exp(forced.log_probs[begin:last].sum()) * of_end
            np.testing.assert_allclose(probability, expected, rtol=1e-3)
    with pytest.raises(ValueError, match="expected the index of one of 3 words, got 3"):
        list_choices(translator, lines[0], target, 3)
