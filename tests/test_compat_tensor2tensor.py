"""Code written for tensor2tensor, on `transformer.compat.tensor2tensor`.

Its recorded numbers, with names, shapes and order of the variables; whole stacks,
written as its users write them; stepping with a cache; training; what is refused.
"""

import types

import fixtures
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG
from originals import dense_gradients

from transformer import compat
from transformer.compat import tensor2tensor as common_attention
from transformer.compat import tensor2tensor as common_layers

# Recorded functions that have no counterpart: name of a case → why.
WITHOUT = {
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


def changed(**changes):
    """HPARAMS with other values."""
    return types.SimpleNamespace(**{**vars(HPARAMS), **changes})


def opened(name):
    """(the case, its inputs as tensors, its arguments)."""
    case = fixtures.load(name)
    inputs = {k: tf.constant(v) for k, v in fixtures.group(case, "in").items()}
    return case, inputs, case["meta"]["kwargs"]


def compared(case, outputs, inputs):
    """Hold variables in their order, outputs and gradients to a recorded case."""
    variables = {v.op.name: v for v in tf.global_variables()}
    recorded = fixtures.group(case, "var")
    assert [(name, v.shape.as_list()) for name, v in variables.items()] == [
        (name, list(value.shape)) for name, value in recorded.items()
    ]
    fetches = {"out/" + name: tensor for name, tensor in outputs.items()}
    wanted = {key for key in case if key.startswith(("out/", "grad/", "gradin/"))}
    if "dout" in inputs:
        product = tf.reduce_sum(outputs["out"] * inputs["dout"])
        for kind, tensors in (("grad/", variables), ("gradin/", inputs)):
            names = [name for name in tensors if kind + name in wanted]
            gradients = dense_gradients(product, [tensors[name] for name in names])
            fetches.update(zip([kind + name for name in names], gradients))
    assert wanted == set(fetches)
    with tf.Session(config=CONFIG) as session:
        session.run(
            [v.initializer for v in variables.values()],
            {v.initial_value: recorded[name] for name, v in variables.items()},
        )
        for key, value in session.run(fetches).items():
            fixtures.assert_close(value, case[key], key)


def evaluated(*tensors):
    """What tensors are, at first values of the variables."""
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
        kwargs = {"hparams": changed(layer_prepostprocess_dropout=0.0, **kwargs)}
    if function in ("dot_product_attention", "dot_product_attention_relative"):
        kwargs = {"bias": None, **kwargs}
    if function == "multihead_attention":
        kwargs = {"bias": None, "memory_antecedent": None, **kwargs}
    return {**kwargs, **tensors}


@fixtures.over("D", function="common_*")
def test_recorded_numbers(name):
    if name in WITHOUT:
        pytest.skip(WITHOUT[name])
    case, inputs, kwargs = opened(name)
    function = case["meta"]["function"].split(".")[-1]
    arguments, weights = arguments_of(inputs, kwargs, function), {}
    if "out/attn" in case:
        arguments["save_weights_to"] = weights
    found = getattr(common_attention, function)(**arguments)
    if function == "padded_cross_entropy":
        total, count = found
        alone, _ = common_layers.padded_cross_entropy(reduce_sum=False, **arguments)
        outputs = {"out": total, "denominator": count}
        outputs.update(loss=total / count, per_token=alone)
    else:
        outputs = {"out": found, **dict(zip(["attn"], weights.values()))}
    compared(case, outputs, inputs)


def with_residual(x, hparams, sub_layer):
    """A sub-layer, between what is done before and after it."""
    y = sub_layer(common_layers.layer_preprocess(x, hparams))
    return common_layers.layer_postprocess(x, y, hparams)


def self_attention(x, bias, hparams):
    return common_attention.multihead_attention(
        x,
        None,
        bias,
        hparams.hidden_size,
        hparams.hidden_size,
        hparams.hidden_size,
        hparams.num_heads,
        0.0,
        attention_type=hparams.self_attention_type,
        max_relative_position=hparams.max_relative_position,
    )


def feed_forward(x, hparams):
    return common_layers.dense_relu_dense(x, hparams.filter_size, hparams.hidden_size)


def encoder(x, bias, real, hparams):
    with tf.variable_scope("encoder"):
        for layer in range(hparams.num_hidden_layers):
            with tf.variable_scope("layer_%d" % layer):
                with tf.variable_scope("self_attention"):
                    x = with_residual(
                        x, hparams, lambda y: self_attention(y, bias, hparams)
                    )
                with tf.variable_scope("ffn"):
                    x = with_residual(
                        x, hparams, lambda y: feed_forward(y, hparams) * real
                    )
        return common_layers.layer_preprocess(x, hparams)


def decoder(x, memory, bias, memory_bias, hparams):
    size = hparams.hidden_size
    with tf.variable_scope("decoder"):
        for layer in range(hparams.num_hidden_layers):
            with tf.variable_scope("layer_%d" % layer):
                with tf.variable_scope("self_attention"):
                    x = with_residual(
                        x, hparams, lambda y: self_attention(y, bias, hparams)
                    )
                with tf.variable_scope("encdec_attention"):
                    x = with_residual(
                        x,
                        hparams,
                        lambda y: common_attention.multihead_attention(
                            y,
                            memory,
                            memory_bias,
                            size,
                            size,
                            size,
                            hparams.num_heads,
                            0.0,
                        ),
                    )
                with tf.variable_scope("ffn"):
                    x = with_residual(x, hparams, lambda y: feed_forward(y, hparams))
        return common_layers.layer_preprocess(x, hparams)


def nearer(bias, length, hparams):
    if hparams.proximity_bias:
        bias += common_attention.attention_bias_proximal(length)
    return bias


@fixtures.over("D", function="transformer_prepare_encoder*")
def test_an_encoder_as_its_users_write_it(name):
    case, inputs, kwargs = opened(name)
    hparams, x = changed(layer_prepostprocess_dropout=0.0, **kwargs), inputs["inputs"]
    padding = common_attention.embedding_to_padding(x)
    memory_bias = common_attention.attention_bias_ignore_padding(padding)
    bias = nearer(memory_bias, x.shape.as_list()[1], hparams)
    if "var/target_space_embedding/kernel" in case:
        table = tf.get_variable("target_space_embedding/kernel", [32, 32])
        x += table[case["in/target_space"].item()]
    x = common_attention.add_timing_signal_1d(x)
    outputs = {
        "encoder_input": x,
        "encoder_self_attention_bias": bias,
        "encoder_decoder_attention_bias": memory_bias,
        "out": encoder(x, bias, 1 - padding[..., None], hparams),
    }
    compared(case, outputs, inputs)


@fixtures.over("D", function="transformer_prepare_decoder*")
def test_a_decoder_as_its_users_write_it(name):
    case, inputs, kwargs = opened(name)
    hparams = changed(layer_prepostprocess_dropout=0.0, **kwargs)
    length = inputs["targets"].shape.as_list()[1]
    bias = nearer(
        common_attention.attention_bias_lower_triangle(length), length, hparams
    )
    x = common_layers.shift_right_3d(inputs["targets"])
    x = common_attention.add_timing_signal_1d(x)
    memory_bias = inputs["encoder_decoder_attention_bias"]
    outputs = {
        "decoder_input": x,
        "decoder_self_attention_bias": bias,
        "out": decoder(x, inputs["encoder_output"], bias, memory_bias, hparams),
    }
    compared(case, outputs, inputs)


# Their variables: names, sharing, first values


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


def test_dense_layers_are_numbered_and_have_the_prefix_of_a_name():
    x = tf.zeros([2, 3, WIDTH])
    for name in (None, None, "ffn"):
        common_layers.dense_relu_dense(x, 5, WIDTH, name=name)
    kernels = [name[: -len("/kernel")] for name in names() if name.endswith("kernel")]
    assert kernels == ["conv1", "conv2", "conv1_1", "conv2_1", "ffn_conv1", "ffn_conv2"]


@pytest.mark.parametrize("reuse", [True, tf.AUTO_REUSE])
def test_a_scope_shares_its_variables(reuse):
    x = tf.random_uniform([2, 3, WIDTH], seed=1)

    def block():
        y = common_layers.layer_preprocess(x, changed(layer_prepostprocess_dropout=0))
        for kind in ("dot_product_relative", "dot_product_relative_v2"):
            y = common_attention.multihead_attention(
                y, None, None, WIDTH, WIDTH, WIDTH, HEADS, 0, kind, 2, name=kind
            )
        return common_layers.dense_relu_dense(y, 5, WIDTH)

    with tf.variable_scope("model"):
        first = block()
    made = names()
    with tf.variable_scope("model", reuse=reuse):
        second = block()
    assert names() == made
    np.testing.assert_array_equal(*evaluated(first, second))


def test_first_values_are_those_of_the_scope():
    """Of kernels and relative positions; what has values of its own keeps them."""
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
            wanted = {"layer_norm_scale": 1, "layer_norm_bias": 0, "bias": 0}
            assert (session.run(variable) == wanted.get(kind, 7)).all(), kind


# Relations


def heads(seed=0, length=5):
    rng = np.random.RandomState(seed)
    return [
        tf.constant(rng.randn(2, HEADS, length, 3), tf.float32) for _ in ("q", "k", "v")
    ]


def attention(x, memory, bias, kind="dot_product", cache=None, **more):
    with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
        return common_attention.multihead_attention(
            x, memory, bias, 4, 4, WIDTH, HEADS, 0.0, kind, 2, cache=cache, **more
        )


@pytest.mark.parametrize("kind", ["dot_product", "dot_product_relative"])
def test_stepping_with_a_cache_gives_the_same(kind):
    length = 5
    x = tf.random_uniform([2, length, WIDTH], seed=1)
    bias = common_attention.attention_bias_lower_triangle(length)
    whole = attention(x, None, bias, kind)
    cache = {name: tf.zeros([2, HEADS, 0, 2]) for name in ("k", "v")}
    steps = [
        attention(
            x[:, t : t + 1], None, bias[:, :, t : t + 1, : t + 1], kind, cache=cache
        )
        for t in range(length)
    ]
    assert cache["k"].shape.as_list() == [2, HEADS, length, 2]
    found, wanted = evaluated(tf.concat(steps, axis=1), whole)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_cache_of_the_memory_gives_the_same(start):
    x, memory = (tf.random_uniform([2, n, WIDTH], seed=n) for n in (3, 5))
    bias = tf.zeros([2, 1, 1, 5])
    whole = attention(x, memory, bias)
    with tf.variable_scope("model/multihead_attention", reuse=True):
        _, k, v = common_attention.compute_qkv(x, memory, 4, 4)
    cache = {
        "k_encdec": common_attention.split_heads(k, HEADS),
        "v_encdec": common_attention.split_heads(v, HEADS),
    }
    found = attention(x, memory, bias, cache=cache)
    np.testing.assert_array_equal(*evaluated(found, whole))


@pytest.mark.parametrize(
    "kind, function",
    [
        ("dot_product", "dot_product_attention"),
        ("dot_product_relative_v2", "dot_product_self_attention_relative_v2"),
        (
            "dot_product_unmasked_relative_v2",
            "dot_product_unmasked_self_attention_relative_v2",
        ),
        ("local_mask_right", "masked_local_attention_1d"),
        ("local_within_block_mask_right", "masked_within_block_local_attention_1d"),
    ],
)
def test_attention_of_queries_that_are_scaled_already(kind, function):
    """Theirs does not scale, and `multihead_attention` calls it with scaled queries."""
    x = tf.random_uniform([2, 5, WIDTH], seed=1)
    bias = common_attention.attention_bias_lower_triangle(5)
    local = {"block_length": 2} if "local" in kind else {}
    whole = attention(x, None, bias, kind, **local)
    told = [] if local else [bias]
    told += [2] if "relative" in kind else []
    with tf.variable_scope("model/multihead_attention", reuse=True):
        q, k, v = common_attention.compute_qkv(x, None, 4, 4)
        q, k, v = (common_attention.split_heads(y, HEADS) for y in (q, k, v))
        y = getattr(common_attention, function)(q * 2**-0.5, k, v, *told, **local)
        kernel = tf.get_variable("output_transform/kernel")
    found = tf.tensordot(common_attention.combine_heads(y), kernel, 1)
    np.testing.assert_allclose(*evaluated(found, whole), rtol=1e-5, atol=1e-6)


def test_weights_are_saved_by_the_name_of_their_scope():
    saved = {}
    x = tf.zeros([2, 3, WIDTH])
    with tf.variable_scope("layer_0"):
        common_attention.multihead_attention(
            x, None, None, 4, 4, 4, HEADS, 0.0, save_weights_to=saved
        )
    assert list(saved) == ["layer_0/multihead_attention/dot_product_attention"]


def test_dropout_with_broadcast_dims():
    """Along these dimensions, elements are zeroed together; at rate 0, none are."""
    x = tf.ones([40, 1, 30])
    dropped = common_layers.dropout_with_broadcast_dims(x, 0.5, broadcast_dims=[0, -2])
    kept = common_layers.dropout_with_broadcast_dims(x, 1.0, broadcast_dims=[0])
    dropped, kept = evaluated(dropped, kept)
    assert (dropped == dropped[:1]).all()
    assert set(np.unique(dropped)) == {0, 2}
    assert (kept == 1).all()


def test_shifts():
    ids = tf.constant([[1, 2, 3]])
    found = evaluated(
        common_layers.shift_right_2d(ids),
        common_layers.shift_right_2d(ids, tf.constant([[9]])),
        common_layers.shift_right(ids[:, :, None, None])[:, :, 0, 0],
    )
    assert [x.tolist() for x in found] == [[[0, 1, 2]], [[9, 1, 2]], [[0, 1, 2]]]


def test_losses_of_all_labels():
    """`weights_all` counts padding too, and the smoothing is that of each label."""
    logits = tf.random_uniform([2, 3, 7], seed=1)
    labels = tf.constant([[1, 2, 0], [6, 0, 0]])
    each = common_layers.smoothing_cross_entropy(logits, labels, 7, 0.9)
    total, count = common_layers.padded_cross_entropy(
        logits, labels, 0.1, common_layers.weights_all
    )
    some, real = common_layers.padded_cross_entropy(logits, labels, 0.1)
    each, total, count, some, real = evaluated(each, total, count, some, real)
    assert (count, real) == (6, 3)
    np.testing.assert_allclose(total, each.sum(), rtol=1e-6)
    np.testing.assert_allclose(some, each[0, :2].sum() + each[1, 0], rtol=1e-6)


def test_losses_of_labels_in_a_row():
    """Logits [N, V] and labels [N, 1, 1], as models of classes have them."""
    logits = tf.random_uniform([6, 7], seed=1)
    labels = tf.constant([1, 2, 0, 6, 0, 5])
    row = common_layers.padded_cross_entropy(logits, labels[:, None, None], 0.1)
    table = common_layers.padded_cross_entropy(
        tf.reshape(logits, [2, 3, 7]), tf.reshape(labels, [2, 3]), 0.1
    )
    found = evaluated(*row, *table)
    np.testing.assert_allclose(found[:2], found[2:], rtol=1e-6)


def test_a_norm_of_type_none_is_no_norm():
    x = tf.random_uniform([2, 3, WIDTH], seed=1)
    assert common_layers.apply_norm(x, "none", WIDTH, 1e-6) is x
    assert tf.global_variables() == []


def test_local_attention_finds_the_padded_keys_of_each_head():
    q, k, v = heads()
    padded = k * tf.constant([[1.0] * 5, [1, 1, 0, 1, 1]])[None, :, :, None]
    both = common_attention.local_attention_1d(q, padded, v, 5, 0)
    alone = common_attention.local_attention_1d(
        q[:, 1:],
        padded[:, 1:],
        v[:, 1:] + 9.0 * tf.one_hot([2], 5)[:, None, :, None],
        5,
        0,
    )
    both, alone = evaluated(both, alone)
    np.testing.assert_allclose(both[:, 1:], alone, rtol=1e-6)


# A small model


def test_a_block_of_theirs_learns():
    """Each id n becomes 9 - n: embeddings, a pre-norm block, a loss; 20 steps."""
    tf.set_random_seed(1)
    rng = np.random.RandomState(0)
    ids = rng.randint(1, 9, [16, 6])
    ids[:, 4:] *= rng.rand(16, 2) > 0.5
    table = tf.get_variable("table", [9, WIDTH])
    x = tf.gather(table, ids) * np.not_equal(ids, 0)[..., None].astype(np.float32)
    padding = common_attention.embedding_to_padding(x)
    bias = common_attention.attention_bias_ignore_padding(padding)
    hparams = changed(
        hidden_size=WIDTH,
        filter_size=16,
        num_heads=HEADS,
        num_hidden_layers=1,
        self_attention_type="dot_product",
        max_relative_position=0,
    )
    x = common_attention.add_timing_signal_1d(x)
    x = encoder(x, bias, 1 - padding[..., None], hparams)
    logits = tf.tensordot(x, table, [[2], [1]])
    total, count = common_layers.padded_cross_entropy(
        logits, np.where(ids, 9 - ids, 0), 0.1
    )
    loss = total / count
    step = tf.train.AdamOptimizer(0.02).minimize(loss)
    assert all(g is not None for g in tf.gradients(loss, tf.trainable_variables()))
    with tf.Session(config=CONFIG) as session:
        session.run(tf.global_variables_initializer())
        losses = [session.run([loss, step])[0] for _ in range(20)]
    assert np.mean(losses[-3:]) < 0.6 * losses[0], losses


def test_their_checkpoints_are_restored(tmp_path):
    x = tf.random_uniform([2, 3, WIDTH], seed=1)

    def block():
        y = common_layers.layer_preprocess(x, changed(layer_prepostprocess_dropout=0))
        bias = common_attention.attention_bias_lower_triangle(3)
        y = attention(y, None, bias, "dot_product_relative")
        return common_layers.dense_relu_dense(y, 5, WIDTH)

    y = block()
    with tf.Session(config=CONFIG) as session:
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver().save(session, str(tmp_path / "model"))
        wanted = session.run(y)
    with tf.Graph().as_default(), tf.Session(config=CONFIG) as session:
        x = tf.random_uniform([2, 3, WIDTH], seed=1)
        with tf.variable_scope("ported"):
            y = block()
        restored = compat.restore(session, prefix, "tensor2tensor", scope="ported")
        assert restored == sorted(names())
        np.testing.assert_allclose(session.run(y), wanted, rtol=1e-5, atol=1e-6)


# What is refused


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"attention_type": "masked_dilated_1d"}, "found attention_type = 'masked_dil"),
        ({"q_filter_width": 3}, "found q_filter_width = 3, wanted 1"),
        ({"kv_filter_width": 9}, "found kv_filter_width = 9, wanted 1"),
        ({"vars_3d": True}, "found vars_3d = True, wanted False"),
        ({"max_area_width": 2}, "found max_area_width = 2, wanted 1"),
        ({"hard_attention_k": 1}, "found hard_attention_k = 1, wanted 0"),
        ({"recurrent_memory": "x"}, "found recurrent_memory = 'x', wanted None"),
        ({"decode_loop_step": 1}, "found decode_loop_step = 1, wanted None"),
        ({"activation_dtype": tf.float16}, "found activation_dtype = .*float32"),
        ({"total_key_depth": 7}, "wanted a divisor of total_key_depth = 7"),
        ({"total_value_depth": 7}, "wanted a divisor of total_value_depth = 7"),
        ({"cache": {}}, "found a cache and bias = None"),
        (
            {"cache": {}, "attention_type": "local_unmasked"},
            "wanted one of .* with a cache",
        ),
        (
            {"attention_type": "dot_product_relative"},
            "found max_relative_position = None, wanted a positive one",
        ),
        (
            {"attention_type": "dot_product_relative_v2", "max_relative_position": 0},
            "found max_relative_position = 0, wanted a positive one",
        ),
        (
            {
                "attention_type": "dot_product_relative_v2",
                "max_relative_position": 2,
                "add_relative_to_values": True,
            },
            "found add_relative_to_values = True, wanted False",
        ),
    ],
)
def test_attention_refuses_what_is_not_here(changes, message):
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
        (lambda x: common_layers.apply_norm(x, "noam", None, 1e-6), "found norm_type"),
        (lambda x: common_layers.layer_norm(x, 3), "found filters = 3, wanted 8"),
        (
            lambda x: common_layers.layer_preprocess(
                x, changed(layer_preprocess_sequence="nda")
            ),
            "wanted no 'a' or 'z'",
        ),
        (
            lambda x: common_layers.layer_postprocess(
                x, x, changed(layer_postprocess_sequence="dz")
            ),
            "found 'z' in sequence = 'dz'",
        ),
        (
            lambda x: common_layers.padded_cross_entropy(x, x[..., 0], 0.1, cutoff=0.5),
            "found cutoff = 0.5, wanted 0.0",
        ),
        (
            lambda x: common_layers.smoothing_cross_entropy(x, x[..., 0], 9, 0.9),
            "found vocab_size = 9, wanted 8",
        ),
        (
            lambda x: common_layers.smoothing_cross_entropy(
                x, x[..., 0], 8, tf.constant(0.9)
            ),
            "wanted a Python number",
        ),
    ],
)
def test_layers_refuse_what_is_not_here(call, message):
    with pytest.raises(ValueError, match=message):
        call(tf.zeros([2, 3, WIDTH]))
