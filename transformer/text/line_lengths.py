"""Misaligned text: the lengths of translations tell whether the lines belong together.

A long sentence has a long translation. If line n of one file is the translation of line
n of the other, the lengths of the two sides correlate: by 0.88 in Multi30k. If a line
was lost on one side, they hardly correlate from there on. But they do if each line is
compared with the next one of the other side, or the one before.
"""

import math
from typing import NamedTuple, Optional, Sequence, Union

import numpy as np

# Texts with fewer lines are not checked, because they say too little.
MIN_LINES = 50
# The correlation is computed for windows of this many lines.
WINDOW = 100
# The largest shift, in lines, that is searched for.
MAX_SHIFT = 50
# Lines may not belong together if the correlation of their window is below this.
LOW = 0.25
# The correlation is not computed if the standard deviation of the logarithms of the
# lengths is below this: equal lengths say nothing.
MIN_DEVIATION = 0.1
# At the right shift, the correlation is at least this.
MIN_SHIFTED = 0.4
# Fisher's z at the right shift is at least this many standard errors above 0, and above
# its value without the shift.
MIN_Z = 5.0
# If no shift is right, lines are reported if this many in a row correlate little; in a
# shorter text, if all lines do.
MIN_RUN = 300
# Then their correlation plus two standard errors must be below this.
MAX_BOUND = 0.2
# A shift is searched for in at most this many windows.
MAX_SEARCHES = 100

Lengths = Union[Sequence[int], np.ndarray]  # the lengths of lines


class Misalignment(NamedTuple):
    """Lines that do not seem to belong together.

    Attributes:
      first, last: the first and the last of these lines, about; the first line is 1.
      correlation: that of the lengths of the two sides there; if there is a shift, at
        the beginning.
      shift: at the beginning, line n of the source belongs to line n + shift of the
        target; 0: no shift was found at which the lines belong together.
      shifted: the correlation with that shift, at the beginning.
    """

    first: int
    last: int
    correlation: float
    shift: int = 0
    shifted: float = 0.0


def find_misalignment(
    source_lengths: Lengths, target_lengths: Lengths
) -> Optional[Misalignment]:
    """Find where the lines of two files cease to belong together.

    It finds a shift of up to MAX_SHIFT lines by the correlation that comes back with
    it, and lines in no order by the lack of any correlation over MIN_RUN lines, or over
    the whole text. It finds nothing in lines of equal lengths.

    Args:
      source_lengths, target_lengths: the lengths of the lines, in characters or in
        pieces; 0 for an empty line, which does not count.

    Returns:
      None if nothing was found.
    """
    source = _standardize(source_lengths)
    target = _standardize(target_lengths)
    num_lines = len(source)
    if num_lines < MIN_LINES:
        return None
    size = min(WINDOW, max(MIN_LINES, num_lines // 4))
    bounds = [*range(0, num_lines - size + 1, size), num_lines]
    correlations = [
        _correlate(source[begin:end], target[begin:end])
        for begin, end in zip(bounds[:-1], bounds[1:])
    ]
    is_low = [correlation < LOW for correlation in correlations]  # NaN: False
    low_windows = [index for index, low in enumerate(is_low) if low]
    for index in low_windows[:MAX_SEARCHES]:
        begin, end = bounds[index : index + 2]
        shift = _find_shift(source, target, begin, end)
        if shift:
            last = _end_of_run(is_low, index)
            first = _find_beginning(
                source, target, bounds[max(0, index - 1)], end, shift
            )
            first = min(first, end - 1)
            end = min(first + size, num_lines - max(0, shift))
            correlation = _correlate(source[first:end], target[first:end])
            shifted = _correlate(source[first:end], target[first + shift : end + shift])
            return Misalignment(first + 1, bounds[last], correlation, shift, shifted)
    last = 0
    for index in low_windows:
        if index < last:
            continue
        last = _end_of_run(is_low, index)
        begin, end = bounds[index], bounds[last]
        correlation = _correlate(source[begin:end], target[begin:end])
        bound = correlation + 2 / math.sqrt(end - begin)
        if end - begin >= min(MIN_RUN, num_lines) and bound < MAX_BOUND:
            return Misalignment(begin + 1, end, correlation)
    return None


def _standardize(lengths: Lengths) -> np.ndarray:
    """Return the logarithms of lengths with mean 0; empty lines are at the mean."""
    array = np.asarray(lengths, np.float32)
    is_empty = array <= 0
    logs = np.log1p(np.maximum(array, 0))
    if is_empty.all():
        return np.zeros_like(logs)
    logs -= logs[~is_empty].mean()
    logs[is_empty] = 0
    return logs


def _correlate(x: np.ndarray, y: np.ndarray) -> float:
    """Compute a correlation; NaN if either side hardly varies."""
    if len(x) < 3 or min(x.std(), y.std()) < MIN_DEVIATION:
        return math.nan
    return float(np.corrcoef(x, y)[0, 1])


def _z(correlation: float, count: int) -> float:
    """Return Fisher's z of a correlation in units of its standard error."""
    return math.atanh(max(-0.999, min(0.999, correlation))) * math.sqrt(count - 3)


def _find_shift(source: np.ndarray, target: np.ndarray, begin: int, end: int) -> int:
    """Return the shift at which lines `begin` to `end` of the source fit the target.

    It is 0 if no shift fits clearly better.
    """
    z_without = _z(_correlate(source[begin:end], target[begin:end]), end - begin)
    best = (0.0, 0)
    for shift in range(-MAX_SHIFT, MAX_SHIFT + 1):
        low, high = max(begin, -shift), min(end, len(target) - shift)
        if high - low >= MIN_LINES * 3 // 4:
            correlation = _correlate(
                source[low:high], target[low + shift : high + shift]
            )
            if correlation >= MIN_SHIFTED:  # not NaN
                best = max(best, (_z(correlation, high - low), shift))
    z, shift = best
    return shift if z >= MIN_Z and z - z_without >= MIN_Z else 0


def _find_beginning(
    source: np.ndarray, target: np.ndarray, begin: int, end: int, shift: int
) -> int:
    """Return the index of the line, between two, from which a shift fits better."""
    lines = np.arange(max(begin, -shift), min(end, len(target) - shift))
    without = (source[lines] - target[lines]) ** 2
    shifted = (source[lines] - target[lines + shift]) ** 2
    gains = np.concatenate([[0.0], np.cumsum(without - shifted)])
    return int(lines[0] + gains.argmin())


def _end_of_run(is_low: Sequence[bool], index: int) -> int:
    """Return the index of the first two windows after `index` that are not low."""
    while any(is_low[index : index + 2]):
        index += 1
    return index
