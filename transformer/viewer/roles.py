"""Attention weights → what each head does: its entropy, and a phrase about it."""

from typing import List, NamedTuple

import numpy as np

CLEAR = 0.4  # the least share of its attention that gives a head a role
SPREAD = 0.85  # of the greatest entropy, above which a head looks everywhere
PLACES = {
    "previous": "the previous position",
    "same": "its own position",
    "next": "the next position",
    "first": "the first position",
    "last": "the end of the sentence",
}
# Other words where source and target positions are counted separately, and where no end
# is visible.
OTHERWISE = {
    ("cross", "previous"): "the source piece before the one at its own position",
    ("cross", "same"): "the source piece at its own position",
    ("cross", "next"): "the source piece after the one at its own position",
    ("cross", "first"): "the first source position",
    ("cross", "last"): "the end of the source",
    ("decoder", "first"): "the beginning",
}


class Role(NamedTuple):
    """What a head does on one sentence."""

    entropy: float  # in bits, the mean of the queries
    most: float  # the greatest possible entropy: equal attention to all allowed keys
    # The share of its attention that goes to the place in `text`. If the head looks at
    # single or several pieces: the mean of each query's greatest weight; if everywhere
    # equally: entropy / most.
    share: float
    text: str


def roles(weights, allowed, kind: str) -> List[List[Role]]:
    """Return the Role of each head of each layer.

    Args:
      weights: float [layers, H, Tq, Tk].
      allowed: bool [Tq, Tk], False where a key is padding or in the future.
      kind: "encoder", "decoder" or "cross".
    """
    return [[_role(head, allowed, kind) for head in layer] for layer in weights]


def _role(weights, allowed, kind):
    """Return the Role of one head: weights [Tq, Tk]."""
    real = allowed.any(-1)  # a padded query is not real
    weights = weights[real]
    allowed = allowed[real]
    entropy = _entropy(weights)
    most = float(np.log2(np.maximum(allowed.sum(-1), 1)).mean())
    shares = _shares(weights, allowed, kind)
    place = max(shares, key=shares.get)
    share = shares[place]
    if share >= CLEAR:
        text = f"looks at {OTHERWISE.get((kind, place), PLACES[place])}"
    elif most and entropy >= SPREAD * most:
        share = entropy / most
        text = "looks everywhere equally"
    else:
        # The greatest attention of each query, wherever it goes.
        share = float(weights.max(-1).mean())
        text = "looks at single pieces"
        if share < CLEAR:
            text = "looks at several pieces"
    return Role(entropy, most, share, text)


def _entropy(weights):
    """Return the mean entropy of the rows, in bits."""
    logs = np.log2(np.where(weights > 0, weights, 1.0))
    return float(-(weights * logs).sum(-1).mean())


def _shares(weights, allowed, kind):
    """Return the average share of attention that goes to each of PLACES.

    For the neighbouring positions, only queries that have such a neighbour count.
    """
    queries, keys = weights.shape
    shares = {"first": float(weights[:, 0].mean()), "same": _diagonal(weights, 0)}
    if kind != "decoder":
        last = int(np.flatnonzero(allowed[-1])[-1])
        shares["last"] = float(weights[:, last].mean())
        shares["next"] = _diagonal(weights, 1)
    shares["previous"] = _diagonal(weights, -1)
    return shares


def _diagonal(weights, offset):
    """Return the mean weight of keys at query + offset; 0 where there are none."""
    diagonal = np.diagonal(weights, offset)
    return float(diagonal.mean()) if diagonal.size else 0.0
