"""Average the newest checkpoints of a training run, as in section 6.1 of the paper.

    transformer-tf average --logdir logs/base --last 5 --out logs/mean

It writes a log directory that all other commands can use.
"""

import argparse

from transformer import hparams
from transformer.runtime import cli
from transformer.runtime.files import new_folder, refuse_used
from transformer.runtime.terminal import command, say
from transformer.text.vocabulary import copy_vocabularies


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = cli.make_parser("average", __doc__)
    cli.add_logdir(made)
    cli.add_number(made, "last", 5, "how many of the newest checkpoints")
    made.add_argument("--out", required=True, metavar="DIR", help="a new log directory")
    return made


def run(args: argparse.Namespace) -> None:
    """Read the checkpoints, average them, and write the result."""
    refuse_used(args.out, "--out")
    hp = hparams.load(args.logdir)
    cli.start_tensorflow(args.verbose)
    # Imported here, because importing TensorFlow takes seconds.
    from transformer.runtime import checkpoints

    steps = checkpoints.steps(args.logdir)
    if len(steps) < 2:
        raise ValueError(
            f"{args.logdir}: expected two or more checkpoints to average, got "
            f"{len(steps)}; lower --save_every, or raise --keep_checkpoints, of "
            f"{command('train')}"
        )
    if not 2 <= args.last <= len(steps):
        raise ValueError(
            f"--last: expected 2 to {len(steps)}, the number of "
            f"checkpoints in {args.logdir}, got {args.last}; {command('train')} "
            "keeps the number given by --keep_checkpoints"
        )
    steps = steps[-args.last :]
    prefixes = [checkpoints.find(args.logdir, step) for step in steps]  # verified
    arrays = checkpoints.average(prefixes)
    with new_folder(args.out, "--out") as made:
        copy_vocabularies(args.logdir, made)
        hparams.save(hp, made)
        described = checkpoints.description_of(prefixes[-1])
        checkpoints.write(arrays, made, steps[-1], described)
    say(
        f"{args.out}: the average of the checkpoints of steps "
        f"{', '.join(map(str, steps))}"
    )
