"""Read text files: plain text, the formats of IWSLT and WMT, TMX and XLIFF.

`read_lines` reads corpus files; `READERS` maps file names to formats. `TolerantReader`
reads lines to be translated, whatever they contain.
"""

import codecs
import collections
import contextlib
import fnmatch
import gzip
import itertools
import os
import re
import unicodedata
import zlib
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Set,
    Tuple,
)

from transformer.runtime.errors import CorpusError, FileNotText
from transformer.runtime.files import refuse_irregular
from transformer.runtime.progress import format_count
from transformer.text.markup import Segment, pair_segments, read_segments, read_units

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
HEAD = 4096  # bytes at the beginning of a file that tell its encoding
MIN_UNITS = 8  # less text says nothing about it

# Unicode categories: control characters, including the tab; invisible characters; and
# characters that end a line for Python's splitlines and other programs.
UNUSUAL_CATEGORIES = ("Cc", "Cf", "Zl", "Zp")

# Characters that change only how text is displayed: the soft hyphen, marks of
# direction, the word joiner, and the byte order mark.
DISPLAY_MARKS = re.compile(
    "[\u00ad\u061c\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
)
# Others do so in words of Latin letters, but distinguish words in Persian, Hindi or
# Khmer, and emoji: the combining grapheme joiner, the zero-width space, non-joiner and
# joiner, and variation selectors. They are removed between a Latin letter and another
# or the end of the word, and at the beginning of a word.
_LATIN = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_ACCENTS = "\u0300-\u034e\u0350-\u036f"
_MARKS = "[\u034f\u200b-\u200d\ufe00-\ufe0f]"
LATIN_MARKS = re.compile(
    f"(?<=[{_LATIN}{_ACCENTS}]){_MARKS}+(?!{_MARKS})(?=[{_LATIN}{_ACCENTS}]|\\W|$)"
    f"|(?<!\\S){_MARKS}+(?=[{_LATIN}])"
)


# Characters other than the line feed that end a line for Python's splitlines; most of
# them do for Unicode and for editors, the carriage return for Python's open, too.
OTHER_LINE_ENDS = {
    "\v": "VT",
    "\f": "FF",
    "\r": "CR",
    "\x1c": "FS",
    "\x1d": "GS",
    "\x1e": "RS",
    "\x85": "NEL",
    "\u2028": "LINE SEPARATOR",
    "\u2029": "PARAGRAPH SEPARATOR",
}
OTHER_LINE_END = re.compile(f"[{''.join(OTHER_LINE_ENDS)}]")


class FilePair(NamedTuple):
    """A source file and its target file: line n of one translates line n of the other.

    Attributes:
      source, target: the paths.
      weight: how many times each pair of lines is written.
    """

    source: str
    target: str
    weight: float = 1.0


Unmatched = Tuple[List[str], List[str]]  # names of segments of source and target


def read_pairs(file_pair: FilePair) -> Iterator[Tuple[str, str]]:
    """Yield the pairs of lines of two files, up to the end of the shorter one."""
    for source, target in align_lines(file_pair):
        if source is not None and target is not None:
            yield source, target


def read_side(file_pair: FilePair, side: int) -> Iterator[str]:
    """Yield the lines of one side of two files, 0 or 1, in the order of their pairs."""
    lines = (pair[side] for pair in align_lines(file_pair))
    return (line for line in lines if line is not None)


def align_lines(
    file_pair: FilePair, unmatched: Optional[Unmatched] = None
) -> Iterator[Tuple[Optional[str], Optional[str]]]:
    """Yield the pairs of lines of two files; None stands for a line of a shorter file.

    Line n of one file belongs to line n of the other. If both files are in markup,
    segments are paired by their names instead: see `pair_segments`.

    Args:
      file_pair: the files.
      unmatched: the names of segments that only source, or only target, has are
        appended to these two lists; they are in no pair.

    Raises:
      CorpusError, FileNotText, SidesInOneFile: as `read_lines`.
    """
    if not have_segments(file_pair):
        return itertools.zip_longest(
            read_lines(file_pair.source), read_lines(file_pair.target)
        )
    source, target = (
        FORMATS_WITH_LABELS[pattern](path, label)
        for pattern, path, label in map(_find_text, file_pair[:2])
    )
    return pair_segments(source, target, unmatched)


def have_segments(file_pair: FilePair) -> bool:
    """Return whether both files are in markup, whose segments may have names."""
    return all(_find_text(path)[0] in FORMATS_WITH_LABELS for path in file_pair[:2])


def read_lines(path: str) -> Iterator[str]:
    r"""Yield the sentences of a corpus file in order.

    The file is UTF-8, plain or `.gz`, with or without a byte order mark. A line ends
    only at "\n" or "\r\n". U+2028 and similar characters are part of a sentence, as in
    `wc -l` and other tools that count lines.

    The file name determines the format: see `READERS`. A file with several languages or
    references is named with the one to read: `wmt22.xml#de`, `wmt22.xml#de:refA`.

    Raises:
      CorpusError: a line is not UTF-8, or the gzip stream or the markup is broken.
      FileNotText: the file is an archive.
      SidesInOneFile: the file has several texts.
    """
    pattern, path, label = _find_text(path)
    return READERS[pattern](path, label)


def _find_text(path: str) -> Tuple[str, str, str]:
    """Return the pattern in READERS of a text, its file, and its label in the file."""
    path, label = split_label(os.fspath(path))
    name = re.sub(r"\.gz$", "", os.path.basename(path).lower())
    pattern = next(pattern for pattern in READERS if fnmatch.fnmatch(name, pattern))
    return pattern, path, label


def read_stored_lines(path: str) -> Iterator[str]:
    """Yield the sentences of a file in a data folder or a log directory.

    `read_lines` also reads a pipe, because a person may name one: `<(zcat text.gz)`.

    Raises:
      FileError: it is a pipe, a device or a folder.
      CorpusError: as in `read_lines`.
    """
    refuse_irregular(path)
    return read_lines(path)


def split_label(path: str) -> Tuple[str, str]:
    """Return the path of a file and the label of a text in it: `wmt22.xml#de`."""
    file_path, _, label = path.rpartition("#")
    name = re.sub(r"\.gz$", "", os.path.basename(file_path).lower())
    is_format = any(fnmatch.fnmatch(name, pattern) for pattern in FORMATS_WITH_LABELS)
    if is_format and not os.path.exists(path):
        return file_path, label
    return path, ""


def _read_plain(path: str, label: str) -> Iterator[str]:
    """Yield every line, which is one sentence."""
    return decode_lines(path)


def _read_untagged(path: str, label: str) -> Iterator[str]:
    """Yield the lines of IWSLT training text that do not begin with a tag."""
    return (line.strip() for line in decode_lines(path) if not line.startswith("<"))


def _read_segments(path: str, label: str) -> Iterator[Segment]:
    """Yield each `<seg id="1"> … </seg>` of one side of an IWSLT or WMT test set."""
    return read_segments(decode_lines(path), path, label)


def _read_units(path: str, label: str) -> Iterator[Segment]:
    """Yield one side of each unit of a TMX or XLIFF file."""
    with open_binary(path) as file, _refuse_broken(path):
        yield from read_units(file, path, label)


# Formats that may hold several languages, or several references.
FORMATS_WITH_LABELS: Dict[str, Callable[[str, str], Iterator[Segment]]] = {
    "*.xml": _read_segments,
    "*.sgm": _read_segments,
    "*.sgml": _read_segments,
    "*.tmx": _read_units,
    "*.xlf": _read_units,
    "*xliff": _read_units,
}


def _read_texts(path: str, label: str) -> Iterator[str]:
    """Yield the text of each segment of a file with labels."""
    pattern, _, _ = _find_text(path)
    return (segment.text for segment in FORMATS_WITH_LABELS[pattern](path, label))


# The extension point for corpus formats: pattern for the file name, in lower case and
# without .gz → reader of the lines of (path, label). The first pattern that matches is
# used.
READERS: Dict[str, Callable[[str, str], Iterator[str]]] = {
    **dict.fromkeys(FORMATS_WITH_LABELS, _read_texts),
    "*train.tags.*": _read_untagged,
    "*": _read_plain,
}

# How files begin that are not text: offset, first bytes, kind.
SIGNATURES = (
    (257, b"ustar", "tar"),
    (0, b"PK\x03\x04", "zip"),
    (0, b"PK\x05\x06", "zip"),  # an empty one
    (0, b"\x1f\x8b", "gzip"),
    (0, b"\x1f\x9d", "compress"),
    (4, b"1AY&SY", "bzip2"),
    (0, b"\xfd7zXZ\x00", "xz"),
    (0, b"]\x00\x00", "lzma"),
    (0, b"\x28\xb5\x2f\xfd", "zstd"),
    (0, b"\x04\x22\x4d\x18", "lz4"),
    (0, b"7z\xbc\xaf\x27\x1c", "7z"),
    (0, b"Rar!\x1a\x07", "rar"),
    (0, b"%PDF-1.", "PDF"),
    (0, b"PAR1\x15", "Parquet"),
    (0, b"\xd0\xcf\x11\xe0", "Office"),
)
# How text in other encodings begins with a byte order mark; that of UTF-16 begins that
# of UTF-32.
BYTE_ORDER_MARKS = (
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
# Without such a mark: encoding, bytes per unit, and which of them are 0 in ASCII.
WIDE_ENCODINGS = (
    ("UTF-32LE", 4, (1, 2, 3)),
    ("UTF-32BE", 4, (0, 1, 2)),
    ("UTF-16LE", 2, (1,)),
    ("UTF-16BE", 2, (0,)),
)


def find_signature(head: bytes) -> str:
    """Return what kind of file begins with these bytes, "" if it may be text."""
    return next(
        (
            kind
            for offset, signature, kind in SIGNATURES
            if head.startswith(signature, offset)
        ),
        "",
    )


def find_wide_encoding(head: bytes) -> str:
    """Return the encoding of text in UTF-16 or UTF-32, "" of other text.

    Args:
      head: the first bytes of the text.
    """
    for mark, encoding in BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return encoding
    if not head.isascii() and _is_utf8(head):
        return ""
    for encoding, size, zeros in WIDE_ENCODINGS:
        units = head[: len(head) // size * size]
        num_zeros = [units[i::size].count(0) for i in range(size)]
        # At least one in 50 characters is in ASCII: a digit, a space, a line feed.
        is_wide = 50 * min(num_zeros[i] for i in zeros) >= len(units) / size
        if (
            len(units) >= MIN_UNITS * size
            and is_wide
            and sum(num_zeros) == sum(num_zeros[i] for i in zeros)
            and _is_text(units.decode(encoding, "replace"))
        ):
            return encoding
    return ""


def _is_utf8(head: bytes) -> bool:
    """Return whether bytes are the beginning of text in UTF-8."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _is_text(text: str) -> bool:
    """Return whether nearly all characters of a text are assigned, or white space."""
    num_odd = sum(
        unicodedata.category(character) in ("Cc", "Cn") and not character.isspace()
        for character in text
    )
    return 50 * (num_odd + text.count("\ufffd")) <= len(text)


def open_binary(path: str) -> Any:
    """Open a plain or gzipped file.

    Raises:
      FileNotText: it is an archive, or compressed otherwise; or its name says that it
        is gzipped, but it is not, or the other way round.
    """
    is_gzipped = path.lower().endswith((".gz", ".tgz"))
    file: Any = (gzip.open if is_gzipped else open)(path, "rb")
    try:
        head = file.peek(512)  # a pipe cannot be read twice
    except (EOFError, OSError, zlib.error):
        if os.path.isfile(path):
            refuse_other_than_gzip(path)
        return file  # broken: whoever reads it will find out
    kind = find_signature(head)
    if kind:
        file.close()
        raise FileNotText(
            f"{path}: expected text, plain or gzipped, got {kind}", path, kind
        )
    return file


def refuse_other_than_gzip(path: str) -> None:
    """Raise FileNotText if a file with the name of a gzipped one is none."""
    with open(path, "rb") as file:
        head = file.read(512)
    kind = find_signature(head)
    if head and kind != "gzip":
        raise FileNotText(
            f"{path}: expected gzip, as its name ends in .gz, got {kind or 'text'}, "
            "which cannot be read to the end as gzip",
            path,
            kind or "text",
        )


@contextlib.contextmanager
def _refuse_broken(path: str) -> Iterator[None]:
    """Raise CorpusError if a file cannot be read to its end."""
    try:
        yield
    except (EOFError, OSError, zlib.error) as error:
        raise CorpusError(
            f"{path}: expected a complete file, got one that cannot be read to the end "
            f"({error}): copy or download it again"
        ) from error


def decode_lines(path: str) -> Iterator[str]:
    """Yield the decoded lines of a plain or gzipped file, without line endings.

    Raises:
      CorpusError: as `read_lines`; or the lines end with "\r" only.
      FileNotText: as `open_binary`; or the text is in UTF-16 or UTF-32.
    """
    line_number = num_returns = 0
    is_ascii = True
    with open_binary(path) as file, _refuse_broken(path):
        encoding = find_wide_encoding(file.peek(HEAD)[:HEAD])
        if encoding:
            raise FileNotText(f"{path}: expected UTF-8, got {encoding}", path, encoding)
        try:
            for line_number, raw in enumerate(file, 1):
                line = _decode(raw, line_number)
                num_returns += line.count("\r")
                is_ascii = is_ascii and line.isascii()
                yield line
        except UnicodeDecodeError as error:
            raise CorpusError(
                f"{path}:{line_number}: expected UTF-8, got "
                + _describe_error(error, is_ascii)
            ) from error
    if num_returns > line_number:
        raise CorpusError(
            f"{path}: expected lines that end with a line feed, got "
            f"{format_count(num_returns, 'carriage return')} in "
            f"{format_count(line_number, 'line')}: convert it "
            r"with tr '\r' '\n'"
        )


def _describe_error(error: UnicodeDecodeError, is_ascii: bool) -> str:
    """Describe bytes that are not UTF-8, and what to do.

    Args:
      error: of a line.
      is_ascii: whether the lines before it are ASCII, so that they say nothing about
        the encoding of the file.
    """
    byte = f"the byte 0x{error.object[error.start]:02x}"
    if error.reason == "unexpected end of data" and not error.object.endswith(b"\n"):
        return f"an incomplete character at the end ({byte}): copy the file again"
    if is_ascii:
        return f"{byte}; convert other text with iconv -f LATIN1 -t UTF-8, for example"
    return (
        f"{byte}, although lines before it are UTF-8: correct the line, or leave such "
        "bytes out with iconv -c -f UTF-8 -t UTF-8"
    )


def _decode(raw: bytes, line_number: int, errors: str = "strict") -> str:
    """Decode a line, without its line ending and, in line 1, a byte order mark."""
    raw = raw[:-1] if raw.endswith(b"\n") else raw
    raw = raw[:-1] if raw.endswith(b"\r") else raw
    if line_number == 1 and raw.startswith(BYTE_ORDER_MARK):
        raw = raw[len(BYTE_ORDER_MARK) :]
    return raw.decode("utf-8", errors)


def remove_display_marks(text: str) -> str:
    """Remove the characters that change only how text is displayed.

    A vocabulary would split the word "Hu\u00adnd", which looks like "Hund".
    """
    return LATIN_MARKS.sub("", DISPLAY_MARKS.sub("", text))


class LineEndCounter:
    r"""Counts lines with characters at which other programs end a line.

    describe_line_ends(["eine Zeile", "noch\u2028eine"])
    # "1 line with a character that ends a line for other programs (U+2028 LINE
    # SEPARATOR), the first is line 2: …"
    """

    def __init__(self):
        self.num_lines = 0
        self._num_odd = 0
        self._first = 0
        self._characters: Set[str] = set()

    def count(self, line: str) -> None:
        """Count a line, without the characters that end it."""
        self.num_lines += 1
        if line.splitlines() == [line]:  # faster than the pattern
            return
        characters = OTHER_LINE_END.findall(line)
        if characters:
            self._num_odd += 1
            self._first = self._first or self.num_lines
            self._characters.update(characters)

    def describe(self) -> str:
        """Describe the lines; return "" if there are none."""
        if not self._num_odd:
            return ""
        names = ", ".join(
            f"U+{ord(character):04X} {OTHER_LINE_ENDS[character]}"
            for character in sorted(self._characters)
        )
        return (
            f"{format_count(self._num_odd, 'line')} with a character that ends a line "
            f"for other programs ({names}), the first is line {self._first:,}: here, "
            "only a line feed does, so other programs may count more lines"
        )


def describe_line_ends(lines: Iterable[str]) -> str:
    """Describe what `LineEndCounter` finds in lines; return "" if it is nothing."""
    counter = LineEndCounter()
    for line in lines:
        counter.count(line)
    return counter.describe()


class TolerantReader:
    r"""Read lines with any content, and count unusual ones.

        reader = TolerantReader()
        list(reader.read([b"ein\tHund\n", b"\xe9\n"]))    # ["ein\tHund", "\ufffd"]
        reader.report()
        # "2 lines: 1 with a control or invisible character, 1 not UTF-8"

    No line is rejected, dropped or split: bytes that are not UTF-8 become U+FFFD,
    display marks are removed, and lines end at "\n" or "\r\n", as in `read_lines`.
    """

    def __init__(self):
        self.num_lines = 0
        self.head = b""  # the first bytes
        self.num_returns = 0  # "\r" within lines
        self.counts: collections.Counter = collections.Counter()

    def read(self, raw_lines: Iterable[bytes], first_line: int = 1) -> Iterator[str]:
        """Yield the text of each line of a file, or of standard input.

        Args:
          raw_lines: the lines.
          first_line: the number of the first one in its file; only line 1 may begin
            with a byte order mark.
        """
        for line_number, raw in enumerate(raw_lines, first_line):
            self.num_lines += 1
            if len(self.head) < HEAD:
                self.head += raw[:HEAD]
            try:
                line = _decode(raw, line_number)
            except UnicodeDecodeError:
                self.counts["not UTF-8"] += 1
                line = _decode(raw, line_number, errors="replace")
            self.num_returns += line.count("\r")
            length = len(line)
            line = remove_display_marks(line)
            self.counts["with soft hyphens or other display marks removed"] += (
                len(line) < length
            )
            has_invisible = any(
                unicodedata.category(character) in UNUSUAL_CATEGORIES
                for character in line
            )
            self.counts["with a control or invisible character"] += has_invisible
            yield line

    def report(self, more_counts: Optional[Mapping[str, int]] = None) -> str:
        """Return a line about all lines so far, with the most frequent kind first.

        Args:
          more_counts: additional counts to report, by kind.

        Returns:
          An empty string if there was nothing unusual.
        """
        counts = +(self.counts + collections.Counter(more_counts or {}))
        parts = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
        kind = find_signature(self.head) or find_wide_encoding(self.head)
        if kind:
            parts = f"expected text in UTF-8, got {kind}; {parts}"
        elif self.num_returns > self.num_lines:
            returns = format_count(self.num_returns, "carriage return")
            parts = f"expected line feeds, got {returns}, which end no line; {parts}"
        return parts and f"{format_count(self.num_lines, 'line')}: {parts}"
