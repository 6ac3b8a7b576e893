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

    transformer-tf translate --logdir logs/sample --split < letter.de > letter.en
    transformer-tf translate --logdir logs/sample --input letter.de > letter.en

A model that was trained on sentences loses the second of two in a line: --split
translates each sentence by itself, in some 300 languages with sentencex (the extra
`sentences`), in German and English without it.

Several log directories translate together: their probabilities are averaged.

A file of any size is translated in shards, by several processes, which may run on
several machines that share a folder, and may be killed: the same command translates
what is missing. --join then writes all translations. See docs/scaling.md.

    transformer-tf translate --logdir logs/base --input big.de --shards big
    transformer-tf translate --logdir logs/base --input big.de --shards big --workers 4
    transformer-tf translate --shards big --join > big.en

With --engine ctranslate2, the first answer takes half a second instead of five: see
docs/serving.md.

Soft hyphens and marks of direction, which only change how a text is displayed, are
removed, and zero-width characters in words of Latin letters. Odd lines (empty, not
UTF-8, truncated, ...) are counted, and reported in one line on stderr, and so are
translations that are as long as --max_extra_length allows: they may end in
mid-sentence.
"""

import argparse
import contextlib
import dataclasses
import functools
import importlib
import itertools
import os
import re
import sys
import threading
import time
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
    Tuple,
)

from transformer import __version__, hparams
from transformer.alignment import default_head, format_pairs
from transformer.commands import cli
from transformer.commands.terminal import command_name
from transformer.engines import AnyTranslator, open_translator
from transformer.exports.ctranslate2 import (
    ENGINES,
    QUANTIZATIONS,
    TENSORFLOW,
    import_ctranslate2,
)
from transformer.logdir.manifests import find_checkpoint
from transformer.logdir.names import MANIFEST
from transformer.runtime.devices import list_gpus, share_of_cores
from transformer.runtime.errors import REFUSED, ShardsFailed, missing_package
from transformer.runtime.files import sha256_of
from transformer.runtime.pool import start_processes
from transformer.runtime.progress import Progress, escape_control, format_count
from transformer.text import sentences, shards
from transformer.text.data_folder import read_languages
from transformer.text.lines import TolerantReader, read_lines
from transformer.text.translations import Translation
from transformer.workers import launch, ray_cluster

CHUNK = 2000  # lines read before they are translated, sorted by length
SHARD_LINES = 20000
POLL = 1.0  # seconds between two looks at worker processes
RESTARTS = 10  # of each worker on a Ray cluster
# The end of a sentence that something follows, perhaps.
END_INSIDE = re.compile(r"[.!?…]\W*\s\S|[。！？]\W*\w")
PATIENCE = 10.0  # seconds that workers have to end when all shards are finished


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


class SentenceCounter:
    """Counts the lines with several sentences.

    Attributes:
      num_lines: how many there are.
      first: the number of the first one; 0: there is none.
    """

    def __init__(self, language: str):
        self.num_lines = self.first = 0
        self._language = language

    def count(self, lines: Iterable[str], first_line: int = 1) -> Iterator[str]:
        """Yield the lines, of which the first has this number, and count them."""
        for line_number, line in enumerate(lines, first_line):
            if (
                END_INSIDE.search(line)
                and len(sentences.split(line, self._language)) > 1
            ):
                self.num_lines += 1
                self.first = self.first or line_number
            yield line


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
    cli.add_logdir(parser, "their probabilities are averaged", required=False)
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
    add_shards(parser)
    cli.add_settings(parser, hparams.DECODING)
    return parser


def add_shards(parser: cli.Parser) -> None:
    """Add the flags for a file that is translated in shards."""
    group = parser.add_group("a large file, in shards")
    group.add_argument(
        "--shards",
        type=cli.path,
        metavar="DIR",
        help="translate --input into this folder; processes may share it",
    )
    group.add_argument(
        "--input",
        type=cli.path,
        metavar="FILE",
        help="plain text in UTF-8; without --shards, instead of standard input",
    )
    group.add_argument(
        "--shard_lines",
        type=int,
        metavar="INT",
        help=f"lines in each shard, a multiple of {CHUNK:,} [{SHARD_LINES}]",
    )
    group.add_argument(
        "--workers",
        type=int,
        metavar="INT",
        help="processes on this machine, each with cores or a GPU of its own [1]",
    )
    cli.add_ray(group)
    group.add_argument(
        "--join",
        action="store_true",
        help="write the translations of all shards to standard output",
    )


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


def refuse_shards(args: argparse.Namespace) -> None:
    """Raise ValueError for flags that contradict `--shards`, or need it."""
    if not (args.logdir or args.join):
        raise ValueError("--logdir is missing: which model should translate?")
    for logdir in args.logdir or []:
        if os.path.isfile(logdir):
            raise ValueError(
                f"--logdir: {logdir} is a file, but expected log directories: to "
                f"translate it, type < {logdir}, or --input {logdir}"
            )
    flags = ("shard_lines", "workers", "ray", "join")
    if not args.shards:
        for name in flags:
            if getattr(args, name):
                raise ValueError(f"--{name}: --shards is missing: name a folder")
        return
    if args.join:
        return
    if not args.input:
        raise ValueError("--shards: --input is missing: name the file to translate")
    is_given = {
        "--n_best": args.n_best > 1,
        "--prefix_file": args.prefix_file,
        "--stream": args.stream,
    }
    for flag, is_so in is_given.items():
        if is_so:
            raise ValueError(f"expected --shards or {flag}, got both; leave one out")
    if args.shard_lines is not None and (
        args.shard_lines % CHUNK or not args.shard_lines
    ):
        raise ValueError(
            f"--shard_lines: expected a multiple of {CHUNK:,}, got {args.shard_lines}: "
            "lines are translated in batches of similar lines among so many"
        )
    if args.workers is not None and args.workers < 1:
        raise ValueError(f"--workers: expected 1 or more, got {args.workers}")


@contextlib.contextmanager
def open_models(
    args: argparse.Namespace, models: Sequence[Tuple[hparams.HParams, str]]
) -> Iterator[Tuple[AnyTranslator, Callable]]:
    """Open the translator that the flags describe.

    Args:
      args: the parsed arguments.
      models: (settings, log directory) of each model.

    Yields:
      The translator, and its function of lines.
    """
    with open_translator(
        models,
        args.checkpoint,
        args.n_best,
        args.engine,
        args.quantization,
        args.warn,
        needs={
            "--prefix_file": args.prefix_file is not None,
            "--alignments": args.alignments,
        },
        start_tensorflow=functools.partial(cli.start_tensorflow, args.verbose),
    ) as translator:
        translate: Callable = translator.translate
        if args.split:
            warn_of_simple_rules(args.warn)
            translate = functools.partial(
                translate_sentences, translator, languages=list_languages(models)
            )
        if args.alignments:
            warn_of_default_head(translator, args.warn)
            translate = functools.partial(translate, alignments=True)
        yield translator, translate


def list_languages(models: Sequence[Tuple[hparams.HParams, str]]) -> Sequence[str]:
    """Return the languages of source and target; "" if they are unknown."""
    return read_languages(models[0][0].data) or ("", "")


def choose_columns(args: argparse.Namespace) -> Columns:
    """Return what is written beside the text of a translation."""
    return Columns(
        numbers=args.n_best > 1,
        scores=args.scores or args.n_best > 1,
        alignments=args.alignments,
    )


def warn_of_odd_lines(
    args: argparse.Namespace,
    reader: TolerantReader,
    counter: SentenceCounter,
    translator: AnyTranslator,
) -> None:
    """Report odd lines, and translations at their length limit, in one line."""
    whose = " (of the sentences)" if args.split else ""
    counts = {name + whose: count for name, count in translator.unusual_lines.items()}
    if not args.split:
        first = f"the first is line {counter.first}; --split translates each"
        counts[f"with several sentences translated as one ({first})"] = (
            counter.num_lines
        )
    report = reader.report(counts)
    if report:
        args.warn(report)


def run(args: argparse.Namespace) -> Optional[int]:
    """Translate standard input to standard output, or a file in shards."""
    refuse_split(args)
    refuse_shards(args)
    if args.join:
        shards.join(shards.read_plan(args.shards), sys.stdout.buffer)
        return None
    models = hparams.load_each(args.logdir, cli.read_settings(args, hparams.DECODING))
    if args.shards:
        progress = Progress(sys.stderr, interval=30.0)
        if args.ray:
            return run_on_ray(args, models, progress)
        if (args.workers or 1) > 1:
            return run_workers(args, models, progress)
        translate_shards(args, models, progress)
        return None
    with contextlib.ExitStack() as stack:
        source: Any = sys.stdin.buffer
        if args.input:
            source = stack.enter_context(open(args.input, "rb"))
        translate_stream(args, models, source)
    return None


def translate_stream(
    args: argparse.Namespace,
    models: List[Tuple[hparams.HParams, str]],
    source: IO[bytes],
) -> None:
    """Translate a file or standard input to standard output.

    Args:
      args: the parsed arguments.
      models: (settings, log directory) of each model.
      source: the lines to translate.
    """
    is_terminal = not args.input and sys.stdin.isatty()
    reader = TolerantReader()
    counter = SentenceCounter(list_languages(models)[0])
    prefixes = iter(list(read_lines(args.prefix_file))) if args.prefix_file else None
    by_line = is_terminal or args.stream
    if by_line:
        hp, logdir = models[0]
        models[0] = (dataclasses.replace(hp, decode_batch_size=1), logdir)
    lines = reader.read(ask(source) if is_terminal else source)
    lines = lines if args.split else counter.count(lines)
    with open_models(args, models) as (translator, translate):
        write_translations(
            translate_chunks(translate, lines, 1 if by_line else CHUNK, prefixes),
            sys.stdout.buffer,
            choose_columns(args),
        )
    warn_of_odd_lines(args, reader, counter, translator)


# --- Shards ---------------------------------------------------------------------------


def open_plan(
    args: argparse.Namespace, models: Sequence[Tuple[hparams.HParams, str]]
) -> shards.Plan:
    """Open the plan of the shards, or make it.

    Raises:
      SettingsError: the search draws other random numbers for each sentence.
      TransformerError: as `find_checkpoint` and `shards.open_plan`.
    """
    hp = models[0][0]
    if hp.search == "sample" and args.split:
        raise ValueError(
            "expected --shards, --split or --search sample, got all three: a sample "
            "depends on the number of its sentence, which only one process counts"
        )
    if args.engine == TENSORFLOW:
        cli.start_tensorflow(args.verbose)
        version = importlib.import_module("tensorflow").__version__
    else:
        version = import_ctranslate2().__version__
    checkpoints = [
        find_checkpoint(logdir, args.checkpoint, args.warn) for _, logdir in models
    ]
    numerics = ("decode_batch_size", "decode_precision", "deterministic")
    identity = {
        "log directory": list(map(describe_checkpoint, checkpoints)),
        **hparams.search_settings(hp),
        **{name: getattr(hp, name) for name in numerics},
        "scores": args.scores,
        "alignments": args.alignments,
        "split": args.split,
        "engine": args.engine,
        "quantization": args.quantization,
        "version of transformer-tf": __version__,
        f"version of {args.engine}": version,
    }

    def prepare():
        if args.engine != TENSORFLOW:  # export the model once
            with open_models(args, models):
                pass

    lines = args.shard_lines or SHARD_LINES
    return shards.open_plan(args.shards, args.input, lines, identity, prepare)


def describe_checkpoint(checkpoint: str) -> str:
    """Name a checkpoint and the checksum of its manifest, which covers its content."""
    checksum = sha256_of(checkpoint + MANIFEST)
    return f"{os.path.basename(checkpoint)} with SHA-256 {checksum[:16]}"


def translate_shards(
    args: argparse.Namespace,
    models: Sequence[Tuple[hparams.HParams, str]],
    progress: Optional[Progress] = None,
) -> None:
    """Translate the shards that are missing, beside other processes.

    Args:
      args: the parsed arguments.
      models: (settings, log directory) of each model.
      progress: where progress is shown, if it is.

    Raises: as `open_plan`, `open_translator` and `shards.translate_missing`.
    """
    plan = open_plan(args, models)
    if plan.is_finished():
        show_progress(progress, len(plan.shards), 0)
        return
    reader = TolerantReader()
    counter = SentenceCounter(list_languages(models)[0])
    with open_models(args, models) as (any_translator, translate):
        translator: Any = any_translator
        checkpoints = list(map(describe_checkpoint, translator.checkpoints))
        shards.refuse_other_plan(plan, {**plan.identity, "log directory": checkpoints})

        def translate_lines(raw_lines, first_line, output):
            if models[0][0].search == "sample":
                translator.start_at(first_line - 1)
            lines = reader.read(raw_lines, first_line)
            lines = lines if args.split else counter.count(lines, first_line)
            chunks = translate_chunks(translate, lines, CHUNK)
            write_translations(chunks, output, choose_columns(args))

        show = functools.partial(show_progress, progress, len(plan.shards))
        shards.translate_missing(plan, translate_lines, args.warn, show)
    warn_of_odd_lines(args, reader, counter, translator)


def show_progress(
    progress: Optional[Progress], num_shards: int, num_missing: int
) -> None:
    """Show how many shards are finished."""
    if progress:
        done = num_shards - num_missing
        progress.show(done, num_shards, f"{done:,} of {num_shards:,} shards")


def run_workers(
    args: argparse.Namespace,
    models: Sequence[Tuple[hparams.HParams, str]],
    progress: Progress,
) -> int:
    """Translate the missing shards by several processes; return the exit status.

    Raises:
      SettingsError: there are fewer GPUs than processes.
      ShardsFailed: all processes were killed.
    """
    gpus = list_gpus() if args.engine == TENSORFLOW else []
    if gpus and args.workers > len(gpus):
        raise ValueError(
            f"--workers: expected at most {len(gpus)}, one for each visible GPU, got "
            f"{args.workers}; set CUDA_VISIBLE_DEVICES= to translate on the CPU"
        )
    plan = open_plan(args, models)
    if plan.is_finished():
        show_progress(progress, len(plan.shards), 0)
        return 0
    processes = start_processes(
        run_worker,
        [
            (
                args.argv,
                [] if gpus else share_of_cores(i, args.workers),
                gpus[i : i + 1],
            )
            for i in range(args.workers)
        ],
    )
    while any(process.is_alive() for process in processes):
        if plan.list_missing():
            show_progress(progress, len(plan.shards), len(plan.list_missing()))
        time.sleep(POLL)
    missing = plan.list_missing()
    show_progress(progress, len(plan.shards), len(missing))
    statuses = [process.exitcode or 0 for process in processes]
    num_killed = sum(status < 0 for status in statuses)
    if num_killed:
        text = f"{format_count(num_killed, 'worker')} ended suddenly"
        if missing and max(statuses) <= 0:
            raise ShardsFailed(f"{text}; {shards.describe_shards(missing)}: not done")
        args.warn(f"{text}; memory may have run out")
    return max(statuses) if missing else 0


def run_worker(argv: List[str], cores: List[int], gpus: List[str]) -> None:
    """Run this command in one of several processes.

    Args:
      argv: its arguments.
      cores: those that it may use; []: all.
      gpus: the one that it may use; []: as before.
    """
    if cores:
        os.sched_setaffinity(0, cores)
    if gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[0]

    def work(args):
        overrides = cli.read_settings(args, hparams.DECODING)
        translate_shards(args, hparams.load_each(args.logdir, overrides))

    cli.main(parser(), work, argv)


def run_on_ray(
    args: argparse.Namespace,
    models: Sequence[Tuple[hparams.HParams, str]],
    progress: Progress,
) -> int:
    """Translate the missing shards on a Ray cluster; return the exit status.

    Each worker begins as soon as there is a place for it, and so does its successor if
    it is lost.

    Raises:
      RayClusterNotFound: there is no cluster.
    """
    count = args.workers or 1
    statuses = [0] * count
    command = ["-m", "transformer.commands.translate", *args.argv]
    is_over = threading.Event()
    with ray_cluster.connect(args.ray, args.warn) as cluster:
        plan = open_plan(args, models)

        def work(number):
            start = functools.partial(
                cluster.start,
                command,
                count,
                args.shards,
                number=number,
                use_gpu=args.engine == TENSORFLOW,
            )
            try:
                statuses[number] = launch.run_workers(start, RESTARTS, args.warn)
            except Exception as error:
                if not is_over.is_set():
                    args.warn(cli.format_error(error))
                    statuses[number] = REFUSED

        threads = [
            threading.Thread(target=work, args=(number,), daemon=True)
            for number in range(count)
        ]
        missing = plan.list_missing()
        for thread in threads if missing else []:
            thread.start()
        while missing and any(thread.is_alive() for thread in threads):
            show_progress(progress, len(plan.shards), len(missing))
            time.sleep(POLL)
            missing = plan.list_missing()
        missing = plan.list_missing()
        deadline = time.monotonic() + PATIENCE
        while any(thread.is_alive() for thread in threads) and (
            time.monotonic() < deadline
        ):
            time.sleep(POLL)  # the workers end by themselves
        is_over.set()
    plan.is_finished()  # sweeps
    show_progress(progress, len(plan.shards), len(missing))
    return max(statuses) if missing else 0


if __name__ == "__main__":  # a worker of `run_on_ray`
    run_worker(sys.argv[1:], [], [])
