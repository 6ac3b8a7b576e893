"""Fail, one after the other, all calls by which the commands write files.

    python tools/faults/sweep.py
    python tools/faults/sweep.py --scenarios prepare train --every 10

A command is run again and again: its first call that opens, writes, syncs, renames,
removes or closes a file fails, then the second, until a run has fewer calls. So it is
with a disk that is full from that call on, and with SIGKILL before the call and after
it. Each time the folder must be the old one or the new one, the command must say in one
line what failed, and the same command, once more, must end as if nothing had happened.
"""

import argparse
import collections
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, NamedTuple, Optional

from scenarios import SCENARIOS, Scenario, left_in, remainders, write_texts

from transformer.runtime import cli

HERE = os.path.dirname(os.path.abspath(__file__))
KILLED = -9
# Faults, in the order of the shim, and which calls they are tried at; () for all.
COUNT = 0
MODES = {
    "fails once (EIO)": (1, ()),
    "disk full from there on": (2, ("open", "write", "fsync", "mkdir", "link")),
    "SIGKILL before it": (3, ()),
    "SIGKILL after it": (4, ()),
}


class Ended(NamedTuple):
    """How a run ended: its exit status, its output, its calls as (what, path)."""

    status: int
    said: str
    calls: List[List[str]]


def compiler() -> Optional[str]:
    """Return the C compiler, None where there is none."""
    return shutil.which("gcc") or shutil.which("cc")


def build_shim(folder: str) -> str:
    """Compile the shim; ValueError where there is no compiler."""
    program = compiler()
    if not program or not sys.platform.startswith("linux"):
        raise ValueError(
            "found no C compiler (gcc or cc), or no Linux, wanted both: install gcc"
        )
    path = os.path.join(folder, "shim.so")
    source = os.path.join(HERE, "shim.c")
    options = ["-shared", "-fPIC", "-O1", "-o", path, source, "-ldl"]
    subprocess.run([program, *options], check=True)
    return path


class Server:
    """A process that has imported everything, and forks for each run.

    Args:
      folder: for its files; the world is the folder `world` in it.
    """

    def __init__(self, folder: str):
        self.world = os.path.join(os.path.realpath(folder), "world")
        self._said, self._trace = (
            os.path.join(folder, name) for name in ("said", "trace")
        )
        self._process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            universal_newlines=True,
            env=dict(
                os.environ,
                LD_PRELOAD=build_shim(folder),
                TF_CPP_MIN_LOG_LEVEL="3",
                TF_ENABLE_ONEDNN_OPTS="0",
                CUDA_VISIBLE_DEVICES="",
            ),
        )
        self._answer()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _answer(self) -> str:
        line = self._process.stdout.readline()
        if not line:
            raise ValueError("server.py: found it ended, wanted an answer")
        return line

    def run(self, command: str, argv: str, at: int = 0, mode: int = COUNT) -> Ended:
        """Run a command in the world, with a fault at the call number `at`."""
        request = {
            "command": command,
            "argv": argv.split(),
            "root": self.world,
            "at": at,
            "mode": mode,
            "said": self._said,
            "trace": self._trace,
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        status = int(self._answer())
        with open(self._said, encoding="utf-8", errors="replace") as file:
            said = file.read()
        with open(self._trace, encoding="utf-8") as file:
            calls = [line.rstrip("\n").split(" ", 1) for line in file]
        return Ended(status, said, calls)

    def run_well(self, command: str, argv: str) -> Ended:
        """Run a command; ValueError if it fails."""
        ended = self.run(command, argv)
        if ended.status:
            raise ValueError(f"{command} {argv}: {ended.said.strip()}")
        return ended


def begin(server: Server, scenario: Scenario) -> None:
    """Make the world of a scenario."""
    shutil.rmtree(server.world, ignore_errors=True)
    write_texts(server.world)
    for command, argv in scenario.before:
        server.run_well(command, argv)


class Sweep:
    """The faults of one scenario, and what they did.

    Args:
      server: runs commands.
      scenario: what to run.
      folder: for a copy of the world.
    """

    def __init__(self, server: Server, scenario: Scenario, folder: str):
        self.server, self.scenario = server, scenario
        self.world, self._begin = server.world, os.path.join(folder, "begin")
        self.target = os.path.join(self.world, scenario.target)
        self.points, self.problems = collections.Counter(), []
        self._tried: Dict[Any, List[str]] = {}  # state → what was wrong after it
        begin(server, scenario)
        shutil.rmtree(self._begin, ignore_errors=True)
        shutil.copytree(self.world, self._begin)
        self.old = scenario.read(self.target)
        self.calls = server.run_well(scenario.command, scenario.argv).calls
        self.new = scenario.read(self.target)

    def run(self, every: int = 1) -> None:
        """Try all faults, or each `every`-th, until a run has no such call."""
        for name, (mode, kinds) in MODES.items():
            at, is_reached = 1, True
            while is_reached:
                is_last = at > len(self.calls)
                if is_last or not kinds or self.calls[at - 1][0] in kinds:
                    is_reached = self.try_fault(name, mode, at)
                at += every

    def try_fault(self, name: str, mode: int, at: int) -> bool:
        """Run the command with a fault, check, run it again; return False if it had no
        such call."""
        shutil.rmtree(self.world)
        shutil.copytree(self._begin, self.world)
        ended = self.server.run(self.scenario.command, self.scenario.argv, at, mode)
        if len(ended.calls) < at:
            return False
        self.points[name] += 1
        what, path = ended.calls[at - 1]
        where = f"{name}: call {at}, {what} {os.path.relpath(path, self.world)}"
        state = self.scenario.read(self.target)
        wrong = self.wrong_status(ended, state, "SIGKILL" in name)
        wrong += self.wrong_state(state, "SIGKILL" in name)
        wrong += self.wrong_afterwards(state)
        self.problems += [f"{where}: {each}" for each in wrong]
        print(*(f"  {where}: {each}\n" for each in wrong), sep="", end="", flush=True)
        return True

    def wrong_status(self, ended: Ended, state, is_kill: bool) -> List[str]:
        """Return what is wrong with how the command ended, and what it said."""
        last = ended.said.strip().split("\n")[-1]
        if is_kill:
            is_right = ended.status == KILLED
        elif ended.status == 0:
            is_right = state == self.new
        else:
            is_right = (
                ended.status == 2
                and "Traceback" not in ended.said
                and last.startswith(self.scenario.command + ".py: ")
                and any(each in last for each in (self.world, self.scenario.target))
            )
        return [] if is_right else [f"status {ended.status}, {ended.said[-400:]!r}"]

    def wrong_state(self, state, is_kill: bool) -> List[str]:
        """Return what is wrong with the folder that the command writes."""
        scenario = self.scenario
        if state in (self.old, self.new):
            return []
        if scenario.may_be_between == "always" or (
            is_kill and scenario.may_be_between == "killed"
        ):
            damage = scenario.damage(self.target)
            return [damage] if damage else []
        return [f"neither old nor new, but {', '.join(self.differences(state))}"]

    def differences(self, state) -> List[str]:
        """Return in words how a state differs from the new one."""
        names = sorted({*state, *self.new})
        return [
            f"{'no ' * (name not in state)}{'another ' * (name in self.new)}{name}"
            for name in names
            if state.get(name, 0) != self.new.get(name, 0)
        ]

    def wrong_afterwards(self, state) -> List[str]:
        """Return what is wrong after the same command, without a fault.

        It is run once for each state that the faults leave.
        """
        left = {
            re.sub(r"(unfinished-|tempstate)\w+", r"\1", path): content
            for path, content in left_in(self.world).items()
        }
        key = repr(sorted(state.items())), repr(sorted(left.items()))
        if key not in self._tried:
            self._tried[key] = self._run_again(state)
        return self._tried[key]

    def _run_again(self, before) -> List[str]:
        again = self.server.run(self.scenario.command, self.scenario.argv)
        is_done = before == self.new and "wanted a new folder" in again.said
        wrong = []
        if again.status and not is_done:
            wrong.append(f"again: status {again.status}, {again.said[-400:]!r}")
        after = self.scenario.read(self.target)
        if after != self.new:
            wrong.append(f"again: {', '.join(self.differences(after))}")
        left = remainders(self.world)
        return wrong + ([f"again: {', '.join(left)} left"] if left else [])

    def report(self, name: str) -> str:
        """Return the counts on a line."""
        counts = ", ".join(f"{self.points[mode]} {mode}" for mode in MODES)
        return (
            f"{name}: {len(self.calls)} calls; {sum(self.points.values())} fault "
            f"points ({counts}), {len(self._tried)} different states, lost "
            f"{len(self.problems)}"
        )


def run(args: argparse.Namespace) -> int:
    """Try the faults of the scenarios; return the exit status, 1 for a loss."""
    cli.start_tensorflow(args.verbose)
    total = lost = 0
    with tempfile.TemporaryDirectory() as folder, Server(folder) as server:
        for name in args.scenarios or SCENARIOS:
            cli.refuse_unknown("scenario", name, SCENARIOS)
            scenario = SCENARIOS[name]
            if scenario.needs and not importlib.util.find_spec(scenario.needs):
                print(f"{name}: skipped, found no {scenario.needs}")
                continue
            sweep = Sweep(server, scenario, folder)
            sweep.run(args.every)
            print(sweep.report(name), flush=True)
            total, lost = total + sum(sweep.points.values()), lost + len(sweep.problems)
    print(f"fault points tried: {total:,}, lost: {lost}")
    return 1 if lost else 0


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line."""
    parser = cli.make_parser("sweep.py", __doc__)
    parser.add_argument(
        "--scenarios",
        nargs="+",
        metavar="NAME",
        help=f"which: {'; '.join(SCENARIOS)} [all]",
    )
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="try each N-th call only [1]"
    )
    cli.main(parser, run, argv)


if __name__ == "__main__":
    main()
