"""Measure the speed of this project and of other systems, on one machine.

    python tools/bench/benchmark.py --data data/multi30k --logdir logs/multi30k \\
        --json bench.json

The systems run in turns, A B A B; a value is the median of the rounds, reported with
the minimum and the maximum. A system that is not installed is skipped with one line;
install them with pip install '.[bench]'.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time

import report
from measure import (
    Bench,
    Contestant,
    Plan,
    here,
    in_its_own,
    measure_copies,
    measure_decoding,
    measure_growth,
    measure_training,
    with_our_model,
)
from worker import ROOT

import hparams


def contestants(system, module, *precisions, set_up=here):
    return [Contestant(system, precision, module, set_up) for precision in precisions]


OURS = contestants("ours", "ours", "float32", "bfloat16")
PYTORCH = contestants("pytorch", "pytorch", "float32", "bfloat16")
OPENNMT = contestants("opennmt-tf", "opennmt", "float32", set_up=in_its_own)
MARIAN = contestants("marian", "marian", "float32", "bfloat16")
CTRANSLATE2 = contestants(
    "ctranslate2", "ctranslate", "float32", "int8", set_up=with_our_model
)

FULL = Plan(
    ["bench-small", "bench-base"],
    OURS + PYTORCH + OPENNMT + MARIAN,
    OURS[:1] + PYTORCH[:1] + OPENNMT + MARIAN[:1] + CTRANSLATE2,
    3,
    {"bench-small": 40, "bench-base": 10},
    1,
    10,
    1000,
    [10**4, 10**5, 10**6],
    1.0,
)
QUICK = FULL._replace(
    sizes=["bench-small"],
    trainers=OURS + PYTORCH,
    decoders=OURS[:1] + PYTORCH[:1] + CTRANSLATE2,
    steps={"bench-small": 12},
    every=2,
    every_single=40,
    checked=200,
    pairs=[],
    seconds=0.5,
)
ON_GPU = FULL._replace(
    sizes=["base", "big"],
    trainers=OURS + PYTORCH,
    decoders=OURS[:1] + PYTORCH[:1] + CTRANSLATE2[:1],
    steps={"base": 20, "big": 20},
    pairs=[],
)


def run(args, folder):
    """All that is asked for; returns the rows."""
    plan = ON_GPU if args.device == "gpu" else QUICK if args.quick else FULL
    if args.rounds:
        plan = plan._replace(rounds=args.rounds)
    bench = Bench(args, plan, folder)
    parts = [(f"train/{size}", measure_training, (size,)) for size in bench.plan.sizes]
    if args.logdir:
        hparams.load(args.logdir)  # refuses early what is no log directory
        parts += [
            ("greedy", measure_decoding, ("greedy", 1)),
            ("beam5", measure_decoding, ("beam", 5)),
        ]
    else:
        bench.say("decoding: not measured: no --logdir with a trained model is given")
    if bench.plan.pairs:
        parts.append(("growth", measure_growth, ()))
    if args.device == "cpu":
        parts.insert(0, ("copy", measure_copies, ()))
    for name in args.only or []:
        hparams.refuse_unknown("part", name, [part[0] for part in parts])
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
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], allow_abbrev=False
    )
    parser.add_argument(
        "--data",
        default="data/multi30k",
        metavar="DIR",
        help="a prepared folder, or one with text to prepare",
    )
    parser.add_argument("--logdir", metavar="DIR", help="a trained model, for decoding")
    parser.add_argument("--json", metavar="FILE", help="write the rows there too")
    parser.add_argument("--quick", action="store_true", help="a part, in 6 minutes")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="PART",
        help="some of copy, train/SIZE, greedy, beam5, growth",
    )
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--threads", type=int, default=2, help="cores of the CPU [2]")
    parser.add_argument("--rounds", type=int, default=0, help="instead of 3")
    parser.add_argument(
        "--opennmt",
        metavar="DIR",
        default=os.path.join(ROOT, ".venv-opennmt"),
        help="environment of OpenNMT-tf; made if missing",
    )
    args = hparams.parse_flags(parser, sys.argv[1:] if argv is None else argv)
    if args.device == "cpu":
        use_cores(args.threads)
    # Ended from outside, it still ends its children, which may be stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("benchmark.py: terminated"))
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder:
            rows = run(args, folder)
    except (ValueError, OSError) as error:
        sys.exit(f"benchmark.py: {error}")
    print(report.table(rows))
    print(report.summary(rows), end="")
    print(f"\n{(time.monotonic() - began) / 60:.1f} minutes", file=sys.stderr)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
