"""Whole models beside the recorded numbers of the original systems.

`differences_of` compares a log directory with a case, an .npz file: inputs "in/...",
outputs "out/...", and "meta", which is JSON.
"""

import json
import re
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

import hparams
from transformer.decoding import Hypotheses, SearchOptions, beam
from transformer.hparams import HParams
from transformer.model import Transformer
from transformer.runtime import checkpoints
from transformer.text.vocabulary import BOS, EOS, PAD
from transformer.training import cross_entropy

TOLERANCE = 1e-5  # relative to max(1, |recorded|)
WORST_SCORE = -1e6


class Recorded(NamedTuple):
    """The names of the recorded arrays of a system, and its special ids."""

    source: str
    target_in: str  # "": target_out shifted to the right by one
    target_out: str
    logits: str
    losses: Tuple[Tuple[str, float], ...]  # (name, label smoothing)
    greedy: str
    first: int = BOS
    end: int = EOS


LEGACY = Recorded(
    source="in/x",
    target_in="out/decoder_inputs",
    target_out="in/y",
    logits="out/logits",
    losses=(("out/mean_loss", 0.1),),
    greedy="out/preds",
)

RECORDED = {
    "tutorial": LEGACY,
    "kyubyong_legacy": LEGACY,
    "kyubyong": Recorded(
        source="in/x",
        target_in="in/decoder_inputs",
        target_out="in/y",
        logits="out/logits",
        losses=(("out/loss", 0.1),),
        greedy="out/greedy_decode_maxlen2",
    ),
    "tensor2tensor": Recorded(
        source="in/inputs",
        target_in="",
        target_out="in/targets",
        logits="out/logits",
        losses=(("out/loss_eval", 0.0), ("out/loss_train_label_smoothed", 0.1)),
        greedy="out/greedy_outputs",
        first=PAD,
        end=1,
    ),
}


class Model:
    """A model with the variables of a checkpoint, which is fed ids.

    Args:
      hp: the settings.
      checkpoint: its path without the endings of its files.
    """

    def __init__(self, hp: HParams, checkpoint: str):
        with tf.Graph().as_default() as graph:
            model = Transformer(hp)
            self.model = model
            self.smoothing = model.dialect.smoothing
            self.source = tf.placeholder(tf.int32, [None, None])
            self.target_in = tf.placeholder(tf.int32, [None, None])
            self.target_out = tf.placeholder(tf.int32, [None, None])
            self.memory = model.encode(self.source)
            self.logits = model.decode(self.target_in, self.memory)
            saver = checkpoints.make_saver()
            self.session = tf.Session(graph=graph)
            checkpoints.restore(self.session, saver, checkpoint)
            self.step = checkpoints.step_of(checkpoint)

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *exception) -> None:
        self.session.close()

    def run_logits(self, source: np.ndarray, target_in: np.ndarray) -> np.ndarray:
        """Return the logits, float [N, T, V]."""
        return self.session.run(
            self.logits, {self.source: source, self.target_in: target_in}
        )

    def run_loss(
        self,
        source: np.ndarray,
        target_in: np.ndarray,
        target_out: np.ndarray,
        epsilon: float,
    ) -> float:
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

    def run_greedy(self, source: np.ndarray, length: int, first: int) -> np.ndarray:
        """Return the likeliest piece at each of `length` positions, int [N, length].

        As in the originals, no piece is forbidden, and EOS does not end a sentence.
        """
        ids = np.full([len(source), 1], first, np.int32)
        for _ in range(length):
            best = self.run_logits(source, ids)[:, -1].argmax(-1)
            ids = np.concatenate([ids, best[:, None].astype(np.int32)], axis=1)
        return ids[:, 1:]

    def run_beam(
        self, source: np.ndarray, length: int, options: SearchOptions
    ) -> Hypotheses:
        """Return the hypotheses of a beam search in which no piece is forbidden.

        Returns:
          (ids [N, n, T], scores [N, n]), T at most `length`.
        """
        with self.session.graph.as_default():
            limits = tf.fill([tf.shape(self.source)[0]], length)
            step, state = self.model.start_search(self.memory, options.beam_size)
            found = beam(step, state, limits, options)
        return self.session.run(found, {self.source: source})


def worst(found: Any, recorded: Any) -> float:
    """Return the largest difference, relative to max(1, |recorded|)."""
    found = np.asarray(found, np.float64)
    recorded = np.asarray(recorded, np.float64)
    if found.shape != recorded.shape:
        raise ValueError(
            f"expected a result of shape {recorded.shape} as recorded, "
            f"got {found.shape}"
        )
    return float((abs(found - recorded) / np.maximum(1, abs(recorded))).max(initial=0))


def differences_of(logdir: str, path: str, source: str) -> Dict[str, float]:
    """Return what → worst relative difference of an imported model from a case.

    Args:
      logdir: what import_checkpoint.py wrote.
      path: the case.
      source: a name in RECORDED.
    """
    checkpoint = checkpoints.find(logdir, "newest")
    with Model(hparams.load(logdir), checkpoint) as model:
        return dict(differences(model, load_case(path), RECORDED[source]))


def differences(
    model: Model, case: Dict[str, Any], recorded: Recorded
) -> Iterator[Tuple[str, float]]:
    """Yield (what, worst relative difference) for everything recorded in a case.

    Args:
      model: our model, with the variables of the case.
      case: the case, from `load_case`.
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
    """Yield the differences of logits and losses for the recorded target."""
    source = token_ids(case[recorded.source])
    target_out = token_ids(case[recorded.target_out])
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
    source = token_ids(case[recorded.source])
    ids = case[recorded.greedy]
    found = model.run_greedy(source, ids.shape[1], recorded.first)
    yield "greedy", worst(to_end(found, recorded.end), to_end(ids, recorded.end))
    if "out/final_logits" in case:  # of all positions, after the last step
        found = model.run_logits(source, shifted(ids, recorded.first))
        yield "logits", worst(found, case["out/final_logits"])


def losses_of(case: Dict[str, Any], recorded: Recorded) -> List[Tuple[str, float]]:
    """Return (name, label smoothing) of the losses; the case may set the smoothing."""
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
      name: the name of the beams [N, K, T]; those with scores below WORST_SCORE are
        fillers.
    """
    source = token_ids(case[recorded.source])
    ids = case[name]
    scores = case[name[: -len("outputs")] + "scores"]
    alpha = float(re.findall(r"alpha (\d+\.?\d*)", case["meta"]["decode"])[0])
    _, K, T = ids.shape
    compared = scores > WORST_SCORE
    ours = _beam_scores(model, source, ids, alpha, recorded)
    yield "scores of the recorded beam", worst(ours[compared], scores[compared])
    found = model.run_beam(
        source,
        T,
        SearchOptions(
            beam_size=K,
            length_penalty=alpha,
            n_best=K,
            must_end=False,
            bos=recorded.first,
            eos=recorded.end,
        ),
    )
    yield "beam scores", worst(found.scores[compared], scores[compared])
    width = found.ids.shape[-1]
    found_ids = np.pad(found.ids, [[0, 0], [0, 0], [0, T - width]], mode="constant")
    gaps = np.pad(
        -np.diff(scores), [[0, 0], [1, 1]], mode="constant", constant_values=1
    )  # [N, K + 1]
    # Rounding decides the order of hypotheses with equal scores.
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
    source = token_ids(case[recorded.source])
    target_out = token_ids(case[recorded.target_out])
    target_in = token_ids(case[recorded.target_in])
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


def token_ids(array: np.ndarray) -> np.ndarray:
    """Return ids as int32 [N, T]; those of tensor2tensor have further dimensions."""
    return array.reshape(array.shape[:2]).astype(np.int32)


def shifted(ids: np.ndarray, first: int) -> np.ndarray:
    """Return ids [N, T] shifted to the right by one, after `first`."""
    return np.concatenate([np.full_like(ids[:, :1], first), ids[:, :-1]], axis=1)


def to_end(ids: np.ndarray, end: int) -> np.ndarray:
    """Return ids with zeros after the first `end`."""
    ended = np.cumsum(ids == end, axis=1) - (ids == end) > 0
    return np.where(ended, 0, ids)


def _beam_scores(model, source, ids, alpha, recorded):
    """Return our scores [N, K] of recorded beams [N, K, T].

    In tensor2tensor the score is log-probability / ((5 + length) / 6)^alpha, and the
    length includes EOS. For an unfinished hypothesis it is the log-probability.
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
    is_counted = np.arange(T) < length[:, None]
    found = (of_ids * is_counted).sum(-1)
    found = np.where(ended, found / ((5 + length) / 6) ** alpha, found)
    return found.reshape(N, K)


def load_case(path: str) -> Dict[str, Any]:
    """Return a recorded case: its arrays by name, and "meta"."""
    with np.load(path, allow_pickle=False) as arrays:
        case = {name: arrays[name] for name in arrays.files}
    case["meta"] = json.loads(str(case["meta"])) if "meta" in case else {}
    return case
