"""Start the workers of a training run on this machine, one process per device.

    transformer-tf launch --workers 2 -- transformer-tf train --logdir logs/two

Each worker runs the command after `--`, with a `TF_CONFIG` that names free ports. If
this machine has GPUs, each worker gets its own GPU; otherwise, each gets an equal share
of the CPU cores. Each line of output begins with the worker's number; signals are
forwarded to all workers. When one worker ends, all end; the exit status is that of the
first worker that failed. With `--restarts`, a run that lost a worker starts again from
its last checkpoint.
"""

import argparse

from transformer.commands import cli
from transformer.runtime.errors import SettingsError
from transformer.workers.launch import run_workers


def parser() -> cli.Parser:
    """Make the parser of the command line."""
    parser = cli.make_parser("launch", __doc__)
    cli.add_number(parser, "workers", 2, "how many to start")
    cli.add_number(
        parser, "restarts", 0, "how many times to restart after losing a worker"
    )
    parser.add_argument("command", nargs="+", help="a Python program and its arguments")
    return parser


def run(args: argparse.Namespace) -> int:
    """Start the workers; return the exit status of the first one that failed."""
    for name, minimum in (("workers", 1), ("restarts", 0)):
        if getattr(args, name) < minimum:
            raise SettingsError(
                f"{name}: expected {minimum} or more, got {getattr(args, name)}"
            )
    return run_workers(args.command, args.workers, args.restarts, args.warn)
