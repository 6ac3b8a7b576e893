"""Sums over the workers of a training run, with TensorFlow's collective operations.

These are the operations of `tf.distribute.MultiWorkerMirroredStrategy`. The strategy
itself sums in an order of its own, and has variables that our checkpoints do not
contain; here, each worker has the graph of a single process, and applies the same
update to its own variables.

On GPUs, the operations use NCCL; elsewhere, they use a ring over gRPC.
"""

import functools
import re
from typing import Callable, List, Optional, Sequence

import tensorflow.compat.v1 as tf

from transformer.workers.cluster import Cluster

# What TensorFlow raises if another worker is gone.
FAILURES = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.InternalError,
    tf.errors.DeadlineExceededError,
    tf.errors.UnknownError,
)

# The error of TensorFlow's server for a run that it mistakes for an earlier one.
RECEIVED_TWICE = re.compile(r"(?<!aborted by: )The same RunGraph .*was received twice")
ATTEMPTS = 6  # at a run that the server refuses with this error

PACK_BYTES = 50 * 10**6  # of gradients summed in one operation
FLOAT_BYTES = 4
START_TIMEOUT = 600.0  # seconds within which the chief's variables must arrive


def refuse_old_tensorflow(cluster: Optional[Cluster]) -> None:
    """Raise ValueError if this TensorFlow cannot train with several workers."""
    if cluster and not hasattr(tf.compat, "v2"):
        raise ValueError(
            "TF_CONFIG: expected TensorFlow 2 for more than one worker, got "
            f"{cluster.size} workers and TensorFlow {tf.__version__}; use --workers 1, "
            "or unset TF_CONFIG"
        )


def make_cluster_session(
    cluster: Cluster, graph: Optional[tf.Graph], config: tf.ConfigProto
) -> tf.Session:
    """Return a session that computes together with the other workers' sessions.

    Args:
      cluster: the workers.
      graph: the graph to run; None: the default one.
      config: the configuration of the session; what the workers need is added to it.

    Raises:
      ValueError: the port of this worker is in use.
    """
    config.isolate_session_state = True
    config.device_filters.append(f"/job:worker/task:{cluster.index}")
    config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
    config.experimental.collective_nccl = True
    jobs = {"worker": cluster.addresses}
    try:
        server = tf.train.Server(jobs, "worker", cluster.index, config=config)
    except FAILURES as error:
        raise ValueError(
            f"{cluster.name(cluster.index)}: expected a free port, got one on which "
            f"TensorFlow cannot listen ({error.message}); choose another in TF_CONFIG"
        ) from error
    session = tf.Session(server.target, graph, config)
    session.server = server  # keeps the server alive as long as the session
    session.run = retried(session.run)
    return session


def retried(run: Callable) -> Callable:
    """Wrap `Session.run`: repeat a run that the server refused as received twice.

    This happened in 5 of 237,011 runs: the server identifies runs by random 32-bit
    numbers. It refuses a run before anything is computed, and accepts it under another
    number. (It may also refuse messages within a run. Then the run fails, and the
    training run ends: see `Team.compute`.)
    """

    @functools.wraps(run)
    def repeated(fetches, feed_dict=None, options=None, run_metadata=None):
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return run(fetches, feed_dict, options, run_metadata)
            except tf.errors.AbortedError as error:
                if attempt == ATTEMPTS or not RECEIVED_TWICE.search(error.message):
                    raise

    return repeated


class Exchange:
    """Makes ops in the current graph that combine the tensors of all workers.

    Every worker must make the same ops in the same order.

    Args:
      cluster: the workers.
    """

    def __init__(self, cluster: Cluster):
        self.cluster = cluster
        self._last_key = 0  # each collective operation in a graph has its own key

    def sums(
        self, tensors: Sequence[tf.Tensor], timeout: float = 0.0
    ) -> List[tf.Tensor]:
        """Return the sum over the workers of each tensor.

        The last tensors are summed first. If the tensors are gradients in the order of
        the variables, the last ones are computed first, so the workers exchange the
        sums for the last layers while they still compute the gradients for the first
        layers. Each operation waits for the previous one: collective operations that
        start in different orders on different workers could wait for each other
        forever.

        Args:
          tensors: float32 tensors of static shapes.
          timeout: seconds after which an operation fails; 0: it waits forever.
        """
        totals = [None] * len(tensors)
        previous: List[tf.Tensor] = []
        sizes = [FLOAT_BYTES * tensor.shape.num_elements() for tensor in tensors]
        for pack in packs(sizes):
            members = [tensors[i] for i in pack]
            joined = _join(members)
            with tf.control_dependencies(previous):
                total = tf.raw_ops.CollectiveReduce(
                    input=joined,
                    merge_op="Add",
                    final_op="Id",
                    subdiv_offsets=[0],
                    timeout_seconds=timeout,
                    **self._group(),
                )
            previous = [total]
            for i, part in zip(pack, _split(total, members)):
                totals[i] = part
        return totals

    def all(self, tensors: Sequence[tf.Tensor]) -> List[List[tf.Tensor]]:
        """Return the tensors of each worker, in the order of the workers.

        Args:
          tensors: float32 tensors, of the same static shapes on each worker.
        """
        # The worker's index is sent with its numbers, because TensorFlow chooses the
        # order.
        row = _join([*tensors, tf.constant(self.cluster.index, tf.float32)])
        rows = tf.raw_ops.CollectiveGather(
            input=row[None],
            shape=[self.cluster.size, int(row.shape[0])],
            **self._group(),
        )  # [workers, numbers + 1]
        order = tf.cast(tf.argsort(rows[:, -1]), tf.int32)
        return [
            _split(rows[order[worker]], tensors) for worker in range(self.cluster.size)
        ]

    def copy_from_chief(self, variables: Sequence[tf.Variable]) -> tf.Operation:
        """Return an op that sets variables to their values on the chief."""
        values = [variable.read_value() for variable in variables]
        if self.cluster.index:
            values = [tf.zeros_like(value) for value in values]
        # A timeout only helps here, where all workers are ready. Later, a worker may
        # have to wait as long as the chief evaluates: see `runtime/workers.py`.
        received = self.sums(values, timeout=START_TIMEOUT)
        return tf.group(
            *[
                tf.assign(variable, value)
                for variable, value in zip(variables, received)
            ]
        )

    def _group(self):
        """Return the attributes for a collective operation of all workers."""
        self._last_key += 1
        return {
            "group_size": self.cluster.size,
            "group_key": 1,
            "instance_key": self._last_key,
            "communication_hint": "nccl",
        }


def packs(sizes: Sequence[int], most: int = PACK_BYTES) -> List[List[int]]:
    """Return which tensors are summed in one operation, the last tensors first.

    Args:
      sizes: the size of each tensor in bytes.
      most: the largest size of a pack in bytes; a larger tensor is a pack of its own.

    Returns:
      Lists of indices, descending.
    """
    found: List[List[int]] = []
    used = 0
    for index in reversed(range(len(sizes))):
        if not found or used + sizes[index] > most:
            found.append([])
            used = 0
        found[-1].append(index)
        used += sizes[index]
    return found


def _join(tensors):
    """Return the numbers of all tensors as one row: float32 [numbers]."""
    return tf.concat([tf.reshape(x, [-1]) for x in tensors], 0)


def _split(numbers, tensors):
    """Return the first numbers of a row as tensors with the shapes of other tensors."""
    sizes = [x.shape.num_elements() for x in tensors]
    parts = tf.split(numbers[: sum(sizes)], sizes)
    return [tf.reshape(part, x.shape) for part, x in zip(parts, tensors)]
