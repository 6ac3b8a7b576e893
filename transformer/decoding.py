"""Search: from a step function to the best sequences. It knows nothing about a model.

    step(ids [N, K], parents, state) -> (logits [N, K, V] of the next piece, state)

There are K hypotheses of each of N sentences. `ids`, int32, are their newest pieces;
`parents`, int32 [N, K], says which hypothesis of the step before each of them continues
(None where K is 1). `state` is what the step before returned: any nest of tensors of
leading dimension N; a dimension that starts at 0 may grow. The step function reorders
what the state holds of each hypothesis by `parents`: see `reorder`. (Within a search,
ids and parents are int64: see `as_int64`.)

At its limit a sequence may only end: every result is a whole sentence, and its score is
the model's. (tensor2tensor cuts off instead: `SearchOptions(must_end=False)`.)
"""

from typing import Any, Callable, NamedTuple, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.masks import is_token
from transformer.blocks.shapes import as_int64, followed_by_zeros, shape_list
from transformer.ranking import NEVER, best_continuations, rank
from transformer.search_history import no_history
from transformer.search_loop import search_loop
from transformer.text.vocabulary import BOS, EOS, PAD


class Hypotheses(NamedTuple):
    """What a search finds, best first."""

    ids: tf.Tensor  # int32 [N, n_best, T]: pieces, EOS, then PAD
    scores: tf.Tensor  # float32 [N, n_best]: log-probability / length penalty
    history: tuple = ()  # SearchHistory of a beam search, where it was asked for


class SearchOptions(NamedTuple):
    """How to search."""

    beam_size: int = 4
    length_penalty: float = 0.6  # alpha
    n_best: int = 1  # how many hypotheses a sentence gets
    must_end: bool = True  # at its limit a hypothesis ends, however unlikely
    bos: int = BOS  # what stands before a sequence
    eos: int = EOS  # what ends it
    forbidden: Tuple[int, ...] = ()  # pieces that no sequence may have; not EOS
    prefix: Any = None  # int32 [N, P]: what sequences begin with; PAD: any piece
    keep_history: bool = False  # a beam search returns its SearchHistory


def penalty(length, alpha: float):
    """Return ((5 + length) / 6) ^ alpha, EOS counted (Wu et al. 2016, equation 14)."""
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** alpha


def reorder(state, parents):
    """Give each hypothesis what its parent had: a nest of tensors [N, K, ...]."""
    if parents is None:
        return state
    return tf.nest.map_structure(lambda x: tf.gather(x, parents, batch_dims=1), state)


def greedy(step: Callable, state, limits, options: SearchOptions):
    """Take the likeliest piece at each position.

    Args:
      step: the step function (see above); K = 1.
      state: the state before the first position.
      limits: int32 [N], the most pieces of each sequence, EOS included; at least 1.
      options: SearchOptions; `beam_size` is ignored.

    Returns:
      Hypotheses with n_best = 1.
    """

    def likeliest(logits, forced):
        log_probs, _, pieces = best_continuations(
            tf.zeros_like(logits[:, :, 0]), logits, 1, forced, options.forbidden
        )
        return log_probs, pieces

    return _follow_one_path(step, state, limits, options, likeliest)


def sample(step: Callable, state, limits, options: SearchOptions):
    """Draw each piece from the model's distribution; otherwise like `greedy`."""

    def draw(logits, forced):
        every_piece = range(shape_list(logits)[2])
        is_allowed = [piece not in options.forbidden for piece in every_piece]  # [V]
        log_probs = tf.nn.log_softmax(logits[:, 0, :])
        allowed = tf.where_v2(is_allowed, log_probs, NEVER)  # [N, V]
        pieces = tf.random.categorical(allowed, 1)  # [N, 1]
        pieces = tf.minimum(pieces, len(every_piece) - 1)  # where all are NaN, it is V
        forced = forced[:, None]
        pieces = tf.where_v2(tf.equal(forced, PAD), pieces, forced)
        return tf.gather(log_probs, pieces, batch_dims=1), pieces

    return _follow_one_path(step, state, limits, options, draw)


def _follow_one_path(step, state, limits, options, choose):
    """Search with one hypothesis of each sentence.

    Args:
      step, state, limits, options: as in `greedy`.
      choose: function of logits [N, 1, V] and of what `_forced` returns; returns
        (log-probabilities, pieces), [N, 1] each.
    """

    def is_open(found, has_ended, limits, prefix):
        return tf.logical_not(has_ended)

    def extend(found, has_ended, limits, prefix, state):
        ids, log_probs = found  # [N, 1, t]
        newest = tf.cast(ids[:, :, -1], tf.int32)
        logits, state = step(newest, None, state)  # [N, 1, V]
        gained, pieces = choose(logits, _forced(ids, limits, prefix, True, options))
        ended = has_ended[:, None]
        taken = tf.where_v2(ended, np.int64(PAD), pieces)
        ids = tf.concat([ids, taken[:, :, None]], axis=2)
        log_probs += tf.where_v2(ended, 0.0, gained)
        has_ended = tf.logical_or(has_ended, tf.equal(pieces[:, 0], options.eos))
        return (ids, log_probs), has_ended, limits, prefix, state

    batch = tf.shape(limits)[0]
    start = _before(batch, 1, options), tf.zeros([batch, 1])
    extras = tf.fill([batch], False), as_int64(limits), _prefix(batch, options)
    ids, log_probs = search_loop(is_open, extend, start, extras, state)
    ids = ids[:, :, 1:]  # [N, 1, T]
    lengths = tf.reduce_sum(tf.cast(is_token(ids), tf.float32), -1)
    return Hypotheses(
        tf.cast(ids, tf.int32), log_probs / penalty(lengths, options.length_penalty)
    )


def beam(step: Callable, state, limits, options: SearchOptions):
    """Search with a beam and a length penalty (section 6.1; Wu et al. 2016, section 7).

    Each step looks at the 2K best continuations: those that end join the K best
    finished ones, the K best others stay open. A sentence is done when its best open
    hypothesis could not enter the n best even if it grew to the limit at no further
    cost. So the results do not depend on the other sentences of the batch.

    Without `must_end`, what is still open at the limit is dropped; a sentence of which
    nothing has ended gets its open hypotheses, scored by their log-probabilities.

    Args, Returns: as in `greedy`, with K = beam_size; a beam of one is `greedy`, if it
      must end.

    Raises:
      ValueError: more hypotheses asked for than the beam holds.
    """
    beam_size = options.beam_size
    if options.n_best > beam_size:
        raise ValueError(
            f"n_best: found {options.n_best}, wanted at most the beam size, {beam_size}"
        )
    if beam_size == 1 and options.must_end:
        return greedy(step, state, limits, options)

    def is_open(found, ids, log_probs, parents, limits, prefix):
        bound = log_probs[:, 0] / penalty(limits, options.length_penalty)  # [N]
        return bound > found.scores[:, options.n_best - 1]

    def extend(found, ids, log_probs, parents, limits, prefix, state):
        length = tf.shape(ids)[2]
        forced = _forced(ids, limits, prefix, options.must_end, options)
        newest, order = (tf.cast(x, tf.int32) for x in (ids[:, :, -1], parents))
        logits, state = step(newest, order, state)  # [N, K, V]
        log_probs, parents, pieces = best_continuations(
            log_probs, logits, 2 * beam_size, forced, options.forbidden
        )  # [N, 2K]
        candidates = tf.concat([reorder(ids, parents), pieces[:, :, None]], axis=2)
        ends = tf.equal(pieces, options.eos)
        scores = log_probs / penalty(length, options.length_penalty)
        of_step = pieces, parents, log_probs, scores
        found = _best_finished(
            found, candidates, tf.where_v2(ends, scores, NEVER), beam_size
        )
        log_probs, kept = rank(tf.where_v2(ends, NEVER, log_probs), beam_size)
        ids, parents = reorder((candidates, parents), kept)  # [N, K, ...]
        if not options.must_end:
            at_limit = tf.equal(as_int64(length), limits)  # [N]
            found, log_probs = _close_at_limit(at_limit, found, ids, log_probs)
        if options.keep_history:
            history = found.history.followed_by(*of_step, kept)
            found = found._replace(history=history)
        return found, ids, log_probs, parents, limits, prefix, state

    found = search_loop(is_open, extend, *_start_of_beam(limits, options), state)
    return Hypotheses(
        tf.cast(found.ids[:, : options.n_best, 1:], tf.int32),
        found.scores[:, : options.n_best],
        found.history and found.history.finished(),
    )


SEARCHES = {"greedy": greedy, "beam": beam, "sample": sample}
SINGLE = ("greedy", "sample")  # those that keep one hypothesis of a sentence
RANDOM = ("sample",)  # those whose results depend on the order of the sentences


def hypotheses_kept(search: str, beam_size: int) -> int:
    """Return K of the step function: the beam size, where the search has a beam."""
    return 1 if search in SINGLE else beam_size


def _start_of_beam(limits, options):
    """Return (what was found before the first step, what is open) of a beam search."""
    batch, beam_size = tf.shape(limits)[0], options.beam_size
    ids = _before(batch, beam_size, options)
    only_first = tf.tile([[0.0] + [NEVER] * (beam_size - 1)], [batch, 1])
    parents = tf.zeros([batch, beam_size], tf.int64)
    history = no_history(batch, beam_size) if options.keep_history else ()
    found = Hypotheses(ids, tf.fill([batch, beam_size], NEVER), history)
    extras = ids, only_first, parents, as_int64(limits), _prefix(batch, options)
    return found, extras


def _before(batch, beam_size, options):
    """Return the hypotheses before the first step: int64 [N, K, 1]."""
    return tf.fill([batch, beam_size, 1], np.int64(options.bos))


def _prefix(batch, options):
    """Return what the sequences begin with: int64 [N, P + 1], the last column PAD."""
    if options.prefix is None:
        return tf.fill([batch, 1], np.int64(PAD))
    return followed_by_zeros(as_int64(options.prefix), 1, axis=1)


def _forced(ids, limits, prefix, must_end, options):
    """Return the piece that each sequence must take next, PAD where it may choose.

    Args:
      ids: int64 [N, K, t], BOS and what the sequences have so far.
      limits: int64 [N].
      prefix: what `_prefix` returns.
      must_end: bool, whether EOS is forced at the limit.
      options: SearchOptions.

    Returns:
      int64 [N].
    """
    length = tf.shape(ids)[2]
    forced = prefix[:, tf.minimum(length, tf.shape(prefix)[1]) - 1]  # [N]
    if must_end:
        at_limit = tf.equal(as_int64(length), limits)
        forced = tf.where_v2(at_limit, np.int64(options.eos), forced)
    return forced


def _best_finished(found, candidates, scores, beam_size):
    """Return the K best of the finished hypotheses and of new ones.

    Args:
      found: Hypotheses, [N, K, t]; its history stays.
      candidates: int64 [N, 2K, t + 1].
      scores: float [N, 2K]; NEVER where a candidate has not ended.
      beam_size: int, K.
    """
    scores, kept = rank(tf.concat([found.scores, scores], axis=1), beam_size)
    ids = followed_by_zeros(found.ids, 1, axis=2)  # [N, K, t + 1]
    ids = reorder(tf.concat([ids, candidates], axis=1), kept)
    return found._replace(ids=ids, scores=scores)


def _close_at_limit(at_limit, found, ids, log_probs):
    """Close the open hypotheses of sentences at their limit.

    They are the results of a sentence that has no finished ones.

    Args:
      at_limit: bool [N].
      found: Hypotheses, the finished ones, [N, K, t + 1] and [N, K].
      ids, log_probs: the open ones, likewise.

    Returns:
      (found, log_probs).
    """
    rescued = tf.logical_and(at_limit, tf.equal(found.scores[:, 0], NEVER))  # [N]
    found = found._replace(
        ids=tf.where(rescued, ids, found.ids),
        scores=tf.where(rescued, log_probs, found.scores),
    )
    never = tf.fill(tf.shape(log_probs), NEVER)
    return found, tf.where(at_limit, never, log_probs)
