"""Find the workers of a training run, and connect them.

`TF_CONFIG` names them, as other programs of TensorFlow have it:

    {"cluster": {"worker": ["a:2222", "b:2222"]},
     "task": {"type": "worker", "index": 1}}

Worker 0, or the job "chief", is the chief. It takes the connections of the others at a
port of its own, `PORTS_APART` from the one in `TF_CONFIG`, which is TensorFlow's.
"""

import contextlib
import json
import re
import socket
import threading
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from transformer.runtime.process import Stopped

LIMIT = 30.0  # seconds without one, after which a worker counts as lost
AGAIN = 1.0  # seconds between two attempts to connect
LONGEST = 2**20  # bytes of a message
PORTS_APART = 1000  # of TensorFlow and of the connections to the chief
LOST = 75  # the exit status where a worker was lost: EX_TEMPFAIL, the same may work
LOOPBACK = ("localhost", "127.0.0.1")


class Cluster(NamedTuple):
    """The workers of a training run, and which of them this process is."""

    addresses: List[str]  # host:port of each, the chief first
    index: int

    @property
    def size(self) -> int:
        """How many workers there are."""
        return len(self.addresses)

    def name(self, index: int) -> str:
        """Return what messages call a worker: "worker 1 at host:port"."""
        return f"worker {index} at {self.addresses[index]}"

    def meeting_point(self) -> Tuple[str, int]:
        """Return (host, port) where the chief takes the connections of the others."""
        host, port = self.addresses[0].rsplit(":", 1)
        port = int(port) + PORTS_APART
        return host.strip("[]"), port if port < 2**16 else port - 2 * PORTS_APART


def cluster_of(environment: Mapping[str, str]) -> Optional[Cluster]:
    """Return the workers that `TF_CONFIG` names; None for one, or where it is not set.

    Raises:
      ValueError: it is no such text.
    """
    text = environment.get("TF_CONFIG", "").strip()
    if not text:
        return None
    try:
        content = json.loads(text)
        jobs = {kind: list(some) for kind, some in content.get("cluster", {}).items()}
        kind, index = "worker", 0
        if jobs:
            kind = str(content["task"]["type"])
            index = int(content["task"]["index"])
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise _refused(text) from None
    addresses = jobs.get("chief", []) + jobs.get("worker", [])
    right = [re.fullmatch(r"\S+:[1-9]\d{0,4}", str(each)) for each in addresses]
    known = set(jobs) <= {"chief", "worker"} and len(jobs.get("chief", [])) <= 1
    there = not jobs or (0 <= index < len(jobs.get(kind, [])))
    if not (all(right) and known and there and len(set(addresses)) == len(addresses)):
        raise _refused(text)
    if kind == "worker":
        index += len(jobs.get("chief", []))
    return Cluster(addresses, index) if len(addresses) > 1 else None


def _refused(text):
    return ValueError(
        f"TF_CONFIG: found {text:.200}, wanted "
        '{"cluster": {"worker": ["host:port", ...]}, '
        '"task": {"type": "worker", "index": 0}}, with a "chief" at most beside them; '
        "unset it for a process alone"
    )


class Ended(Stopped):
    """Another worker ended the training run; `status` is that of this process, too."""

    def __init__(self, text: str, status: int):
        BaseException.__init__(self, text)
        self.status = status


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
        """Send a message; who waits for messages finds out where that is impossible."""
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
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host if host in LOOPBACK else "", port))
    except OSError as error:
        listener.close()
        raise ValueError(
            f"port {port}: found it in use ({error.strerror}), wanted it for the "
            f"workers' connections to the chief, {PORTS_APART} from its port in "
            "TF_CONFIG; another chief may run: stop it, or choose another port"
        ) from None
    listener.listen(cluster.size)
    return listener
