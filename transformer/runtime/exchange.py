"""What workers compute together: sums of all, by collective operations.

These are what `tf.distribute.MultiWorkerMirroredStrategy` reduces with. The strategy
itself would add up in an order of its own, and keeps variables that checkpoints,
diagnosis and verification do not know; here each worker has the graph of a process
alone, and applies the same update to variables of its own.

On one device all numbers go as one array: collective operations wait for each other,
and many of them, started in different orders, could wait for ever.
"""

import functools
import re
import zlib
from typing import Callable, Dict, List, Sequence

import numpy as np
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

# What TensorFlow's server says of a run that it takes for another one.
REFUSED = re.compile(r"(?<!aborted by: )The same RunGraph .*was received twice")
REFUSALS = 5  # in a row, of one run


def refuse_impossible_workers(hp, cluster: Cluster, devices: int) -> None:
    """Raise ValueError where this TensorFlow or the shards do not suffice.

    Args:
      hp: the settings.
      cluster: the workers.
      devices: how many of each compute.
    """
    if not hasattr(tf.compat, "v2"):
        raise ValueError(
            f"TF_CONFIG: found {cluster.size} workers and TensorFlow {tf.__version__}, "
            "wanted TensorFlow 2 for more than one; unset TF_CONFIG"
        )
    if 0 < hp.shards < cluster.size * devices:
        raise ValueError(
            f"TF_CONFIG: found {cluster.size} workers of {devices} devices, wanted at "
            f"most shards = {hp.shards} devices: each batch is cut into so many; name "
            f"fewer workers, or --shards {cluster.size * devices} or more, with which "
            "dropout is another from here on"
        )


def serve(cluster: Cluster, config: tf.ConfigProto) -> tf.train.Server:
    """Start the server by which workers compute together; it ends with the process.

    Args:
      cluster: the workers.
      config: of the session that will use it; set up here for that.

    Raises:
      ValueError: the port of this worker is in use.
    """
    config.isolate_session_state = True
    config.device_filters.append(f"/job:worker/task:{cluster.index}")
    config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
    jobs = {"worker": cluster.addresses}
    try:
        return tf.train.Server(jobs, "worker", cluster.index, config=config)
    except FAILURES as error:
        raise ValueError(
            f"{cluster.name(cluster.index)}: found that TensorFlow cannot listen there "
            f"({error.message}), wanted a free port; choose another one in TF_CONFIG"
        ) from error


def again_if_refused(run: Callable) -> Callable:
    """Wrap `Session.run`: make a run again that the server refused as received twice.

    That was seen in 5 of 237,011 runs: the server takes a run for one that it had
    before, as random numbers of 32 bits would explain. It refuses before anything is
    computed; under another number the run is taken. (It may refuse what is sent within
    a run, too. That ends the run in the middle, and every later one: see `Team`.)
    """

    @functools.wraps(run)
    def repeated(fetches, feed_dict=None, options=None, run_metadata=None):
        for _ in range(REFUSALS):
            try:
                return run(fetches, feed_dict, options, run_metadata)
            except tf.errors.AbortedError as error:
                if not REFUSED.search(error.message):
                    raise
        return run(fetches, feed_dict, options, run_metadata)

    return repeated


class Exchange:
    """The sums of all workers in the current graph.

    Args:
      cluster: the workers; all must make the same graph.
      device: the one that adds up.
    """

    def __init__(self, cluster: Cluster, device: str = ""):
        self.cluster, self._device, self._made = cluster, device, 0
        self.numbers = 0  # float32 ones that a run exchanges, of all that was made

    def sums(self, tensors: Sequence[tf.Tensor]) -> List[tf.Tensor]:
        """Return the sum over the workers of each tensor.

        Args:
          tensors: float32 tensors of static shapes.
        """
        with tf.device(self._device):
            joined = _joined(tensors)
            self.numbers += int(joined.shape[0])
            total = tf.raw_ops.CollectiveReduce(
                input=joined,
                merge_op="Add",
                final_op="Id",
                subdiv_offsets=[0],
                group_size=self.cluster.size,
                group_key=1,
                instance_key=self._new_key(),
            )
            return _parted(total, tensors)

    def all(self, lists: Sequence[Sequence[tf.Tensor]]) -> List[List[tf.Tensor]]:
        """Return the lists of all workers, the first worker's first.

        Args:
          lists: as many lists of tensors on each worker; of each list, the tensors have
            the same static shapes, and are float32.
        """
        with tf.device(self._device):
            # Behind each, where it belongs: TensorFlow chooses the order of workers.
            first = self.cluster.index * len(lists)
            rows = [
                _joined([*tensors, tf.constant([first + i], tf.float32)])
                for i, tensors in enumerate(lists)
            ]
            rows = tf.stack(rows)  # [lists, numbers + 1]
            count = self.cluster.size * len(lists)
            self.numbers += count * int(rows.shape[1])
            gathered = tf.raw_ops.CollectiveGather(
                input=rows,
                shape=[count, int(rows.shape[1])],
                group_size=self.cluster.size,
                group_key=1,
                instance_key=self._new_key(),
            )
            place = tf.cast(tf.argsort(gathered[:, -1]), tf.int32)
            return [_parted(gathered[place[i]], lists[0]) for i in range(count)]

    def of_the_chief(self, variables: Sequence[tf.Variable]) -> tf.Operation:
        """Return an op that gives variables the values that they have on the chief."""
        values = [variable.read_value() for variable in variables]
        if self.cluster.index:
            values = [tf.zeros_like(value) for value in values]
        pairs = zip(variables, self.sums(values))
        return tf.group(*[tf.assign(variable, value) for variable, value in pairs])

    def _new_key(self):
        self._made += 1
        return self._made


def _joined(tensors):
    """Return the numbers of all tensors in a row: float32 [numbers]."""
    return tf.concat([tf.reshape(x, [-1]) for x in tensors], 0)


def _parted(numbers, tensors):
    """Return numbers in a row as tensors of the shapes of others."""
    sizes = [x.shape.num_elements() for x in tensors]
    parts = tf.split(numbers[: sum(sizes)], sizes)
    return [tf.reshape(part, x.shape) for part, x in zip(parts, tensors)]


def checksums(session: tf.Session, variables: Sequence[tf.Variable]) -> Dict[str, int]:
    """Return the CRC-32 of each variable, by its name."""
    return {
        variable.op.name: zlib.crc32(np.asarray(session.run(variable)).tobytes())
        for variable in variables
    }
