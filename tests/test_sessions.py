"""How a graph is run: less precise products, compiled, or not where that cannot be."""
import dataclasses

import corpora
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import hparams
import train
from transformer.sessions import PRECISIONS, make_session, rewriting_to

TF2 = not tf.__version__.startswith("1.")
HAS_GPU = bool(tf.config.experimental.list_physical_devices("GPU"))


def losses(hp, precision="float32"):
    """(losses of some updates, names of the operations that were run)."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        graph, found = train.TrainingGraph(hp, 0), []
        told = tf.RunMetadata()
        with make_session(hp, precision=precision) as session:
            session.run(graph.initialize)
            for _ in range(6):
                _, loss = session.run(
                    [graph.update.apply, graph.update.metrics.loss], run_metadata=told,
                    options=tf.RunOptions(output_partition_graphs=True))
                found.append(loss)
        return np.array(found), {node.op for part in told.partition_graphs
                                 for node in part.node}


@pytest.fixture(scope="module")
def hp(digits):
    return hparams.HParams(
        data=digits, source_vocab_size=int(corpora.VOCAB_SIZE),
        target_vocab_size=int(corpora.VOCAB_SIZE), num_blocks=1, d_model=32, d_ff=64,
        num_heads=4, batch_tokens=300, warmup_steps=10)


@pytest.fixture(scope="module")
def plain(hp):
    return losses(hp)[0]


@pytest.mark.skipif(not TF2, reason="TensorFlow 1.15 has no bfloat16 on a CPU")
@pytest.mark.skipif(HAS_GPU, reason="a GPU has other precisions")
def test_bfloat16_is_nearly_the_same(hp, plain):
    """Eight bits of each factor: a relative error below 1 % of a mean over tokens."""
    found = losses(hp, "bfloat16")[0]
    assert (found != plain).any()
    np.testing.assert_allclose(found, plain, rtol=0.01)


def test_compiled_it_is_the_same(hp, plain):
    found, operations = losses(dataclasses.replace(hp, xla=True))
    assert "_XlaRun" in operations
    np.testing.assert_allclose(found, plain, rtol=1e-4)


@pytest.mark.parametrize("precision", PRECISIONS[1:])
def test_a_precision_that_cannot_be_is_refused_in_a_line(digits, tmp_path, capsys,
                                                         precision):
    possible = {"bfloat16": TF2 and not HAS_GPU, "float16": HAS_GPU}[precision]
    if possible:
        assert rewriting_to(precision)
        return
    said = corpora.refusal(capsys, train.main, "--data", digits, "--logdir",
                           str(tmp_path / "logs"), "--precision", precision)
    assert f"found {precision}, wanted float32" in said
    assert not (tmp_path / "logs").exists()
