"""terminal.py: a bar on a terminal, plain lines elsewhere; nothing hostile is shown."""

import io

import pytest

from transformer.commands import terminal
from transformer.runtime import progress as progress_module
from transformer.runtime.progress import (
    BAR_WIDTH,
    Progress,
    escape_control,
    format_count,
    format_duration,
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still: clock[0] is the time."""
    time = [1000.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: time[0])
    return time


# --- Progress -------------------------------------------------------------------------


def test_progress_writes_plain_lines_without_a_terminal(clock):
    stream = io.StringIO()
    progress = Progress(stream)
    progress.say("hello")
    progress.show(10, 40, "step 10")
    progress.show(20, 40, "step 20")
    assert stream.getvalue() == "hello\nstep 10\nstep 20\n"


def test_the_time_left_is_that_of_this_process(clock):
    progress = Progress(io.StringIO(), start=100)
    clock[0] += 50
    assert progress.time_left(150, 200) == "0:50"
    assert progress.time_left(200, 200) == "0:00"
    assert Progress(io.StringIO(), start=40).time_left(40, 40) == "0:00"


def test_a_bar_on_a_terminal(clock):
    stream = Terminal()
    progress = Progress(stream)
    widths = []
    for step in (1, 10, 20, 40):
        progress.show(step, 40, f"step {step}/40")
        assert "\n" not in stream.getvalue()
        drawn = stream.getvalue().split("\r\x1b[K")[-1]
        assert f"step {step}/40" in drawn
        assert drawn.count("█") == BAR_WIDTH * step // 40
        widths.append(drawn.count("█") + drawn.count("░"))
    assert widths == [BAR_WIDTH] * 4


@pytest.mark.parametrize("make", [io.StringIO, Terminal])
def test_lines_keep_their_interval_and_the_last_is_always_shown(clock, make):
    stream = make()
    progress, times = Progress(stream, interval=10.0), []
    for second in range(25):
        shown = len(stream.getvalue())
        progress.show(second, 24, "text")
        times += [second] if len(stream.getvalue()) > shown else []
        clock[0] += 1
    assert times == [0, 10, 20, 24]


def test_a_closed_stream_is_ignored(clock):
    """A closed terminal, or the end of a pipe that nobody reads."""

    class Gone(Terminal):
        def flush(self):
            raise BrokenPipeError

    progress = Progress(Gone())
    progress.show(10, 40, "step 10/40")
    progress.say("hello")


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0, "0:00"),
        (0.9, "0:00"),
        (59.9, "0:59"),
        (60, "1:00"),
        (3599, "59:59"),
        (3600, "1:00:00"),
        (360000, "100:00:00"),
    ],
)
def test_format_duration(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    "number, text",
    [(0, "0 lines"), (1, "1 line"), (2, "2 lines"), (2000, "2,000 lines")],
)
def test_format_count(number, text):
    assert format_count(number, "line") == text


# --- What a terminal is shown ---------------------------------------------------------

HOSTILE = "\x1b]52;c;cm0gLXJmIH4=\x07\x9b31m\r\n\0\u202eabc\u2028\udc9b"


def test_control_characters_are_escaped_and_nothing_else():
    assert escape_control("größer 🙂 \u200d ​Привет!") == "größer 🙂 \u200d ​Привет!"
    escaped = escape_control(HOSTILE)
    assert escaped == (
        r"\x1b]52;c;cm0gLXJmIH4=\x07\x9b31m\r\n\x00\u202eabc\u2028\udc9b"
    )


def test_printed_lines_and_warnings_are_escaped(capsys):
    terminal.print_lines("a\x1b[2J", "b\nc")
    terminal.make_warn("x.py")(HOSTILE)
    captured = capsys.readouterr()
    assert captured.out == "a\\x1b[2J\nb\\nc\n"
    assert captured.err == f"x.py: {escape_control(HOSTILE)}\n"
