"""translator.py: a translation depends on its line alone, its score is the model's."""

import dataclasses
import os

import corpora
import numpy as np
import pytest

import hparams
import transformer
from transformer.decoding import SEARCHES, beam
from transformer.runtime import checkpoints, sessions
from transformer.translator import Translation, Translator

pytestmark = pytest.mark.usefixtures("one_thread_only")

CLOSE = {"rtol": 0, "atol": 1e-4}


@pytest.fixture(scope="module")
def opened(trained):
    """opened(n_best, setting=value, …) → a Translator of the trained model."""
    translators = {}

    def opened(n_best=1, **changes):
        key = (n_best, *sorted(changes.items()))
        if key not in translators:
            hp = dataclasses.replace(hparams.load(trained), **changes)
            translators[key] = Translator(hp, trained, n_best)
            translators[key].restore()
        return translators[key]

    yield opened
    for translator in translators.values():
        translator.__exit__(None, None, None)


@pytest.fixture(scope="module")
def by_beam(opened):
    return opened(4)


@pytest.fixture(scope="module")
def one_by_one(opened):
    return opened(4, decode_batch_size=1)


@pytest.fixture(scope="module")
def greedily(opened):
    return opened(search="greedy")


@pytest.fixture(scope="module")
def lines(digits):
    return corpora.read_lines(os.path.join(digits, "test.de"))


@pytest.fixture(scope="module")
def translations(by_beam, lines):
    return by_beam.translate(lines)


def assert_same(found, wanted):
    """The same texts, the same scores to 1e-4."""
    assert [[each.text for each in row] for row in found] == [
        [each.text for each in row] for row in wanted
    ]
    np.testing.assert_allclose(
        [each.score for row in found for each in row],
        [each.score for row in wanted for each in row],
        **CLOSE,
    )


# --- A translation depends on its line alone ------------------------------------------


def test_the_model_has_something_to_say(translations):
    assert len({row[0].text for row in translations}) > 15


def test_batch_size_changes_nothing(one_by_one, lines, translations):
    assert_same(one_by_one.translate(lines), translations)


@pytest.mark.parametrize("at_once", [1, 3])
def test_how_many_batches_are_translated_at_once_changes_nothing(
    trained, monkeypatch, lines, translations, at_once
):
    monkeypatch.setattr(sessions, "cores", lambda: at_once)
    hp = dataclasses.replace(hparams.load(trained), decode_batch_size=2)
    with Translator(hp, trained, 4) as translator:
        translator.restore()
        assert_same(translator.translate(lines), translations)


def test_order_changes_nothing(by_beam, lines, translations):
    assert_same(by_beam.translate(lines[::-1]), translations[::-1])


def test_the_other_lines_change_nothing(by_beam, lines, translations):
    others = ["7", " ".join("0123456789" * 4), "", "# unknown pieces"]
    mixed = [line for pair in zip(lines, others * 5) for line in pair]
    assert_same(by_beam.translate(mixed)[::2], translations)
    assert_same(by_beam.translate(lines[3:4]), translations[3:4])


def test_a_line_that_comes_twice_is_translated_twice(by_beam, lines, translations):
    assert_same(by_beam.translate(lines[:3] * 2), translations[:3] * 2)


def test_lines_without_a_piece_have_an_empty_translation(by_beam, lines, translations):
    empty = [Translation("", 0.0)] * 4
    found = by_beam.translate(["", lines[0], " \t ", "\u2028", lines[1], ""])
    assert_same([found[1], found[4]], translations[:2])
    assert [found[i] for i in (0, 2, 3, 5)] == [empty] * 4


def test_no_lines_no_translations(by_beam):
    assert by_beam.translate([]) == []
    assert by_beam.translate(["", ""]) == [[Translation("", 0.0)] * 4] * 2
    assert by_beam.score([], []) == []


def test_a_very_long_line_is_translated(greedily):
    line = " ".join(str(number % 10) for number in range(500))
    [[best]] = greedily.translate([line])
    assert len(best.text.split()) <= 505
    assert np.isfinite(best.score)


# --- Scores ---------------------------------------------------------------------------


def test_the_score_of_a_translation_is_what_was_reported(by_beam, lines, translations):
    texts = [row[0].text for row in translations]
    np.testing.assert_allclose(
        by_beam.score(lines, texts), [row[0].score for row in translations], **CLOSE
    )


def test_the_score_of_greedy_search_is_what_was_reported(greedily, lines):
    found = greedily.translate(lines)
    np.testing.assert_allclose(
        greedily.score(lines, [best.text for (best,) in found]),
        [best.score for (best,) in found],
        **CLOSE,
    )


def test_the_length_penalty_divides_the_score(opened, by_beam, lines):
    targets = ["7", "1 2 3 4 5 6 7", ""]
    penalized = by_beam.score(lines[:3], targets)
    plain = opened(length_penalty=0.0).score(lines[:3], targets)
    lengths = np.array([2, 8, 1])  # with the end; equation 14 of Wu et al. 2016
    np.testing.assert_allclose(
        np.array(penalized) * ((5 + lengths) / 6) ** 0.6, plain, rtol=1e-4
    )


def test_the_score_of_a_pair_depends_on_the_pair_alone(one_by_one, by_beam, lines):
    targets = [" ".join(reversed(line.split())) for line in lines]
    np.testing.assert_allclose(
        one_by_one.score(lines, targets), by_beam.score(lines, targets), **CLOSE
    )
    np.testing.assert_allclose(
        by_beam.score(lines[::-1], targets[::-1]),
        by_beam.score(lines, targets)[::-1],
        **CLOSE,
    )


def test_a_score_is_below_zero_and_right_targets_score_better(by_beam, lines):
    right = [" ".join(reversed(line.split())) for line in lines]
    scores = np.array(by_beam.score(lines, right))
    assert (scores < 0).all()
    assert scores.mean() > np.mean(by_beam.score(lines, right[1:] + right[:1]))


def test_unequal_numbers_of_lines_cannot_be_scored(by_beam):
    with pytest.raises(ValueError) as error:
        by_beam.score(["1 2", "3"], ["2 1"])
    assert "found 2 source and 1 target lines" in str(error.value)


# --- Searches -------------------------------------------------------------------------


def test_n_best_are_different_and_come_best_first(translations):
    for row in translations:
        scores = [each.score for each in row]
        assert len(row) == 4
        assert scores == sorted(scores, reverse=True)
        assert len(set(scores)) > 1


def test_the_first_of_the_n_best_is_the_best(opened, lines, translations):
    assert_same(opened(1).translate(lines), [row[:1] for row in translations])


def test_a_beam_of_one_is_greedy(opened, greedily, lines):
    assert_same(opened(beam_size=1).translate(lines), greedily.translate(lines))


def test_a_beam_finds_better_scores_than_greedy_on_average(
    greedily, lines, translations
):
    greedy = np.mean([best.score for (best,) in greedily.translate(lines)])
    assert np.mean([row[0].score for row in translations]) >= greedy - 1e-4


def test_samples_differ_and_their_scores_are_the_models(opened, lines):
    sampler = opened(search="sample")
    first, second = (sampler.translate(lines) for _ in range(2))
    assert first != second
    for found in (first, second):
        assert max(best.score for (best,) in found) < 0


def test_a_translation_has_at_most_the_extra_length(opened, lines):
    short = opened(max_extra_length=0).translate(lines)
    for line, row in zip(lines, short):
        assert len(row[0].text.split()) <= len(line.split())


def test_more_translations_than_the_beam_holds_are_refused(trained):
    with pytest.raises(ValueError) as error:
        Translator(hparams.load(trained), trained, 5)
    assert "n_best: found 5" in str(error.value)


@pytest.mark.parametrize("search", ["greedy", "sample"])
def test_every_line_has_n_best_translations_or_n_best_is_refused(trained, search):
    hp = dataclasses.replace(hparams.load(trained), search=search)
    try:
        translator = Translator(hp, trained, 2)
    except ValueError:
        return
    with translator:
        translator.restore()
        assert [len(row) for row in translator.translate(["1 2 3", ""])] == [2, 2]


def test_a_search_that_somebody_adds_gets_its_hypotheses(
    opened, trained, monkeypatch, lines
):
    """It is a function and a line in SEARCHES; nothing else names it."""
    monkeypatch.setitem(SEARCHES, "mine", beam)
    mine, known = (opened(4, search=search) for search in ("mine", "beam"))
    assert_same(mine.translate(lines), known.translate(lines))


# --- Open and close -------------------------------------------------------------------


def test_restore_returns_the_best_checkpoint_or_loads_the_one_named(
    opened, trained, lines, translations
):
    translator = opened(4)
    best = checkpoints.find(trained, "best")
    assert translator.restore() == best
    steps = [s for s in checkpoints.steps(trained) if s != checkpoints.step_of(best)]
    other = checkpoints.path_of(trained, steps[0])
    assert translator.restore(other) == other
    assert translator.translate(lines) != translations
    translator.restore()
    assert_same(translator.translate(lines), translations)


def test_the_package_has_it_under_its_own_name():
    assert transformer.Translator is Translator
    with pytest.raises(AttributeError, match="'transformer' .* 'Translater'"):
        transformer.Translater  # noqa: B018 (its name alone)


def test_the_end_of_the_with_statement_closes_the_session(trained, lines):
    with Translator(hparams.load(trained), trained) as translator:
        translator.restore()
        assert len(translator.translate(lines[:2])) == 2
    with pytest.raises(RuntimeError):
        translator.translate(lines[:2])
