"""The queue of the service: many clients, two threads that compute.

One thread computes translations: sentences that wait for the same model are translated
as one batch. The other thread computes what the page shows, one request at a time. That
may take seconds, and translations do not wait for it.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import math
import threading
import time
from typing import Any, Callable, List, Optional, Sequence

MAX_WAITING = 1000
MAX_WAITING_FOR_PAGE = 32  # each may take seconds
MAX_BATCH_SIZE = 64
MAX_RETRY_SECONDS = 60  # after which a rejected client is asked to return


class QueueError(Exception):
    """The queue did not accept a job."""


class QueueClosed(QueueError):
    """The server is stopping."""


class QueueFull(QueueError):
    """The queue is full; there may be room after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: int = 1):
        super().__init__(message)
        self.retry_after = retry_after


@dataclasses.dataclass(eq=False)
class Job:
    """A computation; `future` receives its result.

    Args:
      work: function of a list with the arguments of all jobs in a batch; returns a list
        of their results.
      argument: the argument for `work`.
      batched: whether the job is computed in a batch, with others that have the same
        `work`. Otherwise, it is computed alone, by the other thread.
    """

    work: Callable[[List[Any]], Sequence[Any]]
    argument: Any
    batched: bool = False
    future: concurrent.futures.Future = dataclasses.field(
        default_factory=concurrent.futures.Future
    )


class Jobs:
    """The queue and its two threads. To remove a job, cancel its future."""

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
        """Add jobs of one kind to the queue, either all of them or none.

        Raises:
          QueueFull: too many jobs are waiting.
          QueueClosed: the server is stopping.
        """
        with self._changed:
            if self._is_stopping:
                raise QueueClosed("The server is stopping; ask again when it is back")
            limit = MAX_WAITING
            waiting = len(self)
            if not all(job.batched for job in jobs):
                limit = MAX_WAITING_FOR_PAGE
                waiting = sum(not job.batched for job in self._waiting)
            if waiting + len(jobs) > limit:
                raise QueueFull(
                    f"The server is busy: at most {limit:,} sentences may wait",
                    self._estimate_wait(),
                )
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

    def _estimate_wait(self):
        """Estimate how many seconds the waiting jobs take."""
        seconds = len(self) * self.seconds / max(1, self.computed)
        return min(MAX_RETRY_SECONDS, max(1, math.ceil(seconds)))

    def _drop(self, job, future):
        """Remove a job from the queue if its client has cancelled it."""
        if future.cancelled():
            with self._changed, contextlib.suppress(ValueError):
                self.cancelled += 1
                self._waiting.remove(job)

    def _run(self, batched):
        """Compute batches until the queue is drained."""
        while True:
            batch = self._take_batch(batched)
            if batch is None:
                return
            if batch:
                self._compute(batch)

    def _take_batch(self, batched) -> Optional[List[Job]]:
        """Wait for a batch and remove it from the queue.

        Returns:
          its jobs, fewer if some were cancelled; None: there will be no more.
        """
        with self._changed:
            while True:
                jobs = [job for job in self._waiting if job.batched == batched]
                if jobs:
                    break
                if self._is_stopping:
                    return None
                self._changed.wait()
            size = MAX_BATCH_SIZE if batched else 1
            batch = [job for job in jobs if job.work == jobs[0].work][:size]
            self._waiting = [job for job in self._waiting if job not in batch]
        return [job for job in batch if job.future.set_running_or_notify_cancel()]

    def _compute(self, batch):
        start = time.monotonic()
        try:
            results = batch[0].work([job.argument for job in batch])
        except Exception as error:  # the client of the job receives it
            if len(batch) > 1:
                for job in batch:
                    self._compute([job])
            else:
                batch[0].future.set_exception(error)
            return
        with self._changed:
            self.batches += 1
            self.computed += len(batch)
            self.seconds += time.monotonic() - start
        for job, result in zip(batch, results):
            job.future.set_result(result)
