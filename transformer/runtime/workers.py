"""The workers of a training run: what they tell each other beside TensorFlow.

One of them is the chief: it alone writes, and it alone decides. Each other worker has a
connection to it, on which the facts are compared as the run begins.

No update is complete without the chief, so the others need not know what it does: they
wait in the next update until it takes part, or tells them how the run ended.
"""

import contextlib
import os
import signal
import socket
import time
from typing import Any, Dict

from transformer.runtime.cluster import Ended, differences
from transformer.runtime.links import AGAIN, LIMIT, WAITING, Connection, connect, listen
from transformer.runtime.nonfinite import NotFiniteElsewhere
from transformer.runtime.team import REFUSED, Team


class Chief(Team):
    """The side of the chief; alone, where there is no cluster, it does nothing.

    Raises:
      ValueError: the port of its connections is in use.
    """

    _refusal = ""  # of the first worker that differs

    def __enter__(self):
        if self.cluster:
            self._listener = listen(self.cluster)
            self._in_thread(self._accept)
        return super().__enter__()

    def __exit__(self, *exception):
        super().__exit__(*exception)
        if self.cluster:
            with contextlib.suppress(OSError):  # `close` alone would not end `accept`
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def meet(self, welcome: Dict[str, Any]) -> None:
        """Wait until every worker is there, with the same facts; then welcome all.

        If one has other facts, wait up to `LIMIT` seconds more for those that are
        missing, so that all are told.

        Args:
          welcome: what they need to know to begin.

        Raises:
          ValueError: the facts of one differ.
          Ended: one of those that were there is lost.
        """
        began = lines = time.monotonic()
        deadline = began + LIMIT  # one that differs may have come before
        wanted = range(1, self.cluster.size) if self.cluster else ()
        while len(self.connections) < len(wanted):
            self.check()
            time.sleep(AGAIN / 10)
            if not self._refusal:
                deadline = time.monotonic() + LIMIT
            elif time.monotonic() > deadline:
                break
            if time.monotonic() - lines >= WAITING:
                lines = time.monotonic()
                for index in set(wanted) - set(self.connections):
                    name = self.cluster.name(index)
                    self.warn(f"waiting for {name}, {lines - began:.0f} s")
        if self._refusal:
            self._in_thread(self._end, Ended(self._refusal, REFUSED))
            self._over.wait()
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
            if self._verdict:  # it came before this process ended
                raise self._verdict
            if index not in range(1, self.cluster.size) or index in self.connections:
                raise Ended(
                    f"found another worker {index}, wanted one of each index; give "
                    "each process one of its own in TF_CONFIG",
                    REFUSED,
                )
        except (LookupError, ValueError, TypeError, Ended) as error:
            status = getattr(error, "status", REFUSED)
            connection.send({"end": str(error), "status": status})
            connection.hang_up()
            return
        connection.name, connection.limit = self.cluster.name(index), LIMIT
        others = differences(facts, self.facts)
        if others and not self._refusal:
            self._refusal = (
                f"{connection.name}: found {others}, wanted the same on all workers; "
                "give each the same command, code and data"
            )
        self.connections[index] = connection
        if self._verdict:  # all others were told meanwhile
            self._tell_the_end(str(self._verdict), self._verdict.status)
        self._in_thread(self._read, index, messages)

    def begin(self) -> None:
        """Wait until every worker is ready; then let all begin."""
        waited_for = set(self.connections)
        while waited_for:
            waited_for.discard(self.next("ready")[0])
        for connection in self.connections.values():
            connection.send({"go": 1})
        self.watch_links()

    def handle(self, index: int, message: Dict[str, Any]) -> None:
        """Send this process SIGTERM if another worker received a signal."""
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

    def cause(self, error: Exception) -> Exception:
        """Return an error of this worker's own; else wait for the worker that has it.

        Raises:
          ValueError: that worker ended with it; this is what it said.
        """
        waited_for = set(self.connections)
        while isinstance(error, NotFiniteElsewhere) and waited_for:
            waited_for.discard(self.next("fine")[0])
        return error


class Member(Team):
    """The side of every other worker.

    Raises:
      Ended: the run ended elsewhere.
    """

    def meet(self) -> Dict[str, Any]:
        """Connect to the chief, present this worker, return the chief's welcome."""
        connection = connect(self.cluster, self.warn)
        connection.send({"hello": self.cluster.index, "facts": self.facts})
        self.connections[0] = connection
        self._in_thread(self._read, 0, connection.messages())
        return self.next("welcome")[1]["welcome"]

    def begin(self) -> None:
        """Tell that this worker is ready, and wait until all are."""
        self.connections[0].send({"ready": 1})
        self.next("go")
        self.watch_links()

    def audit(self, step: int, sums: Dict[str, int]) -> None:
        """Send the checksums of the variables to the chief, which compares them."""
        self.connections[0].send({"sums": sums, "step": step})

    def cause(self, error: Exception) -> Exception:
        """Return an error of this worker's own; else wait until the chief tells it."""
        if isinstance(error, NotFiniteElsewhere):
            self.connections[0].send({"fine": 1})
            self.wait_for_the_end()
        return error

    def wait_for_the_end(self) -> None:
        """Wait until the chief tells how the run ended; it may take its time."""
        self.next("end")

    def tell_signal(self, number: int) -> None:
        """Tell the chief of a signal: it stops at its next safe point, and all do."""
        self.connections[0].send({"signal": number})
