"""scripts/prepare.py: what it writes, and that a refusal writes nothing."""

import gzip
import json
import os

import corpora
import numpy as np
import pytest
from originals import subword_list, word_list

from transformer.commands import prepare
from transformer.evaluation import METRICS, score
from transformer.text.data_folder import read_parallel, tokenizer_of
from transformer.text.lines import read_lines
from transformer.text.vocabulary import (
    JOINT_SUBWORDS,
    SEPARATE_WORDS,
    UNK,
    load_vocabularies,
)

WORDS = {
    "de": ["der", "Hund", "läuft", "schnell", "über", "die", "grüne", "Wiese", "und"],
    "en": ["the", "dog", "runs", "fast", "across", "a", "green", "meadow", "and"],
}
PAIRS = {"train": 60, "dev": 9, "test": 7}
SMALL = ["--vocab_size", "60"]


def sentences(split, language):
    random = np.random.RandomState(len(split))
    lengths = random.randint(1, 9, PAIRS[split])
    return [" ".join(random.choice(WORDS[language], length)) for length in lengths]


def write(path, lines):
    """Write lines, or bytes, gzipped if the name ends in .gz; return the path."""
    content = lines
    if not isinstance(lines, bytes):
        content = "".join(line + "\n" for line in lines).encode("utf-8")
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(str(path), "wb") as file:
        file.write(content)
    return str(path)


def fill(folder, ending="", splits=PAIRS):
    """Write {split}.{language} of some splits; return the folder."""
    os.makedirs(str(folder), exist_ok=True)
    for split in splits:
        for language in WORDS:
            name = os.path.join(str(folder), f"{split}.{language}{ending}")
            write(name, sentences(split, language))
    return str(folder)


def load(folder, split, side):
    """Load the sentences of a split as lists of ids."""
    ids, offsets = (
        np.load(os.path.join(folder, f"{split}.{side}.{part}.npy"), "r")
        for part in ("ids", "offsets")
    )
    assert ids.dtype == np.uint16
    assert offsets.dtype == np.int64
    return [ids[a:b].tolist() for a, b in zip(offsets[:-1], offsets[1:])]


def summary(folder):
    with open(os.path.join(folder, "corpus.json"), encoding="utf-8") as file:
        return json.load(file)


def refuse_prepare(capsys, root, argv):
    """Run prepare with flags or text that it refuses; return its message."""
    before = corpora.read_tree(root)
    message = corpora.refusal(capsys, "prepare", *argv)
    assert corpora.read_tree(root) == before
    assert message.startswith("prepare.py: ")
    return message


# What is written


def test_ids_decode_to_the_text_of_their_split(tmp_path, capsys):
    out = fill(tmp_path)
    corpora.run_command("prepare", "--out", out, *SMALL)
    vocabularies = load_vocabularies(out)
    assert vocabularies.joint
    for split in PAIRS:
        for side, language in (("source", "de"), ("target", "en")):
            vocabulary = getattr(vocabularies, side)
            decoded = [vocabulary.decode(ids) for ids in load(out, split, side)]
            assert decoded == sentences(split, language)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "test: warning: 1 of 7 pairs are in train, too"
    assert [line.split(":")[0] for line in printed[1:]] == list(PAIRS)
    assert printed[1].startswith("train: 60 pairs kept, 0 dropped (0 empty, 0 longer")
    assert sorted(os.listdir(out)) == sorted(
        ["spm.model", "corpus.json"]
        + [f"{split}.{language}" for split in PAIRS for language in WORDS]
        + [
            f"{split}.{side}.{part}.npy"
            for split in PAIRS
            for side in ("source", "target")
            for part in ("ids", "offsets")
        ]
    )


def test_separate_vocabularies_see_one_language_each(tmp_path):
    out = fill(tmp_path)
    corpora.run_command("prepare", "--out", out, "--vocab_size", "40", "--separate")
    vocabularies = load_vocabularies(out)
    assert not vocabularies.joint
    assert UNK in vocabularies.target.encode("ü")
    assert UNK not in vocabularies.source.encode("ü")
    decoded = [vocabularies.source.decode(ids) for ids in load(out, "dev", "source")]
    assert decoded == sentences("dev", "de")


def test_rare_characters_are_encoded_as_bytes_if_asked(tmp_path):
    out = fill(tmp_path)
    flags = ["--byte_fallback", "--character_coverage", "0.99"]
    corpora.run_command("prepare", "--out", out, "--vocab_size", "310", *flags)
    vocabulary = load_vocabularies(out).source
    pieces = set("".join(vocabulary.pieces(range(vocabulary.size))))
    assert "a" in pieces and "ß" not in pieces
    line = "die große Wiese 🙂"
    ids = vocabulary.encode(line)
    assert UNK not in ids
    assert vocabulary.decode(ids) == line


def test_vocab_from_replaces_the_vocabulary(tmp_path):
    out, vocab_folder = fill(tmp_path / "out"), tmp_path / "vocab_folder"
    corpora.run_command("prepare", "--out", out, *SMALL)
    vocab_folder.mkdir()
    kinds = [(JOINT_SUBWORDS, subword_list, WORDS["de"] + WORDS["en"])] + [
        (name, word_list, [*WORDS[language], "und"])
        for name, language in zip(SEPARATE_WORDS, WORDS)
    ]
    for files in (kinds[:1], kinds[1:]):
        for path in vocab_folder.iterdir():
            path.unlink()
        for name, write_list, words in files:
            write_list(vocab_folder / name, 80, sorted(set(words)))
        corpora.run_command("prepare", "--out", out, "--vocab_from", vocab_folder)
        vocabularies = load_vocabularies(out)
        assert vocabularies.joint is (len(files) == 1)
        assert summary(out)["vocab"] == {
            "source_size": 80,
            "target_size": 80,
            "joint": vocabularies.joint,
            "type": "given",
        }
        for side, language in zip(("source", "target"), ("de", "en")):
            decoded = [
                getattr(vocabularies, side).decode(ids)
                for ids in load(out, "dev", side)
            ]
            assert decoded == sentences("dev", language)


def test_vocab_from_needs_a_vocabulary(tmp_path, capsys):
    argv = ["--out", fill(tmp_path / "out"), "--vocab_from", str(tmp_path)]
    assert "the vocabulary is missing: expected" in refuse_prepare(
        capsys, tmp_path, argv
    )


def test_the_same_text_gives_the_same_bytes(tmp_path):
    text = fill(tmp_path / "text")
    results = []
    for name in ("a", "b", "a"):
        out = str(tmp_path / "deep" / name)
        argv = ["--out", out, *SMALL]
        for split in PAIRS:
            argv += ["--" + split, f"{text}/{split}.de", f"{text}/{split}.en"]
        corpora.run_command("prepare", *argv)
        results.append(corpora.read_tree(out))
    assert results[0] == results[1] == results[2]
    assert sorted(os.listdir(str(tmp_path / "deep"))) == ["a", "b"]


@pytest.mark.parametrize("kind", [[], ["--separate"]])
def test_bpe_dropout_writes_train_in_other_pieces_and_only_train(tmp_path, kind):
    plain, once, again = (fill(tmp_path / name) for name in ("plain", "once", "again"))
    dropout = ["--bpe_dropout", "0.3", "--copies", "3"]
    for out, flags in ((plain, []), (once, dropout), (again, dropout)):
        corpora.run_command(
            "prepare", "--out", out, "--vocab_size", "45", *kind, *flags
        )
    assert corpora.read_tree(once) == corpora.read_tree(again)
    assert summary(once)["bpe_dropout"] == {"probability": 0.3, "copies": 3}
    assert "bpe_dropout" not in summary(plain)
    vocabularies = load_vocabularies(once)
    for side, language in (("source", "de"), ("target", "en")):
        for split in ("dev", "test"):
            assert load(once, split, side) == load(plain, split, side)
        copies = np.reshape(np.array(load(once, "train", side), object), (3, -1))
        for copy in copies.tolist():
            assert [*map(getattr(vocabularies, side).decode, copy)] == (
                sentences("train", language)
            )
        assert len({str(copy) for copy in copies.tolist()}) == 3


def test_bpe_dropout_with_vocab_from(tmp_path, capsys):
    """The ids are those of its own corpus; a unigram model has no merges."""
    own, copied = fill(tmp_path / "own"), fill(tmp_path / "copied")
    corpora.run_command(
        "prepare", "--out", own, "--vocab_size", "45", "--bpe_dropout", "0.3"
    )
    corpora.run_command(
        "prepare", "--out", copied, "--vocab_from", own, "--bpe_dropout", "0.3"
    )
    for side in ("source", "target"):
        assert load(copied, "train", side) == load(own, "train", side)
    corpora.run_command(
        "prepare", "--out", own, "--vocab_size", "45", "--model_type", "unigram"
    )
    with pytest.raises(SystemExit):
        corpora.run_command(
            "prepare", "--out", copied, "--vocab_from", own, "--bpe_dropout", "0.3"
        )
    assert "expected a vocabulary of the model type bpe" in capsys.readouterr().err


def test_pairs_that_are_too_long_do_not_take_part_in_bpe_dropout(tmp_path, monkeypatch):
    """The time of a word grows with the square of its length, here 45 seconds."""
    short, long = fill(tmp_path / "short"), fill(tmp_path / "long")
    dropout = ["--bpe_dropout", "0.3"]
    corpora.run_command("prepare", "--out", short, "--vocab_size", "45", *dropout)
    for language, word in (("de", "Hund" * 12000), ("en", "dog")):
        path = os.path.join(long, f"train.{language}")
        write(path, [word, *sentences("train", language)])
    corpora.run_command("prepare", "--out", long, "--vocab_from", short, *dropout)
    for side in ("source", "target"):
        assert load(long, "train", side) == load(short, "train", side)
    assert summary(long)["splits"]["train"]["too_long"] == 1
    assert "grown" not in summary(long)["splits"]["train"]
    limit = max(map(len, load(short, "train", "source")))
    printed = corpora.command_output(
        "prepare", "--out", long, "--vocab_from", short, "--bpe_dropout", "0.9",
        "--max_length", str(limit),
    )  # fmt: skip
    [line] = [line for line in printed if line.startswith("train: ")][-1:]
    grown = summary(long)["splits"]["train"]["grown"]
    too_long = summary(long)["splits"]["train"]["too_long"]
    assert too_long == grown + 1
    words = f"{too_long} longer than {limit} pieces, {grown} of them only with BPE-drop"
    assert words in line


@pytest.mark.parametrize(
    "lines, flags, warning",
    [
        (["او می\u200cخواهد"], [], "loses U+200C ZERO WIDTH NON-JOINER; --normal"),
        (["a می\u200cخواهد b"], [], r"'می\u200cخواهد' becomes 'می خواهد'"),
        (["½ Liter"], [], "'½' becomes '1⁄2', which loses U+00BD VULGAR FRACTION ONE"),
        (["Cafe\u0301"], [], "loses U+0065 LATIN SMALL LETTER E, U+0301 COMBINING"),
        (["Ж"], [], "'Ж' becomes '⁇', which loses U+0416"),
        (["Ж"], ["--byte_fallback", "--vocab_size", "320"], ""),
        (["½ m² 10 ‑ ﬁ …"], ["--normalization", "identity"], ""),
        (["a  b ", "a\u00a0b"], [], ""),
    ],
    ids=ascii,
)
def test_text_that_the_vocabulary_cannot_give_back_is_named(
    tmp_path, lines, flags, warning
):
    out = fill(tmp_path)
    if lines != ["Ж"]:
        for split in ("train", "dev"):
            write(
                tmp_path / f"{split}.de", sentences(split, "de")[len(lines) :] + lines
            )
    else:
        write(tmp_path / "dev.de", sentences("dev", "de")[1:] + lines)
    argv = ["--out", out, "--vocab_size", "70", *flags]
    printed = corpora.command_output("prepare", *argv)
    warnings = [line for line in printed if "survive" in line]
    assert len(warnings) == bool(warning)
    if warning:
        assert warnings[0].startswith(
            "dev: warning: 1 of 9 source lines (11.1%) do not"
        )
        assert warning in warnings[0]


def test_a_test_split_is_not_needed(tmp_path):
    out = fill(tmp_path)
    corpora.run_command("prepare", "--out", out, *SMALL)
    for language in WORDS:
        os.remove(os.path.join(out, "test." + language))
    corpora.run_command("prepare", "--out", out, *SMALL)
    assert list(summary(out)["splits"]) == ["train", "dev"]
    assert not [name for name in os.listdir(out) if name.startswith("test")]


def test_the_vocabulary_is_trained_on_the_train_split_only(tmp_path):
    out = fill(tmp_path)
    corpora.run_command("prepare", "--out", out, *SMALL)
    with open(os.path.join(out, "spm.model"), "rb") as file:
        before = file.read()
    for split in ("dev", "test"):
        write(tmp_path / f"{split}.de", ["Ж"] * PAIRS[split])
    corpora.run_command("prepare", "--out", out, *SMALL)
    with open(os.path.join(out, "spm.model"), "rb") as file:
        assert file.read() == before
    assert summary(out)["splits"]["dev"]["source_unknown"] == PAIRS["dev"]


# What is read


def languages(out):
    return [summary(out)[f"{side}_lang"] for side in ("source", "target")]


def test_the_languages_are_those_of_the_flags(tmp_path):
    out = fill(tmp_path)
    for flags in (["--source_lang", "en"], ["--source_lang=en", "--target_lang=de"]):
        corpora.run_command("prepare", "--out", out, *SMALL, *flags)
        assert languages(out) == ["en", "de"]
        vocabulary = load_vocabularies(out).source
        decoded = [vocabulary.decode(ids) for ids in load(out, "dev", "source")]
        assert decoded == sentences("dev", "en")


@pytest.mark.parametrize(
    "names, expected",
    [
        (("corpus.es", "corpus.en"), ["es", "en"]),
        (("a.de-es.es.gz", "a.de-es.de.gz"), ["es", "de"]),
        (("corpus.es-419", "corpus.pt-BR"), ["es-419", "pt-BR"]),
        (("corpus.zh-Hans-CN", "corpus.deu_Latn"), ["zh-Hans-CN", "deu_Latn"]),
        (("text.src", "text.tgt"), ["source", "target"]),
    ],
)
def test_the_languages_are_those_of_the_file_names(tmp_path, names, expected):
    """Else they have neutral names, and the files in the data folder too."""
    out = str(tmp_path / "out")
    argv = ["--out", out, *SMALL]
    for split in ("train", "dev"):
        (tmp_path / split).mkdir()
        argv.append("--" + split)
        for language, name in zip(WORDS, names):
            argv.append(write(tmp_path / split / name, sentences(split, language)))
    corpora.run_command("prepare", *argv)
    assert languages(out) == expected
    for language, name in zip(WORDS, expected):
        lines = list(read_lines(os.path.join(out, f"dev.{name}")))
        assert lines == sentences("dev", language)
    corpora.run_command(
        "prepare", *argv[: argv.index("--dev")]
    )  # dev is found in the folder
    assert languages(out) == expected


# What is refused


def test_files_of_different_line_counts_are_refused(tmp_path, capsys):
    out = fill(tmp_path)
    write(tmp_path / "dev.en", sentences("dev", "en")[:-1])
    message = refuse_prepare(capsys, tmp_path, ["--out", out, *SMALL])
    assert f"got 9 in {out}/dev.de and 8 in {out}/dev.en" in message


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_an_empty_split_is_refused_before_any_work(tmp_path, capsys, split):
    out = fill(tmp_path)
    for language in WORDS:
        write(tmp_path / f"{split}.{language}", [])
    message = refuse_prepare(capsys, tmp_path, ["--out", out, *SMALL])
    assert f"{split}: expected text, got empty files: {out}/{split}.de" in message


def test_separate_vocabularies_of_the_other_direction_are_refused(tmp_path, capsys):
    out = fill(tmp_path / "text")
    corpora.run_command("prepare", "--out", out, "--vocab_size", "40", "--separate")
    reverse = ["--source_lang", "en", "--target_lang", "de", "--vocab_from", out]
    argv = ["--out", fill(tmp_path / "reverse"), *reverse]
    message = refuse_prepare(capsys, tmp_path, argv)
    assert "expected the vocabularies of en → de, got those of de → en" in message
    corpora.run_command("prepare", "--out", out, *SMALL)
    corpora.run_command("prepare", *argv)


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_missing_split_is_refused(tmp_path, capsys, split):
    out = fill(tmp_path, splits=[name for name in PAIRS if name != split])
    message = refuse_prepare(capsys, tmp_path, ["--out", out, *SMALL])
    assert f"{split}.de" in message
    assert f"--{split} SOURCE TARGET" in message


@pytest.mark.parametrize(
    "flags, message",
    [
        ("--source_lang en --target_lang en", "expected two different names, got 'en'"),
        ("--source_lang ../de", "expected letters, digits, - and _ only, got '../de'"),
        ("--max_length 0", "--max_length: expected 1 or more, got 0"),
        ("--workers 0", "--workers: expected 1 or more, got 0"),
        ("--max_ratio 0.5", "or 0 for no limit, got 0.5"),
        ("--bpe_dropout nan", "--bpe_dropout: expected 0 to 1, got nan"),
        ("--bpe_dropout 0.1 --model_type unigram", "expected --model_type bpe"),
        ("--copies 2", "got --copies 2 alone"),
        ("--vocab_from x", "or --vocab_size, got both"),
        ("--train a.de", "got 'a.de'"),
        ("--train a.de a.en nan", "1000, got 'nan'"),
    ],
)
def test_wrong_flags_are_refused(tmp_path, capsys, flags, message):
    out = fill(tmp_path)
    argv = ["--out", out, *SMALL, *flags.split()]
    assert message in refuse_prepare(capsys, tmp_path, argv)


@pytest.mark.parametrize(
    "content, words",
    [
        (
            gzip.compress(b"Hund\n" * 9),
            ["dev.de: expected text, plain or gzipped, got gzip", "dev.de.gz"],
        ),
        (
            "läuft\n".encode("latin-1") * 9,
            ["dev.de:1: expected UTF-8, got the byte 0xe4", "iconv -f LATIN1"],
        ),
        (
            "läuft\nläuft\n".encode("utf-8") + "läuft\n".encode("latin-1"),
            ["dev.de:3: expected UTF-8, got the byte 0xe4, although", "iconv -c"],
        ),
        (
            "läuft\nlä".encode("utf-8")[:-1],
            ["dev.de:2: expected UTF-8, got an incomplete character at the end"],
        ),
    ],
    ids=["gzip", "latin1", "a line", "the end"],
)
def test_text_that_is_not_utf8_is_refused_with_advice(tmp_path, capsys, content, words):
    out = fill(tmp_path)
    write(tmp_path / "dev.de", content)
    message = refuse_prepare(capsys, tmp_path, ["--out", out, *SMALL])
    assert [word for word in words if word not in message] == []


def test_text_that_may_be_the_only_copy_is_not_replaced(tmp_path, capsys):
    out = fill(tmp_path)
    train = ["--train", f"{out}/train.de", f"{out}/train.en"]
    for dev, reason in (
        (["dev.en", "dev.de"], "dev.en: expected a file in another language than en"),
        (["dev.de", "dev.de"], "dev: expected two languages, got the same text"),
        (["test.de", "test.en"], "expected no file, or the text of"),
    ):
        named = [os.path.join(out, name) for name in dev]
        message = refuse_prepare(
            capsys, tmp_path, ["--out", out, *SMALL, *train, "--dev", *named]
        )
        assert reason in message


def test_a_full_disk_names_the_file_and_leaves_the_corpus(
    tmp_path, capsys, limit_file_size
):
    """RLIMIT_FSIZE: Python ignores the signal, so that a write fails."""
    out = fill(tmp_path)
    corpora.run_command("prepare", "--out", out, *SMALL)
    limit_file_size(400)
    message = refuse_prepare(capsys, tmp_path, ["--out", out, *SMALL])
    limit_file_size()
    assert "no space" in message and "File too large" in message and out in message


def test_a_log_directory_is_refused(tmp_path, capsys):
    out = fill(tmp_path)
    write(tmp_path / "hparams.json", b"{}")
    assert "got a log directory" in refuse_prepare(
        capsys, tmp_path, ["--out", out, *SMALL]
    )


def test_a_split_whose_pairs_are_all_dropped_is_refused(tmp_path, capsys):
    out = fill(tmp_path)
    write(tmp_path / "train.en", [""] * PAIRS["train"])
    message = refuse_prepare(capsys, tmp_path, ["--out", out, "--vocab_size", "40"])
    assert "60 empty" in message


def test_a_vocabulary_of_another_size_names_the_size_that_works(tmp_path, capsys):
    out = fill(tmp_path)
    message = refuse_prepare(capsys, tmp_path, ["--out", out, "--vocab_size", "5"])
    assert "got 5; raise --vocab_size" in message
    message = refuse_prepare(capsys, tmp_path, ["--out", out, "--vocab_size", "8000"])
    assert "lower --vocab_size to" in message
    corpora.run_command("prepare", "--out", out, "--vocab_size", message.split()[-1])


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("No space left")])
def test_an_interrupted_run_leaves_nothing_behind(tmp_path, monkeypatch, error):
    text, out = fill(tmp_path / "text"), str(tmp_path / "new" / "out")
    argv = ["--out", out, *SMALL]
    for split in PAIRS:
        argv += ["--" + split, f"{text}/{split}.de", f"{text}/{split}.en"]
    before = corpora.read_tree(tmp_path)

    def interrupted(*_):
        raise error

    monkeypatch.setattr(prepare, "write_summary", interrupted)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        corpora.run_command("prepare", *argv)
    assert corpora.read_tree(tmp_path) == before


@pytest.mark.parametrize(
    "language, tokenizer",
    [("zho_Hans", "zh"), ("yue", "zh"), ("jpn_Jpan", "char"), ("deu_Latn", "13a")],
)
def test_languages_of_three_letters_have_tokenizers_too(language, tokenizer):
    assert tokenizer_of(language) == tokenizer


def test_a_language_without_spaces_keeps_its_characters_and_is_scored_by_them(tmp_path):
    """Full-width punctuation would become ASCII, and a line would be one word."""
    chinese = ["我看见一只狗，它很大。", "你好！²"] * 20
    german = ["Ich sehe einen Hund, er ist groß.", "Hallo!"] * 20
    for split in ("train", "dev"):
        write(tmp_path / f"{split}.de", german)
        write(tmp_path / f"{split}.zh", chinese)
    named = [str(tmp_path / f"{split}.zh") for split in ("train", "dev")]
    pairs = [[path.replace(".zh", ".de"), path] for path in named]
    out = str(tmp_path / "out")
    flags = ["--train", *pairs[0], "--dev", *pairs[1], "--vocab_size", "70"]
    corpora.run_command("prepare", "--out", out, *flags)
    vocabulary = load_vocabularies(out).target
    for line in chinese[:2]:
        assert vocabulary.decode(vocabulary.encode(line)) == line
    text = read_parallel(out, "dev")
    assert text.tokenizer == read_parallel(out, "", pairs[1]).tokenizer == "zh"
    reference = write(tmp_path / "reference.txt", chinese)
    assert read_parallel(out, "", [pairs[1][0], reference]).tokenizer == "zh"
    assert read_parallel("", "", [pairs[1][0], reference]).tokenizer == "13a"
    wrong = [line.replace("狗", "猫") for line in chinese]
    scores = score(wrong, chinese, 0, list(METRICS), text.tokenizer)
    assert 50 < scores.bleu < 100 and "tok:zh" in scores["bleu"].signature
    assert 0 < scores.ter < 20 and score(wrong, chinese).bleu < scores.bleu
