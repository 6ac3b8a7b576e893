"""TensorFlow sessions, and several concurrent runs in one session."""

import concurrent.futures
import contextlib
import os
import threading
from typing import Any, Dict, Iterable, Iterator, Optional

import tensorflow.compat.v1 as tf

from transformer.runtime.devices import avoid_broken_amx, count_cores, has_gpu
from transformer.runtime.pool import refuse_fork
from transformer.runtime.versions import IS_TENSORFLOW_1

MAX_CONCURRENT_BATCHES = 4  # each needs its own memory


def set_up_process(deterministic: bool = False) -> None:
    """Prepare TensorFlow's threads and its use of GPU memory, before any graph is made.

    TensorFlow starts its threads, and takes the memory of a GPU, when it first makes a
    loop or runs a function, for example in tf.data. Neither can be changed afterwards.

    Args:
      deterministic: as in `make_session_config`.
    """
    # Take only as much GPU memory as needed.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    # Give each session its own threads, instead of those of the first session.
    os.environ.setdefault("TF_OVERRIDE_GLOBAL_THREADPOOL", "true")
    if deterministic:
        with contextlib.suppress(RuntimeError):  # the threads are already running
            tf.config.threading.set_intra_op_parallelism_threads(1)
            tf.config.threading.set_inter_op_parallelism_threads(1)
        if not IS_TENSORFLOW_1:  # it promises nothing for GPU kernels
            tf.compat.v2.config.experimental.enable_op_determinism()


def make_session_config(
    deterministic: bool = False,
    concurrent_runs: int = 1,
    branches: int = 1,
    sequential: bool = False,
    optimize_graph: bool = True,
) -> tf.ConfigProto:
    """Make the configuration of a session.

    A deterministic session makes two runs of one command equal to the last bit: one
    thread runs one operation at a time, so no sum depends on timing or on the number of
    cores. It requires an earlier call of `set_up_process`. On a GPU, only deterministic
    kernels are used (TensorFlow 2; 1.15 offers none). This applies to one build of
    TensorFlow on one kind of processor: other vector instructions round differently.

    Args:
      deterministic: whether results must not depend on timing.
      concurrent_runs: how many runs there usually are at once, each in a thread pool of
        its own: see `ThreadPools`.
      branches: how many parts of the graph can be computed side by side within a run.
      sequential: whether to run operations one by one, and to keep loops as functions,
        which disables the rewrite for oneDNN. This is faster if operations are so small
        that starting them takes longer than running them. Ignored on a GPU and on
        TensorFlow 1.15.
      optimize_graph: whether TensorFlow may rewrite the graph before the first run. For
        a search, this takes half a second and gains nothing. False is ignored on a GPU
        and on TensorFlow 1.15.
    """
    avoid_broken_amx()
    config = tf.ConfigProto()
    if concurrent_runs > 1:
        for _ in range(concurrent_runs):  # one operation at a time in each pool
            config.session_inter_op_thread_pool.add(num_threads=1)
    if max(concurrent_runs, branches) >= count_cores():
        # Most operations take less time than it takes to divide them among the cores.
        config.intra_op_parallelism_threads = 1
    if deterministic:
        config.inter_op_parallelism_threads = 1
        config.intra_op_parallelism_threads = 1
    if tf.control_flow_v2_enabled() and not has_gpu():
        if sequential:
            config.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"
        if not optimize_graph:
            config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


class Session(tf.Session):
    """A session that raises an exception in a fork of its process.

    A fork has none of its threads: there, a run would wait for them forever. On
    TensorFlow 1.15, so would `close`.

    Args:
      target: the address of TensorFlow's server; "": this process.
      graph, config: as for `tf.Session`.
    """

    _session: Any = None  # `tf.Session.__del__` reads it, even if `__init__` failed

    def __init__(
        self,
        target: str = "",
        graph: Optional[tf.Graph] = None,
        config: Optional[tf.ConfigProto] = None,
    ):
        self._process = os.getpid()
        super().__init__(target, graph, config)

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        """Run the graph, like `tf.Session.run`; raise EngineError in a fork."""
        refuse_fork(self._process)
        return super().run(fetches, feed_dict, options, run_metadata)

    def close(self) -> None:
        """Close the session; in a fork, leave it to its process."""
        if self._process == os.getpid():
            super().close()
        else:
            self._session = None


def make_session(graph: Optional[tf.Graph] = None, **options: Any) -> tf.Session:
    """Make a session for `graph`, or for the default graph.

    Args:
      graph: the graph to run.
      **options: the arguments of `make_session_config`.
    """
    return Session(graph=graph, config=make_session_config(**options))


def count_concurrent_batches(deterministic: bool = False) -> int:
    """Count the batches that a session translates at once: at most one per core.

    Batches are translated one by one on a GPU, and if the order of threads must not
    matter.
    """
    if deterministic or has_gpu():
        return 1
    return min(MAX_CONCURRENT_BATCHES, count_cores())


class ThreadPools:
    """The thread pools of a session: a run takes the one with the fewest runs.

    Runs share a pool only if there are more of them than pools, for example if several
    threads translate with one Translator.

    Args:
      count: the `concurrent_runs` that the session was made for.
    """

    def __init__(self, count: int):
        self.count = count
        self._runs = [0] * count  # in progress, of each pool
        self._lock = threading.Lock()

    def run(self, session: tf.Session, fetches: Any, feed: Dict) -> Any:
        """Run the session in the least used pool; return the values of `fetches`."""
        with self._lock:
            pool = self._runs.index(min(self._runs))
            self._runs[pool] += 1
        try:
            options = tf.RunOptions(inter_op_thread_pool=pool)
            return session.run(fetches, feed, options=options)
        finally:
            with self._lock:
                self._runs[pool] -= 1


def run_concurrently(
    session: tf.Session, fetches: Any, feeds: Iterable[Dict], pools: ThreadPools
) -> Iterator[Any]:
    """Yield the values of `fetches` for each of `feeds`, in order.

    There are as many concurrent runs as pools, to use cores that a single small
    operation cannot use.

    Args:
      session: a session from `make_session`.
      fetches: a nest of tensors.
      feeds: the feed of each run: tensors → values.
      pools: those of the session.
    """
    with concurrent.futures.ThreadPoolExecutor(pools.count) as executor:
        yield from executor.map(lambda feed: pools.run(session, fetches, feed), feeds)
