r"""Prepare a corpus: write a vocabulary, ids and a report for parallel text files.

    python scripts/prepare.py --out data/multi30k --train train.de.gz train.en.gz \
        --dev val.de val.en --test test_2016_flickr.de test_2016_flickr.en
    python scripts/prepare.py --out data/sample --vocab_size 2000

The second form is for a folder that already holds {train,dev,test}.{de,en}. The files
that are written are described in data/README.md. Either all of them are written or
none: they are made in a temporary folder, and moved to their place at the end.
"""

import argparse
import itertools
import os
import sys
from typing import Callable, Dict, List, Optional

import hparams
from transformer.runtime import cli
from transformer.runtime.files import refuse_unwritable
from transformer.runtime.folders import keep, unfinished
from transformer.runtime.reporting import Progress
from transformer.runtime.terminal import say
from transformer.text.corpus import (
    ID_FILES,
    SPLITS,
    Text,
    encode_split,
    told_lines,
    train_vocabularies,
)
from transformer.text.filters import Rules, checked_rules
from transformer.text.lines import check_language
from transformer.text.parts import CHUNK, Recipe, folders_in
from transformer.text.remarks import remarks
from transformer.text.splits import (
    counted,
    find_splits,
    key_of,
    pairs_of,
    text_names,
    without_duplicates,
    write_texts,
)
from transformer.text.summary import publish, summary_of, write_summary
from transformer.text.vocabulary_files import (
    FILE_NAMES,
    Vocabularies,
    copy_vocabularies,
    load_vocabularies,
)

MANY = 10  # parts, whose number is shown while they are made
# Flags on which the result does not depend.
NO_MATTER = ("out", "workers", "verbose")
# Flags that --vocab_from excludes → their defaults.
VOCABULARY_DEFAULTS = {
    "vocab_size": 8000,
    "vocab_lines": 1000000,
    "model_type": "bpe",
    "separate": False,
    "bpe_dropout": 0.0,
}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's flags."""
    flags = cli.make_parser("prepare.py", __doc__)
    flags.add_argument(
        "--out", required=True, metavar="DIR", help="the folder to write"
    )
    for side, language in (("source", "de"), ("target", "en")):
        flags.add_argument(
            f"--{side}_lang",
            default=language,
            metavar="TEXT",
            help=f"ending of {side} files [{language}]",
        )
    flags.add_argument(
        "--train",
        action="append",
        nargs="+",
        metavar=("SOURCE TARGET", "WEIGHT"),
        help="text files: plain, IWSLT tags or xml, also .gz; their pairs are written "
        "WEIGHT times; --train again for another corpus [OUT/train.LANGUAGE, 1]",
    )
    for split in SPLITS[1:]:
        flags.add_argument(
            f"--{split}",
            nargs=2,
            metavar=("SOURCE", "TARGET"),
            help="text files, as of train "
            f"[OUT/{split}.LANGUAGE{', if there' if split == 'test' else ''}]",
        )
    _number(flags, "workers", 1, "processes that encode; the result is the same")
    _add_filters(flags.add_argument_group("filters"))
    _add_vocabulary_flags(flags.add_argument_group("vocabulary"))
    return flags


def _number(group, name: str, default: float, text: str) -> None:
    """Add a flag for a number to a group of flags."""
    kind, metavar = type(default), type(default).__name__.upper()
    text = f"{text} [{default}]"
    flag = "--" + name
    group.add_argument(flag, type=kind, default=default, metavar=metavar, help=text)


def _add_filters(group) -> None:
    """Add the flags that say which pairs are dropped."""
    _number(group, "max_length", 256, "drop pairs with more pieces on one side")
    _number(
        group,
        "max_ratio",
        0.0,
        "drop pairs of train where one side has more than so many times the pieces of "
        "the other; 0: any",
    )
    _number(
        group,
        "character_score",
        0.0,
        "drop pairs of train where a smaller share of the letters of a side is in its "
        "script; try 0.9",
    )
    group.add_argument(
        "--scripts",
        nargs=2,
        metavar=("NAME", "NAME"),
        help="the scripts of source and target, as Unicode names them [latin latin]",
    )
    group.add_argument(
        "--drop_duplicates",
        action="store_true",
        help="drop pairs of train that occurred before",
    )


def _add_vocabulary_flags(group) -> None:
    """Add the flags that say which vocabulary is used, and how it encodes."""
    group.add_argument(
        "--vocab_from",
        metavar="DIR",
        help="copy the vocabulary of a log directory or corpus, as imported models "
        "need it, instead of training one",
    )
    group.add_argument(
        "--vocab_size", type=int, metavar="INT", help="number of pieces [8000]"
    )
    group.add_argument(
        "--vocab_lines",
        type=int,
        metavar="INT",
        help="of more lines, train it on so many, drawn at random [1000000]",
    )
    group.add_argument("--model_type", choices=("bpe", "unigram"), help="[bpe]")
    group.add_argument(
        "--separate",
        action="store_true",
        default=None,
        help="train one vocabulary per language",
    )
    group.add_argument(
        "--bpe_dropout",
        type=float,
        metavar="FLOAT",
        help="probability of skipping a merge in train; try 0.05 for a small corpus "
        "[0]",
    )
    _number(
        group,
        "copies",
        1,
        "with --bpe_dropout: how many times train is written, each drawn anew",
    )


def fill_defaults(args: argparse.Namespace) -> None:
    """Set the flags that were not given; raise ValueError if --vocab_from excludes one.

    Args:
      args: changed in place.
    """
    for name, default in VOCABULARY_DEFAULTS.items():
        if getattr(args, name) is None:
            setattr(args, name, default)
        elif args.vocab_from:
            raise ValueError(
                f"found --vocab_from and --{name}, wanted one of them: leave one out"
            )


def check(args: argparse.Namespace) -> None:
    """Raise ValueError for flags that are invalid whatever the files contain."""
    check_language(args.source_lang, "--source_lang")
    check_language(args.target_lang, "--target_lang")
    if args.source_lang == args.target_lang:
        raise ValueError(
            f"found {args.source_lang!r} as --source_lang and as --target_lang, wanted "
            f"two names: the text of both is written to OUT/dev.LANGUAGE"
        )
    for name in ("vocab_size", "vocab_lines", "max_length", "copies", "workers"):
        if getattr(args, name) < 1:
            raise ValueError(
                f"found --{name} {getattr(args, name)}, wanted 1 or more: raise it"
            )
    check_dropout(args)
    rules_of(args)
    refuse_unwritable(args.out, "--out")
    if os.path.exists(os.path.join(args.out, hparams.FILE_NAME)):
        raise ValueError(
            f"--out {args.out}: found a log directory, whose vocabulary would be "
            f"replaced, wanted a data folder; choose another --out"
        )


def check_dropout(args: argparse.Namespace) -> None:
    """Raise ValueError for dropout without merges, and for copies without dropout."""
    if not 0 <= args.bpe_dropout <= 1:
        raise ValueError(
            f"found --bpe_dropout {args.bpe_dropout}, wanted 0 to 1: try 0.05"
        )
    if args.bpe_dropout and args.model_type != "bpe":
        raise ValueError(
            f"found --bpe_dropout with --model_type {args.model_type}, wanted bpe: "
            f"other models have no merges to skip"
        )
    if args.copies > 1 and not args.bpe_dropout:
        raise ValueError(
            f"found --copies {args.copies} without --bpe_dropout, wanted both: the "
            f"copies would be equal"
        )


def texts_of(args: argparse.Namespace) -> Dict[str, Text]:
    """Return the text of each split, and say what is odd about it.

    Raises:
      ValueError: it cannot be read.
    """
    named = {split: pairs_of(split, getattr(args, split)) for split in SPLITS}
    splits = find_splits(named, args.out, (args.source_lang, args.target_lang))
    texts = {split: counted(split, pairs) for split, pairs in splits.items()}
    say(*remarks(splits, (args.source_lang, args.target_lang)))
    return dict(texts, train=texts["train"]._replace(copies=args.copies))


def run(args: argparse.Namespace) -> None:
    """Check everything, write everything to a temporary folder, and move it to OUT."""
    fill_defaults(args)
    check(args)
    texts = texts_of(args)
    flags = {name: each for name, each in vars(args).items() if name not in NO_MATTER}
    with unfinished(args.out, key_of(flags, texts.values(), args.vocab_from)) as work:
        if texts["train"].copies * sum(texts["train"].counts) > CHUNK:
            keep(work)
        prepare(args, texts, *folders_in(work))


def prepare(
    args: argparse.Namespace, texts: Dict[str, Text], made: str, parts: str
) -> None:
    """Write everything to `made`, and move it to OUT.

    Args:
      args: the flags.
      texts: the text of each split.
      made: a new folder.
      parts: a folder for what the same command can go on from.
    """
    vocabularies = make_vocabularies(args, texts["train"], parts)
    copy_vocabularies(parts, made)
    if args.drop_duplicates:
        texts["train"] = without_duplicates(texts["train"])
    reports, kept = {}, []
    for split, text in texts.items():
        if split != "train":
            names = text_names(split, (args.source_lang, args.target_lang))
            kept += write_texts(text.pairs[0], names, args.out, made)
        stem, recipe = os.path.join(made, split), recipe_of(args, split, parts)
        reports[split] = encode_split(text, stem, recipe, args.workers, reporter(split))
        say(*told_lines(text, reports[split]))
    kind = "given" if args.vocab_from else args.model_type
    languages = args.source_lang, args.target_lang
    summary = summary_of(languages, vocabularies, kind, reports)
    if args.bpe_dropout:
        dropout = {"probability": args.bpe_dropout, "copies": args.copies}
        summary["bpe_dropout"] = dropout
    files = [os.path.join(made, name) for name in os.listdir(made)]
    write_summary(made, summary, files + kept)
    publish(made, args.out, [*itertools.chain(*FILE_NAMES), *ID_FILES])


def recipe_of(args: argparse.Namespace, split: str, parts: str) -> Recipe:
    """Return how the text of a split becomes ids: dev and test are hardly filtered."""
    if split == "train":
        return Recipe(parts, rules_of(args), args.bpe_dropout)
    return Recipe(parts, Rules(args.max_length))


def make_vocabularies(args: argparse.Namespace, train: Text, work: str) -> Vocabularies:
    """Write the vocabularies to `work`, and load them."""
    if args.vocab_from:
        copy_vocabularies(args.vocab_from, work)
        return load_vocabularies(work)
    lines = sum(train.counts) * (1 if args.separate else 2)
    if lines > args.vocab_lines:
        say(
            f"vocabulary: trained on {args.vocab_lines:,} of {lines:,} lines"
            f"{' of each language' if args.separate else ''}, drawn at random"
        )
    kind = args.model_type, args.separate
    return train_vocabularies(train, work, args.vocab_size, *kind, args.vocab_lines)


def rules_of(args: argparse.Namespace) -> Rules:
    """Return what the pairs of train have to be."""
    limits = args.max_length, args.max_ratio, args.character_score
    return checked_rules(*limits, args.scripts)


def reporter(split: str) -> Callable[[int, int], None]:
    """Return a function that shows how many parts of a split are done.

    Those that it is first called with were finished by a process that was killed.
    """
    progress = None

    def report(done, parts):
        nonlocal progress
        if progress is None:
            progress = Progress(sys.stderr, done, 0.2 if sys.stderr.isatty() else 10)
            if done:
                say(f"{split}: found {done:,} of {parts:,} parts that are finished")
        elif parts >= MANY:
            left = progress.left(done, parts)
            text = f"{split}: {done:,} of {parts:,} parts, {left} left"
            progress.show(done, parts, text)

    return report


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line."""
    cli.main(parser(), run, argv, advice="run the same command again to continue")


if __name__ == "__main__":
    main()
