"""Compare the BLEU of models trained in several precisions, with several seeds.

    python tools/precision/precision.py --preset sample --out logs/precision
    python tools/precision/precision.py --preset multi30k --out logs/captions \\
        -- --max_steps 600 --warmup_steps 200

It calls train.py and eval.py, one model after the other. What stands behind `--` is
given to train.py. The same command continues where it was stopped.

TensorFlow's products of float16 numbers on CPUs are too slow to train with: 20 steps of
the sample did not end in nine minutes. Where there is no GPU, matrix products
(`tf.matmul`) are here computed in float32 and rounded to float16, as GPUs do. Those of
relative positions (`tf.einsum`) are not: leave --max_relative_position alone.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
from typing import Dict, Iterator, List

import hparams
from transformer.runtime import cli
from transformer.runtime.terminal import say

PROG = "precision.py"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PRECISIONS = ("float32", "bfloat16", "float16")
PRODUCTS = ("mat_mul", "batch_mat_mul_v2")


@contextlib.contextmanager
def float16_as_on_gpus() -> Iterator[None]:
    """Compute products of float16 numbers in float32, and round them to float16."""
    import tensorflow.compat.v1 as tf
    from tensorflow.python.ops import gen_math_ops

    def rounded(product):
        def of(a, b, *args, **kwargs):
            if a.dtype != tf.float16:
                return product(a, b, *args, **kwargs)
            wide = (tf.cast(each, tf.float32) for each in (a, b))
            return tf.cast(product(*wide, *args, **kwargs), tf.float16)

        return of

    before = {name: getattr(gen_math_ops, name) for name in PRODUCTS}
    try:
        for name, product in before.items():
            setattr(gen_math_ops, name, rounded(product))
        yield
    finally:
        for name, product in before.items():
            setattr(gen_math_ops, name, product)


def train_one(argv: List[str], is_verbose: bool) -> None:
    """Train a model in this process.

    Args:
      argv: the arguments of train.py.
      is_verbose: whether to show TensorFlow's start-up lines.
    """
    cli.start_tensorflow(is_verbose)
    from transformer.runtime.devices import has_gpu

    sys.path.insert(0, ROOT)
    import train

    with contextlib.nullcontext() if has_gpu() else float16_as_on_gpus():
        train.main(argv)


def bleu_of(logdir: str, argv: List[str]) -> float:
    """Train a model, unless that is done; return its BLEU on the test split.

    Args:
      logdir: where its log directory is, or shall be.
      argv: the arguments of train.py.
    """
    path, found = os.path.join(logdir, "precision.json"), {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    if found.get("arguments") == argv:
        return found["bleu"]
    one = [os.path.abspath(__file__), "--one", "--", "--logdir", logdir, *argv]
    test = [os.path.join(ROOT, "eval.py"), "--logdir", logdir, "--split", "test"]
    for command in (one, [*test, "--json", path]):
        done = subprocess.run([sys.executable, *command], stdout=subprocess.DEVNULL)
        if done.returncode:
            raise ValueError(f"{logdir}: {command[0]} failed: its lines are above")
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**found, "arguments": argv}, file)
    return found["bleu"]


def table(found: Dict[str, List[float]]) -> Iterator[str]:
    """Yield lines of Markdown: BLEU of each seed, their mean, how far from the first.

    Args:
      found: precision → BLEU of each seed.
    """
    wanted = None
    for name, scores in found.items():
        mean = statistics.mean(scores)
        if wanted is None:
            wanted = mean
            seeds = " | ".join(f"seed {i}" for i in range(1, len(scores) + 1))
            yield f"| precision | {seeds} | mean | difference |"
            yield "|---" * (len(scores) + 3) + "|"
        cells = [f"{each:.2f}" for each in [*scores, mean]]
        yield f"| {name} | {' | '.join(cells)} | {round(mean - wanted, 2) + 0.0:+.2f} |"


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser(PROG, __doc__)
    made.add_argument("--preset", choices=hparams.PRESETS, default="sample")
    made.add_argument("--out", metavar="DIR", help="where log directories are written")
    made.add_argument(
        "--precisions",
        nargs="+",
        choices=PRECISIONS,
        default=PRECISIONS,
        help=f"what to compare with the first [{' '.join(PRECISIONS)}]",
    )
    made.add_argument("--seeds", type=int, default=3, metavar="INT", help="models [3]")
    made.add_argument("--one", action="store_true", help="train in this process alone")
    made.add_argument("more", nargs="*", help="arguments of train.py")
    return made


def run(args) -> None:
    """Print the table."""
    if args.one:
        train_one(args.more, args.verbose)
        return
    if args.seeds < 1:
        raise ValueError(f"--seeds: found {args.seeds}, wanted 1 or more")
    if not args.out:
        raise ValueError("--out: found nothing, wanted a folder for log directories")
    found = {name: [] for name in args.precisions}
    for seed in range(1, args.seeds + 1):
        for name, scores in found.items():
            logdir = os.path.join(args.out, f"{name}-{seed}")
            argv = [f"--preset={args.preset}", f"--precision={name}", f"--seed={seed}"]
            scores.append(bleu_of(logdir, [*argv, *args.more]))
    for line in table(found):
        say(line)


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
