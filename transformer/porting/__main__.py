"""Measure whether functions in TF1 code compute the same results as ours.

    transformer-tf port --run modules.py

EXECUTES each file, in its own process with a time limit. This is no protection against
what the file does; therefore, --run is required. The command calls the functions in the
file and ours with the same variables and arguments, in all modes, and compares outputs,
regularization losses, gradients, variables and dropout. The verdict on a function is
one of

    same numbers                    import ours instead
    same except for ...             what differs, and by how much
    not one of these: keep yours
    could not be run                the exception

The exit status is 0, or 1 if a function differs, or 2 if one could not be run.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any, Dict, List

from transformer.commands import cli
from transformer.commands.terminal import PACKAGE

# The folder of the package comes first, in case there is a transformer.py here.
ROOT = os.path.dirname(PACKAGE)
MEASURE = (
    f"import sys; sys.path[0] = {ROOT!r}; "
    "from transformer.porting import measure; measure.main()"
)


def parser() -> cli.Parser:
    parser = cli.make_parser("port", __doc__)
    parser.add_argument(
        "files", nargs="+", type=cli.path, metavar="FILE", help="Python files"
    )
    parser.add_argument(
        "--run",
        action="store_true",
        help="confirm that the files may be executed; required",
    )
    cli.add_number(parser, "seconds", 600.0, "time limit per file")
    return parser


def run(args: argparse.Namespace) -> int:
    if not args.seconds > 0 or args.seconds > threading.TIMEOUT_MAX:
        raise ValueError(f"--seconds: expected a positive number, got {args.seconds}")
    if not args.run:
        raise ValueError(
            "this command executes the files; confirm with --run that you would run "
            "them yourself"
        )
    for path in args.files:
        if not os.path.isfile(path):
            problem = "is a folder" if os.path.isdir(path) else "does not exist"
            raise ValueError(f"{path} {problem}: expected a Python file")
    status = 0
    for path in args.files:
        verdicts = measure_file(path, args.seconds, args.verbose)
        kinds = [verdict["kind"] for verdict in verdicts] or ["different"]
        status = max(status, *(STATUS[kind] for kind in kinds))
        sys.stdout.write(f"{path}\n")
        lines = format_report(verdicts, find_shadow(path))
        sys.stdout.write("".join(f"  {line}\n" for line in lines))
        sys.stdout.flush()
    return status


# Kind of a verdict, a key of `measure.KINDS` → exit status.
STATUS = {"same": 0, "similar": 1, "different": 1, "failed": 2}


def measure_file(path: str, seconds: float, verbose: bool) -> List[Dict[str, Any]]:
    """Measure a file in a process of its own.

    Args:
      path: the file.
      seconds: the time limit.
      verbose: whether to show what the file writes.

    Returns:
      The verdicts on its functions, each `measure.Verdict` as a dict.
    """
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
    output = None if verbose else subprocess.DEVNULL
    with tempfile.TemporaryDirectory() as folder:
        results = os.path.join(folder, "results")
        child = subprocess.Popen(
            [sys.executable, "-c", MEASURE, path, results],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
        try:
            reason = f"its process ended with status {child.wait(seconds)}"
        except subprocess.TimeoutExpired:
            reason = f"it reached the time limit of {seconds:g} s (--seconds)"
        finally:
            _kill(child)
        verdicts = []
        if os.path.isfile(results):
            with open(results, encoding="utf-8") as file:
                verdicts = [json.loads(line) for line in file if line.endswith("\n")]
    if verdicts and verdicts[-1]["kind"] == "done":
        return verdicts[:-1]
    text = f"could not be run: {reason}"
    return [*verdicts, {"name": "", "kind": "failed", "text": text}]


def _kill(child: "subprocess.Popen[bytes]") -> None:
    """Kill a process, and all processes that it started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def format_report(verdicts: List[Dict[str, Any]], shadow: str = "") -> List[str]:
    """Format verdicts as the lines of a report.

    Args:
      verdicts: each `measure.Verdict` as a dict.
      shadow: a file of the user's that Python would import instead of this package.
    """
    lines = []
    for verdict in verdicts:
        name = f"{verdict['name']}: " if verdict["name"] else ""
        lines.append(name + verdict["text"])
        if verdict["kind"] in ("same", "similar"):
            advice = "write" if verdict["kind"] == "same" else "keep yours, or write"
            lines.append(f"    {advice}: {verdict['line']}")
    lines = lines or [
        "no functions found: give the file that defines them; classes and what "
        "functools.partial makes are not measured"
    ]
    if shadow:
        lines.append(f"rename {shadow}, which Python imports instead of this package")
    return lines


def find_shadow(path: str) -> str:
    """Find a file beside `path`, or here, that shadows this package; "": none."""
    for folder in (os.path.dirname(os.path.abspath(path)), os.getcwd()):
        stem = os.path.join(folder, "transformer")
        if os.path.realpath(stem) == PACKAGE:
            continue
        for shadow in (stem + ".py", os.path.join(stem, "__init__.py")):
            if os.path.isfile(shadow):
                return shadow
    return ""


if __name__ == "__main__":
    cli.main(parser(), run)
