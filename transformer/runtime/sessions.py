"""The one place where a session is opened: what it is told about the machine."""

import concurrent.futures
import contextlib
import ctypes
import os
import queue
import re
from typing import ContextManager, Iterable, Iterator, Optional

import tensorflow.compat.v1 as tf

PRECISIONS = ("float32", "bfloat16", "float16")

# (precision, device) → the graph rewriting of TensorFlow that computes so whatever
# loses little by it: matrix products above all, and what stands between them, softmax
# too. Variables, what changes them, normalization and the sums of losses stay float32.
# There is no other way to less than float32.
REWRITINGS = {
    ("bfloat16", "CPU"): "auto_mixed_precision_onednn_bfloat16",
    ("float16", "GPU"): "auto_mixed_precision",
}

# Parameters of glibc's mallopt, by their numbers in malloc.h.
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
ON = 1  # of RewriterConfig.Toggle


def make_session(
    hp,
    graph: Optional[tf.Graph] = None,
    precision: str = "float32",
    runs: int = 1,
    sequential: bool = False,
) -> tf.Session:
    """A session of `graph`, or of the default one, set up by the machine settings.

    Args:
      hp: the settings.
      graph: what is to be run.
      precision: of the matrix products, one of `PRECISIONS`.
      runs: how many runs there may be at once; see `run_at_once`.
      sequential: the operations of a run are so small that what comes between them
        matters most. They are run in a fixed order, and loops as functions, which
        TensorFlow does not rewrite for oneDNN: a call of it costs more than they do.
        On a CPU, and where loops can be functions (TensorFlow 2); else nothing changes.

    Raises:
      ValueError: see `rewriting_to`.

    `hp.deterministic` makes two runs of one command equal to the last bit. One thread
    runs one op at a time, so that no sum depends on who comes first or on the number of
    cores. Of a GPU, only kernels are used that promise the same (TensorFlow 2; 1.15 has
    no such promise). It holds for one build of TensorFlow on one kind of processor: the
    vector instructions of another round otherwise.
    """
    keep_freed_memory()
    # In each run one op at a time, by all threads: two at once would share them.
    config = tf.ConfigProto(inter_op_parallelism_threads=1)
    for _ in range(runs):
        config.session_inter_op_thread_pool.add(num_threads=1)
    if hp.deterministic:
        config.intra_op_parallelism_threads = 1
        if hasattr(tf.config.experimental, "enable_op_determinism"):
            tf.config.experimental.enable_op_determinism()
    if sequential and tf.control_flow_v2_enabled() and not has_gpu():
        config.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"
    if precision != "float32":
        setattr(config.graph_options.rewrite_options, rewriting_to(precision), ON)
    return tf.Session(graph=graph, config=config)


def has_gpu() -> bool:
    """Whether TensorFlow sees a GPU."""
    return bool(tf.config.experimental.list_physical_devices("GPU"))


def cores() -> int:
    """How many cores of the CPU this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_at_once(
    session: tf.Session, fetches, feeds: Iterable[dict], runs: int
) -> Iterator:
    """Yields what `fetches` are for each of `feeds`, in their order.

    So many runs are under way at once, each with a thread of its own: where operations
    are too small for several cores, several runs are not.

    Args:
      session: one of `make_session`, with as many `runs`.
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


def refuse_impossible(hp):
    """Raises ValueError where TensorFlow, or the machine, cannot do as `hp` says."""
    if hp.precision != "float32":
        rewriting_to(hp.precision)
    built = getattr(tf.test, "is_built_with_xla", None)  # TensorFlow 1.15 always is
    if hp.xla and built and not built():
        raise ValueError(
            "xla: found True, wanted False: this TensorFlow was built without XLA"
        )


def rewriting_to(precision: str) -> str:
    """The option of TensorFlow's that rewrites a graph to a precision.

    Raises:
      ValueError: this TensorFlow, or this machine, has none.
    """
    device = "GPU" if has_gpu() else "CPU"
    name = REWRITINGS.get((precision, device))
    if not hasattr(tf.ConfigProto().graph_options.rewrite_options, str(name)):
        lacking = f"TensorFlow {tf.__version__} has no training in {precision}"
    elif device == "CPU" and cpu_lacks("avx512f"):
        lacking = "AVX-512, without which TensorFlow computes in float32, is not there"
    elif device == "CPU" and os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "0":
        lacking = "TF_ENABLE_ONEDNN_OPTS is 0, and only oneDNN has it"
    else:
        return name
    raise ValueError(
        f"precision: found {precision}, wanted float32: {lacking} on this {device}"
    )


def cpu_lacks(flag: str) -> bool:
    """Whether this is an x86 processor without such instructions, as Linux tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            flags = set(re.findall(r"\w+", file.read()))
    except OSError:
        return False
    return "sse2" in flags and flag not in flags


def compilation(hp) -> ContextManager:
    """A scope for the making of a graph; with `hp.xla`, XLA compiles what is made."""
    if hp.xla:
        return tf.xla.experimental.jit_scope()
    return contextlib.nullcontext()


def keep_freed_memory():
    """Lets the C library keep large freed blocks for the next allocation.

    It gives them back to the system, otherwise, and each step gets, and clears, its
    tensors' pages anew. Where the library is not glibc, this does nothing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(MMAP_THRESHOLD, 1 << 30)
        mallopt(TRIM_THRESHOLD, (1 << 31) - 1)
        mallopt(TOP_PAD, 1 << 26)
