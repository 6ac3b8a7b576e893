"""Average the newest checkpoints of a training run, as section 6.1 of the paper does.

    python scripts/average_checkpoints.py --logdir logs/base --last 5 --out logs/mean

It writes a log directory like any other, for eval.py and the scripts.
"""

import hparams
from transformer.runtime import cli
from transformer.runtime.folders import new_folder, refuse_used
from transformer.runtime.terminal import say
from transformer.text.vocabulary_files import copy_vocabularies


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser("average_checkpoints.py", __doc__)
    cli.add_logdir(made)
    made.add_argument(
        "--last",
        type=int,
        default=5,
        metavar="INT",
        help="how many checkpoints, the newest [5]",
    )
    made.add_argument("--out", required=True, metavar="DIR", help="a new log directory")
    return made


def run(args) -> None:
    """Read, average, write."""
    refuse_used(args.out, "--out")
    hp = hparams.load(args.logdir)
    cli.start_tensorflow(args.verbose)
    # Only here: TensorFlow, which they import, takes seconds.
    from transformer.runtime import checkpoints, tensors

    steps = checkpoints.steps(args.logdir)
    if not 2 <= args.last <= len(steps):
        raise ValueError(
            f"--last: found {args.last}, wanted 2 to {len(steps)}, the "
            f"number of checkpoints in {args.logdir}; train.py keeps as "
            "many as --keep_checkpoints says"
        )
    steps = steps[-args.last :]
    prefixes = [checkpoints.find(args.logdir, step) for step in steps]  # verified
    arrays = tensors.average(prefixes)
    with new_folder(args.out, "--out") as made:
        copy_vocabularies(args.logdir, made)
        hparams.save(hp, made)
        checkpoints.write(arrays, made, steps[-1])
    say(
        f"{args.out}: the average of the checkpoints of steps "
        f"{', '.join(map(str, steps))}"
    )


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
