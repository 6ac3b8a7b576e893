"""Sessions set up by the settings of the machine, and several runs at once in one."""

import concurrent.futures
import contextlib
import queue
from typing import Any, ContextManager, Dict, Iterable, Iterator, Optional

import tensorflow.compat.v1 as tf

from transformer.runtime.cluster import Cluster
from transformer.runtime.devices import has_gpu, set_up_devices, training_devices
from transformer.runtime.exchange import serve
from transformer.runtime.precision import rewriting_to

ON = 1  # of RewriterConfig.Toggle


def set_up_process(hp) -> None:
    """Prepare TensorFlow for the settings; call it before a graph is made.

    The first function of a graph, tf.data's for example, starts the threads of the
    process, and what a session asks for later does not change their number. Where they
    run already, with another number, they stay.
    """
    if hp.deterministic:
        with contextlib.suppress(RuntimeError):
            tf.config.threading.set_intra_op_parallelism_threads(1)
            tf.config.threading.set_inter_op_parallelism_threads(1)
        if hasattr(tf.compat, "v2"):  # 1.15 promises nothing for GPU kernels
            tf.compat.v2.config.experimental.enable_op_determinism()


def make_session(
    hp,
    graph: Optional[tf.Graph] = None,
    precision: str = "float32",
    runs: int = 1,
    sequential: bool = False,
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
      precision: of the matrix products, one of `PRECISIONS`.
      runs: how many runs there may be at once; see `run_at_once`.
      sequential: the operations of a run are so small that the time between them
        dominates. They are run in a fixed order, and loops as functions, which
        TensorFlow does not rewrite for oneDNN: calling it would take longer than the
        operation. Ignored on a GPU, and where loops cannot be functions (1.15).
      cluster: the workers that compute together; None: this process alone.

    Raises:
      ValueError: see `rewriting_to`.
    """
    config = tf.ConfigProto()
    set_up_devices(config, hp.devices)
    if runs > 1:  # each does one op at a time, in a thread of its own
        for _ in range(runs):
            config.session_inter_op_thread_pool.add(num_threads=1)
    if hp.deterministic:
        config.inter_op_parallelism_threads = 1
        config.intra_op_parallelism_threads = 1
    if sequential and tf.control_flow_v2_enabled() and not has_gpu():
        config.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"
    if precision != "float32":
        setattr(config.graph_options.rewrite_options, rewriting_to(precision), ON)
    if cluster:
        server = serve(cluster, config)
        session = tf.Session(server.target, graph, config)
        session.server = server  # which lives as long
        return session
    return tf.Session(graph=graph, config=config)


def run_at_once(
    session: tf.Session, fetches: Any, feeds: Iterable[Dict], runs: int
) -> Iterator[Any]:
    """Yield the values of `fetches` for each of `feeds`, in their order.

    Up to `runs` are in progress at once, each in a thread of its own. This uses several
    cores where a single operation is too small to use more than one.

    Args:
      session: what `make_session` returned, with as many `runs`.
      fetches: what `session.run` takes.
      feeds: what each run is fed.
      runs: how many runs at once.
    """
    free = queue.Queue()
    for pool in range(runs):
        free.put(pool)

    def run(feed):
        pool = free.get()
        try:
            return session.run(
                fetches, feed, options=tf.RunOptions(inter_op_thread_pool=pool)
            )
        finally:
            free.put(pool)

    with concurrent.futures.ThreadPoolExecutor(runs) as executor:
        yield from executor.map(run, feeds)


def refuse_impossible(hp) -> None:
    """Raise ValueError for settings that this TensorFlow or machine cannot satisfy."""
    training_devices(hp)
    if hp.precision != "float32":
        rewriting_to(hp.precision)
    built = getattr(tf.test, "is_built_with_xla", None)  # TensorFlow 1.15 always is
    if hp.xla and built and not built():
        raise ValueError(
            "xla: found True, wanted False: this TensorFlow was built without XLA"
        )


def compilation(hp) -> ContextManager:
    """Return a scope; with `hp.xla`, XLA compiles the ops that are made in it."""
    if hp.xla:
        return tf.xla.experimental.jit_scope()
    return contextlib.nullcontext()
