"""Find the training pairs that share the rarest words with a sentence.

The data folder has the pieces of train, not its text. A word is a sequence of pieces,
so one pass over the pieces finds the words of a sentence: milliseconds for a million.
Only the number of each piece is kept.
"""

import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from transformer.text.batches import Split
from transformer.text.pieces import PAD, UNK
from transformer.text.sentencepiece_model import Vocabulary
from transformer.text.vocabulary import Vocabularies, has_same_vocabulary
from transformer.text.words import WORD_START, split_into_words

NUM_PAIRS = 3
NUM_CANDIDATES = 50  # among which are the NUM_PAIRS: some may be equal


class WordMatches(NamedTuple):
    """A word of a sentence, and where it is in train."""

    word: str
    pairs: np.ndarray  # int [count], the indices of the pairs, ascending


class TrainingPairs:
    """The train split of a data folder, to be searched.

    Args:
      folder: the data folder.
      vocabularies: those that its ids were made with.
    """

    def __init__(self, folder: str, vocabularies: Vocabularies):
        self._split = Split(folder, "train")
        self._vocabularies = vocabularies
        source: Any = vocabularies.source
        pieces = source.pieces(range(source.size))
        self._is_text = np.array([any(map(str.isalnum, piece)) for piece in pieces])
        self._is_text[[PAD, UNK, source.bos, source.eos]] = False
        is_start = np.array([piece.startswith(WORD_START) for piece in pieces])
        self._continues = self._is_text & ~is_start  # a word, as [V]
        self._counts = np.zeros(source.size, np.int64)
        for _, ids in self._split.source_chunks():
            self._counts += np.bincount(ids, minlength=source.size)

    def find(self, line: str) -> Dict[str, Any]:
        """Return the words of a line with their counts, and the pairs most like it.

        The rarest word of the line that a pair has counts most; the others decide among
        pairs that have the same one.

        Returns:
          {"total": number of pairs, "words": [{"word", "count"}], the rarest first,
          "pairs": [{"source", "target", "shared": words}]}.
        """
        words = self._find_words(self._list_words(line))
        words.sort(key=lambda match: len(match.pairs))
        total = len(self._split)
        scores = np.zeros(total)
        for match in words:
            if len(match.pairs):
                scores[match.pairs] += 1 / len(match.pairs)
        order = np.argsort(-scores, kind="stable")[:NUM_CANDIDATES]
        pairs: Dict[Tuple[str, str], Dict[str, Any]] = {}
        for index in order[scores[order] > 0].tolist():
            source = self._vocabularies.source.decode(
                self._split.source(index).tolist()
            )
            target = self._vocabularies.target.decode(
                self._split.target(index).tolist()
            )
            shared = [match.word for match in words if index in match.pairs]
            pairs.setdefault(
                (source, target), {"source": source, "target": target, "shared": shared}
            )
        return {
            "total": total,
            "words": [
                {"word": match.word, "count": len(match.pairs)} for match in words
            ],
            "pairs": list(pairs.values())[:NUM_PAIRS],
        }

    def _list_words(self, line) -> Dict[str, List[int]]:
        """Return the words of a line, without punctuation: word → its pieces."""
        vocabulary = self._vocabularies.source
        tokens = split_into_words(vocabulary, vocabulary.encode(line))
        words = {}
        for begin, end in tokens.spans:
            ids = tokens.ids[begin:end]
            text = np.flatnonzero(self._is_text[ids])
            if len(text):
                begin, end = begin + text[0], begin + text[-1] + 1
                word = "".join(tokens.pieces[begin:end]).replace(WORD_START, "")
                words[word] = tokens.ids[begin:end]
        return words

    def _find_words(self, words: Dict[str, List[int]]) -> List[WordMatches]:
        """Find words in train; their rarest pieces tell where they may be."""
        rarest = {
            word: min(range(len(ids)), key=lambda i: self._counts[ids[i]])
            for word, ids in words.items()
        }
        is_rarest = np.zeros(len(self._counts), bool)
        is_rarest[[words[word][i] for word, i in rarest.items()]] = True
        chunks: Dict[str, List[np.ndarray]] = {word: [] for word in words}
        for pairs, ids in self._split.source_chunks():
            places = np.flatnonzero(is_rarest[ids])
            for word, pieces in words.items():
                starts = places[ids[places] == pieces[rarest[word]]] - rarest[word]
                chunks[word].append(pairs[self._match(ids, starts, pieces)])
        return [
            WordMatches(word, np.unique(np.concatenate(matches)))
            for word, matches in chunks.items()
        ]

    def _match(self, ids, starts, pieces):
        """Return the places, among `starts`, where these pieces are a whole word.

        Args:
          ids: int [number of pieces], of many lines in a row.
          starts: int [count], indices of `ids`; some may be outside.
          pieces: the ids of the word.
        """
        starts = starts[(starts >= 0) & (starts + len(pieces) <= len(ids))]
        for i, piece in enumerate(pieces):
            starts = starts[ids[starts + i] == piece]
        after = starts + len(pieces)
        is_inside = after < len(ids)
        goes_on = self._continues[ids[np.minimum(after, len(ids) - 1)]] & is_inside
        return starts[~goes_on]


def open_training_pairs(
    folder: str, logdir: str, vocabularies: Vocabularies
) -> Optional[TrainingPairs]:
    """Open the train split that a model learned from; None if it is not there.

    Args:
      folder: the data folder.
      logdir: the log directory, whose vocabulary must be that of the folder.
      vocabularies: those of the log directory.
    """
    try:
        if isinstance(vocabularies.source, Vocabulary) and os.path.isdir(folder):
            if has_same_vocabulary(folder, logdir):
                return TrainingPairs(folder, vocabularies)
    except (OSError, ValueError):  # there is no such data folder, or it was changed
        pass
    return None
