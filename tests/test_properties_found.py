"""Inputs that once failed: the files of tests/found/KIND."""

import glob
import json
import os
import shutil

import corpora
import pytest

from transformer import hparams
from transformer.text.batches import BatchPlan
from transformer.text.lines import read_lines
from transformer.translator import Translator

FOUND = os.path.join(os.path.dirname(os.path.abspath(__file__)), "found")


def list_inputs(kind):
    """List the files of a kind as parameters of a test."""
    paths = sorted(glob.glob(os.path.join(FOUND, kind, "*")))
    assert paths, f"no input in tests/found/{kind}"
    return [pytest.param(path, id=os.path.basename(path)) for path in paths]


@pytest.mark.parametrize("path", list_inputs("lines"))
def test_sentences_are_lines(path, tmp_path):
    """Sentences, written one per line, are read as the same sentences again."""
    lines = list(read_lines(path))
    assert lines
    assert corpora.read_lines(corpora.write_lines(tmp_path / "copy", lines)) == lines


@pytest.mark.parametrize("path", list_inputs("settings"))
def test_settings_are_refused_or_work(path, tmp_path):
    """A broken file, or settings that allow no batch, raise ValueError."""
    shutil.copy(path, str(tmp_path / hparams.FILE_NAME))
    try:
        hp = hparams.load(str(tmp_path))
        assert len(BatchPlan([5, 3], [4, 6], hp.batch_tokens, hp.seed)) == 1
    except ValueError as refusal:
        assert "found" in str(refusal) or ", got " in str(refusal)


@pytest.mark.parametrize("path", list_inputs("prepare"))
def test_text_is_prepared_or_refused(path, tmp_path):
    """In its own process, because it once crashed the process."""
    for name in ("train.de", "train.en", "dev.de", "dev.en"):
        shutil.copy(path, str(tmp_path / name))
    flags = ["--out", tmp_path, *"--vocab_size 66 --model_type unigram".split()]
    finished = corpora.run_python("scripts/prepare.py", *flags)
    assert finished.returncode == 2
    assert finished.stderr.count("\n") == 1


@pytest.mark.parametrize("path", list_inputs("bombs"))
def test_sizes_beyond_the_memory_are_refused_before_they_are_allocated(
    path, digits, trained, tmp_path, capsys
):
    """In translation and in training, which write nothing."""
    logdir, new = tmp_path / "logs", tmp_path / "new"
    shutil.copytree(trained, str(logdir))
    with open(path, encoding="utf-8") as file:
        bomb = json.load(file)
    settings = logdir / hparams.FILE_NAME
    settings.write_text(json.dumps(dict(json.loads(settings.read_text()), **bomb)))
    before = corpora.read_tree(tmp_path)
    with pytest.raises(ValueError, match="found.*wanted|expected .*, got ") as refusal:
        Translator.for_settings(hparams.load(str(logdir)), str(logdir))
    assert "\n" not in str(refusal.value)
    flags = [f"--{name}={value}" for name, value in bomb.items()]
    message = corpora.refusal(
        capsys, "train", "--data", digits, "--logdir", new, *corpora.TINY, *flags
    )
    assert [name for name in bomb if name in message]
    corpora.refusal(capsys, "train", "--data", digits, "--logdir", logdir)
    assert corpora.read_tree(tmp_path) == before and not new.exists()
