"""A training as a process: alone in its log directory, and stopped when it suits."""

import contextlib
import fcntl
import os
import signal
import socket

LOCK = "lock"


class Lock:
    """Keeps a second training out of a log directory while this process lives.

        with Lock(logdir) as lock:      # taken here, if there is such a folder
            os.makedirs(logdir, exist_ok=True)
            lock.take()                 # else here

    The system releases it when the process ends, however that happens; the file stays,
    and means nothing by itself.

    Raises:
      ValueError: another process has it.
    """

    def __init__(self, logdir: str):
        self._logdir, self._file = logdir, None

    def __enter__(self):
        if os.path.isdir(self._logdir):
            self.take()
        return self

    def take(self) -> None:
        if self._file:
            return
        file = open(os.path.join(self._logdir, LOCK), "a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            with file:
                raise ValueError(
                    f"{self._logdir}: found a training that is running here, "
                    f"{file.read().strip() or 'just started'}; wait for it, stop it, "
                    "or choose another --logdir"
                ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        self._file = file

    def __exit__(self, *exception):
        if self._file:
            self._file.truncate(0)
            self._file.close()


class Stopped(BaseException):
    """A signal ended the training; `status` is the exit status that says so."""

    def __init__(self, number: int):
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.status = 128 + number


class StopSignals:
    """Ctrl-C and SIGTERM wait until it suits the training; a second Ctrl-C does not.

    with StopSignals() as signals:
        while …:
            update()
            if signals.came:
                save()
            signals.check()             # raises Stopped if one came
            with signals.at_once():     # here it is raised as soon as one comes
                evaluate()
    """

    NUMBERS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self):
        self.came = None
        self._waits = True

    def __enter__(self):
        self._before = {
            number: signal.signal(number, self._come) for number in self.NUMBERS
        }
        return self

    def __exit__(self, *exception):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raises Stopped if a signal came."""
        if self.came:
            raise Stopped(self.came)

    @contextlib.contextmanager
    def at_once(self):
        """What runs in it has nothing to lose."""
        self._waits = False
        try:
            self.check()
            yield
        finally:
            self._waits = True

    def _come(self, number, frame):
        self.came = self.came or number
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if not self._waits:
            self.check()
