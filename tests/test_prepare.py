"""scripts/prepare.py: what it writes, and that a refusal writes nothing."""

import gzip
import json
import os
import resource
import shutil
import subprocess
import sys

import numpy as np
import prepare
import pytest
from originals import subword_list, word_list

from transformer.text.lines import read_lines
from transformer.text.vocabulary import UNK
from transformer.text.vocabulary_files import (
    JOINT_SUBWORDS,
    SEPARATE_WORDS,
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
    """Writes lines, or bytes as they are, gzipped if the name says so."""
    content = lines
    if not isinstance(lines, bytes):
        content = "".join(line + "\n" for line in lines).encode("utf-8")
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(str(path), "wb") as file:
        file.write(content)
    return str(path)


def fill(folder, ending="", splits=PAIRS):
    """Writes {split}.{language} of some splits; returns the folder's name."""
    os.makedirs(str(folder), exist_ok=True)
    for split in splits:
        for language in WORDS:
            name = os.path.join(str(folder), f"{split}.{language}{ending}")
            write(name, sentences(split, language))
    return str(folder)


def tree(folder):
    """Returns every path below a folder, with the bytes of the files."""
    found = {}
    for parent, folders, files in os.walk(str(folder)):
        found.update((os.path.join(parent, name), None) for name in folders)
        for name in files:
            with open(os.path.join(parent, name), "rb") as file:
                found[os.path.join(parent, name)] = file.read()
    return found


def load(folder, split, side):
    """Returns the sentences of a split as lists of ids."""
    ids, offsets = (
        np.load(os.path.join(folder, f"{split}.{side}.{part}.npy"), "r")
        for part in ("ids", "offsets")
    )
    assert ids.dtype == np.uint16
    assert offsets.dtype == np.int64
    assert isinstance(ids, np.memmap)
    return [ids[a:b].tolist() for a, b in zip(offsets[:-1], offsets[1:])]


def summary(folder):
    with open(os.path.join(folder, "corpus.json"), encoding="utf-8") as file:
        return json.load(file)


def refused(capsys, root, argv):
    """Runs prepare on what must be refused; returns what it said, one line."""
    before = tree(root)
    with pytest.raises(SystemExit) as stopped:
        prepare.main(argv)
    assert stopped.value.code == 2
    assert tree(root) == before
    said = capsys.readouterr().err
    assert said.startswith("prepare.py: ")
    assert said.count("\n") == 1
    return said


# What is written


def test_ids_decode_to_the_text_of_their_split(tmp_path, capsys):
    out = fill(tmp_path)
    prepare.main(["--out", out, *SMALL])
    vocabularies = load_vocabularies(out)
    assert vocabularies.joint
    for split in PAIRS:
        for side, language in (("source", "de"), ("target", "en")):
            vocabulary = getattr(vocabularies, side)
            decoded = [vocabulary.decode(ids) for ids in load(out, split, side)]
            assert decoded == sentences(split, language)
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in printed] == list(PAIRS)
    assert printed[0].startswith("train: 60 pairs kept, 0 dropped (0 empty, 0 longer")
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


def test_text_that_is_there_already_is_left_untouched(tmp_path):
    out = fill(tmp_path)
    write(tmp_path / "dev.de", b"\xef\xbb\xbf" + b"Hund\r\n" * PAIRS["dev"])
    before = tree(out)
    prepare.main(["--out", out, *SMALL])
    after = tree(out)
    assert {path: after[path] for path in before} == before


def test_the_summary_counts_what_is_on_disk(tmp_path):
    out = fill(tmp_path)
    prepare.main(["--out", out, "--vocab_size", "40", "--model_type", "unigram"])
    found = summary(out)
    assert (found["source_lang"], found["target_lang"]) == ("de", "en")
    assert found["vocab"] == {
        "source_size": 40,
        "target_size": 40,
        "joint": True,
        "type": "unigram",
    }
    for split, report in found["splits"].items():
        ids = load(out, split, "target")
        assert report["pairs"] == len(ids) == PAIRS[split]
        assert report["target_tokens"] == sum(map(len, ids))


def test_separate_vocabularies_see_one_language_each(tmp_path):
    out = fill(tmp_path)
    prepare.main(["--out", out, "--vocab_size", "40", "--separate"])
    vocabularies = load_vocabularies(out)
    assert not vocabularies.joint
    assert UNK in vocabularies.target.encode("ü")
    assert UNK not in vocabularies.source.encode("ü")
    decoded = [vocabularies.source.decode(ids) for ids in load(out, "dev", "source")]
    assert decoded == sentences("dev", "de")


def test_preparing_again_replaces_the_other_kind_of_vocabulary(tmp_path):
    out = fill(tmp_path)
    for flags, joint in (([], True), (["--separate"], False), ([], True)):
        prepare.main(["--out", out, "--vocab_size", "40", *flags])
        assert load_vocabularies(out).joint is joint


def test_a_vocabulary_that_is_given_replaces_what_there_was(tmp_path):
    out, given = fill(tmp_path / "out"), tmp_path / "given"
    prepare.main(["--out", out, *SMALL])
    given.mkdir()
    kinds = [(JOINT_SUBWORDS, subword_list, WORDS["de"] + WORDS["en"])] + [
        (name, word_list, [*WORDS[language], "und"])
        for name, language in zip(SEPARATE_WORDS, WORDS)
    ]
    for files in (kinds[:1], kinds[1:]):
        for path in given.iterdir():
            path.unlink()
        for name, write_list, words in files:
            write_list(given / name, 80, sorted(set(words)))
        prepare.main(["--out", out, "--vocab_from", str(given)])
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


def test_a_vocabulary_that_is_given_is_not_trained(tmp_path, capsys):
    out, empty = fill(tmp_path / "out"), tmp_path / "empty"
    empty.mkdir()
    argv = ["--out", out, "--vocab_from", str(empty)]
    assert "found no vocabulary" in refused(capsys, tmp_path, argv)
    for flags in (
        ["--vocab_size=9"],
        ["--separate"],
        ["--model_type", "bpe"],
        ["--bpe_dropout", "0.1"],
    ):
        with pytest.raises(SystemExit):
            prepare.main(argv + flags)
        assert "wanted one of them" in capsys.readouterr().err


def test_the_same_text_gives_the_same_bytes(tmp_path):
    text = fill(tmp_path / "text")
    results = []
    for name in ("a", "b", "a"):
        out = str(tmp_path / "deep" / name)
        argv = ["--out", out, *SMALL]
        for split in PAIRS:
            argv += ["--" + split, f"{text}/{split}.de", f"{text}/{split}.en"]
        prepare.main(argv)
        results.append({path[len(out) :]: data for path, data in tree(out).items()})
    assert results[0] == results[1] == results[2]
    assert sorted(os.listdir(str(tmp_path / "deep"))) == ["a", "b"]


@pytest.mark.parametrize("kind", [[], ["--separate"]])
def test_bpe_dropout_writes_train_in_other_pieces_and_only_train(tmp_path, kind):
    plain, once, again = (fill(tmp_path / name) for name in ("plain", "once", "again"))
    dropout = ["--bpe_dropout", "0.3", "--copies", "3"]
    for out, flags in ((plain, []), (once, dropout), (again, dropout)):
        prepare.main(["--out", out, "--vocab_size", "45", *kind, *flags])
    assert [*tree(once).values()] == [*tree(again).values()]
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


def test_a_test_split_is_not_needed(tmp_path):
    out = fill(tmp_path)
    prepare.main(["--out", out, *SMALL])
    for language in WORDS:
        os.remove(os.path.join(out, "test." + language))
    prepare.main(["--out", out, *SMALL])
    assert list(summary(out)["splits"]) == ["train", "dev"]
    assert not [name for name in os.listdir(out) if name.startswith("test")]


def test_dashes_are_underscores(tmp_path):
    out = fill(tmp_path)
    prepare.main(["--out", out, "--vocab-size=60", "--max-length", "9"])
    assert summary(out)["splits"]["dev"]["max_length"] == 9


def test_the_vocabulary_is_trained_on_the_train_split_only(tmp_path):
    out = fill(tmp_path)
    prepare.main(["--out", out, *SMALL])
    with open(os.path.join(out, "spm.model"), "rb") as file:
        before = file.read()
    for split in ("dev", "test"):
        write(tmp_path / f"{split}.de", ["Ж"] * PAIRS[split])
    prepare.main(["--out", out, *SMALL])
    with open(os.path.join(out, "spm.model"), "rb") as file:
        assert file.read() == before
    assert summary(out)["splits"]["dev"]["source_unknown"] == PAIRS["dev"]


# What is dropped


def test_empty_and_long_pairs_are_dropped_from_ids_but_not_from_text(tmp_path, capsys):
    out = fill(tmp_path)
    broken = {}
    for split, language, line in (
        ("train", "de", ""),
        ("dev", "en", " \t"),
        ("test", "en", "the dog " * 50),
    ):
        broken[split] = sentences(split, language)
        broken[split][3] = line
        write(tmp_path / f"{split}.{language}.gz", broken[split])
        os.remove(os.path.join(out, f"{split}.{language}"))
    prepare.main(["--out", out, *SMALL, "--max_length", "70"])
    reports = summary(out)["splits"]
    assert {name: (r["empty"], r["too_long"]) for name, r in reports.items()} == {
        "train": (1, 0),
        "dev": (1, 0),
        "test": (0, 1),
    }
    vocabularies = load_vocabularies(out)
    for split in PAIRS:
        kept = [line for n, line in enumerate(sentences(split, "de")) if n != 3]
        ids = load(out, split, "source")
        assert [vocabularies.source.decode(one) for one in ids] == kept
        assert len(load(out, split, "target")) == len(kept)
    assert list(read_lines(os.path.join(out, "dev.en"))) == broken["dev"]
    assert list(read_lines(os.path.join(out, "test.en"))) == broken["test"]
    assert "train: 59 pairs kept, 1 dropped (1 empty" in capsys.readouterr().out


def test_no_kept_pair_is_longer_than_asked_for(tmp_path):
    out = fill(tmp_path)
    prepare.main(["--out", out, *SMALL, "--max_length", "20"])
    report = summary(out)["splits"]["train"]
    assert 0 < report["pairs"] < report["pairs"] + report["too_long"] == PAIRS["train"]
    longest = max(
        len(ids) for side in ("source", "target") for ids in load(out, "train", side)
    )
    assert longest <= 20


# What is read


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_iwslt_files_as_distributed(tmp_path, ending):
    plain, out = fill(tmp_path / "plain"), str(tmp_path / "out")
    raw = tmp_path / "raw"
    raw.mkdir()
    argv = ["--out", out, *SMALL]
    for split in ("train", "dev"):
        argv.append("--" + split)
        for language in WORDS:
            lines = sentences(split, language)
            name = f"train.tags.de-en.{language}"
            if split == "train":
                lines = ["<url>u</url>", *lines, "<title>t</title>"]
            else:
                name = f"IWSLT16.TED.dev2010.de-en.{language}.xml"
                lines = [f'<seg id="{n}"> {one} </seg>' for n, one in enumerate(lines)]
                lines = ["<doc>", *lines, "</doc>"]
            argv.append(write(raw / (name + ending), lines))
    prepare.main(argv)
    prepare.main(["--out", plain, *SMALL])
    for path, data in tree(out).items():
        name = os.path.basename(path)
        if name != "corpus.json":
            with open(os.path.join(plain, name), "rb") as file:
                assert file.read() == data, name


def test_gz_and_windows_line_ends_change_nothing(tmp_path):
    plain, packed = fill(tmp_path / "plain"), fill(tmp_path / "packed", ending=".gz")
    for language in WORDS:
        lines = sentences("dev", language)
        write(
            os.path.join(packed, f"dev.{language}.gz"),
            "".join(line + "\r\n" for line in lines).encode("utf-8"),
        )
    for out in (plain, packed):
        prepare.main(["--out", out, *SMALL])
    for path, data in tree(packed).items():
        if not path.endswith(".gz"):
            with open(os.path.join(plain, os.path.basename(path)), "rb") as file:
                assert file.read() == data, path


def test_other_languages(tmp_path):
    out = fill(tmp_path)
    prepare.main(["--out", out, *SMALL, "--source_lang", "en", "--target_lang", "de"])
    vocabulary = load_vocabularies(out).source
    decoded = [vocabulary.decode(ids) for ids in load(out, "dev", "source")]
    assert decoded == sentences("dev", "en")


# What is refused


def test_files_of_different_line_counts(tmp_path, capsys):
    out = fill(tmp_path)
    write(tmp_path / "dev.en", sentences("dev", "en")[:-1])
    said = refused(capsys, tmp_path, ["--out", out, *SMALL])
    assert "9 sentences" in said
    assert "and 8 in" in said
    assert "dev.de" in said
    assert "dev.en" in said


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_missing_split(tmp_path, capsys, split):
    out = fill(tmp_path, splits=[name for name in PAIRS if name != split])
    said = refused(capsys, tmp_path, ["--out", out, *SMALL])
    assert f"{split}.de" in said
    assert f"--{split} SOURCE TARGET" in said


def test_half_a_test_split(tmp_path, capsys):
    out = fill(tmp_path)
    os.remove(os.path.join(out, "test.en"))
    assert "test.en" in refused(capsys, tmp_path, ["--out", out, *SMALL])


def test_a_missing_file_that_was_named(tmp_path, capsys):
    out = fill(tmp_path)
    argv = ["--out", out, *SMALL, "--dev", f"{out}/dev.de", f"{out}/none.en"]
    assert "none.en" in refused(capsys, tmp_path, argv)


def test_a_language_that_is_not_there(tmp_path, capsys):
    out = fill(tmp_path)
    said = refused(capsys, tmp_path, ["--out", out, *SMALL, "--source_lang", "fr"])
    assert "train.fr" in said
    assert "--source_lang" in said


@pytest.mark.parametrize(
    "flags",
    [
        ["--source_lang", "en"],
        ["--source_lang", "../de"],
        ["--target_lang", ""],
        ["--max_length", "0"],
        ["--vocab_size", "-1"],
        ["--bpe_dropout", "1.1"],
        ["--bpe_dropout", "-0.1"],
        ["--bpe_dropout", "nan"],
        ["--bpe_dropout", "0.1", "--model_type", "unigram"],
        ["--copies", "2"],
        ["--bpe_dropout", "0.1", "--copies", "0"],
    ],
)
def test_flags_that_cannot_be(tmp_path, capsys, flags):
    out = fill(tmp_path)
    assert "found" in refused(capsys, tmp_path, ["--out", out, *SMALL, *flags])


KINDS = {
    "gzip": (gzip.compress(b"Hund\n" * 9), "a name that ends in .gz"),
    "utf16": ("Hund\n".encode("utf-16") * 9, "iconv -f UTF-16 -t UTF-8"),
    "utf16_without_mark": ("Hund\n".encode("utf-16-be") * 9, "iconv -f UTF-16"),
    "latin1": ("läuft\n".encode("latin-1") * 9, "iconv -f LATIN1 -t UTF-8"),
    "cr_alone": (b"Hund\rHund\r" * 9, r"tr '\r' '\n'"),
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_other_kinds_of_text_are_recognized(tmp_path, capsys, kind):
    out, (content, advice) = fill(tmp_path), KINDS[kind]
    write(tmp_path / "dev.de", content)
    said = refused(capsys, tmp_path, ["--out", out, *SMALL])
    assert "dev.de" in said and "found " in said and advice in said


def remarks_of(out, capsys, **files):
    """What prepare.py remarks on text files: split → their paths."""
    capsys.readouterr()
    named = [word for split, pair in files.items() for word in (f"--{split}", *pair)]
    prepare.main(["--out", str(out), "--vocab_size", "36", *named])
    said = capsys.readouterr().out.splitlines()
    return [line for line in said if line.startswith("remark on ")]


def test_text_that_is_probably_not_meant_is_remarked_on(tmp_path, capsys):
    files = {}
    for split, lines in {**PAIRS, "twice": 120, "alone": 1}.items():
        files[split] = [str(tmp_path / f"{split}.{language}") for language in WORDS]
        for path, language in zip(files[split], WORDS):
            text = sentences(split, language) if lines < 100 and lines > 1 else []
            text = text or 2 * sentences("train", language)
            write(path, text if lines > 1 else [" ".join(WORDS[language])])
    train, dev = files["train"], files["dev"]
    assert remarks_of(tmp_path / "0", capsys, train=train, dev=dev) == []
    for number, split in enumerate(("train", "dev"), 1):
        swapped = {"train": train, "dev": dev, split: files[split][::-1]}
        said = remarks_of(tmp_path / str(number), capsys, **swapped)
        assert said[0].startswith(f"remark on {split}: found {files[split][1]} as the")
    nameless = [
        shutil.copy(path, str(tmp_path / f"x{path[-2:]}")) for path in dev[::-1]
    ]
    [said] = remarks_of(tmp_path / "3", capsys, train=train, dev=nameless)
    assert said.startswith("remark on dev: its source has words of the target of train")
    [said] = remarks_of(tmp_path / "4", capsys, train=[train[1]] * 2, dev=dev)
    assert "60 of 60 pairs have the same text on both sides" in said
    [said] = remarks_of(tmp_path / "5", capsys, train=files["twice"], dev=dev)
    assert "of 120 pairs occurred before" in said
    [said] = remarks_of(tmp_path / "6", capsys, train=files["alone"], dev=dev)
    assert "found 1 pairs" in said


def test_text_that_may_be_the_only_copy_is_not_replaced(tmp_path, capsys):
    out = fill(tmp_path)
    for dev in (["dev.en", "dev.de"], ["dev.de", "dev.de"], ["test.de", "test.en"]):
        named = [os.path.join(out, name) for name in dev]
        said = refused(capsys, tmp_path, ["--out", out, *SMALL, "--dev", *named])
        assert "found other text in " in said and "wanted none or the same" in said


@pytest.fixture
def room():
    """room(most): no file may grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("most", [0, 100, 200, 400, 1000])
def test_a_full_disk_names_the_file_and_leaves_the_corpus(tmp_path, capsys, room, most):
    """RLIMIT_FSIZE: Python ignores the signal, so that a write fails."""
    out = fill(tmp_path)
    prepare.main(["--out", out, *SMALL])
    room(most)
    said = refused(capsys, tmp_path, ["--out", out, *SMALL])
    assert "found no room for it (File too large)" in said and out in said


def test_a_log_directory_is_not_prepared(tmp_path, capsys):
    out = fill(tmp_path)
    write(tmp_path / "hparams.json", b"{}")
    assert "found a log directory" in refused(capsys, tmp_path, ["--out", out, *SMALL])


@pytest.mark.parametrize("size", ["1", "4", "5"])
def test_a_vocabulary_too_small_says_how_many_it_takes(tmp_path, capsys, size):
    out = fill(tmp_path)
    said = refused(capsys, tmp_path, ["--out", out, "--vocab_size", size])
    assert f"found --vocab_size {size}, wanted" in said and "raise --vocab_size" in said


@pytest.mark.parametrize("split", sorted(PAIRS))
def test_bytes_that_are_not_utf8(tmp_path, capsys, split):
    out = fill(tmp_path)
    lines = [line.encode("utf-8") for line in sentences(split, "en")]
    lines[4] = b"caf\xe9"
    write(tmp_path / f"{split}.en", b"\n".join(lines))
    assert f"{split}.en:5: " in refused(capsys, tmp_path, ["--out", out, *SMALL])


def test_a_split_with_nothing_left(tmp_path, capsys):
    out = fill(tmp_path)
    write(tmp_path / "train.de", ["der Hund läuft"] * PAIRS["train"])
    argv = ["--out", out, "--vocab_size", "40", "--max_length", "1"]
    assert "60 longer than 1 pieces" in refused(capsys, tmp_path, argv)
    write(tmp_path / "train.en", [""] * PAIRS["train"])
    said = refused(capsys, tmp_path, ["--out", out, "--vocab_size", "40"])
    assert "60 empty" in said


def test_a_split_without_lines(tmp_path, capsys):
    out = fill(tmp_path)
    for language in WORDS:
        write(tmp_path / f"dev.{language}", [])
    assert "dev.de" in refused(capsys, tmp_path, ["--out", out, *SMALL])


def test_a_vocabulary_too_large_names_the_size_that_works(tmp_path, capsys):
    out = fill(tmp_path)
    said = refused(capsys, tmp_path, ["--out", out, "--vocab_size", "8000"])
    assert "lower --vocab_size to" in said
    prepare.main(["--out", out, "--vocab_size", said.split()[-1]])


def test_out_that_cannot_be_written(tmp_path, capsys):
    text = fill(tmp_path / "text")
    argv = [*SMALL, "--train", f"{text}/train.de", f"{text}/train.en"]
    argv += ["--dev", f"{text}/dev.de", f"{text}/dev.en"]
    for out in (f"{text}/dev.de", f"{text}/dev.de/below"):
        said = refused(capsys, tmp_path, ["--out", out, *argv])
        assert f"--out {out}: found a file {text}/dev.de" in said


def test_out_without_permission(tmp_path, capsys):
    out = fill(tmp_path / "out")
    os.chmod(out, 0o500)
    if os.access(out, os.W_OK):
        pytest.skip("root may write everywhere")
    assert "no permission" in refused(capsys, tmp_path, ["--out", out, *SMALL])


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("No space left")])
def test_an_interrupted_run_leaves_nothing_behind(tmp_path, monkeypatch, error):
    text, out = fill(tmp_path / "text"), str(tmp_path / "new" / "out")
    argv = ["--out", out, *SMALL]
    for split in PAIRS:
        argv += ["--" + split, f"{text}/{split}.de", f"{text}/{split}.en"]
    before = tree(tmp_path)

    def interrupted(*_):
        raise error

    monkeypatch.setattr(prepare, "write_summary", interrupted)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        prepare.main(argv)
    assert tree(tmp_path) == before


def test_the_command_line(tmp_path):
    out = fill(tmp_path)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

    def run(*argv):
        return subprocess.run(
            [sys.executable, "scripts/prepare.py", "--out", out, *argv],
            cwd=root,
            env=dict(os.environ, PYTHONPATH=root),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )

    refusal = run("--vocab_size", "8000")
    assert refusal.returncode == 2
    assert refusal.stdout == ""
    assert refusal.stderr.count("\n") == 1
    done = run(*SMALL)
    assert done.returncode == 0
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 3
