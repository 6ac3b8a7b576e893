"""A training run as a process: alone in its log directory, stopped at a safe point."""

import contextlib
import fcntl
import os
import signal
import socket
import threading
from typing import Callable, Iterator

from transformer.runtime.files import named

LOCK = "lock"


class Lock:
    """Keeps a second training run out of a log directory while this process lives.

        with Lock(logdir) as lock:      # taken here, if the folder exists
            os.makedirs(logdir, exist_ok=True)
            lock.take()                 # else here

    The system releases it when the process ends, even by `kill -9`. The file stays; its
    presence does not mean that the lock is taken.

    Raises:
      ValueError: another process has it.
    """

    def __init__(self, logdir: str):
        self.logdir, self._file, self._folder = logdir, None, None

    def __enter__(self):
        if os.path.isdir(self.logdir):
            self.take()
        return self

    def take(self) -> None:
        """Take the lock, if this object does not have it yet."""
        if self._file:
            return
        file = open(os.path.join(self.logdir, LOCK), "a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            with file:
                raise ValueError(
                    f"{self.logdir}: found a training run in progress, "
                    f"{file.read().strip() or 'just started'}; wait for it, stop it, "
                    "or choose another --logdir"
                ) from None
        with named(file.name):
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            file.flush()
        # Open, so that no other folder gets its number while this process lives.
        self._file, self._folder = file, os.open(self.logdir, os.O_RDONLY)

    def check(self) -> None:
        """Raise FileNotFoundError where the log directory was moved or deleted."""
        held = os.fstat(self._folder)
        try:
            is_there = os.path.samestat(held, os.stat(self.logdir))
        except OSError:
            is_there = False
        if not is_there:
            raise FileNotFoundError(
                f"{self.logdir}: found the log directory moved or deleted since "
                "training began, wanted it to stay; put it back, or name its new place "
                "with --logdir, and training continues from the last checkpoint there"
            )

    def __exit__(self, *exception):
        if self._file:
            os.close(self._folder)
            with contextlib.suppress(OSError):  # what it says is of no importance
                self._file.truncate(0)
                self._file.close()


class Stopped(BaseException):
    """A signal ended the training run; `status` is the exit status that says so."""

    def __init__(self, number: int):
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.status = 128 + number


class StopSignals:
    """Defers Ctrl-C, SIGTERM and SIGHUP to a safe point; a second Ctrl-C ends at once.

    SIGHUP is what a process gets when its terminal is closed. A signal that whoever
    started the process has it ignore, as `nohup` does, stays ignored.

    Example:

        with StopSignals() as signals:
            update()
            signals.check()             # raises Stopped if a signal was received
            with signals.at_once():     # in here it is raised at once
                evaluate()
    """

    NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self):
        self.received = None
        self._is_deferred = True

    def __enter__(self):
        self._before = {
            number: signal.signal(number, self._receive)
            for number in self.NUMBERS
            if signal.getsignal(number) != signal.SIG_IGN
        }
        return self

    def __exit__(self, *exception):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise Stopped if a signal was received."""
        if self.received:
            raise Stopped(self.received)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Do not defer signals in the body, which has nothing to lose."""
        self._is_deferred = False
        try:
            self.check()
            yield
        finally:
            self._is_deferred = True

    def _receive(self, number, frame):
        self.received = self.received or number
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if not self._is_deferred:
            self.check()


@contextlib.contextmanager
def told_of_signals(tell: Callable[[int], None]) -> Iterator[None]:
    """Report the first signal from a thread of its own; a second one ends the process.

    Python calls no signal handler while the main thread is inside TensorFlow.

    Args:
      tell: function of the number of a signal.
    """
    here, there = socket.socketpair()
    there.setblocking(False)
    before = {
        number: signal.signal(number, lambda number, frame: None)
        for number in StopSignals.NUMBERS
        if signal.getsignal(number) != signal.SIG_IGN
    }
    wakeup = signal.set_wakeup_fd(there.fileno(), warn_on_full_buffer=False)

    def read():
        received = here.recv(1)
        if received:
            tell(received[0])
            received = here.recv(1)
            if received:
                os._exit(128 + received[0])

    threading.Thread(target=read, daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        there.close()
