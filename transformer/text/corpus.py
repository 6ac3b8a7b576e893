"""Write a prepared corpus: text files → vocabularies, ids on disk, text."""

import array
import itertools
import os
import random
from typing import Dict, Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np

from transformer.runtime.files import named
from transformer.text.arrays import save_integers
from transformer.text.bpe_dropout import DropoutVocabulary
from transformer.text.lines import read_lines
from transformer.text.vocabulary import UNK, Vocabulary, train_vocabulary
from transformer.text.vocabulary_files import (
    JOINT_MODEL,
    SEPARATE_MODELS,
    Vocabularies,
    load_vocabularies,
)

SPLITS = ("train", "dev", "test")
ID_FILES = [
    f"{split}.{side}.{part}.npy"
    for split in SPLITS
    for side in ("source", "target")
    for part in ("ids", "offsets")
]
CHUNK = 10000  # pairs encoded at a time


class Pair(NamedTuple):
    """The paths of the two text files of a split."""

    source: str
    target: str


class Side:
    """The ids of one language of one split, collected sentence by sentence."""

    def __init__(self, vocabulary: Vocabulary):
        self.dtype = np.uint16 if vocabulary.size < 2**16 else np.int32
        self._ids = array.array(np.dtype(self.dtype).char)
        self._offsets = array.array("q", [0])

    def append(self, ids: Sequence[int]) -> None:
        """Add one sentence."""
        self._ids.extend(ids)
        self._offsets.append(len(self._ids))

    def save(self, stem: str) -> None:
        """Write {stem}.ids.npy and {stem}.offsets.npy."""
        save_integers(f"{stem}.ids.npy", np.frombuffer(self._ids, self.dtype))
        save_integers(f"{stem}.offsets.npy", np.frombuffer(self._offsets, np.int64))

    def counts(self) -> Tuple[int, int]:
        """Return the number of pieces, and how many of them are UNK."""
        ids = np.frombuffer(self._ids, self.dtype)
        return len(ids), int(np.count_nonzero(ids == UNK))


def check_pairs(split: str, pair: Pair) -> None:
    """Raise ValueError where the two files cannot be read, or differ in length."""
    source, target = (sum(1 for _ in read_lines(path)) for path in pair)
    if source != target:
        raise ValueError(
            f"{split}: found {source:,} sentences in {pair.source} and {target:,} in "
            f"{pair.target}, wanted the same number: line n must translate line n"
        )


def train_vocabularies(
    train: Pair, folder: str, vocab_size: int, model_type: str, separate: bool
) -> Vocabularies:
    """Train the vocabularies of a corpus on its train split, and load them.

    Args:
      train: the text files of the train split.
      folder: where the model files are written.
      vocab_size: the number of pieces.
      model_type: "bpe" or "unigram".
      separate: train one vocabulary per language instead of a joint one.
    """
    texts = [[path] for path in train] if separate else [list(train)]
    names = SEPARATE_MODELS if separate else (JOINT_MODEL,)
    for name, paths in zip(names, texts):
        train_vocabulary(paths, os.path.join(folder, name), vocab_size, model_type)
    return load_vocabularies(folder)


def with_dropout(vocabularies: Vocabularies, probability: float) -> Vocabularies:
    """Return the vocabularies with BPE-dropout; the draws are the same in each run."""
    if not probability:
        return vocabularies
    draw = random.Random(1)
    source, target, joint = vocabularies
    source = DropoutVocabulary(source.path, probability, draw)
    target = source if joint else DropoutVocabulary(target.path, probability, draw)
    return Vocabularies(source, target, joint)


def encode_split(
    pair: Pair, stem: str, vocabularies: Vocabularies, max_length: int, copies: int = 1
) -> Dict[str, int]:
    """Write the ids of a split, and return its report.

    Args:
      pair: the text files, which have the same number of lines.
      stem: the beginning of the file names: {stem}.source.ids.npy …
      vocabularies: of the two languages.
      max_length: pairs with more pieces than this on one side are dropped.
      copies: how many times the split is encoded and written.

    Returns:
      The entry of the split in corpus.json.

    Raises:
      ValueError: no pair is left.
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
            f"{long} longer than {max_length} pieces), wanted at least one: check the "
            f"text, or raise --max_length"
        )
    source.save(f"{stem}.source")
    target.save(f"{stem}.target")
    report = {"pairs": kept, "empty": empty, "too_long": long, "max_length": max_length}
    report["source_tokens"], report["source_unknown"] = source.counts()
    report["target_tokens"], report["target_unknown"] = target.counts()
    return report


def _encoded(
    pair: Pair, vocabularies: Vocabularies, copies: int
) -> Iterator[Tuple[List[int], List[int]]]:
    """Yield the ids of each pair of lines, encoded in chunks."""
    lines = itertools.chain.from_iterable(
        zip(read_lines(pair.source), read_lines(pair.target)) for _ in range(copies)
    )
    for chunk in iter(lambda: list(itertools.islice(lines, CHUNK)), []):
        sources, targets = zip(*chunk)
        yield from zip(
            vocabularies.source.encode_lines(sources),
            vocabularies.target.encode_lines(targets),
        )


def write_text(text_path: str, path: str) -> int:
    """Write the sentences of a corpus file as plain text; return how many there are."""
    count = 0
    with named(path), open(path, "ab") as file:
        for line in read_lines(text_path):
            file.write(line.encode("utf-8") + b"\n")
            count += 1
    return count
