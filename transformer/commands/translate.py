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
translates each sentence by itself, in some 300 languages with sentencex (the extra
`sentences`), in German and English without it.

Several log directories translate together: their probabilities are averaged.

With --engine ctranslate2, the first answer takes half a second instead of five: see
docs/serving.md.

Soft hyphens and marks of direction, which only change how a text is displayed, are
removed. Odd lines (empty, not UTF-8, truncated, ...) are counted, and reported in one
line on stderr, and so are translations that are as long as --max_extra_length allows:
they may end in mid-sentence.
"""

import argparse
import contextlib
import dataclasses
import functools
import importlib
import itertools
import sys
from typing import (
    IO,
    Any,
    Callable,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
)

from transformer import hparams
from transformer.alignment import default_head, format_pairs
from transformer.commands import cli
from transformer.commands.terminal import command_name
from transformer.engines import AnyTranslator, open_translator
from transformer.exports.ctranslate2 import ENGINES, QUANTIZATIONS, TENSORFLOW
from transformer.runtime.errors import missing_package
from transformer.runtime.progress import escape_control
from transformer.text import sentences
from transformer.text.data_folder import read_languages
from transformer.text.lines import TolerantReader, read_lines
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


def add_engine(parser: cli.Parser) -> None:
    """Add `--engine` and `--quantization` for a command that translates."""
    parser.add_argument(
        "--engine",
        default=TENSORFLOW,
        choices=ENGINES,
        help="ctranslate2 is faster: see docs/serving.md [tensorflow]",
    )
    parser.add_argument(
        "--quantization",
        default="float32",
        choices=QUANTIZATIONS,
        help="for ctranslate2: int8 is smaller, but slightly less precise [float32]",
    )


class Columns(NamedTuple):
    """What is written beside the text of a translation."""

    numbers: bool = False  # of the lines
    scores: bool = False
    alignments: bool = False  # word pairs


def translate_sentences(
    translator: AnyTranslator, lines: Sequence[str], languages: Sequence[str] = ("", "")
) -> List[List[Translation]]:
    """Translate lines sentence by sentence; the result has texts, but no scores.

    Args:
      translator: the translator.
      lines: the lines.
      languages: of source and target; "" if they are unknown.
    """
    split_lines = [
        # A space for any white space: a translation stays on one line.
        [(sentence, " " * bool(space)) for sentence, space in pairs] or [("", "")]
        for pairs in (sentences.split(line.strip(), languages[0]) for line in lines)
    ]
    translations = iter(
        translator.translate(
            [sentence for pairs in split_lines for sentence, _ in pairs]
        )
    )
    results = []
    for pairs in split_lines:
        parts = [next(translations)[0] for _ in pairs]
        text = sentences.join([part.text for part in parts], pairs, *languages)
        is_truncated = any(part.is_truncated for part in parts)
        results.append([Translation(text, 0.0, is_truncated=is_truncated)])
    return results


def translate_chunks(
    translate: Callable,
    lines: Iterator[str],
    chunk_size: int,
    prefixes: Optional[Iterator[str]] = None,
) -> Iterator[List[List[Translation]]]:
    """Read and translate one chunk of lines at a time.

    Args:
      translate: function of lines and, with `prefixes`, of the prefixes.
      lines: the lines.
      chunk_size: the number of lines in a chunk.
      prefixes: the beginning of the translation of each line; None: no prefixes.

    Yields:
      The n best translations of each line in a chunk.

    Raises:
      ValueError: the numbers of lines and prefixes differ.
    """
    while True:
        chunk = list(itertools.islice(lines, chunk_size))
        if prefixes is None:
            arguments = [chunk]
        else:
            arguments = [chunk, list(itertools.islice(prefixes, len(chunk) or 1))]
            if len(arguments[1]) != len(chunk):
                raise ValueError(
                    "--prefix_file: expected a line for each line to translate, got a "
                    "different number of lines; an empty line gives no prefix"
                )
        if not chunk:
            return
        yield translate(*arguments)


def format_rows(
    n_best: Sequence[Translation], line_number: int, columns: Columns
) -> str:
    """Write the translations of a line as text, one row each."""
    text = ""
    for translation in n_best:
        row = [str(line_number)] if columns.numbers else []
        row.append(translation.text)
        if columns.scores:
            row.append(f"{translation.score:.4f}")
        if columns.alignments:
            row.append(format_pairs(translation.alignment))
        text += " ||| ".join(row) + "\n"
    return text


def write_translations(
    chunks: Iterable[List[List[Translation]]], output: IO[bytes], columns: Columns
) -> None:
    """Write translations, one chunk at a time.

    On a terminal, control characters are escaped; a file or a pipe gets every byte.
    """
    counter = itertools.count()
    for chunk in chunks:
        for n_best in chunk:
            text = format_rows(n_best, next(counter), columns)
            if output.isatty():
                rows = text.split("\n")[:-1]
                text = "".join(escape_control(row) + "\n" for row in rows)
            output.write(text.encode("utf-8"))
        output.flush()


def parser() -> cli.Parser:
    """Return the parser of the command line."""
    parser = cli.make_parser("translate", __doc__)
    cli.add_logdir(parser, "their probabilities are averaged")
    cli.add_checkpoint(parser)
    cli.add_number(
        parser,
        "n_best",
        1,
        "translations per line, with their scores; fewer if the search finds fewer",
    )
    parser.add_argument(
        "--prefix_file",
        type=cli.path,
        metavar="FILE",
        help="what each translation begins with, in whole words, one line per line of "
        "input",
    )
    parser.add_argument(
        "--split",
        action="store_true",
        help="translate each sentence of a line by itself; not with --n_best, "
        "--prefix_file, --scores or --alignments",
    )
    parser.add_argument(
        "--scores", action="store_true", help="also print the score of each translation"
    )
    parser.add_argument(
        "--alignments", action="store_true", help="also print the word pairs: 0-0 2-1"
    )
    parser.add_argument(
        "--stream",
        action="store_true",
        help="translate each line as soon as it is read, as at a terminal",
    )
    add_engine(parser)
    cli.add_settings(parser, hparams.DECODING)
    return parser


def refuse_split(args: argparse.Namespace) -> None:
    """Raise ValueError if `--split` stands with a flag for single translations."""
    is_given = {
        "--n_best": args.n_best > 1,
        "--prefix_file": args.prefix_file,
        "--scores": args.scores,
        "--alignments": args.alignments,
    }
    for flag, is_so in is_given.items():
        if args.split and is_so:
            raise ValueError(
                f"expected --split or {flag}, got both: it belongs to one translation, "
                "but a line with several sentences has several; leave one out"
            )


def warn_of_simple_rules(warn: Callable[[str], None]) -> None:
    """Warn if sentencex, which knows the sentences of many languages, is missing."""
    if sentences.sentencex is None:
        warn(
            f"{missing_package('sentencex', 'sentences')}; sentences are split by "
            "simple rules for German and English"
        )


def warn_of_default_head(translator: Any, warn: Callable[[str], None]) -> None:
    """Warn if no attention head was chosen to align words."""
    if translator.read_chosen_head() is None:
        head = default_head(translator.hp.decoder_blocks)
        warn(
            f"--alignments: no head was chosen for {translator.checkpoints[0]}, using "
            f"{head}; {command_name('align')} chooses one from gold alignments"
        )


def run(args: argparse.Namespace) -> None:
    """Translate standard input to standard output."""
    refuse_split(args)
    is_terminal = sys.stdin.isatty()
    stdin = sys.stdin.buffer
    models = hparams.load_each(args.logdir, cli.read_settings(args, hparams.FIELDS))
    reader = TolerantReader()
    prefixes = iter(list(read_lines(args.prefix_file))) if args.prefix_file else None
    by_line = is_terminal or args.stream
    if by_line:
        hp, logdir = models[0]
        models[0] = (dataclasses.replace(hp, decode_batch_size=1), logdir)
    lines = reader.read(ask(stdin) if is_terminal else stdin)
    with open_translator(
        models,
        args.checkpoint,
        args.n_best,
        args.engine,
        args.quantization,
        args.warn,
        needs={"--prefix_file": prefixes is not None, "--alignments": args.alignments},
        start_tensorflow=functools.partial(cli.start_tensorflow, args.verbose),
    ) as translator:
        translate: Callable = translator.translate
        if args.split:
            warn_of_simple_rules(args.warn)
            translate = functools.partial(
                translate_sentences,
                translator,
                languages=read_languages(models[0][0].data) or ("", ""),
            )
        if args.alignments:
            warn_of_default_head(translator, args.warn)
            translate = functools.partial(translate, alignments=True)
        write_translations(
            translate_chunks(translate, lines, 1 if by_line else CHUNK, prefixes),
            sys.stdout.buffer,
            Columns(
                numbers=args.n_best > 1,
                scores=args.scores or args.n_best > 1,
                alignments=args.alignments,
            ),
        )
    whose = " (of the sentences)" if args.split else ""
    report = reader.report(
        {name + whose: count for name, count in translator.unusual_lines.items()}
    )
    if report:
        args.warn(report)
