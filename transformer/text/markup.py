"""Text in markup: the segments of IWSLT and WMT, translation memories (TMX), and XLIFF.

A file may hold the text of several languages, or several references. Each of them is a
`Side` with a label, such as "de", or "de:refA" for one of several translators.
"""

import html
import itertools
import re
from typing import IO, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple
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


class Segment(NamedTuple):
    """A sentence of one side of a file."""

    text: str
    # Its number, after that of its document: "d1 3"; "" if the file does not say.
    name: str = ""


def pair_segments(
    source: Iterator[Segment],
    target: Iterator[Segment],
    unmatched: Optional[Tuple[List[str], List[str]]] = None,
) -> Iterator[Tuple[Optional[str], Optional[str]]]:
    """Pair the segments of two sides by their names; yield the pairs of texts.

    Segments without names, or whose names are not unique or all different, are paired
    in their order; then None stands for a side that is shorter. As long as the names of
    the two sides agree, only one segment of each is in memory.

    Args:
      source, target: the segments of both sides.
      unmatched: the names of segments that only source, or only target, has are
        appended to these two lists.
    """
    num_equal = 0
    for pair in itertools.zip_longest(source, target):
        if None in pair or pair[0].name != pair[1].name:
            break
        yield pair[0].text, pair[1].text
        num_equal += bool(pair[0].name)
    else:
        return
    rest = [
        [segment for segment in (first, *later) if segment]
        for first, later in zip(pair, (source, target))
    ]
    texts = [{segment.name: segment.text for segment in side} for side in rest]
    names, target_names = texts
    is_unique = all(len(side) == len(by_name) for side, by_name in zip(rest, texts))
    has_names = is_unique and "" not in names and "" not in target_names
    if not has_names or not (num_equal or names.keys() & target_names.keys()):
        yield from itertools.zip_longest(
            *[[segment.text for segment in side] for side in rest]
        )
        return
    for name in names:
        if name in target_names:
            yield names[name], target_names[name]
    for side, (own, other) in enumerate((texts, texts[::-1])):
        if unmatched:
            unmatched[side].extend(name for name in own if name not in other)


# --- Segments -------------------------------------------------------------------------

# <doc id="d1"> (WMT; docid in NIST and IWSLT); <src lang="de">, <ref lang="en"
# translator="A"> (WMT); <srcset srclang="de">, <refset trglang="en" refid="ref1">,
# <tstset sysid="online"> (NIST); and a segment.
SEGMENT = re.compile(
    r"<seg\b(?P<number>[^<>]*)>(?P<text>.*?)</seg>|<doc\b(?P<document>[^<>]*)>|"
    r"<(?P<kind>src|ref|hyp|tst)(?P<set>set)?\b(?P<attributes>[^<>]*)>",
    re.IGNORECASE,
)
SEGMENT_START = re.compile("<seg", re.IGNORECASE)
# A tag that ends on another line, which is not further than MAX_TAG characters.
OPEN_TAG = re.compile(
    r"<(?:seg|doc|(?:src|ref|hyp|tst)(?:set)?)\b[^<>]*$", re.IGNORECASE
)
MAX_TAG = 2000
ATTRIBUTE = re.compile(r"""([\w:]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
NAMES_OF_TRANSLATORS = ("translator", "refid", "sysid", "system")


def read_segments(
    lines: Iterable[str], path: str, label: str = ""
) -> Iterator[Segment]:
    """Yield each `<seg id="1"> … </seg>` of one side.

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
    document = ""
    num_documents = 0
    for line_number, line in _join_tags(lines):
        num_segments = 0
        for match in SEGMENT.finditer(line):
            if match.group("kind"):
                side = _parse_side(match.group("kind"), match.group("attributes"))
                if match.group("set"):
                    num_documents = 0
                continue
            if match.group("document") is not None:
                num_documents += 1
                values = _parse_attributes(match.group("document"))
                document = values.get("docid", values.get("id", f"#{num_documents}"))
                continue
            num_segments += 1
            if side not in sides:
                sides.append(side)
            if not label or matches_label(side, label):
                # "&#10;" is a line feed, which would split the sentence.
                text = html.unescape(match.group("text"))
                number = _parse_attributes(match.group("number")).get("id", "")
                name = f"{document} {number}".strip() if number else ""
                yield Segment(re.sub(r"[\r\n]", " ", text).strip(), name)
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


def _join_tags(lines: Iterable[str]) -> Iterator[Tuple[int, str]]:
    """Yield the number and the text of each line, with its last tag complete."""
    text = ""
    line_number = 0
    for line_number, line in enumerate(lines, 1):
        text += line
        start = text.rfind("<")
        is_open = start >= 0 and OPEN_TAG.match(text, start)
        if is_open and len(text) - start < MAX_TAG:
            text += " "
            continue
        yield line_number, text
        text = ""
    if text:
        yield line_number, text


def _parse_attributes(attributes: str) -> Dict[str, str]:
    """Return the attributes of a tag, with names in lower case."""
    return {
        name.lower(): html.unescape(double or single or bare)
        for name, double, single, bare in ATTRIBUTE.findall(attributes)
    }


def _parse_side(kind: str, attributes: str) -> Side:
    """Return the side that a tag begins."""
    values = _parse_attributes(attributes)
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
# The attribute that names an element: a unit of TMX; a file, a unit and its part of
# XLIFF.
NAMES_OF_ELEMENTS = {
    "tu": "tuid",
    "file": "original",
    "trans-unit": "id",
    "unit": "id",
    "segment": "id",
}


def read_units(file: IO[bytes], path: str, label: str = "") -> Iterator[Segment]:
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
    units: Iterable[Tuple[str, Dict[Side, str]]], label: str, sides: Dict[Side, int]
) -> Iterator[Segment]:
    """Yield the text that a label names in each unit; add the languages to `sides`."""
    for name, unit in units:
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
        yield Segment([*exact, *texts, ""][0], name)


class _UnitParser:
    """Collects the translation units of an XML file that is parsed in blocks."""

    def __init__(self):
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._read_text
        self.parser.EntityDeclHandler = self._refuse_entity
        self._units: List[Tuple[str, Dict[Side, str]]] = []  # complete ones, with names
        self._unit: Dict[Side, str] = {}
        self._stack: List[str] = []
        self._names: List[str] = []  # of the elements in the stack; "": it has none
        self._languages = {"source": "", "target": ""}  # of XLIFF
        self._variant = ""  # the language of a <tuv> of TMX
        self._side: Optional[Side] = None  # whose text is being read
        self._parts: List[str] = []
        self._depth = 0  # of the element with the text

    def take(self) -> List[Tuple[str, Dict[Side, str]]]:
        """Return the units that have been completed since the last call."""
        units, self._units = self._units, []
        return units

    def _start(self, name, attributes):
        name = name.rpartition(":")[2]
        parent = self._stack[-1] if self._stack else ""
        self._stack.append(name)
        self._names.append(attributes.get(NAMES_OF_ELEMENTS.get(name, ""), ""))
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
            is_named = bool(self._names[-1] or name == "segment")
            unit_name = " ".join(filter(None, self._names)) if is_named else ""
            self._units.append((unit_name, self._unit))
        self._stack.pop()
        self._names.pop()

    def _read_text(self, text):
        if self._side and not set(CODES).intersection(self._stack[self._depth :]):
            self._parts.append(text)

    def _refuse_entity(self, *_):
        raise expat.ExpatError("entities must not be declared")
