"""The blocks of the tutorial (A) and of Kyubyong (B) against their recorded numbers.

Each test compares all that a case has recorded: outputs, attention weights, gradients
of sum(out * dout) by variable and by input. Sizes come from the arrays, arguments from
`meta`.
"""

import fixtures
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG
from originals import attend, dense_gradients

from transformer import modules
from transformer.blocks.primitives import join_heads, project
from transformer.compat.names import original_name
from transformer.dialects import DIALECTS
from transformer.training import learning_rate

DIALECT = {"A": "tutorial", "B": "kyubyong"}
BLOCK = "encoder/block_0/"  # where our blocks stand ...
ORIGINAL_BLOCK = "encoder/num_blocks_0/"  # ... and where both sources' would

pytestmark = pytest.mark.usefixtures("one_thread_only")


def opened(name):
    """(the case, its arguments, its dialect)."""
    case = fixtures.load(name)
    return case, case["meta"]["kwargs"], DIALECT[name[0]]


def inputs_of(case, *names):
    """Tensors of the inputs that a case has, by name."""
    return {
        name: tf.constant(case["in/" + name]) for name in names if "in/" + name in case
    }


def recorded_names(dialect):
    """{the name that a case gives it: variable} of the variables of this graph."""
    names = {}
    for variable in tf.trainable_variables():
        name = original_name(variable.op.name, dialect, variable.shape.as_list())
        names[name.replace(ORIGINAL_BLOCK, "")] = variable
    return names


def heads_first(weights):
    """[N, H, Tq, Tk] → [H * N, Tq, Tk], the order in which both sources stack heads."""
    weights = tf.transpose(weights, [1, 0, 2, 3])
    return tf.reshape(weights, tf.concat([[-1], tf.shape(weights)[2:]], axis=0))


def assert_as_recorded(case, dialect, outputs, inputs=None, without=()):
    """Loads the variables of a case, runs, and compares everything it has recorded.

    Args:
      outputs: {name: tensor}, of the keys "out/..."; the gradients are those of "out".
      inputs: {name: tensor}, for the keys "gradin/...".
      without: keys that are not compared.
    """
    variables, inputs = recorded_names(dialect), inputs or {}
    wanted = {key for key in case if key.startswith(("out/", "grad/", "gradin/"))}
    fetches = {"out/" + name: output for name, output in outputs.items()}
    if any(key.startswith("grad") for key in wanted):
        product = tf.reduce_sum(outputs["out"] * case["in/dout"])
        for kind, tensors in (("grad/", variables), ("gradin/", inputs)):
            gradients = dense_gradients(product, list(tensors.values()))
            fetches.update(
                (kind + name, gradient)
                for name, gradient in zip(tensors, gradients)
                if kind + name in wanted and kind + name not in without
            )
    assert set(fetches) == wanted - set(without)
    assert set(variables) == set(fixtures.group(case, "var"))
    with tf.Session(config=CONFIG) as session:
        for name, variable in variables.items():
            value = case["var/" + name].reshape(variable.shape.as_list())
            session.run(variable.initializer, {variable.initial_value: value})
        found = session.run(fetches)
    for key, value in found.items():
        recorded = case[key]
        if recorded.ndim == value.ndim + 1:  # the kernel of a convolution of width 1
            recorded = recorded[0]
        fixtures.assert_close(value, recorded, key)


@fixtures.over("A", function="modules.multihead_attention")
def test_multihead_attention_of_the_tutorial(name):
    check_attention(name)


def check_attention(name, **more):
    case, kwargs, dialect = opened(name)
    inputs, weights = inputs_of(case, "queries", "keys"), {}
    out = modules.multihead_attention(
        inputs["queries"],
        inputs.get("keys", inputs["queries"]),
        dialect=dialect,
        scope=BLOCK + "self_attention",
        weights=weights,
        **kwargs,
        **more,
    )
    (attention,) = weights.values()
    # Recorded is what the softmax says; ours are the weights that count, those of
    # padded queries (rows that sum to 0) being 0.
    real = case["in/queries"].sum(-1) != 0  # [N, Tq]
    heads = len(case["out/attn"]) // len(real)
    case["out/attn"] *= np.tile(real, [heads, 1])[..., None]
    assert_as_recorded(
        case, dialect, {"out": out, "attn": heads_first(attention)}, inputs
    )


@fixtures.over("B", function="modules.multihead_attention")
def test_multihead_attention_of_kyubyong(name):
    """His values may be another tensor than his keys, so from the pieces of the block;
    where they are not, the block itself gives the same."""
    case, kwargs, dialect = opened(name)
    row, inputs = DIALECTS[dialect], inputs_of(case, "queries", "keys", "values")
    queries = inputs["queries"]
    keys = inputs.get("keys", queries)
    width, num_heads = queries.shape.as_list()[-1], kwargs["num_heads"]
    allowed = ~case["in/key_masks"].astype(bool)  # his masks are True where padding is
    with tf.variable_scope(BLOCK + "self_attention"):
        Q, K, V = (
            project(x, width, num_heads, row, kind)
            for x, kind in (
                (queries, "q"),
                (keys, "k"),
                (inputs.get("values", keys), "v"),
            )
        )
        context, attention = attend(
            Q, K, V, row, key_mask=allowed, causality=kwargs["causality"]
        )
        out = modules.normalize(queries + join_heads(context), row.norm_epsilon)
    outputs = {"out": out, "attn": heads_first(attention)}
    assert_as_recorded(case, dialect, outputs, inputs)
    if "values" not in inputs:
        weights = {}
        outputs["out"] = modules.multihead_attention(
            queries,
            keys,
            None,
            num_heads,
            causality=kwargs["causality"],
            scope=BLOCK + "self_attention",
            reuse=True,
            key_masks=tf.constant(allowed),
            dialect=dialect,
            weights=weights,
        )
        (outputs["attn"],) = map(heads_first, weights.values())
        assert_as_recorded(case, dialect, outputs, inputs)


@fixtures.over("B", function="modules.noam_scheme*")
def test_noam_scheme(name):
    import hparams

    case, kwargs, dialect = opened(name)
    hp = hparams.HParams(
        dialect=dialect,
        learning_rate=kwargs["init_lr"],
        warmup_steps=int(kwargs["warmup_steps"]),
    )
    rate = learning_rate(hp, tf.constant(case["in/global_step"]))
    assert_as_recorded(case, dialect, {"out": rate})
