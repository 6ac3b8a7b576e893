"""The queue of a server: many clients, one thread that computes.

Translations of the same model that wait at the same time make a batch. A job whose
client left is not computed. While nobody waits, idle work goes on in small parts.
"""

import collections
import itertools
import threading
from typing import Any, Callable, Iterable, Optional

MOST_WAITING = 1000
MOST_AT_ONCE = 64


class Refused(Exception):
    """A job was not taken: the queue is full, or the server stops."""


class Job:
    """One thing to compute.

    Args:
      work: function of the arguments of all jobs of a batch, in a list; returns as many
        results. Jobs of the same `work` make a batch where `together`.
      argument: what `work` gets.
      together: whether it may be computed with others.
    """

    def __init__(self, work: Callable, argument: Any, together: bool = False):
        self.work, self.argument, self.together = work, argument, together
        self.done, self.is_cancelled = threading.Event(), False
        self.result, self.error = None, None  # type: Any, Optional[Exception]

    def finish(self, result=None, error: Optional[Exception] = None) -> None:
        """Say what came of it."""
        self.result, self.error = result, error
        self.done.set()

    def cancel(self) -> None:
        """Give it up: it is not computed, unless it is already being computed."""
        self.is_cancelled = True


class Jobs:
    """The queue, and the thread that empties it.

    Args:
      idle: what is done, part after part, while no job waits.
    """

    def __init__(self, idle: Iterable = ()):
        self._waiting, self._changed = collections.deque(), threading.Condition()
        self._idle, self._is_stopping = iter(idle), False
        self.batches, self.computed = 0, 0  # since the start
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)
        self._thread.start()

    def __len__(self):
        return len(self._waiting)

    def submit(self, job: Job) -> None:
        """Let a job wait for its turn.

        Raises:
          Refused: there are too many, or the server stops.
        """
        with self._changed:
            if self._is_stopping:
                raise Refused("the server is stopping; ask again when it is back")
            if len(self._waiting) >= MOST_WAITING:
                raise Refused(f"{MOST_WAITING:,} requests wait already; try again")
            self._waiting.append(job)
            self._changed.notify()

    def drain(self) -> None:
        """Take no more jobs; return when those that wait are computed."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join()

    def _run(self):
        while True:
            batch = self._next()
            if batch is None:
                return
            if batch:
                self._compute(batch)
            else:
                self._do_idle_work()

    def _next(self):
        """Return the next batch; [] to do idle work, None to stop."""
        with self._changed:
            while not self._waiting:
                if self._is_stopping:
                    return None
                if self._idle is not None:
                    return []
                self._changed.wait()
            first = self._waiting.popleft()
            if not first.together:
                return [] if first.is_cancelled else [first]
            same = [
                job for job in self._waiting if job.together and job.work == first.work
            ]
            batch = [first, *itertools.islice(same, MOST_AT_ONCE - 1)]
            taken = set(map(id, batch))
            self._waiting = collections.deque(
                job for job in self._waiting if id(job) not in taken
            )
            return [job for job in batch if not job.is_cancelled]

    def _compute(self, batch):
        try:
            results = batch[0].work([job.argument for job in batch])
        except Exception as error:  # whatever it is, it belongs to who asked
            if len(batch) > 1:
                for job in batch:
                    self._compute([job])
            else:
                batch[0].finish(error=error)
            return
        self.batches, self.computed = self.batches + 1, self.computed + len(batch)
        for job, result in zip(batch, results):
            job.finish(result)

    def _do_idle_work(self):
        """Do one part of the idle work; there is no more after its end or an error."""
        try:
            if self._idle is not None:
                next(self._idle)
        except Exception:  # StopIteration too
            self._idle = None
