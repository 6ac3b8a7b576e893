"""Read text files: plain text, and the formats of IWSLT and WMT.

`read_lines` reads corpus files; `READERS` maps file names to formats. `TolerantReader`
reads lines to be translated, whatever they contain.
"""

import collections
import fnmatch
import gzip
import html
import os
import re
import unicodedata
import zlib
from typing import Iterable, Iterator, Mapping, NamedTuple, Optional, Tuple

from transformer.runtime.errors import CorpusError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Unicode categories: control characters, including the tab; invisible characters; and
# characters that end a line for Python's splitlines and other programs.
UNUSUAL_CATEGORIES = ("Cc", "Cf", "Zl", "Zp")


class FilePair(NamedTuple):
    """A source file and its target file: line n of one translates line n of the other.

    Attributes:
      source, target: the paths.
      weight: how many times each pair of lines is written.
    """

    source: str
    target: str
    weight: float = 1.0


def read_pairs(file_pair: FilePair) -> Iterator[Tuple[str, str]]:
    """Yield the pairs of lines of two files."""
    return zip(read_lines(file_pair.source), read_lines(file_pair.target))


def count_pairs(split: str, file_pair: FilePair) -> int:
    """Return the number of sentences in each of two parallel files.

    Args:
      split: the name of the split, for the message.
      file_pair: the files.

    Raises:
      CorpusError: a file cannot be read, or the numbers differ.
    """
    num_source = sum(1 for _ in read_lines(file_pair.source))
    num_target = sum(1 for _ in read_lines(file_pair.target))
    if num_source != num_target:
        raise CorpusError(
            f"{split}: expected the same number of sentences in both files, got "
            f"{num_source:,} in {file_pair.source} and {num_target:,} in "
            f"{file_pair.target}: line n of one must be the translation of line n of "
            "the other"
        )
    return num_source


def read_lines(path: str) -> Iterator[str]:
    r"""Yield the sentences of a corpus file in order.

    The file is UTF-8, plain or `.gz`, with or without a byte order mark. A line ends
    only at "\n" or "\r\n". U+2028 and similar characters are part of a sentence, as in
    `wc -l` and other tools that count lines.

    The file name determines the format: see `READERS`.

    Raises:
      CorpusError: a line is not UTF-8, or the gzip stream or the markup is broken.
    """
    path = os.fspath(path)
    name = re.sub(r"\.gz$", "", os.path.basename(path))
    read = next(
        reader for pattern, reader in READERS.items() if fnmatch.fnmatch(name, pattern)
    )
    return read(decode_lines(path), path)


def _read_plain(lines: Iterable[str], path: str) -> Iterator[str]:
    """Yield every line, which is one sentence."""
    return iter(lines)


def _read_untagged(lines: Iterable[str], path: str) -> Iterator[str]:
    """Yield the lines of IWSLT training text that do not begin with a tag."""
    return (line.strip() for line in lines if not line.startswith("<"))


def _read_segments(lines: Iterable[str], path: str) -> Iterator[str]:
    """Yield the text of each `<seg id="1"> … </seg>` in an IWSLT or WMT test set."""
    for line_number, line in enumerate(lines, 1):
        parts = line.split("</seg>")[:-1]
        matches = [re.search(r"<seg\b[^<>]*>(.*)", part) for part in parts]
        segments = [match.group(1) for match in matches if match]
        if len(segments) != line.count("<seg"):
            raise CorpusError(
                f"{path}:{line_number}: expected <seg id=…> text </seg> on one line, "
                f"got a <seg> without its end: join the lines of that sentence"
            )
        for segment in segments:
            # "&#10;" is a line feed, which would split the sentence into two lines.
            yield re.sub(r"[\r\n]", " ", html.unescape(segment)).strip()


# The extension point for corpus formats: pattern for the file name, without .gz →
# reader of the lines. The first pattern that matches is used.
READERS = {
    "*.xml": _read_segments,
    "*.sgm": _read_segments,
    "*train.tags.*": _read_untagged,
    "*": _read_plain,
}


def decode_lines(path: str) -> Iterator[str]:
    """Yield the decoded lines of a plain or gzipped file, without line endings."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        try:
            for line_number, raw in enumerate(file, 1):
                yield _decode(raw, line_number)
        except UnicodeDecodeError as error:
            raise CorpusError(
                f"{path}:{line_number}: expected UTF-8, got the byte "
                f"0x{error.object[error.start]:02x}; give a compressed file a name "
                f"that ends in .gz; convert other text with iconv -f LATIN1 -t "
                f"UTF-8 (or -f UTF-16)"
            ) from error
        except (EOFError, OSError, zlib.error) as error:
            raise CorpusError(
                f"{path}: expected a complete file, got one that cannot be read to the "
                f"end ({error}): copy or download it again"
            ) from error


def _decode(raw: bytes, line_number: int, errors: str = "strict") -> str:
    """Decode a line, without its line ending and, in line 1, a byte order mark."""
    raw = raw[:-1] if raw.endswith(b"\n") else raw
    raw = raw[:-1] if raw.endswith(b"\r") else raw
    if line_number == 1 and raw.startswith(BYTE_ORDER_MARK):
        raw = raw[len(BYTE_ORDER_MARK) :]
    return raw.decode("utf-8", errors)


class TolerantReader:
    r"""Read lines with any content, and count unusual ones.

        reader = TolerantReader()
        list(reader.read([b"ein\tHund\n", b"\xe9\n"]))    # ["ein\tHund", "\ufffd"]
        reader.report()
        # "2 lines: 1 with a control or invisible character, 1 not UTF-8"

    No line is rejected, dropped or split: bytes that are not UTF-8 become U+FFFD, and
    lines end at "\n" or "\r\n", as in `read_lines`.
    """

    def __init__(self):
        self.num_lines = 0
        self.counts: collections.Counter = collections.Counter()

    def read(self, raw_lines: Iterable[bytes]) -> Iterator[str]:
        """Yield the text of each line of a file, or of standard input."""
        for line_number, raw in enumerate(raw_lines, 1):
            self.num_lines += 1
            try:
                line = _decode(raw, line_number)
            except UnicodeDecodeError:
                self.counts["not UTF-8"] += 1
                line = _decode(raw, line_number, errors="replace")
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
        return parts and f"{self.num_lines:,} lines: {parts}"
