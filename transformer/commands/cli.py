"""Commands: their flags, errors and signals in one line, a quiet TensorFlow.

A command parses its arguments, refuses everything that it can refuse, and only then
starts TensorFlow, whose import takes seconds:

    def parser():
        parser = cli.make_parser("translate", __doc__)
        parser.add_argument("--n_best", type=int, default=1, help="...")
        return parser

    def run(args):
        hp = hparams.load(args.logdir)
        cli.start_tensorflow(args.verbose)
        from transformer.translator import Translator  # needs TensorFlow
        args.warn("...")  # a line on stderr, after the name of the command
        ...

`transformer/commands/program.py` gives both to `main`.
"""

import argparse
import atexit
import contextlib
import errno
import glob
import io
import os
import re
import shutil
import signal
import sys
import tempfile
import urllib.parse
from typing import (
    Any,
    Callable,
    Collection,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    Union,
)

from transformer.commands.advice import advice_for
from transformer.commands.terminal import (
    COMMANDS,
    PROGRAM,
    command_line,
    command_name,
    make_warn,
)
from transformer.logdir.names import ESSENTIAL
from transformer.runtime.errors import REFUSED
from transformer.runtime.files import UNFINISHED
from transformer.runtime.names import describe_unknown
from transformer.runtime.signals import SIGNALS, Stopped, handle_signals

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

# --- Flags ----------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    """An argument parser that knows the names of its flags.

    Attributes:
      flags: the names, such as "--logdir", in the order in which they were added.
    """

    def __init__(self, **options: Any):
        self.flags: List[str] = []
        super().__init__(**options)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Add a flag or a positional argument, as in argparse."""
        self.flags += [name for name in names if name.startswith("--")]
        return super().add_argument(*names, **options)

    def add_group(self, title: str) -> "FlagGroup":
        """Add a heading for flags."""
        return FlagGroup(self, title)


class FlagGroup:
    """The flags under a heading of the help; `Parser.add_group` returns it."""

    def __init__(self, parser: Parser, title: str):
        self._flags = parser.flags
        self._group = parser.add_argument_group(title)

    def add_argument(self, *names: str, **options: Any) -> argparse.Action:
        """Add a flag, as in argparse."""
        self._flags += names
        return self._group.add_argument(*names, **options)


Flags = Union[Parser, FlagGroup]  # what flags can be added to


def make_parser(name: str, doc: Optional[str]) -> Parser:
    """Return a parser whose `--help` shows the whole docstring, including examples.

    Args:
      name: the name of the command: "train".
      doc: the docstring of the file. In a checkout, `transformer-tf train` in it
        becomes what the user has to type. None under `python -OO`.
    """
    description = re.sub(
        rf"\b{PROGRAM} ({'|'.join(COMMANDS)})\b",
        lambda match: command_line(match.group(1)),
        (doc or "").strip(),
    )
    parser = Parser(
        prog=command_name(name),
        description=description,
        allow_abbrev=False,
        usage="%(prog)s [--flag value] ...",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
            prog, max_help_position=34
        ),
    )
    parser.add_argument(
        "--verbose", action="store_true", help="show TensorFlow's start-up messages"
    )
    return parser


def add_settings(parser: Parser, fields: Dict[str, Any]) -> None:
    """Add a flag for each field of the settings, under the heading of its group.

    A flag that is not given is absent from the parsed namespace; `read_settings`
    returns the others.

    Args:
      parser: what `make_parser` returned.
      fields: name → dataclass field with `group` and `help` in its metadata.
    """
    groups: Dict[str, FlagGroup] = {}
    for name, field in fields.items():
        title = field.metadata["group"]
        if title not in groups:
            groups[title] = parser.add_group(title)
        convert, metavar = {
            bool: (parse_bool, "BOOL"),
            int: (int, "INT"),
            float: (float, "FLOAT"),
            str: (str, "TEXT"),
        }[field.type]
        is_switch = field.type is bool
        default = str(field.default).lower() if is_switch else field.default
        groups[title].add_argument(
            "--" + name,
            type=convert,
            metavar=metavar,
            default=argparse.SUPPRESS,
            help=f"{field.metadata['help']} [{default}]",
            **({"nargs": "?", "const": True} if is_switch else {}),
        )


def parse_bool(text: str) -> bool:
    """Return True for `true` and False for `false`, in upper or lower case."""
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"expected true or false, got {text!r}")
    return text.lower() == "true"


def path(text: str) -> str:
    """Return the name of a file or folder, unless it is empty; a type for argparse.

    An empty name, from a shell variable that is not set, would be the current folder.
    """
    if not text:
        raise argparse.ArgumentTypeError("expected a path, got an empty name")
    return text


def add_docs(flags: Flags) -> None:
    """Add --docs, for the page."""
    flags.add_argument(
        "--docs",
        type=web_address,
        metavar="URL",
        help="where the documentation is published as a site (make docs): the page "
        "and its lessons link to it; a path counts from the page [no links]",
    )


def web_address(text: str) -> str:
    """Return an address that a browser opens, or a path; a type for argparse."""
    if not text or urllib.parse.urlsplit(text).scheme not in ("", "http", "https"):
        raise argparse.ArgumentTypeError(
            f"expected https://…, http://… or a path, got {text!r}"
        )
    return text


def read_settings(args: argparse.Namespace, fields: Collection[str]) -> Dict[str, Any]:
    """Return the settings that were given on the command line: name → value.

    Args:
      args: the parsed arguments, from a parser with `add_settings`.
      fields: the names of all settings.
    """
    return {name: value for name, value in vars(args).items() if name in fields}


def add_number(flags: Flags, name: str, default: float, text: str) -> None:
    """Add a flag for a number of the type of its default, which its help shows.

    Args:
      flags: where it is added.
      name: the flag without "--".
      default: an int or a float.
      text: the help.
    """
    number_type = type(default)
    flags.add_argument(
        "--" + name,
        type=number_type,
        default=default,
        metavar=number_type.__name__.upper(),
        help=f"{text} [{default}]",
    )


def add_ray(flags: Flags) -> None:
    """Add `--ray` for a command that starts workers."""
    flags.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="run the workers on a Ray cluster: auto, or HOST:PORT of its head",
    )


def add_logdir(parser: Parser, several: str = "", required: bool = True) -> None:
    """Add `--logdir` for a command that reads a log directory.

    Args:
      parser: what `make_parser` returned.
      several: what several log directories are for, if the command accepts them;
        `args.logdir` is then a list.
      required: whether the command always needs it.
    """
    parser.add_argument(
        "--logdir",
        required=required,
        nargs="+" if several else None,
        type=path,
        metavar="DIR",
        help=f"log directory written by {command_name('train')}"
        + (several and f"; several: {several}"),
    )


def add_checkpoint(parser: Parser, more: str = "") -> None:
    """Add `--checkpoint`; its help ends with `more`."""
    parser.add_argument(
        "--checkpoint",
        default="best",
        metavar="WHICH",
        help=f"best (by dev BLEU), newest, or a step [best]{more}",
    )


def add_text(parser: Parser, split: str) -> None:
    """Add `--split`, `--data` and `--files`, which name the lines to translate.

    Args:
      parser: what `make_parser` returned.
      split: the default of `--split`.
    """
    parser.add_argument(
        "--split",
        default=split,
        metavar="NAME",
        help=f"dev or test of the data folder [{split}]",
    )
    add_data(parser)
    parser.add_argument(
        "--files",
        nargs=2,
        type=path,
        metavar=("SOURCE", "REFERENCE"),
        help="any two text files, instead of a split",
    )


def add_data(parser: Parser) -> None:
    """Add `--data` for a command that reads the data folder of a log directory."""
    parser.add_argument(
        "--data",
        type=path,
        metavar="DIR",
        default=argparse.SUPPRESS,
        help="the data folder, if it has moved since training",
    )


def parse(parser: Parser, argv: List[str]) -> argparse.Namespace:
    """Parse `argv`; for an unknown flag, name the nearest one and exit with status 2.

    `--vocab-size` and `--vocab_size` are the same flag; `--help` shows the latter.
    """
    words = []
    for i, word in enumerate(argv):
        if word == "--":
            words += argv[i:]
            break
        flag, equals, value = word.partition("=")
        if flag.startswith("--"):
            flag = "--" + flag[2:].replace("-", "_")
            if flag not in parser.flags:
                message = describe_unknown("flag", flag, parser.flags)
                parser.error(message + "; --help lists them all")
        words.append(flag + equals + value)
    return parser.parse_args(words)


# --- Files to write -------------------------------------------------------------------


def refuse_overwriting(
    outputs: Dict[str, Optional[str]], inputs: Dict[str, Iterable[str]]
) -> None:
    """Raise ValueError if a file to write is a file to read, or another one to write.

    Pipes and devices can be both.

    Args:
      outputs: flag → the file that it names, or None.
      inputs: flag → the files that it names; the folders among them are log
        directories, whose settings, history, vocabulary and checkpoints count.
    """
    taken = []
    for flag, paths in inputs.items():
        for path in paths:
            if os.path.isdir(path):
                for pattern in ESSENTIAL:
                    pattern = os.path.join(glob.escape(path), pattern)
                    taken += [(flag, name) for name in glob.glob(pattern)]
            else:
                taken.append((flag, path))
    for flag, output in outputs.items():
        if not output or (os.path.exists(output) and not os.path.isfile(output)):
            continue
        for other_flag, other in taken:
            is_same = os.path.realpath(output) == os.path.realpath(other)
            if os.path.exists(output) and os.path.exists(other):
                is_same = os.path.samefile(output, other)
            if is_same:
                raise ValueError(
                    f"{flag} {output}: expected a file of its own, got a file of "
                    f"{other_flag}, which it would overwrite; choose another name"
                )
        taken.append((flag, output))


# --- Errors and signals ---------------------------------------------------------------


def main(
    parser: Parser,
    work: Callable[[argparse.Namespace], Optional[int]],
    argv: Optional[List[str]] = None,
    advice: str = "",
) -> None:
    """Parse the arguments, do the work, and exit.

    Args:
      parser: what `make_parser` returned, with the command's own flags.
      work: function of the parsed arguments, which include `warn`; returns the exit
        status, None for 0. It calls `start_tensorflow` before it imports anything that
        needs TensorFlow.
      argv: the arguments; None: the arguments of the process.
      advice: what to do after a signal, for a command that can continue.

    Raises:
      SystemExit: with the status that `work` returned, 2 for a refusal, or 128 + the
        number of a signal. With status 0, `main` returns, even if nobody reads standard
        output any more.
    """
    if os.name != "posix":
        parser.error("Windows is not supported; use WSL")
    prepare_streams()
    warn = make_warn(parser.prog)
    advice = advice and "; " + advice
    status: Optional[int] = 0
    try:
        with _end_on_signals(parser.prog, advice), ignore_closed_output():
            args = parse(parser, sys.argv[1:] if argv is None else argv)
            args.warn = warn
            args.argv = sys.argv[1:] if argv is None else argv
            status = work(args)
    except (ValueError, OSError, FloatingPointError, MemoryError) as error:
        warn(format_error(error) + advice_for(error))
        status = REFUSED
    except Stopped as stopped:
        warn(f"{stopped}{advice}")
        status = stopped.status
    finally:
        atexit.register(_ignore_signals)
    if status:
        sys.exit(status)


def prepare_streams() -> None:
    """Replace a stream that was closed before the process began by the null device.

    Python sets such a stream to None, and the next opened file would get its
    descriptor. Characters that standard output cannot encode become "\\u2026" etc.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def format_error(error: Exception) -> str:
    """Return the message of an error, with advice if the disk is full."""
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return (
            f"{error.filename or 'standard output'}: there is no space for it "
            f"({error.strerror}); free some space, then run the same command again"
        )
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"{error.filename} is missing; check the path"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


@contextlib.contextmanager
def _end_on_signals(prog: str, advice: str) -> Iterator[None]:
    """Let a signal end the process immediately, without an exception.

    An exception could be raised in the middle of TensorFlow's import, of a destructor
    or of a thread: some of these ignore it, others report it in a hundred lines.
    Training defers signals once there is something to save.
    """
    import termios  # Windows has none

    try:
        stderr = os.dup(2)  # TensorFlow's start is silenced; signals are not
    except OSError:  # it is closed
        stderr = os.open(os.devnull, os.O_WRONLY)
    terminal = None
    with contextlib.suppress(OSError, termios.error):  # there is no terminal
        terminal = termios.tcgetattr(0)

    def end(number, frame):
        for folder in list(UNFINISHED):
            shutil.rmtree(folder, ignore_errors=True)
        line = "\n" if os.isatty(stderr) else ""  # after "^C" or the bar
        with contextlib.suppress(OSError, termios.error):
            if terminal:  # readline may have changed it
                termios.tcsetattr(0, termios.TCSANOW, terminal)
            os.write(stderr, f"{line}{prog}: {Stopped(number)}{advice}\n".encode())
        os._exit(128 + number)

    try:
        with handle_signals(end):
            yield
    finally:
        os.close(stderr)


def _ignore_signals() -> None:
    """Ignore signals, so that the process ends with the status of its finished work.

    Python restores the default handlers before the libraries shut down, which takes a
    while; ignored signals stay ignored.
    """
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def ignore_closed_output() -> Iterator[None]:
    """End the body silently if nobody reads standard output any more.

    For example, `| head -1` stops reading. What Python writes at exit is then
    discarded.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)


# --- TensorFlow -----------------------------------------------------------------------


def start_tensorflow(verbose: bool = False) -> None:
    """Import TensorFlow in graph mode, without the lines that it writes at start-up.

    Args:
      verbose: whether to show these lines.
    """
    if not verbose:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    quiet = not verbose and sys.stderr and "tensorflow" not in sys.modules
    with hold_stderr() if quiet else contextlib.nullcontext():
        import tensorflow.compat.v1 as tf
    tf.disable_eager_execution()
    if not verbose:
        tf.logging.set_verbosity(tf.logging.ERROR)


@contextlib.contextmanager
def hold_stderr() -> Iterator[None]:
    """Hold back what is written to file descriptor 2; show it if the body fails."""
    try:
        held = tempfile.TemporaryFile()
    except OSError:  # no folder is writable: nothing is held back
        yield
        return
    sys.stderr.flush()
    original = os.dup(2)
    with held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            sys.stderr.flush()
            held.seek(0)
            with open(original, "wb", closefd=False) as stream:
                shutil.copyfileobj(held, stream)
            raise
        finally:
            sys.stderr.flush()
            os.dup2(original, 2)
            os.close(original)
