"""The commands and their names, and lines written to a terminal."""

import contextlib
import os
import shlex
import sys
from typing import Callable, Dict, NamedTuple

from transformer.runtime.progress import escape_control

PROGRAM = "transformer-tf"  # what setup.py installs; its first argument is a command
PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


class Command(NamedTuple):
    """A command: a module with the functions `parser` and `run`."""

    module: str  # in the package
    file: str  # what Python runs for it in a checkout
    summary: str  # what it does
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
    "page": Command(
        "commands.page",
        "scripts/page.py",
        "write a page with a model in it, which needs no server",
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


def command_name(name: str) -> str:
    """Return the name of a command in messages: "train.py", or "transformer-tf train".

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
    """Return the line that runs a command: "python scripts/prepare.py --out data/mine".

    Args:
      name: a key of COMMANDS.
      arguments: unquoted.
    """
    quoted = "".join(" " + shlex.quote(str(argument)) for argument in arguments)
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


def print_lines(*lines: str) -> None:
    """Write lines to standard output, each on one line whatever it contains."""
    for line in lines:
        sys.stdout.write(escape_control(line) + "\n")


def make_warn(prog: str) -> Callable[[str], None]:
    """Return a function that writes a line to stderr, after the name of the command.

    Args:
      prog: the name of the command, from `command_name`.
    """

    def warn(text):
        with contextlib.suppress(OSError):  # the terminal may have been closed
            sys.stderr.write(f"{prog}: {escape_control(str(text))}\n")

    return warn
