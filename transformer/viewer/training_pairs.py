"""Find the training pairs that share the rarest words with a sentence.

The data folder has the pieces of train, not its text. A word is a sequence of pieces,
so one pass over the pieces finds the words of a sentence: milliseconds for a million.
Only the number of each piece is kept.
"""

import collections
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from transformer.text.batches import Split
from transformer.text.pieces import PAD, UNK
from transformer.text.sentencepiece_model import Vocabulary
from transformer.text.vocabulary import Vocabularies, has_same_vocabulary
from transformer.text.words import WORD_START, Tokens, split_into_words

NUM_PAIRS = 3
NUM_CANDIDATES = 50  # among which are the NUM_PAIRS: some may be equal

Span = Tuple[int, int]  # of pieces of a line: the first, and the one after the last


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
        """Return the words and phrases of a line, and the pairs most like it.

        The rarest word of the line that a pair has counts most; the others decide among
        pairs that have the same one. A phrase is two or more words of the line that
        follow each other in a pair, too; it is not part of a longer one.

        Returns:
          {"total": number of pairs, "words": [{"word", "count"}], the rarest first,
          "phrases": [{"phrase", "count"}], in their order in the line,
          "pairs": [{"source", "target", "shared": words}]}.
        """
        vocabulary = self._vocabularies.source
        tokens = split_into_words(vocabulary, vocabulary.encode(line))
        spans = self._list_words(tokens)
        matches, phrases = self._search(tokens.ids, spans)
        words = [WordMatches(_to_text(tokens, *span), matches[span]) for span in spans]
        words = list({match.word: match for match in words}.values())
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
            "phrases": [
                {"phrase": _to_text(tokens, *span), "count": phrases[span]}
                for span in _choose_longest(phrases)
            ],
            "pairs": list(pairs.values())[:NUM_PAIRS],
        }

    def _list_words(self, tokens: Tokens) -> List[Span]:
        """Return the pieces of each word of a line, without its punctuation."""
        spans = []
        for begin, end in tokens.spans:
            text = np.flatnonzero(self._is_text[tokens.ids[begin:end]])
            if len(text):
                spans.append((begin + int(text[0]), begin + int(text[-1]) + 1))
        return spans

    def _search(self, line: Sequence[int], spans: Sequence[Span]):
        """Search train for the words of a line and for its phrases.

        Args:
          line: the pieces.
          spans: of its words.

        Returns:
          The pairs of each word, {span: int [count]}, and the number of pairs of each
          phrase, {span: count}.
        """
        rarest = {
            (begin, end): min(range(begin, end), key=lambda i: self._counts[line[i]])
            for begin, end in spans
        }
        is_rarest = np.zeros(len(self._counts), bool)
        is_rarest[[line[place] for place in rarest.values()]] = True
        chunks: Dict[Span, List[np.ndarray]] = {span: [] for span in spans}
        phrases: Dict[Span, int] = collections.Counter()
        for pairs, ids in self._split.source_chunks():
            places = np.flatnonzero(is_rarest[ids])
            starts = {}
            for (begin, end), place in rarest.items():
                possible = places[ids[places] == line[place]] - (place - begin)
                starts[begin, end] = self._match(ids, possible, line[begin:end])
                chunks[begin, end].append(pairs[starts[begin, end]])
            for i, (begin, end) in enumerate(spans):
                phrase = starts[begin, end]
                for after, last in spans[i + 1 :]:
                    phrase = np.intersect1d(phrase, starts[after, last] - after + begin)
                    phrase = phrase[pairs[phrase] == pairs[phrase + after - begin]]
                    for place in range(end, after):  # punctuation between the words
                        phrase = phrase[ids[phrase + place - begin] == line[place]]
                    if not len(phrase):
                        break
                    phrases[begin, last] += len(np.unique(pairs[phrase]))
                    end = last
        matches = {
            span: np.unique(np.concatenate(arrays)) for span, arrays in chunks.items()
        }
        return matches, phrases

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


def _to_text(tokens: Tokens, begin: int, end: int) -> str:
    """Return pieces of a line as text."""
    return "".join(tokens.pieces[begin:end]).replace(WORD_START, " ").strip()


def _choose_longest(phrases: Dict[Span, int]) -> List[Span]:
    """Choose the phrases that no other contains, in their order in the line."""
    longest = dict(sorted(phrases))  # first piece → end of the longest
    chosen: List[Span] = []
    for begin, end in longest.items():
        if not chosen or end > chosen[-1][1]:
            chosen.append((begin, end))
    return chosen


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
