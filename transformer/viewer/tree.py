"""The history of a beam search → a tree of hypotheses, and the fate of each."""

from typing import List, NamedTuple

import numpy as np

from transformer.decoding import NEVER
from transformer.text.vocabulary import PAD

OPEN = "open"
CUT = "cut"
ENDED = "ended"
BEATEN = "beaten"
CHOSEN = "chosen"


class Node(NamedTuple):
    """A hypothesis at one step: its parent plus one piece."""

    parent: int  # the index of another Node; -1: the beginning
    step: int  # the number of its pieces
    piece: int  # the id of the newest piece
    log_prob: float  # of all its pieces
    score: float  # log-probability / length penalty
    # OPEN, CUT, ENDED (one of the n best), BEATEN (ended, but not one of them), CHOSEN
    # (the end of a given target, which no search has compared with others).
    fate: str
    rank: int  # its rank among the n best; -1: not one of them


def tree(hypotheses, line: int, eos: int) -> List[Node]:
    """Return every hypothesis at every step for a sentence, in order within each step.

    Args:
      hypotheses: values of Hypotheses, with a SearchHistory.
      line: the index of the sentence in its batch.
      eos: the id that ends a hypothesis.
    """
    history = type(hypotheses.history)(*(each[line] for each in hypotheses.history))
    nodes: List[Node] = []
    numbers = [-1] * history.survivors.shape[
        0
    ]  # of the nodes from which the search goes on
    for step in range(history.pieces.shape[1]):
        kept = history.survivors[:, step].tolist()
        of_candidate = {}
        for i, log_prob in enumerate(history.log_probs[:, step].tolist()):
            piece = int(history.pieces[i, step])
            if log_prob == NEVER or piece == PAD:  # none, or the search has ended
                continue
            of_candidate[i] = len(nodes)
            nodes.append(
                Node(
                    parent=numbers[history.parents[i, step]],
                    step=step + 1,
                    piece=piece,
                    log_prob=log_prob,
                    score=float(history.scores[i, step]),
                    fate=BEATEN if piece == eos else OPEN if i in kept else CUT,
                    rank=-1,
                )
            )
        numbers = [of_candidate.get(i, -1) for i in kept]
    return _ranked(nodes, hypotheses.ids[line], hypotheses.scores[line])


def path(nodes: List[Node], number: int) -> List[int]:
    """Return the ids of a hypothesis, from the beginning."""
    ids = []
    while number >= 0:
        ids.append(nodes[number].piece)
        number = nodes[number].parent
    return ids[::-1]


def _ranked(nodes, ids, scores):
    """Return the nodes; mark those that are the n best, and rank them."""
    best = {
        tuple(np.trim_zeros(row, "b").tolist()): rank
        for rank, (row, score) in enumerate(zip(ids, scores))
        if score > NEVER
    }
    return [
        node
        if node.fate != BEATEN or tuple(path(nodes, number)) not in best
        else node._replace(fate=ENDED, rank=best[tuple(path(nodes, number))])
        for number, node in enumerate(nodes)
    ]
