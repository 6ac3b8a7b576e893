"""DropoutVocabulary beside SentencePiece: what is skipped, how often, what stays."""

import collections
import itertools
import random

import pytest

from transformer.text.vocabulary import (
    JOINT_MODEL,
    UNK,
    DropoutVocabulary,
    Vocabulary,
    train_vocabulary,
)
from transformer.text.words import split_into_words

WORDS = ["grüne", "grünen", "graue", "Wiese", "Wiesen", "Hund", "Hunde", "und", "rund"]
SENTENCES = [" ".join(words) for words in itertools.permutations(WORDS, 3)]
SIZE = 50
BYTES = 256


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("bpe_dropout") / "text.de"
    path.write_text("\n".join(SENTENCES), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def path(corpus, tmp_path_factory):
    model = str(tmp_path_factory.mktemp("model") / JOINT_MODEL)
    train_vocabulary([corpus], model, SIZE, model_type="bpe")
    return model


@pytest.fixture(scope="module")
def path_with_bytes(corpus, tmp_path_factory):
    model = str(tmp_path_factory.mktemp("bytes") / JOINT_MODEL)
    train_vocabulary(
        [corpus], model, BYTES + SIZE, model_type="bpe", byte_fallback=True
    )
    return model


def vocabulary(path, dropout, seed=1):
    return DropoutVocabulary(path, dropout, random.Random(seed))


@pytest.mark.parametrize(
    "line",
    [
        *SENTENCES[::50],
        "",
        "  ",
        "Hundewiesen  rundeten",
        "ﬁ ① Ｈｕｎｄ",
        "▁Hund▁ und",
        "Hund Žžž. Žund",
        "Ž",
        "Hund <unk> <s> rund</s>",
        "Hund 🙂🙂 <0xF0>",
    ],
)
def test_without_dropout_it_encodes_as_sentencepiece(path, path_with_bytes, line):
    """The same merges, and unknown characters in one piece or as bytes."""
    for model in (path, path_with_bytes):
        plain = Vocabulary(model).encode(line)
        assert vocabulary(model, 0).encode(line) == plain


@pytest.mark.parametrize("word", ["Wiese" * 200, "Hunde🙂" * 60], ids=ascii)
def test_very_long_words_are_encoded_without_dropout(path, path_with_bytes, word):
    """Others are not; the word may be anywhere in a line."""
    for model in (path, path_with_bytes):
        plain, sampled = Vocabulary(model), vocabulary(model, 0.9)
        assert sampled.encode(word) == plain.encode(word)
        ids = sampled.encode(f"graue {word} grünen")
        whole = plain.encode(word)
        assert any(ids[i : i + len(whole)] == whole for i in range(len(ids)))
        assert len(ids) > len(plain.encode(f"graue {word} grünen"))


@pytest.mark.parametrize("dropout", [0, 0.5])
def test_with_byte_fallback_any_text_can_be_copied(path_with_bytes, dropout):
    sampled = vocabulary(path_with_bytes, dropout)
    line = "Hund 🙂 Žund 猫 <0xF0>"
    assert sampled.decode(sampled.encode(line)) == line
    assert split_into_words(sampled, sampled.encode(line)).words == line.split()


@pytest.mark.parametrize("dropout", [0.05, 0.5, 1])
def test_whatever_is_left_out_the_text_is_the_same(path, dropout):
    sampled = vocabulary(path, dropout)
    for line in SENTENCES:
        ids = sampled.encode(line)
        assert Vocabulary(path).decode(ids) == line
        assert UNK not in ids


def test_the_draws_are_as_seeded_and_differ_from_line_to_line(path):
    lines = [SENTENCES[0]] * 100
    once = vocabulary(path, 0.3).encode_lines(lines)
    assert vocabulary(path, 0.3).encode_lines(lines) == once
    assert vocabulary(path, 0.3, seed=2).encode_lines(lines) != once
    assert len(set(map(tuple, once))) > 10


def frequencies(encoded):
    """Returns how often each encoding came, of all."""
    counts = collections.Counter(map(tuple, encoded))
    return {ids: count / len(encoded) for ids, count in counts.items()}


@pytest.mark.parametrize("word", ["grünen", "Wiese"])
def test_pieces_come_as_often_as_sentencepiece_draws_them(path, word):
    """Of 20,000 draws each, a share of p has a deviation of √(2 p (1 − p) / 20,000):
    five of them are allowed, with 1e-3 for the rarest."""
    draws = 20000
    frequencies_here = frequencies(vocabulary(path, 0.3).encode_lines([word] * draws))
    model = Vocabulary(path)._model
    frequencies_there = frequencies(
        [
            model.encode(
                word, out_type=int, enable_sampling=True, alpha=0.3, nbest_size=-1
            )
            for _ in range(draws)
        ]
    )
    assert len(frequencies_here) > 3
    for ids in {*frequencies_here, *frequencies_there}:
        p, q = frequencies_here.get(ids, 0), frequencies_there.get(ids, 0)
        assert abs(p - q) < 5 * (2 * max(p, q) * (1 - max(p, q)) / draws) ** 0.5 + 1e-3
