"""Write a folder whole or not at all; remove leftovers of killed processes.

with new_folder("logs/mean", "--out") as made:  # logs/.unfinished-…/made
    write_everything(made)
# now it is logs/mean
"""

import contextlib
import ctypes
import fcntl
import fnmatch
import functools
import os
import re
import shutil
import tempfile
import time
from typing import Callable, Iterator, List, Sequence, Set

from transformer.runtime.files import named, refuse_unwritable, sync

NAME_START = ".unfinished-"
DAY = 24 * 60 * 60  # seconds

# The folders that this process writes: whoever ends it at once removes them first.
UNFINISHED: Set[str] = set()


@contextlib.contextmanager
def unfinished(place: str, key: str = "") -> Iterator[str]:
    """Yield a folder on the file system of `place`, and remove it afterwards.

    Folders that killed processes left there, or beside it before it was there, are
    removed as well. A folder in use is locked; the system releases the lock when its
    process ends.

    Args:
      place: a folder; if it is not there, its nearest parent is used.
      key: letters and digits, the same ones for the same work: the folder that a killed
        process with this key left is not removed but yielded, with what is in it.
        "": a new folder.
    """
    parent = _nearest(place)
    with contextlib.ExitStack() as held:
        _sweep(os.path.dirname(parent))
        _sweep(parent, NAME_START + key)
        with _locked(parent):  # nobody sweeps a folder that is not locked yet
            path = _left(os.path.join(parent, NAME_START + key), held) if key else None
            if not path:
                path = tempfile.mkdtemp(prefix=NAME_START, dir=parent)
                held.enter_context(_locked(path))
        UNFINISHED.add(path)
        is_kept = False
        try:
            yield path
        except (OSError, KeyboardInterrupt):
            is_kept = path not in UNFINISHED
            raise
        finally:
            if not is_kept:
                shutil.rmtree(path, ignore_errors=True)
            UNFINISHED.discard(path)


def keep(path: str) -> None:
    """Have an unfinished folder stay if a signal or the system ends the work on it.

    The next process with its key goes on with it; any other removes it.
    """
    UNFINISHED.discard(path)


def _left(path: str, held: contextlib.ExitStack) -> str:
    """Lock the folder of a key, made if need be; return "" where another has it.

    Args:
      path: the folder.
      held: takes the lock.
    """
    if os.path.islink(path):
        return ""
    os.makedirs(path, 0o700, exist_ok=True)
    handle = os.open(path, os.O_RDONLY)
    held.callback(os.close, handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return ""
    except OSError:  # the file system has no locks
        pass
    return path


@contextlib.contextmanager
def new_folder(out: str, flag: str, replaces: str = "") -> Iterator[str]:
    """Yield a folder that becomes `out` when the body has succeeded.

    Whoever looks at `out`, at any time, finds nothing or a whole folder.

    Args:
      out, flag, replaces: as of `refuse_used`.
    """
    refuse_used(out, flag, replaces)
    out = os.path.realpath(out)
    parent = os.path.dirname(out)
    refuse_unwritable(parent, flag)
    with named(out), unfinished(parent) as work:
        made = os.path.join(work, "made")
        os.mkdir(made)
        yield made
        for folder, _, names in os.walk(made, topdown=False):
            for path in [os.path.join(folder, name) for name in names] + [folder]:
                sync(path)
        os.makedirs(parent, exist_ok=True)
        with Moves() as moves:
            if os.path.isdir(out) and os.listdir(out):
                moves.exchange(made, out)
            else:
                moves.move(made, out)
            sync(parent)


class Moves:
    """Moves of files and folders, all of them or none.

        with Moves() as moves:
            moves.move("old", "aside")
            moves.move("new", "old")    # if this fails, "aside" becomes "old" again

    Where one fails, or the body does, they are undone, the last one first.
    """

    def __enter__(self):
        self._undo: List[Callable[[], None]] = []
        return self

    def __exit__(self, kind, *exception):
        if kind:
            with contextlib.suppress(OSError):  # the disk is broken: leave it alone
                for undo in reversed(self._undo):
                    undo()

    def move(self, path: str, to: str) -> None:
        """Rename a file or folder, if there is one."""
        if os.path.lexists(path):
            os.rename(path, to)
            self._undo.append(functools.partial(os.rename, to, path))

    def replace(self, path: str, to: str, kept: str) -> None:
        """Rename a file to a name that another may have, which is never missing.

        Undone, the other one has it again, and the file is gone.

        Args:
          path, to: the file, and its new name.
          kept: a name for the other file, at which it is kept.
        """
        if not os.path.lexists(to):
            self.move(path, to)
            return
        try:
            os.link(to, kept)
        except OSError:  # not every file system has links
            shutil.copy2(to, kept)
        os.replace(path, to)
        self._undo.append(functools.partial(os.replace, kept, to))

    def exchange(self, path: str, other: str) -> None:
        """Exchange two folders, at once where the system can."""
        try:
            _exchange(path, other)
            self._undo.append(functools.partial(_exchange, path, other))
        except (OSError, AttributeError):
            self.move(other, path + ".old")
            self.move(path, other)


def _exchange(path: str, other: str) -> None:
    """Exchange two names by one call; OSError or AttributeError where there is none."""
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE: of Linux
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(path), os.fsencode(other)
    if libc.renameat2(here, names[0], here, names[1], exchange):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), other)


def refuse_used(
    out: str, flag: str, replaces: str = "", allowed: Sequence[str] = ()
) -> None:
    """Raise ValueError where `out` is anything but a new or an empty folder.

    What killed processes left beside the folder is removed.

    Args:
      out: a path.
      flag: the flag that named it, for the message.
      replaces: the name of a file; a folder that has it is one of ours.
      allowed: patterns of names that another folder may have.
    """
    refuse_unwritable(out, flag)
    names = sorted(os.listdir(out)) if os.path.isdir(out) else []
    others = [
        name
        for name in names
        if not any(fnmatch.fnmatchcase(name, each) for each in allowed)
    ]
    if others and replaces not in names:
        _sweep(os.path.dirname(os.path.realpath(out)))
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        raise ValueError(
            f"{flag} {out}: found {', '.join(others[:3])}{more} in it, wanted a new "
            f"folder; choose another {flag}"
        )


def _nearest(place: str) -> str:
    """Return the folder `place`, or the nearest of its parents that is there."""
    place = os.path.abspath(place)
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    return place


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Hold the lock of a folder, where its file system has locks."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _sweep(parent: str, but: str = "") -> None:
    """Remove what killed processes left: the unfinished folders that nobody locks.

    Args:
      parent: the folder they are in.
      but: the name of one that stays.
    """
    with contextlib.suppress(OSError), _locked(parent):
        for name in os.listdir(parent):
            path = os.path.join(parent, name)
            is_ours = name.startswith(NAME_START) or _is_of_before(path)
            if is_ours and name != but and not os.path.islink(path):
                _remove_unless_locked(path)


def _is_of_before(path: str) -> bool:
    """Return whether a folder is what an older prepare.py left, and no longer writes.

    Those were not locked: one that was not changed for a day counts as abandoned.
    """
    return (
        re.fullmatch(r"\.prepare-[a-z0-9_]{8}", os.path.basename(path)) is not None
        and time.time() - os.lstat(path).st_mtime > DAY
    )


def _remove_unless_locked(path: str) -> None:
    """Remove a folder, unless a process that lives has locked it."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(handle)
