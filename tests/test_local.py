"""Local attention, against attention over the whole sequence under a mask."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG

from transformer.blocks.attention import local_attention, scaled_dot_product_attention

KINDS = {
    "blocks": dict(block_length=3),
    "around": dict(block_length=3, window=(2, 2)),
    "uneven": dict(block_length=2, window=(1, 4)),
    "within_causal": dict(block_length=4, causality=True),
    "block_before": dict(block_length=3, window=(3, 0), causality=True),
    "far_before": dict(block_length=2, window=(5, 0), causality=True),
    "one_block": dict(block_length=20, window=(20, 0), causality=True),
    "after_and_causal": dict(block_length=2, window=(1, 2), causality=True),
    "single_positions": dict(block_length=1, window=(1, 1)),
}


def may_attend(length, block_length, window=(0, 0), causality=False):
    """Position by position, from the definition: bool [T, T]."""
    mask = np.zeros([length, length], bool)
    for i in range(length):
        start = i // block_length * block_length
        for j in range(length):
            near = start - window[0] <= j < start + block_length + window[1]
            mask[i, j] = near and not (causality and j > i)
    return mask


def oracle(Q, K, V, mask):
    """Attention under a mask, in NumPy; a query that may attend to nothing gets 0."""
    logits = Q @ np.swapaxes(K, -1, -2) / Q.shape[-1] ** 0.5
    weights = np.where(mask, np.exp(logits), 0)
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ V


def inputs(length, seed=0):
    rng = np.random.RandomState(seed)
    return [rng.randn(2, 3, length, width).astype(np.float32) for width in (4, 4, 5)]


def run(*fetches):
    with tf.Session(config=CONFIG) as session:
        return session.run(fetches)


@pytest.mark.parametrize("length", [1, 2, 6, 7, 11])
@pytest.mark.parametrize("kind", list(KINDS))
def test_as_the_definition_says(kind, length):
    Q, K, V = inputs(length)
    is_token = np.arange(length) != 4
    is_token = np.stack([is_token, np.ones_like(is_token)])
    context, _ = local_attention(*map(tf.constant, (Q, K, V)), **KINDS[kind])
    masked, _ = local_attention(
        *map(tf.constant, (Q, K, V)), **KINDS[kind], key_mask=tf.constant(is_token)
    )
    context, masked = run(context, masked)
    mask = may_attend(length, **KINDS[kind])
    np.testing.assert_allclose(context, oracle(Q, K, V, mask), atol=1e-5)
    np.testing.assert_allclose(
        masked, oracle(Q, K, V, mask & is_token[:, None, None]), atol=1e-5
    )


def test_gradients_are_those_of_the_whole_matrix():
    Q, K, V = (tf.constant(x) for x in inputs(7))
    mask = may_attend(7, 3, (3, 0), True)
    local, _ = local_attention(Q, K, V, 3, window=(3, 0), causality=True)
    whole, _ = scaled_dot_product_attention(Q, K, V, tf.constant(mask))
    outputs, expected = run(
        *(
            tf.gradients(tf.reduce_sum(tf.sin(context)), [Q, K, V])
            for context in (local, whole)
        )
    )
    for actual, desired in zip(outputs, expected):
        np.testing.assert_allclose(actual, desired, atol=1e-5)


def test_no_matrix_of_all_pairs():
    """The cost grows with the length: no tensor has as many numbers as there are
    pairs of positions."""
    length = 600
    Q, K, V = (tf.placeholder(tf.float32, [1, 1, length, 4]) for _ in range(3))
    context, weights = local_attention(Q, K, V, 10, window=(10, 0), causality=True)
    assert weights.shape.as_list() == [1, 1, 60, 10, 20]
    assert context.shape.as_list()[-1] == 4
    sizes = [
        tensor.shape.num_elements()
        for op in tf.get_default_graph().get_operations()
        for tensor in op.outputs
        if tensor.shape.is_fully_defined()
    ]
    assert max(sizes) <= length * 20 * 4 < length**2


def test_weights_of_queries_that_see_nothing():
    Q, K, V = (tf.constant(x) for x in inputs(4))
    nothing = tf.zeros([2, 4], tf.bool)
    context, weights = local_attention(Q, K, V, 2, key_mask=nothing)
    uniform, _ = local_attention(
        Q, K, V, 2, key_mask=nothing, fully_masked_is_zero=False
    )
    context, weights, uniform = run(context, weights, uniform)
    assert not context.any() and not weights.any()
    assert np.isfinite(uniform).all() and uniform.any()


def test_masks_of_keys_are_bools_or_numbers_of_the_keys():
    x = tf.constant(np.random.RandomState(0).randn(2, 1, 4, 3), tf.float32)
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]])
    outputs = [
        local_attention(x, x, x, 2, window=(2, 2), key_mask=mask.astype(kind))[0]
        for kind in (bool, np.int32, np.float32)
    ]
    with tf.Session(config=CONFIG) as session:
        bools, ints, floats = session.run(outputs)
    np.testing.assert_array_equal(bools, ints)
    np.testing.assert_array_equal(bools, floats)
    for wrong, message in (
        (
            mask[:, None, None] > 0,
            r"expected .*\[N, T\] or \[N, H, T\], got .*2, 1, 1, 4",
        ),
        ((mask - 1) * 1e9, "is a bias, not a mask"),
    ):
        with pytest.raises(ValueError, match=f"local_attention: key_mask: .*{message}"):
            local_attention(x, x, x, 2, key_mask=wrong)
