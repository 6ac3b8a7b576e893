"""Sessions set up by the settings of the machine, and several runs at once in one."""

import concurrent.futures
import contextlib
import queue
from typing import (
    Any,
    ContextManager,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    Sequence,
)

import tensorflow.compat.v1 as tf

from transformer.runtime.cluster import Cluster
from transformer.runtime.devices import (
    cores,
    device_names,
    has_gpu,
    set_up_devices,
    training_devices,
)
from transformer.runtime.exchange import again_if_refused, serve
from transformer.runtime.precision import compute_type

MOST_AT_ONCE = 4  # batches of a session: each needs its own memory


def set_up_process(hp) -> None:
    """Prepare TensorFlow for the settings; call it before a graph is made.

    TensorFlow starts its threads when it first runs a function, in tf.data for example.
    Their number cannot be changed afterwards: threads that run already stay.
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
      runs: how many runs there may be at once; see `run_at_once`.
      sequential: run operations one by one, and loops as functions, which TensorFlow
        does not rewrite for oneDNN. That is faster where operations are so small that
        starting them takes longer. Ignored on a GPU and on TensorFlow 1.15.
      cluster: the workers that compute together; None: this process alone.
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
    if cluster:
        server = serve(cluster, config)
        session = tf.Session(server.target, graph, config)
        session.server = server  # which lives as long
        session.run = again_if_refused(session.run)
        return session
    return tf.Session(graph=graph, config=config)


def batches_at_once(hp) -> int:
    """Return how many batches a session translates at once: one for each core.

    One after the other on a GPU and on each of several devices, and where the order of
    threads must not matter.
    """
    alone = hp.deterministic or has_gpu() or len(device_names(hp.devices)) > 1
    return 1 if alone else min(MOST_AT_ONCE, cores())


def sessions_of(
    hp, graph: tf.Graph, names: Sequence[str], runs: int
) -> List[tf.Session]:
    """Return a session for each device: variables of its own, the names of a graph.

    Args:
      hp: the settings.
      graph: made for the first device; the others have copies of it.
      names: the devices.
      runs: as in `make_session`.
    """
    graphs = [graph] + [_copied(graph, name) for name in names[1:]]
    # What is run in a fixed order would wait for itself where it begins elsewhere.
    alone = hp.decode_batch_size == 1 and len(names) == 1
    return [make_session(hp, each, runs=runs, sequential=alone) for each in graphs]


def _copied(graph, device):
    """Return a copy of a graph, and of its functions, on another device."""
    content = graph.as_graph_def()
    functions = [function.node_def for function in content.library.function]
    for nodes in [content.node, *functions]:
        for node in nodes:
            node.device = ""
    with tf.Graph().as_default() as copy, tf.device(device):
        tf.import_graph_def(content, name="")
    return copy


def run_at_once(
    sessions: Sequence[tf.Session], fetches: Any, feeds: Iterable[Dict], runs: int
) -> Iterator[Any]:
    """Yield the values of `fetches` for each of `feeds`, in their order.

    Up to `runs` are in progress at once in each session, each in a thread of its own:
    on several devices, or on several cores where a single operation is too small to
    use more than one.

    Args:
      sessions: what `sessions_of` returned, with as many `runs`.
      fetches: a nest of tensors of the first one's graph.
      feeds: what each run is fed: tensors of the same graph → values.
      runs: how many runs at once.
    """
    names = tf.nest.map_structure(lambda tensor: tensor.name, fetches)
    free = queue.Queue()
    for pool in range(runs):
        for session in sessions:
            free.put((session, pool))

    def run(feed):
        session, pool = place = free.get()
        try:
            return session.run(
                names,
                {tensor.name: value for tensor, value in feed.items()},
                options=tf.RunOptions(inter_op_thread_pool=pool),
            )
        finally:
            free.put(place)

    with concurrent.futures.ThreadPoolExecutor(runs * len(sessions)) as executor:
        yield from executor.map(run, feeds)


def refuse_impossible(hp) -> None:
    """Raise ValueError for settings that this TensorFlow or machine cannot satisfy."""
    training_devices(hp)
    compute_type(hp)
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
