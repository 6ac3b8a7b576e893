"""Encode text files: train the vocabularies, and write ids and plain text.

A split is read in chunks of CHUNK_SIZE pairs of lines. This process or a worker process
encodes each chunk independently, so the ids do not depend on the number of workers.
Only this process writes.
"""

import collections
import contextlib
import filecmp
import functools
import itertools
import os
import random
import unicodedata
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from transformer.runtime import pool
from transformer.runtime.errors import CorpusError, TextNotFound
from transformer.runtime.files import name_file_in_errors
from transformer.runtime.progress import format_count
from transformer.text.data_folder import SIDES, SPLITS, language_of, write_integers
from transformer.text.lines import FilePair, read_pairs, read_side, split_label
from transformer.text.pair_checks import PairFindings, check_pairs
from transformer.text.vocabulary import (
    JOINT_MODEL,
    SEPARATE_MODELS,
    UNK,
    BaseVocabulary,
    DropoutVocabulary,
    load_vocabularies,
    train_vocabulary,
)

CHUNK_SIZE = 10000  # pairs of lines
NEUTRAL_LANGUAGES = ("source", "target")  # the languages if no file name has any


# --- The text files -------------------------------------------------------------------


class SplitFiles(NamedTuple):
    """The text files of a split."""

    split: str
    file_pairs: List[FilePair]  # only train may have more than one
    counts: List[int]  # the number of pairs of lines in each
    copies: int = 1  # how many times the text is encoded
    findings: Sequence[PairFindings] = ()  # what was found in each file pair


def check_split(split: str, file_pairs: List[FilePair], copies: int = 1) -> SplitFiles:
    """Check the text files of a split, and count their lines.

    Args:
      split: the name of the split.
      file_pairs: its files.
      copies: how many times the text is encoded.

    Raises:
      CorpusError: a file cannot be read, the two files of a pair differ in length, or
        there are no lines.
      SidesEqual: the two files of a pair hold the same text.
    """
    findings = [check_pairs(split, file_pair) for file_pair in file_pairs]
    counts = [finding.num_pairs for finding in findings]
    if not any(counts):
        paths = ", ".join(path for file_pair in file_pairs for path in file_pair[:2])
        raise CorpusError(
            f"{split}: expected text, got empty files: {paths}; write text into them, "
            "or name other files"
        )
    return SplitFiles(split, file_pairs, counts, copies, findings)


def choose_languages(
    file_pairs: Dict[str, List[FilePair]],
    folder: str,
    source: Optional[str] = None,
    target: Optional[str] = None,
) -> Tuple[str, str]:
    """Return the languages of source and target.

    The first of these that applies: `source` and `target`; the extensions of two files
    (`corpus.es corpus.en`); de and en if the data folder has such text;
    NEUTRAL_LANGUAGES.

    Args:
      file_pairs: split → its text files, for the splits whose files are named.
      folder: the data folder.
      source, target: the languages, if they are named.
    """
    other_splits = [split for split in SPLITS if split not in file_pairs]
    has_german = any(_find_text(folder, split, "de") for split in other_splits)
    languages = ("de", "en") if has_german else NEUTRAL_LANGUAGES
    for file_pair in itertools.chain.from_iterable(file_pairs.values()):
        endings = (language_of(file_pair.source), language_of(file_pair.target))
        if all(endings) and endings[0] != endings[1]:
            languages = endings
            break
    if source == languages[1] or target == languages[0]:
        languages = languages[::-1]
    return source or languages[0], target or languages[1]


def find_splits(
    file_pairs: Dict[str, List[FilePair]], folder: str, languages: Sequence[str]
) -> Dict[str, List[FilePair]]:
    """Find the text files of each split; `test` may be absent.

    Args:
      file_pairs: split → its text files, for the splits whose files are named. The
        files of other splits are searched for in `folder`.
      folder: the data folder.
      languages: the extensions of source and target files.

    Raises:
      TextNotFound: a file is missing.
    """
    splits = {}
    for split in SPLITS:
        pairs = file_pairs.get(split)
        if not pairs:
            paths = [_find_text(folder, split, language) for language in languages]
            if split == "test" and paths == ["", ""]:
                continue
            if "" in paths:
                language = languages[paths.index("")]
                raise TextNotFound(
                    f"{folder}: the text {split}.{language}, or {split}.{language}.gz, "
                    "is missing",
                    split,
                )
            pairs = [FilePair(paths[0], paths[1])]
        for name in itertools.chain.from_iterable(pair[:2] for pair in pairs):
            path, _ = split_label(name)
            if not os.path.isfile(path):
                problem = "does not exist"
                if os.path.exists(path):
                    problem = "is a folder, a pipe or a device"
                raise CorpusError(
                    f"{split}: expected a text file, got {path}, which {problem}; "
                    "check the path"
                )
        splits[split] = pairs
    return splits


def _find_text(folder: str, split: str, language: str) -> str:
    """Return the path of {split}.{language} in a folder, or of its .gz, or ""."""
    path = os.path.join(folder, f"{split}.{language}")
    return next(filter(os.path.lexists, (path, path + ".gz")), "")


def copy_missing_text(
    file_pair: FilePair, names: Sequence[str], folder: str, work_dir: str
) -> List[str]:
    """Write the sides of a split that the folder lacks, as plain text.

    Args:
      file_pair: the text files.
      names: the names of the files in a data folder.
      folder: the data folder.
      work_dir: where the text is written.

    Returns:
      The paths of the files that the data folder already has.

    Raises:
      CorpusError: different text in the folder, perhaps the only copy, would be lost.
    """
    existing_paths = []
    for side, (path, name) in enumerate(zip(file_pair[:2], names)):
        existing = os.path.join(folder, name)
        copy = os.path.join(work_dir, name)
        if os.path.exists(existing) and _is_same_file(path, existing):
            existing_paths.append(existing)
            continue
        write_lines(read_side(file_pair, side), copy)
        if os.path.exists(existing) and not filecmp.cmp(copy, existing, False):
            raise CorpusError(
                f"{existing}: expected no file, or the text of {path}, got different "
                "text; remove it, or choose another folder"
            )
    return existing_paths


def _is_same_file(path: str, other: str) -> bool:
    """Return whether two names are those of the same file."""
    return not split_label(path)[1] and os.path.samefile(path, other)


def write_lines(lines: Iterable[str], path: str) -> int:
    """Append lines to a text file; return their number."""
    count = 0
    with name_file_in_errors(path), open(path, "ab") as file:
        for line in lines:
            file.write(line.encode("utf-8") + b"\n")
            count += 1
    return count


# --- Vocabularies ---------------------------------------------------------------------


def train_vocabularies(
    train: SplitFiles,
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
    paths = [file_pair[:2] for file_pair in train.file_pairs]
    texts = list(zip(*paths)) if separate else [list(itertools.chain(*paths))]
    num_lines = sum(train.counts) * (1 if separate else 2)
    for name, text in zip(SEPARATE_MODELS if separate else (JOINT_MODEL,), texts):
        path = os.path.join(folder, name)
        train_vocabulary(text, path, vocab_size, num_lines, max_lines, **options)


# --- Encoding -------------------------------------------------------------------------


class EncodingOptions(NamedTuple):
    """How text becomes ids."""

    folder: str  # holds the vocabularies
    max_length: int  # pairs with more pieces on either side are dropped
    max_ratio: float = 0.0  # as are pairs above this ratio of pieces; 0: none
    bpe_dropout: float = 0.0  # the probability of skipping a merge


class Chunk(NamedTuple):
    """Pairs of lines that are encoded together."""

    name: str  # the seed for BPE-dropout: "train-0-0-12"
    file_pair_index: int  # within the split
    lines: Tuple[List[str], List[str]]  # of source and target


class EncodedChunk(NamedTuple):
    """The pairs of a chunk that are not dropped; lists are of source and target."""

    file_pair_index: int  # within the split
    ids: List[np.ndarray]  # of all sentences, concatenated
    lengths: List[np.ndarray]  # of each sentence, int32 [pairs]
    dropped: Dict[str, int]  # reason → pairs


# The reason why a pair is dropped, the first that applies → a description.
REASONS = {
    "empty": "empty",
    "too_long": "longer than {max_length} pieces",
    "ratio": "over a ratio of {max_ratio:g}",
}


def reason_to_drop(ids: Sequence[Sequence[int]], options: EncodingOptions) -> str:
    """Return why a pair is dropped, a key of REASONS, or "" if it is not dropped.

    Args:
      ids: the ids of source and target.
      options: the limits.
    """
    shorter, longer = sorted(map(len, ids))
    if not shorter:
        return "empty"
    if longer > options.max_length:
        return "too_long"
    if options.max_ratio and longer > options.max_ratio * shorter:
        return "ratio"
    return ""


def describe_dropped(entry: Dict[str, Any]) -> str:
    """Format the numbers of dropped pairs: "1 empty, 2 longer than 256 pieces".

    Args:
      entry: the entry of a split in corpus.json.
    """
    descriptions = dict(REASONS)
    if entry.get("grown"):
        descriptions["too_long"] += ", {grown:,} of them only with BPE-dropout"
    return ", ".join(
        f"{entry[reason]:,} {description.format(**entry)}"
        for reason, description in descriptions.items()
        if reason in entry
    )


def make_encoder(
    options: EncodingOptions, threads: int = -1
) -> Callable[[Chunk], EncodedChunk]:
    """Return a function that encodes a chunk; its name is the seed for BPE-dropout.

    Args:
      options: how text becomes ids.
      threads: the number of SentencePiece threads; -1: one per core.
    """
    random_source = random.Random()
    plain = load_vocabularies(options.folder)[:2]
    vocabularies: List[BaseVocabulary] = list(plain)
    if options.bpe_dropout:
        vocabularies = [
            DropoutVocabulary(vocabulary.path, options.bpe_dropout, random_source)
            for vocabulary in vocabularies
        ]
    for vocabulary in (*plain, *vocabularies):
        vocabulary.threads = threads

    def encode(chunk):
        random_source.seed(chunk.name)
        dropped: collections.Counter = collections.Counter()
        sides = chunk.lines
        if options.bpe_dropout:
            sides = leave_out_long_pairs(plain, sides, options.max_length)
            dropped["too_long"] = len(chunk.lines[0]) - len(sides[0])
        encoded = [
            vocabulary.encode_lines(lines)
            for vocabulary, lines in zip(vocabularies, sides)
        ]
        pairs = []
        for ids in zip(*encoded):
            reason = reason_to_drop(ids, options)
            if reason:
                dropped[reason] += 1
                if options.bpe_dropout and reason == "too_long":
                    dropped["grown"] += 1
            else:
                pairs.append(ids)
        lengths = []
        arrays = []
        for side, vocabulary in enumerate(vocabularies):
            sentences = [ids[side] for ids in pairs]
            lengths.append(np.array([len(ids) for ids in sentences], np.int32))
            all_ids = itertools.chain.from_iterable(sentences)
            arrays.append(np.fromiter(all_ids, id_dtype(vocabulary), lengths[-1].sum()))
        return EncodedChunk(chunk.file_pair_index, arrays, lengths, dict(dropped))

    return encode


def leave_out_long_pairs(
    vocabularies: Sequence[BaseVocabulary],
    sides: Tuple[List[str], List[str]],
    max_length: int,
) -> Tuple[List[str], List[str]]:
    """Leave out the pairs that are too long without BPE-dropout: with it, they grow.

    The time of BPE-dropout grows with the square of the length of a word.

    Args:
      vocabularies: of source and target, without dropout.
      sides: the lines of source and target.
      max_length: the largest number of pieces on either side.
    """
    encoded = [
        vocabulary.encode_lines(lines) for vocabulary, lines in zip(vocabularies, sides)
    ]
    is_short = [max(map(len, ids)) <= max_length for ids in zip(*encoded)]
    source, target = (list(itertools.compress(lines, is_short)) for lines in sides)
    return source, target


def id_dtype(vocabulary: BaseVocabulary) -> type:
    """Return the type in which the ids of a vocabulary are stored on disk."""
    return np.uint16 if vocabulary.size < 2**16 else np.int32


def count_chunks(text: SplitFiles) -> int:
    """Return the number of chunks of a split."""
    return text.copies * sum(-(-count // CHUNK_SIZE) for count in text.counts)


def read_chunks(text: SplitFiles) -> Iterator[Chunk]:
    """Yield the chunks of a split."""
    for index, (file_pair, count) in enumerate(zip(text.file_pairs, text.counts)):
        for copy in range(text.copies):
            line_pairs = read_pairs(file_pair)
            for i in range(-(-count // CHUNK_SIZE)):
                chunk = list(itertools.islice(line_pairs, CHUNK_SIZE))
                sides = (
                    [source for source, _ in chunk],
                    [target for _, target in chunk],
                )
                yield Chunk(f"{text.split}-{index}-{copy}-{i}", index, sides)


def encode_split(
    text: SplitFiles,
    stem: str,
    options: EncodingOptions,
    workers: int,
    report: Callable[[int, int], None],
) -> Dict[str, Any]:
    """Write the ids of a split, and return its entry in corpus.json.

    Args:
      text: the text of the split.
      stem: the beginning of the file names: {stem}.source.ids.npy …
      options: how text becomes ids.
      workers: how many processes encode.
      report: function of the numbers of finished chunks and of all chunks.

    Raises:
      CorpusError: all pairs are dropped.
    """
    counts = _write_ids(text, stem, options, workers, report)
    entry: Dict[str, Any] = {
        "pairs": sum(counts.written),
        "empty": counts.dropped["empty"],
        "too_long": counts.dropped["too_long"],
        "max_length": options.max_length,
    }
    if counts.dropped["grown"]:
        entry["grown"] = counts.dropped["grown"]
    if options.max_ratio:
        entry.update(ratio=counts.dropped["ratio"], max_ratio=options.max_ratio)
    if not entry["pairs"]:
        paths = " and ".join(path for pair in text.file_pairs for path in pair[:2])
        raise CorpusError(
            f"{paths}: every pair was dropped ({describe_dropped(entry)}): check the "
            "text, or raise max_length"
        )
    for i, side in enumerate(SIDES):
        offsets = np.cumsum(np.concatenate([[0], *counts.lengths[i]]), dtype=np.int64)
        with write_integers(f"{stem}.{side}.offsets.npy", np.int64) as append:
            append(offsets)
        entry[f"{side}_tokens"] = int(offsets[-1])
        entry[f"{side}_unknown"] = counts.unknown[i]
    if [file_pair.weight for file_pair in text.file_pairs] != [1.0]:
        entry["corpora"] = [
            {"weight": file_pair.weight, "pairs": pairs, "written": written}
            for file_pair, pairs, written in zip(
                text.file_pairs, counts.pairs, counts.written
            )
        ]
    return entry


class _SplitCounts(NamedTuple):
    """What was written for a split."""

    pairs: List[int]  # of each file pair: the pairs of lines that were not dropped
    written: List[int]  # of each file pair: these, times its weight
    dropped: collections.Counter  # reason → pairs
    unknown: List[int]  # of source and target: the number of UNK
    lengths: Tuple[
        List[np.ndarray], List[np.ndarray]
    ]  # of sentences, by side and chunk


def _write_ids(
    text: SplitFiles,
    stem: str,
    options: EncodingOptions,
    workers: int,
    report: Callable[[int, int], None],
) -> _SplitCounts:
    """Encode a split, and write {stem}.source.ids.npy and {stem}.target.ids.npy.

    Args:
      text, stem, options, workers, report: as in `encode_split`.
    """
    zeros = [0] * len(text.file_pairs)
    counts = _SplitCounts([*zeros], [*zeros], collections.Counter(), [0, 0], ([], []))
    num_chunks = count_chunks(text)
    dtypes = [id_dtype(side) for side in load_vocabularies(options.folder)[:2]]
    with contextlib.ExitStack() as stack:
        files = [
            stack.enter_context(write_integers(f"{stem}.{side}.ids.npy", dtype))
            for side, dtype in zip(SIDES, dtypes)
        ]
        chunks = _encode(read_chunks(text), options, min(workers, num_chunks))
        for done, chunk in enumerate(chunks, 1):
            index = chunk.file_pair_index
            weight = text.file_pairs[index].weight
            repeats = count_repeats(weight, counts.pairs[index], len(chunk.lengths[0]))
            counts.pairs[index] += len(repeats)
            counts.written[index] += int(repeats.sum())
            counts.dropped.update(chunk.dropped)
            for side, append in enumerate(files):
                lengths = chunk.lengths[side]
                ids = repeat_sentences(chunk.ids[side], lengths, repeats)
                append(ids)
                counts.lengths[side].append(np.repeat(lengths, repeats))
                counts.unknown[side] += int(np.count_nonzero(ids == UNK))
            report(done, num_chunks)
    return counts


def _encode(
    chunks: Iterator[Chunk], options: EncodingOptions, workers: int
) -> Iterator[EncodedChunk]:
    """Encode chunks, in this process or in several worker processes."""
    if workers < 2:
        return map(make_encoder(options), chunks)
    return pool.map_tasks(functools.partial(make_encoder, options, 1), chunks, workers)


def count_repeats(weight: float, before: int, num_pairs: int) -> np.ndarray:
    """Return how many times each of the next pairs is written, int64 [pairs].

    Each pair is written int(weight) times. For the fractional part of the weight, some
    pairs, spread evenly over the files, are written once more:

        count_repeats(2.5, 0, 4)    # [3, 2, 3, 2]

    Args:
      weight: 0 or more.
      before: the number of pairs of the same files before these.
      num_pairs: the number of pairs.
    """
    ends = np.floor(weight * np.arange(before, before + num_pairs + 1) + 0.5)
    return np.diff(ends.astype(np.int64))


def repeat_sentences(
    ids: np.ndarray, lengths: np.ndarray, repeats: np.ndarray
) -> np.ndarray:
    """Repeat each sentence in an array of ids.

        repeat_sentences([7, 8, 9], lengths=[1, 2], repeats=[2, 1])    # [7, 7, 8, 9]

    Args:
      ids: the ids of all sentences, concatenated.
      lengths: the length of each sentence.
      repeats: how many times each sentence is repeated.
    """
    if (repeats == 1).all():
        return ids
    sentences = np.split(ids, np.cumsum(lengths)[:-1])
    repeated = [
        sentence for sentence, count in zip(sentences, repeats) for _ in range(count)
    ]
    return np.concatenate([ids[:0], *repeated])


MAX_WORDS = 4  # one word that becomes more is shown by its first
UNKNOWN = "\u2047"  # ⁇, SentencePiece's text for unknown characters


class LostText(NamedTuple):
    """Lines of a side of a split that encoding and decoding change.

    Spaces do not count.
    """

    side: str  # source or target
    num_lines: int  # that change
    total: int
    before: str  # the first word that changes
    after: str
    characters: str  # that are lost in the line of that word
    has_unknown: bool  # whether one of them is unknown to the vocabulary


def find_lost_text(text: SplitFiles, folder: str) -> List[LostText]:
    """Return the sides of a split that the vocabularies of a folder cannot give back.

    A translation in other characters than its reference has a lower BLEU.

    Args:
      text: the text of the split.
      folder: holds the vocabularies.
    """
    losses = []
    vocabularies = load_vocabularies(folder)[:2]
    for index, (side, vocabulary) in enumerate(zip(SIDES, vocabularies)):
        count = 0
        first = ("", "")
        texts = (read_side(file_pair, index) for file_pair in text.file_pairs)
        for line in itertools.chain.from_iterable(texts):
            decoded = vocabulary.decode(vocabulary.encode(line))
            if decoded.split() != line.split():
                first = first if count else (line, decoded)
                count += 1
        if count:
            losses.append(_describe_loss(side, count, sum(text.counts), *first))
    return losses


def _describe_loss(
    side: str, num_lines: int, total: int, line: str, decoded: str
) -> LostText:
    """Return what is lost on a side, whose first changed line is `line`."""
    words, decoded_words = line.split(), decoded.split()
    pairs = enumerate(itertools.zip_longest(words, decoded_words, fillvalue=""))
    i = next(i for i, (before, after) in pairs if before != after)
    before = "".join(words[i : i + 1])
    # A word may become several: they end where the next word begins.
    ends = range(i + 1, i + 1 + MAX_WORDS)
    next_word = words[i + 1 :][:1]
    end = next((end for end in ends if decoded_words[end:][:1] == next_word), i + 1)
    after = " ".join(decoded_words[i:end])
    lost = collections.Counter(line) - collections.Counter(decoded)
    characters = "".join(filter(_is_no_space, lost))
    has_unknown = decoded.count(UNKNOWN) > line.count(UNKNOWN)
    return LostText(side, num_lines, total, before, after, characters, has_unknown)


def _is_no_space(character: str) -> bool:
    """Return whether a character is anything but a space."""
    return not character.isspace()


def describe_lost_text(lost: LostText) -> str:
    """Return a sentence about text that the vocabulary cannot give back."""
    names = ", ".join(
        f"U+{ord(character):04X} {unicodedata.name(character, '')}".strip()
        for character in lost.characters[:3]
    )
    return (
        f"{lost.num_lines:,} of {lost.total:,} {lost.side} lines "
        f"({lost.num_lines / lost.total:.1%}) do not survive encoding and decoding: "
        f"{lost.before[:40]!r} becomes {lost.after[:40]!r}"
        + (f", which loses {names}" if names else "")
    )


def report_lines(text: SplitFiles, entry: Dict[str, Any]) -> List[str]:
    """Return the report on a split: a line, and one for each file pair with a weight.

    Args:
      text: the text of the split.
      entry: its entry in corpus.json, from `encode_split`.
    """
    dropped = sum(entry.get(reason, 0) for reason in REASONS)
    source = entry["source_tokens"]
    target = entry["target_tokens"]
    lines = [
        f"{text.split}: {format_count(entry['pairs'], 'pair')} kept, {dropped:,} "
        f"dropped ({describe_dropped(entry)}), {format_count(source, 'source token')}, "
        f"{format_count(target, 'target token')}, "
        f"unk {100 * entry['source_unknown'] / source:.3f} % / "
        f"{100 * entry['target_unknown'] / target:.3f} %"
    ]
    return lines + [
        f"{text.split}: from {file_pair.source} and {file_pair.target}, weight "
        f"{counts['weight']:g}: {format_count(counts['pairs'], 'pair')} kept, "
        f"{counts['written']:,} written"
        for counts, file_pair in zip(entry.get("corpora", []), text.file_pairs)
    ]
