"""Sums over the workers of a training run, with TensorFlow's collective operations.

These are the operations of `tf.distribute.MultiWorkerMirroredStrategy`. The strategy
itself sums in an order of its own, and has variables that our checkpoints do not
contain; here, each worker has the graph of a single process, and applies the same
update to its own variables.

On GPUs, the operations use NCCL; elsewhere, they use a ring over gRPC.
"""

import re
from typing import List, Optional, Sequence

import tensorflow.compat.v1 as tf

from transformer.runtime.errors import SettingsError
from transformer.runtime.sessions import Session
from transformer.runtime.versions import IS_TENSORFLOW_1
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
MAX_ATTEMPTS = 6  # at a run that the server refuses with this error

PACK_BYTES = 50 * 10**6  # of gradients summed in one operation
FLOAT_BYTES = 4
START_TIMEOUT = 600.0  # seconds within which the chief's variables must arrive


def refuse_old_tensorflow(cluster: Optional[Cluster]) -> None:
    """Raise SettingsError if this TensorFlow cannot train with several workers."""
    if cluster and IS_TENSORFLOW_1:
        raise SettingsError(
            "TF_CONFIG: expected TensorFlow 2 for more than one worker, got "
            f"{cluster.size} workers and TensorFlow {tf.__version__}; start one "
            "worker, or unset TF_CONFIG"
        )


def make_cluster_session(
    cluster: Cluster, graph: Optional[tf.Graph], config: tf.ConfigProto
) -> tf.Session:
    """Make a session that computes together with the other workers' sessions.

    Args:
      cluster: the workers.
      graph: the graph to run; None: the default one.
      config: the configuration of the session; what the workers need is added to it.

    Raises:
      SettingsError: the port of this worker is in use.
    """
    config.isolate_session_state = True
    config.device_filters.append(f"/job:worker/task:{cluster.index}")
    config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
    config.experimental.collective_nccl = True
    jobs = {"worker": cluster.addresses}
    try:
        server = tf.train.Server(jobs, "worker", cluster.index, config=config)
    except FAILURES as error:
        raise SettingsError(
            f"{cluster.name(cluster.index)}: expected a free port, got one on which "
            f"TensorFlow cannot listen ({error.message}); choose another in TF_CONFIG"
        ) from error
    return ClusterSession(server, graph, config)


class ClusterSession(Session):
    """A session that repeats a run which TensorFlow's server refused as received twice.

    This happened in 5 of 237,011 runs: the server identifies runs by random 32-bit
    numbers. It refuses a run before anything is computed, and accepts it under another
    number. (It may also refuse messages within a run. Then the run fails, and the
    training run ends: see `Team.compute`.)

    Args:
      server: TensorFlow's server of this worker; it lives as long as the session.
      graph, config: as for `tf.Session`.
    """

    def __init__(self, server, graph: Optional[tf.Graph], config: tf.ConfigProto):
        super().__init__(server.target, graph, config)
        self._server = server

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        """Run the graph, like `tf.Session.run`."""
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                return super().run(fetches, feed_dict, options, run_metadata)
            except tf.errors.AbortedError as error:
                is_refused = RECEIVED_TWICE.search(error.message)
                if attempt == MAX_ATTEMPTS or not is_refused:
                    raise


class Exchange:
    """Makes collective operations in the current graph: they combine workers' tensors.

    Every worker must make the same operations in the same order.

    Args:
      cluster: the workers.
    """

    def __init__(self, cluster: Cluster):
        self.cluster = cluster
        self._last_key = 0  # each collective operation in a graph has its own key

    def all_reduce(
        self, tensors: Sequence[tf.Tensor], timeout: float = 0.0
    ) -> List[tf.Tensor]:
        """Sum each tensor over the workers.

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
        for pack in make_packs(sizes):
            members = [tensors[i] for i in pack]
            row = _join(members)
            with tf.control_dependencies(previous):
                total = tf.raw_ops.CollectiveReduce(
                    input=row,
                    merge_op="Add",
                    final_op="Id",
                    subdiv_offsets=[0],
                    timeout_seconds=timeout,
                    **self._group(),
                )
            previous = [total]
            for i, member_total in zip(pack, _split(total, members)):
                totals[i] = member_total
        return totals

    def all_gather(self, tensors: Sequence[tf.Tensor]) -> List[List[tf.Tensor]]:
        """Collect the tensors of each worker, in the order of the workers.

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

    def broadcast(self, variables: Sequence[tf.Variable]) -> tf.Operation:
        """Make the operation that sets variables to their values on the chief."""
        values = [variable.read_value() for variable in variables]
        if self.cluster.index:
            values = [tf.zeros_like(value) for value in values]
        # A timeout only helps here, where all workers are ready. Later, a worker may
        # have to wait as long as the chief evaluates: see `workers/team.py`.
        received = self.all_reduce(values, timeout=START_TIMEOUT)
        return tf.group(
            *[
                tf.assign(variable, value)
                for variable, value in zip(variables, received)
            ]
        )

    def _group(self):
        """Make the attributes of a collective operation of all workers."""
        self._last_key += 1
        return {
            "group_size": self.cluster.size,
            "group_key": 1,
            "instance_key": self._last_key,
            "communication_hint": "nccl",
        }


def make_packs(sizes: Sequence[int], limit: int = PACK_BYTES) -> List[List[int]]:
    """Choose which tensors are summed in one operation, the last tensors first.

    Args:
      sizes: the size of each tensor in bytes.
      limit: the largest size of a pack in bytes; a larger tensor is a pack of its own.

    Returns:
      Lists of indices, descending.
    """
    packs: List[List[int]] = []
    used = 0
    for index in reversed(range(len(sizes))):
        if not packs or used + sizes[index] > limit:
            packs.append([])
            used = 0
        packs[-1].append(index)
        used += sizes[index]
    return packs


def _join(tensors):
    """Join the numbers of all tensors in one row: float32 [numbers]."""
    return tf.concat([tf.reshape(x, [-1]) for x in tensors], 0)


def _split(row, tensors):
    """Split the first numbers of a row into tensors with the shapes of others."""
    sizes = [x.shape.num_elements() for x in tensors]
    members = tf.split(row[: sum(sizes)], sizes)
    return [tf.reshape(member, x.shape) for member, x in zip(members, tensors)]
