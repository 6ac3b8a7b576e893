"""Text that would be paired wrongly: misaligned, equal, reversed, or in one file."""

import argparse
import gzip
import itertools
import os
import random
import tarfile
import zipfile

import corpora
import numpy as np
import pytest
from test_prepare import WORDS, refuse_prepare

from transformer.commands import doctor, evaluate
from transformer.commands.advice import advice_for
from transformer.runtime.errors import (
    CorpusError,
    FileNotText,
    SidesEqual,
    SidesInOneFile,
)
from transformer.text.data_folder import (
    ParallelText,
    language_of,
    read_parallel,
    read_translations,
)
from transformer.text.line_lengths import find_misalignment
from transformer.text.lines import (
    FilePair,
    TolerantReader,
    align_lines,
    read_lines,
    read_pairs,
)
from transformer.text.pair_checks import (
    PairFindings,
    check_pairs,
    count_common_pairs,
    describe_findings,
    is_reversed,
)

SAMPLE = {
    (split, language): corpora.read_lines(
        os.path.join(corpora.ROOT, "data", "sample", f"{split}.{language}")
    )
    for split in ("train", "dev")
    for language in ("de", "en")
}
GERMAN = SAMPLE["train", "de"][:2000]
ENGLISH = SAMPLE["train", "en"][:2000]


def misalignment(sources, targets):
    return find_misalignment(list(map(len, sources)), list(map(len, targets)))


def file_pair(folder, sources, targets, names=("a.txt", "b.txt")):
    paths = [
        corpora.write_lines(folder / name, lines)
        for name, lines in zip(names, (sources, targets))
    ]
    return FilePair(*paths)


# --- Misaligned lines -----------------------------------------------------------------


@pytest.mark.parametrize("lost", [0, 1, 99, 700, 1234])
@pytest.mark.parametrize("side", [0, 1])
def test_a_lost_line_is_found_where_it_was(lost, side):
    sides = [GERMAN[:], ENGLISH[:]]
    del sides[side][lost]
    del sides[1 - side][-1]
    found = misalignment(*sides)
    assert found.shift == (-1 if side else 1)
    assert abs(found.first - (lost + 1)) <= 5
    assert found.last == 1999
    assert found.correlation < 0.2 and found.shifted > 0.8


@pytest.mark.parametrize("shift", [2, 4, -6, 52, 101, 800])
@pytest.mark.parametrize("first", [0, 1000])
def test_a_shift_is_found_to_the_end_in_lines_that_alternate(shift, first):
    """Captions alternate in length, so even shifts correlate, too."""
    generator = np.random.RandomState(1)
    alternate = np.where(np.arange(3000) % 2, 90, 40)
    source = alternate + generator.randint(0, 110, 3000)
    target = source + generator.randint(-15, 15, 3000)
    even = np.corrcoef(source[2:], target[:-2])[0, 1]
    assert even > 0.3
    assert find_misalignment(source, target) is None
    shifted = np.concatenate([target[:first], np.roll(target[first:], shift)])
    misalignment = find_misalignment(source, shifted)
    assert misalignment.shift == shift
    distance = abs(misalignment.first - (first + 1 + max(0, -shift)))
    assert distance <= max(20, abs(shift))
    assert misalignment.last == 3000 and misalignment.to_end
    lost = find_misalignment(np.delete(source, [300, 900, 1500]), target[:-3])
    assert lost.shift == 1 and lost.to_end


@pytest.mark.parametrize("num_lines", [200, 1000, 5000])
def test_pairs_sorted_by_both_lengths_and_lists_of_words_are_not_found(num_lines):
    generator = np.random.RandomState(1)
    for _ in range(5):
        source = np.exp(generator.normal(4, 0.4, num_lines))
        target = source * np.exp(generator.normal(0, 0.2, num_lines))
        for key in (source, target, source + target):
            order = key.argsort()
            assert find_misalignment(source[order], target[order]) is None
        words = generator.poisson(8, (2, num_lines)) + 1
        assert find_misalignment(*words) is None
        sentences = generator.poisson(60, (2, num_lines))
        wide = sentences * generator.randint(1, 4, sentences.shape)
        assert num_lines < 300 or find_misalignment(*wide).shift == 0


def test_blank_lines_that_were_removed_on_each_side_are_found():
    generator = random.Random(1)
    sides = []
    first = 2000
    for lines in (GERMAN, ENGLISH):
        blank = set(generator.sample(range(2000), 20))
        first = min(first, *blank)
        sides.append([line for i, line in enumerate(lines) if i not in blank])
    found = misalignment(*sides)
    assert first <= found.first < first + 300
    assert found.shift


def test_lines_in_no_order_are_found():
    shuffled = ENGLISH[:]
    random.Random(1).shuffle(shuffled)
    found = misalignment(GERMAN, shuffled)
    assert (found.first, found.last, found.shift) == (1, 2000, 0)
    found = misalignment(GERMAN, ENGLISH[:1000] + shuffled[1000:])
    assert (found.first, found.last, found.shift) == (1001, 2000, 0)


@pytest.mark.parametrize("num_lines", [1, 49, 50, 73, 100, 150, 500, 2000])
def test_aligned_lines_are_not_found(num_lines):
    sides = [GERMAN[:num_lines], ENGLISH[:num_lines]]
    assert misalignment(*sides) is None
    for side in sides:  # empty lines have no length to compare
        side[::7] = [""] * len(side[::7])
    assert misalignment(*sides) is None


def test_lengths_that_say_nothing_are_not_found():
    generator = np.random.RandomState(1)
    varied = generator.randint(5, 90, 2000)
    assert find_misalignment(varied, [10] * 2000) is None
    assert find_misalignment([0] * 2000, varied) is None
    assert find_misalignment(generator.randint(50, 60, 2000), varied) is None
    noisy = np.where(generator.rand(2000) < 0.5, varied, varied[::-1])
    assert find_misalignment(varied, noisy) is None  # every second line is wrong
    assert find_misalignment(np.sort(varied), np.sort(varied)) is None


def test_doctor_finds_misaligned_lines_translations_and_training(tmp_path):
    sources, references = GERMAN[:200], ENGLISH[:200]
    shifted = references[1:] + references[:1]
    check = doctor.find_misaligned_pairs
    assert check(doctor.Texts(sources, references, references)) is None
    assert "line n of the source belongs to line n-1" in check(
        doctor.Texts(sources, shifted, references)
    )
    check = doctor.find_misaligned_translations
    assert check(doctor.Texts(sources, references, references)) is None
    assert "from about line 2 on" in check(doctor.Texts(sources, references, shifted))
    assert doctor.find_misaligned_training(str(tmp_path)) == ""
    for side, lines in (("source", sources), ("target", shifted)):
        offsets = np.cumsum([0, *map(len, lines)])
        np.save(str(tmp_path / f"train.{side}.offsets.npy"), offsets)
    assert "pair n-1 of the target" in doctor.find_misaligned_training(str(tmp_path))


def test_prepare_warns_of_lines_that_do_not_belong_together(tmp_path):
    train = file_pair(tmp_path, GERMAN[1:1000], ENGLISH[:999])
    dev = file_pair(tmp_path, GERMAN[1000:1200], ENGLISH[1000:1200], ("c", "d"))
    argv = ["--out", tmp_path / "out", "--vocab_size", "300"]
    lines = corpora.command_output(
        "prepare", *argv, "--train", *train[:2], "--dev", *dev[:2], "--test", *dev[:2]
    )
    warnings = [line for line in lines if "warning" in line]
    warning, in_dev = warnings
    assert in_dev == "test: warning: 200 of 200 pairs are in dev, too"
    assert warning.startswith(f"train: warning: {train.source} and {train.target}: ")
    assert "about line 1 to 999 (the end), the sides may not be translations" in warning
    lines = corpora.command_output(
        "prepare", *argv, "--train", *dev[:2], "--dev", *dev[:2]
    )
    assert lines[0] == "dev: warning: 200 of 200 pairs are in train, too"


# --- The same text on both sides, or the sides reversed -------------------------------


def test_a_text_is_not_paired_with_itself(tmp_path):
    pairs = [f"{de}\t{en}" for de, en in zip(GERMAN[:20], ENGLISH)]
    same = file_pair(tmp_path, pairs, pairs)
    for equal in (same, FilePair(same.source, same.source)):
        with pytest.raises(SidesEqual, match="20 lines") as caught:
            check_pairs("train", equal)
        assert (
            f"cut -f1 {same.source} > {same.source}.source; cut -f2 {same.source}"
            in advice_for(caught.value)
        )
    lines = [line.replace("\t", " ||| ") for line in pairs]
    with pytest.raises(SidesEqual) as caught:
        check_pairs("train", file_pair(tmp_path, lines, lines))
    assert "awk -F" in advice_for(caught.value)
    with pytest.raises(SidesEqual) as caught:
        check_pairs("dev", file_pair(tmp_path, GERMAN[:20], GERMAN[:20]))
    assert advice_for(caught.value) == (
        "; write each language into a file of its own, and name both files"
    )
    names = file_pair(tmp_path, ["Berlin", "Paris"], ["Berlin", "Paris"])
    assert check_pairs("dev", names).num_equal == 2
    os.symlink(names.source, str(tmp_path / "link"))
    with pytest.raises(SidesEqual):
        check_pairs("dev", FilePair(names.source, str(tmp_path / "link")))


def test_reversed_files_with_neutral_names_are_refused(tmp_path, capsys):
    train = file_pair(tmp_path, GERMAN[:200], ENGLISH[:200], ("t1", "t2"))
    dev = file_pair(tmp_path, SAMPLE["dev", "de"][:40], SAMPLE["dev", "en"][:40])
    reverse = FilePair(dev.target, dev.source)
    assert is_reversed(reverse, train) and not is_reversed(dev, train)
    assert not is_reversed(FilePair(dev.source, dev.source), train)
    argv = ["--out", tmp_path / "out", "--train", *train[:2], "--dev", *reverse[:2]]
    message = refuse_prepare(capsys, tmp_path, list(map(str, argv)))
    assert f"got {dev.target} and {dev.source}; change the order" in message


def test_pairs_of_two_splits_are_counted(tmp_path):
    train = file_pair(tmp_path, ["a", " b ", "c", "", "a"], ["A", "B", "x", "", "A"])
    dev = file_pair(
        tmp_path, ["a", "a", "b", "c", "", "d"], ["A", "A", "B", "C", "", "D"], "cd"
    )
    assert count_common_pairs([train], dev) == (3, 5)
    assert count_common_pairs([], dev) == (0, 5)


# --- Formats that hold both languages -------------------------------------------------

WMT = """<?xml version='1.0' encoding='utf-8'?>
<dataset id="wmttest2022"><collection id="general"><doc origlang="de" id="d1">
<src lang="de"><p>
<seg id="1">Eins &amp; zwei.</seg>
<seg id="2">Drei.</seg></p></src>
<ref lang="en" translator="A"><p>
<SEG ID=1>One &amp; two.</SEG>
<seg id="2">Three.</seg></p></ref>
<ref lang="en" translator="B"><p>
<seg id="1">1 &amp; 2.</seg>
<seg id="2">3.</seg></p></ref>
<hyp lang="en" system="Online-A"><p>
<seg id="1">One</seg>
<seg id="2">Tree</seg></p></hyp>
</doc></collection></dataset>
"""
TMX = """<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="de-DE"/><body>
<tu><tuv xml:lang="de-DE"><seg>Ein <bpt i="1">&lt;b></bpt>Hund<ept i="1"/>
 bellt.</seg></tuv><tuv xml:lang="EN-GB"><seg>A <hi>dog</hi> barks.</seg></tuv></tu>
<tu><tuv lang="de-DE"><seg>Nur deutsch.</seg></tuv></tu>
</body></tmx>"""
XLIFF1 = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file source-language="de" target-language="en"><body>
<trans-unit id="1"><source>Ein <g id="1">Hund</g>.</source>
<target>A <g id="1">dog</g>.</target>
<alt-trans><source>Hund</source><target>cat</target></alt-trans></trans-unit>
<trans-unit id="2"><source>Nur deutsch.</source></trans-unit></body></file></xliff>"""
XLIFF2 = """<xliff version="2.0" srcLang="de" trgLang="en"><file id="f">
<unit id="1"><segment><source>Ein <pc id="1">Hund</pc>.</source>
<target>A dog.</target></segment><segment><source>Nur deutsch.</source></segment>
</unit></file></xliff>"""


def write(path, content):
    with open(str(path), "w", encoding="utf-8") as file:
        file.write(content)
    return str(path)


def test_segments_of_wmt_are_read_by_language_and_reference(tmp_path):
    path = write(tmp_path / "wmt22.xml", WMT)
    for label, expected in {
        "de": ["Eins & zwei.", "Drei."],
        "en:A": ["One & two.", "Three."],
        "en:B": ["1 & 2.", "3."],
        "en:Online-A": ["One", "Tree"],
    }.items():
        assert list(read_lines(f"{path}#{label}")) == expected
    for label, labels in (
        ("", ["de", "en:A", "en:B", "en:Online-A"]),
        ("#en", ["en:A", "en:B"]),
        ("#fr", ["de", "en:A", "en:B", "en:Online-A"]),
    ):
        with pytest.raises(SidesInOneFile) as caught:
            list(read_lines(path + label))
        assert caught.value.labels == labels
        assert f"{path}#{labels[0]}' or '{path}#" in advice_for(caught.value)
    with pytest.raises(SidesInOneFile):
        check_pairs("test", FilePair(path, path))
    assert check_pairs("test", FilePair(path + "#de", path + "#en:B")).num_pairs == 2
    assert language_of(path + "#en:B") == "en"


def test_sets_of_segments_in_one_file_are_told_apart(tmp_path):
    content = "".join(
        f"<{name}SET {attributes}>\n<DOC>\n<SEG ID=1> {text} </SEG>\n</DOC></{name}SET>"
        for name, attributes, text in (
            ("SRC", "srclang=de", "Hund"),
            ("REF", "trglang='en' refid=r1", "dog"),
            ("REF", "trglang='en' refid=r2", "hound"),
        )
    )
    path = write(tmp_path / "a.SGM", content)
    texts = [list(read_lines(f"{path}#{label}")) for label in ("de", "en:r1", "en:r2")]
    assert texts == [["Hund"], ["dog"], ["hound"]]
    with pytest.raises(SidesInOneFile):
        list(read_lines(path))
    with pytest.raises(CorpusError, match="got a file without any"):
        list(read_lines(write(tmp_path / "b.sgm", "<doc>\n</doc>\n")))


def segments(ids, text, document="d1"):
    """A test set in the format of NIST, with a segment for each number."""
    lines = "".join(f"<seg id='{i}'>{text} {i}</seg>\n" for i in ids)
    return f"<srcset><DOC docid={document}>\n{lines}</DOC></srcset>\n"


@pytest.mark.parametrize("tag", ["<doc\nid='{}'>", "<doc\n  docid={}\n >", "<doc>"])
def test_documents_are_told_apart_however_their_tags_are_written(tmp_path, tag):
    """In one file, and in two; without ids, documents are numbered."""
    numbers = [[[1, 3], [1, 2, 3]], [[1, 2, 3], [2, 3]]]
    sides = [
        [
            "".join(f"<seg\nid='{i}'>{document} {i}</seg>\n" for i in segment_numbers)
            for document, segment_numbers in enumerate(side)
        ]
        for side in numbers
    ]
    name = itertools.count()
    one_file = "".join(
        f"{tag.format(next(name))}<src lang='de'>{source}</src>\n"
        f"<ref\nlang='en'>{target}</ref></doc>\n"
        for source, target in zip(*sides)
    )
    path = write(tmp_path / "a.xml", one_file)
    sets = [
        f"<{kind}set>"
        + "".join(map("{}{}</doc>\n".format, tags, side))
        + f"</{kind}set>"
        for kind, side, tags in zip(
            ("src", "ref"), sides, [[tag.format(i) for i in range(2)]] * 2
        )
    ]
    paths = [write(tmp_path / f"{i}.sgm", text) for i, text in enumerate(sets)]
    both = write(tmp_path / "both.sgm", "".join(sets))
    for names in ([f"{path}#de", f"{path}#en"], paths, [f"{both}#src", f"{both}#ref"]):
        pairs = list(read_pairs(FilePair(*names)))
        assert pairs == [(text, text) for text in ("0 1", "0 3", "1 2", "1 3")]


@pytest.mark.parametrize(
    "source, target, pairs, unmatched",
    [
        ([1, 2, 3], [1, 3], [1, 3], [["d1 2"], []]),
        ([1, 2], [1, 2, 3], [1, 2], [[], ["d1 3"]]),
        ([1, 2, 4], [1, 3, 4], [1, 4], [["d1 2"], ["d1 3"]]),
        ([1, 2, 3], [3, 1, 2], [1, 2, 3], [[], []]),
        ([1, 2], [3, 4], [(1, 3), (2, 4)], [[], []]),  # other numbers
        ([1, 1, 2], [1, 2, 2], [(1, 1), (1, 2), (2, 2)], [[], []]),  # not unique
    ],
)
def test_segments_are_paired_by_number(tmp_path, source, target, pairs, unmatched):
    paths = FilePair(
        write(tmp_path / "a.sgm", segments(source, "Satz")),
        write(tmp_path / "b.xml", segments(target, "sentence")),
    )
    pairs = [pair if isinstance(pair, tuple) else (pair, pair) for pair in pairs]
    expected = [(f"Satz {a}", f"sentence {b}") for a, b in pairs]
    assert list(read_pairs(paths)) == expected
    findings = check_pairs("dev", paths)
    assert findings.num_pairs == len(pairs)
    assert list(findings.unmatched) == unmatched


def test_documents_and_units_are_paired_by_name(tmp_path):
    """The numbers begin again in each document; one is in another place, one lacks."""
    documents = {name: segments([1, 2], name, name) for name in "abc"}
    source = write(tmp_path / "a.sgm", documents["a"] + documents["b"])
    target = write(tmp_path / "b.sgm", documents["c"] + documents["b"] + documents["a"])
    unmatched = [], []
    pairs = list(align_lines(FilePair(source, target), unmatched))
    assert pairs == [(text, text) for text in ("a 1", "a 2", "b 1", "b 2")]
    assert unmatched == ([], ["c 1", "c 2"])
    [warning] = describe_findings(PairFindings(4, unmatched=unmatched))
    assert "2 segments of the target, such as 'c 1'" in warning
    memories = [
        f"<tmx><body>{''.join(units)}</body></tmx>"
        for units in zip(
            *[
                (
                    f"<tu tuid='{i}'><tuv lang='de'><seg>Wort {i}</seg></tuv></tu>",
                    f"<tu tuid='{3 - i}'><tuv lang='en'><seg>{3 - i}</seg></tuv></tu>",
                )
                for i in range(4)
            ]
        )
    ]
    paths = [write(tmp_path / f"{i}.tmx", memories[i]) for i in range(2)]
    assert list(read_pairs(FilePair(*paths))) == [
        (f"Wort {i}", f"{i}") for i in range(4)
    ]


@pytest.mark.parametrize(
    "name, content, language",
    [("a.tmx", TMX, "en-GB"), ("a.xlf", XLIFF1, "en"), ("a.sdlxliff", XLIFF2, "en")],
)
def test_translation_units_are_read_by_language(tmp_path, name, content, language):
    path = write(tmp_path / name, content)
    texts = [list(read_lines(f"{path}#{label}")) for label in ("de", "en", language)]
    german = "Ein Hund bellt." if name == "a.tmx" else "Ein Hund."
    english = "A dog barks." if name == "a.tmx" else "A dog."
    assert texts == [[german, "Nur deutsch."], [english, ""], [english, ""]]
    with gzip.open(path + ".gz", "wb") as file:
        file.write(content.encode("utf-16" if name == "a.sdlxliff" else "utf-8"))
    assert list(read_lines(f"{path}.gz#de")) == texts[0]
    for label in ("", "#fr"):
        with pytest.raises(SidesInOneFile):
            list(read_lines(path + label))
    with pytest.raises(CorpusError, match="expected XML"):
        list(read_lines(write(tmp_path / name, content[:-9]) + "#de"))
    entity = '<!DOCTYPE tmx [<!ENTITY a "b">]>' + content.partition("?>")[2]
    with pytest.raises(CorpusError):
        list(read_lines(write(tmp_path / name, entity) + "#de"))


def test_a_file_with_both_languages_becomes_a_data_folder(tmp_path):
    units = "".join(
        f'<tu><tuv xml:lang="de"><seg>{de}</seg></tuv>'
        f'<tuv xml:lang="en"><seg>{en}</seg></tuv></tu>'
        for de, en in itertools.islice(zip(GERMAN, ENGLISH), 60)
    )
    path = write(tmp_path / "a.tmx", f"<tmx><body>{units}</body></tmx>")
    sides = [f"{path}#de", f"{path}#en"]
    out = tmp_path / "out"
    argv = ["--out", out, "--train", *sides, "--dev", *sides, "--vocab_size", "90"]
    corpora.run_command("prepare", *argv)
    assert corpora.read_lines(out / "dev.de") == GERMAN[:60]
    assert corpora.read_lines(out / "dev.en") == ENGLISH[:60]


# --- Files that are not text ----------------------------------------------------------


@pytest.mark.parametrize("kind", ["tar.gz", "tgz", "tar", "zip", "bz2", "xz"])
def test_archives_are_refused(tmp_path, kind):
    text = corpora.write_lines(tmp_path / "a", WORDS["de"])
    path = str(tmp_path / f"a.{kind}")
    if kind.startswith("t"):
        with tarfile.open(path, "w" if kind == "tar" else "w:gz") as archive:
            archive.add(text)
    elif kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(text)
    else:
        module = pytest.importorskip({"bz2": "bz2", "xz": "lzma"}[kind])
        with open(text, "rb") as source, open(path, "wb") as file:
            file.write(module.compress(source.read()))
    with pytest.raises(FileNotText, match="expected text, plain or gzipped") as caught:
        list(read_lines(path))
    assert advice_for(caught.value).startswith("; unpack it with ")


TEXTS = ["Der Hund schläft.\nJa!\n", "今天天气很好我们去公园吧。\n他来了，我们走。\n"]


@pytest.mark.parametrize("text", TEXTS, ids=["Latin", "Chinese"])
@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(
    "encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
)
def test_wide_encodings_are_named(tmp_path, text, ending, encoding):
    path = str(tmp_path / f"a.de{ending}")
    with (gzip.open if ending else open)(path, "wb") as file:
        file.write((text * 9).encode(encoding))
    with pytest.raises(FileNotText, match="expected UTF-8") as caught:
        list(read_lines(path))
    name = caught.value.kind
    assert name.lower() == encoding.replace("-le", "le").replace("-be", "be")
    assert advice_for(caught.value) == (
        f"; convert it with iconv -f {name} -t UTF-8 < {path} > {tmp_path}/plain.a.de"
        f"{ending}"
    )
    reader = TolerantReader()
    list(reader.read((text * 9).encode(encoding).splitlines(keepends=True)))
    assert f"expected text in UTF-8, got {name}" in reader.report()


@pytest.mark.parametrize("text", ["a\0b\n" * 9, "\0" * 99, "\0a", "ü\0\n" * 99])
def test_text_with_null_characters_is_text(tmp_path, text):
    path = write(tmp_path / "a", text)
    assert "\n".join(read_lines(path)) == text.rstrip("\n")


@pytest.mark.parametrize(
    "name, content, kind, advice",
    [
        ("a.de", gzip.compress(b"Hund\n"), "gzip", "name that ends in .gz: mv"),
        (
            "a.de.gz",
            gzip.compress(gzip.compress(b"Hund\n")),
            "gzip",
            "unpack it with gunzip <",
        ),
        ("a.de.gz", b"Hund\n", "text", "/a.de"),
        ("a.de.gz", b"\xfd7zXZ\0....", "xz", "unxz <"),
        ("a.de.zst", b"\x28\xb5\x2f\xfd....", "zstd", "/a.de"),
        ("a.docx", b"PK\3\4....", "zip", "save it as plain text"),
        ("a.pdf", b"%PDF-1.7....", "PDF", "save it as plain text"),
    ],
)
def test_bytes_are_named_whatever_the_name_of_the_file(
    tmp_path, name, content, kind, advice
):
    path = str(tmp_path / name)
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(FileNotText, match=f"got {kind}") as caught:
        list(read_lines(path))
    assert caught.value.kind == kind and advice in advice_for(caught.value)


def test_carriage_returns_instead_of_line_feeds_are_named_in_text_to_translate():
    reader = TolerantReader()
    assert list(reader.read([b"a\rb\rc\n"])) == ["a\rb\rc"]
    assert "expected line feeds, got 2 carriage returns" in reader.report()
    reader = TolerantReader()
    list(reader.read([b"a\r\n"] * 9 + [b"a\rb\r\n"]))
    assert reader.report() == "10 lines: 1 with a control or invisible character"


def test_text_with_carriage_returns_only_is_refused(tmp_path):
    path = str(tmp_path / "a")
    for content in ("a\rb\rc\r", "a\rb\rc\n", "a\rb\rc"):
        write(path, content)
        with pytest.raises(CorpusError, match="carriage returns? in 1 line:"):
            list(read_lines(path))
    with open(path, "wb") as file:
        file.write(b"a\r\nb\r\n" * 9 + b"a\rb\r\r\n")
    assert len(list(read_lines(path))) == 19


def test_a_text_and_its_translations_are_paired_by_number(tmp_path):
    """`eval.py --files a.sgm b.sgm --compare c.sgm`."""
    paths = [
        write(tmp_path / f"{name}.sgm", segments(numbers, name))
        for name, numbers in (("a", [1, 2, 3]), ("b", [3, 1]), ("c", [3, 2, 1]))
    ]
    text = read_parallel(str(tmp_path), "test", paths[:2])
    assert text.sources == ["a 1", "a 3"] and text.references == ["b 1", "b 3"]
    assert text.unmatched == (["d1 2"], [])
    warnings = []
    args = argparse.Namespace(files=paths[:2], references=[], warn=warnings.append)
    evaluate.warn_of_references(args, text, text.sources)
    assert "1 segment of the source, such as 'd1 2'" in warnings[0]
    text = read_parallel(str(tmp_path), "test", [paths[0], paths[2]])
    assert read_translations(paths[2], text) == ["c 1", "c 2", "c 3"]
    with pytest.raises(CorpusError, match="got none for 1 segment, such as 'd1 2'"):
        read_translations(paths[1], text)
    assert read_translations(write(tmp_path / "c.txt", "C\nB\n"), text) == ["C", "B"]


# --- The order of checks, line ends, and the references -------------------------------


def test_equal_sides_are_recognized_before_their_languages(tmp_path, capsys):
    """Two German files are not in the wrong order."""
    german, copy, other = (
        corpora.write_lines(tmp_path / f"{name}.de", lines)
        for name, lines in zip("abc", (GERMAN[:20], GERMAN[:20], GERMAN[20:40]))
    )
    english = corpora.write_lines(tmp_path / "a.en", ENGLISH[:20])
    for train, words in (
        ([german, german], "got the same text, 20 lines, in "),
        ([german, copy], "got the same text, 20 lines, in "),
        ([german, other], f"got {german} and {other}, both in de by their names; name"),
        ([english, german], "change the order of the two files"),
    ):
        argv = ["--out", tmp_path / "out", "--dev", german, english, "--train", *train]
        message = refuse_prepare(capsys, tmp_path, argv)
        assert words in message
        assert ("change the order" in message) == ("change the order" in words)


@pytest.mark.parametrize("end", "\v\f\r\x1c\x1d\x1e\x85\u2028\u2029", ids=ascii)
def test_line_ends_of_other_programs_end_no_line_and_are_named(tmp_path, end):
    lines = [f"eine{end}Zeile", "ohne", f"noch{end}eine"]
    assert len("".join(lines).splitlines()) > 1
    paths = file_pair(tmp_path, lines, ["one", "two", "three"])
    findings = check_pairs("train", paths)
    assert findings.num_pairs == 3
    [warning] = describe_findings(findings)
    assert warning.startswith("the source has 2 lines with a character that ends")
    assert f"U+{ord(end):04X} " in warning and "the first is line 1" in warning
    windows = file_pair(tmp_path, ["a\r", "b\r"], ["A\r", "B\r"], ("c", "d"))
    assert describe_findings(check_pairs("train", windows)) == []


@pytest.mark.parametrize("side", range(3))
def test_eval_names_line_ends_of_other_programs(tmp_path, side):
    texts = [GERMAN[:9], ENGLISH[:9], [f"{line} Yes." for line in ENGLISH[:9]]]
    texts[side][1] += "\x85 Ok."
    text = ParallelText("test", *texts[:2])
    translations = evaluate.Translations(texts[2], "t")
    warnings = []
    args = argparse.Namespace(files=["s", "r"], references=[], warn=warnings.append)
    evaluate.warn_of_references(args, text, texts[2])
    evaluate.warn_of_translations(translations, text, warnings.append)
    assert [warning[:3] for warning in warnings] == [f"{'srt'[side]}: "]
    assert "U+0085 NEL" in warnings[0]


def test_the_references_are_named_if_they_are_compared(tmp_path):
    text = ParallelText("test", ["x", "y"], ["A", "B"], more_references=[["C", "D"]])
    for lines, checkpoint, num_warnings in (
        (["A", "B "], "", 1),
        (["C", "D"], "", 1),  # the second references
        (["A", "C"], "", 0),
        (["a", "B"], "", 1),
        (["A", "B"], "model.ckpt-1", 0),  # a perfect model
    ):
        warnings = []
        translations = evaluate.Translations(lines, "other.en", checkpoint)
        evaluate.warn_of_translations(translations, text, warnings.append)
        expected = ["other.en: this is the text of the references, or nearly so"]
        assert warnings == expected[:num_warnings]
