"""Translates standard input: one line in, one line out.

    python scripts/translate.py --logdir logs/sample < test.de > test.en
"""
import argparse
import itertools
import sys

import tensorflow.compat.v1 as tf

import hparams
from eval import add_decoding_flags, find_checkpoint, load
from transformer.translator import Translator

CHUNK = 2000  # lines read before they are translated, sorted by length


def read_lines(stream):
    """The lines of a byte stream as text; bytes that are not UTF-8 become U+FFFD."""
    for line in stream:
        yield line.decode("utf-8", errors="replace").rstrip("\n").rstrip("\r")


def ask(stream, prompt="> "):
    """The lines that somebody types, each after a prompt, until the input ends."""
    while True:
        print(prompt, end="", file=sys.stderr, flush=True)
        line = stream.readline()
        if not line:
            print(file=sys.stderr)
            return
        yield next(read_lines([line]))


def show(number, translations, n_best):
    """The output for one line; for an n-best list `number ||| text ||| score` lines."""
    if n_best == 1:
        return translations[0].text + "\n"
    return "".join(f"{number} ||| {each.text} ||| {each.score:.4f}\n"
                   for each in translations)


def run(args):
    typed = sys.stdin.isatty()
    lines = ask(sys.stdin.buffer) if typed else read_lines(sys.stdin.buffer)
    number = 0
    with Translator(load(args), args.logdir, args.n_best) as translator:
        translator.restore(find_checkpoint(args))
        while True:
            chunk = list(itertools.islice(lines, 1 if typed else CHUNK))
            if not chunk:
                return
            for translations in translator.translate(chunk):
                text = show(number, translations, args.n_best)
                sys.stdout.buffer.write(text.encode("utf-8"))
                number += 1
            sys.stdout.buffer.flush()


def main(argv=None):
    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     allow_abbrev=False)
    add_decoding_flags(parser)
    parser.add_argument("--n_best", "--n-best", type=int, default=1, metavar="INT",
                        help="translations of each line, with their scores [1]")
    args = hparams.parse_flags(parser, sys.argv[1:] if argv is None else argv)
    try:
        run(args)
    except (ValueError, OSError) as error:
        sys.exit(f"translate.py: {error}")


if __name__ == "__main__":
    main()
