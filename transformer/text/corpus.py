"""Make a data folder: turn text files into vocabularies, ids on disk, and text.

A split is read in blocks of CHUNK pairs of lines. This process or a worker encodes each
block independently, so the ids do not depend on the number of workers. Only this
process writes.
"""

import collections
import contextlib
import filecmp
import functools
import itertools
import os
import random
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from transformer.runtime import pool
from transformer.runtime.files import named
from transformer.text.data_folder import SIDES, SPLITS, integer_file, language_of
from transformer.text.lines import FilePair, count_pairs, read_lines, read_pairs
from transformer.text.vocabulary import (
    JOINT_MODEL,
    SEPARATE_MODELS,
    UNK,
    BaseVocabulary,
    DropoutVocabulary,
    load_vocabularies,
    train_vocabulary,
)

CHUNK = 10000  # pairs of lines in a block
NEUTRAL = ("source", "target")  # the languages if no file name names any


# --- The text files -------------------------------------------------------------------


class Text(NamedTuple):
    """The text of a split."""

    split: str
    pairs: List[FilePair]  # only train may have more than one
    counts: List[int]  # the number of pairs of lines in each
    copies: int = 1  # how many times the text is encoded


def read_text(split: str, pairs: List[FilePair], copies: int = 1) -> Text:
    """Return the text of a split after reading it once.

    Args:
      split: the name of the split.
      pairs: its files.
      copies: how many times the text is encoded.

    Raises:
      ValueError: a file cannot be read, the two files of a pair differ in length, or
        there are no lines.
    """
    counts = [count_pairs(split, pair) for pair in pairs]
    if not any(counts):
        paths = ", ".join(path for pair in pairs for path in pair[:2])
        raise ValueError(
            f"{split}: expected text, got empty files: {paths}; write text into them, "
            "or name others"
        )
    return Text(split, pairs, counts, copies)


def languages_of(
    named_pairs: Dict[str, List[FilePair]],
    out: str,
    source: Optional[str] = None,
    target: Optional[str] = None,
) -> Tuple[str, str]:
    """Return the languages of source and target.

    The first of these that applies: the given languages; the extensions of two files
    (`corpus.es corpus.en`); de and en if the data folder has such text; NEUTRAL.

    Args:
      named_pairs: split → its text files, for the splits whose files are named.
      out: the data folder.
      source, target: the given languages; None: not given.
    """
    others = [split for split in SPLITS if split not in named_pairs]
    has_german = any(_find_in(out, split, "de") for split in others)
    found = ("de", "en") if has_german else NEUTRAL
    for pair in itertools.chain.from_iterable(named_pairs.values()):
        endings = (language_of(pair.source), language_of(pair.target))
        if all(endings) and endings[0] != endings[1]:
            found = endings
            break
    if source == found[1] or target == found[0]:
        found = found[::-1]
    return source or found[0], target or found[1]


def find_splits(
    named_pairs: Dict[str, List[FilePair]], out: str, languages: Sequence[str]
) -> Dict[str, List[FilePair]]:
    """Return the pairs of text files of each split; `test` may be absent.

    Args:
      named_pairs: split → the named files; files of other splits are searched for in
        `out`.
      out: the data folder.
      languages: the extensions of source and target files.

    Raises:
      ValueError: a file is missing.
    """
    splits = {}
    for split in SPLITS:
        pairs = named_pairs.get(split)
        if not pairs:
            found = [_find_in(out, split, language) for language in languages]
            if split == "test" and found == ["", ""]:
                continue
            if "" in found:
                language = languages[found.index("")]
                raise ValueError(
                    f"{out}: expected {split}.{language} or {split}.{language}.gz, got "
                    f"neither; name the files with --{split} SOURCE TARGET, or their "
                    f"endings with --source_lang and --target_lang"
                )
            pairs = [FilePair(found[0], found[1])]
        for path in itertools.chain.from_iterable(pair[:2] for pair in pairs):
            if not os.path.isfile(path):
                what = "does not exist"
                if os.path.exists(path):
                    what = "is a folder, a pipe or a device"
                raise ValueError(
                    f"--{split}: expected a text file, got {path}, which {what}; check "
                    f"the path"
                )
        splits[split] = pairs
    return splits


def _find_in(out: str, split: str, language: str) -> str:
    """Return OUT/{split}.{language}, or this with .gz, or ""."""
    path = os.path.join(out, f"{split}.{language}")
    for each in (path, path + ".gz"):
        if os.path.lexists(each):
            return each
    return ""


def copy_text(pair: FilePair, names: Sequence[str], out: str, made: str) -> List[str]:
    """Write both sides of a split as plain text, unless OUT already holds them.

    Args:
      pair: the text files.
      names: the names of the files in a data folder.
      out: the data folder.
      made: the folder to write to.

    Returns:
      The paths of the files that OUT already holds.

    Raises:
      ValueError: different text in OUT, perhaps the only copy, would be lost.
    """
    kept = []
    for path, name in zip(pair[:2], names):
        existing = os.path.join(out, name)
        written = os.path.join(made, name)
        if os.path.exists(existing) and os.path.samefile(path, existing):
            kept.append(existing)
            continue
        write_text(path, written)
        if os.path.exists(existing) and not filecmp.cmp(written, existing, False):
            raise ValueError(
                f"{existing}: expected no file, or the text of {path}, got different "
                f"text; remove it, or choose another --out"
            )
    return kept


def write_text(text_path: str, path: str) -> int:
    """Append the sentences of a corpus file to a text file; return their number."""
    count = 0
    with named(path), open(path, "ab") as file:
        for line in read_lines(text_path):
            file.write(line.encode("utf-8") + b"\n")
            count += 1
    return count


# --- Vocabularies ---------------------------------------------------------------------


def train_vocabularies(
    train: Text,
    folder: str,
    vocab_size: int,
    separate: bool,
    max_lines: int,
    **options: Any,
) -> None:
    """Train the vocabularies of a corpus on its train split.

    Args:
      train: the text of the train split.
      folder: where the model files are written.
      vocab_size: the number of pieces.
      separate: train one vocabulary per language instead of a joint one.
      max_lines: if there are more lines, train on a random sample of this size.
      options: options of SentencePieceTrainer, such as `model_type="bpe"`.
    """
    paths = [pair[:2] for pair in train.pairs]
    texts = list(zip(*paths)) if separate else [list(itertools.chain(*paths))]
    lines = sum(train.counts) * (1 if separate else 2)
    for name, text in zip(SEPARATE_MODELS if separate else (JOINT_MODEL,), texts):
        path = os.path.join(folder, name)
        train_vocabulary(text, path, vocab_size, lines, max_lines, **options)


# --- Encoding -------------------------------------------------------------------------


class Recipe(NamedTuple):
    """How text becomes ids."""

    folder: str  # holds the vocabularies
    max_length: int  # pairs with more pieces on either side are dropped
    max_ratio: float = 0.0  # as are pairs above this ratio of pieces; 0: none
    bpe_dropout: float = 0.0  # the probability of skipping a merge


class Block(NamedTuple):
    """Pairs of lines that are encoded together."""

    name: str  # the seed for BPE-dropout: "train-0-0-12"
    corpus: int  # the index of its pair of files
    lines: Tuple[List[str], List[str]]  # of source and target


class Part(NamedTuple):
    """The pairs of a block that were kept, source and target."""

    corpus: int  # the index of the block's pair of files
    ids: List[np.ndarray]  # of all sentences, concatenated
    lengths: List[np.ndarray]  # of each sentence, int32 [pairs]
    dropped: Dict[str, int]  # reason → pairs


# The reason why a pair is dropped, the first that applies → a description.
REASONS = {
    "empty": "empty",
    "too_long": "longer than {max_length} pieces",
    "ratio": "over a ratio of {max_ratio:g}",
}


def reason_to_drop(ids: Sequence[Sequence[int]], recipe: Recipe) -> str:
    """Return why a pair is dropped, a key of REASONS; "" if it is kept.

    Args:
      ids: the pieces of source and target.
      recipe: the Recipe with the limits.
    """
    shorter, longer = sorted(map(len, ids))
    if not shorter:
        return "empty"
    if longer > recipe.max_length:
        return "too_long"
    if recipe.max_ratio and longer > recipe.max_ratio * shorter:
        return "ratio"
    return ""


def described(entry: Dict[str, Any]) -> str:
    """Return, in words, why pairs were dropped: "1 empty, 2 longer than 256 pieces".

    Args:
      entry: the entry of a split in corpus.json.
    """
    return ", ".join(
        f"{entry[reason]:,} {words.format(**entry)}"
        for reason, words in REASONS.items()
        if reason in entry
    )


def encoder(recipe: Recipe, threads: int = -1) -> Callable[[Block], Part]:
    """Return a function that encodes a block; its name is the seed for BPE-dropout.

    Args:
      recipe: how text becomes ids.
      threads: the number of SentencePiece threads; -1: one per core.
    """
    draw = random.Random()
    sides: List[BaseVocabulary] = list(load_vocabularies(recipe.folder)[:2])
    if recipe.bpe_dropout:
        sides = [
            DropoutVocabulary(each.path, recipe.bpe_dropout, draw) for each in sides
        ]
    for vocabulary in sides:
        vocabulary.threads = threads

    def encode(block):
        draw.seed(block.name)
        encoded = [side.encode_lines(text) for side, text in zip(sides, block.lines)]
        kept = []
        dropped: collections.Counter = collections.Counter()
        for ids in zip(*encoded):
            reason = reason_to_drop(ids, recipe)
            if reason:
                dropped[reason] += 1
            else:
                kept.append(ids)
        lengths = []
        arrays = []
        for number, vocabulary in enumerate(sides):
            sentences = [ids[number] for ids in kept]
            lengths.append(np.array([len(ids) for ids in sentences], np.int32))
            every = itertools.chain.from_iterable(sentences)
            arrays.append(np.fromiter(every, id_type(vocabulary), lengths[-1].sum()))
        return Part(block.corpus, arrays, lengths, dict(dropped))

    return encode


def id_type(vocabulary: BaseVocabulary) -> type:
    """Return the type in which the ids of a vocabulary are stored on disk."""
    return np.uint16 if vocabulary.size < 2**16 else np.int32


def blocks_of(text: Text) -> Iterator[Block]:
    """Yield the blocks of a split."""
    for corpus, (pair, count) in enumerate(zip(text.pairs, text.counts)):
        for copy in range(text.copies):
            lines = read_pairs(pair)
            for number in range(-(-count // CHUNK)):
                some = list(itertools.islice(lines, CHUNK))
                sides = ([source for source, _ in some], [target for _, target in some])
                yield Block(f"{text.split}-{corpus}-{copy}-{number}", corpus, sides)


def encode_split(
    text: Text,
    stem: str,
    recipe: Recipe,
    workers: int,
    report: Callable[[int, int], None],
) -> Dict[str, Any]:
    """Write the ids of a split, and return its entry in corpus.json.

    Args:
      text: the text of the split.
      stem: the beginning of the file names: {stem}.source.ids.npy …
      recipe: how text becomes ids.
      workers: how many processes encode.
      report: function of the numbers of finished blocks and of all blocks.

    Raises:
      ValueError: no pair is left.
    """
    total = text.copies * sum(-(-count // CHUNK) for count in text.counts)
    kept = [0] * len(text.pairs)
    written = [0] * len(text.pairs)
    unknown = [0, 0]
    dropped: collections.Counter = collections.Counter()
    # The lengths of the sentences in each block, source and target.
    lengths: Tuple[List[np.ndarray], List[np.ndarray]] = ([], [])
    kinds = [id_type(each) for each in load_vocabularies(recipe.folder)[:2]]
    with contextlib.ExitStack() as stack:
        files = [
            stack.enter_context(integer_file(f"{stem}.{side}.ids.npy", kind))
            for side, kind in zip(SIDES, kinds)
        ]
        parts = _encoded(blocks_of(text), recipe, min(workers, total))
        for done, part in enumerate(parts, 1):
            corpus = part.corpus
            weight = text.pairs[corpus].weight
            times = times_written(weight, kept[corpus], len(part.lengths[0]))
            kept[corpus] += len(times)
            written[corpus] += int(times.sum())
            dropped.update(part.dropped)
            for number, append in enumerate(files):
                each = part.lengths[number]
                ids = several_times(part.ids[number], each, times)
                append(ids)
                lengths[number].append(np.repeat(each, times))
                unknown[number] += int(np.count_nonzero(ids == UNK))
            report(done, total)
    entry: Dict[str, Any] = {
        "pairs": sum(written),
        "empty": dropped["empty"],
        "too_long": dropped["too_long"],
        "max_length": recipe.max_length,
    }
    if recipe.max_ratio:
        entry.update(ratio=dropped["ratio"], max_ratio=recipe.max_ratio)
    if not entry["pairs"]:
        names = " and ".join(path for pair in text.pairs for path in pair[:2])
        raise ValueError(
            f"{names}: expected at least one pair to keep, got none "
            f"({described(entry)}): check the text, or raise --max_length"
        )
    for number, side in enumerate(SIDES):
        offsets = np.cumsum(np.concatenate([[0], *lengths[number]]), dtype=np.int64)
        with integer_file(f"{stem}.{side}.offsets.npy", np.int64) as append:
            append(offsets)
        entry[f"{side}_tokens"] = int(offsets[-1])
        entry[f"{side}_unknown"] = unknown[number]
    if [pair.weight for pair in text.pairs] != [1.0]:
        entry["corpora"] = [
            {"weight": pair.weight, "pairs": pairs, "written": times}
            for pair, pairs, times in zip(text.pairs, kept, written)
        ]
    return entry


def _encoded(blocks: Iterator[Block], recipe: Recipe, workers: int) -> Iterator[Part]:
    """Return the parts of blocks, encoded by this process or by several workers."""
    if workers < 2:
        return map(encoder(recipe), blocks)
    return pool.results(functools.partial(encoder, recipe, 1), blocks, workers)


def times_written(weight: float, before: int, pairs: int) -> np.ndarray:
    """Return how many times each of the next pairs is written, int64 [pairs].

    Each pair is written int(weight) times. For the fractional part of the weight, some
    pairs, spread evenly over the corpus, are written once more:

        times_written(2.5, 0, 4)    # [3, 2, 3, 2]

    Args:
      weight: 0 or more.
      before: the number of pairs in the corpus before these.
      pairs: the number of pairs.
    """
    ends = np.floor(weight * np.arange(before, before + pairs + 1) + 0.5)
    return np.diff(ends.astype(np.int64))


def several_times(
    ids: np.ndarray, lengths: np.ndarray, times: np.ndarray
) -> np.ndarray:
    """Repeat each sentence in an array of ids.

        several_times([7, 8, 9], lengths=[1, 2], times=[2, 1])    # [7, 7, 8, 9]

    Args:
      ids: the ids of all sentences, concatenated.
      lengths: the length of each sentence.
      times: how many times each sentence is repeated.
    """
    if (times == 1).all():
        return ids
    sentences = np.split(ids, np.cumsum(lengths)[:-1])
    repeated = [each for each, count in zip(sentences, times) for _ in range(count)]
    return np.concatenate([ids[:0], *repeated])


def report_lines(text: Text, entry: Dict[str, Any]) -> List[str]:
    """Return the report on a split: a line, and one for each corpus with a weight.

    Args:
      text: the text of the split.
      entry: its entry in corpus.json, from `encode_split`.
    """
    dropped = sum(entry.get(reason, 0) for reason in REASONS)
    source = entry["source_tokens"]
    target = entry["target_tokens"]
    lines = [
        f"{text.split}: {entry['pairs']:,} pairs kept, {dropped:,} dropped "
        f"({described(entry)}), {source:,} source and {target:,} target tokens, "
        f"unk {100 * entry['source_unknown'] / source:.3f} % / "
        f"{100 * entry['target_unknown'] / target:.3f} %"
    ]
    return lines + [
        f"{text.split}: from {pair.source} and {pair.target}, weight "
        f"{corpus['weight']:g}: {corpus['pairs']:,} pairs kept, {corpus['written']:,} "
        f"written"
        for corpus, pair in zip(entry.get("corpora", []), text.pairs)
    ]
