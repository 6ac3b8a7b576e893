"""Average the newest checkpoints of a training run, as in section 6.1 of the paper.

    transformer-tf average --logdir logs/base --last 5 --out logs/mean

It writes a log directory that all other commands can use.
"""

import argparse
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from transformer import hparams
from transformer.commands import cli
from transformer.commands.terminal import command_name, print_lines
from transformer.logdir import manifests
from transformer.runtime.files import new_folder, refuse_used
from transformer.text.vocabulary import copy_vocabularies

if TYPE_CHECKING:
    import numpy as np


def parser() -> cli.Parser:
    """Return the parser of the command line."""
    made = cli.make_parser("average", __doc__)
    cli.add_logdir(made)
    cli.add_number(made, "last", 5, "how many of the newest checkpoints")
    made.add_argument(
        "--out", required=True, type=cli.path, metavar="DIR", help="a new log directory"
    )
    return made


def run(args: argparse.Namespace) -> None:
    """Read the checkpoints, average them, and write the result."""
    refuse_used(args.out, "--out")
    hp = hparams.load(args.logdir)
    cli.start_tensorflow(args.verbose)
    # Imported here, because importing TensorFlow takes seconds.
    from transformer.logdir import checkpoints

    steps, arrays, described = averaged(args)
    with new_folder(args.out, "--out") as made:
        copy_vocabularies(args.logdir, made)
        hparams.save(hp, made)
        checkpoints.save_arrays(arrays, made, steps[-1], described)
    print_lines(
        f"{args.out}: the average of the checkpoints of steps "
        f"{', '.join(map(str, steps))}"
    )


def averaged(
    args: argparse.Namespace,
) -> Tuple[List[int], Dict[str, "np.ndarray"], Dict[str, Any]]:
    """Return (steps, the averages by name, what the last checkpoint describes).

    If a training run removes one of the checkpoints in the meantime, the newest that
    are there now are averaged.
    """
    from transformer.logdir import checkpoints  # needs TensorFlow

    steps = manifests.list_steps(args.logdir)
    if len(steps) < 2:
        raise ValueError(
            f"{args.logdir}: expected two or more checkpoints to average, got "
            f"{len(steps)}; lower --save_every, or raise --keep_checkpoints, of "
            f"{command_name('train')}"
        )
    if not 2 <= args.last <= len(steps):
        raise ValueError(
            f"--last: expected 2 to {len(steps)}, the number of "
            f"checkpoints in {args.logdir}, got {args.last}; {command_name('train')} "
            "keeps the number given by --keep_checkpoints"
        )
    steps = steps[-args.last :]
    try:
        prefixes = [
            manifests.find_checkpoint(args.logdir, step, args.warn) for step in steps
        ]
        arrays = checkpoints.average(prefixes)
        return steps, arrays, manifests.read_description(prefixes[-1])
    except Exception:  # there are several kinds for a file that vanished
        if set(steps).issubset(manifests.list_steps(args.logdir)):
            raise
    return averaged(args)
