"""Connections between the workers of a training run: handshake, heartbeats, the end.

One of the workers is the chief: only the chief writes and makes decisions. Every other
worker has a connection to it. When the run begins, they compare their configurations
over this connection; then both sides send heartbeats. TensorFlow has no heartbeats: its
collective operations wait forever for a worker that is frozen or gone.
"""

import contextlib
import functools
import json
import os
import queue
import re
import socket
import threading
import time
import warnings
from typing import Any, Callable, Dict, Optional, Tuple, Type

from transformer.runtime.errors import REFUSED, SettingsError, TransformerError
from transformer.runtime.signals import SIGNALS, Stopped, signal_self
from transformer.workers.cluster import PORT_OFFSET, SHARE_PORTS, Cluster

LOST = 75  # the exit status if a worker was lost: EX_TEMPFAIL, a retry may work
CLOSED = "its connection was closed"
RESTART = "run the same command on all workers to continue from the last checkpoint"

HEARTBEAT = 2.0  # seconds between two heartbeats
TIMEOUT = 30.0  # seconds without a heartbeat after which a worker counts as lost
GRACE = 5.0  # seconds that the main thread has to end on its own
HANDSHAKE = 10.0  # seconds within which a new connection must identify itself
RETRY = 1.0  # seconds between two attempts
NAME_ATTEMPTS = 5  # at the names of the workers' machines
REPORT = 30.0  # seconds between two messages about missing workers
CONNECT = 4.0  # seconds within which a port must answer
MAX_MESSAGE = 2**20  # bytes
MAX_DIFFERENCES = 5  # named in a message
MAX_REASON = 1000  # characters
AFTER_REASON = re.compile(
    r"\n(?=Additional GRPC error|The error could be from a previous|\s*\[\[\{\{node|"
    r"Original stack trace)"
)
LOOPBACK = ("localhost", "127.0.0.1", "::1")
MALFORMED = (LookupError, ValueError, TypeError, OverflowError, RecursionError)


class NotFiniteElsewhere(FloatingPointError):
    """A number that is not finite came from another worker."""


class Ended(Stopped):
    """Another worker ended the training run; this process exits with its `status`."""

    def __init__(self, text: str, status: int):
        BaseException.__init__(self, text)
        self.status = status


class Connection:
    """A connection to another worker: JSON objects, one per line.

    Args:
      sock: a connected socket.
      name: the name of the other worker in messages.
    """

    def __init__(self, sock: socket.socket, name: str = "an unknown process"):
        sock.settimeout(TIMEOUT)
        self.name = name
        self._socket = sock
        self._lines = sock.makefile("rb")
        self._lock = threading.Lock()

    def send(self, message: Dict[str, Any]) -> None:
        """Send a message; only `receive` reports a broken connection."""
        with self._lock, contextlib.suppress(OSError):
            self._socket.sendall(json.dumps(message).encode("utf-8") + b"\n")

    def receive(self) -> Dict[str, Any]:
        """Return the next message.

        Raises:
          Ended: the other worker is lost; the text says why.
        """
        try:
            line = self._lines.readline(MAX_MESSAGE)
        except socket.timeout:
            text = (
                f"has not been heard from for {TIMEOUT:.0f} s: it is frozen, or its "
                "connection is lost"
            )
            raise Ended(f"{self.name} {text}", LOST) from None
        except OSError as error:
            reason = error.strerror or error
            raise Ended(f"{self.name} died: {CLOSED} ({reason})", LOST) from None
        if not line:
            raise Ended(f"{self.name} died: {CLOSED}", LOST)
        try:
            return dict(json.loads(line.decode("utf-8")))
        except MALFORMED:
            raise self.make_verdict() from None

    def make_verdict(self) -> Ended:
        """Make the verdict on a connection with malformed messages."""
        return Ended(f"{self.name} sent a malformed message", LOST)

    def shut_down(self, how: int = socket.SHUT_RDWR) -> None:
        """Stop sending and, by default, reading."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(how)


class Team:
    """This worker's side of the connections between the workers of a training run.

        with Team(cluster, configuration, warn) as team:
            start = team.handshake({"step": 7})  # the chief's value, on all workers
            team.barrier()
            team.compute(update)

    A thread reads each connection. The first worker that ends decides how the run ends:
    `raise_verdict` raises that verdict in the main thread of every other worker. If it
    hangs in TensorFlow, the process ends after `GRACE` seconds.

    Without a cluster, this process is a chief with no other workers.

    Args:
      cluster: the workers; None: a single process.
      configuration: settings and versions that all workers must share: name → value.
      warn: function of a text, for what the user should see.
      failures: the exceptions of TensorFlow if another worker is gone.

    Raises:
      SettingsError: the chief's port is in use.
    """

    def __init__(
        self,
        cluster: Optional[Cluster] = None,
        configuration: Optional[Dict[str, Any]] = None,
        warn: Callable[[str], None] = warnings.warn,
        failures: Tuple[Type[Exception], ...] = (),
    ):
        self.cluster = cluster
        self.is_chief = cluster is None or cluster.index == 0
        self.connections: Dict[int, Connection] = {}
        # On the chief: stops the run, given a signal that another worker received.
        self.stop: Callable[[int], None] = signal_self
        self._peers = range(1, cluster.size) if cluster and self.is_chief else ()
        self._configuration = configuration or {}
        self._warn = warn
        self._failures = failures
        self._listener: Optional[socket.socket] = None
        self._inbox: "queue.Queue" = queue.Queue()
        self._lock = threading.Lock()
        self._refusal = ""  # of the first worker with a different configuration
        self._verdict: Optional[Ended] = None
        self._is_delivered = False  # whether the main thread knows the verdict
        self._has_ended = threading.Event()  # there is a verdict
        self._has_left = threading.Event()  # the main thread has left the `with` block

    def __enter__(self):
        if self._peers:
            self._listener = listen(self.cluster)
            self._start_thread(self._accept)
        if self.cluster:
            self._start_thread(self._send_heartbeats)
        return self

    def __exit__(self, kind, error, trace):
        """Tell the other workers how this one ended."""
        text = str(error) or kind.__name__ if error else ""
        if error and self.cluster and not isinstance(error, Ended):
            text = f"{self.cluster.name(self.cluster.index)} ended: {text}"
        status = getattr(error, "status", REFUSED) if error else 0
        with self._lock:
            self._is_delivered = True
            self._verdict = self._verdict or Ended(text, status)
        self._send_verdict()
        self._has_ended.set()
        for connection in list(self.connections.values()):
            connection.shut_down(socket.SHUT_WR)
        self._has_left.set()
        if self._listener:
            with contextlib.suppress(OSError):  # `close` would not end `accept`
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    # Called by the main threads of all workers, together

    def handshake(self, start: Any = None) -> Any:
        """Wait until all workers are connected and have the same configuration.

        Args:
          start: on the chief, the value that all workers need to begin.

        Returns:
          The chief's `start`.

        Raises:
          TransformerError: the configuration of a worker differs.
          SettingsError: the name of a worker's machine cannot be resolved.
          Ended: a connected worker is lost.
        """
        if self.is_chief:
            self._wait_for_peers()
        else:
            self._connect_to_chief()
        self._resolve_names()
        return self.broadcast("start", start)

    def barrier(self) -> None:
        """Wait until every worker is ready to compute with the others."""
        self.gather("ready")
        self.broadcast("go")

    def gather(self, kind: str, value: Any = None) -> Dict[int, Any]:
        """Send a value to the chief; on the chief, return the values by worker."""
        if not self.is_chief:
            self.connections[0].send({kind: value})
        values: Dict[int, Any] = {}
        while len(values) < len(self._peers):
            index, peer_value = self._next(kind)
            values[index] = peer_value
        return values

    def broadcast(self, kind: str, value: Any = None) -> Any:
        """Return the chief's value on all workers."""
        if not self.is_chief:
            return self._next(kind)[1]
        for connection in list(self.connections.values()):
            connection.send({kind: value})
        return value

    def compute(self, work: Callable[[], Any]) -> Any:
        """Call `work`, which computes with the other workers, and return its result.

        Raises:
          Ended: `work` failed, and the verdict says why; or a TensorFlow connection
            broke although no worker is lost.
        """
        try:
            return work()
        except self._failures as error:
            if not self.cluster:
                raise
            self._has_ended.wait(TIMEOUT + GRACE)
            self.raise_verdict()
            name = self.cluster.name(self.cluster.index)
            text = f"{name} could not compute with the others: {find_reason(error)}"
            raise Ended(text, LOST) from error

    def raise_verdict(self) -> None:
        """Raise the verdict if the run has ended on another worker."""
        with self._lock:
            if self._verdict:
                self._is_delivered = True
                if self._verdict.status == REFUSED:
                    raise TransformerError(str(self._verdict))
                raise self._verdict

    def find_cause(self, error: Exception) -> Exception:
        """Return an error of this worker; if another worker caused it, wait for that.

        Raises:
          TransformerError: another worker ended with the error.
        """
        if isinstance(error, NotFiniteElsewhere) and self.cluster:
            self.gather("fine")
            if not self.is_chief:
                self.wait_for_end()
        return error

    def wait_for_end(self, seconds: Optional[float] = None) -> None:
        """Wait for the verdict, and raise it.

        Args:
          seconds: how long to wait; without a verdict, nothing is raised. None: as long
            as it takes.
        """
        self._has_ended.wait(seconds)
        self.raise_verdict()

    def forward_signal(self, signum: int) -> None:
        """Forward a signal to the chief, which stops the run at its next safe point."""
        self.connections[0].send({"signal": signum})

    # Connections

    def _wait_for_peers(self):
        """Wait until all other workers are connected.

        If the configuration of one differs, the missing workers have `TIMEOUT` seconds
        to connect, so that they also learn of it.
        """
        waiting = Waiting(self._warn)
        seconds_refused = 0.0  # since a configuration differed
        while len(self.connections) < len(self._peers) and seconds_refused < TIMEOUT:
            self.raise_verdict()
            time.sleep(RETRY)
            seconds_refused += RETRY if self._refusal else 0.0
            missing = set(self._peers) - set(self.connections)
            if missing:  # the last one may have connected just now
                waiting.report(", ".join(map(self.cluster.name, sorted(missing))))
        with self._lock:
            if self._refusal and not self._verdict:
                self._verdict = Ended(self._refusal, REFUSED)
        self.raise_verdict()

    def _resolve_names(self):
        """Raise SettingsError if TensorFlow could not find a worker by its name.

        All workers are running, so an unknown name only has the time that a new one
        needs to spread.
        """
        if not self.cluster:
            return
        for _ in range(NAME_ATTEMPTS):
            unresolved = self.cluster.find_unresolved()
            if not unresolved:
                return
            time.sleep(RETRY)
            self.raise_verdict()
        raise SettingsError(
            "TF_CONFIG: expected names that this machine can resolve, got "
            f"{unresolved}; correct the name on all workers"
        )

    def _accept(self):
        """Accept connections, each in its own thread, until the main thread has left.

        With too many connections, files or threads run out. Then it waits: a connection
        that does not identify itself is closed after `HANDSHAKE` seconds.
        """
        has_warned = False
        while not self._has_left.is_set():
            try:
                self._start_thread(self._admit, self._listener.accept()[0])
            except (OSError, RuntimeError) as error:
                if self._has_left.wait(RETRY):
                    return
                if not has_warned:
                    reason = getattr(error, "strerror", "") or error
                    self._warn(f"a connection is not accepted yet: {reason}")
                    has_warned = True

    def _admit(self, sock):
        """Admit the connection of a worker that identifies itself; refuse any other."""
        connection = Connection(sock)
        timer = threading.Timer(HANDSHAKE, connection.shut_down)
        try:
            timer.start()
            message = connection.receive()
            index = message["index"]
            if type(index) is not int:
                raise TypeError("index")
            differences = describe_differences(
                dict(message["configuration"]), self._configuration
            )
        except (Ended, RuntimeError, *MALFORMED):  # RuntimeError: threads ran out
            connection.shut_down()
            return
        finally:
            timer.cancel()
        with self._lock:
            refusal = self._verdict
            if index not in self._peers or index in self.connections:
                refusal = refusal or Ended(
                    f"expected one worker per index, got a second worker {index}; "
                    "give each process its own index in TF_CONFIG",
                    REFUSED,
                )
            if not refusal:
                connection.name = self.cluster.name(index)
                self.connections[index] = connection
            if not refusal and differences and not self._refusal:
                self._refusal = (
                    f"{connection.name}: expected the same configuration on all "
                    f"workers, got {differences}; give each the same command, code "
                    "and data"
                )
        if refusal:
            connection.send({"end": str(refusal), "status": refusal.status})
            connection.shut_down(socket.SHUT_WR)
        else:
            self._read(index, connection)

    def _connect_to_chief(self):
        """Connect to the chief as soon as it listens, and identify this worker."""
        name = self.cluster.name(0)
        host, port = self.cluster.chief_address()
        waiting = Waiting(self._warn)
        while not self.connections:
            try:
                sock = socket.create_connection((host, port), CONNECT)
                self.connections[0] = Connection(sock, name)
            except OSError as error:
                reason = error.strerror or error
                waiting.report(f"{name}, the chief (its port {port}: {reason})")
                time.sleep(RETRY)
        self.connections[0].send(
            {"index": self.cluster.index, "configuration": self._configuration}
        )
        self._start_thread(self._read, 0, self.connections[0])

    # Threads

    def _start_thread(self, work, *arguments):
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def _send_heartbeats(self):
        while not self._has_ended.wait(HEARTBEAT):
            for connection in list(self.connections.values()):
                connection.send({"heartbeat": 1})

    def _read(self, index, connection):
        """Handle the messages of a worker until the run has ended there."""
        try:
            while True:
                message = connection.receive()
                if "end" in message:
                    raise Ended(str(message["end"]), int(message["status"]))
                if "signal" in message:
                    signum = message["signal"]
                    if signum not in SIGNALS:
                        raise ValueError(signum)
                    self._warn(f"{connection.name} was asked to stop")
                    self.stop(signum)
                elif "heartbeat" not in message:
                    self._inbox.put((index, message))
        except Ended as verdict:
            self._end(verdict)
        except MALFORMED:
            self._end(connection.make_verdict())

    def _next(self, kind):
        """Return (index of the worker, value) of the next message of a kind.

        Messages of other kinds are dropped. Messages that arrived before the verdict
        are still returned.
        """
        while True:
            try:
                index, message = self._inbox.get(not self._has_ended.is_set(), RETRY)
            except queue.Empty:
                self.raise_verdict()
                continue
            if kind in message:
                return index, message[kind]

    def _end(self, verdict):
        """Accept the first verdict, send it to all, end the process if necessary."""
        with self._lock:
            if self._verdict or self._is_delivered:
                return
            self._verdict = verdict
        self._send_verdict()
        self._has_ended.set()
        self._inbox.put((0, {}))  # wakes `_next`
        if not self._has_left.wait(GRACE):
            if verdict.status:
                advice = f"; {RESTART}" if verdict.status == LOST else ""
                self._warn(f"{verdict}{advice}")
            self.leave(verdict.status)

    def _send_verdict(self):
        message = {"end": str(self._verdict), "status": self._verdict.status}
        for connection in list(self.connections.values()):
            connection.send(message)

    def leave(self, status: int) -> None:
        """End the process, whatever its main thread is waiting for."""
        os._exit(status)


class Waiting:
    """Reports every `REPORT` seconds which workers are still missing.

    Args:
      warn: function of a text.
    """

    def __init__(self, warn: Callable[[str], None]):
        self._warn = warn
        self._began = time.monotonic()
        self._next = self._began + REPORT

    def report(self, name: str) -> None:
        """Report a missing worker if it is time for a report."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + REPORT
            self._warn(f"waiting for {name}, {now - self._began:.0f} s so far")


def find_reason(error: Exception) -> str:
    """Return the reason that an error of TensorFlow gives, in one line.

    Before the reason there may be the places in the graph and in the program, after it
    what the remote side repeats.
    """
    text = getattr(error, "message", "") or str(error)
    text = re.split(r"^Node: .*$", text, flags=re.MULTILINE)[-1]
    text = " ".join(AFTER_REASON.split(text)[0].split())
    half = MAX_REASON // 2
    return text if len(text) <= MAX_REASON else f"{text[:half]} … {text[-half:]}"


def describe_differences(configuration: Dict[str, Any], chief: Dict[str, Any]) -> str:
    """Describe the differences between a worker's configuration and the chief's."""
    texts = [
        f"{name} {configuration.get(name)} (the chief: {chief.get(name)})"
        for name in sorted(set(configuration) | set(chief))
        if configuration.get(name) != chief.get(name)
    ]
    num_more = len(texts) - MAX_DIFFERENCES
    more = f" and {num_more} more" if num_more > 0 else ""
    return ", ".join(texts[:MAX_DIFFERENCES]) + more


def listen(cluster: Cluster) -> socket.socket:
    """Open the socket on which the chief accepts the others' connections.

    Raises:
      SettingsError: the port is in use.
    """
    host, port = cluster.chief_address()
    reuse_port = os.environ.get(SHARE_PORTS, "") in ("1", "true")
    make_server = functools.partial(socket.create_server, reuse_port=reuse_port)
    try:
        if host in LOOPBACK:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            return make_server((host, port), family=family)
        with contextlib.suppress(OSError, ValueError):  # a machine may have no IPv6
            return make_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return make_server(("", port))
    except OSError as error:
        raise SettingsError(
            f"port {port}: expected a free port for the workers' connections, "
            f"{PORT_OFFSET} from the chief's port in TF_CONFIG, got one that cannot be "
            f"used ({error.strerror}); another chief may be running: stop it, or "
            "choose another port"
        ) from None
