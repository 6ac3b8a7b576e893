"""How a graph is run: less precise products, compiled, or not where that cannot be."""

import dataclasses
import io

import corpora
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from conftest import HAS_BFLOAT16

import hparams
import train
from transformer.runtime import precision as precisions
from transformer.runtime import reporting, sessions
from transformer.runtime.precision import PRECISIONS, rewriting_to
from transformer.runtime.sessions import make_session, run_at_once
from transformer.training_graph import Data, TrainingGraph

TF2 = not tf.__version__.startswith("1.")
HAS_GPU = bool(tf.config.experimental.list_physical_devices("GPU"))
GRAPHS = tf.RunOptions(output_partition_graphs=True)

needs_bfloat16 = pytest.mark.skipif(
    not HAS_BFLOAT16, reason="no bfloat16: TensorFlow 2 has it on a CPU with AVX-512"
)


def operations(told):
    """The kinds of operations that a run consisted of, told by `GRAPHS`."""
    return {node.op for part in told.partition_graphs for node in part.node}


def losses(hp, precision="float32"):
    """(losses of some updates, names of the operations that were run)."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        graph, found = TrainingGraph(hp, Data(hp), 0), []
        told = tf.RunMetadata()
        with make_session(hp, precision=precision) as session:
            session.run(graph.initialize)
            for _ in range(6):
                _, loss = session.run(
                    [graph.update.apply, graph.update.metrics.loss],
                    options=GRAPHS,
                    run_metadata=told,
                )
                found.append(loss)
        return np.array(found), operations(told)


@pytest.fixture(scope="module")
def hp(digits):
    return hparams.HParams(
        data=digits,
        source_vocab_size=int(corpora.VOCAB_SIZE),
        target_vocab_size=int(corpora.VOCAB_SIZE),
        num_blocks=1,
        d_model=32,
        d_ff=64,
        num_heads=4,
        batch_tokens=300,
        warmup_steps=10,
    )


@pytest.fixture(scope="module")
def plain(hp):
    return losses(hp)[0]


@needs_bfloat16
@pytest.mark.skipif(HAS_GPU, reason="a GPU has other precisions")
def test_bfloat16_is_nearly_the_same(hp, plain):
    """Eight bits of each factor: a relative error below 1 % of a mean over tokens."""
    found = losses(hp, "bfloat16")[0]
    assert (found != plain).any()
    np.testing.assert_allclose(found, plain, rtol=0.01)


@pytest.mark.slow
@needs_bfloat16
@pytest.mark.skipif(HAS_GPU, reason="a GPU has other precisions")
def test_bfloat16_learns_as_much(digits, trained, tmp_path):
    """Dev losses of other seeds are 5 % apart (Multi30k is in docs/performance.md)."""
    corpora.run_train(digits, tmp_path, *corpora.SMALL, "--precision", "bfloat16")
    found, wanted = (
        [row["loss"] for row in reporting.read_dev_scores(str(logdir))]
        for logdir in (tmp_path, trained)
    )
    assert found != wanted
    np.testing.assert_allclose(found, wanted, rtol=0.02)


@pytest.mark.slow
def test_compiled_it_is_the_same(hp, plain):
    found, kinds = losses(dataclasses.replace(hp, xla=True))
    assert "_XlaRun" in kinds
    np.testing.assert_allclose(found, plain, rtol=1e-4)


@pytest.mark.parametrize("precision", PRECISIONS[1:])
def test_a_precision_that_cannot_be_is_refused_in_a_line(
    digits, tmp_path, capsys, precision
):
    possible = {"bfloat16": HAS_BFLOAT16, "float16": HAS_GPU}[precision]
    if possible:
        assert rewriting_to(precision)
        return
    said = corpora.refusal(
        capsys,
        train.main,
        "--data",
        digits,
        "--logdir",
        str(tmp_path / "logs"),
        "--precision",
        precision,
    )
    assert f"found {precision}, wanted float32" in said
    assert not (tmp_path / "logs").exists()


@pytest.mark.skipif(not TF2 or HAS_GPU, reason="it is refused already")
@pytest.mark.parametrize(
    "name, value", [("flags", "sse2 avx2"), ("TF_ENABLE_ONEDNN_OPTS", "0")]
)
def test_bfloat16_that_tensorflow_would_ignore_is_refused(monkeypatch, name, value):
    settings = {"flags": "sse2 avx512f", "TF_ENABLE_ONEDNN_OPTS": "1"}
    monkeypatch.setattr(
        precisions,
        "open",
        lambda *_, **__: io.StringIO(settings["flags"]),
        raising=False,
    )
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", settings["TF_ENABLE_ONEDNN_OPTS"])
    rewriting_to("bfloat16")
    settings[name] = value
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", settings["TF_ENABLE_ONEDNN_OPTS"])
    with pytest.raises(ValueError, match="found bfloat16, wanted float32: .*CPU"):
        rewriting_to("bfloat16")


@pytest.mark.skipif(not TF2, reason="TensorFlow 1.15 is always built with XLA")
def test_xla_that_is_not_there_is_refused(hp, monkeypatch):
    sessions.refuse_impossible(dataclasses.replace(hp, xla=True))
    monkeypatch.setattr(tf.test, "is_built_with_xla", lambda: False)
    sessions.refuse_impossible(hp)
    with pytest.raises(ValueError, match="xla: found True, wanted False"):
        sessions.refuse_impossible(dataclasses.replace(hp, xla=True))


@pytest.mark.parametrize("runs", [1, 3])
def test_runs_at_once_come_in_their_order(hp, runs):
    with tf.Graph().as_default() as graph:
        given = tf.placeholder(tf.int32, [])
        counted = tf.while_loop(lambda i: i < given, lambda i: i + 1, [0])
        with make_session(hp, graph, runs=runs) as session:
            found = run_at_once(
                [session],
                counted,
                [{given: steps} for steps in (3000, 2, 1000, 0, 5, 7)],
                runs,
            )
            assert list(found) == [3000, 2, 1000, 0, 5, 7]


def test_runs_at_once_wait_for_each_other(hp):
    """Two that take turns at a queue end only if both are under way."""
    with tf.Graph().as_default() as graph:
        there, back = (tf.queue.FIFOQueue(1, [tf.int32], shapes=[[]]) for _ in "ab")
        first = tf.placeholder(tf.bool, [])

        def talk(mine, other):
            with tf.control_dependencies([mine.enqueue(1)]):
                return other.dequeue()

        answer = tf.cond(first, lambda: talk(there, back), lambda: talk(back, there))
        with make_session(hp, graph, runs=2) as session:
            assert list(
                run_at_once([session], answer, [{first: True}, {first: False}], 2)
            ) == [1, 1]


@pytest.mark.parametrize("sequential", [False, True])
def test_loops_are_functions_where_runs_are_sequential(hp, sequential):
    with tf.Graph().as_default() as graph:
        given, told = tf.placeholder(tf.float32, [2, 2]), tf.RunMetadata()
        _, power = tf.while_loop(
            lambda i, x: i < 5, lambda i, x: (i + 1, x @ given), (0, tf.eye(2))
        )
        with make_session(hp, graph, sequential=sequential) as session:
            found = session.run(power, {given: [[1, 1], [1, 0]]}, GRAPHS, told)
    np.testing.assert_array_equal(found, [[8, 5], [5, 3]])  # Fibonacci's numbers
    functions = {"While", "StatelessWhile"} & operations(told)
    assert bool(functions) == (sequential and TF2 and not HAS_GPU)


def test_what_is_wrong_with_a_run_is_said(hp):
    with tf.Graph().as_default() as graph:
        given = tf.placeholder(tf.int32, [])
        with make_session(hp, graph, runs=2) as session:
            with pytest.raises(tf.errors.InvalidArgumentError):
                list(
                    run_at_once(
                        [session],
                        tf.range(0, 1, given),
                        [{given: 1}, {given: 0}, {given: 1}],
                        2,
                    )
                )
