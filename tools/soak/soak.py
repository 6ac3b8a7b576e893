"""Kill training runs, damage their checkpoints, and check that nothing is lost.

    python tools/soak/soak.py --cycles 200 --lines 100000

A cycle starts or continues a tiny training run until it is ended: by SIGKILL at a
random time, while a checkpoint is written or during a dev evaluation, by SIGTERM or by
Ctrl-C. Sometimes the newest checkpoint is then damaged. The final result must be equal,
bit by bit, to that of a training run without interruption.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from typing import List, Optional

from odd_lines import ROOT, odd_lines

from transformer.runtime import cli


def translate_odd_lines(logdir: str, count: int, seed: int) -> int:
    """Translate odd lines; return how many were lost (negative: too many came out)."""
    lines = b"".join(line + b"\n" for line in odd_lines(count, seed))
    script = os.path.join(ROOT, "scripts", "translate.py")
    found = subprocess.run(
        [sys.executable, script, "--logdir", logdir],
        input=lines,
        stdout=subprocess.PIPE,
    )
    if found.returncode:
        raise ValueError(
            f"translate.py: found exit status {found.returncode}, wanted 0"
        )
    written = found.stdout.count(b"\n")
    print(f"lines: {count:,} in, {written:,} out, lost: {count - written}")
    return count - written


def run(args: argparse.Namespace) -> int:
    """Do all cycles and translations; return the exit status, 1 for a difference."""
    cli.start_tensorflow(args.verbose)
    from cycles import Soak

    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(folder, args.seed)
        soak.prepare()
        soak.run(args.cycles)
        soak.report()
        lost = args.lines and translate_odd_lines(soak.wanted, args.lines, args.seed)
    return 1 if soak.mismatches or lost else 0


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line."""
    parser = cli.make_parser("soak.py", __doc__)
    for name, default, text in (
        ("cycles", 200, "how many times a training run is ended"),
        ("lines", 100000, "how many odd lines are translated"),
        ("seed", 1, "chooses the faults and the lines"),
    ):
        parser.add_argument(
            f"--{name}",
            type=int,
            default=default,
            metavar="INT",
            help=f"{text} [{default}]",
        )
    cli.main(parser, run, argv)


if __name__ == "__main__":
    main()
