"""Whole words for the place of a word in a translation, each completed greedily.

The likeliest pieces for a place are often only the beginning of a word: "▁l" of "lows".
"""

from typing import Iterator, List, NamedTuple, Sequence

import numpy as np

from transformer.decoding import NEVER
from transformer.text.words import find_word_starts, split_into_words

NUM_CHOICES = 6  # for the place of a word
MAX_ADDED = 8  # pieces that complete a word: without spaces, words may have no end
MAX_TOKENS = 1024  # of a batch: each has the log-probabilities of a whole vocabulary


class WordChoice(NamedTuple):
    """A word that a translation may have at a place."""

    word: str  # "": the translation ends before it
    # Of its pieces after the words before it, and that no other piece continues it.
    probability: float
    ids: List[int]  # of the translation up to the end of the word
    is_end: bool  # whether the translation ends there


def list_word_choices(
    translator, source: Sequence[int], target: Sequence[int], index: int, branches: int
) -> List[WordChoice]:
    """Return the likeliest words for the place of a word, the likeliest first.

    Any piece of the word may be replaced by one of the likeliest for its place; then
    the likeliest pieces follow, up to the end of the word.

    Args:
      translator: a Translator.
      source, target: the ids, without the end.
      index: which word of the target; it is one of the choices.
      branches: how many of the likeliest pieces for each place are tried.

    Raises:
      ValueError: the target has no such word.
    """
    vocabulary = translator.vocabularies.target
    spans = split_into_words(vocabulary, target).spans
    if not 0 <= index < len(spans):
        raise ValueError(
            f"word: expected the index of one of {len(spans):,} words, got {index}"
        )
    begin, end = spans[index]

    def find_ends(ids):
        """Return which pieces end the word if they follow these ids: bool [V]."""
        if len(ids) == begin:  # a word has a piece
            return np.arange(vocabulary.size) == vocabulary.eos
        return find_word_starts(vocabulary, ids[-1])

    def rate_ends(ends, row):
        """Return the likeliest of some pieces, and the log-probability of them all."""
        log_probs_of_ends = np.where(ends, row, NEVER)
        best_end = int(log_probs_of_ends.argmax())
        return best_end, float(np.logaddexp.reduce(log_probs_of_ends))

    [log_probs] = _read_log_probs(translator, source, [target[:end]])
    choices, candidates = [], []
    log_prob = 0.0  # of the pieces of the word before a place
    for place in range(begin, end):
        row, beginning = log_probs[place], target[:place]
        ends = find_ends(beginning)
        best_end, of_end = rate_ends(ends, row)
        ids = [*beginning, best_end]
        choices.append(_make_choice(vocabulary, ids, begin, place, log_prob + of_end))
        for piece in np.argsort(-row, kind="stable")[:branches].tolist():
            if piece != target[place] and not ends[piece]:
                candidates.append(([*beginning, piece], log_prob + row[piece]))
        log_prob += row[target[place]]
    log_prob += rate_ends(find_ends(target[:end]), log_probs[end])[1]
    own = _make_choice(vocabulary, target[:end], begin, end, log_prob)
    for _ in range(MAX_ADDED):
        if not candidates:
            break
        rows = _read_log_probs(translator, source, [ids for ids, _ in candidates])
        longer = []
        for (ids, log_prob), row in zip(candidates, rows):
            piece = int(row[-1].argmax())
            best_end, of_end = rate_ends(find_ends(ids), row[-1])
            # Decoding again would continue the word, unless its end is kept, too.
            ended = ids if piece == best_end else [*ids, best_end]
            choices.append(
                _make_choice(vocabulary, ended, begin, len(ids), log_prob + of_end)
            )
            if piece != best_end:
                longer.append(([*ids, piece], log_prob + row[-1][piece]))
        candidates = longer
    choices.sort(key=lambda choice: -choice.probability)
    words = {own.word: own}
    for choice in choices:
        if len(words) < NUM_CHOICES:
            words.setdefault(choice.word, choice)
    return sorted(words.values(), key=lambda choice: -choice.probability)


def _make_choice(vocabulary, ids, begin, end, log_prob):
    """Return a WordChoice whose word has the ids from `begin` to `end`."""
    is_end = ids[-1] == vocabulary.eos
    words = split_into_words(vocabulary, ids[begin:end]).words
    without_end = ids[:-1] if is_end else ids
    probability = float(np.exp(log_prob))
    return WordChoice("".join(words), probability, list(without_end), is_end)


def _read_log_probs(
    translator, source: Sequence[int], targets: Sequence[Sequence[int]]
) -> Iterator[np.ndarray]:
    """Yield the log-probabilities of the next piece after each beginning of a target.

    Yields:
      Float [T + 1, V] for a target of T pieces.
    """
    vocabulary = translator.vocabularies.target
    size = max(1, MAX_TOKENS // (1 + max(map(len, targets))))
    for start in range(0, len(targets), size):
        batch = targets[start : start + size]
        log_probs = translator.inspect(
            [source] * len(batch), batch, lambda inspection: inspection.log_probs
        )
        log_probs[..., list(vocabulary.forbidden)] = NEVER
        for target, rows in zip(batch, log_probs):
            yield rows[: len(target) + 1]
