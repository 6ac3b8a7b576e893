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


def parser() -> argparse.ArgumentParser:
    made = cli.make_parser("port", __doc__)
    made.add_argument("files", nargs="+", metavar="FILE", help="Python files")
    made.add_argument(
        "--run",
        action="store_true",
        help="confirm that the files may be executed; required",
    )
    cli.add_number(made, "seconds", 600.0, "time limit per file")
    return made


def run(args: argparse.Namespace) -> int:
    if not args.seconds > 0 or args.seconds > threading.TIMEOUT_MAX:
        raise ValueError(f"--seconds: expected a positive number, got {args.seconds}")
    if not args.run:
        raise ValueError(
            "expected --run, got none; this command executes the files: give --run if "
            "you would run them yourself"
        )
    for path in args.files:
        if not os.path.isfile(path):
            got = "a folder" if os.path.isdir(path) else "none"
            raise ValueError(f"{path}: expected a Python file, got {got}")
    status = 0
    for path in args.files:
        verdicts = measure(path, args.seconds, args.verbose)
        kinds = [each["kind"] for each in verdicts] or ["none"]
        status = max(status, *(STATUS[kind] for kind in kinds))
        sys.stdout.write(f"{path}\n")
        lines = report(verdicts, find_shadow(path))
        sys.stdout.write("".join(f"  {line}\n" for line in lines))
        sys.stdout.flush()
    return status


STATUS = {"same": 0, "but": 1, "none": 1, "failed": 2}


def measure(path: str, seconds: float, verbose: bool) -> List[Dict[str, Any]]:
    """Return the verdicts on a file's functions: each `measure.Verdict` as a dict."""
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
            ended = f"its process ended with status {child.wait(seconds)}"
        except subprocess.TimeoutExpired:
            ended = f"it reached the time limit of {seconds:g} s (--seconds)"
        finally:
            _end(child)
        found = []
        if os.path.isfile(results):
            with open(results, encoding="utf-8") as file:
                found = [json.loads(line) for line in file if line.endswith("\n")]
    if found and found[-1]["kind"] == "done":
        return found[:-1]
    return [
        *found,
        {"name": "", "kind": "failed", "text": f"could not be run: {ended}"},
    ]


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End a process, and all processes that it started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def report(verdicts: List[Dict[str, Any]], shadow: str = "") -> List[str]:
    """Return the lines of a report on verdicts.

    Args:
      verdicts: each `measure.Verdict` as a dict.
      shadow: a file of the user's that Python would import instead of this package.
    """
    lines = []
    for each in verdicts:
        name = f"{each['name']}: " if each["name"] else ""
        lines.append(name + each["text"])
        if each["kind"] in ("same", "but"):
            first = "write" if each["kind"] == "same" else "keep yours, or write"
            lines.append(f"    {first}: {each['line']}")
    lines = lines or [
        "no functions found: give the file that defines them; classes and what "
        "functools.partial makes are not measured"
    ]
    if shadow:
        lines.append(f"rename {shadow}, which Python imports instead of this package")
    return lines


def find_shadow(path: str) -> str:
    """Return the file beside `path`, or here, that shadows this package, or ""."""
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
