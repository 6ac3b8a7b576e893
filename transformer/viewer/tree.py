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
    """A hypothesis at one decoding step: its parent plus one piece."""

    parent: int  # the index of another Node; -1: the beginning
    step: int  # the number of its pieces
    piece: int  # the id of the newest piece
    log_prob: float  # of all its pieces
    score: float  # log-probability / length penalty
    # OPEN: continued. CUT: dropped. ENDED: one of the n best, with EOS or kept open.
    # BEATEN: ended, but not one of the n best. CHOSEN: the end of a given target, which
    # no search found.
    fate: str
    rank: int  # its rank among the n best; -1: not one of them


def search_tree(hypotheses, line: int, eos: int) -> List[Node]:
    """Return every hypothesis at every step for a sentence, in order within each step.

    Args:
      hypotheses: values of Hypotheses, with a SearchHistory.
      line: the index of the sentence in its batch.
      eos: the id that ends a hypothesis.
    """
    history = type(hypotheses.history)(*(field[line] for field in hypotheses.history))
    nodes: List[Node] = []
    beam = [-1] * history.survivors.shape[0]  # the nodes that the search continues
    for step in range(history.pieces.shape[1]):
        survivors = history.survivors[:, step].tolist()
        node_of_candidate = {}
        for i, log_prob in enumerate(history.log_probs[:, step].tolist()):
            piece = int(history.pieces[i, step])
            if log_prob == NEVER or piece == PAD:  # no candidate, or the search ended
                continue
            node_of_candidate[i] = len(nodes)
            nodes.append(
                Node(
                    parent=beam[history.parents[i, step]],
                    step=step + 1,
                    piece=piece,
                    log_prob=log_prob,
                    score=float(history.scores[i, step]),
                    fate=BEATEN if piece == eos else OPEN if i in survivors else CUT,
                    rank=-1,
                )
            )
        beam = [node_of_candidate.get(i, -1) for i in survivors]
    return _rank_nodes(nodes, hypotheses.ids[line], hypotheses.scores[line])


def path_ids(nodes: List[Node], index: int) -> List[int]:
    """Return the ids of a hypothesis, from the beginning."""
    ids = []
    while index >= 0:
        ids.append(nodes[index].piece)
        index = nodes[index].parent
    return ids[::-1]


def _rank_nodes(nodes, ids, scores):
    """Mark the nodes that end one of the n best, and give them their rank."""
    ranks = {
        tuple(np.trim_zeros(row, "b").tolist()): rank
        for rank, (row, score) in enumerate(zip(ids, scores))
        if score > NEVER
    }
    # One that is kept open at its limit is as long as a result, and does not end.
    lengths = {len(path) for path in ranks}
    ranked = []
    for index, node in enumerate(nodes):
        path = tuple(path_ids(nodes, index)) if node.step in lengths else None
        if path in ranks:
            node = node._replace(fate=ENDED, rank=ranks[path])
        ranked.append(node)
    return ranked
