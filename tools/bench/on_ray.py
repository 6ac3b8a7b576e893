"""Measure training and translation on a Ray cluster beside the same without, in turns.

    ray start --head
    python tools/bench/on_ray.py --data data/sample --logdir logs/sample --ray auto

Each command runs ROUNDS times, in turns, on one machine. Its start, up to the first
update or the first 2,000 lines, is measured apart from the rate of the rest. The table
shows medians.
"""

import argparse
import glob
import itertools
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from typing import List, Tuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHUNK = 2000  # lines that translate.py writes at once, and those of a shard


def start(
    command: List[str], stderr: int, path: str = os.devnull
) -> "subprocess.Popen[str]":
    """Start a Python program that reads a file."""
    with open(path, encoding="utf-8") as file:
        return subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=stderr,
            universal_newlines=True,
        )


def rate(times: List[float], amount: int, begun: float) -> Tuple[float, float]:
    """Return (seconds up to the first time, amounts per second from then on)."""
    return times[0] - begun, (len(times) - 1) * amount / (times[-1] - times[0])


def train(args: argparse.Namespace, ray: List[str], folder: str) -> Tuple[float, float]:
    """Train with two workers; return (seconds of the start, updates per second)."""
    command = ["-m", "transformer.launch", "--workers", "2", *ray, "--", "train.py"]
    command += ["--preset", "sample", "--data", args.data, "--logdir", folder]
    command += ["--max_steps", str(args.steps), "--log_every", "1"]
    begun = time.time()
    command += ["--eval_every", "1000000"]
    process = start(command, subprocess.STDOUT)
    lines = [(line, time.time()) for line in process.stdout or ()]
    times = [moment for line, moment in lines if re.match(r"\[0\] step \d+/", line)]
    if process.wait() or len(times) < args.steps:
        sys.exit("".join(line for line, _ in lines))
    return rate(times, 1, begun)


def translate(
    args: argparse.Namespace, ray: List[str], folder: str
) -> Tuple[float, float]:
    """Translate lines; return (seconds of the start, lines per second)."""
    source = os.path.join(folder, "source")
    with open(os.path.join(args.data, "train.de"), encoding="utf-8") as file:
        lines = itertools.islice(itertools.cycle(list(file)), CHUNK * args.chunks)
    with open(source, "w", encoding="utf-8") as file:
        file.writelines(lines)
    shards = os.path.join(folder, "shards")
    command = ["scripts/translate.py", "--logdir", args.logdir]
    if ray:
        command += [*ray, "--input", source, "--shards", shards]
        command += ["--shard_lines", str(CHUNK)]
    begun = time.time()
    process = start(command, subprocess.DEVNULL, source)
    moments = [time.time() for line in process.stdout or ()]
    if process.wait():
        sys.exit(f"{command} failed")
    if ray:
        moments = [os.stat(path).st_mtime for path in glob.glob(shards + "/*.txt")]
        return rate(sorted(moments), CHUNK, begun)
    return rate(moments[CHUNK - 1 :: CHUNK], CHUNK, begun)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", required=True, help="a data folder, with train.de")
    parser.add_argument("--logdir", required=True, help="that of a trained model")
    parser.add_argument("--ray", required=True, help="as for launch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300, help="updates of a round")
    parser.add_argument("--chunks", type=int, default=10, help="2,000 lines each")
    args = parser.parse_args()
    print("| what | start, s | on Ray, s | per second | on Ray | ratio |")
    print("|---|---|---|---|---|---|")
    for work, unit in ((train, "updates"), (translate, "lines")):
        rounds = []
        for _ in range(args.rounds):
            for ray in ([], ["--ray", args.ray]):
                with tempfile.TemporaryDirectory() as folder:
                    rounds.append(work(args, ray, os.path.abspath(folder)))
        (begin, alone), (ray_begin, on_ray) = (
            [statistics.median(column) for column in zip(*rounds[first::2])]
            for first in (0, 1)
        )
        ratio = statistics.median(
            b / a for (_, a), (_, b) in zip(rounds[::2], rounds[1::2])
        )
        print(
            f"| {work.__name__}, {unit} | {begin:.0f} | {ray_begin:.0f} | "
            f"{alone:.1f} | {on_ray:.1f} | {ratio:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
