"""Several processes: compute tasks in their order, and refuse a model in a fork."""

import collections
import contextlib
import ctypes
import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Callable, Iterable, Iterator, List, Sequence, Tuple

from transformer.runtime.errors import EngineError

PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux
# A signal ends this process at once; Python's warnings about semaphores are then noise.
QUIET = "ignore::UserWarning:multiprocessing.resource_tracker"
QUIET += ",ignore::UserWarning:multiprocessing.semaphore_tracker"  # of Python 3.7

_function: Any = None  # of this process


def map_tasks(
    make_function: Callable[[], Callable[[Any], Any]],
    tasks: Iterable[Any],
    workers: int,
) -> Iterator[Any]:
    """Yield the results of tasks in their order, computed by several processes.

    Tasks are read as they are needed, only a few in advance. Each process is a fresh
    Python (start method "spawn"): it shares no thread or lock with SentencePiece or
    TensorFlow in this process. None outlives this process.

    Args:
      make_function: a function that can be pickled. Each process calls it once; it
        returns the function that computes a task.
      tasks: values that can be pickled.
      workers: the number of processes.

    Raises:
      ChildProcessError: a process was killed.
      Exception: an exception of the function, for a task.
    """
    os.environ.setdefault("PYTHONWARNINGS", QUIET)
    context = multiprocessing.get_context("spawn")
    context.Lock()  # starts Python's resource tracker, which unblocks SIGINT
    arguments = (make_function, os.getpid())
    with ProcessPoolExecutor(workers, context, _begin, arguments) as pool:
        pending: collections.deque = collections.deque()
        try:
            for task in tasks:
                if len(pending) > workers:
                    yield pending.popleft().result()
                with _block_interrupt():  # this call may start a process
                    pending.append(pool.submit(_compute, task))
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool as error:
            raise ChildProcessError(
                "a worker process ended suddenly: memory may have run out; run the "
                "same command again, with fewer workers if necessary"
            ) from error


@contextlib.contextmanager
def _block_interrupt() -> Iterator[None]:
    """Block SIGINT in the body, and in the processes that it starts."""
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def _begin(make_function: Callable[[], Callable[[Any], Any]], parent: int) -> None:
    """Set up a new process, which ends with the process that started it."""
    global _function
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches this process too
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _end_with(parent)
    _function = make_function()


def _end_with(parent: int) -> None:
    """Let this process end with the one that started it."""
    with contextlib.suppress(AttributeError, OSError):  # only Linux has prctl
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, int(signal.SIGKILL))
    if os.getppid() != parent:  # the parent ended before that call
        os._exit(1)


def _compute(task: Any) -> Any:
    return _function(task)


def start_processes(
    function: Callable, arguments: Sequence[Tuple]
) -> List[multiprocessing.process.BaseProcess]:
    """Start a fresh Python for each tuple of arguments; return the processes.

    They end with this process, and leave Ctrl-C to it.

    Args:
      function: a function that can be pickled.
      arguments: its arguments in each process, which can be pickled.
    """
    os.environ.setdefault("PYTHONWARNINGS", QUIET)
    context = multiprocessing.get_context("spawn")
    processes: List[multiprocessing.process.BaseProcess] = []
    for values in arguments:
        process = context.Process(target=_call, args=(os.getpid(), function, *values))
        with _block_interrupt():
            process.start()
        processes.append(process)
    return processes


def _call(parent: int, function: Callable, *values: Any) -> None:
    """Call a function in a process of `start_processes`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with(parent)
    function(*values)


def refuse_fork(process: int) -> None:
    """Raise EngineError if this process is not the one that opened a model.

    Args:
      process: the id of the process that opened it.
    """
    if process != os.getpid():
        raise EngineError(
            f"expected a model that process {os.getpid()} opened, got one of process "
            f"{process}, from which it was forked without the threads that compute; "
            "open the model in each process, and start processes with "
            'multiprocessing.get_context("spawn")'
        )
