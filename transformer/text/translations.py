"""What all translation engines share: lines → ids, ids → a Translation."""

import collections
import math
from typing import Iterable, List, NamedTuple, Optional, Sequence, Tuple

from transformer.runtime.errors import EngineError
from transformer.text.lines import remove_display_marks
from transformer.text.pieces import UNK
from transformer.text.vocabulary import Vocabularies


class Translation(NamedTuple):
    """One translation of one line."""

    text: str
    score: float  # log-probability / length penalty, in nats
    pieces: Tuple[str, ...] = ()  # as the vocabulary spells them
    # Pairs of words that correspond, (source, target), counted from 0. None if they
    # were not requested, or if the vocabulary's words are not those between spaces.
    alignment: Optional[Tuple[Tuple[int, int], ...]] = None
    # Whether it is as long as its limit allows, so that it may end in mid-sentence.
    is_truncated: bool = False


def as_lines(lines: Iterable[str]) -> List[str]:
    """Return lines as a list, without marks that change only how they are displayed.

    A surrogate, which no encoding knows, becomes "?".

    Raises:
      ValueError: `lines` is a string, or has anything but strings.
    """
    texts = [] if isinstance(lines, str) else list(lines)
    if isinstance(lines, str) or not all(isinstance(text, str) for text in texts):
        raise ValueError(
            f"lines: expected a list of strings, got {lines!r:.60}; for a single "
            "line, write [line]"
        )
    return [
        remove_display_marks(text.encode("utf-8", "replace").decode("utf-8"))
        for text in texts
    ]


class BaseTranslator:
    """The base class of translators: lines → ids, ids → a Translation.

    Args:
      vocabularies: of source and target.
      max_pieces: the largest number of pieces of a source line; the rest is truncated.
    """

    def __init__(self, vocabularies: Vocabularies, max_pieces: int):
        self.vocabularies = vocabularies
        self._max_pieces = max_pieces
        # What is unusual, such as "empty" → the number of source lines.
        self.unusual_lines: collections.Counter = collections.Counter()

    def __getstate__(self) -> None:
        """Raise EngineError: a translator does not fit into a pickle."""
        raise EngineError(
            f"{type(self).__name__}: expected the name of a log directory to send to "
            "another process, got an open translator; open one in each process"
        )

    def encode(self, lines: Iterable[str]) -> List[List[int]]:
        """Return the ids of source lines, up to the limit; count unusual lines.

        Raises:
          ValueError: as in `as_lines`.
        """
        max_pieces = self._max_pieces
        sources = self.vocabularies.source.encode_lines(as_lines(lines))
        self.unusual_lines.update(
            {
                "empty": sum(not ids for ids in sources),
                "with unknown pieces": sum(UNK in ids for ids in sources),
                f"cut at {max_pieces:,} pieces": sum(
                    len(ids) > max_pieces for ids in sources
                ),
            }
        )
        return [ids[:max_pieces] for ids in sources]

    def translation(
        self, ids: Sequence[int], score: float, limit: float = math.inf
    ) -> Translation:
        """Return a Translation; line breaks in its pieces become spaces.

        Args:
          ids: its pieces; what follows the end is ignored.
          score: its score.
          limit: the largest number of pieces that it could have.
        """
        vocabulary = self.vocabularies.target
        text = " ".join(vocabulary.decode(ids).splitlines())
        pieces = tuple(vocabulary.pieces(vocabulary.strip_special(ids)))
        is_truncated = len(pieces) >= limit
        return Translation(text, float(score), pieces, is_truncated=is_truncated)

    def count_truncated(self, translations: Sequence[Sequence[Translation]]) -> None:
        """Count the lines whose best translation is truncated among the unusual ones.

        Args:
          translations: for each line, its n best.
        """
        count = sum(n_best[0].is_truncated for n_best in translations if n_best)
        self.unusual_lines["with a translation cut at its length limit"] += count
