"""Turn errors and signals into an exit status and one line."""

import contextlib
import errno
import os
import shutil
import signal
import sys
import termios
import threading
from typing import Callable, Iterator

from transformer.runtime.folders import UNFINISHED
from transformer.runtime.process import Stopped
from transformer.runtime.terminal import shown

REFUSED = 2  # the exit status of every refusal, argparse's own too
INTERRUPTED = 128 + signal.SIGINT
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def warner(prog: str) -> Callable[[str], None]:
    """Return a function that writes a line on stderr, behind the name of the command.

    Args:
      prog: the name of the command: "train.py".
    """

    def warn(text):
        with contextlib.suppress(OSError):  # its terminal may have been closed
            sys.stderr.write(f"{prog}: {shown(str(text))}\n")

    return warn


@contextlib.contextmanager
def in_one_line(prog: str, advice: str = "") -> Iterator[None]:
    """Turn what ends the body into an exit status and one line on stderr.

    Args:
      prog: the name of the command.
      advice: what to do after a signal, for a command that can continue.

    Raises:
      SystemExit: with status 2 for what is refused, 128 + the number of a signal, 0
        where nobody reads standard output any more.
    """
    advice = advice and "; " + advice
    try:
        with _signals_end_at_once(prog, advice):
            yield
            sys.stdout.flush()
    except BrokenPipeError as error:  # `| head -1` has seen enough
        _discard_output()
        raise SystemExit(0) from error
    except (ValueError, OSError, FloatingPointError, MemoryError) as error:
        _leave(prog, explained(error), REFUSED, error)
    except Stopped as stopped:
        _leave(prog, f"{stopped}{advice}", stopped.status, stopped)
    except KeyboardInterrupt as interrupt:
        _leave(prog, f"interrupted{advice}", INTERRUPTED, interrupt)


def explained(error: Exception) -> str:
    """Return the message of an error; of a full disk, what to do about it."""
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return (
            f"{error.filename or 'standard output'}: found no room for it "
            f"({error.strerror}), wanted some; make room, then run the same again"
        )
    return str(error) or type(error).__name__


def _leave(prog, message, status, cause):
    """Write one line on stderr and exit."""
    warner(prog)(message)
    raise SystemExit(status) from cause


@contextlib.contextmanager
def _signals_end_at_once(prog, advice):
    """Have a signal end the process where it is, without an exception.

    An exception would rise in the middle of TensorFlow's import, of a destructor or of
    a thread: some of them ignore it, others report it in a hundred lines. Signals that
    the caller ignores, as `nohup` does, stay ignored; train.py defers them once there
    is something to save.
    """
    with contextlib.ExitStack() as after:
        stream, restore_terminal = _copy_of_stderr(after), _state_of_terminal()

        def end(number, frame):
            for path in list(UNFINISHED):
                shutil.rmtree(path, ignore_errors=True)
            what = "interrupted" if number == signal.SIGINT else str(Stopped(number))
            line = "\n" if os.isatty(stream) else ""  # behind "^C", or the bar
            restore_terminal()
            with contextlib.suppress(OSError):
                os.write(stream, f"{line}{prog}: {what}{advice}\n".encode())
            os._exit(128 + number)

        is_main = threading.current_thread() is threading.main_thread()
        for number in SIGNALS if is_main else ():
            before = signal.getsignal(number)
            if before not in (signal.SIG_IGN, None):
                signal.signal(number, end)
                after.callback(signal.signal, number, before)
        yield


def ignore_signals() -> None:
    """Let the process end with its status: its work is done, and has been reported.

    Python gives signals their default back before the libraries end, which takes a
    while; those that are ignored stay so.
    """
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _state_of_terminal() -> Callable[[], None]:
    """Return a function that undoes what readline does to the terminal of stdin."""
    try:
        state = termios.tcgetattr(0)
    except (OSError, termios.error):  # there is none
        return lambda: None
    return lambda: termios.tcsetattr(0, termios.TCSANOW, state)


def _copy_of_stderr(after):
    """Return a descriptor of stderr that stays while TensorFlow's start is silenced."""
    try:
        stream = os.dup(2)
    except OSError:  # it is closed
        stream = os.open(os.devnull, os.O_WRONLY)
    after.callback(os.close, stream)
    return stream


def _discard_output():
    """Have standard output lead nowhere: Python writes the rest of it at its end."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
