"""The systems to measure, and how much of each: in full, quickly, and on a GPU."""

import argparse
from typing import Any, Callable, Dict, List

from measure import (
    Bench,
    Contestant,
    Plan,
    measure_copies,
    measure_decoding,
    measure_growth,
    measure_training,
    set_up_ctranslate2,
    set_up_elsewhere,
    set_up_here,
)
from several import measure_scaling

from transformer import hparams
from transformer.runtime.names import refuse_unknown


def contestants(
    system: str, module: str, *precisions: str, set_up: Callable = set_up_here
) -> List[Contestant]:
    """Return a system at several precisions."""
    return [Contestant(system, precision, module, set_up) for precision in precisions]


OURS = contestants("ours", "ours", "float32", "bfloat16")
PYTORCH = contestants("pytorch", "pytorch", "float32", "bfloat16")
OPENNMT = contestants("opennmt-tf", "opennmt_tf", "float32", set_up=set_up_elsewhere)
EOLE = contestants("eole", "eole_nmt", "float32", "bfloat16", set_up=set_up_elsewhere)
MARIAN = contestants("marian", "marian", "float32", "bfloat16")
CTRANSLATE2 = contestants(
    "ctranslate2", "ctranslate", "float32", "int8", set_up=set_up_ctranslate2
)

FULL = Plan(
    sizes=["bench-small", "bench-base"],
    trainers=OURS + PYTORCH + OPENNMT + EOLE + MARIAN,
    decoders=OURS + PYTORCH[:1] + OPENNMT + EOLE[:1] + MARIAN[:1] + CTRANSLATE2,
    rounds=3,
    steps={"bench-small": 40, "bench-base": 10},
    every=1,
    every_single=10,
    check_lines=1000,
    pairs=[10**4, 10**5, 10**6],
    several="bench-small",
    seconds=1.0,
)
QUICK = FULL._replace(
    sizes=["bench-small"],
    trainers=OURS + PYTORCH,
    decoders=OURS + PYTORCH[:1] + CTRANSLATE2,
    steps={"bench-small": 12},
    every=2,
    every_single=40,
    check_lines=200,
    pairs=[],
    several="",
    seconds=0.5,
)
ON_GPU = FULL._replace(
    sizes=["base", "big"],
    trainers=OURS + contestants("ours", "ours", "float16") + PYTORCH,
    decoders=OURS[:1] + PYTORCH[:1] + CTRANSLATE2[:1],
    steps={"base": 20, "big": 20},
    pairs=[],
    several="base",
)


def measure_all(args: argparse.Namespace, folder: str) -> List[Dict[str, Any]]:
    """Measure the requested parts; return the rows."""
    plan = ON_GPU if args.device == "gpu" else QUICK if args.quick else FULL
    if args.rounds:
        plan = plan._replace(rounds=args.rounds)
    bench = Bench(args, plan, folder)
    parts = [(f"train/{size}", measure_training, (size,)) for size in bench.plan.sizes]
    decoding = [
        ("greedy", measure_decoding, ("greedy", 1)),
        ("beam5", measure_decoding, ("beam", 5)),
    ]
    if args.logdir:
        hparams.load(args.logdir)  # refuses a wrong folder early
        parts += decoding
    elif not args.only or {name for name, *_ in decoding}.intersection(args.only):
        bench.log("decoding: not measured: --logdir, a trained model, is missing")
    if bench.plan.pairs:
        parts.append(("growth", measure_growth, ()))
    if bench.plan.several:
        parts.append(("scaling", measure_scaling, (bench.plan.several,)))
    if args.device == "cpu":
        parts.insert(0, ("copy", measure_copies, ()))
    for name in args.only or []:
        refuse_unknown("part", name, [part[0] for part in parts])
    for name, measure, arguments in parts:
        if not args.only or name in args.only:
            bench.log(f"--- {name}")
            measure(bench, *arguments)
    return bench.rows
