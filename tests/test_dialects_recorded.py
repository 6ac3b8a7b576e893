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
from transformer.blocks.primitives import project
from transformer.blocks.shapes import join_heads
from transformer.dialects import DIALECTS
from transformer.modules import apply_steps
from transformer.originals.names import original_name
from transformer.schedules import learning_rate

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


@fixtures.over("A", function="modules.embedding")
def test_embedding(name):
    case, kwargs, dialect = opened(name)
    out = modules.embedding(tf.constant(case["in/inputs"]), **kwargs)
    assert_as_recorded(case, dialect, {"out": out})


@fixtures.over("B", function="modules.get_token_embeddings*")
def test_get_token_embeddings(name):
    case, kwargs, dialect = opened(name)
    every_id = tf.range(kwargs["vocab_size"])[None]
    out, table = (
        modules.embedding(
            ids,
            kwargs["vocab_size"],
            kwargs["num_units"],
            kwargs["zero_pad"],
            scale=False,
            reuse=tf.AUTO_REUSE,
        )
        for ids in (tf.constant(case["in/ids"]), every_id)
    )
    assert_as_recorded(case, dialect, {"out": out, "table": table[0]})


@fixtures.over("A", function="modules.positional_encoding")
def test_positional_encoding_of_the_tutorial(name):
    case, kwargs, dialect = opened(name)
    out = modules.positional_encoding(
        tf.constant(case["in/inputs"]), dialect=dialect, **kwargs
    )
    assert_as_recorded(case, dialect, {"out": out})


@fixtures.over("B", function="modules.positional_encoding")
def test_positional_encoding_of_kyubyong(name):
    case, kwargs, dialect = opened(name)
    inputs = tf.constant(case["in/inputs"])
    out = modules.positional_encoding(
        inputs,
        inputs.shape.as_list()[-1],
        kwargs["masking"],
        scale=False,
        dialect=dialect,
    )
    # His tf.where hands the zeros of the input on, instead of zeros, and so a gradient.
    assert_as_recorded(case, dialect, {"out": out}, without=["gradin/inputs"])


@fixtures.over("A", function="modules.multihead_attention")
def test_multihead_attention_of_the_tutorial(name):
    check_attention(name)


@fixtures.over("A", function="modules.scaled_dotproduct_attention")
def test_scaled_dotproduct_attention_of_the_tutorial(name):
    check_attention(name, num_heads=1)


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
        out = apply_steps(row.after, join_heads(context), queries, row, None)
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


@fixtures.over("B", function="modules.scaled_dot_product_attention")
def test_scaled_dot_product_attention_of_kyubyong(name):
    case, kwargs, dialect = opened(name)
    inputs = inputs_of(case, "Q", "K", "V")
    out, attention = attend(
        *(inputs[key][:, None] for key in "QKV"),
        DIALECTS[dialect],
        key_mask=~case["in/key_masks"].astype(bool),
        causality=kwargs["causality"],
    )
    assert_as_recorded(
        case, dialect, {"out": out[:, 0], "attn": attention[:, 0]}, inputs
    )


@fixtures.over("B", function="modules.mask")
def test_masks_of_kyubyong(name):
    """His masked logits hold another constant than ours, and the same weights."""
    case, kwargs, dialect = opened(name)
    logits = case["in/inputs"]
    rows, queries, keys = logits.shape
    nothing = [tf.zeros([rows, 1, length, 1]) for length in (queries, keys, keys)]
    key_mask = True
    if "in/key_masks" in case:
        masks = ~case["in/key_masks"].astype(bool)
        key_mask = np.tile(masks, [rows // len(masks), 1])
    _, weights = attend(
        *nothing,
        DIALECTS[dialect],
        key_mask=key_mask,
        causality=key_mask is True,
        bias=tf.constant(logits)[:, None],
    )
    with tf.Session(config=CONFIG) as session:
        found, wanted = session.run([weights[:, 0], tf.nn.softmax(case["out/out"])])
    fixtures.assert_close(found, wanted)


@fixtures.over(
    "A",
    "B",
    where=lambda meta: meta.get("function") in ("modules.feedforward", "modules.ff"),
)
def test_feedforward(name):
    case, kwargs, dialect = opened(name)
    inputs = inputs_of(case, "inputs")
    out = modules.feedforward(
        inputs["inputs"], kwargs["num_units"], BLOCK + "feedforward", dialect=dialect
    )
    assert_as_recorded(case, dialect, {"out": out}, inputs)


@fixtures.over(
    "A",
    "B",
    where=lambda meta: meta.get("function") in ("modules.normalize", "modules.ln"),
)
def test_normalize(name):
    case, kwargs, dialect = opened(name)
    inputs = inputs_of(case, "inputs")
    out = modules.normalize(inputs["inputs"], scope=BLOCK + "ln", **kwargs)
    assert_as_recorded(case, dialect, {"out": out}, inputs)


@fixtures.over("A", "B", function="modules.label_smoothing")
def test_label_smoothing(name):
    case, kwargs, dialect = opened(name)
    out = modules.label_smoothing(tf.constant(case["in/inputs"]), **kwargs)
    assert_as_recorded(case, dialect, {"out": out})


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
