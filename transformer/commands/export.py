"""Write a trained model in the format of other software, with a model card.

    transformer-tf export --format ctranslate2 --logdir logs/sample --out exported \\
            --quantization int8 --check 200
    transformer-tf export --format savedmodel --logdir logs/sample --out sample

ctranslate2 is for CTranslate2, savedmodel is for TensorFlow Serving: see
docs/serving.md.
"""

import argparse
import dataclasses
import functools
import os
from typing import Callable, Dict, List, NamedTuple, Sequence

from transformer import hparams
from transformer.commands import cli
from transformer.commands.terminal import print_lines
from transformer.exports.ctranslate2 import (
    CTRANSLATE2,
    MODEL,
    QUANTIZATIONS,
    FastTranslator,
    list_unsupported,
)
from transformer.runtime import pool
from transformer.runtime.files import new_folder, refuse_used, sweep_beside
from transformer.runtime.names import refuse_unknown
from transformer.text.data_folder import load_text
from transformer.text.translations import Translation

SAVEDMODEL = "savedmodel"
FORMATS = (CTRANSLATE2, SAVEDMODEL)


class Format(NamedTuple):
    """The functions for a format."""

    # Writes the folder: (settings, checkpoint, folder, quantization) → a remark, or "".
    write: Callable[[hparams.HParams, str, str, str], str]
    # Describes it for the card: (settings, folder name, quantization) → Exported; with
    # has_text=False after a remark.
    describe: Callable
    # Opens it: (folder, settings) → function of lines that returns the best
    # Translations.
    open: Callable[[str, hparams.HParams], Callable]
    searches: Sequence[str]  # tried by --check; (): the search is in the model


def formats() -> Dict[str, Format]:
    """Return the extension point for formats: name → Format. It imports TensorFlow."""
    from transformer.exports import ctranslate2, savedmodel

    return {
        CTRANSLATE2: Format(
            ctranslate2.write,
            ctranslate2.describe_export,
            open_ctranslate2,
            ("greedy", "beam"),
        ),
        SAVEDMODEL: Format(
            savedmodel.write, savedmodel.describe_export, open_savedmodel, ()
        ),
    }


def open_ctranslate2(folder: str, hp: hparams.HParams) -> Callable:
    """Return a function that translates with a model exported for CTranslate2."""
    translator = FastTranslator(folder, hp)
    return lambda lines: [best for best, *_ in translator.translate(lines)]


def open_savedmodel(folder: str, hp: hparams.HParams) -> Callable:
    """Return a function that translates with a SavedModel."""
    cli.start_tensorflow()
    from transformer.exports.savedmodel import SavedTranslator

    return SavedTranslator(folder, hp).translate


def parser() -> cli.Parser:
    """Return the parser of the command line."""
    parser = cli.make_parser("export", __doc__)
    parser.add_argument("--format", required=True, help=" or ".join(FORMATS))
    cli.add_logdir(parser)
    cli.add_checkpoint(parser)
    parser.add_argument(
        "--out", required=True, type=cli.path, metavar="DIR", help="the folder to write"
    )
    parser.add_argument(
        "--quantization",
        default="float32",
        metavar="TYPE",
        choices=QUANTIZATIONS,
        help="float32; int8, for ctranslate2 only [float32]",
    )
    cli.add_number(
        parser,
        "check",
        0,
        "translate this many lines of the test split with both models, the exported "
        "one in a separate process; ctranslate2: greedily and by beam search",
    )
    cli.add_data(parser)
    cli.add_settings(parser, hparams.DECODING)
    return parser


def run(args: argparse.Namespace) -> None:
    """Write the model and its card; compare its translations with ours if requested."""
    refuse_unknown("format", args.format, FORMATS)
    if args.format == SAVEDMODEL and args.quantization != QUANTIZATIONS[0]:
        raise ValueError(
            f"--quantization {args.quantization}: expected float32, the only one for a "
            f"SavedModel; or choose --format {CTRANSLATE2}"
        )
    replaced = MODEL if args.format == CTRANSLATE2 else ""
    sweep_beside(args.out)
    refuse_used(args.out, "--out", replaced)
    hp = hparams.load(args.logdir, cli.read_settings(args, hparams.FIELDS))
    cli.start_tensorflow(args.verbose)
    from transformer.decoding import SEARCHES
    from transformer.exports import card
    from transformer.logdir import checkpoints

    refuse_unknown("search", hp.search, SEARCHES)
    refuse_check(args.check, args.format, hp)
    lines = load_text(hp.data, "test")[0][: args.check] if args.check else []
    chosen = formats()[args.format]
    name = os.path.basename(os.path.realpath(args.out))
    describe = functools.partial(chosen.describe, hp, name, args.quantization)
    with new_folder(args.out, "--out", replaced) as folder:

        def write(checkpoint):
            remark = chosen.write(hp, checkpoint, folder, args.quantization)
            exported = describe(has_text=False) if remark else describe()
            card.write(hp, checkpoint, folder, exported)
            return remark

        remark = checkpoints.find_and_load(
            args.logdir, write, args.checkpoint, args.warn
        )
    if remark:
        args.warn(remark)
    print_lines(f"{args.format}, {args.quantization}: {args.out}")
    if not args.check:
        return
    for search in chosen.searches or [hp.search]:
        # Exports compute in float32.
        settings = dataclasses.replace(hp, search=search, decode_precision="float32")
        by_model = translate(settings, args.logdir, args.checkpoint, lines, args.warn)
        [by_export] = pool.map_tasks(
            functools.partial(chosen.open, args.out, settings), [lines], 1
        )
        differences = compare_scores(by_model, by_export)
        print_lines(
            f"{search}: {len(differences)} of {len(lines)} translations equal ours; "
            f"largest difference of their scores {max(differences, default=0):.2g}"
        )


def refuse_check(num_lines: int, format_name: str, hp: hparams.HParams) -> None:
    """Raise ValueError for a value of `--check` that cannot be met.

    Args:
      num_lines: the value.
      format_name: one of FORMATS.
      hp: the settings.
    """
    if num_lines < 0:
        raise ValueError(f"--check: expected 0 or more lines, got {num_lines}")
    if not num_lines:
        return
    if hp.search == "sample" and format_name == SAVEDMODEL:
        raise ValueError(
            "--check: expected --search beam or greedy, got sample: no two samples of "
            "a line are the same; leave out --check"
        )
    rules = list_unsupported(dataclasses.replace(hp, search="greedy"))
    if rules and format_name == CTRANSLATE2:
        raise ValueError(
            f"--check: expected a search that {CTRANSLATE2} supports, got "
            f"{', '.join(rules)}; change it, or leave out --check"
        )


def translate(
    hp: hparams.HParams,
    logdir: str,
    which: str,
    lines: List[str],
    warn: Callable[[str], None],
) -> List[Translation]:
    """Translate lines with TensorFlow; return the best translation of each.

    Args:
      hp: the settings.
      logdir: the log directory.
      which: the checkpoint: "best", "newest" or a step.
      lines: the lines.
      warn: function of a text.
    """
    from transformer.translator import Translator  # needs TensorFlow

    with Translator.for_settings(hp, logdir, warn=warn) as translator:
        translator.find_and_restore(which)
        return [best for best, *_ in translator.translate(lines)]


def compare_scores(
    by_model: Sequence[Translation], by_export: Sequence[Translation]
) -> List[float]:
    """Return the difference of the scores of each line with equal translations."""
    return [
        abs(expected.score - actual.score)
        for expected, actual in zip(by_model, by_export)
        if expected.text == actual.text
    ]
