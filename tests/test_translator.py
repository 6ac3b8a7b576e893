"""translator.py: a translation depends on its line alone, its score is the model's."""

import concurrent.futures
import dataclasses
import json
import pickle
import shutil

import corpora
import numpy as np
import pytest

import transformer
from transformer import alignment, hparams
from transformer.logdir import manifests
from transformer.logdir.names import checkpoint_path, checkpoint_step
from transformer.runtime import sessions
from transformer.translator import Translation, Translator

pytestmark = pytest.mark.usefixtures("one_thread_only")

CLOSE = {"rtol": 0, "atol": 1e-4}


@pytest.fixture(scope="module")
def make_translator(trained):
    """make_translator(n_best, setting=value, …) → a Translator of the trained model."""
    translators = {}

    def make_translator(n_best=1, **changes):
        key = (n_best, *sorted(changes.items()))
        if key not in translators:
            hp = dataclasses.replace(hparams.load(trained), **changes)
            translators[key] = Translator.for_settings(hp, trained, n_best)
            translators[key].find_and_restore()
        return translators[key]

    yield make_translator
    for translator in translators.values():
        translator.__exit__(None, None, None)


@pytest.fixture(scope="module")
def beam_translator(make_translator):
    return make_translator(4)


@pytest.fixture(scope="module")
def greedy_translator(make_translator):
    return make_translator(search="greedy")


@pytest.fixture(scope="module")
def translations(beam_translator, lines):
    return beam_translator.translate(lines)


def assert_same(actual, expected):
    """The same texts, the same scores to 1e-4."""
    assert [[translation.text for translation in row] for row in actual] == [
        [translation.text for translation in row] for row in expected
    ]
    np.testing.assert_allclose(
        [translation.score for row in actual for translation in row],
        [translation.score for row in expected for translation in row],
        **CLOSE,
    )


# --- A translation depends on its line alone ------------------------------------------


def test_how_many_batches_are_translated_at_once_changes_nothing(
    trained, monkeypatch, lines, translations
):
    monkeypatch.setattr(sessions, "count_cores", lambda: 3)
    hp = dataclasses.replace(hparams.load(trained), decode_batch_size=2)
    with Translator.for_settings(hp, trained, 4) as translator:
        translator.find_and_restore()
        assert_same(translator.translate(lines), translations)


def test_the_other_lines_change_nothing(beam_translator, lines, translations):
    others = ["7", " ".join("0123456789" * 4), "", "# unknown pieces"]
    mixed = [line for pair in zip(lines, others * 5) for line in pair]
    assert_same(beam_translator.translate(mixed)[::2], translations)
    assert_same(beam_translator.translate(lines[3:4]), translations[3:4])


def test_lines_without_a_piece_have_an_empty_translation(
    beam_translator, lines, translations
):
    empty = [Translation("", 0.0)] * 4
    actual = beam_translator.translate(["", lines[0], " \t ", "\u2028", lines[1], ""])
    assert_same([actual[1], actual[4]], translations[:2])
    assert [actual[i] for i in (0, 2, 3, 5)] == [empty] * 4


def test_any_iterable_of_lines_and_a_surrogate_in_one(
    beam_translator, lines, translations
):
    assert_same(beam_translator.translate(line for line in lines), translations)
    assert beam_translator.translate(["\ud800"]) == beam_translator.translate(["?"])
    with pytest.raises(ValueError, match="prefix: expected a list, .* got '123'"):
        beam_translator.translate(lines[:3], prefix="123")
    for wrong in (b"1", None, 5, [1.5], [True, 5], ["1"], [[5], [5, 6]]):
        with pytest.raises(ValueError, match="prefix: expected a text or a list of"):
            beam_translator.translate(lines[:1], prefix=[wrong])
    odd, plain = (
        beam_translator.translate(lines[:1], prefix=[x]) for x in ("\ud800", "?")
    )
    assert odd == plain


def test_no_lines_no_translations(beam_translator):
    assert beam_translator.translate([]) == []
    assert beam_translator.translate(["", ""]) == [[Translation("", 0.0)] * 4] * 2
    assert beam_translator.score([], []) == []


# --- Scores ---------------------------------------------------------------------------


def test_the_score_of_a_translation_is_what_was_reported(
    beam_translator, lines, translations
):
    texts = [row[0].text for row in translations]
    np.testing.assert_allclose(
        beam_translator.score(lines, texts),
        [row[0].score for row in translations],
        **CLOSE,
    )


def test_the_length_penalty_divides_the_score(make_translator, beam_translator, lines):
    targets = ["7", "1 2 3 4 5 6 7", ""]
    penalized = beam_translator.score(lines[:3], targets)
    plain = make_translator(length_penalty=0.0).score(lines[:3], targets)
    lengths = np.array([2, 8, 1])  # with the end; equation 14 of Wu et al. 2016
    np.testing.assert_allclose(
        np.array(penalized) * ((5 + lengths) / 6) ** 0.6, plain, rtol=1e-4
    )


def test_settings_that_change_scores_and_ends(make_translator, lines):
    """Without an end, a translation is cut off at its limit, and marked."""
    changes = {
        "length_penalty": 1.3,
        "length_penalty_form": "power",
        "max_extra_length": 0,
    }
    [whole, cut, penalized] = [
        make_translator(**changes, **more)
        for more in [{}, {"keep_open": True}, {"repetition_penalty": 1e6}]
    ]
    translations = [best for best, *_ in whole.translate(lines)]
    scores = whole.score(lines, [translation.text for translation in translations])
    np.testing.assert_allclose(
        [translation.score for translation in translations], scores, rtol=1e-4
    )
    limits = [len(ids) for ids in whole.encode(lines)]
    lengths = [len(best.pieces) for best, *_ in whole.translate(lines)]
    open_lengths = [len(best.pieces) for best, *_ in cut.translate(lines)]
    assert all(length <= limit for length, limit in zip(lengths, limits))
    is_open = [length == limit + 1 for length, limit in zip(open_lengths, limits)]
    assert any(is_open)
    assert is_open == [best.is_truncated for best, *_ in cut.translate(lines)]
    for [best, *_] in penalized.translate(lines):
        assert len(set(best.pieces)) == len(best.pieces)


def test_no_model_is_refused():
    with pytest.raises(ValueError, match="no log directory: expected one or more"):
        Translator([])


def test_unequal_numbers_of_lines_cannot_be_scored(beam_translator):
    with pytest.raises(ValueError) as error:
        beam_translator.score(["1 2", "3"], ["2 1"])
    with pytest.raises(ValueError, match="expected a list"):
        beam_translator.score("1 2", "2 1")
    assert beam_translator.score(["", " "], ["", "2 1"]) == [0.0, float("-inf")]
    assert "expected 2 target lines, one for each source line, got 1" in str(
        error.value
    )


# --- Searches -------------------------------------------------------------------------


def test_n_best_are_different_and_come_best_first(translations):
    for row in translations:
        scores = [translation.score for translation in row]
        assert len({translation.pieces for translation in row}) == len(row) == 4
        assert scores == sorted(scores, reverse=True)


def test_samples_differ_and_have_scores_below_0(make_translator, lines):
    sampler = make_translator(search="sample")
    first, second = (sampler.translate(lines) for _ in range(2))
    assert first != second
    for actual in (first, second):
        assert max(best.score for (best,) in actual) < 0


def test_the_seed_decides_the_samples(trained, lines):
    samples = []
    for seed in (2, 2, 3):
        with Translator(trained, search="sample", seed=seed) as translator:
            samples.append(translator.translate(lines))
    assert samples[0] == samples[1] != samples[2]


def test_a_sample_depends_on_the_seed_and_the_number_of_its_line(
    make_translator, lines
):
    """Not on the batch: each line by itself is drawn as among all lines."""
    sampler = make_translator(search="sample")
    sampler.find_and_restore()
    together = sampler.translate(lines)
    in_pairs = make_translator(search="sample", decode_batch_size=2)
    assert_same(in_pairs.translate(lines), together)
    sampler.find_and_restore()  # begins again
    assert_same([sampler.translate([line])[0] for line in lines], together)


def test_a_translation_has_at_most_the_extra_length(make_translator, lines):
    short = make_translator(max_extra_length=0).translate(lines)
    for line, row in zip(lines, short):
        assert len(row[0].text.split()) <= len(line.split())


# --- Open and close -------------------------------------------------------------------


def test_find_and_restore_loads_the_best_checkpoint_and_restore_the_one_named(
    make_translator, trained, lines, translations
):
    translator = make_translator(4)
    best = manifests.find_checkpoint(trained, "best")
    assert translator.find_and_restore() == best
    steps = [s for s in manifests.list_steps(trained) if s != checkpoint_step(best)]
    other = checkpoint_path(trained, steps[0])
    translator.restore(other)
    assert translator.checkpoints == [other]
    assert translator.translate(lines) != translations
    translator.find_and_restore()
    assert_same(translator.translate(lines), translations)


def test_the_package_has_it_under_its_own_name():
    assert transformer.Translator is Translator
    with pytest.raises(AttributeError, match="'transformer' .* 'Translater'"):
        transformer.Translater  # noqa: B018 (its name alone)


def test_the_end_of_the_with_statement_closes_the_session(trained, lines):
    with Translator.for_settings(hparams.load(trained), trained) as translator:
        translator.find_and_restore()
        assert len(translator.translate(lines[:2])) == 2
    with pytest.raises(RuntimeError):
        translator.translate(lines[:2])


# --- Three lines of Python ------------------------------------------------------------


def test_a_log_directory_is_enough(make_translator, trained, lines):
    with Translator(trained) as translator:
        assert_same(translator.translate(lines), make_translator().translate(lines))
        assert translator.checkpoints == [manifests.find_checkpoint(trained, "best")]
    with Translator(trained, checkpoint="newest") as translator:
        assert translator.checkpoints == [manifests.find_checkpoint(trained, "newest")]


def test_settings_of_the_search_are_overruled_by_keyword(
    greedy_translator, trained, lines
):
    with Translator(trained, beam_size=1, length_penalty=0) as translator:
        assert translator.hp.length_penalty == 0.0
        actual = translator.translate(lines)
    assert [row[0].text for row in actual] == [
        row[0].text for row in greedy_translator.translate(lines)
    ]


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("bem_size", 1, "unknown search setting bem_size; did you mean beam_"),
        ("d_model", 64, "unknown search setting d_model"),
        ("beam_size", "1", "Translator: beam_size: expected int, got '1'"),
        ("beam_size", 0, "beam_size"),
    ],
)
def test_what_is_no_setting_of_the_search_is_refused(trained, name, value, message):
    with pytest.raises(ValueError) as error:
        Translator(trained, **{name: value})
    assert message in str(error.value)


def test_settings_are_not_a_log_directory(trained):
    with pytest.raises(ValueError, match=r"write Translator.for_settings\(hp, log"):
        Translator(hparams.load(trained), trained)


@pytest.mark.parametrize("lines", ["Ein Hund.", ["Ein Hund.", 1], [["Ein Hund."]]])
def test_what_is_no_list_of_strings_is_refused(greedy_translator, lines):
    with pytest.raises(ValueError, match="lines: expected a list of strings, got "):
        greedy_translator.translate(lines)


def test_several_log_directories_translate_together(make_translator, trained, lines):
    """A model and itself: the mean of equal probabilities."""
    with Translator([trained, trained]) as translator:
        assert_same(translator.translate(lines), make_translator().translate(lines))


def test_a_translation_has_its_pieces_and_the_words_that_correspond(
    beam_translator, lines
):
    translations = beam_translator.translate([*lines, ""], alignments=True)
    assert translations.pop() == [Translation("", 0.0, (), ())] * 4
    head = alignment.default_head(beam_translator.hp.decoder_blocks)
    for place in range(4):
        texts = [row[place].text for row in translations]
        expected = beam_translator.align(lines, texts, [head])
        for i, row in enumerate(translations):
            actual = row[place]
            assert "".join(actual.pieces).replace("▁", " ").strip() == actual.text
            assert set(actual.alignment) == expected[i][0]
            assert [target for _, target in actual.alignment] == list(
                range(len(actual.text.split()))
            )


def test_threads_share_a_translator(beam_translator, lines, translations):
    parts = [lines[start::5] for start in range(5)]
    with concurrent.futures.ThreadPoolExecutor(5) as threads:
        actual = list(threads.map(beam_translator.translate, parts))
    for start, rows in enumerate(actual):
        assert_same(rows, translations[start::5])


# Each thread has a Translator of its own, beside graphs of the program.
PROGRAM = """
import concurrent.futures, json, os, signal, sys, warnings
import numpy as np
import tensorflow.compat.v1 as tf

eager, logdir, *lines = sys.argv[1:]
(tf.enable_eager_execution if eager == "True" else tf.disable_eager_execution)()

def state():
    v2 = getattr(tf.compat, "v2", tf)
    enabled = getattr(v2.config.experimental, "is_op_determinism_enabled", bool)
    return {
        "eager": tf.executing_eagerly(),
        "loops": tf.control_flow_v2_enabled(),
        "variables": tf.resource_variables_enabled(),
        "verbosity": tf.logging.get_verbosity(),
        "threads": tf.config.threading.get_inter_op_parallelism_threads(),
        "determinism": enabled(),
        "random": np.random.get_state()[1].tolist(),
        "warnings": [str(each) for each in warnings.filters],
        "signals": str(signal.getsignal(signal.SIGINT)),
        "environment": {
            name: value
            for name, value in os.environ.items()
            if name != "ONEDNN_MAX_CPU_ISA"  # avoid_broken_amx
        },
        "ops": 0 if eager == "True" else len(tf.get_default_graph().get_operations()),
    }

if eager != "True":
    tf.placeholder(tf.int32, name="source")
before = state()
from transformer import Translator

def translated(settings):
    with Translator(logdir, **settings) as translator:
        return translator.translate(lines)

with concurrent.futures.ThreadPoolExecutor(2) as threads:
    found = list(threads.map(translated, [{}, {"search": "greedy"}]))
with Translator(logdir) as first, Translator(logdir) as second:
    if eager == "True":
        assert (tf.ones([2]) + 1).numpy().tolist() == [2, 2]
    with tf.Graph().as_default(), tf.Session() as session:
        found.append(first.translate(lines))
        assert session.run(tf.ones([])) == 1
        found.append(second.translate(lines))
changed = {name for name, value in state().items() if value != before[name]}
print(json.dumps([sorted(changed), found]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("eager", [True, False])
def test_it_works_in_any_program_and_changes_nothing_there(
    make_translator, greedy_translator, trained, tmp_path, lines, eager
):
    """The model was trained with --deterministic, which holds for a process."""
    logdir = shutil.copytree(trained, str(tmp_path / "logs"))
    hp = dataclasses.replace(hparams.load(trained), deterministic=True)
    hparams.save(hp, logdir)
    lines = lines[:5]
    done = corpora.run_python("-c", PROGRAM, eager, logdir, *lines)
    assert done.returncode == 0, done.stderr
    changed, actual = json.loads(done.stdout.splitlines()[-1])
    assert changed == []
    by_beam = make_translator().translate(lines)
    expected = [by_beam, greedy_translator.translate(lines), by_beam, by_beam]
    for rows, expected_rows in zip(actual, expected):
        answers = [[Translation(*fields[:2]) for fields in row] for row in rows]
        assert_same(answers, expected_rows)


def test_a_fork_is_told_that_it_cannot_translate(beam_translator, lines, translations):
    """As with multiprocessing's start method fork; it would wait forever."""
    checkpoint = beam_translator.checkpoints[0]
    for work, argument in (
        (beam_translator.translate, lines),
        (beam_translator.restore, checkpoint),
    ):
        message = corpora.call_in_fork(work, argument)
        assert "expected a model that process" in message and "spawn" in message
    assert corpora.call_in_fork(beam_translator.close) == ""
    with pytest.raises(ValueError, match="open one in each process"):
        pickle.dumps(beam_translator.translate)  # as for a process that is spawned
    assert_same(beam_translator.translate(lines), translations)


def test_a_translation_as_long_as_its_limit_is_marked_and_counted(trained):
    lines = ["1 2 3 4", "", "5 6 7 8 9 1", "2 3"]
    changes = {"search": "greedy", "max_extra_length": 0}
    with Translator(trained, **changes) as translator:
        lengths = [len(ids) for ids in translator.encode(lines)]
        translations = [best for best, *_ in translator.translate(lines)]
        begun = translator.translate(["2 3"], prefix=["3 2 1 4 5 6 7"])[0][0]
        counts = dict(translator.unusual_lines)
    at_limit = [
        0 < length == len(translation.pieces)
        for length, translation in zip(lengths, translations)
    ]
    assert [translation.is_truncated for translation in translations] == at_limit
    assert begun.is_truncated and begun.text == "3 2 1 4 5 6 7"
    expected = sum(at_limit) + 1
    assert expected > 1
    assert counts["with a translation cut at its length limit"] == expected
    with Translator(trained, search="greedy") as translator:
        assert not translator.translate(lines[:1])[0][0].is_truncated
        assert (
            translator.unusual_lines["with a translation cut at its length limit"] == 0
        )
