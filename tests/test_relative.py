"""Relative positions and the proximity bias, against their equations in NumPy."""

import numpy as np
import oracle
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG

from transformer.blocks.attention import relative_bias
from transformer.blocks.masks import proximity_bias
from transformer.modules import multihead_attention

N, H, T, D = 2, 2, 5, 8


def first_values(fetches, feeds=None):
    """What tensors are when the variables have just been made."""
    with tf.Session(config=CONFIG) as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


def heads(x):
    """[N, T, D] → [N, H, T, D / H]."""
    return np.reshape(x, [len(x), -1, H, x.shape[-1] // H]).swapaxes(1, 2)


def shaw(Q, K, V, keys, values, allowed):
    """Equations 3 and 4 of Shaw et al. 2018, a pair of positions at a time."""
    max_distance = len(keys) // 2
    Tq, Tk = Q.shape[2], K.shape[2]
    logits, context = np.zeros(Q.shape[:3] + (Tk,)), np.zeros(Q.shape[:3] + V.shape[3:])

    def row(i, j):
        return min(max(j - i, -max_distance), max_distance) + max_distance

    for i in range(Tq):
        for j in range(Tk):
            logits[:, :, i, j] = (
                np.sum(Q[:, :, i] * (K[:, :, j] + keys[row(i, j)]), -1)
                / Q.shape[-1] ** 0.5
            )
    weights = oracle.softmax(np.where(allowed, logits, -np.inf))
    for i in range(Tq):
        for j in range(Tk):
            context[:, :, i] += weights[:, :, i, j, None] * (
                V[:, :, j] + values[row(i, j)]
            )
    return context, weights


def random(*shape, seed=0):
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


@pytest.mark.parametrize("max_distance", [2, 9])
@pytest.mark.parametrize("causality", [False, True], ids=["both_sides", "causal"])
def test_attention_is_that_of_the_equations(start, causality, max_distance):
    x, weights, is_token = random(N, T, D), {}, np.ones([N, T], bool)
    is_token[0, 3:] = False
    outputs = multihead_attention(
        tf.constant(x),
        tf.constant(x),
        num_heads=H,
        causality=causality,
        key_masks=tf.constant(is_token),
        weights=weights,
        dialect="tutorial",
        query_masks=tf.ones([N, T], tf.bool),
        max_relative_position=max_distance,
    )
    session, values = start()
    assert values["multihead_attention/relative/keys"].shape == (
        2 * max_distance + 1,
        D // H,
    )
    maps = session.run(weights["multihead_attention"])
    Q, K, V = (
        heads(
            np.maximum(
                x @ values["multihead_attention/{}/kernel".format(name)]
                + values["multihead_attention/{}/bias".format(name)],
                0,
            )
        )
        for name in "qkv"
    )
    allowed = is_token[:, None, None] & (
        np.tril(np.ones([T, T], bool)) | (not causality)
    )
    context, expected = shaw(
        Q,
        K,
        V,
        values["multihead_attention/relative/keys"],
        values["multihead_attention/relative/values"],
        allowed,
    )
    np.testing.assert_allclose(maps, expected, atol=1e-5)
    y = x + context.swapaxes(1, 2).reshape(N, T, D)
    y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-8)
    np.testing.assert_allclose(
        session.run(outputs),
        y * values["multihead_attention/ln/gamma"]
        + values["multihead_attention/ln/beta"],
        atol=1e-4,
    )


@pytest.mark.parametrize("causality", [False, True], ids=["both_sides", "causal"])
@pytest.mark.parametrize("max_distance", [2, 8])
@pytest.mark.parametrize("length", [5, 1, 0])
def test_bias_of_the_music_transformer(length, max_distance, causality):
    queries = tf.placeholder(tf.float32, [None, H, None, 4])
    bias = relative_bias(queries, max_distance, causality)
    Q = random(N, H, length, 4)
    relative, table = first_values([bias] + tf.trainable_variables(), {queries: Q})
    assert table.shape == (H, max_distance if causality else 2 * max_distance - 1, 4)
    expected = np.zeros([N, H, length, length])
    for i in range(length):
        for j in range(length):
            if abs(j - i) < max_distance and not (causality and j > i):
                expected[:, :, i, j] = (
                    np.sum(Q[:, :, i] * table[:, max_distance - 1 + j - i], -1) / 2
                )
    np.testing.assert_allclose(relative, expected, atol=1e-5)


def test_proximity_bias():
    places = np.arange(6)
    expected = -np.log(1 + abs(places[:, None] - places))[None, None]
    with tf.Session(config=CONFIG) as session:
        whole, later = session.run(
            [proximity_bias(tf.range(6)), proximity_bias(tf.range(4, 6), tf.range(6))]
        )
    np.testing.assert_allclose(whole, expected, atol=1e-6)
    np.testing.assert_allclose(later, expected[:, :, 4:], atol=1e-6)
