"""Estimate how fast several workers train, from sizes and rates.

    python tools/bench/scaling.py
    python tools/bench/scaling.py --link 230 --network 24

A worker is a process with its own device. An update with a fixed batch takes

    compute   batch * FLOP per target token / (workers * TFLOP/s * share)
    exchange  2 (n - 1) / n * 4 P bytes in and out of each of n workers, in a ring, of P
              parameters: at the rate of the link within a machine, or, where there are
              more workers than a machine has devices, at that of the network

one after the other. The exchange for the last layers overlaps the backward pass of the
first layers, so at best, an update takes the longer of the two times. The default rates
were measured for TensorFlow's ring over gRPC on one machine: see docs/scaling.md.
"""

import argparse
import math
from typing import Dict, List, NamedTuple, Optional

from transformer import hparams
from transformer.commands import cli

PROG = "scaling.py"
VOCAB_SIZE = 37000  # section 5.1
LENGTH = 27  # pieces in a sentence, including EOS


class Machines(NamedTuple):
    """The machines that compute."""

    tflops: float  # peak of a device, in TFLOP/s
    share: float  # the share of the peak that training reaches on one device
    link: float  # rate of an exchange within a machine, in GB/s
    network: float  # rate of an exchange between machines, in GB/s
    devices: int  # per machine


A100 = Machines(tflops=312.0, share=0.33, link=0.25, network=0.25, devices=8)


def flop_per_token(sizes: Dict[str, int], length: int) -> float:
    """Return the FLOP that training spends on one target token and one source token.

    This counts the matrix products: the forward pass, and twice as much for the
    backward pass.

    Args:
      sizes: the settings of the model.
      length: the number of pieces in every sentence of both languages.
    """
    D, F, num_blocks = (sizes[name] for name in ("d_model", "d_ff", "num_blocks"))
    block_pair = (
        12 * D * D + 4 * D * F + 6 * length * D
    )  # projections, inner, attention
    return 6.0 * (num_blocks * block_pair + D * VOCAB_SIZE)


def update_seconds(
    alone: float, parameters: int, workers: int, machines: Machines
) -> Dict[str, float]:
    """Return the seconds that an update spends on each part, by name.

    Args:
      alone: the seconds for an update on one device.
      parameters: the number of parameters of the model.
      workers: the number of workers on all machines together.
      machines: the machines.
    """
    rate = machines.link if workers <= machines.devices else machines.network
    return {
        "compute": alone / workers,
        "exchange": bytes_sent(parameters, workers) / (rate * 1e9),
    }


def bytes_sent(parameters: int, workers: int) -> float:
    """Return the bytes that go in and out of each worker per update in a ring."""
    return 8.0 * (workers - 1) / workers * parameters


def count_parameters(sizes: Dict[str, int]) -> int:
    """Return the approximate number of parameters in a model of these sizes."""
    hp = hparams.HParams(**sizes)
    D = hp.d_model
    return hp.num_blocks * D * (12 * D + 4 * hp.d_ff) + VOCAB_SIZE * D


def format_table(machines: Machines, counts: List[int]) -> List[str]:
    """Return lines of a Markdown table: a row for each model and number of workers."""
    from work import SIZES  # needs TensorFlow

    rate = machines.tflops * 1e12 * machines.share
    rows = [
        "| model | workers | compute, ms | exchange, ms | target tokens/s | times one "
        "| at best |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in ("base", "big"):
        sizes = SIZES[name]
        alone = sizes["batch_tokens"] * flop_per_token(sizes, LENGTH) / rate
        parameters = count_parameters(sizes)
        for workers in counts:
            parts = update_seconds(alone, parameters, workers, machines)
            seconds = sum(parts.values())
            cells = [f"{1000 * part:.1f}" for part in parts.values()]
            cells += [
                f"{sizes['batch_tokens'] / seconds:,.0f}",
                f"{alone / seconds:.2g}",
                f"{alone / max(parts.values()):.2g}",
            ]
            rows.append("| " + " | ".join([name, str(workers), *cells]) + " |")
    return rows


def parser() -> cli.Parser:
    """Return the parser of the command's flags."""
    parser = cli.make_parser(PROG, __doc__)
    for name, text in (
        ("tflops", "peak of a device, in TFLOP/s; that of an A100 is in bfloat16"),
        ("share", "of the peak that one device reaches"),
        ("link", "GB/s of an exchange within a machine"),
        ("network", "GB/s of an exchange between machines"),
        ("devices", "of a machine"),
    ):
        default = getattr(A100, name)
        parser.add_argument(
            f"--{name}",
            type=type(default),
            default=default,
            metavar=type(default).__name__.upper(),
            help=f"{text} [{default:g}]",
        )
    return parser


def run(args: argparse.Namespace) -> None:
    """Print what a token costs, what an update sends, and the table."""
    values = (args.tflops, args.share, args.link, args.network, args.devices)
    for name, value in zip(Machines._fields, values):
        if not value > 0 or not math.isfinite(value):
            raise ValueError(f"--{name}: expected a number above 0, got {value}")
    machines = Machines(*values)
    cli.start_tensorflow(args.verbose)
    from work import SIZES

    for name in ("base", "big"):
        sizes = SIZES[name]
        print(
            f"{name}: {flop_per_token(sizes, LENGTH) / 1e9:.2f} GFLOP a target token, "
            f"{4 * count_parameters(sizes) / 1e6:,.0f} MB of gradients an update"
        )
    print("", *format_table(machines, [1, 2, 4, 8, 16, 64]), sep="\n")


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line."""
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
