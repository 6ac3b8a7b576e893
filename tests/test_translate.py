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

from transformer import alignment
from transformer.commands import translate
from transformer.runtime.progress import format_count
from transformer.text.lines import TolerantReader, remove_display_marks
from transformer.text.vocabulary import load_vocabularies, train_vocabulary
from transformer.translator import Translation, Translator

pty = pytest.importorskip("pty")

pytestmark = pytest.mark.usefixtures("one_thread_only")


@pytest.fixture
def run(trained, monkeypatch, capfdbinary):
    """run(bytes, flag, …, warned=…) → the bytes on standard output.

    `warned` is what standard error must count: all of that, or (None) nothing.
    """

    def run(raw_input, *flags, warned=()):
        stdin = io.TextIOWrapper(io.BytesIO(raw_input))
        monkeypatch.setattr(sys, "stdin", stdin)
        capfdbinary.readouterr()
        corpora.run_command("translate", "--logdir", trained, *flags)
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        messages = captured.err.decode("utf-8").splitlines()  # no prompt: nobody types
        assert len(messages) <= 1 and all("translate.py: " in line for line in messages)
        if warned:
            program, lines, counts = messages[0].split(": ")
            assert lines == format_count(len(list(io.BytesIO(raw_input))), "line")
            assert set(counts.split(", ")) == set(warned)
        assert messages == [] or warned is not None
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
    assert set(reader.report().replace("1 line: ", "").split(", ")) == set(
        counts or [""]
    )


def test_soft_hyphens_and_marks_of_direction_are_removed(run, trained):
    """From lines, prefixes and given translations; word joiners and BOMs, too."""
    plain, marked = "12 3 4", "\ufeff1\u00ad2\u200e \u20663\u2069 4\u2060"
    text = run(plain.encode(), "--scores")
    warned = ["1 with soft hyphens or other display marks removed"]
    lines = f" {marked}\n".encode()  # no byte order mark of a file
    assert run(lines, "--scores", warned=warned) == text
    with Translator(trained) as translator:
        [[expected]] = translator.translate([plain], [plain], alignments=True)
        assert translator.translate([marked], [marked], alignments=True) == [[expected]]
        heads = alignment.list_heads(translator.hp)
        for method, options in ((translator.score, ()), (translator.align, [heads])):
            of_plain = method([plain], [plain], *options)
            assert method([marked], [marked], *options) == of_plain
            with pytest.raises(ValueError, match="expected 1 target line, .* got 2"):
                method([plain], [plain, plain], *options)


@pytest.mark.parametrize("mark", "\u00ad\u034f\u200b\u200c\u200d\ufe0f", ids=ascii)
@pytest.mark.parametrize(
    "word", ["Hu{}nd", "{}Hund, ", "Hund{}.", "Hund{}", "Hu\u0308{}t"]
)
def test_marks_in_words_of_latin_letters_are_removed(word, mark):
    plain = word.format("")
    assert remove_display_marks(word.format(mark)) == plain
    assert remove_display_marks(f"der {word.format(2 * mark)} b") == f"der {plain} b"


@pytest.mark.parametrize(
    "text",
    [
        "1\u200b2\u200c3\u200d",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian
        "USB\u200c\u0647\u0627",
        "\u0915\u094d\u200d\u0937",  # Hindi
        "\u1780\u200bUSB\u200b\u1781",  # Khmer
        "\U0001f469\u200d\U0001f4bb a \u2764\ufe0f b",  # emoji
    ],
)
def test_marks_that_distinguish_words_are_left(text):
    assert remove_display_marks(text) == text


def test_a_line_beyond_the_longest_is_cut_and_counted(run, trained):
    words = b" ".join(b"%d" % (index % 10) for index in range(10000))
    raw_input = b"1 2 3 4\n%s\n5 6 7 8\n"
    flags = ["--max_source_length", "30", "--search", "greedy"]
    vocabulary = load_vocabularies(trained).source
    start = vocabulary.decode(vocabulary.encode(words.decode())[:30]).encode()
    assert words.startswith(start)
    assert run(raw_input % words, *flags, warned=["1 cut at 30 pieces"]) == run(
        raw_input % start, *flags, warned=None
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
    raw_input = "".join(line + "\n" for line in lines[:50]).encode()
    translations = run(raw_input, "--logdir", copy).decode("utf-8").split("\n")
    assert len(translations) == 51
    assert not [text for text in translations if len(text.splitlines()) > 1]
    assert [text for text in translations if "  " in text]  # the piece was there


def test_a_stream_is_answered_line_by_line(run, trained, monkeypatch):
    """Each answer is read before the next line is written."""
    expected = run(b"1 2 3 4\n5 6 7 8\n").splitlines(True)
    reading, writing = os.pipe()
    answers, answering = os.pipe()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(os.fdopen(reading, "rb")))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(os.fdopen(answering, "wb")))
    flags = ["translate", "--logdir", trained, "--stream"]
    thread = threading.Thread(target=corpora.run_command, args=flags, daemon=True)
    thread.start()
    for line, answer in zip((b"1 2 3 4\n", b"5 6 7 8\n"), expected):
        os.write(writing, line)
        assert select.select([answers], [], [], 60)[0]
        assert os.read(answers, 1000) == answer
    os.close(writing)
    thread.join(60)
    assert not thread.is_alive()
    os.close(answers)


def test_n_best(run):
    raw_input = [b"1 2 3 4", b"5 6 7", b"", b"8 9"]
    best = run(b"\n".join(raw_input)).decode("utf-8").splitlines()
    rows = [
        line.split(" ||| ")
        for line in run(b"\n".join(raw_input), "--n_best", "3")
        .decode("utf-8")
        .splitlines()
    ]
    assert [int(index) for index, _, _ in rows] == sorted(list(range(4)) * 3)
    for index, text in enumerate(best):
        of_line = [row for row in rows if int(row[0]) == index]
        scores = [float(score) for _, _, score in of_line]
        assert of_line[0][1] == text
        assert scores == sorted(scores, reverse=True)
        assert all(re.match(r"-?\d+\.\d+$", score) for _, _, score in of_line)
        assert text == "" or max(scores) < 0


@pytest.mark.slow
def test_a_line_can_be_split_into_sentences(run):
    first, other, third = run(b"1 2!\n3 4 5?\n6 7\n").splitlines()
    actual = run(b"1 2! 3 4 5?\n6 7\n 1 2! \n", "--split").splitlines()
    assert actual == [first + b" " + other, third, first]
    assert run(b" \n", "--split", warned=["1 empty (of the sentences)"]) == b"\n"


def test_lines_with_several_sentences_are_counted_unless_they_are_split(
    run, tmp_path, monkeypatch
):
    monkeypatch.setattr(translate, "warn_of_simple_rules", lambda warn: None)
    path = tmp_path / "text"
    text = b"1 2!\n3 4? 5 6!\n7 8\n1 2! 3 4!\n"
    path.write_bytes(text)
    counted = (
        "2 with several sentences translated as one (the first is line 2; --split "
        "translates each)"
    )
    translations = run(text, warned=[counted, "3 with unknown pieces"])
    assert run(b"", "--input", str(path)) == translations
    split = run(text, "--split", warned=["5 with unknown pieces (of the sentences)"])
    assert split != translations


def test_translations_begin_with_the_lines_of_a_prefix_file(run, tmp_path, capfdbinary):
    raw_input, path = b"1 2 3 4\n5 6 7\n\n", tmp_path / "prefixes"
    path.write_text("7 7\n\n9\n")
    actual = run(raw_input, "--prefix_file", str(path)).splitlines()
    assert actual[0].startswith(b"7 7")
    assert actual[1] == run(raw_input).splitlines()[1] and actual[2] == b""
    for other in ("1\n2\n", "1\n2\n3\n4\n"):
        path.write_text(other)
        with pytest.raises(SystemExit):
            run(raw_input, "--prefix_file", str(path))
        assert b"expected a line for each line" in capfdbinary.readouterr().err


@pytest.fixture
def terminal(monkeypatch):
    """terminal(bytes) puts what is typed into a terminal that is standard input."""
    user_end, terminal_end = pty.openpty()
    with os.fdopen(terminal_end) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield lambda typed: os.write(user_end, typed)
    os.close(user_end)


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
        ([__file__], [f"{__file__} is a file", f"< {__file__}", "--input"]),
    ],
    ids=lambda words: os.path.basename("_".join(words)),
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
