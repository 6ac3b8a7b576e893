"""Filters of parallel text, and remarks on it.

`Rules` decides which pairs are dropped, and why. All rules but the length are off by
default. They follow other tools:

* `max_ratio`: the ratio of Moses' clean-corpus-n.perl, in pieces instead of words;
* `character_score`: OpusFilter's CharacterScoreFilter;
* `duplicates`: exact ones, as bifixer's deduplication without its near-duplicates.

`remarks` describes text that can be prepared, but is probably not what was intended.
"""

import functools
import hashlib
import itertools
import os
import re
import sys
import unicodedata
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from transformer.text.lines import Pair, read_pairs

# Reason → (the field of `Rules` with the limit, words about the dropped pairs). A pair
# is counted under the first reason that applies; duplicates are dropped before.
REASONS = {
    "empty": ("", "empty"),
    "too_long": ("max_length", "longer than {max_length} pieces"),
    "ratio": ("max_ratio", "over a ratio of {max_ratio:g}"),
    "characters": ("character_score", "below a character score of {character_score:g}"),
    "duplicates": ("", "duplicates"),
}

PAIRS_READ = 100000  # for the remarks, the first ones of a split


class Rules(NamedTuple):
    """The conditions under which a pair is kept."""

    max_length: int  # pieces on one side
    max_ratio: float = 0.0  # longer side / shorter side, in pieces; 0: any
    character_score: float = 0.0  # smallest share of letters in the script of a side
    scripts: Sequence[str] = ("LATIN", "LATIN")  # of source and target

    def reason(
        self, lines: Tuple[str, str], ids: Tuple[Sequence[int], Sequence[int]]
    ) -> str:
        """Return the reason why a pair is dropped; "" if it is kept.

        Args:
          lines: the text of source and target.
          ids: the pieces of both.
        """
        shorter, longer = sorted(map(len, ids))
        if not shorter:
            return "empty"
        if longer > self.max_length:
            return "too_long"
        if self.max_ratio and longer > self.max_ratio * shorter:
            return "ratio"
        if self.character_score and any(
            character_score(line, script) < self.character_score
            for line, script in zip(lines, self.scripts)
        ):
            return "characters"
        return ""

    def report(self, dropped: Dict[str, int]) -> Dict[str, float]:
        """Return the entries of corpus.json about dropped pairs.

        Args:
          dropped: reason → number of pairs; 0 if it is missing.

        Returns:
          The number of pairs for each reason, and its limit, of the rules in use.
        """
        report: Dict[str, float] = {}
        for reason, (field, _) in REASONS.items():
            limit = getattr(self, field) if field else reason in dropped
            if limit or reason == "empty":
                report[reason] = dropped.get(reason, 0)
            if limit and field:
                report[field] = limit
        return report


def checked_rules(
    max_length: int,
    max_ratio: float,
    character_score: float,
    scripts: Optional[Sequence[str]],
) -> Rules:
    """Return rules; raise ValueError, which names the flag, for impossible ones.

    Args:
      max_length, max_ratio, character_score: as of `Rules`.
      scripts: names in any case of letters; None: Latin, on both sides.
    """
    if not (max_ratio == 0 or max_ratio >= 1):
        raise ValueError(
            f"--max_ratio: expected 1 or more, or 0 for any, got {max_ratio:g}: try 3"
        )
    if not 0 <= character_score <= 1:
        raise ValueError(
            f"--character_score: expected 0 to 1, got {character_score:g}: try 0.9"
        )
    if scripts and not character_score:
        raise ValueError(
            "--scripts: expected --character_score too, got --scripts alone: add "
            "--character_score 0.9"
        )
    names = [_checked_script(name) for name in scripts or ("LATIN", "LATIN")]
    return Rules(max_length, max_ratio, character_score, names)


def described(report: Dict[str, float]) -> str:
    """Return in words why pairs were dropped: "1 empty, 2 longer than 256 pieces".

    Args:
      report: the entry of a split in corpus.json.
    """
    return ", ".join(
        f"{report[reason]:,} {words.format(**report)}"
        for reason, (_, words) in REASONS.items()
        if reason in report
    )


def character_score(line: str, script: str) -> float:
    """Return the share of the letters of a line that are in a script.

        character_score("Der Hund aus Москва.", "LATIN")    # 10 of 16: 0.625

    Returns:
      1 for a line without letters.
    """
    if script == "LATIN" and line.isascii():  # the letters of ASCII are Latin
        return 1.0
    found = [_script(each) for each in line if each.isalpha()]
    return found.count(script) / len(found) if found else 1.0


@functools.lru_cache(maxsize=None)
def _script(letter: str) -> str:
    """Return the script of a letter: LATIN, CYRILLIC, CJK.

    It is the first word of the letter's name in Unicode.
    """
    return re.split("[ -]", unicodedata.name(letter, ""))[0]


def _checked_script(name: str) -> str:
    """Return the name of a script in capitals; ValueError where no letter has it."""
    script = name.upper()
    script_of = _script.__wrapped__  # a million characters, not cached
    if not any(script_of(chr(code)) == script for code in range(sys.maxunicode + 1)):
        raise ValueError(
            f"--scripts: expected the first word of the Unicode names of letters, got "
            f"{name!r}: write Latin, Cyrillic, Greek, Arabic, CJK"
        )
    return script


def duplicates(pairs: Iterable[Tuple[str, str]]) -> np.ndarray:
    """Return which pairs of lines occurred before, bool [pairs].

    The pairs are compared by hashes of 128 bits: about 100 bytes of memory per pair,
    independent of the length of the text.
    """
    seen = set()
    found = []
    for pair in pairs:  # no line contains a line feed
        digest = hashlib.blake2b("\n".join(pair).encode(), digest_size=16).digest()
        found.append(digest in seen)
        seen.add(digest)
    return np.array(found, bool)


def remarks(splits: Dict[str, List[Pair]]) -> Iterator[str]:
    """Yield a line for each suspicious property of the text of a corpus.

    Args:
      splits: split → its pairs of files; "train" is one of them.
    """
    for pair in itertools.chain.from_iterable(splits.values()):
        if os.path.samefile(pair.source, pair.target):
            yield f"remark: {pair.source} is named as source and as target"
    words = {split: _first_words(pairs) for split, pairs in splits.items()}
    train_source, train_target = words["train"]
    for split, (source, target) in words.items():
        own = len(source & train_source) + len(target & train_target)
        swapped = len(source & train_target) + len(target & train_source)
        if swapped > 2 * own:
            yield (
                f"remark on {split}: its source looks like the target of train, and "
                f"its target like the source; if they are swapped, exchange them"
            )


def _first_words(pairs: List[Pair]) -> List[set]:
    """Return the words of the source and of the target of the first pairs."""
    lines = itertools.chain.from_iterable(map(read_pairs, pairs))
    sides: List[set] = [set(), set()]
    for pair in itertools.islice(lines, PAIRS_READ):
        for words, line in zip(sides, pair):
            words.update(line.split())
    return sides
