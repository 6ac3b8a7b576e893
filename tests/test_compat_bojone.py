"""Code in the style of the users of bojone/attention, on `transformer.compat.bojone`.

Its Keras layers are in test_compat_bojone_keras.py.
"""

import fixtures
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG
from originals import assert_as_recorded, open_case

from transformer.compat import bojone


def variables():
    """[(name, shape)] of all variables, in order of creation."""
    return [(v.op.name, v.shape.as_list()) for v in tf.global_variables()]


def x_of(width=4):
    return tf.ones([2, 3, width])


# Recorded numbers


@fixtures.over("C", function="attention_tf.*")
def test_recorded_numbers(name):
    case, inputs, kwargs = open_case(name)
    function = case["meta"]["function"].split(".")[1]
    if function == "Attention":
        x, x_len = inputs.get("X"), inputs.get("X_len")
        output = bojone.Attention(
            *(inputs.get(letter, x) for letter in "QKV"),
            Q_len=inputs.get("Q_len", x_len),
            V_len=inputs.get("V_len", x_len),
            **kwargs,
        )
    else:
        lengths = {name: inputs[name] for name in inputs if name == "seq_len"}
        output = getattr(bojone, function)(inputs["inputs"], **kwargs, **lengths)
    assert_as_recorded(case, {"out": output}, inputs)


# Variables


def test_where_all_keys_are_masked_they_get_gradients():
    """As in the original, which subtracts a large number from their logits."""
    x = tf.constant(np.random.RandomState(0).randn(2, 3, 4).astype(np.float32))
    lengths = tf.constant([3, 0])
    output = bojone.Attention(x, x, x, 2, 2, V_len=lengths)
    [key] = [v for v in tf.global_variables() if v.op.name.endswith("Variable_1")]
    [gradient] = tf.gradients(output[1] * tf.range(4.0), [key])
    with tf.Session(config=CONFIG) as session:
        session.run(tf.global_variables_initializer())
        assert np.abs(session.run(gradient)).max() > 1e-8


def test_each_call_makes_new_variables_where_the_caller_stands():
    """The list is what the original functions create, called in this way."""
    x = x_of()
    bojone.Attention(x, x, x, 2, 3)
    bojone.Dense(x, 5)
    bojone.Dense(x, ouput_size=5, bias=False)
    for scope in ("attention", "attention"):
        with tf.name_scope(scope):
            bojone.Attention(x, x, x, 2, 3)
    for reuse in (None, True):
        with tf.variable_scope("layer", reuse=reuse):
            bojone.Dense(x, 5)
    wide, dense, bias = [4, 6], [4, 5], [5]
    qkv = [("Variable", wide), ("Variable_1", wide), ("Variable_2", wide)]
    assert variables() == [
        *qkv,
        ("Variable_3", dense),
        ("Variable_4", bias),
        ("Variable_5", dense),
        *(
            (f"{scope}/{name}", shape)
            for scope in ("attention", "attention_1")
            for name, shape in qkv
        ),
        *(
            (f"{scope}/{name}", shape)
            for scope in ("layer", "layer_1")
            for name, shape in (("Variable", dense), ("Variable_1", bias))
        ),
    ]


def test_initial_values_are_uniform_in_any_scope():
    with tf.variable_scope("a", initializer=tf.constant_initializer(7.0)):
        bojone.Attention(x_of(50), x_of(50), x_of(50), 4, 10)
        bojone.Dense(x_of(50), 50)
    with tf.Session(config=CONFIG) as session:
        session.run(tf.global_variables_initializer())
        values = session.run({v.op.name: v for v in tf.global_variables()})
    assert len(values) == 5
    for name, value in values.items():
        assert 0.04 < np.abs(value).max() <= np.float32(0.05), name
        assert abs(value.mean()) < 0.02, name
    assert (values["a/Variable"] != values["a/Variable_1"]).any()


# Its Keras layers, without Keras 3


@pytest.mark.skipif(not tf.__version__.startswith("1."), reason="has Keras 3")
@pytest.mark.parametrize(
    "module", ["compat.bojone.layers", "compat.bojone_keras", "keras_layers"]
)
def test_without_keras_3_the_layers_say_what_to_do(module):
    with pytest.raises(ImportError) as error:
        exec(f"from transformer.{module} import *", {})
    (line,) = str(error.value).splitlines()
    assert (
        f"expected TensorFlow 2.16 or newer, which has Keras 3, got {tf.__version__}"
        in line
    )
    assert "import transformer.functional or transformer.compat.bojone" in line
