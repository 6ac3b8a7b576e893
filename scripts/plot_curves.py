"""Draws dev BLEU against minutes of training, a curve for each log directory.

python scripts/plot_curves.py --logdir logs/multi30k --out curves.svg
"""

import argparse
import glob
import os
import sys

import tensorflow.compat.v1 as tf

import hparams


def curve(logdir):
    """(minutes of training, dev BLEU) of the evaluations of a training.

    A run that goes on after another goes on from its minutes at the checkpoint.

    Raises:
      ValueError: there are none, or they do not say when they were made.
    """
    minutes, bleu = {}, {}
    for path in sorted(glob.glob(os.path.join(logdir, "events.out.tfevents.*"))):
        before = None
        for step, values in events(path):
            if before is None:
                minutes = {each: minutes[each] for each in minutes if each < step}
                before = max(minutes.values(), default=0.0)
            minutes[step] = before + values["minutes"]
            if "dev/bleu" in values:
                bleu[step] = values["dev/bleu"]
    steps = sorted(set(minutes).intersection(bleu))
    if not steps:
        raise ValueError(
            f"{logdir}: found no evaluation in its events, wanted a log "
            "directory of train.py, after its first one"
        )
    return [minutes[step] for step in steps], [bleu[step] for step in steps]


def events(path):
    """Yields (step, {name: number}) of a file of events, of those that have a time."""
    try:
        for event in tf.train.summary_iterator(path):
            values = {each.tag: each.simple_value for each in event.summary.value}
            if "minutes" in values:
                yield event.step, values
    except tf.errors.DataLossError:
        return  # the record at which the run was killed


def draw(curves, out):
    """Draws {name: (minutes, BLEU)} into a file; its ending says what kind."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError(
            f"found no matplotlib ({error}), wanted it installed: "
            "pip install -e '.[plot]'"
        ) from error
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, (minutes, bleu) in curves.items():
        axes.plot(minutes, bleu, marker="o", markersize=3, label=name)
    axes.set(xlabel="minutes of training", ylabel="dev BLEU", xlim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(out, dpi=150)


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], allow_abbrev=False
    )
    parser.add_argument(
        "--logdir",
        required=True,
        nargs="+",
        metavar="DIR",
        help="what train.py wrote; a curve for each",
    )
    parser.add_argument(
        "--out", required=True, metavar="FILE", help="the picture, .png or .svg"
    )
    args = hparams.parse_flags(parser, sys.argv[1:] if argv is None else argv)
    try:
        draw(
            {os.path.normpath(logdir): curve(logdir) for logdir in args.logdir},
            args.out,
        )
    except (ValueError, OSError) as error:
        sys.exit(f"plot_curves.py: {error}")
    print(args.out)


if __name__ == "__main__":
    main()
