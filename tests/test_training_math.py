"""Loss, schedule, Adam, gradients: against the oracle; updates: against each other."""

import dataclasses

import numpy as np
import oracle
import pytest
import tensorflow.compat.v1 as tf

from transformer.hparams import HParams
from transformer.model import Transformer
from transformer.text.batches import Batch
from transformer.training import (
    SCHEDULES,
    SMOOTHINGS,
    Loss,
    cross_entropy,
    disagreement,
    learning_rate,
    make_update,
    peak_rate,
    training_loss,
)

CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # float32 against float64
HP = {
    "dialect": "paper",
    "num_blocks": 1,
    "d_model": 8,
    "d_ff": 12,
    "num_heads": 2,
    "source_vocab_size": 9,
    "target_vocab_size": 9,
    "dropout_rate": 0.0,
    "warmup_steps": 10,
}

SOURCE = np.array([[5, 8, 4, 7, 3], [6, 3, 0, 0, 0], [8, 7, 4, 3, 0]])
TARGET_IN = np.array([[2, 7, 5, 6], [2, 7, 0, 0], [2, 4, 8, 0]])
TARGET_OUT = np.array([[7, 5, 6, 3], [7, 3, 0, 0], [4, 8, 3, 0]])
BATCH = [SOURCE, TARGET_IN, TARGET_OUT]


def placeholders():
    return [tf.placeholder(tf.int32, [None, None]) for _ in range(3)]


def model_loss(hp, source, target_in, target_out):
    model = Transformer(hp)
    logits = model.decode(target_in, model.encode(source))
    return cross_entropy(logits, target_out, hp.label_smoothing)


# --- Loss -----------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_the_gradient_of_the_loss_is_that_of_whole_labels(start, epsilon, smoothing):
    """The loss has a gradient of its own, which makes no labels."""
    true, other, entropy = SMOOTHINGS[smoothing](epsilon, 9)
    logits = tf.constant(np.random.RandomState(0).randn(3, 4, 9) * 3, tf.float32)
    loss = cross_entropy(logits, tf.constant(TARGET_OUT), epsilon, smoothing)
    labels = tf.one_hot(TARGET_OUT, 9, true, other)
    plain = -tf.reduce_sum(labels * tf.nn.log_softmax(logits), -1) - entropy
    plain = tf.reduce_sum(tf.boolean_mask(plain, TARGET_OUT != 0))
    weight = tf.constant(0.7)  # the gradient of what comes after the loss
    session, _ = start()
    (value, expected_value), slopes, expected_slopes = session.run(
        [
            [loss.sum, plain],
            *(tf.gradients(weight * total, logits)[0] for total in (loss.sum, plain)),
        ]
    )
    np.testing.assert_allclose(value, expected_value, **CLOSE)
    np.testing.assert_allclose(slopes, expected_slopes, **CLOSE)


def test_padding_takes_no_part_in_the_loss(start):
    logits = tf.placeholder(tf.float32, [None, None, 9])
    target = tf.placeholder(tf.int32, [None, None])
    loss = cross_entropy(logits, target, 0.1)
    gradient = tf.gradients(loss.sum, logits)[0]
    values = np.random.RandomState(0).randn(3, 4, 9)
    session, _ = start()
    before, slopes = session.run([loss, gradient], {logits: values, target: TARGET_OUT})
    assert not slopes[TARGET_OUT == 0].any()
    assert slopes[TARGET_OUT != 0].all()

    wider = np.pad(values, [[0, 1], [0, 3], [0, 0]], "constant", constant_values=7)
    after = session.run(
        loss, {logits: wider, target: np.pad(TARGET_OUT, [[0, 1], [0, 3]], "constant")}
    )
    np.testing.assert_allclose(after, before, **CLOSE)


def test_cross_entropy_of_hopeless_logits_is_finite(start):
    logits = tf.constant([[[1e4, 0.0, -1e4]]])
    loss = cross_entropy(logits, tf.constant([[2]]), 0.1)
    session, _ = start()
    value, slope = session.run([loss, tf.gradients(loss.sum, logits)])
    assert np.isfinite(slope).all()
    # -sum(labels * log_softmax), where log_softmax is [0, -1e4, -2e4].
    np.testing.assert_allclose(value.sum, 0.9 * 2e4 + 0.1 / 3 * (1e4 + 2e4), rtol=1e-6)


def test_the_disagreement_of_two_passes_is_their_symmetric_divergence(start):
    logits = np.random.RandomState(0).randn(6, 4, 9) * 3
    penalty = disagreement(tf.constant(logits, tf.float32), tf.constant(TARGET_OUT))
    p, q = np.split(oracle.softmax(logits), 2)
    divergence = (p * np.log(p / q) + q * np.log(q / p)).sum(-1) / 2
    session, _ = start()
    np.testing.assert_allclose(
        session.run(penalty), divergence[TARGET_OUT != 0].sum(), **CLOSE
    )


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_r_drop_is_two_passes_and_their_disagreement(start, rate):
    """Without dropout the passes agree: both have the loss of one pass."""
    batch = Batch(*map(tf.constant, BATCH), tf.constant(0, tf.int64))
    hp = HParams(**dict(HP, dropout_rate=rate))
    model = Transformer(hp)
    seed = tf.constant([1, 0], tf.int64)
    one_pass, two_passes, with_penalty = (
        training_loss(model, batch, dataclasses.replace(hp, r_drop=weight), seed)
        for weight in (0.0, 1e-9, 5.0)
    )
    session, _ = start()
    one_pass, two_passes, with_penalty = session.run(
        [one_pass, two_passes, with_penalty]
    )
    assert with_penalty.count == two_passes.count == 2 * one_pass.count
    if rate:
        assert with_penalty.sum > two_passes.sum + 0.01
        assert abs(two_passes.sum - 2 * one_pass.sum) > 0.01  # other dropout
    else:
        np.testing.assert_allclose(with_penalty.sum, 2 * one_pass.sum, **CLOSE)


# --- Gradients ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [{"num_blocks": 2}, {"joint_vocab": False, "source_vocab_size": 11}],
    ids=["joint_vocabulary_2_blocks", "separate_vocabularies_1_block"],
)
def test_gradients_are_the_finite_differences_of_the_oracle(start, changes):
    """Every variable, at a few random entries and at the largest one.

    The differences are central, in float64, of steps of 1e-5: wrong by about 1e-10. The
    gradients are sums of many float32 products, each wrong by 6e-8 of itself: what
    cancels leaves about 1e-6 of the largest entry, so an entry may be wrong by 1e-3 of
    itself or by 1e-5 of the largest. A missing term or factor is wrong by far more.
    """
    hp = HParams(**dict(HP, **changes))
    feeds = placeholders()
    loss = model_loss(hp, *feeds)
    trained = tf.trainable_variables()
    gradients = [tf.convert_to_tensor(g) for g in tf.gradients(loss.sum, trained)]
    session, variables = start()
    gradients = session.run(gradients, dict(zip(feeds, BATCH)))

    def loss_with(name, entry, change):
        changed = dict(variables, **{name: variables[name].copy()})
        changed[name][entry] += change
        logits = oracle.transformer(SOURCE, TARGET_IN, changed, hp.num_heads)
        return oracle.cross_entropy(logits, TARGET_OUT, hp.label_smoothing)[0]

    rng = np.random.RandomState(0)
    for variable, gradient in zip(trained, gradients):
        name, largest = variable.op.name, abs(gradient).max()
        assert gradient.shape == variables[name].shape and largest > 0, name
        places = [abs(gradient).argmax()] + list(rng.randint(gradient.size, size=3))
        for entry in zip(*np.unravel_index(places, gradient.shape)):
            above, below = (loss_with(name, entry, h) for h in (1e-5, -1e-5))
            slope = (above - below) / 2e-5
            np.testing.assert_allclose(
                gradient[entry],
                slope,
                rtol=1e-3,
                atol=1e-5 * largest,
                err_msg=f"{name} {entry}",
            )


# --- Schedule -------------------------------------------------------------------------


def test_linear(start):
    hp = HParams(
        **dict(HP, schedule="linear", warmup_steps=10, max_steps=50, learning_rate=0.5)
    )
    done = tf.placeholder(tf.int64, [])
    rate = learning_rate(hp, done)
    session, _ = start()
    # Straight from 0 before the first step to the peak, and on to 0 after the last one.
    expected = np.interp(range(1, 51), [0, 10, 51], [0, 0.5, 0])
    found = [session.run(rate, {done: step}) for step in range(50)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_peak_is_the_highest_rate(start, schedule):
    hp = HParams(**dict(HP, schedule=schedule, warmup_steps=10, max_steps=50))
    done = tf.placeholder(tf.int64, [])
    rate = learning_rate(hp, done)
    session, _ = start()
    rates = [session.run(rate, {done: step}) for step in range(50)]
    np.testing.assert_allclose(max(rates), peak_rate(hp), rtol=1e-5)


# --- Adam -----------------------------------------------------------------------------


class Slope:
    """A model whose loss is `slope * w`: its gradient is whatever a test feeds."""

    def __init__(self, **changes):
        self.hp = HParams(**dict(HP, **changes))
        self.w = tf.get_variable("w", [4])
        self.slope = tf.placeholder(tf.float32, [4])
        self.count = tf.placeholder(tf.float32, [])
        self.step = tf.train.get_or_create_global_step()
        loss = Loss(tf.reduce_sum(self.slope * self.w), self.count)
        self.update = make_update(loss, self.hp, self.step)

    def feed(self, slope, count):
        return {self.slope: slope, self.count: count}


@pytest.mark.parametrize("clip_norm", [0.0, 0.05], ids=["unclipped", "clipped"])
def test_adam_with_noam(start, clip_norm):
    model = Slope(clip_norm=clip_norm)
    session, variables = start()
    w, m, v = variables["w"], np.zeros(4), np.zeros(4)
    rng = np.random.RandomState(0)
    for step in range(1, 16):
        slope, count = rng.randn(4), rng.randint(5, 50)
        value = w @ slope / count
        _, metrics = session.run(
            [model.update.apply, model.update.metrics], model.feed(slope, count)
        )
        gradient = slope / count
        norm = np.linalg.norm(gradient)
        if clip_norm:
            gradient *= min(1, clip_norm / norm)
        rate = oracle.noam(step, 8, 10)
        w, m, v = oracle.adam_step(w, m, v, gradient, step, rate)
        np.testing.assert_allclose(session.run(model.w), w, **CLOSE)
        np.testing.assert_allclose(
            metrics, [value, count, rate, norm], rtol=1e-4, atol=1e-6
        )
    assert session.run(model.step) == 15


def test_updates_of_the_whole_model(start):
    """Three of them, of gradients that are fetched in a run of their own.

    An update must use them as they are before any variable has changed: TensorFlow 1.15
    lets an optimizer change a variable that other gradients still have to read, unless
    it is told to wait.
    """
    hp = HParams(**HP)
    feeds = placeholders()
    loss = model_loss(hp, *feeds)
    trained = tf.trainable_variables()
    slopes = [tf.convert_to_tensor(g) for g in tf.gradients(loss.sum, trained)]
    update = make_update(loss, hp, tf.train.get_or_create_global_step())
    session, variables = start()
    feed, count = dict(zip(feeds, BATCH)), (TARGET_OUT != 0).sum()
    expected = {name: (value, 0, 0) for name, value in variables.items()}
    clear = {name: True for name in variables}
    for step in (1, 2, 3):
        gradients = session.run(slopes, feed)
        session.run(update.apply, feed)
        rate = oracle.noam(step, hp.d_model, hp.warmup_steps)
        for variable, gradient, value in zip(trained, gradients, session.run(trained)):
            name = variable.op.name
            expected[name] = oracle.adam_step(
                *expected[name], gradient / count, step, rate
            )
            # Adam divides by the size of the gradient: of one that is all rounding
            # error it makes a full step, so only clear ones can be predicted.
            clear[name] = clear[name] & (abs(gradient) > 0.01 * abs(gradient).max())
            assert clear[name].any(), name
            np.testing.assert_allclose(
                value[clear[name]], expected[name][0][clear[name]], **CLOSE
            )


# --- Accumulation ---------------------------------------------------------------------


def test_accumulated_batches_are_one_batch(start):
    """Batches of unequal numbers of tokens: the mean of their means would differ."""
    model = Slope(accumulate=3)
    session, variables = start()
    w, m, v = variables["w"], np.zeros(4), np.zeros(4)
    rng = np.random.RandomState(0)
    for step in range(1, 4):  # the sums must be empty again after each update
        slopes, counts = rng.randn(3, 4), np.array([1, 40, 7])
        for slope, count in zip(slopes[:2], counts):
            session.run(model.update.accumulate, model.feed(slope, count))
            np.testing.assert_allclose(session.run(model.w), w, **CLOSE)
        _, metrics = session.run(
            [model.update.apply, model.update.metrics], model.feed(slopes[2], counts[2])
        )
        value = slopes.sum(axis=0) @ w / counts.sum()
        gradient = slopes.sum(axis=0) / counts.sum()
        rate = oracle.noam(step, 8, 10)
        w, m, v = oracle.adam_step(w, m, v, gradient, step, rate)
        np.testing.assert_allclose(session.run(model.w), w, **CLOSE)
        np.testing.assert_allclose(
            metrics, [value, counts.sum(), rate, np.linalg.norm(gradient)], rtol=1e-4
        )
    assert session.run(model.step) == 3
