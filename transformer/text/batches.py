"""Read prepared ids from disk, and make the batches of a training run.

    corpus = Corpus("data/multi30k", "train")
    plan = BatchPlan(corpus.source_lengths, corpus.target_lengths, 4096, seed=1)
    batches = training_dataset(corpus, Shards(plan), start=0)
    batch = tf.data.make_one_shot_iterator(batches).get_next()     # a Batch of tensors

In this order: sentences become a `Batch`; a folder becomes a `Corpus`; `BatchPlan`
decides which pairs make a batch, and `Shards` which part of a batch a worker computes;
the last functions put all of this into the graph. Dimension letters: N batch, S source
length, T target length.
"""

import os
from typing import Any, Callable, Iterable, List, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.commands.terminal import command_line, command_name
from transformer.text.data_folder import open_integers
from transformer.text.vocabulary import BOS, EOS, PAD, vocabulary_class

PREFETCH = 4  # batches made in advance of the step that uses them
LONGEST = 2**31 - 1  # wider than any batch: a pair of this length is always refused
MAX_SEED = 2**32 - 1  # the largest that NumPy's Mersenne Twister accepts
DEFAULT_SHARDS = 8  # of a batch that several workers share; divisible by 1, 2, 4, 8
SHARD_STRIDE = 2**40  # between the numbers of two shards; no run has more batches


class Batch(NamedTuple):
    """A batch of N sentence pairs: tensors in a graph, arrays outside it."""

    source: tf.Tensor  # [N, S] int32: pieces, EOS, then PAD
    target_in: tf.Tensor  # [N, T] int32: BOS, pieces, then PAD
    target_out: tf.Tensor  # [N, T] int32: pieces, EOS, then PAD
    # [] int64: encodes the position in the run and the index of the shard (see
    # `Shards`). With the seed, it determines the dropout masks.
    number: tf.Tensor


def pad(sequences: Sequence[Sequence[int]]) -> np.ndarray:
    """Return sequences of ids as the rows of one array, padded with PAD = 0.

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
    """One split of a prepared corpus, memory-mapped: it may be larger than memory.

    `len(corpus)` is the number of pairs. `source_lengths` and `target_lengths`, int32
    [pairs], count the pieces plus one EOS (or BOS): the width of a row of a Batch.

    Args:
      folder: the folder of a prepared corpus; data/README.md lists its files.
      split: "train", "dev" or "test".

    Raises:
      FileNotFoundError: the split has not been prepared, or there is no vocabulary.
      ValueError: its files do not belong together.
    """

    def __init__(self, folder: str, split: str):
        self.folder = os.fspath(folder)
        self.split = split
        self._source_ids, self._source_offsets = self._load("source")
        self._target_ids, self._target_offsets = self._load("target")
        self._vocabulary = vocabulary_class(self.folder)
        self.source_lengths = _lengths(self._source_offsets)
        self.target_lengths = _lengths(self._target_offsets)
        if len(self.source_lengths) != len(self.target_lengths):
            raise ValueError(
                f"{folder}: expected the same number of source and target sentences in "
                f"split {split!r}, got {len(self.source_lengths)} and "
                f"{len(self.target_lengths)}; run {command_name('prepare')} again"
            )

    def _load(self, side: str) -> Tuple[np.ndarray, np.ndarray]:
        """Map the ids [pieces] and the offsets [pairs + 1] of one side."""
        stem = os.path.join(self.folder, f"{self.split}.{side}")
        paths = f"{stem}.ids.npy", f"{stem}.offsets.npy"
        for path in paths:
            if not os.path.isfile(path):
                raise FileNotFoundError(
                    f"expected the prepared ids of split {self.split!r}, got no "
                    f"{path}; run " + command_line("prepare", "--out", self.folder)
                )
        ids, offsets = (open_integers(path) for path in paths)
        is_cut = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == len(ids)
        if not (is_cut and (offsets[1:] >= offsets[:-1]).all()):
            raise ValueError(
                f"{paths[1]}: expected ascending offsets from 0 to {len(ids)}, the "
                f"ids in {paths[0]}, got {offsets[:1]} … {offsets[-1:]}; run "
                f"{command_name('prepare')} again"
            )
        return ids, offsets

    def refuse_other_ids(self, source_size: int, target_size: int) -> None:
        """Raise ValueError if an id is padding, or is not in its vocabulary.

        Args:
          source_size, target_size: the numbers of pieces in the vocabularies.
        """
        for side, ids, size in (
            ("source", self._source_ids, source_size),
            ("target", self._target_ids, target_size),
        ):
            if not len(ids):  # `BatchPlan` refuses an empty split
                continue
            least = int(ids.min())
            most = int(ids.max())
            if least <= PAD or most >= size:
                raise ValueError(
                    f"{self.split}.{side}.ids.npy in {self.folder}: expected ids from "
                    f"1 to {size - 1}, pieces of the vocabulary, got {least} to "
                    f"{most}; run {command_name('prepare')} again"
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
        sources: Any = [self.source(index) for index in indices]
        targets: Any = [self.target(index) for index in indices]
        kind: Any = self._vocabulary
        return make_batch(sources, targets, number, kind.bos, kind.eos)


def _lengths(offsets: np.ndarray) -> np.ndarray:
    """Return the number of pieces of each sentence plus one, int32 [pairs]."""
    return np.minimum(np.diff(offsets) + 1, LONGEST).astype(np.int32)


class BatchPlan:
    """The assignment of pairs to batches: a pure function of the seed and the number k.

    A batch of N pairs with widths S and T satisfies N * max(S, T) <= batch_tokens:
    padding counts, because the device also computes it. The pairs are sorted by length
    and cut into batches greedily. In each epoch, pairs of equal lengths are permuted,
    and so are the batches; the sorted *lengths* stay the same, and so do the cuts and
    the number of batches, `len(plan)`. Therefore, a run can continue at batch k without
    replaying the batches before it.

    Args:
      source_lengths: int [pairs], the width of each pair on the source side.
      target_lengths: int [pairs], the same for the target side.
      batch_tokens: the budget for each side, including padding.
      seed: 0 … 2**32 - 1.

    Raises:
      ValueError: there are no pairs, a pair is longer than the budget, or the budget or
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
        # The number of the latest epoch, its pairs sorted by length, and the order of
        # its batches.
        self._epoch: Any = (None, None, None)

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return len(self._cuts) - 1

    def batch(self, k: int) -> np.ndarray:
        """Return the indices of the pairs in batch k, int64 [N], for any k >= 0."""
        if k < 0:
            raise ValueError(f"expected batch 0 or more, got {k}")
        epoch, position = divmod(int(k), len(self))
        cached, pairs, batches = self._epoch
        if cached != epoch:
            # It draws the same numbers in every version of NumPy.
            random = np.random.RandomState([self.seed, epoch])
            pairs = random.permutation(len(self._sort_keys))
            pairs = pairs[np.argsort(self._sort_keys[pairs], kind="stable")]
            batches = random.permutation(len(self))
            self._epoch = (epoch, pairs, batches)
        batch = batches[position]
        return pairs[self._cuts[batch] : self._cuts[batch + 1]]


def _check_plan(widths: np.ndarray, batch_tokens: int, seed: int) -> None:
    """Raise ValueError for invalid arguments; widths [pairs] are the longer sides."""
    if batch_tokens < 1:
        raise ValueError(
            f"batch_tokens: expected 1 or more, got {batch_tokens}; raise it"
        )
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(
            f"seed: expected 0 to {MAX_SEED}, got {seed}; choose one in that range"
        )
    if not len(widths):
        raise ValueError(
            f"expected a split with at least one pair, got none; run "
            f"{command_name('prepare')} on other text"
        )
    if widths.max() > batch_tokens:
        raise ValueError(
            f"expected pairs of at most --batch_tokens {batch_tokens} tokens, got a "
            f"pair of {widths.max()} tokens; raise --batch_tokens, or prepare the "
            f"corpus again with a --max_length below {batch_tokens}"
        )


def _sorting_key(source_lengths: np.ndarray, target_lengths: np.ndarray) -> np.ndarray:
    """Return the sort key of each pair, int64 [pairs]; pairs of equal lengths tie.

    The key orders pairs by the longer side, then by source length minus target length,
    in alternating directions, so that neither side jumps when the longer side grows. Of
    the orders tried on Multi30k, this one pads least: 3 % of 4096 tokens, compared with
    6 % for the order (target, source).
    """
    widths = np.maximum(source_lengths, target_lengths)
    difference = source_lengths - target_lengths  # between -widths and widths
    return widths * (2 * widths.max() + 1) + np.where(
        widths % 2, difference, -difference
    )


def _greedy_cuts(widths: np.ndarray, batch_tokens: int) -> np.ndarray:
    """Return where each batch begins and the last one ends, int64 [batches + 1].

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


def shard_count(count: int, workers: int) -> int:
    """Return the number of shards into which `--deterministic` cuts a batch.

    Args:
      count: the setting `shards`; 0: one in a single process, otherwise the number of
        workers, but at least DEFAULT_SHARDS.
      workers: how many processes compute.
    """
    if count:
        return count
    return 1 if workers == 1 else max(DEFAULT_SHARDS, workers)


class Shards:
    """The parts of every batch in a training run, dealt to the workers in rounds.

        shards = Shards(plan, count=8, workers=3, worker=1)
        shards.rounds              # 3: the shards of a batch are dealt in three rounds
        shards.batch(corpus, 4)    # in the second round of batch 1: its shard 4

    The pairs in a shard, and its number, depend only on the batch and on `count`. The
    number of a shard is the number of its batch, plus SHARD_STRIDE for each shard
    before it. The sizes of the shards of a batch differ by at most one pair; a batch
    with fewer pairs than shards has empty shards. In the last round of a batch, some
    workers may get an empty shard.

    Args:
      plan: decides which pairs make a batch.
      count: the number of shards in a batch.
      workers: how many processes compute; each has one shard in a round.
      worker: the index of this process.
    """

    def __init__(
        self, plan: BatchPlan, count: int = 1, workers: int = 1, worker: int = 0
    ):
        self.plan = plan
        self.count = count
        self.workers = workers
        self.worker = worker
        self.rounds = -(-count // workers)  # of a batch

    def batch(self, corpus: Corpus, number: int) -> Batch:
        """Return this worker's shard in a round of the run, as arrays."""
        k, round_of_batch = divmod(int(number), self.rounds)
        pairs = self.plan.batch(k)
        shard = round_of_batch * self.workers + self.worker
        begin = self._begin(shard, len(pairs))
        end = self._begin(shard + 1, len(pairs))
        return corpus.batch(pairs[begin:end], k + shard * SHARD_STRIDE)

    def _begin(self, shard: int, size: int) -> int:
        """Return where a shard of a batch of `size` pairs begins.

        It is rounded up, so that the first shard, and thus the first round, has a pair.
        """
        return -(-min(shard, self.count) * size // self.count)


def training_dataset(corpus: Corpus, shards: Shards, start: int) -> tf.data.Dataset:
    """Return an endless dataset of this worker's batches, starting at batch `start`.

    The same `start` gives the same batches, whatever was trained before.

    Returns:
      A dataset of `Batch`, one for each round.
    """
    numbers = tf.data.Dataset.range(start * shards.rounds, np.iinfo(np.int64).max)
    return _dataset_of(numbers, lambda number: shards.batch(corpus, number))


def evaluation_dataset(corpus: Corpus, plan: BatchPlan) -> tf.data.Dataset:
    """Return one epoch: each pair exactly once, always in the same order.

    Returns:
      A dataset of `Batch`.
    """
    numbers = tf.data.Dataset.range(len(plan))
    return _dataset_of(numbers, lambda k: corpus.batch(plan.batch(k), k))


def _dataset_of(
    numbers: tf.data.Dataset, make: Callable[[int], Batch]
) -> tf.data.Dataset:
    """Return a dataset of what `make` returns for each number, made in advance.

    Args:
      numbers: dataset of int64 [].
      make: function of a number; returns a Batch of arrays.

    Returns:
      A dataset of `Batch`, with tensors of shapes [None, None] and [].
    """

    def tensors(number):
        types = [tf.int32, tf.int32, tf.int32, tf.int64]
        batch = Batch(*tf.numpy_function(make, [number], types))
        batch.number.set_shape([])
        for ids in batch[:-1]:
            ids.set_shape([None, None])
        return batch

    return numbers.map(tensors).prefetch(PREFETCH).with_options(_untuned())


def _untuned() -> tf.data.Options:
    """Return options without the automatic tuning of tf.data.

    There is nothing to tune here. Its thread sleeps, and closing a session would wait
    for it for up to a minute.
    """
    options = tf.data.Options()
    if hasattr(options, "autotune"):
        options.autotune.enabled = False
    else:  # TensorFlow 1.15
        options.experimental_optimization.autotune = False
    return options


def prefetched(batch: Batch) -> Tuple[Batch, List[tf.Operation]]:
    """Copy batches into the memory of the device one round ahead.

    Args:
      batch: the batch of the next round.

    Returns:
      (the batch of the current round, ops that fetch the next one). The ops must run
      once before the first round, and again in each session run that uses a round.
    """
    (source, target_in, target_out), take_ids = _queued(batch[:-1], "batch")
    with tf.device("/cpu:0"):  # where it is used to make seeds
        [number], take_number = _queued(batch[-1:], "number")
    return Batch(source, target_in, target_out, number), [take_ids, take_number]


def _queued(
    tensors: Sequence[tf.Tensor], name: str
) -> Tuple[List[tf.Tensor], tf.Operation]:
    """Return tensors from a queue in the device's memory, and the op that fills it."""
    add = tf.raw_ops.Stage(values=tensors, shared_name=name)
    taken = tf.raw_ops.Unstage(dtypes=[x.dtype for x in tensors], shared_name=name)
    for tensor, given in zip(taken, tensors):
        tensor.set_shape(given.shape)
    return taken, add
