r"""Prepares a corpus: parallel text files become a vocabulary, ids and a report.

    python scripts/prepare.py --out data/multi30k --train train.de.gz train.en.gz \
        --dev val.de val.en --test test_2016_flickr.de test_2016_flickr.en
    python scripts/prepare.py --out data/sample --vocab-size 2000

The second form is for a folder that holds {train,dev,test}.{de,en} already. What is
written, and what it is good for, is in data/README.md. Either all of it is written or
nothing: the work is done in a temporary folder, and moved into place at the end.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import itertools
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from transformer.text.bpe_dropout import DropoutVocabulary
from transformer.text.lines import check_language, read_lines
from transformer.text.vocabulary import (
    FILE_NAMES,
    JOINT_MODEL,
    SEPARATE_MODELS,
    UNK,
    Vocabularies,
    Vocabulary,
    copy_vocabularies,
    load_vocabularies,
    train_vocabulary,
)

SPLITS = ("train", "dev", "test")
CHUNK = 10000  # pairs encoded at a time
IDS = [
    f"{split}.{side}.{part}.npy"
    for split in SPLITS
    for side in ("source", "target")
    for part in ("ids", "offsets")
]


class Pair(NamedTuple):
    """The two files of a split."""

    source: str
    target: str


# The command line


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Reads the flags; dashes and underscores in their names mean the same."""
    parser = argparse.ArgumentParser(
        prog="prepare.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--out", required=True, help="the folder that is written")
    parser.add_argument("--source-lang", default="de", help="ending of source files")
    parser.add_argument("--target-lang", default="en", help="ending of target files")
    for split in SPLITS:
        parser.add_argument(
            f"--{split}",
            nargs=2,
            metavar=("SOURCE", "TARGET"),
            help=f"plain, IWSLT tags or xml, also .gz; else OUT/{split}.LANGUAGE"
            + (", if there" if split == "test" else ""),
        )
    parser.add_argument(
        "--vocab-from",
        metavar="DIR",
        help="take the vocabulary of this log directory or corpus, and train none: "
        "what an imported model needs",
    )
    parser.add_argument("--vocab-size", type=int, default=8000, help="pieces")
    parser.add_argument("--model-type", choices=("bpe", "unigram"), default="bpe")
    parser.add_argument(
        "--separate", action="store_true", help="a vocabulary for each language"
    )
    parser.add_argument(
        "--max-length", type=int, default=256, help="pieces; longer pairs are dropped"
    )
    parser.add_argument(
        "--bpe-dropout",
        type=float,
        default=0.0,
        metavar="P",
        help="leave out merges of train with this probability; 0.05 for a small corpus",
    )
    parser.add_argument(
        "--copies",
        type=int,
        default=1,
        help="with --bpe-dropout: how often train is written, each time drawn anew",
    )
    argv = [_dashed(argument) for argument in argv]
    args = parser.parse_args(argv)
    for flag in ("--vocab-size", "--model-type", "--separate", "--bpe-dropout"):
        if args.vocab_from and any(word.split("=")[0] == flag for word in argv):
            parser.error(f"found --vocab-from and {flag}, wanted one of them")
    return args


def _dashed(argument: str) -> str:
    """Writes a flag's name with dashes: --vocab_size=9 becomes --vocab-size=9."""
    name, equals, value = argument.partition("=")
    if not name.startswith("--"):
        return argument
    return name.replace("_", "-") + equals + value


def check(args: argparse.Namespace) -> None:
    """Refuses what no file can mend, before any file is read."""
    check_language(args.source_lang, "--source-lang")
    check_language(args.target_lang, "--target-lang")
    if args.source_lang == args.target_lang:
        raise ValueError(
            f"found {args.source_lang!r} as --source-lang and as --target-lang, wanted "
            f"two names: the text of both is written to OUT/dev.LANGUAGE"
        )
    if args.vocab_size < 1:
        raise ValueError(f"found --vocab-size {args.vocab_size}, wanted 1 or more")
    if args.max_length < 1:
        raise ValueError(f"found --max-length {args.max_length}, wanted 1 or more")
    check_dropout(args)


def check_dropout(args: argparse.Namespace) -> None:
    """Refuses dropout where there are no merges, and copies that would be equal."""
    if not 0 <= args.bpe_dropout <= 1:
        raise ValueError(f"found --bpe-dropout {args.bpe_dropout}, wanted 0 to 1")
    if args.bpe_dropout and args.model_type != "bpe":
        raise ValueError(
            f"found --bpe-dropout with --model-type {args.model_type}, wanted bpe: the "
            f"other has no merges to leave out"
        )
    if args.copies < 1:
        raise ValueError(f"found --copies {args.copies}, wanted 1 or more")
    if args.copies > 1 and not args.bpe_dropout:
        raise ValueError(
            f"found --copies {args.copies} without --bpe-dropout, wanted both: the "
            f"copies would be equal"
        )


# Which files


def find_splits(args: argparse.Namespace) -> dict[str, Pair]:
    """Returns the two text files of each split; `test` may be absent."""
    found = {}
    for split in SPLITS:
        given = getattr(args, split)
        beside = [
            _beside(args, split, language)
            for language in (args.source_lang, args.target_lang)
        ]
        if given is None and split == "test" and beside == [None, None]:
            continue
        found[split] = Pair(*(given or beside))
        _check_found(args, split, found[split])
    return found


def _beside(args: argparse.Namespace, split: str, language: str) -> str | None:
    """Returns OUT/{split}.{language}, or its .gz, or None."""
    path = os.path.join(args.out, f"{split}.{language}")
    return next((one for one in (path, path + ".gz") if os.path.isfile(one)), None)


def _check_found(args: argparse.Namespace, split: str, pair: Pair) -> None:
    """Refuses a file that was not found, or is not there."""
    for path, language in zip(pair, (args.source_lang, args.target_lang)):
        if path is None:
            raise ValueError(
                f"found no {split}.{language} and no {split}.{language}.gz in "
                f"{args.out}: name the files with --{split} SOURCE TARGET, or their "
                f"endings with --source-lang and --target-lang"
            )
        if not os.path.isfile(path):
            raise ValueError(f"found no file {path}, wanted text for --{split}")


def check_pairs(split: str, pair: Pair) -> None:
    """Reads every line of both files, and refuses a pair of unequal numbers."""
    source, target = (sum(1 for _ in read_lines(path)) for path in pair)
    if source != target:
        raise ValueError(
            f"{split}: found {source:,} sentences in {pair.source} but {target:,} in "
            f"{pair.target}, wanted the same number: line n must translate line n"
        )


# Text to ids


class Side:
    """The ids of one language of one split, as they grow: two bytes a piece or four."""

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        self.dtype = np.uint16 if vocabulary.size < 2**16 else np.int32
        self._ids = array.array(np.dtype(self.dtype).char)
        self._offsets = array.array("q", [0])

    def append(self, ids: Sequence[int]) -> None:
        """Adds one sentence."""
        self._ids.extend(ids)
        self._offsets.append(len(self._ids))

    def save(self, stem: str) -> None:
        """Writes {stem}.ids.npy and {stem}.offsets.npy."""
        np.save(f"{stem}.ids.npy", np.frombuffer(self._ids, self.dtype))
        np.save(f"{stem}.offsets.npy", np.frombuffer(self._offsets, np.int64))

    def counts(self) -> tuple[int, int]:
        """Returns the number of pieces, and of those that are UNK."""
        ids = np.frombuffer(self._ids, self.dtype)
        return len(ids), int(np.count_nonzero(ids == UNK))


def encode_split(
    pair: Pair, stem: str, vocabularies: Vocabularies, max_length: int, copies: int = 1
) -> dict[str, int]:
    """Writes the ids of a split, and returns its report.

    Args:
      pair: the text files, of equally many lines.
      stem: where the ids go: {stem}.source.ids.npy …
      vocabularies: of the two languages.
      max_length: pairs with more pieces than this on a side are dropped.
      copies: how often the split is written.

    Returns:
      What corpus.json says of a split.
    """
    source, target = Side(vocabularies.source), Side(vocabularies.target)
    kept = empty = long = 0
    for source_ids, target_ids in _encoded(pair, vocabularies, copies):
        if not source_ids or not target_ids:
            empty += 1
        elif max(len(source_ids), len(target_ids)) > max_length:
            long += 1
        else:
            kept += 1
            source.append(source_ids)
            target.append(target_ids)
    if not kept:
        raise ValueError(
            f"found no pair to keep in {pair.source} and {pair.target} ({empty} empty, "
            f"{long} longer than {max_length} pieces), wanted at least one: see to the "
            f"text, or raise --max-length"
        )
    source.save(f"{stem}.source")
    target.save(f"{stem}.target")
    report = {"pairs": kept, "empty": empty, "too_long": long, "max_length": max_length}
    report["source_tokens"], report["source_unknown"] = source.counts()
    report["target_tokens"], report["target_unknown"] = target.counts()
    return report


def _encoded(
    pair: Pair, vocabularies: Vocabularies, copies: int
) -> Iterator[tuple[list[int], list[int]]]:
    """Yields the ids of each pair of lines, a chunk encoded at a time."""
    lines = itertools.chain.from_iterable(
        zip(read_lines(pair.source), read_lines(pair.target)) for _ in range(copies)
    )
    for chunk in iter(lambda: list(itertools.islice(lines, CHUNK)), []):
        sources, targets = zip(*chunk)
        yield from zip(
            vocabularies.source.encode_lines(sources),
            vocabularies.target.encode_lines(targets),
        )


def describe(split: str, report: dict[str, int]) -> str:
    """Returns the report as the line that is printed."""
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


# The folder


def prepare(args: argparse.Namespace) -> None:
    """Does the work: checks everything, then writes everything, then moves it."""
    check(args)
    splits = find_splits(args)
    with working_folder(args.out) as work:
        for split, pair in splits.items():
            check_pairs(split, pair)
        vocabularies = make_vocabularies(args, splits["train"], work)
        reports = {}
        for split, pair in splits.items():
            stem = os.path.join(work, split)
            if split == "train":
                encoders, copies = with_dropout(vocabularies, args), args.copies
            else:
                encoders, copies = vocabularies, 1
                write_text(pair, args, split, work)
            reports[split] = encode_split(pair, stem, encoders, args.max_length, copies)
            print(describe(split, reports[split]))
        write_summary(args, vocabularies, reports, work)
        move_into_place(work, args.out)


@contextlib.contextmanager
def working_folder(out: str) -> Iterator[str]:
    """Gives an empty folder on the file system of `out`, which is gone afterwards."""
    parent = os.path.abspath(out)
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent)
    try:
        work = tempfile.mkdtemp(prefix=".prepare-", dir=parent)
    except OSError as error:
        raise ValueError(
            f"cannot write --out {out} ({error.strerror}): wanted a folder in which "
            f"you may write, or the name of a new one in such a folder"
        ) from error
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def make_vocabularies(args: argparse.Namespace, train: Pair, work: str) -> Vocabularies:
    """Trains the vocabularies, on the train split and nothing else, or copies them."""
    if args.vocab_from:
        copy_vocabularies(args.vocab_from, work)
        return load_vocabularies(work)
    texts = [[path] for path in train] if args.separate else [list(train)]
    names = SEPARATE_MODELS if args.separate else (JOINT_MODEL,)
    for name, paths in zip(names, texts):
        model = os.path.join(work, name)
        train_vocabulary(paths, model, args.vocab_size, args.model_type)
    return load_vocabularies(work)


def with_dropout(vocabularies: Vocabularies, args: argparse.Namespace) -> Vocabularies:
    """Returns the vocabularies that encode train, whose draws are the same each run."""
    if not args.bpe_dropout:
        return vocabularies
    draw = random.Random(1)
    source, target, joint = vocabularies
    source = DropoutVocabulary(source.path, args.bpe_dropout, draw)
    if joint:
        return Vocabularies(source, source, joint)
    target = DropoutVocabulary(target.path, args.bpe_dropout, draw)
    return Vocabularies(source, target, joint)


def write_text(pair: Pair, args: argparse.Namespace, split: str, work: str) -> None:
    """Writes every line of a split as plain text, unless it lies in OUT already."""
    for path, language in zip(pair, (args.source_lang, args.target_lang)):
        name = f"{split}.{language}"
        there = os.path.join(args.out, name)
        if os.path.exists(there) and os.path.samefile(path, there):
            continue
        with open(os.path.join(work, name), "wb") as file:
            file.writelines(line.encode("utf-8") + b"\n" for line in read_lines(path))


def write_summary(
    args: argparse.Namespace, vocabularies: Vocabularies, reports: dict, work: str
) -> None:
    """Writes corpus.json: the languages, the vocabulary, the report of each split."""
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
    with open(os.path.join(work, "corpus.json"), "w", encoding="utf-8") as file:
        json.dump(summary, file, indent=2)
        file.write("\n")


def move_into_place(work: str, out: str) -> None:
    """Moves the finished files to OUT, and removes what an earlier run left there."""
    os.makedirs(out, exist_ok=True)
    new = os.listdir(work)
    for name in itertools.chain(*FILE_NAMES, IDS):
        if name not in new and os.path.exists(os.path.join(out, name)):
            os.remove(os.path.join(out, name))
    for name in sorted(new, key=lambda name: (name == "corpus.json", name)):
        os.replace(os.path.join(work, name), os.path.join(out, name))


def main(argv: Sequence[str]) -> None:
    """Runs the command line; a refusal is one line on stderr and exit status 2."""
    args = parse(argv)
    try:
        prepare(args)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"prepare.py: error: {error}\n")
        raise SystemExit(2) from error


if __name__ == "__main__":
    main(sys.argv[1:])
