"""Explain why the search did not find a translation that was expected.

For example:

    explanation = explain_line(translator, "Der Hund schläft.", "The dog is asleep.")
    explanation.verdict    # dropped at step 3: 6th, 5 are kept; 0.31 behind

The model reads the expected translation (forced decoding), which gives the probability
and the rank of each piece. What became of it is read from the history of the search.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from transformer.decoding import NEVER
from transformer.hparams import HParams
from transformer.text.words import Tokens, restore_unknown_words, split_into_words
from transformer.translation_graph import length_limit
from transformer.viewer.inspection import encode_target, find_n_best, round_floats
from transformer.viewer.tree import CUT, ENDED, Node, search_tree

# What became of a translation.
BEST = "best"  # it is the best one
N_BEST = "n_best"  # it is one of the n best
BEATEN = "beaten"  # it was never dropped, but others score better
DROPPED = "dropped"  # at a step, others were likelier
UNCONSIDERED = "unconsidered"  # at a step, it was not even among the candidates
TOO_LONG = "too_long"  # it has more pieces than a translation of this line may have
FORBIDDEN = "forbidden"  # at a step, a setting of the search excludes its piece
DRAWN = "drawn"  # at a step, the search drew another piece


class Verdict(NamedTuple):
    """What became of a translation in the search."""

    kind: str
    step: int = 0  # the number of its pieces when it happened; 0: at the end
    # N_BEST: among the n best. DROPPED: among the hypotheses of the step that go on.
    # UNCONSIDERED: of the piece among all pieces that may follow. 1 is the best.
    rank: int = 0
    # The limit that it exceeded. DROPPED: how many hypotheses go on. UNCONSIDERED: how
    # many are candidates. TOO_LONG: how many pieces a translation may have.
    limit: int = 0
    # The log-probability of the last hypothesis within the limit, minus its own.
    behind: float = 0.0


class Explanation(NamedTuple):
    """What the model and the search made of an expected translation."""

    target: Tokens  # the expected translation, with the end
    log_probs: np.ndarray  # float [T], of its pieces
    ranks: List[int]  # of each piece among those that may follow; 1: the likeliest
    score: float
    best_target: Tokens  # the best translation, with the end
    best_score: float
    # The index of the first piece that is not the likeliest one, and the likeliest one,
    # as a word, with its log-probability. None: all are the likeliest.
    turn: Optional[int]
    instead: Optional[Tuple[str, float]]
    verdict: Verdict


def explain_line(
    translator, line: str, target: Union[str, Sequence[int]]
) -> Explanation:
    """Explain what became of an expected translation of a line.

    Args:
      translator: a Translator, with `keep_history`.
      line: the source.
      target: the expected translation, as text or as ids without the end.

    Raises:
      ValueError: the line has no pieces, or ids are not pieces of the vocabulary.
    """
    source, hypotheses, n_best = find_n_best(translator, line)
    vocabulary = translator.vocabularies.target
    expected = encode_target(translator, line, target, n_best)
    ids = [*expected, vocabulary.eos]
    _, all_log_probs, target_log_probs, scores = translator.inspect(
        [source], [expected], lambda inspection: inspection
    )
    log_probs = np.array(all_log_probs[0])  # [T, V]
    log_probs[:, list(vocabulary.forbidden)] = NEVER
    own_log_probs = target_log_probs[0]
    ranks = (1 + (log_probs > own_log_probs[:, None]).sum(-1)).tolist()
    turn = next((i for i, rank in enumerate(ranks) if rank > 1), None)
    hp = translator.hp
    best = [*n_best[0][0], vocabulary.eos]
    if hypotheses.history:
        nodes = search_tree(hypotheses, 0, vocabulary.eos)
        limit = length_limit(hp, len(source))
        verdict = _follow(nodes, ids, own_log_probs, ranks, hp, limit)
    else:
        verdict = _judge_path(ids, best, log_probs, ranks, hp)
    tokens = split_into_words(vocabulary, ids)
    if isinstance(target, str):
        tokens = restore_unknown_words(tokens, vocabulary, target)
    return Explanation(
        tokens,
        own_log_probs,
        ranks,
        float(scores[0]),
        split_into_words(vocabulary, best),
        n_best[0][1].score,
        turn,
        None if turn is None else _likeliest_word(vocabulary, log_probs[turn]),
        verdict,
    )


def _likeliest_word(vocabulary, log_probs):
    """Return the likeliest piece as a word, and its log-probability."""
    piece = int(np.argmax(log_probs))
    return split_into_words(vocabulary, [piece]).words[0], float(log_probs[piece])


def _follow(
    nodes: List[Node],
    ids: List[int],
    log_probs: np.ndarray,
    ranks: List[int],
    hp: HParams,
    limit: int,
) -> Verdict:
    """Follow a translation through the history of a beam search.

    Args:
      nodes: every hypothesis of every step.
      ids: the pieces of the translation, with the end.
      log_probs: float [T], of the pieces.
      ranks: of the pieces, as in Explanation.
      hp: the settings of the search.
      limit: the largest number of pieces of a translation.
    """
    children = {(node.parent, node.piece): i for i, node in enumerate(nodes)}
    index = -1
    for step, piece in enumerate(ids, 1):
        index = children.get((index, piece), -1)
        if index < 0:
            return _judge_missing(nodes, ids, step, log_probs, ranks, hp, limit)
        node = nodes[index]
        rivals = [rival for rival in nodes if rival.step == step]
        if node.fate == ENDED:
            return Verdict(N_BEST, rank=node.rank + 1) if node.rank else Verdict(BEST)
        if node.fate == CUT:
            going_on = [rival for rival in rivals if rival.piece != ids[-1]]
            rank = 1 + going_on.index(node)
            if rank > hp.beam_size:  # not one that was kept open at its limit
                behind = going_on[hp.beam_size - 1].log_prob - node.log_prob
                return Verdict(DROPPED, step, rank, hp.beam_size, behind)
    return Verdict(BEATEN)


def _judge_missing(nodes, ids, step, log_probs, ranks, hp, limit):
    """Return why a hypothesis that was open is not continued by its next piece.

    Args: as in `_follow`; `step` is the number of that piece, from 1.
    """
    candidates = [node for node in nodes if node.step == step]
    if step > limit and step < len(ids):
        return Verdict(TOO_LONG, step, limit=limit)
    if not candidates:  # the search has ended: nothing open could still win
        return Verdict(BEATEN)
    if _is_excluded(ids, step, hp):
        return Verdict(FORBIDDEN, step)
    behind = candidates[-1].log_prob - float(log_probs[:step].sum())
    return Verdict(
        UNCONSIDERED, step, ranks[step - 1], 2 * hp.beam_size, max(behind, 0.0)
    )


def _judge_path(ids, best, log_probs, ranks, hp):
    """Return why a search with one hypothesis left a translation for the best one.

    Args:
      ids, best: the pieces of both, with the end.
      log_probs: float [T, V], of all pieces while the model reads the translation.
      ranks: of its pieces, as in Explanation.
      hp: the settings of the search.
    """
    index = next((i for i, (a, b) in enumerate(zip(ids, best)) if a != b), None)
    if index is None:
        return Verdict(BEST)
    step = index + 1
    if hp.search == "sample":
        return Verdict(DRAWN, step)
    if _is_excluded(ids, step, hp):
        return Verdict(FORBIDDEN, step)
    behind = float(log_probs[index, best[index]] - log_probs[index, ids[index]])
    if behind < 0:  # the likeliest piece, which only the length limit excludes
        return Verdict(TOO_LONG, step, limit=index)
    return Verdict(DROPPED, step, ranks[index], 1, behind)


def _is_excluded(ids, step, hp):
    """Return whether a rule of the search excludes the piece of a step."""
    is_end = step == len(ids)
    if is_end and step <= hp.min_length:
        return True
    n = hp.no_repeat_ngram
    ngrams = [tuple(ids[i : i + n]) for i in range(step - n + 1)] if n else []
    return not is_end and len(ngrams) > 1 and ngrams[-1] in ngrams[:-1]


def explanation_to_json(explanation: Explanation) -> Dict[str, Any]:
    """Return an explanation as a dict of JSON types, for the page."""
    instead = None
    if explanation.instead:
        instead = dict(zip(("word", "logProb"), round_floats(explanation.instead)))
    return {
        "target": explanation.target._asdict(),
        "logProbs": round_floats(explanation.log_probs),
        "ranks": explanation.ranks,
        "score": round_floats(explanation.score),
        "bestTarget": explanation.best_target._asdict(),
        "bestScore": round_floats(explanation.best_score),
        "turn": explanation.turn,
        "instead": instead,
        "verdict": round_floats(explanation.verdict._asdict()),
    }
