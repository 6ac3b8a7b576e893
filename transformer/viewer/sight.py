"""A translator and a line → everything that can be seen of a translation, as numbers.

For example:

    sight = see(translator, "Der Hund schläft.")
    sight.attention["cross"][layer, head]    # float [Tq, Tk], rows sum to 1
    packed(sight)                            # a dict of JSON types, for the page
"""

import base64
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from transformer.decoding import NEVER
from transformer.length_penalty import length_penalty
from transformer.text.vocabulary import PAD, UNK, SubwordVocabulary
from transformer.text.words import Tokens, restore_unknown_words, split_into_words
from transformer.translator import FULL_LENGTH, Translation
from transformer.viewer.roles import Role, roles
from transformer.viewer.tree import CHOSEN, ENDED, OPEN, Node, tree

KINDS = {
    "encoder": ("encoder", "self_attention"),
    "decoder": ("decoder", "self_attention"),
    "cross": ("decoder", "cross_attention"),
}
ALTERNATIVES = 5
STEPS = 65535  # in JSON a weight is an integer from 0 to this


class Sight(NamedTuple):
    """What can be seen of one translation of one line.

    The queries of "encoder" are the pieces of `source`. The queries of "decoder" are
    the pieces of `target_in`. The queries of "cross" are the pieces of `target`; each
    is chosen after the piece of `target_in` at the same position.
    """

    source: Tokens  # with the end, and any padding
    target_in: Tokens  # the beginning, then the target without its end
    target: Tokens  # with the end
    n_best: List[Translation]
    best_ids: List[List[int]]  # of `n_best`, without the end
    attention: Dict[str, np.ndarray]  # kind → float [layers, H, Tq, Tk]
    allowed: Dict[str, np.ndarray]  # kind → bool [Tq, Tk]
    roles: Dict[str, List[List[Role]]]  # kind → the Role of each layer and head
    log_probs: np.ndarray  # float [T], of the pieces of `target`
    alternatives: List[List[Tuple[int, str, float]]]  # id, piece, probability
    nodes: List[Node]  # every hypothesis of every step of the search
    node_pieces: Dict[int, str]  # for the ids in `nodes`
    without: np.ndarray  # float [source words, T]: see `changes_without`


def see(
    translator,
    line: str,
    prefix: Union[str, Sequence[int]] = "",
    target: Optional[Sequence[int]] = None,
    padding: int = 0,
) -> Sight:
    """Translate a line, and return everything that can be seen of the translation.

    Args:
      translator: a Translator, with `keep_history` for the tree of the search.
      line: the source.
      prefix: the beginning of the translation, as text or as ids.
      target: the ids of the translation to look at, without the end; None: the best
        one.
      padding: the number of padding pieces after the source, as in a batch with longer
        lines.

    Raises:
      ValueError: the line has no pieces, or ids are not pieces of the vocabulary.
    """
    vocabularies = translator.vocabularies
    [source] = translator.encode([line])
    if not source:
        raise ValueError("expected a sentence, got a line without pieces")
    prefixes = translator.encode_prefixes([prefix], [line])
    [(_, found)] = translator.search([source], prefixes)
    rows = [row for row in zip(found.ids[0], found.scores[0]) if row[1] > NEVER]
    best_ids = [vocabularies.target.strip_special(ids) for ids, _ in rows]
    if target is None:
        target = best_ids[0]
    [target] = translator.encode_prefixes([list(target)], [line])
    weights, log_probs, of_target = _inside(translator, source, target, padding)
    padded = [PAD] * (weights["encoder"].shape[-1] - len(source) - 1)
    read = split_into_words(
        vocabularies.source, [*source, vocabularies.source.eos, *padded]
    )
    written = split_into_words(vocabularies.target, [*target, vocabularies.target.eos])
    allowed = _allowed(len(source) + 1, len(read.ids), len(written.ids))
    nodes = _nodes(translator, found, best_ids[0], target, of_target)
    used = sorted({node.piece for node in nodes})
    return Sight(
        source=restore_unknown_words(read, vocabularies.source, line),
        target_in=split_into_words(
            vocabularies.target, [vocabularies.target.bos, *target]
        ),
        target=written,
        n_best=[translator.translation(ids, score) for ids, score in rows],
        best_ids=best_ids,
        attention=weights,
        allowed=allowed,
        roles={kind: roles(weights[kind], allowed[kind], kind) for kind in KINDS},
        log_probs=of_target,
        alternatives=_alternatives(translator, log_probs),
        nodes=nodes,
        node_pieces=dict(zip(used, split_into_words(vocabularies.target, used).pieces)),
        without=changes_without(translator, source, target, read.spans, of_target),
    )


def _inside(translator, source, target, padding):
    """Return (weights by kind, log-probabilities [T, V], those of the target [T])."""
    # A longer neighbour in the batch causes a line to be padded.
    rows = [source] + [[UNK] * (len(source) + padding)] * bool(padding)
    inside = translator.inspect(rows, [target] * len(rows), lambda inside: inside)
    weights = {
        kind: np.stack(
            [
                inside.weights[f"{stack}/block_{i}/{name}"][0]
                for i in range(getattr(translator.hp, f"{stack}_blocks"))
            ]
        )
        for kind, (stack, name) in KINDS.items()
    }
    return weights, inside.log_probs[0], inside.of_target[0]


def _allowed(real, source, target):
    """Return which keys each query may see: kind → bool [Tq, Tk].

    Args:
      real: how many positions of the source are not padding.
      source, target: the numbers of all positions.
    """
    is_real = np.arange(source) < real
    return {
        "encoder": np.outer(is_real, is_real),
        "decoder": np.tril(np.ones([target, target], bool)),
        "cross": np.tile(is_real, [target, 1]),
    }


def _alternatives(translator, log_probs):
    """Return the likeliest pieces at each position, best first."""
    vocabulary = translator.vocabularies.target
    log_probs = log_probs.copy()
    log_probs[:, list(vocabulary.forbidden)] = NEVER
    found = []
    for row in log_probs:
        best = np.argsort(-row, kind="stable")[:ALTERNATIVES]
        pieces = split_into_words(vocabulary, best).pieces
        found.append(
            [(int(i), piece, float(np.exp(row[i]))) for i, piece in zip(best, pieces)]
        )
    return found


def _nodes(translator, found, best, target, of_target):
    """Return the tree of the search; if it kept no history, the path of the target."""
    eos = translator.vocabularies.target.eos
    if found.history:
        return tree(found, 0, eos)
    lengths = np.arange(1, len(target) + 2)
    sums = np.cumsum(of_target)
    scores = sums / length_penalty(lengths, translator.hp.length_penalty)
    nodes = [
        Node(length - 2, length, piece, log_prob, score, OPEN, -1)
        for length, piece, log_prob, score in zip(
            lengths.tolist(), [*target, eos], sums.tolist(), scores.tolist()
        )
    ]
    is_best = list(target) == list(best)
    nodes[-1] = nodes[-1]._replace(
        fate=ENDED if is_best else CHOSEN, rank=0 if is_best else -1
    )
    return nodes


def changes_without(translator, source, target, spans, of_target):
    """Return what each source word contributes, by leaving out one at a time.

    Each piece of the word is replaced by UNK, so that the other pieces keep their
    positions; a vocabulary of tensor2tensor has no UNK, so PAD is used.

    Args:
      translator: a Translator.
      source, target: the ids, without the end.
      spans: the spans of the source words; those beyond the pieces are left out.
      of_target: float [T], the log-probabilities of the target with the whole source.

    Returns:
      float [source words, T]: the change in the log-probability of each target piece.
    """
    has_none = isinstance(translator.vocabularies.source, SubwordVocabulary)
    unknown = PAD if has_none else UNK
    rows = [
        [*source[:begin], *[unknown] * (end - begin), *source[end:]]
        for begin, end in spans
        if end <= len(source)
    ]
    longest = max(len(source), len(target), FULL_LENGTH)
    most = max(1, translator.hp.decode_batch_size * FULL_LENGTH // longest)
    changed = []
    for start in range(0, len(rows), most):
        part = rows[start : start + most]
        changed += list(
            translator.inspect(part, [target] * len(part), lambda x: x.of_target)
        )
    return np.stack(changed) - of_target


# --- JSON, as the page reads it -------------------------------------------------------


def packed(sight: Sight) -> Dict[str, Any]:
    """Return a Sight as a dict of JSON types."""
    return {
        "source": sight.source._asdict(),
        "targetIn": sight.target_in._asdict(),
        "target": sight.target._asdict(),
        "realSource": int(sight.allowed["encoder"][0].sum()),
        "nBest": [
            {"text": each.text, "score": _rounded(each.score), "ids": ids}
            for each, ids in zip(sight.n_best, sight.best_ids)
        ],
        "attention": {
            kind: _packed_weights(weights) for kind, weights in sight.attention.items()
        },
        "roles": {
            kind: [[_rounded(role._asdict()) for role in layer] for layer in layers]
            for kind, layers in sight.roles.items()
        },
        "logProbs": _rounded(sight.log_probs),
        "alternatives": _rounded(sight.alternatives),
        "nodes": _rounded(sight.nodes),
        "nodePieces": sight.node_pieces,
        "without": _rounded(sight.without),
    }


def _packed_weights(weights):
    """Return weights from 0 to 1: their shape, and base64 of little-endian uint16."""
    steps = np.rint(np.clip(weights, 0, 1) * STEPS).astype("<u2")
    data = base64.b64encode(steps.tobytes()).decode("ascii")
    return {"shape": list(weights.shape), "data": data}


def _rounded(value):
    """Return a value with floats rounded to six digits, and sequences as lists."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_rounded(each) for each in value]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.6g}")
    return value
