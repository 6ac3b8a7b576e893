"""Checkpoints of a source in ported graphs: by its names, or by ours."""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG

from transformer import compat, modules
from transformer.compat import kyubyong_legacy
from transformer.dialects import DIALECTS

WIDTH = 8


def stack(module, blocks=2):
    """A stack as SASRec has it: anonymous normalizations, several in one scope."""
    x = module.embedding(tf.constant([[3, 1, 2]]), 5, WIDTH)
    for i in range(blocks):
        with tf.variable_scope(f"num_blocks_{i}"):
            x = module.multihead_attention(module.normalize(x), x, num_heads=2)
            x = module.feedforward(module.normalize(x), [WIDTH, WIDTH])
    return module.normalize(x)


def own_names(blocks=2):
    """The same, of `transformer.modules`: each normalization has a scope of its own."""
    row = DIALECTS["kyubyong_legacy"]
    x = modules.embedding(tf.constant([[3, 1, 2]]), 5, WIDTH)
    for i in range(blocks):
        with tf.variable_scope(f"num_blocks_{i}"):
            x = modules.multihead_attention(
                modules.normalize(x, scope="before_attention"),
                x,
                num_heads=2,
                dialect=row,
            )
            x = modules.feedforward(
                modules.normalize(x, scope="before_feedforward"),
                [WIDTH, WIDTH],
                dialect=row,
            )
    return modules.normalize(x, scope="last")


@pytest.fixture
def original(tmp_path):
    """(prefix of a checkpoint with its optimizer, what the graph then returned)."""
    with tf.Graph().as_default(), tf.Session(config=CONFIG) as session:
        outputs = stack(kyubyong_legacy)
        step = tf.train.get_or_create_global_step()
        update = tf.train.AdamOptimizer(0.1).minimize(
            tf.reduce_sum(outputs**2 * [1.0, -1, 2, 0, 1, 3, -2, 1]), step
        )
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(update)
        prefix = tf.train.Saver().save(session, str(tmp_path / "model.ckpt"), step)
        return prefix, session.run(outputs)


@pytest.mark.parametrize("scope", ["", "a/b"])
@pytest.mark.parametrize("graph_of", [lambda: stack(kyubyong_legacy), own_names])
def test_restored_outputs_are_the_same(original, scope, graph_of):
    prefix, expected = original
    with tf.Session(config=CONFIG) as session:
        if scope:
            with tf.variable_scope(scope):
                outputs = graph_of()
        else:
            outputs = graph_of()
        loaded = compat.restore(session, prefix, "kyubyong_legacy", scope)
        assert loaded == sorted(v.op.name for v in tf.global_variables())
        np.testing.assert_allclose(session.run(outputs), expected, rtol=1e-6, atol=1e-6)


def test_normalizations_with_other_numbers_are_taken_in_their_order(original):
    prefix, expected = original
    with tf.Session(config=CONFIG) as session:
        for scope in ("", "num_blocks_0/"):  # so the numbers begin later
            with tf.name_scope(scope + "ln/" if scope else "ln"):
                tf.constant(0)
        outputs = stack(kyubyong_legacy)
        names = [v.op.name for v in tf.trainable_variables()]
        assert "ln_1/Variable" in names and "ln/Variable" not in names
        compat.restore(session, prefix, "kyubyong_legacy")
        np.testing.assert_array_equal(session.run(outputs), expected)


def test_the_optimizer_comes_along_where_the_graph_has_one(original):
    prefix, _ = original
    with tf.Session(config=CONFIG) as session:
        loss = tf.reduce_sum(stack(kyubyong_legacy))
        step = tf.train.get_or_create_global_step()
        tf.train.AdamOptimizer(0.1).minimize(loss, step)
        loaded = compat.restore(session, prefix, "kyubyong_legacy")
        assert len(loaded) == len(tf.global_variables())
        assert session.run(step) == 3


@pytest.mark.parametrize(
    "blocks, said",
    [
        (1, "expected no other variables, got .*: 18 would be left over"),
        (3, "got no variable for num_blocks_2/"),
    ],
)
def test_what_does_not_fit_is_refused(original, blocks, said):
    with tf.Session(config=CONFIG) as session:
        stack(kyubyong_legacy, blocks)
        with pytest.raises(ValueError, match=said):
            compat.restore(session, original[0], "kyubyong_legacy")


def test_another_shape_is_refused(original):
    with tf.Session(config=CONFIG) as session:
        kyubyong_legacy.embedding(tf.constant([[1]]), 6, WIDTH)
        with pytest.raises(ValueError, match=r"lookup_table: expected shape \[6, 8\]"):
            compat.restore(session, original[0], "kyubyong_legacy")


@pytest.mark.parametrize(
    "source, prefix, said",
    [
        ("nobody", "x", "source: expected one of .*, got 'nobody'"),
        ("sasrec", os.path.join("nowhere", "model"), "got no checkpoint"),
    ],
)
def test_what_is_not_there_is_refused(source, prefix, said):
    with tf.Session(config=CONFIG) as session:
        with pytest.raises(ValueError, match=said):
            compat.restore(session, prefix, source)
