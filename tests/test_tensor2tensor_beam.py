"""The beam search of tensor2tensor, against its recorded numbers."""

import fixtures
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from transformer.compat.tensor2tensor import beam_search
from transformer.decoding import SearchOptions, beam
from transformer.text.vocabulary import BOS, EOS

WORST_SCORE = -1e6  # below it are fillers


def our_ids(vocab_size, initial_id, eos_id):
    """Map their ids to ours: only the ids of the beginning and the end differ."""
    ids = np.arange(vocab_size)
    for their_id, our_id in ((eos_id, EOS), (initial_id, BOS)):
        position = list(ids).index(our_id)
        ids[[their_id, position]] = ids[[position, their_id]]
    return ids


def tables(case):
    """Return (log-probabilities of our next id [N, V, V], their id → our id [N, V])."""
    table = case["in/table"].astype(np.float64)
    table -= np.log(np.exp(table).sum(axis=-1, keepdims=True))
    ids = np.array(
        [
            our_ids(len(table), initial_id, case["meta"]["kwargs"]["eos_id"])
            for initial_id in case["in/initial_ids"]
        ]
    )
    their_ids = np.argsort(ids, axis=-1)
    return np.array([table[np.ix_(order, order)] for order in their_ids]), ids


def table_step(log_probs):
    """Make a step whose next piece depends on sentence and last piece: [N, V, V]."""

    def step(ids, _, sentences):
        indices = tf.stack([tf.zeros_like(ids) + sentences[:, None], ids], axis=2)
        return tf.gather_nd(log_probs, indices), sentences

    return step


def search(case):
    """Search; return all hypotheses of the beam, in our ids."""
    kwargs = case["meta"]["kwargs"]
    log_probs, _ = tables(case)
    batch, size = len(log_probs), kwargs["beam_size"]
    log_probs = tf.constant(log_probs, tf.float32)
    options = SearchOptions(
        beam_size=size,
        n_best=size,
        length_penalty=kwargs["alpha"],
        must_end=False,
        keep_batch=True,
        stop_early=kwargs["stop_early"],
    )

    step = table_step(log_probs)
    state = tf.range(batch)
    limits = tf.fill([batch], kwargs["decode_length"])
    with tf.Session() as session:
        return session.run(beam(step, state, limits, options))


def cut_after_eos(ids):
    """Return a sequence as a list that ends with the first EOS."""
    ids = [int(token) for token in ids]
    return ids[: ids.index(EOS) + 1] if EOS in ids else ids


def are_equivalent(first, second, log_probs):
    """Tell whether two sequences are the same, or have the same score: they take the
    same steps in another order, so rounding decides which comes first."""
    return first == second or (
        len(first) == len(second)
        and np.isclose(
            *(log_probs[[BOS] + ids[:-1], ids].sum() for ids in (first, second)),
            rtol=0,
            atol=1e-9,
        )
    )


@fixtures.over("D", function="*.beam_search")
def test_sequences_and_scores(name):
    case = fixtures.load(name)
    hypotheses, (log_probs, ids) = search(case), tables(case)
    for n, scores in enumerate(case["out/scores"]):
        compared = np.flatnonzero(scores > WORST_SCORE)
        assert len(compared)
        fixtures.assert_close(
            hypotheses.scores[n, compared], scores[compared], "scores"
        )
        for k in compared:
            begin, *recorded = ids[n][case["out/sequences"][n, k]]
            assert begin == BOS
            assert are_equivalent(
                cut_after_eos(hypotheses.ids[n, k]),
                cut_after_eos(recorded),
                log_probs[n],
            )
        assert len({tuple(hypotheses.ids[n, k]) for k in compared}) == len(compared)
        fillers = np.setdiff1d(np.arange(len(scores)), compared)
        assert np.all(hypotheses.scores[n, fillers] < WORST_SCORE)


# `must_end=False`, without recorded numbers.

VOCAB_SIZE = 6
TABLE = np.random.RandomState(4).randn(VOCAB_SIZE, VOCAB_SIZE)
TABLE -= np.log(np.exp(TABLE).sum(axis=-1, keepdims=True))
ENDLESS = TABLE.copy()
ENDLESS[:, EOS] = -np.inf
ENDLESS -= np.log(np.exp(ENDLESS).sum(axis=-1, keepdims=True))


def search_all(tables, limits, **options):
    """Search several sentences, each with its own log-probabilities and limit."""
    log_probs = tf.constant(np.stack(tables), tf.float32)

    with tf.Session() as session:
        return session.run(
            beam(
                table_step(log_probs),
                tf.range(len(tables)),
                tf.constant(limits),
                SearchOptions(must_end=False, **options),
            )
        )


def all_paths(table, limit):
    """Return the ended and the open paths at the limit: [(log-probability, ids)]."""
    ended, open_paths = [], [(0.0, [])]
    for _ in range(limit):
        extended = [
            (log_prob + table[([BOS] + ids)[-1], piece], ids + [piece])
            for log_prob, ids in open_paths
            for piece in range(len(table))
        ]
        ended += [path for path in extended if path[1][-1] == EOS]
        open_paths = [path for path in extended if path[1][-1] != EOS]
    return ended, open_paths


def test_open_hypotheses_are_dropped_at_the_limit():
    hypotheses = search_all([TABLE], [3], beam_size=200, n_best=6, length_penalty=0.6)
    ended, _ = all_paths(TABLE, 3)
    best = sorted(
        ((log_prob / ((5 + len(ids)) / 6) ** 0.6, ids) for log_prob, ids in ended),
        reverse=True,
    )[:6]
    np.testing.assert_allclose(
        hypotheses.scores[0], [score for score, _ in best], atol=1e-5
    )
    assert [cut_after_eos(ids) for ids in hypotheses.ids[0]] == [ids for _, ids in best]


def test_where_nothing_ends_the_open_hypotheses_are_the_result():
    hypotheses = search_all([ENDLESS], [3], beam_size=200, n_best=6, length_penalty=0.6)
    best = sorted(
        (path for path in all_paths(ENDLESS, 3)[1] if path[0] > -np.inf), reverse=True
    )[:6]
    np.testing.assert_allclose(
        hypotheses.scores[0], [score for score, _ in best], atol=1e-5
    )
    assert [list(ids) for ids in hypotheses.ids[0]] == [ids for _, ids in best]


# Their function, and what their own tests of it check: searches of tables by position.


def logits_by_position(probabilities):
    """Make their function of ids from probabilities [T, N * K, V] or [T, V]."""
    table = tf.log(tf.constant(probabilities, tf.float32))

    def symbols_to_logits(ids, *_):
        logits = table[tf.shape(ids)[1] - 1]
        return logits + tf.zeros([tf.shape(ids)[0], 1])

    return symbols_to_logits


def run_search(
    symbols_to_logits, batch, size, vocab_size, length, alpha=0.0, **options
):
    results = beam_search(
        symbols_to_logits,
        tf.zeros([batch], tf.int32),
        size,
        length,
        vocab_size,
        alpha,
        eos_id=1,
        **options,
    )
    with tf.Session() as session:
        return session.run(results)


TWO_BEAMS = [
    [[0.1, 0.1, 0.8], [0.1, 0.1, 0.8]],
    [[0.4, 0.5, 0.1], [0.2, 0.4, 0.4]],
    [[0.05, 0.9, 0.05], [0.4, 0.4, 0.2]],
]


@pytest.mark.parametrize("size", [1, 2], ids=lambda size: f"beam_{size}")
def test_states_follow_the_hypotheses(size):
    """The state is the sum of the ids so far, which the ids confirm."""
    table = logits_by_position(np.array(TWO_BEAMS)[:, :1])

    def symbols_to_logits(ids, i, states):
        total = tf.reduce_sum(ids[:, :-1], axis=1)[:, None]
        checks = [
            tf.assert_equal(states["sum"], total),
            tf.assert_equal(tf.shape(ids)[1], i + 1),
        ]
        with tf.control_dependencies(checks):
            return table(ids), {"sum": states["sum"] + ids[:, -1][:, None]}

    state = tf.placeholder_with_default(tf.zeros([1, 1], tf.int32), [None, 1])
    ids, _, states = run_search(
        symbols_to_logits, 1, size, 3, 3, alpha=9.0, states={"sum": state}
    )
    assert states["sum"].shape == (1, size, 1)
    assert ids.shape[:2] == (1, size)


def test_the_state_of_the_end_is_returned():
    probabilities = logits_by_position([[0.7, 0.3], [0.4, 0.6], [0.5, 0.5]])

    def symbols_to_logits(ids, _, states):
        return probabilities(ids), states + 1

    _, _, states = run_search(symbols_to_logits, 1, 1, 2, 3, states=tf.zeros([1, 1]))
    assert states.tolist() == [[[2]]]


def test_their_function_finds_our_hypotheses_for_each_sentence():
    rng = np.random.RandomState(3)
    table = np.log(rng.dirichlet(np.ones(7), size=[3, 7]))  # [N, V, V]
    log_probs = tf.constant(table, tf.float32)

    def symbols_to_logits(ids, _, sentences):
        indices = tf.stack([sentences[:, 0], ids[:, -1]], axis=1)
        return tf.gather_nd(log_probs, indices), sentences

    sentences = tf.range(3)
    their_results = beam_search(
        symbols_to_logits,
        tf.fill([3], BOS),
        4,
        5,
        7,
        0.6,
        states=sentences[:, tf.newaxis],
        eos_id=EOS,
        stop_early=False,
    )
    options = SearchOptions(beam_size=4, n_best=4, length_penalty=0.6, must_end=False)
    limits = tf.fill([3], 5)
    our_hypotheses = beam(table_step(log_probs), sentences, limits, options)
    with tf.Session() as session:
        (ids, scores, _), hypotheses = session.run([their_results, our_hypotheses])
    exists = scores > WORST_SCORE
    assert exists.sum() >= 9 and (exists == (hypotheses.scores > WORST_SCORE)).all()
    np.testing.assert_allclose(scores[exists], hypotheses.scores[exists], atol=1e-5)
    length = min(ids.shape[2] - 1, hypotheses.ids.shape[2])
    their_ids = ids[:, :, 1:][exists][:, :length]
    np.testing.assert_array_equal(their_ids, hypotheses.ids[exists][:, :length])


@pytest.mark.parametrize("stop_early, length", [(True, 2), (False, 3)])
def test_stopping_early_and_static_sizes(stop_early, length):
    """0 2 1 has the probability .4, more than any other after two steps."""
    table = logits_by_position(np.array(TWO_BEAMS))

    def symbols_to_logits(ids):
        assert ids.shape.as_list() == [2, None]
        return table(ids)

    ids, scores, _ = beam_search(
        symbols_to_logits, tf.zeros([1], tf.int32), 2, 3, 3, 0.0, stop_early=stop_early
    )
    assert ids.shape.as_list() == [None, 2, None]
    assert scores.shape.as_list() == [1, 2]
    with tf.Session() as session:
        ids, scores = session.run([ids, scores])
    assert ids[0, 0].tolist() == [0, 2, 1, 0][: length + 1]
    np.testing.assert_allclose(np.exp(scores[0, 0]), 0.8 * 0.5, rtol=1e-5)


def test_unsupported_arguments_are_refused():
    with pytest.raises(ValueError, match="expected use_tpu = False, got True"):
        beam_search(None, tf.constant([0]), 2, 3, 4, 0.0, use_tpu=True)
