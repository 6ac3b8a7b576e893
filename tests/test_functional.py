"""Attention with lengths instead of masks, against the oracle.

The originals' recorded numbers are compared in test_compat_bojone.py.
"""

import numpy as np
import oracle
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG

from transformer import functional

CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # float32 against float64


def random_floats(*shape, seed=0):
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


def expected_attention(Q, K, V, kernels, heads, key_mask):
    """Equation 1 for each head, concatenated."""
    size = kernels["q/kernel"].shape[1] // heads
    allowed = np.tile(key_mask[:, None, :], [1, Q.shape[1], 1])
    outputs = []
    for h in range(heads):
        columns = slice(h * size, (h + 1) * size)
        q, k, v = (
            x.astype(np.float64) @ kernels[name + "/kernel"][:, columns]
            for x, name in zip((Q, K, V), "qkv")
        )
        outputs.append(oracle.attention(q, k, v, allowed)[0])
    return np.concatenate(outputs, -1)


def below(scope, variables):
    assert all(name.startswith(scope + "/") for name in variables)
    return {name[len(scope) + 1 :]: value for name, value in variables.items()}


# --- Attention ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Q_len", "V_len"])
def test_lengths_of_a_wrong_rank_are_named(name):
    x = tf.zeros([2, 3, 4])
    with pytest.raises(ValueError, match=f"attention: {name}: expected lengths"):
        functional.attention(x, x, x, 2, 2, **{name: tf.ones([2, 1], tf.int32)})


@pytest.mark.parametrize("Q_len", [None, [6, 2]], ids=["all_queries", "Q_len"])
@pytest.mark.parametrize("V_len", [None, [3, 4]], ids=["all_keys", "V_len"])
def test_attention(start, Q_len, V_len):
    Q, K, V = random_floats(2, 6, 5), random_floats(2, 4, 7), random_floats(2, 4, 3)
    output = functional.attention(
        tf.constant(Q),
        tf.constant(K),
        tf.constant(V),
        3,
        4,
        None if Q_len is None else tf.constant(Q_len),
        None if V_len is None else tf.constant(V_len),
        scope="words",
    )
    assert output.shape.as_list() == [2, 6, 12]
    session, variables = start()
    kernels = below("words", variables)
    assert {name: value.shape for name, value in kernels.items()} == {
        "q/kernel": (5, 12),
        "k/kernel": (7, 12),
        "v/kernel": (3, 12),
    }
    key_mask = np.arange(4) < np.array([4, 4] if V_len is None else V_len)[:, None]
    expected = expected_attention(Q, K, V, kernels, 3, key_mask)
    if Q_len is not None:
        expected *= (np.arange(6) < np.array(Q_len)[:, None])[:, :, None]
    np.testing.assert_allclose(session.run(output), expected, **CLOSE)


def test_attention_of_dynamic_shapes_with_sequences_shorter_than_the_batch(start):
    x = tf.placeholder(tf.float32, [None, None, 4])
    lengths = tf.placeholder(tf.int32, [None])
    output = functional.attention(x, x, x, 2, 3, lengths, lengths)
    session, _ = start()
    value = random_floats(2, 5, 4)
    alone = session.run(output, {x: value[:1, :3], lengths: [3]})
    padded = session.run(output, {x: value, lengths: [3, 2]})
    np.testing.assert_allclose(padded[:1, :3], alone, **CLOSE)
    assert not padded[0, 3:].any() and not padded[1, 2:].any()


def test_attention_shares_its_variables():
    x = tf.ones([1, 2, 4])
    first = functional.attention(x, x, x, 2, 3)
    second = functional.attention(x, x, x, 2, 3, reuse=True)
    functional.attention(x, x, x, 2, 3, scope="other")
    names = {v.op.name for v in tf.trainable_variables()}
    assert names == {
        f"{scope}/{x}/kernel" for scope in ("attention", "other") for x in "qkv"
    }
    with tf.Session(config=CONFIG) as session:
        session.run(tf.global_variables_initializer())
        first_value, second_value = session.run([first, second])
    np.testing.assert_array_equal(first_value, second_value)


# --- Positions ------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 8, 9], ids=lambda size: f"size_{size}")
def test_position_embedding_is_the_sinusoids_with_the_cosines_in_front(start, size):
    inputs = tf.placeholder(tf.float32, [None, None, 5])
    output = functional.position_embedding(inputs, size)
    assert output.shape.as_list() == [None, None, size]
    session, variables = start()
    assert not variables
    table = oracle.sinusoids(30, size)
    expected = np.concatenate([table[:, 1::2], table[:, 0::2]], axis=-1)
    encoding = session.run(output, {inputs: np.zeros([3, 30, 5])})
    np.testing.assert_allclose(encoding, np.tile(expected, [3, 1, 1]), **CLOSE)


# --- Masks ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(2, 5), (2, 5, 3), (2, 5, 3, 2)], ids=lambda shape: f"rank_{len(shape)}"
)
@pytest.mark.parametrize("lengths", [(5, 2), (3, 1)], ids=["one_full", "none_full"])
def test_mask(start, shape, lengths):
    x = random_floats(*shape)
    inputs, seq_len = tf.placeholder(tf.float32, [None] * len(shape)), list(lengths)
    outputs = [
        functional.mask(inputs, tf.constant(seq_len), mode) for mode in ("mul", "add")
    ]
    session, _ = start()
    multiplied, added = session.run(outputs, {inputs: x})
    for n, length in enumerate(lengths):
        np.testing.assert_array_equal(multiplied[n, :length], x[n, :length])
        np.testing.assert_array_equal(added[n, :length], x[n, :length])
        assert not multiplied[n, length:].any()
        assert (added[n, length:] < -0.9e12).all()


def test_a_float16_mask_is_finite_where_a_sequence_is_real(start):
    session, _ = start()
    inputs = tf.constant([[-100, 5, 1], [-100, 5, 1]], tf.float16)
    masked = session.run(functional.mask(inputs, [2, 0], "add"))
    assert np.isfinite(masked).all()
    np.testing.assert_array_equal(masked < -3e4, [[0, 0, 1], [1, 1, 1]])


def test_mask_without_lengths_is_the_input():
    x = tf.ones([2, 3])
    assert functional.mask(x, None) is x
    with pytest.raises(ValueError, match=r"seq_len: expected .* got \(2, 1\)"):
        functional.mask(x, [[1], [2]])
    with pytest.raises(ValueError, match="'mul' or 'add'.*'max'"):
        functional.mask(x, None, "max")
