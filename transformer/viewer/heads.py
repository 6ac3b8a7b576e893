"""Inside an attention head: what it computes, what it does to the next word, and what
the translation is without it.

    head = inspect_head(translator, "Der Hund schläft.", HeadName("cross", 1, 2))
    head.queries @ head.keys.T / d_k**0.5    # the logits of its attention [Tq, Tk]
    ablate(translator, "Der Hund schläft.", [HeadName("cross", 1, 2)]).n_best

To switch off a head is called ablation, and done with a head mask (Michel et al. 2019,
"Are Sixteen Heads Really Better than One?"; Voita et al. 2019, "Analyzing Multi-Head
Self-Attention"). The share of a head in the logits is what Elhage et al. 2021, "A
Mathematical Framework for Transformer Circuits", call the direct path of a head.
"""

import base64
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from transformer.decoding import NEVER
from transformer.runtime.errors import EngineError, SettingsError
from transformer.translator import Translation
from transformer.viewer.inspection import (
    KINDS,
    choose_batch_size,
    encode_line,
    likeliest_pieces,
    pad_line,
    round_floats,
)

SUBLAYERS = ("self_attention", "cross_attention", "feedforward")  # of a decoder block


class HeadName(NamedTuple):
    """An attention head of a model."""

    kind: str  # a key of KINDS
    layer: int  # from 0
    head: int  # from 0

    @property
    def scope(self) -> str:
        """The scope name of its attention."""
        stack, name = KINDS[self.kind]
        return f"{stack}/block_{self.layer}/{name}"


class Alternative(NamedTuple):
    """A piece that is likely at a position, and the share of a head in its logit."""

    piece: int
    text: str
    logit: float
    share: float


class HeadInspection(NamedTuple):
    """What a head computes while the model reads a translation of one line.

    The queries and keys are those of the kind of attention: see LineInspection.
    """

    queries: np.ndarray  # float [Tq, d_k]
    keys: np.ndarray  # float [Tk, d_k]
    values: np.ndarray  # float [Tk, d_v]
    # Of each target piece, best first; empty for the encoder, whose heads act on the
    # logits only through the memory.
    alternatives: List[List[Alternative]]


class Ablation(NamedTuple):
    """What a model without some of its heads does."""

    n_best: List[Translation]
    best_ids: List[List[int]]  # of `n_best`, without the end
    score: Optional[float]  # of the given target; None: no target was given


def check_heads(hp, heads: Sequence[HeadName]) -> None:
    """Raise SettingsError for a head that a model does not have."""
    for head in heads:
        if head.kind not in KINDS:
            raise SettingsError(
                f"kind: expected one of {', '.join(KINDS)}, got {head.kind!r:.40}"
            )
        stack, _ = KINDS[head.kind]
        layers = getattr(hp, f"{stack}_blocks")
        for name, value, size in (
            ("layer", head.layer, layers),
            ("head", head.head, hp.num_heads),
        ):
            if not 0 <= value < size:
                raise SettingsError(f"{name}: expected 0 to {size - 1}, got {value}")


# Inside a head


def inspect_head(
    translator,
    line: str,
    name: HeadName,
    target: Optional[Sequence[int]] = None,
    prefix: Union[str, Sequence[int]] = "",
    padding: int = 0,
) -> HeadInspection:
    """Read what a head computes, and its share in the logits of the likeliest pieces.

    Args:
      translator: a Translator of one model.
      line: the source.
      name: the head.
      target: the ids of the translation that the model reads, without the end; None:
        the best translation.
      prefix: the beginning of the best translation, as text or as ids.
      padding: as in `inspect_line`.

    Raises:
      ValueError: the line has no pieces, ids are not pieces of the vocabulary, there is
        no such head, or the logits of the attention are not q k / sqrt(d_k) alone.
    """
    hp = translator.hp
    check_heads(hp, [name])
    for setting in ("max_relative_position", "proximity_bias"):
        if getattr(hp, setting):
            raise EngineError(
                "expected a model whose attention compares queries and keys alone, got "
                f"{setting} = {getattr(hp, setting)}"
            )
    source = encode_line(translator, line)
    if target is None:
        [prefix] = translator.encode_prefixes([prefix], [line])
        [best, *_] = translator.search_line(source, prefix).ids[0]
        target = translator.vocabularies.target.strip_special(best)
    [target] = translator.encode_prefixes([list(target)], [line], "target")
    is_decoder = name.kind != "encoder"

    def pick(ops) -> Dict[str, Any]:
        tensors: Dict[str, Any] = {"heads": ops.heads[name.scope]}
        if is_decoder:
            scopes = list_scopes(hp)
            norms = [f"{scope}/ln/gamma" for scope in [*scopes, "decoder"]]
            tensors["logits"] = ops.logits
            tensors["log_probs"] = ops.inspection.log_probs
            tensors["kernel"] = ops.output_layer[0]
            tensors["sums"] = {scope: ops.sums[scope] for scope in scopes}
            tensors["gammas"] = {
                norm: ops.variables[norm] for norm in norms if norm in ops.variables
            }
            if hp.resolved_dialect.output_projection:
                tensors["projection"] = ops.variables[f"{name.scope}/o/kernel"]
        return tensors

    sources = pad_line(source, padding)
    tensors = translator.probe(sources, [target] * len(sources), pick)
    queries, keys, values, context = (
        x[0, name.head].astype(np.float32) for x in tensors["heads"]
    )
    alternatives: List[List[Alternative]] = []
    if is_decoder:
        projection = tensors.get("projection")
        outputs = project_head(context, name.head, hp.d_model, projection)
        sums = {scope: x[0] for scope, x in tensors["sums"].items()}
        gammas = tensors["gammas"]
        states = carry_to_output(outputs, name.scope, hp, sums, gammas)
        kernel = tensors["kernel"].astype(np.float32)
        for logits, state, pieces in zip(
            tensors["logits"][0],
            states,
            likeliest_pieces(translator, tensors["log_probs"][0]),
        ):
            shares = state @ kernel[:, [piece for piece, _, _ in pieces]]
            alternatives.append(
                [
                    Alternative(piece, text, float(logits[piece]), float(share))
                    for (piece, text, _), share in zip(pieces, shares)
                ]
            )
    return HeadInspection(queries, keys, values, alternatives)


def list_scopes(hp) -> List[str]:
    """List the scope names of the decoder's sub-layers, in the order of computation."""
    blocks = range(hp.decoder_blocks)
    return [f"decoder/block_{i}/{name}" for i in blocks for name in SUBLAYERS]


def project_head(context, head: int, width: int, projection=None) -> np.ndarray:
    """Return what a head adds to the inputs of its sub-layer: float [T, D].

    Args:
      context: float [T, d_v], of this head.
      head: its index.
      width: D.
      projection: W^O, float [H * d_v, D]; None: the dialect has none.
    """
    size = context.shape[1]
    columns = slice(head * size, (head + 1) * size)
    if projection is not None:
        return context @ np.float32(projection[columns])
    outputs = np.zeros([len(context), width], np.float32)
    outputs[:, columns] = context
    return outputs


def carry_to_output(outputs, scope: str, hp, sums, gammas) -> np.ndarray:
    """Return what is left of the outputs of a sub-layer in the last states: [T, D].

    The residual connections carry it there. The normalizations between are frozen: each
    subtracts the mean of the vector, and divides by the deviation that the whole sum
    has, so that they are linear. What later sub-layers make of it is their own share.

    Args:
      outputs: float [T, D].
      scope: the scope name of the sub-layer.
      hp: the settings of the model.
      sums: float [T, D] of each sub-layer of the decoder, by scope name.
      gammas: float [D] of each normalization, by name.
    """
    dialect = hp.resolved_dialect
    scopes = list_scopes(hp)

    def normalize(x, whole, gamma):
        deviation = np.sqrt(whole.var(-1, keepdims=True) + dialect.norm_epsilon)
        return (x - x.mean(-1, keepdims=True)) / deviation * gamma

    if dialect.norm == "after":
        for later in scopes[scopes.index(scope) :]:
            whole = np.float32(sums[later])
            outputs = normalize(outputs, whole, gammas[f"{later}/ln/gamma"])
    if dialect.final_norm:
        whole = np.float32(sums[scopes[-1]])
        outputs = normalize(outputs, whole, gammas["decoder/ln/gamma"])
    return outputs


# Ablation


def ablate(
    translator,
    line: str,
    heads: Sequence[HeadName],
    target: Optional[Sequence[int]] = None,
    prefix: Union[str, Sequence[int]] = "",
) -> Ablation:
    """Translate a line with some heads switched off: their outputs are zero.

    Args:
      translator: a Translator of one model.
      line: the source.
      heads: the heads that are off.
      target: the ids of a translation to score, without the end.
      prefix: the beginning of the translation, as text or as ids.

    Raises:
      ValueError: the line has no pieces, ids are not pieces of the vocabulary, or there
        is no such head.
    """
    check_heads(translator.hp, heads)
    source = encode_line(translator, line)
    [prefix] = translator.encode_prefixes([prefix], [line])
    off = [[(name.scope, name.head) for name in heads]]
    [scored] = translator.encode_prefixes([list(target or ())], [line], "target")
    hypotheses, score = translator.probe(
        [source],
        [scored],
        lambda ops: (ops.hypotheses, ops.inspection.scores),
        off,
        [prefix],
    )
    n_best = [
        (ids, score)
        for ids, score in zip(hypotheses.ids[0], hypotheses.scores[0])
        if score > NEVER
    ]
    strip = translator.vocabularies.target.strip_special
    return Ablation(
        [translator.translation(ids, score) for ids, score in n_best],
        [strip(ids) for ids, _ in n_best],
        None if target is None else float(score[0]),
    )


def ablate_each(
    translator, line: str, target: Sequence[int]
) -> Dict[str, List[List[float]]]:
    """Measure what each head contributes to a translation, by switching it off alone.

    Args:
      translator: a Translator of one model.
      line: the source.
      target: the ids of the translation, without the end.

    Returns:
      kind → layer → head → the change in the log-probability of the translation.

    Raises:
      ValueError: the line has no pieces, or ids are not pieces of the vocabulary.
    """
    hp = translator.hp
    source = encode_line(translator, line)
    [target] = translator.encode_prefixes([list(target)], [line], "target")
    layers = {
        kind: getattr(hp, f"{stack}_blocks") for kind, (stack, _) in KINDS.items()
    }
    names = [
        HeadName(kind, layer, head)
        for kind, num_layers in layers.items()
        for layer in range(num_layers)
        for head in range(hp.num_heads)
    ]
    off: List[List[Tuple[str, int]]] = [[], *([(x.scope, x.head)] for x in names)]
    batch_size = choose_batch_size(translator, source, target)
    log_probs: List[float] = []
    for start in range(0, len(off), batch_size):
        batch = off[start : start + batch_size]
        of_pieces = translator.probe(
            [source] * len(batch),
            [target] * len(batch),
            lambda ops: ops.inspection.target_log_probs,
            batch,
        )
        log_probs += list(of_pieces.sum(-1))
    changes: Any = {
        kind: [[0.0] * hp.num_heads for _ in range(n)] for kind, n in layers.items()
    }
    for name, log_prob in zip(names, log_probs[1:]):
        changes[name.kind][name.layer][name.head] = float(log_prob - log_probs[0])
    return changes


# JSON, as the page reads it


def head_to_json(head: HeadInspection) -> Dict[str, Any]:
    """Return the inspection of a head as a dict of JSON types."""
    return {
        "queries": encode_floats(head.queries),
        "keys": encode_floats(head.keys),
        "values": encode_floats(head.values),
        "alternatives": round_floats(head.alternatives),
    }


def ablation_to_json(ablation: Ablation) -> Dict[str, Any]:
    """Return an Ablation as a dict of JSON types."""
    return {
        "nBest": [
            {"text": best.text, "score": round_floats(best.score), "ids": ids}
            for best, ids in zip(ablation.n_best, ablation.best_ids)
        ],
        "score": round_floats(ablation.score),
    }


def encode_floats(array) -> Dict[str, Any]:
    """Encode an array as its shape and base64 of little-endian float32."""
    data = base64.b64encode(array.astype("<f4").tobytes()).decode("ascii")
    return {"shape": list(array.shape), "data": data}
