"""Look for what makes the score of a text wrong: tokenized lines, empty lines, …

BLEU, chrF and TER compare text as people write it. sacreBLEU warns of tokenized
translations only, and only where 100 lines end with " ."; a score does not show that a
text is tokenized, in lower case, or in the wrong language.
"""

import re
from typing import List, NamedTuple, Optional, Sequence

# Tokenized lines are reported from this share on; in real text, 0.1 % look tokenized.
MIN_TOKENIZED = 0.1
# Lower or upper case is reported if more than this share of the lines is in it,
MIN_SAME_CASE = 0.9
# and less than this share of the lines of the other side.
MAX_OTHER_CASE = 0.5
# Lines that are their source are reported from this share on.
MIN_COPIES = 0.2
_CJK = r"[\u3040-\u30ff\u3400-\u9fff]"  # written without spaces between words
# What tokenizers leave: a space before a full stop or comma (French has one before
# other signs); English endings apart; joints, pieces of a vocabulary and entities; and
# separate words of Chinese or Japanese.
TOKENIZED = re.compile(
    r"\S [.,。，、](?!\S)|(?<=\w) (?:n't|'s|'re|'ve|'ll)(?!\S)|@@(?= |$)|@-@|▁"
    rf"|&(?:quot|apos|amp|lt|gt|#\d+);|{_CJK} {_CJK}"
)


class Side(NamedTuple):
    """The lines of one side of a comparison: translations, or references."""

    lines: Sequence[str]
    others: Sequence[str]  # of the other side
    sources: Sequence[str]
    is_reference: bool = False


def find_anomalies(side: Side) -> List[str]:
    """Describe what makes the scores of a text wrong; [] if nothing is known."""
    checks = (describe_tokenized, describe_empty, describe_case, describe_copies)
    return [text for text in [check(side) for check in checks] if text]


def describe_tokenized(side: Side) -> Optional[str]:
    """Describe lines that are tokenized, or pieces of a vocabulary."""
    tokenized = [line for line in side.lines if TOKENIZED.search(line)]
    share = len(tokenized) / len(side.lines)
    if share < MIN_TOKENIZED:
        return None
    return (
        f"{share:.0%} of the lines are tokenized, as in {shorten(tokenized[0])}; text "
        "as people write it has another score: detokenize it"
    )


def describe_empty(side: Side) -> Optional[str]:
    """Describe lines that are empty although their sources are not."""
    empty = [
        number
        for number, (line, source) in enumerate(zip(side.lines, side.sources), 1)
        if source.strip() and not line.strip()
    ]
    if not empty:
        return None
    lines = "1 line is" if len(empty) == 1 else f"{len(empty):,} lines are"
    effect = ""
    if side.is_reference:
        effect = (
            "; chrF2 ignores the translation of an empty reference, BLEU and TER count "
            "it as wrong"
        )
    return f"{lines} empty, first line {empty[0]:,}{effect}"


def describe_case(side: Side) -> Optional[str]:
    """Describe lines in lower or upper case, if the other side is not."""
    for name, convert in (("lower", str.lower), ("upper", str.upper)):
        share = _share_of_case(side.lines, convert)
        share_of_others = _share_of_case(side.others, convert)
        if share > MIN_SAME_CASE and share_of_others < MAX_OTHER_CASE:
            other = "translations" if side.is_reference else "references"
            return (
                f"{share:.0%} of the lines are in {name} case, unlike the {other}; "
                "BLEU and chrF2 count case"
            )
    return None


def describe_copies(side: Side) -> Optional[str]:
    """Describe lines that are their source, and not what the other side has."""
    copies = [
        line
        for line, other, source in zip(side.lines, side.others, side.sources)
        if line.strip() and normalize(line) == normalize(source) != normalize(other)
    ]
    share = len(copies) / len(side.lines)
    if share < MIN_COPIES:
        return None
    return f"{share:.0%} of the lines are their source, as {shorten(copies[0])}"


def normalize(line: str) -> str:
    """Return a line in lower case, with single spaces."""
    return " ".join(line.lower().split())


def shorten(line: str) -> str:
    """Quote a line; of a long one, only the last 39 characters, after "…"."""
    return repr(line if len(line) <= 40 else "…" + line[-39:])


def _share_of_case(lines, convert) -> float:
    """Return the share of the lines with letters that `convert` leaves as they are."""
    cased = [line for line in lines if line.lower() != line.upper()]
    return sum(convert(line) == line for line in cased) / max(1, len(cased))
