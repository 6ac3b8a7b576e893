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

    @property
    def name(self) -> str:
        """The system and its precision, for messages."""
        return f"{self.system} {self.precision}"


Workers = Dict[Contestant, Worker]
Pieces = Dict[Contestant, List[int]]  # of each translated line


class Plan(NamedTuple):
    """Which systems are measured, and how much of each."""

    sizes: list  # sizes to train, keys of work.SIZES
    trainers: list  # Contestants
    decoders: list  # Contestants
    rounds: int
    steps: dict  # size → updates in a round
    every: int  # every n-th line is decoded in batches of 64 ...
    every_single: int  # ... and every n-th alone
    check_lines: int  # on which CTranslate2 is compared with this project
    pairs: list  # numbers of training pairs, to measure the cost of larger corpora
    several: str  # the size to train in several processes; empty: none
    seconds: float  # for each measurement of the machine


class Bench:
    """A run of the benchmark: its flags, its folders, and the rows so far."""

    def __init__(self, args, plan, folder):
        self.args, self.plan, self.folder, self.rows = args, plan, folder, []
        self.data = os.path.abspath(
            folders.prepare_data(args.data, os.path.join(folder, "data"))
        )
        self.vocab_size = load_vocabularies(self.data).target.size
        self.spec = {
            "data": self.data,
            "device": args.device,
            "threads": args.threads,
            "vocab_size": self.vocab_size,
        }

    def log(self, text: str) -> None:
        """Write a line to stderr."""
        print(text, file=sys.stderr, flush=True)

    def add(
        self, contestant: Contestant, work_name: str, values: List[float], unit: str
    ) -> None:
        """Add a row."""
        self.rows.append(
            report.make_row(
                contestant.system, work_name, contestant.precision, values, unit
            )
        )
        self.log(report.format_row(self.rows[-1]).strip("|\n "))

    @contextlib.contextmanager
    def workers(self, contestants: List[Contestant], spec: dict) -> Iterator[Workers]:
        """Yield {Contestant: Worker} for those that can start; end them all."""
        workers, to_close = {}, []
        try:
            for contestant in contestants:
                try:
                    python, more = contestant.set_up(self, contestant)
                    worker_spec = {
                        **self.spec,
                        "precision": contestant.precision,
                        **spec,
                        **more,
                    }
                    worker = open_worker(contestant.module, worker_spec, python)
                    workers[contestant] = worker
                    to_close.append(worker)
                except (ChildProcessError, ValueError) as error:
                    self.log(f"{contestant.name}: not measured: {error}")
            yield workers
        finally:
            for worker in to_close:
                worker.close()

    def ask_all(
        self, workers: Workers, request: dict, rounds: int = 1
    ) -> Dict[Contestant, List[dict]]:
        """Return {Contestant: one answer per round}, without those that failed."""
        answers = {contestant: [] for contestant in workers}
        for _ in range(rounds):
            for contestant in list(answers):
                try:
                    answers[contestant].append(workers[contestant].ask(request))
                except (ChildProcessError, BrokenPipeError) as error:
                    self.log(f"{contestant.name}: failed: {error}")
                    del answers[contestant], workers[contestant]
        return answers


def set_up_here(bench: Bench, contestant: Contestant) -> Tuple[str, dict]:
    """Return the set-up for a system that runs in this environment."""
    return sys.executable, {}


def set_up_elsewhere(bench: Bench, contestant: Contestant) -> Tuple[str, dict]:
    """Return the set-up for a system that has its own environment."""
    folder = os.path.join(bench.args.environments, f".venv-{contestant.system}")
    environment = folders.ENVIRONMENTS[contestant.system]
    return folders.find_python(folder, environment), {}


def set_up_ctranslate2(bench: Bench, contestant: Contestant) -> Tuple[str, dict]:
    """Export and compare our checkpoint; return the set-up for CTranslate2."""
    out = os.path.join(bench.folder, contestant.precision)
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
            contestant.precision,
            "--check",
            str(bench.plan.check_lines),
            "--data",
            bench.data,
        ]
        process = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
        if process.returncode:
            raise ValueError(process.stderr.strip().splitlines()[-1])
        bench.log(process.stdout.strip())
    return sys.executable, {"exported": out}


MACHINE = Contestant("machine", "–", "ceiling", set_up_here)


def measure_copies(bench: Bench) -> None:
    """Measure how fast memory is copied."""
    with bench.workers([MACHINE], {"work": "copy"}) as workers:
        for machine, answers in bench.ask_all(
            workers, {"seconds": bench.plan.seconds}, bench.plan.rounds
        ).items():
            rates = [answer["rate"] for answer in answers]
            bench.add(machine, "ceiling/copy", rates, "GB/s")


def measure_ceiling(bench: Bench, size: str) -> Dict[str, float]:
    """Measure the matrix products for a size; return {precision: best GFLOP/s}."""
    best = {}
    with bench.workers([MACHINE], {"work": "product"}) as workers:
        for precision in ("float32", "bfloat16"):
            machine, rates = MACHINE._replace(precision=precision), []
            for shape in work.matrix_shapes(work.SIZES[size], bench.vocab_size):
                request = {
                    "shape": shape,
                    "precision": precision,
                    "seconds": bench.plan.seconds,
                }
                for answers in bench.ask_all(workers, request).values():
                    rates += [answer["rate"] for answer in answers]
                if rates:
                    bench.add(
                        machine,
                        f"ceiling/{'x'.join(map(str, shape))}",
                        rates[-1:],
                        "GFLOP/s",
                    )
            if rates:
                best[precision] = max(rates)
                bench.add(machine, f"ceiling/{size}", [max(rates)], "GFLOP/s")
    return best


def measure_training(bench: Bench, size: str) -> None:
    """Measure updates of a model size: tokens/s, memory, share of the best GFLOP/s.

    The systems of one precision take turns; together, all systems would not fit in
    memory.
    """
    best = measure_ceiling(bench, size)
    for precision in dict.fromkeys(
        trainer.precision for trainer in bench.plan.trainers
    ):
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
    trainers = [
        trainer for trainer in bench.plan.trainers if trainer.precision == precision
    ]
    with bench.workers(trainers, {"work": "train", "sizes": sizes}) as workers:
        bench.ask_all(workers, {"steps": max(5, steps // 2)})  # warm-up
        for contestant, answers in bench.ask_all(
            workers, {"steps": steps}, bench.plan.rounds
        ).items():
            rates = [answer["tokens"] / answer["seconds"] for answer in answers]
            bench.add(contestant, name, rates, "tokens/s")
            bench.add(
                contestant,
                f"gflops/{name}",
                [rate * gflop for rate in rates],
                "GFLOP/s",
            )
            if best:
                bench.add(
                    contestant,
                    f"share/{name}",
                    [100 * rate * gflop / best for rate in rates],
                    "%",
                )
            memory = answers[-1]["peak"]
            if bench.args.device == "gpu":
                memory = gpu_memory(workers[contestant].pid)
            if memory:
                bench.add(contestant, f"memory/{name}", [memory], "MiB")


def gpu_memory(pid: int) -> Optional[float]:
    """Return the GPU memory of a process in MiB; None if unknown."""
    command = [
        "nvidia-smi",
        "--query-compute-apps=pid,used_memory",
        "--format=csv,noheader,nounits",
    ]
    try:
        output = subprocess.run(
            command, stdout=subprocess.PIPE, check=True, universal_newlines=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    used = dict(entry.split(", ") for entry in output.splitlines())
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
    with bench.workers(bench.plan.decoders, spec) as workers:
        all_lines = {"batch": 64, "every": 1, "texts": True}
        texts = {
            contestant: answer["texts"]
            for contestant, [answer] in bench.ask_all(workers, all_lines).items()
        }  # this is also the warm-up
        pieces = {
            contestant: [
                text if isinstance(text, int) else len(vocabulary.encode(text)) + 1
                for text in translations
            ]
            for contestant, translations in texts.items()
        }
        for contestant, translations in texts.items():
            if isinstance(translations[0], str):
                bleu = score(translations, references).bleu
                bench.add(contestant, f"bleu/{name}", [bleu], "BLEU")
        measure_batches(bench, workers, name, pieces)
        measure_single_lines(bench, workers, name)


def measure_batches(bench: Bench, workers: Workers, name: str, pieces: Pieces) -> None:
    """Measure sentences and pieces per second in batches of 64."""
    every = bench.plan.every
    for contestant, answers in bench.ask_all(
        workers, {"batch": 64, "every": every}, bench.plan.rounds
    ).items():
        counts = pieces[contestant][::every]
        bench.add(
            contestant,
            f"{name}/64",
            [len(counts) / answer["seconds"] for answer in answers],
            "sentences/s",
        )
        bench.add(
            contestant,
            f"tokens/{name}/64",
            [sum(counts) / answer["seconds"] for answer in answers],
            "tokens/s",
        )
        bench.add(contestant, f"memory/{name}/64", [answers[-1]["peak"]], "MiB")


def measure_single_lines(bench: Bench, workers: Workers, name: str) -> None:
    """Measure the time per sentence: its median and 95th percentile."""
    request = {"batch": 1, "every": bench.plan.every_single}
    bench.ask_all(workers, dict(request, every=10 * request["every"]))  # warm-up
    for contestant, answers in bench.ask_all(
        workers, request, bench.plan.rounds
    ).items():
        for kind, share in ((name, 0.5), (f"p95/{name}", 0.95)):
            bench.add(
                contestant,
                f"{kind}/1",
                [
                    1000 * report.percentile(answer["line_seconds"], share)
                    for answer in answers
                ],
                "ms",
            )


def measure_growth(bench: Bench) -> None:
    """Measure the cost of more pairs: tokens/s, memory, time to the first step."""
    ours, steps = bench.plan.trainers[0], bench.plan.steps[bench.plan.sizes[0]]
    with contextlib.ExitStack() as stack:
        workers, names = {}, {}
        for pairs in bench.plan.pairs:
            data = os.path.join(bench.folder, f"pairs-{pairs}")
            work.write_corpus(bench.data, data, pairs)
            spec = {"data": data, "sizes": work.SIZES[bench.plan.sizes[0]]}
            with bench.workers([ours], dict(spec, work="input")) as inputs:
                for answer in bench.ask_all(inputs, {}).get(ours, []):
                    bench.add(ours, f"memory/input-{pairs}", [answer["memory"]], "MiB")
            start = time.monotonic()
            training = stack.enter_context(
                bench.workers([ours], dict(spec, work="train"))
            )
            if bench.ask_all(training, {"steps": 1}).get(ours):
                bench.add(ours, f"start/{pairs}", [time.monotonic() - start], "s")
                key = ours._replace(system=f"ours {pairs}")
                workers[key], names[key] = training[ours], pairs
        bench.ask_all(workers, {"steps": max(5, steps // 2)})  # warm-up
        for contestant, answers in bench.ask_all(
            workers, {"steps": steps}, bench.plan.rounds
        ).items():
            bench.add(
                ours,
                f"growth/{names[contestant]}",
                [answer["tokens"] / answer["seconds"] for answer in answers],
                "tokens/s",
            )
