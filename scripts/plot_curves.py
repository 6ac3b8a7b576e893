"""Draw dev BLEU against minutes of training, a curve for each log directory.

Example:

    python scripts/plot_curves.py --logdir logs/multi30k logs/base --out curves.svg
"""

import glob
import os
from typing import Dict, List, Tuple

from transformer.runtime import cli, files
from transformer.runtime.figures import saved_figure
from transformer.runtime.terminal import say


def curve(logdir: str) -> Tuple[List[float], List[float]]:
    """Return (minutes of training, dev BLEU) of the evaluations of a training run.

    A process that continued an earlier one adds to its minutes at the checkpoint.

    Args:
      logdir: the log directory.

    Raises:
      ValueError: there are none, or they do not say when they were made.
    """
    from transformer.runtime.events import read_events  # needs TensorFlow

    minutes, bleu = {}, {}
    files.refuse_links(logdir)
    pattern = os.path.join(glob.escape(logdir), "events.out.tfevents.*")
    for path in sorted(glob.glob(pattern)):
        before = None
        for step, values in read_events(path):
            if "minutes" not in values:
                continue
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


def draw(curves: Dict[str, Tuple[List[float], List[float]]], out: str) -> None:
    """Draw one curve for each log directory.

    Args:
      curves: name → (minutes, BLEU).
      out: the file; its ending says which format.
    """
    with saved_figure(out, 7, 4) as axes:
        for name, (minutes, bleu) in curves.items():
            axes.plot(minutes, bleu, marker="o", markersize=3, label=name)
        axes.set(xlabel="minutes of training", ylabel="dev BLEU", xlim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend(loc="lower right")


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser("plot_curves.py", __doc__)
    made.add_argument(
        "--logdir",
        required=True,
        nargs="+",
        metavar="DIR",
        help="what train.py wrote; a curve for each",
    )
    made.add_argument(
        "--out", required=True, metavar="FILE", help="the picture, .png or .svg"
    )
    return made


def run(args) -> None:
    """Read the events, draw the picture."""
    cli.start_tensorflow(args.verbose)
    draw({os.path.normpath(logdir): curve(logdir) for logdir in args.logdir}, args.out)
    say(args.out)


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
