"""Code in the style of each source, on `transformer.compat`: the same numbers.

The graphs below are ours, and call the blocks as the code bases do: the recommender, an
encoder and a model of features.
"""

import importlib
import re
import warnings

import fixtures
import numpy as np
import oracle_compat
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG
from originals import assert_as_recorded, open_case

from transformer.compat import (
    functional_time,
    interhat,
    kyubyong,
    kyubyong_legacy,
    sasrec,
    tutorial,
)

CLOSE = {"rtol": 1e-5, "atol": 1e-5}

# Seven items; sequences are padded in front, as the recommender's are.
ITEMS, LENGTH, WIDTH, HEADS, BLOCKS = 7, 5, 8, 2, 2
SEQUENCES = np.array(
    [[0, 0, 1, 2, 3], [0, 4, 5, 6, 7], [2, 1, 7, 3, 5], [0, 0, 0, 0, 6]]
)


def shapes():
    """{name: shape} of all variables, in order of creation."""
    return {v.op.name: v.shape.as_list() for v in tf.trainable_variables()}


# Recorded numbers: the tutorial (A) and Kyubyong, 2019 (B)


@fixtures.over("A", "B", function="modules.*")
def test_recorded_numbers(name):
    case, inputs, kwargs = open_case(name)
    module = {"A": tutorial, "B": kyubyong}[name[0]]
    function = re.match(r"modules\.(\w+)", case["meta"]["function"]).group(1)
    tensors = {key: tensor for key, tensor in inputs.items() if key != "dout"}
    if "queries" in tensors:
        keys = tensors.setdefault("keys", tensors["queries"])
        if module is kyubyong:
            tensors.setdefault("values", keys)
    if function == "get_token_embeddings":
        table = kyubyong.get_token_embeddings(**kwargs)
        outputs = {"table": table, "out": tf.gather(table, inputs["ids"])}
    else:
        outputs = {"out": getattr(module, function)(**tensors, **kwargs)}
    assert_as_recorded(case, outputs, inputs, in_order=False)


@pytest.mark.parametrize("kind", [None, "keyes"])
def test_a_mask_of_no_type_is_refused(kind):
    """The original prints a message, and masks nothing."""
    message = f"mask: expected type 'key' or 'future', got {kind!r}"
    with pytest.raises(ValueError, match=message):
        kyubyong.mask(tf.zeros([2, 3, 3]), tf.zeros([1, 3]), kind)


# The recommender, as its model.py calls it


def recommender():
    """(states [N, T, D], table) of a small recommender, in the style of SASRec."""
    embedding, normalize = sasrec.embedding, sasrec.normalize
    ids = tf.constant(SEQUENCES, tf.int32)
    mask = tf.cast(tf.not_equal(ids, 0), tf.float32)[..., None]
    with tf.variable_scope("SASRec"):
        x, table = embedding(
            ids,
            vocab_size=ITEMS + 1,
            num_units=WIDTH,
            scope="input_embeddings",
            with_t=True,
        )
        positions, _ = embedding(
            tf.tile(tf.range(LENGTH)[None], [len(SEQUENCES), 1]),
            vocab_size=LENGTH,
            num_units=WIDTH,
            zero_pad=False,
            scale=False,
            scope="dec_pos",
            with_t=True,
        )
        x = (x + positions) * mask
        for i in range(BLOCKS):
            with tf.variable_scope(f"num_blocks_{i}"):
                x = sasrec.multihead_attention(
                    queries=normalize(x),
                    keys=x,
                    num_units=WIDTH,
                    num_heads=HEADS,
                    is_training=False,
                    causality=True,
                    scope="self_attention",
                )
                x = sasrec.feedforward(
                    normalize(x), num_units=[WIDTH, WIDTH], is_training=False
                )
                x *= mask
        return normalize(x), table


def test_the_numbers_of_the_recommender_are_those_of_its_equations(start):
    states, table = recommender()
    session, values = start()
    output, table = session.run([states, table])
    expected, expected_table = oracle_compat.sasrec(SEQUENCES, values, HEADS, BLOCKS)
    np.testing.assert_allclose(output, expected, **CLOSE)
    np.testing.assert_allclose(table, expected_table, **CLOSE)


def test_queries_and_keys_are_returned_before_the_heads(start):
    x = tf.constant(np.random.RandomState(0).randn(2, 3, 4), tf.float32)
    Q, K = sasrec.multihead_attention(x, x[:, :2], num_heads=2, with_qk=True)
    assert len(shapes()) == 6  # V is made too
    session, values = start()
    outputs, inputs = session.run([(Q, K), x])
    for tensor, rows, name in zip(
        outputs, (inputs, inputs[:, :2]), ("dense", "dense_1")
    ):
        expected = oracle_compat.dense(rows, values, "multihead_attention/" + name)
        np.testing.assert_allclose(tensor, expected, **CLOSE)


@pytest.mark.parametrize(
    "module, widths, adds",
    [
        (sasrec, (WIDTH, WIDTH), True),
        (sasrec, (4 * WIDTH, WIDTH), True),
        (functional_time, (WIDTH, WIDTH), True),
        (functional_time, (WIDTH, 3), False),
    ],
)
def test_a_feedforward_adds_its_input_where_the_source_does(
    start, module, widths, adds
):
    inputs = np.random.RandomState(0).randn(2, 3, WIDTH)
    # As the sources call it: positional arguments, no dropout for scores.
    x = module.feedforward(
        tf.constant(inputs, tf.float32), list(widths), "f", 0.2, tf.constant(False)
    )
    session, values = start()
    output = session.run(x)
    expected = oracle_compat.feed_forward(inputs, values, "f") + (inputs if adds else 0)
    np.testing.assert_allclose(output, expected, **CLOSE)


@pytest.mark.parametrize(
    "module, is_token",
    [
        (sasrec, oracle_compat.is_nonzero),
        (functional_time, oracle_compat.has_nonzero_sum),
    ],
)
def test_what_is_padding_differs_between_forks(start, module, is_token):
    inputs = np.random.RandomState(0).randn(2, 3, 4)
    inputs[0, 1] = [1, -1, 2, -2]  # sums to zero
    inputs[1, 2] = 0
    x = tf.constant(inputs, tf.float32)
    outputs = module.multihead_attention(x, x, None, 2)
    session, values = start()
    output = session.run(outputs)
    expected = oracle_compat.sasrec_attention(
        inputs, inputs, values, "multihead_attention", 2, is_token=is_token
    )
    np.testing.assert_allclose(output, expected, **CLOSE)


def test_positions_of_the_recommender():
    table = sasrec.positional_encoding(6, 4)
    with tf.Session(config=CONFIG) as session:
        output = session.run(table)
    expected = [
        [
            (np.cos if i % 2 else np.sin)(position / 10000 ** (2 * i / 6))
            for i in range(6)
        ]
        for position in range(4)
    ]
    np.testing.assert_allclose(output, expected, **CLOSE)
    with pytest.raises(ValueError, match="expected an even dim, got 5"):
        sasrec.positional_encoding(5, 4)


# An encoder and a decoder, as tf1.2_legacy/train.py calls them


def legacy_encoder(source):
    """An encoder of two blocks: attention and feed-forward in the default scopes."""
    with tf.variable_scope("encoder"):
        x = kyubyong_legacy.embedding(
            source, vocab_size=9, num_units=WIDTH, scope="enc_embed"
        )
        is_token = tf.expand_dims(tf.sign(tf.reduce_sum(tf.abs(x), axis=-1)), -1)
        x += kyubyong_legacy.embedding(
            tf.tile(tf.range(tf.shape(source)[1])[None], [tf.shape(source)[0], 1]),
            vocab_size=5,
            num_units=WIDTH,
            zero_pad=False,
            scale=False,
            scope="enc_pe",
        )
        x *= is_token
        for i in range(BLOCKS):
            with tf.variable_scope(f"num_blocks_{i}"):
                x = kyubyong_legacy.multihead_attention(
                    queries=x,
                    keys=x,
                    num_units=WIDTH,
                    num_heads=HEADS,
                    dropout_rate=0.1,
                    is_training=False,
                    causality=False,
                )
                x = kyubyong_legacy.feedforward(x, num_units=[4 * WIDTH, WIDTH])
    return x


@pytest.mark.parametrize(
    "module", [kyubyong_legacy, tutorial, sasrec, functional_time, interhat]
)
def test_the_gradient_of_a_table_with_a_zero_row_is_dense(module):
    """As in the original; IndexedSlices of repeated ids are clipped differently."""
    ids = np.array([[3, 3, 0, 3], [1, 3, 1, 0]])
    product = np.random.RandomState(0).randn(2, 4, WIDTH).astype(np.float32)
    outputs = module.embedding(ids, 9, WIDTH, zero_pad=True)
    [table] = tf.trainable_variables()
    original = tf.concat([tf.zeros([1, WIDTH]), table[1:]], 0)
    original = tf.nn.embedding_lookup(original, ids) * WIDTH**0.5
    gradient, expected = [
        tf.gradients(tf.reduce_sum(x * product), [table])[0]
        for x in (outputs, original)
    ]
    assert not isinstance(gradient, tf.IndexedSlices)
    with tf.Session(config=CONFIG) as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(*session.run([gradient, expected]), **CLOSE)


def test_attention_and_feedforward_share_a_scope_and_no_variable(start):
    source = np.array([[5, 3, 8, 0, 0], [1, 2, 0, 0, 0]])
    outputs = legacy_encoder(tf.constant(source))
    names = [name for name in shapes() if name.startswith("encoder/num_blocks_0/")]
    assert [name[len("encoder/num_blocks_0/") :] for name in names] == [
        f"multihead_attention/{name}"
        for name in (
            "dense/kernel dense/bias dense_1/kernel dense_1/bias dense_2/kernel "
            "dense_2/bias ln/Variable ln/Variable_1 conv1d/kernel conv1d/bias "
            "conv1d_1/kernel conv1d_1/bias"
        ).split()
    ] + [f"multihead_attention_1/ln/{name}" for name in ("Variable", "Variable_1")]
    session, values = start()
    output = session.run(outputs)
    table = values["encoder/enc_embed/lookup_table"]
    x = table[source] * WIDTH**0.5 + values["encoder/enc_pe/lookup_table"]
    x *= (source != 0)[..., None]
    for i in range(BLOCKS):
        scope = f"encoder/num_blocks_{i}/multihead_attention"
        x = oracle_compat.legacy_attention(x, x, values, scope, HEADS)
        x += oracle_compat.feed_forward(x, values, scope)
        x = oracle_compat.normalize(x, values, scope + "_1/ln")
    np.testing.assert_allclose(output, x, **CLOSE)


def test_reuse_shares_kernels_but_not_normalizations():
    """As in the original, whose normalization ignores `reuse`."""
    x = tf.ones([1, 2, 4])
    for reuse in (None, True):
        tutorial.multihead_attention(x, x, num_heads=2, reuse=reuse)
    assert len(shapes()) == 6 + 2 * 2
    assert "mulithead_attention_1/ln/Variable" in shapes()


def test_initial_values_are_those_of_the_original():
    """Glorot's, and those of the enclosing scope, as tf.layers has them."""
    with tf.variable_scope("a"):
        kyubyong_legacy.embedding(tf.constant([[1]]), 200, 100)
    with tf.variable_scope("b", initializer=tf.constant_initializer(7.0)):
        kyubyong_legacy.feedforward(tf.ones([1, 2, 4]), [4, 4])
    values = {v.op.name: v for v in tf.trainable_variables()}
    with tf.Session(config=CONFIG) as session:
        session.run(tf.global_variables_initializer())
        values = session.run(values)
    table = values["a/embedding/lookup_table"]
    limit = (6 / (200 + 100)) ** 0.5
    assert abs(table).max() <= limit and abs(table).max() > 0.99 * limit
    assert (values["b/multihead_attention/conv1d/kernel"] == 7).all()
    assert (values["b/multihead_attention/conv1d/bias"] == 0).all()


# A model of features, as InterHAt calls it


@pytest.mark.parametrize("zero_pad", [False, True], ids=["default", "zero_pad"])
def test_attention_of_interhat_returns_its_weights(start, zero_pad):
    ids = np.array([[0, 1, 2], [2, 4, 0]])
    options = {"zero_pad": True} if zero_pad else {}
    features = interhat.embedding(
        tf.constant(ids),
        vocab_size=5,
        num_units=6,
        scale=False,
        scope="embedding",
        **options,
    )
    with tf.variable_scope("attention_head"):
        x, weights = interhat.multihead_attention(
            queries=features,
            keys=features,
            num_units=8,  # wider than the features: projected back
            num_heads=2,
            dropout_rate=0.2,
            is_training=tf.constant(False),
            scope="multihead_attention",
        )
        x = interhat.feedforward(x, num_units=[24, 6], scope="feed_forward")
    assert len(shapes()) == 1 + 8 + 2 + 4 + 2
    session, values = start()
    output, attention = session.run([x, weights])
    vectors = values["embedding/lookup_table"][ids]  # without zero_pad, 0 has a row
    vectors *= (ids != 0)[..., None] | (not zero_pad)
    expected, expected_weights = oracle_compat.interhat_attention(
        vectors, vectors, values, "attention_head/multihead_attention", 2
    )
    scope = "attention_head/feed_forward"
    expected += oracle_compat.feed_forward(expected, values, scope)
    np.testing.assert_allclose(attention, expected_weights, **CLOSE)
    np.testing.assert_allclose(
        output, oracle_compat.normalize(expected, values, scope + "/ln"), **CLOSE
    )


# What code written for the originals passes and expects


@pytest.mark.parametrize(
    "name", "tutorial kyubyong_legacy kyubyong sasrec functional_time interhat".split()
)
def test_a_star_import_brings_tensorflow_and_numpy(name):
    module = importlib.import_module("transformer.compat." + name)
    names = {}
    exec(f"from transformer.compat.{name} import *", names)
    assert names["tf"] is tf and names["np"] is np
    assert all(callable(names[export]) for export in set(module.__all__) - {"tf", "np"})


def test_inverted_masks_are_reported():
    x = tf.constant(np.random.RandomState(0).randn(2, 3, 4), tf.float32)
    ids = tf.placeholder(tf.int32, [None, None])
    with pytest.warns(UserWarning, match="expected key_masks in which True = padding"):
        kyubyong.multihead_attention(x, x, x, tf.not_equal(ids, 0), num_heads=2)
    with pytest.raises(ValueError, match="kyubyong: key_masks: .*padding, .* got -1"):
        kyubyong.multihead_attention(x, x, x, -np.ones([2, 3]), num_heads=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with tf.variable_scope("as_expected"):
            kyubyong.multihead_attention(x, x, x, tf.equal(ids, 0), num_heads=2)


@pytest.mark.parametrize("l2_reg, num_losses", [(0.0, 0), (0.5, 1)])
def test_sasrec_embedding_ignores_the_regularizer_of_its_scope(l2_reg, num_losses):
    """Like `get_variable(regularizer=l2_regularizer(l2_reg))` in the original."""
    with tf.variable_scope("net", regularizer=lambda weights: tf.reduce_sum(weights)):
        sasrec.embedding(tf.constant([[1, 2]]), 5, 4, l2_reg=l2_reg)
    losses = tf.losses.get_regularization_losses()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        [table] = session.run(tf.trainable_variables())
        expected = [l2_reg / 2 * np.sum(table**2)] * num_losses
        np.testing.assert_allclose(session.run(losses), expected, rtol=1e-5)
