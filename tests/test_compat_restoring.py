"""Checkpoints of a source in ported graphs: by its names, or by ours."""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG

import hparams
from transformer import compat, modules
from transformer.compat import kyubyong, kyubyong_legacy, tutorial
from transformer.dialects import DIALECTS
from transformer.model import Transformer
from transformer.originals import convert

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


def test_the_savers_own_restore_works(original):
    prefix, expected = original
    with tf.Session(config=CONFIG) as session:
        outputs = stack(kyubyong_legacy)
        tf.train.Saver().restore(session, prefix)
        np.testing.assert_array_equal(session.run(outputs), expected)


@pytest.mark.parametrize("scope", ["", "ported", "a/b"])
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


def test_a_new_optimizer_keeps_its_values(tmp_path):
    with tf.Graph().as_default(), tf.Session(config=CONFIG) as session:
        kyubyong_legacy.normalize(tf.ones([1, 4]))
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver().save(session, str(tmp_path / "m"))
    with tf.Session(config=CONFIG) as session:
        loss = tf.reduce_sum(kyubyong_legacy.normalize(tf.ones([1, 4])))
        tf.train.AdamOptimizer(0.1).minimize(loss)
        session.run(tf.global_variables_initializer())
        loaded = compat.restore(session, prefix, "kyubyong_legacy")
        assert loaded == ["ln/Variable", "ln/Variable_1"]


@pytest.mark.parametrize(
    "blocks, said",
    [
        (1, "wanted no variables without a place: 18 would be left over"),
        (3, "found no variable for num_blocks_2/"),
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
        with pytest.raises(ValueError, match=r"lookup_table: found shape \[5, 8\]"):
            compat.restore(session, original[0], "kyubyong_legacy")


@pytest.mark.parametrize(
    "source, prefix, said",
    [
        ("nobody", "x", "source: found 'nobody', wanted one of"),
        ("sasrec", os.path.join("nowhere", "model"), "found no checkpoint"),
    ],
)
def test_what_is_not_there_is_refused(source, prefix, said):
    with tf.Session(config=CONFIG) as session:
        with pytest.raises(ValueError, match=said):
            compat.restore(session, prefix, source)


# Whole translators in the manner of the sources, imported into the model

SOURCE = np.array([[5, 3, 8, 7], [6, 4, 0, 0]])
TARGET_IN = np.array([[2, 6, 4, 9], [2, 5, 7, 0]])
PIECES = 10


def legacy_side(module, ids, name, masked):
    """Embeddings and learned positions, as the encoder or the decoder begins."""
    x = module.embedding(ids, PIECES, WIDTH, scope=name + "_embed")
    real = tf.expand_dims(tf.sign(tf.reduce_sum(tf.abs(x), axis=-1)), -1)
    places = tf.tile(tf.range(4)[None], [2, 1])
    x += module.embedding(places, 4, WIDTH, False, False, name + "_pe")
    return x * real if masked else x


def legacy_translator(module, masked):
    """Logits of two blocks each, in the manner of train.py of 2017."""
    widths = [4 * WIDTH, WIDTH]
    with tf.variable_scope("encoder"):
        memory = legacy_side(module, tf.constant(SOURCE), "enc", masked)
        for i in range(2):
            with tf.variable_scope(f"num_blocks_{i}"):
                memory = module.multihead_attention(memory, memory, num_heads=2)
                memory = module.feedforward(memory, widths)
    with tf.variable_scope("decoder"):
        x = legacy_side(module, tf.constant(TARGET_IN), "dec", masked)
        for i in range(2):
            with tf.variable_scope(f"num_blocks_{i}"):
                x = module.multihead_attention(
                    x, x, num_heads=2, causality=True, scope="self_attention"
                )
                x = module.multihead_attention(
                    x, memory, num_heads=2, scope="vanilla_attention"
                )
                x = module.feedforward(x, widths)
    kernel = tf.get_variable("dense/kernel", [WIDTH, PIECES])
    return tf.tensordot(x, kernel, 1) + tf.get_variable("dense/bias", [PIECES])


def translator_of_2019():
    """The same, in the manner of model.py of 2019."""
    table = kyubyong.get_token_embeddings(PIECES, WIDTH)

    def begun(ids):
        x = tf.gather(table, ids) * WIDTH**0.5
        return x + kyubyong.positional_encoding(x, 4)

    padding = tf.equal(tf.constant(SOURCE), 0)
    with tf.variable_scope("encoder"):
        memory = begun(tf.constant(SOURCE))
        for i in range(2):
            with tf.variable_scope(f"num_blocks_{i}"):
                memory = kyubyong.multihead_attention(
                    memory, memory, memory, padding, num_heads=2
                )
                memory = kyubyong.ff(memory, [4 * WIDTH, WIDTH])
    with tf.variable_scope("decoder"):
        x = begun(tf.constant(TARGET_IN))
        for i in range(2):
            with tf.variable_scope(f"num_blocks_{i}"):
                x = kyubyong.multihead_attention(
                    x,
                    x,
                    x,
                    tf.equal(tf.constant(TARGET_IN), 0),
                    num_heads=2,
                    causality=True,
                    scope="self_attention",
                )
                x = kyubyong.multihead_attention(
                    x, memory, memory, padding, num_heads=2, scope="vanilla_attention"
                )
                x = kyubyong.ff(x, [4 * WIDTH, WIDTH])
    return tf.tensordot(x, table, [[2], [1]])


@pytest.mark.slow
@pytest.mark.parametrize(
    "source, logits_of",
    [
        ("tutorial", lambda: legacy_translator(tutorial, False)),
        ("kyubyong_legacy", lambda: legacy_translator(kyubyong_legacy, True)),
        ("kyubyong", translator_of_2019),
    ],
)
def test_a_ported_translator_is_imported(source, logits_of, tmp_path):
    """The graph on its modules, and our model with its checkpoint, agree."""
    with tf.Graph().as_default(), tf.Session(config=CONFIG) as session:
        logits = logits_of()
        rng = np.random.RandomState(0)
        for variable in tf.global_variables():
            value = rng.randn(*variable.shape.as_list()) * 0.5
            session.run(variable.initializer, {variable.initial_value: value})
        prefix = tf.train.Saver().save(session, str(tmp_path / "model"), 1)
        expected = session.run(logits)
    arrays = convert.read(prefix)
    hp = hparams.HParams(num_heads=2, **convert.settings_of(source, arrays))
    values = convert.convert(arrays, hp).arrays
    model = Transformer(hp)
    logits = model.decode(tf.constant(TARGET_IN), model.encode(tf.constant(SOURCE)))
    with tf.Session(config=CONFIG) as session:
        for variable in tf.trainable_variables():
            value = values[variable.op.name]
            session.run(variable.initializer, {variable.initial_value: value})
        found = session.run(logits)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
