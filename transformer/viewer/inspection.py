"""Inspect the translation of a line: attention, probabilities and the beam search.

For example:

    inspection = inspect_line(translator, "Der Hund schläft.")
    inspection.attention["cross"][layer, head]    # float [Tq, Tk], rows sum to 1
    to_json(inspection)                           # a dict of JSON types, for the page
"""

import base64
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from transformer.decoding import NEVER
from transformer.length_penalty import length_penalty
from transformer.text.vocabulary import PAD, UNK, SubwordVocabulary
from transformer.text.words import Tokens, restore_unknown_words, split_into_words
from transformer.translator import FULL_LENGTH, Translation
from transformer.viewer.roles import Role, describe_heads
from transformer.viewer.sentence_request import NoPiecesError
from transformer.viewer.tree import CHOSEN, ENDED, OPEN, Node, search_tree
from transformer.viewer.word_choices import WordChoice, list_word_choices

KINDS = {
    "encoder": ("encoder", "self_attention"),
    "decoder": ("decoder", "self_attention"),
    "cross": ("decoder", "cross_attention"),
}
NUM_ALTERNATIVES = 5
STEPS = 65535  # in JSON a weight is an integer from 0 to this


class LineInspection(NamedTuple):
    """One translation of one line, and what the model and the search computed for it.

    It has the values of the translator's `inspect` for this line, with the tokens that
    belong to them. The queries of "encoder" are the pieces of `source`. The queries of
    "decoder" are the pieces of `target_in`. The queries of "cross" are the pieces of
    `target`; each is chosen after the piece of `target_in` at the same position.
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
    # float [source words, T]: see `leave_out_words`. None: not computed.
    without: Optional[np.ndarray]


def inspect_line(
    translator,
    line: str,
    prefix: Union[str, Sequence[int]] = "",
    target: Union[None, str, Sequence[int]] = None,
    padding: int = 0,
    leave_out: bool = True,
) -> LineInspection:
    """Translate a line and inspect the translation.

    Args:
      translator: a Translator, with `keep_history` for the tree of the search.
      line: the source.
      prefix: the beginning of the translation, as text or as ids.
      target: the translation to inspect, as text or as ids without the end; None: the
        best one.
      padding: the number of padding pieces after the source, as in a batch with longer
        lines.
      leave_out: whether to compute `without`, which may take longer than the rest.

    Raises:
      ValueError: the line has no pieces, or ids are not pieces of the vocabulary.
    """
    vocabularies = translator.vocabularies
    source, hypotheses, n_best = find_n_best(translator, line, prefix)
    best_ids = [ids for ids, _ in n_best]
    if target is None:
        target = best_ids[0]
    target = encode_target(translator, line, target, n_best)
    attention, log_probs, target_log_probs = _run_model(
        translator, source, target, padding
    )
    num_padding = attention["encoder"].shape[-1] - len(source) - 1
    source_tokens = split_into_words(
        vocabularies.source, [*source, vocabularies.source.eos, *[PAD] * num_padding]
    )
    target_tokens = split_into_words(
        vocabularies.target, [*target, vocabularies.target.eos]
    )
    allowed = _allowed_keys(
        len(source) + 1, len(source_tokens.ids), len(target_tokens.ids)
    )
    nodes = _search_nodes(translator, hypotheses, best_ids[0], target, target_log_probs)
    node_ids = sorted({node.piece for node in nodes})
    return LineInspection(
        source=restore_unknown_words(source_tokens, vocabularies.source, line),
        target_in=split_into_words(
            vocabularies.target, [vocabularies.target.bos, *target]
        ),
        target=target_tokens,
        n_best=[translation for _, translation in n_best],
        best_ids=best_ids,
        attention=attention,
        allowed=allowed,
        roles={
            kind: describe_heads(attention[kind], allowed[kind], kind) for kind in KINDS
        },
        log_probs=target_log_probs,
        alternatives=likeliest_pieces(translator, log_probs),
        nodes=nodes,
        node_pieces=dict(
            zip(node_ids, split_into_words(vocabularies.target, node_ids).pieces)
        ),
        without=leave_out_words(
            translator, source, target, source_tokens.spans, target_log_probs
        )
        if leave_out
        else None,
    )


def find_n_best(translator, line: str, prefix: Union[str, Sequence[int]] = ""):
    """Search for the translations of a line.

    Args: as in `inspect_line`.

    Returns:
      The ids of the source, the Hypotheses, and the (ids without the end, Translation)
      of each of the n best.

    Raises:
      ValueError: the line has no pieces, or ids are not pieces of the vocabulary.
    """
    source = encode_line(translator, line)
    [prefix_ids] = translator.encode_prefixes([prefix], [line])
    hypotheses = translator.search_line(source, prefix_ids)
    strip_special = translator.vocabularies.target.strip_special
    n_best = [
        (strip_special(ids), translator.translation(ids, score))
        for ids, score in zip(hypotheses.ids[0], hypotheses.scores[0])
        if score > NEVER
    ]
    return source, hypotheses, n_best


def encode_target(
    translator, line: str, target: Union[str, Sequence[int]], n_best: Sequence
) -> List[int]:
    """Return the ids of a given translation, without the end.

    The search may have found a text in other pieces than the vocabulary cuts it into.
    Those of the search count.

    Args:
      translator: a Translator.
      line: the source.
      target: the translation, as text or as ids.
      n_best: as `find_n_best` returns it.

    Raises:
      ValueError: ids are not pieces of the vocabulary.
    """
    if isinstance(target, str):
        target = " ".join(target.split())
        for ids, translation in n_best:
            if translation.text == target:
                return ids
    [ids] = translator.encode_prefixes(
        [target if isinstance(target, str) else list(target)], [line], "target"
    )
    return ids


def leave_out_each(translator, line: str, target: Sequence[int]) -> np.ndarray:
    """Measure what each source word of a line contributes to a translation.

    Args:
      translator: a Translator.
      line: the source.
      target: the ids of the translation, without the end.

    Returns:
      `without` of a LineInspection.

    Raises:
      ValueError: the line has no pieces, or ids are not pieces of the vocabulary.
    """
    source = encode_line(translator, line)
    [target] = translator.encode_prefixes([list(target)], [line], "target")
    vocabulary = translator.vocabularies.source
    spans = split_into_words(vocabulary, [*source, vocabulary.eos]).spans
    return leave_out_words(translator, source, target, spans)


def list_choices(
    translator, line: str, target: Sequence[int], word: int
) -> List[WordChoice]:
    """Return the likeliest words for the place of a word of a translation.

    Args:
      translator: a Translator.
      line: the source.
      target: the ids of the translation, without the end.
      word: the index of the word.

    Raises:
      ValueError: the line has no pieces, ids are not pieces of the vocabulary, or the
        translation has no such word.
    """
    source = encode_line(translator, line)
    [target] = translator.encode_prefixes([list(target)], [line], "target")
    return list_word_choices(translator, source, target, word, NUM_ALTERNATIVES)


def encode_line(translator, line: str) -> List[int]:
    """Return the ids of a line, without the end.

    Raises:
      NoPiecesError: the line has no pieces.
    """
    [source] = translator.encode([line])
    if not source:
        raise NoPiecesError("expected a sentence, got a line without pieces")
    return source


def _run_model(translator, source, target, padding):
    """Return (attention by kind, log-probabilities [T, V], those of the target [T])."""
    sources = pad_line(source, padding)
    inspection = translator.inspect(
        sources, [target] * len(sources), lambda inspection: inspection
    )
    attention = {
        kind: np.stack(
            [
                inspection.weights[f"{stack}/block_{i}/{name}"][0]
                for i in range(getattr(translator.hp, f"{stack}_blocks"))
            ]
        )
        for kind, (stack, name) in KINDS.items()
    }
    return attention, inspection.log_probs[0], inspection.target_log_probs[0]


def pad_line(source, padding: int) -> List[List[int]]:
    """Return a batch in which a line, the first, is padded by a longer neighbour."""
    return [source] + [[UNK] * (len(source) + padding)] * bool(padding)


def _allowed_keys(num_real, source_length, target_length):
    """Return which keys each query may attend to: kind → bool [Tq, Tk].

    Args:
      num_real: the number of source positions that are not padding.
      source_length, target_length: the number of all positions.
    """
    is_real = np.arange(source_length) < num_real
    return {
        "encoder": np.outer(is_real, is_real),
        "decoder": np.tril(np.ones([target_length, target_length], bool)),
        "cross": np.tile(is_real, [target_length, 1]),
    }


def likeliest_pieces(translator, log_probs):
    """Return the likeliest (id, piece, probability) at each position, best first.

    Args:
      translator: a Translator.
      log_probs: float [T, V].
    """
    vocabulary = translator.vocabularies.target
    log_probs = log_probs.copy()
    log_probs[:, list(vocabulary.forbidden)] = NEVER
    alternatives = []
    for row in log_probs:
        ids = np.argsort(-row, kind="stable")[:NUM_ALTERNATIVES]
        pieces = split_into_words(vocabulary, ids).pieces
        alternatives.append(
            [(int(i), piece, float(np.exp(row[i]))) for i, piece in zip(ids, pieces)]
        )
    return alternatives


def _search_nodes(translator, hypotheses, best, target, target_log_probs):
    """Return the tree of the search; if it kept no history, the path of the target."""
    eos = translator.vocabularies.target.eos
    if hypotheses.history:
        return search_tree(hypotheses, 0, eos)
    lengths = np.arange(1, len(target) + 2)
    sums = np.cumsum(target_log_probs)
    hp = translator.hp
    scores = sums / length_penalty(lengths, hp.length_penalty, hp.length_penalty_form)
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


def leave_out_words(translator, source, target, spans, target_log_probs=None):
    """Measure what each source word contributes, by leaving out one at a time.

    Each piece of the word is replaced by UNK, so that the other pieces keep their
    positions; a vocabulary of tensor2tensor has no UNK, so PAD is used.

    Args:
      translator: a Translator.
      source, target: the ids, without the end.
      spans: the spans of the source words; those beyond the pieces are left out.
      target_log_probs: float [T], the log-probabilities of the target with the whole
        source; None: compute them too.

    Returns:
      float [source words, T]: the change in the log-probability of each target piece.
    """
    has_no_unk = isinstance(translator.vocabularies.source, SubwordVocabulary)
    replacement = PAD if has_no_unk else UNK
    sources = [
        [*source[:begin], *[replacement] * (end - begin), *source[end:]]
        for begin, end in spans
        if end <= len(source)
    ]
    if target_log_probs is None:
        sources.insert(0, source)
    batch_size = choose_batch_size(translator, source, target)
    log_probs = []
    for start in range(0, len(sources), batch_size):
        batch = sources[start : start + batch_size]
        log_probs += list(
            translator.inspect(
                batch,
                [target] * len(batch),
                lambda inspection: inspection.target_log_probs,
            )
        )
    if target_log_probs is None:
        target_log_probs = log_probs.pop(0)
    return np.stack(log_probs) - target_log_probs


def choose_batch_size(translator, source, target) -> int:
    """Choose how many copies of a sentence, with its target, are in a batch."""
    longest = max(len(source), len(target), FULL_LENGTH)
    return max(1, translator.hp.decode_batch_size * FULL_LENGTH // longest)


# JSON, as the page reads it


def to_json(inspection: LineInspection) -> Dict[str, Any]:
    """Return an inspection as a dict of JSON types."""
    fields = {
        "source": inspection.source._asdict(),
        "targetIn": inspection.target_in._asdict(),
        "target": inspection.target._asdict(),
        "realSource": int(inspection.allowed["encoder"][0].sum()),
        "nBest": [
            {"text": best.text, "score": round_floats(best.score), "ids": ids}
            for best, ids in zip(inspection.n_best, inspection.best_ids)
        ],
        "attention": {
            kind: _encode_weights(weights)
            for kind, weights in inspection.attention.items()
        },
        "roles": {
            kind: [[_role_to_json(role) for role in layer] for layer in layers]
            for kind, layers in inspection.roles.items()
        },
        "logProbs": round_floats(inspection.log_probs),
        "alternatives": round_floats(inspection.alternatives),
        "nodes": round_floats(inspection.nodes),
        "nodePieces": inspection.node_pieces,
    }
    if inspection.without is not None:
        fields["without"] = round_floats(inspection.without)
    return fields


def _role_to_json(role):
    return {
        "entropy": round_floats(role.entropy),
        "most": round_floats(role.max_entropy),
        "share": round_floats(role.share),
        "text": role.text,
    }


def _encode_weights(weights):
    """Encode weights from 0 to 1 as their shape and base64 of little-endian uint16."""
    steps = np.rint(np.clip(weights, 0, 1) * STEPS).astype("<u2")
    data = base64.b64encode(steps.tobytes()).decode("ascii")
    return {"shape": list(weights.shape), "data": data}


def round_floats(value):
    """Round floats to six digits, and turn sequences into lists."""
    if isinstance(value, dict):
        return {name: round_floats(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [round_floats(item) for item in value]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.6g}")
    return value
