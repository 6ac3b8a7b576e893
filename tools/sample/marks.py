"""Marks behind words, by which the words of two languages find their counterparts.

While grammar.py spells a sentence whose parts have marks, each word gets those of the
part that it stands for, as characters that no text has. A sentence without marks is
spelled as if there were none.
"""

import re
from typing import List, Set, Tuple

FIRST, LAST = 0xE000, 0xF8FF  # the private use area of Unicode
EACH = 64  # marks of a part of a sentence
# What a word stands for: four words of each can be told apart.
DETERMINER, ADJECTIVE, NOUN, NEGATION, VERB, MODAL, INFINITIVE, OTHER = range(8)
TIME, OFTEN, JOINER = ADJECTIVE, NOUN, DETERMINER  # of parts that have no such words
END = 3  # the last of several words
MARK = re.compile(f"[{chr(FIRST)}-{chr(LAST)}]")


def mark_of(number: int) -> str:
    """Return the first mark of a part of a sentence, numbered from 0."""
    if not 0 <= number < (LAST + 1 - FIRST) // EACH:
        raise ValueError(f"found {number} parts of a sentence, wanted fewer")
    return chr(FIRST + EACH * number)


def marked(
    text: str, mark: str, kind: int, other: str = "", possible: bool = False
) -> str:
    """Return words with a mark behind each.

    Words that are as many as their translation correspond one by one. Otherwise the
    last ones correspond, and the others do; if those are several on both sides, they
    only possibly do.

    Args:
      text: the words; they may have other marks.
      mark: the first mark of what they stand for; empty: nothing is added.
      kind: what they are of that.
      other: their translation; empty: each of them corresponds to all of that.
      possible: whether the words only possibly have this counterpart.
    """
    words, count = text.split(), len(other.split())
    if not mark:
        return text
    places = [(0, possible)] * len(words)
    if len(words) > 1 and count == len(words):
        places = [(min(i, END), possible) for i in range(len(words))]
    elif len(words) > 1 and count > 1:
        vague = possible or len(words) > 2 and count > 2
        places = [(0, vague)] * (len(words) - 1) + [(END, possible)]
    start = ord(mark) + 8 * kind
    return " ".join(
        word + chr(start + 2 * place + is_possible)
        for word, (place, is_possible) in zip(words, places)
    )


def marks_of(text: str) -> str:
    """Return the marks in a text."""
    return "".join(MARK.findall(text))


def plain(text: str) -> str:
    """Return a text without its marks."""
    return MARK.sub("", text)


def links(source: str, target: str) -> List[Tuple[int, int, bool]]:
    """Return (source word, target word, whether that is sure) of marked texts."""
    sources, targets = (
        [_of_word(word) for word in t.split()] for t in (source, target)
    )
    found = []
    for i, (sure, all_of_i) in enumerate(sources):
        for j, (sure_of_j, all_of_j) in enumerate(targets):
            if all_of_i & all_of_j:
                found.append((i, j, bool(sure & sure_of_j)))
    return found


def written(pairs: List[Tuple[int, int, bool]]) -> str:
    """Return links in a line: 0-0 for a sure one, 1?2 for a possible one."""
    return " ".join(f"{i}{'-' if sure else '?'}{j}" for i, j, sure in pairs)


def _of_word(word: str) -> Tuple[Set[int], Set[int]]:
    """Return the (sure, all) counterparts that the marks of a word name."""
    codes = [ord(mark) for mark in marks_of(word)]
    return {code for code in codes if code % 2 == 0}, {code // 2 * 2 for code in codes}
