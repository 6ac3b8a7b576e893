"""Misaligned text: the lengths of translations tell whether the lines belong together.

A long sentence has a long translation. If line n of one file is the translation of line
n of the other, the lengths of the two sides correlate: by 0.88 in Multi30k. If a line
was lost on one side, they hardly correlate from there on. But they do if each line is
compared with the next one of the other side, or the one before.
"""

import math
from typing import Any, NamedTuple, Optional, Sequence, Union

import numpy as np

# Texts with fewer lines are not checked, because they say too little.
MIN_LINES = 50
# The correlation is computed for windows of this many lines.
WINDOW = 100
# The largest shift, in lines, that is searched for in a window.
MAX_SHIFT = 50
# Larger shifts, up to this many lines, are searched for in blocks of this many windows.
MAX_FAR_SHIFT = 5000
BLOCK = 10
# A shift is searched for if the correlation is below this. It is not 0 at a wrong
# shift: if long and short lines alternate, it is up to 0.4 in Multi30k.
MAX_SEARCHED = 0.7
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
# It is at least this many above its value at nine of ten shifts nearby: in text sorted
# by length, many shifts fit.
MIN_PEAK = 3.0
# If no shift is right, lines are reported if this many in a row correlate little; in a
# shorter text, if all lines do.
MIN_RUN = 300
# Then their correlation plus two standard errors must be below this, and the mean of
# its windows above the negative: in pairs sorted by both lengths, it is not.
MAX_BOUND = 0.2
# Without a shift, shorter lines say nothing if both sides have this mean length or less
# (in characters): the lengths of a word and its translation need not correlate.
WORD_LENGTH = 20
# A shift is searched for in at most this many windows, and blocks.
MAX_SEARCHES = 500
MAX_FAR_SEARCHES = 20

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
      to_end: whether the last line is the last one of the text.
    """

    first: int
    last: int
    correlation: float
    shift: int = 0
    shifted: float = 0.0
    to_end: bool = False


@np.errstate(invalid="ignore")  # older NumPy warns of comparisons with NaN
def find_misalignment(
    source_lengths: Lengths, target_lengths: Lengths, word_length: float = WORD_LENGTH
) -> Optional[Misalignment]:
    """Find where the lines of two files cease to belong together.

    It finds a shift of up to MAX_FAR_SHIFT lines by the correlation that comes back
    with it, and lines in no order by the lack of any correlation over MIN_RUN lines, or
    over the whole text. It finds nothing in lines of equal lengths.

    Args:
      source_lengths, target_lengths: the lengths of the lines, in characters or in
        pieces; 0 for an empty line, which does not count.
      word_length: lines in no order are not looked for if the mean lengths of both
        sides are at most this, as in a list of words.

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
    correlations = _correlate_windows(source, target, bounds, 0)
    is_low = correlations < LOW  # NaN: False
    indices = np.flatnonzero(correlations < MAX_SEARCHED)[:MAX_SEARCHES]
    ranges = [(bounds[i], bounds[i + 1], MAX_SHIFT) for i in indices]
    blocks = [*bounds[:-BLOCK:BLOCK], num_lines]
    far = zip(blocks[:-1], blocks[1:]) if len(blocks) > 1 else [(0, num_lines)]
    ranges += [
        (begin, end, MAX_FAR_SHIFT)
        for begin, end in far
        if _correlate(source[begin:end], target[begin:end]) < MAX_SEARCHED
    ][:MAX_FAR_SEARCHES]
    for begin, end, max_shift in ranges:
        shift = _find_shift(source, target, begin, end, max_shift)
        if shift:
            windows = [i for i in range(len(is_low)) if begin <= bounds[i] < end]
            return _locate_shift(source, target, bounds, windows, shift)
    if max(np.mean(source_lengths), np.mean(target_lengths)) <= word_length:
        return None
    last = 0
    for index in np.flatnonzero(is_low):
        if index < last:
            continue
        last = _end_of_run(is_low, index)
        begin, end = bounds[index], bounds[last]
        correlation = _correlate(source[begin:end], target[begin:end])
        bound = correlation + 2 / math.sqrt(end - begin)
        # Sorted pairs correlate along the run, but not within its windows.
        is_none = (
            bound < MAX_BOUND and np.nanmean(correlations[index:last]) > -MAX_BOUND
        )
        if is_none and end - begin >= min(MIN_RUN, num_lines):
            return Misalignment(
                begin + 1, end, correlation, to_end=bool(end == num_lines)
            )
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


def _correlate_windows(
    source: np.ndarray, target: np.ndarray, bounds: Sequence[int], shift: int
) -> np.ndarray:
    """Compute the correlation of each window with the shifted lines of the target."""
    correlations = []
    for begin, end in zip(bounds[:-1], bounds[1:]):
        low, high = max(begin, -shift), min(end, len(target) - shift)
        correlations.append(
            _correlate(source[low:high], target[low + shift : high + shift])
            if 2 * (high - low) >= end - begin
            else math.nan
        )
    return np.array(correlations)


def _find_shift(
    source: np.ndarray, target: np.ndarray, begin: int, end: int, max_shift: int
) -> int:
    """Return the shift at which lines `begin` to `end` of the source fit the target.

    It is 0 if no shift fits clearly better.
    """
    first = max(begin - max_shift, 0)
    size = end - begin
    # Lines beyond the ends of the target count as missing.
    margin = size // 2
    lines = target[first : end + max_shift].astype(np.float64)
    x = source[begin:end].astype(np.float64)
    padded = np.pad(lines, margin, "constant")
    exists = np.pad(np.ones_like(lines), margin, "constant")
    ones = np.ones_like(x)
    counts = np.maximum(1, np.correlate(exists, ones))
    mean_x = np.correlate(exists, x) / counts
    mean_y = np.correlate(padded, ones) / counts
    variance_x = np.correlate(exists, x**2) / counts - mean_x**2
    variance_y = np.correlate(padded**2, ones) / counts - mean_y**2
    covariance = np.correlate(padded, x) / counts - mean_x * mean_y
    shifts = first - margin - begin + np.arange(len(counts))
    varies = np.minimum(variance_x, variance_y) >= MIN_DEVIATION**2
    varies &= counts >= max(size // 2, min(size, MIN_LINES) * 3 // 4)
    varies &= abs(shifts) <= max_shift
    if not varies.any():
        return 0
    shifts, counts = shifts[varies], counts[varies]
    correlations = covariance[varies] / np.sqrt(variance_x * variance_y)[varies]
    z = np.arctanh(np.clip(correlations, -0.999, 0.999)) * np.sqrt(counts - 3)
    z_without = z[shifts == 0].max() if (shifts == 0).any() else 0.0
    best = int(np.where(correlations >= MIN_SHIFTED, z, -math.inf).argmax())
    near = abs(shifts - shifts[best]) <= MAX_SHIFT
    z_others = max(0.0, np.percentile(z[near], 90))
    is_right = (
        correlations[best] >= MIN_SHIFTED
        and z[best] >= MIN_Z
        and z[best] - z_without >= MIN_Z
        and z[best] - z_others >= MIN_PEAK
    )
    return int(shifts[best]) if is_right else 0


def _locate_shift(
    source: np.ndarray,
    target: np.ndarray,
    bounds: Sequence[int],
    windows: Sequence[int],
    shift: int,
) -> Misalignment:
    """Find the first and the last line of a shift that some windows have."""
    without = _correlate_windows(source, target, bounds, 0)
    shifted = _correlate_windows(source, target, bounds, shift)
    index = next((i for i in windows if shifted[i] > without[i]), windows[0])
    # More lines may be lost, which is another shift. NaN beyond the target: True.
    low = np.fmax(LOW, shifted[index] / 2)
    fits = (without < low) | ~(shifted <= without)
    last = bounds[_end_of_run(fits, index)]
    index = len(fits) - _end_of_run(fits[::-1], len(fits) - 1 - index)
    size = bounds[1]
    end = max(bounds[index + 1], size - shift)
    first = _find_beginning(source, target, bounds[max(0, index - 1)], end, shift)
    first = min(first, end - 1)
    end = min(first + size, len(source) - max(0, shift))
    return Misalignment(
        first + 1,
        last,
        _correlate(source[first:end], target[first:end]),
        shift,
        _correlate(source[first:end], target[first + shift : end + shift]),
        last == len(source),
    )


def _find_beginning(
    source: np.ndarray, target: np.ndarray, begin: int, end: int, shift: int
) -> int:
    """Return the index of the line, between two, from which a shift fits better."""
    lines = np.arange(max(begin, -shift), min(end, len(target) - shift))
    local = source[lines] - source[lines].mean()
    without = (local - target[lines] + target[lines].mean()) ** 2
    shifted = (local - target[lines + shift] + target[lines + shift].mean()) ** 2
    gains = np.concatenate([[0.0], np.cumsum(without - shifted)])
    return int(lines[0] + gains.argmin())


def _end_of_run(is_low: Any, index: Any) -> int:
    """Return the index of the first two windows after `index` that are not low."""
    while any(is_low[index : index + 2]):
        index += 1
    return index
