"""The queue of the service: many clients, two threads that compute.

One thread computes translations: those that wait for the same model at the same time
form a batch. The other computes what the page shows, which may take seconds, one by
one; translations do not wait for it.
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
    """A job was refused, because too many would wait; ask again after `seconds`."""

    def __init__(self, most: int, seconds: int):
        super().__init__(f"at most {most:,} sentences may wait")
        self.seconds = seconds


@dataclasses.dataclass(eq=False)
class Job:
    """One thing to compute; `future` receives its result.

    Args:
      work: function of a list with the arguments of all jobs in a batch; returns a list
        of their results.
      argument: the argument for `work`.
      batched: whether the job is computed in a batch, with others that have the same
        `work`; otherwise it is computed alone, by the other thread.
    """

    work: Callable[[List[Any]], Sequence[Any]]
    argument: Any
    batched: bool = False
    future: concurrent.futures.Future = dataclasses.field(
        default_factory=concurrent.futures.Future
    )


class Jobs:
    """The queue, and the threads that empty it; to remove a job, cancel its future."""

    def __init__(self):
        self._waiting: List[Job] = []
        self._changed = threading.Condition()
        self._is_stopping = False
        self.batches = 0
        self.computed = 0  # jobs since the start
        self.seconds = 0.0  # of computing, in both threads
        self.cancelled = 0
        self._threads = [
            threading.Thread(target=self._run, args=[batched], name=name, daemon=True)
            for name, batched in (("translations", True), ("page", False))
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self):
        return len(self._waiting)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Add jobs to the queue, either all of them or none; all are of one kind.

        Raises:
          Refused: there are too many jobs, or the server is stopping.
        """
        with self._changed:
            if self._is_stopping:
                raise Refused("The server is stopping; ask again when it is back")
            most = MOST_WAITING
            waiting = len(self)
            if not all(job.batched for job in jobs):
                most = MOST_WAITING_OF_THE_PAGE
                waiting = sum(not job.batched for job in self._waiting)
            if waiting + len(jobs) > most:
                raise Full(most, self._seconds_to_wait())
            for job in jobs:
                self._waiting.append(job)
                job.future.add_done_callback(functools.partial(self._drop, job))
            self._changed.notify_all()

    def drain(self) -> None:
        """Accept no more jobs; return when the waiting ones are computed."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

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

    def _run(self, batched):
        while True:
            batch = self._next(batched)
            if batch is None:
                return
            if batch:
                self._compute(batch)

    def _next(self, batched) -> Optional[List[Job]]:
        """Return the next batch of a thread, which may be empty; None to stop."""
        with self._changed:
            while True:
                jobs = [job for job in self._waiting if job.batched == batched]
                if jobs:
                    break
                if self._is_stopping:
                    return None
                self._changed.wait()
            most = MOST_AT_ONCE if batched else 1
            batch = [job for job in jobs if job.work == jobs[0].work][:most]
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
        with self._changed:
            self.batches += 1
            self.computed += len(batch)
            self.seconds += time.monotonic() - began
        for job, result in zip(batch, results):
            job.future.set_result(result)
