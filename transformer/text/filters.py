"""Filters of parallel text, and remarks on it.

`Rules` decides which pairs are dropped, and why. All rules but the length are off by
default. They follow other tools:

* `max_ratio`: the ratio of Moses' clean-corpus-n.perl, in pieces instead of words;
* `character_score`: OpusFilter's CharacterScoreFilter;
* `duplicates`: exact ones, as bifixer's deduplication without its near-duplicates.

`remarks` describes text that can be prepared, but is probably not what was intended.
"""

import collections
import functools
import hashlib
import itertools
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

# Limits of the remarks
PAIRS_READ = 100000  # of a split, the first ones
FEW = 20  # pairs, too few to learn from
REPEATED = 0.05  # share of pairs that occurred before
ALIKE = 0.5  # share of pairs with the same text on both sides


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
    letters = 0
    matching = 0
    for character, times in collections.Counter(line).items():
        found = _script(character)
        if found:
            letters += times
        if found == script:
            matching += times
    return matching / letters if letters else 1.0


@functools.lru_cache(maxsize=None)
def _script(character: str) -> str:
    """Return the script of a letter, "" for other characters.

    It is the first word of the letter's name in Unicode: LATIN, CYRILLIC, CJK.
    """
    name = unicodedata.name(character, "") if character.isalpha() else ""
    return name.split(" ")[0].split("-")[0]


def _checked_script(name: str) -> str:
    """Return the name of a script in capitals; ValueError where no letter has it."""
    script = name.upper()
    script_of = _script.__wrapped__  # a million letters, not cached
    if not any(script_of(chr(code)) == script for code in range(sys.maxunicode + 1)):
        raise ValueError(
            f"--scripts: expected the first word of the Unicode names of letters, got "
            f"{name!r}: write Latin, Cyrillic, Greek, Arabic, CJK"
        )
    return script


def duplicates(pairs: Iterable[Tuple[str, str]]) -> np.ndarray:
    """Return which pairs of lines occurred before, bool [pairs].

    The pairs are compared by hashes of 128 bits. Memory holds two or three copies of
    these: about 50 bytes per pair, independent of the length of the text.
    """
    digests = bytearray()
    for source, target in pairs:  # no line contains a line feed
        text = f"{source}\n{target}".encode()
        digests += hashlib.blake2b(text, digest_size=16).digest()
    keys = np.frombuffer(digests, np.uint64).reshape(-1, 2)
    order = np.lexsort((keys[:, 1], keys[:, 0]))  # equal ones in the order of the text
    keys = keys[order]
    found = np.zeros(len(keys), bool)
    found[order[1:]] = (keys[1:] == keys[:-1]).all(axis=1)
    return found


def remarks(splits: Dict[str, List[Pair]]) -> Iterator[str]:
    """Yield a line for each suspicious property of the text of a corpus.

    Args:
      splits: split → its pairs of files; "train" is one of them.
    """
    train = _first_pairs(splits["train"])
    count = len(train)
    repeated = sum(times - 1 for times in collections.Counter(train).values())
    alike = sum(source == target for source, target in train)
    if count < FEW:
        yield f"remark on train: {count} pairs are too few to learn from"
    elif repeated > REPEATED * count:
        yield (
            f"remark on train: {repeated:,} of {count:,} pairs occurred before; "
            f"--drop_duplicates drops them"
        )
    if alike > ALIKE * count:
        yield (
            f"remark on train: {alike:,} of {count:,} pairs have the same text on both "
            f"sides; is one file named twice?"
        )
    train_words = _words_of_sides(train)
    for split in sorted(set(splits) - {"train"}):
        source, target = _words_of_sides(_first_pairs(splits[split]))
        own = len(source & train_words[0]) + len(target & train_words[1])
        swapped = len(source & train_words[1]) + len(target & train_words[0])
        if swapped > 2 * own:
            yield (
                f"remark on {split}: its source looks like the target of train, and "
                f"its target like the source; if they are swapped, exchange them"
            )


def _first_pairs(pairs: List[Pair]) -> List[Tuple[str, str]]:
    """Return the first pairs of lines of some files."""
    lines = itertools.chain.from_iterable(map(read_pairs, pairs))
    return list(itertools.islice(lines, PAIRS_READ))


def _words_of_sides(pairs: List[Tuple[str, str]]) -> Tuple[set, set]:
    """Return the words of the source and those of the target."""
    source = {word for line, _ in pairs for word in line.split()}
    target = {word for _, line in pairs for word in line.split()}
    return source, target
