"""Start the workers of a training run on this machine, one process per device.

    transformer-tf launch --workers 2 -- transformer-tf train --logdir logs/two

Each worker runs the command after `--`, with a `TF_CONFIG` that names free ports. If
this machine has GPUs, each worker gets its own GPU; otherwise, each gets an equal share
of the CPU cores. Each line of output begins with the worker's number; signals are
forwarded to all workers. When one worker ends, all end; the exit status is that of the
first worker that failed. With `--restarts`, a run that lost a worker starts again from
its last checkpoint.
"""

import argparse
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
from typing import Any, Callable, Dict, List, Optional

from transformer.commands import cli
from transformer.commands.terminal import command_name
from transformer.runtime.signals import handled
from transformer.workers.cluster import LAST_PORT, PORT_OFFSET
from transformer.workers.team import LOST

HOST = "127.0.0.1"
PATIENCE = 15.0  # seconds that the other workers have to end on their own
POLL = 0.1  # seconds between two checks of the workers
PR_SET_PDEATHSIG = 1  # for prctl of Linux: the signal to receive when the parent dies


def parser() -> cli.Parser:
    """Return the parser of the command line."""
    made = cli.make_parser("launch", __doc__)
    cli.add_number(made, "workers", 2, "how many to start")
    cli.add_number(
        made, "restarts", 0, "how many times to restart after losing a worker"
    )
    made.add_argument("command", nargs="+", help="a Python program and its arguments")
    return made


def visible_gpus() -> List[str]:
    """Return the GPUs of this machine that `CUDA_VISIBLE_DEVICES` does not hide.

    This does not ask TensorFlow, whose import takes seconds.
    """
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        names = [name.strip() for name in chosen.split(",")]
        return [name for name in names if name and name != "-1"]
    try:
        command = ["nvidia-smi", "--list-gpus"]
        listed = subprocess.check_output(command, stderr=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return []
    lines = listed.decode("utf-8", "replace").splitlines()
    count = sum(line.startswith("GPU ") for line in lines)
    return [str(index) for index in range(count)]


def share_of_cores(index: int, count: int) -> List[int]:
    """Return the CPU cores for a worker; [] if the system cannot assign cores."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    cores = sorted(os.sched_getaffinity(0))
    if count >= len(cores):
        return [cores[index % len(cores)]]
    return cores[index * len(cores) // count : (index + 1) * len(cores) // count]


def free_ports(count: int) -> List[int]:
    """Return free ports; the port for connections to the chief is also free."""
    with contextlib.ExitStack() as taken:
        ports: List[int] = []
        while len(ports) < count:
            sock = taken.enter_context(socket.socket())
            sock.bind((HOST, 0))
            port = sock.getsockname()[1]
            if not ports:  # the chief
                if port + PORT_OFFSET > LAST_PORT:
                    continue
                other = taken.enter_context(socket.socket())
                try:
                    other.bind((HOST, port + PORT_OFFSET))
                except OSError:
                    continue
            ports.append(port)
    return ports


def environments(count: int, gpus: Optional[List[str]] = None) -> List[Dict[str, str]]:
    """Return the environment variables of each worker.

    Args:
      count: the number of workers.
      gpus: what `visible_gpus` returned; None or []: the workers compute on the CPU.
    """
    addresses = [f"{HOST}:{port}" for port in free_ports(count)]
    made = []
    for index in range(count):
        task = {"type": "worker", "index": index}
        config = {"cluster": {"worker": addresses}, "task": task}
        environment = dict(os.environ, TF_CONFIG=json.dumps(config))
        if gpus:
            environment["CUDA_VISIBLE_DEVICES"] = gpus[index]
        made.append(environment)
    return made


def arguments_of_python(line: List[str]) -> List[str]:
    """Return the arguments with which Python runs the command line of a worker.

    Args:
      line: a program, as a file, by its name or as `-m MODULE`, and its arguments;
        `python` may precede it.

    Raises:
      ValueError: there is no such program.
    """
    if re.fullmatch(r"python[\d.]*", os.path.basename(line[0])):
        line = line[1:] or [""]
    if line[0] == "-m":
        return line
    return [program_file(line[0]), *line[1:]]


def program_file(name: str) -> str:
    """Return the file of a Python program: `name` itself, or a file on the search path.

    Raises:
      ValueError: there is no such program.
    """
    if os.path.exists(name):
        return name
    folders = [os.path.dirname(sys.executable), os.environ.get("PATH", "")]
    found = shutil.which(name, path=os.pathsep.join(folders))
    if not found:
        raise ValueError(
            f"expected a Python program after --, got {name!r}, which is neither a "
            f"file nor on the path: write -- {command_name('train')} --logdir DIR"
        )
    return found


class Workers:
    """The worker processes of one start.

    Args:
      line: the arguments of Python.
      count: how many to start.
      gpus: what `visible_gpus` returned.
    """

    def __init__(self, line: List[str], count: int, gpus: List[str]):
        self.received: List[int] = []  # the signals that this process received
        self.was_killed = False  # whether a signal killed the first worker that failed
        self._status = 0
        self._lock = threading.Lock()
        self._processes = []
        for index, environment in enumerate(environments(count, gpus)):
            cores = [] if gpus else share_of_cores(index, count)
            process = subprocess.Popen(
                [sys.executable, *line],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches it only through this process
                preexec_fn=preparation(cores),
            )
            self._processes.append(process)
        self._readers = [
            threading.Thread(target=self._show, args=each, daemon=True)
            for each in enumerate(self._processes)
        ]
        for reader in self._readers:
            reader.start()

    def pass_on(self, number: int, frame: Any) -> None:
        """Forward a signal that this process received to all workers."""
        self.received.append(number)
        self._send(number)

    def _send(self, number):
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    def wait(self) -> int:
        """Wait until all workers end; return the status of the first failure, or 0."""
        deadline = None
        while True:
            running = [each for each in self._processes if self._is_running(each)]
            if not running:
                break
            if deadline is None and len(running) < len(self._processes):
                deadline = time.monotonic() + PATIENCE
            if deadline is not None and time.monotonic() > deadline:
                self._send(signal.SIGKILL)
            time.sleep(POLL)
        for reader in self._readers:
            reader.join(PATIENCE)
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


def preparation(cores: List[int]) -> Callable[[], None]:
    """Return the function that a new process calls before it runs its command.

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


def run(args: argparse.Namespace) -> int:
    """Start the workers, and restart them if one is lost; return their status."""
    for name, least in (("workers", 1), ("restarts", 0)):
        if getattr(args, name) < least:
            raise ValueError(
                f"{name}: expected {least} or more, got {getattr(args, name)}"
            )
    line = arguments_of_python(args.command)
    gpus = visible_gpus()
    if gpus and args.workers > len(gpus):
        raise ValueError(
            f"workers: expected at most {len(gpus)}, one for each visible GPU, got "
            f"{args.workers}; set CUDA_VISIBLE_DEVICES= to train on the CPU"
        )
    for start in range(args.restarts + 1):
        workers = Workers(line, args.workers, gpus)
        with handled(workers.pass_on):
            status = workers.wait()
        if workers.received or not (status == LOST or workers.was_killed):
            break
        if start < args.restarts:
            text = f"a worker was lost (status {status})"
            args.warn(f"{text}; restart {start + 1} of {args.restarts}")
    return status
