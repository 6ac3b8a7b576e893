"""Search: from a step function to the best sequences, independent of any model.

    step(ids [N, K], parents, state) -> (logits [N, K, V] of the next piece, state)

Each of N sentences has K hypotheses. `ids`, int32, are their newest pieces. `parents`,
int32 [N, K], are the indices of the hypotheses of the previous step that they continue
(None if K is 1). `state` is the state that the previous step returned: any nest of
tensors with leading dimension N; a dimension that starts at 0 may grow. The step
function reorders the state of the hypotheses by `parents`: see `reorder`. (Within a
search, ids and parents are int64: see `as_int64`.)

A sequence must end at its length limit, so every result is a whole sentence. Its score
is based on the model's log-probability, even if some pieces are forbidden.
(tensor2tensor truncates instead: `SearchOptions(must_end=False)`.)
"""

from typing import Any, Callable, Dict, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.attention import both, is_token
from transformer.blocks.primitives import as_int64, followed_by_zeros, shape_list
from transformer.text.vocabulary import BOS, EOS, PAD

NEVER = float("-inf")  # the score of what is forbidden, or was not found


class Hypotheses(NamedTuple):
    """The result of a search, best first."""

    ids: tf.Tensor  # int32 [N, n_best, T]: pieces, EOS, then PAD
    scores: tf.Tensor  # float32 [N, n_best]: log-probability / length penalty
    history: tuple = ()  # SearchHistory of a beam search, with `keep_history`
    state: Any = ()  # the last state of the open hypotheses, with `together`


class SearchHistory(NamedTuple):
    """Every candidate in every step of a beam search, best first: [N, 2K, T].

    A step considers the 2K best continuations of the open hypotheses. Those that end
    are finished; the K best of the others stay open; the rest are dropped. When a
    sentence has left the batch, its `pieces` are PAD; before, it may have steps after
    its end.
    """

    pieces: tf.Tensor  # int32
    parents: tf.Tensor  # int32: the index of the open hypothesis it continues
    log_probs: tf.Tensor  # float32, of the whole hypothesis; -inf: there is none
    scores: tf.Tensor  # float32: log-probability / length penalty
    kept: tf.Tensor  # int32 [N, K, T]: indices of candidates that stay open, best first

    def followed_by(self, *candidates) -> "SearchHistory":
        """Return the SearchHistory plus one more step, given a tensor per field."""
        longer = [
            tf.concat([before, now[:, :, None]], axis=2)
            for before, now in zip(self, candidates)
        ]
        return SearchHistory(*longer)

    def finished(self) -> "SearchHistory":
        """Return the SearchHistory with int32 instead of int64."""
        return SearchHistory(
            *[x if x.dtype.is_floating else tf.cast(x, tf.int32) for x in self]
        )


class SearchOptions(NamedTuple):
    """How to search."""

    beam_size: int = 4
    length_penalty: float = 0.6  # alpha
    n_best: int = 1  # the number of hypotheses returned for each sentence
    must_end: bool = True  # a hypothesis takes EOS at its limit, however unlikely it is
    bos: int = BOS  # the id before a sequence
    eos: int = EOS  # the id that ends a sequence
    forbidden: Tuple[int, ...] = ()  # ids that no sequence may contain; not EOS
    min_length: int = 0  # the fewest pieces before EOS, if the limit allows
    no_repeat_ngram: int = 0  # no sequence repeats n pieces in a row; 0: no rule
    temperature: float = 1.0  # `sample`: below 1, likely pieces become likelier
    top_k: int = 0  # `sample`: draw only from the k likeliest pieces; 0: from all
    top_p: float = 0.0  # `sample`: only from the likeliest whose sum reaches p; 0: all
    draws: Any = None  # `sample`: T → float [N, T], numbers to draw with; None: random
    prefix: Any = None  # int32 [N, P]: first pieces of each sequence; PAD: any piece
    keep_history: bool = False  # whether a beam search returns its SearchHistory
    together: bool = False  # in a beam search, all sentences step until the last ends


# The searches


def greedy(step: Callable, state, limits, options: SearchOptions) -> Hypotheses:
    """Take the likeliest piece at each position.

    Args:
      step: the step function (see the module docstring); K = 1.
      state: the state before the first position.
      limits: int32 [N], the length limit of each sequence, including EOS; at least 1.
      options: SearchOptions; `beam_size` is ignored. Without `must_end`, a sequence
        that is still open at its limit is scored by its log-probability.

    Returns:
      Hypotheses with n_best = 1.
    """

    def likeliest(logits, forced, allowed, draws, length):
        zeros = tf.zeros_like(logits[:, :, 0])
        log_probs, _, pieces = best_continuations(
            zeros, logits, 1, forced, options.forbidden, allowed
        )
        return log_probs, pieces

    return _follow_one_path(step, state, limits, options, likeliest, draws=())


def sample(step: Callable, state, limits, options: SearchOptions) -> Hypotheses:
    """Draw each piece from the model's distribution; otherwise work like `greedy`."""

    def draw(logits, forced, allowed, draws, length):
        every_piece = range(shape_list(logits)[2])
        is_allowed = [piece not in options.forbidden for piece in every_piece]  # [V]
        if allowed is not None:
            is_allowed = tf.logical_and(is_allowed, allowed[:, 0])  # [N or 1, V]
        log_probs = tf.nn.log_softmax(logits[:, 0, :])
        candidates = tf.where_v2(is_allowed, log_probs, NEVER)  # [N, V]
        pieces = chosen_by(draws[:, length], likeliest_only(candidates, options))
        forced = forced[:, None]
        pieces = tf.where_v2(tf.equal(forced, PAD), pieces, forced)
        possible = tf.where_v2(tf.equal(forced, PAD), candidates, log_probs)  # [N, V]
        return tf.gather(possible, pieces, batch_dims=1), pieces

    longest = tf.maximum(1, tf.cast(tf.reduce_max(limits), tf.int32))
    if options.draws is None:
        draws = tf.random.uniform([tf.shape(limits)[0], longest])
    else:
        draws = options.draws(longest)
    return _follow_one_path(step, state, limits, options, draw, draws)


def beam(step: Callable, state, limits, options: SearchOptions) -> Hypotheses:
    """Search with a beam and a length penalty (section 6.1; Wu et al. 2016, section 7).

    Each step considers the 2K best continuations: those that end compete with the K
    best finished hypotheses, and the K best of the others stay open. A sentence is done
    when its best open hypothesis could not become one of the n best even if it grew to
    the limit without losing log-probability. Therefore, the results do not depend on
    the other sentences in the batch.

    Without `must_end`, hypotheses that are still open at the limit are dropped. If a
    sentence has no finished hypotheses, its results are the open ones, scored by their
    log-probabilities.

    Args, Returns: as in `greedy`, with K = beam_size. With `must_end` and a beam size
      of 1, this is `greedy`.

    Raises:
      ValueError: n_best is larger than the beam size.
    """
    beam_size = options.beam_size
    if options.n_best > beam_size:
        raise ValueError(
            f"n_best: expected at most the beam size, {beam_size}, got {options.n_best}"
        )
    if beam_size == 1 and options.must_end:
        return greedy(step, state, limits, options)

    def is_open(found, extras):
        _, log_probs, _, limits, _ = extras
        bound = log_probs[:, 0] / penalty(limits, options.length_penalty)  # [N]
        return bound > found.scores[:, options.n_best - 1]

    def extend(found, extras, state):
        ids, log_probs, parents, limits, prefix = extras
        length = tf.shape(ids)[2]
        newest = tf.cast(ids[:, :, -1], tf.int32)
        logits, state = step(newest, tf.cast(parents, tf.int32), state)  # [N, K, V]
        vocab_size = shape_list(logits)[2]
        forced, allowed = _rules(ids, limits, prefix, vocab_size, options)
        log_probs, parents, pieces = best_continuations(
            log_probs, logits, 2 * beam_size, forced, options.forbidden, allowed
        )  # [N, 2K]
        candidates = tf.concat([reorder(ids, parents), pieces[:, :, None]], axis=2)
        ends = tf.equal(pieces, options.eos)
        scores = log_probs / penalty(length, options.length_penalty)
        step_fields = (pieces, parents, log_probs, scores)
        # The K best of the hypotheses that ended before or end now.
        finished = tf.where_v2(ends, scores, NEVER)
        finished, best = top_k(tf.concat([found.scores, finished], axis=1), beam_size)
        longer = followed_by_zeros(found.ids, 1, axis=2)  # [N, K, t + 1]
        longer = reorder(tf.concat([longer, candidates], axis=1), best)
        found = found._replace(ids=longer, scores=finished)
        # The K best of those that stay open.
        log_probs, kept = top_k(tf.where_v2(ends, NEVER, log_probs), beam_size)
        ids, parents = reorder((candidates, parents), kept)  # [N, K, ...]
        if not options.must_end:
            at_limit = tf.equal(as_int64(length), limits)  # [N]
            rescued = tf.logical_and(at_limit, tf.equal(found.scores[:, 0], NEVER))
            found = found._replace(
                ids=tf.where_v2(rescued[:, None, None], ids, found.ids),
                scores=tf.where_v2(rescued[:, None], log_probs, found.scores),
            )
            log_probs = tf.where_v2(at_limit[:, None], NEVER, log_probs)
        if options.keep_history:
            history = found.history.followed_by(*step_fields, kept)
            found = found._replace(history=history)
        return found, (ids, log_probs, parents, limits, prefix), state

    batch = tf.shape(limits)[0]
    ids = tf.fill([batch, beam_size, 1], np.int64(options.bos))
    history: tuple = ()
    if options.keep_history:
        numbers = tf.zeros([batch, 2 * beam_size, 0])
        none = tf.cast(numbers, tf.int64)
        history = SearchHistory(none, none, numbers, numbers, none[:, :beam_size])
    found = Hypotheses(ids, tf.fill([batch, beam_size], NEVER), history)
    only_first = tf.tile([[0.0] + [NEVER] * (beam_size - 1)], [batch, 1])
    parents = tf.zeros([batch, beam_size], tf.int64)
    extras = (ids, only_first, parents, as_int64(limits), _prefix(batch, options))
    found, extras, state = search_loop(
        is_open, extend, found, extras, state, options.together
    )
    return Hypotheses(
        tf.cast(found.ids[:, : options.n_best, 1:], tf.int32),
        found.scores[:, : options.n_best],
        found.history and found.history.finished(),
        reorder(state, extras[2]) if options.together else (),
    )


SEARCHES: Dict[str, Callable] = {"greedy": greedy, "beam": beam, "sample": sample}


def penalty(length, alpha: float):
    """Return the length penalty ((5 + length) / 6) ^ alpha (Wu et al. 2016, eq. 14).

    The length includes EOS.
    """
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** alpha


def reorder(state, parents):
    """Give each hypothesis the state of its parent: a nest of tensors [N, K, ...]."""
    if parents is None:
        return state
    return tf.nest.map_structure(lambda x: tf.gather(x, parents, batch_dims=1), state)


# Greedy search and sampling: one hypothesis for each sentence


def _follow_one_path(step, state, limits, options, choose, draws):
    """Search with one hypothesis for each sentence.

    Args:
      step, state, limits, options: as in `greedy`.
      choose: function of logits [N, 1, V], the results of `_rules`, `draws`, and the
        number of pieces so far; returns (log-probabilities, pieces), [N, 1] each.
      draws: float [N, T], random numbers; () if `choose` needs none.
    """

    def is_open(found, extras):
        has_ended, *_ = extras
        return tf.logical_not(has_ended)

    def extend(found, extras, state):
        ids, log_probs = found  # [N, 1, t]
        has_ended, limits, prefix, draws = extras
        newest = tf.cast(ids[:, :, -1], tf.int32)
        logits, state = step(newest, None, state)  # [N, 1, V]
        vocab_size = shape_list(logits)[2]
        forced, allowed = _rules(ids, limits, prefix, vocab_size, options)
        length = tf.shape(ids)[2] - 1
        gained, pieces = choose(logits, forced, allowed, draws, length)
        ended = has_ended[:, None]
        taken = tf.where_v2(ended, np.int64(PAD), pieces)
        ids = tf.concat([ids, taken[:, :, None]], axis=2)
        log_probs += tf.where_v2(ended, 0.0, gained)
        has_ended = tf.logical_or(has_ended, tf.equal(pieces[:, 0], options.eos))
        at_limit = tf.equal(as_int64(tf.shape(ids)[2] - 1), limits)  # [N]
        has_ended = tf.logical_or(has_ended, at_limit)
        return (ids, log_probs), (has_ended, limits, prefix, draws), state

    batch = tf.shape(limits)[0]
    found = (tf.fill([batch, 1, 1], np.int64(options.bos)), tf.zeros([batch, 1]))
    has_ended = tf.fill([batch], False)
    extras = (has_ended, as_int64(limits), _prefix(batch, options), draws)
    (ids, log_probs), _, _ = search_loop(is_open, extend, found, extras, state)
    ids = ids[:, :, 1:]  # [N, 1, T]
    lengths = tf.reduce_sum(tf.cast(is_token(ids), tf.float32), -1)
    scores = log_probs / penalty(lengths, options.length_penalty)
    if not options.must_end:
        ends = tf.reduce_any(tf.equal(ids, options.eos), -1)  # [N, 1]
        scores = tf.where_v2(ends, scores, log_probs)
    return Hypotheses(tf.cast(ids, tf.int32), scores)


# Shared by all searches: the start, the rules, the loop


def _prefix(batch, options):
    """Return the prefixes of the sequences: int64 [N, P + 1], the last column PAD."""
    if options.prefix is None:
        return tf.fill([batch, 1], np.int64(PAD))
    return followed_by_zeros(as_int64(options.prefix), 1, axis=1)


def _rules(ids, limits, prefix, vocab_size: int, options):
    """Return which piece comes next if it is fixed, and which pieces are allowed.

    Args:
      ids: int64 [N, K, t], BOS and the pieces so far.
      limits: int64 [N].
      prefix: int64 [N, P + 1], from `_prefix`.
      vocab_size: int, V.
      options: SearchOptions.

    Returns:
      (int64 [N], the piece that each sequence must take, PAD: any piece; bool [N or 1,
      K or 1, V], whether a piece is allowed, None: all are allowed).
    """
    length = tf.shape(ids)[2]
    forced = prefix[:, tf.minimum(length, tf.shape(prefix)[1]) - 1]  # [N]
    if options.must_end:
        at_limit = tf.equal(as_int64(length), limits)
        forced = tf.where_v2(at_limit, np.int64(options.eos), forced)
    allowed = None
    if options.min_length:
        may_end = length > options.min_length
        is_end = np.arange(vocab_size) == options.eos
        allowed = tf.logical_or(may_end, ~is_end)[None, None, :]
    if options.no_repeat_ngram:
        repeated = _repeated(ids[:, :, 1:], vocab_size, options.no_repeat_ngram)
        allowed = both(allowed, tf.logical_not(repeated))
    return forced, allowed


def _repeated(pieces, vocab_size: int, size: int):
    """Return which pieces would complete an n-gram that the sequence already has.

    Args:
      pieces: int64 [N, K, t].
      vocab_size: int, V.
      size: int, n.

    Returns:
      bool [N, K, V].
    """
    batch, beam_size, length = tf.unstack(tf.shape(pieces))
    pieces = tf.reshape(pieces, [-1, length])  # [N*K, t]
    count = tf.maximum(0, length - size + 1)  # n-grams of a sequence
    begins_like_the_end = tf.fill([batch * beam_size, count], True)
    for i in range(size - 1):
        newest = length - size + 1 + i  # the index of the i-th of the last n - 1 pieces
        begins_like_the_end = tf.logical_and(
            begins_like_the_end,
            tf.equal(pieces[:, i : i + count], pieces[:, newest : newest + 1]),
        )
    found = tf.where_v2(begins_like_the_end)  # [M, 2]: sequence, n-gram
    last = tf.gather_nd(pieces[:, size - 1 :], found)  # [M]
    repeated = tf.scatter_nd(
        tf.stack([found[:, 0], last], axis=1),
        tf.ones_like(last),
        tf.cast([batch * beam_size, vocab_size], tf.int64),
    )
    return tf.reshape(repeated > 0, [batch, beam_size, vocab_size])


def search_loop(
    is_open: Callable,
    extend: Callable,
    found,
    extras: tuple,
    state,
    together: bool = False,
) -> tuple:
    """Extend the open hypotheses until none is open, while the batch shrinks.

    Whenever a quarter of the sentences are done, their results are stored, and the
    others continue in a smaller batch. In this example with four sentences, b ends
    first, then d, then a and c together:

        sentences   open after each step              stored
        [a b c d]   [a b c d], [a - c d]              b
        [a c d]     [a c d], [a c -]                  d
        [a c]       [a c], [a c], [- -]               a, c

    If the batch did not shrink, every step would compute all four sentences until the
    last one ends.

    Args:
      is_open: function of found, extras that returns bool [N].
      extend: function of found, extras, state that returns the same, one piece longer.
      found: a nest of tensors [N, ...], the results; their third dimension may grow.
      extras: further tensors [N, ...] of the search; their third dimension may grow.
      state: the state of the step function.
      together: whether the batch keeps its size.

    Returns:
      (`found` of all sentences, in their order, extras, state). With `together`, extras
      and state are those of the last step; otherwise, they are ().
    """

    def growing(x):
        sizes = x.shape.as_list()
        return tf.TensorShape([None, *sizes[1:2]] + [None] * len(sizes[2:]))

    def of_any_batch(x):  # and a dimension of size 0 may grow
        return tf.TensorShape([None] + [size or None for size in x.shape.as_list()[1:]])

    search = (found, extras, state)
    shapes = (
        *tf.nest.map_structure(growing, (found, extras)),
        tf.nest.map_structure(of_any_batch, state),
    )

    def until_open(remaining, search):
        def more_are_open(found, extras, state):
            number = tf.reduce_sum(tf.cast(is_open(found, extras), tf.float32))
            return number > remaining

        return tf.while_loop(
            more_are_open, extend, search, shape_invariants=shapes, back_prop=False
        )

    def until_a_quarter_is_done(sentences, results, search):
        remaining = tf.cast(3 * tf.shape(sentences)[0] // 4, tf.float32)
        search = until_open(remaining, search)
        found, extras, _ = search

        def store(x, rows):
            if x.shape.ndims > 2:
                x = followed_by_zeros(x, tf.shape(rows)[2] - tf.shape(x)[2], axis=2)
            return tf.tensor_scatter_nd_update(x, sentences[:, None], rows)

        results = tf.nest.map_structure(store, results, found)
        left = tf.where_v2(is_open(found, extras))[:, 0]
        return (
            tf.gather(sentences, left),
            results,
            tf.nest.map_structure(lambda x: tf.gather(x, left), search),
        )

    if together:
        return until_open(0.0, search)
    sentences = as_int64(tf.range(tf.shape(extras[0])[0]))  # [N]
    _, results, _ = tf.while_loop(
        lambda sentences, *_: tf.shape(sentences)[0] > 0,
        until_a_quarter_is_done,
        (sentences, found, search),
        back_prop=False,
        shape_invariants=(tf.TensorShape([None]), shapes[0], shapes),
    )
    return results, (), ()


# Ranking


def best_continuations(
    log_probs, logits, count: int, forced, forbidden: Sequence[int], allowed=None
):
    """Return the best continuations of the open hypotheses of each sentence.

    Only the softmax needs the whole vocabulary, because the `count` best continuations
    of a sentence are among the `count` best of each hypothesis. (docs/performance.md
    has measurements.)

    Args:
      log_probs: float [N, K], of the hypotheses.
      logits: float [N, K, V], of their next pieces.
      count: int, the number of continuations.
      forced: int64 [N], the piece that the hypotheses must take; PAD: any piece.
      forbidden: ids of pieces that no hypothesis may take.
      allowed: bool, broadcastable to [N, K, V], from `_rules`; None: all are allowed.

    Returns:
      (log-probabilities, parents, pieces), [N, count] each, best first.
    """
    _, beam_size, vocab_size = shape_list(logits)
    candidates = logits if allowed is None else tf.where_v2(allowed, logits, NEVER)
    logits = tf.reshape(logits, [-1, vocab_size])  # [N*K, V]
    candidates = tf.reshape(candidates, [-1, vocab_size])
    most = min(vocab_size, count + len(forbidden))
    best, pieces = _top_k_in_blocks(candidates, most)  # [N*K, most]
    if allowed is None:
        largest = tf.gather(tf.nn.softmax(logits), pieces[:, :1], batch_dims=1)
        normalizers = best[:, :1] - tf.log(largest)  # [N*K, 1]
    else:
        normalizers = tf.reduce_logsumexp(logits, -1, keepdims=True)
    for piece in forbidden:
        best = tf.where_v2(tf.equal(pieces, piece), NEVER, best)
    forced = tf.reshape(tf.tile(forced[:, None], [1, beam_size]), [-1, 1])  # [N*K, 1]
    is_first = np.arange(most)[None] == 0
    only_forced = tf.where_v2(
        is_first, tf.gather(logits, forced, batch_dims=1), NEVER
    )  # [N*K, most]
    best = tf.where_v2(tf.equal(forced, PAD), best, only_forced)
    pieces = tf.where_v2(tf.equal(forced, PAD), pieces, forced)
    totals = tf.reshape(log_probs, [-1, 1]) + (best - normalizers)
    totals, indices = top_k(tf.reshape(totals, [-1, beam_size * most]), count)
    pieces = tf.reshape(pieces, [-1, beam_size * most])
    pieces = tf.gather(pieces, indices, batch_dims=1)
    return totals, indices // most, pieces


def likeliest_only(log_probs, options: SearchOptions):
    """Return the logits of the likeliest pieces, at a temperature; others are NEVER.

    Args:
      log_probs: float [N, V].
      options: SearchOptions, with `temperature`, `top_k` and `top_p`.

    Returns:
      float [N, V].
    """
    logits = log_probs / options.temperature
    if options.top_k:
        best, _ = tf.nn.top_k(logits, min(options.top_k, logits.shape.as_list()[1]))
        logits = tf.where_v2(logits < best[:, -1:], NEVER, logits)
    if options.top_p:
        best = tf.sort(logits, direction="DESCENDING")
        before = tf.cumsum(tf.nn.softmax(best), axis=1, exclusive=True)  # [N, V]
        kept = tf.reduce_sum(tf.cast(before < options.top_p, tf.int32), 1) - 1  # [N]
        kept = tf.maximum(0, kept)  # in float32, a tiny `top_p` is 0
        least = tf.gather(best, kept[:, None], batch_dims=1)  # [N, 1]
        logits = tf.where_v2(logits < least, NEVER, logits)
    return logits


def chosen_by(drawn, logits):
    """Return the pieces that numbers choose from the distributions of logits.

    Piece v has the probability p_v: it is chosen by the numbers from p_0 + ... + p_v-1
    up to p_0 + ... + p_v.

    Args:
      drawn: float [N], uniform in [0, 1).
      logits: float [N, V].

    Returns:
      int64 [N, 1]; 0 if the logits are NaN, or all of them NEVER.
    """
    ends = tf.cumsum(tf.nn.softmax(logits), axis=1)  # [N, V]
    drawn = drawn * (1 - 1e-6)  # rounding must not reach the end of the last piece
    is_before = tf.less_equal(ends, drawn[:, None] * ends[:, -1:])
    return tf.reduce_sum(tf.cast(is_before, tf.int64), 1, keepdims=True)


def top_k(x, k: int):
    """Return tf.nn.top_k of x [M, V]; the indices are int64, see `as_int64`."""
    best, indices = tf.nn.top_k(x, k)
    return best, as_int64(indices)


def _top_k_in_blocks(x, k):
    """Return `top_k` of x [M, V], computed in blocks if V has a suitable divisor.

    The k largest numbers are in the k blocks with the largest maxima, and finding a
    maximum is faster than ranking: see docs/performance.md.
    """
    size = x.shape.as_list()[1]
    width = next(width for width in range(int(size**0.5), 0, -1) if size % width == 0)
    if k * width >= size // 2:
        return top_k(x, k)
    blocks = tf.reshape(x, [-1, size // width, width])
    _, chosen = top_k(tf.reduce_max(blocks, axis=2), k)  # [M, k]
    among = tf.reshape(tf.gather(blocks, chosen, batch_dims=1), [-1, k * width])
    best, indices = top_k(among, k)
    chosen = tf.gather(chosen, indices // width, batch_dims=1)
    return best, chosen * width + indices % width
