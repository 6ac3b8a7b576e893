"""Average the newest checkpoints of a training run, as in section 6.1 of the paper.

    transformer-tf average --logdir logs/base --last 5 --out logs/mean
    transformer-tf average --logdir logs/base --best 3 --out logs/mean

--best averages those with the best dev scores, of the checkpoints that are kept.

The result is a log directory that all other commands can use.
"""

import argparse
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple

from transformer import hparams
from transformer.commands import cli
from transformer.commands.terminal import command_name, print_lines
from transformer.logdir import manifests
from transformer.logdir.names import BEST, DEV_SCORES, REGULAR
from transformer.runtime.errors import SettingsError
from transformer.runtime.files import new_folder, refuse_used, sweep_beside
from transformer.text.vocabulary import copy_vocabularies

if TYPE_CHECKING:
    import numpy as np

LAST = 5  # how many checkpoints, if neither --last nor --best says it


def parser() -> cli.Parser:
    """Make the parser of the command line."""
    parser = cli.make_parser("average", __doc__)
    cli.add_logdir(parser)
    cli.add_number(parser, "last", LAST, "how many of the newest checkpoints")
    parser.set_defaults(last=None)  # whether it was given counts
    cli.add_number(
        parser,
        "best",
        0,
        "how many, by dev score, instead of the newest; 0: the newest",
    )
    parser.add_argument(
        "--out", required=True, type=cli.path, metavar="DIR", help="a new log directory"
    )
    return parser


def run(args: argparse.Namespace) -> None:
    """Read the checkpoints, average them, and write the result."""
    if args.best and args.last is not None:
        raise ValueError(
            "--last and --best: expected one of them, got both; leave one out"
        )
    sweep_beside(args.out)
    refuse_used(args.out, "--out")
    hp = hparams.load(args.logdir)
    cli.start_tensorflow(args.verbose)
    from transformer.logdir import checkpoints  # needs TensorFlow

    averaged = average_kept(
        args.logdir, LAST if args.last is None else args.last, args.best, args.warn
    )
    with new_folder(args.out, "--out") as out:
        copy_vocabularies(args.logdir, out)
        hparams.save(hp, out)
        last_step = averaged.steps[-1]
        checkpoints.save_arrays(averaged.arrays, out, last_step, averaged.description)
    print_lines(
        f"{args.out}: the average of the checkpoints of steps "
        f"{', '.join(map(str, averaged.steps))}"
    )


class Averaged(NamedTuple):
    """The average of several checkpoints."""

    steps: List[int]
    arrays: Dict[str, "np.ndarray"]  # name of a variable → its average
    description: Dict[str, Any]  # of the last checkpoint


def average_kept(
    logdir: str, last: int, best: int, warn: Callable[[str], None]
) -> Averaged:
    """Average the newest checkpoints of a log directory, or the best ones.

    If a training run removes one of them in the meantime, average those that are the
    newest, or the best, now.

    Args:
      logdir: the log directory.
      last: the number of checkpoints.
      best: the number of checkpoints by dev score; 0: the newest are averaged.
      warn: function of a text.

    Raises:
      SettingsError: there are not so many checkpoints.
    """
    from transformer.logdir import checkpoints, history  # they need TensorFlow

    steps_by_kind = [
        set(manifests.list_steps(logdir, kind)) for kind in (REGULAR, BEST)
    ]
    if best:
        flag, count, kind = "--best", best, "checkpoints with a dev score"
        ranked = history.rank_evaluated_steps(logdir)
        if not ranked:
            raise SettingsError(
                f"{os.path.join(logdir, DEV_SCORES)}: expected dev scores to choose "
                "checkpoints by, got none: it is missing, empty or damaged; put back a "
                "copy of it, or average the newest checkpoints, with --last"
            )
        steps = [step for step in ranked if step in set.union(*steps_by_kind)]
    else:
        flag, count, kind = "--last", last, "checkpoints"
        steps = sorted(steps_by_kind[0], reverse=True)
    if len(steps) < 2:
        raise SettingsError(
            f"{logdir}: expected two or more {kind} to average, got {len(steps)}; "
            "lower --save_every, or raise --keep_checkpoints, of "
            f"{command_name('train')}"
        )
    if not 2 <= count <= len(steps):
        raise SettingsError(
            f"{flag}: expected 2 to {len(steps)}, the number of {kind} in {logdir}, "
            f"got {count}; {command_name('train')} keeps the number given by "
            "--keep_checkpoints"
        )
    steps = sorted(steps[:count])
    try:
        paths = [manifests.find_checkpoint(logdir, step, warn) for step in steps]
        arrays = checkpoints.average(paths)
        return Averaged(steps, arrays, manifests.read_description(paths[-1]))
    except Exception:  # there are several kinds for a file that vanished
        if all(
            before.issubset(manifests.list_steps(logdir, kind))
            for kind, before in zip((REGULAR, BEST), steps_by_kind)
        ):
            raise
    return average_kept(logdir, last, best, warn)
