"""Blocks in other people's graphs: sizes, scopes, functions, imported graphs."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from transformer import modules
from transformer.blocks.positions import POSITIONS
from transformer.compat import bojone, sasrec, tensor2tensor

IS_TENSORFLOW_1 = tf.__version__.startswith("1.")
SIZES = {"numpy": np.int64, "numpy_array": np.array}
if IS_TENSORFLOW_1:
    SIZES["dimension"] = tf.Dimension


def vectors(*shape):
    return tf.constant(np.random.RandomState(1).randn(*shape), tf.float32)


SIZED = {  # function of a type of sizes → tensors
    "relative_positions": lambda size: modules.relative_positions(
        tf.range(4), tf.range(4), size(8), size(3)
    ),
    "relative_bias": lambda size: modules.relative_bias(
        vectors(2, 2, 4, 4), size(3), True
    ),
    "max_relative_position": lambda size: modules.multihead_attention(
        *[vectors(2, 4, 8)] * 2, size(8), size(2), max_relative_position=size(3)
    ),
    "local_attention": lambda size: modules.local_attention(
        *[vectors(2, 2, 4, 4)] * 3, size(2), window=(size(1), size(0))
    ),
    "sasrec": lambda size: sasrec.positional_encoding(size(8), size(4)),
    "tensor2tensor": lambda size: tensor2tensor.multihead_attention(
        vectors(2, 4, 8), None, None, size(8), size(8), size(8), size(2), 0.0
    ),
    "timing": lambda size: tensor2tensor.get_timing_signal_1d(size(4), size(7)),
    "pad": lambda size: tensor2tensor.pad_to_same_length(
        vectors(2, 4, 8), vectors(2, 3, 8), size(3)
    ),
    "learned": lambda size: tensor2tensor.add_positional_embedding(
        vectors(2, 4, 8), size(9), "positions"
    ),
    "search": lambda size: tensor2tensor.beam_search(
        lambda ids: tf.one_hot(ids[:, -1] % 5, 5),
        tf.constant([1, 1]),
        size(2),
        4,
        size(5),
        0.6,
    )[:2],
}


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("name", SIZED)
def test_sizes_of_any_integer_type(name, kind):
    results = []
    for size in (int, SIZES[kind]):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(1)
            tensors = tf.nest.flatten(SIZED[name](size))
            session.run(tf.global_variables_initializer())
            results.append(session.run(tensors))
    for expected, actual in zip(*results):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("width", [6, 7])
def test_a_timing_signal_of_a_width_that_is_a_tensor(width, start):
    signals = [
        tensor2tensor.get_timing_signal_1d(5, channels)
        for channels in (width, tf.placeholder_with_default(width, []))
    ]
    session, _ = start()
    expected, actual = session.run(signals)
    np.testing.assert_allclose(actual, expected, atol=2e-7)


@pytest.mark.parametrize("encoding", POSITIONS)
def test_integer_positions_are_as_right_as_float64(encoding, start):
    positions = np.array([0, 1, 999, 5000, 9999, 123_456, 1_000_000])
    tables = [
        POSITIONS[encoding](tf.constant(positions, dtype), 130)
        for dtype in (tf.int32, tf.int64, tf.float64)
    ]
    session, _ = start()
    *tables, expected = session.run(tables)
    for table in tables:
        assert table.dtype == np.float32
        np.testing.assert_allclose(table, expected, atol=1.5e-7)


def test_the_graph_of_an_unknown_length_has_no_float64_but_constants():
    """LiteRT has no float64: only what depends on no length may have it."""
    ids = tf.placeholder(tf.int32, [None, None])
    modules.positional_encoding(ids, 8)
    depends, pending = set(), [ids]
    while pending:
        for op in pending.pop().consumers():
            depends.add(op)
            pending += op.outputs
    assert depends
    for op in depends:
        assert tf.float64 not in [x.dtype for x in op.outputs], op.name


@pytest.mark.parametrize("outer", ["", "a", "a/"])
def test_variables_of_bojone_without_a_name_scope(outer):
    """As `tf.Variable` in the original: in the name scope of the caller, or in none."""
    with tf.variable_scope("scope"), tf.name_scope(None), tf.name_scope(outer):
        bojone.Dense(vectors(2, 3, 4), 5)
    with tf.Graph().as_default():
        with tf.variable_scope("scope"), tf.name_scope(None), tf.name_scope(outer):
            expected = [tf.Variable(0.0).name for _ in range(2)]
    assert [variable.name for variable in tf.global_variables()] == expected


# Processes of their own: eager mode, and a graph without the package.


def run_program(program, *arguments):
    process = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    assert process.returncode == 0, process.stderr[-2000:]


IN_FUNCTIONS = """
import tensorflow.compat.v1 as tf
from transformer import modules
from transformer.compat import bojone, kyubyong, sasrec, tensor2tensor

tf.enable_eager_execution()
x = tf.ones([2, 3, 8])
padding = tf.zeros([2, 3], tf.bool)
blocks = [
    lambda: modules.embedding([[5, 0]], 10, 8),
    lambda: modules.multihead_attention(x, x, num_heads=2),
    lambda: modules.feedforward(x, (16, 8)),
    lambda: modules.normalize(x),
    lambda: modules.relative_positions(tf.range(3), tf.range(3), 4, 2),
    lambda: kyubyong.multihead_attention(x, x, x, padding, num_heads=2),
    lambda: bojone.Dense(x, 8),
    lambda: sasrec.embedding([[5, 0]], 10, 8),
    lambda: tensor2tensor.layer_norm(x),
    lambda: tensor2tensor.add_positional_embedding(x, 9, "positions"),
]
callers = [
    lambda block: tf.function(block)(),
    lambda block: tf.data.Dataset.range(1).map(lambda _: block()),
]
for i, block in enumerate(blocks):
    for call in callers:
        try:
            call(block)
        except ValueError as error:
            assert "expected graph mode, got eager mode" in str(error), (i, error)
        else:
            raise AssertionError(i)
function = tf.wrap_function(
    lambda x: modules.feedforward(modules.multihead_attention(x, x), (16, 8)),
    [tf.TensorSpec([None, None, 8], tf.float32)],
)
assert function(x).shape == (2, 3, 8) and len(list(function.graph.variables)) == 12
tf.function(lambda: modules.positional_encoding([[5, 0]], 8))()
kyubyong.mask(tf.zeros([2, 3, 3]), padding, "key")
"""


def test_blocks_in_functions_of_eager_mode():
    """A clear refusal, but in `wrap_function`, where variables have names; blocks that
    have no variables work."""
    run_program(IN_FUNCTIONS)


TRAIN_ON = """
import sys

import tensorflow.compat.v1 as tf

tf.disable_eager_execution()


def train_on():
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(sys.argv[1] + ".meta").restore(session, sys.argv[1])
        [loss] = tf.get_collection("loss")
        train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
        return [session.run([loss, train])[0] for _ in range(3)]


try:
    train_on()
except LookupError as error:
    assert "No gradient defined for operation" in str(error), error
else:
    raise AssertionError("the gradients are known")
import transformer.modules

losses = train_on()
assert losses[0] > losses[1] > losses[2], losses
"""


def test_an_imported_graph_trains_where_the_gradients_are_imported(tmp_path, start):
    x = modules.feedforward(vectors(2, 3, 8), (16, 8))
    tf.add_to_collection("loss", tf.reduce_mean(tf.square(x - 1)))
    session, _ = start()
    path = tf.train.Saver().save(session, str(tmp_path / "model"))
    run_program(TRAIN_ON, path)
