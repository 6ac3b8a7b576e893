"""Read text files: plain text, and the two formats of IWSLT.

`read_lines` reads every corpus file; `READERS` says which file names have which
format. `Oddities` reads lines that are to be translated whatever they contain.
"""

import collections
import fnmatch
import gzip
import html
import os
import re
import zlib
from typing import Iterable, Iterator, Mapping

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# A description for the report → the characters that it is about.
ODD_CHARACTERS = {
    "with a tab": re.compile("\t"),
    "with a CR that ends no line": re.compile("\r"),
    # Characters that Python's splitlines, and other programs, take for a line end.
    "with a line separator": re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]"),
    "with a control character": re.compile("[\0-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f]"),
    "with a zero-width character": re.compile(
        "[\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
        "\U000e0000-\U000e007f]"
    ),
}


class Oddities:
    r"""Read lines of any content, and count what is unusual about them.

        oddities = Oddities()
        list(oddities.read([b"ein\tHund\n", b"\xe9\n"]))    # ["ein\tHund", "\ufffd"]
        oddities.report()    # "2 lines: 1 with a tab, 1 not UTF-8"

    No line is refused, dropped or split: bytes that are not UTF-8 become U+FFFD, and a
    line ends at "\n" or "\r\n", as in `read_lines`.
    """

    def __init__(self):
        self.lines = 0
        self.counts = collections.Counter()

    def read(self, raw_lines: Iterable[bytes]) -> Iterator[str]:
        """Yield the text of each line of a file, or of standard input."""
        for number, raw in enumerate(raw_lines, 1):
            line = self._decode(raw, number)
            self.lines += 1
            for name, characters in ODD_CHARACTERS.items():
                self.counts[name] += bool(characters.search(line))
            yield line

    def _decode(self, raw: bytes, number: int) -> str:
        """Return the text of a line that may not be UTF-8; the first has number 1."""
        self.counts["ended by CR LF"] += raw.endswith(b"\r\n")
        self.counts["without a line end"] += not raw.endswith(b"\n")
        self.counts["with a byte order mark"] += _is_marked(raw, number)
        try:
            return _text(raw, number)
        except UnicodeDecodeError:
            self.counts["not UTF-8"] += 1
            return _text(raw, number, errors="replace")

    def report(self, others: Mapping[str, int] = ()) -> str:
        """Return one line about all lines so far, the most frequent oddity first.

        Args:
          others: more counts to report, by name.

        Returns:
          An empty string if there was nothing unusual.
        """
        counts = +(self.counts + collections.Counter(others))
        parts = ", ".join(f"{number:,} {name}" for name, number in counts.most_common())
        return parts and f"{self.lines:,} lines: {parts}"


def read_lines(path: str) -> Iterator[str]:
    r"""Yield the sentences of a corpus file in their order.

    The file is UTF-8, plain or `.gz`, with or without a byte order mark. A line ends at
    "\n" or "\r\n" and nowhere else: U+2028 and similar characters are part of the
    sentence, as they are for `wc -l` and other tools that count lines.

    The name of the file determines its format: see `READERS`.

    Raises:
      ValueError: a line is not UTF-8, the gzip stream is broken, or the markup is.
    """
    path = os.fspath(path)
    name = re.sub(r"\.gz$", "", os.path.basename(path))
    reader = next(READERS[key] for key in READERS if fnmatch.fnmatch(name, key))
    return reader(decoded_lines(path), path)


def check_language(name: str, where: str) -> str:
    """Return the name of a language, which becomes the ending of a file name.

    Args:
      name: as found.
      where: the flag or file that it comes from, for the message.

    Raises:
      ValueError: it has characters other than letters, digits, - and _: as part of a
        path it could lead to any file.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
        raise ValueError(
            f"{where}: found the language {name!r}, wanted letters: write de or en"
        )
    return name


def _plain_lines(lines: Iterable[str], path: str) -> Iterator[str]:
    """Yield every line: one sentence per line."""
    return iter(lines)


def _untagged_lines(lines: Iterable[str], path: str) -> Iterator[str]:
    """Yield the lines of IWSLT training text that do not begin with a tag."""
    return (line.strip() for line in lines if not line.startswith("<"))


def _segments(lines: Iterable[str], path: str) -> Iterator[str]:
    """Yield the text of each `<seg id="1"> … </seg>` of an IWSLT or WMT test set."""
    for number, line in enumerate(lines, 1):
        found = re.findall(r"<seg\b[^>]*>(.*?)</seg>", line)
        if len(found) != line.count("<seg"):
            raise ValueError(
                f"{path}:{number}: found a <seg> that does not end on its line, "
                f"wanted <seg id=…> text </seg>: join the lines of that sentence"
            )
        for segment in found:
            # "&#10;" is a line feed, which would split the sentence into two lines.
            yield re.sub(r"[\r\n]", " ", html.unescape(segment)).strip()


# The extension point for corpus formats: pattern of the file name, without .gz → reader
# of its lines. The first pattern that matches is used.
READERS = collections.OrderedDict(
    [
        ("*.xml", _segments),
        ("*.sgm", _segments),
        ("*train.tags.*", _untagged_lines),
        ("*", _plain_lines),
    ]
)


def decoded_lines(path: str) -> Iterator[str]:
    """Yield the lines of a plain or gzipped file, decoded, without their ends."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        for number, raw in enumerate(_to_the_end(file, path), 1):
            if number == 1:
                _refuse_other_kinds(raw, path)
            try:
                yield _text(raw, number)
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}:{number}: found the byte "
                    f"0x{error.object[error.start]:02x}, wanted UTF-8: if it "
                    f"is Latin-1, convert it with iconv -f LATIN1 -t UTF-8"
                ) from error


def _has_every_second_zero(raw: bytes) -> bool:
    """Return whether bytes are what UTF-16 makes of some Latin letters."""
    high, low = sorted((raw[::2], raw[1::2]), key=lambda part: -part.count(b"\0"))
    return len(raw) > 7 and high.count(b"\0") == len(high) and b"\0" not in low


def _refuse_other_kinds(raw: bytes, path: str) -> None:
    """Raise ValueError where the first line shows that a file is no UTF-8 text."""
    found = advice = ""
    if raw.startswith(b"\x1f\x8b"):
        found, advice = "a gzip file", "give it a name that ends in .gz"
    elif raw.startswith((b"\xff\xfe", b"\xfe\xff")) or _has_every_second_zero(raw):
        found, advice = "UTF-16", "convert it with iconv -f UTF-16 -t UTF-8"
    elif b"\r" in raw[:-1] and not raw.endswith(b"\n"):
        found, advice = "lines that end in CR alone", "convert it with tr '\\r' '\\n'"
    if found:
        raise ValueError(f"{path}: found {found}, wanted UTF-8 text: {advice}")


def _text(raw: bytes, number: int, errors: str = "strict") -> str:
    """Decode a line without its end, and without a byte order mark in line 1."""
    raw = raw[:-1] if raw.endswith(b"\n") else raw
    raw = raw[:-1] if raw.endswith(b"\r") else raw
    raw = raw[len(BYTE_ORDER_MARK) :] if _is_marked(raw, number) else raw
    return raw.decode("utf-8", errors)


def _is_marked(raw: bytes, number: int) -> bool:
    """Return whether a line is the first and begins with a byte order mark."""
    return number == 1 and raw.startswith(BYTE_ORDER_MARK)


def _to_the_end(file: Iterable[bytes], path: str) -> Iterator[bytes]:
    """Yield the raw lines; raise ValueError where a gzip stream is broken."""
    try:
        yield from file
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(
            f"{path}: found a file that cannot be read to its end ({error}), wanted a "
            f"whole one: copy or download it again"
        ) from error
