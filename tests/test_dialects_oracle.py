"""Every dialect against NumPy: the model, its loss, its updates. Needs no recordings.

Where there are recordings, the NumPy models themselves are held against them.
"""

import fixtures
import numpy as np
import oracle
import oracle_sources
import pytest
import tensorflow.compat.v1 as tf
from recorded import shift_right, token_ids
from test_dialects_whole import WHOLE, Whole

from transformer.dialects import DIALECTS
from transformer.hparams import HParams
from transformer.model import Transformer
from transformer.training import Loss, cross_entropy, make_update

CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # float32 against float64
HP = {
    "num_blocks": 2,
    "d_model": 8,
    "d_ff": 12,
    "num_heads": 2,
    "max_positions": 6,
    "source_vocab_size": 11,
    "target_vocab_size": 11,
    "warmup_steps": 5,
}

# One source and one target are nothing but padding, one has it in front.
SOURCE = np.array([[5, 9, 4, 7, 3], [6, 3, 0, 0, 0], [0, 0, 0, 0, 0], [0, 8, 4, 3, 0]])
TARGET_IN = np.array([[2, 10, 5, 6], [2, 7, 0, 0], [0, 0, 0, 0], [0, 4, 9, 0]])
TARGET_OUT = np.array([[10, 5, 6, 3], [7, 3, 0, 0], [0, 0, 0, 0], [4, 9, 3, 0]])

over_dialects = pytest.mark.parametrize("dialect", DIALECTS)


def test_every_dialect_has_an_oracle():
    for table in (
        oracle_sources.MODELS,
        oracle_sources.LOSSES,
        oracle_sources.RATES,
        oracle_sources.ADAM,
    ):
        assert set(table) == set(DIALECTS)


@over_dialects
@pytest.mark.parametrize("num_heads", [4])
def test_logits_and_loss(start, dialect, num_heads):
    hp = HParams(
        **dict(
            HP,
            num_heads=num_heads,
            dialect=dialect,
            joint_vocab=DIALECTS[dialect].tied_embeddings,
        )
    )
    model = Transformer(hp)
    logits = model.decode(tf.constant(TARGET_IN), model.encode(tf.constant(SOURCE)))
    loss = cross_entropy(logits, tf.constant(TARGET_OUT), 0.2, model.dialect.smoothing)
    session, variables = start()
    actual, loss = session.run([logits, loss])
    expected = oracle_sources.MODELS[dialect](SOURCE, TARGET_IN, variables, num_heads)
    # The paper does not say what a query of padding gets.
    compared = TARGET_IN != 0 if dialect == "paper" else np.ones_like(TARGET_IN, bool)
    np.testing.assert_allclose(actual[compared], expected[compared], **CLOSE)
    total, count = oracle_sources.LOSSES[dialect](
        actual.astype(np.float64), TARGET_OUT, 0.2
    )
    np.testing.assert_allclose(loss.sum, total, **CLOSE)
    assert loss.count == count


@over_dialects
def test_updates(start, dialect):
    """Ten, with the rates and the Adam that the dialect comes with."""
    hp, slope = HParams(**dict(HP, dialect=dialect)), tf.placeholder(tf.float32, [4])
    w = tf.get_variable("w", [4])
    update = make_update(
        Loss(tf.reduce_sum(slope * w), tf.constant(1.0)),
        hp,
        tf.train.get_or_create_global_step(),
    )
    session, variables = start()
    expected, rng = (variables["w"], np.zeros(4), np.zeros(4)), np.random.RandomState(0)
    for step in range(1, 11):
        gradient = rng.randn(4) * 1e-8  # so small that Adam's epsilon counts
        rate = oracle_sources.RATES[dialect](step, hp.d_model, hp.warmup_steps)
        expected = oracle.adam_step(
            *expected, gradient, step, rate, *oracle_sources.ADAM[dialect]
        )
        _, metrics = session.run([update.apply, update.metrics], {slope: gradient})
        np.testing.assert_allclose(metrics.learning_rate, rate, rtol=1e-5)
        np.testing.assert_allclose(session.run(w), expected[0], **CLOSE)


@WHOLE
def test_the_oracle_reproduces_what_was_recorded(name):
    whole = Whole(name)
    if whole.hp.positions:  # written out is what a dialect does where nothing is said
        pytest.skip("recorded with other positions than the dialect's")
    case, names = whole.case, whole.names
    target_in = (
        token_ids(case[names.target_in])
        if names.target_in
        else shift_right(whole.target_out, names.first)
    )
    variables = {key: np.float64(value) for key, value in whole.variables.items()}
    logits = oracle_sources.MODELS[whole.hp.dialect](
        token_ids(case[names.source]), target_in, variables, whole.hp.num_heads
    )
    fixtures.assert_close(logits, case["out/logits"].reshape(logits.shape), "logits")
