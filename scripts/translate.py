"""Translate standard input: one line in, one line out, whatever the line contains.

    python scripts/translate.py --logdir logs/sample < test.de > test.en
    python scripts/translate.py --logdir logs/sample     # at a terminal: line by line
    python scripts/translate.py --logdir logs/sample --prefix_file begun.en < test.de
    python scripts/translate.py --logdir logs/sample logs/other < test.de

    python scripts/translate.py --logdir logs/sample --scores --alignments < test.de

--scores and --alignments put columns behind each translation, after " ||| ": its score,
and the pairs of words that correspond, source-target from 0, such as 0-0 2-1. Which
attention they are taken from is chosen by align.py.

Several log directories translate together: their probabilities are averaged.

Odd lines (empty, not UTF-8, cut off, ...) are counted; one line on stderr reports them.
"""

import contextlib
import dataclasses
import importlib
import itertools
import sys
from typing import IO, Any, Iterator, List, NamedTuple, Optional

import hparams
from transformer.runtime import cli
from transformer.runtime.terminal import shown
from transformer.text.lines import Oddities, read_lines

PROG = "translate.py"
CHUNK = 2000  # lines read before they are translated, sorted by length


def ask(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of each line that a user types, after a prompt.

    Where the answers go to the terminal too, lines can be edited and recalled.
    """
    read = read_edited if sys.stdout.isatty() else read_plain
    return itertools.chain(iter(lambda: read(stream), b""), end_the_line())


def read_plain(stream: IO[bytes]) -> bytes:
    """Return a line behind a prompt on stderr; nothing at the end."""
    print("> ", end="", file=sys.stderr, flush=True)
    return stream.readline()


def read_edited(stream: IO[bytes]) -> bytes:
    """Return a line that `input` read, with readline where Python has it."""
    with contextlib.suppress(ImportError):
        importlib.import_module("readline")
    sys.stdin.reconfigure(errors="surrogateescape")
    try:
        return input("> ").encode("utf-8", "surrogateescape") + b"\n"
    except EOFError:
        return b""


def end_the_line() -> Iterator[bytes]:
    """Yield nothing; leave the line of the last prompt."""
    print(file=sys.stderr)
    yield from ()


class Columns(NamedTuple):
    """What stands in a line of the output, beside the text."""

    n_best: int = 1  # of more than one: the number of the line, and the score
    scores: bool = False
    head: Any = None  # whose attention gives the pairs of words; None: no pairs


ONLY_TEXT = Columns()


def pairs_of(translator, chunk: List[str], translations: List[list], head):
    """Return the pairs of words of each translation of each line, as text."""
    from transformer.seeing import alignment

    sources = [line for line, n_best in zip(chunk, translations) for _ in n_best]
    targets = [each.text for n_best in translations for each in n_best]
    made = dict(alignment.align(translator, sources, targets, [head]))
    texts = (alignment.written(made[i][0]) for i in range(len(targets)))
    return [[next(texts) for _ in n_best] for n_best in translations]


def show(number: int, n_best: list, columns: Columns, pairs: list = ()) -> str:
    """Return the output for a line of input.

    Args:
      number: of the line.
      n_best: its translations, best first.
      columns: what is wanted.
      pairs: of each translation, as text, where they are wanted.
    """
    lines = []
    for place, each in enumerate(n_best):
        row = [str(number)] if columns.n_best > 1 else []
        row.append(each.text)
        if columns.scores or columns.n_best > 1:
            row.append(f"{each.score:.4f}")
        row += pairs[place : place + 1]
        lines.append(" ||| ".join(row) + "\n")
    return "".join(lines)


def write_translations(
    translator,
    lines: Iterator[str],
    output: IO[bytes],
    columns: Columns = ONLY_TEXT,
    chunk_size: int = CHUNK,
    prefixes: Optional[Iterator[str]] = None,
) -> None:
    """Write what `show` returns for each of `lines`, a chunk of them at a time.

    A terminal gets control characters escaped; a file or a pipe gets every byte. The
    translation of each line begins with its line of `prefixes`, if there are any.
    """
    numbers = itertools.count()
    while True:
        chunk = list(itertools.islice(lines, chunk_size))
        if not chunk:
            refuse_more(prefixes)
            return
        given = [] if prefixes is None else [prefixes_of(chunk, prefixes)]
        translations, pairs = translator.translate(chunk, *given), [()] * len(chunk)
        if columns.head is not None:
            pairs = pairs_of(translator, chunk, translations, columns.head)
        for n_best, of_each in zip(translations, pairs):
            text = show(next(numbers), n_best, columns, of_each)
            if output.isatty():
                text = "".join(shown(line) + "\n" for line in text.split("\n")[:-1])
            output.write(text.encode("utf-8"))
        output.flush()


def prefixes_of(chunk: list, prefixes: Iterator[str]) -> list:
    """Return as many prefixes as there are lines.

    Raises:
      ValueError: there are fewer.
    """
    given = list(itertools.islice(prefixes, len(chunk)))
    if len(given) < len(chunk):
        raise ValueError(
            "--prefix_file: found fewer lines than there are to translate, wanted as "
            "many; an empty line gives no prefix"
        )
    return given


def refuse_more(prefixes: Optional[Iterator[str]]) -> None:
    """Raise ValueError where prefixes are left after the last line."""
    if prefixes is not None and next(prefixes, None) is not None:
        raise ValueError(
            "--prefix_file: found more lines than there were to translate, wanted as "
            "many; which prefix belongs to which line is not known"
        )


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser(PROG, __doc__)
    cli.add_models(made)
    made.add_argument(
        "--n_best",
        type=int,
        default=1,
        metavar="INT",
        help="translations of each line, with their scores [1]",
    )
    made.add_argument(
        "--prefix_file",
        metavar="FILE",
        help="what each translation begins with, a line for each line",
    )
    made.add_argument(
        "--scores", action="store_true", help="the score of each translation too"
    )
    made.add_argument(
        "--alignments", action="store_true", help="the pairs of words too: 0-0 2-1"
    )
    cli.add_settings(made, hparams.DECODING)
    return made


def run(args) -> None:
    """Translate standard input to standard output."""
    typed, stdin = sys.stdin.isatty(), sys.stdin.buffer
    (hp, logdir), *others = hparams.load_each(
        args.logdir, cli.given(args, hparams.FIELDS)
    )
    oddities = Oddities()
    prefixes = iter(list(read_lines(args.prefix_file))) if args.prefix_file else None
    if typed:
        hp = dataclasses.replace(hp, decode_batch_size=1)
    cli.start_tensorflow(args.verbose)
    from transformer.translator import Translator  # needs TensorFlow: seconds

    warn = cli.warner(PROG)
    lines = oddities.read(ask(stdin) if typed else stdin)
    with Translator(hp, logdir, args.n_best, others=others) as translator:
        checkpoint = translator.restore_found(args.checkpoint, warn)
        head = head_of(translator, checkpoint, warn) if args.alignments else None
        columns = Columns(args.n_best, args.scores, head)
        chunk_size = 1 if typed else CHUNK
        write_translations(
            translator, lines, sys.stdout.buffer, columns, chunk_size, prefixes
        )
    report = oddities.report(translator.oddities)
    if report:
        warn(report)


def head_of(translator, checkpoint: str, warn):
    """Return the head that align.py chose; otherwise the mean of a layer, and warn."""
    from transformer.seeing import alignment

    logdir, hp = translator.logdir, translator.hp
    head = alignment.read_choice(logdir, checkpoint, hp)
    if head is None:
        head = alignment.default_head(hp.num_blocks)
        warn(
            f"--alignments: found no choice of a head for {checkpoint}, so they are "
            f"of {head}; align.py chooses one by pairs that are known"
        )
    return head


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
