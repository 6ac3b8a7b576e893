"""From pieces to words: which pieces make a word, and attention between words."""

import re
from typing import List, NamedTuple, Sequence, Tuple

import numpy as np

from transformer.text.vocabulary import PAD, UNK, SubwordVocabulary, Vocabulary

WORD_START = "▁"  # the character with which SentencePiece begins a word
WORD_END = "_"  # the character with which tensor2tensor ends a word
BYTE = re.compile("<0x[0-9A-F]{2}>")  # a piece of a vocabulary with byte fallback
SHOWN = {"pad": "⟨pad⟩", "bos": "⟨begin⟩", "eos": "⟨end⟩", "unk": "⟨unk⟩"}


class Tokens(NamedTuple):
    """The pieces of a sentence, and the words that they form."""

    ids: List[int]
    pieces: List[str]  # as shown to users, with "▁" or "_" at the edge of a word
    words: List[str]
    spans: List[Tuple[int, int]]  # of each word: its first piece, its end (exclusive)


def tokens(vocabulary, ids: Sequence[int]) -> Tokens:
    """Return the pieces and words of ids; beginning, end and padding count as words.

    Args:
      vocabulary: the vocabulary of one side, from `load_vocabularies`.
      ids: int [T].
    """
    ids = [int(one) for one in ids]
    raw = vocabulary.pieces(ids)
    starts = [i for i in range(len(ids)) if _begins(vocabulary, ids, raw, i)]
    spans = list(zip(starts, starts[1:] + [len(ids)]))
    names = [_special(vocabulary, one) for one in ids]
    pieces = [SHOWN.get(name, piece) for name, piece in zip(names, raw)]
    words = [_word(vocabulary, ids, raw, pieces, *span) for span in spans]
    return Tokens(ids, pieces, words, spans)


def with_surface(made: Tokens, vocabulary, line: str) -> Tokens:
    """Return Tokens whose words are those of the line, including unknown words.

    Args:
      made: the Tokens of the line.
      vocabulary: its vocabulary. If it cannot tell what a word looked like, or the line
        was truncated, the words stay as they are.
      line: the text.
    """
    if not isinstance(vocabulary, Vocabulary):
        return made
    said = vocabulary.normalize(line).split(WORD_START)[1:]
    real = sum(_is_real(vocabulary, made.ids[begin]) for begin, _ in made.spans)
    if len(said) != real or not all(said):
        return made
    return made._replace(words=said + made.words[real:])


def _is_real(vocabulary, one):
    """Return whether an id stands for a piece of text."""
    return _special(vocabulary, one) in ("", "unk")


def _special(vocabulary, one):
    """Return the name of a special id, or ""."""
    names = {PAD: "pad", vocabulary.bos: "bos", vocabulary.eos: "eos"}
    if not isinstance(vocabulary, SubwordVocabulary):
        names[UNK] = "unk"
    return names.get(one, "")


def _begins(vocabulary, ids, raw, i):
    """Return whether piece i is the first of a word."""
    if i == 0 or not all(_is_real(vocabulary, one) for one in ids[i - 1 : i + 1]):
        return True
    if isinstance(vocabulary, Vocabulary):
        return raw[i].startswith(WORD_START)
    if isinstance(vocabulary, SubwordVocabulary):
        return raw[i - 1].endswith(WORD_END)
    return True


def _word(vocabulary, ids, raw, pieces, begin, end):
    """Return the text of a word."""
    text = "".join(pieces[begin:end])
    if isinstance(vocabulary, Vocabulary):
        if BYTE.search(text):
            text = vocabulary.decode(ids[begin:end])
        text = text.replace(WORD_START, "")
    elif isinstance(vocabulary, SubwordVocabulary) and text.endswith(WORD_END):
        text = text[: -len(WORD_END)]
    return text or raw[begin]


def between_words(weights, queries: Sequence[tuple], keys: Sequence[tuple]):
    """Return the attention between words: sums over keys, means over queries.

    A row still sums to 1: a word attends to another as much as its pieces do on
    average.

    Args:
      weights: float [..., Tq, Tk].
      queries, keys: the spans of the words on each side.
    """
    weights = np.stack(
        [weights[..., begin:end].sum(-1) for begin, end in keys], axis=-1
    )  # [..., Tq, words]
    rows = [weights[..., begin:end, :].mean(-2) for begin, end in queries]
    return np.stack(rows, axis=-2)
