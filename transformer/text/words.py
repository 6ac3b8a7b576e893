"""From pieces to words: which pieces make a word, and attention between words."""

import functools
import re
from typing import List, NamedTuple, Sequence, Tuple

import numpy as np

from transformer.text.imported_vocabulary import SubwordVocabulary
from transformer.text.pieces import PAD, UNK, BaseVocabulary
from transformer.text.sentencepiece_model import Vocabulary

WORD_START = "▁"  # the character with which SentencePiece begins a word
WORD_END = "_"  # the character with which tensor2tensor ends a word
BYTE = re.compile("<0x[0-9A-F]{2}>")  # a piece of a vocabulary with byte fallback
SPECIAL_NAMES = {"pad": "⟨pad⟩", "bos": "⟨begin⟩", "eos": "⟨end⟩", "unk": "⟨unk⟩"}


class Tokens(NamedTuple):
    """The pieces of a sentence, and the words that they form."""

    ids: List[int]
    pieces: List[str]  # as shown to users, with "▁" or "_" at the edge of a word
    words: List[str]
    spans: List[Tuple[int, int]]  # of each word: its first piece, its end (exclusive)


def split_into_words(vocabulary: BaseVocabulary, ids: Sequence[int]) -> Tokens:
    """Group the pieces of a sentence into words.

    Each special id, such as the end of the sentence, counts as a word.

    Args:
      vocabulary: the vocabulary of one side, from `load_vocabularies`.
      ids: int [T].
    """
    ids = [int(piece_id) for piece_id in ids]
    raw = vocabulary.pieces(ids)
    starts = [i for i in range(len(ids)) if _is_word_start(vocabulary, ids, raw, i)]
    spans = list(zip(starts, starts[1:] + [len(ids)]))
    kinds = [_special_kind(vocabulary, piece_id) for piece_id in ids]
    pieces = [SPECIAL_NAMES.get(kind, piece) for kind, piece in zip(kinds, raw)]
    words = [
        _join_pieces(vocabulary, ids[begin:end], pieces[begin:end]) or raw[begin]
        for begin, end in spans
    ]
    return Tokens(ids, pieces, words, spans)


def restore_unknown_words(
    tokens: Tokens, vocabulary: BaseVocabulary, line: str
) -> Tokens:
    """Replace the words by those of the line, which also has the unknown words.

    Args:
      tokens: the Tokens of the line.
      vocabulary: its vocabulary.
      line: the text.

    Returns:
      The same Tokens if the vocabulary is not a SentencePiece model, or if the line was
      truncated.
    """
    if not isinstance(vocabulary, Vocabulary):
        return tokens
    line_words = vocabulary.normalize(line).split(WORD_START)[1:]
    num_words = sum(
        _is_text(vocabulary, tokens.ids[begin]) for begin, _ in tokens.spans
    )
    if len(line_words) != num_words or not all(line_words):
        return tokens
    return tokens._replace(words=line_words + tokens.words[num_words:])


def _is_text(vocabulary, piece_id):
    """Return whether an id stands for a piece of text."""
    return _special_kind(vocabulary, piece_id) in ("", "unk")


def _special_kind(vocabulary, piece_id):
    """Return the kind of a special id, a key of SPECIAL_NAMES, or ""."""
    kinds = {PAD: "pad", vocabulary.bos: "bos", vocabulary.eos: "eos"}
    if not isinstance(vocabulary, SubwordVocabulary):
        kinds[UNK] = "unk"
    return kinds.get(piece_id, "")


def _is_word_start(vocabulary, ids, pieces, i):
    """Return whether piece i is the first of a word."""
    if i == 0 or not all(_is_text(vocabulary, ids[j]) for j in (i - 1, i)):
        return True
    if isinstance(vocabulary, Vocabulary):
        return pieces[i].startswith(WORD_START)
    if isinstance(vocabulary, SubwordVocabulary):
        return pieces[i - 1].endswith(WORD_END)
    return True


def find_word_starts(vocabulary: BaseVocabulary, before: int) -> np.ndarray:
    """Return which pieces begin a word if they follow a piece of text: bool [V].

    Args:
      vocabulary: as for `split_into_words`.
      before: the id of the piece before.
    """
    is_closed = vocabulary.pieces([before])[0].endswith(WORD_END)
    return _find_word_starts(vocabulary, is_closed)


@functools.lru_cache(maxsize=8)  # it takes 2 ms
def _find_word_starts(vocabulary, is_closed):
    """The same; `is_closed`: whether the piece before ends a word of tensor2tensor."""
    ids = list(range(vocabulary.size))
    if isinstance(vocabulary, Vocabulary):
        starts = [text.startswith(WORD_START) for text in vocabulary.pieces(ids)]
    else:
        starts = [is_closed or not isinstance(vocabulary, SubwordVocabulary)] * len(ids)
    return np.array(starts) | np.isin(ids, [PAD, vocabulary.bos, vocabulary.eos])


def _join_pieces(vocabulary, ids, pieces):
    """Return the text of the word with these pieces."""
    text = "".join(pieces)
    if isinstance(vocabulary, Vocabulary):
        if BYTE.search(text):
            text = vocabulary.decode(ids)
        return text.replace(WORD_START, "")
    if isinstance(vocabulary, SubwordVocabulary) and text.endswith(WORD_END):
        return text[: -len(WORD_END)]
    return text


def word_attention(weights, queries: Sequence[tuple], keys: Sequence[tuple]):
    """Return the attention between words, summed over keys, averaged over queries.

    A row still sums to 1: a word attends to another as much as its pieces do on
    average.

    Args:
      weights: float [..., Tq, Tk], the attention between pieces.
      queries, keys: the spans of the words on each side.

    Returns:
      Float [..., query words, key words].
    """
    weights = np.stack(
        [weights[..., begin:end].sum(-1) for begin, end in keys], axis=-1
    )  # [..., Tq, words]
    rows = [weights[..., begin:end, :].mean(-2) for begin, end in queries]
    return np.stack(rows, axis=-2)
