"""Start the workers of a training run, one process per device.

    transformer-tf launch --workers 2 -- transformer-tf train --logdir logs/two
    transformer-tf launch --workers 8 --ray auto -- transformer-tf train --logdir logs/8

Each worker runs the command after `--`, with a `TF_CONFIG` that names free ports. If
this machine has GPUs, each worker gets its own GPU; otherwise, each gets an equal share
of the CPU cores. Each line of output begins with the worker's number. A signal goes to
worker 0, which saves a checkpoint. When one worker ends, all end; the exit status is
that of the first worker that failed. With `--restarts`, a run that lost a worker starts
again from its last checkpoint.

With `--ray`, the workers run on the machines of a Ray cluster, in folders that all of
them share: see docs/scaling.md.
"""

import argparse
import functools
from typing import Optional, Sequence

from transformer.commands import cli
from transformer.runtime.errors import SettingsError
from transformer.workers import ray_cluster
from transformer.workers.launch import python_arguments, run_workers, start_workers


def parser() -> cli.Parser:
    """Make the parser of the command line."""
    parser = cli.make_parser("launch", __doc__)
    cli.add_number(parser, "workers", 2, "how many to start")
    cli.add_number(
        parser, "restarts", 0, "how many times to restart after losing a worker"
    )
    cli.add_ray(parser)
    parser.add_argument("command", nargs="+", help="a Python program and its arguments")
    return parser


def run(args: argparse.Namespace) -> int:
    """Start the workers; return the exit status of the first one that failed."""
    for name, minimum in (("workers", 1), ("restarts", 0)):
        if getattr(args, name) < minimum:
            raise SettingsError(
                f"{name}: expected {minimum} or more, got {getattr(args, name)}"
            )
    if not args.ray:
        start = functools.partial(start_workers, args.command, args.workers)
        return run_workers(start, args.restarts, args.warn)
    python_arguments(list(args.command))  # refuses a program that is missing
    with ray_cluster.connect(args.ray, args.warn) as cluster:
        start = functools.partial(
            cluster.start, args.command, args.workers, find_logdir(args.command)
        )
        return run_workers(start, args.restarts, args.warn)


def find_logdir(command: Sequence[str]) -> Optional[str]:
    """Return the log directory that a command names, None if it names none."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--logdir")
    return finder.parse_known_args(command)[0].logdir
