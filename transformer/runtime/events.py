"""The scalars that TensorBoard shows: written step by step, read back."""

import os
import socket
import time
from typing import Dict, Iterator, Tuple

import tensorflow.compat.v1 as tf


class Events:
    """Writes scalars into a log directory, into a new file for each process.

    Not a `tf.summary.FileWriter`: that writes in a thread, and TensorFlow 1.15 does not
    report what it cannot write.
    """

    def __init__(self, logdir: str):
        self._logdir, self._writer = logdir, None

    def write(self, step: int, values: Dict[str, float]) -> None:
        """Write the values of a step at once; OSError where that is not possible."""
        summary = tf.Summary(
            value=[
                tf.Summary.Value(tag=name, simple_value=value)
                for name, value in values.items()
            ]
        )
        try:
            if self._writer is None:
                self._writer = self._open()
            self._put(tf.Event(wall_time=time.time(), step=step, summary=summary))
        # TensorFlow raises IndexError for "File too large".
        except (tf.errors.OpError, IndexError) as error:
            self._writer = None  # after half a record nothing can be read
            raise OSError(f"events could not be written: {error}") from error

    def _open(self):
        """Return a writer of a new file, whose first record names the format."""
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}"
        self._writer = tf.io.TFRecordWriter(os.path.join(self._logdir, name))
        self._put(tf.Event(wall_time=time.time(), file_version="brain.Event:2"))
        return self._writer

    def _put(self, event) -> None:
        self._writer.write(event.SerializeToString())
        self._writer.flush()


def read_events(path: str) -> Iterator[Tuple[int, Dict[str, float]]]:
    """Yield (step, {name: value}) of a file of events, up to a record cut off."""
    try:
        for event in tf.train.summary_iterator(path):
            if event.HasField("summary"):
                yield (
                    event.step,
                    {each.tag: each.simple_value for each in event.summary.value},
                )
    except tf.errors.DataLossError:
        return  # the record at which the process was killed
