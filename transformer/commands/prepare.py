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
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from transformer import hparams
from transformer.commands import cli
from transformer.commands.terminal import print_lines
from transformer.runtime.errors import SidesReversed
from transformer.runtime.files import refuse_unwritable, temporary_folder
from transformer.runtime.progress import Progress
from transformer.text.corpus import (
    EncodingOptions,
    LostText,
    SplitFiles,
    check_split,
    choose_languages,
    copy_missing_text,
    describe_lost_text,
    encode_split,
    find_lost_text,
    find_splits,
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
from transformer.text.pair_checks import (
    check_pairs,
    count_common_pairs,
    describe_findings,
    is_reversed,
)
from transformer.text.vocabulary import FILE_NAMES, copy_vocabularies, load_vocabularies

MAX_WEIGHT = 1000  # a larger one is a mistake
MANY_CHUNKS = 10  # progress is shown for this many or more
FilePairs = Dict[str, List[FilePair]]  # split → its text files


class VocabularyOptions(NamedTuple):
    """How a vocabulary is trained: the flags that --vocab_from excludes."""

    vocab_size: int = 8000
    vocab_lines: int = 1000000
    model_type: str = "bpe"
    normalization: str = ""  # "": `choose_normalization`
    character_coverage: float = 1.0
    byte_fallback: bool = False
    separate: bool = False


# --- Flags ----------------------------------------------------------------------------


def parser() -> cli.Parser:
    """Return the parser of the command's flags."""
    parser = cli.make_parser("prepare", __doc__)
    parser.add_argument(
        "--out", required=True, type=cli.path, metavar="DIR", help="the folder to write"
    )
    for side in ("source", "target"):
        parser.add_argument(
            f"--{side}_lang",
            metavar="TEXT",
            help=f"language of the {side}, the ending of its files [read from the "
            f"names of the files: corpus.de; else {side}]",
        )
    parser.add_argument(
        "--train",
        action="append",
        nargs="+",
        metavar=("SOURCE TARGET", "WEIGHT"),
        help="text files: plain, IWSLT tags or xml, also .gz; a file with both sides "
        "(WMT xml, TMX, XLIFF) twice, with languages: FILE#de FILE#en; their pairs are "
        "written WEIGHT times; repeat --train for another corpus [OUT/train.LANGUAGE, "
        "1]",
    )
    for split in SPLITS[1:]:
        parser.add_argument(
            f"--{split}",
            nargs=2,
            type=cli.path,
            metavar=("SOURCE", "TARGET"),
            help="text files, as for --train "
            f"[OUT/{split}.LANGUAGE{', if it exists' if split == 'test' else ''}]",
        )
    cli.add_number(
        parser, "workers", 1, "processes to encode with; the result is the same"
    )
    filters = parser.add_group("filters")
    cli.add_number(
        filters,
        "max_length",
        256,
        "drop pairs with more pieces than this on either side",
    )
    cli.add_number(
        filters,
        "max_ratio",
        0.0,
        "drop train pairs where one side has more than this many times the pieces of "
        "the other; 0: no limit",
    )
    vocabulary = parser.add_group("vocabulary")
    vocabulary.add_argument(
        "--vocab_from",
        type=cli.path,
        metavar="DIR",
        help="copy the vocabulary of a log directory or corpus, as imported models "
        "require, instead of training one",
    )
    _add_training_flags(vocabulary)
    _add_dropout_flags(vocabulary)
    return parser


def _add_training_flags(group: cli.FlagGroup) -> None:
    """Add the flags of VocabularyOptions, whose default is None: not given."""
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
        "nmt_nfkc changes ½ into 1⁄2, m² into m2, … into ..., ligatures, full-width "
        "punctuation and decomposed letters, deletes control characters, and turns "
        "zero-width non-joiners and marks of direction into spaces; nfkc keeps the "
        "latter; identity changes nothing but spaces "
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


def _add_dropout_flags(group: cli.FlagGroup) -> None:
    """Add the flags of BPE-dropout."""
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


# --- Checks before any file is read ---------------------------------------------------


def read_vocabulary_options(flags: Dict[str, Any]) -> VocabularyOptions:
    """Return the options of the vocabulary, with the defaults of absent flags.

    Args:
      flags: name → value; None: the flag is absent.

    Raises:
      ValueError: a flag is combined with --vocab_from.
    """
    options = {
        name: flags[name]
        for name in VocabularyOptions._fields
        if flags[name] is not None
    }
    if flags["vocab_from"] and options:
        raise ValueError(
            f"expected --vocab_from or --{next(iter(options))}, got both; leave one out"
        )
    return VocabularyOptions(**options)


def refuse_below_one(**flags: int) -> None:
    """Raise ValueError for a flag that is not a positive number."""
    for name, value in flags.items():
        if value < 1:
            raise ValueError(f"--{name}: expected 1 or more, got {value}; raise it")


def refuse_useless_dropout(bpe_dropout: float, model_type: str, copies: int) -> None:
    """Raise ValueError for dropout without merges, and for copies without dropout."""
    if not 0 <= bpe_dropout <= 1:
        raise ValueError(f"--bpe_dropout: expected 0 to 1, got {bpe_dropout}; try 0.05")
    if bpe_dropout and model_type != "bpe":
        raise ValueError(
            f"--bpe_dropout: expected --model_type bpe, got {model_type}: other models "
            "have no merges to skip"
        )
    if copies > 1 and not bpe_dropout:
        raise ValueError(
            f"--copies: expected --bpe_dropout too, got --copies {copies} alone: the "
            "copies would be equal"
        )


def check_limits(character_coverage: float, max_ratio: float) -> None:
    """Raise ValueError for a coverage or a ratio that makes no sense."""
    if not 0.98 <= character_coverage <= 1:
        raise ValueError(
            f"--character_coverage: expected 0.98 to 1, got {character_coverage}; try "
            "0.9995"
        )
    if not (max_ratio == 0 or max_ratio >= 1):
        raise ValueError(
            f"--max_ratio: expected 1 or more, or 0 for no limit, got {max_ratio:g}; "
            "try 3"
        )


def check_out(out: str) -> None:
    """Raise ValueError if the data folder cannot be written, or is a log directory."""
    refuse_unwritable(out, "--out")
    if os.path.exists(os.path.join(out, hparams.FILE_NAME)):
        raise ValueError(
            f"--out {out}: expected a data folder, got a log directory, whose "
            f"vocabulary would be replaced; choose another --out"
        )


# --- Files and languages --------------------------------------------------------------


def parse_file_pairs(
    train: Optional[List[List[str]]],
    dev: Optional[List[str]],
    test: Optional[List[str]],
) -> FilePairs:
    """Return the text files that the flags name, for the splits that have any.

    Args:
      train: SOURCE TARGET, or SOURCE TARGET WEIGHT, of each --train.
      dev, test: SOURCE TARGET.
    """
    file_pairs = {
        "train": [parse_weighted_pair(words) for words in train or []],
        "dev": [FilePair(dev[0], dev[1])] if dev else [],
        "test": [FilePair(test[0], test[1])] if test else [],
    }
    return {split: pairs for split, pairs in file_pairs.items() if pairs}


def parse_weighted_pair(words: List[str]) -> FilePair:
    """Return the files that one --train names.

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
    if not 0 < weight <= MAX_WEIGHT:
        raise ValueError(
            f"--train: expected a weight above 0, at most {MAX_WEIGHT}, got "
            f"{words[2]!r}: it is how many times the pairs of these files are written"
        )
    return FilePair(words[0], words[1], weight)


def check_languages(source: str, target: str, file_pairs: FilePairs) -> None:
    """Raise ValueError for languages that cannot be file extensions, or are reversed.

    Args:
      source, target: the languages.
      file_pairs: the text files that the flags name.

    Raises:
      SidesEqual: two files that seem to be in the same language have the same text.
    """
    check_language(source, "--source_lang")
    check_language(target, "--target_lang")
    if source == target:
        raise ValueError(
            f"--source_lang and --target_lang: expected two different names, got "
            f"{source!r} for both: the text of each is written to OUT/dev.LANGUAGE"
        )
    all_pairs = [(split, pair) for split in file_pairs for pair in file_pairs[split]]
    for split, file_pair in all_pairs:
        for path, other in ((file_pair.source, target), (file_pair.target, source)):
            if language_of(path) != other:
                continue
            if language_of(file_pair.source) == language_of(file_pair.target):
                check_pairs(split, file_pair)
                raise ValueError(
                    f"{split}: expected files in two languages, got "
                    f"{file_pair.source} and {file_pair.target}, both in {other} by "
                    "their names; name the file with the translations, or rename one"
                )
            raise ValueError(
                f"{path}: expected a file in another language than {other}, the "
                f"language of the other side; change the order of the two files, "
                "or rename them"
            )


def refuse_reversed(folder: str, source: str, target: str) -> None:
    """Raise ValueError if a folder has separate vocabularies of the other direction.

    Args:
      folder: a data folder, or a log directory, which does not name its languages.
      source, target: the languages of the corpus that is prepared.
    """
    try:
        summary = read_summary(folder)
    except (OSError, ValueError):
        return
    is_reversed = (summary["source_lang"], summary["target_lang"]) == (target, source)
    if is_reversed and not summary.get("vocab", {}).get("joint", True):
        raise ValueError(
            f"--vocab_from {folder}: expected the vocabularies of {source} → {target}, "
            f"got those of {target} → {source}; prepare it without --separate, so that "
            "both languages share one"
        )


# --- The command ----------------------------------------------------------------------


def run(args: argparse.Namespace) -> None:
    """Check everything, write all files to a temporary folder, and move them to OUT."""
    options = read_vocabulary_options(vars(args))
    refuse_below_one(
        vocab_size=options.vocab_size,
        vocab_lines=options.vocab_lines,
        max_length=args.max_length,
        copies=args.copies,
        workers=args.workers,
    )
    refuse_useless_dropout(args.bpe_dropout, options.model_type, args.copies)
    check_limits(options.character_coverage, args.max_ratio)
    check_out(args.out)
    file_pairs = parse_file_pairs(args.train, args.dev, args.test)
    languages = choose_languages(
        file_pairs, args.out, args.source_lang, args.target_lang
    )
    check_languages(*languages, file_pairs)
    texts = {
        split: check_split(split, pairs, args.copies if split == "train" else 1)
        for split, pairs in find_splits(file_pairs, args.out, languages).items()
    }
    refuse_reversed_pairs(texts)
    if args.vocab_from:
        refuse_reversed(args.vocab_from, *languages)
    for text in texts.values():
        print_lines(*report_findings(text), *report_common_pairs(text, texts))
    with temporary_folder(args.out) as work_dir:
        existing_paths = copy_texts(texts, languages, args.out, work_dir)
        if args.vocab_from:
            copy_vocabularies(args.vocab_from, work_dir)
        else:
            report_sample(texts["train"], options)
            normalization = options.normalization or choose_normalization(*languages)
            train(
                texts["train"], work_dir, options._replace(normalization=normalization)
            )
        encoding = EncodingOptions(
            work_dir, args.max_length, args.max_ratio, args.bpe_dropout
        )
        summary = {
            "source_lang": languages[0],
            "target_lang": languages[1],
            "vocab": describe_vocabulary(
                work_dir, "given" if args.vocab_from else options.model_type
            ),
            "splits": encode_and_report(texts, encoding, args.workers),
        }
        print_lines(*report_lost_text(texts["dev"], work_dir, args.vocab_from))
        if args.bpe_dropout:
            dropout = {"probability": args.bpe_dropout, "copies": args.copies}
            summary["bpe_dropout"] = dropout
        new_paths = [os.path.join(work_dir, name) for name in os.listdir(work_dir)]
        write_summary(work_dir, summary, new_paths + existing_paths)
        publish(work_dir, args.out, [*itertools.chain(*FILE_NAMES), *ID_FILES])


def refuse_reversed_pairs(texts: Dict[str, SplitFiles]) -> None:
    """Raise SidesReversed if files have the languages in another order than train."""
    first, *others = [
        file_pair for text in texts.values() for file_pair in text.file_pairs
    ]
    for file_pair in others:
        if is_reversed(file_pair, first):
            raise SidesReversed(
                f"expected the languages in the same order as in {first.source} and "
                f"{first.target}, got {file_pair.source} and {file_pair.target}"
            )


def report_findings(text: SplitFiles) -> List[str]:
    """Return what seems to be wrong with the files of a split."""
    return [
        f"{text.split}: warning: {file_pair.source} and {file_pair.target}: {line}"
        for file_pair, findings in zip(text.file_pairs, text.findings)
        for line in describe_findings(findings)
    ]


def report_common_pairs(text: SplitFiles, texts: Dict[str, SplitFiles]) -> List[str]:
    """Return how many pairs of a split are in the splits before it.

    Args:
      text: the text of the split.
      texts: split → its text, in the order of SPLITS.
    """
    lines = []
    for split in itertools.takewhile(lambda name: name != text.split, texts):
        common, num_pairs = count_common_pairs(
            texts[split].file_pairs, text.file_pairs[0]
        )
        if common:
            lines.append(
                f"{text.split}: warning: {common:,} of {num_pairs:,} pairs are in "
                f"{split}, too"
            )
    return lines


def copy_texts(
    texts: Dict[str, SplitFiles], languages: Sequence[str], out: str, work_dir: str
) -> List[str]:
    """Copy the text of dev and test; return the paths that the data folder has."""
    existing_paths = []
    for split, text in texts.items():
        if split != "train":
            names = [f"{split}.{language}" for language in languages]
            existing_paths += copy_missing_text(
                text.file_pairs[0], names, out, work_dir
            )
    return existing_paths


def encode_and_report(
    texts: Dict[str, SplitFiles], options: EncodingOptions, workers: int
) -> Dict[str, Dict[str, Any]]:
    """Write the ids of all splits, print a report, and return their entries.

    Args:
      texts: split → its text.
      options: for train; dev and test are only filtered by length.
      workers: how many processes encode.
    """
    entries = {}
    for split, text in texts.items():
        entries[split] = encode_split(
            text,
            os.path.join(options.folder, split),
            options
            if split == "train"
            else options._replace(max_ratio=0, bpe_dropout=0),
            workers,
            make_reporter(split),
        )
        print_lines(*report_lines(text, entries[split]))
    return entries


def report_lost_text(
    text: SplitFiles, folder: str, vocab_from: Optional[str]
) -> List[str]:
    """Return which lines of a split the vocabularies of a folder cannot give back.

    Args:
      text: the text of the split.
      folder: holds the vocabularies.
      vocab_from: where they come from; None: they were trained.
    """
    return [
        f"{text.split}: warning: {describe_lost_text(lost)}; "
        + (
            f"the vocabulary is that of {vocab_from}"
            if vocab_from
            else advise_on_lost_text(lost)
        )
        for lost in find_lost_text(text, folder)
    ]


def advise_on_lost_text(lost: LostText) -> str:
    """Return which flag keeps the text that a vocabulary loses."""
    if lost.has_unknown:
        return "--byte_fallback keeps characters that are unknown"
    return "--normalization identity keeps all characters that the vocabulary knows"


def choose_normalization(*languages: str) -> str:
    """Return SentencePiece's rule for characters that suits the languages."""
    without_spaces = any(tokenizer_of(language) != "13a" for language in languages)
    return "identity" if without_spaces else "nmt_nfkc"


def report_sample(text: SplitFiles, options: VocabularyOptions) -> None:
    """Print how many lines the vocabulary is trained on, if not on all of them."""
    num_lines = sum(text.counts) * (1 if options.separate else 2)
    if num_lines > options.vocab_lines:
        print_lines(
            f"vocabulary: trained on {options.vocab_lines:,} of {num_lines:,} lines"
            f"{' of each language' if options.separate else ''}, drawn at random"
        )


def train(text: SplitFiles, folder: str, options: VocabularyOptions) -> None:
    """Train the vocabularies on the train split, and write them to a folder."""
    train_vocabularies(
        text,
        folder,
        options.vocab_size,
        options.separate,
        options.vocab_lines,
        model_type=options.model_type,
        normalization_rule_name=options.normalization,
        character_coverage=options.character_coverage,
        byte_fallback=options.byte_fallback,
    )


def describe_vocabulary(folder: str, model_type: str) -> Dict[str, Any]:
    """Return the entry of the vocabulary in corpus.json."""
    vocabularies = load_vocabularies(folder)
    return {
        "source_size": vocabularies.source.size,
        "target_size": vocabularies.target.size,
        "joint": vocabularies.joint,
        "type": model_type,
    }


def make_reporter(split: str) -> Callable[[int, int], None]:
    """Return a function that shows how many chunks of a split are encoded."""
    progress = Progress(sys.stderr, interval=0.2 if sys.stderr.isatty() else 10)

    def report(done, total):
        if total >= MANY_CHUNKS:
            left = progress.time_left(done, total)
            text = f"{split}: {done:,} of {total:,} chunks, {left} left"
            progress.show(done, total, text)

    return report
