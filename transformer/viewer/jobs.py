"""The queue of the service: many clients, one thread that computes.

Urgent jobs of the same model that wait at the same time make a batch; other jobs wait
until there is no urgent one. While no job waits, idle work goes on in small parts.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import math
import threading
import time
from typing import Any, Callable, Iterable, List, Optional, Sequence

MOST_WAITING = 1000
MOST_AT_ONCE = 64
LONGEST_WAIT = 60  # seconds after which a client that was refused is asked to return


class Refused(Exception):
    """A job was not taken: the server stops."""


class Full(Refused):
    """A job was not taken: too many wait; `seconds` is when to ask again."""

    def __init__(self, seconds: int):
        super().__init__(f"{MOST_WAITING:,} sentences wait already")
        self.seconds = seconds


@dataclasses.dataclass(eq=False)
class Job:
    """One thing to compute; its result comes in `future`.

    Args:
      work: function of the arguments of all jobs of a batch, in a list; returns as many
        results.
      argument: what `work` gets.
      urgent: whether it comes before those that are not, and in a batch with others.
    """

    work: Callable[[List[Any]], Sequence[Any]]
    argument: Any
    urgent: bool = False
    future: concurrent.futures.Future = dataclasses.field(
        default_factory=concurrent.futures.Future
    )


class Jobs:
    """The queue, and the thread that empties it. To remove a job, cancel its future.

    Args:
      idle: what is done, part after part, while no job waits.
    """

    def __init__(self, idle: Iterable = ()):
        self._waiting: List[Job] = []
        self._changed = threading.Condition()
        self._idle: Optional[Iterable] = iter(idle)
        self._is_stopping = False
        self.batches = 0
        self.computed = 0  # jobs, since the start
        self.seconds = 0.0  # of computing
        self.cancelled = 0
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)
        self._thread.start()

    def __len__(self):
        return len(self._waiting)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Let jobs wait for their turn: all of them, or none.

        Raises:
          Refused: there are too many, or the server stops.
        """
        with self._changed:
            if self._is_stopping:
                raise Refused("the server is stopping; ask again when it is back")
            if len(self) + len(jobs) > MOST_WAITING:
                raise Full(self._seconds_to_wait())
            for job in jobs:
                self._waiting.append(job)
                job.future.add_done_callback(functools.partial(self._drop, job))
            self._changed.notify()

    def drain(self) -> None:
        """Take no more jobs; return when those that wait are computed."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join()

    def _seconds_to_wait(self):
        """Return in how many seconds what waits now will be computed, about."""
        seconds = len(self) * self.seconds / max(1, self.computed)
        return min(LONGEST_WAIT, max(1, math.ceil(seconds)))

    def _drop(self, job, future):
        """Take a job out of the queue whose client gave it up."""
        if future.cancelled():
            with self._changed, contextlib.suppress(ValueError):
                self.cancelled += 1
                self._waiting.remove(job)

    def _run(self):
        while True:
            batch = self._next()
            if batch is None:
                return
            if batch:
                self._compute(batch)
            else:
                self._do_idle_work()

    def _next(self) -> Optional[List[Job]]:
        """Return the next batch; [] to do idle work, None to stop."""
        with self._changed:
            while not self._waiting:
                if self._is_stopping:
                    return None
                if self._idle is not None:
                    return []
                self._changed.wait()
            urgent = [job for job in self._waiting if job.urgent]
            same = [job for job in urgent if job.work == urgent[0].work]
            batch = same[:MOST_AT_ONCE] or self._waiting[:1]
            self._waiting = [job for job in self._waiting if job not in batch]
        return [job for job in batch if job.future.set_running_or_notify_cancel()]

    def _compute(self, batch):
        began = time.monotonic()
        try:
            results = batch[0].work([job.argument for job in batch])
        except Exception as error:  # whatever it is, it belongs to who asked
            if len(batch) > 1:
                for job in batch:
                    self._compute([job])
            else:
                batch[0].future.set_exception(error)
            return
        self.batches += 1
        self.computed += len(batch)
        self.seconds += time.monotonic() - began
        for job, result in zip(batch, results):
            job.future.set_result(result)

    def _do_idle_work(self):
        """Do one part of the idle work; there is no more after its end or an error."""
        try:
            if self._idle is not None:
                next(self._idle)
        except Exception:  # StopIteration too
            self._idle = None
