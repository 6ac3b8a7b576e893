"""What the training graph of the paper's dialect is made of, and what it is not."""

import gc
import weakref

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from transformer.blocks import layers
from transformer.hparams import HParams
from transformer.model import Transformer
from transformer.training import cross_entropy, make_update

HEAVY = {
    "MatMul",
    "BatchMatMul",
    "BatchMatMulV2",
    "BatchMatMulV3",
    "Softmax",
    "GatherV2",
}

ATTENTION = {
    "q/kernel": [8, 8],
    "k/kernel": [8, 8],
    "v/kernel": [8, 8],
    "o/kernel": [8, 8],
    "ln/gamma": [8],
    "ln/beta": [8],
}
FEEDFORWARD = {
    "inner/kernel": [8, 16],
    "inner/bias": [16],
    "outer/kernel": [16, 8],
    "outer/bias": [8],
    "ln/gamma": [8],
    "ln/beta": [8],
}
BLOCKS = {
    "encoder/block_0/self_attention": ATTENTION,
    "encoder/block_0/feedforward": FEEDFORWARD,
    "encoder/block_1/self_attention": ATTENTION,
    "encoder/block_1/feedforward": FEEDFORWARD,
    "decoder/block_0/self_attention": ATTENTION,
    "decoder/block_0/cross_attention": ATTENTION,
    "decoder/block_0/feedforward": FEEDFORWARD,
    "decoder/block_1/self_attention": ATTENTION,
    "decoder/block_1/cross_attention": ATTENTION,
    "decoder/block_1/feedforward": FEEDFORWARD,
}
EMBEDDINGS = {
    "joint_vocabulary": {"embedding/lookup_table": [13, 8]},
    "separate_vocabularies": {
        "encoder/embedding/lookup_table": [11, 8],
        "decoder/embedding/lookup_table": [13, 8],
    },
}
KINDS = {
    "joint_vocabulary": {"source_vocab_size": 13},
    "separate_vocabularies": {"source_vocab_size": 11, "joint_vocab": False},
    "accumulation": {"source_vocab_size": 13, "accumulate": 2},
}


class Training:
    """The training graph of a small model with dropout."""

    def __init__(self, kind, **settings):
        hp = HParams(
            dialect="paper",
            num_blocks=2,
            d_model=8,
            d_ff=16,
            num_heads=2,
            target_vocab_size=13,
            **(settings or KINDS[kind]),
        )
        self.kind = kind
        with tf.Graph().as_default() as self.graph:
            source, target_in, target_out = (
                tf.placeholder(tf.int32, [None, None]) for _ in range(3)
            )
            model, seed = Transformer(hp), tf.placeholder(tf.int32, [2])
            memory = model.encode(source, True, seed)
            logits = model.decode(target_in, memory, True, seed)
            self.loss = cross_entropy(logits, target_out, 0.1)
            self.forward = self.graph.get_operations()
            step = tf.train.get_or_create_global_step()
            self.update = make_update(self.loss, hp, step)
            self.trained = tf.trainable_variables()
            self.variables = tf.global_variables() + tf.local_variables()


@pytest.fixture(scope="module", params=["joint_vocabulary", "separate_vocabularies"])
def training(request):
    return Training(request.param)


@pytest.fixture(scope="module")
def accumulation():
    return Training("accumulation")


def ancestors(*ops):
    """The ops without which `ops` cannot run, themselves included."""
    visited, waiting = set(), list(ops)
    while waiting:
        op = waiting.pop()
        if op not in visited:
            visited.add(op)
            waiting += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return visited


def test_the_exact_names_and_shapes_of_the_variables(training):
    expected = dict(EMBEDDINGS[training.kind])
    for scope, block in BLOCKS.items():
        expected.update({f"{scope}/{name}": shape for name, shape in block.items()})
    assert {v.op.name: v.shape.as_list() for v in training.trained} == expected


def test_every_variable_has_a_gradient(training):
    with training.graph.as_default():
        gradients = tf.gradients(training.loss.sum, training.trained)
    without = [v.op.name for v, g in zip(training.trained, gradients) if g is None]
    assert not without


def test_what_is_not_trained_belongs_to_the_optimizer(training):
    trained = {v.op.name for v in training.trained}
    moments = {f"{name}/{slot}" for name in trained for slot in ("Adam", "Adam_1")}
    untrained = {v.op.name for v in training.variables} - trained
    assert untrained == moments | {"global_step", "beta1_power", "beta2_power"}


def test_float64_is_confined_to_the_angles_of_the_positions(training):
    """They alone need it (float32 angles of late positions are wrong); the rest of the
    graph, gradients included, neither takes nor makes a double."""
    doubles = [
        op.name
        for op in training.graph.get_operations()
        if any(x.dtype == tf.float64 for x in list(op.inputs) + op.outputs)
    ]
    assert doubles
    for name in doubles:
        assert "/positional_encoding/" in name, name
        assert not name.startswith("gradients"), name


def test_no_heavy_op_is_computed_for_nothing(training):
    """Every product, softmax and lookup of the forward pass leads to the loss."""
    useful = ancestors(training.loss.sum.op)
    heavy = [op for op in training.forward if op.type in HEAVY]
    # An attention has 4 + 2 products, a feed-forward 2. Then the logits.
    assert len([op for op in heavy if "MatMul" in op.type]) == 2 * 8 + 2 * 14 + 1
    assert not [op.name for op in heavy if op not in useful]


def test_the_metrics_of_an_update_are_read_before_its_sums_are_emptied(accumulation):
    """They are fetched in the run of `apply`: an order left open is a race."""
    update = accumulation.update
    apply = ancestors(update.apply)
    metrics = {x.op.name: ancestors(x.op) for x in tf.nest.flatten(update.metrics)}
    sums = [
        v.op.outputs[0]
        for v in accumulation.variables
        if v.op.name.startswith("accumulated")
    ]
    assert len(sums) == len(accumulation.trained) + 2
    for total in sums:
        [reset] = [
            op
            for op in total.consumers()
            if op.type in ("Assign", "AssignVariableOp") and op in apply
        ]
        unordered = _uses(total) - ancestors(reset)
        for name, needed in metrics.items():
            assert not unordered & needed, (name, total.op.name)


def _uses(variable):
    """The ops that take the value of a variable, and those that hand it to them.

    On TensorFlow 1.15, what adds to a variable hands on the variable itself.
    """
    visited, waiting = set(), [variable]
    while waiting:
        for op in waiting.pop().consumers():
            writes = ("Assign", "AssignVariableOp", "AssignAddVariableOp")
            if op in visited or op.type in writes:
                continue
            visited.add(op)
            if op.type in ("Identity", "ReadVariableOp", "AssignAdd", "RefIdentity"):
                waiting += op.outputs
    return visited


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_graph_of_training_is_freed(precision):
    """TensorFlow keeps for ever the graphs in which `tf.custom_gradient` is used."""
    kind = dict(KINDS["joint_vocabulary"], precision=precision)
    graph = weakref.ref(Training("joint_vocabulary", **kind).graph)
    gc.collect()
    assert graph() is None


def test_a_tape_in_a_graph_sees_the_same_gradients():
    x = tf.constant([[1.0, 3.0, 8.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.sin(layers.normalize(x)))
    gradients = tape.gradient(y, x), tf.gradients(y, x)[0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, second = session.run(gradients)
    assert first.any()
    np.testing.assert_allclose(first, second, rtol=1e-5)
