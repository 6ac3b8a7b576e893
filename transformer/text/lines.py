"""Reads the files that text comes from: plain text, and the two formats of IWSLT.

`read_lines` is the one way into the project for sentences; :data:`READERS` says which
file holds them how. :class:`Oddities` is for lines that are to be translated whatever
they hold.
"""

from __future__ import annotations

import collections
import fnmatch
import gzip
import html
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# What a line is said to be or to have → the characters by which it is that.
ODD_CHARACTERS = {
    "with a tab": re.compile("\t"),
    "with a CR that ends no line": re.compile("\r"),
    # Where Python's splitlines, and other programs, see the end of a line.
    "with a line separator": re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]"),
    "with a control character": re.compile("[\0-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f]"),
    "with a zero-width character": re.compile(
        "[\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
        "\U000e0000-\U000e007f]"
    ),
}


class Oddities:
    r"""Reads lines that may hold anything, and counts what is odd about them.

    No line is refused, lost or cut in two: what is not UTF-8 becomes U+FFFD, and a line
    ends at "\n" or "\r\n", as in :func:`read_lines`.

    Example::

      oddities = Oddities()
      list(oddities.read([b"ein\tHund\n", b"\xe9\n"]))    # ["ein\tHund", "\ufffd"]
      oddities.report()    # "2 lines: 1 with a tab, 1 not UTF-8"
    """

    def __init__(self):
        self.lines = 0
        self.counts = collections.Counter()

    def read(self, raw_lines: Iterable[bytes]) -> Iterator[str]:
        """Yields the text of each line of a file, or of standard input."""
        for number, raw in enumerate(raw_lines, 1):
            line = self._decode(raw, number)
            self.lines += 1
            for name, characters in ODD_CHARACTERS.items():
                self.counts[name] += bool(characters.search(line))
            yield line

    def _decode(self, raw: bytes, number: int) -> str:
        """Returns the text of a line that may not be UTF-8; the first has number 1."""
        self.counts["ended by CR LF"] += raw.endswith(b"\r\n")
        self.counts["without a line end"] += not raw.endswith(b"\n")
        self.counts["with a byte order mark"] += _is_marked(raw, number)
        try:
            return _text(raw, number)
        except UnicodeDecodeError:
            self.counts["not UTF-8"] += 1
            return _text(raw, number, errors="replace")

    def report(self, others: Mapping[str, int] = ()) -> str:
        """Returns one line about all lines so far, the most frequent oddity first.

        Args:
          others: further counts, of those who saw more of the lines.

        Returns:
          An empty text where nothing was odd.
        """
        counts = +(self.counts + collections.Counter(others))
        told = ", ".join(f"{number:,} {name}" for name, number in counts.most_common())
        return told and f"{self.lines:,} lines: {told}"


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
    """IWSLT training text: lines that begin with `<` (url, title …) describe it."""
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
            # "&#10;" is a line feed, which would make two lines of the sentence.
            yield re.sub(r"[\r\n]", " ", html.unescape(segment)).strip()


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
            try:
                yield _text(raw, number)
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}:{number}: found the byte "
                    f"0x{error.object[error.start]:02x}, which is not UTF-8 there: "
                    f"convert the file with iconv -t UTF-8"
                ) from error


def _text(raw: bytes, number: int, errors: str = "strict") -> str:
    """Decodes a line, less its end and the mark that the first may begin with."""
    raw = raw[:-1] if raw.endswith(b"\n") else raw
    raw = raw[:-1] if raw.endswith(b"\r") else raw
    raw = raw[len(BYTE_ORDER_MARK) :] if _is_marked(raw, number) else raw
    return raw.decode("utf-8", errors)


def _is_marked(raw: bytes, number: int) -> bool:
    """Whether a line is the first and begins with a byte order mark."""
    return number == 1 and raw.startswith(BYTE_ORDER_MARK)


def _whole(file: Iterable[bytes], path: str) -> Iterator[bytes]:
    """Yields the raw lines; a gzip stream that breaks off is named, not passed over."""
    try:
        yield from file
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read to its end: {error}") from error
