"""Files and folders that are written completely or not at all; files of other people.

with replace_file("hparams.json") as file:
    file.write(text)
with new_folder("logs/mean", "out") as folder:  # logs/.unfinished-…/new
    write_everything(folder)                    # afterwards, it is logs/mean

A log directory or a data folder may come from anyone. `open_file` and `read_file` open
what is in it; before a library opens a file itself, `refuse_irregular` checks it.
"""

import contextlib
import fnmatch
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from typing import IO, Any, Dict, Iterator, Sequence, Set, Tuple

from transformer import __version__
from transformer.runtime.errors import (
    FileError,
    JsonFileError,
    OutputFolderError,
    TransformerError,
)

# The format of log directories and data folders, stored in hparams.json and
# corpus.json. Raise it if earlier versions cannot read the new files; CONTRIBUTING.md
# says what else a new format requires.
FOLDER_FORMAT = 1

MAX_SIZE = 1 << 26  # bytes of a file that is read as a whole, such as settings

NAME_START = ".unfinished-"

# Temporary folders of this process, removed before an immediate exit.
UNFINISHED: Set[str] = set()

# --- Read a file ----------------------------------------------------------------------

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def refuse_irregular(path: str) -> None:
    """Raise FileError if `path` is a pipe, a socket, a device or a folder.

    A program that opens a pipe waits until somebody writes into it.

    Raises:
      FileNotFoundError: there is no such file.
    """
    kind = stat.S_IFMT(os.stat(path).st_mode)
    if kind != stat.S_IFREG:
        raise FileError(
            f"{path}: expected a file, got {KINDS.get(kind, 'something else')}; "
            "remove it",
            path,
        )


def refuse_large(path: str) -> None:
    """Raise FileError if `path` is not a file that can be read as a whole.

    Raises:
      FileNotFoundError, FileError: as in `refuse_irregular`.
    """
    refuse_irregular(path)
    size = os.path.getsize(path)
    if size > MAX_SIZE:
        raise FileError(
            f"{path}: expected at most {MAX_SIZE:,} bytes, got {size:,}", path
        )


def open_file(path: str) -> IO[bytes]:
    """Open a file of a log directory or of a data folder for reading.

    Raises:
      FileNotFoundError, FileError: as in `refuse_irregular`.
    """
    refuse_irregular(path)
    return open(path, "rb")


def read_file(path: str) -> bytes:
    """Read a whole file of a log directory or of a data folder.

    Raises: as `refuse_large`.
    """
    refuse_large(path)
    with open(path, "rb") as file:
        return file.read()


def sha256_of(path: str) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    digest = hashlib.sha256()
    with open_file(path) as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()


# --- Write a file ---------------------------------------------------------------------


@contextlib.contextmanager
def replace_file(path: str, mode: str = "w") -> Iterator[IO]:
    """Write a file under another name, and rename it to `path` when it is complete.

    At any time, `path` has either the old content or the new one.

    Args:
      path: the file; no other process may write it at the same time.
      mode: "w" for UTF-8 text, "wb" for bytes.

    Raises:
      OSError: the file could not be written; `path` is untouched.
    """
    refuse_missing_folder(path)
    draft = path + ".tmp"
    text: Dict[str, Any] = {}
    if "b" not in mode:
        text = {"encoding": "utf-8", "newline": "\n"}
    try:
        with contextlib.suppress(FileNotFoundError):
            os.remove(draft)  # of a killed process; or a link, which leads elsewhere
        with name_file_in_errors(path), open(
            draft, mode.replace("w", "x"), **text
        ) as file:
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


def refuse_missing_folder(path: str) -> None:
    """Raise FileNotFoundError if the folder of a file to be written is missing."""
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise FileNotFoundError(
            f"{path}: the folder {folder} is missing; create it, or choose another path"
        )


@contextlib.contextmanager
def name_file_in_errors(path: str) -> Iterator[None]:
    """Add the file name to disk errors, because a full disk does not name the file."""
    try:
        yield
    except OSError as error:
        if error.errno and not error.filename:
            error.filename = path
        raise


def remove_tree(path: str) -> None:
    """Remove a folder, or whatever else is in its place, if that is possible."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)  # would wait for a pipe
    else:
        with contextlib.suppress(OSError):
            os.remove(path)


def sync(path: str) -> None:
    """Wait until a file, or the list of names in a folder, is on disk."""
    with name_file_in_errors(path):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def short_hash(text: str) -> str:
    """Return eight hexadecimal digits that identify a text."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:8]


# --- JSON with a format ---------------------------------------------------------------


def add_stamp(content: Dict[str, Any]) -> Dict[str, Any]:
    """Add the current format and version to content."""
    return {"format": FOLDER_FORMAT, "version": __version__, **content}


def read_json(path: str, expected: str) -> Dict[str, Any]:
    """Read a JSON file with a stamp from `add_stamp`; return it without the stamp.

    Args, Raises: as in `read_stamped`.
    """
    return read_stamped(path, expected)[0]


def read_stamped(path: str, expected: str) -> Tuple[Dict[str, Any], str]:
    """Read a JSON file with a stamp; return (its content, the version that wrote it).

    Args:
      path: the file.
      expected: what it should hold, for messages.

    Raises:
      TransformerError: the file is not JSON, not an object, or has a format that this
        version cannot read.
    """
    text = read_file(path)
    try:
        content = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise JsonFileError(
            f"{path}: expected {expected}, got invalid JSON ({error})", path
        ) from error
    if not isinstance(content, dict):
        kind = type(content).__name__
        raise JsonFileError(f"{path}: expected {expected}, got a {kind}", path)
    folder_format = content.pop("format", FOLDER_FORMAT)
    version = content.pop("version", "")
    if folder_format != FOLDER_FORMAT or type(folder_format) is not int:
        raise TransformerError(
            f"{path}: expected format {FOLDER_FORMAT}, got {folder_format!r:.20}; "
            "install the version of transformer-tf that wrote it, "
            f"{version!r:.20}, or a newer one"
        )
    return content, str(version)


def describe_later_version(path: str) -> str:
    """Return what to do if a later version of this package wrote a file; else "".

    Args:
      path: a JSON file with a stamp, which may be missing or broken.
    """
    try:
        _, version = read_stamped(path, "settings")
    except (OSError, ValueError):
        return ""
    numbers, own_numbers = (
        tuple(map(int, re.findall(r"\d{1,9}", text)[:3]))
        for text in (version, __version__)
    )
    if numbers <= own_numbers:
        return ""
    return (
        f"version {version!r:.20} of transformer-tf wrote {os.path.basename(path)}, "
        f"this is {__version__}: update the package"
    )


# --- A folder that is to be written ---------------------------------------------------


def refuse_unwritable(folder: str, name: str) -> None:
    """Raise OutputFolderError if `folder` cannot become a writable folder.

    Args:
      folder: the path, which need not exist.
      name: its name in messages, such as the argument that it comes from.
    """
    if not folder:
        raise OutputFolderError(f"{name}: expected a path, got an empty name")
    path = os.path.abspath(folder)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise OutputFolderError(
            f"{name} {folder}: expected a folder, got a file, {path}; choose another "
            f"{name}"
        )
    if not os.access(path, os.W_OK | os.X_OK):
        raise OutputFolderError(
            f"{name} {folder}: no permission to write in {path}; choose another {name}"
        )


def refuse_used(
    out: str, name: str, replaces: str = "", allowed: Sequence[str] = ()
) -> None:
    """Raise OutputFolderError if `out` is anything but a new or an empty folder.

    Args:
      out: a path.
      name: as in `refuse_unwritable`.
      replaces: the name of a file; a folder that has it is ours, and may be replaced.
      allowed: patterns of file names that any other folder may contain.
    """
    refuse_unwritable(out, name)
    entries = sorted(os.listdir(out)) if os.path.isdir(out) else []
    foreign = [
        entry
        for entry in entries
        if not any(fnmatch.fnmatchcase(entry, pattern) for pattern in allowed)
    ]
    if foreign and replaces not in entries:
        more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        raise OutputFolderError(
            f"{name} {out}: expected a new folder, got one that contains "
            f"{', '.join(foreign[:3])}{more}; choose another {name}"
        )


@contextlib.contextmanager
def new_folder(out: str, name: str, replaces: str = "") -> Iterator[str]:
    """Yield a folder that becomes `out` once the body has succeeded.

    At any time, `out` is absent or complete. If it is replaced, it is absent for a
    moment.

    Args:
      out, name, replaces: as in `refuse_used`.
    """
    refuse_used(out, name, replaces)
    out = os.path.realpath(out)
    parent = os.path.dirname(out)
    with name_file_in_errors(out), temporary_folder(parent) as work_dir:
        new = os.path.join(work_dir, "new")
        os.mkdir(new)
        yield new
        for folder, _, names in os.walk(new, topdown=False):
            for path in [os.path.join(folder, name) for name in names] + [folder]:
                sync(path)
        os.makedirs(parent, exist_ok=True)
        if os.path.isdir(out):
            os.rename(out, os.path.join(work_dir, "old"))
        os.rename(new, out)
        sync(parent)


@contextlib.contextmanager
def temporary_folder(near: str) -> Iterator[str]:
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
    with contextlib.ExitStack() as locks:
        with _lock(parent):  # no process sweeps a folder that is not yet locked
            path = tempfile.mkdtemp(prefix=NAME_START, dir=parent)
            locks.enter_context(_lock(path))
        UNFINISHED.add(path)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
            UNFINISHED.discard(path)


@contextlib.contextmanager
def _lock(folder: str, wait: bool = True) -> Iterator[bool]:
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


def sweep_beside(out: str) -> None:
    """Remove the folders that killed processes left beside `out`."""
    _sweep(os.path.dirname(os.path.realpath(out)))


def _sweep(parent: str) -> None:
    """Remove the folders that killed processes left: they have no lock."""
    with contextlib.suppress(OSError), _lock(parent):
        for name in os.listdir(parent):
            path = os.path.join(parent, name)
            is_link = os.path.islink(path)
            if name.startswith(NAME_START) and os.path.isdir(path) and not is_link:
                with contextlib.suppress(OSError):
                    with _lock(path, wait=False) as has_lock:
                        if has_lock:
                            shutil.rmtree(path, ignore_errors=True)
