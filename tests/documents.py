"""The documents, and the commands in them: in fenced blocks and between backticks."""

import collections
import glob
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PATTERNS = (
    "README*.md",
    "CONTRIBUTING.md",
    "data/README.md",
    "examples/README.md",
    "docs/*.md",
    "docs/walkthrough/*/*.md",
)

# Fenced blocks that hold commands, and their output perhaps.
SHELL = ("", "sh", "bash", "shell", "console")
# What a line begins with that is a command, not output; the second, between backticks.
IN_BLOCK = re.compile(
    r"(?:\w+=\S+ )*(?:python|make|pip|pytest|bash|echo|cat|head|taskset|timeout|curl|"
    r"transformer-tf|docker|git|ruff|cp|mkdir|for|export|source|\.ci/run)[\d.]*(?= |$)"
)
INLINE = re.compile(
    r"(?:\w+=\S+ )*(?:(?:transformer-tf|python|make|pip|bash) |(?:pytest|\.ci/run)\b)"
)

# A command, on one line, and the document where it is found first.
Command = collections.namedtuple("Command", "text document")


def read(path):
    """The text of a file of the repository."""
    with open(os.path.join(ROOT, *path.split("/")), encoding="utf-8") as file:
        return file.read()


def between(document, begin):
    """What stands in a document between two comments of HTML."""
    [shown] = re.findall(rf"<!-- {begin} -->\n(.*?)<!-- end -->", read(document), re.S)
    return shown


def documents():
    """The documents that are there, relative to the root, with slashes."""
    return sorted(
        os.path.relpath(path, ROOT).replace(os.sep, "/")
        for pattern in PATTERNS
        for path in glob.glob(os.path.join(ROOT, *pattern.split("/")))
    )


def blocks(text):
    """[(language, text)] of the fenced blocks."""
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.S | re.M)


def lines_of(block):
    """The commands of a block: continued lines joined, without comments and output."""
    for line in re.sub(r"\s*\\\n\s*", " ", block).splitlines():
        line = re.sub(r"\s+#( .*|$)", "", line).strip()
        if line.startswith("$ "):
            line = line[2:]
        if IN_BLOCK.match(line):
            yield line


def commands_of(text):
    """The commands of a document, in order: those of its blocks, then the others."""
    for language, block in blocks(text):
        if language in SHELL:
            yield from lines_of(block)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    for span in re.findall(r"`([^`]+)`", prose):
        line = " ".join(span.split())
        if INLINE.match(line):
            yield line


def commands():
    """Each command of all documents, once."""
    commands_by_text = collections.OrderedDict()
    for document in documents():
        for line in commands_of(read(document)):
            commands_by_text.setdefault(line, Command(line, document))
    return list(commands_by_text.values())
