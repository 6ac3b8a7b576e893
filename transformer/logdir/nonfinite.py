"""End a training run at NaN or infinity; name the variable or gradient and the step."""

import dataclasses
from typing import Callable, Dict

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.logdir.manifests import list_steps
from transformer.logdir.names import checkpoint_path
from transformer.training import Update
from transformer.workers.team import NotFiniteElsewhere


@dataclasses.dataclass
class FiniteGuard:
    """End a training run whose numbers are not finite, and name those numbers.

    Args:
      session: the session of the run.
      update: the Update of the run.
      feed: function of the position of a shard in the run; returns the feed with which
        a session run computes it.
      logdir: the log directory.
      has_other_workers: whether there are other workers.
    """

    session: tf.Session
    update: Update
    feed: Callable[[int], Dict]
    logdir: str
    has_other_workers: bool = False

    def __post_init__(self):
        with self.session.graph.as_default():
            self._variables = {
                f"variable {variable.op.name}": tf.reduce_all(tf.is_finite(variable))
                for variable in tf.global_variables()
                if variable.dtype.base_dtype.is_floating
            }

    def check_before_saving(self, step: int) -> None:
        """Raise FloatingPointError if the variables after `step` are not finite.

        Such a checkpoint must not replace a good one.
        """
        if self._describe_not_finite(self._variables, {}):
            raise self.make_error(step)

    def make_error(self, step: int) -> FloatingPointError:
        """Describe what is not finite in the update that follows `step` updates.

        The session runs of the update are repeated, one by one.
        """
        num_runs = self.update.num_runs
        for position in range(step * num_runs, (step + 1) * num_runs):
            feed = self.feed(position)
            loss, norm = self.session.run(self.update.local_loss_and_norm, feed)
            if not np.isfinite(loss + norm):
                break
        culprit = self._describe_not_finite(self._variables, {})
        if not culprit and np.isfinite(loss + norm) and self.has_other_workers:
            return NotFiniteElsewhere(
                f"step {step + 1}: expected a finite loss and gradient, got NaN or "
                "infinity from another worker, or in the sum"
            )
        culprit = culprit or self._describe_not_finite(self._gradients(), feed)
        latest = reversed(list_steps(self.logdir)[-2:])
        paths = [checkpoint_path(self.logdir, saved_step) for saved_step in latest]
        return FloatingPointError(
            f"step {step + 1}: expected a finite loss and gradient, got loss {loss}, "
            f"gradient norm {norm}{culprit}; the latest checkpoints are "
            f"{', '.join(paths) or 'none'}; lower learning_rate or set clip_norm; "
            "if it happens again, remove the newest checkpoint"
        )

    def _gradients(self) -> Dict[str, tf.Tensor]:
        """Make the tests of the gradient of each variable: name → bool scalar."""
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

    def _describe_not_finite(self, is_finite: Dict[str, tf.Tensor], feed: Dict) -> str:
        """Name the first tensor that is not finite, and count them; "" for none.

        Args:
          is_finite: name → bool scalar.
          feed: tensors → values.
        """
        values = self.session.run(is_finite, feed)
        names = [name for name in is_finite if not values[name]]
        more = f", the first of {len(names)}," if len(names) > 1 else ""
        return f"; the {names[0]}{more} is not finite" if names else ""
