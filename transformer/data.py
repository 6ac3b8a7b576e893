"""Read prepared ids from disk, and make batches of them in the graph.

    corpus = Corpus("data/multi30k", "train")
    plan = BatchPlan(corpus.source_lengths, corpus.target_lengths, 4096, seed=1)
    [batch] = tf.data.make_one_shot_iterator(
        evaluation_dataset(corpus, plan)).get_next()               # a Batch of tensors

Dimension letters: N batch, S source length, T target length.
"""

import os
from typing import Callable, Iterable, List, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.text.arrays import open_integers
from transformer.text.vocabulary import BOS, EOS, PAD
from transformer.text.vocabulary_files import vocabulary_kind

PREFETCH = 4  # batches made in advance of the step that uses them
LONGEST = 2**31 - 1  # no batch is as wide: a pair of this length is always refused
MAX_SEED = 2**32 - 1  # the largest that NumPy's Mersenne Twister accepts


class Batch(NamedTuple):
    """A batch of N sentence pairs: tensors in a graph, arrays outside it."""

    source: tf.Tensor  # [N, S] int32: pieces, EOS, then PAD
    target_in: tf.Tensor  # [N, T] int32: BOS, pieces, then PAD
    target_out: tf.Tensor  # [N, T] int32: pieces, EOS, then PAD
    # [] int64: its position in the run, and which shard it is (`shards.Shard`); with
    # the seed it determines the dropout masks.
    number: tf.Tensor


def pad(sequences: Sequence[Sequence[int]]) -> np.ndarray:
    """Return id sequences as the rows of one array, padded with PAD = 0.

        pad([[7, 8], [9]])    # [[7, 8], [9, 0]]

    Returns:
      int32 [N, longest].
    """
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    padded = np.full([len(lengths), lengths.max(initial=0)], PAD, np.int32)
    if padded.size:
        filled = np.arange(padded.shape[1]) < lengths[:, np.newaxis]  # [N, longest]
        padded[filled] = np.concatenate(sequences)
    return padded


def pad_with_end(sequences: Sequence[Sequence[int]], eos: int = EOS) -> np.ndarray:
    """Return int32 [N, longest + 1]: the pieces of each row, `eos`, then PAD."""
    ended = np.pad(pad(sequences), [(0, 0), (0, 1)], "constant", constant_values=PAD)
    ended[np.arange(len(sequences)), [len(sequence) for sequence in sequences]] = eos
    return ended


def make_batch(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    number: int,
    bos: int = BOS,
    eos: int = EOS,
) -> Batch:
    """Return a Batch of arrays; this is the only place where the target is shifted.

        make_batch([[5, 6]], [[7, 8]], 0)
        # source [[5, 6, 3]], target_in [[2, 7, 8]], target_out [[7, 8, 3]]

    Args:
      sources: N sequences of ids without BOS and EOS.
      targets: N sequences of ids without BOS and EOS.
      number: the position of the batch in the training run.
      bos: the id before the first target piece.
      eos: the id after the last piece of a sentence.
    """
    begin = np.full([len(targets), 1], bos, np.int32)  # [N, 1]
    return Batch(
        source=pad_with_end(sources, eos),  # [N, S]
        target_in=np.concatenate([begin, pad(targets)], axis=1),  # [N, T]
        target_out=pad_with_end(targets, eos),  # [N, T]
        number=np.array(number, np.int64),
    )


class Corpus:
    """One split of a prepared corpus, memory-mapped: it may be larger than the memory.

    `len(corpus)` is the number of pairs. `source_lengths` and `target_lengths`, int32
    [pairs], count the pieces and one EOS (or BOS): the width of a row of a Batch.

    Args:
      folder: written by prepare.py; data/README.md lists its files.
      split: "train", "dev" or "test".

    Raises:
      FileNotFoundError: the split has not been prepared, or there is no vocabulary.
      ValueError: its files do not belong together.
    """

    def __init__(self, folder: str, split: str):
        self.folder, self.split = os.fspath(folder), split
        self._source_ids, self._source_offsets = self._load("source")
        self._target_ids, self._target_offsets = self._load("target")
        self._vocabulary = vocabulary_kind(self.folder)
        self.source_lengths = _lengths(self._source_offsets)
        self.target_lengths = _lengths(self._target_offsets)
        if len(self.source_lengths) != len(self.target_lengths):
            raise ValueError(
                f"found {len(self.source_lengths)} source and "
                f"{len(self.target_lengths)} target sentences of split {split!r} in "
                f"{folder}, wanted the same number: run prepare.py again"
            )

    def _load(self, side: str) -> Tuple[np.ndarray, np.ndarray]:
        """Map the ids [pieces] and the offsets [pairs + 1] of one side."""
        stem = os.path.join(self.folder, f"{self.split}.{side}")
        paths = f"{stem}.ids.npy", f"{stem}.offsets.npy"
        for path in paths:
            if not os.path.isfile(path):
                raise FileNotFoundError(
                    f"found no {path}, wanted the prepared ids of split "
                    f"{self.split!r}: run prepare.py --out {self.folder}"
                )
        ids, offsets = (open_integers(path) for path in paths)
        is_cut = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == len(ids)
        if not (is_cut and (offsets[1:] >= offsets[:-1]).all()):
            raise ValueError(
                f"found {len(ids)} ids in {paths[0]} and other offsets in {paths[1]} "
                f"({offsets[:1]} … {offsets[-1:]}), wanted ascending ones from 0 to as "
                f"many: run prepare.py again"
            )
        return ids, offsets

    def refuse_other_ids(self, source_size: int, target_size: int) -> None:
        """Raise ValueError where an id is padding, or of no piece of its vocabulary.

        Args:
          source_size, target_size: how many pieces the vocabularies have.
        """
        for side, ids, size in (
            ("source", self._source_ids, source_size),
            ("target", self._target_ids, target_size),
        ):
            least, most = int(ids.min()), int(ids.max())
            if least <= PAD or most >= size:
                raise ValueError(
                    f"{self.split}.{side}.ids.npy in {self.folder}: found ids from "
                    f"{least} to {most}, wanted 1 to {size - 1}, pieces of the "
                    f"vocabulary: run prepare.py again"
                )

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, index: int) -> np.ndarray:
        """Return the source pieces [S - 1] of a pair, without EOS."""
        return self._source_ids[slice(*self._source_offsets[index : index + 2])]

    def target(self, index: int) -> np.ndarray:
        """Return the target pieces [T - 1] of a pair, without BOS and EOS."""
        return self._target_ids[slice(*self._target_offsets[index : index + 2])]

    def batch(self, indices: Iterable[int], number: int) -> Batch:
        """Return the pairs `indices` as one Batch of arrays."""
        indices = list(indices)
        sources = [self.source(index) for index in indices]
        targets = [self.target(index) for index in indices]
        kind = self._vocabulary
        return make_batch(sources, targets, number, kind.bos, kind.eos)


def _lengths(offsets: np.ndarray) -> np.ndarray:
    """Return the number of pieces of each sentence plus one, int32 [pairs]."""
    return np.minimum(np.diff(offsets) + 1, LONGEST).astype(np.int32)


class BatchPlan:
    """The assignment of pairs to the batches of a run: a pure function of (seed, k).

    A batch of N pairs with widths S and T satisfies N * max(S, T) <= batch_tokens:
    padding counts, because the device computes it too. The pairs are sorted by length
    and cut into batches greedily. From epoch to epoch, pairs of equal lengths are
    permuted, and so are the batches; the sorted *lengths* stay the same, and with them
    the cuts and the number of batches, `len(plan)`. So a run continues at batch k
    without replaying the batches before it.

    Args:
      source_lengths: [pairs], the width of each pair on the source side.
      target_lengths: [pairs], the same for the target side.
      batch_tokens: the budget for each side, padding included.
      seed: 0 … 2**32 - 1.

    Raises:
      ValueError: there is no pair, a pair is longer than the budget, or the budget or
        the seed is out of range.
    """

    def __init__(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        batch_tokens: int,
        seed: int,
    ):
        source_lengths = np.asarray(source_lengths, np.int64)
        target_lengths = np.asarray(target_lengths, np.int64)
        widths = np.maximum(source_lengths, target_lengths)
        _check_plan(widths, batch_tokens, seed)
        self.seed = seed
        self._sort_keys = _sorting_key(source_lengths, target_lengths)
        self._cuts = _greedy_cuts(np.sort(widths), batch_tokens)
        self._epoch = (None, None, None)  # the latest epoch's number, pairs, batches

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return len(self._cuts) - 1

    def batch(self, k: int) -> np.ndarray:
        """Return the pairs of the k-th batch of the run, int64 [N], for any k >= 0."""
        if k < 0:
            raise ValueError(f"found batch {k}, wanted 0 or more")
        epoch, place = divmod(int(k), len(self))
        pairs, batches = self._shuffled(epoch)
        batch = batches[place]
        return pairs[self._cuts[batch] : self._cuts[batch + 1]]

    def _shuffled(self, epoch: int) -> Tuple[np.ndarray, np.ndarray]:
        """Return the order of the pairs, sorted by length, and that of the batches.

        RandomState is used because its numbers are the same in every version of NumPy.
        """
        cached, pairs, batches = self._epoch
        if cached != epoch:
            random = np.random.RandomState([self.seed, epoch])
            pairs = random.permutation(len(self._sort_keys))
            pairs = pairs[np.argsort(self._sort_keys[pairs], kind="stable")]
            batches = random.permutation(len(self))
            self._epoch = (epoch, pairs, batches)
        return pairs, batches


def _check_plan(widths: np.ndarray, batch_tokens: int, seed: int) -> None:
    """Raise ValueError for invalid arguments; widths [pairs] are the longer sides."""
    if batch_tokens < 1:
        raise ValueError(
            f"found --batch_tokens {batch_tokens}, wanted 1 or more: raise it"
        )
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(
            f"found --seed {seed}, wanted 0 … {MAX_SEED}: choose one in that range"
        )
    if not len(widths):
        raise ValueError(
            "found a split without a pair, wanted at least one: run prepare.py "
            "on other text"
        )
    if widths.max() > batch_tokens:
        raise ValueError(
            f"found a pair of {widths.max()} tokens, wanted at most --batch_tokens "
            f"{batch_tokens}: raise --batch_tokens, or prepare the corpus again with a "
            f"--max_length below {batch_tokens}"
        )


def _sorting_key(source_lengths: np.ndarray, target_lengths: np.ndarray) -> np.ndarray:
    """Return the sort key of each pair, int64 [pairs]; pairs of equal lengths tie.

    The key orders by the longer side, then by source length minus target length, in
    alternating directions, so that neither side jumps where the longer side grows. Of
    the orders tried on Multi30k this one pads least: 3 % of 4096 tokens, against 6 % of
    (target, source).
    """
    widths = np.maximum(source_lengths, target_lengths)
    difference = source_lengths - target_lengths  # between -widths and widths
    return widths * (2 * widths.max() + 1) + np.where(
        widths % 2, difference, -difference
    )


def _greedy_cuts(widths: np.ndarray, batch_tokens: int) -> np.ndarray:
    """Return where the batches begin and the last one ends, int64 [batches + 1].

    Args:
      widths: the longer side of each pair, ascending, [pairs].
      batch_tokens: the budget for the number of pairs times the largest width.
    """
    cuts = [0]
    while cuts[-1] < len(widths):
        start = cuts[-1]
        ahead = widths[start : start + batch_tokens // widths[start]]
        tokens = ahead * np.arange(1, len(ahead) + 1)
        cuts.append(start + int(np.searchsorted(tokens, batch_tokens, side="right")))
    return np.array(cuts, np.int64)


def evaluation_dataset(corpus: Corpus, plan: BatchPlan) -> tf.data.Dataset:
    """Return one epoch: each pair exactly once, always in the same order.

    Returns:
      A dataset of a tuple of one `Batch`.
    """
    numbers = tf.data.Dataset.range(len(plan))
    return dataset_of(numbers, lambda k: [corpus.batch(plan.batch(k), k)], 1)


def dataset_of(
    numbers: tf.data.Dataset, make: Callable[[int], List[Batch]], count: int
) -> tf.data.Dataset:
    """Return what `make` returns of each number, made in advance.

    Args:
      numbers: dataset of int64 [].
      make: function of a number; returns Batches of arrays.
      count: how many.

    Returns:
      A dataset of a tuple of `Batch`, with tensors of shapes [None, None] and [].
    """

    def arrays(number):
        return [array for batch in make(number) for array in batch]

    def tensors(number):
        types = [tf.int32, tf.int32, tf.int32, tf.int64]
        flat = tf.numpy_function(arrays, [number], types * count)
        batches = [Batch(*flat[i : i + 4]) for i in range(0, len(flat), 4)]
        for *ids, place in batches:
            place.set_shape([])
            for tensor in ids:
                tensor.set_shape([None, None])
        return tuple(batches)

    return numbers.map(tensors).prefetch(PREFETCH).with_options(_untuned())


def _untuned() -> tf.data.Options:
    """Return options without the automatic tuning of tf.data.

    There is nothing to tune here, and its thread sleeps: closing a session would wait
    for it for up to a minute.
    """
    options = tf.data.Options()
    if hasattr(options, "autotune"):
        options.autotune.enabled = False
    else:  # TensorFlow 1.15
        options.experimental_optimization.autotune = False
    return options
