"""Replay the logged steps of a training run and compare them with its log.

The steps are those of `trainer.Training`, from a checkpoint that was kept, with the
settings that `run.jsonl` names; nothing is written.
"""

import random
from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.runtime import checkpoints, tensors
from transformer.runtime.devices import has_gpu
from transformer.runtime.history import machine, versions
from transformer.runtime.records import Logged, Records
from transformer.runtime.reporting import Meter
from transformer.runtime.sessions import make_session
from transformer.trainer import Training
from transformer.training_graph import TrainingGraph

LOGGED = ("loss", "gradient_norm", "learning_rate")
# How far rounding alone takes a number, as a part of it: in a few updates, and in many.
FEW_UPDATES = 20
DRIFT, MOST_DRIFT = 1e-3, 0.1


class Compared(NamedTuple):
    """A number that was recorded of a step, and the same computed again."""

    name: str
    step: int
    recorded: float
    found: float

    @property
    def distance(self) -> float:
        """How far they are apart, as a part of the number; NaN is infinitely far."""
        if self.recorded == self.found:
            return 0.0
        scale = max(abs(self.recorded), abs(self.found))
        distance = abs(self.recorded - self.found) / scale
        return distance if np.isfinite(distance) else np.inf


class Replay(NamedTuple):
    """Steps to compute again from a checkpoint, and what to compare on the way."""

    step: int
    checkpoint: Optional[str]  # None: from the first values of the variables
    segment: int  # index of the segment whose settings count
    logged: List[Logged]
    dev: Optional[float]  # the loss on dev that was recorded at `step`
    kept: Dict[int, str]  # step → a later checkpoint to compare the variables with

    @property
    def last(self) -> int:
        """The last step that is computed."""
        return max([self.step, *self.kept, *(each.step for each in self.logged)])


class ModelFolder(NamedTuple):
    """What `Training` asks of a translator."""

    hp: Any
    logdir: str


class LossRecorder(Meter):
    """Keeps the loss of each update, instead of their average."""

    def __init__(self):
        super().__init__()
        self.losses = []  # (loss, tokens)

    def add(self, loss: float, tokens: float) -> None:
        """Keep an update."""
        self.losses.append((loss, tokens))


class ReplayedTraining(Training):
    """Makes updates of a training run again; nothing is logged."""

    def __init__(self, session, graph, folder: ModelFolder, start: int):
        super().__init__(None, session, graph, folder, None, start)
        self.start, self.meter = start, LossRecorder()
        self.metrics = {}  # step → Metrics, where a step is logged

    def log_metrics(self, metrics) -> None:
        """Keep the numbers of a step that is logged."""
        self.metrics[self.step] = metrics

    def mean(self, begin: int, end: int) -> float:
        """Return the loss that is logged at `end` if the mean begins after `begin`."""
        meter = Meter()
        for loss, tokens in self.meter.losses[begin - self.start : end - self.start]:
            meter.add(loss, tokens)
        return meter.read()[0]


def plan(
    records: Records,
    segments: List[Dict],
    kept: Dict[int, str],
    dev: Dict[int, float],
    reach: int,
) -> List[Replay]:
    """Return all that can be computed again.

    Args:
      records: what was logged.
      segments: what `history.read_run` returned.
      kept: step → checkpoint, those that are whole.
      dev: step → loss on dev that was recorded.
      reach: how many updates may be made for one comparison.
    """
    begins = dict(kept)
    if segments[0]["step"] == 0:
        begins[0] = None
    found = {}

    def replay_from(step, segment):
        checkpoint = begins[step]
        empty = Replay(step, checkpoint, segment, [], dev.get(step), {})
        return found.setdefault((step, segment), empty)

    for step in kept:
        segment = _segment(step, segments)
        if step in dev:
            replay_from(step, segment)
        begin = _begin(begins, segments, segment, step - 1, step - reach)
        if begin is not None:
            replay_from(begin, segment).kept[step] = kept[step]
    for each in records.updates:
        segment = _segment(each.step, segments)
        begin = _begin(begins, segments, segment, each.begins[0], each.step - reach)
        if begin is not None:
            replay_from(begin, segment).logged.append(each)
    for key, replay in found.items():
        if _segment(replay.step, segments) != replay.segment:
            found[key] = replay._replace(dev=None)  # evaluated by other settings
    return [found[key] for key in sorted(found)]


def _segment(step, segments) -> int:
    """Return the index of the segment in which an update was made."""
    return max([0] + [i for i, row in enumerate(segments) if row["step"] < step])


def _begin(begins, segments, segment, latest, earliest) -> Optional[int]:
    """Return the last step to begin at, within a segment and not before `earliest`."""
    least = max(segments[segment]["step"], earliest)
    return max((step for step in begins if least <= step <= latest), default=None)


def drawn(replays: List[Replay], count: int, draw: random.Random) -> List[Replay]:
    """Return Replays with `count` logged steps, drawn from all; none is left empty."""
    every = [each.step for replay in replays for each in replay.logged]
    chosen = set(draw.sample(every, min(count, len(every))))
    replays = [
        replay._replace(logged=[each for each in replay.logged if each.step in chosen])
        for replay in replays
    ]
    return [each for each in replays if each.last > each.step or each.dev is not None]


def compute(replay: Replay, hp, logdir: str, data, exact: bool) -> List[Compared]:
    """Compute what a Replay has to compare.

    Args:
      replay: from `plan`.
      hp: the settings of its segment, with the data folder of today.
      logdir: the log directory, of which nothing but checkpoints is read.
      data: the `Data` of `hp`.
      exact: compare the variables, too. Where rounding differs, Adam scales it.

    Raises:
      ValueError: a checkpoint does not fit the settings.
      FloatingPointError: a loss is not finite.
    """
    compared = []
    with tf.Graph().as_default():
        graph = TrainingGraph(hp, data, replay.step)
        with make_session(hp) as session:
            graph.open(session, replay.checkpoint)
            if replay.dev is not None:
                loss = graph.dev_loss(session)
                compared.append(Compared("dev loss", replay.step, replay.dev, loss))
            training = ReplayedTraining(
                session, graph, ModelFolder(hp, logdir), replay.step
            )
            variables = {v.op.name: v for v in tf.global_variables()}
            while training.step < replay.last:
                training.update()
                if exact and training.step in replay.kept:
                    path = replay.kept[training.step]
                    compared += _variables(path, session.run(variables))
            for each in replay.logged:
                compared += _logged(each, training)
    return compared


def _variables(checkpoint: str, found: Dict[str, np.ndarray]) -> List[Compared]:
    """Compare the variables with a checkpoint; of each, the number farthest away."""
    recorded, compared = tensors.read(checkpoint), []
    step = checkpoints.step_of(checkpoint)
    for name, array in sorted(found.items()):
        there, here = (np.ravel(each).astype(float) for each in (recorded[name], array))
        if not np.array_equal(there, here):
            distances = np.nan_to_num(np.abs(there - here), nan=np.inf)
            worst = int(np.argmax(distances))
            pair = float(there[worst]), float(here[worst])
            compared.append(Compared(f"{name}, number {worst},", step, *pair))
    return compared or [Compared("variables", step, 0.0, 0.0)]


def _logged(each: Logged, training: ReplayedTraining) -> List[Compared]:
    """Compare what was logged at a step; the mean may have several beginnings."""
    metrics = training.metrics[each.step]
    recorded = {name: float(np.float32(each.values[name])) for name in LOGGED}
    means = [float(np.float32(training.mean(b, each.step))) for b in each.begins]
    found = {
        "loss": min(means, key=lambda mean: abs(mean - recorded["loss"])),
        "gradient_norm": float(np.float32(metrics.gradient_norm)),
        "learning_rate": float(np.float32(metrics.learning_rate)),
    }
    return [Compared(name, each.step, recorded[name], found[name]) for name in LOGGED]


def drift_allowed(updates: int) -> float:
    """Return how far rounding may take a number in so many updates, as a part of it.

    Each update enlarges the differences of the one before. Where that may have gone too
    far to tell rounding from a change, a number is neither the same nor different.
    """
    return DRIFT if updates <= FEW_UPDATES else MOST_DRIFT


def why_not_exact(segment: Dict, hp) -> str:
    """Return why steps computed here may differ in the last bits; "" where not."""
    here = {"versions": versions(), "machine": machine()}
    reasons = [
        f"{name} {segment.get(kind, {}).get(name, 'not recorded')} (here: {value})"
        for kind in here
        for name, value in here[kind].items()
        if segment.get(kind, {}).get(name) != value
    ]
    if has_gpu() and not hp.deterministic:
        reasons.append("a GPU without --deterministic")
    first = tf.__version__.startswith("1.")
    if first and not hp.deterministic:
        reasons.append("TensorFlow 1.15 without --deterministic")
    return "; ".join(reasons)
