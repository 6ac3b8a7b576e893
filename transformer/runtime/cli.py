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
import atexit
import contextlib
import difflib
import os
import shutil
import sys
import tempfile
from typing import Any, Callable, Collection, Dict, Iterator, List, Optional

from transformer.runtime.ending import ignore_signals, in_one_line, warner

# The metavars of flags that name a file or a folder.
PATHS = ("DIR", "FILE", "CHECKPOINT", "CASE.npz", ("SOURCE", "TARGET"))
PATHS += (("SOURCE", "REFERENCE"),)


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


def add_models(parser: argparse.ArgumentParser, every: str = "") -> None:
    """Add `--logdir` and `--checkpoint` for a command that translates.

    Args:
      parser: what `make_parser` returned.
      every: the word for all checkpoints, where the command takes one.
    """
    parser.add_argument(
        "--logdir",
        required=True,
        nargs="+",
        metavar="DIR",
        help="what train.py wrote; several: their probabilities are averaged",
    )
    _add_checkpoint(parser, every)


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Add `--logdir` and `--checkpoint` for a command that reads one checkpoint."""
    add_logdir(parser)
    _add_checkpoint(parser)


def _add_checkpoint(parser: argparse.ArgumentParser, every: str = "") -> None:
    others = f"; {every}: each that is kept" if every else ""
    parser.add_argument(
        "--checkpoint",
        default="best",
        metavar="WHICH",
        help=f"best (by dev BLEU), newest, or a step [best]{others}",
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
                parser.error(unknown("flag", flag, known) + "; --help lists them all")
        words.append(flag + equals + value)
    args = parser.parse_args(words)
    for action in parser._actions:
        value = getattr(args, action.dest, None)
        is_path = action.metavar in PATHS or action.dest == "data"
        if is_path and "" in (value if isinstance(value, list) else [value]):
            parser.error(f"--{action.dest}: found an empty name, wanted a path")
    return args


def unknown(kind: str, name: str, known: Collection[str]) -> str:
    """Return the message for a name that is not `known`: the nearest; all, if few."""
    near = difflib.get_close_matches(name, known, n=1)
    advice = f"; did you mean {near[0]}?" if near else ""
    every = f" ({', '.join(known)})" if len(known) < 9 else ""
    return f"unknown {kind} {name}{advice}{every}"


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
      advice: what to do after a signal, for a command that can continue.

    Raises:
      SystemExit: with a status and one line on stderr, as `ending.in_one_line` says;
        not at all where `work` returns None or 0.
    """
    try:
        with in_one_line(parser.prog, advice):
            args = parse(parser, sys.argv[1:] if argv is None else argv)
            warn_of_another_checkout(parser.prog)
            status = work(args)
    finally:
        atexit.register(ignore_signals)
    if status:
        sys.exit(status)


def warn_of_another_checkout(prog: str) -> None:
    """Warn where a script of one checkout uses the package of another.

    Args:
      prog: the name of the command, which is that of the script that runs.
    """
    script = os.path.realpath(getattr(sys.modules["__main__"], "__file__", None) or "")
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    for root in (os.path.dirname(script), os.path.dirname(os.path.dirname(script))):
        beside = os.path.join(root, "transformer")
        if (
            os.path.basename(script) == prog
            and os.path.isfile(os.path.join(beside, "runtime", "cli.py"))
            and beside != package
        ):
            warner(prog)(
                f"found the package in {package}, wanted that of this script, {beside};"
                f" run pip install -e {root}, or set PYTHONPATH={root}"
            )


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
