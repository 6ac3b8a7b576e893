"""Kills trainings, damages their checkpoints, and looks whether anything is lost.

    python tools/soak/soak.py --cycles 200 --lines 100000

A cycle starts a tiny training, or goes on with it, until something ends it: SIGKILL at
any time, while a checkpoint is written or during a dev evaluation, SIGTERM or Ctrl-C.
Sometimes the newest checkpoint is damaged then. What comes out at last must be equal,
to the last bit, to what comes out of a training to which nothing happened.
"""

import argparse
import collections
import glob
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import prepare
import tensorflow.compat.v1 as tf

import hparams
from transformer.runtime import checkpoints
from transformer.runtime.reporting import DEV_SCORES, read_dev_scores

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SAVE_EVERY, EVAL_EVERY, MAX_STEPS = 5, 20, 300
# Whatever makes going on hard: dropout, several batches an update, clipping.
FLAGS = [
    "--num_blocks",
    "1",
    "--d_model",
    "16",
    "--d_ff",
    "32",
    "--num_heads",
    "2",
    "--batch_tokens",
    "300",
    "--dropout_rate",
    "0.2",
    "--accumulate",
    "2",
    "--clip_norm",
    "0.5",
    "--search",
    "greedy",
    "--max_extra_length",
    "3",
    "--save_every",
    str(SAVE_EVERY),
    "--eval_every",
    str(EVAL_EVERY),
    "--max_steps",
    str(MAX_STEPS),
    "--log_every",
    "1",
    "--keep_checkpoints",
    "3",
]
if tf.__version__.startswith("1."):
    # Its sums depend on which thread comes first.
    FLAGS.append("--deterministic")


class Child:
    """`train.py` in a process of its own.

    Args:
      data: a prepared folder.
      logdir: the log directory.
      log: a file to which goes what it says.
    """

    def __init__(self, data, logdir, log, flags=FLAGS):
        self.logdir, self._log = logdir, log
        with open(log, "wb") as stream:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    os.path.join(ROOT, "train.py"),
                    "--data",
                    data,
                    "--logdir",
                    logdir,
                    *flags,
                ],
                stdout=stream,
                stderr=stream,
                cwd=ROOT,
            )

    def said(self):
        """What it has said so far."""
        with open(self._log, encoding="utf-8") as stream:
            return stream.read()

    def runs(self):
        return self._process.poll() is None

    def send(self, number):
        if self.runs():
            self._process.send_signal(number)

    def wait(self):
        """Waits for its end; returns its exit status, -n after signal n."""
        return self._process.wait()

    def stop_when(self, is_it_now):
        """Halts it, by SIGSTOP, at a moment at which `is_it_now(logdir)` holds.

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


def is_training(log):
    """Whether the first step is made."""
    return re.search(r"^step \d+/", log, re.MULTILINE) is not None


def is_saving(logdir):
    """Whether a checkpoint is being written."""
    return os.path.exists(os.path.join(logdir, checkpoints.ASIDE))


def is_evaluating(logdir):
    """Whether the newest checkpoint is one that is scored, and has no score yet."""
    newest = max(checkpoints.steps(logdir), default=1)
    return (
        newest % EVAL_EVERY == 0
        and not is_saving(logdir)
        and newest not in [row["step"] for row in read_dev_scores(logdir)]
    )


def at_any_time(child, draw):
    """Waits until it trains, or not even that, and then some random time."""
    impatient = draw.random() < 0.1
    while child.runs() and not impatient and not is_training(child.said()):
        time.sleep(0.01)
    time.sleep(draw.uniform(0, 3 if impatient else 0.6))


def at(is_it_now):
    """A function that waits for a moment; see `Child.stop_when`."""

    def wait(child, draw):
        if draw.random() < 0.5 and child.stop_when(is_it_now):  # not the first one
            child.send(signal.SIGCONT)
            while child.runs() and is_it_now(child.logdir):
                time.sleep(0.0005)
        child.stop_when(is_it_now)

    return wait


# What ends a training: when, and the signal.
ENDS = {
    "SIGKILL at any time": (at_any_time, signal.SIGKILL),
    "SIGKILL while a checkpoint is written": (at(is_saving), signal.SIGKILL),
    "SIGKILL during a dev evaluation": (at(is_evaluating), signal.SIGKILL),
    "SIGTERM": (at_any_time, signal.SIGTERM),
    "Ctrl-C": (at_any_time, signal.SIGINT),
}


def truncate(path, draw):
    os.truncate(path, draw.randrange(os.path.getsize(path) - 1))


def flip_a_bit(path, draw):
    with open(path, "r+b") as file:
        place = draw.randrange(os.path.getsize(path))
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ (1 << draw.randrange(8))]))


def remove(path, draw):
    os.remove(path)


DAMAGES = {"truncated": truncate, "a bit flipped": flip_a_bit, "removed": remove}


def damage(logdir, kind, draw):
    """Damages a file of the newest whole checkpoint, unless it is the only one.

    Returns:
      The name of the file; None where there is none.
    """
    whole = [
        step
        for step in checkpoints.steps(logdir)
        if not checkpoints.fault_of(checkpoints.prefix(logdir, step))
    ]
    if len(whole) < 2:
        return None
    path = draw.choice(sorted(glob.glob(checkpoints.prefix(logdir, whole[-1]) + ".*")))
    DAMAGES[kind](path, draw)
    return os.path.basename(path)


def losses(logdir):
    """Every loss that was ever written: {step: the set of its values}."""
    found = collections.defaultdict(set)
    for path in glob.glob(os.path.join(logdir, "events.out.tfevents.*")):
        try:
            for event in tf.train.summary_iterator(path):
                for value in event.summary.value:
                    if value.tag == "loss":
                        found[event.step].add(value.simple_value)
        except tf.errors.DataLossError:
            continue  # the record at which it was killed
    return found


def differences(logdir, wanted):
    """The names of what is not as in the log directory `wanted`, to the last bit."""
    names = [DEV_SCORES] + [
        os.path.basename(path)
        for path in glob.glob(os.path.join(wanted, "best.*"))
        + glob.glob(checkpoints.prefix(wanted, MAX_STEPS) + ".*")
    ]
    different = [
        name for name in names if content(logdir, name) != content(wanted, name)
    ]
    found, told = losses(logdir), losses(wanted)
    return different + [
        f"loss of step {step}"
        for step in sorted({*found, *told})
        if found[step] != told[step]
    ]


def content(folder, name):
    """The bytes of a file, None where there is none."""
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        return file.read()


def make_corpus(folder):
    """A small prepared corpus: the shortest sentences of data/sample."""
    for split, size in (("train", 1000), ("dev", 20), ("test", 20)):
        sides = []
        for language in ("de", "en"):
            path = os.path.join(ROOT, "data", "sample", f"{split}.{language}")
            with open(path, encoding="utf-8") as file:
                sides.append(file.read().split("\n")[:-1])
        pairs = sorted(zip(*sides), key=lambda pair: len(pair[0] + pair[1]))[:size]
        for language, lines in zip(("de", "en"), zip(*pairs)):
            with open(
                os.path.join(folder, f"{split}.{language}"), "w", encoding="utf-8"
            ) as file:
                file.writelines(line + "\n" for line in lines)
    prepare.main(["--out", folder, "--vocab-size", "200"])


class Soak:
    """Trainings that are ended again and again, and what is counted meanwhile."""

    def __init__(self, folder, seed):
        self.data, self.wanted, self._log = (
            os.path.join(folder, name) for name in ("data", "wanted", "log")
        )
        self._folder, self._draw = folder, random.Random(seed)
        self.faults, self.mismatches = collections.Counter(), []
        self.cycles = self.trainings = self.steps = 0
        self._damaged = None  # a file that the next run must name

    def prepare(self):
        """The corpus, and the training to which nothing happens."""
        os.makedirs(self.data)
        make_corpus(self.data)
        child = Child(self.data, self.wanted, self._log)
        if child.wait():
            raise ValueError(f"a training to which nothing happened: {child.said()}")

    def run(self, cycles):
        """Ends trainings so many times, in all ways in turn, and compares each."""
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

    def _run_once(self, logdir, end):
        """Runs train.py until `end`, or to its end; returns whether it was ended."""
        child = Child(self.data, logdir, self._log)
        if end:
            moment, number = ENDS[end]
            moment(child, self._draw)
            child.send(number)
        status, said = child.wait(), child.said()
        self.steps += len(re.findall(r"^step \d+/", said, re.MULTILINE))
        if is_training(said):
            if self._damaged and self._damaged not in said:
                self._mismatch(logdir, f"no word about {self._damaged}")
            self._damaged = None
        if status == 0:
            return False
        if not end or status not in (-number, 128 + number):
            raise ValueError(f"{logdir}: {end}: exit status {status}: {said}")
        self.faults[end] += 1
        if not self._damaged and self._draw.random() < 0.4:
            kind = self._draw.choice(sorted(DAMAGES))
            self._damaged = damage(logdir, kind, self._draw)
            if self._damaged:
                self.faults[f"file of the newest checkpoint {kind}"] += 1
        return True

    def _mismatch(self, logdir, text):
        self.mismatches.append(f"{os.path.basename(logdir)}: {text}")

    def report(self):
        print(
            f"cycles: {self.cycles}, in {self.trainings} trainings of {MAX_STEPS} "
            f"steps; steps trained: {self.steps:,}"
        )
        print(f"faults injected: {sum(self.faults.values())}")
        for kind, count in sorted(self.faults.items()):
            print(f"  {kind}: {count}")
        print(f"mismatches: {len(self.mismatches)}")
        for text in self.mismatches[:20]:
            print(f"  {text}")


def translate_odd_lines(logdir, count, seed):
    """Translates odd lines; returns how many were lost (negative: came in addition)."""
    from odd_lines import odd_lines  # only here: `--lines 0` needs none

    lines = b"".join(line + b"\n" for line in odd_lines(count, seed))
    found = subprocess.run(
        [
            sys.executable,
            os.path.join(ROOT, "scripts", "translate.py"),
            "--logdir",
            logdir,
        ],
        input=lines,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        check=True,
    )
    came = found.stdout.count(b"\n")
    print(f"lines: {count:,} in, {came:,} out, lost: {count - came}")
    return count - came


def main(argv=None):
    tf.logging.set_verbosity(tf.logging.ERROR)
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], allow_abbrev=False
    )
    parser.add_argument(
        "--cycles",
        type=int,
        default=200,
        metavar="INT",
        help="times that a training is ended [200]",
    )
    parser.add_argument(
        "--lines",
        type=int,
        default=100000,
        metavar="INT",
        help="odd lines to translate [100000]",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="INT",
        help="decides which faults, and which lines [1]",
    )
    args = hparams.parse_flags(parser, sys.argv[1:] if argv is None else argv)
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(folder, args.seed)
        try:
            soak.prepare()
            soak.run(args.cycles)
            soak.report()
            lost = (
                translate_odd_lines(soak.wanted, args.lines, args.seed)
                if (args.lines)
                else 0
            )
        except (ValueError, OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"soak.py: {error}")
    sys.exit(1 if soak.mismatches or lost else 0)


if __name__ == "__main__":
    main()
