"""Properties of lines, text, data and hparams, for any input that can be thought of.

The inputs that once broke one are in tests/found; test_properties_found.py reads them.
`--hypothesis-profile=random` tries others than last time.
"""

import gzip
import html
import io
import json
import math
import os
import re
import unicodedata

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from transformer import hparams
from transformer.commands import cli
from transformer.text.batches import BatchPlan, make_batch, pad, pad_with_end
from transformer.text.lines import (
    READERS,
    TolerantReader,
    read_lines,
    remove_display_marks,
)
from transformer.text.vocabulary import BOS, EOS, PAD, UNK, Vocabulary, train_vocabulary

pytestmark = pytest.mark.slow

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SAMPLE = os.path.join(ROOT, "data", "sample", "test.de")


# What the properties draw from: text, bytes and settings of every kind


# Whatever some program takes for the end of a line, nothing, or not a character.
ODD = (
    "\t\r\0\x01\x0b\x0c\x1b\x1c\x1d\x1e\x7f\x85\x9f\xa0\xad\u0301\u200b\u200d\u200e"
    "\u2028\u2029\u202e\u2060\u2581\u3000\ufeff\ufffd\uffff\U000e0041\U0001f642"
)

CHARACTERS = st.one_of(
    st.sampled_from("0123456789 aeßÜ<&>;.,|?'\"" + ODD),
    st.characters(blacklist_categories=["Cs"], blacklist_characters="\n"),
)
LINES = st.text(CHARACTERS, max_size=25)
SPECIAL_LINES = st.sampled_from(
    ["</s>", "<unk> 1", "&#10;", "||| 1 ||| 2", "1 " * 99, "", " ", "\ufeff"]
)

# Bytes of a line: text, or anything at all.
RAW_LINES = st.one_of(
    st.one_of(LINES, SPECIAL_LINES).map(lambda line: line.encode("utf-8")),
    st.binary(max_size=20).map(lambda raw: raw.replace(b"\n", b"\xc3")),
)


def values_of(field, largest=1000):
    """Values that `hparams.validate` accepts of one field."""
    minimum, below = field.metadata["minimum"], field.metadata["below"]
    if field.type is int:
        return st.integers(minimum, int(min(below - 1, largest)))
    if field.type is float:
        return st.floats(minimum, min(below, 1e9), exclude_max=below < math.inf)
    if field.metadata["choices"]:
        return st.sampled_from(sorted(field.metadata["choices"]))
    return st.booleans() if field.type is bool else st.text(max_size=12)


@st.composite
def valid_settings(draw):
    """Settings that are all valid, by name."""
    values = draw(
        st.fixed_dictionaries(
            {name: values_of(field) for name, field in hparams.FIELDS.items()}
        )
    )
    heads = draw(st.integers(1, 8))
    values.update(num_heads=heads, d_model=heads * draw(st.integers(1, 9)))
    values["data"] = values["data"] or "data"
    for name in ("attention_dropout", "ffn_dropout"):
        if values[name] < 0:  # -1 is the only one: the dialect's rate
            values[name] = -1.0
    if not hparams.DIALECTS[values["dialect"]].output_projection:
        values["d_v"] = 0  # its heads together have the width of the model
    if values["joint_vocab"]:
        values["target_vocab_size"] = values["source_vocab_size"]
    return values


# What may stand in a JSON file, or be asked for by somebody who errs.
NUMBERS = st.one_of(
    st.integers(-(2**99), 2**99),
    st.floats(),
    st.sampled_from([0, -1, 2**31, 2**63, math.nan, math.inf]),
)
ANYTHING = st.one_of(
    NUMBERS,
    st.none(),
    st.booleans(),
    st.text(max_size=5),
    st.lists(NUMBERS, max_size=2),
)
NAMES = st.one_of(st.sampled_from(sorted(hparams.FIELDS)), st.text(max_size=5))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("properties"))


def write(folder, name, content):
    """Writes bytes, gzipped if the name says so; returns the path."""
    path = os.path.join(folder, name)
    with (gzip.open if name.endswith(".gz") else open)(path, "wb") as file:
        file.write(content)
    return path


# Lines


@settings(max_examples=500)
@given(st.lists(RAW_LINES, max_size=8), st.booleans())
def test_whatever_bytes_are_read_there_are_as_many_lines(raw_lines, ended):
    content = b"".join(raw + b"\n" for raw in raw_lines)
    content = content if ended else content[:-1]
    reader = TolerantReader()
    lines = list(reader.read(io.BytesIO(content)))
    expected = content.split(b"\n")
    expected = expected[:-1] if expected[-1] == b"" else expected
    assert len(lines) == reader.num_lines == len(expected)
    for index, (line, raw) in enumerate(zip(lines, expected)):
        raw = raw[:-1] if raw.endswith(b"\r") else raw
        assert "\n" not in line
        if index == 0 and raw.startswith(b"\xef\xbb\xbf"):
            raw = raw[3:]
        assert line == remove_display_marks(raw.decode("utf-8", errors="replace"))
    assert all(0 <= count <= len(lines) for count in reader.counts.values())
    assert reader.report().count("\n") == 0


@settings(max_examples=300)
@given(
    st.lists(LINES, max_size=8),
    st.sampled_from(["a.de", "a.de.gz"]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_lines_that_are_written_are_read(folder, lines, name, end, marked):
    assume(not any(line.endswith("\r") for line in lines))
    assume(marked or not "".join(lines[:1]).startswith("\ufeff"))
    content = "\ufeff" * marked + "".join(line + end for line in lines)
    path = write(folder, name, content.encode("utf-8"))
    expected = lines or [""] * marked
    assert list(read_lines(path)) == expected
    visible = list(map(remove_display_marks, expected))
    assert list(TolerantReader().read(io.BytesIO(content.encode("utf-8")))) == visible


ENTITIES = st.sampled_from(
    [
        "&#10;",
        "&#13;",
        "&NewLine;",
        "&#x2028;",
        "&#0;",
        "&amp;",
        "&#xD800;",
        "&#99999999;",
        "&lt;seg&gt;",
        "&",
        "&;",
    ]
)
SEGMENTS = st.lists(st.one_of(CHARACTERS.map(html.escape), ENTITIES), max_size=9).map(
    "".join
)


@settings(max_examples=400)
@given(
    st.sampled_from(sorted(READERS)),
    st.one_of(
        st.binary(max_size=60),
        st.lists(RAW_LINES, max_size=5).map(b"\n".join),
        SEGMENTS.map(lambda text: f"<seg>{text}</seg><seg id=3>".encode("utf-8")),
    ),
    st.sampled_from(["", ".gz"]),
    st.integers(0, 9),
)
def test_a_file_is_read_or_refused(folder, kind, content, ending, missing):
    path = write(folder, kind.replace("*", "a") + ending, content)
    if ending:
        with open(path, "rb+") as file:
            file.truncate(os.path.getsize(path) - missing)
    try:
        lines = list(read_lines(path))
    except ValueError as refusal:
        assert path in str(refusal)
    else:
        assert not [line for line in lines if "\n" in line]


# Text


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def vocabulary(request, folder):
    path = os.path.join(folder, request.param + ".model")
    train_vocabulary([SAMPLE], path, 300, model_type=request.param)
    return Vocabulary(path)


with open(SAMPLE, encoding="utf-8") as file:
    KNOWN = sorted(set(file.read()) - {"\n"})
# Characters that become known ones: white space, wide letters, accents on their own.
EQUAL = list("\t\u3000\u2028\xa0\u2003ａＢｚﬁ") + ["a\u0308", "u\u0308"]


@settings(max_examples=400)
@given(st.lists(st.sampled_from(KNOWN + EQUAL), max_size=60).map("".join))
def test_decoding_undoes_encoding_up_to_normalization(vocabulary, line):
    """Compatibility characters are replaced (NFKC), and white space is one space."""
    expected = " ".join(unicodedata.normalize("NFKC", line).split())
    assert set(expected) <= set(KNOWN)
    assert vocabulary.decode(vocabulary.encode(line)) == expected


@settings(max_examples=300)
@given(st.lists(LINES, max_size=6))
def test_any_text_has_ids_that_decode(vocabulary, lines):
    encoded = vocabulary.encode_lines(lines)
    assert encoded == [vocabulary.encode(line) for line in lines]
    for ids in encoded:
        assert not {PAD, BOS, EOS} & set(ids)
        assert all(UNK <= piece < vocabulary.size for piece in ids)
        assert "\n" not in vocabulary.decode(ids)
        assert len(vocabulary.pieces(ids)) == len(ids)


# Data


SENTENCES = st.lists(st.integers(4, 65535), max_size=12)
PAIRS = st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=6)


@settings(max_examples=400)
@given(PAIRS, st.sampled_from([list, np.array]))
def test_a_batch_holds_its_pairs_and_padding(pairs, kind):
    sources, targets = zip(*pairs)
    batch = make_batch(*([kind(row) for row in side] for side in (sources, targets)), 7)
    widest = [max(map(len, side)) + 1 for side in (sources, targets)]
    assert batch.source.shape == (len(pairs), widest[0])
    assert batch.target_in.shape == batch.target_out.shape == (len(pairs), widest[1])
    for i, (source, target) in enumerate(pairs):
        expected = [PAD] * (widest[0] - len(source) - 1)
        assert batch.source[i].tolist() == [*source, EOS, *expected]
        expected = [PAD] * (widest[1] - len(target) - 1)
        assert batch.target_in[i].tolist() == [BOS, *target, *expected]
        assert batch.target_out[i].tolist() == [*target, EOS, *expected]
    np.testing.assert_array_equal(
        pad([[*source, EOS] for source in sources]), pad_with_end(sources)
    )


LENGTHS = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=60
)


@settings(max_examples=300)
@given(
    LENGTHS,
    st.integers(0, 200),
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 10**6), max_size=4),
    st.integers(0, 6),
)
def test_a_plan_takes_each_pair_once_an_epoch_within_the_budget(
    lengths, spare, seed, asked, max_shapes
):
    sources, targets = np.array(lengths).T
    budget = int(np.max(lengths)) + spare
    plan = BatchPlan(sources, targets, budget, seed, max_shapes)
    for epoch in (0, 3):
        numbers = [epoch * len(plan) + k for k in range(len(plan))]
        batches = [plan.batch(k) for k in numbers]
        assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
        shapes = set()
        for k, batch in zip(numbers, batches):
            longest = np.array([sources[batch].max(), targets[batch].max()])
            widths = plan.widths(k) if max_shapes else longest
            assert (longest <= widths).all()
            assert 0 < len(batch) * max(widths) <= budget
            shapes.add((len(batch), *widths))
        assert not max_shapes or len(shapes) <= max_shapes + 1  # one is smaller
    for k in asked:  # whatever was asked for before: so a run can go on anywhere
        other = BatchPlan(sources, targets, budget, seed, max_shapes)
        np.testing.assert_array_equal(plan.batch(k), other.batch(k))
        assert plan.widths(k) == other.widths(k)


# Settings


PARSER = cli.make_parser("train.py", "Train.")
PARSER.add_argument("--logdir")
cli.add_settings(PARSER, hparams.FIELDS)


@settings(max_examples=300)
@given(valid_settings(), st.booleans())
def test_settings_survive_the_disk_and_the_command_line(folder, values, dashed):
    hp = hparams.resolve(values)
    hparams.save(hp, folder)
    assert hparams.resolve({}, "big", folder) == hp
    assert hparams.load(folder) == hp
    words = [
        f"--{name.replace('_', '-') if dashed else name}={value}"
        for name, value in values.items()
    ]
    parsed = cli.read_settings(cli.parse(PARSER, words), hparams.FIELDS)
    assert parsed == values
    assert hparams.resolve(parsed, "sample", folder) == hp


@settings(max_examples=400)
@given(
    st.one_of(
        ANYTHING.map(lambda value: json.dumps(value).encode("utf-8")),
        st.dictionaries(NAMES, ANYTHING, max_size=3).map(
            lambda values: json.dumps(values).encode("utf-8")
        ),
        st.binary(max_size=30),
        st.integers(1, 200).map(lambda deep: b"[" * deep),
    )
)
def test_a_settings_file_is_loaded_or_refused(folder, content):
    path = write(folder, "hparams.json", content)
    try:
        hparams.validate(hparams.load(folder))
    except ValueError as refusal:
        assert re.search(f"{re.escape(path)}|found|expected|unknown", str(refusal))
