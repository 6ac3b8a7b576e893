"""translator.py: models that translate together average their probabilities."""

import dataclasses
import glob
import json
import os
import re
import shutil

import corpora
import numpy as np
import pytest

from transformer import hparams
from transformer.logdir import manifests
from transformer.logdir.names import checkpoint_step
from transformer.translator import Translator

pytestmark = pytest.mark.usefixtures("one_thread_only")


@pytest.fixture(scope="module")
def other(digits, tmp_path_factory):
    """Another model of the same vocabulary: two blocks, another width and dialect."""
    logdir = str(tmp_path_factory.mktemp("logs") / "other")
    sizes = ["--num_blocks", "2", "--d_model", "24", "--seed", "3"]
    rates = ["--schedule", "linear", "--learning_rate", "0.01", "--warmup_steps", "9"]
    steps = ["--max_steps", "30", "--dialect", "tensor2tensor"]
    corpora.run_train(digits, logdir, *sizes, *rates, *steps)
    return logdir


def open_translator(*logdirs, n_best=1):
    """The translator of some log directories, with the best checkpoint of each."""
    models = hparams.load_each(logdirs, {"search": "beam", "max_extra_length": 3})
    translator = Translator.for_settings(*models[0], n_best, other_models=models[1:])
    translator.find_and_restore()
    return translator


def log_probs(translator, sources, targets):
    """float [N, T, V], of every piece at each position of the targets."""
    return translator.inspect(sources, targets, lambda inspection: inspection.log_probs)


def test_probabilities_are_the_mean_of_those_of_the_models(trained, other, lines):
    models = [trained, other, trained]
    with open_translator(trained) as first, open_translator(
        other
    ) as second, open_translator(*models) as ensemble:
        sources = first.encode(lines[:5])
        targets = [source[::-1] for source in sources]
        actual = log_probs(ensemble, sources, targets)
        of_first, of_second = (
            np.exp(log_probs(translator, sources, targets).astype(np.float64))
            for translator in (first, second)
        )
        expected = (2 * of_first + of_second) / 3
        assert np.abs(of_first - of_second).max() > 0.1
        np.testing.assert_allclose(np.exp(actual), expected, atol=1e-5)
        assert first.hp.num_heads != second.hp.num_heads


def test_the_score_of_the_search_is_that_of_the_mean(trained, other, lines):
    """The search, step by step, and the whole target at once."""
    with open_translator(trained, other, n_best=3) as ensemble:
        actual = ensemble.translate(lines)
        for rank in range(3):
            texts = [row[rank].text for row in actual]
            np.testing.assert_allclose(
                ensemble.score(lines, texts),
                [row[rank].score for row in actual],
                atol=1e-4,
            )
    with open_translator(trained) as alone:
        assert [row[0].text for row in actual] != [
            row[0].text for row in alone.translate(lines)
        ]


def test_each_model_has_its_own_checkpoint_and_its_own_attention(trained, other, lines):
    with open_translator(other, trained) as ensemble, open_translator(other) as first:
        for path, logdir in zip(ensemble.checkpoints, (other, trained)):
            assert path == manifests.find_checkpoint(logdir)
        [source] = ensemble.encode(lines[:1])
        weights, expected = (
            translator.inspect([source], [source], lambda seen: seen.weights)
            for translator in (ensemble, first)
        )
        assert set(expected) < set(weights)
        for name in expected:
            np.testing.assert_allclose(weights[name], expected[name], atol=1e-5)
        assert "model_1/encoder/block_0/self_attention" in weights


# --- Refusals -------------------------------------------------------------------------


def with_vocabulary(logdir, folder, symbols, vocab_size):
    """A copy of a log directory whose vocabulary is that of other symbols."""
    splits = corpora.reversed_symbols({"train": 300, "dev": 5}, symbols=symbols)
    text = corpora.write_text(folder / "data", splits)
    corpora.run_command("prepare", "--out", text, "--vocab_size", vocab_size)
    copy = corpora.copy_folder(logdir, folder / "logs")
    shutil.copy(os.path.join(text, "spm.model"), copy)
    size = int(vocab_size)
    sizes = {"source_vocab_size": size, "target_vocab_size": size}
    hparams.save(dataclasses.replace(hparams.load(logdir), **sizes), copy)
    return copy


@pytest.mark.parametrize(
    "symbols, vocab_size",
    [("abcdefghij", corpora.VOCAB_SIZE), ("0123456789", "24")],
    ids=["pieces", "sizes"],
)
def test_models_of_other_vocabularies_are_refused(
    trained, tmp_path, symbols, vocab_size
):
    another = with_vocabulary(trained, tmp_path, symbols, vocab_size)
    expected = f"{another}: expected the vocabulary of {trained}, got another"
    with pytest.raises(ValueError, match=re.escape(expected)):
        open_translator(trained, another)


def test_the_same_pieces_with_other_rules_are_refused(trained, tmp_path):
    another = corpora.copy_folder(trained, tmp_path / "logs")
    with open(os.path.join(another, "spm.model"), "ab") as file:
        file.write(b"\xc0\x0c\x01")  # a field that SentencePiece does not know
    with pytest.raises(ValueError, match="expected the vocabulary of"):
        open_translator(trained, another)


# --- The commands ---------------------------------------------------------------------


@pytest.mark.slow
def test_eval_scores_what_the_models_translate_together(
    trained, other, digits, lines, tmp_path
):
    first, path = (
        corpora.copy_folder(trained, tmp_path / "logs"),
        tmp_path / "scores.json",
    )
    where = ["--logdir", first, other, "--data", digits, "--compare", first]
    flags = ["--search", "beam", "--max_extra_length", "3", "--json", path]
    output = corpora.command_output("eval", *where, *flags)
    actual = json.loads(path.read_text())
    with open_translator(first, other) as ensemble:
        expected = [best.text for best, *_ in ensemble.translate(lines)]
    assert corpora.read_lines(actual["translations"]) == expected
    assert actual["others"] == [manifests.find_checkpoint(other)]
    steps = [
        checkpoint_step(manifests.find_checkpoint(logdir)) for logdir in (first, other)
    ]
    assert f"step {steps[0]} + {steps[1]}: " in output[0]
    assert any(line.startswith(f"{first} is ") for line in output)
    written = glob.glob(manifests.find_checkpoint(first) + ".test.*.translations")
    assert len(written) == 2 and actual["translations"] in written


def test_an_ensemble_needs_two(trained, digits, capsys):
    flags = ["--logdir", trained, trained, "--data", digits, "--checkpoint", "all"]
    assert "one log directory" in corpora.refusal(capsys, "eval", *flags)
    pytest.importorskip("uvicorn", reason="the extra [serve] is not installed")
    line = corpora.refusal(capsys, "serve", "--logdir", trained, "--ensemble")
    assert "--ensemble" in line
