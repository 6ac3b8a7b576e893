"""Files and folders that are written completely or not at all; JSON with a format.

with replaced("hparams.json") as file:
    file.write(text)
with new_folder("logs/mean", "--out") as made:  # logs/.unfinished-…/made
    write_everything(made)                      # now it is logs/mean
"""

import contextlib
import fnmatch
import hashlib
import json
import os
import shutil
import tempfile
from typing import IO, Any, Dict, Iterator, Sequence, Set

from transformer import __version__

# The format of log directories and data folders, stored in hparams.json and
# corpus.json. Raise it if earlier versions cannot read the new files; CONTRIBUTING.md
# says what else a new format requires.
FOLDER_FORMAT = 1

NAME_START = ".unfinished-"

# Temporary folders of this process, removed before an immediate exit.
UNFINISHED: Set[str] = set()

# --- A file ---------------------------------------------------------------------------


@contextlib.contextmanager
def replaced(path: str, mode: str = "w") -> Iterator[IO]:
    """Write a file under another name, and rename it to `path` when it is complete.

    At any time, `path` has either the old content or the new one.

    Args:
      path: the file; no other process may write it at the same time.
      mode: "w" for UTF-8 text, "wb" for bytes.

    Raises:
      OSError: the file could not be written; `path` is untouched.
    """
    refuse_no_folder(path)
    draft = path + ".tmp"
    text: Dict[str, Any] = {}
    if "b" not in mode:
        text = {"encoding": "utf-8", "newline": "\n"}
    try:
        with contextlib.suppress(FileNotFoundError):
            os.remove(draft)  # of a killed process; or a link, which leads elsewhere
        with named(path), open(draft, mode.replace("w", "x"), **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename == draft:
            error.filename = path
        with contextlib.suppress(OSError):
            os.remove(draft)
        raise


def refuse_no_folder(path: str) -> None:
    """Raise FileNotFoundError if the folder of a file to be written does not exist."""
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise FileNotFoundError(
            f"{path}: expected an existing folder, got none named {folder}; create it, "
            "or choose another path"
        )


@contextlib.contextmanager
def named(path: str) -> Iterator[None]:
    """Add the file name to disk errors, because a full disk does not name the file."""
    try:
        yield
    except OSError as error:
        if error.errno and not error.filename:
            error.filename = path
        raise


def sync(path: str) -> None:
    """Wait until a file, or the list of names in a folder, is on disk."""
    with named(path):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sha256_of(path: str) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def short_hash(text: str) -> str:
    """Return eight hexadecimal digits that identify a text."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:8]


# --- JSON with a format ---------------------------------------------------------------


def stamped(content: Dict[str, Any]) -> Dict[str, Any]:
    """Return content with the current format and version added."""
    return {"format": FOLDER_FORMAT, "version": __version__, **content}


def read_json(path: str, expected: str) -> Dict[str, Any]:
    """Return the content of a JSON file with a stamp from `stamped`, without the stamp.

    Args:
      path: the file.
      expected: what it should hold, for messages.

    Raises:
      ValueError: the file is not JSON, not an object, or has a format that this version
        cannot read.
    """
    with open(path, encoding="utf-8") as file:
        try:
            content = json.load(file)
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{path}: expected {expected}, got invalid JSON ({error})"
            ) from error
    if not isinstance(content, dict):
        kind = type(content).__name__
        raise ValueError(f"{path}: expected {expected}, got a {kind}")
    found = content.pop("format", FOLDER_FORMAT)
    version = content.pop("version", "")
    if found != FOLDER_FORMAT or type(found) is not int:
        raise ValueError(
            f"{path}: expected format {FOLDER_FORMAT}, got {found!r:.20}; install the "
            f"version of transformer-tf that wrote it, {version!r:.20}, or a newer one"
        )
    return content


# --- A folder that is to be written ---------------------------------------------------


def refuse_unwritable(folder: str, flag: str) -> None:
    """Raise ValueError if `folder` neither is, nor can become, a writable folder.

    Args:
      folder: the path, which need not exist.
      flag: the flag that named it, for the message.
    """
    if not folder:
        raise ValueError(f"{flag}: expected a path, got an empty name")
    path = os.path.abspath(folder)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise ValueError(
            f"{flag} {folder}: expected a folder, got a file, {path}; choose another "
            f"{flag}"
        )
    if not os.access(path, os.W_OK | os.X_OK):
        raise ValueError(
            f"{flag} {folder}: no permission to write in {path}; choose another {flag}"
        )


def refuse_used(
    out: str, flag: str, replaces: str = "", allowed: Sequence[str] = ()
) -> None:
    """Raise ValueError if `out` is anything but a new or an empty folder.

    Before it refuses, it removes what killed processes left next to `out`.

    Args:
      out: a path.
      flag: the flag that named it, for the message.
      replaces: the name of a file; a folder that has it is ours, and may be replaced.
      allowed: patterns of file names that any other folder may contain.
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
            f"{flag} {out}: expected a new folder, got one that contains "
            f"{', '.join(others[:3])}{more}; choose another {flag}"
        )


@contextlib.contextmanager
def new_folder(out: str, flag: str, replaces: str = "") -> Iterator[str]:
    """Yield a folder that becomes `out` once the body has succeeded.

    At any time, `out` is absent or complete. If it is replaced, it is absent for a
    moment.

    Args:
      out, flag, replaces: as in `refuse_used`.
    """
    refuse_used(out, flag, replaces)
    out = os.path.realpath(out)
    parent = os.path.dirname(out)
    with named(out), unfinished(parent) as work:
        made = os.path.join(work, "made")
        os.mkdir(made)
        yield made
        for folder, _, names in os.walk(made, topdown=False):
            for path in [os.path.join(folder, name) for name in names] + [folder]:
                sync(path)
        os.makedirs(parent, exist_ok=True)
        if os.path.isdir(out):
            os.rename(out, os.path.join(work, "old"))
        os.rename(made, out)
        sync(parent)


@contextlib.contextmanager
def unfinished(near: str) -> Iterator[str]:
    """Yield a folder on the file system of `near`, and remove it afterwards.

    Folders that killed processes left there, or in its parent, are also removed. A
    folder in use is locked; the system releases the lock when its process ends.

    Args:
      near: a folder; if it does not exist, its nearest existing parent is used.
    """
    parent = os.path.abspath(near)
    while not os.path.isdir(parent):
        parent = os.path.dirname(parent)
    _sweep(os.path.dirname(parent))
    _sweep(parent)
    with contextlib.ExitStack() as held:
        with _locked(parent):  # no process sweeps a folder that is not yet locked
            path = tempfile.mkdtemp(prefix=NAME_START, dir=parent)
            held.enter_context(_locked(path))
        UNFINISHED.add(path)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
            UNFINISHED.discard(path)


@contextlib.contextmanager
def _locked(folder: str, wait: bool = True) -> Iterator[bool]:
    """Hold the lock on a folder; yield whether this process has it.

    On a file system without locks, no process has it.
    """
    import fcntl  # Windows has none

    flags = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
    handle = os.open(folder, os.O_RDONLY)
    is_locked = False
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, flags)
            is_locked = True
        yield is_locked
    finally:
        os.close(handle)


def _sweep(parent: str) -> None:
    """Remove what killed processes left: unfinished folders without a lock."""
    with contextlib.suppress(OSError), _locked(parent):
        for name in os.listdir(parent):
            path = os.path.join(parent, name)
            if name.startswith(NAME_START) and not os.path.islink(path):
                with contextlib.suppress(OSError):
                    with _locked(path, wait=False) as is_left:
                        if is_left:
                            shutil.rmtree(path, ignore_errors=True)
