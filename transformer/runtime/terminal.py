"""What a person sees on a terminal: names of commands, clean lines, a progress bar.

A vocabulary, a settings file or a server may come from anybody. Sent to a terminal, the
control characters of such text could recolour it, rename it, or fill its clipboard.
"""

import contextlib
import os
import re
import shlex
import sys
import time
from typing import Callable, TextIO

PROGRAM = "transformer-tf"  # what setup.py installs; its first word is a command
# Command → what Python runs for it in a checkout.
FILES = {
    "prepare": "scripts/prepare.py",
    "train": "train.py",
    "eval": "eval.py",
    "translate": "scripts/translate.py",
    "serve": "scripts/serve.py",
    "export": "scripts/export.py",
    "import": "scripts/import_checkpoint.py",
    "doctor": "scripts/doctor.py",
    "download": "scripts/download.py",
    "average": "scripts/average_checkpoints.py",
    "attention": "scripts/plot_attention.py",
    "align": "scripts/align.py",
    "launch": "-m transformer.launch",
    "port": "-m transformer.porting",
}
PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

# Also the line and paragraph separators, the overrides of the writing direction, and
# halves of characters, which no output can encode.
CONTROL = re.compile(
    "[\0-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
BAR_WIDTH = 20  # characters
CLEAR_LINE = "\r\x1b[K"


def command(name: str) -> str:
    """Return what messages call a command: "train.py", or "transformer-tf train".

    The files of a checkout are named where there is one, unless the user runs the
    installed program.

    Args:
      name: a key of FILES; of another program, the name of its file.
    """
    if name in FILES and _runs_installed():
        return f"{PROGRAM} {name}"
    file = FILES.get(name, name)
    return os.path.basename(file) if file.endswith(".py") else "python " + file


def command_line(name: str) -> str:
    """Return how a shell runs a command here: "python scripts/prepare.py"."""
    if _runs_installed():
        return f"{PROGRAM} {name}"
    file = FILES[name]
    if file.endswith(".py"):
        path = os.path.join(os.path.dirname(PACKAGE), file)
        with contextlib.suppress(OSError):  # the current folder was removed
            path = os.path.relpath(path)
        file = shlex.quote(path)
    return "python " + file


def _runs_installed() -> bool:
    """Return whether commands are words after PROGRAM, not files of a checkout."""
    typed = os.path.realpath(sys.argv[0]) if sys.argv else ""
    if os.path.basename(typed) == PROGRAM or os.path.dirname(typed) == PACKAGE:
        return True
    return not os.path.isfile(os.path.join(os.path.dirname(PACKAGE), FILES["prepare"]))


def shown(text: str) -> str:
    r"""Return one line of text with its control characters escaped: "\x1b" for ESC."""
    return CONTROL.sub(lambda found: ascii(found.group())[1:-1], text)


def say(*lines: str) -> None:
    """Write lines to standard output, each of them on one line whatever it contains."""
    for line in lines:
        sys.stdout.write(shown(line) + "\n")


def warner(prog: str) -> Callable[[str], None]:
    """Return a function that writes a line on stderr, after the name of the command.

    Args:
      prog: what `command` returns.
    """

    def warn(text):
        with contextlib.suppress(OSError):  # its terminal may have been closed
            sys.stderr.write(f"{prog}: {shown(str(text))}\n")

    return warn


# Not tqdm: a fifth package to install, and no plain lines where stderr is a file.
class Progress:
    """Show how far a task is: a bar redrawn on a terminal, plain lines elsewhere.

    Args:
      stream: a text stream, standard error for example.
      start: what was done before this process began.
      every: show no line sooner than so many seconds after the last; 0: show all.
    """

    def __init__(self, stream: TextIO, start: int = 0, every: float = 0.0):
        self._stream = stream
        self._start = start
        self._every = every
        self._began = time.monotonic()
        self._next = self._began
        self._live = stream.isatty()

    def show(self, done: int, total: int, text: str) -> None:
        """Show the latest state; the last one, `done == total`, always.

        Args:
          done: steps, or bytes.
          total: as many when all is done; 0 where that is not known, and no bar.
          text: what follows the bar.
        """
        if time.monotonic() < self._next and done != total:
            return
        self._next = time.monotonic() + self._every
        if not self._live:
            self._write(shown(text) + "\n")
            return
        bar = ""
        if total:
            filled = int(BAR_WIDTH * done / total)
            bar = "█" * filled + "░" * (BAR_WIDTH - filled) + " "
        self._write(CLEAR_LINE + bar + shown(text))

    def left(self, done: int, total: int) -> str:
        """Return the time left, as `clock` writes it, at the speed of this process."""
        share = (done - self._start) / max(1, total - self._start)
        return clock((time.monotonic() - self._began) * (1 / max(share, 1e-9) - 1))

    def say(self, text: str) -> None:
        """Write a line that stays; on a terminal, in place of the bar."""
        self._write((CLEAR_LINE if self._live else "") + shown(text) + "\n")

    def _write(self, text):
        """Write at once; nothing, if whoever read the stream has gone."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()


def clock(seconds: float) -> str:
    """Return a duration as h:mm:ss, or as m:ss below an hour."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{seconds:02d}"
    return f"{minutes}:{seconds:02d}"
