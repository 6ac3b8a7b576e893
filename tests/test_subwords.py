"""SubwordVocabulary: tensor2tensor's subword vocabularies, worked out by hand."""

import numpy as np
import pytest
from corpora import write_lines
from originals import subword_list

from transformer.text.vocabulary import (
    JOINT_SUBWORDS,
    JOINT_WORDS,
    SEPARATE_SUBWORDS,
    SubwordVocabulary,
    copy_vocabularies,
    load_vocabularies,
    vocabulary_class,
)

SOME = ["der_", "de", "Hund_", "Hun", "d", "d_", "e", "._", ". ", " ", "ü", "ber"]
HARD = [
    "",
    "  ",
    " Der  Hund ",
    "über die Brücke, ÄÖÜ äöü ß",
    "x_y",
    "__ _",
    "\\\\u\\_;",
    "\\228;",
    "u0;",
    "a\tb",
    "zero\u200bwidth",
    "a\rb",
    "\x00",
    "\ufeff",
    '"',
    "😀 👩\u200d👧 ab",
    "漢字 かな",
    "e\u0301",
    "<pad>_",
    "pad_ EOS_",
    "\U0010ffff",
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return subword_list(tmp_path_factory.mktemp("subwords") / "some.subwords", 50, SOME)


@pytest.fixture(scope="module")
def vocabulary(path):
    return SubwordVocabulary(path)


@pytest.mark.parametrize(
    "line, expected",
    [
        ("der Hund.", ["der_", "Hund_", "._"]),  # one space goes without saying
        ("der  d", ["der_", " ", " ", "_", "d_"]),  # two are a token
        (" d", [" ", "_", "d_"]),
        ("d ", ["d_", " ", "_"]),
        (" ", [" ", "_"]),
        ("", []),
        ("ded", ["de", "d_"]),  # the longest that fits, not "d"
        ("Hunde", ["Hun", "de", "_"]),
        ("Hundd", ["Hun", "d", "d_"]),
        ("über", ["ü", "ber", "_"]),
        ("d. d", ["d_", ". ", "_", "d_"]),  # runs of anything else stay together
        ("d_d", ["d_", "\\", "u", "_", "d_"]),  # "_" is written "\u"
        ("\\", ["\\", "\\", "_"]),
        ("ß", ["\\", "2", "2", "3", ";", "_"]),  # no subtoken: U+00DF is 223
        ("ßd", ["\\", "2", "2", "3", ";", "d_"]),  # a letter all the same
    ],
)
def test_encodings_by_hand(vocabulary, line, expected):
    assert vocabulary.pieces(vocabulary.encode(line)) == expected


@pytest.mark.parametrize("subtokens", [[], SOME, ["\U0001f600", "Ä", "\u00a0", "\r"]])
def test_decoding_undoes_encoding(subtokens, tmp_path):
    vocabulary = SubwordVocabulary(subword_list(tmp_path / "v", 40, subtokens))
    for line, ids in zip(HARD, vocabulary.encode_lines(HARD)):
        assert vocabulary.decode(ids) == line
        assert not {0, 1}.intersection(ids)
        assert max(ids, default=0) < vocabulary.size


@pytest.mark.parametrize("kind", [list, tuple, np.array, np.uint16])
def test_decoding_stops_at_the_end_and_skips_padding(vocabulary, kind):
    ids, beyond = vocabulary.encode("der Hund"), vocabulary.encode("über")
    assert vocabulary.decode(kind([0, *ids, 0, 1, *beyond])) == "der Hund"
    assert vocabulary.decode(kind([1, *ids])) == vocabulary.decode(kind([])) == ""


@pytest.mark.parametrize(
    "written, text",
    [
        ("\\ud_", "_d"),
        ("\\d_", "\\d"),
        ("\\\\u_", "\\u"),
        ("\\2;_", "\x02"),
        ("\\1114112;_", "〓"),
        ("\\55296;_", "〓"),  # no character, half a character
        ("d\\10;_", "d〓"),  # no line has a line break
        ("___", ""),
        ("d", "d"),
        ("d_d", "d d"),
        ("._d_", ".d"),
        ("d_ _d_", "d d"),
    ],
)
def test_what_a_model_may_say(vocabulary, written, text):
    ids = {piece: i for i, piece in enumerate(vocabulary.pieces(range(50)))}
    assert vocabulary.decode([ids[piece] for piece in written]) == text


def test_what_is_no_subword_vocabulary_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        SubwordVocabulary(str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"got \['<PAD>', '<UNK>'\]"):
        SubwordVocabulary(write_lines(tmp_path / "words", ["<PAD>", "<UNK>", "a"]))
    subtokens = ["<pad>_", "<EOS>_", "ab_", *"a\\_u;012345689"]
    for name, last, missing in (("a", "b", "7"), ("b", "7", "b")):
        with pytest.raises(ValueError, match=f"'{missing}' is missing"):
            SubwordVocabulary(write_lines(tmp_path / name, [*subtokens, last]))
    with pytest.raises(ValueError, match="first, then"):
        SubwordVocabulary(write_lines(tmp_path / "empty", []))


def test_folders_know_their_subword_vocabularies(tmp_path):
    joint, separate, words = (tmp_path / name for name in ("j", "s", "w"))
    for folder in (joint, separate, words):
        folder.mkdir()
    subword_list(joint / JOINT_SUBWORDS, 20)
    for size, name in zip((30, 40), SEPARATE_SUBWORDS):
        subword_list(separate / name, size)
    write_lines(words / JOINT_WORDS, ["<PAD>", "<UNK>", "<S>", "</S>"])
    vocabularies = load_vocabularies(str(joint))
    assert (
        vocabularies.joint
        and vocabularies.source is vocabularies.target
        and vocabularies.source.eos == 1
    )
    vocabularies = load_vocabularies(str(separate))
    assert (vocabularies.joint, vocabularies.source.size, vocabularies.target.size) == (
        False,
        30,
        40,
    )
    assert vocabulary_class(str(separate)) is SubwordVocabulary
    for from_folder, to_folder in (
        (joint, separate),
        (words, joint),
        (separate, words),
    ):
        with pytest.raises(ValueError, match="expected the vocabulary of"):
            copy_vocabularies(str(from_folder), str(to_folder))
    subword_list(separate / JOINT_SUBWORDS, 20)
    with pytest.raises(ValueError, match="expected one kind"):
        load_vocabularies(str(separate))
