"""Takes files out of an archive that nobody trusts: only those that are wanted.

Nothing is written where the archive says: a wanted file gets its base name in a folder
of ours. An archive that tries to write elsewhere is refused all the same, as a whole.
"""

import functools
import gzip
import os
import posixpath
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Optional

BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
)


class Member(NamedTuple):
    """An entry of an archive."""

    name: str
    open: Optional[Callable[[], Any]]  # None: a folder or a link
    target: Optional[str] = None  # of a link, from the root of the archive


def unpack(path: str, wanted: Iterable[str], folder: str, most_bytes: int) -> None:
    """Writes the wanted files of an archive into a folder.

    Args:
      path: the archive; its ending says what it is: see `KINDS`.
      wanted: base names. Those that the archive does not hold are passed over.
      folder: where they go, under their base names; they may not be there yet.
      most_bytes: what the whole archive may hold, unpacked.

    Raises:
      ValueError: the archive is broken or larger, an entry of it lies or points
        outside of it, or is a device, or a wanted file is there twice.
    """
    members = next(kind for ending, kind in KINDS.items() if path.endswith(ending))
    done = set()
    try:
        for member in members(path, most_bytes):
            _refuse_outside(path, member)
            name = posixpath.basename(member.name)
            if name not in wanted or member.open is None:
                continue
            if name in done:
                raise ValueError(f"{path}: found {name} twice, wanted it once")
            done.add(name)
            with open(os.path.join(folder, name), "xb") as file:
                with member.open() as source:
                    shutil.copyfileobj(source, file)
    except BROKEN as error:
        if getattr(error, "errno", None):  # the disk is at fault, not the archive
            raise
        raise ValueError(
            f"{path}: found an archive that cannot be unpacked ({error}), "
            "wanted a whole one"
        ) from error


def _refuse_outside(path, member):
    """Raises ValueError for an entry that lies, or points, outside of the archive."""
    name, target = member.name, member.target
    if _is_outside(name) or ".." in re.split(r"[/\\]", name):
        raise ValueError(
            f"{path}: found the file name {name!r}, wanted one inside the "
            "archive; nothing was unpacked"
        )
    if target is not None and _is_outside(target):
        raise ValueError(
            f"{path}: found {name!r}, a link to {target!r}, wanted links "
            "to the inside of the archive; nothing was unpacked"
        )


def _is_outside(name):
    """Whether a name leads out of the folder it is joined to, on any system."""
    plain = posixpath.normpath(name.replace("\\", "/"))
    return (
        not name
        or "\0" in name
        or plain.startswith("/")
        or plain.split("/")[0] == ".."
        or re.match("[A-Za-z]:", plain) is not None
    )


def _link(name, target):
    """The target of a symbolic link from the root of the archive."""
    return posixpath.join(posixpath.dirname(name), target.replace("\\", "/"))


class _Limited:
    """Reads a file that may not be longer than a limit."""

    def __init__(self, file, path, most_bytes):
        self._file, self._path = file, path
        self._most = self._left = most_bytes

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._file.close()

    def read(self, size=-1):
        longest = self._left + 1
        block = self._file.read(longest if size < 0 else min(size, longest))
        self._left -= len(block)
        if self._left < 0:
            raise ValueError(
                f"{self._path}: found more than {self._most:,} bytes when "
                "unpacked, wanted at most that"
            )
        return block


def _tar_members(path: str, most_bytes: int) -> Iterator[Member]:
    """The entries of a gzipped tar, in one pass; the limit counts all of them."""
    with _Limited(gzip.open(path), path, most_bytes) as unzipped:
        with tarfile.open(fileobj=unzipped, mode="r|") as tar:
            for info in tar:
                if info.isdir():
                    yield Member(info.name, None)
                elif info.issym():
                    yield Member(info.name, None, _link(info.name, info.linkname))
                elif info.islnk():
                    yield Member(info.name, None, info.linkname)
                elif info.isreg() and not info.issparse():
                    yield Member(info.name, functools.partial(tar.extractfile, info))
                else:
                    raise _strange(path, info.name)


def _zip_members(path: str, most_bytes: int) -> Iterator[Member]:
    """The entries of a zip; the limit holds for what is claimed and for each file."""
    with zipfile.ZipFile(path) as archive:
        claimed = sum(info.file_size for info in archive.infolist())
        if claimed > most_bytes:
            raise ValueError(
                f"{path}: found {claimed:,} bytes when unpacked, wanted "
                f"at most {most_bytes:,}"
            )
        for info in archive.infolist():
            mode = info.external_attr >> 16
            if info.is_dir():
                yield Member(info.filename, None)
            elif stat.S_ISLNK(mode):
                target = archive.read(info).decode("utf-8", "replace")
                yield Member(info.filename, None, _link(info.filename, target))
            elif stat.S_IFMT(mode) in (0, stat.S_IFREG):
                yield Member(
                    info.filename,
                    lambda info=info: _Limited(archive.open(info), path, most_bytes),
                )
            else:
                raise _strange(path, info.filename)


def _gzip_members(path: str, most_bytes: int) -> Iterator[Member]:
    """The one file of a .gz, whose name is that of the archive without the ending."""
    yield Member(
        os.path.basename(path)[: -len(".gz")],
        lambda: _Limited(gzip.open(path), path, most_bytes),
    )


def _strange(path, name):
    return ValueError(
        f"{path}: found {name!r}, a device or another special file, "
        "wanted plain files; nothing was unpacked"
    )


# The extension point for archives: the ending of the name -> its entries. The first
# that fits is taken.
KINDS = {
    ".tar.gz": _tar_members,
    ".tgz": _tar_members,
    ".zip": _zip_members,
    ".gz": _gzip_members,
}
