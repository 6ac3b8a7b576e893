"""Progress reports on a terminal or in a file, and text that is safe to print.

A vocabulary, a settings file or a server may come from anyone. Sent to a terminal, the
control characters in its text could recolour the terminal, rename it, or fill its
clipboard.
"""

import contextlib
import re
import time
from typing import TextIO

# These include the line and paragraph separators, the overrides of the writing
# direction, and surrogates, which no output can encode.
CONTROL = re.compile(
    "[\0-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
BAR_WIDTH = 20  # characters
CLEAR_LINE = "\r\x1b[K"


def escape_control(text: str) -> str:
    r"""Escape the control characters of a line of text: "\x1b" for ESC."""
    return CONTROL.sub(lambda match: ascii(match.group())[1:-1], text)


# Not tqdm: it would be a fifth package to install, and it does not write plain lines if
# stderr is a file.
class Progress:
    """Show the progress of a task: a bar on a terminal, plain lines elsewhere.

    Args:
      stream: a text stream, such as standard error.
      start: the steps or bytes done before this process began.
      interval: the smallest number of seconds between two lines; 0: show all lines.
    """

    def __init__(self, stream: TextIO, start: int = 0, interval: float = 0.0):
        self._stream = stream
        self._start = start
        self._interval = interval
        self._began = time.monotonic()
        self._next = self._began
        self._live = stream.isatty()

    def show(self, done: int, total: int, text: str) -> None:
        """Show the current state; the last one, `done == total`, is always shown.

        Args:
          done: how many steps or bytes are done.
          total: the number of all steps or bytes; 0 if unknown: no bar is drawn.
          text: the text after the bar.
        """
        if time.monotonic() < self._next and done != total:
            return
        self._next = time.monotonic() + self._interval
        if not self._live:
            self._write(escape_control(text) + "\n")
            return
        bar = ""
        if total:
            filled = int(BAR_WIDTH * done / total)
            bar = "█" * filled + "░" * (BAR_WIDTH - filled) + " "
        self._write(CLEAR_LINE + bar + escape_control(text))

    def time_left(self, done: int, total: int) -> str:
        """Return the time left at the speed of this process: "0:50"."""
        share = (done - self._start) / max(1, total - self._start)
        return format_duration(
            (time.monotonic() - self._began) * (1 / max(share, 1e-9) - 1)
        )

    def say(self, text: str) -> None:
        """Write a line that stays; on a terminal, it replaces the bar."""
        self._write((CLEAR_LINE if self._live else "") + escape_control(text) + "\n")

    def _write(self, text):
        """Write immediately; do nothing if the reader of the stream has gone."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()


def format_count(number: int, noun: str) -> str:
    """Return a number with a noun, to which an s is added: "1 line", "2,000 lines"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def format_duration(seconds: float) -> str:
    """Return a duration as h:mm:ss, or as m:ss if it is below an hour."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{seconds:02d}"
    return f"{minutes}:{seconds:02d}"
