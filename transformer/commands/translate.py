"""Translate standard input: one line in, one line out, whatever the line contains.

    transformer-tf translate --logdir logs/sample < test.de > test.en
    transformer-tf translate --logdir logs/sample     # at a terminal: line by line
    transformer-tf translate --logdir logs/sample --stream    # on a pipe, too
    transformer-tf translate --logdir logs/sample --prefix_file begun.en < test.de
    transformer-tf translate --logdir logs/sample logs/other < test.de

    transformer-tf translate --logdir logs/sample --scores --alignments < test.de

--scores and --alignments add columns to each translation, separated by " ||| ": its
score, and the pairs of words that correspond, source-target, counted from 0, such as
0-0 2-1. transformer-tf align chooses the attention from which the pairs are taken.

A model that was trained on sentences loses the second of two in a line: --split
translates each sentence by itself.

Several log directories translate together: their probabilities are averaged.

With --engine ctranslate2, the first answer takes half a second instead of five: see
docs/serving.md.

Odd lines (empty, not UTF-8, truncated, ...) are counted, and reported in one line on
stderr.
"""

import contextlib
import dataclasses
import importlib
import itertools
import sys
from typing import IO, Any, Dict, Iterator, List, Optional, Sequence

from transformer import hparams
from transformer.alignment import default_head, written
from transformer.commands import cli
from transformer.commands.terminal import command_name
from transformer.exports.ctranslate2 import (
    CTRANSLATE2,
    QUANTIZATIONS,
    FastTranslator,
    add_engine,
    find_exported,
    usable,
)
from transformer.runtime.progress import escape_control
from transformer.text.lines import TolerantReader, read_lines
from transformer.text.sentences import split
from transformer.text.translations import Translation

CHUNK = 2000  # lines read before they are translated, sorted by length


def ask(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of each line that a user types, after a prompt.

    If the answers also go to the terminal, lines can be edited and recalled.
    """
    edits = sys.stdout.isatty()
    while True:
        if not edits:
            sys.stderr.write("> ")
            sys.stderr.flush()
        line = read_edited() if edits else stream.readline()
        if not line:
            sys.stderr.write("\n")  # leave the line of the last prompt
            return
        yield line


def read_edited() -> bytes:
    """Return a line read by `input`, with readline if Python has it."""
    with contextlib.suppress(ImportError):
        importlib.import_module("readline")
    stdin: Any = sys.stdin  # a TextIOWrapper
    stdin.reconfigure(errors="surrogateescape")
    try:
        return input("> ").encode("utf-8", "surrogateescape") + b"\n"
    except EOFError:
        return b""


def by_sentence(translator, lines: Sequence[str]) -> List[List[Translation]]:
    """Translate lines sentence by sentence; the result has texts, but no scores."""
    parts = [[sentence for sentence, _ in split(line)] or [""] for line in lines]
    found = iter(translator.translate(list(itertools.chain(*parts))))
    return [
        [Translation(" ".join(next(found)[0].text for _ in sentences), 0.0)]
        for sentences in parts
    ]


def write_translations(
    translator,
    lines: Iterator[str],
    output: IO[bytes],
    chunk_size: int = CHUNK,
    prefixes: Optional[Iterator[str]] = None,
    numbers: bool = False,
    scores: bool = False,
    alignments: bool = False,
    sentences: bool = False,
) -> None:
    """Write the translations of each of `lines`, one chunk at a time.

    On a terminal, control characters are escaped; a file or a pipe gets every byte. The
    translation of each line begins with the corresponding line of `prefixes`, if given.
    Columns besides the text: `numbers` of lines, `scores`, and `alignments`. With
    `sentences`, lines are translated sentence by sentence.
    """
    counter = itertools.count()
    more: Dict[str, Any] = {"alignments": True} if alignments else {}
    while True:
        chunk = list(itertools.islice(lines, chunk_size))
        if prefixes is not None:
            more["prefix"] = list(itertools.islice(prefixes, len(chunk) or 1))
            if len(more["prefix"]) != len(chunk):
                raise ValueError(
                    "--prefix_file: expected a line for each line to translate, got a "
                    "different number of lines; an empty line gives no prefix"
                )
        if not chunk:
            return
        if sentences:
            translations = by_sentence(translator, chunk)
        else:
            translations = translator.translate(chunk, **more)
        for n_best in translations:
            number = next(counter)
            text = ""
            for each in n_best:
                row = [str(number)] if numbers else []
                row.append(each.text)
                if scores:
                    row.append(f"{each.score:.4f}")
                if alignments:
                    row.append(written(each.alignment))
                text += " ||| ".join(row) + "\n"
            if output.isatty():
                text = "".join(
                    escape_control(line) + "\n" for line in text.split("\n")[:-1]
                )
            output.write(text.encode("utf-8"))
        output.flush()


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser("translate", __doc__)
    cli.add_logdir(made, "their probabilities are averaged")
    cli.add_checkpoint(made)
    cli.add_number(
        made,
        "n_best",
        1,
        "translations per line, with their scores; fewer if the search finds fewer",
    )
    made.add_argument(
        "--prefix_file",
        type=cli.path,
        metavar="FILE",
        help="what each translation begins with, in whole words, one line per line of "
        "input",
    )
    made.add_argument(
        "--split",
        action="store_true",
        help="translate each sentence of a line by itself; not with --n_best, "
        "--prefix_file, --scores or --alignments",
    )
    made.add_argument(
        "--scores", action="store_true", help="also print the score of each translation"
    )
    made.add_argument(
        "--alignments", action="store_true", help="also print the word pairs: 0-0 2-1"
    )
    made.add_argument(
        "--stream",
        action="store_true",
        help="translate each line as soon as it is read, as at a terminal",
    )
    add_engine(made)
    cli.add_settings(made, hparams.DECODING)
    return made


def opened(args, hp, logdir: str, others: list):
    """Return a translator that is ready to translate.

    TensorFlow is only imported if it translates, or if an export must be made.
    """
    needs = {
        "ensembles": bool(others),
        "--prefix_file": bool(args.prefix_file),
        "--alignments": args.alignments,
    }
    engine = usable(args.engine, args.quantization, hp, args.warn, needs)
    if engine == CTRANSLATE2:
        found = find_exported(logdir, args.checkpoint, args.quantization)
        if found:
            return FastTranslator(found[1], hp, args.n_best)
    cli.start_tensorflow(args.verbose)
    from transformer.translator import Translator  # needs TensorFlow: seconds

    translator = Translator(
        hp,
        logdir,
        args.n_best,
        others=others,
        engine=engine,
        quantization=args.quantization if engine == CTRANSLATE2 else QUANTIZATIONS[0],
        warn=args.warn,
    )
    checkpoint = translator.restore_found(args.checkpoint)
    if args.alignments and translator.chosen_head() is None:
        args.warn(
            f"--alignments: no head was chosen for {checkpoint}, using "
            f"{default_head(hp.decoder_blocks)}; {command_name('align')} chooses one "
            "from known alignments"
        )
    return translator


def run(args) -> None:
    """Translate standard input to standard output."""
    by_translation = {
        "--n_best": args.n_best > 1,
        "--prefix_file": args.prefix_file,
        "--scores": args.scores,
        "--alignments": args.alignments,
    }
    for flag, is_given in by_translation.items():
        if args.split and is_given:
            raise ValueError(
                f"expected --split or {flag}, got both: it belongs to one translation, "
                "but a line with several sentences has several; leave one out"
            )
    typed = sys.stdin.isatty()
    stdin = sys.stdin.buffer
    (hp, logdir), *others = hparams.load_each(
        args.logdir, cli.typed_settings(args, hparams.FIELDS)
    )
    reader = TolerantReader()
    prefixes = iter(list(read_lines(args.prefix_file))) if args.prefix_file else None
    by_line = typed or args.stream
    if by_line:
        hp = dataclasses.replace(hp, decode_batch_size=1)
    lines = reader.read(ask(stdin) if typed else stdin)
    with opened(args, hp, logdir, others) as translator:
        write_translations(
            translator,
            lines,
            sys.stdout.buffer,
            chunk_size=1 if by_line else CHUNK,
            prefixes=prefixes,
            numbers=args.n_best > 1,
            scores=args.scores or args.n_best > 1,
            alignments=args.alignments,
            sentences=args.split,
        )
    whose = " (of the sentences)" if args.split else ""
    report = reader.report(
        {name + whose: number for name, number in translator.unusual_lines.items()}
    )
    if report:
        args.warn(report)
