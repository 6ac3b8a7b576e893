"""Folders: written elsewhere, then put in their place; what killed processes left.

with new_folder("logs/mean", "--out") as made:  # logs/.unfinished-…/made
    write_everything(made)
# now it is logs/mean
"""

import contextlib
import fcntl
import fnmatch
import os
import shutil
import tempfile
from typing import Iterator, Sequence, Set

from transformer.runtime.files import refuse_unwritable, sync

PREFIX = ".unfinished-"

# The folders that this process writes: whoever ends it at once removes them first.
UNFINISHED: Set[str] = set()


@contextlib.contextmanager
def unfinished(place: str) -> Iterator[str]:
    """Yield a new folder on the file system of `place`, and remove it afterwards.

    Folders that killed processes left at the same place are removed as well. A folder
    in use is locked; the system releases the lock when its process ends.

    Args:
      place: a folder; if it is not there, its nearest parent is used.
    """
    parent = _nearest(place)
    with contextlib.ExitStack() as held:
        with _locked(parent):  # nobody sweeps a folder that is not locked yet
            _sweep(parent)
            path = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
            held.enter_context(_locked(path))
        UNFINISHED.add(path)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
            UNFINISHED.discard(path)


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
    with unfinished(parent) as work:
        made = os.path.join(work, "made")
        os.mkdir(made)
        yield made
        for folder, _, names in os.walk(made, topdown=False):
            for path in [os.path.join(folder, name) for name in names] + [folder]:
                sync(path)
        os.makedirs(parent, exist_ok=True)
        if os.path.exists(out):
            os.rename(out, os.path.join(work, "old"))
        os.rename(made, out)
        sync(parent)


def refuse_used(
    out: str, flag: str, replaces: str = "", allowed: Sequence[str] = ()
) -> None:
    """Raise ValueError where `out` is anything but a new or an empty folder.

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


def _sweep(parent: str) -> None:
    """Remove what killed processes left: the unfinished folders that nobody locks."""
    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        if name.startswith(PREFIX) and not os.path.islink(path):
            with contextlib.suppress(OSError):
                handle = os.open(path, os.O_RDONLY)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
                finally:
                    os.close(handle)
