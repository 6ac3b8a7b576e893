"""The workers of a training run: what they tell each other beside TensorFlow.

One of them is the chief: it alone writes, and it alone decides. Each other worker has a
connection to it. On it the facts are compared as the run begins, and each side tells
every two seconds that it lives. TensorFlow does not: what it reduces waits for ever for
a worker that is frozen or gone.

No update is complete without the chief, so the others need not know what it does: they
wait in the next update until it takes part, or tells them how the run ended.
"""

import contextlib
import os
import queue
import signal
import socket
import threading
import time
import warnings
from typing import Any, Callable, Dict, Optional, Tuple, Type

from transformer.runtime.cluster import (
    AGAIN,
    LIMIT,
    LOST,
    Cluster,
    Connection,
    Ended,
    listen,
)
from transformer.runtime.process import Stopped

BEAT = 2.0  # seconds between two signs of life
GRACE = 5.0  # seconds that the main thread has to end by itself
WAITING = 30.0  # seconds between two lines that say who is waited for
REFUSED = 2  # the exit status of every refusal
ADVICE = "the same command on all workers continues from the last checkpoint"


class Team:
    """What both sides share: signs of life, and one verdict on how the run ended.

        with Chief(cluster, facts, warn) as team:   # the others: Member
            team.meet(welcome)                      # what they return
            ...

    A thread for each connection reads. Where one finds that the run has ended, the main
    thread is told as soon as it asks; it may hang in TensorFlow, and is then ended with
    the process, after `GRACE` seconds.

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
        with self._lock:
            self._is_known = True
        text, status = "", 0
        if error:
            status = error.status if isinstance(error, Stopped) else REFUSED
            text = str(error) or kind.__name__
            if not isinstance(error, Ended) and self.cluster:
                text = f"{self.cluster.name(self.cluster.index)} ended: {text}"
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
        """
        try:
            return work()
        except failures:
            if self.cluster and self._over.wait(LIMIT + GRACE):
                self.check()
            raise

    def check(self) -> None:
        """Raise Ended if the run has ended elsewhere."""
        with self._lock:
            if self._verdict:
                self._is_known = True
                if self._verdict.status == REFUSED:
                    raise ValueError(str(self._verdict))
                raise self._verdict

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


class Chief(Team):
    """The side of the chief; alone, where there is no cluster, it does nothing.

    Raises:
      ValueError: the port of its connections is in use.
    """

    def __enter__(self):
        if self.cluster:
            self._listener = listen(self.cluster)
            self._in_thread(self._accept)
        return super().__enter__()

    def __exit__(self, *exception):
        super().__exit__(*exception)
        if self.cluster:
            self._listener.close()

    def meet(self, welcome: Dict[str, Any]) -> None:
        """Wait until every worker is there, with the same facts; then welcome all.

        Args:
          welcome: what they need to know to begin.

        Raises:
          ValueError: the facts of one differ.
          Ended: one of those that were there is lost.
        """
        began = lines = time.monotonic()
        wanted = range(1, self.cluster.size) if self.cluster else ()
        while len(self.connections) < len(wanted):
            self.check()
            time.sleep(AGAIN / 10)
            if time.monotonic() - lines >= WAITING:
                lines = time.monotonic()
                for index in set(wanted) - set(self.connections):
                    name = self.cluster.name(index)
                    self.warn(f"waiting for {name}, {lines - began:.0f} s")
        self.check()
        for connection in self.connections.values():
            connection.send({"welcome": welcome})

    def _accept(self):
        """Take connections until the listener is closed."""
        with contextlib.suppress(OSError):
            while True:
                self._take(self._listener.accept()[0])

    def _take(self, sock):
        """Take a connection of a worker that presents itself; refuse any other."""
        connection = Connection(sock)
        connection.limit = LIMIT / 4
        messages = connection.messages()
        try:
            hello = next(messages)
            index, facts = int(hello["hello"]), dict(hello["facts"])
            if index not in range(1, self.cluster.size) or index in self.connections:
                raise Ended(f"found another worker {index}, wanted one", REFUSED)
        except (LookupError, ValueError, TypeError, Ended) as error:
            connection.send({"end": str(error), "status": REFUSED})
            connection.hang_up()
            return
        connection.name, connection.limit = self.cluster.name(index), LIMIT
        self.connections[index] = connection
        others = self._others(facts)
        if others:
            text = (
                f"{connection.name}: found {others}, wanted the same on all workers; "
                "give each the same command, code and data"
            )
            self._in_thread(self._end, Ended(text, REFUSED))
        else:
            self._in_thread(self._read, index, messages)

    def _others(self, facts):
        """Return the facts of a worker that are not those of the chief, in words."""
        others = [
            f"{each} {facts.get(each)} (the chief: {self.facts.get(each)})"
            for each in sorted(set(facts) | set(self.facts))
            if facts.get(each) != self.facts.get(each)
        ]
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        return ", ".join(others[:5]) + more

    def begin(self) -> None:
        """Wait until every worker is ready; then let all begin."""
        waited_for = set(self.connections)
        while waited_for:
            waited_for.discard(self.next("ready")[0])
        for connection in self.connections.values():
            connection.send({"go": 1})

    def handle(self, index: int, message: Dict[str, Any]) -> None:
        """Stop as this process stops where another worker was asked to."""
        if "signal" in message:
            self.warn(f"{self.cluster.name(index)} was asked to stop")
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            super().handle(index, message)

    def audit(self, step: int, sums: Dict[str, int]) -> None:
        """Compare the checksums of the variables with those of all workers.

        Raises:
          ValueError: they differ.
        """
        waited_for = set(self.connections)
        while waited_for:
            index, message = self.next("sums")
            waited_for.discard(index)
            for name, wanted in sums.items():
                if message["sums"].get(name) != wanted or message["step"] != step:
                    raise ValueError(
                        f"step {step}: found other values of {name} on "
                        f"{self.cluster.name(index)} than on the chief, wanted the "
                        "same on all workers: their processors compute differently, or "
                        "one of them wrongly; continue on machines of one kind"
                    )


class Member(Team):
    """The side of every other worker.

    Raises:
      Ended: the run ended elsewhere.
    """

    def meet(self) -> Dict[str, Any]:
        """Connect to the chief, present this worker, return the chief's welcome."""
        connection = self._connect()
        connection.send({"hello": self.cluster.index, "facts": self.facts})
        self.connections[0] = connection
        self._in_thread(self._read, 0, connection.messages())
        return self.next("welcome")[1]["welcome"]

    def _connect(self):
        began = lines = time.monotonic()
        while True:
            with contextlib.suppress(OSError):
                sock = socket.create_connection(self.cluster.meeting_point(), LIMIT / 4)
                return Connection(sock, self.cluster.name(0))
            time.sleep(AGAIN)
            if time.monotonic() - lines >= WAITING:
                lines = time.monotonic()
                name = self.cluster.name(0)
                self.warn(f"waiting for {name}, the chief, {lines - began:.0f} s")

    def begin(self) -> None:
        """Tell that this worker is ready, and wait until all are."""
        self.connections[0].send({"ready": 1})
        self.next("go")

    def audit(self, step: int, sums: Dict[str, int]) -> None:
        """Send the checksums of the variables to the chief, which compares them."""
        self.connections[0].send({"sums": sums, "step": step})

    def wait_for_the_end(self) -> None:
        """Wait until the chief tells how the run ended; it may take its time."""
        self.next("end")

    def tell_signal(self, number: int) -> None:
        """Tell the chief of a signal: it stops at its next safe point, and all do."""
        self.connections[0].send({"signal": number})
