"""tensor2tensor's blocks made of ours, against its recorded numbers."""

import re

import fixtures
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG
from originals import attend, dense_gradients

from hparams import HParams
from transformer.blocks.attention import MASKED_LOGIT, scaled_dot_product_attention
from transformer.blocks.local import local_attention
from transformer.blocks.masks import (
    causal_mask,
    found_mask,
    padding_mask,
    proximity_bias,
)
from transformer.blocks.positions import halves
from transformer.blocks.primitives import dense, dropout
from transformer.blocks.relative import relative_bias, relative_positions
from transformer.blocks.shapes import join_heads, split_heads
from transformer.dialects import DIALECTS, resolve
from transformer.modules import (
    apply_steps,
    feedforward,
    multihead_attention,
    normalize,
    positional_encoding,
)
from transformer.schedules import learning_rate
from transformer.training import cross_entropy

T2T = resolve("tensor2tensor")
STEPS = {"d": "dropout", "a": "add", "n": "norm"}

# Our names of variables, and theirs.
ATTENTION_NAMES = [
    ("/o/", "/output_transform/"),
    (
        "relative/(key|value)s",
        r"dot_product_attention_relative/relative_positions_\1s"
        "/embeddings",
    ),
]
NORM_NAMES = [("gamma", "layer_norm_scale"), ("beta", "layer_norm_bias")]


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """A dialect "bare": tensor2tensor's sub-layers without what is around them."""
    monkeypatch.setitem(DIALECTS, "bare", T2T._replace(before=(), after=()))


class Case:
    """A recorded case: `kwargs`, and its inputs as tensors."""

    def __init__(self, name):
        self.case = fixtures.load(name)
        self.kwargs = self.case["meta"]["kwargs"]
        self.inputs = {
            key: tf.constant(value)
            for key, value in fixtures.group(self.case, "in").items()
        }

    def __getitem__(self, key):
        return self.inputs.get(key)

    def check(self, names=(), without=(), **outputs):
        """`outputs`, and the gradients of out * dout, are what is recorded.

        Args:
          names: (pattern, replacement) pairs, from our variables' names to theirs.
          without: the recorded outputs and gradients that are not compared.
          outputs: tensors by their recorded name.
        """
        variables = {}
        for variable in tf.trainable_variables():
            name = variable.op.name
            for pattern, replacement in names:
                name = re.sub(pattern, replacement, name)
            variables[name] = variable
        values = fixtures.group(self.case, "var")
        assert set(variables) == set(values)
        fetches = {"out/" + key: tensor for key, tensor in outputs.items()}
        wanted = {
            key for key in self.case if key.split("/")[0] in ("out", "grad", "gradin")
        } - set(without)
        if "dout" in self.inputs:
            loss = tf.reduce_sum(outputs["out"] * self["dout"])
            for kind, tensors in (("grad", variables), ("gradin", self.inputs)):
                keys = [key for key in tensors if kind + "/" + key in wanted]
                found = dense_gradients(loss, [tensors[key] for key in keys])
                fetches.update(zip([kind + "/" + key for key in keys], found))
        assert set(fetches) == wanted
        with tf.Session(config=CONFIG) as session:
            session.run(
                [variable.initializer for variable in variables.values()],
                {
                    variable.initial_value: values[key]
                    for key, variable in variables.items()
                },
            )
            for key, value in session.run(fetches).items():
                fixtures.assert_close(value, self.case[key], key)


def no_dropout(x, name):
    return dropout(x, 0, name=name)


# Positions.


@fixtures.over("D", function="*.get_timing_signal_1d")
def test_timing_signal(name):
    case = Case(name)
    kwargs, length = dict(case.kwargs), int(case.case["in/length"])
    offset, channels = kwargs.pop("start_index", 0), kwargs.pop("channels")
    table = halves(tf.cast(tf.range(length) + offset, tf.float64), channels, **kwargs)
    case.check(out=tf.cast(table, tf.float32)[None])
    if not kwargs:
        case.check(
            out=positional_encoding(
                tf.ones([1, length], tf.int32),
                channels,
                scale=False,
                dialect="tensor2tensor",
                positions=tf.range(length) + offset,
            )
        )


@fixtures.over("D", function="*.add_timing_signal_1d")
def test_add_timing_signal(name):
    case = Case(name)
    x = case["x"]
    case.check(
        out=x
        + positional_encoding(
            x,
            x.shape.as_list()[-1],
            zero_pad=False,
            scale=False,
            dialect="tensor2tensor",
        )
    )


@fixtures.over("D", function="*.add_timing_signal_1d_given_position")
def test_add_timing_signal_given_position(name):
    case = Case(name)
    places = tf.reshape(tf.cast(case["position"], tf.float64), [-1])
    table = halves(places, case["x"].shape.as_list()[-1])
    case.check(out=case["x"] + tf.cast(tf.reshape(table, case["x"].shape), tf.float32))


# Masks.


def as_bias(mask):
    return tf.where_v2(mask, 0.0, MASKED_LOGIT)


@fixtures.over("D", function="*.attention_bias_ignore_padding")
def test_padding_mask(name):
    case = Case(name)
    ids = 1 - tf.cast(case["memory_padding"], tf.int32)
    case.check(out=as_bias(padding_mask(ids)))


@fixtures.over("D", function="*.attention_bias_to_padding")
def test_padding_of_a_mask(name):
    """There and back: of the padding they read from a bias we make that bias."""
    case = Case(name)
    bias = as_bias(padding_mask(1 - case.case["out/out"].astype(np.int32)))
    with tf.Session(config=CONFIG) as session:
        fixtures.assert_close(session.run(bias), case.case["in/attention_bias"])


@fixtures.over("D", function="*.attention_bias_lower_triangle")
def test_causal_mask(name):
    case = Case(name)
    case.check(out=as_bias(causal_mask(tf.range(case.kwargs["length"]))))


@fixtures.over("D", function="*.attention_bias_local")
def test_causal_masks_make_a_local_mask(name):
    case = Case(name)
    length = case.kwargs["length"]
    backward, forward = (
        length if case.kwargs[key] < 0 else case.kwargs[key]
        for key in ("max_backward", "max_forward")
    )
    places = tf.range(length)
    not_later = causal_mask(places + forward, places)
    not_earlier = tf.matrix_transpose(causal_mask(places + backward, places))
    case.check(out=as_bias(tf.logical_and(not_later, not_earlier)))


@fixtures.over("D", function="*.attention_bias_proximal")
def test_proximity_bias(name):
    case = Case(name)
    case.check(out=proximity_bias(tf.range(case.kwargs["length"])))


@fixtures.over("D", function="*.embedding_to_padding")
def test_found_mask(name):
    case = Case(name)
    case.check(out=1 - tf.cast(found_mask(case["emb"]), tf.float32))


# The attention formula.


@fixtures.over("D", function="*.dot_product_attention")
def test_scaled_dot_product_attention(name):
    case = Case(name)
    q = case["q"] * case["q"].shape.as_list()[-1] ** 0.5  # their caller scales
    out, attn = scaled_dot_product_attention(q, case["k"], case["v"], bias=case["bias"])
    case.check(out=out, attn=attn)


@fixtures.over(
    "D",
    function="*.dot_product_attention",
    where=lambda meta: meta["kwargs"].get("bias", "") is not None,
)
def test_masks_lower_the_logits(name):
    case = Case(name)
    allowed = np.equal(case.case["in/bias"], 0)
    T = allowed.shape[-1]
    causality = allowed.shape[-2] > 1
    real = allowed[:, 0, T - 1 if causality else 0]  # [N, Tk] or [1, Tk]
    triangle = np.tril(np.ones([T, T], bool)) if causality else True
    assert np.array_equal(allowed, real[:, None, None] & triangle)
    q = case["q"] * case["q"].shape.as_list()[-1] ** 0.5
    out, attn = attend(
        q, case["k"], case["v"], T2T, key_mask=tf.constant(real), causality=causality
    )
    case.check(out=out, attn=attn, without=["gradin/bias"])


@fixtures.over("D", function="*.dot_product_attention_relative")
def test_relative_positions(name):
    case = Case(name)
    Tq, Tk = case["q"].shape.as_list()[2], case["k"].shape.as_list()[2]
    width = case["q"].shape.as_list()[-1]
    relative = relative_positions(
        tf.range(Tq), tf.range(Tk), width, case.kwargs["max_relative_position"]
    )
    out, attn = scaled_dot_product_attention(
        case["q"] * width**0.5,
        case["k"],
        case["v"],
        bias=case["bias"],
        relative=relative,
    )
    case.check(ATTENTION_NAMES, out=out, attn=attn)


def local(case, Q, K, V):
    """tensor2tensor's kinds of local attention, by the arguments of the case."""
    kwargs = dict(case.kwargs, function=case.case["meta"]["function"])
    block_length = kwargs["block_length"]
    around = kwargs.get("filter_width", kwargs.get("block_width"))
    if around is not None:
        key_mask = found_mask(K[:, 0])  # a key of zeros counts as padding
        return local_attention(
            Q,
            K,
            V,
            block_length,
            window=(around, around),
            key_mask=key_mask,
            blind_queries_are_zero=False,
        )[0]
    within = "within_block" in kwargs["function"]
    return local_attention(
        Q, K, V, block_length, causality=True, window=(0 if within else block_length, 0)
    )[0]


@fixtures.over("D", function="*local_attention_1d")
def test_local_attention(name):
    case = Case(name)
    q = case["q"] * case["q"].shape.as_list()[-1] ** 0.5
    case.check(out=local(case, q, case["k"], case["v"]))


# Multi-head attention.


def attention_type(*wanted):
    return lambda meta: meta["kwargs"].get("attention_type", "dot_product") in wanted


def fits_the_block(meta):
    """Whether the depths are those of the queries: a residual could be added."""
    kwargs = meta["kwargs"]
    depths = {
        kwargs[key] for key in ("total_key_depth", "total_value_depth", "output_depth")
    }
    return attention_type("dot_product", "dot_product_relative")(meta) and (
        len(depths) == 1 and not kwargs.get("vars_3d")
    )


@pytest.mark.parametrize("given", ["mask", "bias"])
@fixtures.over("D", function="*.multihead_attention", where=fits_the_block)
def test_multihead_attention(name, given):
    case = Case(name)
    x, memory, bias, weights = (
        case["query_antecedent"],
        case["memory_antecedent"],
        case.case["in/bias"],
        {},
    )
    keys = x if memory is None else memory
    key_masks, causality = tf.ones(keys.shape[:2], tf.bool), False
    if given == "mask" and bias.shape[2] == 1:
        key_masks = tf.constant(bias[:, 0, 0] == 0)
    elif given == "mask":
        assert np.array_equal(bias[0, 0] == 0, np.tril(np.ones(bias.shape[2:])))
        causality = True
    out = multihead_attention(
        x,
        keys,
        case.kwargs["total_key_depth"],
        case.kwargs["num_heads"],
        causality=causality,
        key_masks=key_masks,
        dialect="bare",
        weights=weights,
        bias=case["bias"] if given == "bias" else None,
        max_relative_position=case.kwargs.get("max_relative_position"),
    )
    outputs = {"out": out, "attn": weights["multihead_attention"]}
    case.check(
        ATTENTION_NAMES,
        ["gradin/bias"] if given == "mask" else [],
        **{key: outputs[key] for key in outputs if "out/" + key in case.case},
    )


def heads_of(case, scaled=True):
    """Q, K and V of the depths of a case, and how to put heads together again."""
    kwargs, x = case.kwargs, case["query_antecedent"]
    memory = x if case["memory_antecedent"] is None else case["memory_antecedent"]
    num_heads, depth = kwargs["num_heads"], kwargs["total_key_depth"]
    with tf.variable_scope("multihead_attention"):
        Q, K, V = (
            split_heads(dense(tensor, width, False, name), num_heads)
            for tensor, width, name in (
                (x, depth, "q"),
                (memory, depth, "k"),
                (memory, kwargs["total_value_depth"], "v"),
            )
        )
    return Q if scaled else Q * (depth // num_heads) ** 0.5, K, V


def joined(case, context):
    with tf.variable_scope("multihead_attention"):
        return dense(join_heads(context), case.kwargs["output_depth"], False, "o")


@fixtures.over(
    "D",
    function="*.multihead_attention",
    where=lambda meta: (
        attention_type("dot_product")(meta) and not meta["kwargs"].get("vars_3d")
    ),
)
def test_multihead_attention_of_any_depths(name):
    case = Case(name)
    context, attn = scaled_dot_product_attention(*heads_of(case), bias=case["bias"])
    case.check(ATTENTION_NAMES, out=joined(case, context), attn=attn)


@fixtures.over(
    "D",
    function="*.multihead_attention",
    where=lambda meta: meta["kwargs"].get("vars_3d"),
)
def test_multihead_attention_with_variables_of_three_dimensions(name):
    """Their q, k, v [D, H, d] and o [H, d, D] are our kernels; Q is not scaled."""
    case = Case(name)
    for key in [key for key in case.case if key.startswith(("var/", "grad/"))]:
        value = case.case.pop(key)
        kernel = value.reshape(
            [-1, value.shape[-1]] if key.endswith("/o") else [len(value), -1]
        )
        case.case[key + "/kernel"] = kernel
    context, attn = scaled_dot_product_attention(
        *heads_of(case, scaled=False), bias=case["bias"]
    )
    case.check(out=joined(case, context), attn=attn)


@fixtures.over(
    "D",
    function="*.multihead_attention",
    where=attention_type("local_mask_right", "local_unmasked"),
)
def test_multihead_local_attention(name):
    case = Case(name)
    case.check(ATTENTION_NAMES, out=joined(case, local(case, *heads_of(case))))


@fixtures.over(
    "D",
    function="*.multihead_attention",
    where=attention_type("dot_product_relative_v2", "dot_product_unmasked_relative_v2"),
)
def test_multihead_attention_of_the_music_transformer(name):
    case = Case(name)
    Q, K, V = heads_of(case)
    unmasked = "unmasked" in case.kwargs["attention_type"]
    theirs = "dot_product_{}self_attention_relative_v2".format(
        "unmasked_" if unmasked else ""
    )
    with tf.variable_scope("multihead_attention"):
        bias = relative_bias(Q, case.kwargs["max_relative_position"], not unmasked)
    context, _ = scaled_dot_product_attention(Q, K, V, bias=bias + case["bias"])
    names = [("relative/keys", theirs + "/key_relative_embeddings")] + ATTENTION_NAMES
    case.check(names, out=joined(case, context))


# Around a sub-layer, and the feed-forward.


@fixtures.over("D", function="*.layer_norm")
def test_normalize(name):
    case = Case(name)
    case.check(
        [("ln/", "layer_norm/")] + NORM_NAMES,
        out=normalize(case["x"], case.kwargs["epsilon"]),
    )


@fixtures.over("D", function="*.layer_p*process")
def test_steps(name):
    case = Case(name)
    kind = "post" if "layer_postprocess_sequence" in case.kwargs else "pre"
    letters = case.kwargs["layer_{}process_sequence".format(kind)]
    steps = [] if letters == "none" else [STEPS[letter] for letter in letters]
    x, residual = case["layer_input"], None
    if kind == "post":
        x, residual = case["layer_output"], x
    row = T2T._replace(norm_epsilon=case.kwargs["norm_epsilon"])
    scope = "layer_postprocess" if kind == "post" else "layer_prepostprocess"
    case.check(
        [("ln/", scope + "/layer_norm/")] + NORM_NAMES,
        out=apply_steps(steps, x, residual, row, no_dropout),
    )


@fixtures.over("D", function="*.dense_relu_dense")
def test_feedforward(name):
    case = Case(name)
    out = feedforward(
        case["inputs"],
        (case.kwargs["filter_size"], case.kwargs["output_size"]),
        dialect="bare",
    )
    case.check(
        [("feedforward/inner", "conv1"), ("feedforward/outer", "conv2")], out=out
    )


# Training.


@fixtures.over("D", function="*.padded_cross_entropy")
def test_cross_entropy(name):
    case = Case(name)
    logits = tf.squeeze(case["logits"], [2, 3])  # [N, T, V]
    labels = tf.squeeze(case["labels"], [2, 3])  # [N, T]
    places = np.arange(np.prod(labels.shape.as_list())).reshape(labels.shape.as_list())

    def loss(labels):
        return cross_entropy(logits, labels, case.kwargs["label_smoothing"], "others")

    found, alone = (
        loss(labels),
        [loss(labels * (places == place)).sum for place in places.flat],
    )
    case.check(
        out=found.sum,
        denominator=found.count,
        loss=found.sum / found.count,
        per_token=tf.reshape(tf.stack(alone), case["labels"].shape),
    )


@fixtures.over("D", function="*learning_rate_factor*")
def test_learning_rate(name):
    case = Case(name)
    hp = HParams(
        dialect="tensor2tensor",
        learning_rate=case.kwargs["constant"],
        d_model=case.kwargs["hidden_size"],
        warmup_steps=case.kwargs["warmup"],
    )
    case.check(out=learning_rate(hp, tf.cast(case["step"], tf.int64)))
