"""scripts/translate.py: one line in, one line out, whatever the line is."""

import io
import os
import re
import select
import shutil
import sys
import threading

import corpora
import pytest

from transformer.commands import translate
from transformer.text.lines import TolerantReader
from transformer.text.vocabulary import load_vocabularies, train_vocabulary
from transformer.translator import Translation, Translator

pty = pytest.importorskip("pty")

pytestmark = pytest.mark.usefixtures("one_thread_only")


@pytest.fixture
def run(trained, monkeypatch, capfdbinary):
    """run(bytes, flag, …, warned=…) → the bytes on standard output.

    `warned` is what standard error must count: all of that, or (None) nothing.
    """

    def run(given, *flags, warned=()):
        stdin = io.TextIOWrapper(io.BytesIO(given))
        monkeypatch.setattr(sys, "stdin", stdin)
        capfdbinary.readouterr()
        corpora.run_command("translate", "--logdir", trained, *flags)
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        told = captured.err.decode("utf-8").splitlines()  # no prompt: nobody types
        assert len(told) <= 1 and all("translate.py: " in line for line in told)
        if warned:
            program, lines, counts = told[0].split(": ")
            assert lines == f"{len(list(io.BytesIO(given)))} lines"
            assert set(counts.split(", ")) == set(warned)
        assert told == [] or warned is not None
        return captured.out

    return run


def test_line_ends_make_no_difference(run):
    plain = run(b"1 2 3 4\n\n5 6 7 8\n", warned=["1 empty"])
    assert plain.count(b"\n") == 3
    other_ends = b"\xef\xbb\xbf1 2 3 4\r\n\r\n5 6 7 8"
    assert run(other_ends, warned=["1 empty"]) == plain


@pytest.mark.parametrize(
    "line, counts",
    [
        (b"1 2 3 4", []),
        (b" \t ", ["1 with a control or invisible character"]),
        (b"\xff", ["1 not UTF-8"]),
        (b"1\r2\r", ["1 with a control or invisible character"]),
        ("1\u200b2\u2028\0".encode(), ["1 with a control or invisible character"]),
    ],
    ids=ascii,
)
def test_what_is_odd_about_a_line_is_counted_as_it_is_read(line, counts):
    reader = TolerantReader()
    (text,) = reader.read([line + b"\n"])
    assert text == line.decode("utf-8", errors="replace").rstrip("\r")
    assert set(reader.report().replace("1 lines: ", "").split(", ")) == set(
        counts or [""]
    )


def test_a_line_beyond_the_longest_is_cut_and_counted(run, trained):
    words = b" ".join(b"%d" % (number % 10) for number in range(10000))
    given = b"1 2 3 4\n%s\n5 6 7 8\n"
    flags = ["--max_source_length", "30", "--search", "greedy"]
    vocabulary = load_vocabularies(trained).source
    start = vocabulary.decode(vocabulary.encode(words.decode())[:30]).encode()
    assert words.startswith(start)
    assert run(given % words, *flags, warned=["1 cut at 30 pieces"]) == run(
        given % start, *flags, warned=None
    )


def test_a_line_break_that_is_a_piece_ends_no_line(run, trained, digits, tmp_path):
    """U+0085 can be a piece, and ends a line for Python's splitlines."""
    copy, text = str(tmp_path / "logs"), str(tmp_path / "text")
    shutil.copytree(trained, copy)
    lines = [
        line.replace("7", "\x85")
        for line in corpora.read_lines(os.path.join(digits, "train.de"))
    ]
    corpora.write_lines(text, lines)
    path = os.path.join(copy, "spm.model")
    train_vocabulary([text], path, int(corpora.VOCAB_SIZE), model_type="bpe")
    corpora.forget_vocabulary(copy)
    vocabulary = load_vocabularies(copy).target
    assert "\x85" in vocabulary.pieces(range(vocabulary.size))
    given = "".join(line + "\n" for line in lines[:50]).encode()
    translations = run(given, "--logdir", copy).decode("utf-8").split("\n")
    assert len(translations) == 51
    assert not [text for text in translations if len(text.splitlines()) > 1]
    assert [text for text in translations if "  " in text]  # the piece was there


def test_a_stream_is_answered_line_by_line(run, trained, monkeypatch):
    """Each answer is read before the next line is written."""
    wanted = run(b"1 2 3 4\n5 6 7 8\n").splitlines(True)
    reading, writing = os.pipe()
    answers, answering = os.pipe()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(os.fdopen(reading, "rb")))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(os.fdopen(answering, "wb")))
    flags = ["translate", "--logdir", trained, "--stream"]
    thread = threading.Thread(target=corpora.run_command, args=flags, daemon=True)
    thread.start()
    for line, answer in zip((b"1 2 3 4\n", b"5 6 7 8\n"), wanted):
        os.write(writing, line)
        assert select.select([answers], [], [], 60)[0]
        assert os.read(answers, 1000) == answer
    os.close(writing)
    thread.join(60)
    assert not thread.is_alive()
    os.close(answers)


def test_n_best(run):
    given = [b"1 2 3 4", b"5 6 7", b"", b"8 9"]
    best = run(b"\n".join(given)).decode("utf-8").splitlines()
    rows = [
        line.split(" ||| ")
        for line in run(b"\n".join(given), "--n_best", "3").decode("utf-8").splitlines()
    ]
    assert [int(number) for number, _, _ in rows] == sorted(list(range(4)) * 3)
    for number, text in enumerate(best):
        of_line = [row for row in rows if int(row[0]) == number]
        scores = [float(score) for _, _, score in of_line]
        assert of_line[0][1] == text
        assert scores == sorted(scores, reverse=True)
        assert all(re.match(r"-?\d+\.\d+$", score) for _, _, score in of_line)
        assert text == "" or max(scores) < 0


@pytest.mark.slow
def test_a_line_can_be_split_into_sentences(run):
    one, other, third = run(b"1 2!\n3 4 5?\n6 7\n").splitlines()
    found = run(b"1 2! 3 4 5?\n6 7\n 1 2! \n", "--split").splitlines()
    assert found == [one + b" " + other, third, one]
    assert run(b" \n", "--split", warned=["1 empty (of the sentences)"]) == b"\n"


def test_translations_begin_with_the_lines_of_a_prefix_file(run, tmp_path, capfdbinary):
    given, path = b"1 2 3 4\n5 6 7\n\n", tmp_path / "prefixes"
    path.write_text("7 7\n\n9\n")
    found = run(given, "--prefix_file", str(path)).splitlines()
    assert found[0].startswith(b"7 7")
    assert found[1] == run(given).splitlines()[1] and found[2] == b""
    for other in ("1\n2\n", "1\n2\n3\n4\n"):
        path.write_text(other)
        with pytest.raises(SystemExit):
            run(given, "--prefix_file", str(path))
        assert b"expected a line for each line" in capfdbinary.readouterr().err


@pytest.fixture
def terminal(monkeypatch):
    """terminal(bytes) puts what is typed into a terminal that is standard input."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield lambda typed: os.write(ours, typed)
    os.close(ours)


def test_at_a_terminal_each_line_is_prompted_and_answered(
    trained, terminal, monkeypatch, capfdbinary
):
    chunks = []
    translate_lines = Translator.translate

    def noting(translator, lines, *others):
        chunks.append(list(lines))
        return translate_lines(translator, lines, *others)

    monkeypatch.setattr(Translator, "translate", noting)
    terminal(b"1 2 3 4\n\n5 6 7 8\n\x04")  # and Ctrl-D
    corpora.run_command("translate", "--logdir", trained)
    sys.stdout.flush()
    captured = capfdbinary.readouterr()
    assert chunks == [["1 2 3 4"], [""], ["5 6 7 8"]]
    assert captured.out.count(b"\n") == 3 and b">" not in captured.out
    assert captured.err.count(b"> ") == 4
    assert captured.err.endswith(b"\n")


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--n_best", "5"], ["n_best", "5", "4", "raise beam_size"]),
        (["--checkpoint", "7"], ["7", "240"]),
        (["--split", "--scores"], ["expected --split or --scores, got both"]),
    ],
    ids="_".join,
)
def test_settings_are_refused(trained, monkeypatch, capsys, flags, words):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1 2\n\n")))
    line = corpora.refusal(capsys, "translate", "--logdir", trained, *flags)
    assert [word for word in words if word not in line] == []


class Terminal(io.BytesIO):
    """Takes what is written to a terminal."""

    def isatty(self):
        return True


class Hostile:
    """Translates anything to pieces that write to the clipboard."""

    def translate(self, lines):
        return [[Translation("\x1b]52;c;cm0=\x07\x9b", -1.0)] for _ in lines]


def test_a_terminal_gets_control_characters_escaped_and_a_pipe_every_byte():
    terminal, pipe = Terminal(), io.BytesIO()
    for output in (terminal, pipe):
        chunks = [Hostile().translate(["a", "b"])]
        translate.write_translations(chunks, output, translate.Columns())
    assert pipe.getvalue() == "\x1b]52;c;cm0=\x07\x9b\n".encode() * 2
    assert terminal.getvalue() == b"\\x1b]52;c;cm0=\\x07\\x9b\n" * 2
