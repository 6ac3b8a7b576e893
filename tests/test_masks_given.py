"""What callers give the blocks as masks; the defaults that ported code relies on."""

import inspect
import warnings

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG

from transformer import modules
from transformer.blocks import mask_probes
from transformer.hparams import HParams
from transformer.model import Transformer

X = np.random.RandomState(0).randn(2, 3, 4).astype(np.float32)
REAL = np.array([[True, True, False], [True, False, False]])


def attend(key_masks, query_masks=None, mask=None, dialect="paper"):
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
    is_token, order = tf.constant(REAL), tf.constant(np.tri(3, dtype=bool)[None, None])
    outputs = [
        attend(*(tf.cast(mask, kind) for mask in (is_token, is_token, order)))
        for kind in (tf.bool, dtype)
    ]
    fed = [
        modules.feedforward(
            tf.constant(X), (8, 4), reuse=tf.AUTO_REUSE, mask=tf.cast(is_token, kind)
        )
        for kind in (tf.bool, dtype)
    ]
    session, _ = start()
    for bools, numbers in session.run([outputs, fed]):
        np.testing.assert_array_equal(bools, numbers)


@pytest.mark.parametrize("dialect", ["paper", "tutorial", "tensor2tensor"])
def test_a_mask_of_positions_is_the_same_for_all_sentences(start, dialect):
    order = np.tri(3, dtype=bool)
    outputs = [attend(True, True, mask, dialect) for mask in (order, order[None, None])]
    session, _ = start()
    np.testing.assert_array_equal(*session.run(outputs))


def test_three_dimensions_are_those_of_the_heads_where_no_batch_can_be_meant(start):
    slopes = tf.constant([1.0, 0.5, 0.25, 0.125])[:, None, None]  # as in ALiBi
    bias = slopes * tf.constant([[0.0, -1.0, -2.0]])  # [H, 1, Tk]
    outputs = [
        modules.multihead_attention(
            tf.constant(X),
            tf.constant(X),
            4,
            4,
            bias=slopes_of_heads,
            reuse=tf.AUTO_REUSE,
        )
        for slopes_of_heads in (bias, bias[None])
    ]
    session, _ = start()
    np.testing.assert_array_equal(*session.run(outputs))


@pytest.mark.parametrize("dialect", ["paper", "tutorial"])
def test_true_stands_for_a_mask_without_padding(start, dialect):
    everything = tf.ones([2, 3], tf.bool)
    outputs = [attend(mask, mask, dialect=dialect) for mask in (True, everything)]
    session, _ = start()
    np.testing.assert_array_equal(*session.run(outputs))


INVERTED = {
    "equal": lambda ids, lengths: tf.equal(ids, 0),
    "not_equal, negated": lambda ids, lengths: tf.logical_not(tf.not_equal(ids, 0)),
    "1 - numbers": lambda ids, lengths: 1 - tf.cast(tf.not_equal(ids, 0), tf.float32),
    "sign": lambda ids, lengths: 1 - tf.sign(ids),
    "less": lambda ids, lengths: tf.less(ids, 1),
    "where": lambda ids, lengths: tf.where(
        ids > 0, tf.zeros_like(ids), tf.ones_like(ids)
    ),
    "lengths of ids": lambda ids, lengths: tf.logical_not(
        tf.sequence_mask(tf.reduce_sum(tf.sign(ids), -1), tf.shape(ids)[1])
    ),
    "sequence_mask": lambda ids, lengths: tf.logical_not(
        tf.sequence_mask(lengths, tf.shape(ids)[1])
    ),
    "sequence_mask of the longest": lambda ids, lengths: tf.logical_not(
        tf.sequence_mask(lengths)
    ),
    "bytes": lambda ids, lengths: tf.equal(tf.placeholder(tf.uint8, [None, 3]), 0),
    "range": lambda ids, lengths: tf.range(3)[None] >= lengths[:, None],
    "constant lengths": lambda ids, lengths: tf.logical_not(
        tf.sequence_mask(tf.constant([2, 1]), 3)
    ),
    "constant ids": lambda ids, lengths: (
        1 - tf.sign(tf.constant([[5, 6, 0], [7, 0, 0]]))
    ),
}


def inputs_of_masks():
    """Make ids and lengths that are known only when the graph runs."""
    return tf.placeholder(tf.int32, [None, None]), tf.placeholder(tf.int32, [None])


@pytest.mark.parametrize("name", INVERTED)
def test_an_inverted_mask_is_named_whatever_computes_it(name):
    """The vectors of padding are not zero, so that the graph cannot tell them."""
    mask = INVERTED[name](*inputs_of_masks())
    message = "expected a mask in which True = may attend, .* only for padding"
    for key_masks in (mask, mask[:, None, None, :]):
        with pytest.warns(UserWarning, match=f"attention: key_masks: {message}"):
            attend(key_masks)
    with pytest.warns(UserWarning, match=f"attention: query_masks: {message}"):
        attend(True, mask)
    with pytest.warns(UserWarning, match=f"attention: mask: {message}"):
        attend(True, None, tf.tile(mask[:, None, None, :], [1, 1, 3, 1]))
    with pytest.warns(UserWarning, match=f"feedforward: mask: {message}"):
        modules.feedforward(tf.constant(X), (8, 4), mask=mask)


@pytest.mark.parametrize("name", INVERTED)
def test_a_mask_of_tokens_is_not_named(name):
    mask = INVERTED[name](*inputs_of_masks())
    mask = tf.logical_not(tf.cast(mask, tf.bool))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attend(mask)
        allowed = mask[:, None, None, :] & mask[:, None, :, None]
        attend(tf.cast(mask, tf.float32)[:, None, None, :], mask, allowed)
        attend(True, True, tf.cast(allowed & np.tri(3, dtype=bool), tf.int64))


def test_masks_whose_meaning_is_unknown_are_used():
    ids, lengths = inputs_of_masks()
    distances = np.arange(3)[None] - np.arange(3)[:, None]
    x = tf.constant(X)
    single = x[:, :1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for mask in (
            tf.constant(~REAL),
            tf.placeholder(tf.bool, [None, None]),
            tf.equal(tf.placeholder(tf.float32, [None, None]), 0),
            tf.equal(ids, 1),  # as BERT's input_mask, 1 = token
            tf.equal(ids, 7),  # one kind of token
            tf.random_uniform([2, 3]) < 0.5,
            tf.range(3)[None] < lengths[:, None] - 1,
            -1e4 * tf.cast(tf.equal(ids, 0), tf.float32),  # named when the graph runs
        ):
            attend(mask)
        for mask in (
            tf.constant(distances) <= 0,
            tf.abs(tf.constant(distances)) <= 1,
            tf.equal(tf.constant(abs(distances)), 0),
        ):
            attend(True, True, mask)
        for mask in (tf.ones_like(ids), tf.not_equal(ids, 2), tf.range(1) >= lengths):
            mask = tf.broadcast_to(tf.cast(mask, tf.bool), [2, 1])
            modules.multihead_attention(
                x, single, num_heads=2, key_masks=mask, reuse=tf.AUTO_REUSE
            )


def test_an_inverted_mask_of_queries_and_keys_is_named():
    ids, _ = inputs_of_masks()
    padding = tf.equal(ids, 0)
    for mask in (
        padding[:, None, :, None] | padding[:, None, None, :],
        tf.logical_not(padding)[:, None, :, None] & padding[:, None, None, :],
    ):
        with pytest.warns(UserWarning, match="mask: .* True only for padding"):
            attend(True, True, mask)


def test_an_inverted_bias_is_named():
    ids, lengths = inputs_of_masks()
    message = "bias: expected low numbers for padding, got them for all tokens"

    def add_bias(bias):
        modules.multihead_attention(
            tf.constant(X), tf.constant(X), num_heads=2, reuse=tf.AUTO_REUSE, bias=bias
        )

    is_token = tf.cast(tf.not_equal(ids, 0), tf.float32)[:, None, None]
    longest = tf.cast(tf.sequence_mask(lengths, 3), tf.float32)[:, None, None]
    for bias in (-1e9 * is_token, -1e4 * longest, tf.log(1 - is_token)):
        with pytest.warns(UserWarning, match=message):
            add_bias(bias)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for bias in (-1e9 * (1 - is_token), tf.log(longest)):
            add_bias(bias)
    with pytest.raises(tf.errors.InvalidArgumentError, match="bias: .* for all tokens"):
        bias = computed(-1e9 * REAL[:, None, None].astype(np.float32))
        run_block("multihead_attention: bias", bias, ZEROS)


def test_a_large_mask_is_not_computed():
    ids = tf.placeholder(tf.int32, [64, 2048])
    is_token = tf.not_equal(ids, 0)
    assert mask_probes.find_meaning(is_token) == "tokens"
    pairs = is_token[:, None, :, None] & is_token[:, None, None, :]
    assert mask_probes.find_meaning(pairs) is None


@pytest.mark.parametrize("place", ["key_masks", "mask"])
def test_a_mask_of_queries_that_is_repeated_for_all_keys_is_named(place):
    ids, lengths = inputs_of_masks()
    for is_token in (tf.not_equal(ids, 0), tf.sequence_mask(lengths, 3)):
        repeated = tf.tile(is_token[:, None, :, None], [1, 1, 1, 3])
        for mask in (repeated, tf.logical_not(repeated)):
            with pytest.warns(UserWarning, match=f"{place}: .* in query_masks"):
                attend(**{"key_masks": True, place: mask})


def test_a_probe_opens_no_session(monkeypatch):
    """The first session of a process fixes the number of threads of all others."""
    monkeypatch.setattr(tf, "Session", None)
    mask = tf.equal(inputs_of_masks()[0], 0)
    operations = len(tf.get_default_graph().get_operations())
    assert mask_probes.find_meaning(mask) == "padding"
    assert len(tf.get_default_graph().get_operations()) == operations


ZEROS = X * REAL[:, :, None]  # the rows of padding are zero
LEFT = np.array([[False, True, True], [False, False, True]])  # as in SASRec


def run_block(place, mask, x, fed=None):
    """Run a block with a mask at a place.

    Args:
      place: the block and the argument, as in messages.
      mask: a mask of any kind.
      x: float [N, T, D].
      fed: the values of placeholders.
    """
    tf.set_random_seed(0)
    block, argument = place.split(": ")
    x = tf.constant(x)
    if block == "feedforward":
        output = modules.feedforward(x, (8, 4), reuse=tf.AUTO_REUSE, mask=mask)
    else:
        output = modules.multihead_attention(
            x, x, num_heads=2, reuse=tf.AUTO_REUSE, **{argument: mask}
        )
    with tf.Session(config=CONFIG) as session:
        session.run(tf.global_variables_initializer())
        return session.run(output, fed)


def computed(values):
    """Return a tensor whose values are known only when the graph runs."""
    shape = [1 if size == 1 else None for size in values.shape]
    return tf.identity(tf.placeholder_with_default(values, shape))


SOURCES = {"NumPy": np.asarray, "constant": tf.constant, "computed": computed}
PLACES = ["key_masks", "query_masks", "mask"]
PLACES = [f"multihead_attention: {place}" for place in PLACES] + ["feedforward: mask"]


@pytest.mark.parametrize("dtype", [bool, np.float32, np.int64])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("place", PLACES)
def test_an_inverted_mask_is_named_when_the_graph_runs(place, source, dtype):
    mask = (~REAL).astype(dtype)
    if place == "multihead_attention: mask":
        mask = mask[:, None, None]
    message = f"{place}: expected a mask that is False for padding, .* invert it"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        run_block(place, SOURCES[source](mask), ZEROS)


@pytest.mark.parametrize("source", SOURCES)
def test_an_inverted_mask_of_each_query_is_named(source):
    for shape in ([2, 1, 3, 3], [2, 2, 3, 3]):
        mask = np.broadcast_to(~REAL[:, None, None], shape)
        with pytest.raises(tf.errors.InvalidArgumentError, match="mask: .* invert it"):
            run_block("multihead_attention: mask", SOURCES[source](mask), ZEROS)
    right = run_block(
        "multihead_attention: mask", REAL[:, None, None] & np.tri(3, dtype=bool), ZEROS
    )
    assert np.isfinite(right).all()


def test_a_mask_given_as_bias_is_refused():
    mask = REAL[:, None, None]
    with pytest.raises(
        ValueError, match="bias: expected float, got .* give it as mask"
    ):
        run_block("multihead_attention: bias", mask, ZEROS)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_a_mask_of_numbers_given_as_bias_is_named(dtype):
    ids, lengths = inputs_of_masks()
    for mask in (
        tf.not_equal(ids, 0)[:, None, None, :],
        tf.sequence_mask(lengths, 3)[:, None, None, :],
        tf.constant(REAL[:, None, None]),
        tf.linalg.band_part(tf.ones([tf.shape(ids)[1]] * 2), -1, 0),
        np.tri(3),
    ):
        with pytest.warns(
            UserWarning, match="bias: .* only 0 and 1; .* give it as mask"
        ):
            modules.multihead_attention(
                tf.constant(X),
                tf.constant(X),
                num_heads=2,
                reuse=tf.AUTO_REUSE,
                bias=tf.cast(mask, dtype),
            )
    with pytest.raises(tf.errors.InvalidArgumentError, match="give it as mask"):
        run_block(
            "multihead_attention: bias",
            computed(REAL[:, None, None].astype(dtype)),
            ZEROS,
        )
    for bias in (np.zeros([3, 3]), np.ones([3, 3]), -np.tri(3), 2 * np.tri(3)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run_block("multihead_attention: bias", bias.astype(dtype), ZEROS)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("rows", [X, ZEROS], ids=["padding_is_not_zero", "zeros"])
@pytest.mark.parametrize("place", PLACES)
def test_an_additive_mask_is_named(place, rows, source, dtype):
    mask = (1 - REAL.astype(dtype)) * np.array(-1e4, dtype)
    if place == "multihead_attention: mask":
        mask = mask[:, None, None]
    message = f"{place}: expected True or 1 = may attend, .* is a bias, not a mask"
    kind = tf.errors.InvalidArgumentError if source == "computed" else ValueError
    with pytest.raises(kind, match=message):
        run_block(place, SOURCES[source](mask), rows)


@pytest.mark.parametrize("dtype", [bool, np.float32, np.int64])
def test_a_mask_that_is_fed_is_checked_in_each_run(dtype):
    x = tf.placeholder(tf.float32, [None, None, 4])
    mask = tf.placeholder(dtype, [None, None])
    output = modules.multihead_attention(x, x, num_heads=2, key_masks=mask)
    with tf.Session(config=CONFIG) as session:
        session.run(tf.global_variables_initializer())
        right = session.run(output, {x: ZEROS, mask: REAL})
        with pytest.raises(tf.errors.InvalidArgumentError, match="invert it"):
            session.run(output, {x: ZEROS, mask: ~REAL})
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="a value for each position"
        ):
            session.run(output, {x: ZEROS, mask: REAL[:, :1]})
        again = session.run(output, {x: ZEROS, mask: REAL})
    np.testing.assert_array_equal(right, again)


LEGITIMATE = {
    "padding at the end": (ZEROS, REAL),
    "padding at the beginning": (X * LEFT[:, :, None], LEFT),
    "everything": (ZEROS, np.ones_like(REAL)),
    "nothing": (ZEROS, np.zeros_like(REAL)),
    "no padding in the batch": (X, np.ones_like(REAL)),
    "real keys are forbidden": (ZEROS, REAL & (np.arange(3) != 1)),
    "all real keys but one, and padding is seen": (ZEROS, np.arange(3) != 0),
    "the whole batch is padding": (0 * X, np.array([[True] * 3, [False] * 3])),
    "padding is not zero": (X, ~REAL),  # the values may mean anything
}


@pytest.mark.parametrize("dtype", [bool, np.float32])
@pytest.mark.parametrize("name", LEGITIMATE)
@pytest.mark.parametrize("place", PLACES[:2] + PLACES[3:])
def test_a_mask_on_purpose_is_used(place, name, dtype):
    x, mask = LEGITIMATE[name]
    mask = np.broadcast_to(mask, REAL.shape).astype(dtype)
    output = run_block(place, computed(mask), x)
    np.testing.assert_array_equal(output, run_block(place, tf.constant(mask), x))
    assert np.isfinite(output).all()


@pytest.mark.parametrize("order", ["past", "future", "local", "others"])
def test_a_mask_of_order_may_forbid_every_real_key(order):
    """As for a single token: its only neighbours are padding."""
    x = ZEROS[1:]
    mask = {
        "past": np.tri(3, dtype=bool),
        "future": ~np.tri(3, dtype=bool),
        "local": np.tri(3, k=1, dtype=bool) & ~np.tri(3, k=-2, dtype=bool),
        "others": ~np.eye(3, dtype=bool),
    }[order]
    for shape in (mask, mask[None, None]):
        assert np.isfinite(run_block("multihead_attention: mask", shape, x)).all()


def test_attention_of_the_model_makes_no_assertions():
    hp = HParams(
        num_blocks=1,
        d_model=8,
        d_ff=8,
        num_heads=2,
        source_vocab_size=9,
        target_vocab_size=9,
    )
    model = Transformer(hp)
    ids = tf.placeholder(tf.int32, [None, None])
    model.decode(ids, model.encode(ids))
    kinds = {operation.type for operation in tf.get_default_graph().get_operations()}
    assert not kinds & {"Assert", "If", "Switch"}


OF_QUERIES = (
    r"got \[2, (1, )?3, 1\], with a single value for all .*; .* belongs in query_masks"
)


@pytest.mark.parametrize(
    "place, shape, message",
    [
        ("key_masks", [2, 1, 3, 1], OF_QUERIES),
        ("key_masks", [2, 1], r"\[N, Tk\] with Tk = 3 .*, got \[2, 1\]"),
        ("key_masks", [], r"\[N, Tk\] with Tk = 3 .*, got \[\]"),
        ("query_masks", [2, 1], r"\[N, Tq\] with Tq = 3 .*, got \[2, 1\]"),
        ("query_masks", [2, 1, 3, 1], r"expected \[N, Tq\] = \[2, 3\], got"),
        ("mask", [2, 1, 3, 1], OF_QUERIES),
        ("mask", [3, 1], "with a single value for all positions"),
        ("mask", [], "with a single value for all positions"),
        ("bias", [2, 1, 3, 1], "with a single value for all positions"),
        ("feedforward", [2, 1], r"\[N, T\] with T = 3 .*, got \[2, 1\]"),
        ("feedforward", [2, 3, 1], r"expected \[N, T\] = \[2, 3\], got"),
    ],
)
@pytest.mark.parametrize("is_static", [True, False], ids=["static", "dynamic"])
def test_a_shape_that_broadcasts_but_masks_nothing_is_refused(
    place, shape, message, is_static
):
    x = tf.constant(X)
    mask = tf.ones(shape, tf.float32)
    if not is_static:
        x = tf.placeholder_with_default(X, [None, None, 4])
        mask = tf.placeholder(tf.float32, [None if size > 1 else 1 for size in shape])
        message = "expected .*, got"
    with pytest.raises(ValueError, match=message):
        if place == "feedforward":
            modules.feedforward(x, (8, 4), mask=mask)
        else:
            modules.multihead_attention(x, x, num_heads=2, **{place: mask})


def test_a_single_key_may_have_a_single_mask(start):
    x = tf.constant(X)
    output = modules.multihead_attention(
        x, x[:, :1], num_heads=2, key_masks=tf.ones([2, 1]), mask=np.ones([3, 1])
    )
    session, _ = start()
    assert np.isfinite(session.run(output)).all()


def test_the_signatures_are_those_of_the_tutorial():
    """Positional arguments, their order and defaults, as ported code passes them."""

    def positional(function):
        parameters = inspect.signature(function).parameters.values()
        return ", ".join(
            parameter.name
            + (
                ""
                if parameter.default is parameter.empty
                else f"={parameter.default!r}"
            )
            for parameter in parameters
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        )

    # The scale of positions is as the dialect has it: in the tutorials True.
    for function, expected in {
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
        assert positional(function) == expected
