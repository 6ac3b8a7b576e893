"""Sums over the workers of a training run, by TensorFlow's collective operations.

These are the operations of `tf.distribute.MultiWorkerMirroredStrategy`. The strategy
itself adds up in an order of its own and keeps variables that checkpoints do not know;
here each worker has the graph of a single process, and applies the same update to
variables of its own.

On GPUs the operations use NCCL, elsewhere a ring over gRPC.
"""

import functools
import re
from typing import Callable, List, Optional, Sequence

import tensorflow.compat.v1 as tf

from transformer.runtime.cluster import Cluster

# What TensorFlow raises where another worker is gone.
FAILURES = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.InternalError,
    tf.errors.DeadlineExceededError,
    tf.errors.UnknownError,
)

# What TensorFlow's server says of a run that it mistakes for an earlier one.
RECEIVED_TWICE = re.compile(r"(?<!aborted by: )The same RunGraph .*was received twice")
ATTEMPTS = 6  # to make a run that the server refused so

PACK_BYTES = 50 * 10**6  # of gradients that are added up in one operation
FLOAT_BYTES = 4
START_TIMEOUT = 600.0  # seconds in which the chief's variables must have arrived


def refuse_old_tensorflow(cluster: Optional[Cluster]) -> None:
    """Raise ValueError where this TensorFlow cannot train with several workers."""
    if cluster and not hasattr(tf.compat, "v2"):
        raise ValueError(
            "TF_CONFIG: expected TensorFlow 2 for more than one worker, got "
            f"{cluster.size} workers and TensorFlow {tf.__version__}; unset TF_CONFIG"
        )


def make_cluster_session(
    cluster: Cluster, graph: Optional[tf.Graph], config: tf.ConfigProto
) -> tf.Session:
    """Return a session that computes together with those of the other workers.

    Args:
      cluster: the workers.
      graph: the graph to run; None: the default one.
      config: of the session; what the workers need is added.

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
            f"{cluster.name(cluster.index)}: expected a free port, got that TensorFlow "
            f"cannot listen there ({error.message}); choose another one in TF_CONFIG"
        ) from error
    session = tf.Session(server.target, graph, config)
    session.server = server  # keeps the server as long as the session
    session.run = retried(session.run)
    return session


def retried(run: Callable) -> Callable:
    """Wrap `Session.run`: repeat a run that the server refused as received twice.

    That was seen in 5 of 237,011 runs: the server identifies runs by random numbers of
    32 bits. It refuses before anything is computed, and accepts the run under another
    number. (It may also refuse what is sent within a run. That fails the run; the
    training run then ends, see `Team.compute`.)
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
    """Makes ops in the current graph that combine tensors of all workers.

    Every worker must make the same ones, in the same order.

    Args:
      cluster: the workers.
    """

    def __init__(self, cluster: Cluster):
        self.cluster = cluster
        self._last_key = 0  # each collective operation of a graph has its own

    def sums(
        self, tensors: Sequence[tf.Tensor], timeout: float = 0.0
    ) -> List[tf.Tensor]:
        """Return the sum over the workers of each tensor.

        The last tensors are added up first: of gradients in the order of the variables,
        these are computed first, so the sums of the last layers are exchanged while the
        gradients of the first layers are still computed. One operation waits for the
        one before it. Collective operations that start in different orders on different
        workers could wait for each other for ever.

        Args:
          tensors: float32 tensors of static shapes.
          timeout: seconds after which an operation fails; 0: it waits.
        """
        totals = [None] * len(tensors)
        previous: List[tf.Tensor] = []
        for pack in packs([_size_of(tensor) for tensor in tensors]):
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
        # The worker's index goes with its numbers: TensorFlow chooses the order.
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
        """Return an op that gives variables the values that they have on the chief."""
        values = [variable.read_value() for variable in variables]
        if self.cluster.index:
            values = [tf.zeros_like(value) for value in values]
        # Only here a timeout helps: all workers are ready. Later, a worker may have to
        # wait for as long as the chief evaluates; see `runtime/workers.py`.
        received = self.sums(values, timeout=START_TIMEOUT)
        return tf.group(
            *[
                tf.assign(variable, value)
                for variable, value in zip(variables, received)
            ]
        )

    def _group(self):
        """Return the attributes of a collective operation of all workers."""
        self._last_key += 1
        return {
            "group_size": self.cluster.size,
            "group_key": 1,
            "instance_key": self._last_key,
            "communication_hint": "nccl",
        }


def packs(sizes: Sequence[int], most: int = PACK_BYTES) -> List[List[int]]:
    """Return which tensors are added up in one operation, the last tensors first.

    Args:
      sizes: the bytes of each tensor.
      most: the bytes of a pack; a larger tensor is a pack of its own.

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


def _size_of(tensor):
    """Return the bytes of a float32 tensor of static shape."""
    return FLOAT_BYTES * tensor.shape.num_elements()


def _join(tensors):
    """Return the numbers of all tensors in a row: float32 [numbers]."""
    return tf.concat([tf.reshape(x, [-1]) for x in tensors], 0)


def _split(numbers, tensors):
    """Return the first of the numbers in a row as tensors of the shapes of others."""
    sizes = [x.shape.num_elements() for x in tensors]
    parts = tf.split(numbers[: sum(sizes)], sizes)
    return [tf.reshape(part, x.shape) for part, x in zip(parts, tensors)]
