"""Team, the base of Chief and Member: signs of life, and how the run ended.

Each side of a connection tells every two seconds that it lives. TensorFlow does not:
what it adds up waits for ever for a worker that is frozen or gone.
"""

import os
import queue
import re
import threading
import warnings
from typing import Any, Callable, Dict, Optional, Tuple, Type

from transformer.runtime.cluster import LOST, Cluster, Ended
from transformer.runtime.links import AGAIN, LIMIT, Connection, hold
from transformer.runtime.process import Stopped

BEAT = 2.0  # seconds between two signs of life
GRACE = 5.0  # seconds that the main thread has to end by itself
REFUSED = 2  # the exit status of every refusal
ADVICE = "the same command on all workers continues from the last checkpoint"


class Team:
    """What both sides share: signs of life, and one verdict on how the run ended.

        with Chief(cluster, facts, warn) as team:   # `runtime/workers.py`
            ...

    One thread reads each connection. When it learns that the run has ended, `check`
    raises that in the main thread. If the main thread hangs in TensorFlow, the process
    ends after `GRACE` seconds.

    Args:
      cluster: the workers; None: this process is alone.
      facts: what must be the same everywhere: name → value.
      warn: function of a text, for what the user should see.
    """

    def __init__(
        self,
        cluster: Optional[Cluster] = None,
        facts: Optional[Dict[str, Any]] = None,
        warn: Callable[[str], None] = warnings.warn,
    ):
        self.cluster, self.facts, self.warn = cluster, facts or {}, warn
        self.connections: Dict[int, Connection] = {}
        self._inbox: "queue.Queue" = queue.Queue()
        self._lock, self._over = threading.Lock(), threading.Event()
        self._left = threading.Event()  # by the main thread
        self._verdict: Optional[Ended] = None
        self._is_known = False

    def __enter__(self):
        if self.cluster:
            self._in_thread(self._beat)
        return self

    def __exit__(self, kind, error, trace):
        """Tell the others how this process ends."""
        text, status = "", 0
        if error:
            status = error.status if isinstance(error, Stopped) else REFUSED
            text = str(error) or kind.__name__
            if not isinstance(error, Ended) and self.cluster:
                text = f"{self.cluster.name(self.cluster.index)} ended: {text}"
        with self._lock:
            self._is_known = True
            self._verdict = self._verdict or Ended(text, status)
        self._tell_the_end(text, status)
        self._over.set()
        for connection in list(self.connections.values()):
            connection.hang_up()
        self._left.set()

    def computed(
        self, work: Callable[[], Any], failures: Tuple[Type[Exception], ...]
    ) -> Any:
        """Return what `work` returns; wait for the verdict where it fails.

        Args:
          work: computes together with the other workers.
          failures: what it raises where one of them is gone; it does not say which.

        Raises:
          Ended: nobody is gone, and still it failed: a connection broke.
        """
        try:
            return work()
        except failures as error:
            if not self.cluster:
                raise
            self._over.wait(LIMIT + GRACE)
            self.check()
            said = re.search(r"aborted by: (.+)", str(error))
            reason = said.group(1) if said else f"{type(error).__name__}: {error}"
            name = self.cluster.name(self.cluster.index)
            text = f"{name} could not compute with the others: {reason:.300}"
            raise Ended(text, LOST) from error

    def check(self) -> None:
        """Raise Ended if the run has ended elsewhere."""
        with self._lock:
            if self._verdict:
                self._is_known = True
                if self._verdict.status == REFUSED:
                    raise ValueError(str(self._verdict))
                raise self._verdict

    def watch_links(self) -> None:
        """Hold a connection to each other worker, in a thread each."""
        for index in range(self.cluster.size if self.cluster else 0):
            if index != self.cluster.index:
                self._in_thread(hold, self.cluster, index, self._over, self._end)

    def _in_thread(self, work, *args):
        threading.Thread(target=work, args=args, daemon=True).start()

    def _beat(self):
        """Send a sign of life to all, again and again."""
        while not self._over.wait(BEAT):
            for connection in list(self.connections.values()):
                connection.send({"beat": 1})

    def _read(self, index, messages):
        """Handle the messages of a worker until it is lost."""
        try:
            for message in messages:
                if "end" in message:
                    found = str(message["end"]), int(message["status"])
                    self._end(Ended(*found))
                    return
                self.handle(index, message)
        except Ended as ended:
            self._end(ended)

    def handle(self, index: int, message: Dict[str, Any]) -> None:
        """Keep a message for `next`; signs of life need nothing."""
        if "beat" not in message:
            self._inbox.put((index, message))

    def next(self, kind: str):
        """Return (index of its worker, the next message that has `kind`).

        Args:
          kind: a key of the message; messages without it are dropped.

        Raises:
          Ended: the run ended elsewhere, and no such message came before.
        """
        while True:
            try:
                index, message = self._inbox.get(not self._over.is_set(), AGAIN)
            except queue.Empty:
                self.check()
                continue
            if kind in message:
                return index, message

    def _end(self, ended):
        """Take the first verdict, tell it to all, end the process if need be."""
        with self._lock:
            if self._verdict or self._is_known:
                return
            self._verdict = ended
        self._tell_the_end(str(ended), ended.status)
        self._inbox.put((0, {}))
        self._over.set()
        if self._left.wait(GRACE):  # and says why
            return
        if ended.status:
            self.warn(f"{ended}; {ADVICE}" if ended.status == LOST else str(ended))
        self.leave(ended.status)

    def _tell_the_end(self, text, status):
        for connection in list(self.connections.values()):
            connection.send({"end": text, "status": status})

    def leave(self, status: int) -> None:
        """End the process, whatever its main thread waits for."""
        os._exit(status)
