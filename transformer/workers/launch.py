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
from typing import Any, Callable, Dict, List, Optional, Sequence

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
    command: Sequence[str], count: int, restarts: int, warn: Callable[[str], None]
) -> int:
    """Run the workers of a training run, and restart them if one is lost.

    Args:
      command: a Python program and its arguments; each worker runs it.
      count: the number of workers.
      restarts: how many times to start again after losing a worker.
      warn: function of a text; called before a restart.

    Returns:
      The exit status of the first worker that failed, or 0.

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
    for attempt in range(restarts + 1):
        workers = Workers(arguments, count, gpus)
        with handle_signals(workers.forward_signal):
            status = workers.wait()
        if workers.received or not (status == LOST or workers.was_killed):
            break
        if attempt < restarts:
            warn(
                f"a worker was lost (status {status}); restart {attempt + 1} of "
                f"{restarts}"
            )
    return status


def find_free_ports(count: int) -> List[int]:
    """Find free ports, as in `reserve_ports`, which other programs may take again."""
    with contextlib.ExitStack() as sockets:
        return reserve_ports(count, sockets)


def reserve_ports(count: int, sockets: contextlib.ExitStack) -> List[int]:
    """Reserve ports; the port for connections to the chief is reserved, too.

    Until `sockets` is closed, only programs of this user that share ports
    (SO_REUSEPORT) can listen there, and the system gives the ports to nobody else.

    Args:
      count: the number of workers, the chief first.
      sockets: holds the reservations.
    """

    def reserve(port):
        sock = sockets.enter_context(socket.socket())
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind((HOST, port))
        return sock.getsockname()[1]

    ports: List[int] = []
    while len(ports) < count:
        port = reserve(0)
        if not ports:  # the chief
            if port + PORT_OFFSET > LAST_PORT or not is_free(port + PORT_OFFSET):
                continue
            reserve(port + PORT_OFFSET)
        ports.append(port)
    return ports


def is_free(port: int) -> bool:
    """Return whether nobody uses or shares a port."""
    with socket.socket() as sock:
        try:
            sock.bind((HOST, port))
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
        task = {"type": "worker", "index": index}
        config = {"cluster": {"worker": addresses}, "task": task}
        environment = dict(os.environ, TF_CONFIG=json.dumps(config))
        if sockets:
            environment[SHARE_PORTS] = "true"
        if gpus:
            environment["CUDA_VISIBLE_DEVICES"] = gpus[index]
        environments.append(environment)
    return environments


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


class Workers:
    """The worker processes of one start.

    Args:
      arguments: the arguments of Python.
      count: how many to start.
      gpus: from `list_gpus`.
    """

    def __init__(self, arguments: List[str], count: int, gpus: List[str]):
        self.received: List[int] = []  # the signals that this process received
        self.was_killed = False  # whether a signal killed the first worker that failed
        self._status = 0
        self._lock = threading.Lock()
        self._processes = []
        self._sockets = contextlib.ExitStack()
        environments = make_environments(count, gpus, self._sockets)
        for index, environment in enumerate(environments):
            cores = [] if gpus else share_of_cores(index, count)
            process = subprocess.Popen(
                [sys.executable, *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches it only through this process
                preexec_fn=make_preparation(cores),
            )
            self._processes.append(process)
        self._readers = [
            threading.Thread(target=self._show, args=worker, daemon=True)
            for worker in enumerate(self._processes)
        ]
        for reader in self._readers:
            reader.start()

    def forward_signal(self, signum: int, frame: Any) -> None:
        """Forward a signal that this process received to all workers."""
        self.received.append(signum)
        self._send(signum)

    def _send(self, signum):
        for process in self._processes:
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
            if deadline is not None and time.monotonic() > deadline:
                self._send(signal.SIGKILL)
            time.sleep(POLL)
        for reader in self._readers:
            reader.join(PATIENCE)
        self._sockets.close()
        return self._status

    def _is_running(self, process):
        """Return whether a worker is running; record the first failure's status."""
        was_running = process.returncode is None
        status = process.poll()
        if was_running and status and not self._status:
            self.was_killed = status < 0
            self._status = 128 - status if self.was_killed else status
        return status is None

    def _show(self, index, process):
        """Show the output lines of a worker, each after its number."""
        for line in process.stdout:
            with self._lock, contextlib.suppress(OSError):
                sys.stderr.buffer.write(b"[%d] %s\n" % (index, line.rstrip(b"\n")))
                sys.stderr.flush()


def make_preparation(cores: List[int]) -> Callable[[], None]:
    """Make the function that a new process calls before it runs its command.

    The new process confines itself to its cores, and asks Linux to kill it when this
    process dies, however that happens.
    """
    parent = os.getpid()
    is_linux = sys.platform.startswith("linux")
    libc = ctypes.CDLL(None) if is_linux else None

    def prepare():
        if cores:
            os.sched_setaffinity(0, cores)
        if libc:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it died before the call
                os._exit(1)

    return prepare
