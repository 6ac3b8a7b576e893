"""Filters of parallel text: which pairs are dropped, and for what reason.

All but the lengths are off unless asked for. The names are those of the field's tools:

* `max_ratio`: as the ratio of Moses' clean-corpus-n.perl, in pieces instead of words;
* `character_score`: as OpusFilter's CharacterScoreFilter;
* duplicates: exact ones, as bifixer's deduplication without its near-duplicates.
"""

import collections
import functools
import hashlib
import sys
import unicodedata
from typing import Dict, Iterable, NamedTuple, Optional, Sequence, Tuple

import numpy as np

# Reason → what is said of the pairs that were dropped for it. A pair is counted under
# the first that holds; duplicates are found before all others.
REASONS = collections.OrderedDict(
    [
        ("empty", "empty"),
        ("too_long", "longer than {max_length} pieces"),
        ("ratio", "over a ratio of {max_ratio:g}"),
        ("characters", "below a character score of {character_score:g}"),
        ("duplicates", "duplicates"),
    ]
)
RULED = [reason for reason in REASONS if reason != "duplicates"]  # of `Rules`


class Rules(NamedTuple):
    """What a pair has to be in order to be kept."""

    max_length: int  # pieces on one side
    max_ratio: float = 0.0  # of the longer side to the other, in pieces; 0: any
    character_score: float = 0.0  # least share of letters in the script of their side
    scripts: Sequence[str] = ("LATIN", "LATIN")  # of source and target

    def reason(
        self, lines: Tuple[str, str], ids: Tuple[Sequence[int], Sequence[int]]
    ) -> str:
        """Return why a pair is dropped, "" where it is kept.

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


def checked_rules(
    max_length: int,
    max_ratio: float,
    character_score: float,
    scripts: Optional[Sequence[str]],
) -> Rules:
    """Return rules; raise ValueError, which names the flag, for some that cannot be.

    Args:
      max_length, max_ratio, character_score: as of `Rules`.
      scripts: names in any case of letters; None: Latin, on both sides.
    """
    if not (max_ratio == 0 or max_ratio >= 1):
        raise ValueError(
            f"found --max_ratio {max_ratio:g}, wanted 1 or more, or 0 for any: try 3"
        )
    if not 0 <= character_score <= 1:
        raise ValueError(
            f"found --character_score {character_score:g}, wanted 0 to 1: try 0.9"
        )
    if scripts and not character_score:
        raise ValueError(
            "found --scripts without --character_score, wanted both: try "
            "--character_score 0.9"
        )
    names = [_checked_script(name) for name in scripts or ("LATIN", "LATIN")]
    return Rules(max_length, max_ratio, character_score, names)


def report_of(dropped: Dict[str, int], rules: Rules) -> Dict[str, float]:
    """Return what corpus.json says of the pairs that were dropped.

    Args:
      dropped: reason → pairs.
      rules: for which they were dropped; those that are off are left out.
    """
    limits = {"too_long": "max_length", "ratio": "max_ratio"}
    limits["characters"] = "character_score"
    report = {}
    for reason in REASONS:
        limit = limits.get(reason)
        is_on = getattr(rules, limit) if limit else reason in dropped
        if is_on:
            report[reason] = dropped[reason]
        if is_on and limit:
            report[limit] = is_on
    return report


def told(report: Dict[str, float]) -> str:
    """Return in words for what reasons pairs were dropped: "1 empty, 2 longer than …".

    Args:
      report: the entry of a split in corpus.json.
    """
    return ", ".join(
        f"{report[reason]:,} {words.format(**report)}"
        for reason, words in REASONS.items()
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
    letters = inside = 0
    for character, times in collections.Counter(line).items():
        found = _script(character)
        letters += times * bool(found)
        inside += times * (found == script)
    return inside / letters if letters else 1.0


@functools.lru_cache(maxsize=None)
def _script(character: str) -> str:
    """Return the script of a letter, "" for other characters.

    It is the first word of the letter's name in Unicode: LATIN, CYRILLIC, CJK.
    """
    name = unicodedata.name(character, "") if character.isalpha() else ""
    return name.split(" ")[0].split("-")[0]


def _checked_script(name: str) -> str:
    """Return the name of a script in capitals; ValueError where no letter has it."""
    script, find = name.upper(), _script.__wrapped__  # a million letters, not cached
    if not any(find(chr(code)) == script for code in range(sys.maxunicode + 1)):
        raise ValueError(
            f"--scripts: found {name!r}, wanted the word with which Unicode begins the "
            f"names of its letters: write Latin, Cyrillic, Greek, Arabic, CJK"
        )
    return script


def duplicates(pairs: Iterable[Tuple[str, str]]) -> np.ndarray:
    """Return which pairs of lines occurred before, bool [pairs].

    The pairs are compared by 128 bits of a hash, of which memory holds two or three
    copies: 50 bytes a pair, however long its text is.
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
