r"""Prepare a corpus: write a vocabulary, ids and a report for parallel text files.

    python scripts/prepare.py --out data/multi30k --train train.de.gz train.en.gz \
        --dev val.de val.en --test test_2016_flickr.de test_2016_flickr.en
    python scripts/prepare.py --out data/sample --vocab_size 2000

The second form is for a folder that already holds {train,dev,test}.{de,en}. The files
that are written are described in data/README.md. Either all of them are written or
none: they are made in a temporary folder, and moved to their place at the end.
"""

import argparse
import filecmp
import itertools
import os
from typing import Any, Dict, List, Optional

import hparams
from transformer.runtime import cli
from transformer.runtime.files import refuse_unwritable, regular
from transformer.runtime.folders import unfinished
from transformer.runtime.terminal import say
from transformer.text.corpus import (
    ID_FILES,
    SPLITS,
    Pair,
    check_pairs,
    encode_split,
    train_vocabularies,
    with_dropout,
    write_text,
)
from transformer.text.lines import check_language
from transformer.text.remarks import remarks
from transformer.text.summary import publish, write_summary
from transformer.text.vocabulary_files import (
    FILE_NAMES,
    Vocabularies,
    copy_vocabularies,
    load_vocabularies,
)

# Flags that --vocab_from excludes → their defaults.
VOCABULARY_DEFAULTS = {
    "vocab_size": 8000,
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
    flags.add_argument(
        "--source_lang",
        default="de",
        metavar="TEXT",
        help="ending of source files [de]",
    )
    flags.add_argument(
        "--target_lang",
        default="en",
        metavar="TEXT",
        help="ending of target files [en]",
    )
    for split in SPLITS:
        flags.add_argument(
            f"--{split}",
            nargs=2,
            metavar=("SOURCE", "TARGET"),
            help="text files: plain, IWSLT tags or xml, also .gz "
            f"[OUT/{split}.LANGUAGE{', if there' if split == 'test' else ''}]",
        )
    flags.add_argument(
        "--max_length",
        type=int,
        default=256,
        metavar="INT",
        help="drop pairs with more pieces on one side [256]",
    )
    _add_vocabulary_flags(flags.add_argument_group("vocabulary"))
    return flags


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
    group.add_argument(
        "--copies",
        type=int,
        default=1,
        metavar="INT",
        help="with --bpe_dropout: how many times train is written, each drawn anew [1]",
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
    for name in ("vocab_size", "max_length", "copies"):
        if getattr(args, name) < 1:
            raise ValueError(
                f"found --{name} {getattr(args, name)}, wanted 1 or more: raise it"
            )
    check_dropout(args)
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


def find_splits(args: argparse.Namespace) -> Dict[str, Pair]:
    """Return the text files of each split; `test` may be absent.

    Raises:
      ValueError: a file is missing.
    """
    found = {}
    for split in SPLITS:
        pair = getattr(args, split) or [
            _find_in_out(args, split, language)
            for language in (args.source_lang, args.target_lang)
        ]
        if split == "test" and pair == [None, None]:
            continue
        found[split] = Pair(*pair)
        _check_found(args, split, found[split])
    return found


def _find_in_out(args: argparse.Namespace, split: str, language: str) -> Optional[str]:
    """Return OUT/{split}.{language}, or its .gz, or None."""
    path = os.path.join(args.out, f"{split}.{language}")
    found = next((one for one in (path, path + ".gz") if os.path.lexists(one)), None)
    return found and regular(found)


def _check_found(args: argparse.Namespace, split: str, pair: Pair) -> None:
    """Raise ValueError for a file that was not found, or does not exist."""
    for path, language in zip(pair, (args.source_lang, args.target_lang)):
        if path is None:
            raise ValueError(
                f"found neither {split}.{language} nor {split}.{language}.gz in "
                f"{args.out}, wanted one of them: name the files with --{split} SOURCE "
                f"TARGET, or their endings with --source_lang and --target_lang"
            )
        if not os.path.isfile(path):
            raise ValueError(
                f"found no file {path}, wanted text: give another --{split}"
            )


def run(args: argparse.Namespace) -> None:
    """Check everything, write everything to a temporary folder, and move it to OUT."""
    fill_defaults(args)
    check(args)
    splits = find_splits(args)
    with unfinished(args.out) as work:
        for split, pair in splits.items():
            check_pairs(split, pair)
        for remark in remarks(splits, (args.source_lang, args.target_lang)):
            say(remark)
        vocabularies = make_vocabularies(args, splits["train"], work)
        reports = {}
        for split, pair in splits.items():
            encoders, copies = vocabularies, 1
            if split == "train":
                encoders = with_dropout(vocabularies, args.bpe_dropout)
                copies = args.copies
            else:
                write_texts(pair, args, split, work)
            reports[split] = encode_split(
                pair, os.path.join(work, split), encoders, args.max_length, copies
            )
            say(describe(split, reports[split]))
        write_summary(
            work,
            summary_of(args, vocabularies, reports),
            [*files_in(work), *kept_texts(args, splits, work)],
        )
        publish(work, args.out, [*itertools.chain(*FILE_NAMES), *ID_FILES])


def files_in(folder: str) -> List[str]:
    """Return the paths of the files in a folder."""
    return [os.path.join(folder, name) for name in os.listdir(folder)]


def make_vocabularies(args: argparse.Namespace, train: Pair, work: str) -> Vocabularies:
    """Write the vocabularies to `work`, and load them."""
    if args.vocab_from:
        copy_vocabularies(args.vocab_from, work)
        return load_vocabularies(work)
    return train_vocabularies(
        train, work, args.vocab_size, args.model_type, args.separate
    )


def write_texts(pair: Pair, args: argparse.Namespace, split: str, work: str) -> None:
    """Write both sides of a split as plain text, unless OUT holds it already."""
    for path, language in zip(pair, (args.source_lang, args.target_lang)):
        name = f"{split}.{language}"
        existing = os.path.join(args.out, name)
        if not os.path.exists(existing):
            write_text(path, os.path.join(work, name))
        elif not os.path.samefile(path, existing):
            write_text(path, os.path.join(work, name))
            refuse_other_text(path, os.path.join(work, name), existing)


def refuse_other_text(path: str, written: str, existing: str) -> None:
    """Raise ValueError where text in OUT, which may be the only copy, would be lost."""
    if not filecmp.cmp(written, existing, shallow=False):
        raise ValueError(
            f"found other text in {existing} than in {path}, wanted none or the same: "
            f"remove it, or choose another --out"
        )


def describe(split: str, report: Dict[str, int]) -> str:
    """Return the report of a split as one line."""
    dropped = report["empty"] + report["too_long"]
    source, target = report["source_tokens"], report["target_tokens"]
    return (
        f"{split}: {report['pairs']:,} pairs kept, {dropped:,} dropped "
        f"({report['empty']:,} empty, {report['too_long']:,} longer than "
        f"{report['max_length']} pieces), "
        f"{source:,} source and {target:,} target tokens, "
        f"unk {100 * report['source_unknown'] / source:.3f} % / "
        f"{100 * report['target_unknown'] / target:.3f} %"
    )


def kept_texts(
    args: argparse.Namespace, splits: Dict[str, Pair], work: str
) -> List[str]:
    """Return the paths of the texts of dev and test that OUT held already."""
    names = [
        f"{split}.{language}"
        for split in splits
        if split != "train"
        for language in (args.source_lang, args.target_lang)
    ]
    written = os.listdir(work)
    return [os.path.join(args.out, name) for name in names if name not in written]


def summary_of(
    args: argparse.Namespace,
    vocabularies: Vocabularies,
    reports: Dict[str, Dict[str, int]],
) -> Dict[str, Any]:
    """Return the languages, the vocabulary, the report of each split."""
    summary = {
        "source_lang": args.source_lang,
        "target_lang": args.target_lang,
        "vocab": {
            "source_size": vocabularies.source.size,
            "target_size": vocabularies.target.size,
            "joint": vocabularies.joint,
            "type": "given" if args.vocab_from else args.model_type,
        },
        "splits": reports,
    }
    if args.bpe_dropout:
        summary["bpe_dropout"] = {
            "probability": args.bpe_dropout,
            "copies": args.copies,
        }
    return summary


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line."""
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
