"""The queue of the service: many clients, a few threads that compute.

On a CPU, a few threads compute translations, each on a core of its own; on a GPU, one
does. Sentences that wait for the same model are translated as one batch. Another thread
computes what the page shows, one request at a time. That may take seconds, and
translations do not wait for it.

Clients that send one sentence after the other send the next ones as soon as a batch is
answered. Without a short wait, the first of them would be a batch of its own.

Short requests are computed before long ones that came a little earlier.
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
# How long the clients of a batch have to send the next one, in units of its time.
SHARE_TO_GATHER = 0.1
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


@dataclasses.dataclass(eq=False)
class Worker:
    """A thread that computes batches.

    Args:
      batched: which jobs it computes.
    """

    batched: bool
    start: Optional[float] = None  # when its present batch began
    batch_size: int = 0  # of the present batch
    # The next batch begins when this many jobs wait, or at this time.
    gather_size: int = 0
    gather_until: float = 0.0


class Jobs:
    """The queue and its threads. To remove a job, cancel its future.

    Args:
      translation_threads: the number of threads that compute translations.
    """

    def __init__(self, translation_threads: int = 1):
        self._waiting: List[Job] = []
        self._changed = threading.Condition()
        self._is_stopping = False
        self.batches = 0
        self.computed = 0  # jobs since the start
        self.seconds = 0.0  # of computing: of translations, the mean of their threads
        self.cancelled = 0
        # The seconds that the last batches took, of translations and of the page.
        self._recent_seconds: Dict[bool, Deque[float]] = {
            batched: collections.deque(maxlen=RECENT_BATCHES)
            for batched in (True, False)
        }
        self._workers = [Worker(True) for _ in range(translation_threads)]
        self._workers.append(Worker(False))
        self._threads = [
            threading.Thread(
                target=self._run,
                args=[worker],
                name="translations" if worker.batched else "page",
                daemon=True,
            )
            for worker in self._workers
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
          batched: which threads compute them.
          num_jobs: how many.
          until_computed: estimate in how many seconds they are computed.
        """
        workers = self._workers_for(batched)
        starts = [worker.start for worker in workers if worker.start is not None]
        elapsed = time.monotonic() - min(starts) if starts else 0.0
        batch_seconds = max([elapsed, *self._recent_seconds[batched]])
        size = (MAX_BATCH_SIZE if batched else 1) * len(workers)
        num_batches = math.ceil(num_jobs / size)
        if until_computed and starts:
            num_batches += 1  # the present one
        return math.ceil(num_batches * batch_seconds - elapsed)

    def _drop(self, job, future):
        """Remove a job from the queue if its client has cancelled it."""
        if future.cancelled():
            with self._changed, contextlib.suppress(ValueError):
                self.cancelled += 1
                self._waiting.remove(job)

    def _workers_for(self, batched):
        return [worker for worker in self._workers if worker.batched == batched]

    def _run(self, worker):
        """Compute batches until the queue is drained."""
        while True:
            batch = self._take_batch(worker)
            if batch is None:
                return
            results = self._compute(batch)
            self._finish_batch(worker)  # before clients can send more
            for job, result in zip(batch, results):
                if isinstance(result, Exception):  # the client of the job receives it
                    job.future.set_exception(result)
                else:
                    job.future.set_result(result)

    def _take_batch(self, worker) -> Optional[List[Job]]:
        """Wait for a batch and remove it from the queue.

        Returns:
          its jobs, fewer if some were cancelled; None: there will be no more.
        """
        with self._changed:
            while True:
                jobs = [job for job in self._waiting if job.batched == worker.batched]
                seconds = self._seconds_to_gather(worker, len(jobs))
                if jobs and seconds <= 0:
                    break
                if self._is_stopping and not jobs:
                    return None
                self._changed.wait(seconds if jobs else None)
            jobs.sort(key=lambda job: job.due)
            size = self._share(worker, len(jobs)) if worker.batched else 1
            batch = [job for job in jobs if job.work == jobs[0].work][:size]
            self._waiting = [job for job in self._waiting if job not in batch]
            worker.start = time.monotonic()
            worker.batch_size = len(batch)
        return [job for job in batch if job.future.set_running_or_notify_cancel()]

    def _finish_batch(self, worker):
        """Decide when the next batch begins: its clients may send more at once."""
        with self._changed:
            seconds = time.monotonic() - worker.start
            worker.start = None  # so that its batch is not counted as running
            if worker.batched:
                num_jobs = self._count_waiting(True) + worker.batch_size
                worker.gather_size = self._share(worker, num_jobs)
                worker.gather_until = time.monotonic() + SHARE_TO_GATHER * seconds

    def _seconds_to_gather(self, worker, num_jobs):
        """Return how long to wait for more jobs."""
        if self._is_stopping or num_jobs >= worker.gather_size:
            return 0.0
        return worker.gather_until - time.monotonic()

    def _share(self, worker, num_jobs):
        """Return how many jobs a thread takes, so that all threads get as many."""
        workers = self._workers_for(worker.batched)
        running = sum(other.batch_size for other in workers if other.start is not None)
        return min(MAX_BATCH_SIZE, math.ceil((running + num_jobs) / len(workers)))

    def _compute(self, batch) -> List[Any]:
        """Return the result of each job, or the exception that it raised."""
        if not batch:
            return []
        start = time.monotonic()
        try:
            results = batch[0].work([job.argument for job in batch])
        except Exception as error:
            if len(batch) == 1:
                return [error]
            return [self._compute([job])[0] for job in batch]
        seconds = time.monotonic() - start
        with self._changed:
            self.batches += 1
            self.computed += len(batch)
            self._recent_seconds[batch[0].batched].append(seconds)
            self.seconds += seconds / len(self._workers_for(batch[0].batched))
        return list(results)
