"""Draws dev BLEU against minutes of training, a curve for each log directory.

    python scripts/plot_curves.py --logdir logs/multi30k --out curves.svg
"""
import argparse
import os
import sys

import hparams
from transformer.reporting import DEV_SCORES, read_dev_scores


def curve(logdir):
    """(minutes, dev BLEU) of the evaluations of a training.

    Raises:
      ValueError: there are none, or they do not say when they were made.
    """
    rows, path = read_dev_scores(logdir), os.path.join(logdir, DEV_SCORES)
    if not rows:
        raise ValueError(f"{path}: found no evaluation, wanted a log directory of "
                         "train.py, after its first one")
    untimed = [row["step"] for row in rows if "seconds" not in row]
    if untimed:
        raise ValueError(f"{path}: found no \"seconds\" in the row of step "
                         f"{untimed[0]}, wanted the time of training in each: it was "
                         "written by an older train.py; train again")
    return [row["seconds"] / 60 for row in rows], [row["bleu"] for row in rows]


def draw(curves, out):
    """Draws {name: (minutes, BLEU)} into a file; its ending says what kind."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError(f"found no matplotlib ({error}), wanted it installed: "
                         "pip install -e '.[plot]'") from error
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, (minutes, bleu) in curves.items():
        axes.plot(minutes, bleu, marker="o", markersize=3, label=name)
    axes.set(xlabel="minutes of training", ylabel="dev BLEU", xlim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(out, dpi=150)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     allow_abbrev=False)
    parser.add_argument("--logdir", required=True, nargs="+", metavar="DIR",
                        help="what train.py wrote; a curve for each")
    parser.add_argument("--out", required=True, metavar="FILE",
                        help="the picture, .png or .svg")
    args = hparams.parse_flags(parser, sys.argv[1:] if argv is None else argv)
    try:
        draw({os.path.normpath(logdir): curve(logdir) for logdir in args.logdir},
             args.out)
    except (ValueError, OSError) as error:
        sys.exit(f"plot_curves.py: {error}")
    print(args.out)


if __name__ == "__main__":
    main()
