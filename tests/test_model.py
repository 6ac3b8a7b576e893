"""The whole model in the paper's dialect: against the oracle, and against itself."""
import numpy as np
import oracle
import pytest
import tensorflow.compat.v1 as tf

from hparams import HParams
from transformer.model import Transformer

CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # float32 against float64, or against itself
HP = HParams(dialect="paper", num_blocks=2, d_model=8, d_ff=16, num_heads=2,
             source_vocab_size=13, target_vocab_size=13, dropout_rate=0.3)
SEPARATE = {"joint_vocab": False, "source_vocab_size": 11}
VOCABULARIES = pytest.mark.parametrize(
    "changes", [{}, SEPARATE], ids=["joint_vocabulary", "separate_vocabularies"])

SOURCE = np.array([[5, 9, 4, 7, 3], [6, 3, 0, 0, 0], [8, 10, 4, 3, 0]])
TARGET = np.array([[2, 12, 5, 6], [2, 7, 0, 0], [2, 4, 9, 0]])


class Model:
    """A graph of the model with placeholders for both languages."""

    def __init__(self, is_training=False, **changes):
        values = dict(HP.__dict__, **changes)
        self.hp = HParams(**values)
        self.model = Transformer(self.hp)
        self.source = tf.placeholder(tf.int32, [None, None])
        self.target = tf.placeholder(tf.int32, [None, None])
        self.seed = tf.placeholder_with_default([0, 0], [2])
        self.weights = {}
        self.memory = self.model.encode(
            self.source, is_training, self.seed, self.weights)
        self.logits, self.cache = self.model.decode(
            self.target, self.memory, is_training, self.seed, weights=self.weights)

    def run(self, session, source=SOURCE, target=TARGET, fetch=None, seed=(0, 0)):
        return session.run(self.logits if fetch is None else fetch, {
            self.source: source, self.target: target, self.seed: seed})


# --- Against the oracle ---------------------------------------------------------------


@pytest.mark.parametrize("num_heads", [1, 2, 4, 8], ids=lambda n: f"{n}_heads")
@VOCABULARIES
def test_memory_and_logits(start, changes, num_heads):
    model = Model(num_heads=num_heads, **changes)
    session, variables = start()
    memory, logits = model.run(session, fetch=[model.memory, model.logits])
    expected = oracle.encode(SOURCE, variables, num_heads)
    real = SOURCE != 0
    np.testing.assert_allclose(memory.states[real], expected[real], **CLOSE)
    np.testing.assert_array_equal(memory.mask[:, 0, 0], real)

    expected = oracle.transformer(SOURCE, TARGET, variables, num_heads)
    real = TARGET != 0
    assert logits.shape == TARGET.shape + (13,)
    np.testing.assert_allclose(logits[real], expected[real], **CLOSE)


@pytest.mark.parametrize("num_blocks", [1, 4], ids=lambda n: f"{n}_blocks")
def test_logits_of_other_depths(start, num_blocks):
    model = Model(num_blocks=num_blocks)
    session, variables = start()
    assert oracle.num_blocks(variables, "encoder") == num_blocks
    expected = oracle.transformer(SOURCE, TARGET, variables, 2)
    real = TARGET != 0
    np.testing.assert_allclose(model.run(session)[real], expected[real], **CLOSE)


def test_attention_weights_are_collected_by_scope(start):
    model = Model()
    session, _ = start()
    weights = model.run(session, fetch=model.weights)
    N, S, T = 3, 5, 4
    assert {name: value.shape for name, value in weights.items()} == {
        "encoder/block_0/self_attention": (N, 2, S, S),
        "encoder/block_1/self_attention": (N, 2, S, S),
        "decoder/block_0/self_attention": (N, 2, T, T),
        "decoder/block_0/cross_attention": (N, 2, T, S),
        "decoder/block_1/self_attention": (N, 2, T, T),
        "decoder/block_1/cross_attention": (N, 2, T, S),
    }


# --- Padding --------------------------------------------------------------------------


def test_more_padding_changes_no_logit(start):
    model = Model()
    session, _ = start()
    wider = model.run(session, np.pad(SOURCE, [[0, 0], [0, 4]], "constant"),
                      np.pad(TARGET, [[0, 0], [0, 3]], "constant"))
    np.testing.assert_allclose(wider[:, :4], model.run(session), **CLOSE)


def test_padding_is_never_attended_to(start):
    model = Model()
    session, _ = start()
    weights = model.run(session, fetch=model.weights)
    for name, value in weights.items():
        keys = TARGET if name.endswith("self_attention") else SOURCE
        keys = SOURCE if name.startswith("encoder") else keys
        to_padding = np.moveaxis(value, -1, 1)[keys == 0]
        assert to_padding.size
        assert not to_padding.any(), name  # exactly 0


def test_embedding_of_padding_changes_nothing_but_its_own_logit(start):
    model = Model()
    session, variables = start()
    before = model.run(session)
    [table] = [v for v in tf.trainable_variables() if v.op.name.startswith("embedding")]
    changed = variables[table.op.name].copy()
    changed[0] += 5
    session.run(table.initializer, {table.initial_value: changed})
    after = model.run(session)
    real = TARGET != 0
    np.testing.assert_array_equal(after[real][:, 1:], before[real][:, 1:])
    assert (after[real][:, 0] != before[real][:, 0]).all()  # the output layer is tied


def test_a_batch_is_its_lines_one_by_one(start):
    model = Model()
    session, _ = start()
    batch = model.run(session)
    for i, (source, target) in enumerate(zip(SOURCE, TARGET)):
        source, target = source[source != 0], target[target != 0]
        alone = model.run(session, source[None], target[None])
        np.testing.assert_allclose(alone[0], batch[i, :len(target)], **CLOSE)


def test_an_empty_source_gives_finite_logits(start):
    model = Model()
    session, _ = start()
    assert np.isfinite(model.run(session, np.zeros([3, 2]))).all()


# --- Time -----------------------------------------------------------------------------


@pytest.mark.parametrize("place", [1, 2, 3], ids=lambda place: f"position_{place}")
def test_a_later_target_token_changes_no_earlier_logit(start, place):
    model = Model()
    session, _ = start()
    target = np.array([[2, 12, 5, 6]])
    before = model.run(session, SOURCE[:1], target)
    target[0, place] = 9
    after = model.run(session, SOURCE[:1], target)
    np.testing.assert_array_equal(after[0, :place], before[0, :place])
    assert (after[0, place:] != before[0, place:]).any(axis=-1).all()


def test_every_logit_depends_on_every_source_token(start):
    model = Model()
    session, _ = start()
    before = model.run(session, SOURCE[:1], TARGET[:1])
    for place in range(5):
        source = SOURCE[:1].copy()
        source[0, place] = 11
        after = model.run(session, source, TARGET[:1])
        assert (after != before).any(axis=-1).all()


def test_the_order_of_the_source_tokens_matters(start):
    model = Model()
    session, _ = start()
    difference = (model.run(session, SOURCE[:1, ::-1], TARGET[:1])
                  - model.run(session, SOURCE[:1], TARGET[:1]))
    assert abs(difference).max() > 1e-3


# --- Decoding with a cache ------------------------------------------------------------

STEPS = pytest.mark.parametrize("steps", [[1] * 4, [2, 1, 1], [1, 3], [4]],
                                ids=lambda steps: "steps_" + "_".join(map(str, steps)))


def cached_logits(model, memory, target, batch, steps):
    """The logits of `target`, so many positions at a time, with a cache in between."""
    cache, parts, place = model.empty_cache(batch), [], 0
    for step in steps:
        logits, cache = model.decode(target[:, place:place + step], memory, cache=cache)
        parts.append(logits)
        place += step
    return tf.concat(parts, axis=1)


@pytest.mark.parametrize("projected", [False, True], ids=["plain", "projected"])
@STEPS
def test_cached_decoding_is_full_decoding(start, steps, projected):
    model = Model()
    assert model.cache is None
    memory = model.model.project(model.memory) if projected else model.memory
    logits = cached_logits(
        model.model, memory, model.target, tf.shape(model.target)[0], steps)
    session, variables = start()
    full, cached = model.run(session, fetch=[model.logits, logits])
    np.testing.assert_allclose(cached, full, **CLOSE)
    assert len(variables) == len(tf.trainable_variables())  # the cache makes none


@pytest.mark.parametrize("num_heads", [1, 8], ids=lambda n: f"{n}_heads")
def test_hypotheses_in_a_row_share_their_source(start, num_heads):
    """Projected memory of N sentences, target of N * K hypotheses."""
    model = Model(num_heads=num_heads)
    hypotheses = np.array([[[2, 12, 5, 6], [2, 4, 9, 0]],
                           [[2, 5, 5, 7], [2, 3, 0, 0]],
                           [[2, 8, 4, 3], [2, 9, 6, 12]]])  # [N, K, T]
    rows = hypotheses.reshape([6, 4])
    cached = cached_logits(model.model, model.model.project(model.memory), model.target,
                           tf.shape(model.target)[0], [1] * 4)
    session, _ = start()
    cached = model.run(session, SOURCE, rows, cached)
    full = model.run(session, np.repeat(SOURCE, 2, axis=0), rows)
    np.testing.assert_allclose(cached, full, **CLOSE)


# --- Dropout --------------------------------------------------------------------------


def test_dropout_is_a_function_of_its_seed(start):
    model = Model(is_training=True)
    session, _ = start()
    first, again, other = (
        model.run(session, seed=seed) for seed in ([3, 1], [3, 1], [3, 2]))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_no_dropout_outside_training(start):
    model = Model(is_training=False)
    session, variables = start()
    first, other = (model.run(session, seed=seed) for seed in ([3, 1], [3, 2]))
    np.testing.assert_array_equal(first, other)
    expected = oracle.transformer(SOURCE, TARGET, variables, 2)
    np.testing.assert_allclose(first[TARGET != 0], expected[TARGET != 0], **CLOSE)


def test_is_training_may_be_a_tensor(start):
    model = Model(is_training=False)
    switch = tf.placeholder(tf.bool, [])
    memory = model.model.encode(model.source, switch, model.seed)
    logits, _ = model.model.decode(model.target, memory, switch, model.seed)
    session, _ = start()
    feed = {model.source: SOURCE, model.target: TARGET}
    off = session.run(logits, dict(feed, **{switch: False}))
    on = session.run(logits, dict(feed, **{switch: True}))
    np.testing.assert_allclose(off, model.run(session), **CLOSE)
    assert (on != off).any()
