"""How a graph is run: in a process that is set up, several runs at once."""

import os
import threading

import corpora
import pytest
import tensorflow.compat.v1 as tf

from transformer.runtime.sessions import (
    ThreadPools,
    make_session,
    run_concurrently,
    set_up_process,
)

GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"


@pytest.mark.parametrize("chosen, found", [(None, "true"), ("false", "false")])
def test_a_process_takes_what_it_needs_of_a_gpu(monkeypatch, chosen, found):
    """TensorFlow reads this when it first makes a loop: later, it takes all memory."""
    monkeypatch.setenv(GROWTH, chosen or "")  # so that it is as before afterwards
    if chosen is None:
        monkeypatch.delenv(GROWTH)
    set_up_process()
    assert os.environ[GROWTH] == found


@pytest.mark.parametrize("runs", [1, 3])
def test_runs_at_once_come_in_their_order(runs):
    with tf.Graph().as_default() as graph:
        limit = tf.placeholder(tf.int32, [])
        counted = tf.while_loop(lambda i: i < limit, lambda i: i + 1, [0])
        with make_session(graph, concurrent_runs=runs) as session:
            counts = run_concurrently(
                session,
                counted,
                [{limit: steps} for steps in (3000, 2, 1000, 0, 5, 7)],
                ThreadPools(runs),
            )
            assert list(counts) == [3000, 2, 1000, 0, 5, 7]


def test_runs_at_once_wait_for_each_other():
    """Two that take turns at a queue end only if both are under way."""
    with tf.Graph().as_default() as graph:
        there, back = (tf.queue.FIFOQueue(1, [tf.int32], shapes=[[]]) for _ in "ab")
        first = tf.placeholder(tf.bool, [])

        def talk(mine, other):
            with tf.control_dependencies([mine.enqueue(1)]):
                return other.dequeue()

        answer = tf.cond(first, lambda: talk(there, back), lambda: talk(back, there))
        with make_session(graph, concurrent_runs=2) as session:
            feeds = [{first: True}, {first: False}]
            assert list(run_concurrently(session, answer, feeds, ThreadPools(2))) == [
                1,
                1,
            ]


def test_callers_in_several_threads_get_different_pools():
    taken = []
    barrier = threading.Barrier(2, timeout=60)

    class Session:
        def run(self, fetches, feed, options):
            taken.append(options.inter_op_thread_pool)
            barrier.wait()

    pools = ThreadPools(2)
    for _ in range(3):
        threads = [
            threading.Thread(target=pools.run, args=[Session(), None, {}])
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [sorted(taken[i : i + 2]) for i in (0, 2, 4)] == [[0, 1]] * 3


def test_what_is_wrong_with_a_run_is_said():
    with tf.Graph().as_default() as graph:
        step = tf.placeholder(tf.int32, [])
        with make_session(graph, concurrent_runs=2) as session:
            with pytest.raises(tf.errors.InvalidArgumentError):
                list(
                    run_concurrently(
                        session,
                        tf.range(0, 1, step),
                        [{step: 1}, {step: 0}, {step: 1}],
                        ThreadPools(2),
                    )
                )


def test_a_session_raises_in_a_fork(graph):
    """It would wait for threads that only its own process has; so would closing."""
    value = tf.constant(3)
    with make_session(graph) as session:
        assert session.run(value) == 3
        message = corpora.call_in_fork(session.run, value)
        assert f"got one of process {os.getpid()}, from which it was forked" in message
        assert corpora.call_in_fork(session.close) == ""
        assert session.run(value) == 3
