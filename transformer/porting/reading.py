"""A Python file as text, tokens and syntax tree; Python 2 is read as far as it goes."""

import ast
import io
import re
import tokenize
import warnings
from typing import Dict, FrozenSet, List, NamedTuple, Tuple

# Statements that Python 3 cannot parse, perhaps behind "if ...:" and the like.
STATEMENT = re.compile(
    r"(\s*(?:(?:if|elif|else|for|while|try|except|finally|with)\b.*:\s*)?)"
    r"(?:print(?=\s*[\"'`]|\s+[^\s(=.,)])|exec\s+[^(\s]|raise\s+[\w.]+\s*,)"
)
# Other words of Python 2, and what stands for them while the file is read.
PYTHON_2 = (
    (re.compile(r"^(\s*except\s+[\w.()\s,]+?),\s*(\w+)\s*:"), r"\1 as \2:"),
    (re.compile(r"<>"), "!="),
    (re.compile(r"\b0([0-7]+)\b(?![.\w])"), r"0o\1"),
    (re.compile(r"\b(\d+)[lL]\b"), r"\1"),
    (re.compile(r"\b[uU]([rR][\"'])"), r"\1"),
    (re.compile(r"`([^`]+)`"), r"repr(\1)"),
)
# Strings that end in their line, and comments: parentheses in them count for nothing.
NO_CODE = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|#.*")
ATTEMPTS = 20  # statements that may be left out of a file, at most


class Script(NamedTuple):
    """A file that was read, and what of it could be."""

    path: str
    encoding: str
    lines: List[str]  # as they are in the file, with their ends
    tree: ast.Module
    tokens: List[tokenize.TokenInfo]
    changed: FrozenSet[int]  # the numbers of lines that were read as something else
    problem: str  # why it is not Python 3; "" where it is


class Chain(NamedTuple):
    """Names joined by dots, such as tf.layers.dense, in one line."""

    text: str
    line: int
    start: int
    end: int
    after: str  # what stands behind them in the line


def read(path: str) -> Script:
    """Read a file, without running it.

    Raises:
      OSError: it cannot be read.
      ValueError: it is not text.
    """
    with open(path, "rb") as file:
        content = file.read()
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        encoding = encoding.replace("-sig", "")
        text = content.decode(encoding)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: found {error}, wanted a text of Python") from error
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    if "\0" in text:
        raise ValueError(f"{path}: found a byte 0, wanted a text of Python")
    legible = [line.replace("\ufeff", "").replace("\f", " ") for line in lines]
    tree, changed, problem = _parsed(legible)
    return Script(path, encoding, lines, tree, _tokens(legible), changed, problem)


def _tokens(lines):
    """Return the tokens of lines, up to the first place where there are none."""
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO("".join(lines)).readline):
            found.append(token)
    except (tokenize.TokenError, SyntaxError):  # SyntaxError: its indentation
        pass
    return found


def _tree(lines):
    """Return the syntax tree of lines, without what Python warns of in them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse("".join(lines))


def _parsed(lines):
    """Return (tree, the lines that were changed for it, why)."""
    try:
        return _tree(lines), frozenset(), ""
    except (SyntaxError, ValueError) as error:
        said = f"line {getattr(error, 'lineno', 0)}: {getattr(error, 'msg', error)}"
    now = [line.expandtabs(8) for line in lines]
    tabs = list(now)
    _leave_out_statements(now)
    for pattern, replacement in PYTHON_2:
        now = [pattern.sub(replacement, line) for line in now]
    for _ in range(ATTEMPTS):
        try:
            tree = _tree(now)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", 0) or 0
            if not 0 < line <= len(now) or now[line - 1].strip() in ("", "pass"):
                break
            _leave_out(now, line - 1)
        else:
            pairs = enumerate(zip(tabs, now), 1)
            return tree, frozenset(n for n, (old, new) in pairs if old != new), said
    return _tree([]), frozenset(range(1, len(lines) + 1)), said


def _leave_out_statements(lines: List[str]) -> None:
    """Put `pass` in the place of each statement of Python 2: print, exec, raise."""
    for number, line in enumerate(lines):
        found = STATEMENT.match(line)
        if found:
            _leave_out(lines, number, found.group(1))


def _leave_out(lines, number, before=None):
    """Put `pass` in the place of the statement that begins in a line."""
    if before is None:
        before = re.match(r"\s*", lines[number]).group()
    depth, last = 0, number
    while last < len(lines):
        line = NO_CODE.sub("", lines[last])
        depth += sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))
        if depth <= 0 and not line.rstrip().endswith("\\"):
            break
        last += 1
    lines[number] = before + "pass\n"
    for each in range(number + 1, min(last + 1, len(lines))):
        lines[each] = "\n"


def chains(script: Script) -> List[Chain]:
    """Return the names in the code of a file, joined by dots: tf.layers.dense."""
    found, tokens, place = [], script.tokens, 0
    while place < len(tokens):
        first = tokens[place]
        place += 1
        if first.type != tokenize.NAME or (place > 1 and tokens[place - 2][1] == "."):
            continue
        text, end = first.string, first.end
        while place + 1 < len(tokens) and tokens[place].string == ".":
            name = tokens[place + 1]
            if name.type != tokenize.NAME or name.start[0] != first.start[0]:
                break
            text, end, place = f"{text}.{name.string}", name.end, place + 2
        line = script.lines[first.start[0] - 1]
        found.append(Chain(text, *first.start, end[1], line[end[1] :]))
    return found


def end_of_statement(script: Script, line: int) -> Tuple[int, int]:
    """Return (line, column) of the end of the statement that begins in a line."""
    for token in script.tokens:
        ends = token.type == tokenize.NEWLINE or token.string == ";"
        if token.start[0] >= line and (ends or token.type == tokenize.COMMENT):
            width = len(script.lines[token.start[0] - 1][: token.start[1]].rstrip())
            return token.start[0], width
    return line, len(script.lines[line - 1].rstrip())


def definitions(script: Script) -> Dict[str, ast.FunctionDef]:
    """Return the functions at the top of a file by their names; the last one counts."""
    return {
        node.name: node
        for node in script.tree.body
        if isinstance(node, ast.FunctionDef)
    }


def dotted(node) -> str:
    """Return the text of names joined by dots: "tf.layers.dense"; "" for all else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return before and f"{before}.{node.attr}"
    return ""
