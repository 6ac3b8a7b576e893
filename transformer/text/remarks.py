"""Remarks on parallel text that can be prepared, but is probably not what was meant."""

import collections
import itertools
import re
from typing import Dict, Iterator, List, Sequence, Tuple

from transformer.text.corpus import Pair, read_pairs

LOOKED_AT = 100000  # pairs of a split, the first ones
FEW = 20  # pairs from which nothing is learned
REPEATED = 0.05  # share of pairs that occurred before
ALIKE = 0.5  # share of pairs with the same text on both sides
FOREIGN = 0.2  # share of words that are only in the other side of train


def remarks(splits: Dict[str, List[Pair]], languages: Sequence[str]) -> Iterator[str]:
    """Yield a line for each oddity of the text files of a corpus.

    Args:
      splits: split → its pairs of files; "train" is one of them.
      languages: the endings of source and target files.
    """
    for split, pairs in splits.items():
        for pair in pairs:
            if _endings(pair) == tuple(reversed(languages)):
                yield (
                    f"remark on {split}: found {pair.source} as the source and "
                    f"{pair.target} as the target; if they are swapped, name it first"
                )
    pairs = _pairs(splits["train"])
    yield from _of_train(pairs)
    known = [_words(side) for side in zip(*pairs)] or [set(), set()]
    for split in sorted(set(splits) - {"train"}):
        here = [_words(side) for side in zip(*_pairs(splits[split]))] or [set(), set()]
        if _is_swapped(here, known):
            yield (
                f"remark on {split}: its source has words of the target of train, and "
                f"its target those of the source; if they are swapped, name the other "
                f"file first"
            )


def _of_train(pairs: List[Tuple[str, str]]) -> Iterator[str]:
    """Yield the remarks on the pairs of train."""
    count = len(pairs)
    repeated = sum(times - 1 for times in collections.Counter(pairs).values())
    alike = sum(source == target for source, target in pairs)
    if count < FEW:
        yield f"remark on train: found {count} pairs; nothing is learned from so few"
    elif repeated > REPEATED * count:
        yield (
            f"remark on train: {repeated:,} of {count:,} pairs occurred before; remove "
            f"them, unless they are meant to weigh more"
        )
    if alike > ALIKE * count:
        yield (
            f"remark on train: {alike:,} of {count:,} pairs have the same text on both "
            f"sides; is one file named twice?"
        )


def _pairs(pairs: List[Pair]) -> List[Tuple[str, str]]:
    """Return the first lines of source and target files, side by side."""
    lines = itertools.chain.from_iterable(map(read_pairs, pairs))
    return list(itertools.islice(lines, LOOKED_AT))


def _endings(pair: Pair) -> Tuple[str, ...]:
    """Return the endings of both names, without .gz."""
    paths = pair.source, pair.target
    return tuple(re.sub(r"\.gz$", "", str(path)).rsplit(".", 1)[-1] for path in paths)


def _words(lines: Sequence[str]) -> set:
    """Return the words of lines."""
    return {word for line in lines for word in line.split()}


def _is_swapped(here: List[set], known: List[set]) -> bool:
    """Return whether each side has the words of the other side of train."""
    only = known[0] - known[1], known[1] - known[0]
    shares = [
        [len(words & each) / max(1, len(words)) for each in only] for words in here
    ]
    return shares[0][1] > max(FOREIGN, 2 * shares[0][0]) and shares[1][0] > max(
        FOREIGN, 2 * shares[1][1]
    )
