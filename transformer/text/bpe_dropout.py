"""Words in other pieces each time, for training only: BPE-dropout.

Byte-pair encoding begins with the characters of a word and merges the two neighbours
whose merge was learned first, then the next, until no two can be merged:

    g r ü n e  ->  gr ü n e  ->  gr ü ne  ->  gr üne  ->  grüne

BPE-dropout leaves each merge out with some probability (Provilkov et al. 2020, "BPE-
Dropout: Simple and Effective Subword Regularization", section 3), so that one sentence
comes as "gr üne" today and as "grüne" tomorrow: the model sees what pieces are made of,
and a small corpus lasts longer.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from transformer.text.vocabulary import SPECIAL_IDS, UNK, Vocabulary

WORD = re.compile("▁?[^▁]+|▁")  # pieces never reach across the "▁" that is a space


class DropoutVocabulary(Vocabulary):
    """A vocabulary that encodes with BPE-dropout; in all else it is the plain one.

    Args:
      path: a SentencePiece model of type "bpe": its pieces stand in the order in which
        their merges were learned.
      dropout: the probability with which a merge is left out. At 0 the ids are those
        of :class:`text.Vocabulary`, at 1 those of single characters.
      draw: where the draws come from. They are not SentencePiece's own, which cannot be
        repeated: from version 0.2.2 on it does not heed its seed.

    Raises:
      What :class:`text.Vocabulary` raises.
    """

    def __init__(self, path: str, dropout: float, draw: random.Random):
        super().__init__(path)
        self.dropout = dropout
        self._draw = draw
        pieces = self.pieces(range(self.size))
        self._ids = {piece: number for number, piece in enumerate(pieces)}
        for number in SPECIAL_IDS:
            del self._ids[pieces[number]]

    def encode(self, line: str) -> list[int]:
        """Returns the ids of one line, drawn anew; neither BOS nor EOS is added."""
        ids: list[int] = []
        for word in WORD.findall(self.normalize(line)):
            for piece in self._merge(word):
                number = self._ids.get(piece, UNK)
                if number != UNK or ids[-1:] != [UNK]:  # one UNK for several in a row
                    ids.append(number)
        return ids

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of many lines: :meth:`encode` of each."""
        return [self.encode(line) for line in lines]

    def _merge(self, word: str) -> list[str]:
        """Returns the pieces of a word. A merge left out stays out, unless one beside
        it makes another pair (as SentencePiece does it; the paper draws again)."""
        pieces, never = list(word), self.size
        # The rank of the merge of each piece with the next: smaller was learned before.
        ranks = [self._ids.get(a + b, never) for a, b in zip(pieces, pieces[1:])]
        while ranks and min(ranks) < never:
            here = ranks.index(min(ranks))
            if self._draw.random() < self.dropout:
                ranks[here] = never
                continue
            pieces[here] += pieces.pop(here + 1)
            ranks.pop(here)
            for left in range(max(here - 1, 0), min(here + 1, len(ranks))):
                ranks[left] = self._ids.get(pieces[left] + pieces[left + 1], never)
        return pieces
