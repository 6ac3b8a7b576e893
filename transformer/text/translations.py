"""Lines ↔ ids ↔ translations: what every engine that translates does with text."""

import collections
from typing import List, NamedTuple, Optional, Sequence, Tuple

from transformer.text.vocabulary import UNK, Vocabularies


class Translation(NamedTuple):
    """One translation of one line."""

    text: str
    score: float  # log-probability / length penalty, in nats
    pieces: Tuple[str, ...] = ()  # as the vocabulary spells them
    # Pairs of words that correspond, (source, target) from 0, where they were asked
    # for; None also where the vocabulary finds other words than there are between
    # spaces.
    alignment: Optional[Tuple[Tuple[int, int], ...]] = None


class TextSide:
    """The base class of translators: lines → ids, ids → a Translation.

    Args:
      vocabularies: of source and target.
      most: pieces of a line that are translated; the rest is cut off.
    """

    def __init__(self, vocabularies: Vocabularies, most: int):
        self.vocabularies = vocabularies
        self._most = most
        # Kind of oddity → the number of source lines with it.
        self.oddities: collections.Counter = collections.Counter()

    def encode(self, lines: Sequence[str]) -> List[List[int]]:
        """Return the ids of source lines, cut off at the limit; count unusual lines."""
        most = self._most
        sources = self.vocabularies.source.encode_lines(lines)
        self.oddities.update(
            {
                "empty": sum(not ids for ids in sources),
                "with unknown pieces": sum(UNK in ids for ids in sources),
                f"cut at {most:,} pieces": sum(len(ids) > most for ids in sources),
            }
        )
        return [ids[:most] for ids in sources]

    def translation(self, ids: Sequence[int], score: float) -> Translation:
        """Return a Translation; line ends in its pieces become spaces."""
        vocabulary = self.vocabularies.target
        text = " ".join(vocabulary.decode(ids).splitlines())
        pieces = vocabulary.pieces(vocabulary.before_end(ids))
        return Translation(text, float(score), tuple(pieces))
