"""Attention weights → the role of each head: its entropy, and a phrase about it."""

from typing import List, NamedTuple

import numpy as np

MIN_SHARE = 0.4  # of its attention, for a head to have a role
UNIFORM = 0.85  # of the greatest entropy, above which a head looks everywhere
PLACES = {
    "previous": "the previous position",
    "same": "its own position",
    "next": "the next position",
    "first": "the first position",
    "last": "the end of the sentence",
}
# Exceptions: source and target positions are counted separately, and the decoder does
# not see the end.
PLACES_OF_KIND = {
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
    max_entropy: float  # with equal attention to all allowed keys
    # The share of its attention that goes to the place in `text`. If the head looks at
    # single or several pieces: the mean of each query's greatest weight. If it looks
    # everywhere equally: entropy / max_entropy.
    share: float
    text: str


def describe_heads(weights, allowed, kind: str) -> List[List[Role]]:
    """Describe what each head of each layer does, as a Role.

    Args:
      weights: float [layers, H, Tq, Tk].
      allowed: bool [Tq, Tk], False where a key is padding or in the future.
      kind: "encoder", "decoder" or "cross".
    """
    return [
        [_describe_head(head, allowed, kind) for head in layer] for layer in weights
    ]


def _describe_head(weights, allowed, kind):
    """Describe one head: weights [Tq, Tk] → Role."""
    is_query = allowed.any(-1)  # a padded query may attend to nothing
    weights = weights[is_query]
    allowed = allowed[is_query]
    entropy = _entropy(weights)
    max_entropy = float(np.log2(np.maximum(allowed.sum(-1), 1)).mean())
    shares = _attention_shares(weights, allowed, kind)
    place = max(shares, key=shares.get)
    share = shares[place]
    if share >= MIN_SHARE:
        text = f"looks at {PLACES_OF_KIND.get((kind, place), PLACES[place])}"
    elif max_entropy and entropy >= UNIFORM * max_entropy:
        share = entropy / max_entropy
        text = "looks everywhere equally"
    else:
        # The greatest attention of each query, wherever it goes.
        share = float(weights.max(-1).mean())
        text = "looks at single pieces"
        if share < MIN_SHARE:
            text = "looks at several pieces"
    return Role(entropy, max_entropy, share, text)


def _entropy(weights):
    """Return the mean entropy of the rows, in bits."""
    logs = np.log2(np.where(weights > 0, weights, 1.0))
    return float(-(weights * logs).sum(-1).mean())


def _attention_shares(weights, allowed, kind):
    """Return the average share of attention that goes to each of PLACES.

    For the neighbouring positions, only queries that have such a neighbour count.
    """
    shares = {"first": float(weights[:, 0].mean()), "same": _diagonal_mean(weights, 0)}
    if kind != "decoder":
        last = int(np.flatnonzero(allowed[-1])[-1])
        shares["last"] = float(weights[:, last].mean())
        shares["next"] = _diagonal_mean(weights, 1)
    shares["previous"] = _diagonal_mean(weights, -1)
    return shares


def _diagonal_mean(weights, offset):
    """Return the mean weight of keys at query + offset; 0 where there are none."""
    diagonal = np.diagonal(weights, offset)
    return float(diagonal.mean()) if diagonal.size else 0.0
