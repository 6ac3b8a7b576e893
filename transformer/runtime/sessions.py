"""Sessions set up by the settings of the machine, and several runs at once in one."""

import concurrent.futures
import contextlib
import os
import queue
from typing import Any, Dict, Iterable, Iterator, Optional

import tensorflow.compat.v1 as tf

from transformer.hparams import HParams
from transformer.runtime.cluster import Cluster
from transformer.runtime.devices import cores, has_gpu, spare_hidden_tiles
from transformer.runtime.exchange import make_cluster_session

MOST_AT_ONCE = 4  # batches of a session: each needs its own memory
# Parts of a batch in training. Dropout depends on it, so it does not depend on cores.
PARTS_AT_ONCE = 2


def set_up_process(hp: HParams) -> None:
    """Prepare TensorFlow for the settings; call it before a graph is made.

    TensorFlow starts its threads, and takes a GPU's memory, when it first makes a loop
    or runs a function, in tf.data for example. Neither can be changed afterwards.
    """
    # As much memory of a GPU as is needed, not all of it.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    # Threads of its own for each session, not those that the first one asked for.
    os.environ.setdefault("TF_OVERRIDE_GLOBAL_THREADPOOL", "true")
    if hp.deterministic:
        with contextlib.suppress(RuntimeError):  # they run already
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
    """Return a session of `graph`, or of the default one, set up by the settings.

    `hp.deterministic` makes two runs of one command equal to the last bit: one thread
    runs one op at a time, so no sum depends on timing or on the number of cores; it
    needs `set_up_process` before. On a GPU, only deterministic kernels are used
    (TensorFlow 2; 1.15 offers none). This holds for one build of TensorFlow on one kind
    of processor: other vector instructions round otherwise.

    Args:
      hp: the settings.
      graph: the graph to run.
      runs: how many runs there may be at once; see `run_at_once`.
      parts: how many parts of a run do not wait for each other.
      sequential: run operations one by one, and loops as functions, which TensorFlow
        does not rewrite for oneDNN. That is faster where operations are so small that
        starting them takes longer. Ignored on a GPU and on TensorFlow 1.15.
      rewritten: whether TensorFlow's graph optimizer may rewrite the graph before the
        first run; for a search that takes half a second, and gains nothing. Ignored on
        a GPU and on TensorFlow 1.15.
      cluster: the workers that compute together; None: a single process.
    """
    spare_hidden_tiles()
    config = tf.ConfigProto()
    for _ in range(runs if runs > 1 else 0):
        config.session_inter_op_thread_pool.add(num_threads=1)  # one op at a time each
    if max(runs, parts) >= cores():
        # Most operations take less time than dividing them between the cores.
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
    """Return how many batches a session translates at once: one for each core.

    One after the other on a GPU, and where the order of threads must not matter.
    """
    if hp.deterministic or has_gpu():
        return 1
    return min(MOST_AT_ONCE, cores())


def parts_at_once(hp: HParams) -> int:
    """Return in how many parts a batch is computed in training, side by side.

    In one on a GPU, and where shards are computed in their order.
    """
    return 1 if hp.deterministic or has_gpu() else PARTS_AT_ONCE


def run_at_once(
    session: tf.Session, fetches: Any, feeds: Iterable[Dict], runs: int
) -> Iterator[Any]:
    """Yield the values of `fetches` for each of `feeds`, in their order.

    Up to `runs` are in progress at once, each in a thread of its own, for cores that a
    single small operation cannot use.

    Args:
      session: what `make_session` returned, with as many `runs`.
      fetches: a nest of tensors.
      feeds: what each run is fed: tensors → values.
      runs: how many runs at once.
    """
    free_pools: "queue.Queue[int]" = queue.Queue()
    for pool in range(runs):
        free_pools.put(pool)

    def run(feed):
        pool = free_pools.get()
        try:
            options = tf.RunOptions(inter_op_thread_pool=pool)
            return session.run(fetches, feed, options=options)
        finally:
            free_pools.put(pool)

    with concurrent.futures.ThreadPoolExecutor(runs) as executor:
        yield from executor.map(run, feeds)
