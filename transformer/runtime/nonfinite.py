"""Diagnosis of NaN and infinity: the first tensor of a graph that is not finite.

Example:

    fault = first_bad(session, [loss], {ids: batch})
    fault and str(fault)    # "encoder/block_0/feedforward/inner/MatMul (3 inf of 64)"
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.loss_scale import FLOOR
from transformer.runtime import checkpoints


class Fault(NamedTuple):
    """A tensor that is not finite."""

    name: str  # of its variable, or of the op that made it
    is_variable: bool
    nans: int
    infinities: int
    size: int

    def __str__(self) -> str:
        counts = ((self.nans, "NaN"), (self.infinities, "inf"))
        found = " and ".join(f"{count:,} {kind}" for count, kind in counts if count)
        kind = "the variable " if self.is_variable else ""
        return f"{kind}{self.name} ({found} of {self.size:,} numbers)"


def first_bad(
    session: tf.Session, results: Sequence[tf.Tensor], feed: Dict[tf.Tensor, Any]
) -> Optional[Fault]:
    """Return where the numbers behind `results` stop being finite.

    Variables are checked first. Then inputs that are not finite are followed backwards
    from the results, to an op whose inputs all are finite; of several, the one created
    first. An infinity that a later op removes, a mask for example, is not reported.

    Args:
      session: holds the variables.
      results: float tensors of its graph, the loss and the gradients for example.
      feed: values for the tensors that the graph reads, as `session.run` takes them.

    Returns:
      The fault; None where the results are finite.
    """
    with session.graph.as_default():
        variables = float_variables()
        for variable, is_finite in zip(
            variables, session.run(finite_checks(variables))
        ):
            if not is_finite:
                return _fault(variable.op.name, True, session.run(variable))
        return _first_bad_op(session, [tf.identity(x) for x in results], feed)


def float_variables() -> List[tf.Variable]:
    """Return the variables of the current graph in a checkpoint, without integers."""
    return [
        variable
        for variable in tf.global_variables()
        if variable.dtype.base_dtype.is_floating
    ]


def finite_checks(tensors: Sequence[tf.Tensor]) -> List[tf.Tensor]:
    """Return a bool scalar for each float tensor: whether all numbers are finite."""
    every = {}  # all the axes of a rank; one op for all, for there may be thousands
    checks = []
    for x in tensors:
        rank = x.shape.ndims
        if rank is None:
            x, rank = tf.reshape(x, [-1]), 1
        if rank not in every:
            every[rank] = tf.range(rank)
        checks.append(tf.raw_ops.All(input=tf.is_finite(x), axis=every[rank]))
    return checks


def _first_bad_op(session, results, feed):
    """Return the op where the numbers of `results` stop being finite, a Fault."""
    ops = _ancestors(results, feed)
    tensors = [x for op in ops for x in op.outputs if x.dtype.base_dtype.is_floating]
    finite = session.run(finite_checks(tensors), feed)
    bad = {x.name for x, is_finite in zip(tensors, finite) if not is_finite}
    waiting, seen, origins = [x for x in results if x.name in bad], set(), []
    while waiting:
        tensor = waiting.pop()
        if tensor.name not in seen:
            seen.add(tensor.name)
            before = [x for x in tensor.op.inputs if x.name in bad]
            waiting += before
            origins += [] if before else [tensor]
    if not origins:
        return None
    place = {op.name: i for i, op in enumerate(session.graph.get_operations())}
    origin = min(origins, key=lambda x: place[x.op.name])
    return _fault(origin.op.name, False, session.run(origin, feed))


def _ancestors(results, feed):
    """Return the ops that `results` depend on.

    Left out are tensors that are fed, and the insides of loops and conditions, which
    cannot be read from outside.
    """
    fed, found, waiting = {x.name for x in feed}, {}, [x.op for x in results]
    while waiting:
        op = waiting.pop()
        if op.name not in found and op._get_control_flow_context() is None:
            found[op.name] = op
            waiting += [x.op for x in op.inputs if x.name not in fed]
    return list(found.values())


def _fault(name, is_variable, value):
    value = np.asarray(value, np.float64)
    return Fault(
        name,
        is_variable,
        int(np.isnan(value).sum()),
        int(np.isinf(value).sum()),
        value.size,
    )


class NotFiniteElsewhere(FloatingPointError):
    """What is not finite comes from another worker."""


class FiniteGuard:
    """Ends a training run whose numbers are not finite, and says where that began.

    Args:
      session: the session of the training run.
      update: its Update.
      feed: function of the number of a run of `update`; returns what to feed for it.
      hp: the settings.
      logdir: the log directory.
      has_others: whether other workers compute, too.
    """

    def __init__(
        self,
        session: tf.Session,
        update,
        feed: Callable[[int], Dict],
        hp,
        logdir: str,
        has_others: bool = False,
    ):
        self._session, self._feed, self._hp, self._logdir = session, feed, hp, logdir
        self._metrics, self._runs = update.metrics, update.runs
        self._results = list(update.local_loss_and_norm)
        self._has_others = has_others
        self._scale = update.metrics.scaling[:1]  # of the loss, in float16
        with session.graph.as_default():
            self._are_finite = tf.reduce_all(finite_checks(float_variables()))

    def check_before_saving(self, step: int) -> None:
        """Raise FloatingPointError where training could not continue after `step`.

        The variables, or the loss of what comes next, are then not finite; such a
        checkpoint must not replace a good one. (An update that float16 skips is none.)
        """
        are_finite, results, scale = self._session.run(
            [self._are_finite, self._results, self._scale],
            self._feed(step * self._runs),
        )
        is_skipped = any(each > FLOOR for each in scale)
        if not are_finite or not (np.all(np.isfinite(results)) or is_skipped):
            raise self.error(step)

    def error(self, step: int) -> FloatingPointError:
        """Return what is wrong with the update that follows `step` updates.

        The runs of the update are made again, one by one.
        """
        for part in range(self._runs):
            feed = self._feed(step * self._runs + part)
            loss, norm, rate = self._session.run(
                [*self._results, self._metrics.learning_rate], feed
            )
            fault = first_bad(self._session, self._results, feed)
            if fault:
                break
        if not fault and np.isfinite(loss + norm) and self._has_others:
            return NotFiniteElsewhere(
                f"step {step + 1}: found a loss or gradient norm that is not finite in "
                "what another worker computed, or in the sum, wanted finite ones"
            )
        kind = "batch" if self._runs == self._hp.accumulate else "part"
        where = f" in {kind} {part + 1} of {self._runs} of the update"
        where *= self._runs > 1
        return FloatingPointError(
            f"step {step + 1}: found loss {loss} and gradient norm {norm}{where}, "
            f"wanted finite ones; the first bad tensor is "
            f"{fault or 'the sum of all of it'}; {self._last_good(step)}; lower "
            f"--learning_rate (the rate is {rate:.3g}) or set --clip_norm"
        )

    def _last_good(self, step):
        """Return which checkpoint training can continue from, in words."""
        saved = checkpoints.steps(self._logdir)
        if not saved:
            return "there is no checkpoint yet"
        newest = checkpoints.path_of(self._logdir, saved[-1])
        if saved[-1] < step or len(saved) == 1:
            return f"the last good checkpoint is {newest}"
        return (
            f"{newest} leads here: the last good checkpoint is that of step "
            f"{saved[-2]}, remove the files {newest}.* to continue from it"
        )
