"""Checks of file pairs: do the lines of the two files belong together?

`check_pairs` checks one file pair. `count_common_pairs` looks for its pairs in those of
train, and `is_reversed` compares the languages of two file pairs.
"""

import array
import collections
import itertools
import math
import os
from typing import Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from transformer.runtime.errors import CorpusError, SidesEqual
from transformer.runtime.progress import format_count
from transformer.text.line_lengths import Misalignment, find_misalignment
from transformer.text.lines import (
    FilePair,
    LineEndCounter,
    align_lines,
    read_lines,
    read_pairs,
)

# Longer lines count as this long.
MAX_LENGTH = 2**16 - 1
# Fewer equal lines are not refused, because they may be names.
MIN_EQUAL = 10
# These separate the columns of a file with both languages.
SEPARATORS = ("\t", "|||")
# This many lines at the beginning of a file tell its language.
NUM_COMPARED = 2000
# Only this many characters at the beginning of each line are read for it.
MAX_COMPARED = 1000
# Languages are not compared if a file has fewer trigrams, because they say too little.
MIN_TRIGRAMS = 100
# A text clearly resembles one language more than another if the mean log-probabilities
# of its trigrams differ by more than this.
MIN_DIFFERENCE = 0.2


class PairFindings(NamedTuple):
    """What a look at two files found.

    Attributes:
      num_pairs: the number of lines in each.
      num_equal: the number of lines, not empty, that are equal on both sides.
      misalignment: where the lines cease to belong together, if anywhere.
      unmatched: the names of segments that only the source, or only the target, has.
      line_ends: what `LineEndCounter` says about source and target, or "".
    """

    num_pairs: int
    num_equal: int = 0
    misalignment: Optional[Misalignment] = None
    unmatched: Sequence[Sequence[str]] = ()
    line_ends: Sequence[str] = ()


def check_pairs(split: str, file_pair: FilePair) -> PairFindings:
    """Read two parallel files, count their lines, and look at what is wrong with them.

    Args:
      split: the name of the split, for messages.
      file_pair: the files.

    Raises:
      CorpusError: a file cannot be read, or the numbers of lines differ.
      SidesEqual: all lines are equal on both sides.
    """
    lengths = (array.array("H"), array.array("H"))
    counters = (LineEndCounter(), LineEndCounter())
    num_equal = num_empty = 0
    unmatched: Tuple[List[str], List[str]] = ([], [])
    for lines in align_lines(file_pair, unmatched):
        for side, counter, line in zip(lengths, counters, lines):
            if line is not None:
                side.append(min(len(line), MAX_LENGTH))
                counter.count(line)
        if lines[0] == lines[1]:
            num_equal += bool(lines[0])
            num_empty += not lines[0]
    num_source, num_target = map(len, lengths)
    if num_source != num_target:
        raise CorpusError(
            f"{split}: expected the same number of sentences in both files, got "
            f"{num_source:,} in {file_pair.source} and {num_target:,} in "
            f"{file_pair.target}: line n of one must be the translation of line n of "
            "the other"
        )
    is_same_file = len({*map(os.path.realpath, file_pair[:2])}) == 1
    min_equal = 1 if is_same_file else MIN_EQUAL
    if num_equal >= min_equal and num_equal + num_empty == num_source:
        raise SidesEqual(
            f"{split}: expected two languages, got the same text, "
            f"{format_count(num_source, 'line')}, in {file_pair.source} and "
            f"{file_pair.target}: each line would be paired with itself",
            file_pair.source,
            _find_separator(read_lines(file_pair.source)),
        )
    misalignment = find_misalignment(*lengths)
    line_ends = [counter.describe() for counter in counters]
    return PairFindings(num_source, num_equal, misalignment, unmatched, line_ends)


def _find_separator(lines: Iterable[str]) -> str:
    """Return what separates columns in the first lines, or ""."""
    sample = [line.strip() for line in itertools.islice(lines, 100) if line.strip()]
    separators = (
        separator
        for separator in SEPARATORS
        if all(separator in line for line in sample)
    )
    return next(separators, "")


def describe_findings(findings: PairFindings) -> List[str]:
    """Return a line for each thing that is wrong with two files."""
    lines = []
    if 2 * findings.num_equal > findings.num_pairs:
        lines.append(
            f"{findings.num_equal:,} of {findings.num_pairs:,} lines are equal on both "
            "sides"
        )
    if any(findings.unmatched):
        lines.append(describe_unmatched(findings.unmatched))
    for side, text in zip(FilePair._fields, findings.line_ends):
        if text:
            lines.append(f"the {side} has {text}")
    if findings.misalignment:
        lines.append(describe_misalignment(findings.misalignment))
    return lines


def describe_unmatched(unmatched: Sequence[Sequence[str]]) -> str:
    """Return a sentence about segments that only one of two sides has."""
    sides = (
        f"{format_count(len(names), 'segment')} of the {side}, such as {names[0]!r}"
        for side, names in zip(FilePair._fields, unmatched)
        if names
    )
    return f"left out, as the other side lacks them: {'; '.join(sides)}"


def describe_misalignment(misalignment: Misalignment, unit: str = "line") -> str:
    """Return a sentence about lines that do not belong together.

    Args:
      misalignment: where, and how.
      unit: what the numbers count: "line" of a file, or "pair" of a data folder.
    """
    first, last, correlation, shift, shifted, to_end = misalignment
    place = f"{first:,} to {last:,}{' (the end)' if to_end else ''}"
    text = (
        f"from about {unit} {place}, the sides may not be translations "
        f"of each other: their lengths correlate by {correlation:.2f}"
    )
    if shift:
        text += (
            f" at first, but by {shifted:.2f} if {unit} n of the source belongs to "
            f"{unit} n{shift:+d} of the target: lines are missing on one side"
        )
    return text


def count_common_pairs(
    train: Iterable[FilePair], file_pair: FilePair
) -> Tuple[int, int]:
    """Count the pairs of a split that are in train, too, and the pairs of the split.

    Spaces at the ends of lines do not count, nor do pairs with two empty lines.

    Returns:
      (the number of pairs in train, the number of all pairs).
    """
    pairs = collections.Counter(map(hash, _strip(read_pairs(file_pair))))
    num_pairs = sum(pairs.values())
    num_common = 0
    for pair in _strip(itertools.chain.from_iterable(map(read_pairs, train))):
        num_common += pairs.pop(hash(pair), 0)
    return num_common, num_pairs


def _strip(pairs: Iterable[Tuple[str, str]]) -> Iterator[Tuple[str, str]]:
    """Strip the lines of pairs, and leave out pairs that are empty on both sides."""
    stripped = ((source.strip(), target.strip()) for source, target in pairs)
    return filter(any, stripped)


def is_reversed(file_pair: FilePair, other: FilePair) -> bool:
    """Return whether the languages of two file pairs are in opposite order.

    It compares the characters of the first NUM_COMPARED lines, three in a row: each
    side of one file pair must resemble the other side of the other one clearly more
    than its own side.
    """
    source, target = (_count_trigrams(path) for path in file_pair[:2])
    if min(sum(source.values()), sum(target.values())) < MIN_TRIGRAMS:
        return False
    other_source, other_target = (_count_trigrams(path) for path in other[:2])
    return (
        _mean_log_probability(source, other_target)
        > _mean_log_probability(source, other_source) + MIN_DIFFERENCE
        and _mean_log_probability(target, other_source)
        > _mean_log_probability(target, other_target) + MIN_DIFFERENCE
    )


def _count_trigrams(path: str) -> collections.Counter:
    """Count three characters in a row in the first lines of a file."""
    counts: collections.Counter = collections.Counter()
    for line in itertools.islice(read_lines(path), NUM_COMPARED):
        text = f" {line[:MAX_COMPARED].strip().lower()} "
        counts.update(text[i : i + 3] for i in range(len(text) - 2))
    return counts


def _mean_log_probability(
    text: collections.Counter, model: collections.Counter
) -> float:
    """Return the mean log-probability of trigrams, counted from 1 in the model."""
    total = sum(model.values()) + len(model) + 1
    log_probabilities = sum(
        count * math.log((model[trigram] + 1) / total)
        for trigram, count in text.items()
    )
    return log_probabilities / max(1, sum(text.values()))
