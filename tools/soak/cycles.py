"""End training runs again and again, and count what differs in the end."""

import collections
import os
import random
import sys
from typing import Optional

from comparison import differences
from damage import DAMAGES, damage_newest
from runs import ENDS, MAX_STEPS, Child, count_steps, make_corpus


class Soak:
    """Training runs that are ended and continued, and the counts of faults.

    Args:
      folder: an empty folder.
      seed: chooses the faults.
    """

    def __init__(self, folder: str, seed: int):
        self.data, self.wanted, self._log = (
            os.path.join(folder, name) for name in ("data", "wanted", "log")
        )
        self._folder, self._draw = folder, random.Random(seed)
        self.faults, self.mismatches = collections.Counter(), []
        self.cycles = self.trainings = self.steps = 0
        self._damaged = None  # a file that the output of the next run must name

    def prepare(self) -> None:
        """Make the corpus, and the training run without interruption."""
        make_corpus(self.data)
        child = Child(self.data, self.wanted, self._log)
        if child.wait():
            raise ValueError(f"the uninterrupted training run failed: {child.said()}")

    def run(self, cycles: int) -> None:
        """End runs so many times, in all ways in turn, and compare their results."""
        ends = [sorted(ENDS)[i % len(ENDS)] for i in range(cycles)]
        self._draw.shuffle(ends)
        while ends:
            self.trainings += 1
            logdir = os.path.join(self._folder, f"training-{self.trainings}")
            while self._run_once(logdir, ends[-1] if ends else None):
                ends.pop()
                self.cycles += 1
            for difference in differences(logdir, self.wanted):
                self._mismatch(logdir, difference)
            print(f"{self.cycles} of {cycles} cycles", file=sys.stderr)

    def _run_once(self, logdir: str, end: Optional[str]) -> bool:
        """Run train.py until `end`, or to its end; return whether it was ended."""
        child = Child(self.data, logdir, self._log)
        if end:
            wait, number = ENDS[end]
            wait(child, self._draw)
            child.send(number)
        status, said = child.wait(), child.said()
        self._check_output(logdir, said)
        if status == 0:
            return False
        if not end or status not in (-number, 128 + number):
            raise ValueError(f"{logdir}: {end}: exit status {status}: {said}")
        self.faults[end] += 1
        if not self._damaged and self._draw.random() < 0.4:
            kind = self._draw.choice(sorted(DAMAGES))
            self._damaged = damage_newest(logdir, kind, self._draw)
            if self._damaged:
                self.faults[f"file of the newest checkpoint {kind}"] += 1
        return True

    def _check_output(self, logdir: str, said: str) -> None:
        """Count the steps of a run, and note if it did not name the damaged file."""
        steps = count_steps(said)
        self.steps += steps
        if steps:
            if self._damaged and self._damaged not in said:
                self._mismatch(logdir, f"the output does not name {self._damaged}")
            self._damaged = None

    def _mismatch(self, logdir: str, text: str) -> None:
        self.mismatches.append(f"{os.path.basename(logdir)}: {text}")

    def report(self) -> None:
        """Print the counts."""
        print(
            f"cycles: {self.cycles}, in {self.trainings} training runs of {MAX_STEPS} "
            f"steps; steps trained: {self.steps:,}"
        )
        print(f"faults injected: {sum(self.faults.values())}")
        for kind, count in sorted(self.faults.items()):
            print(f"  {kind}: {count}")
        print(f"mismatches: {len(self.mismatches)}")
        for text in self.mismatches[:20]:
            print(f"  {text}")
