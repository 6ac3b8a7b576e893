"""Join the parts of a split: the ids on disk, in which weights have their effect."""

import itertools
import os
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence

import numpy as np

from transformer.text.arrays import save_chunks, save_integers
from transformer.text.filters import RULED
from transformer.text.parts import Part, read_part
from transformer.text.vocabulary import UNK

SIDES = ("source", "target")


class Kept(NamedTuple):
    """What the parts of a split hold, but for the ids."""

    lengths: List[np.ndarray]  # of source and target sentences, int32 [pairs] each
    times: np.ndarray  # how many times each pair is written, int64 [pairs]
    corpora: List[Dict[str, Any]]  # for each pair of files: weight, pairs, written
    dropped: Dict[str, int]  # reason → pairs


def times_written(weight: float, pairs: int, place: int) -> np.ndarray:
    """Return how many times each pair of a corpus is written, int64 [pairs].

    The whole part of the weight for each of them, and once more for as many as the rest
    of it asks for, drawn at random: round(weight * pairs) in all, the same each time.

    Args:
      weight: 0 or more.
      pairs: of the corpus.
      place: the place of the corpus among those of the split: each is drawn anew.
    """
    whole = int(weight)
    times = np.full(pairs, whole, np.int64)
    more = int(round((weight - whole) * pairs))
    if more:
        times[np.random.RandomState([1, place]).permutation(pairs)[:more]] += 1
    return times


def survey(folder: str, names: Sequence[List[str]], weights: Sequence[float]) -> Kept:
    """Return what the parts of a split hold.

    Args:
      folder: holds the parts.
      names: for each pair of files, the names of its parts.
      weights: how many times the pairs of each are written.
    """
    lengths, times, corpora = ([], []), [], []
    dropped = np.zeros(len(RULED), np.int64)
    for place, weight in enumerate(weights):
        pairs = 0
        for part in _parts(folder, names[place]):
            pairs += len(part.source_lengths)
            dropped += part.dropped
            lengths[0].append(part.source_lengths)
            lengths[1].append(part.target_lengths)
        times.append(times_written(weight, pairs, place))
        written = int(times[-1].sum())
        corpora.append({"weight": weight, "pairs": pairs, "written": written})
    return Kept(
        [np.concatenate(side) if side else np.zeros(0, np.int32) for side in lengths],
        np.concatenate(times),
        corpora,
        dict(zip(RULED, dropped.tolist())),
    )


def join(folder: str, names: Sequence[List[str]], kept: Kept, stem: str) -> Dict:
    """Write the ids and the offsets of both sides of a split; return their counts.

    Args:
      folder, names: as of `survey`.
      kept: what it returned.
      stem: the beginning of the file names: {stem}.source.ids.npy …

    Returns:
      {"source_tokens": pieces, "source_unknown": how many of them are UNK, …}
    """
    counts = {}
    for place, side in enumerate(SIDES):
        written = np.repeat(kept.lengths[place], kept.times)
        offsets = np.zeros(len(written) + 1, np.int64)
        np.cumsum(written, out=offsets[1:])
        save_integers(f"{stem}.{side}.offsets.npy", offsets)
        ids = _Ids(folder, list(itertools.chain(*names)), place, kept.times)
        save_chunks(f"{stem}.{side}.ids.npy", ids, ids.kind(), int(offsets[-1]))
        counts[f"{side}_tokens"] = int(offsets[-1])
        counts[f"{side}_unknown"] = ids.unknown
    return counts


class _Ids:
    """The ids of one side of all parts, one part after the other, as they are written.

    Args:
      folder, names: of the parts.
      place: 0 for the source, 1 for the target.
      times: how many times each pair is written.
    """

    def __init__(self, folder: str, names: List[str], place: int, times: np.ndarray):
        self._folder, self._names, self._place = folder, names, place
        self._times, self.unknown = times, 0

    def _sides(self) -> Iterator[Sequence[np.ndarray]]:
        """Yield (ids, lengths) of each part."""
        for part in _parts(self._folder, self._names):
            yield part[2 * self._place : 2 * self._place + 2]

    def kind(self) -> np.dtype:
        """Return the dtype of the ids."""
        return next(self._sides())[0].dtype

    def __iter__(self) -> Iterator[np.ndarray]:
        begin = 0
        for ids, lengths in self._sides():
            end = begin + len(lengths)
            chunk = several_times(ids, lengths, self._times[begin:end])
            self.unknown += int(np.count_nonzero(chunk == UNK))
            begin = end
            yield chunk


def several_times(
    ids: np.ndarray, lengths: np.ndarray, times: np.ndarray
) -> np.ndarray:
    """Return the ids of sentences, each of them as many times in a row as it says.

        several_times([7, 8, 9], lengths=[1, 2], times=[2, 1])    # [7, 7, 8, 9]

    Args:
      ids: of all sentences, concatenated.
      lengths: of the sentences.
      times: as many as lengths.
    """
    if (times == 1).all():
        return ids
    starts = np.repeat(np.cumsum(lengths) - lengths, times)  # of each copy, in `ids`
    lengths = np.repeat(lengths, times)
    ends = np.cumsum(lengths)
    shift = np.repeat(starts - (ends - lengths), lengths)
    return ids[np.arange(len(shift)) + shift]


def _parts(folder: str, names: Sequence[str]) -> Iterator[Part]:
    """Yield parts; ValueError where one is gone, or is not what was written."""
    for name in names:
        part = read_part(folder, name)
        if part is None:
            raise ValueError(
                f"{os.path.join(folder, name)}: found another file than was written, "
                f"wanted the same; check the disk, and run the same command again"
            )
        yield part
