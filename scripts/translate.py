"""Translates standard input: one line in, one line out, whatever the line holds.

    python scripts/translate.py --logdir logs/sample < test.de > test.en

What was odd about the lines is counted, and told at the end in one line on stderr.
"""

import argparse
import dataclasses
import itertools
import sys

import tensorflow.compat.v1 as tf

import hparams
from eval import add_decoding_flags, find_checkpoint, load
from transformer.text.lines import Oddities
from transformer.translator import Translator

CHUNK = 2000  # lines read before they are translated, sorted by length


def ask(stream, prompt="> "):
    """The bytes of each line that somebody types, after a prompt."""
    while True:
        print(prompt, end="", file=sys.stderr, flush=True)
        line = stream.readline()
        if not line:
            print(file=sys.stderr)
            return
        yield line


def show(number, translations, n_best):
    """The output for one line; for an n-best list `number ||| text ||| score` lines."""
    if n_best == 1:
        return translations[0].text + "\n"
    return "".join(
        f"{number} ||| {each.text} ||| {each.score:.4f}\n" for each in translations
    )


def write_translations(translator, lines, output, n_best=1, chunk_size=CHUNK):
    """Writes what `show` makes of each of `lines`, a chunk of them at a time."""
    numbers = itertools.count()
    while True:
        chunk = list(itertools.islice(lines, chunk_size))
        if not chunk:
            return
        for translations in translator.translate(chunk):
            output.write(show(next(numbers), translations, n_best).encode("utf-8"))
        output.flush()


def run(args):
    typed, stdin = sys.stdin.isatty(), sys.stdin.buffer
    hp, oddities = load(args), Oddities()
    if typed:
        hp = dataclasses.replace(hp, decode_batch_size=1)
    lines = oddities.read(ask(stdin) if typed else stdin)
    with Translator(hp, args.logdir, args.n_best) as translator:
        translator.restore(find_checkpoint(args))
        write_translations(
            translator,
            lines,
            sys.stdout.buffer,
            args.n_best,
            chunk_size=1 if typed else CHUNK,
        )
    report = oddities.report(translator.oddities)
    if report:
        print(f"translate.py: {report}", file=sys.stderr)


def main(argv=None):
    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.ERROR)
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], allow_abbrev=False
    )
    add_decoding_flags(parser)
    parser.add_argument(
        "--n_best",
        "--n-best",
        type=int,
        default=1,
        metavar="INT",
        help="translations of each line, with their scores [1]",
    )
    args = hparams.parse_flags(parser, sys.argv[1:] if argv is None else argv)
    try:
        run(args)
    except (ValueError, OSError) as error:
        sys.exit(f"translate.py: {error}")


if __name__ == "__main__":
    main()
