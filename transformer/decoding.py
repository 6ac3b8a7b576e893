"""Search: from a step function to the best sequences. It knows nothing about a model.

    step(ids [N, K], parents, state) -> (logits [N, K, V] of the next piece, state)

There are K hypotheses of each of N sentences. `ids`, int32, are their newest pieces;
`parents`, int32 [N, K], says which hypothesis of the step before each of them continues
(None in a search of one hypothesis). `state` is what the step before returned: any nest
of tensors of leading dimension N; a dimension that starts at 0 may grow. What it holds
of each hypothesis, the step function brings in line with `parents`: see `follow`.

The last place of a sequence, by its own limit, may hold nothing but EOS: so every
result is a whole sentence, and its score is what the model says of it. (tensor2tensor
cuts off instead: `SearchOptions(must_end=False)`.) Sentences that are done leave the
batch.
"""

from typing import NamedTuple, Tuple

import tensorflow.compat.v1 as tf

from transformer.blocks.primitives import shape_list
from transformer.text.vocabulary import BOS, EOS, PAD

NEVER = float("-inf")


class Hypotheses(NamedTuple):
    """What a search finds, best first."""

    ids: tf.Tensor  # int32 [N, n_best, T]: pieces, EOS, then PAD
    scores: tf.Tensor  # float32 [N, n_best]: log-probability / length penalty


class SearchOptions(NamedTuple):
    """How to search."""

    beam_size: int = 4
    length_penalty: float = 0.6  # alpha
    n_best: int = 1  # how many hypotheses a sentence gets
    must_end: bool = True  # at its limit a hypothesis ends, however unlikely
    stop_early: bool = False  # done when the best is certain, not all the n best
    bos: int = BOS  # what stands before a sequence
    eos: int = EOS  # what ends it
    unsaid: Tuple[int, ...] = ()  # pieces that no sequence may hold; not EOS


def penalty(length, alpha):
    """((5 + length) / 6) ^ alpha, EOS counted (Wu et al. 2016, equation 14)."""
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** alpha


def follow(state, parents):
    """A nest of tensors [N, K, ...], where each hypothesis gets what its parent had."""
    if parents is None:
        return state
    return tf.nest.map_structure(lambda x: tf.gather(x, parents, batch_dims=1), state)


def greedy(step, state, limits, options):
    """Takes the likeliest piece at each position.

    Args:
      step: the step function (see above); K = 1.
      state: the state before the first position.
      limits: int32 [N], the most pieces of each sequence, EOS included; at least 1.
      options: SearchOptions; the size of the beam does not count.

    Returns:
      Hypotheses with n_best = 1.
    """

    def likeliest(logits, at_limit):
        log_probs, _, pieces = _best_continuations(
            tf.zeros_like(logits[:, :, 0]), logits, 1, at_limit, options
        )
        return log_probs, pieces

    return _follow_one_path(step, state, limits, options, likeliest)


def sample(step, state, limits, options):
    """Draws each piece from the model's distribution; otherwise like `greedy`."""

    def draw(logits, at_limit):
        every_piece = range(shape_list(logits)[2])
        is_end = [piece == options.eos for piece in every_piece]  # [V]
        is_said = [piece not in options.unsaid for piece in every_piece]
        allowed = tf.where_v2(at_limit[:, None], is_end, is_said)  # [N, V]
        log_probs = tf.nn.log_softmax(logits[:, 0, :])
        log_probs = tf.where_v2(allowed, log_probs, NEVER)
        pieces = tf.random.categorical(log_probs, 1, dtype=tf.int32)  # [N, 1]
        return tf.gather(log_probs, pieces, batch_dims=1), pieces

    return _follow_one_path(step, state, limits, options, draw)


def _follow_one_path(step, state, limits, options, choose):
    """One hypothesis a sentence.

    Args:
      choose: logits [N, 1, V] and which sentences may but end, bool [N] →
        (log-probabilities, pieces), [N, 1] each.
    """

    def is_open(found, has_ended, limits):
        return tf.logical_not(has_ended)

    def extend(found, has_ended, limits, state):
        ids, log_probs = found  # [N, 1, t]
        logits, state = step(ids[:, :, -1], None, state)  # [N, 1, V]
        gained, pieces = choose(logits, tf.equal(tf.shape(ids)[2], limits))
        ended = has_ended[:, None]
        ids = tf.concat([ids, tf.where_v2(ended, PAD, pieces)[:, :, None]], axis=2)
        log_probs += tf.where_v2(ended, 0.0, gained)
        has_ended = tf.logical_or(has_ended, tf.equal(pieces[:, 0], options.eos))
        return (ids, log_probs), has_ended, limits, state

    batch = tf.shape(limits)[0]
    start = tf.fill([batch, 1, 1], options.bos), tf.zeros([batch, 1])
    ids, log_probs = _loop(
        is_open, extend, start, (tf.fill([batch], False), limits), state
    )
    ids = ids[:, :, 1:]  # [N, 1, T]
    lengths = tf.reduce_sum(tf.cast(tf.not_equal(ids, PAD), tf.int32), -1)
    return Hypotheses(ids, log_probs / penalty(lengths, options.length_penalty))


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

    Args, Returns: as in `greedy`, with K = beam_size; a beam of one is `greedy`, if it
      must end.

    Raises:
      ValueError: more hypotheses asked for than the beam holds.
    """
    size = options.beam_size
    if options.n_best > size:
        raise ValueError(
            f"n_best: found {options.n_best}, wanted at most the beam size, {size}"
        )
    if size == 1 and options.must_end:
        return greedy(step, state, limits, options)
    rival = 0 if options.stop_early else options.n_best - 1

    def is_open(found, ids, log_probs, parents, limits):
        hope = log_probs[:, 0] / penalty(limits, options.length_penalty)  # [N]
        return hope > found.scores[:, rival]

    def extend(found, ids, log_probs, parents, limits, state):
        length = tf.shape(ids)[2]
        logits, state = step(ids[:, :, -1], parents, state)  # [N, K, V]
        log_probs, parents, pieces = _best_continuations(
            log_probs, logits, 2 * size, tf.equal(length, limits), options
        )
        candidates = tf.concat([follow(ids, parents), pieces[:, :, None]], axis=2)
        ends, never = tf.equal(pieces, options.eos), tf.fill(tf.shape(pieces), NEVER)

        new_scores = log_probs / penalty(length, options.length_penalty)
        scores, kept = tf.nn.top_k(
            tf.concat([found.scores, tf.where(ends, new_scores, never)], axis=1), size
        )
        sequences = tf.pad(found.ids, [[0, 0], [0, 0], [0, 1]])  # [N, K, t + 1]
        sequences = follow(tf.concat([sequences, candidates], axis=1), kept)
        found = Hypotheses(sequences, scores)

        log_probs, kept = tf.nn.top_k(tf.where(ends, never, log_probs), size)
        ids, parents = follow((candidates, parents), kept)  # [N, K, ...]
        if not options.must_end:
            found, log_probs = _close_at_limit(
                tf.equal(length, limits), found, ids, log_probs
            )
        return found, ids, log_probs, parents, limits, state

    batch = tf.shape(limits)[0]
    ids = tf.fill([batch, size, 1], options.bos)
    only_first = tf.tile([[0.0] + [NEVER] * (size - 1)], [batch, 1])
    found = _loop(
        is_open,
        extend,
        Hypotheses(ids, tf.fill([batch, size], NEVER)),
        (ids, only_first, tf.zeros([batch, size], tf.int32), limits),
        state,
        together=options.stop_early,
    )
    return Hypotheses(
        found.ids[:, : options.n_best, 1:], found.scores[:, : options.n_best]
    )


SEARCHES = {"greedy": greedy, "beam": beam, "sample": sample}
SINGLE = ("greedy", "sample")  # those that keep one hypothesis of a sentence


def width(search, beam_size):
    """How many hypotheses of a sentence a search keeps, the K of its step function."""
    return 1 if search in SINGLE else beam_size


def _close_at_limit(at_limit, found, ids, log_probs):
    """Where a sentence is at its limit, no hypothesis stays open; the open ones are its
    results where there are no others.

    Args:
      at_limit: bool [N].
      found: the finished hypotheses, [N, K, t + 1] and [N, K].
      ids, log_probs: the open ones, likewise.

    Returns:
      (found, log_probs).
    """
    rescued = tf.logical_and(at_limit, tf.equal(found.scores[:, 0], NEVER))  # [N]
    found = Hypotheses(
        tf.where(rescued, ids, found.ids), tf.where(rescued, log_probs, found.scores)
    )
    never = tf.fill(tf.shape(log_probs), NEVER)
    return found, tf.where(at_limit, never, log_probs)


def _best_continuations(log_probs, logits, count, at_limit, options):
    """The best continuations of the open hypotheses of each sentence.

    No more is computed for the whole vocabulary than its softmax: the best of a
    sentence are among as many of each hypothesis.

    Args:
      log_probs: float [N, K], of the hypotheses.
      logits: float [N, K, V] of their next pieces.
      count: int, how many are wanted.
      at_limit: bool [N], where a hypothesis must end (if it `must_end`).

    Returns:
      (log-probabilities, hypotheses continued, pieces), [N, count] each, best first.
    """
    _, size, vocab_size = shape_list(logits)
    logits = tf.reshape(logits, [-1, vocab_size])  # [N*K, V]
    most = min(vocab_size, count + len(options.unsaid))
    best, pieces = _top_k(logits, most)  # [N*K, most]
    largest = tf.gather(tf.nn.softmax(logits), pieces[:, :1], batch_dims=1)
    normalizers = best[:, :1] - tf.log(largest)  # [N*K, 1]
    for piece in options.unsaid:
        best = tf.where_v2(tf.equal(pieces, piece), NEVER, best)
    if options.must_end:
        only_end = tf.pad(
            logits[:, options.eos, None], [[0, 0], [0, most - 1]], constant_values=NEVER
        )
        at_limit = tf.reshape(tf.tile(at_limit[:, None], [1, size]), [-1, 1])
        best = tf.where_v2(at_limit, only_end, best)
        pieces = tf.where_v2(at_limit, options.eos, pieces)
    totals = tf.reshape(log_probs, [-1, 1]) + (best - normalizers)
    totals, places = tf.nn.top_k(tf.reshape(totals, [-1, size * most]), count)
    pieces = tf.gather(tf.reshape(pieces, [-1, size * most]), places, batch_dims=1)
    return totals, places // most, pieces


def _top_k(x, k):
    """tf.nn.top_k of x [M, V]: in blocks, where V can be divided into some.

    The k largest numbers are in the k blocks that have the largest maxima, and a
    maximum is faster to find than a rank.
    """
    size = x.shape.as_list()[1]
    width = next(width for width in range(int(size**0.5), 0, -1) if size % width == 0)
    if k * width >= size // 2:
        return tf.nn.top_k(x, k)
    blocks = tf.reshape(x, [-1, size // width, width])
    _, chosen = tf.nn.top_k(tf.reduce_max(blocks, axis=2), k)  # [M, k]
    among = tf.reshape(tf.gather(blocks, chosen, batch_dims=1), [-1, k * width])
    best, places = tf.nn.top_k(among, k)
    chosen = tf.gather(chosen, places // width, batch_dims=1)
    return best, chosen * width + places % width


def _loop(is_open, extend, found, own, state, together=False):
    """Extends all that is open until nothing is.

    Whenever a quarter of the sentences is done, what they found is put down, and the
    others go on in a smaller batch; unless `together`, all to the end of the last.

    Args:
      is_open: function of found, *own → bool [N].
      extend: function of found, *own, state → the same, one piece longer.
      found: a nest of tensors [N, ...], what is wanted; the third dimension may grow.
      own: a tuple of further tensors of the search, likewise.
      state: of the step function.

    Returns:
      What was found of all sentences.
    """

    def growing(x):
        sizes = x.shape.as_list()
        return tf.TensorShape([None, *sizes[1:2]] + [None] * len(sizes[2:]))

    def of_any_batch(x):
        return tf.TensorShape([None] + [size or None for size in x.shape.as_list()[1:]])

    def number_open(found, own):
        return tf.reduce_sum(tf.cast(is_open(found, *own), tf.int32))

    def go_on(found, own, state):
        found, *own, state = extend(found, *own, state)
        return found, tuple(own), state

    def until_a_quarter_is_done(sentences, results, search):
        many = 0 if together else 3 * tf.size(sentences) // 4
        search = tf.while_loop(
            lambda found, own, state: number_open(found, own) > many,
            go_on,
            search,
            shape_invariants=shapes,
            back_prop=False,
        )
        found, own, _ = search
        results = tf.nest.map_structure(
            lambda x, rows: _put(x, sentences, rows), results, found
        )
        left = tf.where(is_open(found, *own))[:, 0]
        return (
            tf.gather(sentences, left),
            results,
            tf.nest.map_structure(lambda x: tf.gather(x, left), search),
        )

    start = (found, own, state)
    shapes = (
        *tf.nest.map_structure(growing, (found, own)),
        tf.nest.map_structure(of_any_batch, state),
    )
    sentences = tf.range(tf.shape(own[0])[0])
    _, results, _ = tf.while_loop(
        lambda sentences, *_: tf.size(sentences) > 0,
        until_a_quarter_is_done,
        (sentences, found, start),
        back_prop=False,
        shape_invariants=(tf.TensorShape([None]), shapes[0], shapes),
    )
    return results


def _put(x, places, rows):
    """`x` with other rows at some places; zeros lengthen its third dimension."""
    if x.shape.ndims > 2:
        x = tf.pad(x, [[0, 0], [0, 0], [0, tf.shape(rows)[2] - tf.shape(x)[2]]])
    return tf.tensor_scatter_nd_update(x, places[:, None], rows)
