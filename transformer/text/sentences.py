"""Split paragraphs into sentences and join them, for models trained on sentences.

A sentence ends at the end of a line. It also ends after ". ! ? …", and any quotes or
brackets that close there, if white space follows and the next character is not a
lower-case letter. It does not end after an abbreviation (ABBREVIATIONS), a single
letter ("J. S. Bach", "z. B.") or an ordinal number with one or two digits ("am 3.
Oktober").
"""

import re
from typing import List, Sequence, Tuple

ENDS = (".", "!", "?", "…")
OPENING = "\"'“„‘‚«»([{"
CLOSING = "\"'”“’‘»«)]}"
# In lower case, without the final full stop.
ABBREVIATIONS = frozenset(
    "abs art bd betr bzgl bzw ca co dr etc evtl fig fr ggf hr hrsg inc inkl jr jun "
    "kap ltd mr mrs ms nr no prof rev sr sen sog st tel u.a usw vgl vs z.b zzgl".split()
)


def split(text: str) -> List[Tuple[str, str]]:
    """Return the sentences of a text, each with the white space that follows it.

    Joined again, they give the text, except for white space at its beginning.

        split("Dr. Bach kam. Er ging.")    # [("Dr. Bach kam.", " "), ("Er ging.", "")]

    Args:
      text: a text with any number of lines.
    """
    text = text.lstrip()
    sentences = []
    start = word_start = 0
    for space in re.finditer(r"\s+", text):
        word = text[word_start : space.start()]
        following = text[space.end() : space.end() + 1]
        is_line_end = len((space.group() + ".").splitlines()) > 1
        if is_line_end or not following or _is_sentence_end(word, following):
            sentences.append((text[start : space.start()], space.group()))
            start = space.end()
        word_start = space.end()
    if start < len(text):
        sentences.append((text[start:], ""))
    return sentences


def join(translations: Sequence[str], sentences: Sequence[Tuple[str, str]]) -> str:
    """Return the translation of a text: its translated sentences and the white space.

    Args:
      translations: the translation of each sentence.
      sentences: what `split` returned.
    """
    return "".join(
        translation + space for translation, (_, space) in zip(translations, sentences)
    )


def _is_sentence_end(word, following):
    """Return whether a sentence ends after a word, given the next character."""
    word = word.rstrip(CLOSING)
    if not word.endswith(ENDS) or following.islower():
        return False
    stem = word.lstrip(OPENING)[:-1].lower()
    if not word.endswith(".") or stem.endswith(ENDS):
        return True
    is_ordinal = stem.isdigit() and len(stem) <= 2
    is_letter = len(stem.rpartition(".")[2]) == 1 and not stem.isdigit()
    return not (is_ordinal or is_letter or stem in ABBREVIATIONS)
