"""text/lines.py and text/vocabulary.py: lines, pieces, refusals."""

import gzip
import os

import numpy as np
import pytest
import sentencepiece
from corpora import write_lines

from transformer.commands.advice import advice_for
from transformer.runtime.errors import CorpusError, VocabularyNotFound
from transformer.text.lines import read_lines
from transformer.text.sentencepiece_model import has_visible_text, split_for_trainer
from transformer.text.vocabulary import (
    BOS,
    EOS,
    JOINT_MODEL,
    JOINT_WORDS,
    PAD,
    SEPARATE_MODELS,
    UNK,
    Vocabulary,
    copy_vocabularies,
    load_vocabularies,
    train_vocabulary,
)

SENTENCES = [
    f"{who} {what} {where}."
    for who in ["Der Hund", "Die Frau", "Das Kind", "Ein Mädchen", "Niemand", "Wer"]
    for what in ["läuft", "schläft", "spielt", "wartet", "lacht", "springt", "tanzt"]
    for where in ["im Park", "am Fluss", "vor der Tür", "auf der Straße", "zu Hause"]
]
SIZE = 50  # pieces: more than there are characters, few enough for unigram


def write(path, content):
    """Write text or bytes, gzipped if the name ends in .gz; return the path."""
    content = content if isinstance(content, bytes) else content.encode("utf-8")
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(str(path), "wb") as file:
        file.write(content)
    return str(path)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write(tmp_path_factory.mktemp("text") / "a.de", "\n".join(SENTENCES))


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def vocabulary(request, corpus, tmp_path_factory):
    path = str(tmp_path_factory.mktemp(request.param) / JOINT_MODEL)
    train_vocabulary([corpus], path, SIZE, model_type=request.param)
    return Vocabulary(path)


# Vocabulary


@pytest.mark.parametrize("kind", [list, np.array])
def test_decoding_stops_at_the_end_and_skips_padding(vocabulary, kind):
    ids = vocabulary.encode("Das Kind lacht")
    beyond = vocabulary.encode("am Fluss")
    assert vocabulary.decode(kind([BOS, PAD, *ids, EOS, *beyond, EOS])) == (
        "Das Kind lacht"
    )
    assert vocabulary.decode(kind([EOS, *ids])) == ""


def test_a_model_with_other_special_ids_is_refused(corpus, tmp_path):
    prefix = str(tmp_path / "other")
    sentencepiece.set_random_generator_seed(1)  # as train_vocabulary does
    sentencepiece.SentencePieceTrainer.train(
        input=corpus, model_prefix=prefix, vocab_size=SIZE, minloglevel=2
    )
    with pytest.raises(ValueError, match=r"other\.model.*0, 1, 2, 3.*-1, 0, 1, 2"):
        Vocabulary(prefix + ".model")


def test_files_that_are_not_models_are_refused(corpus, tmp_path):
    with pytest.raises(ValueError, match=r"a\.de: expected a SentencePiece model"):
        Vocabulary(corpus)
    with pytest.raises(VocabularyNotFound, match=r"none\.model is missing") as caught:
        Vocabulary(str(tmp_path / "none.model"))
    assert isinstance(caught.value, FileNotFoundError)
    assert advice_for(caught.value) == "; create it with prepare.py"


# Training


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_training_twice_gives_the_same_bytes_and_no_path(model_type, corpus, tmp_path):
    first, second = str(tmp_path / "1"), str(tmp_path / "2")
    for path in (first, second):
        train_vocabulary([corpus, corpus], path, SIZE, model_type=model_type)
    with open(first, "rb") as first_file, open(second, "rb") as second_file:
        content = first_file.read()
        assert content == second_file.read()
    assert os.path.dirname(corpus).encode("utf-8") not in content


def test_empty_text_is_refused(tmp_path):
    empty = write(tmp_path / "a", "")
    with pytest.raises(ValueError, match="has no visible characters"):
        train_vocabulary([empty], str(tmp_path / "m"), SIZE, model_type="bpe")


# What SentencePiece cannot use as text, in its releases 0.2.0 to 0.2.3.
INVISIBLE = [
    "",
    " \t\r\u00a0\u3000",
    "\0\x01\x7f\x85",
    "\u200b\u200c\u200d\u200e\u2060\ufeff\u00ad\U000e0041",
    "\u2028\u2029",
    "\u0301\u034f\ufe0f",
    "\u115f\u1160\u3164\uffa0",
    "\u2800",
    "\u2581\u2585\ufffd",
]


@pytest.mark.parametrize("line", INVISIBLE, ids=ascii)
def test_invisible_text_is_recognized_without_the_trainer(line):
    assert not has_visible_text(line)
    for character in "aЖ漢1.€🙂\ue000\u0e01":
        assert has_visible_text(line + character)


@pytest.mark.parametrize("line", [*INVISIBLE, "\n".join(INVISIBLE)], ids=ascii)
def test_invisible_text_is_refused_before_the_trainer_is_called(
    tmp_path, monkeypatch, line
):
    """What the trainer says about it depends on its release."""

    class Called(Exception):
        """The trainer was called."""

    def train(**options):
        raise Called

    monkeypatch.setattr(sentencepiece.SentencePieceTrainer, "train", train)
    path, model = write_lines(tmp_path / "a", [line]), str(tmp_path / "m")
    with pytest.raises(CorpusError, match="has no visible characters"):
        train_vocabulary([path], model, SIZE, model_type="bpe")
    visible = write_lines(tmp_path / "b", [line, "a"])
    with pytest.raises(Called):
        train_vocabulary([path, visible], model, SIZE, model_type="bpe")
    assert not os.path.exists(model)


@pytest.mark.parametrize("has_short_lines", [True, False])
def test_no_text_is_left_out_of_vocabulary_training(tmp_path, has_short_lines):
    """The trainer skips lines of more than 4192 bytes, and lines with its mark ▅."""
    long_lines = ["äöü " * 1500, "漢字" * 3000, "x\u2585y"]
    path = write_lines(tmp_path / "a", long_lines + has_short_lines * ["Hund"])
    train_vocabulary([path], str(tmp_path / "m"), 22, model_type="bpe")
    vocabulary = Vocabulary(str(tmp_path / "m"))
    for line in ("äöü", "漢字", "xy"):
        assert UNK not in vocabulary.encode(line)


@pytest.mark.parametrize(
    "line", ["äöü " * 1500, "漢字" * 3000, "a" * 4192, "🙂" * 2000]
)
def test_long_lines_are_cut_into_lines_that_the_trainer_reads(line):
    parts = split_for_trainer(line)
    assert "".join(parts) == line
    assert max(len(part.encode("utf-8")) for part in parts) <= 4192
    if " " in line:
        assert all(part.endswith(" ") for part in parts)


# Folders


def test_a_joint_vocabulary_is_one_object(vocabulary):
    loaded = load_vocabularies(os.path.dirname(vocabulary.path))
    assert loaded.joint
    assert loaded.source is loaded.target
    assert loaded.source.path == vocabulary.path


def train_separate(corpus, folder):
    for size, name in zip((SIZE, SIZE + 5), SEPARATE_MODELS):
        train_vocabulary([corpus], str(folder / name), size, model_type="bpe")
    return str(folder)


def test_separate_vocabularies_keep_their_sides(corpus, tmp_path):
    loaded = load_vocabularies(train_separate(corpus, tmp_path))
    assert not loaded.joint
    assert (loaded.source.size, loaded.target.size) == (SIZE, SIZE + 5)


def test_another_vocabulary_is_not_copied_over_one(tmp_path):
    """With it, the ids of a log directory would mean other words."""
    source, target = tmp_path / "source", tmp_path / "target"
    for folder, words in ((source, ["a", "b"]), (target, ["b", "a"])):
        folder.mkdir()
        write_lines(folder / JOINT_WORDS, ["<PAD>", "<UNK>", "<S>", "</S>", *words])
    before = (target / JOINT_WORDS).read_bytes()
    with pytest.raises(ValueError, match="expected the same vocabulary as .*source"):
        copy_vocabularies(str(source), str(target))
    assert (target / JOINT_WORDS).read_bytes() == before


def test_a_folder_with_no_vocabulary_says_what_to_run(tmp_path):
    with pytest.raises(VocabularyNotFound, match=r"missing: .*spm\.model") as caught:
        load_vocabularies(str(tmp_path))
    command = f"python scripts/prepare.py --out {tmp_path}"
    assert command in advice_for(caught.value)
    with pytest.raises(VocabularyNotFound, match="vocabulary is missing"):
        copy_vocabularies(str(tmp_path), str(tmp_path))


def test_a_folder_with_both_kinds_is_refused(corpus, tmp_path):
    train_separate(corpus, tmp_path)
    train_vocabulary([corpus], str(tmp_path / JOINT_MODEL), SIZE, model_type="bpe")
    with pytest.raises(ValueError, match="expected one kind"):
        load_vocabularies(str(tmp_path))


# Lines


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("before", [0, 7])
def test_bytes_that_are_not_utf8_are_named_by_line(tmp_path, ending, before):
    content = b"\xef\xbb\xbf" + b"gut\n" * before + b"M\xe4dchen\ngut\n"
    path = write(tmp_path / ("a.de" + ending), content)
    with pytest.raises(ValueError, match=rf"{ending}:{before + 1}: .*0xe4.*UTF-8"):
        list(read_lines(path))


def test_a_broken_gzip_file_is_refused(tmp_path):
    whole = write(tmp_path / "a.gz", "\n".join(SENTENCES))
    with open(whole, "rb") as file:
        content = file.read()
    for name, broken in (("b.gz", content[:-20]), ("c.gz", b"plain text\n")):
        path = str(tmp_path / name)
        with open(path, "wb") as file:
            file.write(broken)
        with pytest.raises(ValueError, match=name + ".*cannot be read to the end"):
            list(read_lines(path))


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_iwslt_tags_are_skipped(tmp_path, ending):
    content = "<url>http://x</url>\n<title>T</title>\n Eins. \n\nZwei < drei.\n</doc>\n"
    path = write(tmp_path / ("train.tags.de-en.de" + ending), content)
    assert list(read_lines(path)) == ["Eins.", "", "Zwei < drei."]


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_iwslt_xml_gives_its_segments(tmp_path, ending):
    content = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<doc docid="1">\n<title>T</title>\n'
        '<seg id="1"> Q&amp;A &lt;1&gt; </seg>\n<seg id="2"></seg>\n</doc>\n'
        "<seg id='3'>a</seg><seg id='4'>b</seg>\n"
    )
    path = write(tmp_path / ("IWSLT16.TED.dev2010.de-en.de.xml" + ending), content)
    assert list(read_lines(path)) == ["Q&A <1>", "", "a", "b"]


def test_a_segment_without_end_is_refused(tmp_path):
    path = write(tmp_path / "a.xml", '<doc>\n<seg id="1"> Eins\nzwei </seg>\n')
    with pytest.raises(ValueError, match=r"a\.xml:2: .*</seg>"):
        list(read_lines(path))
