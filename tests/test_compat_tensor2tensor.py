"""Code written for tensor2tensor, on `transformer.compat.tensor2tensor`.

Its recorded numbers, with names, shapes and order of the variables; decoding with a
cache; refusals; and what its own tests check.
"""

import functools
import types

import fixtures
import numpy as np
import oracle
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG
from originals import assert_as_recorded, open_case

from transformer.compat import tensor2tensor as common_attention
from transformer.compat import tensor2tensor as common_layers

# Recorded functions that have no counterpart: name of a case → why.
UNSUPPORTED = {
    "D/noam_norm": "its normalization has no variables: 'layer' and 'none' are here",
    "D/l2_norm": "another normalization: 'layer' and 'none' are here",
    "D/mha_self_vars_3d": "kernels of three dimensions",
}
HPARAMS = types.SimpleNamespace(
    layer_preprocess_sequence="n",
    layer_postprocess_sequence="da",
    layer_prepostprocess_dropout=0.1,
    norm_type="layer",
    norm_epsilon=1e-6,
)
WIDTH, HEADS = 8, 2


def change_hparams(**changes):
    """HPARAMS with other values."""
    return types.SimpleNamespace(**{**vars(HPARAMS), **changes})


def evaluate(*tensors):
    """Evaluate tensors with the initial values of the variables."""
    with tf.Session(config=CONFIG) as session:
        session.run(tf.global_variables_initializer())
        return session.run(tensors)


# Recorded numbers


def arguments_of(inputs, kwargs, function):
    """The arguments of a recorded call: its tensors, and the others."""
    tensors = {name: x for name, x in inputs.items() if name != "dout"}
    if function == "get_timing_signal_1d":
        tensors["length"] = tf.get_static_value(tensors["length"]).item()
    if function in ("layer_preprocess", "layer_postprocess"):
        kwargs = {"hparams": change_hparams(layer_prepostprocess_dropout=0.0, **kwargs)}
    if function in ("dot_product_attention", "dot_product_attention_relative"):
        kwargs = {"bias": None, **kwargs}
    if function == "multihead_attention":
        kwargs = {"bias": None, "memory_antecedent": None, **kwargs}
    return {**kwargs, **tensors}


@fixtures.over("D", function="common_*")
def test_recorded_numbers(name):
    if name in UNSUPPORTED:
        pytest.skip(UNSUPPORTED[name])
    case, inputs, kwargs = open_case(name)
    function = case["meta"]["function"].split(".")[-1]
    arguments, weights = arguments_of(inputs, kwargs, function), {}
    if "out/attn" in case:
        arguments["save_weights_to"] = weights
    results = getattr(common_attention, function)(**arguments)
    if function == "padded_cross_entropy":
        total, count = results
        per_token, _ = common_layers.padded_cross_entropy(reduce_sum=False, **arguments)
        outputs = {"out": total, "denominator": count}
        outputs.update(loss=total / count, per_token=per_token)
    else:
        outputs = {"out": results, **dict(zip(["attn"], weights.values()))}
    assert_as_recorded(case, outputs, inputs)


# Variables: names, sharing, initial values


def names():
    return [v.op.name for v in tf.trainable_variables()]


def test_a_default_name_is_numbered_and_a_given_one_is_not():
    x = tf.zeros([2, 3, WIDTH])
    for name in (None, None, "mine", "norm", "ln"):
        common_layers.layer_norm(x, name=name)
    scopes = ("layer_norm", "layer_norm_1", "mine", "norm", "ln")
    assert names() == [
        scope + "/layer_norm_" + kind for scope in scopes for kind in ("scale", "bias")
    ]
    with pytest.raises(ValueError, match="already exists"):
        common_layers.layer_norm(x, name="mine")


def test_a_scope_shares_its_variables():
    x = tf.random_uniform([2, 3, WIDTH], seed=1)

    def block():
        y = common_layers.layer_preprocess(
            x, change_hparams(layer_prepostprocess_dropout=0)
        )
        for kind in ("dot_product_relative", "dot_product_relative_v2"):
            y = common_attention.multihead_attention(
                y, None, None, WIDTH, WIDTH, WIDTH, HEADS, 0, kind, 2, name=kind
            )
        return common_layers.dense_relu_dense(y, 5, WIDTH)

    with tf.variable_scope("model"):
        first = block()
    first_names = names()
    with tf.variable_scope("model", reuse=True):
        second = block()
    assert names() == first_names
    np.testing.assert_array_equal(*evaluate(first, second))


def test_initial_values_are_those_of_the_scope():
    """Of kernels and relative positions; biases and normalizations have their own."""
    x = tf.zeros([2, 3, WIDTH])
    with tf.variable_scope("model", initializer=tf.constant_initializer(7.0)):
        y = common_attention.multihead_attention(
            x, None, None, WIDTH, WIDTH, WIDTH, HEADS, 0, "dot_product_relative", 2
        )
        common_layers.dense_relu_dense(common_layers.layer_norm(y), 5, WIDTH)
    with tf.Session(config=CONFIG) as session:
        session.run(tf.global_variables_initializer())
        for variable in tf.trainable_variables():
            kind = variable.op.name.split("/")[-1]
            constants = {"layer_norm_scale": 1, "layer_norm_bias": 0, "bias": 0}
            assert (session.run(variable) == constants.get(kind, 7)).all(), kind


# Relations


def attention(
    x, memory, bias, kind="dot_product", cache=None, dropout_rate=0.0, **options
):
    sizes = (4, 4, WIDTH, HEADS)
    with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
        return common_attention.multihead_attention(
            x, memory, bias, *sizes, dropout_rate, kind, 2, cache=cache, **options
        )


@pytest.mark.parametrize(
    "kind, is_fixed",
    [("dot_product", False), ("dot_product_relative", False), ("dot_product", True)],
)
def test_stepping_with_a_cache_gives_the_same(kind, is_fixed):
    """A cache that grows, or one of a fixed length."""
    length = 5
    x = tf.random_uniform([2, length, WIDTH], seed=1)
    bias = common_attention.attention_bias_lower_triangle(length)
    whole = attention(x, None, bias, kind)
    cache_length = length if is_fixed else 0
    cache = {name: tf.zeros([2, HEADS, cache_length, 2]) for name in ("k", "v")}
    steps = []
    for t in range(length):
        step_bias = bias[:, :, t : t + 1, : length if is_fixed else t + 1]
        options = {"decode_loop_step": tf.constant(t)} if is_fixed else {}
        step = attention(x[:, t : t + 1], None, step_bias, kind, cache=cache, **options)
        steps.append(step)
    assert cache["k"].shape.as_list() == [2, HEADS, length, 2]
    outputs, expected = evaluate(tf.concat(steps, axis=1), whole)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)


def test_a_cache_of_the_memory_gives_the_same():
    x, memory = (tf.random_uniform([2, n, WIDTH], seed=n) for n in (3, 5))
    bias = tf.zeros([2, 1, 1, 5])
    whole = attention(x, memory, bias)
    with tf.variable_scope("model/multihead_attention", reuse=True):
        _, k, v = common_attention.compute_qkv(x, memory, 4, 4)
    cache = {
        "k_encdec": common_attention.split_heads(k, HEADS),
        "v_encdec": common_attention.split_heads(v, HEADS),
    }
    output = attention(x, memory, bias, cache=cache)
    np.testing.assert_array_equal(*evaluate(output, whole))


@pytest.mark.parametrize(
    "kind, is_dropped", [("dot_product", 1), ("local_unmasked", 0)]
)
def test_local_attention_has_no_dropout(kind, is_dropped):
    x = tf.random_uniform([2, 4, WIDTH], seed=1)
    whole = attention(x, None, tf.zeros([2, 1, 1, 4]), kind)
    dropped = attention(x, None, tf.zeros([2, 1, 1, 4]), kind, dropout_rate=0.5)
    whole, dropped = evaluate(whole, dropped)
    assert np.allclose(whole, dropped) != is_dropped


def test_dropout_with_broadcast_dims():
    """Along these dimensions, elements are zeroed together; at rate 0, none are."""
    x = tf.ones([40, 1, 30])
    dropped = common_layers.dropout_with_broadcast_dims(x, 0.5, broadcast_dims=[0, -2])
    undropped = common_layers.dropout_with_broadcast_dims(x, 1.0, broadcast_dims=[0])
    dropped, undropped = evaluate(dropped, undropped)
    assert (dropped == dropped[:1]).all()
    assert set(np.unique(dropped)) == {0, 2}
    assert (undropped == 1).all()


def test_shifts():
    ids = tf.constant([[1, 2, 3]])
    shifted = evaluate(
        common_layers.shift_right_2d(ids),
        common_layers.shift_right_2d(ids, tf.constant([[9]])),
        common_layers.shift_right(ids[:, :, None, None])[:, :, 0, 0],
    )
    assert [x.tolist() for x in shifted] == [[[0, 1, 2]], [[9, 1, 2]], [[0, 1, 2]]]


def test_losses_of_all_labels():
    """`weights_all` counts padding, too; each label is smoothed."""
    logits = tf.random_uniform([2, 3, 7], seed=1)
    labels = tf.constant([[1, 2, 0], [6, 0, 0]])
    losses = common_layers.smoothing_cross_entropy(logits, labels, 7, 0.9)
    total, count = common_layers.padded_cross_entropy(
        logits, labels, 0.1, common_layers.weights_all
    )
    token_total, num_tokens = common_layers.padded_cross_entropy(logits, labels, 0.1)
    losses, total, count, token_total, num_tokens = evaluate(
        losses, total, count, token_total, num_tokens
    )
    assert (count, num_tokens) == (6, 3)
    np.testing.assert_allclose(total, losses.sum(), rtol=1e-6)
    np.testing.assert_allclose(
        token_total, losses[0, :2].sum() + losses[1, 0], rtol=1e-6
    )


# Refusals


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"attention_type": "masked_dilated_1d"}, "got 'masked_dil"),
        ({"q_filter_width": 3}, "expected q_filter_width = 1, got 3"),
        ({"cache": {}}, "got a cache and bias = None"),
        (
            {"cache": {}, "attention_type": "local_unmasked"},
            "expected attention_type to be one of .* with a cache",
        ),
        (
            {"attention_type": "dot_product_relative_v2", "max_relative_position": 0},
            "expected a positive max_relative_position, got 0",
        ),
    ],
)
def test_attention_refuses_unsupported_arguments(changes, message):
    arguments = {
        "query_antecedent": tf.zeros([2, 3, WIDTH]),
        "memory_antecedent": None,
        "bias": None,
        "total_key_depth": 4,
        "total_value_depth": 4,
        "output_depth": WIDTH,
        "num_heads": HEADS,
        "dropout_rate": 0.0,
    }
    with pytest.raises(ValueError, match=message):
        common_attention.multihead_attention(**{**arguments, **changes})


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda x: common_layers.apply_norm(x, "noam", None, 1e-6),
            "expected norm_type",
        ),
        (
            lambda x: common_layers.smoothing_cross_entropy(x, x[..., 0], 9, 0.9),
            "expected vocab_size = 8, got 9",
        ),
    ],
)
def test_layers_refuse_unsupported_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(tf.zeros([2, 3, WIDTH]))


# What tensor2tensor's own tests check, of the functions that models of others call most


@pytest.mark.parametrize("kind", ["dot_product", "dot_product_relative_v2"])
def test_weights_are_saved_with_their_logits(kind):
    x = tf.random_uniform([2, 5, WIDTH], seed=1)
    bias = common_attention.attention_bias_lower_triangle(5)
    weights_by_scope = {}
    attention(x, None, bias, kind, save_weights_to=weights_by_scope)
    name, logits = weights_by_scope
    assert logits == f"{name}/logits"
    weights, logits = evaluate(weights_by_scope[name], weights_by_scope[logits])
    np.testing.assert_allclose(weights, oracle.softmax(logits), rtol=1e-5, atol=1e-7)
    assert (logits[:, :, 0, 1:] < -1e8).all()  # the bias is in them


@pytest.mark.parametrize("longer", ["logits", "labels"])
def test_losses_of_unequal_lengths(longer):
    """Missing labels are padding; missing logits are zeros, for a uniform softmax."""
    logits = tf.random_uniform([2, 5, 1, 1, 7], seed=1)
    labels = tf.constant([[1, 2, 3, 4, 5], [6, 5, 4, 3, 0]])[:, :, None, None]
    shortened = {"logits": (logits, labels[:, :3]), "labels": (logits[:, :3], labels)}
    total, count = common_layers.padded_cross_entropy(*shortened[longer], 0.0)
    cut_total, cut_count = common_layers.padded_cross_entropy(
        logits[:, :3], labels[:, :3], 0.0
    )
    total, count, cut_total, cut_count = evaluate(total, count, cut_total, cut_count)
    options = 0 if longer == "logits" else 3
    assert (count, cut_count) == (6 + options, 6)
    np.testing.assert_allclose(total, cut_total + options * np.log(7), rtol=1e-6)


def test_embedding():
    """Of ids with a last dimension of 1, by a factor, with a dense gradient."""
    ids = tf.constant([[3, 1], [0, 3]])[:, :, None, None]
    vectors = common_layers.embedding(ids, 5, 4, name="words", multiplier=2.0)
    assert vectors.shape.as_list() == [2, 2, 1, 4]
    unscaled = common_layers.embedding(ids, 5, 4, name="words", reuse=True)
    [table] = tf.trainable_variables()
    from_table = common_layers.embedding(ids[:, :, 0, 0], 5, 4, embedding_var=table)
    dropped = common_layers.embedding(ids, 5, 4, "words", True, symbol_dropout_rate=1.0)
    gradient = tf.gradients(vectors, table)[0]
    assert tf.is_tensor(gradient) and not isinstance(gradient, tf.IndexedSlices)
    values = evaluate(vectors, unscaled, from_table, dropped, table)
    np.testing.assert_allclose(values[0], 2 * values[1], rtol=1e-6)
    np.testing.assert_array_equal(values[1][:, :, 0], values[2])
    assert (values[3] == values[4][0]).all()
    with pytest.raises(ValueError, match="expected dtype = "):
        common_layers.embedding(ids, 5, 4, dtype=tf.float16)


def test_dense():
    x = tf.random_uniform([2, 3, 4, 5], seed=1)
    ones = tf.ones_initializer()
    outputs = [
        common_layers.dense(x, 6),
        common_layers.dense(x, 6, use_bias=False, activation=tf.nn.relu),
        common_layers.dense(x, 6, name="mine", kernel_initializer=ones),
    ]
    assert names() == ["dense/kernel", "dense/bias", "dense_1/kernel"] + [
        "mine/kernel",
        "mine/bias",
    ]
    kernels = [v for v in tf.trainable_variables() if "kernel" in v.op.name]
    inputs, outputs, kernels = evaluate(x, tuple(outputs), tuple(kernels))
    products = [np.tensordot(inputs, kernel, 1) for kernel in kernels]
    products[1] = np.maximum(products[1], 0)
    for output, product in zip(outputs, products):
        np.testing.assert_allclose(output, product, rtol=1e-5, atol=1e-6)
    assert (kernels[2] == 1).all()
    with pytest.raises(ValueError, match="layer_collection"):
        common_layers.dense(x, 6, layer_collection=1)


@pytest.mark.parametrize("name", ["inner", "outer", "o", "conv1d"])
def test_a_layer_has_the_given_name_even_if_a_block_uses_it_otherwise(name):
    common_layers.dense(tf.ones([2, 3]), 6, name=name)
    common_layers.embedding(tf.constant([[1]]), 5, 4, name=f"{name}_of_ids")
    with tf.variable_scope(name):
        common_layers.embedding(tf.constant([[1]]), 5, 4, name="o")
    shapes = {v.op.name: v.shape.as_list() for v in tf.trainable_variables()}
    assert shapes == {
        f"{name}/kernel": [3, 6],
        f"{name}/bias": [6],
        f"{name}_of_ids/kernel": [5, 4],
        f"{name}/o/kernel": [5, 4],
    }


@pytest.mark.parametrize("length", [3, 6])
def test_add_positional_embedding(length):
    x = tf.random_uniform([2, length, 3], seed=1)
    outputs = common_attention.add_positional_embedding(x, 4, "pos_embedding")
    assert outputs.shape.as_list() == [2, length, 3]
    [table] = tf.trainable_variables()
    assert (table.op.name, table.shape.as_list()) == ("pos_embedding", [4, 3])
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        ids = tf.constant([[3, 0, 1, 1, 2, 0]] * 2)[:, :length]
        gathered = common_attention.add_positional_embedding(x, 4, "pos_embedding", ids)
    outputs, gathered, x, ids, table = evaluate(
        outputs - x, gathered - x, x, ids, table
    )
    expected = np.zeros([length, 3])
    expected[:4] = table[:length]
    np.testing.assert_allclose(outputs, [expected] * 2, atol=1e-6)
    np.testing.assert_allclose(gathered, table[ids], atol=1e-6)


def test_add_timing_signal_nd():
    """In one dimension, it is that of a sequence; in two, each has half the width."""
    x = tf.random_uniform([2, 5, 9], seed=1)
    signal = common_attention.add_timing_signal_nd(x) - x
    expected_signal = common_attention.add_timing_signal_1d(x) - x
    picture = tf.zeros([1, 3, 4, 9])
    signals = common_attention.add_timing_signal_nd(picture)
    rows, columns = (common_attention.get_timing_signal_1d(n, 4) for n in (3, 4))
    signal, expected_signal, signals, rows, columns = evaluate(
        signal, expected_signal, signals, rows[0], columns[0]
    )
    np.testing.assert_allclose(signal, expected_signal, atol=1e-6)
    for i in range(3):
        for j in range(4):
            expected = [*rows[i], *columns[j], 0]
            np.testing.assert_allclose(signals[0, i, j], expected, atol=1e-6)


def test_sizes_in_the_condition_of_a_loop():
    """A size decides whether to go on, as in tensor2tensor's slow greedy decoding."""

    def is_short(x):
        _, length = common_layers.shape_list(x)
        return tf.less(length, 5)

    def extend(x):
        return tf.concat([x, tf.ones([2, 1])], axis=1)

    shapes = [tf.TensorShape([2, None])]  # one size is static, the other is not
    x = tf.while_loop(is_short, extend, [tf.zeros([2, 0])], shape_invariants=shapes)
    with tf.Session() as session:  # with TensorFlow's graph optimizer, unlike CONFIG
        assert session.run(x).shape == (2, 5)


def test_pad_to_same_length():
    x, y = np.ones([5, 7, 2]), np.ones([5, 9, 2])
    pairs = [
        common_layers.pad_to_same_length(as_floats(x), as_floats(y)),
        common_layers.pad_to_same_length(as_floats(y), as_floats(x), 4),
        common_layers.pad_to_same_length(
            tf.placeholder_with_default(as_floats(x), [None, None, None]), as_floats(y)
        ),
        common_layers.pad_to_same_length(
            as_floats(x.swapaxes(1, 2)), as_floats(y.swapaxes(1, 2)), axis=2
        ),
    ]
    padded_pairs = evaluate(*[tuple(pair) for pair in pairs])
    lengths = [tuple(array.shape for array in pair) for pair in padded_pairs]
    assert lengths == [((5, n, 2),) * 2 for n in (9, 12, 9)] + [((5, 2, 9),) * 2]
    assert all(pair[0].sum() + pair[1].sum() == 160 for pair in padded_pairs)
    assert not padded_pairs[0][0][:, 7:].any()
    with pytest.raises(ValueError, match="axis 1 or 2, got 3"):
        common_layers.pad_to_same_length(pairs[0][0], pairs[0][1], axis=3)


def as_floats(array):
    return tf.constant(array, tf.float32)


def test_sample_with_temperature():
    logits = tf.log(tf.constant([[0.5, 0.3, 0.2]] * 4000))
    tf.set_random_seed(1)
    samples = evaluate(
        common_layers.sample_with_temperature(logits, 1.0),
        common_layers.sample_with_temperature(logits, 0.5),
        common_layers.sample_with_temperature(logits, 1.0, 2),
        common_layers.sample_with_temperature(logits[:, None], 0.0),
    )
    shares = [[0.5, 0.3, 0.2], [25 / 38, 9 / 38, 4 / 38], [5 / 8, 3 / 8, 0], [1, 0, 0]]
    for ids, share in zip(samples, shares):
        counts = np.bincount(ids.ravel(), minlength=3) / 4000
        np.testing.assert_allclose(counts, share, atol=0.04)
    assert samples[0].shape == (4000,) and samples[3].shape == (4000, 1)
    with pytest.raises(ValueError, match="to be -1 or positive, got 0"):
        common_layers.sample_with_temperature(logits, 1.0, 0)


@pytest.mark.parametrize("padding", ["VALID", "SAME", "LEFT"])
@pytest.mark.parametrize("rate", [1, 2], ids=lambda rate: f"rate_{rate}")
def test_conv1d(padding, rate):
    x = tf.random_uniform([2, 7, 4], seed=1)
    y = common_layers.conv1d(
        x, 5, 3, rate, padding=padding, activation=tf.nn.relu, name="c"
    )
    shapes = {v.op.name: v.shape.as_list() for v in tf.trainable_variables()}
    assert shapes == {"c_single/kernel": [3, 1, 4, 5], "c_single/bias": [5]}
    kernel = tf.trainable_variables()[0]
    x, y, kernel = evaluate(x, y, kernel)
    edges = {"VALID": (0, 0), "SAME": (rate, rate), "LEFT": (2 * rate, 0)}[padding]
    x = np.pad(x, [(0, 0), edges, (0, 0)], "constant")
    expected = [
        sum(x[:, t + i * rate] @ kernel[i, 0] for i in range(3))
        for t in range(x.shape[1] - 2 * rate)
    ]
    expected = np.maximum(np.stack(expected, axis=1), 0)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_conv_hidden_relu():
    """Of width 1 it is dense_relu_dense; wider, a separable convolution."""
    x = tf.random_uniform([2, 3, 4], seed=1)
    y = common_layers.conv_hidden_relu(x, 6, 5)
    kernels = [v for v in tf.trainable_variables() if "kernel" in v.op.name]
    assert [(v.op.name, v.shape.as_list()) for v in kernels] == [
        ("conv_hidden_relu/conv1_single/kernel", [1, 1, 4, 6]),
        ("conv_hidden_relu/conv2_single/kernel", [1, 1, 6, 5]),
    ]
    wide = common_layers.conv_hidden_relu(
        x, 6, 5, second_kernel_size=(3, 1), padding="SAME", name="wide", dropout=0.1
    )
    depthwise = [v for v in tf.trainable_variables() if "depthwise" in v.op.name]
    assert [v.shape.as_list() for v in depthwise] == [[3, 1, 6, 1]]
    x, y, wide, first, second = evaluate(x, y, wide, *kernels)
    expected = np.maximum(x @ first[0, 0], 0) @ second[0, 0]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    assert wide.shape == (2, 3, 5)


@pytest.mark.parametrize("pos", ["timing", "emb", None])
def test_transformer_prepare_encoder(pos):
    inputs = np.random.RandomState(0).randn(2, 3, WIDTH)
    inputs[1, 2] = 0
    hp = types.SimpleNamespace(pos=pos, proximity_bias=False, max_length=4)
    prepare = functools.partial(common_layers.transformer_prepare_encoder, hparams=hp)
    x, bias, memory_bias = prepare(as_floats(inputs), tf.constant(2))
    tables = {v.op.name: v for v in tf.trainable_variables()}
    expected = inputs + 0
    values = evaluate(x, bias, memory_bias, tables)
    x, bias, memory_bias, tables = values
    expected += tables.pop("target_space_embedding/kernel")[2]
    if pos == "timing":
        with tf.Session() as session:
            signal = common_attention.get_timing_signal_1d(3, WIDTH)
            expected += session.run(signal)
    if pos == "emb":
        expected += tables.pop("inputs_positional_embedding")[:3]
    assert not tables
    np.testing.assert_allclose(x, expected, atol=1e-5)
    expected_bias = np.zeros([2, 1, 1, 3])
    expected_bias[1, :, :, 2] = -1e9
    np.testing.assert_array_equal(bias, expected_bias)
    np.testing.assert_array_equal(memory_bias, expected_bias)


def test_transformer_prepare_encoder_of_packed_sentences():
    """Two sentences in one row do not see each other, and count their positions."""
    segments = tf.constant([[1, 1, 2]])
    hp = types.SimpleNamespace(
        pos="timing", proximity_bias=True, use_target_space_embedding=False
    )
    x, bias, memory_bias = common_layers.transformer_prepare_encoder(
        tf.zeros([1, 3, WIDTH]),
        tf.constant(1),
        hp,
        features={
            "inputs_segmentation": segments,
            "inputs_position": tf.constant([[0, 1, 0]]),
            "targets_segmentation": segments[:, 1:],
        },
        type_ids=tf.constant([[0, 1, 1]]),
        num_types=2,
    )
    assert names() == ["inputs_type_embedding"]
    type_table = tf.trainable_variables()[0]
    x, bias, memory_bias, type_table = evaluate(x, bias, memory_bias, type_table)
    np.testing.assert_allclose(
        x[0, 0] - type_table[0], x[0, 2] - type_table[1], atol=1e-6
    )
    is_hidden = [[False, False, True], [False, False, True], [True, True, False]]
    np.testing.assert_array_equal(bias[0, 0] < -1e8, is_hidden)
    assert bias[0, 0, 0, 1] == pytest.approx(-np.log(2))
    np.testing.assert_array_equal(memory_bias[0, 0] < -1e8, is_hidden[1:])
    with pytest.raises(ValueError, match="pos = 'timing', .* got 'sines'"):
        common_layers.transformer_prepare_encoder(
            tf.zeros([1, 3, WIDTH]), None, change_hparams(pos="sines")
        )
