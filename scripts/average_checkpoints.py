"""Averages the newest checkpoints of a training, as section 6.1 of the paper does.

    python scripts/average_checkpoints.py --logdir logs/base --last 5 --out logs/mean

What it writes is a log directory like any other, for eval.py and the scripts.
"""

import argparse
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import hparams
from transformer.originals import convert
from transformer.runtime import checkpoints
from transformer.text.vocabulary import copy_vocabularies


def mean_of(prefixes):
    """The variables of checkpoints of one training: each the mean of its floats; what
    is not a float, the count of updates, as in the last."""
    arrays = convert.read(prefixes[-1])
    sums = {
        name: array.astype(np.float64)
        for name, array in arrays.items()
        if array.dtype == np.float32
    }
    for prefix in prefixes[:-1]:
        others = convert.read(prefix)
        for name in sums:
            sums[name] += others[name]
    return dict(
        arrays,
        **{
            name: (total / len(prefixes)).astype(np.float32)
            for name, total in sums.items()
        },
    )


def run(args):
    """Reads, averages, writes; returns the steps that were averaged."""
    steps = checkpoints.steps(args.logdir)
    if not 2 <= args.last <= len(steps):
        raise ValueError(
            f"--last: found {args.last}, wanted 2 to {len(steps)}, the "
            f"number of checkpoints in {args.logdir}; train.py keeps as "
            "many as --keep_checkpoints says"
        )
    if os.path.exists(os.path.join(args.out, hparams.FILE_NAME)):
        raise ValueError(f"--out {args.out}: found a log directory, wanted a new one")
    steps = steps[-args.last :]
    prefixes = [checkpoints.find(args.logdir, step) for step in steps]  # verified
    arrays = mean_of(prefixes)
    os.makedirs(args.out, exist_ok=True)
    copy_vocabularies(args.logdir, args.out)  # refuses to replace one by another
    hparams.save(hparams.load(args.logdir), args.out)
    convert.write(convert.Imported(arrays, steps[-1], True), args.out)
    return steps


def main(argv=None):
    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.ERROR)
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], allow_abbrev=False
    )
    parser.add_argument(
        "--logdir", required=True, metavar="DIR", help="what train.py wrote"
    )
    parser.add_argument(
        "--last",
        type=int,
        default=5,
        metavar="INT",
        help="checkpoints, the newest ones [5]",
    )
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="a new log directory"
    )
    args = hparams.parse_flags(parser, sys.argv[1:] if argv is None else argv)
    try:
        steps = run(args)
    except (ValueError, OSError) as error:
        sys.exit(f"average_checkpoints.py: {error}")
    print(
        f"{args.out}: the mean of the checkpoints of steps {', '.join(map(str, steps))}"
    )


if __name__ == "__main__":
    main()
