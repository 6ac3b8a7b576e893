"""Measure the cost of preparing and planning a large corpus of synthetic text.

    python tools/bench/large_corpus.py --pairs 2000000 --workers 2

The text consists of invented words, whose frequencies follow Zipf's law (1 / (r + 2.7)
for the word of rank r); a sentence has 25 words on average, as in WMT 2014. Nothing
could be learned from it, but it has as many lines, words and word forms as a large
corpus. Time is reported as wall time and as CPU time, which other programs on the
machine affect less; memory is the peak of the sum over all processes.
"""

import argparse
import functools
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from typing import Dict, Iterator, List, Optional, Tuple

import numpy as np

from transformer.commands import cli

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORDS = 400000  # word forms in a language
MEAN_WORDS, MAX_WORDS = 25, 120  # words in a sentence
CHUNK_SIZE = 20000  # pairs written at a time
SPLITS = {"dev": 1000}  # pairs; train has as many as requested
SYLLABLES = {
    "de": "sch ein ge ver un lich keit ung auf be den er ter mit nach vor ber tung "
    "kei wer stand halt fahr ü ö ä ß zeit haus kraft werk",
    "en": "the ing tion er ly ness con pre ment able ex in un re ship hood ous ty al "
    "ence way side work man stand light ea ou igh st",
}
PLAN = """
import resource, sys, time
import numpy as np
from transformer.commands import cli
cli.start_tensorflow()
from transformer.text.batches import BatchPlan
pairs, tokens = map(int, sys.argv[1:])
rng = np.random.RandomState(1)
source = np.minimum(rng.geometric(0.04, pairs) + 3, 250).astype(np.int32)
target = np.minimum(source + rng.randint(0, 7, pairs), 250).astype(np.int32)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before, start = peak(), time.perf_counter()
plan = BatchPlan(source, target, tokens, seed=1)
plan.batch(0)
first, start = time.perf_counter() - start, time.perf_counter()
plan.batch(len(plan))
epoch = time.perf_counter() - start
print(f"{first:.1f} s, each later epoch {epoch:.1f} s, {peak() - before:,.0f} MiB")
"""


@functools.lru_cache(maxsize=None)
def words(language: str) -> np.ndarray:
    """Return the invented words of a language, the most frequent first, [WORDS].

    More frequent words have fewer syllables.
    """
    syllables, rng = SYLLABLES[language].split(), np.random.RandomState(len(language))
    forms, max_syllables = {}, 7
    while len(forms) < WORDS:
        indices = rng.randint(0, len(syllables), [WORDS, max_syllables]).tolist()
        counts = rng.randint(1, 3 + int(np.log(len(forms) + 1) / 3), WORDS).tolist()
        for count, row in zip(counts, indices):
            forms["".join(syllables[i] for i in row[:count])] = None
    return np.array(list(forms)[:WORDS], object)


def sentences(language: str, pairs: int, seed: int) -> Iterator[str]:
    """Yield the text of `pairs` sentences, some thousands at a time.

    Sentence n has about the same number of words in both languages.
    """
    weights = 1 / (np.arange(WORDS) + 2.7)
    shares, forms = np.cumsum(weights / weights.sum()), words(language)
    for start in range(0, pairs, CHUNK_SIZE):
        count = min(CHUNK_SIZE, pairs - start)
        rng = np.random.RandomState([seed, start // CHUNK_SIZE])
        lengths = rng.gamma(2, MEAN_WORDS / 2, count)
        rng = np.random.RandomState([seed, start // CHUNK_SIZE, len(forms[0])])
        lengths = np.clip(lengths * rng.uniform(0.8, 1.2, count), 1, MAX_WORDS)
        ends = np.cumsum(lengths.astype(int))
        ranks = np.searchsorted(shares, rng.uniform(0, shares[-1], ends[-1]))
        text = forms[ranks].tolist()
        yield "".join(
            " ".join(text[begin:end]).capitalize() + ".\n"
            for begin, end in zip([0, *ends[:-1]], ends)
        )


def write_text(folder: str, pairs: int) -> int:
    """Write {train,dev}.{de,en} to a folder; return the size of train in bytes."""
    for split, count in {"train": pairs, **SPLITS}.items():
        for language in SYLLABLES:
            path = os.path.join(folder, f"{split}.{language}")
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(sentences(language, count, len(split)))
    return sum(
        os.path.getsize(os.path.join(folder, f"train.{language}"))
        for language in SYLLABLES
    )


class MemoryMonitor(threading.Thread):
    """Measures the memory, in MiB, of a process and of all its descendants."""

    def __init__(self, pid: int):
        super().__init__(daemon=True)
        self._pid, self._is_over, self.peak = pid, threading.Event(), 0.0
        self.start()

    def run(self) -> None:
        """Measure the memory at intervals."""
        while not self._is_over.wait(0.2):
            pages = sum(_count_pages(pid) for pid in self._list_processes())
            self.peak = max(self.peak, pages * resource.getpagesize() / 2**20)

    def end(self) -> float:
        """Return the peak of the memory."""
        self._is_over.set()
        self.join()
        return self.peak

    def _list_processes(self) -> List[int]:
        parents = _read_parents()
        pids = [self._pid]
        for pid in pids:  # it grows during the loop
            pids += [child for child, parent in parents.items() if parent == pid]
        return pids


def _read_parents() -> Dict[int, int]:
    """Return the parent of each process on the machine."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
    return parents


def _count_pages(pid: int) -> int:
    """Return how many pages of memory a process has; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/statm", encoding="utf-8") as file:
            return int(file.read().split()[1])
    except OSError:
        return 0


def measure_command(command: List[str]) -> Tuple[float, float, float, str]:
    """Run a command; return (seconds, CPU seconds, MiB, standard output)."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        universal_newlines=True,
        env=dict(os.environ, PYTHONPATH=ROOT),
    ) as process:
        monitor = MemoryMonitor(process.pid)
        output = process.stdout.read()
    if process.returncode:
        raise ValueError(f"{' '.join(command)}: status {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, cpu, monitor.end(), output


def run(args: argparse.Namespace) -> None:
    """Write the text, prepare it, plan its batches; print the cost of each."""
    with tempfile.TemporaryDirectory(dir=args.out) as folder:
        start = time.perf_counter()
        size = write_text(folder, args.pairs) / 1e6
        print(
            f"text: {args.pairs:,} pairs, {size:,.0f} MB, "
            f"{time.perf_counter() - start:.0f} s",
            flush=True,
        )
        flags = ["--workers", str(args.workers), "--vocab_size", str(args.vocab_size)]
        script = os.path.join(ROOT, "scripts", "prepare.py")
        seconds, cpu, memory, output = measure_command(
            [script, "--out", folder, *flags, *args.more.split()]
        )
        print(output, end="")
        print(
            f"prepare.py {' '.join(flags)} {args.more}: {seconds:.0f} s, "
            f"{cpu:.0f} s of processors, at most {memory:,.0f} MiB",
            flush=True,
        )
    pairs, tokens = str(args.plan_pairs or args.pairs), str(args.batch_tokens)
    _, _, _, output = measure_command(["-c", PLAN, pairs, tokens])
    print(f"plan of {pairs} pairs, {tokens} tokens a batch: {output}", end="")


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line."""
    parser = cli.make_parser("large_corpus.py", __doc__)
    cli.add_number(parser, "pairs", 2000000, "pairs of train")
    cli.add_number(parser, "workers", 2, "of prepare.py")
    cli.add_number(parser, "vocab_size", 37000, "of prepare.py")
    cli.add_number(parser, "batch_tokens", 25000, "of the plan of batches")
    cli.add_number(
        parser, "plan_pairs", 0, "pairs of the plan of batches; 0: as many as of train"
    )
    parser.add_argument("--more", default="", help="more flags of prepare.py")
    parser.add_argument("--out", metavar="DIR", help="where the text is written to")
    cli.main(parser, run, argv)


if __name__ == "__main__":
    main()
