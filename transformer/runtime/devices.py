"""Find the devices of this machine.

One device trains: a batch is never split over several. `--accumulate` adds the
gradients of several batches where a larger one does not fit into memory.
"""

import os

import tensorflow.compat.v1 as tf


def has_gpu() -> bool:
    """Return whether TensorFlow sees a GPU."""
    return bool(tf.config.experimental.list_physical_devices("GPU"))


def cores() -> int:
    """Return how many cores of the CPU this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
