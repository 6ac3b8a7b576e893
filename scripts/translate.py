"""Translate standard input: one line in, one line out, whatever the line contains.

    python scripts/translate.py --logdir logs/sample < test.de > test.en
    python scripts/translate.py --logdir logs/sample     # at a terminal: line by line

Odd lines (empty, not UTF-8, cut off, ...) are counted; one line on stderr reports them.
"""

import dataclasses
import itertools
import sys
from typing import IO, Iterator

import hparams
from transformer.runtime import cli
from transformer.text.lines import Oddities

PROG = "translate.py"
CHUNK = 2000  # lines read before they are translated, sorted by length


def ask(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of each line that a user types, after a prompt."""
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        line = stream.readline()
        if not line:
            print(file=sys.stderr)
            return
        yield line


def show(number: int, translations: list, n_best: int) -> str:
    """Return the output for a line; of n best, lines `number ||| text ||| score`."""
    if n_best == 1:
        return translations[0].text + "\n"
    return "".join(
        f"{number} ||| {each.text} ||| {each.score:.4f}\n" for each in translations
    )


def write_translations(
    translator,
    lines: Iterator[str],
    output: IO[bytes],
    n_best: int = 1,
    chunk_size: int = CHUNK,
) -> None:
    """Write what `show` returns for each of `lines`, a chunk of them at a time."""
    numbers = itertools.count()
    while True:
        chunk = list(itertools.islice(lines, chunk_size))
        if not chunk:
            return
        for translations in translator.translate(chunk):
            output.write(show(next(numbers), translations, n_best).encode("utf-8"))
        output.flush()


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser(PROG, __doc__)
    cli.add_checkpoint(made)
    made.add_argument(
        "--n_best",
        type=int,
        default=1,
        metavar="INT",
        help="translations of each line, with their scores [1]",
    )
    cli.add_settings(made, hparams.DECODING)
    return made


def run(args) -> None:
    """Translate standard input to standard output."""
    typed, stdin = sys.stdin.isatty(), sys.stdin.buffer
    hp, oddities = (
        hparams.load(args.logdir, cli.given(args, hparams.FIELDS)),
        Oddities(),
    )
    if typed:
        hp = dataclasses.replace(hp, decode_batch_size=1)
    cli.start_tensorflow(args.verbose)
    from transformer.translator import Translator  # needs TensorFlow: seconds

    warn = cli.warner(PROG)
    lines = oddities.read(ask(stdin) if typed else stdin)
    with Translator(hp, args.logdir, args.n_best) as translator:
        translator.restore_found(args.checkpoint, warn)
        chunk_size = 1 if typed else CHUNK
        write_translations(
            translator, lines, sys.stdout.buffer, args.n_best, chunk_size
        )
    report = oddities.report(translator.oddities)
    if report:
        warn(report)


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
