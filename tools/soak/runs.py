"""Training runs as processes of their own, and the moments at which they are ended."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from typing import Callable, List

import tensorflow.compat.v1 as tf
from odd_lines import ROOT

from transformer.runtime import checkpoints
from transformer.runtime.reporting import read_dev_scores

SAVE_EVERY, EVAL_EVERY, MAX_STEPS = 5, 20, 300
# A small model, with all that makes continuing hard: dropout, gradient accumulation,
# clipping.
SETTINGS = {
    "num_blocks": 1,
    "d_model": 16,
    "d_ff": 32,
    "num_heads": 2,
    "batch_tokens": 300,
    "dropout_rate": 0.2,
    "accumulate": 2,
    "clip_norm": 0.5,
    "search": "greedy",
    "max_extra_length": 3,
    "save_every": SAVE_EVERY,
    "eval_every": EVAL_EVERY,
    "max_steps": MAX_STEPS,
    "log_every": 1,
    "keep_checkpoints": 3,
    # On TensorFlow 1.15 sums depend on which thread comes first.
    "deterministic": str(tf.__version__.startswith("1.")).lower(),
}


class Child:
    """`train.py` as a process of its own.

    Args:
      data: a prepared folder.
      logdir: the log directory.
      log: a file for its output.
    """

    def __init__(self, data: str, logdir: str, log: str):
        self.logdir, self._log = logdir, log
        flags = {"data": data, "logdir": logdir, **SETTINGS}
        words = [str(word) for name in flags for word in (f"--{name}", flags[name])]
        with open(log, "wb") as stream:
            self._process = subprocess.Popen(
                [sys.executable, os.path.join(ROOT, "train.py"), *words],
                stdout=stream,
                stderr=stream,
            )

    def said(self) -> str:
        """Return its output so far."""
        with open(self._log, encoding="utf-8") as stream:
            return stream.read()

    def runs(self) -> bool:
        """Return whether it has not ended."""
        return self._process.poll() is None

    def send(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.runs():
            self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for its end; return the exit status, -n after signal n."""
        return self._process.wait()

    def stop_when(self, is_it_now: Callable[[str], bool]) -> bool:
        """Halt it, by SIGSTOP, at a moment when `is_it_now(logdir)` is true.

        Returns:
          Whether there was such a moment before it ended.
        """
        while self.runs():
            if is_it_now(self.logdir):
                self.send(signal.SIGSTOP)
                if is_it_now(self.logdir):  # still
                    return True
                self.send(signal.SIGCONT)
            time.sleep(0.0005)
        return False


def run_command(command: List[str]) -> None:
    """Run a command of the checkout; raise ValueError, with its output, if it fails.

    Args:
      command: the script, relative to the root of the checkout, and its arguments.
    """
    done = subprocess.run(
        [sys.executable, os.path.join(ROOT, command[0]), *command[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
    )
    if done.returncode:
        raise ValueError(f"{' '.join(command)}: found {done.stdout.strip()}")


def make_corpus(folder: str) -> None:
    """Write and prepare a small corpus: the shortest sentences of data/sample."""
    os.makedirs(folder)
    for split, size in (("train", 1000), ("dev", 20), ("test", 20)):
        sides = []
        for language in ("de", "en"):
            path = os.path.join(ROOT, "data", "sample", f"{split}.{language}")
            with open(path, encoding="utf-8") as file:
                sides.append(file.read().split("\n")[:-1])
        pairs = sorted(zip(*sides), key=lambda pair: len(pair[0] + pair[1]))[:size]
        for language, lines in zip(("de", "en"), zip(*pairs)):
            path = os.path.join(folder, f"{split}.{language}")
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in lines)
    run_command(["scripts/prepare.py", "--out", folder, "--vocab_size", "200"])


def count_steps(output: str) -> int:
    """Return how many steps a run has made, by its output."""
    return len(re.findall(r"^step \d+/", output, re.MULTILINE))


def is_saving(logdir: str) -> bool:
    """Return whether a checkpoint is being written."""
    return os.path.exists(os.path.join(logdir, checkpoints.ASIDE))


def is_evaluating(logdir: str) -> bool:
    """Return whether the newest checkpoint is to be scored, and has no score yet."""
    newest = max(checkpoints.steps(logdir), default=1)
    return (
        newest % EVAL_EVERY == 0
        and not is_saving(logdir)
        and newest not in [row["step"] for row in read_dev_scores(logdir)]
    )


def at_any_time(child: Child, draw: random.Random) -> None:
    """Wait for a random time after the first step, or sometimes before it."""
    impatient = draw.random() < 0.1
    while child.runs() and not impatient and not count_steps(child.said()):
        time.sleep(0.01)
    time.sleep(draw.uniform(0, 3 if impatient else 0.6))


def at(is_it_now: Callable[[str], bool]) -> Callable[[Child, random.Random], None]:
    """Return a function that waits for a moment; see `Child.stop_when`."""

    def wait(child, draw):
        if draw.random() < 0.5 and child.stop_when(is_it_now):  # not the first one
            child.send(signal.SIGCONT)
            while child.runs() and is_it_now(child.logdir):
                time.sleep(0.0005)
        child.stop_when(is_it_now)

    return wait


# The extension point for ways to end a run: name → (function that waits, signal).
ENDS = {
    "SIGKILL at any time": (at_any_time, signal.SIGKILL),
    "SIGKILL while a checkpoint is written": (at(is_saving), signal.SIGKILL),
    "SIGKILL during a dev evaluation": (at(is_evaluating), signal.SIGKILL),
    "SIGTERM": (at_any_time, signal.SIGTERM),
    "Ctrl-C": (at_any_time, signal.SIGINT),
}
