"""The one place where a session is opened: what it is told about the machine."""
import ctypes
from typing import Optional

import tensorflow.compat.v1 as tf


# Parameters of glibc's mallopt, by their numbers in malloc.h.
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3


def make_session(hp, graph: Optional[tf.Graph] = None) -> tf.Session:
    """A session of `graph`, or of the default one, set up by the machine settings.

    `hp.deterministic` makes two runs of one command equal to the last bit. One thread
    runs one op at a time, so that no sum depends on who comes first or on the number of
    cores. Of a GPU, only kernels are used that promise the same (TensorFlow 2; 1.15 has
    no such promise). It holds for one build of TensorFlow on one kind of processor: the
    vector instructions of another round otherwise.
    """
    keep_freed_memory()
    # One op at a time, each by all threads: ops are too small to share them.
    config = tf.ConfigProto(inter_op_parallelism_threads=1)
    if hp.deterministic:
        config.intra_op_parallelism_threads = 1
        if hasattr(tf.config.experimental, "enable_op_determinism"):
            tf.config.experimental.enable_op_determinism()
    return tf.Session(graph=graph, config=config)


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
