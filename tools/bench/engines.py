"""Measure the engines of a model in one table: start, speed, size and BLEU.

    python tools/bench/engines.py --logdir logs/sample

Start: from the command to the translation of a first line, with an existing export. One
sentence: each line alone. Together: all lines in one call. Size: the size of what the
engine reads. Each time is the best of --rounds, on the test split.
"""

import argparse
import os
import subprocess
import sys
import time

from transformer import hparams
from transformer.commands import cli
from transformer.commands.terminal import print_lines
from transformer.exports.ctranslate2 import (
    find_exported,
    import_ctranslate2,
    open_exported,
)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ENGINES = [
    ("tensorflow", "float32"),
    ("ctranslate2", "float32"),
    ("ctranslate2", "int8"),
]
HEAD = "| engine | start, s | one sentence, ms | together, sentences/s | MB | BLEU |"


def measure(rounds, function):
    """Return (the shortest time in seconds of a function, its result)."""
    shortest = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        result = function()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest, result


def translate_in_new_process(logdir, engine, quantization, line):
    """Translate a line in a new process."""
    program = [sys.executable, os.path.join(ROOT, "scripts", "translate.py")]
    flags = ["--logdir", logdir, "--engine", engine, "--quantization", quantization]
    subprocess.run(
        [*program, *flags], input=line.encode(), check=True, stdout=subprocess.DEVNULL
    )


def make_row(args, hp, text, engine, quantization):
    """Measure an engine, and return its table row."""
    from transformer.evaluation import score
    from transformer.translator import Translator

    options = {"engine": engine, "quantization": quantization}
    with Translator.for_settings(
        hp, args.logdir, warn=args.warn, **options
    ) as translator:
        checkpoint = translator.find_and_restore()  # makes the export
    size = os.path.getsize(checkpoint + ".data-00000-of-00001")
    if engine == "tensorflow":
        translator = Translator.for_settings(hp, args.logdir)
        translator.find_and_restore()
    else:
        translator = open_exported(args.logdir, hp, "best", 1, quantization)
        _, folder = find_exported(args.logdir, "best", quantization)
        size = os.path.getsize(os.path.join(folder, "model.bin"))
    lines = text.sources[: args.lines]
    rounds = args.rounds
    with translator:
        translator.translate(lines[:2])
        alone, _ = measure(
            rounds, lambda: [translator.translate([line]) for line in lines]
        )
        together, n_best = measure(rounds, lambda: translator.translate(text.sources))
    first_line = text.sources[0] + "\n"
    start, _ = measure(
        rounds,
        lambda: translate_in_new_process(args.logdir, engine, quantization, first_line),
    )
    bleu = score([best.text for best, *_ in n_best], text.references).bleu
    cells = [
        engine if quantization == "float32" else f"{engine}, {quantization}",
        f"{start:.1f}",
        f"{1000 * alone / len(lines):.1f}",
        f"{len(text.sources) / together:,.0f}",
        f"{size / 1e6:.1f}",
        f"{bleu:.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


def parser() -> cli.Parser:
    """Return the parser of the command's flags."""
    parser = cli.make_parser("engines.py", __doc__)
    cli.add_logdir(parser)
    cli.add_data(parser)
    cli.add_number(parser, "lines", 100, "translated alone")
    cli.add_number(parser, "rounds", 3, "of each measurement")
    return parser


def run(args: argparse.Namespace) -> None:
    """Print the table."""
    hp = hparams.load(args.logdir, cli.read_settings(args, hparams.FIELDS))
    import_ctranslate2()  # refused early
    cli.start_tensorflow(args.verbose)
    from transformer.text.data_folder import read_parallel

    text = read_parallel(hp.data, "test")
    print_lines(HEAD, "|---|---|---|---|---|---|")
    for engine, quantization in ENGINES:
        print_lines(make_row(args, hp, text, engine, quantization))


if __name__ == "__main__":
    cli.main(parser(), run)
