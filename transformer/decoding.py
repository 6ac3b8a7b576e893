"""Search: from a step function to the best sequences, independent of any model.

    step(ids [N, K], parents, state) -> (logits [N, K, V] of the next piece, state)

Each of N sentences has K hypotheses. `ids`, int32, are their newest pieces. `parents`,
int32 [N, K], are the indices of the hypotheses of the previous step that they continue
(None in greedy search and sampling, where K is 1). `state` is the state that the
previous step returned: any nest of tensors with leading dimension N; a dimension that
starts at 0 may grow. A search only removes sentences from a state. The step function
must apply `parents` itself: it reorders the parts that differ between hypotheses
(`reorder`), or records the ancestors of each hypothesis, like `model.DecoderCache`.

Every search repeats one decoding step. It calls the step function with the newest piece
of each hypothesis, adds the log-probabilities of the next pieces to those of the
hypotheses, and chooses how to continue. The searches differ in this choice only: greedy
search takes the likeliest piece, sampling draws one, and beam search keeps the K best
hypotheses of each sentence.

The rules come first. A prefix, or the length limit, can fix the next piece; a minimum
length, or repeated n-grams, can exclude pieces. Rules change which pieces may be
chosen, but not their log-probabilities. Only the repetition penalty changes those.

A hypothesis ends with EOS. A sequence must end at its length limit, so every result is
a whole sentence. (`SearchOptions(keep_open=True)` truncates instead, and so does
tensor2tensor: `must_end=False`.) Its score is its log-probability divided by the length
penalty.

Sentences end at different steps. `search_loop` stores the results of those that are
done, and continues the others in a smaller batch.
"""

import numbers
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.layers import append_zeros, cast_to_int64, shape_list
from transformer.blocks.masks import combine_masks
from transformer.hparams import FIELDS, refuse_outside_limits
from transformer.length_penalty import length_penalty
from transformer.runtime.errors import SettingsError
from transformer.text.vocabulary import BOS, EOS, PAD

# Within a search, ids and indices are int64: see `cast_to_int64`.

NEVER = float("-inf")  # the score of a forbidden piece, and of a missing hypothesis


class Hypotheses(NamedTuple):
    """The result of a search, best first."""

    ids: tf.Tensor  # int32 [N, n_best, T]: pieces, EOS, then PAD
    # float32 [N, n_best]: log-probability / length penalty; -inf: there is none, and
    # its ids are PAD
    scores: tf.Tensor
    history: tuple = ()  # SearchHistory of a beam search, with `keep_history`
    # With `keep_batch`: the last state, and the hypotheses in it that the open ones
    # continue, int64 [N, K].
    state: Any = ()
    parents: Any = ()


class SearchHistory(NamedTuple):
    """The candidates of every step of a beam search, best first.

    A step considers the 2K best continuations of the open hypotheses. Those that end
    are finished; the K best of the others stay open; the rest are dropped. When a
    sentence has left the batch, its `pieces` are PAD; before, it may have steps after
    its end.
    """

    pieces: tf.Tensor  # int32 [N, 2K, T]
    parents: tf.Tensor  # int32 [N, 2K, T]: the open hypotheses that they continue
    log_probs: tf.Tensor  # float32 [N, 2K, T], of whole hypotheses; -inf: there is none
    scores: tf.Tensor  # float32 [N, 2K, T]: log-probability / length penalty
    survivors: tf.Tensor  # int32 [N, K, T]: indices of the candidates that stay open

    def append(self, *step_fields) -> "SearchHistory":
        """Append one step: a tensor for each field, [N, 2K]; `survivors` is [N, K]."""
        return SearchHistory(
            *[
                tf.concat([steps, newest[:, :, None]], axis=2)
                for steps, newest in zip(self, step_fields)
            ]
        )

    def to_int32(self) -> "SearchHistory":
        """Cast the integers to int32."""
        return SearchHistory(
            *[x if x.dtype.is_floating else tf.cast(x, tf.int32) for x in self]
        )


class SearchOptions(NamedTuple):
    """How to search."""

    beam_size: int = 4
    length_penalty: float = 0.6  # alpha, 0 or more
    n_best: int = 1  # the number of hypotheses returned for each sentence
    # A hypothesis takes EOS at its limit, however unlikely; only compat changes it.
    must_end: bool = True
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
    # With a beam size of 2 or more: whether the search returns its SearchHistory, and
    # whether all sentences step until the last one ends.
    keep_history: bool = False
    keep_batch: bool = False
    length_penalty_form: str = "wu"  # one of LENGTH_PENALTIES
    repetition_penalty: float = 1.0  # above 1, pieces of the sequence become unlikelier
    # A hypothesis that is open at its limit is a result, like those that end there.
    keep_open: bool = False
    # A beam search stops once the best hypothesis is certain; only compat changes it.
    stop_early: bool = False


class NextPieceRules(NamedTuple):
    """The rules for the next piece of each hypothesis."""

    forced: tf.Tensor  # int64 [N]: the piece that it must be; PAD: any piece
    # bool, broadcastable to [N, K, V]: whether it may be this piece; None: all may.
    allowed: Optional[tf.Tensor] = None


# Greedy search and sampling: one hypothesis for each sentence


class OpenSequences(NamedTuple):
    """The sentences of greedy search or sampling, one sequence each."""

    has_ended: tf.Tensor  # bool [N]
    limits: tf.Tensor  # int64 [N]: the length limits, including EOS
    prefix: tf.Tensor  # int64 [N, P + 1]: the first pieces, then PAD
    draws: Any  # float [N, T]: random numbers; () if none are needed


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

    Raises:
      SettingsError: an option is not allowed.
    """

    def choose(logits, rules, draws, num_pieces):
        zeros = tf.zeros_like(logits[:, :, 0])
        log_probs, _, pieces = best_continuations(
            zeros, logits, 1, rules, options.forbidden
        )
        return log_probs, pieces

    return _follow_one_path(step, state, limits, options, choose, draws=())


def sample(step: Callable, state, limits, options: SearchOptions) -> Hypotheses:
    """Draw each piece from the model's distribution; otherwise work like `greedy`."""

    def choose(logits, rules, draws, num_pieces):
        all_pieces = range(shape_list(logits)[2])
        is_allowed = [piece not in options.forbidden for piece in all_pieces]  # [V]
        if rules.allowed is not None:
            is_allowed = tf.logical_and(is_allowed, rules.allowed[:, 0])  # [N or 1, V]
        log_probs = tf.nn.log_softmax(logits[:, 0, :])
        candidates = tf.where_v2(is_allowed, log_probs, NEVER)  # [N, V]
        drawn = draw_pieces(draws[:, num_pieces], filter_logits(candidates, options))
        forced = rules.forced[:, None]
        is_free = tf.equal(forced, PAD)
        pieces = tf.where_v2(is_free, drawn, forced)
        candidates = tf.where_v2(is_free, candidates, log_probs)  # [N, V]
        return tf.gather(candidates, pieces, batch_dims=1), pieces

    max_length = tf.maximum(1, tf.cast(tf.reduce_max(limits), tf.int32))
    if options.draws is None:
        draws = tf.random.uniform([tf.shape(limits)[0], max_length])
    else:
        draws = options.draws(max_length)
    return _follow_one_path(step, state, limits, options, choose, draws)


def _follow_one_path(step, state, limits, options, choose, draws) -> Hypotheses:
    """Search with one hypothesis for each sentence.

    Args:
      step, state, limits, options: as in `greedy`.
      choose: function of logits [N, 1, V], NextPieceRules, `draws`, and the number of
        pieces before the next one; returns (log-probabilities, pieces), [N, 1] each.
      draws: float [N, T], random numbers; () if `choose` needs none.
    """
    _check_options(options)

    def is_open(results, sequences):
        return tf.logical_not(sequences.has_ended)

    def extend(results, sequences, state):
        ids, log_probs = results  # [N, 1, t], [N, 1]
        num_pieces = tf.shape(ids)[2]  # with the next one; BOS does not count
        newest = tf.cast(ids[:, :, -1], tf.int32)
        logits, state = step(newest, None, state)  # [N, 1, V]
        logits = penalize_repetition(logits, ids[:, :, 1:], options.repetition_penalty)
        vocab_size = shape_list(logits)[2]
        rules = _rules_for_next(
            ids, sequences.limits, sequences.prefix, vocab_size, options
        )
        gains, pieces = choose(logits, rules, sequences.draws, num_pieces - 1)
        had_ended = sequences.has_ended[:, None]
        ids = tf.concat(
            [ids, tf.where_v2(had_ended, np.int64(PAD), pieces)[:, :, None]], axis=2
        )
        log_probs += tf.where_v2(had_ended, 0.0, gains)
        ends = tf.equal(pieces[:, 0], options.eos)
        at_limit = tf.equal(cast_to_int64(num_pieces), sequences.limits)  # [N]
        has_ended = tf.logical_or(tf.logical_or(sequences.has_ended, ends), at_limit)
        return (ids, log_probs), sequences._replace(has_ended=has_ended), state

    batch = tf.shape(limits)[0]
    results = (tf.fill([batch, 1, 1], np.int64(options.bos)), tf.zeros([batch, 1]))
    sequences = OpenSequences(
        tf.fill([batch], False),
        cast_to_int64(limits),
        _pad_prefix(batch, options),
        draws,
    )
    (ids, log_probs), _, _ = search_loop(is_open, extend, results, sequences, state)
    ids = ids[:, :, 1:]  # [N, 1, T]
    is_end = tf.equal(ids, options.eos)
    ends = tf.reduce_any(is_end, -1)  # [N, 1]
    lengths = tf.argmax(tf.cast(is_end, tf.int32), -1) + 1  # to the first EOS
    lengths = tf.where_v2(ends, lengths, cast_to_int64(limits)[:, None])
    scores = log_probs / length_penalty(
        tf.cast(lengths, tf.float32),
        options.length_penalty,
        options.length_penalty_form,
    )
    if not (options.must_end or options.keep_open):
        scores = tf.where_v2(ends, scores, log_probs)
    return _make_hypotheses(ids, scores)


# Beam search


class OpenHypotheses(NamedTuple):
    """The hypotheses of a beam search that can still grow: K for each sentence."""

    ids: tf.Tensor  # int64 [N, K, t]: BOS and the pieces so far
    log_probs: tf.Tensor  # float32 [N, K], best first; -inf: there is none
    parents: tf.Tensor  # int64 [N, K]: the hypotheses that they continue
    limits: tf.Tensor  # int64 [N]: the length limits, including EOS
    prefix: tf.Tensor  # int64 [N, P + 1]: the first pieces, then PAD


class Candidates(NamedTuple):
    """The 2K best continuations of the open hypotheses, best first."""

    ids: tf.Tensor  # int64 [N, 2K, t + 1]
    log_probs: tf.Tensor  # float32 [N, 2K]
    parents: tf.Tensor  # int64 [N, 2K]
    scores: tf.Tensor  # float32 [N, 2K]: log-probability / length penalty
    ends: tf.Tensor  # bool [N, 2K]: whether it is finished


def beam(step: Callable, state, limits, options: SearchOptions) -> Hypotheses:
    """Search with a beam and a length penalty (section 6.1; Wu et al. 2016, section 7).

    At every decoding step, each sentence has K open hypotheses and the K best finished
    ones so far. The open hypotheses have all the same length, so they are compared by
    their log-probabilities. Finished ones differ in length, so they are compared by
    their scores, which include the length penalty.

    A step considers the 2K best continuations. At most K of them end, one for each open
    hypothesis, so at least K stay open. Those that end compete with the finished
    hypotheses for K places; the K best of the others are the next open hypotheses.

    A sentence is done when its best open hypothesis could not become one of the n best
    even if it grew to the limit without losing log-probability. This bound is exact:
    stopping early changes no result.

    With `keep_open`, hypotheses that are still open at the limit compete with those
    that ended. Otherwise, without `must_end`, they are dropped; if a sentence has no
    finished hypotheses, its results are the open ones, scored by their
    log-probabilities.

    Args:
      step: the step function (see the module docstring); K = `options.beam_size`.
      state: the state before the first position.
      limits: int32 [N], the length limit of each sequence, including EOS; at least 1.
      options: SearchOptions. With `must_end` and a beam size of 1, this is `greedy`.

    Returns:
      Hypotheses with n_best = `options.n_best`.

    Raises:
      SettingsError: n_best is larger than the beam size, or an option is not
        allowed.
    """
    _check_options(options)
    beam_size, alpha = options.beam_size, options.length_penalty
    form = options.length_penalty_form
    if options.n_best > beam_size:
        raise SettingsError(
            f"n_best: expected at most the beam size, {beam_size}, got {options.n_best}"
        )
    if beam_size == 1 and options.must_end:
        return greedy(step, state, limits, options)

    def is_open(finished, hypotheses):
        max_length = tf.cast(hypotheses.limits, tf.float32)
        largest_penalty = length_penalty(max_length, alpha, form)  # [N]
        bound = hypotheses.log_probs[:, 0] / largest_penalty
        rank = 0 if options.stop_early else options.n_best - 1
        return bound > finished.scores[:, rank]

    def extend(finished, hypotheses, state):
        ids = hypotheses.ids
        length = tf.shape(ids)[2]  # of the candidates
        newest = tf.cast(ids[:, :, -1], tf.int32)
        parents = tf.cast(hypotheses.parents, tf.int32)
        logits, state = step(newest, parents, state)  # [N, K, V]
        logits = penalize_repetition(logits, ids[:, :, 1:], options.repetition_penalty)
        vocab_size = shape_list(logits)[2]
        rules = _rules_for_next(
            ids, hypotheses.limits, hypotheses.prefix, vocab_size, options
        )
        log_probs, parents, pieces = best_continuations(
            hypotheses.log_probs, logits, 2 * beam_size, rules, options.forbidden
        )  # [N, 2K]
        scores = log_probs / length_penalty(tf.cast(length, tf.float32), alpha, form)
        ends = tf.equal(pieces, options.eos)
        if options.keep_open:
            at_limit = tf.equal(cast_to_int64(length), hypotheses.limits)  # [N]
            ends = tf.logical_or(ends, at_limit[:, None])
        candidates = Candidates(
            tf.concat([reorder(ids, parents), pieces[:, :, None]], axis=2),
            log_probs,
            parents,
            scores,
            ends,
        )
        finished = _keep_best_finished(finished, candidates, beam_size)
        hypotheses, survivors = _keep_best_open(hypotheses, candidates, beam_size)
        if not (options.must_end or options.keep_open):
            finished, hypotheses = _drop_at_limit(finished, hypotheses, length)
        if options.keep_history:
            history = finished.history.append(
                pieces, parents, log_probs, scores, survivors
            )
            finished = finished._replace(history=history)
        return finished, hypotheses, state

    finished, hypotheses = _start_beam(limits, options)
    finished, hypotheses, state = search_loop(
        is_open, extend, finished, hypotheses, state, options.keep_batch
    )
    return _make_hypotheses(
        finished.ids[:, : options.n_best, 1:], finished.scores[:, : options.n_best]
    )._replace(
        history=finished.history.to_int32() if options.keep_history else (),
        state=state,
        parents=hypotheses.parents if options.keep_batch else (),
    )


def _start_beam(limits, options) -> Tuple[Hypotheses, OpenHypotheses]:
    """Return the hypotheses before the first step: none finished, one open."""
    batch = tf.shape(limits)[0]
    beam_size = options.beam_size
    ids = tf.fill([batch, beam_size, 1], np.int64(options.bos))
    history: tuple = ()
    if options.keep_history:
        floats = tf.zeros([batch, 2 * beam_size, 0])
        integers = tf.cast(floats, tf.int64)
        survivors = integers[:, :beam_size]
        history = SearchHistory(integers, integers, floats, floats, survivors)
    finished = Hypotheses(ids, tf.fill([batch, beam_size], NEVER), history)
    # All K begin alike, so only the first one counts.
    only_first = tf.tile([[0.0] + [NEVER] * (beam_size - 1)], [batch, 1])
    parents = tf.zeros([batch, beam_size], tf.int64)
    prefix = _pad_prefix(batch, options)
    return finished, OpenHypotheses(
        ids, only_first, parents, cast_to_int64(limits), prefix
    )


def _keep_best_finished(finished, candidates, beam_size: int) -> Hypotheses:
    """Keep the K best of the hypotheses that ended before or end now."""
    scores = tf.where_v2(candidates.ends, candidates.scores, NEVER)
    scores, best = top_k(tf.concat([finished.scores, scores], axis=1), beam_size)
    ids = append_zeros(finished.ids, 1, axis=2)  # [N, K, t + 1]
    ids = reorder(tf.concat([ids, candidates.ids], axis=1), best)
    return finished._replace(ids=ids, scores=scores)


def _keep_best_open(hypotheses, candidates, beam_size: int):
    """Keep the K best candidates that do not end.

    Returns:
      (OpenHypotheses, their indices among the candidates, int64 [N, K]).
    """
    log_probs = tf.where_v2(candidates.ends, NEVER, candidates.log_probs)
    log_probs, survivors = top_k(log_probs, beam_size)
    ids, parents = reorder((candidates.ids, candidates.parents), survivors)
    hypotheses = hypotheses._replace(ids=ids, log_probs=log_probs, parents=parents)
    return hypotheses, survivors


def _drop_at_limit(finished, hypotheses, length):
    """Drop the open hypotheses at the limit; without finished ones, they are results.

    Returns:
      (Hypotheses, OpenHypotheses).
    """
    at_limit = tf.equal(cast_to_int64(length), hypotheses.limits)  # [N]
    is_empty = tf.equal(finished.scores[:, 0], NEVER)
    takes_open = tf.logical_and(at_limit, is_empty)
    finished = finished._replace(
        ids=tf.where_v2(takes_open[:, None, None], hypotheses.ids, finished.ids),
        scores=tf.where_v2(takes_open[:, None], hypotheses.log_probs, finished.scores),
    )
    log_probs = tf.where_v2(at_limit[:, None], NEVER, hypotheses.log_probs)
    return finished, hypotheses._replace(log_probs=log_probs)


SEARCHES: Dict[str, Callable] = {"greedy": greedy, "beam": beam, "sample": sample}


# Shared by all searches: options, scores, the order of states, the rules, the loop


def _check_options(options: SearchOptions) -> None:
    """Raise SettingsError for an option that the setting of its name cannot have."""
    for name, value in options._asdict().items():
        if name not in FIELDS or tf.is_tensor(value):
            continue
        kind = type(FIELDS[name].default)
        numeric: Any = {int: numbers.Integral, float: numbers.Real}.get(kind, kind)
        if not isinstance(value, numeric):
            raise SettingsError(f"{name}: expected {kind.__name__}, got {value!r}")
        refuse_outside_limits(name, value)


def _make_hypotheses(ids, scores) -> Hypotheses:
    """Make the Hypotheses of a search; a missing one has no pieces."""
    ids = tf.where_v2(tf.equal(scores, NEVER)[:, :, None], np.int64(PAD), ids)
    return Hypotheses(tf.cast(ids, tf.int32), scores)


def reorder(state, parents):
    """Give each hypothesis the state of its parent: a nest of tensors [N, K, ...]."""
    if parents is None:
        return state
    return tf.nest.map_structure(lambda x: tf.gather(x, parents, batch_dims=1), state)


def _pad_prefix(batch, options):
    """Return the prefixes of the sequences: int64 [N, P + 1], the last column PAD."""
    if options.prefix is None:
        return tf.fill([batch, 1], np.int64(PAD))
    return append_zeros(cast_to_int64(options.prefix), 1, axis=1)


def _rules_for_next(ids, limits, prefix, vocab_size: int, options) -> NextPieceRules:
    """Apply the rules of the options: which piece must come next, and which may.

    Args:
      ids: int64 [N, K, t], BOS and the pieces so far.
      limits: int64 [N].
      prefix: int64 [N, P + 1], from `_pad_prefix`.
      vocab_size: int, V.
      options: SearchOptions.
    """
    length = tf.shape(ids)[2]
    forced = prefix[:, tf.minimum(length, tf.shape(prefix)[1]) - 1]  # [N]
    if options.must_end and not options.keep_open:
        at_limit = tf.equal(cast_to_int64(length), limits)
        forced = tf.where_v2(at_limit, np.int64(options.eos), forced)
    allowed = None
    if options.min_length:
        may_end = length > options.min_length
        is_end = np.arange(vocab_size) == options.eos
        allowed = tf.logical_or(may_end, ~is_end)[None, None, :]
    if options.no_repeat_ngram:
        repeats = _find_repeats(ids[:, :, 1:], vocab_size, options.no_repeat_ngram)
        allowed = combine_masks(allowed, tf.logical_not(repeats))
    return NextPieceRules(forced, allowed)


def penalize_repetition(logits, pieces, penalty: float):
    """Make the pieces that a sequence already has less likely (Keskar et al. 2019).

    Positive logits are divided by the penalty, negative ones multiplied with it.

    Args:
      logits: float [N, K, V], of the next piece.
      pieces: int64 [N, K, t], of the sequence.
      penalty: 1: the logits stay as they are.

    Returns:
      float [N, K, V].
    """
    if penalty == 1:
        return logits
    vocab_size = shape_list(logits)[2]
    is_present = _find_repeats(pieces, vocab_size, 1)
    penalized = tf.where_v2(logits < 0, logits * penalty, logits / penalty)
    return tf.where_v2(is_present, penalized, logits)


def _find_repeats(pieces, vocab_size: int, size: int):
    """Find the pieces that would complete an n-gram that the sequence already has.

    Args:
      pieces: int64 [N, K, t].
      vocab_size: int, V.
      size: int, n.

    Returns:
      bool [N, K, V].
    """
    batch, beam_size, length = shape_list(pieces)
    pieces = tf.reshape(pieces, [-1, length])  # [N*K, t]
    count = tf.maximum(0, length - size + 1)  # n-grams of a sequence
    matches_suffix = tf.fill([batch * beam_size, count], True)
    for i in range(size - 1):
        newest = length - size + 1 + i  # the index of the i-th of the last n - 1 pieces
        matches_suffix = tf.logical_and(
            matches_suffix,
            tf.equal(pieces[:, i : i + count], pieces[:, newest : newest + 1]),
        )
    matches = tf.where_v2(matches_suffix)  # [M, 2]: sequence, n-gram
    last_pieces = tf.gather_nd(pieces[:, size - 1 :], matches)  # [M]
    counts = tf.scatter_nd(
        tf.stack([matches[:, 0], last_pieces], axis=1),
        tf.ones_like(last_pieces),
        tf.cast([batch * beam_size, vocab_size], tf.int64),
    )
    return tf.reshape(counts > 0, [batch, beam_size, vocab_size])


def search_loop(
    is_open: Callable,
    extend: Callable,
    results,
    hypotheses: tuple,
    state,
    keep_batch: bool = False,
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
      is_open: function of results, hypotheses that returns bool [N].
      extend: function of results, hypotheses, state that returns the same, one piece
        longer.
      results: a nest of tensors [N, ...]; their third dimension may grow.
      hypotheses: further tensors [N, ...] of the search; their third dimension may
        grow.
      state: the state of the step function.
      keep_batch: whether the batch keeps its size.

    Returns:
      (`results` of all sentences, in their order, hypotheses, state). With
      `keep_batch`, hypotheses and state are those of the last step; otherwise, they are
      ().
    """
    search = (results, hypotheses, state)
    shapes = (
        *tf.nest.map_structure(_shape_of_sequences, (results, hypotheses)),
        tf.nest.map_structure(_shape_of_state, state),
    )

    def extend_while_open(search, more_than):
        """Extend while more than this many sentences are open."""

        def has_enough_open(results, hypotheses, state):
            is_sentence_open = tf.cast(is_open(results, hypotheses), tf.float32)
            return tf.reduce_sum(is_sentence_open) > more_than

        return tf.while_loop(
            has_enough_open, extend, search, shape_invariants=shapes, back_prop=False
        )

    def finish_a_quarter(sentences, stored, search):
        """Extend until a quarter of the sentences are done; go on with the others."""
        three_quarters = tf.cast(3 * tf.shape(sentences)[0] // 4, tf.float32)
        search = extend_while_open(search, three_quarters)
        results, hypotheses, _ = search
        stored = tf.nest.map_structure(
            lambda all_rows, rows: _store_rows(all_rows, rows, sentences),
            stored,
            results,
        )
        remaining = tf.where_v2(is_open(results, hypotheses))[:, 0]
        search = tf.nest.map_structure(lambda x: tf.gather(x, remaining), search)
        return tf.gather(sentences, remaining), stored, search

    if keep_batch:
        return extend_while_open(search, 0.0)
    batch = tf.shape(tf.nest.flatten(results)[0])[0]
    sentences = cast_to_int64(tf.range(batch))  # [N], the indices of those in the batch
    _, stored, _ = tf.while_loop(
        lambda sentences, *_: tf.shape(sentences)[0] > 0,
        finish_a_quarter,
        (sentences, results, search),
        back_prop=False,
        shape_invariants=(tf.TensorShape([None]), shapes[0], shapes),
    )
    return stored, (), ()


def _shape_of_sequences(x) -> tf.TensorShape:
    """Return the shape of ids or numbers: the batch shrinks, the length grows."""
    sizes = x.shape.as_list()
    return tf.TensorShape([None, *sizes[1:2]] + [None] * len(sizes[2:]))


def _shape_of_state(x) -> tf.TensorShape:
    """Return the shape of a state: the batch shrinks; a size of 0 may grow."""
    return tf.TensorShape([None] + [size or None for size in x.shape.as_list()[1:]])


def _store_rows(all_rows, rows, sentences):
    """Store the newest results of some sentences among those of all sentences.

    Args:
      all_rows: a tensor [N, ...]; its third dimension may be shorter than that of
        `rows`, and is padded with zeros.
      rows: a tensor [M, ...].
      sentences: int64 [M], the indices of the sentences.
    """
    if all_rows.shape.ndims > 2:
        growth = tf.shape(rows)[2] - tf.shape(all_rows)[2]
        all_rows = append_zeros(all_rows, growth, axis=2)
    return tf.tensor_scatter_nd_update(all_rows, sentences[:, None], rows)


# Ranking


class Continuations(NamedTuple):
    """Hypotheses that are one piece longer, best first, [N, count] each."""

    log_probs: tf.Tensor  # float32
    parents: tf.Tensor  # int64: the index of the hypothesis that is continued
    pieces: tf.Tensor  # int64


def best_continuations(
    log_probs, logits, count: int, rules: NextPieceRules, forbidden: Sequence[int]
) -> Continuations:
    """Rank the continuations of the open hypotheses of each sentence.

    Only the softmax needs the whole vocabulary, because the `count` best continuations
    of a sentence are among the `count` best of each hypothesis. (docs/performance.md
    has measurements.)

    Args:
      log_probs: float [N, K], of the hypotheses.
      logits: float [N, K, V], of their next pieces.
      count: int, the number of continuations.
      rules: NextPieceRules.
      forbidden: ids of pieces that no hypothesis may take.
    """
    allowed = rules.allowed
    _, beam_size, vocab_size = shape_list(logits)
    candidates = logits if allowed is None else tf.where_v2(allowed, logits, NEVER)
    logits = tf.reshape(logits, [-1, vocab_size])  # [N*K, V]
    candidates = tf.reshape(candidates, [-1, vocab_size])
    width = min(vocab_size, count + len(forbidden))  # candidates of a hypothesis
    best, pieces = _top_k_in_chunks(candidates, width)  # [N*K, width]
    if allowed is None:  # log sum exp(logits), from the likeliest piece of all
        largest = tf.gather(tf.nn.softmax(logits), pieces[:, :1], batch_dims=1)
        normalizers = best[:, :1] - tf.log(largest)  # [N*K, 1]
    else:
        normalizers = tf.reduce_logsumexp(logits, -1, keepdims=True)
    for piece in forbidden:
        best = tf.where_v2(tf.equal(pieces, piece), NEVER, best)
    forced = tf.tile(rules.forced[:, None], [1, beam_size])
    forced = tf.reshape(forced, [-1, 1])  # [N*K, 1]
    is_first = np.arange(width)[None] == 0
    only_forced = tf.where_v2(
        is_first, tf.gather(logits, forced, batch_dims=1), NEVER
    )  # [N*K, width]
    best = tf.where_v2(tf.equal(forced, PAD), best, only_forced)
    pieces = tf.where_v2(tf.equal(forced, PAD), pieces, forced)
    totals = tf.reshape(log_probs, [-1, 1]) + (best - normalizers)
    totals, indices = top_k(tf.reshape(totals, [-1, beam_size * width]), count)
    pieces = tf.reshape(pieces, [-1, beam_size * width])
    pieces = tf.gather(pieces, indices, batch_dims=1)
    return Continuations(totals, indices // width, pieces)


def filter_logits(log_probs, options: SearchOptions):
    """Apply the temperature, and set all but the likeliest pieces to NEVER.

    Args:
      log_probs: float [N, V].
      options: SearchOptions, with `temperature`, `top_k` and `top_p`.

    Returns:
      float [N, V], logits.
    """
    logits = log_probs / options.temperature
    if options.top_k:
        best, _ = tf.nn.top_k(logits, min(options.top_k, logits.shape.as_list()[1]))
        logits = tf.where_v2(logits < best[:, -1:], NEVER, logits)
    if options.top_p:
        best = tf.sort(logits, direction="DESCENDING")
        sum_before = tf.cumsum(tf.nn.softmax(best), axis=1, exclusive=True)  # [N, V]
        is_needed = tf.cast(sum_before < options.top_p, tf.int32)
        last = tf.reduce_sum(is_needed, 1) - 1  # [N]
        last = tf.maximum(0, last)  # in float32, a tiny `top_p` is 0
        threshold = tf.gather(best, last[:, None], batch_dims=1)  # [N, 1]
        logits = tf.where_v2(logits < threshold, NEVER, logits)
    return logits


def draw_pieces(uniforms, logits):
    """Draw a piece from each distribution, with random numbers that are given.

    Piece v has the probability p_v: it is drawn by the numbers from p_0 + ... + p_v-1
    up to p_0 + ... + p_v.

    Args:
      uniforms: float [N], uniform in [0, 1).
      logits: float [N, V].

    Returns:
      int64 [N, 1]; 0 if the logits are NaN, or all of them NEVER.
    """
    ends = tf.cumsum(tf.nn.softmax(logits), axis=1)  # [N, V]
    uniforms = uniforms * (1 - 1e-6)  # rounding must not reach the last piece's end
    is_before = tf.less_equal(ends, uniforms[:, None] * ends[:, -1:])
    return tf.reduce_sum(tf.cast(is_before, tf.int64), 1, keepdims=True)


def top_k(x, k: int):
    """Compute tf.nn.top_k of x [M, V]; the indices are int64, see `cast_to_int64`."""
    best, indices = tf.nn.top_k(x, k)
    return best, cast_to_int64(indices)


def _top_k_in_chunks(x, k: int):
    """Compute `top_k` of x [M, V] in chunks, if V has a suitable divisor.

    The k largest numbers are in the k chunks with the largest maxima, and finding a
    maximum is faster than ranking: see docs/performance.md.
    """
    size = x.shape.as_list()[1]
    width = next(width for width in range(int(size**0.5), 0, -1) if size % width == 0)
    if k * width >= size // 2:
        return top_k(x, k)
    chunks = tf.reshape(x, [-1, size // width, width])
    _, best_chunks = top_k(tf.reduce_max(chunks, axis=2), k)  # [M, k]
    numbers = tf.reshape(tf.gather(chunks, best_chunks, batch_dims=1), [-1, k * width])
    best, indices = top_k(numbers, k)
    chunk = tf.gather(best_chunks, indices // width, batch_dims=1)
    return best, chunk * width + indices % width
