"""Read the scalars a training run logged, without steps that were trained again.

A process writes an events file of its own. What it logged after the checkpoint from
which the next process continued was trained anew, and counts no more.
"""

import glob
import os
import struct
from typing import Dict, List, NamedTuple, Tuple

import tensorflow.compat.v1 as tf

from transformer.runtime.events import read_events

FRAME = 16  # bytes of a record beside its content: length, two checksums
LARGEST = 1 << 20  # a record of ours is far smaller


class Logged(NamedTuple):
    """What was logged at a step: means and numbers of the updates up to it."""

    step: int
    begins: Tuple[int, ...]  # after which of these steps the mean may begin
    values: Dict[str, float]  # tag → float32


class Records(NamedTuple):
    """The scalars of a log directory."""

    updates: List[Logged]  # with a loss, by step
    dev: Dict[int, Dict[str, float]]  # step → tag → float32, of evaluations
    replaced: int  # how many were logged of steps that were trained anew
    damaged: List[str]  # files whose content does not have its checksum


def read_records(logdir: str, segments: List[Dict]) -> Records:
    """Return what the events files of a log directory hold.

    Args:
      logdir: the log directory.
      segments: what `history.read_run` returned.
    """
    pattern = os.path.join(glob.escape(logdir), "events.out.tfevents.*")
    updates, dev, replaced, damaged = {}, {}, 0, []
    for path in sorted(glob.glob(pattern)):
        if _is_damaged(path):
            damaged.append(os.path.basename(path))
        first = True
        for step, values in read_events(path):
            if "dev/loss" in values:
                dev[step] = values
            if "loss" in values:
                stale = [each for each in updates if first and each >= step]
                replaced += len(stale)
                for each in stale:
                    del updates[each]
                begins = _begins(step, first, segments)
                updates[step] = Logged(step, begins, values)
                first = False
    ordered = [updates[step] for step in sorted(updates)]
    return Records(ordered, dev, replaced, damaged)


def segment_of(step: int, segments: List[Dict]) -> Dict:
    """Return the segment in which an update, numbered from 1, was made."""
    return [row for row in segments if row["step"] < step or row is segments[0]][-1]


def missing(records: Records, segments: List[Dict], last: int) -> List[int]:
    """Return the steps up to `last` that should have been logged, and were not."""
    logged = {each.step for each in records.updates}
    every = [
        segment_of(step, segments)["settings"]["log_every"]
        for step in range(1, last + 1)
    ]
    return [
        step
        for step, each in enumerate(every, 1)
        if step % each == 0 and step > segments[0]["step"] and step not in logged
    ]


def _begins(step, first, segments):
    """Return after which steps the mean that is logged at a step may begin.

    It covers the updates since the step logged before. For the first one of a process
    the start is not recorded: all that are possible are returned.
    """
    segment = segment_of(step, segments)
    every = segment["settings"]["log_every"]
    earliest = max((step - 1) // every * every, segment["step"])
    return tuple(range(earliest, step)) if first else (earliest,)


def _is_damaged(path: str) -> bool:
    """Return whether a file goes on behind its last record that can be read.

    A truncated last record is no damage: the process was killed while it wrote it.
    """
    read = 0
    try:
        for record in tf.io.tf_record_iterator(path):
            read += len(record) + FRAME
    except tf.errors.DataLossError:
        pass
    with open(path, "rb") as file:
        file.seek(read)
        rest = file.read(LARGEST + FRAME)
    if len(rest) < FRAME - 4:
        return False
    [length] = struct.unpack("<Q", rest[:8])
    return length > LARGEST or length + FRAME <= len(rest)
