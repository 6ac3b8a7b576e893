"""Cut the batches of a run into shards, and deal these to devices.

    shards = Shards(plan, count=8, devices=3)
    shards.rounds       # 3: the shards of a batch are dealt in three rounds
    shards.dealt(4)     # the second round of batch 1: its shards 3, 4 and 5

What a shard is, and its number, depend on the batch alone, never on the devices: with
another number of devices the same shards are computed in other rounds.
"""

from typing import List, NamedTuple, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.data import Batch, BatchPlan, Corpus, dataset_of

AT_LEAST = 8  # shards of a batch where several devices share it: divided by 1, 2, 4, 8
APART = 2**40  # between the numbers of two shards of a batch; more than any run has


class Shard(NamedTuple):
    """A part of a batch."""

    pairs: np.ndarray  # int64 [N], N may be 0
    number: int  # that of its batch plus APART for each shard before it


def chosen_count(count: int, devices: int) -> int:
    """Return into how many shards a batch is cut.

    Args:
      count: the setting `shards`; 0: one on one device, else as many as the devices,
        and AT_LEAST.
      devices: how many there are.
    """
    return count or (max(AT_LEAST, devices) if devices > 1 else 1)


class Shards:
    """The shards of every batch of a run, dealt in rounds: one to each device.

    The shards of a batch have as many pairs each, give or take one; a batch of fewer
    pairs has empty ones. In the last round of a batch some devices may get none.

    Args:
      plan: which pairs make a batch.
      count: shards of a batch.
      devices: of each worker; a round has a shard for each device of all workers.
      workers: how many processes compute.
      worker: which of them this is.
    """

    def __init__(
        self,
        plan: BatchPlan,
        count: int = 1,
        devices: int = 1,
        workers: int = 1,
        worker: int = 0,
    ):
        self.plan, self.count, self.devices = plan, count, devices
        self.workers, self.worker = workers, worker
        self.rounds = -(-count // (devices * workers))  # of a batch

    def __str__(self) -> str:
        of_each = f" of each of {self.workers} workers" if self.workers > 1 else ""
        return (
            f"each batch is cut into {self.count} shards, computed in {self.rounds} "
            f"rounds on {self.devices} devices{of_each}"
        )

    def dealt(self, number: int) -> List[Shard]:
        """Return the shards of a round of the run, one for each device of a worker."""
        k, place = divmod(int(number), self.rounds)
        pairs = self.plan.batch(k)
        first = (place * self.workers + self.worker) * self.devices
        return [
            Shard(pairs[self._bounds(shard, len(pairs))], k + shard * APART)
            for shard in range(first, first + self.devices)
        ]

    def _bounds(self, shard: int, size: int) -> slice:
        """Return where a shard of a batch of `size` pairs begins and ends.

        Rounded up, so that the first shard, and with it the first round, has a pair.
        """
        return slice(
            *(-(-min(i, self.count) * size // self.count) for i in (shard, shard + 1))
        )

    def batches(self, corpus: Corpus, number: int) -> List[Batch]:
        """Return the shards of a round as Batches of arrays."""
        return [corpus.batch(*shard) for shard in self.dealt(number)]


def training_dataset(corpus: Corpus, shards: Shards, start: int) -> tf.data.Dataset:
    """Return the rounds of an unlimited training run, from batch `start` on.

    The same `start` gives the same shards, independent of what was trained before.

    Returns:
      A dataset of a tuple of `Batch`, one for each device.
    """
    numbers = tf.data.Dataset.range(start * shards.rounds, np.iinfo(np.int64).max)
    return dataset_of(
        numbers, lambda number: shards.batches(corpus, number), shards.devices
    )


def prefetched(batch: Batch, device: str) -> Tuple[Batch, List[tf.Operation]]:
    """Copy the batches of a device there one round ahead.

    Args:
      batch: of the next round.
      device: its name.

    Returns:
      (the batch of the current round, ops that take the next one). These must run once
      before the first round, and in each run that uses a round.
    """
    with tf.device(device):
        ids, take = _queued(batch[:-1], "batch" + device)
    with tf.device("/cpu:0"):  # which makes seeds of it
        [number], take_number = _queued(batch[-1:], "number" + device)
    return Batch(*ids, number), [take, take_number]


def _queued(tensors, name):
    """Return tensors from a queue in the device's memory, and the op that fills it."""
    add = tf.raw_ops.Stage(values=tensors, shared_name=name)
    taken = tf.raw_ops.Unstage(dtypes=[x.dtype for x in tensors], shared_name=name)
    for tensor, given in zip(taken, tensors):
        tensor.set_shape(given.shape)
    return taken, add
