"""End a training run at NaN or infinity; name the variable or gradient and the step."""

import dataclasses
from typing import Any, Callable, Dict

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.logdir import checkpoints
from transformer.workers.team import NotFiniteElsewhere


@dataclasses.dataclass
class FiniteGuard:
    """End a training run whose numbers are not finite, and name those numbers.

    Args:
      session: the session of the run.
      update: the Update of the run.
      feed: function of the number of a session run of `update`; returns what to feed to
        it.
      logdir: the log directory.
      has_others: whether there are other workers.
    """

    session: tf.Session
    update: Any
    feed: Callable[[int], Dict]
    logdir: str
    has_others: bool = False

    def __post_init__(self):
        with self.session.graph.as_default():
            self._variables = {
                f"variable {each.op.name}": tf.reduce_all(tf.is_finite(each))
                for each in tf.global_variables()
                if each.dtype.base_dtype.is_floating
            }

    def check_before_saving(self, step: int) -> None:
        """Raise FloatingPointError if the variables after `step` are not finite.

        Such a checkpoint must not replace a good one.
        """
        if self._bad(self._variables, {}):
            raise self.error(step)

    def error(self, step: int) -> FloatingPointError:
        """Return what is wrong with the update that follows `step` updates.

        The session runs of the update are repeated, one by one.
        """
        for run in range(step * self.update.runs, (step + 1) * self.update.runs):
            feed = self.feed(run)
            loss, norm = self.session.run(self.update.local_loss_and_norm, feed)
            if not np.isfinite(loss + norm):
                break
        bad = self._bad(self._variables, {})
        if not bad and np.isfinite(loss + norm) and self.has_others:
            return NotFiniteElsewhere(
                f"step {step + 1}: expected a finite loss and gradient, got NaN or "
                "infinity from another worker, or in the sum"
            )
        bad = bad or self._bad(self._gradients(), feed)
        saved = checkpoints.steps(self.logdir)[-2:]
        names = [checkpoints.path_of(self.logdir, each) for each in reversed(saved)]
        return FloatingPointError(
            f"step {step + 1}: expected a finite loss and gradient, got loss {loss}, "
            f"gradient norm {norm}{bad}; the latest checkpoints are "
            f"{', '.join(names) or 'none'}; lower --learning_rate or set --clip_norm; "
            "if it happens again, remove the newest checkpoint"
        )

    def _gradients(self) -> Dict[str, tf.Tensor]:
        """Return whether the gradient with respect to each variable is finite."""
        with self.session.graph.as_default():
            variables = tf.trainable_variables()
            gradients = tf.gradients(self.update.local_loss_and_norm[0], variables)
            return {
                f"gradient of {variable.op.name}": tf.reduce_all(
                    tf.is_finite(tf.convert_to_tensor(gradient))
                )
                for variable, gradient in zip(variables, gradients)
                if gradient is not None
            }

    def _bad(self, finite: Dict[str, tf.Tensor], feed: Dict) -> str:
        """Return the first name whose tensor is not finite, and their number; or ""."""
        values = self.session.run(finite, feed)
        names = [name for name in finite if not values[name]]
        more = f", the first of {len(names)}," if len(names) > 1 else ""
        return f"; the {names[0]}{more} is not finite" if names else ""
