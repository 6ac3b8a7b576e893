"""The queue of the service: many clients, two threads that compute.

One thread computes translations: sentences that wait for the same model are translated
as one batch. The other thread computes what the page shows, one request at a time. That
may take seconds, and translations do not wait for it.

In each thread, short requests are computed before long ones that came a little earlier.
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import math
import threading
import time
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence

MAX_WAITING = 1000
MAX_WAITING_FOR_PAGE = 32  # each may take seconds
MAX_BATCH_SIZE = 64
# How much later a job may come, for each unit that it costs less, and still be first.
SECONDS_AHEAD = {True: 0.05, False: 0.02}  # per sentence; per character
RECENT_BATCHES = 8  # whose time tells how long the next ones take


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
      cost: the cost of its request: the sentences of a text to translate, or the
        characters of a sentence on the page.
    """

    work: Callable[[List[Any]], Sequence[Any]]
    argument: Any
    batched: bool = False
    cost: int = 1
    due: float = 0.0  # the job that is due first is computed first; set by `submit`
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
        # For each thread, the seconds that its last batches took, and the time when the
        # present one began.
        self._recent_seconds: Dict[bool, Deque[float]] = {
            batched: collections.deque(maxlen=RECENT_BATCHES)
            for batched in (True, False)
        }
        self._start: Dict[bool, Optional[float]] = {True: None, False: None}
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
            batched = all(job.batched for job in jobs)
            limit = MAX_WAITING if batched else MAX_WAITING_FOR_PAGE
            excess = self._count_waiting(batched) + len(jobs) - limit
            if excess > 0:
                raise QueueFull(
                    f"The server is busy: at most {limit:,} sentences may wait",
                    max(1, self._estimate_seconds(batched, excess)),
                )
            now = time.monotonic()
            for job in jobs:
                job.due = now + job.cost * SECONDS_AHEAD[batched]
                self._waiting.append(job)
                job.future.add_done_callback(functools.partial(self._drop, job))
            self._changed.notify_all()

    def close(self) -> int:
        """Accept no more jobs; estimate how many seconds the waiting ones take."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
            return max(
                self._estimate_seconds(batched, self._count_waiting(batched), True)
                for batched in (True, False)
            )

    def drain(self) -> None:
        """Accept no more jobs; return when the waiting ones are computed."""
        self.close()
        for thread in self._threads:
            thread.join()

    def _count_waiting(self, batched):
        return sum(job.batched == batched for job in self._waiting)

    def _estimate_seconds(self, batched, num_jobs, until_computed=False):
        """Estimate in how many seconds the next jobs have left the queue.

        Args:
          batched: which thread computes them.
          num_jobs: how many.
          until_computed: estimate in how many seconds they are computed.
        """
        start = self._start[batched]
        elapsed = 0.0 if start is None else time.monotonic() - start
        batch_seconds = max([elapsed, *self._recent_seconds[batched]])
        num_batches = math.ceil(num_jobs / (MAX_BATCH_SIZE if batched else 1))
        if until_computed and start is not None:
            num_batches += 1  # the present one
        return math.ceil(num_batches * batch_seconds - elapsed)

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
                self._start[batched] = None

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
            jobs.sort(key=lambda job: job.due)
            size = MAX_BATCH_SIZE if batched else 1
            batch = [job for job in jobs if job.work == jobs[0].work][:size]
            self._waiting = [job for job in self._waiting if job not in batch]
        return [job for job in batch if job.future.set_running_or_notify_cancel()]

    def _compute(self, batch):
        batched = batch[0].batched
        self._start[batched] = start = time.monotonic()
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
            self._recent_seconds[batched].append(time.monotonic() - start)
            self.seconds += self._recent_seconds[batched][-1]
        for job, result in zip(batch, results):
            job.future.set_result(result)
