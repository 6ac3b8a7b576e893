r"""Prepare a corpus: write a vocabulary, ids and a report for parallel text files.

    transformer-tf prepare --out data/multi30k --train train.de.gz train.en.gz \
        --dev val.de val.en --test test_2016_flickr.de test_2016_flickr.en
    transformer-tf prepare --out data/sample --vocab_size 2000

The second form is for a folder that already holds {train,dev,test}.{de,en}.
data/README.md describes the files that the command writes. It writes either all of them
or none: it creates them in a temporary folder, and moves them at the end.
"""

import argparse
import itertools
import os
import sys
from typing import Callable, Dict, List

from transformer import hparams
from transformer.commands import cli
from transformer.commands.terminal import say
from transformer.runtime.files import refuse_unwritable, unfinished
from transformer.runtime.progress import Progress
from transformer.text.corpus import (
    Recipe,
    Text,
    copy_text,
    encode_split,
    find_splits,
    languages_of,
    read_text,
    report_lines,
    train_vocabularies,
)
from transformer.text.data_folder import (
    ID_FILES,
    SPLITS,
    check_language,
    language_of,
    publish,
    read_summary,
    tokenizer_of,
    write_summary,
)
from transformer.text.lines import FilePair
from transformer.text.vocabulary import FILE_NAMES, copy_vocabularies, load_vocabularies

HEAVIEST = 1000  # the largest weight; a larger one is a mistake
MANY = 10  # progress is shown for this many blocks or more
# Flags that cannot be combined with --vocab_from → their defaults.
VOCABULARY_DEFAULTS = {
    "vocab_size": 8000,
    "vocab_lines": 1000000,
    "model_type": "bpe",
    "normalization": "",
    "character_coverage": 1.0,
    "byte_fallback": False,
    "separate": False,
}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's flags."""
    flags = cli.make_parser("prepare", __doc__)
    flags.add_argument(
        "--out", required=True, metavar="DIR", help="the folder to write"
    )
    for side in ("source", "target"):
        flags.add_argument(
            f"--{side}_lang",
            metavar="TEXT",
            help=f"language of the {side}, the ending of its files [read from the "
            f"names of the files: corpus.de; else {side}]",
        )
    flags.add_argument(
        "--train",
        action="append",
        nargs="+",
        metavar=("SOURCE TARGET", "WEIGHT"),
        help="text files: plain, IWSLT tags or xml, also .gz; their pairs are written "
        "WEIGHT times; repeat --train for another corpus [OUT/train.LANGUAGE, 1]",
    )
    for split in SPLITS[1:]:
        flags.add_argument(
            f"--{split}",
            nargs=2,
            metavar=("SOURCE", "TARGET"),
            help="text files, as for --train "
            f"[OUT/{split}.LANGUAGE{', if it exists' if split == 'test' else ''}]",
        )
    cli.add_number(
        flags, "workers", 1, "processes to encode with; the result is the same"
    )
    _add_filters(flags.add_argument_group("filters"))
    _add_vocabulary_flags(flags.add_argument_group("vocabulary"))
    return flags


def _add_filters(group) -> None:
    """Add the flags of the filters."""
    cli.add_number(
        group, "max_length", 256, "drop pairs with more pieces than this on either side"
    )
    cli.add_number(
        group,
        "max_ratio",
        0.0,
        "drop train pairs where one side has more than this many times the pieces of "
        "the other; 0: no limit",
    )


def _add_vocabulary_flags(group) -> None:
    """Add the flags of the vocabulary."""
    group.add_argument(
        "--vocab_from",
        metavar="DIR",
        help="copy the vocabulary of a log directory or corpus, as imported models "
        "require, instead of training one",
    )
    group.add_argument(
        "--vocab_size", type=int, metavar="INT", help="number of pieces [8000]"
    )
    group.add_argument(
        "--vocab_lines",
        type=int,
        metavar="INT",
        help="maximum number of lines to train it on, drawn at random [1000000]",
    )
    group.add_argument("--model_type", choices=("bpe", "unigram"), help="[bpe]")
    group.add_argument(
        "--normalization",
        choices=("nmt_nfkc", "nfkc", "identity"),
        help="SentencePiece's rule for characters, which translations follow too: "
        "nmt_nfkc replaces full-width punctuation, ligatures and superscripts "
        "[nmt_nfkc; identity for languages that are written without spaces]",
    )
    group.add_argument(
        "--character_coverage",
        type=float,
        metavar="FLOAT",
        help="share of the text whose characters are pieces; the rarest characters are "
        "unknown; try 0.9995 for text with thousands of characters [1.0]",
    )
    group.add_argument(
        "--byte_fallback",
        action="store_true",
        default=None,
        help="encode unknown characters as bytes, so that the model can learn to copy "
        "them; combine with a --character_coverage below 1",
    )
    group.add_argument(
        "--separate",
        action="store_true",
        default=None,
        help="train one vocabulary per language",
    )
    cli.add_number(
        group,
        "bpe_dropout",
        0.0,
        "probability of skipping a merge in train; try 0.05 for a small corpus",
    )
    cli.add_number(
        group,
        "copies",
        1,
        "with --bpe_dropout: how many times to encode train, each at random",
    )


def fill_defaults(args: argparse.Namespace) -> None:
    """Set the defaults of the vocabulary flags in place.

    Raises:
      ValueError: a flag is given together with --vocab_from.

    Args:
      args: the flags, which are changed.
    """
    for name, default in VOCABULARY_DEFAULTS.items():
        if getattr(args, name) is None:
            setattr(args, name, default)
        elif args.vocab_from:
            raise ValueError(
                f"expected --vocab_from or --{name}, got both; leave one out"
            )


def check(args: argparse.Namespace) -> None:
    """Raise ValueError for invalid flags before any file is read."""
    for name in ("vocab_size", "vocab_lines", "max_length", "copies", "workers"):
        if getattr(args, name) < 1:
            raise ValueError(
                f"--{name}: expected 1 or more, got {getattr(args, name)}; raise it"
            )
    check_dropout(args)
    if not 0.98 <= args.character_coverage <= 1:
        raise ValueError(
            f"--character_coverage: expected 0.98 to 1, got "
            f"{args.character_coverage}; try 0.9995"
        )
    if not (args.max_ratio == 0 or args.max_ratio >= 1):
        raise ValueError(
            f"--max_ratio: expected 1 or more, or 0 for no limit, got "
            f"{args.max_ratio:g}; try 3"
        )
    refuse_unwritable(args.out, "--out")
    if os.path.exists(os.path.join(args.out, hparams.FILE_NAME)):
        raise ValueError(
            f"--out {args.out}: expected a data folder, got a log directory, whose "
            f"vocabulary would be replaced; choose another --out"
        )


def check_dropout(args: argparse.Namespace) -> None:
    """Raise ValueError for dropout without merges, and for copies without dropout."""
    if not 0 <= args.bpe_dropout <= 1:
        raise ValueError(
            f"--bpe_dropout: expected 0 to 1, got {args.bpe_dropout}; try 0.05"
        )
    if args.bpe_dropout and args.model_type != "bpe":
        raise ValueError(
            f"--bpe_dropout: expected --model_type bpe, got {args.model_type}: other "
            f"models have no merges to skip"
        )
    if args.copies > 1 and not args.bpe_dropout:
        raise ValueError(
            f"--copies: expected --bpe_dropout too, got --copies {args.copies} alone: "
            f"the copies would be equal"
        )


def named_pairs(args: argparse.Namespace) -> Dict[str, List[FilePair]]:
    """Return the pairs of text files that the flags name: split → pairs."""
    named = {"train": [weighted_pair(words) for words in args.train or []]}
    for split in SPLITS[1:]:
        words = getattr(args, split)
        named[split] = [FilePair(*words)] if words else []
    return {split: pairs for split, pairs in named.items() if pairs}


def weighted_pair(words: List[str]) -> FilePair:
    """Return the pair of text files that one --train names.

    Raises:
      ValueError: the number of words or the weight is invalid.
    """
    if len(words) not in (2, 3) or "" in words:
        raise ValueError(
            f"--train: expected SOURCE TARGET, or SOURCE TARGET WEIGHT, got "
            f"{' '.join(map(repr, words))}; write --train a.de a.en 3"
        )
    try:
        weight = float(words[2]) if len(words) == 3 else 1.0
    except ValueError:
        weight = 0.0
    if not 0 < weight <= HEAVIEST:
        raise ValueError(
            f"--train: expected a weight above 0, at most {HEAVIEST}, got "
            f"{words[2]!r}: it is how many times the pairs of these files are written"
        )
    return FilePair(words[0], words[1], weight)


def checked_languages(args: argparse.Namespace) -> List[str]:
    """Return the source and target languages, which are also the file extensions."""
    found = languages_of(
        named_pairs(args), args.out, args.source_lang, args.target_lang
    )
    for language, flag in zip(found, ("--source_lang", "--target_lang")):
        check_language(language, flag)
    if found[0] == found[1]:
        raise ValueError(
            f"--source_lang and --target_lang: expected two different names, got "
            f"{found[0]!r} for both: the text of each is written to OUT/dev.LANGUAGE"
        )
    for pair in itertools.chain.from_iterable(named_pairs(args).values()):
        for path, other in ((pair.source, found[1]), (pair.target, found[0])):
            if language_of(path) == other:
                raise ValueError(
                    f"{path}: expected a file in another language than {other}, the "
                    f"language of the other side; change the order of the two files, "
                    "or rename them"
                )
    return list(found)


def run(args: argparse.Namespace) -> None:
    """Check everything, write all files to a temporary folder, and move them to OUT."""
    fill_defaults(args)
    check(args)
    languages = checked_languages(args)
    splits = find_splits(named_pairs(args), args.out, languages)
    texts = {
        split: read_text(split, pairs, args.copies if split == "train" else 1)
        for split, pairs in splits.items()
    }
    with unfinished(args.out) as work:
        prepare(args, texts, languages, work)


def prepare(
    args: argparse.Namespace, texts: Dict[str, Text], languages: List[str], made: str
) -> None:
    """Write all files to `made`, and move them to OUT.

    Args:
      args: the flags.
      texts: the text of each split.
      languages: the languages of source and target.
      made: a new folder.
    """
    kept = []
    for split, text in texts.items():
        if split != "train":
            names = [f"{split}.{language}" for language in languages]
            kept += copy_text(text.pairs[0], names, args.out, made)
    if not args.normalization:
        without_spaces = any(tokenizer_of(each) != "13a" for each in languages)
        args.normalization = "identity" if without_spaces else "nmt_nfkc"
    if args.vocab_from:
        refuse_reversed(args.vocab_from, languages)
    make_vocabularies(args, texts["train"], made)
    entries = {}
    for split, text in texts.items():
        entries[split] = encode_split(
            text,
            os.path.join(made, split),
            recipe_of(args, split, made),
            args.workers,
            reporter(split),
        )
        say(*report_lines(text, entries[split]))
    vocabularies = load_vocabularies(made)
    summary = {
        "source_lang": languages[0],
        "target_lang": languages[1],
        "vocab": {
            "source_size": vocabularies.source.size,
            "target_size": vocabularies.target.size,
            "joint": vocabularies.joint,
            "type": "given" if args.vocab_from else args.model_type,
        },
        "splits": entries,
    }
    if args.bpe_dropout:
        dropout = {"probability": args.bpe_dropout, "copies": args.copies}
        summary["bpe_dropout"] = dropout
    files = [os.path.join(made, name) for name in os.listdir(made)]
    write_summary(made, summary, files + kept)
    publish(made, args.out, [*itertools.chain(*FILE_NAMES), *ID_FILES])


def refuse_reversed(folder: str, languages: List[str]) -> None:
    """Raise ValueError if a folder has separate vocabularies of the other direction."""
    try:
        summary = read_summary(folder)
    except (OSError, ValueError):  # a log directory, which does not name its languages
        return
    theirs = [summary["source_lang"], summary["target_lang"]]
    is_joint = summary.get("vocab", {}).get("joint", True)
    if theirs == languages[::-1] and not is_joint:
        raise ValueError(
            f"--vocab_from {folder}: expected the vocabularies of "
            f"{' → '.join(languages)}, got those of {' → '.join(theirs)}; prepare it "
            "without --separate, so that both languages share one"
        )


def recipe_of(args: argparse.Namespace, split: str, made: str) -> Recipe:
    """Return how to encode a split; dev and test are only filtered by length."""
    if split == "train":
        return Recipe(made, args.max_length, args.max_ratio, args.bpe_dropout)
    return Recipe(made, args.max_length)


def make_vocabularies(args: argparse.Namespace, train: Text, made: str) -> None:
    """Write the vocabularies to `made`."""
    if args.vocab_from:
        copy_vocabularies(args.vocab_from, made)
        return
    lines = sum(train.counts) * (1 if args.separate else 2)
    if lines > args.vocab_lines:
        say(
            f"vocabulary: trained on {args.vocab_lines:,} of {lines:,} lines"
            f"{' of each language' if args.separate else ''}, drawn at random"
        )
    train_vocabularies(
        train,
        made,
        args.vocab_size,
        args.separate,
        args.vocab_lines,
        model_type=args.model_type,
        normalization_rule_name=args.normalization,
        character_coverage=args.character_coverage,
        byte_fallback=args.byte_fallback,
    )


def reporter(split: str) -> Callable[[int, int], None]:
    """Return a function that shows how many blocks of a split are encoded."""
    progress = Progress(sys.stderr, every=0.2 if sys.stderr.isatty() else 10)

    def report(done, total):
        if total >= MANY:
            left = progress.left(done, total)
            text = f"{split}: {done:,} of {total:,} blocks, {left} left"
            progress.show(done, total, text)

    return report
