"""The special ids, and the base class of all vocabularies.

A *piece* is an entry of a vocabulary; an *id* is its index.
"""

import itertools
from typing import List, Sequence, Tuple

import numpy as np

# The special ids of every vocabulary of this project. Code that also supports
# vocabularies of tensor2tensor must take `bos` and `eos` from the vocabulary.
PAD = 0
UNK = 1
BOS = 2
EOS = 3
SPECIAL_IDS = (PAD, UNK, BOS, EOS)


class BaseVocabulary:
    """The base class of vocabularies: lines of text ↔ ids.

    Args:
      path: the file.
      pieces: the pieces in the order of their ids.
    """

    bos = BOS
    eos = EOS
    threads = -1  # for `encode_lines`, if it uses threads; -1: one per core

    def __init__(self, path: str, pieces: List[str]):
        self.path = path
        self._pieces = pieces
        self._ids = {piece: i for i, piece in enumerate(pieces)}
        self.size = len(pieces)

    @property
    def forbidden(self) -> Tuple[int, ...]:
        """The ids that no translation may contain: PAD and BOS, unless one is EOS."""
        return tuple(sorted({PAD, self.bos} - {self.eos}))

    def encode(self, line: str) -> List[int]:
        """Return the ids of one line, without BOS and EOS."""
        raise NotImplementedError

    def encode_lines(self, lines: Sequence[str]) -> List[List[int]]:
        """Return the ids of many lines, encoded as in `encode`."""
        return [self.encode(line) for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids` up to the first EOS, without PAD and BOS.

        Args:
          ids: one sentence, a sequence or an integer array [T].
        """
        raise NotImplementedError

    def strip_special(self, ids: Sequence[int]) -> List[int]:
        """Return the ids before the first EOS, without PAD and BOS."""
        before_eos = itertools.takewhile(lambda i: i != self.eos, _to_ints(ids))
        return [i for i in before_eos if i not in (PAD, self.bos)]

    def pieces(self, ids: Sequence[int]) -> List[str]:
        """Return the piece of each id, including special ids."""
        return [self._pieces[i] for i in _to_ints(ids)]


def _to_ints(ids: Sequence[int]) -> List[int]:
    """Convert a sequence or an array to a list of Python integers."""
    return np.asarray(ids, int).tolist()
