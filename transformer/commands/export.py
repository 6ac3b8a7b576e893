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
from transformer.runtime.files import new_folder, refuse_used
from transformer.runtime.names import refuse_unknown
from transformer.text.data_folder import load_text

SAVEDMODEL = "savedmodel"
FORMATS = (CTRANSLATE2, SAVEDMODEL)


class Format(NamedTuple):
    """The functions for a format."""

    # Writes the folder: (settings, checkpoint, folder, quantization) → a remark, or "".
    write: Callable[[hparams.HParams, str, str, str], str]
    # Describes it for the card: (settings, folder name, quantization) → Exported; with
    # has_text=False after a remark.
    described: Callable
    # Opens it: (folder, settings) → function of lines that returns the best
    # Translations.
    opened: Callable[[str, hparams.HParams], Callable]
    searches: Sequence[str]  # tried by --check; (): the search is in the model


def formats() -> Dict[str, Format]:
    """Return the extension point for formats: name → Format. It imports TensorFlow."""
    from transformer.exports import ctranslate2, savedmodel

    return {
        CTRANSLATE2: Format(
            ctranslate2.write,
            ctranslate2.describe_export,
            open_fast,
            ("greedy", "beam"),
        ),
        SAVEDMODEL: Format(
            savedmodel.write, savedmodel.describe_export, open_saved, ()
        ),
    }


def open_fast(folder: str, hp: hparams.HParams) -> Callable:
    """Return a function that translates with a model exported for CTranslate2."""
    translator = FastTranslator(folder, hp)
    return lambda lines: [best for best, *_ in translator.translate(lines)]


def open_saved(folder: str, hp: hparams.HParams) -> Callable:
    """Return a function that translates with a SavedModel."""
    cli.start_tensorflow()
    from transformer.exports.savedmodel import SavedTranslator

    return SavedTranslator(folder, hp).translate


def parser() -> cli.Parser:
    """Return the parser of the command line."""
    made = cli.make_parser("export", __doc__)
    made.add_argument("--format", required=True, help=" or ".join(FORMATS))
    cli.add_logdir(made)
    cli.add_checkpoint(made)
    made.add_argument(
        "--out", required=True, type=cli.path, metavar="DIR", help="the folder to write"
    )
    made.add_argument(
        "--quantization",
        default="float32",
        metavar="TYPE",
        choices=QUANTIZATIONS,
        help="float32; int8, for ctranslate2 only [float32]",
    )
    cli.add_number(
        made,
        "check",
        0,
        "translate this many lines of the test split with both models, the exported "
        "one in a separate process; ctranslate2: greedily and by beam search",
    )
    cli.add_data(made)
    cli.add_settings(made, hparams.DECODING)
    return made


def run(args: argparse.Namespace) -> None:
    """Write the model and its card; compare its translations with ours if requested."""
    refuse_unknown("format", args.format, FORMATS)
    replaced = MODEL if args.format == CTRANSLATE2 else ""
    refuse_used(args.out, "--out", replaced)
    hp = hparams.load(args.logdir, cli.typed_settings(args, hparams.FIELDS))
    cli.start_tensorflow(args.verbose)
    from transformer.decoding import SEARCHES
    from transformer.exports import card
    from transformer.logdir import checkpoints

    refuse_unknown("search", hp.search, SEARCHES)
    if args.check < 0:
        raise ValueError(f"--check: expected 0 or more lines, got {args.check}")
    if args.check and hp.search == "sample" and args.format == SAVEDMODEL:
        raise ValueError(
            "--check: expected --search beam or greedy, got sample: no two samples of "
            "a line are the same; leave out --check"
        )
    rules = list_unsupported(dataclasses.replace(hp, search="greedy"))
    if args.check and rules and args.format == CTRANSLATE2:
        raise ValueError(
            f"--check: expected a search that {CTRANSLATE2} supports, got "
            f"{', '.join(rules)}; change it, or leave out --check"
        )
    lines = load_text(hp.data, "test")[0][: args.check] if args.check else []
    chosen = formats()[args.format]
    name = os.path.basename(os.path.realpath(args.out))
    described = functools.partial(chosen.described, hp, name, args.quantization)
    with new_folder(args.out, "--out", replaced) as made:

        def write(checkpoint):
            remark = chosen.write(hp, checkpoint, made, args.quantization)
            exported = described(has_text=False) if remark else described()
            card.write(hp, checkpoint, made, exported)
            return remark

        remark = checkpoints.find_and_load(
            args.logdir, write, args.checkpoint, args.warn
        )
    if remark:
        args.warn(remark)
    print_lines(f"{args.format}, {args.quantization}: {args.out}")
    if args.check:
        check(args, hp, chosen, lines)


def check(
    args: argparse.Namespace, hp: hparams.HParams, chosen: Format, lines: List[str]
) -> None:
    """Print how many lines both models translate equally."""
    from transformer.translator import Translator  # needs TensorFlow

    hp = dataclasses.replace(hp, decode_precision="float32")  # as exports compute
    for search in chosen.searches or [hp.search]:
        hp = dataclasses.replace(hp, search=search)
        with Translator.for_settings(hp, args.logdir, warn=args.warn) as translator:
            translator.restore_found(args.checkpoint)
            ours = [best for best, *_ in translator.translate(lines)]
        opened = functools.partial(chosen.opened, args.out, hp)
        [theirs] = pool.results(opened, [lines], 1)
        gaps = [
            abs(one.score - other.score)
            for one, other in zip(ours, theirs)
            if one.text == other.text
        ]
        print_lines(
            f"{search}: {len(gaps)} of {len(lines)} translations equal ours; largest "
            f"difference of their scores {max(gaps, default=0):.2g}"
        )
