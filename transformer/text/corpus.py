"""Make a data folder: text files → vocabularies, ids on disk, text.

A split is read in blocks of CHUNK pairs of lines. Each block is encoded independently,
by this process or by a worker, so the ids do not depend on the number of workers. Only
this process writes.
"""

import collections
import contextlib
import filecmp
import functools
import itertools
import os
import random
import re
from typing import (
    IO,
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
from transformer.runtime.files import named, regular
from transformer.text.data_folder import SIDES, SPLITS, save_integers
from transformer.text.filters import REASONS, Rules, described, duplicates
from transformer.text.lines import Pair, count_pairs, read_lines, read_pairs
from transformer.text.vocabulary import (
    JOINT_MODEL,
    SEPARATE_MODELS,
    UNK,
    DropoutVocabulary,
    Pieces,
    load_vocabularies,
    train_vocabulary,
)

CHUNK = 10000  # pairs of lines in a block
NEUTRAL = ("source", "target")  # the languages if no file name has any
LANGUAGE = r"[a-z]{2,3}(?:[-_][A-Za-z]+)?"
# Endings of file names that are not languages.
OTHER_ENDINGS = ("txt", "tsv", "csv", "raw", "tok", "src", "trg", "tgt", "ref")


# --- The text files -------------------------------------------------------------------


class Text(NamedTuple):
    """The text of a split."""

    split: str
    pairs: List[Pair]  # only train may have several
    counts: List[int]  # the number of pairs of lines in each
    copies: int = 1  # how many times it is encoded
    repeated: Optional[np.ndarray] = None  # bool [pairs of lines]: those to drop


def read_text(
    split: str, pairs: List[Pair], copies: int = 1, drop_duplicates: bool = False
) -> Text:
    """Return the text of a split, after reading it once.

    Args:
      split: the name of the split.
      pairs: its files.
      copies: how many times it is encoded.
      drop_duplicates: drop pairs that occurred before in any of the files.

    Raises:
      ValueError: a file cannot be read, or two differ in length.
    """
    counts = [count_pairs(split, pair) for pair in pairs]
    repeated = None
    if drop_duplicates:
        repeated = duplicates(itertools.chain.from_iterable(map(read_pairs, pairs)))
    return Text(split, pairs, counts, copies, repeated)


def languages_of(
    named_pairs: Dict[str, List[Pair]],
    out: str,
    source: Optional[str] = None,
    target: Optional[str] = None,
) -> Tuple[str, str]:
    """Return the languages of source and target.

    In this order: the given ones; the endings of the names of two files (`corpus.es
    corpus.en`); those of the text in the data folder; NEUTRAL.

    Args:
      named_pairs: split → its text files, of the splits whose files are named.
      out: the data folder.
      source, target: the given languages; None: not given.

    Raises:
      ValueError: the data folder has text in several languages, and nothing says which
        is the source.
    """
    if source and target:
        return source, target
    for pair in itertools.chain.from_iterable(named_pairs.values()):
        found = (_language(pair.source), _language(pair.target))
        if all(found) and found[0] != found[1]:
            return source or found[0], target or found[1]
    others = _languages_in(out, [name for name in SPLITS if name not in named_pairs])
    if source or target:
        others = [name for name in others if name not in (source, target)]
        if len(others) == 1:
            return source or others[0], target or others[0]
        return source or NEUTRAL[0], target or NEUTRAL[1]
    if len(others) > 1 and not {"de", "en"} <= set(others):
        raise ValueError(
            f"{out}: expected to know which language is the source, got text in "
            f"{' and '.join(others)}: add --source_lang {others[1]} --target_lang "
            f"{others[0]}, or the other way round"
        )
    return ("de", "en") if len(others) > 1 else NEUTRAL


def _language(path: str) -> str:
    """Return the language at the end of a file name; "" if there is none."""
    name = re.sub(r"(\.gz|\.xml|\.sgm)*$", "", os.path.basename(path))
    found = re.search(rf"\.({LANGUAGE})$", name)
    return found.group(1) if found and found.group(1) not in OTHER_ENDINGS else ""


def _languages_in(out: str, splits: List[str]) -> List[str]:
    """Return the languages of the text of some splits in a data folder."""
    found = set()
    for name in os.listdir(out) if os.path.isdir(out) else []:
        language = _language(name)
        if re.sub(r"\.gz$", "", name) in [f"{split}.{language}" for split in splits]:
            found.add(language)
    return sorted(found)


def find_splits(
    named_pairs: Dict[str, List[Pair]], out: str, languages: Sequence[str]
) -> Dict[str, List[Pair]]:
    """Return the pairs of text files of each split; `test` may be absent.

    Args:
      named_pairs: split → the files that were named; others are looked for in `out`.
      out: the data folder.
      languages: the endings of source and target files.

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
                    f"neither: name the files with --{split} SOURCE TARGET, or their "
                    f"endings with --source_lang and --target_lang"
                )
            pairs = [Pair(found[0], found[1])]
        for path in itertools.chain.from_iterable(pair[:2] for pair in pairs):
            if not os.path.isfile(path):
                raise ValueError(
                    f"--{split}: expected a text file, got {path}, which is none: name "
                    f"another"
                )
        splits[split] = pairs
    return splits


def _find_in(out: str, split: str, language: str) -> str:
    """Return OUT/{split}.{language}, or its .gz, or ""."""
    path = os.path.join(out, f"{split}.{language}")
    for each in (path, path + ".gz"):
        if os.path.lexists(each):
            return regular(each)
    return ""


def copy_text(pair: Pair, names: Sequence[str], out: str, made: str) -> List[str]:
    """Write both sides of a split as plain text, unless OUT holds it already.

    Args:
      pair: the text files.
      names: their names in a data folder.
      out: the data folder.
      made: the folder to write to.

    Returns:
      The paths of files that OUT already holds.

    Raises:
      ValueError: other text in OUT, perhaps the only copy, would be lost.
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
                f"{existing}: expected no file, or the text of {path}, got other text: "
                f"remove it, or choose another --out"
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
    model_type: str,
    separate: bool,
    max_lines: int,
) -> None:
    """Train the vocabularies of a corpus on its train split.

    Args:
      train: the text of the train split.
      folder: where the model files are written.
      vocab_size: the number of pieces.
      model_type: "bpe" or "unigram".
      separate: train one vocabulary per language instead of a joint one.
      max_lines: if there are more lines, train on a random sample of this size.
    """
    paths = [pair[:2] for pair in train.pairs]
    texts = list(zip(*paths)) if separate else [list(itertools.chain(*paths))]
    lines = sum(train.counts) * (1 if separate else 2)
    for name, text in zip(SEPARATE_MODELS if separate else (JOINT_MODEL,), texts):
        path = os.path.join(folder, name)
        train_vocabulary(text, path, vocab_size, model_type, lines, max_lines)


# --- Encoding -------------------------------------------------------------------------


class Recipe(NamedTuple):
    """How text becomes ids."""

    folder: str  # holds the vocabularies
    rules: Rules  # which pairs are kept
    bpe_dropout: float = 0.0  # the probability of skipping a merge


class Block(NamedTuple):
    """Pairs of lines that are encoded together."""

    name: str  # the seed of BPE-dropout: "train-0-0-12"
    corpus: int  # the index of its pair of files
    lines: Tuple[List[str], List[str]]  # of source and target


class Part(NamedTuple):
    """The pairs of a block that were kept, source and target."""

    corpus: int  # of the block
    ids: List[np.ndarray]  # of all sentences, concatenated
    lengths: List[np.ndarray]  # of each sentence, int32 [pairs]
    dropped: Dict[str, int]  # reason → pairs


class Encoder:
    """Encodes blocks by a recipe.

    Args:
      recipe: how text becomes ids.
      threads: the number of threads of SentencePiece; -1: one per core.
    """

    def __init__(self, recipe: Recipe, threads: int = -1):
        self._rules = recipe.rules
        self._draw = random.Random()
        source, target, _ = load_vocabularies(recipe.folder)
        self._sides: List[Pieces] = [source, target]
        if recipe.bpe_dropout:
            self._sides = [
                DropoutVocabulary(each.path, recipe.bpe_dropout, self._draw)
                for each in self._sides
            ]
        for vocabulary in self._sides:
            vocabulary.threads = threads

    def __call__(self, block: Block) -> Part:
        """Encode a block; its name is the seed of BPE-dropout."""
        self._draw.seed(block.name)
        source, target = (
            vocabulary.encode_lines(lines)
            for vocabulary, lines in zip(self._sides, block.lines)
        )
        kept = []
        dropped: collections.Counter = collections.Counter()
        for texts, ids in zip(zip(*block.lines), zip(source, target)):
            reason = self._rules.reason(texts, ids)
            if reason:
                dropped[reason] += 1
            else:
                kept.append(ids)
        lengths = []
        arrays: List[np.ndarray] = []
        for number, vocabulary in enumerate(self._sides):
            sentences = [ids[number] for ids in kept]
            lengths.append(np.array([len(ids) for ids in sentences], np.int32))
            every = itertools.chain.from_iterable(sentences)
            arrays.append(np.fromiter(every, id_type(vocabulary), lengths[-1].sum()))
        return Part(block.corpus, arrays, lengths, dict(dropped))


def id_type(vocabulary: Pieces) -> type:
    """Return the type of the ids of a vocabulary on disk."""
    return np.uint16 if vocabulary.size < 2**16 else np.int32


def blocks_of(text: Text) -> Iterator[Block]:
    """Yield the blocks of a split, without repeated lines."""
    begin = 0  # the index in the split of the first line of the files
    for corpus, (pair, count) in enumerate(zip(text.pairs, text.counts)):
        for copy in range(text.copies):
            lines = read_pairs(pair)
            for number, first in enumerate(range(0, count, CHUNK)):
                some = list(itertools.islice(lines, CHUNK))
                if text.repeated is not None:
                    left_out = text.repeated[begin + first :][: len(some)]
                    some = [one for one, is_out in zip(some, left_out) if not is_out]
                sides = ([source for source, _ in some], [target for _, target in some])
                yield Block(f"{text.split}-{corpus}-{copy}-{number}", corpus, sides)
        begin += count


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
    kept_of_corpus = [0] * len(text.pairs)
    dropped: collections.Counter = collections.Counter()
    # Of the sentences of each block, source and target.
    lengths: Tuple[List[np.ndarray], List[np.ndarray]] = ([], [])
    with contextlib.ExitStack() as stack:
        raw_ids = [stack.enter_context(_raw_file(stem, side)) for side in SIDES]
        parts = _encoded(blocks_of(text), recipe, min(workers, total))
        for done, part in enumerate(parts, 1):
            kept_of_corpus[part.corpus] += len(part.lengths[0])
            dropped.update(part.dropped)
            for number, file in enumerate(raw_ids):
                lengths[number].append(part.lengths[number])
                with named(file.name):
                    file.write(part.ids[number].data)
            report(done, total)
    if text.repeated is not None:
        dropped["duplicates"] = text.copies * int(text.repeated.sum())
    times = np.concatenate(
        [
            times_written(pair.weight, kept, corpus)
            for corpus, (pair, kept) in enumerate(zip(text.pairs, kept_of_corpus))
        ]
    )
    entry: Dict[str, Any] = {"pairs": int(times.sum())}
    entry.update(recipe.rules.report(dropped))
    if not entry["pairs"]:
        files = " and ".join(path for pair in text.pairs for path in pair[:2])
        raise ValueError(
            f"{files}: expected at least one pair to keep, got none "
            f"({described(entry)}): check the text, or raise --max_length"
        )
    vocabularies = load_vocabularies(recipe.folder)
    both = (vocabularies.source, vocabularies.target)
    for number, side in enumerate(SIDES):
        kind = id_type(both[number])
        joined = np.concatenate(lengths[number])
        tokens, unknown = _write_side(f"{stem}.{side}", kind, joined, times)
        entry[f"{side}_tokens"] = tokens
        entry[f"{side}_unknown"] = unknown
    if [pair.weight for pair in text.pairs] != [1.0]:
        written = np.split(times, np.cumsum(kept_of_corpus)[:-1])
        entry["corpora"] = [
            {"weight": pair.weight, "pairs": kept, "written": int(each.sum())}
            for pair, kept, each in zip(text.pairs, kept_of_corpus, written)
        ]
    return entry


def _encoded(blocks: Iterator[Block], recipe: Recipe, workers: int) -> Iterator[Part]:
    """Return the parts of blocks, encoded here or by several workers."""
    if workers < 2:
        return map(Encoder(recipe), blocks)
    return pool.results(functools.partial(Encoder, recipe, 1), blocks, workers)


@contextlib.contextmanager
def _raw_file(stem: str, side: str) -> Iterator[IO[bytes]]:
    """Open the file for the ids of a side until all lengths are known."""
    path = f"{stem}.{side}.raw"
    with named(path), open(path, "wb") as file:
        yield file


def _write_side(
    stem: str, kind: type, lengths: np.ndarray, times: np.ndarray
) -> Tuple[int, int]:
    """Write ids and offsets of a side from its raw ids, applying the weights.

    Args:
      stem: the beginning of the file names: {stem}.ids.npy …
      kind: the dtype of the ids.
      lengths: of the sentences, int32 [pairs].
      times: how many times each is written, int64 [pairs].

    Returns:
      (number of pieces, number of UNK).
    """
    unknown = 0

    def chunks():
        nonlocal unknown
        with open(f"{stem}.raw", "rb") as file:
            for first in range(0, len(lengths), CHUNK):
                some = slice(first, first + CHUNK)
                ids = np.fromfile(file, kind, lengths[some].sum())
                ids = several_times(ids, lengths[some], times[some])
                unknown += int(np.count_nonzero(ids == UNK))
                yield ids

    written = np.repeat(lengths, times)
    offsets = np.zeros(len(written) + 1, np.int64)
    np.cumsum(written, out=offsets[1:])
    tokens = int(offsets[-1])
    save_integers(f"{stem}.offsets.npy", [offsets], np.int64, len(offsets))
    save_integers(f"{stem}.ids.npy", chunks(), kind, tokens)
    os.remove(f"{stem}.raw")
    return tokens, unknown


def times_written(weight: float, pairs: int, corpus: int) -> np.ndarray:
    """Return how many times each pair of a corpus is written, int64 [pairs].

    Each pair is written int(weight) times. For the rest of the weight, randomly drawn
    pairs are written once more: round(weight * pairs) in all, the same in each run.

    Args:
      weight: 0 or more.
      pairs: the number of pairs of the corpus.
      corpus: the index of the corpus in the split, which is part of the seed.
    """
    whole = int(weight)
    times = np.full(pairs, whole, np.int64)
    more = int(round((weight - whole) * pairs))
    if more:
        times[np.random.RandomState([1, corpus]).permutation(pairs)[:more]] += 1
    return times


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
    starts = np.repeat(np.cumsum(lengths) - lengths, times)  # of each copy, in `ids`
    lengths = np.repeat(lengths, times)
    ends = np.cumsum(lengths)
    shift = np.repeat(starts - (ends - lengths), lengths)
    return ids[np.arange(len(shift)) + shift]


def report_lines(text: Text, entry: Dict[str, Any]) -> List[str]:
    """Return the report of a split as a line, and one for each corpus with a weight.

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
        f"{text.split}: of {pair.source} and {pair.target}, weight "
        f"{corpus['weight']:g}: {corpus['pairs']:,} pairs kept, {corpus['written']:,} "
        f"written"
        for corpus, pair in zip(entry.get("corpora", []), text.pairs)
    ]
