"""The whole model in the paper's dialect: against the oracle, and against itself."""

import numpy as np
import oracle
import pytest
import tensorflow.compat.v1 as tf
from stepping import logits_step_by_step

from transformer.hparams import HParams
from transformer.model import Transformer

CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # float32 against float64, or against itself
HP = {
    "dialect": "paper",
    "num_blocks": 2,
    "d_model": 8,
    "d_ff": 16,
    "num_heads": 2,
    "source_vocab_size": 13,
    "target_vocab_size": 13,
    "dropout_rate": 0.3,
}
SEPARATE = {"joint_vocab": False, "source_vocab_size": 11}

SOURCE = np.array([[5, 9, 4, 7, 3], [6, 3, 0, 0, 0], [8, 10, 4, 3, 0]])
TARGET = np.array([[2, 12, 5, 6], [2, 7, 0, 0], [2, 4, 9, 0]])
REAL = TARGET != 0


class Model:
    """The model in the default graph, with placeholders for both languages."""

    def __init__(self, is_training=False, **changes):
        self.transformer = Transformer(HParams(**dict(HP, **changes)))
        self.source = tf.placeholder(tf.int32, [None, None])
        self.target = tf.placeholder(tf.int32, [None, None])
        self.seed = tf.placeholder_with_default([0, 0], [2])
        self.weights, options = {}, (is_training, self.seed)
        self.memory = self.transformer.encode(self.source, *options, self.weights)
        self.logits = self.transformer.decode(
            self.target, self.memory, *options, weights=self.weights
        )

    def run(self, session, source=SOURCE, target=TARGET, fetch=None, seed=(0, 0)):
        return session.run(
            self.logits if fetch is None else fetch,
            {self.source: source, self.target: target, self.seed: seed},
        )


# --- Against the oracle ---------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [{}, {"num_heads": 8}, {"num_blocks": 4}, SEPARATE, {"d_k": 1, "d_v": 6}],
    ids=["joint_vocabulary", "8_heads", "4_blocks", "separate_vocabularies", "d_k_d_v"],
)
def test_memory_and_logits(start, changes):
    model, hp = Model(**changes), dict(HP, **changes)
    session, variables = start()
    memory, logits = model.run(session, fetch=[model.memory, model.logits])
    assert oracle.num_blocks(variables, "encoder") == hp["num_blocks"]
    assert oracle.num_blocks(variables, "decoder") == hp["num_blocks"]

    expected = oracle.encode(SOURCE, variables, hp["num_heads"])
    np.testing.assert_allclose(
        memory.states[SOURCE != 0], expected[SOURCE != 0], **CLOSE
    )
    np.testing.assert_array_equal(memory.mask[:, 0, 0], SOURCE != 0)

    expected = oracle.transformer(SOURCE, TARGET, variables, hp["num_heads"])
    assert logits.shape == expected.shape
    np.testing.assert_allclose(logits[REAL], expected[REAL], **CLOSE)


# --- Step by step ---------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, {"d_k": 3, "d_v": 5}], ids=["", "d_k_d_v"])
def test_step_by_step_is_all_at_once(start, changes):
    model = Model(**changes, max_relative_position=2 if changes else 0)
    target = np.array([[2, 12, 5, 6], [2, 0, 7, 4], [2, 4, 0, 0]])  # padding inside too
    stepped = logits_step_by_step(
        model.transformer, model.memory, tf.constant(target, tf.int32)
    )
    session, _ = start()
    full, stepped = model.run(session, target=target, fetch=[model.logits, stepped])
    np.testing.assert_allclose(stepped, full, **CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"num_heads": 8},
        {"max_relative_position": 2},
        {"proximity_bias": True},
        {"positions": "learned"},
        {"dialect": "tutorial"},
        {"dialect": "kyubyong"},
        {"dialect": "tensor2tensor"},
    ],
    ids=lambda changes: "_".join(f"{key}_{value}" for key, value in changes.items()),
)
def test_hypotheses_side_by_side_are_each_as_if_alone(start, changes):
    """Two of each sentence, of which each step continues either, or the same twice."""
    pieces = np.array(
        [
            [[2, 2], [12, 4], [5, 9], [6, 10]],
            [[2, 2], [5, 3], [5, 8], [7, 7]],
            [[2, 2], [8, 9], [4, 6], [3, 12]],
        ]
    )  # [N, T, K]
    parents = np.array(
        [
            [[0, 0], [0, 1], [1, 0], [0, 0]],
            [[0, 0], [1, 0], [1, 1], [0, 1]],
            [[0, 0], [0, 0], [0, 1], [1, 0]],
        ]
    )
    model = Model(**changes)
    step, state = model.transformer.start_search(model.memory, beam_size=2)
    steps = []
    for t in range(4):
        logits, state = step(
            tf.constant(pieces[:, t], tf.int32), tf.constant(parents[:, t]), state
        )
        steps.append(logits)
    session, _ = start()
    steps = model.run(session, SOURCE, fetch=steps)
    for k in range(2):
        for t in range(4):
            path, place = [], np.full(3, k)
            for back in range(t, -1, -1):
                path.insert(0, pieces[np.arange(3), back, place])
                place = parents[np.arange(3), back, place]
            alone = model.run(session, SOURCE, np.stack(path, axis=1))
            np.testing.assert_allclose(steps[t][:, k], alone[:, -1], **CLOSE)


# --- The output layer -----------------------------------------------------------------


def test_the_output_layer_of_a_training_begins_without_bias(start):
    transformer = Transformer(HParams(**dict(HP, dialect="tutorial")))
    _, bias = transformer.output_layer()
    session, _ = start()
    assert bias.op.name == "decoder/output/bias"
    assert not session.run(bias.initial_value).any()


def test_a_search_makes_the_variables_that_it_needs(start):
    transformer = Transformer(HParams(**dict(HP, **SEPARATE)))
    step, state = transformer.start_search(transformer.encode(tf.constant(SOURCE % 11)))
    logits, _ = step(tf.constant(TARGET[:, :1], tf.int32), None, state)
    session, variables = start()
    assert session.run(logits).shape == (3, 1, 13)
    assert variables["decoder/embedding/lookup_table"].shape == (13, 8)


# --- Dropout --------------------------------------------------------------------------


def test_dropout_is_a_function_of_its_seed(start):
    model = Model(is_training=True)
    session, _ = start()
    first, again, third = (
        model.run(session, seed=seed) for seed in ([3, 1], [3, 1], [3, 2])
    )
    np.testing.assert_array_equal(first, again)
    assert (first != third).any()


@pytest.mark.parametrize("name", ["attention_dropout", "ffn_dropout"])
def test_the_weights_and_the_inner_layer_have_rates_of_their_own(start, name):
    rates = {"dropout_rate": 0.0, "attention_dropout": 0.0, "ffn_dropout": 0.0}
    models = [
        Model(is_training=is_training, **{**rates, name: rate})
        for is_training, rate in ((True, 0.0), (True, 0.5), (False, 0.5))
    ]
    session, _ = start()
    plain, dropped, off = (model.run(session, seed=[3, 1]) for model in models)
    assert (dropped != plain).any()
    np.testing.assert_allclose(off, plain, **CLOSE)
