"""The queue of the service: many clients, one thread that computes.

Urgent jobs for the same model that wait at the same time form a batch; other jobs wait
until there is no urgent one.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import math
import threading
import time
from typing import Any, Callable, List, Optional, Sequence

MOST_WAITING = 1000
MOST_WAITING_OF_THE_PAGE = 32  # each may take seconds
MOST_AT_ONCE = 64
LONGEST_WAIT = 60  # the most seconds after which a refused client is asked to return


class Refused(Exception):
    """A job was not accepted, because the server is stopping."""


class Full(Refused):
    """A job was not accepted, because too many wait; ask again after `seconds`."""

    def __init__(self, most: int, seconds: int):
        super().__init__(f"{most:,} sentences are already waiting")
        self.seconds = seconds


@dataclasses.dataclass(eq=False)
class Job:
    """One thing to compute; `future` receives its result.

    Args:
      work: function of a list with the arguments of all jobs in a batch; returns a list
        of their results.
      argument: the argument for `work`.
      urgent: whether the job goes before jobs that are not urgent, and is batched with
        other urgent jobs.
    """

    work: Callable[[List[Any]], Sequence[Any]]
    argument: Any
    urgent: bool = False
    future: concurrent.futures.Future = dataclasses.field(
        default_factory=concurrent.futures.Future
    )


class Jobs:
    """The queue, and the thread that empties it; to remove a job, cancel its future."""

    def __init__(self):
        self._waiting: List[Job] = []
        self._changed = threading.Condition()
        self._is_stopping = False
        self.batches = 0
        self.computed = 0  # jobs since the start
        self.seconds = 0.0  # of computing
        self.cancelled = 0
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)
        self._thread.start()

    def __len__(self):
        return len(self._waiting)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Add jobs to the queue, either all of them or none; all are equally urgent.

        Raises:
          Refused: there are too many jobs, or the server is stopping.
        """
        with self._changed:
            if self._is_stopping:
                raise Refused("The server is stopping; ask again when it is back")
            most = MOST_WAITING
            waiting = len(self)
            if not all(job.urgent for job in jobs):
                most = MOST_WAITING_OF_THE_PAGE
                waiting = sum(not job.urgent for job in self._waiting)
            if waiting + len(jobs) > most:
                raise Full(most, self._seconds_to_wait())
            for job in jobs:
                self._waiting.append(job)
                job.future.add_done_callback(functools.partial(self._drop, job))
            self._changed.notify()

    def drain(self) -> None:
        """Accept no more jobs; return when the waiting ones are computed."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join()

    def _seconds_to_wait(self):
        """Return about how many seconds it takes to compute the waiting jobs."""
        seconds = len(self) * self.seconds / max(1, self.computed)
        return min(LONGEST_WAIT, max(1, math.ceil(seconds)))

    def _drop(self, job, future):
        """Remove a job from the queue if its client has given it up."""
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

    def _next(self) -> Optional[List[Job]]:
        """Return the next batch, which may be empty; None to stop."""
        with self._changed:
            while not self._waiting:
                if self._is_stopping:
                    return None
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
        except Exception as error:  # whatever it is, it belongs to the client
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
