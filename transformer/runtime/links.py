"""The links between workers: messages on a connection, and which links are open.

All connections lead to the chief. What TensorFlow adds up goes from any worker to any
other, and waits for ever where that link is cut, or closed by a firewall, though both
still reach the chief. So each worker holds a connection to each other, to where
TensorFlow listens: no other port is needed. Nothing is sent on it; the two systems
probe it (TCP keepalive). They answer for a frozen process, too; such a one is found by
its missing signs of life.
"""

import contextlib
import json
import socket
import threading
import time
from typing import Any, Callable, Dict, Iterator

from transformer.runtime.cluster import LOST, PORTS_APART, Cluster, Ended

LIMIT = 30.0  # seconds without one, after which a worker counts as lost
AGAIN = 1.0  # seconds between two attempts to connect
PROBES = 2  # seconds between two probes of a connection that is held
ANSWER = 4.0  # seconds in which a port answers
WAITING = 30.0  # seconds between two lines that say who is waited for
LONGEST = 2**20  # bytes of a message
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Connection:
    """A connection to another worker: messages of one line each, JSON objects.

    Args:
      sock: a connected socket.
      name: what messages call the other worker.
    """

    def __init__(self, sock: socket.socket, name: str = ""):
        self.name, self.limit = name, LIMIT
        self._socket, self._lock = sock, threading.Lock()

    def send(self, message: Dict[str, Any]) -> None:
        """Send a message; a broken connection is reported by `messages`."""
        with self._lock, contextlib.suppress(OSError):
            self._socket.sendall(json.dumps(message).encode("utf-8") + b"\n")

    def messages(self) -> Iterator[Dict[str, Any]]:
        """Yield the messages of the other worker, each within `limit` seconds.

        Raises:
          Ended: it is lost; the text says how.
        """
        read = b""
        while True:
            *lines, read = read.split(b"\n")
            for line in lines:
                try:
                    yield dict(json.loads(line.decode("utf-8")))
                except (ValueError, TypeError, RecursionError):
                    raise Ended(f"{self.name} sent what is no message", LOST) from None
            if len(read) > LONGEST:
                raise Ended(f"{self.name} sent what is no message", LOST)
            try:
                self._socket.settimeout(self.limit)
                more = self._socket.recv(2**16)
            except socket.timeout:
                raise Ended(
                    f"{self.name} was not heard of for {self.limit:.0f} s: it is "
                    "frozen, or its link is cut",
                    LOST,
                ) from None
            except OSError:
                more = b""
            if not more:
                raise Ended(f"{self.name} died: its connection ended", LOST)
            read += more

    def hang_up(self) -> None:
        """Send nothing more; the other side finds the end, after what was sent."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)


def listen(cluster: Cluster) -> socket.socket:
    """Return the socket on which the chief takes the connections of the others.

    Raises:
      ValueError: its port is in use.
    """
    host, port = cluster.meeting_point()
    try:
        return _listener(host, port, cluster.size)
    except OSError as error:
        raise ValueError(
            f"port {port}: cannot listen there ({error.strerror}), wanted it for the "
            f"workers' connections to the chief, {PORTS_APART} from its port in "
            "TF_CONFIG; another chief may run: stop it, or choose another port"
        ) from None


def _listener(host, port, count):
    """Return a socket that listens on all of the machine, or on its loopback alone."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if host in LOOPBACK:
        return _bound(family, host, port, count)
    with contextlib.suppress(OSError):  # a machine may have no IPv6
        return _bound(socket.AF_INET6, "::", port, count)  # takes IPv4, too
    return _bound(socket.AF_INET, "", port, count)


def _bound(family, host, port, count):
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((host, port))
        listener.listen(count)
    except OSError:
        listener.close()
        raise
    return listener


def connect(cluster: Cluster, warn: Callable[[str], None]) -> Connection:
    """Return a connection to the chief, as soon as it is there.

    Args:
      cluster: the workers.
      warn: function of a text; told every 30 seconds who is waited for, and why.
    """
    began = lines = time.monotonic()
    name, (host, port) = cluster.name(0), cluster.meeting_point()
    while True:
        try:
            return Connection(socket.create_connection((host, port), LIMIT / 4), name)
        except OSError as error:
            reason = error.strerror or str(error)
        time.sleep(AGAIN)
        if time.monotonic() - lines >= WAITING:
            lines = time.monotonic()
            warn(
                f"waiting for {name}, the chief, {lines - began:.0f} s "
                f"(its port {port}: {reason})"
            )


def hold(
    cluster: Cluster, index: int, over: threading.Event, end: Callable[[Ended], None]
) -> None:
    """Hold a connection to a worker until the run is over, or nothing answers.

    What is closed there, as TensorFlow does after two minutes, is opened again.

    Args:
      cluster: the workers.
      index: which of them.
      over: set once the run is over.
      end: function of the verdict, called where nothing was answered for `LIMIT`.
    """
    heard = time.monotonic()
    while not over.wait(AGAIN):
        try:
            with socket.create_connection(cluster.place(index), ANSWER) as link:
                _wait_until_closed(link)
            heard = time.monotonic()
            continue
        except OSError as error:
            reason = error.strerror or str(error)
        if time.monotonic() - heard >= LIMIT:
            text = (
                f"{cluster.name(cluster.index)} has not reached {cluster.name(index)} "
                f"for {LIMIT:.0f} s ({reason}): the link between them is cut, or a "
                "firewall closes it"
            )
            end(Ended(text, LOST))
            return


def _wait_until_closed(link):
    """Wait until the other side closes a connection.

    Raises:
      OSError: it did not answer the probes of `LIMIT` seconds.
    """
    idle = "TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE"
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        (idle, PROBES),  # of macOS, where it is not Linux's
        ("TCP_KEEPINTVL", PROBES),
        ("TCP_KEEPCNT", max(1, int(LIMIT / PROBES))),
    ):
        if hasattr(socket, name):
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    link.settimeout(None)
    with contextlib.suppress(ConnectionError):  # that is an answer, too
        while link.recv(2**12):
            pass
