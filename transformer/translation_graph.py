"""The graph of a translator: the search, and what is computed of translations."""

from typing import Dict, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from transformer.blocks.masks import is_token
from transformer.blocks.shapes import as_int64
from transformer.decoding import SEARCHES, SearchOptions, hypotheses_kept, penalty
from transformer.ensemble import Member, make_model
from transformer.runtime import checkpoints


class Inside(NamedTuple):
    """What the model computes of given translations: tensors, or their values."""

    weights: Dict[str, tf.Tensor]  # attention, [N, H, Tq, Tk], by scope name
    log_probs: tf.Tensor  # float [N, T, V], of every piece at each position
    of_target: tf.Tensor  # float [N, T], of the target's pieces; 0 for padding


class TranslationGraph:
    """The ops of a translator, made in the current graph.

    Args:
      members: the Members; several are averaged. The first says how to search.
      options: SearchOptions.
    """

    def __init__(self, members: Sequence[Member], options: SearchOptions):
        self._hp = members[0].hp
        self.source = tf.placeholder(tf.int32, [None, None], "source")  # [N, S]
        self.target_in = tf.placeholder(tf.int32, [None, None], "target_in")  # [N, T]
        self.target_out = tf.placeholder(tf.int32, [None, None], "target_out")
        self.prefix = tf.placeholder_with_default(
            tf.zeros([tf.shape(self.source)[0], 0], tf.int32), [None, None], "prefix"
        )
        model, weights = make_model(members), {}
        memory = model.encode(self.source, weights=weights)
        search, options = self._hp.search, options._replace(prefix=self.prefix)
        kept = hypotheses_kept(search, self._hp.beam_size)
        step, state = model.start_search(memory, kept)
        self.found = SEARCHES[search](step, state, self._limits(), options)
        self.inside = self._look_inside(model, memory, weights)
        self.scores = self._score()
        self.savers = [checkpoints.make_saver(each.scope) for each in members]

    def _limits(self):
        """Return int64 [N], the most pieces that each translation may have."""
        limits = _count(self.source) + self._hp.max_extra_length  # both count EOS
        return tf.maximum(limits, _count(self.prefix) + 1)

    def _look_inside(self, model, memory, weights):
        """Return Inside, of the fed target."""
        logits = model.decode(self.target_in, memory, weights=weights)
        log_probs = tf.nn.log_softmax(logits)
        real = tf.cast(is_token(self.target_out), tf.float32)  # [N, T]
        of_target = tf.gather(log_probs, self.target_out[..., None], batch_dims=2)
        return Inside(weights, log_probs, of_target[..., 0] * real)

    def _score(self):
        """Return float [N]: log-probability of the target / length penalty."""
        length = _count(self.target_out)  # [N]
        return tf.reduce_sum(self.inside.of_target, -1) / penalty(
            length, self._hp.length_penalty
        )


def _count(ids):
    """Return how many of ids int32 [N, T] are not 0: int64 [N], see `as_int64`."""
    return tf.math.count_nonzero(as_int64(ids), 1)
