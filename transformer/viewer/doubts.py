"""What a model doubts in a sentence that it has translated, without computing it again.

The search already knows how probable each word of its best translation is; a lookup
tells which words of the source are not in the vocabulary.
"""

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from transformer.decoding import NEVER, Hypotheses
from transformer.text.words import (
    SPECIAL_NAMES,
    restore_unknown_words,
    split_into_words,
)


def describe_words(translator, line: str, translation: str) -> Dict[str, Any]:
    """Describe the words of a line that was translated just now, as JSON.

    Args:
      translator: a RecentTranslator.
      line: the source.
      translation: the text of its best translation.

    Returns:
      "words": each word of the translation, with its probability; None if no search of
      TensorFlow with more than one hypothesis has found it. "unknown": the words of the
      source with a piece that is not in the vocabulary.
    """
    vocabularies = translator.vocabularies
    [source] = vocabularies.source.encode_lines([line])
    hypotheses = translator.find_recent(source)
    words = None
    if hypotheses:
        [[ids, *_]], [[score, *_]] = hypotheses.ids, hypotheses.scores
        if translator.translation(ids, score).text == translation:
            words = rate_words(vocabularies.target, hypotheses)
    return {
        "words": words
        and [
            {"word": word, "probability": float(f"{probability:.6g}")}
            for word, probability in words
        ],
        "unknown": list_unknown_words(vocabularies.source, source, line),
    }


def list_unknown_words(vocabulary, ids: Sequence[int], line: str) -> List[str]:
    """Return the words of a line that have a piece outside the vocabulary.

    Args:
      vocabulary: that of the source.
      ids: those of the line.
      line: the text.
    """
    tokens = restore_unknown_words(split_into_words(vocabulary, ids), vocabulary, line)
    return [
        word
        for word, (begin, end) in zip(tokens.words, tokens.spans)
        if SPECIAL_NAMES["unk"] in tokens.pieces[begin:end]
    ]


def rate_words(vocabulary, hypotheses: Hypotheses) -> Optional[List[Tuple[str, float]]]:
    """Return each word of the best translation with its probability.

    Args:
      vocabulary: that of the target.
      hypotheses: the Hypotheses of one line.

    Returns:
      None if they have no history.
    """
    if not hypotheses.history:
        return None
    pieces = np.trim_zeros(hypotheses.ids[0][0], "b").tolist()
    log_probs = follow_path(hypotheses.history, pieces)
    tokens = split_into_words(vocabulary, vocabulary.strip_special(pieces))
    return [
        (word, float(np.exp(log_probs[begin:end].sum())))
        for word, (begin, end) in zip(tokens.words, tokens.spans)
    ]


def follow_path(history, ids: Sequence[int]) -> np.ndarray:
    """Return the log-probability of each piece of a hypothesis: float [T].

    Args:
      history: the SearchHistory of a batch with one line.
      ids: the pieces, which the search has found.
    """
    all_pieces, parents, log_probs, _, survivors = (field[0] for field in history)
    sums = [0.0]
    place = 0  # of the hypothesis among the open ones
    for step, piece in enumerate(ids):
        is_next = (
            (all_pieces[:, step] == piece)
            & (parents[:, step] == place)
            & (log_probs[:, step] > NEVER)
        )
        candidate = int(is_next.argmax())
        sums.append(float(log_probs[candidate, step]))
        place = int((survivors[:, step] == candidate).argmax())
    return np.diff(sums)
