"""Text in markup: the segments of IWSLT and WMT, translation memories (TMX), and XLIFF.

A file may hold the text of several languages, or several references. Each of them is a
`Side` with a label, such as "de", or "de:refA" for one of several translators.
"""

import html
import re
from typing import IO, Dict, Iterable, Iterator, List, NamedTuple, Optional
from xml.parsers import expat

from transformer.runtime.errors import CorpusError, SidesInOneFile


class Side(NamedTuple):
    """The text of one language, or of one translator, in a file with several."""

    kind: str  # the element: src, ref or hyp; source or target; tuv
    language: str  # "" if the file does not say
    translator: str = ""

    @property
    def label(self) -> str:
        """Return how the side is named: de, or de:refA."""
        name = self.language or self.kind
        return f"{name}:{self.translator}" if self.translator else name


def matches_label(side: Side, label: str) -> bool:
    """Return whether a label names a side: de is de, de-AT and de:refA.

    A system's translation is named with the system only: de:Online-A.
    """
    name, _, translator = label.lower().partition(":")
    name = name.replace("_", "-")
    own_name = (side.language or side.kind).lower()
    if own_name != name and not own_name.startswith(name + "-"):
        return False
    if not translator:
        return side.kind != "hyp"
    return translator == side.translator.lower()


def _choose_side(path: str, label: str, sides: Iterable[Side]) -> None:
    """Raise an exception unless exactly one side of a file is asked for.

    Args:
      path: the file.
      label: names a side; "": the file should have one only.
      sides: all sides of the file.
    """
    sides = list(sides)
    matching = [side for side in sides if not label or matches_label(side, label)]
    labels = [side.label for side in sides]
    if label and not matching:
        raise SidesInOneFile(
            f"{path}: expected text labelled {label!r}, got {', '.join(labels)}",
            path,
            labels,
        )
    if len(matching) > 1:
        labels = [side.label for side in matching]
        raise SidesInOneFile(
            f"{path}: expected one text, got {len(labels)}: {', '.join(labels)}",
            path,
            labels,
        )


# --- Segments -------------------------------------------------------------------------

# <src lang="de">, <ref lang="en" translator="A"> (WMT); <srcset srclang="de">, <refset
# trglang="en" refid="ref1">, <tstset sysid="online"> (NIST); and a segment.
SEGMENT = re.compile(
    r"<seg\b[^<>]*>(?P<text>.*?)</seg>|<(?P<kind>src|ref|hyp|tst)(?:set)?\b"
    r"(?P<attributes>[^<>]*)>",
    re.IGNORECASE,
)
SEGMENT_START = re.compile("<seg", re.IGNORECASE)
ATTRIBUTE = re.compile(r"""([\w:]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
NAMES_OF_TRANSLATORS = ("translator", "refid", "sysid", "system")


def read_segments(lines: Iterable[str], path: str, label: str = "") -> Iterator[str]:
    """Yield the text of each `<seg id="1"> … </seg>` of one side.

    Args:
      lines: the lines of the file.
      path: its name, for messages.
      label: names the side; "": the file has one only.

    Raises:
      CorpusError: a segment does not end on its line, or there are none.
      SidesInOneFile: the file holds several sides, and the label does not name one.
    """
    side = Side("src", "")
    sides = []
    for line_number, line in enumerate(lines, 1):
        num_segments = 0
        for match in SEGMENT.finditer(line):
            if match.group("kind"):
                side = _parse_side(match.group("kind"), match.group("attributes"))
                continue
            num_segments += 1
            if side not in sides:
                sides.append(side)
            if not label or matches_label(side, label):
                # "&#10;" is a line feed, which would split the sentence.
                text = html.unescape(match.group("text"))
                yield re.sub(r"[\r\n]", " ", text).strip()
        if num_segments != len(SEGMENT_START.findall(line)):
            raise CorpusError(
                f"{path}:{line_number}: expected <seg id=…> text </seg> on one line, "
                f"got a <seg> without its end: join the lines of that sentence"
            )
    if not sides:
        raise CorpusError(
            f"{path}: expected <seg id=…> text </seg>, got a file without any"
        )
    _choose_side(path, label, sides)


def _parse_side(kind: str, attributes: str) -> Side:
    """Return the side that a tag begins."""
    values = {
        name.lower(): html.unescape(double or single or bare)
        for name, double, single, bare in ATTRIBUTE.findall(attributes)
    }
    kind = kind.lower().replace("tst", "hyp")
    language = "srclang" if kind == "src" else "trglang"
    language = values.get("lang", values.get(language, ""))
    translator = ""
    if kind != "src":
        translator = next(filter(None, map(values.get, NAMES_OF_TRANSLATORS)), "")
    return Side(kind, language.replace("_", "-"), translator)


# --- Translation memories and XLIFF ---------------------------------------------------

BLOCK = 1 << 16  # bytes
CODES = ("bpt", "ept", "ph", "it", "ut", "sub")  # formatting, which is not text
UNITS = ("tu", "trans-unit", "segment")


def read_units(file: IO[bytes], path: str, label: str = "") -> Iterator[str]:
    """Yield one side of each unit of a translation memory (TMX) or an XLIFF file.

    A unit without that side is an empty line, so that both sides have the same lines.

    Args:
      file: the bytes.
      path: its name, for messages.
      label: the language of the side.

    Raises:
      CorpusError: the file is not such XML.
      SidesInOneFile: the label does not name one of its languages.
    """
    units = _UnitParser()
    sides: Dict[Side, int] = {}
    try:
        for block in iter(lambda: file.read(BLOCK), b""):
            units.parser.Parse(block, False)
            yield from _take_texts(units.take(), label, sides)
        units.parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise CorpusError(f"{path}: expected XML, got an error: {error}") from error
    yield from _take_texts(units.take(), label, sides)
    if not sides:
        raise CorpusError(f"{path}: expected translation units, got a file without any")
    is_named = any(side.language.lower() == label.lower() for side in sides)
    if not is_named:
        _choose_side(path, label, sides)


def _take_texts(
    units: Iterable[Dict[Side, str]], label: str, sides: Dict[Side, int]
) -> Iterator[str]:
    """Yield the text that a label names in each unit; add the languages to `sides`."""
    for unit in units:
        sides.update(dict.fromkeys(unit, 1))
        texts = [
            text
            for side, text in unit.items()
            if not label or matches_label(side, label)
        ]
        exact = [
            text
            for side, text in unit.items()
            if side.language.lower() == label.lower()
        ]
        yield [*exact, *texts, ""][0]


class _UnitParser:
    """Collects the translation units of an XML file that is parsed in blocks."""

    def __init__(self):
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._read_text
        self.parser.EntityDeclHandler = self._refuse_entity
        self._units: List[Dict[Side, str]] = []  # complete ones
        self._unit: Dict[Side, str] = {}
        self._stack: List[str] = []
        self._languages = {"source": "", "target": ""}  # of XLIFF
        self._variant = ""  # the language of a <tuv> of TMX
        self._side: Optional[Side] = None  # whose text is being read
        self._parts: List[str] = []
        self._depth = 0  # of the element with the text

    def take(self) -> List[Dict[Side, str]]:
        """Return the units that have been completed since the last call."""
        units, self._units = self._units, []
        return units

    def _start(self, name, attributes):
        name = name.rpartition(":")[2]
        parent = self._stack[-1] if self._stack else ""
        self._stack.append(name)
        if self._side:
            return
        for side, names in (
            ("source", ("source-language", "srcLang")),
            ("target", ("target-language", "trgLang")),
        ):
            for attribute in names:
                if attribute in attributes:
                    self._languages[side] = attributes[attribute]
        language = attributes.get("xml:lang", attributes.get("lang", ""))
        if name in UNITS:
            self._unit = {}
        elif name == "tuv":
            self._variant = language
        elif name == "seg" and parent == "tuv":
            self._begin_text("tuv", self._variant)
        elif name in self._languages and parent in UNITS[1:]:
            self._begin_text(name, language or self._languages[name])

    def _begin_text(self, kind, language):
        self._side = Side(kind, language.replace("_", "-"))
        self._parts = []
        self._depth = len(self._stack)

    def _end(self, name):
        name = name.rpartition(":")[2]
        if self._side and len(self._stack) == self._depth:
            self._unit.setdefault(self._side, " ".join("".join(self._parts).split()))
            self._side = None
        elif not self._side and name in UNITS:
            self._units.append(self._unit)
        self._stack.pop()

    def _read_text(self, text):
        if self._side and not set(CODES).intersection(self._stack[self._depth :]):
            self._parts.append(text)

    def _refuse_entity(self, *_):
        raise expat.ExpatError("entities must not be declared")
