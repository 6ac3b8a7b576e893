"""How a graph is run: compiled, sequentially, several runs at once."""

import dataclasses

import corpora
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from transformer import hparams
from transformer.runtime import sessions
from transformer.runtime.sessions import make_session, run_at_once
from transformer.trainer import Data, TrainingGraph

TF2 = not tf.__version__.startswith("1.")
GRAPHS = tf.RunOptions(output_partition_graphs=True)


def operations(told):
    """The kinds of operations that a run consisted of, told by `GRAPHS`."""
    return {node.op for part in told.partition_graphs for node in part.node}


def losses(hp):
    """(losses of some updates, names of the operations that were run)."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        graph, found = TrainingGraph(hp, Data(hp), 0), []
        told = tf.RunMetadata()
        with make_session(hp) as session:
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


@pytest.mark.slow
def test_compiled_it_is_the_same(hp, plain):
    found, kinds = losses(dataclasses.replace(hp, xla=True))
    assert "_XlaRun" in kinds
    np.testing.assert_allclose(found, plain, rtol=1e-4)


@pytest.mark.skipif(not TF2, reason="TensorFlow 1.15 is always built with XLA")
def test_xla_that_is_not_there_is_refused(hp, monkeypatch):
    sessions.refuse_impossible(dataclasses.replace(hp, xla=True))
    monkeypatch.setattr(tf.test, "is_built_with_xla", lambda: False)
    sessions.refuse_impossible(hp)
    with pytest.raises(ValueError, match="xla: expected False, got True"):
        sessions.refuse_impossible(dataclasses.replace(hp, xla=True))


@pytest.mark.parametrize("runs", [1, 3])
def test_runs_at_once_come_in_their_order(hp, runs):
    with tf.Graph().as_default() as graph:
        given = tf.placeholder(tf.int32, [])
        counted = tf.while_loop(lambda i: i < given, lambda i: i + 1, [0])
        with make_session(hp, graph, runs=runs) as session:
            found = run_at_once(
                session,
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
                run_at_once(session, answer, [{first: True}, {first: False}], 2)
            ) == [1, 1]


def test_what_is_wrong_with_a_run_is_said(hp):
    with tf.Graph().as_default() as graph:
        given = tf.placeholder(tf.int32, [])
        with make_session(hp, graph, runs=2) as session:
            with pytest.raises(tf.errors.InvalidArgumentError):
                list(
                    run_at_once(
                        session,
                        tf.range(0, 1, given),
                        [{given: 1}, {given: 0}, {given: 1}],
                        2,
                    )
                )
