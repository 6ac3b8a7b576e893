"""Run the snippets of the walkthrough, and fill the chapters with what they print.

    python docs/walkthrough/run.py                 # compare with the stored output
    python docs/walkthrough/run.py --only 0402 07  # those whose names begin so
    python docs/walkthrough/run.py --update        # store the output, fill the chapters
    python docs/walkthrough/run.py --fill          # fill the chapters, run nothing

A chapter has two kinds of places to fill, each up to its `<!-- end -->`, and, as
docs/paper.md has, references whose line numbers are filled:

    <!-- run 0402 -->                                    code and output of a snippet
    <!-- quote transformer/text/batches.py "begin =" ")" --> lines: from the one
        with the first text, which is unique, to the next one with the second text
    [`batches.py:12`](../transformer/text/batches.py#L12) `make_batch` defined there;
        `Class.name` is a method or a field

The notebook is made of the English chapters: text and the code of the snippets.
"""

import argparse
import contextlib
import glob
import io
import json
import os
import re
import runpy
import sys
import textwrap
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NOTEBOOK = os.path.join(ROOT, "notebooks", "walkthrough.ipynb")
PAPER = os.path.join(ROOT, "docs", "paper.md")
LANGUAGES = ("en", "zh")
SHADES = " ░▒▓█"
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")
PLACE = re.compile(r"(<!-- (run|quote) (.*?) -->\n)(.*?)(<!-- end -->)", re.S)
REFERENCE = re.compile(
    r"(\[`[\w/]+\.py):\d+(`\]\((?:\.\./)+([\w/]+\.py)#L)\d+(\) `([\w.]+)`)"
)
INSTALL = """\
# In Colab: the package and this book. A checkout that is installed needs nothing.
import os
import sys

if "google.colab" in sys.modules:
    os.chdir("/content")
    if not os.path.exists("transformer-tf"):
        address = input("Address of the repository (git): ")
        get_ipython().system(f"git clone {address} transformer-tf")
    get_ipython().system("pip install -q -e transformer-tf")
    os.chdir("transformer-tf")
while not os.path.exists("docs/walkthrough"):
    if os.getcwd() == os.path.abspath(os.sep):
        raise FileNotFoundError(
            "expected the folder docs/walkthrough, got none; put this notebook into a "
            "clone of the repository"
        )
    os.chdir("..")
sys.path[:0] = [os.path.abspath("docs/walkthrough"), os.getcwd()]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
"""


def read(path):
    """Return the text of a file."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    """Write a text file, with line feeds on every system."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


# The snippets


def snippets(only=()):
    """Return the paths of the snippets whose names begin with one of `only`."""
    paths = sorted(glob.glob(os.path.join(HERE, "snippets", "*.py")))
    starts = tuple(only) or ("",)
    return [path for path in paths if os.path.basename(path).startswith(starts)]


def output_path(path):
    """Return the path of the stored output of a snippet."""
    return os.path.splitext(path)[0] + ".out"


def tolerance(code):
    """Return the tolerance that the first line of a snippet states; else 0.005."""
    stated = re.match(r"# tolerance: ([\d.]+)", code)
    return float(stated.group(1)) if stated else 0.005


def shades_between(code):
    """Return by how much shades may differ: by any of them in a trained model."""
    return len(SHADES) if re.match(r"# tolerance: .*, any shade\n", code) else 1


def execute(path):
    """Run a snippet in this process; return what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(path)
    return printed.getvalue()


def compare(path, printed):
    """Return how the stored output of a snippet and what it printed differ."""
    code, stored = read(path), read(output_path(path))
    return difference(stored, printed, tolerance(code), shades_between(code))


def difference(expected, got, allowed, shades=1):
    """Return how two outputs differ, as text; empty if they agree.

    Numbers may differ by `allowed`, or by this share of what is expected if that is
    larger; numbers with an exponent by this share alone; pictures by some `shades`. The
    rest must be equal.
    """
    before, after = (
        [line.rstrip() for line in text.splitlines()] for text in (expected, got)
    )
    if len(before) != len(after):
        return f"expected {len(before)} lines, got {len(after)}:\n{got}"
    for line, other in zip(before, after):
        if not _agree(line, other, allowed, shades):
            return f"expected {line!r}, got {other!r} (tolerance {allowed:g})"
    return ""


def _agree(line, other, allowed, shades):
    """Return whether two lines agree; see `difference`."""
    if any(shade in line + other for shade in SHADES[1:]):
        width = max(len(line), len(other))
        pairs = zip(line.ljust(width), other.ljust(width))
        return all(a == b or _are_near_shades(a, b, shades) for a, b in pairs)
    words = [NUMBER.sub("#", text).split() for text in (line, other)]
    pairs = zip(NUMBER.findall(line), NUMBER.findall(other))
    return words[0] == words[1] and all(_are_near(a, b, allowed) for a, b in pairs)


def _are_near(a, b, allowed):
    """Return whether two numbers, as text, agree; see `difference`."""
    expected, got = (float(each.replace(",", "")) for each in (a, b))
    size = abs(expected) if "e" in a else max(1.0, abs(expected))
    return abs(expected - got) <= allowed * size


def _are_near_shades(a, b, most):
    return {a, b} <= set(SHADES) and abs(SHADES.index(a) - SHADES.index(b)) <= most


# The chapters


def chapters(language):
    """Return the paths of the chapters of a language, in order."""
    paths = glob.glob(os.path.join(HERE, language, "*.md"))
    return sorted(paths, key=lambda path: path.replace("index.md", "00"))


def filled(text):
    """Return a text with code, output, quotations and line numbers in place."""

    def fill(match):
        begin, kind, words, _, end = match.groups()
        content = _example(words) if kind == "run" else _quotation(words)
        return f"{begin}{content}{end}"

    def number(match):
        shown, link, path, name, symbol = match.groups()
        line = line_of(path, symbol)
        return f"{shown}:{line}{link}{line}{name}"

    return REFERENCE.sub(number, PLACE.sub(fill, text))


def line_of(path, name):
    """Return the number of the line of a file that defines a name, from 1.

    Args:
      path: of a Python file, from the root of the repository.
      name: of a function, class or constant, or `Class.name` of a method or a field.
    """
    holder, _, name = name.rpartition(".")
    definition = re.compile(rf"(?:def|class) {name}\b|{name}(?::.*)? = ")
    if holder:
        definition = re.compile(rf"    (?:def {name}\b|{name}: )")
    found = []
    inside = ""  # the class that the line is in
    for number, line in enumerate(read(os.path.join(ROOT, path)).splitlines(), 1):
        if re.match(r"\w", line):
            begun = re.match(r"class (\w+)", line)
            inside = begun.group(1) if begun else ""
        if definition.match(line) and (not holder or inside == holder):
            found.append(number)
    if len(found) != 1:
        raise ValueError(
            f"{path}: expected one definition of {name}, got {len(found)}: change the "
            "reference in the documents"
        )
    return found[0]


def code_of(path):
    """Return the code of a snippet without its tolerance."""
    return re.sub(r"\A# tolerance.*\n", "", read(path))


def _example(number):
    """Return the code and the output of the snippet with a number, as Markdown."""
    [path] = snippets([number])
    output = read(output_path(path))
    return f"\n```python\n{code_of(path)}```\n\n```text\n{output}```\n\n"


def _quotation(words):
    """Return lines of a file, and where they are, as Markdown."""
    path, first, last = re.fullmatch(r'(\S+) "(.*?)" "(.*?)"', words).groups()
    lines = read(os.path.join(ROOT, path)).splitlines()
    begins = [i for i, line in enumerate(lines) if first in line]
    if len(begins) != 1:
        raise ValueError(
            f"{path}: expected one line with {first!r}, got {len(begins)}: change the "
            "quotation in the chapters"
        )
    [begin] = begins
    end = next((i for i in range(begin, len(lines)) if last in lines[i]), None)
    if end is None:
        raise ValueError(f"{path}: expected {last!r} after {first!r}, got no such line")
    code = textwrap.dedent("\n".join(lines[begin : end + 1]))
    name = ""  # of the function or method; functions inside of functions do not count
    in_class = False
    for line in lines[: begin + 1]:
        head = re.match(r"(    )?(def|class) (\w+)", line)
        if head and (in_class or not head.group(1)):
            name = head.group(3)
        if head and not head.group(1):
            in_class = head.group(2) == "class"
        if re.match(r"\w", line) and not head:
            name = ""  # of the module
    where = f", `{name}`" if name else ""
    link = f"[`{path}:{begin + 1}`](../../../{path}#L{begin + 1})"
    return f"\n{link}{where}:\n\n```python\n{code}\n```\n\n"


def notebook():
    """Return the text of the notebook: the English chapters, text and code in turn."""
    cells = [_cell("code", INSTALL)]
    for path in chapters("en"):
        text = re.sub(r"\]\((?!http)[^)]*\)", "]", filled(read(path)))  # no links
        parts = PLACE.split(text)  # text, then five groups of each place
        prose = parts[0]
        for begin in range(1, len(parts), 6):
            _, kind, words, content, _, following = parts[begin : begin + 6]
            if kind == "run":
                cells.append(_cell("markdown", prose))
                cells.append(_cell("code", code_of(snippets([words])[0])))
                prose = following
            else:
                prose += content + following
        cells.append(_cell("markdown", prose))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {
        "cells": [cell for cell in cells if cell["source"]],
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _cell(kind, text):
    """Return a cell of a notebook."""
    cell = {"cell_type": kind, "metadata": {}}
    if kind == "code":
        cell.update(execution_count=None, outputs=[])
    cell["source"] = text.strip().splitlines(keepends=True)
    return cell


def fill_all():
    """Write the chapters, docs/paper.md and the notebook anew."""
    for path in [PAPER, *chapters("en"), *chapters("zh")]:
        write(path, filled(read(path)))
    write(NOTEBOOK, notebook())


# The command


def main(argv=None):
    """Run the command line; return 1 if an output differs."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument(
        "--only", nargs="+", default=[], help="beginnings of their names"
    )
    flags.add_argument("--update", action="store_true", help="store what they print")
    flags.add_argument("--fill", action="store_true", help="fill the chapters only")
    args = flags.parse_args(argv)
    sys.path[:0] = [HERE, ROOT]
    failed = 0
    for path in [] if args.fill else snippets(args.only):
        begin = time.time()
        got = execute(path)
        name = f"{os.path.basename(path)}, {time.time() - begin:.1f} s"
        if args.update:
            lines = [line.rstrip() + "\n" for line in got.splitlines()]
            write(output_path(path), "".join(lines))
            print(f"{name}\n{got}", flush=True)
            continue
        found = compare(path, got)
        failed += bool(found)
        print(f"{name}: {found or 'as stored'}", flush=True)
    if args.fill or args.update:
        fill_all()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
