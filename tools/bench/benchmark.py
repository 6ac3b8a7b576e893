"""Measure the speed of this project and of other systems, on one machine.

    python tools/bench/benchmark.py --data data/multi30k --logdir logs/multi30k \\
        --json bench.json

The systems take turns, A B A B; a value is the median over the rounds, reported with
the minimum and the maximum. A system that is not installed is skipped with a one-line
message; install the systems with pip install '.[bench]'.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from typing import List, Optional

import report
from worker import ROOT

from transformer.commands import cli
from transformer.runtime.files import replace_file


def parser() -> cli.Parser:
    """Return the parser of the command's flags."""
    parser = cli.make_parser("benchmark.py", __doc__)
    parser.add_argument(
        "--data",
        default="data/multi30k",
        metavar="DIR",
        help="a prepared folder, or one with text to prepare",
    )
    parser.add_argument("--logdir", metavar="DIR", help="a trained model, for decoding")
    parser.add_argument("--json", metavar="FILE", help="write the rows there too")
    parser.add_argument(
        "--quick", action="store_true", help="a part, in 6 to 20 minutes"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="PART",
        help="some of copy, train/SIZE, greedy, beam5, growth, scaling",
    )
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    cli.add_number(parser, "threads", 2, "cores of the CPU")
    parser.add_argument(
        "--rounds", type=int, default=0, metavar="INT", help="instead of 3"
    )
    parser.add_argument(
        "--environments",
        metavar="DIR",
        default=ROOT,
        help="has .venv-opennmt-tf and .venv-eole; made if missing",
    )
    return parser


def run(args: argparse.Namespace) -> None:
    """Measure, and print the tables."""
    cli.start_tensorflow(args.verbose)
    from plans import measure_all

    if args.device == "cpu":
        use_cores(args.threads)
    # So that SIGTERM also ends the child processes, which may be stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("benchmark.py: terminated"))
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure_all(args, folder)
    print(report.format_table(rows))
    print(report.format_summary(rows), end="")
    print(f"\n{(time.monotonic() - start) / 60:.1f} minutes", file=sys.stderr)
    if args.json:
        with replace_file(args.json) as file:
            json.dump(rows, file, indent=1)
            file.write("\n")


def use_cores(count: int) -> None:
    """Confine this process and its children to `count` cores, if the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line."""
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
