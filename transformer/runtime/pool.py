"""Worker processes: requests → answers, both of them bytes, in no order.

    with Pool("transformer.text.parts", settings, 2) as workers:
        for name, answer in workers.answers([("first", b"..."), ("second", b"...")]):
            ...

A worker is a Python process that imports a module and calls its `serve_requests`. It
reads requests from its standard input, writes answers to its standard output, and ends
where its input ends; on Linux, at once when the process ends that started it. So none
outlives it, however it ends.
It is in a session of its own: Ctrl-C reaches the process that started it, not the
worker.
"""

import contextlib
import ctypes
import multiprocessing.connection
import os
import signal
import subprocess
import sys
from typing import IO, Callable, Dict, Hashable, Iterable, Iterator, List, Tuple

# The command of a worker: the path on which it finds its module is that of its parent.
COMMAND = (
    "import sys, importlib; sys.path[:] = sys.argv[3:]; "
    "importlib.import_module(sys.argv[1]).serve_requests(sys.argv[2])"
)
DONE, FAILED = b"+", b"-"  # the first byte of an answer
LENGTH = 8  # bytes before each message that say how long it is
PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG, of Linux
PATIENCE = 10  # seconds in which a worker without requests has to end


class Pool:
    """A number of worker processes, which end with the body of `with`.

    Args:
      module: the name of a module with a function `serve_requests`.
      settings: the text that this function is called with.
      count: how many processes.
    """

    def __init__(self, module: str, settings: str, count: int):
        self._command = [sys.executable, "-c", COMMAND, module, settings, *sys.path]
        self._count = count
        self._processes: List[subprocess.Popen] = []

    def __enter__(self):
        try:
            for _ in range(self._count):
                self._processes.append(
                    subprocess.Popen(
                        self._command,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        start_new_session=True,
                    )
                )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception):
        for process in self._processes:
            if any(exception) or len(self._processes) < self._count:
                process.kill()
            _close(process.stdin)
        for process in self._processes:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()

    def answers(
        self, requests: Iterable[Tuple[Hashable, bytes]]
    ) -> Iterator[Tuple[Hashable, bytes]]:
        """Yield (name, answer) for each (name, request), in the order of the answers.

        The next request is made while the workers work on those before it.

        Raises:
          ValueError: a worker refused a request.
          ChildProcessError: a worker ended without an answer.
        """
        idle, busy = list(self._processes), {}
        for name, request in requests:
            if not idle:
                yield self._next(idle, busy)
            process = idle.pop()
            busy[process] = name
            try:
                _write(process.stdin, request)
            except BrokenPipeError:
                raise _ended(process) from None
        while busy:
            yield self._next(idle, busy)

    def _next(self, idle: List[subprocess.Popen], busy: Dict) -> Tuple[Hashable, bytes]:
        """Wait for an answer; return (name, answer), and move its process to `idle`."""
        outputs = {process.stdout: process for process in busy}
        process = outputs[multiprocessing.connection.wait(list(outputs))[0]]
        message = _read(process.stdout)
        if message is None:
            raise _ended(process)
        if message.startswith(FAILED):
            raise ValueError(message[1:].decode("utf-8", "replace"))
        idle.append(process)
        return busy.pop(process), message[1:]


def serve_process(answer: Callable[[bytes], bytes]) -> None:
    """Be a worker: answer requests from standard input, and end the process.

    Args:
      answer: as of `serve`.
    """
    with contextlib.suppress(AttributeError, OSError):  # where there is such a call
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, int(signal.SIGKILL))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is written there is no answer
    serve(answer, sys.stdin.buffer, answers)
    os._exit(0)  # nothing is left to do, and nobody to tell of it


def serve(answer: Callable[[bytes], bytes], requests: IO, answers: IO) -> None:
    """Answer requests until there are no more, or nobody reads the answers.

    Args:
      answer: function of a request; a ValueError of it refuses the request.
      requests: a stream of bytes.
      answers: another.
    """
    for request in iter(lambda: _read(requests), None):
        try:
            message = DONE + answer(request)
        except (ValueError, OSError, MemoryError) as error:
            message = FAILED + (str(error) or type(error).__name__).encode()
        try:
            _write(answers, message)
        except BrokenPipeError:
            return


def _write(stream: IO, message: bytes) -> None:
    """Write a message behind its length."""
    stream.write(len(message).to_bytes(LENGTH, "little"))
    stream.write(message)
    stream.flush()


def _read(stream: IO):
    """Return the next message, None where there is none, or only a part of it."""
    start = stream.read(LENGTH)
    if len(start) < LENGTH:
        return None
    length = int.from_bytes(start, "little")
    message = stream.read(length)
    return message if len(message) == length else None


def _close(stream: IO) -> None:
    """Close a pipe to a process that may have ended."""
    try:
        stream.close()
    except BrokenPipeError:
        pass


def _ended(process: subprocess.Popen) -> ChildProcessError:
    """Return what to raise for a worker that ended before its answer."""
    code = process.wait()
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
    return ChildProcessError(
        f"found a worker process ended {how}, wanted its answer: memory may have run "
        f"out; run the same command again to continue, with fewer --workers if need be"
    )
