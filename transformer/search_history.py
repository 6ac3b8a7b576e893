"""The history of a beam search: every candidate of every step, for a picture of it.

With a beam of K, a step looks at the 2K best continuations of the open hypotheses.
Those that end are finished; the K best others stay open; the rest is cut.
"""

from typing import NamedTuple

import tensorflow.compat.v1 as tf


class SearchHistory(NamedTuple):
    """The candidates of each step, best first: [N, 2K, T] each."""

    pieces: tf.Tensor  # int32
    parents: tf.Tensor  # int32: which of the K open hypotheses it continues
    log_probs: tf.Tensor  # float32, of the whole hypothesis; -inf where it is none
    scores: tf.Tensor  # float32: log-probability / length penalty
    kept: tf.Tensor  # int32 [N, K, T]: the candidates that stay open, best first

    def followed_by(self, *of_step):
        """Return the SearchHistory with the fields of one more step at its end."""
        longer = [
            tf.concat([before, now[:, :, None]], axis=2)
            for before, now in zip(self, of_step)
        ]
        return SearchHistory(*longer)

    def finished(self):
        """Return the SearchHistory with int32 where a search has int64."""
        return SearchHistory(
            *[x if x.dtype.is_floating else tf.cast(x, tf.int32) for x in self]
        )


def no_history(batch, beam_size: int):
    """Return the SearchHistory before the first step.

    Args:
      batch: N.
      beam_size: int, K.
    """
    numbers = tf.zeros([batch, 2 * beam_size, 0])
    ids = tf.cast(numbers, tf.int64)
    return SearchHistory(ids, ids, numbers, numbers, ids[:, :beam_size])
