"""Search: from a step function to the best sequences. It knows nothing about a model.

    step(ids [M] int32, state) -> (log-probabilities [M, V] of the next piece, state)

M is N sentences times K hypotheses, those of one sentence in a row. `state` is any nest
of tensors of leading dimension M; a dimension that starts at 0 may grow. The last place
of a sequence, by its own limit, may hold nothing but EOS: so every result is a whole
sentence, and its score is what the model says of it. (tensor2tensor cuts off instead:
`SearchOptions(must_end=False)`.)
"""
import functools
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from transformer.primitives import shape_list
from transformer.text import BOS, EOS, PAD

NEVER = float("-inf")


class Hypotheses(NamedTuple):
    """What a search finds, best first."""

    ids: tf.Tensor     # int32 [N, n_best, T]: pieces, EOS, then PAD
    scores: tf.Tensor  # float32 [N, n_best]: log-probability / length penalty


class SearchOptions(NamedTuple):
    """How to search."""

    beam_size: int = 4
    length_penalty: float = 0.6  # alpha
    n_best: int = 1              # how many hypotheses a sentence gets
    must_end: bool = True        # at its limit a hypothesis ends, however unlikely
    stop_early: bool = False     # done when the best is certain, not all the n best
    bos: int = BOS               # what stands before a sequence
    eos: int = EOS               # what ends it


def penalty(length, alpha):
    """((5 + length) / 6) ^ alpha, EOS counted (Wu et al. 2016, equation 14)."""
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** alpha


def greedy(step, state, limits, options):
    """Takes the likeliest piece at each position.

    Args:
      step: the step function (see above).
      state: the state before the first position; M = N.
      limits: int32 [N], the most pieces of each sequence, EOS included; at least 1.
      options: SearchOptions; only `length_penalty` counts.

    Returns:
      Hypotheses with n_best = 1.
    """
    return _follow_one_path(step, state, limits, options, functools.partial(
        tf.argmax, axis=-1, output_type=tf.int32))


def sample(step, state, limits, options):
    """Draws each piece from the model's distribution; otherwise like `greedy`."""
    def draw(log_probs):
        return tf.random.categorical(log_probs, 1, dtype=tf.int32)[:, 0]
    return _follow_one_path(step, state, limits, options, draw)


def _follow_one_path(step, state, limits, options, choose):
    """One hypothesis a sentence; `choose`: log-probabilities [N, V] → pieces [N]."""
    batch = tf.shape(limits)[0]

    def is_open(ids, log_prob, done, state):
        return tf.logical_not(tf.reduce_all(done))

    def extend(ids, log_prob, done, state):
        log_probs, state = step(ids[:, -1], state)                     # [N, V]
        log_probs = _only_end_at_limit(log_probs, tf.shape(ids)[1], limits,
                                       options.eos)
        piece = tf.where(done, tf.fill([batch], PAD), choose(log_probs))
        gained = tf.gather(log_probs, piece[:, None], batch_dims=1)[:, 0]
        log_prob += tf.where(done, tf.zeros([batch]), gained)
        ids = tf.concat([ids, piece[:, None]], axis=1)                 # [N, t + 1]
        done = tf.logical_or(done, tf.equal(piece, options.eos))
        return ids, log_prob, done, state

    ids, log_prob, _, _ = _loop(is_open, extend, (
        tf.fill([batch, 1], options.bos), tf.zeros([batch]),
        tf.fill([batch], False)), state)
    ids = ids[:, 1:]
    lengths = tf.reduce_sum(tf.cast(tf.not_equal(ids, PAD), tf.int32), -1)
    scores = log_prob / penalty(lengths, options.length_penalty)
    return Hypotheses(ids[:, None, :], scores[:, None])


def beam(step, state, limits, options):
    """Beam search with length penalty (section 6.1; Wu et al. 2016, section 7).

    Each step looks at the 2K best continuations: those that end join the K best
    finished ones, the K best others stay open. A sentence is done when even its best
    open hypothesis, were it to cost nothing more and grow to the limit, could not enter
    the n best: what is found afterwards, while other sentences of the batch go on,
    changes nothing.

    Without `must_end`, what is still open at the limit is dropped; a sentence of which
    nothing has ended gets its open hypotheses, scored by their log-probabilities. With
    `stop_early`, a sentence is done when its best is certain: the others depend on how
    long the other sentences of the batch go on.

    Args, Returns: as in `greedy`, with M = N * beam_size; a beam of one is `greedy`,
      if it must end.

    Raises:
      ValueError: more hypotheses asked for than the beam holds.
    """
    size = options.beam_size
    if options.n_best > size:
        raise ValueError(f"n_best: found {options.n_best}, wanted at most the beam "
                         f"size, {size}")
    if size == 1 and options.must_end:
        return greedy(step, state, limits, options)
    batch = tf.shape(limits)[0]
    last_penalty = penalty(limits, options.length_penalty)             # [N]
    rival = 0 if options.stop_early else options.n_best - 1

    def is_open(ids, log_probs, found, scores, state):
        hope = tf.reduce_max(log_probs, axis=1) / last_penalty         # [N]
        return tf.reduce_any(hope > scores[:, rival])

    def extend(ids, log_probs, found, scores, state):
        length = tf.shape(ids)[2]
        step_log_probs, state = step(tf.reshape(ids[:, :, -1], [-1]), state)  # [N*K, V]
        if options.must_end:
            step_log_probs = _only_end_at_limit(
                step_log_probs, length, tf.repeat(limits, size), options.eos)
        log_probs, origins, pieces = _best_continuations(
            log_probs, step_log_probs, 2 * size)                       # [N, 2K] each
        candidates = tf.concat([tf.gather(ids, origins, batch_dims=1),
                                pieces[:, :, None]], axis=2)           # [N, 2K, t + 1]
        ends, never = tf.equal(pieces, options.eos), tf.fill(tf.shape(pieces), NEVER)

        new_scores = log_probs / penalty(length, options.length_penalty)
        scores, kept = tf.nn.top_k(
            tf.concat([scores, tf.where(ends, new_scores, never)], axis=1), size)
        found = tf.pad(found, [[0, 0], [0, 0], [0, 1]])                # [N, K, t + 1]
        found = tf.gather(tf.concat([found, candidates], axis=1), kept, batch_dims=1)

        log_probs, kept = tf.nn.top_k(tf.where(ends, never, log_probs), size)
        ids = tf.gather(candidates, kept, batch_dims=1)                # [N, K, t + 1]
        if not options.must_end:
            found, scores, log_probs = _close_at_limit(
                tf.equal(length, limits), found, scores, ids, log_probs)
        origins = tf.gather(origins, kept, batch_dims=1)               # [N, K]
        rows = tf.reshape(origins + size * tf.range(batch)[:, None], [-1])
        state = tf.nest.map_structure(lambda x: tf.gather(x, rows), state)
        return ids, log_probs, found, scores, state

    start = tf.fill([batch, size, 1], options.bos)
    only_first = tf.tile([[0.0] + [NEVER] * (size - 1)], [batch, 1])
    _, _, found, scores, _ = _loop(is_open, extend, (
        start, only_first, start, tf.fill([batch, size], NEVER)), state)
    return Hypotheses(found[:, :options.n_best, 1:], scores[:, :options.n_best])


SEARCHES = {"greedy": greedy, "beam": beam, "sample": sample}


def _only_end_at_limit(log_probs, length, limits, eos):
    """[M, V] log-probabilities, those of all but `eos` gone where one place is left.

    Args:
      length: scalar, the number of the place now being filled, from 1.
      limits: int32 [M], the number of the last place.
    """
    ends = tf.equal(tf.range(shape_list(log_probs)[1]), eos)           # [V]
    allowed = tf.logical_or(ends[None, :], (length < limits)[:, None])
    return tf.where_v2(allowed, log_probs, NEVER)


def _close_at_limit(at_limit, found, scores, ids, log_probs):
    """Where a sentence is at its limit, no hypothesis stays open; the open ones are its
    results where there are no others.

    Args:
      at_limit: bool [N].
      found, scores: the finished hypotheses, [N, K, t + 1] and [N, K].
      ids, log_probs: the open ones, likewise.

    Returns:
      (found, scores, log_probs).
    """
    rescued = tf.logical_and(at_limit, tf.equal(scores[:, 0], NEVER))  # [N]
    found = tf.where(rescued, ids, found)
    scores = tf.where(rescued, log_probs, scores)
    never = tf.fill(tf.shape(log_probs), NEVER)
    return found, scores, tf.where(at_limit, never, log_probs)


def _best_continuations(log_probs, step_log_probs, count):
    """The best continuations of the open hypotheses of each sentence.

    Args:
      log_probs: float [N, K].
      step_log_probs: float [N * K, V].
      count: int.

    Returns:
      (log-probabilities, hypotheses continued, pieces), [N, count] each, best first.
    """
    batch, size = shape_list(log_probs)
    vocab_size = shape_list(step_log_probs)[1]
    totals = tf.reshape(log_probs, [-1, 1]) + step_log_probs           # [N*K, V]
    totals = tf.reshape(totals, [batch, size * vocab_size])
    best, places = tf.nn.top_k(totals, count)                          # [N, count]
    return best, places // vocab_size, places % vocab_size


def _loop(is_open, extend, start, state):
    """tf.while_loop over the search's own tensors and the step function's state."""
    def of_any_size(x):
        return tf.TensorShape([None] * x.shape.ndims)

    def of_any_batch(x):
        return tf.TensorShape([None] + [size or None for size in x.shape.as_list()[1:]])

    shapes = (*map(of_any_size, start), tf.nest.map_structure(of_any_batch, state))
    return tf.while_loop(is_open, extend, (*start, state), shape_invariants=shapes,
                         back_prop=False)
