"""tensor2tensor's blocks made of ours, against its recorded numbers."""

import re

import fixtures
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG
from originals import attend, dense_gradients

from hparams import HParams
from transformer.dialects import DIALECTS, resolve
from transformer.modules import multihead_attention
from transformer.training import learning_rate

T2T = resolve("tensor2tensor")

# Our names of variables, and theirs.
ATTENTION_NAMES = [
    ("/o/", "/output_transform/"),
    (
        "relative/(key|value)s",
        r"dot_product_attention_relative/relative_positions_\1s"
        "/embeddings",
    ),
]


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """A dialect "bare": tensor2tensor's sub-layers without what is around them."""
    monkeypatch.setitem(
        DIALECTS, "bare", T2T._replace(norm="", residual=False, residual_dropout=False)
    )


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


# Positions.


# Masks.


# The attention formula.


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


# Around a sub-layer, and the feed-forward.


# Training.


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
