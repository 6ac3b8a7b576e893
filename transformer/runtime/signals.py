"""Signals that wait until a training run has saved its work."""

import contextlib
import os
import signal
import socket
import threading
from typing import Any, Callable, Iterator

SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)  # Windows has no SIGHUP
)


class Stopped(BaseException):
    """A signal ended the work; `status` is the corresponding exit status."""

    def __init__(self, signum: int):
        name = signal.Signals(signum).name
        super().__init__(
            "interrupted" if signum == signal.SIGINT else f"stopped by {name}"
        )
        self.status = 128 + signum


def in_main_thread() -> bool:
    """Return whether this is the main thread, the only one that may set handlers."""
    return threading.current_thread() is threading.main_thread()


def signal_self(signum: int) -> None:
    """Send a signal to this process; SIGTERM instead of one that it ignores."""
    if signal.getsignal(signum) == signal.SIG_IGN:  # as under nohup
        signum = signal.SIGTERM
    os.kill(os.getpid(), signum)


@contextlib.contextmanager
def handle_signals(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Call a handler for each of SIGNALS in the body.

    A signal that the parent process ignores, like SIGHUP under `nohup`, stays ignored.
    Outside the main thread, where Python does not allow handlers, nothing changes.

    Args:
      handler: function of the number of a signal and the current frame.
    """
    previous_handlers = {}
    if in_main_thread():
        for signum in SIGNALS:
            if signal.getsignal(signum) not in (signal.SIG_IGN, None):
                previous_handlers[signum] = signal.signal(signum, handler)
    try:
        yield
    finally:
        for signum, previous in previous_handlers.items():
            signal.signal(signum, previous)


class StopSignals:
    """Defer the first Ctrl-C, SIGTERM or SIGHUP to a safe point.

    A second Ctrl-C ends the process at once. A process gets SIGHUP when its terminal is
    closed.

    Example:

        with StopSignals() as signals:
            update()
            signals.check()             # raises Stopped if a signal was received
            with signals.at_once():     # in here it is raised at once
                evaluate()
    """

    def __init__(self):
        self.received = None
        self._is_active = False
        self._is_deferred = True
        self._handlers = handle_signals(self._receive)

    def __enter__(self):
        self._handlers.__enter__()
        self._is_active = True
        return self

    def __exit__(self, *exception):
        self._is_active = False
        self._handlers.__exit__(*exception)

    def check(self) -> None:
        """Raise Stopped if a signal was received."""
        if self.received:
            raise Stopped(self.received)

    def request(self, signum: int) -> None:
        """Stop like a process that received a signal, because another one received it.

        Any thread may call this. It is not a first Ctrl-C, after which a second one
        would end the process: if all processes of a run receive the same Ctrl-C, it
        comes both from the terminal and from them.

        Args:
          signum: the signal that the other process received.
        """
        self.received = self.received or signum
        if self._is_active:
            os.kill(os.getpid(), signal.SIGTERM)  # interrupts the body of `at_once`

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Do not defer signals in the body, which has nothing to save."""
        self._is_deferred = False
        try:
            self.check()
            yield
        finally:
            self._is_deferred = True

    def _receive(self, signum, frame):
        self.received = self.received or signum
        if signum == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        if not self._is_deferred:
            self.check()


@contextlib.contextmanager
def forward_signals(function: Callable[[int], None]) -> Iterator[None]:
    """Forward the first signal to a function in a thread; a second ends the process.

    A thread is needed because Python does not call signal handlers while the main
    thread is inside TensorFlow. Outside the main thread, nothing is forwarded.

    Args:
      function: function of the number of a signal.
    """
    if not in_main_thread():
        yield
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    previous = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)

    def read():
        received = reader.recv(1)
        if received:
            function(received[0])
            received = reader.recv(1)
            if received:
                os._exit(128 + received[0])

    threading.Thread(target=read, daemon=True).start()
    with handle_signals(lambda signum, frame: None):
        try:
            yield
        finally:
            signal.set_wakeup_fd(previous)
            writer.close()
