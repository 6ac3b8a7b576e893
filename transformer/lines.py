"""Reads the files that text comes from: plain text, and the two formats of IWSLT.

`read_lines` is the one way into the project for sentences; :data:`READERS` says which
file holds them how.
"""

from __future__ import annotations

import collections
import fnmatch
import gzip
import html
import os
import re
import zlib
from collections.abc import Iterable, Iterator


def read_lines(path: str) -> Iterator[str]:
    r"""Yields the sentences of a corpus file, one after the other.

    The file is UTF-8, plain or `.gz`, with or without a byte order mark. A line ends at
    "\n" or "\r\n" and nowhere else: U+2028 and its like are part of the sentence, as
    they are for `wc -l` and for every other tool that counts lines.

    The file's name decides how its lines become sentences: see :data:`READERS`.

    Raises:
      ValueError: a line is not UTF-8, the gzip stream is broken, or the markup is.
    """
    path = os.fspath(path)
    name = re.sub(r"\.gz$", "", os.path.basename(path))
    reader = next(READERS[key] for key in READERS if fnmatch.fnmatch(name, key))
    return reader(decoded_lines(path), path)


def check_language(name: str, where: str) -> str:
    """Returns the name of a language, which will be the ending of a file name.

    Raises:
      ValueError: it is more than letters, digits, - and _: it could lead to any file.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
        raise ValueError(
            f"{where}: found the language {name!r}, wanted letters: de, en"
        )
    return name


def _plain_lines(lines: Iterable[str], path: str) -> Iterator[str]:
    """One sentence a line."""
    return iter(lines)


def _untagged_lines(lines: Iterable[str], path: str) -> Iterator[str]:
    """IWSLT training text: lines that begin with `<` (url, title …) say about it."""
    return (line.strip() for line in lines if not line.startswith("<"))


def _segments(lines: Iterable[str], path: str) -> Iterator[str]:
    """IWSLT and WMT test sets: the text of `<seg id="1"> … </seg>`, one a line."""
    for number, line in enumerate(lines, 1):
        found = re.findall(r"<seg\b[^>]*>(.*?)</seg>", line)
        if len(found) != line.count("<seg"):
            raise ValueError(
                f"{path}:{number}: found a <seg> that does not end on its line, "
                f"wanted <seg id=…> text </seg>: join the lines of that sentence"
            )
        for segment in found:
            yield html.unescape(segment).strip()


# The extension point for corpus formats: file name pattern (less .gz) → reader of its
# lines. The first that matches is taken.
READERS = collections.OrderedDict(
    [
        ("*.xml", _segments),
        ("*.sgm", _segments),
        ("*train.tags.*", _untagged_lines),
        ("*", _plain_lines),
    ]
)


def decoded_lines(path: str) -> Iterator[str]:
    """Yields the lines of a plain or gzipped file, decoded, without their ends."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        for number, raw in enumerate(_whole(file, path), 1):
            raw = raw[:-1] if raw.endswith(b"\n") else raw
            raw = raw[:-1] if raw.endswith(b"\r") else raw
            try:
                yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}:{number}: found the byte "
                    f"0x{error.object[error.start]:02x}, which is not UTF-8 there: "
                    f"convert the file with iconv -t UTF-8"
                ) from error


def _whole(file: Iterable[bytes], path: str) -> Iterator[bytes]:
    """Yields the raw lines; a gzip stream that breaks off is named, not passed over."""
    try:
        yield from file
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read to its end: {error}") from error
