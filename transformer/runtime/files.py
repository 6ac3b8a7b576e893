"""Files: written whole or not at all, their checksums, links that lead elsewhere."""

import contextlib
import hashlib
import os
from typing import IO, Iterator


@contextlib.contextmanager
def replaced(path: str, mode: str = "w") -> Iterator[IO]:
    """Write a file beside `path`, and give it that name when it is complete.

        with replaced("hparams.json") as file:
            file.write(text)

    Whoever reads `path`, at any time, finds the old content or the new one.

    Args:
      path: the file; its folder exists.
      mode: "w" for UTF-8 text, "wb" for bytes.

    Raises:
      OSError: it could not be written; `path` is untouched.
    """
    beside = path + ".tmp"
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        with named(path), open(beside, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(beside)
        raise


@contextlib.contextmanager
def named(path: str) -> Iterator[None]:
    """Have errors of the disk name the file: a full disk does not say which it was."""
    try:
        yield
    except OSError as error:
        if error.errno and not error.filename:
            error.filename = path
        raise


def sync(path: str) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
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


def refuse_links(folder: str) -> None:
    """Refuse links in `folder` that point out of it, and entries that are no files.

    In an untrusted log directory such a link could expose or overwrite any file, and
    whoever opens a pipe waits for ever.

    Raises:
      ValueError: there is one.
    """
    for parent, folders, names in os.walk(folder):
        for path in (os.path.join(parent, name) for name in folders + names):
            _refuse_link(path, folder)
            if not os.path.isdir(path):
                regular(path)


def regular(path: str) -> str:
    """Return the path of a file in a folder that may come from somebody else.

    Raises:
      ValueError: it is a link out of its folder, which could lead to any file, or no
        plain file: reading a pipe could wait for ever. A missing file is left to
        whoever opens it.
    """
    _refuse_link(path, os.path.dirname(path) or os.curdir)
    if os.path.exists(path) and not os.path.isfile(path):
        kind = "folder" if os.path.isdir(path) else "pipe, socket or device"
        raise ValueError(
            f"{path}: found a {kind}, wanted a plain file; put a copy there"
        )
    return path


def _refuse_link(path: str, folder: str) -> None:
    """Raise ValueError where `path` is a link that leads out of `folder`."""
    if os.path.islink(path):
        root, target = os.path.realpath(folder), os.path.realpath(path)
        if os.path.commonpath([root, target]) != root:
            raise ValueError(
                f"{path}: found a link to {target}, wanted none that leads out of "
                f"{folder}; put a copy there"
            )


def refuse_unwritable(folder: str, flag: str) -> None:
    """Raise ValueError where `folder` is no folder to write in, nor can become one.

    Args:
      folder: it need not exist.
      flag: the flag that named it, for the message.
    """
    place = os.path.abspath(folder)
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        raise ValueError(
            f"{flag} {folder}: found a file {place}, wanted a folder; choose another "
            f"{flag}"
        )
    if not os.access(place, os.W_OK | os.X_OK):
        raise ValueError(
            f"{flag} {folder}: found no permission to write in {place}, wanted it; "
            f"choose another {flag}"
        )
