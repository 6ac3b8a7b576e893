"""Worker processes on this machine, one per device: start them, and wait for their end.

Each worker gets a `TF_CONFIG` that names ports reserved for it. If this machine has
GPUs, each worker gets its own GPU; otherwise, each gets an equal share of the CPU
cores. Each line of output begins with the worker's number. When one worker ends, all
end. This file does not import TensorFlow, not even indirectly.
"""

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from transformer.runtime.devices import list_gpus, share_of_cores
from transformer.runtime.errors import ProgramNotFound, SettingsError
from transformer.runtime.signals import handle_signals
from transformer.workers.cluster import LAST_PORT, PORT_OFFSET, SHARE_PORTS
from transformer.workers.team import LOST

HOST = "127.0.0.1"
PATIENCE = 15.0  # seconds that the other workers have to end on their own
POLL = 0.1  # seconds between two checks of the workers
PR_SET_PDEATHSIG = 1  # for prctl of Linux: the signal to receive when the parent dies


def run_workers(
    start: Callable[[], "Workers"], restarts: int, warn: Callable[[str], None]
) -> int:
    """Run the workers of a training run, and restart them if one is lost.

    Args:
      start: starts the workers.
      restarts: how many times to start again after losing a worker.
      warn: function of a text; called when a worker is lost.

    Returns:
      The exit status of the first worker that failed, or 0.
    """
    for attempt in range(restarts + 1):
        workers = start()
        with handle_signals(workers.forward_signal):
            status = workers.wait()
        loss = workers.describe_loss()
        if workers.received or not loss:
            break
        again = f"; restart {attempt + 1} of {restarts}" if attempt < restarts else ""
        warn(loss + again)
    return status


def start_workers(command: Sequence[str], count: int) -> "Workers":
    """Start the workers of a training run on this machine.

    Args:
      command: a Python program and its arguments; each worker runs it.
      count: the number of workers.

    Raises:
      ProgramNotFound: there is no such program.
      SettingsError: there are fewer GPUs than workers.
    """
    arguments = python_arguments(list(command))
    gpus = list_gpus()
    if gpus and count > len(gpus):
        raise SettingsError(
            f"workers: expected at most {len(gpus)}, one for each visible GPU, got "
            f"{count}; set CUDA_VISIBLE_DEVICES= to train on the CPU"
        )
    sockets = contextlib.ExitStack()
    environments = make_environments(count, gpus, sockets)
    processes = [
        start_process(arguments, environment, [] if gpus else share_of_cores(i, count))
        for i, environment in enumerate(environments)
    ]
    return Workers(list(enumerate(processes)), sockets)


def find_free_ports(count: int) -> List[int]:
    """Find free ports, as in `reserve_ports`, which other programs may take again."""
    with contextlib.ExitStack() as sockets:
        return reserve_ports(count, sockets)


def reserve_ports(
    count: int, sockets: contextlib.ExitStack, host: str = HOST, has_chief: bool = True
) -> List[int]:
    """Reserve ports; the port for connections to the chief is reserved, too.

    Until `sockets` is closed, only programs of this user that share ports
    (SO_REUSEPORT) can listen there, and the system gives the ports to nobody else.

    Args:
      count: the number of workers, the chief first.
      sockets: holds the reservations.
      host: the address of this machine at which the ports are reserved.
      has_chief: whether the first of the workers is the chief.
    """

    def reserve(port):
        sock = sockets.enter_context(socket.socket())
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind((host, port))
        return sock.getsockname()[1]

    ports: List[int] = []
    while len(ports) < count:
        port = reserve(0)
        if has_chief and not ports:
            if port + PORT_OFFSET > LAST_PORT or not is_free(host, port + PORT_OFFSET):
                continue
            reserve(port + PORT_OFFSET)
        ports.append(port)
    return ports


def is_free(host: str, port: int) -> bool:
    """Return whether nobody uses or shares a port."""
    with socket.socket() as sock:
        try:
            sock.bind((host, port))
        except OSError:
            return False
    return True


def make_environments(
    count: int,
    gpus: Optional[List[str]] = None,
    sockets: Optional[contextlib.ExitStack] = None,
) -> List[Dict[str, str]]:
    """Make the environment variables of each worker.

    Args:
      count: the number of workers.
      gpus: from `list_gpus`; None or []: the workers compute on the CPU.
      sockets: as in `reserve_ports`; None: the ports are free, but not reserved.
    """
    ports = reserve_ports(count, sockets) if sockets else find_free_ports(count)
    addresses = [f"{HOST}:{port}" for port in ports]
    environments = []
    for index in range(count):
        environment = dict(os.environ, TF_CONFIG=make_config(addresses, index))
        if sockets:
            environment[SHARE_PORTS] = "true"
        if gpus:
            environment["CUDA_VISIBLE_DEVICES"] = gpus[index]
        environments.append(environment)
    return environments


def make_config(addresses: List[str], index: int) -> str:
    """Write the `TF_CONFIG` of a worker, given host:port of all of them."""
    task = {"type": "worker", "index": index}
    return json.dumps({"cluster": {"worker": addresses}, "task": task})


def python_arguments(command: List[str]) -> List[str]:
    """Return the arguments with which Python runs the command of a worker.

    Args:
      command: a program, as a file, by its name or as `-m MODULE`, and its arguments;
        `python` may precede it.

    Raises:
      ProgramNotFound: there is no such program.
    """
    if re.fullmatch(r"python[\d.]*", os.path.basename(command[0])):
        command = command[1:] or [""]
    if command[0] == "-m":
        return command
    return [find_program(command[0]), *command[1:]]


def find_program(name: str) -> str:
    """Find the file of a Python program: `name` itself, or a file on the search path.

    Raises:
      ProgramNotFound: there is no such program.
    """
    if os.path.exists(name):
        return name
    folders = [os.path.dirname(sys.executable), os.environ.get("PATH", "")]
    path = shutil.which(name, path=os.pathsep.join(folders))
    if not path:
        raise ProgramNotFound(
            f"expected a Python program, got {name!r}, which is neither a file nor on "
            "the search path"
        )
    return path


def start_process(
    arguments: List[str], environment: Dict[str, str], cores: List[int]
) -> "subprocess.Popen[bytes]":
    """Start Python for a worker; it ends with the thread that calls this.

    Args:
      arguments: those of Python.
      environment: its environment variables.
      cores: those that it may use; []: all.
    """
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C reaches it only through this process
        preexec_fn=make_preparation(cores),
    )


class Workers:
    """The worker processes of one start.

    Args:
      processes: (its number, a process) of each, the chief first: `subprocess.Popen`,
        or what has its attributes `stdout`, `returncode`, `poll` and `send_signal`.
        `loss`, if a process has it, says how it was lost.
      sockets: closed when all have ended.
    """

    def __init__(self, processes: List[Tuple[int, Any]], sockets: contextlib.ExitStack):
        self.received: List[int] = []  # the signals that this process received
        self._was_killed = False  # whether a signal killed the first that failed
        self._status = 0
        self._lock = threading.Lock()
        self._numbered = processes
        self._processes = [process for _, process in processes]
        self._sockets = sockets
        self._readers = [
            threading.Thread(target=self._show, args=worker, daemon=True)
            for worker in processes
        ]
        for reader in self._readers:
            reader.start()

    def forward_signal(self, signum: int, frame: Any) -> None:
        """Forward a signal that this process received to the chief, which saves."""
        self.received.append(signum)
        self._send(signum, self._processes[:1])

    def _send(self, signum, processes):
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signum)

    def wait(self) -> int:
        """Wait until all workers end; return the status of the first failure, or 0."""
        deadline = None
        while True:
            running = list(filter(self._is_running, self._processes))
            if not running:
                break
            if deadline is None and len(running) < len(self._processes):
                deadline = time.monotonic() + PATIENCE
                if self.received:  # they may not have met the chief yet
                    self._send(self.received[-1], running)
            if deadline is not None and time.monotonic() > deadline:
                self._send(signal.SIGKILL, running)
            time.sleep(POLL)
        for reader in self._readers:
            reader.join(PATIENCE)
        self._sockets.close()
        return self._status

    def describe_loss(self) -> str:
        """Say which worker was lost, or return "" if none was."""
        if not (self._status == LOST or self._was_killed):
            return ""
        for number, process in self._numbered:
            if getattr(process, "loss", ""):
                return f"worker {number}: {process.loss}"
        return f"a worker was lost (status {self._status})"

    def _is_running(self, process):
        """Return whether a worker is running; record the first failure's status."""
        was_running = process.returncode is None
        status = process.poll()
        if was_running and status and not self._status:
            self._was_killed = status < 0
            self._status = 128 - status if self._was_killed else status
        return status is None

    def _show(self, number, process):
        """Show the output lines of a worker, each after its number."""
        for line in process.stdout:
            with self._lock, contextlib.suppress(OSError):
                sys.stderr.buffer.write(b"[%d] %s\n" % (number, line.rstrip(b"\n")))
                sys.stderr.flush()


def make_preparation(cores: List[int]) -> Callable[[], None]:
    """Make the function that a new process calls before it runs its command.

    The new process confines itself to its cores, accepts SIGINT, and asks Linux to kill
    it when this thread or process dies, however that happens.
    """
    parent = os.getpid()
    is_linux = sys.platform.startswith("linux")
    libc = ctypes.CDLL(None) if is_linux else None

    def prepare():
        if cores:
            os.sched_setaffinity(0, cores)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        if libc:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it died before the call
                os._exit(1)

    return prepare
