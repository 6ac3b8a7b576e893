"""The measurements: each function asks the systems in turn, and adds rows."""

import contextlib
import os
import subprocess
import sys
import time
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import folders
import report
import work
from worker import ROOT, Worker, open_worker

from transformer.evaluation import score
from transformer.text.vocabulary import load_vocabularies


class Contestant(NamedTuple):
    """A system at one precision, and its worker."""

    system: str
    precision: str
    module: str
    set_up: Callable  # (bench, Contestant) → (its interpreter, more for its spec)


Workers = Dict[Contestant, Worker]
Pieces = Dict[Contestant, List[int]]  # of each translated line


class Plan(NamedTuple):
    """Which systems are measured, and how much of each."""

    sizes: list  # sizes to train, keys of work.SIZES
    trainers: list  # Contestants
    decoders: list  # Contestants
    rounds: int
    steps: dict  # size → updates in a round
    every: int  # each n-th line is decoded in batches of 64 ...
    every_single: int  # ... and each n-th alone
    checked: int  # lines on which CTranslate2 is compared with us
    pairs: list  # numbers of training pairs, to measure the cost of larger corpora
    several: str  # the size to train in several processes; empty: none
    seconds: float  # for each measurement of the machine


class Bench:
    """A run of the benchmark: its flags, its folders, and the rows so far."""

    def __init__(self, args, plan, folder):
        self.args, self.plan, self.folder, self.rows = args, plan, folder, []
        self.data = os.path.abspath(
            folders.prepared(args.data, os.path.join(folder, "data"))
        )
        self.vocab_size = load_vocabularies(self.data).target.size
        self.spec = {
            "data": self.data,
            "device": args.device,
            "threads": args.threads,
            "vocab_size": self.vocab_size,
        }

    def say(self, text: str) -> None:
        """Write a line to stderr."""
        print(text, file=sys.stderr, flush=True)

    def add(
        self, contestant: Contestant, work_name: str, values: List[float], unit: str
    ) -> None:
        """Add a row."""
        self.rows.append(
            report.row(contestant.system, work_name, contestant.precision, values, unit)
        )
        self.say(report.line(self.rows[-1]).strip("|\n "))

    @contextlib.contextmanager
    def workers(self, among: List[Contestant], spec: dict) -> Iterator[Workers]:
        """Yield {Contestant: Worker} for those that can start; end them all."""
        started, opened = {}, []
        try:
            for one in among:
                try:
                    python, more = one.set_up(self, one)
                    spec_of_one = dict(self.spec, precision=one.precision, **spec)
                    started[one] = open_worker(
                        one.module, {**spec_of_one, **more}, python
                    )
                    opened.append(started[one])
                except (ChildProcessError, ValueError) as error:
                    self.say(f"{one.system} {one.precision}: not measured: {error}")
            yield started
        finally:
            for worker in opened:
                worker.close()

    def ask_all(
        self, started: Workers, request: dict, rounds: int = 1
    ) -> Dict[Contestant, List[dict]]:
        """Return {Contestant: one answer per round}, without those that failed."""
        answers = {one: [] for one in started}
        for _ in range(rounds):
            for one in list(answers):
                try:
                    answers[one].append(started[one].ask(request))
                except (ChildProcessError, BrokenPipeError) as error:
                    self.say(f"{one.system} {one.precision}: failed: {error}")
                    del answers[one], started[one]
        return answers


def here(bench: Bench, one: Contestant) -> Tuple[str, dict]:
    """Return the set-up for a system that runs in this environment."""
    return sys.executable, {}


def in_its_own(bench: Bench, one: Contestant) -> Tuple[str, dict]:
    """Return the set-up for OpenNMT-tf, which has its own environment."""
    return folders.opennmt_python(bench.args.opennmt), {}


def with_our_model(bench: Bench, one: Contestant) -> Tuple[str, dict]:
    """Return the set-up for CTranslate2: our checkpoint, exported and compared."""
    out = os.path.join(bench.folder, one.precision)
    if not os.path.exists(out):
        command = [
            sys.executable,
            os.path.join(ROOT, "scripts", "export.py"),
            "--format",
            "ctranslate2",
            "--logdir",
            bench.args.logdir,
            "--out",
            out,
            "--quantization",
            one.precision,
            "--check",
            str(bench.plan.checked),
            "--data",
            bench.data,
        ]
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
        if done.returncode:
            raise ValueError(done.stderr.strip().splitlines()[-1])
        bench.say(done.stdout.strip())
    return sys.executable, {"exported": out}


MACHINE = Contestant("machine", "–", "ceiling", here)


def measure_copies(bench: Bench) -> None:
    """Measure how fast memory is copied."""
    with bench.workers([MACHINE], {"work": "copy"}) as started:
        for one, answers in bench.ask_all(
            started, {"seconds": bench.plan.seconds}, bench.plan.rounds
        ).items():
            bench.add(one, "ceiling/copy", [each["rate"] for each in answers], "GB/s")


def measure_ceiling(bench: Bench, size: str) -> Dict[str, float]:
    """Measure the matrix products for a size; return {precision: best GFLOP/s}."""
    best = {}
    with bench.workers([MACHINE], {"work": "product"}) as started:
        for precision in ("float32", "bfloat16"):
            one, rates = MACHINE._replace(precision=precision), []
            for shape in work.matrix_shapes(work.SIZES[size], bench.vocab_size):
                request = {
                    "shape": shape,
                    "precision": precision,
                    "seconds": bench.plan.seconds,
                }
                for answers in bench.ask_all(started, request).values():
                    rates += [answer["rate"] for answer in answers]
                if rates:
                    bench.add(
                        one,
                        f"ceiling/{'x'.join(map(str, shape))}",
                        rates[-1:],
                        "GFLOP/s",
                    )
            if rates:
                best[precision] = max(rates)
                bench.add(one, f"ceiling/{size}", [max(rates)], "GFLOP/s")
    return best


def measure_training(bench: Bench, size: str) -> None:
    """Measure updates of a model size: tokens/s, memory, share of the best GFLOP/s.

    The systems of one precision take turns; together, all systems would not fit in
    memory.
    """
    best = measure_ceiling(bench, size)
    for precision in dict.fromkeys(one.precision for one in bench.plan.trainers):
        measure_trainers(bench, size, precision, best.get(precision))


def measure_trainers(
    bench: Bench, size: str, precision: str, best: Optional[float]
) -> None:
    """Measure updates of a model size by the systems of one precision.

    Args:
      best: the fastest matrix product at that precision, in GFLOP/s, if known.
    """
    sizes, name, steps = work.SIZES[size], f"train/{size}", bench.plan.steps[size]
    gflop = work.training_gflop(bench.data, sizes, bench.vocab_size)
    trainers = [one for one in bench.plan.trainers if one.precision == precision]
    with bench.workers(trainers, {"work": "train", "sizes": sizes}) as started:
        bench.ask_all(started, {"steps": max(5, steps // 2)})  # warm-up
        for one, answers in bench.ask_all(
            started, {"steps": steps}, bench.plan.rounds
        ).items():
            rates = [answer["tokens"] / answer["seconds"] for answer in answers]
            bench.add(one, name, rates, "tokens/s")
            bench.add(
                one, f"gflops/{name}", [rate * gflop for rate in rates], "GFLOP/s"
            )
            if best:
                bench.add(
                    one,
                    f"share/{name}",
                    [100 * rate * gflop / best for rate in rates],
                    "%",
                )
            memory = answers[-1]["peak"]
            if bench.args.device == "gpu":
                memory = gpu_memory(started[one].pid)
            if memory:
                bench.add(one, f"memory/{name}", [memory], "MiB")


def gpu_memory(pid: int) -> Optional[float]:
    """Return the GPU memory of a process in MiB; None if unknown."""
    command = [
        "nvidia-smi",
        "--query-compute-apps=pid,used_memory",
        "--format=csv,noheader,nounits",
    ]
    try:
        found = subprocess.run(
            command, stdout=subprocess.PIPE, check=True, universal_newlines=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    used = dict(entry.split(", ") for entry in found.splitlines())
    return float(used[str(pid)]) if used.get(str(pid), "").isdigit() else None


def measure_decoding(bench: Bench, search: str, beam_size: int) -> None:
    """Measure decoding of the test split, length penalty 0, in batches and alone."""
    vocabulary = load_vocabularies(bench.data).target
    references = work.test_lines(bench.data)[1]
    spec = {
        "work": "decode",
        "search": search,
        "beam_size": beam_size,
        "logdir": os.path.abspath(bench.args.logdir),
    }
    name = f"{search}{beam_size}" if beam_size > 1 else search
    with bench.workers(bench.plan.decoders, spec) as started:
        everything = {"batch": 64, "every": 1, "texts": True}
        texts = {
            one: answer["texts"]
            for one, [answer] in bench.ask_all(started, everything).items()
        }  # this is also the warm-up
        pieces = {
            one: [
                each if isinstance(each, int) else len(vocabulary.encode(each)) + 1
                for each in translations
            ]
            for one, translations in texts.items()
        }
        for one, translations in texts.items():
            if isinstance(translations[0], str):
                bench.add(
                    one, f"bleu/{name}", [score(translations, references).bleu], "BLEU"
                )
        batched(bench, started, name, pieces)
        single(bench, started, name)


def batched(bench: Bench, started: Workers, name: str, pieces: Pieces) -> None:
    """Measure sentences and pieces per second in batches of 64."""
    every = bench.plan.every
    for one, answers in bench.ask_all(
        started, {"batch": 64, "every": every}, bench.plan.rounds
    ).items():
        chosen = pieces[one][::every]
        bench.add(
            one,
            f"{name}/64",
            [len(chosen) / answer["seconds"] for answer in answers],
            "sentences/s",
        )
        bench.add(
            one,
            f"tokens/{name}/64",
            [sum(chosen) / answer["seconds"] for answer in answers],
            "tokens/s",
        )
        bench.add(one, f"memory/{name}/64", [answers[-1]["peak"]], "MiB")


def single(bench: Bench, started: Workers, name: str) -> None:
    """Measure the time per sentence: its median and 95th percentile."""
    request = {"batch": 1, "every": bench.plan.every_single}
    bench.ask_all(started, dict(request, every=10 * request["every"]))  # warm-up
    for one, answers in bench.ask_all(started, request, bench.plan.rounds).items():
        for kind, share in ((name, 0.5), (f"p95/{name}", 0.95)):
            bench.add(
                one,
                f"{kind}/1",
                [1000 * report.percentile(answer["each"], share) for answer in answers],
                "ms",
            )


def measure_growth(bench: Bench) -> None:
    """Measure the cost of more pairs: tokens/s, memory, time to the first step."""
    ours, steps = bench.plan.trainers[0], bench.plan.steps[bench.plan.sizes[0]]
    with contextlib.ExitStack() as stack:
        started, names = {}, {}
        for pairs in bench.plan.pairs:
            data = os.path.join(bench.folder, f"pairs-{pairs}")
            work.write_corpus(bench.data, data, pairs)
            spec = {"data": data, "sizes": work.SIZES[bench.plan.sizes[0]]}
            with bench.workers([ours], dict(spec, work="input")) as inputs:
                for answer in bench.ask_all(inputs, {}).get(ours, []):
                    bench.add(ours, f"memory/input-{pairs}", [answer["memory"]], "MiB")
            began = time.monotonic()
            found = stack.enter_context(bench.workers([ours], dict(spec, work="train")))
            if bench.ask_all(found, {"steps": 1}).get(ours):
                bench.add(ours, f"start/{pairs}", [time.monotonic() - began], "s")
                key = ours._replace(system=f"ours {pairs}")
                started[key], names[key] = found[ours], pairs
        bench.ask_all(started, {"steps": max(5, steps // 2)})  # warm-up
        for one, answers in bench.ask_all(
            started, {"steps": steps}, bench.plan.rounds
        ).items():
            bench.add(
                ours,
                f"growth/{names[one]}",
                [answer["tokens"] / answer["seconds"] for answer in answers],
                "tokens/s",
            )
