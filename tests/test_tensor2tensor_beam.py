"""The beam search of tensor2tensor, against its recorded numbers."""
import fixtures
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from transformer.decoding import SearchOptions, beam
from transformer.text import BOS, EOS

WORST_SCORE = -1e6  # below it, what is recorded are fillers


def our_ids(vocab_size, initial_id, eos_id):
    """The ids that we give to theirs: theirs of the beginning and the end are ours."""
    ids = np.arange(vocab_size)
    for theirs, ours in ((eos_id, EOS), (initial_id, BOS)):
        place = list(ids).index(ours)
        ids[[theirs, place]] = ids[[place, theirs]]
    return ids


def tables(case):
    """(log-probabilities of the next of our ids [N, V, V], our ids of theirs [N, V])."""
    table = case["in/table"].astype(np.float64)
    table -= np.log(np.exp(table).sum(axis=-1, keepdims=True))
    ids = np.array([our_ids(len(table), initial_id, case["meta"]["kwargs"]["eos_id"])
                    for initial_id in case["in/initial_ids"]])
    theirs = np.argsort(ids, axis=-1)
    return np.array([table[np.ix_(each, each)] for each in theirs]), ids


def search(case, **changes):
    """Hypotheses of all the beam, in our ids, as arrays."""
    kwargs = case["meta"]["kwargs"]
    log_probs, _ = tables(case)
    batch, size = len(log_probs), kwargs["beam_size"]
    log_probs = tf.constant(log_probs, tf.float32)
    options = SearchOptions(**dict(
        beam_size=size, n_best=size, length_penalty=kwargs["alpha"], must_end=False,
        stop_early=kwargs["stop_early"], **changes))

    def step(ids, sentence):
        return tf.gather_nd(log_probs, tf.stack([sentence, ids], axis=1)), sentence

    state = tf.repeat(tf.range(batch), size)
    limits = tf.fill([batch], kwargs["decode_length"])
    with tf.Session() as session:
        return session.run(beam(step, state, limits, options))


def without_padding(ids):
    """A sequence as a list without the zeros at its end."""
    return list(np.trim_zeros(ids, "b"))


@fixtures.over("D", function="*.beam_search")
def test_sequences_and_scores(name):
    case = fixtures.load(name)
    found, ids = search(case), tables(case)[1]
    for n, scores in enumerate(case["out/scores"]):
        compared = np.flatnonzero(scores > WORST_SCORE)
        assert len(compared)
        fixtures.assert_close(found.scores[n, compared], scores[compared], "scores")
        for k in compared:
            begin, *recorded = ids[n][case["out/sequences"][n, k]]
            assert begin == BOS
            assert without_padding(found.ids[n, k]) == without_padding(recorded)
        fillers = np.setdiff1d(np.arange(len(scores)), compared)
        assert np.all(found.scores[n, fillers] < WORST_SCORE)
