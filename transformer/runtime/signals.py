"""Signals that wait until a training run has saved what it computed."""

import contextlib
import os
import signal
import socket
import threading
from typing import Callable, Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal ended the work; `status` is the exit status that says so."""

    def __init__(self, number: int):
        name = signal.Signals(number).name
        super().__init__(
            "interrupted" if number == signal.SIGINT else f"stopped by {name}"
        )
        self.status = 128 + number


class StopSignals:
    """Defer Ctrl-C, SIGTERM and SIGHUP to a safe point; a second Ctrl-C ends at once.

    SIGHUP is what a process gets when its terminal is closed. A signal that whoever
    started the process has it ignore, as `nohup` does, stays ignored.

    Example:

        with StopSignals() as signals:
            update()
            signals.check()             # raises Stopped if a signal was received
            with signals.at_once():     # in here it is raised at once
                evaluate()
    """

    def __init__(self):
        self.received = None
        self._is_deferred = True

    def __enter__(self):
        self._before = _handle(self._receive)
        return self

    def __exit__(self, *exception):
        _restore(self._before)

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
def signals_passed_to(function: Callable[[int], None]) -> Iterator[None]:
    """Pass the first signal to a function, in a thread; a second ends the process.

    Python calls no signal handler while the main thread is inside TensorFlow.

    Args:
      function: of the number of a signal.
    """
    here, there = socket.socketpair()
    there.setblocking(False)
    before = _handle(lambda number, frame: None)
    wakeup = signal.set_wakeup_fd(there.fileno(), warn_on_full_buffer=False)

    def read():
        received = here.recv(1)
        if received:
            function(received[0])
            received = here.recv(1)
            if received:
                os._exit(128 + received[0])

    threading.Thread(target=read, daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        _restore(before)
        there.close()


def _handle(handler):
    """Set the handler of the signals that are not ignored; return those before."""
    return {
        number: signal.signal(number, handler)
        for number in SIGNALS
        if signal.getsignal(number) != signal.SIG_IGN
    }


def _restore(before):
    """Set the handlers that `_handle` returned."""
    for number, handler in before.items():
        signal.signal(number, handler)
