"""What a user sees on a terminal: names of commands, clean lines, a progress bar.

A vocabulary, a settings file or a server may come from anyone. Sent to a terminal, the
control characters in its text could recolour the terminal, rename it, or fill its
clipboard.
"""

import contextlib
import os
import re
import shlex
import sys
import time
from typing import Callable, Dict, NamedTuple, TextIO

PROGRAM = "transformer-tf"  # what setup.py installs; its first argument is a command
PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

# These include the line and paragraph separators, the overrides of the writing
# direction, and surrogates, which no output can encode.
CONTROL = re.compile(
    "[\0-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
BAR_WIDTH = 20  # characters
CLEAR_LINE = "\r\x1b[K"


class Command(NamedTuple):
    """A command: a module with the functions `parser` and `run`."""

    module: str  # in the package
    file: str  # what Python runs for it in a checkout
    line: str  # what it does
    advice: str = ""  # what to do after a signal, if it can continue


# The extension point for commands.
COMMANDS: Dict[str, Command] = {
    "download": Command(
        "commands.download",
        "scripts/download.py",
        "download a public corpus",
        advice="run the same command again; complete archives are kept",
    ),
    "prepare": Command(
        "commands.prepare", "scripts/prepare.py", "text files → a data folder"
    ),
    "train": Command(
        "commands.train",
        "train.py",
        "a data folder → a log directory",
        advice="run the same command to continue",
    ),
    "launch": Command(
        "launch", "-m transformer.launch", "train with several workers on this machine"
    ),
    "eval": Command(
        "commands.evaluate", "eval.py", "BLEU, chrF, TER of a model; compare systems"
    ),
    "translate": Command(
        "commands.translate", "scripts/translate.py", "translate standard input"
    ),
    "serve": Command(
        "commands.serve", "scripts/serve.py", "serve a model, and a page that shows it"
    ),
    "average": Command(
        "commands.average_checkpoints",
        "scripts/average_checkpoints.py",
        "average checkpoints",
    ),
    "doctor": Command(
        "commands.doctor", "scripts/doctor.py", "explain a BLEU near zero"
    ),
    "align": Command(
        "commands.align", "scripts/align.py", "choose the head that aligns words best"
    ),
    "attention": Command(
        "commands.plot_attention",
        "scripts/plot_attention.py",
        "draw the attention of a model",
    ),
    "export": Command(
        "commands.export", "scripts/export.py", "write a model for other software"
    ),
    "import": Command(
        "commands.import_checkpoint",
        "scripts/import_checkpoint.py",
        "open a checkpoint of another system",
    ),
    "port": Command(
        "porting.__main__",
        "-m transformer.porting",
        "which functions in TF1 code match ours",
    ),
}


def command(name: str) -> str:
    """Return what messages call a command: "train.py", or "transformer-tf train".

    In a checkout, this is the name of a file, unless the user runs the installed
    program.

    Args:
      name: a key of COMMANDS, or the file name of another program.
    """
    if name in COMMANDS and _runs_installed():
        return f"{PROGRAM} {name}"
    file = COMMANDS[name].file if name in COMMANDS else name
    return os.path.basename(file) if file.endswith(".py") else "python " + file


def command_line(name: str, *arguments: str) -> str:
    """Return what to type for a command: "python scripts/prepare.py --out data/mine".

    Args:
      name: a key of COMMANDS.
      arguments: unquoted.
    """
    quoted = "".join(" " + shlex.quote(str(each)) for each in arguments)
    if _runs_installed():
        return f"{PROGRAM} {name}{quoted}"
    file = COMMANDS[name].file
    if file.endswith(".py"):
        path = os.path.join(os.path.dirname(PACKAGE), file)
        with contextlib.suppress(OSError):  # the current folder was removed
            path = os.path.relpath(path)
        file = shlex.quote(path)
    return f"python {file}{quoted}"


def _runs_installed() -> bool:
    """Return whether commands are arguments of PROGRAM, not files in a checkout."""
    typed = os.path.realpath(sys.argv[0]) if sys.argv else ""
    if os.path.basename(typed) == PROGRAM or os.path.dirname(typed) == PACKAGE:
        return True
    checkout = os.path.dirname(PACKAGE)
    return not os.path.isfile(os.path.join(checkout, COMMANDS["prepare"].file))


def shown(text: str) -> str:
    r"""Return one line of text with its control characters escaped: "\x1b" for ESC."""
    return CONTROL.sub(lambda found: ascii(found.group())[1:-1], text)


def say(*lines: str) -> None:
    """Write lines to standard output, each on one line whatever it contains."""
    for line in lines:
        sys.stdout.write(shown(line) + "\n")


def warner(prog: str) -> Callable[[str], None]:
    """Return a function that writes a line to stderr, after the name of the command.

    Args:
      prog: what `command` returns.
    """

    def warn(text):
        with contextlib.suppress(OSError):  # the terminal may have been closed
            sys.stderr.write(f"{prog}: {shown(str(text))}\n")

    return warn


# Not tqdm: it would be a fifth package to install, and it does not write plain lines if
# stderr is a file.
class Progress:
    """Show the progress of a task: a bar on a terminal, plain lines elsewhere.

    Args:
      stream: a text stream, such as standard error.
      start: what was done before this process began.
      every: the smallest number of seconds between two lines; 0: show all lines.
    """

    def __init__(self, stream: TextIO, start: int = 0, every: float = 0.0):
        self._stream = stream
        self._start = start
        self._every = every
        self._began = time.monotonic()
        self._next = self._began
        self._live = stream.isatty()

    def show(self, done: int, total: int, text: str) -> None:
        """Show the current state; the last one, `done == total`, is always shown.

        Args:
          done: how many steps or bytes are done.
          total: the number of all steps or bytes; 0 if unknown: no bar is drawn.
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
        """Return the time left at the speed of this process, as `clock` writes it."""
        share = (done - self._start) / max(1, total - self._start)
        return clock((time.monotonic() - self._began) * (1 / max(share, 1e-9) - 1))

    def say(self, text: str) -> None:
        """Write a line that stays; on a terminal, it replaces the bar."""
        self._write((CLEAR_LINE if self._live else "") + shown(text) + "\n")

    def _write(self, text):
        """Write immediately; do nothing if the reader of the stream has gone."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()


def clock(seconds: float) -> str:
    """Return a duration as h:mm:ss, or as m:ss if it is below an hour."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{seconds:02d}"
    return f"{minutes}:{seconds:02d}"
