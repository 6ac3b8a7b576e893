"""Estimate how fast several devices and machines train, from sizes alone.

    python tools/bench/scaling.py
    python tools/bench/scaling.py --tflops 125 --share 0.3 --link 150 --network 12.5

An update of a fixed batch takes

    compute   batch * FLOP per target token / (devices * TFLOP/s * share)
    link      4 (n - 1) (R + 1) P bytes through the first of the n devices of a machine,
              in R rounds: it sends the P parameters, and receives their gradients
    network   2 (M - 1) / M * 4 P bytes in and out of each of M machines, in a ring

one after the other: nothing is sent while something is computed.
"""

import argparse
import math
from typing import Dict, List, NamedTuple, Optional

import hparams
from transformer.runtime import cli

PROG = "scaling.py"
VOCAB_SIZE = 37000  # section 5.1
LENGTH = 27  # pieces of a sentence, with EOS


class Machines(NamedTuple):
    """What is computed on."""

    tflops: float  # peak of a device, in TFLOP/s
    share: float  # of the peak that training reaches on one device
    link: float  # between the devices of a machine, in GB/s
    network: float  # of a machine, in GB/s
    devices: int  # of a machine


A100 = Machines(tflops=312.0, share=0.33, link=300.0, network=25.0, devices=8)


def flop_of_token(sizes: Dict[str, int], length: int) -> float:
    """Return the FLOP that training spends on a target token and a source token.

    These are the matrix products: forward, and twice as much backward.

    Args:
      sizes: settings of the model.
      length: pieces of every sentence of both languages.
    """
    D, F, blocks = (sizes[name] for name in ("d_model", "d_ff", "num_blocks"))
    a_pair = 12 * D * D + 4 * D * F + 6 * length * D  # projections, inner, attention
    return 6.0 * (blocks * a_pair + D * VOCAB_SIZE)


def seconds_of_update(
    alone: float, parameters: int, devices: int, machines: Machines
) -> Dict[str, float]:
    """Return the seconds that an update spends on each part, by its name.

    Args:
      alone: seconds of an update on one device.
      parameters: how many the model has.
      devices: of all machines together.
      machines: what they are.
    """
    from transformer.shards import chosen_count  # needs TensorFlow

    of_one = min(devices, machines.devices)
    count = math.ceil(devices / machines.devices)
    rounds = math.ceil(chosen_count(0, devices) / devices)
    return {
        "compute": alone / devices,
        "link": 4.0 * (of_one - 1) * (rounds + 1) * parameters / (machines.link * 1e9),
        "network": sent(parameters, count) / (machines.network * 1e9),
    }


def sent(parameters: int, machines: int) -> float:
    """Return the bytes that go in and out of each machine in an update, by a ring."""
    return 8.0 * (machines - 1) / machines * parameters


def parameters_of(sizes: Dict[str, int]) -> int:
    """Return how many parameters a model of these sizes has, about."""
    from transformer.runtime import ram  # needs TensorFlow

    vocabulary = dict(source_vocab_size=VOCAB_SIZE, target_vocab_size=VOCAB_SIZE)
    return ram.parameters_of(hparams.HParams(**sizes, **vocabulary))


def table(machines: Machines, counts: List[int]) -> List[str]:
    """Return lines of Markdown: a row for each model and number of devices."""
    from work import SIZES  # needs TensorFlow

    rate = machines.tflops * 1e12 * machines.share
    rows = [
        "| model | devices | compute, ms | link, ms | network, ms | target tokens/s "
        "| times one |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in ("base", "big"):
        sizes = SIZES[name]
        alone = sizes["batch_tokens"] * flop_of_token(sizes, LENGTH) / rate
        parameters = parameters_of(sizes)
        for devices in counts:
            parts = seconds_of_update(alone, parameters, devices, machines)
            seconds = sum(parts.values())
            cells = [f"{1000 * part:.1f}" for part in parts.values()]
            cells += [
                f"{sizes['batch_tokens'] / seconds:,.0f}",
                f"{alone / seconds:.1f}",
            ]
            rows.append("| " + " | ".join([name, str(devices), *cells]) + " |")
    return rows


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's flags."""
    made = cli.make_parser(PROG, __doc__)
    for name, text in (
        ("tflops", "peak of a device, in TFLOP/s; that of an A100 is in bfloat16"),
        ("share", "of the peak that one device reaches"),
        ("link", "GB/s between the devices of a machine"),
        ("network", "GB/s of a machine"),
        ("devices", "of a machine"),
    ):
        default = getattr(A100, name)
        made.add_argument(
            f"--{name}",
            type=type(default),
            default=default,
            metavar=type(default).__name__.upper(),
            help=f"{text} [{default:g}]",
        )
    return made


def run(args: argparse.Namespace) -> None:
    """Print what a token costs, what an update sends, and the table."""
    given = (args.tflops, args.share, args.link, args.network, args.devices)
    for name, value in zip(Machines._fields, given):
        if not value > 0 or not math.isfinite(value):
            raise ValueError(f"--{name}: found {value}, wanted a number above 0")
    machines = Machines(*given)
    cli.start_tensorflow(args.verbose)
    from work import SIZES

    for name in ("base", "big"):
        sizes = SIZES[name]
        print(
            f"{name}: {flop_of_token(sizes, LENGTH) / 1e9:.2f} GFLOP a target token, "
            f"{4 * parameters_of(sizes) / 1e6:,.0f} MB of gradients an update"
        )
    print("", *table(machines, [1, 2, 4, 8, 16, 32, 64]), sep="\n")


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line."""
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
