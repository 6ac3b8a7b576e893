"""Properties of prepare.py and translate.py, for any text that they can be given."""

import contextlib
import io
import json
import os
import re
import shutil

import corpora
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_properties import LINES, RAW_LINES

from transformer import hparams
from transformer.commands import translate
from transformer.text.lines import TolerantReader, read_lines
from transformer.text.vocabulary import load_vocabularies
from transformer.translator import Translator

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread_only")]


# prepare.py


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with text to train a vocabulary on, and nothing else."""
    out_dir = tmp_path_factory.mktemp("prepared") / "text"
    splits = corpora.reversed_symbols({"train": 40}, shortest=3)
    return corpora.write_text(out_dir, splits)


def run(folder, *flags):
    """`prepare.py` in this process; returns the line that it refuses with, or ""."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        argv = ["--out", folder, "--vocab_size", "25", *flags]
        status = corpora.exit_status("prepare", *argv)
    if status:
        assert status == 2
        assert errors.getvalue().startswith("prepare.py: ")
        assert errors.getvalue().count("\n") == 1
    return errors.getvalue()


def load(folder, split, side):
    """The prepared sentences of a split, as lists of ids."""
    ids, offsets = (
        np.load(os.path.join(folder, f"{split}.{side}.{part}.npy"))
        for part in ("ids", "offsets")
    )
    return [ids[a:b].tolist() for a, b in zip(offsets[:-1], offsets[1:])]


PAIRS = st.lists(st.tuples(LINES, LINES), max_size=6).map(
    lambda pairs: pairs + [("1 2", "2 1")]
)  # one that is kept


@settings(max_examples=100)
@given(PAIRS, st.integers(20, 40))
def test_no_pair_is_shifted_and_all_are_accounted_for(folder, pairs, longest):
    assume(not any(line.endswith("\r") for pair in pairs for line in pair))
    assume(not any(line.startswith("\ufeff") for line in pairs[0]))
    sides = [list(side) for side in zip(*pairs)]
    corpora.write_text(folder, {"dev": sides})
    assert run(folder, "--max_length", str(longest)) == ""
    vocabularies = load_vocabularies(folder)
    expected_pairs = []
    for pair in pairs:
        source, target = map(vocabularies.source.encode, pair)
        if 0 < len(source) <= longest and 0 < len(target) <= longest:
            expected_pairs.append((source, target))
    with open(os.path.join(folder, "corpus.json"), encoding="utf-8") as file:
        report = json.load(file)["splits"]["dev"]
    assert report["pairs"] == len(expected_pairs)
    assert sum(report[name] for name in ("pairs", "empty", "too_long")) == len(pairs)
    prepared = [load(folder, "dev", side) for side in ("source", "target")]
    assert list(zip(*prepared)) == expected_pairs
    for language, side in zip(("de", "en"), sides):
        assert list(read_lines(os.path.join(folder, f"dev.{language}"))) == side


TEXT = st.lists(RAW_LINES, max_size=8)


@settings(max_examples=100)
@given(TEXT, TEXT, st.integers(1, 99), st.sampled_from(["bpe", "unigram"]))
def test_any_text_is_prepared_or_refused_in_one_line(
    tmp_path_factory, source, target, size, kind
):
    folder = str(tmp_path_factory.mktemp("any"))
    length = min(len(source), len(target))
    for language, lines in (("de", source[:length]), ("en", target[:length])):
        for split in ("train", "dev"):
            with open(os.path.join(folder, f"{split}.{language}"), "wb") as file:
                file.writelines(line + b"\n" for line in lines)
    before = corpora.read_tree(folder)
    refusal = run(folder, "--vocab_size", str(size), "--model_type", kind)
    after = corpora.read_tree(folder)
    assert {name: after[name] for name in before} == before
    assert (after == before) == (refusal != "")
    match = re.search(r"lower --vocab_size to (\d+)", refusal)
    if match:
        refusal = run(folder, "--vocab_size", match.group(1), "--model_type", kind)
        assert "--vocab_size" not in refusal
    shutil.rmtree(folder)


# translate.py


@pytest.fixture(scope="module")
def translator(trained):
    hp = hparams.resolve({"search": "greedy", "max_source_length": 40}, None, trained)
    with Translator.for_settings(hp, trained) as translator:
        translator.find_and_restore()
        yield translator


def write_translated(translator, raw_lines, chunk_size):
    """What translate.py writes for the bytes of lines."""
    output = io.BytesIO()
    lines = TolerantReader().read(raw_lines)
    chunks = translate.translate_chunks(translator.translate, lines, chunk_size)
    translate.write_translations(chunks, output, translate.Columns())
    return output.getvalue()


@settings(max_examples=100)
@given(st.lists(RAW_LINES, max_size=10), st.integers(1, 12), st.booleans())
def test_as_many_lines_out_as_in(translator, raw_lines, chunk_size, ended):
    content = b"".join(raw + b"\n" for raw in raw_lines)[: None if ended else -1]
    given_lines = list(io.BytesIO(content))
    output = write_translated(translator, given_lines, chunk_size)
    lines = output.decode("utf-8").split("\n")
    assert lines.pop() == ""
    assert len(lines) == len(given_lines)
    assert not [line for line in lines if len(line.splitlines()) > 1]
    for line, raw in zip(lines, given_lines):
        assert line == "" or raw.decode("utf-8", errors="replace").strip()
