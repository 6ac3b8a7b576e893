"""What every command shares: flags, one-line errors, a quiet start of TensorFlow.

A command parses its arguments, refuses what can be refused, and only then starts
TensorFlow, whose import takes seconds:

    def parser():
        made = cli.make_parser("translate.py", __doc__)
        made.add_argument("--n_best", type=int, default=1, help="...")
        return made

    def run(args):
        hp = hparams.load(args.logdir)
        cli.start_tensorflow(args.verbose)
        from transformer.translator import Translator  # needs TensorFlow
        ...

    def main(argv=None):
        cli.main(parser(), run, argv)
"""

import argparse
import contextlib
import difflib
import os
import shutil
import sys
import tempfile
from typing import Any, Callable, Collection, Dict, Iterator, List, Optional

from transformer.runtime.process import Stopped

REFUSED = 2  # the exit status of every refusal, argparse's own too
INTERRUPTED = 130  # 128 + SIGINT


def make_parser(prog: str, doc: str) -> argparse.ArgumentParser:
    """Return a parser whose `--help` shows the whole docstring, examples included.

    Args:
      prog: the name of the file: "train.py".
      doc: the docstring of the file.
    """
    parser = argparse.ArgumentParser(
        prog=prog,
        description=doc.strip(),
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


def add_settings(parser: argparse.ArgumentParser, fields: Dict[str, Any]) -> None:
    """Add a flag for each field of the settings, under the heading of its group.

    A flag that is not given leaves no trace in the parsed namespace; `given` returns
    those that were.

    Args:
      parser: what `make_parser` returned.
      fields: name → dataclass field with `group` and `help` in its metadata.
    """
    groups = dict.fromkeys(field.metadata["group"] for field in fields.values())
    for group in groups:
        section = parser.add_argument_group(group)
        for field in fields.values():
            if field.metadata["group"] == group:
                _add_setting(section, field)


def _add_setting(section, field) -> None:
    kind, metavar = {
        bool: (_parse_bool, "BOOL"),
        int: (int, "INT"),
        float: (float, "FLOAT"),
        str: (str, "TEXT"),
    }[field.type]
    default = str(field.default).lower() if field.type is bool else field.default
    alone = {"nargs": "?", "const": True} if field.type is bool else {}
    section.add_argument(
        "--" + field.name,
        type=kind,
        metavar=metavar,
        default=argparse.SUPPRESS,
        help=f"{field.metadata['help']} [{default}]",
        **alone,
    )


def _parse_bool(text: str) -> bool:
    """Return True for `true` and False for `false`, in any case of letters."""
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"found {text!r}, wanted true or false")
    return text.lower() == "true"


def given(args: argparse.Namespace, fields: Collection[str]) -> Dict[str, Any]:
    """Return the settings that were named on the command line: name → value.

    Args:
      args: the parsed arguments, of a parser with `add_settings`.
      fields: the names of all settings.
    """
    return {name: value for name, value in vars(args).items() if name in fields}


def add_logdir(parser: argparse.ArgumentParser) -> None:
    """Add `--logdir` for a command that reads a log directory."""
    parser.add_argument(
        "--logdir", required=True, metavar="DIR", help="what train.py wrote"
    )


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Add `--logdir` and `--checkpoint` for a command that reads one checkpoint."""
    add_logdir(parser)
    parser.add_argument(
        "--checkpoint",
        default="best",
        metavar="WHICH",
        help="best (by dev BLEU), newest, or a step [best]",
    )


def add_text(parser: argparse.ArgumentParser, split: str) -> None:
    """Add `--split`, `--data` and `--files`: the lines that a command translates.

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
        metavar=("SOURCE", "REFERENCE"),
        help="any two text files, instead of a split",
    )


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add `--data` for a command that reads the data folder of a log directory."""
    parser.add_argument(
        "--data",
        metavar="DIR",
        default=argparse.SUPPRESS,
        help="the data folder, if it was moved since training",
    )


def parse(parser: argparse.ArgumentParser, argv: List[str]) -> argparse.Namespace:
    """Parse `argv`; an unknown flag exits with status 2 and names the nearest one.

    `--vocab-size` and `--vocab_size` are the same flag; `--help` shows the latter.
    """
    known = [flag for action in parser._actions for flag in action.option_strings]
    words = []
    for number, word in enumerate(argv):
        if word == "--":
            words += argv[number:]
            break
        flag, equals, value = word.partition("=")
        if flag.startswith("--"):
            flag = "--" + flag[2:].replace("-", "_")
            if flag not in known:
                parser.error(unknown("flag", flag, known))
        words.append(flag + equals + value)
    return parser.parse_args(words)


def unknown(kind: str, name: str, known: Collection[str]) -> str:
    """Return the message for a name that is not `known`: the nearest; all, if few."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0)[0]
    every = f" ({', '.join(known)})" if len(known) < 9 else ""
    return f"unknown {kind} {name}; did you mean {near}?{every}"


def refuse_unknown(kind: str, name: str, known: Collection[str]) -> None:
    """Raise ValueError, with the nearest name, where `name` is not `known`."""
    if name not in known:
        raise ValueError(unknown(kind, name, known))


def main(
    parser: argparse.ArgumentParser,
    work: Callable[[argparse.Namespace], Optional[int]],
    argv: Optional[List[str]] = None,
    advice: str = "",
) -> None:
    """Parse the arguments, do the work, exit.

    Args:
      parser: what `make_parser` returned, with the command's own flags.
      work: function of the parsed arguments; returns the exit status, None for 0. It
        calls `start_tensorflow` before it imports what needs TensorFlow.
      argv: the arguments; None for those of the process.
      advice: what to do after Ctrl-C or SIGTERM, for a command that can continue.

    Raises:
      SystemExit: with status 2 and one line on stderr for whatever is refused, 130
        for Ctrl-C; not at all where `work` returns None or 0.
    """
    args = parse(parser, sys.argv[1:] if argv is None else argv)
    advice = advice and "; " + advice
    try:
        status = work(args)
    except (ValueError, OSError, FloatingPointError, MemoryError) as error:
        _leave(parser.prog, error, REFUSED, error)
    except Stopped as stopped:
        _leave(parser.prog, f"{stopped}{advice}", stopped.status, stopped)
    except KeyboardInterrupt as interrupt:
        _leave(parser.prog, f"interrupted{advice}", INTERRUPTED, interrupt)
    if status:
        sys.exit(status)


def warner(prog: str) -> Callable[[str], None]:
    """Return a function that writes a line on stderr, behind the name of the command.

    Args:
      prog: as for `make_parser`.
    """

    def warn(text):
        with contextlib.suppress(OSError):  # its terminal may have been closed
            sys.stderr.write(f"{prog}: {text}\n")

    return warn


def _leave(prog, message, status, cause):
    """Write one line on stderr and exit."""
    warner(prog)(message)
    raise SystemExit(status) from cause


def start_tensorflow(verbose: bool = False) -> None:
    """Import TensorFlow, in graph mode, without the lines that it writes as it starts.

    Args:
      verbose: let it write them.
    """
    if not verbose:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    quiet = not verbose and sys.stderr and "tensorflow" not in sys.modules
    with held_back_stderr() if quiet else contextlib.nullcontext():
        import tensorflow.compat.v1 as tf
    tf.disable_eager_execution()
    if not verbose:
        tf.logging.set_verbosity(tf.logging.ERROR)


@contextlib.contextmanager
def held_back_stderr() -> Iterator[None]:
    """Hold back what is written to file descriptor 2; show it if the body fails."""
    try:
        held = tempfile.TemporaryFile()
    except OSError:  # no folder can be written: nothing is held back
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
