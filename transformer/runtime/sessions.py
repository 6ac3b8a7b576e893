"""Sessions set up by the machine settings, and several concurrent runs in a session."""

import concurrent.futures
import contextlib
import os
import threading
from typing import Any, Dict, Iterable, Iterator, Optional

import tensorflow.compat.v1 as tf

from transformer.hparams import HParams
from transformer.runtime.devices import cores, has_gpu, spare_hidden_tiles
from transformer.workers.cluster import Cluster
from transformer.workers.exchange import make_cluster_session

MOST_AT_ONCE = 4  # batches in a session: each needs its own memory
# Parts of a batch in training. Dropout depends on this number, so this number does not
# depend on the number of cores.
PARTS_AT_ONCE = 2


def set_up_process(hp: HParams) -> None:
    """Prepare TensorFlow for the settings, before any graph is made.

    TensorFlow starts its threads, and takes the memory of a GPU, when it first makes a
    loop or runs a function, for example in tf.data. Neither can be changed afterwards.
    """
    # Take only as much GPU memory as needed.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    # Give each session its own threads, instead of those of the first session.
    os.environ.setdefault("TF_OVERRIDE_GLOBAL_THREADPOOL", "true")
    if hp.deterministic:
        with contextlib.suppress(RuntimeError):  # the threads are already running
            tf.config.threading.set_intra_op_parallelism_threads(1)
            tf.config.threading.set_inter_op_parallelism_threads(1)
        if hasattr(tf.compat, "v2"):  # 1.15 promises nothing for GPU kernels
            tf.compat.v2.config.experimental.enable_op_determinism()


def make_session(
    hp: HParams,
    graph: Optional[tf.Graph] = None,
    runs: int = 1,
    parts: int = 1,
    sequential: bool = False,
    rewritten: bool = True,
    cluster: Optional[Cluster] = None,
) -> tf.Session:
    """Return a session for `graph`, or for the default graph, set up by the settings.

    `hp.deterministic` makes two runs of one command equal to the last bit: one thread
    runs one op at a time, so no sum depends on timing or on the number of cores. It
    requires an earlier call of `set_up_process`. On a GPU, only deterministic kernels
    are used (TensorFlow 2; 1.15 offers none). This applies to one build of TensorFlow
    on one kind of processor: other vector instructions round differently.

    Args:
      hp: the settings.
      graph: the graph to run.
      runs: how many runs there usually are at once, each in a pool: see `Pools`.
      parts: how many parts of a run are independent of each other.
      sequential: whether to run operations one by one, and loops as functions, which
        TensorFlow does not rewrite for oneDNN. This is faster if operations are so
        small that starting them takes longer than running them. Ignored on a GPU and on
        TensorFlow 1.15.
      rewritten: whether TensorFlow's graph optimizer may rewrite the graph before the
        first run. For a search, this takes half a second and gains nothing. False is
        ignored on a GPU and on TensorFlow 1.15.
      cluster: the workers that compute together; None: a single process.
    """
    spare_hidden_tiles()
    config = tf.ConfigProto()
    for _ in range(runs if runs > 1 else 0):
        config.session_inter_op_thread_pool.add(num_threads=1)  # one op at a time each
    if max(runs, parts) >= cores():
        # Most operations take less time than it takes to divide them among the cores.
        config.intra_op_parallelism_threads = 1
    if hp.deterministic:
        config.inter_op_parallelism_threads = 1
        config.intra_op_parallelism_threads = 1
    if tf.control_flow_v2_enabled() and not has_gpu():
        if sequential:
            config.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"
        if not rewritten:
            config.graph_options.rewrite_options.disable_meta_optimizer = True
    if cluster:
        return make_cluster_session(cluster, graph, config)
    return tf.Session(graph=graph, config=config)


def batches_at_once(hp: HParams) -> int:
    """Return how many batches a session translates at once: at most one per core.

    Batches are translated one by one on a GPU, and if the order of threads must not
    matter.
    """
    if hp.deterministic or has_gpu():
        return 1
    return min(MOST_AT_ONCE, cores())


def parts_at_once(hp: HParams) -> int:
    """Return in how many concurrent parts training computes a batch.

    It is one part on a GPU, and if shards are computed in order.
    """
    return 1 if hp.deterministic or has_gpu() else PARTS_AT_ONCE


class Pools:
    """The thread pools of a session: a run takes the one with the fewest runs.

    Runs share a pool only if there are more of them than pools, for example if several
    threads translate with one Translator.

    Args:
      count: the `runs` that the session was made for.
    """

    def __init__(self, count: int):
        self.count = count
        self._runs = [0] * count  # in progress, of each pool
        self._lock = threading.Lock()

    def run(self, session: tf.Session, fetches: Any, feed: Dict) -> Any:
        """Return what `session.run` returns."""
        with self._lock:
            pool = self._runs.index(min(self._runs))
            self._runs[pool] += 1
        try:
            options = tf.RunOptions(inter_op_thread_pool=pool)
            return session.run(fetches, feed, options=options)
        finally:
            with self._lock:
                self._runs[pool] -= 1


def run_at_once(
    session: tf.Session, fetches: Any, feeds: Iterable[Dict], pools: Pools
) -> Iterator[Any]:
    """Yield the values of `fetches` for each of `feeds`, in order.

    As many runs are in progress at once as there are pools, to use cores that a single
    small operation cannot use.

    Args:
      session: a session from `make_session`.
      fetches: a nest of tensors.
      feeds: the feed of each run: tensors → values.
      pools: those of the session.
    """
    with concurrent.futures.ThreadPoolExecutor(pools.count) as executor:
        yield from executor.map(lambda feed: pools.run(session, fetches, feed), feeds)
