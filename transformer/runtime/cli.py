"""What every command shares: flags, a quiet start of TensorFlow, errors of one line.

def run(args):
    from transformer.translator import Translator  # TensorFlow takes seconds
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
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional

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
        "--verbose", action="store_true", help="show what TensorFlow says as it starts"
    )
    return parser


def add_settings(
    parser: argparse.ArgumentParser, fields: Dict[str, Any], groups: Iterable[str]
) -> None:
    """Add a flag for each field of the settings.

    A flag that is not given leaves no trace in the parsed namespace, so that what was
    said can be told from what was not.

    Args:
      fields: name → dataclass field with `group` and `help` in its metadata.
      groups: the headings of `--help`, in their order.
    """
    for group in groups:
        members = [f for f in fields.values() if f.metadata["group"] == group]
        section = parser.add_argument_group(group) if members else parser
        for field in members:
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
    """Return what `true` and `false` mean, in any case of letters."""
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"found {text!r}, wanted true or false")
    return text.lower() == "true"


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


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the message for a name that is not `known`: the nearest; all, if few."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0)[0]
    every = f" ({', '.join(known)})" if len(known) < 9 else ""
    return f"unknown {kind} {name}; did you mean {near}?{every}"


def main(
    parser: argparse.ArgumentParser,
    work: Callable[[argparse.Namespace], Optional[int]],
    argv: Optional[List[str]] = None,
    needs_tensorflow: bool = True,
) -> None:
    """Parse the arguments, start TensorFlow, do the work, exit.

    Args:
      parser: what `make_parser` returned, with the command's own flags.
      work: function of the parsed arguments; returns the exit status, None for 0.
      argv: the arguments; None for those of the process.
      needs_tensorflow: False for a command that does without.

    Raises:
      SystemExit: with status 2 and one line on stderr for whatever is refused, 130
        for Ctrl-C; not at all where `work` returns None.
    """
    args = parse(parser, sys.argv[1:] if argv is None else argv)
    try:
        if needs_tensorflow:
            start_tensorflow(args.verbose)
        status = work(args)
    except (ValueError, OSError, FloatingPointError, MemoryError) as error:
        _leave(parser.prog, error, REFUSED, error)
    except Stopped as stopped:
        _leave(parser.prog, stopped, stopped.status, stopped)
    except KeyboardInterrupt as interrupt:
        _leave(parser.prog, "interrupted", INTERRUPTED, interrupt)
    if status:
        sys.exit(status)


def _leave(prog, message, status, cause):
    """Write one line on stderr and exit."""
    sys.stderr.write(f"{prog}: {message}\n")
    raise SystemExit(status) from cause


def start_tensorflow(verbose: bool = False) -> None:
    """Import TensorFlow, in graph mode, without the lines that it writes as it starts.

    Args:
      verbose: let it write them.
    """
    if not verbose:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    quiet = not verbose and "tensorflow" not in sys.modules
    with held_back_stderr() if quiet else contextlib.nullcontext():
        import tensorflow.compat.v1 as tf
    tf.disable_eager_execution()
    if not verbose:
        tf.logging.set_verbosity(tf.logging.ERROR)


@contextlib.contextmanager
def held_back_stderr() -> Iterator[None]:
    """Hold back what is written to file descriptor 2; show it if the body fails."""
    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile() as held:
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
