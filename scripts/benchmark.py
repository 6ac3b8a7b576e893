"""Measures this project beside others, in one run, on one machine.

    python scripts/benchmark.py --data data/multi30k --logdir logs/multi30k --json FILE

Systems take turns, A B A B; a value is the median of the rounds, beside it the least
and the greatest. A system that is not installed is a line; peers come with
pip install '.[bench]'.
"""
import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import hparams
from bench import folders, report, work
from bench.worker import ROOT, Worker
from transformer.evaluation import score
from transformer.text import load_vocabularies


class Contestant(NamedTuple):
    """A system at a precision; which worker it is."""

    name: str
    precision: str
    module: str


def contestants(name, module, *precisions):
    return [Contestant(name, precision, f"bench.{module}")
            for precision in precisions]


OURS = contestants("ours", "ours", "float32", "bfloat16")
PYTORCH = contestants("pytorch", "pytorch", "float32", "bfloat16")
OPENNMT = contestants("opennmt-tf", "opennmt", "float32")
MARIAN = contestants("marian", "marian", "float32", "bfloat16")
CTRANSLATE2 = contestants("ctranslate2", "ctranslate", "float32", "int8")


class Plan(NamedTuple):
    """How much is measured."""

    sizes: list       # of trainings, keys of work.SIZES
    trainers: list    # Contestants
    decoders: list    # Contestants
    rounds: int
    steps: dict       # updates in a round, by size
    every: int        # each n-th line is decoded in batches of 64 ...
    every_single: int  # ... and by itself
    pairs: list       # of training, for the cost of growth
    seconds: float    # for each measurement of the ceiling


FULL = Plan(["bench-small", "bench-base"], OURS + PYTORCH + OPENNMT + MARIAN,
            OURS + PYTORCH + OPENNMT + MARIAN[:1] + CTRANSLATE2, 5,
            {"bench-small": 40, "bench-base": 10}, 1, 10, [10 ** 4, 10 ** 5, 10 ** 6],
            1.0)
QUICK = FULL._replace(sizes=["bench-small"], trainers=OURS + PYTORCH,
                      decoders=OURS[:1] + PYTORCH[:1] + CTRANSLATE2, rounds=3,
                      steps={"bench-small": 12}, every=2, every_single=40, pairs=[],
                      seconds=0.5)
ON_GPU = FULL._replace(sizes=["base", "big"], trainers=OURS + PYTORCH,
                       decoders=OURS + PYTORCH[:1] + CTRANSLATE2[:1],
                       steps={"base": 20, "big": 20}, pairs=[])


class Bench:
    """A run: what was asked for, what is found on disk, the rows so far."""

    def __init__(self, args, folder):
        self.args, self.folder, self.rows = args, folder, []
        self.plan = ON_GPU if args.device == "gpu" else QUICK if args.quick else FULL
        if args.rounds:
            self.plan = self.plan._replace(rounds=args.rounds)
        self.data = os.path.abspath(
            folders.prepared(args.data, os.path.join(folder, "data")))
        self.vocab_size = load_vocabularies(self.data).target.size
        self.spec = {"data": self.data, "device": args.device, "threads": args.threads,
                     "vocab_size": self.vocab_size}

    def say(self, text):
        print(text, file=sys.stderr, flush=True)

    def add(self, contestant, work_name, values, unit):
        self.rows.append(report.row(contestant.name, work_name, contestant.precision,
                                    values, unit))
        self.say(report.line(self.rows[-1]).strip("|\n "))

    @contextlib.contextmanager
    def workers(self, among, spec):
        """Yields {Contestant: Worker} of those that can be started; ends them all."""
        started = {}
        try:
            for one in among:
                python = sys.executable
                try:
                    if one in OPENNMT:
                        python = folders.opennmt_python(self.args.opennmt)
                    started[one] = Worker(one.module, dict(
                        self.spec, precision=one.precision, **spec), python)
                except (ChildProcessError, ValueError) as error:
                    self.say(f"{one.name} {one.precision}: not measured: {error}")
            yield started
        finally:
            for worker in started.values():
                worker.close()

    def ask_all(self, started, request, rounds=1):
        """{Contestant: its answers}, one a round; one that fails is left out."""
        answers = {one: [] for one in started}
        for _ in range(rounds):
            for one in list(answers):
                try:
                    answers[one].append(started[one].ask(request))
                except (ChildProcessError, BrokenPipeError) as error:
                    self.say(f"{one.name} {one.precision}: failed: {error}")
                    del answers[one], started[one]
        return answers


def measure_ceiling(bench, size):
    """Matrix products at the shapes of a size; copies. Returns {precision: GFLOP/s}."""
    best, seconds = {}, bench.plan.seconds
    for precision in ("float32", "bfloat16"):
        machine = Contestant("machine", precision, "bench.ceiling")
        with bench.workers([machine], {"work": "ceiling"}) as started:
            rates = []
            for shape in work.matrix_shapes(size):
                for answer in bench.ask_all(started, {
                        "kind": "product", "shape": shape,
                        "seconds": seconds}).get(machine, []):
                    rates.append(answer["rate"])
                    name = "x".join(map(str, shape))
                    bench.add(machine, f"ceiling/{name}", rates[-1:], "GFLOP/s")
            if rates:
                best[precision] = max(rates)
                bench.add(machine, f"ceiling/{size}", [best[precision]], "GFLOP/s")
            if precision == "float32" and bench.args.device == "cpu":
                copies = bench.ask_all(started, {"kind": "copy", "seconds": seconds},
                                       bench.plan.rounds)
                for one, answers in copies.items():
                    bench.add(one, "ceiling/copy", [a["rate"] for a in answers], "GB/s")
    return best


def measure_training(bench, size):
    """Updates of a size: tokens/s, memory, and how near the ceiling that is."""
    best = measure_ceiling(bench, size)
    gflop = work.training_gflop(bench.data, size, bench.vocab_size)
    name, steps = f"train/{size}", bench.plan.steps[size]
    with bench.workers(bench.plan.trainers, {"work": "train", "size": size}) as started:
        bench.ask_all(started, {"steps": max(5, steps // 2)})           # warm-up
        for one, answers in bench.ask_all(started, {"steps": steps},
                                          bench.plan.rounds).items():
            rates = [answer["tokens"] / answer["seconds"] for answer in answers]
            bench.add(one, name, rates, "tokens/s")
            bench.add(one, f"gflops/{name}", [rate * gflop for rate in rates],
                      "GFLOP/s")
            if one.precision in best:
                bench.add(one, f"share/{name}", [
                    100 * rate * gflop / best[one.precision] for rate in rates], "%")
            on_gpu = bench.args.device == "gpu" and gpu_memory(started[one].pid)
            bench.add(one, f"memory/{name}", [on_gpu or answers[-1]["peak"]], "MiB")


def gpu_memory(pid):
    """The memory of a GPU that a process holds, in MiB; None if nobody can tell."""
    command = ["nvidia-smi", "--query-compute-apps=pid,used_memory",
               "--format=csv,noheader,nounits"]
    try:
        found = subprocess.run(command, stdout=subprocess.PIPE, check=True,
                               universal_newlines=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    used = dict(entry.split(", ") for entry in found.splitlines())
    return float(used[str(pid)]) if used.get(str(pid), "").isdigit() else None


def export(bench, quantization):
    """The folder with our checkpoint for CTranslate2."""
    out = os.path.join(bench.folder, quantization)
    command = [sys.executable, os.path.join(ROOT, "scripts", "export.py"), "--format",
               "ctranslate2", "--logdir", bench.args.logdir, "--out", out,
               "--quantization", quantization, "--data", bench.data, "--check",
               "200" if quantization == "float32" else "0"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, env=dict(
                              os.environ, PYTHONPATH=ROOT, TF_CPP_MIN_LOG_LEVEL="3"))
    if done.returncode:
        raise ValueError(done.stderr.strip().splitlines()[-1])
    bench.say(done.stdout.strip())
    return out


def measure_decoding(bench, search, beam_size):
    """The test split by one search, length penalty 0: 64 sentences at once, and one."""
    vocabulary = load_vocabularies(bench.data).target
    references = work.test_lines(bench.data)[1]
    spec = {"work": "decode", "search": search, "beam_size": beam_size,
            "logdir": os.path.abspath(bench.args.logdir), "exported": ""}
    name = f"{search}{beam_size}" if beam_size > 1 else search
    with contextlib.ExitStack() as stack:
        started = {}
        for one in bench.plan.decoders:
            if one in CTRANSLATE2:
                try:
                    spec["exported"] = export(bench, one.precision)
                except ValueError as error:
                    bench.say(f"{one.name} {one.precision}: not measured: {error}")
                    continue
            started.update(stack.enter_context(bench.workers([one], spec)))
        everything = {"batch": 64, "every": 1, "texts": True}
        texts = {one: answer["texts"] for one, [answer] in
                 bench.ask_all(started, everything).items()}            # and warm-up
        pieces = {one: [each if isinstance(each, int) else
                        len(vocabulary.encode(each)) + 1 for each in translations]
                  for one, translations in texts.items()}
        for one, translations in texts.items():
            if isinstance(translations[0], str):
                bench.add(one, f"bleu/{name}", [score(translations, references).bleu],
                          "BLEU")
        batched(bench, started, name, pieces)
        single(bench, started, name)


def batched(bench, started, name, pieces):
    """Sentences and pieces a second, in batches of 64."""
    every = bench.plan.every
    for one, answers in bench.ask_all(started, {"batch": 64, "every": every},
                                      bench.plan.rounds).items():
        chosen = pieces[one][::every]
        bench.add(one, f"{name}/64", [len(chosen) / answer["seconds"]
                                      for answer in answers], "sentences/s")
        bench.add(one, f"tokens/{name}/64", [sum(chosen) / answer["seconds"]
                                             for answer in answers], "tokens/s")
        bench.add(one, f"memory/{name}/64", [answers[-1]["peak"]], "MiB")


def single(bench, started, name):
    """How long a sentence takes by itself: median and 95th percentile."""
    request = {"batch": 1, "every": bench.plan.every_single}
    bench.ask_all(started, dict(request, every=10 * request["every"]))  # warm-up
    for one, answers in bench.ask_all(started, request, bench.plan.rounds).items():
        for kind, share in ((name, 0.5), (f"p95/{name}", 0.95)):
            bench.add(one, f"{kind}/1", [
                1000 * report.percentile(answer["each"], share) for answer in answers],
                "ms")


def measure_growth(bench):
    """What more training pairs cost: tokens/s, memory, time to the first step."""
    ours, steps = OURS[0], bench.plan.steps["bench-small"]
    with contextlib.ExitStack() as stack:
        started, names = {}, {}
        for pairs in bench.plan.pairs:
            data = os.path.join(bench.folder, f"pairs-{pairs}")
            work.write_corpus(bench.data, data, pairs)
            spec = {"data": data, "size": "bench-small"}
            with bench.workers([ours], dict(spec, work="input")) as inputs:
                for answer in bench.ask_all(inputs, {}).get(ours, []):
                    bench.add(ours, f"memory/input-{pairs}", [answer["memory"]], "MiB")
            began = time.monotonic()
            found = stack.enter_context(bench.workers([ours], dict(spec, work="train")))
            if bench.ask_all(found, {"steps": 1}).get(ours):
                bench.add(ours, f"start/{pairs}", [time.monotonic() - began], "s")
                key = ours._replace(name=f"ours {pairs}")
                started[key], names[key] = found[ours], pairs
        bench.ask_all(started, {"steps": max(5, steps // 2)})           # warm-up
        for one, answers in bench.ask_all(started, {"steps": steps},
                                          bench.plan.rounds).items():
            bench.add(ours, f"growth/{names[one]}", [
                answer["tokens"] / answer["seconds"] for answer in answers], "tokens/s")


def run(args, folder):
    """All that is asked for; returns the rows."""
    bench = Bench(args, folder)
    parts = [(f"train/{size}", measure_training, (size,)) for size in bench.plan.sizes]
    if args.logdir:
        hparams.load(args.logdir)  # refuses early what is no log directory
        parts += [("greedy", measure_decoding, ("greedy", 1)),
                  ("beam5", measure_decoding, ("beam", 5))]
    else:
        bench.say("decoding: not measured: no --logdir with a trained model is given")
    if bench.plan.pairs:
        parts.append(("growth", measure_growth, ()))
    for name, measure, arguments in parts:
        if not args.only or name in args.only:
            bench.say(f"--- {name}")
            measure(bench, *arguments)
    return bench.rows


def use_cores(count):
    """Confines this process and all that it starts to so many cores, where it can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     allow_abbrev=False)
    parser.add_argument("--data", default="data/multi30k", metavar="DIR",
                        help="a prepared folder, or one with text to prepare")
    parser.add_argument("--logdir", metavar="DIR", help="a trained model, for decoding")
    parser.add_argument("--json", metavar="FILE", help="write the rows there too")
    parser.add_argument("--quick", action="store_true", help="a part, in 6 minutes")
    parser.add_argument("--only", nargs="+", metavar="PART",
                        help="some of train/SIZE, greedy, beam5, growth")
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--threads", type=int, default=2, help="cores of the CPU [2]")
    parser.add_argument("--rounds", type=int, default=0, help="instead of 5, or 3")
    parser.add_argument("--opennmt", metavar="DIR",
                        default=os.path.join(ROOT, ".venv-opennmt"),
                        help="environment of OpenNMT-tf; made if missing")
    args = hparams.parse_flags(parser, sys.argv[1:] if argv is None else argv)
    if args.device == "cpu":
        use_cores(args.threads)
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder:
            rows = run(args, folder)
    except (ValueError, OSError) as error:
        sys.exit(f"benchmark.py: {error}")
    print(report.table(rows), end="")
    print(f"\n{(time.monotonic() - began) / 60:.1f} minutes", file=sys.stderr)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
