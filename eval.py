"""Scores a model in BLEU: `python eval.py --logdir logs/sample --split test`."""

import argparse
import dataclasses
import hashlib
import json
import os
import sys

import tensorflow.compat.v1 as tf

import hparams
from transformer.decoding import SEARCHES
from transformer.evaluation import evaluate, load_text
from transformer.runtime import checkpoints
from transformer.text.lines import read_lines
from transformer.translator import Translator

DECODING = [
    "deterministic",
    *(
        name
        for name, field in hparams.FIELDS.items()
        if field.metadata["group"] == "decoding"
    ),
]


def add_decoding_flags(parser):
    """What every program that translates can be told."""
    parser.add_argument(
        "--logdir", required=True, metavar="DIR", help="what train.py wrote"
    )
    parser.add_argument(
        "--checkpoint",
        default="best",
        metavar="WHICH",
        help="best (by dev BLEU), newest, or a step [best]",
    )
    hparams.add_flags(parser, DECODING)


def load(args):
    """The saved settings of a log directory under those of the command line."""
    hp = dataclasses.replace(hparams.load(args.logdir), **hparams.given_settings(args))
    hparams.validate(hp)
    hparams.refuse_unknown("search", hp.search, SEARCHES)
    return hp


def find_checkpoint(args):
    """The checkpoint that `--checkpoint` names; says so if it must be another."""
    return checkpoints.find(
        args.logdir, args.checkpoint, lambda text: print(text, file=sys.stderr)
    )


def name_of(path, lines):
    """What the translations of a file are called: other lines have another name."""
    text = "\n".join(lines).encode("utf-8")
    return f"{os.path.basename(path)}-{hashlib.sha256(text).hexdigest()[:8]}"


def run(args):
    """Translates, writes the translations beside the checkpoint, prints the scores."""
    hp = load(args)
    if args.files:
        sources, references = (list(read_lines(path)) for path in args.files)
        name = name_of(args.files[0], sources)
    else:
        name = args.split
        sources, references = load_text(hp.data, args.split)
    if len(sources) != len(references) or not sources:
        raise ValueError(
            f"{name}: found {len(sources)} source and {len(references)} "
            "reference lines, wanted as many of both, and at least one"
        )
    with Translator(hp, args.logdir) as translator:
        checkpoint = translator.restore(find_checkpoint(args))
        scores, hypotheses = evaluate(translator, sources, references)
    written = f"{checkpoint}.{name}.translations"
    with open(written, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in hypotheses)
    print(
        f"{len(sources)} lines of {name}, step {checkpoints.step_of(checkpoint)}: "
        f"{written}"
    )
    print(f"BLEU = {scores.bleu:.2f}\n{scores.bleu_signature}")
    print(f"chrF2 = {scores.chrf:.2f}\n{scores.chrf_signature}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(
                dict(
                    scores._asdict(),
                    lines=len(sources),
                    checkpoint=checkpoint,
                    translations=written,
                ),
                file,
                indent=2,
            )


def main(argv=None):
    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    add_decoding_flags(parser)
    parser.add_argument(
        "--split",
        default="test",
        metavar="NAME",
        help="dev or test of the data folder [test]",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        default=argparse.SUPPRESS,
        help="the data folder, where it is no longer where it was",
    )
    parser.add_argument(
        "--files",
        nargs=2,
        metavar=("SOURCE", "REFERENCE"),
        help="any two text files, instead of a split",
    )
    parser.add_argument("--json", metavar="FILE", help="write the scores there too")
    args = hparams.parse_flags(parser, sys.argv[1:] if argv is None else argv)
    try:
        run(args)
    except (ValueError, OSError) as error:
        sys.exit(f"eval.py: {error}")


if __name__ == "__main__":
    main()
