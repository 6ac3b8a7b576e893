"""What can be seen of a translation → JSON, as the page reads it."""

import base64
from typing import Any, Dict

import numpy as np

from transformer.viewer.sight import Sight

STEPS = 65535  # a weight is stored as an integer from 0 to this


def packed(sight: Sight) -> Dict[str, Any]:
    """Return a Sight as a dict of what JSON has."""
    real = int(sight.allowed["encoder"][0].sum())
    return {
        "source": sight.source._asdict(),
        "targetIn": sight.target_in._asdict(),
        "target": sight.target._asdict(),
        "realSource": real,
        "nBest": [
            {"text": each.text, "score": _rounded(each.score), "ids": ids}
            for each, ids in zip(sight.n_best, sight.best_ids)
        ],
        "attention": {
            kind: packed_weights(weights) for kind, weights in sight.attention.items()
        },
        "roles": {
            kind: [
                [{**role._asdict(), **_numbers(role)} for role in layer]
                for layer in layers
            ]
            for kind, layers in sight.roles.items()
        },
        "logProbs": [_rounded(one) for one in sight.log_probs],
        "alternatives": [
            [[one, piece, _rounded(p)] for one, piece, p in each]
            for each in sight.alternatives
        ],
        "nodes": [
            [*node[:3], _rounded(node.log_prob), _rounded(node.score), *node[5:]]
            for node in sight.nodes
        ],
        "nodePieces": {str(one): each for one, each in sight.node_pieces.items()},
        "without": [[_rounded(one) for one in row] for row in sight.without],
    }


def packed_weights(weights) -> Dict[str, Any]:
    """Return weights from 0 to 1 as their shape and base64 of little-endian uint16."""
    steps = np.rint(np.clip(weights, 0, 1) * STEPS).astype("<u2")
    data = base64.b64encode(steps.tobytes()).decode("ascii")
    return {"shape": list(weights.shape), "data": data}


def unpacked_weights(pack: Dict[str, Any]):
    """Return the weights that `packed_weights` packed."""
    steps = np.frombuffer(base64.b64decode(pack["data"]), "<u2")
    return steps.reshape(pack["shape"]) / STEPS


def _rounded(number):
    """Return a Python float of six digits."""
    return float(f"{float(number):.6g}")


def _numbers(role):
    """Return the numbers of a Role, rounded."""
    return {
        name: _rounded(getattr(role, name)) for name in ("entropy", "most", "share")
    }
