"""Fail every call with which the commands write files, one call after another.

    python tools/faults/sweep.py
    python tools/faults/sweep.py --scenarios prepare train --every 10

Each command runs again and again. In the first run, its first call that opens, writes,
syncs, renames, removes or closes a file fails; in the second run, the second call; and
so on. There are four kinds of fault: one call fails, the disk is full from one call on,
SIGKILL before a call, SIGKILL after a call. After each fault, the folder must be the
old one or the new one, the command must have reported the failure in one line, and the
same command, run once more, must end as if there had been no fault.

This needs Linux and a C compiler. LD_PRELOAD loads `shim.c`, because TensorFlow and
SentencePiece write files without Python.
"""

import argparse
import collections
import ctypes
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from typing import Dict, List, NamedTuple, Optional, Tuple

from scenarios import (
    FUNCTIONS,
    SCENARIOS,
    Content,
    Scenario,
    is_remainder,
    read_tree,
    write_texts,
)

from transformer.commands import cli, program, terminal
from transformer.runtime.names import refuse_unknown

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# Modules that the commands import only after they have checked their flags.
IMPORTED_LATE = (
    "transformer.trainer",
    "transformer.exports.ctranslate2",
    "ctranslate2",
)
NO_FAULT = 0
# Kinds of fault, in the order of the shim: name → the calls to which it applies; () for
# all calls.
FAULTS = {
    "fails once (EIO)": (),
    "disk full from here on": ("open", "write", "fsync", "mkdir", "link"),
    "SIGKILL before it": (),
    "SIGKILL after it": (),
}


class Ended(NamedTuple):
    """How a run ended.

    Attributes:
      status: the exit status, negative after a signal.
      output: its standard output and standard error.
      calls: (operation, path) of each call that writes.
    """

    status: int
    output: str
    calls: List[Tuple[str, str]]


def find_compiler() -> Optional[str]:
    """Return the path of the C compiler; None if there is none."""
    return shutil.which("gcc") or shutil.which("cc")


def build_shim(folder: str) -> str:
    """Compile the shim; return its path. Raise ValueError without a compiler."""
    program = find_compiler()
    if not program or not sys.platform.startswith("linux"):
        raise ValueError("gcc or cc, and Linux, are needed to build the shim")
    path = os.path.join(folder, "shim.so")
    source = os.path.join(HERE, "shim.c")
    options = ["-shared", "-fPIC", "-O1", "-o", path, source, "-ldl"]
    subprocess.run([program, *options], check=True)
    return path


class Runner:
    """Run commands in forked processes, each with at most one fault.

    Args:
      folder: a folder for the world (the folder in which the commands run), a copy of
        the world, and the standard output of the commands.
    """

    def __init__(self, folder: str):
        self.world = os.path.join(os.path.realpath(folder), "world")
        self.copy = os.path.join(folder, "copy")
        self._output = os.path.join(folder, "output")
        self._trace = os.path.join(folder, "trace")

    def run(self, command: str, argv: str, at: int = 0, fault: int = NO_FAULT) -> Ended:
        """Run a command in the world; call number `at` has the fault."""
        process = os.fork()
        if not process:
            os._exit(self._work(command, argv, at, fault))
        _, status = os.waitpid(process, 0)
        with open(self._output, encoding="utf-8", errors="replace") as file:
            output = file.read()
        with open(self._trace, encoding="utf-8") as file:
            calls = [tuple(line.rstrip("\n").split(" ", 1)) for line in file]
        exited = os.WIFEXITED(status)
        code = os.WEXITSTATUS(status) if exited else -os.WTERMSIG(status)
        return Ended(status=code, output=output, calls=calls)

    def run_well(self, command: str, argv: str) -> Ended:
        """Run a command without a fault; raise ValueError if it fails."""
        ended = self.run(command, argv)
        if ended.status:
            raise ValueError(f"expected {command} {argv} to work, got {ended.output}")
        return ended

    def _work(self, command: str, argv: str, at: int, fault: int) -> int:
        """Run a command in this process; return the exit status."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        output = os.open(self._output, flags, 0o600)
        trace = os.open(self._trace, flags, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(self.world)
        arm = ctypes.CDLL(None).faults_arm
        arm(self.world.encode(), ctypes.c_long(at), fault, trace)
        status = 0
        try:
            if command in FUNCTIONS:
                FUNCTIONS[command](argv.split())
            else:
                program.main([command, *argv.split()])
        except SystemExit as ended:
            status = ended.code or 0
        except BaseException:
            traceback.print_exc()
            status = 1
        sys.stdout.flush()
        sys.stderr.flush()
        return status


def import_modules() -> None:
    """Import what the commands import, so that forked processes need no imports."""
    sys.path.insert(0, ROOT)
    cli.start_tensorflow()
    for name in IMPORTED_LATE:
        if importlib.util.find_spec(name):
            importlib.import_module(name)
    for scenario in SCENARIOS.values():
        module = terminal.COMMANDS[scenario.command].module
        importlib.import_module("transformer." + module)


class Sweep:
    """The faults of one scenario, and their effects."""

    def __init__(self, runner: Runner, scenario: Scenario):
        self.runner = runner
        self.scenario = scenario
        self.target = os.path.join(runner.world, scenario.target)
        self.points = collections.Counter()
        self.lost = []
        self._after: Dict[Tuple[str, str], List[str]] = {}
        shutil.rmtree(runner.world, ignore_errors=True)
        shutil.rmtree(runner.copy, ignore_errors=True)
        write_texts(runner.world)
        for command, argv in scenario.before:
            runner.run_well(command, argv)
        shutil.copytree(runner.world, runner.copy)
        self.old = scenario.read(self.target)
        self.calls = runner.run_well(scenario.command, scenario.argv).calls
        self.new = scenario.read(self.target)

    def run(self, every: int = 1) -> None:
        """Try each fault at each n-th call, n = `every`; each kind starts elsewhere."""
        for index, (name, kinds) in enumerate(FAULTS.items()):
            first = index * min(every, len(self.calls)) // len(FAULTS)
            for at in range(first + 1, len(self.calls) + 1, every):
                if not kinds or self.calls[at - 1][0] in kinds:
                    self.try_fault(name, index + 1, at)

    def try_fault(self, name: str, fault: int, at: int) -> None:
        """Run the command with a fault, check the folder, and run the command again."""
        shutil.rmtree(self.runner.world)
        shutil.copytree(self.runner.copy, self.runner.world)
        scenario = self.scenario
        ended = self.runner.run(scenario.command, scenario.argv, at, fault)
        if len(ended.calls) < at:
            return
        self.points[name] += 1
        state = scenario.read(self.target)
        is_kill = "SIGKILL" in name
        problems = self._check_status(ended, state, is_kill)
        problems += self._check_state(state)
        problems += self._check_second_run(state)
        operation, path = ended.calls[at - 1]
        path = os.path.relpath(path, self.runner.world)
        for problem in problems:
            self.lost.append(f"{name}: call {at}, {operation} {path}: {problem}")
            print(f"  lost: {self.lost[-1]}", flush=True)

    def _check_status(self, ended: Ended, state: Content, is_kill: bool) -> List[str]:
        """List the problems of the exit status and the last line of the output."""
        prefix = terminal.command_name(self.scenario.command) + ": "
        lines = ended.output.split("\n")
        messages = [line for line in lines if line.startswith(prefix)]
        if is_kill:
            is_correct = ended.status == -9
        elif ended.status == 0:
            is_correct = state == self.new
        else:
            is_correct = (
                ended.status == 2
                and "Traceback" not in ended.output
                and any(
                    self.runner.world in line or self.scenario.target in line
                    for line in messages[-1:]
                )
            )
        return [] if is_correct else [f"status {ended.status}, {ended.output[-400:]!r}"]

    def _check_state(self, state: Content) -> List[str]:
        """List the problems of the folder that the command writes."""
        if state in (self.old, self.new):
            return []
        if self.scenario.find_damage is None:
            return [f"neither old nor new: {self._list_differences(state)}"]
        damage = self.scenario.find_damage(self.target)
        return [damage] if damage else []

    def _list_differences(self, state: Content) -> str:
        """List the entries that differ from the new folder."""
        names = sorted({*state, *self.new})
        return ", ".join(
            name for name in names if state.get(name, 0) != self.new.get(name, 0)
        )

    def _check_second_run(self, state: Content) -> List[str]:
        """List the problems after the same command has run without a fault.

        The command runs once for each different state that the faults leave.
        """
        remainders = {
            re.sub(r"(unfinished-|tempstate)\w+", r"\1", path): content
            for path, content in read_tree(self.runner.world).items()
            if is_remainder(path)
        }
        key = repr(sorted(state.items())), repr(sorted(remainders.items()))
        if key not in self._after:
            self._after[key] = self._run_again(state)
        return self._after[key]

    def _run_again(self, before: Content) -> List[str]:
        ended = self.runner.run(self.scenario.command, self.scenario.argv)
        is_done = before == self.new and "new folder" in ended.output
        after = self.scenario.read(self.target)
        problems = []
        if ended.status and not is_done:
            problems.append(f"again: status {ended.status}, {ended.output[-400:]!r}")
        if after != self.new:
            problems.append(f"again: {self._list_differences(after)} differ")
        remainders = sorted(filter(is_remainder, read_tree(self.runner.world)))
        if remainders:
            problems.append(f"again: {', '.join(remainders)} left")
        return problems


def run(args: argparse.Namespace) -> int:
    """Try the faults of the scenarios; return the exit status, 1 for a loss."""
    names = args.scenarios or list(SCENARIOS)
    for name in names:
        refuse_unknown("scenario", name, SCENARIOS)
    with tempfile.TemporaryDirectory() as folder:
        if not hasattr(ctypes.CDLL(None), "faults_arm"):  # start again with the shim
            settings = {
                "LD_PRELOAD": build_shim(folder),
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "CUDA_VISIBLE_DEVICES": "",
            }
            command = [sys.executable, *sys.argv]
            return subprocess.run(command, env={**os.environ, **settings}).returncode
        os.environ.pop("LD_PRELOAD")  # processes started by a command do not get it
        import_modules()
        points = lost = 0
        for name in names:
            scenario = SCENARIOS[name]
            if scenario.needs and not importlib.util.find_spec(scenario.needs):
                print(f"{name}: skipped, {scenario.needs} is not installed")
                continue
            sweep = Sweep(Runner(folder), scenario)
            sweep.run(args.every)
            counts = ", ".join(f"{sweep.points[fault]} {fault}" for fault in FAULTS)
            print(
                f"{name}: {len(sweep.calls)} calls; {counts}; lost {len(sweep.lost)}",
                flush=True,
            )
            points += sum(sweep.points.values())
            lost += len(sweep.lost)
    print(f"{points:,} fault points tried, lost {lost}")
    return 1 if lost else 0


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line."""
    parser = cli.make_parser("sweep.py", __doc__)
    parser.add_argument(
        "--scenarios",
        nargs="+",
        metavar="NAME",
        help=f"which ones: {'; '.join(SCENARIOS)} [all]",
    )
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="try each N-th call only [1]"
    )
    cli.main(parser, run, argv)


if __name__ == "__main__":
    main()
