"""What was recorded of an original system, and how far a model of ours is from it.

A case is an .npz file: inputs "in/...", outputs "out/...", and "meta", which is JSON.
"""

import json
import re
from typing import NamedTuple, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.decoding import SearchOptions, beam
from transformer.model import Transformer
from transformer.runtime import checkpoints
from transformer.text.vocabulary import BOS, EOS, PAD
from transformer.training import cross_entropy

TOLERANCE = 1e-5  # relative to max(1, |recorded|)
WORST_SCORE = -1e6


class Recorded(NamedTuple):
    """The names of what is recorded of a system, and how it numbers its pieces."""

    source: str
    target_in: str  # "": target_out, one place to the right
    target_out: str
    logits: str
    losses: Tuple[Tuple[str, float], ...]  # with the label smoothing of each
    greedy: str
    first: int = BOS
    end: int = EOS


RECORDED = {
    "tutorial": Recorded(
        "in/x",
        "out/decoder_inputs",
        "in/y",
        "out/logits",
        (("out/mean_loss", 0.1),),
        "out/preds",
    ),
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
    """A model with the variables of a checkpoint, fed with ids."""

    def __init__(self, hp, checkpoint):
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
            checkpoints.restore(self.session, saver, checkpoint)
            self.step = checkpoints.step_of(checkpoint)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.session.close()

    def run_logits(self, source, target_in):
        """float [N, T, V]."""
        return self.session.run(
            self.logits, {self.source: source, self.target_in: target_in}
        )

    def run_loss(self, source, target_in, target_out, epsilon):
        """Mean cross entropy of the tokens, with smoothed labels."""
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

    def run_greedy(self, source, length, first):
        """The likeliest piece at each of `length` places, as the originals decode: all
        pieces may occur, nothing ends a sentence. int [N, length]."""
        ids = np.full([len(source), 1], first, np.int32)
        for _ in range(length):
            best = self.run_logits(source, ids)[:, -1].argmax(-1)
            ids = np.concatenate([ids, best[:, None].astype(np.int32)], axis=1)
        return ids[:, 1:]

    def run_beam(self, source, length, options):
        """The hypotheses of a search in which all pieces may occur: (ids [N, n, T],
        scores [N, n]), T at most `length`."""
        with self.session.graph.as_default():
            limits = tf.fill([tf.shape(self.source)[0]], length)
            step, state = self.model.start_search(self.memory, options.beam_size)
            found = beam(step, state, limits, options)
        return self.session.run(found, {self.source: source})


def worst(found, recorded):
    """The largest difference, relative to max(1, |recorded|)."""
    found, recorded = np.asarray(found, np.float64), np.asarray(recorded, np.float64)
    if found.shape != recorded.shape:
        raise ValueError(
            f"found a result of shape {found.shape}, wanted "
            f"{recorded.shape} as recorded"
        )
    return float((abs(found - recorded) / np.maximum(1, abs(recorded))).max(initial=0))


def differences(model, case, recorded):
    """Yields (what, worst relative difference) of all that a case has recorded."""
    source = token_ids(case[recorded.source])
    if model.step and model.step == case.get("out/global_step_after"):
        yield from differences_after(model, case, recorded)
        return
    if recorded.target_out in case:
        target_out = token_ids(case[recorded.target_out])
        target_in = (
            token_ids(case[recorded.target_in])
            if recorded.target_in
            else shifted(target_out, recorded.first)
        )
        logits = case[recorded.logits]
        found = model.run_logits(source, target_in)
        yield "logits", worst(found, logits.reshape(found.shape))
        for name, epsilon in losses_of(case, recorded):
            if name in case:
                yield (
                    name[len("out/") :],
                    worst(
                        model.run_loss(source, target_in, target_out, epsilon),
                        case[name],
                    ),
                )
    if recorded.greedy in case and (
        recorded.greedy != "out/preds" or recorded.target_out not in case
    ):
        ids = case[recorded.greedy]
        found = model.run_greedy(source, ids.shape[1], recorded.first)
        yield "greedy", worst(to_end(found, recorded.end), to_end(ids, recorded.end))
        if "out/final_logits" in case:  # those of the last place, and all before it
            found = model.run_logits(source, shifted(ids, recorded.first))
            yield "logits", worst(found, case["out/final_logits"])
    for name in sorted(case):
        if re.fullmatch(r"out/beam\d+(_\w+)?_outputs", name):
            yield from beam_differences(model, case, name, recorded)


def losses_of(case, recorded):
    """[(name, label smoothing)] of the losses of a case, smoothed as it says."""
    told = case["meta"].get("kwargs", {}).get("label_smoothing")
    return [
        (name, told if epsilon and told is not None else epsilon)
        for name, epsilon in recorded.losses
    ]


def beam_differences(model, case, name, recorded):
    """The same for the beams [N, K, T] of a name: what our model says of them, and what
    our search finds. Scores below WORST_SCORE are tensor2tensor's fillers."""
    source, ids = token_ids(case[recorded.source]), case[name]
    scores = case[name[: -len("outputs")] + "scores"]
    alpha = float(re.search(r"alpha (\d+\.?\d*)", case["meta"]["decode"]).group(1))
    _, K, T = ids.shape
    compared = scores > WORST_SCORE
    told = _beam_scores(model, source, ids, alpha, recorded)
    yield "scores of the recorded beam", worst(told[compared], scores[compared])
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
    # Which of two that are as good comes first, rounding says.
    compared &= np.minimum(gaps[:, :-1], gaps[:, 1:]) > TOLERANCE
    yield (
        "beam",
        worst(*(to_end(each[compared], recorded.end) for each in (found_ids, ids))),
    )


def differences_after(model, case, recorded):
    """The same for a model as the case left it, after its updates."""
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
    """int32 [N, T]; tensor2tensor's have further dimensions of 1."""
    return array.reshape(array.shape[:2]).astype(np.int32)


def shifted(ids, first):
    """One place to the right, behind `first`."""
    return np.concatenate([np.full_like(ids[:, :1], first), ids[:, :-1]], axis=1)


def to_end(ids, end):
    """The ids up to the first `end`, then zeros."""
    ended = np.cumsum(ids == end, axis=1) - (ids == end) > 0
    return np.where(ended, 0, ids)


def _beam_scores(model, source, ids, alpha, recorded):
    """Our scores [N, K] of recorded beams [N, K, T].

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
    told = np.take_along_axis(log_probs, ids[..., None], axis=-1)[..., 0]
    ended = (ids == recorded.end).any(-1)
    length = np.where(ended, (ids == recorded.end).argmax(-1) + 1, T)
    places = np.arange(T) < length[:, None]
    found = (told * places).sum(-1)
    found = np.where(ended, found / ((5 + length) / 6) ** alpha, found)
    return found.reshape(N, K)


def load_case(path):
    """A recorded case: its arrays by name, and "meta"."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            case = {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: found no .npz file ({error})") from error
    case["meta"] = json.loads(str(case["meta"])) if "meta" in case else {}
    return case
