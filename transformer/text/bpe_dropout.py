"""BPE-dropout: split the words of the training text differently each time.

Byte-pair encoding starts from the characters of a word. It merges the two neighbours
whose merge was learned first, then the next, until no two can be merged:

    g r ü n e  ->  gr ü n e  ->  gr ü ne  ->  gr üne  ->  grüne

BPE-dropout skips each merge with some probability (Provilkov et al. 2020, "BPE-Dropout:
Simple and Effective Subword Regularization", section 3), so a word is encoded as
"gr üne" in one copy of the text and as "grüne" in the next. The model learns what its
pieces are composed of, which regularizes training on a small corpus.
"""

import random
import re
from typing import List, Sequence

from transformer.text.vocabulary import SPECIAL_IDS, UNK, Vocabulary

WORD = re.compile("▁?[^▁]+|▁")  # no piece extends across "▁", which is a space


class DropoutVocabulary(Vocabulary):
    """A vocabulary that encodes with BPE-dropout, and decodes as usual.

    Args:
      path: a SentencePiece model of type "bpe": its pieces stand in the order in which
        their merges were learned.
      dropout: the probability with which a merge is skipped. At 0 the ids are those of
        `Vocabulary`, at 1 those of single characters.
      draw: the source of random numbers. SentencePiece has its own, but since version
        0.2.2 it ignores its seed, and a run could not be repeated.

    Raises:
      FileNotFoundError, ValueError: as `Vocabulary` does.
    """

    def __init__(self, path: str, dropout: float, draw: random.Random):
        super().__init__(path)
        self.dropout = dropout
        self._draw = draw
        pieces = self.pieces(range(self.size))
        self._ids = {piece: number for number, piece in enumerate(pieces)}
        for number in SPECIAL_IDS:
            del self._ids[pieces[number]]

    def encode(self, line: str) -> List[int]:
        """Return the ids of one line, drawn anew; neither BOS nor EOS is added."""
        ids = []
        for word in WORD.findall(self.normalize(line)):
            for piece in self._merge(word):
                number = self._ids.get(piece, UNK)
                if number != UNK or ids[-1:] != [UNK]:  # one UNK for several in a row
                    ids.append(number)
        return ids

    def encode_lines(self, lines: Sequence[str]) -> List[List[int]]:
        """Return the ids of many lines: `encode` of each."""
        return [self.encode(line) for line in lines]

    def _merge(self, word: str) -> List[str]:
        """Return the pieces of a word.

        A merge once skipped stays skipped, unless a merge next to it creates another
        pair. SentencePiece does the same; the paper draws again.
        """
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
