"""The blocks, each against the oracle, on random inputs with padding."""

import zlib

import numpy as np
import oracle
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG
from tensorflow.python.eager import context

from transformer import modules
from transformer.blocks import layers
from transformer.blocks.masks import nonzero_rows
from transformer.dialects import DIALECTS

CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # float32 against float64
LENGTHS = [5, 3, 1]  # of the three lines of a batch


def ids_of(lengths, width, vocab_size=20, seed=0):
    """Random ids [N, width] above 0; each line ends in padding."""
    ids = np.random.RandomState(seed).randint(1, vocab_size, [len(lengths), width])
    return np.where(np.arange(width) < np.array(lengths)[:, None], ids, 0)


def vectors_of(is_token, width, seed=0):
    """Random vectors [N, T, width]; zero where `real` [N, T] is False."""
    vectors = np.random.RandomState(seed).randn(*(is_token.shape + (width,)))
    return vectors.astype(np.float32) * is_token[:, :, None]


def as_tensor(vectors):
    return tf.constant(vectors, tf.float32)


def pairs(query_real, key_real, causal=False):
    """What a mask of queries, one of keys and causality allow together: [N, Tq, Tk]."""
    allowed = query_real[:, :, None] & key_real[:, None, :]
    return np.tril(allowed) if causal else allowed


def names_and_shapes():
    return {v.op.name: v.shape.as_list() for v in tf.trainable_variables()}


# --- Embedding ------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [True, False], ids=["scaled", "unscaled"])
@pytest.mark.parametrize("zero_pad", [True, False], ids=["zero_pad", "pad_as_a_token"])
def test_embedding(start, zero_pad, scale):
    ids = ids_of(LENGTHS, 5)
    output = modules.embedding(tf.constant(ids), 20, 8, zero_pad, scale, scope="words")
    session, variables = start()
    assert list(variables) == ["words/lookup_table"]
    table = variables["words/lookup_table"]
    assert table.shape == (20, 8)

    expected = oracle.embed(ids, table) if zero_pad else table[ids] * 8**0.5
    expected = expected if scale else expected / 8**0.5
    values = session.run(output)
    np.testing.assert_allclose(values, expected, **CLOSE)
    if zero_pad:
        assert not values[ids == 0].any()


@pytest.mark.parametrize("zero_pad", [True, False], ids=["zero_pad", "pad_as_a_token"])
def test_embedding_gradient_reaches_exactly_the_rows_in_use(start, zero_pad):
    ids = np.array([[3, 3, 0], [5, 0, 0]])
    output = modules.embedding(tf.constant(ids), 7, 4, zero_pad)
    gradient = tf.convert_to_tensor(
        tf.gradients(tf.reduce_sum(output), tf.trainable_variables())[0]
    )
    session, _ = start()
    uses = np.array([0 if zero_pad else 3, 0, 0, 2, 0, 1, 0])
    expected = np.tile(uses[:, None] * 4**0.5, [1, 4])
    np.testing.assert_allclose(session.run(gradient), expected, **CLOSE)


# --- Positional encoding --------------------------------------------------------------


@pytest.mark.parametrize("scale", [None, True], ids=["as_in_the_paper", "scaled"])
@pytest.mark.parametrize("zero_pad", [True, False], ids=["zero_pad", "pad_as_a_token"])
@pytest.mark.parametrize("width", [8, 9], ids=lambda width: f"width_{width}")
def test_positional_encoding(start, width, zero_pad, scale):
    ids = ids_of(LENGTHS, 5)
    output = modules.positional_encoding(tf.constant(ids), width, zero_pad, scale)
    assert output.shape.as_list() == [3, 5, width]
    expected = np.tile(oracle.sinusoids(5, width), [3, 1, 1])
    expected *= width**0.5 if scale else 1
    if zero_pad:
        expected[ids == 0] = 0
    vectors = np.eye(width)[ids % width] * (ids > 0)[..., None]  # single zeros in rows
    of_vectors = modules.positional_encoding(vectors, width, zero_pad, scale)
    session, variables = start()
    assert not variables
    for values in session.run([output, of_vectors]):
        np.testing.assert_allclose(values, expected, **CLOSE)


def test_positional_encoding_of_given_positions(start):
    ids, positions = tf.ones([1, 3], tf.int32), tf.placeholder(tf.int32, [3])
    output = modules.positional_encoding(ids, 64, positions=positions)
    expected = oracle.sinusoids(5001, 64)
    session, _ = start()
    for places in ([4, 5, 6], [5, 5, 5], [6, 0, 2], [0, 1000, 5000]):
        values = session.run(output, {positions: places})[0]
        np.testing.assert_allclose(values, expected[places], **CLOSE)


# --- Layer normalization --------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-8, 1.0])
def test_normalize(start, epsilon):
    x = np.random.RandomState(0).randn(3, 4, 8).astype(np.float32)
    output = modules.normalize(as_tensor(x), epsilon, scope="norm")
    of_one = modules.normalize(as_tensor(x[0, 0]), epsilon, scope="norm", reuse=True)
    session, variables = start()
    assert names_and_shapes() == {"norm/gamma": [8], "norm/beta": [8]}
    expected = oracle.layer_norm(
        x, variables["norm/gamma"], variables["norm/beta"], epsilon
    )
    np.testing.assert_allclose(session.run(output), expected, **CLOSE)
    np.testing.assert_allclose(session.run(of_one), expected[0, 0], **CLOSE)


# --- Scaled dot-product attention and masks -------------------------------------------


@pytest.mark.parametrize("shape", ["full", "by_head", "by_query", "by_key", "none"])
def test_scaled_dot_product_attention(start, shape):
    N, H, Tq, Tk = 2, 3, 4, 5
    sizes = {
        "full": [N, H, Tq, Tk],
        "by_head": [1, H, 1, Tk],
        "by_query": [1, 1, Tq, Tk],
        "by_key": [N, 1, 1, Tk],
        "none": [1, 1, 1, 1],
    }
    rng = np.random.RandomState(0)
    q, k, v = rng.randn(N, H, Tq, 6), rng.randn(N, H, Tk, 6), rng.randn(N, H, Tk, 7)
    mask = rng.rand(*sizes[shape]) < 0.6
    mask[..., 0] = True
    output, weights = modules.scaled_dot_product_attention(
        as_tensor(q),
        as_tensor(k),
        as_tensor(v),
        None if shape == "none" else tf.constant(mask),
    )
    session, _ = start()
    output, weights = session.run([output, weights])
    allowed = np.broadcast_to(mask, [N, H, Tq, Tk])
    for h in range(H):
        expected, expected_weights = oracle.attention(
            q[:, h], k[:, h], v[:, h], allowed[:, h]
        )
        np.testing.assert_allclose(output[:, h], expected, **CLOSE)
        np.testing.assert_allclose(weights[:, h], expected_weights, **CLOSE)
    assert not weights[~allowed].any()  # exactly 0
    np.testing.assert_allclose(weights.sum(-1), 1, **CLOSE)


@pytest.mark.parametrize("zero", [True, False], ids=["zeros", "uniform"])
def test_query_that_may_attend_to_nothing(start, zero):
    rng = np.random.RandomState(0)
    q, k, v = (as_tensor(rng.randn(1, 1, 3, 4)) for _ in range(3))
    mask = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]], bool)
    output, weights = modules.scaled_dot_product_attention(
        q, k, v, tf.constant(mask), fully_masked_is_zero=zero
    )
    gradients = tf.gradients(output, [q, k, v])
    session, _ = start()
    weights, output, values, gradients = session.run([weights, output, v, gradients])
    np.testing.assert_allclose(weights[0, 0, 1], 0 if zero else 1 / 3, **CLOSE)
    np.testing.assert_allclose(
        output[0, 0, 1], 0 if zero else values[0, 0].mean(axis=0), **CLOSE
    )
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_attention_over_huge_logits_is_finite_and_respects_the_mask(start):
    q = k = as_tensor(np.array([[[[1e3, 0], [-1e3, 0], [0, 1e3]]]]))
    mask = np.array([[1, 0, 0], [1, 0, 0], [1, 1, 0]], bool)
    _, weights = modules.scaled_dot_product_attention(q, k, k, tf.constant(mask))
    session, _ = start()
    weights = session.run(weights)[0, 0]
    np.testing.assert_allclose(weights[:2], [[1, 0, 0], [1, 0, 0]], **CLOSE)
    np.testing.assert_allclose(weights[2], [0.5, 0.5, 0], **CLOSE)


def test_masks(start):
    ids = ids_of(LENGTHS, 5)
    places, all5 = np.arange(5), tf.range(5)
    distance = places[:, None] - places[None, :]  # query minus key
    expected = [
        (modules.padding_mask(tf.constant(ids)), (ids != 0)[:, None, None, :]),
        (modules.causal_mask(all5), (distance >= 0)[None, None]),
        (modules.causal_mask(all5[:3], all5), (distance >= 0)[None, None, :3]),
        (modules.causal_mask(all5, all5[:3]), (distance >= 0)[None, None, :, :3]),
        (modules.causal_mask(all5[3:], all5), (distance >= 0)[None, None, 3:]),
        (modules.local_mask(all5, 0), np.eye(5, dtype=bool)[None, None]),
        (modules.local_mask(all5, 2), (abs(distance) <= 2)[None, None]),
    ]
    session, _ = start()
    for mask, allowed in expected:
        values = session.run(mask)
        assert values.dtype == bool
        np.testing.assert_array_equal(values, allowed)


# --- Multi-head attention -------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True], ids=["all_keys", "causal"])
@pytest.mark.parametrize("num_heads", [1, 4], ids=lambda n: f"{n}_heads")
def test_self_attention_finds_padding_in_the_zero_rows(start, num_heads, causal):
    is_token = ids_of(LENGTHS, 5) != 0
    x = vectors_of(is_token, 16)
    queries, weights = as_tensor(x), {}
    output = modules.multihead_attention(
        queries,
        queries,
        num_heads=num_heads,
        causality=causal,
        scope="self",
        weights=weights,
    )
    assert output.shape.as_list() == [3, 5, 16]
    session, variables = start()
    allowed = pairs(is_token, is_token, causal)
    output, weights = session.run([output, weights["self"]])
    np.testing.assert_allclose(
        output,
        oracle.attention_block(x, x, allowed, variables, "self", num_heads)
        * is_token[..., None],  # padding stays zero
        **CLOSE,
    )
    _, maps = oracle.multi_head(x, x, allowed, variables, "self", num_heads)
    np.testing.assert_allclose(weights, maps, **CLOSE)
    assert not np.moveaxis(weights, 1, -1)[~allowed].any()  # exactly 0


@pytest.mark.parametrize("causal", [False, True], ids=["all_keys", "causal"])
@pytest.mark.parametrize(
    "query_length, key_length",
    [(3, 6), (6, 3)],
    ids=["Tq_less_than_Tk", "Tq_more_than_Tk"],
)
def test_cross_attention_to_keys_of_another_length_and_width(
    start, query_length, key_length, causal
):
    query_real = ids_of([3, 2, 1], query_length) != 0
    key_real = ids_of([1, 3, 2], key_length) != 0
    queries, keys = vectors_of(query_real, 16), vectors_of(key_real, 10, seed=1)
    output = modules.multihead_attention(
        as_tensor(queries), as_tensor(keys), None, 4, causality=causal, scope="cross"
    )
    session, variables = start()
    expected = oracle.attention_block(
        queries, keys, pairs(query_real, key_real, causal), variables, "cross", 4
    )
    expected *= query_real[..., None]  # padding stays zero
    np.testing.assert_allclose(session.run(output), expected, **CLOSE)


def test_attention_with_explicit_masks_uses_them_as_given(start):
    """They contradict the zero rows: what is given is used, what is not is found."""
    query_real, key_real = ids_of(LENGTHS, 5) != 0, ids_of([4, 4, 2], 4) != 0
    queries, keys = vectors_of(query_real, 8), vectors_of(key_real, 8, seed=1)
    rng = np.random.RandomState(2)
    query_masks, key_masks = rng.rand(3, 5) < 0.6, rng.rand(3, 4) < 0.6
    assert (query_masks != query_real).any() and (key_masks != key_real).any()

    cases = []
    for some_queries, some_keys in (
        (query_masks, key_masks),
        (query_masks, None),
        (None, key_masks),
    ):
        output = modules.multihead_attention(
            as_tensor(queries),
            as_tensor(keys),
            num_heads=2,
            scope="a",
            reuse=tf.AUTO_REUSE,
            query_masks=None if some_queries is None else tf.constant(some_queries),
            key_masks=None if some_keys is None else tf.constant(some_keys),
        )
        cases.append(
            (
                output,
                pairs(
                    query_real if some_queries is None else some_queries,
                    key_real if some_keys is None else some_keys,
                ),
                query_real if some_queries is None else np.ones_like(query_real),
            )
        )
    session, variables = start()
    for output, allowed, is_kept in cases:
        expected = oracle.attention_block(queries, keys, allowed, variables, "a", 2)
        expected *= is_kept[..., None]
        np.testing.assert_allclose(session.run(output), expected, **CLOSE)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("masks", ["found", "no_padding", "given"])
def test_attention_with_a_cache_is_attention_over_the_whole(start, dialect, masks):
    x = np.random.RandomState(0).randn(2, 5, 8).astype(np.float32)
    dialect = DIALECTS[dialect]
    ids = np.array([[5, 4, 3, 2, 1], [5, 4, 3, 0, 0]])
    key_masks = {
        "found": None,
        "no_padding": True,
        "given": modules.padding_mask(tf.constant(ids)),
    }[masks]
    tensor = as_tensor(x)
    whole = modules.multihead_attention(
        tensor,
        tensor,
        num_heads=2,
        causality=True,
        max_relative_position=2,
        scope="a",
        reuse=tf.AUTO_REUSE,
        dialect=dialect,
        key_masks=key_masks,
    )

    settings = modules.AttentionSettings(8, 2, dialect)
    is_token = {
        "found": nonzero_rows(tensor, dialect.padded_row),
        "no_padding": None,
        "given": tf.not_equal(ids, 0),
    }[masks]  # [N, T]
    past, parts = empty_cache(batch=2, num_heads=2, width=4), []
    for start_at, end in ((0, 1), (1, 2), (2, 5)):  # steps of 1, 1 and 3 positions
        part = as_tensor(x[:, start_at:end])
        positions = modules.RelativePositions(tf.range(start_at, end), tf.range(end), 2)
        output, past = modules.attention_sublayer(
            part,
            part,
            modules.make_masks(
                dialect,
                keys=None if is_token is None else is_token[:, :end],
                queries=nonzero_rows(part, dialect.padded_row),
                visible=modules.causal_mask(positions.queries, positions.keys),
            ),
            settings,
            "a",
            tf.AUTO_REUSE,
            positions,
            past,
        )
        parts.append(output)
    session, _ = start()
    whole, parts, past = session.run([whole, tf.concat(parts, 1), past])
    np.testing.assert_allclose(parts, whole, **CLOSE)
    assert past.keys.shape == past.values.shape == (2, 2, 5, 4)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_keys_and_values_may_be_computed_before(start, dialect):
    """As those of the encoder in a search."""
    queries, keys = as_tensor(X), as_tensor(X[:, ::-1, :6])
    dialect = DIALECTS[dialect]
    settings = modules.AttentionSettings(8, 2, dialect)
    masks = modules.make_masks(dialect, keys=tf.not_equal(IDS, 0))
    with tf.variable_scope("a", reuse=tf.AUTO_REUSE):
        computed = modules.keys_and_values(keys, 8, 2, dialect)
    outputs = [
        modules.attention_sublayer(queries, x, masks, settings, "a", tf.AUTO_REUSE)
        for x in (keys, computed)
    ]
    session, _ = start()
    (output, cache), (again, given) = session.run(outputs)
    np.testing.assert_array_equal(output, again)
    np.testing.assert_array_equal(cache.keys, given.keys)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32])
def test_a_bias_of_any_type_is_that_of_float32(start, dialect, dtype):
    bias = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8]])
    outputs = [
        attend(
            X.astype(np.float32),
            num_heads=2,
            key_masks=IDS,
            bias=bias.astype(kind),
            dialect=dialect,
            reuse=tf.AUTO_REUSE,
        )
        for kind in (np.float32, dtype)
    ]
    session, _ = start()
    np.testing.assert_array_equal(*session.run(outputs))


@pytest.mark.parametrize(
    "positions", [np.arange(3, 6), [3, 4, 5], np.arange(3, 6, dtype=np.int32)]
)
def test_positions_may_be_arrays_and_lists(start, positions):
    settings = modules.AttentionSettings(8, 2, DIALECTS["paper"])
    outputs = []
    for queries in (tf.range(3, 6), positions):
        for keys in (tf.range(3), positions):
            visible = modules.causal_mask(queries, keys)
            outputs.append(
                modules.attention_sublayer(
                    as_tensor(X),
                    as_tensor(X),
                    modules.make_masks(DIALECTS["paper"], visible=visible),
                    settings,
                    "a",
                    tf.AUTO_REUSE,
                    modules.RelativePositions(queries, keys, 2),
                )[0]
            )
    session, _ = start()
    of_range, of_keys, *repeated = session.run(outputs)
    assert (of_range != of_keys).any()
    np.testing.assert_array_equal(repeated, [of_range, of_keys])


def test_query_masks_of_one_line_are_those_of_all(start):
    is_token = np.array([True, False, True])
    outputs = [
        attend(num_heads=2, query_masks=mask, reuse=tf.AUTO_REUSE, dialect="tutorial")
        for mask in (is_token, np.tile(is_token, [2, 1]))
    ]
    session, _ = start()
    np.testing.assert_array_equal(*session.run(outputs))


def test_a_getter_may_give_kernels_alone_16_bits(start):
    def narrow_kernels(getter, name, **options):
        values = getter(name, **options)
        return tf.cast(values, tf.float16) if name.endswith("kernel") else values

    with tf.variable_scope("block", reuse=tf.AUTO_REUSE):
        wide = modules.feedforward(X, (16, 8))
    with tf.variable_scope("block", reuse=tf.AUTO_REUSE, custom_getter=narrow_kernels):
        narrow = modules.feedforward(X, (16, 8))
    session, _ = start()
    np.testing.assert_allclose(*session.run([narrow, wide]), atol=0.01)


def empty_cache(batch, num_heads, width):
    """The KeyValueCache before the first position."""
    keys = tf.zeros([batch, num_heads, 0, width])
    return modules.KeyValueCache(keys, keys)


# --- Feed-forward and label smoothing -------------------------------------------------


def test_feedforward(start):
    x = np.random.RandomState(0).randn(3, 5, 8).astype(np.float32)
    output = modules.feedforward(as_tensor(x), (32, 8), scope="f")
    session, variables = start()
    np.testing.assert_allclose(
        session.run(output), oracle.feed_forward_block(x, variables, "f"), **CLOSE
    )


def test_label_smoothing(start):
    epsilon = 0.1
    soft = np.random.RandomState(0).dirichlet(np.ones(7), [2, 3])
    labels = np.concatenate([soft, np.eye(7)[np.array([[1, 2, 3], [4, 5, 6]])]])
    session, _ = start()
    smoothed = session.run(modules.label_smoothing(as_tensor(labels), epsilon))
    np.testing.assert_allclose(smoothed, oracle.smooth(labels, epsilon), **CLOSE)
    np.testing.assert_allclose(smoothed.sum(-1), 1, **CLOSE)


# --- Dropout --------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.1, 0.9], ids=lambda rate: f"rate_{rate}")
def test_dropout_keeps_the_expectation_and_drops_the_rate(start, rate):
    count = 200000
    output = layers.dropout(tf.ones([count]), rate)
    session, _ = start()
    values = session.run(output)
    # The package rounds the rate to 1/256, and scales by the rounded one.
    assert abs((values == 0).mean() - rate) < 1 / 512 + 5 * 0.5 / count**0.5
    assert abs(values.mean() - 1) < 5 * (rate / (1 - rate) / count) ** 0.5
    assert len(np.unique(values)) == 2


def is_kept(shape, rate, seed, place):
    """Which elements dropout keeps: those whose byte is large, of 4 in each word."""
    size = int(np.prod(shape))
    words = tf.random.stateless_uniform(
        [(size + 3) // 4],
        np.array(seed, np.int64) + np.array([zlib.crc32(place), 0], np.int64),
        -(2**31),
        2**31 - 1,
        tf.int32,
    )
    with tf.Session(config=CONFIG) as session:
        drawn = session.run(words).view(np.uint8)
    return drawn[:size].reshape(shape) >= round(rate * 256)


@pytest.mark.parametrize("seed, rate", [((1, 2), 0.1), ((2**32 - 1, 2**33), 0.5)])
@pytest.mark.parametrize(
    "shape, shared, drawn",
    [([3, 5, 7], (), [3, 5, 7]), ([3, 5, 8], (1,), [3, 1, 8]), ([0, 4], (), [0, 4])],
)
def test_masks_are_a_function_of_seed_and_place_alone(shape, shared, drawn, seed, rate):
    """By this formula a run of any version continues as it would have gone on."""
    given = tf.placeholder_with_default(tf.ones(shape), [None] * len(shape))
    pair = tf.constant(seed, tf.int64)
    with tf.variable_scope("encoder/block_1"):
        output = layers.dropout(
            given, rate, seed=pair, name="weights", broadcast_dims=shared
        )
    with tf.Session(config=CONFIG) as session:
        values = session.run(output) > 0
    mask = is_kept(drawn, rate, seed, b"encoder/block_1/weights")
    np.testing.assert_array_equal(values, np.broadcast_to(mask, shape))


@pytest.mark.parametrize("block", ["attention", "feedforward"])
def test_blocks_drop_only_in_training_and_alike_for_a_seed(start, block):
    x = as_tensor(np.random.RandomState(0).randn(2, 5, 8))
    seed = tf.placeholder_with_default([0, 0], [2])

    def build(is_training, dropout_rate=0.5):
        dropout = modules.Dropout(dropout_rate, is_training, seed)
        if block == "attention":
            settings = modules.AttentionSettings(8, 2, DIALECTS["paper"], dropout)
            return modules.attention_sublayer(
                x, x, modules.AttentionMasks(), settings, "block", tf.AUTO_REUSE
            )[0]
        settings = modules.FeedforwardSettings((16, 8), DIALECTS["paper"], dropout)
        return modules.feedforward_sublayer(x, settings, "block", tf.AUTO_REUSE)

    def build_unseeded(is_training):
        options = {"dropout_rate": 0.5, "is_training": is_training, "scope": "block"}
        options["reuse"] = tf.AUTO_REUSE
        if block == "attention":
            return modules.multihead_attention(x, x, num_heads=2, **options)
        return modules.feedforward(x, (16, 8), **options)

    switch = tf.placeholder_with_default(False, [])
    plain, trained, not_trained, switched = (
        build(True, 0),
        build(True),
        build(False),
        build(switch),
    )
    unseeded = [build_unseeded(switch) for switch in (True, False)]
    session, _ = start()
    plain, same, off = session.run([plain, not_trained, switched])
    np.testing.assert_array_equal(same, plain)
    np.testing.assert_array_equal(off, plain)
    dropped, undropped = session.run(unseeded)
    np.testing.assert_array_equal(undropped, plain)
    assert (dropped != plain).any()
    first, again = session.run([trained, switched], {seed: [1, 2], switch: True})
    np.testing.assert_array_equal(first, again)
    assert (first != plain).any()
    assert (first != session.run(trained, {seed: [1, 3]})).any()


# --- Variables ------------------------------------------------------------------------


def build_every_block(reuse=None):
    """Each block with its default scope, and what it returns."""
    x = modules.embedding(tf.constant(ids_of(LENGTHS, 5)), 20, 8, reuse=reuse)
    x += modules.positional_encoding(tf.constant(ids_of(LENGTHS, 5)), 8, reuse=reuse)
    x = modules.multihead_attention(x, x, num_heads=2, reuse=reuse)
    x = modules.feedforward(x, (12, 8), reuse=reuse)
    return modules.normalize(x, reuse=reuse)


def test_reuse_shares_every_variable(start):
    first = build_every_block()
    count = len(tf.global_variables())
    second = build_every_block(reuse=True)
    assert len(tf.global_variables()) == count
    session, _ = start()
    first, second = session.run([first, second])
    np.testing.assert_array_equal(first, second)


def test_a_scope_is_not_shared_by_accident():
    build_every_block()
    with pytest.raises(ValueError, match="already exists"):
        build_every_block()
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="does not exist"):
            build_every_block(reuse=True)


# --- What is refused ------------------------------------------------------------------


X = np.random.RandomState(0).randn(2, 3, 8)
IDS = np.array([[3, 1, 0], [2, 0, 0]])


def unknown(*sizes, dtype=tf.float32):
    return tf.placeholder(dtype, sizes)


def attend(queries=X, keys=X, *positional, **options):
    return modules.multihead_attention(queries, keys, *positional, **options)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: attend(unknown(None, None, dtype=tf.int32)),
            r"queries: expected float \[N, Tq, D\], got int32 \[N, Tq\]; embed",
        ),
        (lambda: attend(tf.placeholder(tf.float32)), "of unknown rank; set its shape"),
        (lambda: attend(None), "got NoneType; give a tensor"),
        (
            lambda: attend(X, X[:, :2], key_masks=IDS),
            r"\[N, Tk\] = \[2, 2\], got \[2, 3",
        ),
        (
            lambda: attend(mask=modules.causal_mask(tf.range(4))),
            r"Tq, Tk\] = \[2, \?, 3, 3\], got \[1, 1, 4, 4\]",
        ),
        (
            lambda: attend(X, X, X, IDS, 8, 0.1),
            "num_units to be an int, got ndarray; for .* import it from .*kyubyong",
        ),
        (lambda: attend(X, X, 8 / 2), "num_units to be an int, got float; give an int"),
        (
            lambda: attend(mask=np.ones([2, 3, 3], bool)),
            r"got three dimensions; .* give mask\[:, None\]",
        ),
        (
            lambda: attend(X[:1], X[:1], key_masks=IDS[:1, :, None]),
            r"expected \[N, Tk\] = \[1, 3\], got \[1, 3, 1\]",
        ),
        (
            lambda: attend(bias=np.zeros([2, 3, 3], np.float32)),
            r"got three dimensions; .* give bias\[:, None\]",
        ),
        (
            lambda: attend(mask=tf.placeholder(tf.bool)),
            "got unknown rank; set its shape",
        ),
        (
            lambda: attend(mask=-1e9 * np.tri(3)),
            "True or 1 = may attend, .* got -1e.09; .* is a bias, not a mask",
        ),
        (lambda: attend(num_heads=3), "num_units = 8, got 3"),
        (lambda: modules.feedforward(X, (0, 8)), "feedforward: num_units: expected an"),
        (
            lambda: attend(num_heads=2, is_training=tf.constant(1)),
            "is_training to be True, False or a bool tensor",
        ),
        (
            lambda: modules.feedforward(X, num_units=256),
            r"num_units = \(F, D\), got 256; give both widths, such as \(32, 8\)",
        ),
        (
            lambda: modules.feedforward(X, (32, 8), dialect="papr"),
            "dialect: expected one of .*'paper'.*'papr'",
        ),
        (lambda: modules.embedding(X, 9, 8), r"int .*, got float32 .*; cast it to"),
        (lambda: modules.dropout(IDS, 0.5), "dropout: expected inputs of floats"),
        (lambda: modules.embedding(IDS, 9, 0), "num_units: expected an int .*, got 0"),
        (lambda: modules.dropout(X, 1), "got 1$"),
        (lambda: modules.dropout(X, "0.1"), "got '0.1'$"),
        (lambda: modules.label_smoothing(X, 2), "epsilon <= 1, got 2$"),
        (lambda: modules.label_smoothing(IDS), "ids, else cast it to float32$"),
    ],
)
def test_one_line_says_what_a_block_expects(call, message):
    with pytest.raises(ValueError, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)
    assert not tf.global_variables()


def test_arrays_of_numpy_are_inputs_too(start):
    def block(x, ids):
        x = modules.dense(modules.label_smoothing(x), 8)
        x = modules.dropout(x, 0.5, np.bool_(False))
        x += modules.embedding(ids, 5, 8) + modules.positional_encoding(ids, 8)
        x = attend(modules.normalize(x), x, num_heads=2, key_masks=ids)
        return modules.feedforward(x, (16, 8), mask=ids)

    def formula(x, positions):
        x = np.float32(x) if isinstance(x, np.ndarray) else x
        mask = modules.causal_mask(positions)
        return modules.scaled_dot_product_attention(x, x, x, mask[0])[0]

    with tf.variable_scope("block", reuse=tf.AUTO_REUSE):
        given = [block(X, IDS), block(as_tensor(X), tf.constant(IDS))]
        given += [formula(X, np.arange(3)), formula(as_tensor(X), tf.range(3))]
    session, _ = start()
    *blocks, one, other = session.run(given)
    np.testing.assert_array_equal(*blocks)
    np.testing.assert_array_equal(one, other)


def test_a_width_may_be_a_dimension_and_a_batch_empty(start):
    """In TensorFlow 1, x.shape[-1] is a tf.Dimension."""
    ids = tf.placeholder(tf.int32, [0, None])
    width = tf.Dimension(8)
    x = modules.embedding(ids, tf.Dimension(9), width)
    x += modules.positional_encoding(ids, width)
    x = modules.feedforward(attend(x, x, width, 2), (tf.Dimension(16), width))
    session, _ = start()
    assert session.run(x, {ids: np.zeros([0, 3])}).shape == (0, 3, 8)


def test_variables_may_have_16_bits_in_the_graph(start):
    """With the getter of mixed precision by hand: float32 in memory."""

    def stored_as_float32(getter, *args, dtype=None, **options):
        return tf.cast(getter(*args, dtype=tf.float32, **options), dtype)

    narrow = tf.cast(as_tensor(X), tf.float16)
    with tf.variable_scope(
        "block", custom_getter=stored_as_float32, dtype=tf.float16, reuse=tf.AUTO_REUSE
    ):
        bias = tf.zeros([1, 1, 3, 3], tf.float16)
        x = attend(narrow, narrow, num_heads=2, bias=bias)
        output = modules.feedforward(x, (16, 8))
    gradients = tf.gradients(output[..., 0], tf.trainable_variables())
    session, _ = start()
    assert {mask.dtype.base_dtype for mask in tf.trainable_variables()} == {tf.float32}
    for value in session.run([output, *gradients]):
        assert np.isfinite(value).all()


def test_inputs_of_16_bits_are_computed_with_the_kernels_of_32(start):
    """As few digits as the inputs have, the outputs of both are nearly equal."""
    with tf.variable_scope("block", reuse=tf.AUTO_REUSE):
        wide, narrow = (
            modules.feedforward(attend(x, x, num_heads=2), (16, 8))
            for x in (as_tensor(X), tf.cast(as_tensor(X), tf.float16))
        )
    session, _ = start()
    np.testing.assert_allclose(*session.run([narrow, wide]), atol=0.01)


@pytest.mark.skipif(tf.__version__.startswith("1."), reason="graph mode is its default")
def test_eager_mode_would_make_new_variables_at_each_call():
    with context.eager_mode():
        with pytest.raises(ValueError, match="graph mode, .*disable_eager_execution"):
            attend(num_heads=2)
