"""Read prepared ids from disk, and make the batches of a training run.

    train = Split("data/multi30k", "train")
    plan = BatchPlan(train.source_lengths, train.target_lengths, 4096, seed=1)
    batches = training_dataset(train, Shards(plan), start=0)
    batch = tf.data.make_one_shot_iterator(batches).get_next()     # a Batch of tensors

In this order: sentences become a `Batch`; the files of a data folder become a `Split`;
`BatchPlan` assigns pairs to batches, whose shapes `choose_runs` chooses, and `Shards`
assigns shares of a batch to workers; the last functions put all of this into the graph.
Dimension letters: N batch, S source length, T target length.
"""

import hashlib
import os
import weakref
from typing import (
    Any,
    Callable,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Sequence,
    Tuple,
)

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.runtime.errors import (
    CorpusError,
    DataFolderChanged,
    DataFolderNotPrepared,
    SettingsError,
)
from transformer.runtime.versions import IS_TENSORFLOW_1
from transformer.text.data_folder import open_integers
from transformer.text.vocabulary import BOS, EOS, PAD, vocabulary_class

PREFETCH = 4  # shards made in advance of the step that uses them
READ_IDS = 1 << 20  # at a time, where all are read
MAX_WIDTH = 2**31 - 1  # wider than any batch: a pair of this length is always refused
MAX_SEED = 2**32 - 1  # the largest that NumPy's Mersenne Twister accepts
DEFAULT_SHARDS = 8  # of a batch that several workers share; divisible by 1, 2, 4, 8
SHARD_STRIDE = 2**40  # between the numbers of two shards; no run has more batches
MAX_GROUPS = 512  # different widths that a plan with few shapes distinguishes
# What a batch costs besides its tokens, as a share of the largest batch: the optimizer,
# and operations that take as long for few tokens as for many.
BATCH_COST = 0.1
MAX_ROW_MULTIPLE = 16  # rows divide into as many equal shards and micro-batches


class Batch(NamedTuple):
    """A batch of N sentence pairs: tensors in a graph, arrays outside it."""

    source: tf.Tensor  # [N, S] int32: pieces, EOS, then PAD
    target_in: tf.Tensor  # [N, T] int32: BOS, pieces, then PAD
    target_out: tf.Tensor  # [N, T] int32: pieces, EOS, then PAD
    # [] int64: a key for the dropout masks, which depend on it and the seed: the number
    # of the batch in the run, plus SHARD_STRIDE for each shard before this one.
    number: tf.Tensor


def pad(sequences: Sequence[Sequence[int]], width: int = 0) -> np.ndarray:
    """Make sequences of ids the rows of one array, padded with PAD = 0.

        pad([[7, 8], [9]])    # [[7, 8], [9, 0]]

    Args:
      sequences: the ids of each row.
      width: the number of columns, unless a sequence is longer.

    Returns:
      int32 [N, width], or [N, longest].
    """
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    padded = np.full([len(lengths), lengths.max(initial=width)], PAD, np.int32)
    if padded.size:
        is_piece = np.arange(padded.shape[1]) < lengths[:, np.newaxis]  # [N, width]
        padded[is_piece] = np.concatenate(sequences)
    return padded


def pad_with_end(
    sequences: Sequence[Sequence[int]], eos: int = EOS, width: int = 1
) -> np.ndarray:
    """Make int32 [N, width or longest + 1]: pieces of each row, `eos`, then PAD."""
    padded = pad(sequences, width - 1)
    padded = np.pad(padded, [(0, 0), (0, 1)], "constant", constant_values=PAD)
    padded[np.arange(len(sequences)), [len(sequence) for sequence in sequences]] = eos
    return padded


def make_batch(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    number: int,
    bos: int = BOS,
    eos: int = EOS,
    widths: Tuple[int, int] = (1, 1),
) -> Batch:
    """Make a Batch of arrays. This is the only place where the target is shifted.

    (Models of tensor2tensor's dialects replace BOS by zeros: see `Transformer.embed`.)

        make_batch([[5, 6]], [[7, 8]], 0)
        # source [[5, 6, 3]], target_in [[2, 7, 8]], target_out [[7, 8, 3]]

    Args:
      sources: N sequences of ids without BOS and EOS.
      targets: N sequences of ids without BOS and EOS.
      number: int, a key for the dropout masks: see `Batch.number`.
      bos: the id before the first target piece.
      eos: the id after the last piece of a sentence.
      widths: (S, T), unless a sentence is longer.
    """
    source_width, target_width = widths
    begin = np.full([len(targets), 1], bos, np.int32)  # [N, 1]
    pieces = pad(targets, target_width - 1)  # [N, T - 1]
    return Batch(
        source=pad_with_end(sources, eos, source_width),  # [N, S]
        target_in=np.concatenate([begin, pieces], axis=1),  # [N, T]
        target_out=pad_with_end(targets, eos, target_width),  # [N, T]
        number=np.array(number, np.int64),
    )


class StoredIds:
    """The ids in a file, [length], which may be larger than memory.

    They are read when they are needed, not mapped into memory: if the file of a mapped
    array is truncated, the next access ends the process.

    Args:
      path: the file.

    Raises:
      DataFolderChanged: the file does not hold such an array.
    """

    def __init__(self, path: str):
        mapped = open_integers(path)
        self.path = path
        self._length = len(mapped)
        self._dtype = mapped.dtype
        self._offset = mapped.offset  # of the first id, in bytes
        self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        self._state = self._read_state()
        self._fault = ""  # of the file, when ids were read

    def __len__(self) -> int:
        return self._length

    def read(self, start: int, stop: int) -> np.ndarray:
        """Read the ids from `start` to before `stop`; what cannot be read is PAD."""
        size = (stop - start) * self._dtype.itemsize
        position = self._offset + start * self._dtype.itemsize
        try:
            data = os.pread(self._file, size, position)
            if len(data) < size:
                self._fault = "the file was truncated"
        except OSError as error:
            self._fault = f"the file cannot be read: {error.strerror}"
            data = b""
        return np.frombuffer(data.ljust(size, b"\0"), self._dtype)

    def limits(self) -> Tuple[int, int]:
        """Return the smallest and the largest id."""
        limits = []
        for start in range(0, self._length, READ_IDS):
            ids = self.read(start, min(start + READ_IDS, self._length))
            limits += [int(ids.min()), int(ids.max())]
        return min(limits), max(limits)

    def refuse_change(self, checksum: str) -> None:
        """Raise DataFolderChanged if the content of the file has changed.

        It takes microseconds, unless the file has another size or time than before.

        Args:
          checksum: its SHA-256.
        """
        fault = self._fault
        if not fault:
            try:
                state = self._read_state()
                if state == self._state or self._compute_checksum() == checksum:
                    self._state = state
                    return
                fault = "the file was changed in the meantime"
            except OSError as error:
                fault = f"the file cannot be read: {error.strerror}"
        raise DataFolderChanged(
            f"{self.path}: expected the ids that training began with, got others: "
            f"{fault}",
            os.path.dirname(self.path),
        )

    def _compute_checksum(self) -> str:
        """Compute the SHA-256 of the file in hexadecimal digits."""
        digest = hashlib.sha256()
        for position in range(0, os.fstat(self._file).st_size, READ_IDS):
            digest.update(os.pread(self._file, READ_IDS, position))
        return digest.hexdigest()

    def _read_state(self) -> Tuple[int, int, int]:
        """Return what changes with the content: the size of the file, and its times.

        Who writes may set the time of the last modification, as rsync does; the time of
        the last change of the inode is the kernel's.
        """
        status = os.fstat(self._file)
        return status.st_size, status.st_mtime_ns, status.st_ctime_ns


class Split:
    """One split of a prepared corpus, whose ids are read from disk as they are needed.

    `len(split)` is the number of pairs. `source_lengths` and `target_lengths`, int32
    [pairs], count the pieces plus one EOS (or BOS): the width of a row of a Batch.

    Args:
      folder: the data folder; data/README.md lists its files.
      name: "train", "dev" or "test".

    Raises:
      DataFolderNotPrepared: the split has not been prepared.
      VocabularyNotFound: there is no vocabulary.
      DataFolderChanged: the files of the split do not belong together.
    """

    def __init__(self, folder: str, name: str):
        self.folder = os.fspath(folder)
        self.name = name
        self._source_ids, self._source_offsets = self._load("source")
        self._target_ids, self._target_offsets = self._load("target")
        self._vocabulary: Any = vocabulary_class(self.folder)
        self.source_lengths = _lengths(self._source_offsets)
        self.target_lengths = _lengths(self._target_offsets)
        if len(self.source_lengths) != len(self.target_lengths):
            raise DataFolderChanged(
                f"{folder}: expected the same number of source and target sentences in "
                f"split {name!r}, got {len(self.source_lengths)} and "
                f"{len(self.target_lengths)}",
                self.folder,
            )

    def _load(self, side: str) -> Tuple[StoredIds, np.ndarray]:
        """Open the ids [pieces], and read the offsets [pairs + 1], of one side."""
        stem = os.path.join(self.folder, f"{self.name}.{side}")
        paths = f"{stem}.ids.npy", f"{stem}.offsets.npy"
        for path in paths:
            if not os.path.exists(path):
                raise DataFolderNotPrepared(
                    f"{path} is missing: split {self.name!r} has not been prepared",
                    self.folder,
                )
        ids = StoredIds(paths[0])
        offsets = np.array(open_integers(paths[1]), np.int64)
        is_complete = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == len(ids)
        if not (is_complete and (offsets[1:] >= offsets[:-1]).all()):
            raise DataFolderChanged(
                f"{paths[1]}: expected ascending offsets from 0 to {len(ids)}, the "
                f"ids in {paths[0]}, got {offsets[:1]} … {offsets[-1:]}",
                self.folder,
            )
        return ids, offsets

    def refuse_other_ids(self, source_size: int, target_size: int) -> None:
        """Raise DataFolderChanged for an id that is padding, or not in its vocabulary.

        Args:
          source_size, target_size: the numbers of pieces in the vocabularies.
        """
        for side, ids, size in (
            ("source", self._source_ids, source_size),
            ("target", self._target_ids, target_size),
        ):
            if not len(ids):  # `BatchPlan` refuses an empty split
                continue
            min_id, max_id = ids.limits()
            if min_id <= PAD or max_id >= size:
                raise DataFolderChanged(
                    f"{self.name}.{side}.ids.npy in {self.folder}: expected ids from "
                    f"1 to {size - 1}, pieces of the vocabulary, got {min_id} to "
                    f"{max_id}",
                    self.folder,
                )

    def refuse_changes(self, checksums: Mapping[str, str]) -> None:
        """Raise DataFolderChanged if a file of ids has changed since it was opened.

        Args:
          checksums: file name → SHA-256.
        """
        for ids in (self._source_ids, self._target_ids):
            ids.refuse_change(checksums[os.path.basename(ids.path)])

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, index: int) -> np.ndarray:
        """Return the source pieces [S - 1] of a pair, without EOS."""
        return self._source_ids.read(*self._source_offsets[index : index + 2].tolist())

    def target(self, index: int) -> np.ndarray:
        """Return the target pieces [T - 1] of a pair, without BOS and EOS."""
        return self._target_ids.read(*self._target_offsets[index : index + 2].tolist())

    def source_chunks(self) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
        """Yield (the index of the pair of each piece, the pieces) of all sources."""
        offsets = self._source_offsets
        start = 0
        while start < len(self):
            fitting = int(np.searchsorted(offsets, offsets[start] + READ_IDS, "right"))
            end = max(start + 1, fitting - 1)
            ids = self._source_ids.read(int(offsets[start]), int(offsets[end]))
            yield np.repeat(range(start, end), np.diff(offsets[start : end + 1])), ids
            start = end

    def batch(
        self, indices: Iterable[int], number: int, widths: Tuple[int, int] = (1, 1)
    ) -> Batch:
        """Make a Batch of arrays from the pairs `indices`.

        Args:
          indices: int [N].
          number, widths: as in `make_batch`.
        """
        indices = list(indices)
        sources: Any = [self.source(index) for index in indices]
        targets: Any = [self.target(index) for index in indices]
        bos, eos = self._vocabulary.bos, self._vocabulary.eos
        return make_batch(sources, targets, number, bos, eos, widths)


def _lengths(offsets: np.ndarray) -> np.ndarray:
    """Count the pieces of each sentence, plus one: int32 [pairs]."""
    return np.minimum(np.diff(offsets) + 1, MAX_WIDTH).astype(np.int32)


class BatchPlan:
    """Assigns pairs to batches, as a pure function of the seed and the batch number k.

    A batch of N pairs with widths S and T satisfies N * max(S, T) <= batch_tokens:
    padding counts, because the device also computes it. The pairs are sorted by length
    and cut into batches. In each epoch, pairs of equal lengths are permuted, and so are
    the batches; the sorted *lengths* stay the same, and so do the cuts and the number
    of batches, `len(plan)`. Therefore, a run can continue at batch k without replaying
    the batches before it.

    With `max_shapes`, the batches have few shapes (N, S, T): both sides are as wide as
    the longer one, consecutive batches have the same shape, and their pairs are mixed
    in each epoch. On a CPU, TensorFlow keeps compiled products for every shape, which
    can take gigabytes. Attention has a shape for S and S, for S and T, and for T and T:
    if S = T, they are one. Without `max_shapes`, each batch is as large as possible,
    and as wide as its longest sentences.

    Args:
      source_lengths: int [pairs], the width of each pair on the source side.
      target_lengths: int [pairs], the same for the target side.
      batch_tokens: the budget for each side, including padding.
      seed: 0 … 2**32 - 1.
      max_shapes: the largest number of shapes, besides that of one smaller batch; 0:
        any number.

    Raises:
      CorpusError: there are no pairs, or a pair is longer than the budget.
      SettingsError: the budget or the seed is out of range.
    """

    def __init__(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        batch_tokens: int,
        seed: int,
        max_shapes: int = 0,
    ):
        source_lengths = np.asarray(source_lengths, np.int64)
        target_lengths = np.asarray(target_lengths, np.int64)
        widths = np.maximum(source_lengths, target_lengths)
        _check_plan(widths, batch_tokens, seed)
        self.seed = seed
        self._sort_keys = _sort_keys(source_lengths, target_lengths)
        self._runs: List[Run] = []
        if max_shapes:
            self._runs = choose_runs(np.sort(widths), batch_tokens, max_shapes)
            self._cuts = np.array([0, *_run_cuts(self._runs)], np.int64)
            ends = [run.end for run in self._runs]
            self._run_of_batch = np.searchsorted(ends, self._cuts[:-1], side="right")
        else:
            self._cuts = _greedy_cuts(np.sort(widths), batch_tokens)
        # The number of the latest epoch, its pairs sorted by length, and the order of
        # its batches.
        self._epoch: Any = (None, None, None)

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return len(self._cuts) - 1

    @property
    def num_shapes(self) -> int:
        """The number of shapes of the batches, at most."""
        return len(self._runs) + 1 if self._runs else len(self)

    def batch(self, k: int) -> np.ndarray:
        """Return the indices of the pairs in batch k, int64 [N], for any k >= 0."""
        pairs, index = self._find(k)
        return pairs[self._cuts[index] : self._cuts[index + 1]]

    def widths(self, k: int) -> Tuple[int, int]:
        """Return (S, T) of batch k; (1, 1): those of its longest sentences."""
        if not self._runs:
            return 1, 1
        _, index = self._find(k)
        width = self._runs[self._run_of_batch[index]].width
        return width, width

    def _find(self, k: int) -> Tuple[np.ndarray, int]:
        """Return the pairs of the epoch of batch k, and the index of its cut."""
        if k < 0:
            raise ValueError(f"expected batch 0 or more, got {k}")
        epoch, position = divmod(int(k), len(self))
        cached, pairs, batches = self._epoch
        if cached != epoch:
            # It draws the same numbers in every version of NumPy.
            random = np.random.RandomState([self.seed, epoch])
            pairs = random.permutation(len(self._sort_keys))
            pairs = pairs[np.argsort(self._sort_keys[pairs], kind="stable")]
            for run in self._runs:
                random.shuffle(pairs[run.begin : run.end])
            batches = random.permutation(len(self))
            self._epoch = (epoch, pairs, batches)
        return pairs, batches[position]


def _check_plan(widths: np.ndarray, batch_tokens: int, seed: int) -> None:
    """Refuse invalid arguments; widths [pairs] are the longer sides."""
    if batch_tokens < 1:
        raise SettingsError(f"batch_tokens: expected 1 or more, got {batch_tokens}")
    if not 0 <= seed <= MAX_SEED:
        raise SettingsError(f"seed: expected 0 to {MAX_SEED}, got {seed}")
    if not len(widths):
        raise CorpusError(
            "a split is empty: expected one pair or more; prepare other text"
        )
    if widths.max() > batch_tokens:
        raise CorpusError(
            f"batch_tokens: expected {widths.max()} or more, the tokens of the longest "
            f"pair, got {batch_tokens}; raise it, or prepare the corpus again with a "
            f"max_length below {batch_tokens}"
        )


def _sort_keys(source_lengths: np.ndarray, target_lengths: np.ndarray) -> np.ndarray:
    """Compute the sort key of each pair, int64 [pairs]; pairs of equal lengths tie.

    The key orders pairs by the longer side (the width), then by source length minus
    target length: ascending for odd widths, descending for even ones. For example,
    (source, target) = (1, 3), (3, 3), (3, 1), (4, 1), (4, 4), (1, 4). So neither side
    jumps when the width grows. Of the orders tried on Multi30k, this one pads least:
    3 % of 4096 tokens, compared with 6 % for the order (target, source).
    """
    widths = np.maximum(source_lengths, target_lengths)
    difference = source_lengths - target_lengths  # between -widths and widths
    return widths * (2 * widths.max() + 1) + np.where(
        widths % 2, difference, -difference
    )


def _greedy_cuts(widths: np.ndarray, batch_tokens: int) -> np.ndarray:
    """Cut sorted pairs into batches: the bounds of the batches, int64 [batches + 1].

    Args:
      widths: the longer side of each pair, ascending, [pairs].
      batch_tokens: the budget for the number of pairs times the largest width.
    """
    cuts = [0]
    while cuts[-1] < len(widths):
        start = cuts[-1]
        candidates = widths[start : start + batch_tokens // widths[start]]
        tokens = candidates * np.arange(1, len(candidates) + 1)
        cuts.append(start + int(np.searchsorted(tokens, batch_tokens, side="right")))
    return np.array(cuts, np.int64)


class Run(NamedTuple):
    """A run of pairs, sorted by width, whose batches all have one shape."""

    begin: int  # its first pair
    end: int  # the pair after its last
    rows: int  # N; the last batch of the last run may have fewer
    width: int  # S and T


def choose_runs(widths: np.ndarray, batch_tokens: int, max_shapes: int) -> List[Run]:
    """Cut sorted pairs into runs of one shape each, so that there is little padding.

    Dynamic programming over the different widths finds the cuts with the fewest tokens,
    padding included. Then each run is shortened to whole batches; the pairs that are
    left belong to the next run.

        choose_runs(np.array([3, 3, 3, 3, 5, 5]), 10, 2)
        # [Run(0, 3, 3, 3), Run(3, 6, 2, 5)]: a batch of 3 pairs, then of 2 and of 1

    Args:
      widths: int64 [pairs], the longer side of each pair, ascending.
      batch_tokens: the budget for rows times width.
      max_shapes: the largest number of runs.
    """
    runs = []
    begin = 0
    for cut in _best_cuts(widths, batch_tokens, max_shapes):
        rows = int(_rows(batch_tokens, widths[cut - 1]))
        end = cut if cut == len(widths) else cut - (cut - begin) % rows
        if end > begin:
            runs.append(Run(begin, end, rows, int(widths[end - 1])))
            begin = end
    return runs


def _run_cuts(runs: Sequence[Run]) -> Iterator[int]:
    """Yield where each batch of the runs ends."""
    for begin, end, rows, _ in runs:
        yield from range(begin + rows, end, rows)
        yield end


def _rows(batch_tokens: int, widths: Any) -> Any:
    """Count the rows of batches of the given widths, int64 [...].

    Where rows are many, their number is a multiple of a power of two, so that shards
    and micro-batches have equal sizes; this leaves out at most a tenth of them.
    """
    rows = batch_tokens // np.asarray(widths, np.int64)
    multiple = 2 ** np.floor(np.log2(np.maximum(rows // 16, 1))).astype(np.int64)
    multiple = np.clip(multiple, np.where(rows < 10, 1, 2), MAX_ROW_MULTIPLE)
    return rows - rows % multiple


def _best_cuts(widths: np.ndarray, batch_tokens: int, max_runs: int) -> List[int]:
    """Find the ends of at most `max_runs` runs of sorted pairs with the lowest cost.

    The cost of a run is its tokens, padding included, and BATCH_COST for each batch.

    Args:
      widths, batch_tokens: as in `choose_runs`.
    """
    bounds = _group_bounds(widths)
    groups = len(bounds) - 1
    group_widths = widths[bounds[1:] - 1]  # the largest of each
    rows = _rows(batch_tokens, group_widths)
    per_pair = group_widths + BATCH_COST * batch_tokens / rows
    costs = (bounds[1:] - bounds[:-1, np.newaxis]) * per_pair  # of the run [begin, end]
    costs[np.tril_indices(groups, -1)] = np.inf
    # The lowest cost of the first groups in 1, 2, ... runs, and where the last of these
    # runs begins.
    lowest = costs[0]
    last_begins = [np.zeros(groups, np.int64)]
    for _ in range(1, min(max_runs, groups)):
        totals = np.append(np.inf, lowest[:-1])[:, np.newaxis] + costs
        last_begins.append(totals.argmin(axis=0))
        lowest = totals.min(axis=0)
    begin, cuts = groups, []
    for begins in last_begins[::-1]:
        cuts.append(int(bounds[begin]))
        begin = int(begins[begin - 1])
    return cuts[::-1]


def _group_bounds(widths: np.ndarray) -> np.ndarray:
    """Find the bounds of groups of sorted pairs, int64 [groups + 1].

    Pairs of equal width are in one group. If there are more than MAX_GROUPS different
    widths, neighbours are joined, the rarest first.

    Args:
      widths: int64 [pairs].
    """
    changes = np.flatnonzero(np.diff(widths)) + 1
    if len(changes) >= MAX_GROUPS:
        sizes = np.diff(np.append(changes, len(widths)))
        commonest = np.argsort(-sizes, kind="stable")[: MAX_GROUPS - 1]
        changes = np.sort(changes[commonest])
    return np.array([0, *changes, len(widths)], np.int64)


def shard_count(count: int, workers: int) -> int:
    """Return the number of shards in a batch of a deterministic run.

    Args:
      count: the setting `shards`; 0: one in a single process, otherwise the number of
        workers, but at least DEFAULT_SHARDS.
      workers: the number of processes.
    """
    if count:
        return count
    return 1 if workers == 1 else max(DEFAULT_SHARDS, workers)


class Shards:
    """Cuts every batch of a training run into shards, and deals them to the workers.

        shards = Shards(plan, count=8, workers=3, worker=1)
        shards.per_worker            # 3: each worker computes up to 3 shards of a batch
        shards.shard(split, 4)       # its fifth shard of the run: shard 4 of batch 1

    Worker 0 has the shards 0, 3 and 6 of each batch, worker 1 the shards 1, 4 and 7,
    and worker 2 the shards 2 and 5, and an empty one.

    The pairs in a shard, and its `Batch.number`, depend only on the batch and on
    `count`. The sizes of the shards of a batch differ by at most one pair; a batch
    with fewer pairs than shards has empty shards.

    Args:
      plan: assigns pairs to batches.
      count: the number of shards in a batch.
      workers: the number of processes; they compute one shard each at the same time.
      worker: the index of this process.
    """

    def __init__(
        self, plan: BatchPlan, count: int = 1, workers: int = 1, worker: int = 0
    ):
        self.plan = plan
        self.count = count
        self.workers = workers
        self.worker = worker
        self.per_worker = -(-count // workers)  # shards of a batch

    def shard(self, split: Split, position: int) -> Batch:
        """Make a shard of this worker, as arrays.

        Args:
          split: the pairs.
          position: the number of shards that this worker computes before it, since the
            beginning of the run.
        """
        k, turn = divmod(int(position), self.per_worker)
        pairs = self.plan.batch(k)
        index = turn * self.workers + self.worker
        begin = self._begin(index, len(pairs))
        end = self._begin(index + 1, len(pairs))
        number = k + index * SHARD_STRIDE
        return split.batch(pairs[begin:end], number, self.plan.widths(k))

    def _begin(self, index: int, size: int) -> int:
        """Compute the first pair of a shard in a batch of `size` pairs.

        It is rounded up, so that the first shard has a pair.
        """
        return -(-min(index, self.count) * size // self.count)


def training_dataset(split: Split, shards: Shards, start: int) -> tf.data.Dataset:
    """Make an endless dataset of this worker's shards, starting at batch `start`.

    The same `start` gives the same shards, whatever was trained before.

    Returns:
      A dataset of `Batch`.
    """
    first = start * shards.per_worker
    positions = tf.data.Dataset.range(first, np.iinfo(np.int64).max)
    return _make_dataset(positions, lambda position: shards.shard(split, position))


def evaluation_dataset(split: Split, plan: BatchPlan) -> tf.data.Dataset:
    """Make a dataset of one epoch: each pair exactly once, always in the same order.

    Returns:
      A dataset of `Batch`.
    """
    numbers = tf.data.Dataset.range(len(plan))
    return _make_dataset(
        numbers, lambda k: split.batch(plan.batch(k), k, plan.widths(k))
    )


def _make_dataset(
    numbers: tf.data.Dataset, make: Callable[[int], Batch]
) -> tf.data.Dataset:
    """Make a dataset of a Batch for each number, a few of them in advance.

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

    return numbers.map(tensors).prefetch(PREFETCH).with_options(_without_autotuning())


def _without_autotuning() -> tf.data.Options:
    """Make options without the automatic tuning of tf.data.

    There is nothing to tune here. Its thread sleeps, and closing a session would wait
    for it for up to a minute.
    """
    options = tf.data.Options()
    if IS_TENSORFLOW_1:
        options.experimental_optimization.autotune = False
    else:
        options.autotune.enabled = False
    return options


def prefetch_to_device(batch: Batch) -> Tuple[Batch, List[tf.Operation]]:
    """Copy each Batch into the memory of the device one session run ahead.

    Args:
      batch: the next Batch.

    Returns:
      (the current Batch, operations that fetch the next one). The operations must run
      once before the first use, and again in each session run that uses a Batch.
    """
    (source, target_in, target_out), fetch_ids = _stage(batch[:-1], "batch")
    with tf.device("/cpu:0"):  # where it is used to make seeds
        [number], fetch_number = _stage(batch[-1:], "number")
    return Batch(source, target_in, target_out, number), [fetch_ids, fetch_number]


def _stage(
    tensors: Sequence[tf.Tensor], name: str
) -> Tuple[List[tf.Tensor], tf.Operation]:
    """Put tensors through a queue in the device's memory.

    Returns:
      (the tensors taken from the queue, the operation that fills it).
    """
    fill = tf.raw_ops.Stage(values=tensors, shared_name=name)
    staged = tf.raw_ops.Unstage(dtypes=[x.dtype for x in tensors], shared_name=name)
    for after, before in zip(staged, tensors):
        after.set_shape(before.shape)
    return staged, fill
