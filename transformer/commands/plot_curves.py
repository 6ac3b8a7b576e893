"""Draw curves of training runs: dev BLEU, dev loss, training loss, learning rate.

    transformer-tf plot --logdir logs/multi30k logs/base --out curves.svg
    transformer-tf plot --logdir logs/base --out all.png \\
        --show bleu dev_loss loss learning_rate --against steps
    transformer-tf plot --logdir logs/seed1 logs/seed2 --seeds --out seeds.svg

Each log directory has a curve. With --seeds, runs whose settings differ only in the
seed share a curve: their mean, with a band from the lowest to the highest.
"""

import argparse
import dataclasses
import glob
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from transformer import hparams
from transformer.runtime import cli, files
from transformer.runtime.figures import as_written, line_styles, saved_figure
from transformer.runtime.terminal import command, say

# Name → (tag in the events, label of the axis).
SHOWN = {
    "bleu": ("dev/bleu", "dev BLEU"),
    "dev_loss": ("dev/loss", "dev loss"),
    "loss": ("loss", "training loss"),
    "learning_rate": ("learning_rate", "learning rate"),
}
AGAINST = {"minutes": "minutes of training", "steps": "steps"}
WIDTH = 7
HEIGHT = 4  # of a picture with one diagram, in inches


class Run(NamedTuple):
    """What a training run logged."""

    minutes: Dict[int, float]  # step → minutes of training up to it
    values: Dict[str, Dict[int, float]]  # tag → step → value


class Curve(NamedTuple):
    """A line and the band around it: lists of the same length."""

    x: List[float]
    y: List[float]
    lowest: List[float]  # of the runs; of one run, y
    highest: List[float]


def read_run(logdir: str) -> Run:
    """Return what the events of a log directory hold.

    Minutes add up over the processes of a training run. If a process continued from a
    checkpoint, values logged before for later steps are dropped.
    """
    from transformer.runtime.run import read_events  # needs TensorFlow

    run = Run({}, {tag: {} for tag, _ in SHOWN.values()})
    files.refuse_links(logdir)
    pattern = os.path.join(glob.escape(logdir), "events.out.tfevents.*")
    for path in sorted(glob.glob(pattern)):
        before = None
        for step, values in read_events(path):
            if "minutes" not in values:
                continue
            if before is None:
                for kept in (run.minutes, *run.values.values()):
                    for old in [each for each in kept if each >= step]:
                        del kept[old]
                before = max(run.minutes.values(), default=0.0)
            run.minutes[step] = before + values["minutes"]
            for tag in set(run.values).intersection(values):
                run.values[tag][step] = values[tag]
    return run


def curve(runs: Dict[str, Run], what: str, against: str = "minutes") -> Curve:
    """Return the curve of a run, or the mean of several at their common steps.

    Args:
      runs: log directory → Run.
      what: a key of SHOWN.
      against: a key of AGAINST.

    Raises:
      ValueError: there is nothing to show.
    """
    tag, name = SHOWN[what]
    for logdir, run in runs.items():
        if not run.values[tag]:
            kind = "evaluation" if tag.startswith("dev/") else name
            raise ValueError(
                f"{logdir}: expected a log directory of {command('train')}, after its "
                f"first one, got no {kind} in its events"
            )
    steps = sorted(set.intersection(*(set(run.values[tag]) for run in runs.values())))
    if not steps:
        raise ValueError(
            f"{', '.join(runs)}: expected steps with {name} in all of "
            "them, got none; --seeds takes the mean of runs at the same "
            "steps"
        )
    x = []
    columns = []
    for step in steps:
        passed = [run.minutes[step] for run in runs.values()]
        x.append(sum(passed) / len(passed) if against == "minutes" else step)
        columns.append([run.values[tag][step] for run in runs.values()])
    means = [sum(column) / len(column) for column in columns]
    return Curve(x, means, list(map(min, columns)), list(map(max, columns)))


def grouped(logdirs: Sequence[str]) -> Dict[str, List[str]]:
    """Group log directories by their settings without the seed: name → directories."""
    groups: Dict[Tuple, List[str]] = {}
    for logdir in logdirs:
        settings = dataclasses.asdict(hparams.load(logdir))
        del settings["seed"]
        groups.setdefault(tuple(settings.items()), []).append(logdir)
    return {
        (each[0] if len(each) == 1 else f"{each[0]} ({len(each)} seeds)"): each
        for each in groups.values()
    }


def draw(
    curves: Dict[str, Dict[str, Curve]], against: str, out: str, scale: str = "linear"
) -> None:
    """Draw a diagram for each kind of value, one below the other.

    Args:
      curves: key of SHOWN → name of the line → Curve.
      against: a key of AGAINST.
      out: the file; its ending says which format.
      scale: "linear" or "log", of losses and rates.
    """
    last = max(each.x[-1] for lines in curves.values() for each in lines.values())
    height = HEIGHT if len(curves) == 1 else 2.6 * len(curves)
    with saved_figure(out, WIDTH, height, len(curves)) as every:
        every = [every] if len(curves) == 1 else every[:, 0]
        for axes, (what, lines) in zip(every, curves.items()):
            draw_lines(axes, lines)
            axes.set(ylabel=SHOWN[what][1], xlim=(0, 1.02 * last))
            if what != "bleu":
                axes.set_yscale(scale)
            axes.grid(alpha=0.3)
        every[-1].set_xlabel(AGAINST[against])
        as_written(every[0].legend(loc="best").get_texts())


def draw_lines(axes: Any, lines: Dict[str, Curve]) -> None:
    """Draw lines that differ not only in colour, with bands around means."""
    for (name, (x, y, lowest, highest)), look in zip(lines.items(), line_styles()):
        many = max(1, len(x) // 8)
        axes.plot(x, y, label=name, markevery=many, **look)
        if lowest != highest:
            axes.fill_between(x, lowest, highest, color=look["color"], alpha=0.18, lw=0)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = cli.make_parser("plot", __doc__)
    made.add_argument(
        "--logdir",
        required=True,
        nargs="+",
        metavar="DIR",
        help=f"what {command('train')} wrote; a curve for each",
    )
    made.add_argument(
        "--out", required=True, metavar="FILE", help="the picture, .png or .svg"
    )
    made.add_argument(
        "--show",
        nargs="+",
        default=["bleu"],
        metavar="WHAT",
        help=f"a diagram for each: {', '.join(SHOWN)} [bleu]",
    )
    made.add_argument(
        "--against",
        default="minutes",
        metavar="WHAT",
        help="minutes or steps [minutes]",
    )
    made.add_argument(
        "--seeds", action="store_true", help="one curve for runs of different seeds"
    )
    made.add_argument(
        "--log", action="store_true", help="a logarithmic scale of losses and rates"
    )
    return made


def run(args: argparse.Namespace) -> None:
    """Read the events, draw the picture."""
    for what in args.show:
        cli.refuse_unknown("value of --show", what, SHOWN)
    cli.refuse_unknown("value of --against", args.against, AGAINST)
    groups = {os.path.normpath(each): [each] for each in args.logdir}
    if args.seeds:
        groups = grouped([os.path.normpath(each) for each in args.logdir])
    cli.start_tensorflow(args.verbose)
    runs = {logdir: read_run(logdir) for each in groups.values() for logdir in each}
    curves = {
        what: {
            name: curve({logdir: runs[logdir] for logdir in each}, what, args.against)
            for name, each in groups.items()
        }
        for what in args.show
    }
    draw(curves, args.against, args.out, "log" if args.log else "linear")
    say(args.out)


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line."""
    cli.main(parser(), run, argv)
