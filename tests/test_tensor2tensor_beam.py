"""The beam search of tensor2tensor, against its recorded numbers."""

import fixtures
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from transformer.compat.tensor2tensor import beam_search
from transformer.decoding import SearchOptions, beam
from transformer.text.vocabulary import BOS, EOS

WORST_SCORE = -1e6  # below it, what is recorded are fillers


def our_ids(vocab_size, initial_id, eos_id):
    """The ids that we give to theirs: theirs of the beginning and the end are ours."""
    ids = np.arange(vocab_size)
    for theirs, ours in ((eos_id, EOS), (initial_id, BOS)):
        place = list(ids).index(ours)
        ids[[theirs, place]] = ids[[place, theirs]]
    return ids


def tables(case):
    """(log-probabilities of the next of our ids [N, V, V], our ids of theirs)."""
    table = case["in/table"].astype(np.float64)
    table -= np.log(np.exp(table).sum(axis=-1, keepdims=True))
    ids = np.array(
        [
            our_ids(len(table), initial_id, case["meta"]["kwargs"]["eos_id"])
            for initial_id in case["in/initial_ids"]
        ]
    )
    theirs = np.argsort(ids, axis=-1)
    return np.array([table[np.ix_(each, each)] for each in theirs]), ids


def table_step(log_probs):
    """The next piece depends on the sentence and on the last piece: [N, V, V]."""

    def step(ids, _, sentences):
        places = tf.stack([tf.zeros_like(ids) + sentences[:, None], ids], axis=2)
        return tf.gather_nd(log_probs, places), sentences

    return step


def search(case):
    """Hypotheses of all the beam, in our ids, as arrays."""
    kwargs = case["meta"]["kwargs"]
    log_probs, _ = tables(case)
    batch, size = len(log_probs), kwargs["beam_size"]
    log_probs = tf.constant(log_probs, tf.float32)
    options = SearchOptions(
        beam_size=size, n_best=size, length_penalty=kwargs["alpha"], must_end=False
    )

    step = table_step(log_probs)
    state = tf.range(batch)
    limits = tf.fill([batch], kwargs["decode_length"])
    with tf.Session() as session:
        return session.run(beam(step, state, limits, options))


def without_padding(ids):
    """A sequence as a list without what follows its first EOS."""
    ids = [int(each) for each in ids]
    return ids[: ids.index(EOS) + 1] if EOS in ids else ids


def alike(one, other, log_probs):
    """Whether two sequences are the same, or as good: made of the same steps in another
    order, so that rounding alone says which of them comes first."""
    return one == other or (
        len(one) == len(other)
        and np.isclose(
            *(log_probs[[BOS] + ids[:-1], ids].sum() for ids in (one, other)),
            rtol=0,
            atol=1e-9,
        )
    )


@fixtures.over("D", function="*.beam_search")
def test_sequences_and_scores(name):
    case = fixtures.load(name)
    found, (log_probs, ids) = search(case), tables(case)
    for n, scores in enumerate(case["out/scores"]):
        compared = np.flatnonzero(scores > WORST_SCORE)
        assert len(compared)
        if case["meta"]["kwargs"]["stop_early"]:
            # There a search ends when its best is certain; ours goes on, and what it
            # finds after the best may be better.
            recorded = scores[compared] - 1e-5
            assert (found.scores[n, compared] >= recorded).all()
            compared = compared[:1]
        fixtures.assert_close(found.scores[n, compared], scores[compared], "scores")
        for k in compared:
            begin, *recorded = ids[n][case["out/sequences"][n, k]]
            assert begin == BOS
            assert alike(
                without_padding(found.ids[n, k]),
                without_padding(recorded),
                log_probs[n],
            )
        assert len({tuple(found.ids[n, k]) for k in compared}) == len(compared)
        if not case["meta"]["kwargs"]["stop_early"]:
            fillers = np.setdiff1d(np.arange(len(scores)), compared)
            assert np.all(found.scores[n, fillers] < WORST_SCORE)


# What `must_end=False` means, without recorded numbers.

VOCAB_SIZE = 6
TABLE = np.random.RandomState(4).randn(VOCAB_SIZE, VOCAB_SIZE)
TABLE -= np.log(np.exp(TABLE).sum(axis=-1, keepdims=True))
ENDLESS = TABLE.copy()
ENDLESS[:, EOS] = -np.inf
ENDLESS -= np.log(np.exp(ENDLESS).sum(axis=-1, keepdims=True))


def search_all(tables, limits, **options):
    """A search of several sentences, each with its own log-probabilities and limit."""
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


def every_path(table, limit):
    """[(log-probability, ids)] of all that has ended by the limit, and of all open."""
    ended, still_open = [], [(0.0, [])]
    for _ in range(limit):
        grown = [
            (log_prob + table[([BOS] + ids)[-1], piece], ids + [piece])
            for log_prob, ids in still_open
            for piece in range(len(table))
        ]
        ended += [path for path in grown if path[1][-1] == EOS]
        still_open = [path for path in grown if path[1][-1] != EOS]
    return ended, still_open


def test_open_hypotheses_are_dropped_at_the_limit():
    found = search_all([TABLE], [3], beam_size=200, n_best=6, length_penalty=0.6)
    ended, _ = every_path(TABLE, 3)
    best = sorted(
        ((log_prob / ((5 + len(ids)) / 6) ** 0.6, ids) for log_prob, ids in ended),
        reverse=True,
    )[:6]
    np.testing.assert_allclose(found.scores[0], [score for score, _ in best], atol=1e-5)
    assert [without_padding(ids) for ids in found.ids[0]] == [ids for _, ids in best]


def test_where_nothing_ends_the_open_hypotheses_are_the_result():
    found = search_all([ENDLESS], [3], beam_size=200, n_best=6, length_penalty=0.6)
    best = sorted(
        (path for path in every_path(ENDLESS, 3)[1] if path[0] > -np.inf), reverse=True
    )[:6]
    np.testing.assert_allclose(found.scores[0], [each for each, _ in best], atol=1e-5)
    assert [list(ids) for ids in found.ids[0]] == [ids for _, ids in best]


# Their function, and what their own tests of it check: searches of tables by position.


def by_position(probabilities):
    """Their function of ids, from probabilities [T, N * K, V] or [T, V]."""
    table = tf.log(tf.constant(probabilities, tf.float32))

    def symbols_to_logits(ids, *_):
        logits = table[tf.shape(ids)[1] - 1]
        return logits + tf.zeros([tf.shape(ids)[0], 1])

    return symbols_to_logits


def searched(symbols_to_logits, batch, size, vocab_size, length, alpha=0.0, **more):
    found = beam_search(
        symbols_to_logits,
        tf.zeros([batch], tf.int32),
        size,
        length,
        vocab_size,
        alpha,
        eos_id=1,
        **more,
    )
    with tf.Session() as session:
        return session.run(found)


TWO_BEAMS = [
    [[0.1, 0.1, 0.8], [0.1, 0.1, 0.8]],
    [[0.4, 0.5, 0.1], [0.2, 0.4, 0.4]],
    [[0.05, 0.9, 0.05], [0.4, 0.4, 0.2]],
]


@pytest.mark.parametrize("size", [1, 2], ids=lambda size: f"beam_{size}")
def test_states_follow_the_hypotheses(size):
    """Each has the sum of its own ids, which the function finds again in the ids."""
    table = by_position(np.array(TWO_BEAMS)[:, :1])

    def symbols_to_logits(ids, i, states):
        before = tf.reduce_sum(ids[:, :-1], axis=1)[:, None]
        checks = [
            tf.assert_equal(states["sum"], before),
            tf.assert_equal(tf.shape(ids)[1], i + 1),
        ]
        with tf.control_dependencies(checks):
            return table(ids), {"sum": states["sum"] + ids[:, -1][:, None]}

    state = tf.placeholder_with_default(tf.zeros([1, 1], tf.int32), [None, 1])
    ids, _, states = searched(
        symbols_to_logits, 1, size, 3, 3, alpha=9.0, states={"sum": state}
    )
    assert states["sum"].shape == (1, size, 1)
    assert ids.shape[:2] == (1, size)


def test_the_state_of_the_end_is_returned():
    probabilities = by_position([[0.7, 0.3], [0.4, 0.6], [0.5, 0.5]])

    def symbols_to_logits(ids, _, states):
        return probabilities(ids), states + 1

    _, _, states = searched(symbols_to_logits, 1, 1, 2, 3, states=tf.zeros([1, 1]))
    assert states.tolist() == [[[2]]]


def test_their_function_finds_what_ours_does_for_each_of_several_sentences():
    draw = np.random.RandomState(3)
    table = np.log(draw.dirichlet(np.ones(7), size=[3, 7]))  # [N, V, V]
    log_probs = tf.constant(table, tf.float32)

    def symbols_to_logits(ids, _, sentences):
        places = tf.stack([sentences[:, 0], ids[:, -1]], axis=1)
        return tf.gather_nd(log_probs, places), sentences

    sentences = tf.range(3)
    theirs = beam_search(
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
    ours = beam(table_step(log_probs), sentences, limits, options)
    with tf.Session() as session:
        (ids, scores, _), found = session.run([theirs, ours])
    is_real = scores > WORST_SCORE
    assert is_real.sum() >= 9 and (is_real == (found.scores > WORST_SCORE)).all()
    np.testing.assert_allclose(scores[is_real], found.scores[is_real], atol=1e-5)
    length = min(ids.shape[2] - 1, found.ids.shape[2])
    shown = ids[:, :, 1:][is_real][:, :length]
    np.testing.assert_array_equal(shown, found.ids[is_real][:, :length])


def test_what_their_search_has_and_ours_not():
    with pytest.raises(ValueError, match="expected use_tpu = False, got True"):
        beam_search(None, tf.constant([0]), 2, 3, 4, 0.0, use_tpu=True)
