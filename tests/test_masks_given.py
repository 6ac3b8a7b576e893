"""What callers give the blocks as masks; the defaults that ported code relies on."""

import inspect
import warnings

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from transformer import modules

X = np.random.RandomState(0).randn(2, 3, 4).astype(np.float32)
REAL = np.array([[True, True, False], [True, False, False]])


def attended(key_masks, query_masks=None, mask=None, dialect="paper"):
    return modules.multihead_attention(
        tf.constant(X),
        tf.constant(X),
        num_heads=2,
        reuse=tf.AUTO_REUSE,
        key_masks=key_masks,
        query_masks=query_masks,
        mask=mask,
        dialect=dialect,
    )


@pytest.mark.parametrize("dtype", [tf.float32, tf.int64])
def test_masks_of_numbers_are_those_of_bools(start, dtype):
    real, order = tf.constant(REAL), tf.constant(np.tri(3, dtype=bool)[None, None])
    outputs = [
        attended(*(tf.cast(mask, kind) for mask in (real, real, order)))
        for kind in (tf.bool, dtype)
    ]
    fed = [
        modules.feedforward(
            tf.constant(X), (8, 4), reuse=tf.AUTO_REUSE, mask=tf.cast(real, kind)
        )
        for kind in (tf.bool, dtype)
    ]
    session, _ = start()
    for bools, numbers in session.run([outputs, fed]):
        np.testing.assert_array_equal(bools, numbers)


@pytest.mark.parametrize("dialect", ["paper", "tutorial", "tensor2tensor"])
def test_a_mask_of_positions_is_the_same_for_all_sentences(start, dialect):
    order = np.tri(3, dtype=bool)
    outputs = [
        attended(True, True, mask, dialect) for mask in (order, order[None, None])
    ]
    session, _ = start()
    np.testing.assert_array_equal(*session.run(outputs))


def test_three_dimensions_are_those_of_the_heads_where_no_batch_can_be_meant(start):
    slopes = tf.constant([1.0, 0.5, 0.25, 0.125])[:, None, None]  # as in ALiBi
    bias = slopes * tf.constant([[0.0, -1.0, -2.0]])  # [H, 1, Tk]
    outputs = [
        modules.multihead_attention(
            tf.constant(X), tf.constant(X), 4, 4, bias=each, reuse=tf.AUTO_REUSE
        )
        for each in (bias, bias[None])
    ]
    session, _ = start()
    np.testing.assert_array_equal(*session.run(outputs))


@pytest.mark.parametrize("dialect", ["paper", "tutorial"])
def test_true_stands_for_a_mask_without_padding(start, dialect):
    everything = tf.ones([2, 3], tf.bool)
    outputs = [attended(each, each, dialect=dialect) for each in (True, everything)]
    session, _ = start()
    np.testing.assert_array_equal(*session.run(outputs))


def test_masks_made_by_equal_are_reported():
    ids = tf.placeholder(tf.int32, [None, None])
    with pytest.warns(UserWarning, match="got masks made as tf.equal"):
        attended(tf.equal(ids, 0))
    with pytest.warns(UserWarning, match="got masks made as tf.equal"):
        attended(tf.cast(tf.equal(ids, 0), tf.float32)[:, None, None, :])
    is_real = tf.cast(tf.not_equal(ids, 0), tf.float32)
    with pytest.warns(UserWarning, match="got masks made as tf.equal"):
        attended(tf.equal(is_real, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attended(tf.not_equal(ids, 0))
        attended(tf.equal(tf.minimum(ids, 1), 1))
        is_padding = tf.cast(tf.equal(ids, 0), tf.float32)
        attended(tf.equal(is_padding, 0))
        attended(tf.sequence_mask([2, 1], 3))
        attended(modules.padding_mask(ids))


def test_the_signatures_are_those_of_the_tutorial():
    """Positional arguments, their order and defaults, as ported code passes them."""

    def positional(function):
        parameters = inspect.signature(function).parameters.values()
        return ", ".join(
            each.name + ("" if each.default is each.empty else f"={each.default!r}")
            for each in parameters
            if each.kind is each.POSITIONAL_OR_KEYWORD
        )

    # The scale of positions is as the dialect has it: in the tutorials True.
    for function, wanted in {
        modules.embedding: "inputs, vocab_size, num_units, zero_pad=True, scale=True, "
        "scope='embedding', reuse=None",
        modules.positional_encoding: "inputs, num_units, zero_pad=True, scale=None, "
        "scope='positional_encoding', reuse=None",
        modules.multihead_attention: "queries, keys, num_units=None, num_heads=8, "
        "dropout_rate=0, is_training=True, causality=False, "
        "scope='multihead_attention', reuse=None",
        modules.feedforward: "inputs, num_units=(2048, 512), scope='feedforward', "
        "reuse=None",
        modules.normalize: "inputs, epsilon=1e-08, scope='ln', reuse=None",
        modules.label_smoothing: "inputs, epsilon=0.1",
    }.items():
        assert positional(function) == wanted
