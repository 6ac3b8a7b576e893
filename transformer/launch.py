"""Start the workers of a training run on this machine, and end them together.

    python -m transformer.launch --workers 2 -- train.py --logdir logs/two

Each worker is the command behind `--`, with a `TF_CONFIG` of free ports of this
machine. Its lines are shown behind its number. Signals go to all. Where one worker
ends, all do; the status is that of the first one that failed. With `--restarts`, a run
that lost a worker starts again, and continues from its checkpoint.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Dict, Iterator, List

from transformer.runtime import cli
from transformer.runtime.cluster import LOST, PORTS_APART
from transformer.runtime.ending import SIGNALS

PROG = "python -m transformer.launch"
HOST = "127.0.0.1"
PATIENCE = 15.0  # seconds that the others have to end by themselves
LOOK = 0.1  # seconds between two looks at the workers


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser(PROG, __doc__)
    made.add_argument(
        "--workers", type=int, default=2, metavar="INT", help="how many to start [2]"
    )
    made.add_argument(
        "--restarts",
        type=int,
        default=0,
        metavar="INT",
        help="how often to start again after a worker was lost [0]",
    )
    made.add_argument("command", nargs="+", help="a file of Python and its arguments")
    return made


def free_ports(count: int) -> List[int]:
    """Return ports that nobody uses, nor the port of the chief's connections."""
    with contextlib.ExitStack() as taken:
        ports: List[int] = []
        while len(ports) < count:
            sock = taken.enter_context(socket.socket())
            sock.bind((HOST, 0))
            port = sock.getsockname()[1]
            if not ports:  # the chief
                beside = taken.enter_context(socket.socket())
                try:
                    beside.bind((HOST, (port + PORTS_APART)))
                except (OSError, OverflowError):
                    continue
            ports.append(port)
    return ports


def environments(count: int) -> List[Dict[str, str]]:
    """Return the variables of the environment of each worker."""
    addresses = [f"{HOST}:{port}" for port in free_ports(count)]
    return [
        {
            **os.environ,
            "TF_CONFIG": json.dumps(
                {
                    "cluster": {"worker": addresses},
                    "task": {"type": "worker", "index": index},
                }
            ),
        }
        for index in range(count)
    ]


class Workers:
    """The processes of one start.

    Args:
      command: a file of Python and its arguments.
      count: how many to start.
    """

    def __init__(self, command: List[str], count: int):
        self.received: List[int] = []  # the signals of this process
        self.was_killed = False  # the first that failed
        self._status = 0
        self._lock = threading.Lock()
        self._processes = [
            subprocess.Popen(
                [sys.executable, *command],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C comes from here alone
            )
            for environment in environments(count)
        ]
        self._readers = [
            threading.Thread(target=self._show, args=each, daemon=True)
            for each in enumerate(self._processes)
        ]
        for reader in self._readers:
            reader.start()

    @contextlib.contextmanager
    def given_signals(self) -> Iterator[None]:
        """Pass the signals of this process on to all workers."""
        before = {
            number: signal.signal(number, self._pass_on)
            for number in SIGNALS
            if signal.getsignal(number) != signal.SIG_IGN
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _pass_on(self, number, frame):
        self.received.append(number)
        self._send(number)

    def _send(self, number):
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    def wait(self) -> int:
        """Return the status of the first that failed, 0 for none, once all ended."""
        deadline = None
        while self._look():
            if deadline is None and self._running() < len(self._processes):
                deadline = time.monotonic() + PATIENCE
            if deadline is not None and time.monotonic() > deadline:
                self._send(signal.SIGKILL)
            time.sleep(LOOK)
        for reader in self._readers:
            reader.join(PATIENCE)
        return self._status

    def _running(self):
        return sum(process.returncode is None for process in self._processes)

    def _look(self):
        """Note which failed first; return whether any is running."""
        for process in self._processes:
            if process.returncode is None and process.poll() and not self._status:
                status, self.was_killed = process.returncode, process.returncode < 0
                self._status = 128 - status if self.was_killed else status
        return self._running()

    def _show(self, index, process):
        """Show the lines of a worker behind its number."""
        for line in process.stdout:
            with self._lock, contextlib.suppress(OSError):
                sys.stderr.buffer.write(b"[%d] %s\n" % (index, line.rstrip(b"\n")))
                sys.stderr.flush()


def run(args) -> int:
    """Start the workers, again where one was lost; return their status."""
    for name, least in (("workers", 1), ("restarts", 0)):
        if getattr(args, name) < least:
            raise ValueError(
                f"{name}: found {getattr(args, name)}, wanted {least} or more"
            )
    warn = cli.warner(PROG)
    for start in range(args.restarts + 1):
        workers = Workers(args.command, args.workers)
        with workers.given_signals():
            status = workers.wait()
        if workers.received or not (status == LOST or workers.was_killed):
            break
        if start < args.restarts:
            warn(f"found status {status}; restart {start + 1} of {args.restarts}")
    return status


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
