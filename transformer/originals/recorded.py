"""Recorded numbers of the original systems, and how far a model of ours is from them.

A case is an .npz file: inputs "in/...", outputs "out/...", and "meta", which is JSON.
"""

import json
import re
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.decoding import SearchOptions, beam
from transformer.model import Transformer
from transformer.runtime import checkpoints, tensors
from transformer.text.vocabulary import BOS, EOS, PAD
from transformer.training import cross_entropy

TOLERANCE = 1e-5  # relative to max(1, |recorded|)
WORST_SCORE = -1e6


class Recorded(NamedTuple):
    """The names of the recorded arrays of a system, and how it numbers its pieces."""

    source: str
    target_in: str  # "": target_out, shifted by one to the right
    target_out: str
    logits: str
    losses: Tuple[Tuple[str, float], ...]  # with the label smoothing of each
    greedy: str
    first: int = BOS
    end: int = EOS


LEGACY = Recorded(
    "in/x",
    "out/decoder_inputs",
    "in/y",
    "out/logits",
    (("out/mean_loss", 0.1),),
    "out/preds",
)

RECORDED = {
    "tutorial": LEGACY,
    "kyubyong_legacy": LEGACY,
    "kyubyong": Recorded(
        "in/x",
        "in/decoder_inputs",
        "in/y",
        "out/logits",
        (("out/loss", 0.1),),
        "out/greedy_decode_maxlen2",
    ),
    "tensor2tensor": Recorded(
        "in/inputs",
        "",
        "in/targets",
        "out/logits",
        (("out/loss_eval", 0.0), ("out/loss_train_label_smoothed", 0.1)),
        "out/greedy_outputs",
        first=PAD,
        end=1,
    ),
}


class Model:
    """A model with the variables of a checkpoint, fed with ids.

    Args:
      hp: the settings.
      checkpoint: its path without the endings of its files.
    """

    def __init__(self, hp, checkpoint: str):
        with tf.Graph().as_default() as graph:
            self.model = model = Transformer(hp)
            self.smoothing = model.dialect.smoothing
            self.source = tf.placeholder(tf.int32, [None, None])
            self.target_in = tf.placeholder(tf.int32, [None, None])
            self.target_out = tf.placeholder(tf.int32, [None, None])
            self.memory = model.encode(self.source)
            self.logits = model.decode(self.target_in, self.memory)
            saver = checkpoints.make_saver()
            self.session = tf.Session(graph=graph)
            tensors.restore(self.session, saver, checkpoint)
            self.step = checkpoints.step_of(checkpoint)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.session.close()

    def run_logits(self, source, target_in):
        """Return the logits, float [N, T, V]."""
        return self.session.run(
            self.logits, {self.source: source, self.target_in: target_in}
        )

    def run_loss(self, source, target_in, target_out, epsilon: float):
        """Return the mean cross entropy of the tokens, with smoothed labels."""
        with self.session.graph.as_default():
            loss = cross_entropy(self.logits, self.target_out, epsilon, self.smoothing)
        total, count = self.session.run(
            loss,
            {
                self.source: source,
                self.target_in: target_in,
                self.target_out: target_out,
            },
        )
        return total / count

    def run_greedy(self, source, length: int, first):
        """Return the likeliest piece at each of `length` positions, int [N, length].

        As in the originals, all pieces may occur, and nothing ends a sentence.
        """
        ids = np.full([len(source), 1], first, np.int32)
        for _ in range(length):
            best = self.run_logits(source, ids)[:, -1].argmax(-1)
            ids = np.concatenate([ids, best[:, None].astype(np.int32)], axis=1)
        return ids[:, 1:]

    def run_beam(self, source, length: int, options: SearchOptions):
        """Return the hypotheses of a beam search in which all pieces may occur.

        Returns:
          (ids [N, n, T], scores [N, n]), T at most `length`.
        """
        with self.session.graph.as_default():
            limits = tf.fill([tf.shape(self.source)[0]], length)
            step, state = self.model.start_search(self.memory, options.beam_size)
            found = beam(step, state, limits, options)
        return self.session.run(found, {self.source: source})


def worst(found: np.ndarray, recorded: np.ndarray) -> float:
    """Return the largest difference, relative to max(1, |recorded|)."""
    found, recorded = np.asarray(found, np.float64), np.asarray(recorded, np.float64)
    if found.shape != recorded.shape:
        raise ValueError(
            f"found a result of shape {found.shape}, wanted "
            f"{recorded.shape} as recorded"
        )
    return float((abs(found - recorded) / np.maximum(1, abs(recorded))).max(initial=0))


def differences(
    model: Model, case: Dict[str, Any], recorded: Recorded
) -> Iterator[Tuple[str, float]]:
    """Yield (what, worst relative difference) of all that a case has recorded.

    Args:
      model: our model, with the variables of the case.
      case: what `load_case` returns.
      recorded: the names of its system.
    """
    if model.step and model.step == case.get("out/global_step_after"):
        yield from differences_after(model, case, recorded)
        return
    if recorded.target_out in case:
        yield from _differences_of_logits(model, case, recorded)
    if recorded.greedy in case and (
        recorded.greedy != "out/preds" or recorded.target_out not in case
    ):
        yield from _differences_of_greedy(model, case, recorded)
    for name in sorted(case):
        if re.fullmatch(r"out/beam\d+(_\w+)?_outputs", name):
            yield from beam_differences(model, case, name, recorded)


def _differences_of_logits(model, case, recorded):
    """Yield the differences of logits and losses, given the target."""
    source, target_out = (
        token_ids(case[name]) for name in (recorded.source, recorded.target_out)
    )
    target_in = (
        token_ids(case[recorded.target_in])
        if recorded.target_in
        else shifted(target_out, recorded.first)
    )
    found = model.run_logits(source, target_in)
    yield "logits", worst(found, case[recorded.logits].reshape(found.shape))
    for name, epsilon in losses_of(case, recorded):
        if name in case:
            loss = model.run_loss(source, target_in, target_out, epsilon)
            yield name[len("out/") :], worst(loss, case[name])


def _differences_of_greedy(model, case, recorded):
    """Yield the differences of greedy search, and of its last logits if recorded."""
    source, ids = token_ids(case[recorded.source]), case[recorded.greedy]
    found = model.run_greedy(source, ids.shape[1], recorded.first)
    yield "greedy", worst(to_end(found, recorded.end), to_end(ids, recorded.end))
    if "out/final_logits" in case:  # those of the last position, and all before it
        found = model.run_logits(source, shifted(ids, recorded.first))
        yield "logits", worst(found, case["out/final_logits"])


def losses_of(case: Dict[str, Any], recorded: Recorded) -> List[Tuple[str, float]]:
    """Return (name, label smoothing) of the losses of a case, smoothed as it says."""
    given = case["meta"].get("kwargs", {}).get("label_smoothing")
    return [
        (name, given if epsilon and given is not None else epsilon)
        for name, epsilon in recorded.losses
    ]


def beam_differences(
    model: Model, case: Dict[str, Any], name: str, recorded: Recorded
) -> Iterator[Tuple[str, float]]:
    """Yield the differences of the scores of recorded beams, and of our own search.

    Args:
      model, case, recorded: as for `differences`.
      name: of the beams [N, K, T]. Scores below WORST_SCORE are fillers.
    """
    source, ids = token_ids(case[recorded.source]), case[name]
    scores = case[name[: -len("outputs")] + "scores"]
    alpha = float(re.search(r"alpha (\d+\.?\d*)", case["meta"]["decode"]).group(1))
    _, K, T = ids.shape
    compared = scores > WORST_SCORE
    ours = _beam_scores(model, source, ids, alpha, recorded)
    yield "scores of the recorded beam", worst(ours[compared], scores[compared])
    found = model.run_beam(
        source,
        T,
        SearchOptions(
            K, alpha, n_best=K, must_end=False, bos=recorded.first, eos=recorded.end
        ),
    )
    yield "beam scores", worst(found.scores[compared], scores[compared])
    width = found.ids.shape[-1]
    found_ids = np.pad(found.ids, [[0, 0], [0, 0], [0, T - width]], mode="constant")
    gaps = np.pad(
        -np.diff(scores), [[0, 0], [1, 1]], mode="constant", constant_values=1
    )  # [N, K + 1]
    # Of two with equal scores, rounding decides which comes first.
    compared &= np.minimum(gaps[:, :-1], gaps[:, 1:]) > TOLERANCE
    yield (
        "beam",
        worst(*(to_end(each[compared], recorded.end) for each in (found_ids, ids))),
    )


def differences_after(
    model: Model, case: Dict[str, Any], recorded: Recorded
) -> Iterator[Tuple[str, float]]:
    """Yield the differences of a model after the updates of the case.

    Args:
      model, case, recorded: as for `differences`.
    """
    source, target_out, target_in = (
        token_ids(case[name])
        for name in (recorded.source, recorded.target_out, recorded.target_in)
    )
    _, epsilon = losses_of(case, recorded)[0]
    for name in sorted(case):
        if name.startswith("out/losses_after_each"):
            loss = model.run_loss(source, target_in, target_out, epsilon)
            yield "loss", worst(loss, case[name][-1])
        if name.startswith("out/greedy_decode_after"):
            found = model.run_greedy(source, case[name].shape[1], recorded.first)
            yield (
                "greedy",
                worst(to_end(found, recorded.end), to_end(case[name], recorded.end)),
            )


def token_ids(array):
    """Return int32 [N, T]; tensor2tensor's have further dimensions of 1."""
    return array.reshape(array.shape[:2]).astype(np.int32)


def shifted(ids, first):
    """Return ids [N, T] shifted by one to the right, after `first`."""
    return np.concatenate([np.full_like(ids[:, :1], first), ids[:, :-1]], axis=1)


def to_end(ids, end: int):
    """Return the ids up to the first `end`, then zeros."""
    ended = np.cumsum(ids == end, axis=1) - (ids == end) > 0
    return np.where(ended, 0, ids)


def _beam_scores(model, source, ids, alpha, recorded):
    """Return our scores [N, K] of recorded beams [N, K, T].

    tensor2tensor's score is log-probability / ((5 + length) / 6)^alpha, the end
    counted; where nothing was finished, the log-probability.
    """
    N, K, T = ids.shape
    ids = to_end(ids.reshape(N * K, T), recorded.end)
    logits = model.run_logits(
        np.repeat(source, K, axis=0), shifted(ids, recorded.first)
    ).astype(np.float64)
    logits -= logits.max(-1, keepdims=True)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    of_ids = np.take_along_axis(log_probs, ids[..., None], axis=-1)[..., 0]
    ended = (ids == recorded.end).any(-1)
    length = np.where(ended, (ids == recorded.end).argmax(-1) + 1, T)
    places = np.arange(T) < length[:, None]
    found = (of_ids * places).sum(-1)
    found = np.where(ended, found / ((5 + length) / 6) ** alpha, found)
    return found.reshape(N, K)


def load_case(path: str) -> Dict[str, Any]:
    """Return a recorded case: its arrays by name, and "meta".

    Raises:
      ValueError: it is no .npz file of arrays.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            case = {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: found no .npz file ({error})") from error
    case["meta"] = json.loads(str(case["meta"])) if "meta" in case else {}
    return case
