"""Measure the memory of pages that hold a model.

    python tools/bench/page/measure_memory.py page.html

Each page is opened in a Chromium of its own, in turn. The private memory of its process
is read a few seconds after the page has drawn its first inspection, after its second
example was typed, inspected and its words left out one by one, and after the same with
a sentence of 60 words. The median over --rounds is printed, in MB; the first column is
an empty page.
"""

import argparse
import json
import os
import statistics
import sys
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
sys.path[:0] = [ROOT, os.path.join(ROOT, "tests")]

from browser import Browser  # noqa: E402
from measure_page import private_memory  # noqa: E402

from transformer.commands import cli  # noqa: E402

SETTLE = 6  # seconds after which memory is read
NUM_WORDS = 60
DRAWN = "page.inspection && byId('status').textContent === ''"
COLUMNS = ["empty", "opened", "a sentence", f"{NUM_WORDS} words"]


def parser() -> cli.Parser:
    """Return the parser of the command's flags."""
    parser = cli.make_parser("measure_memory.py", __doc__)
    parser.add_argument("pages", nargs="+", help="files of page.py")
    cli.add_number(parser, "rounds", 3, "how often each page is opened")
    return parser


def run(args: argparse.Namespace) -> None:
    """Measure, and print the table."""
    rows: dict = {path: [] for path in args.pages}
    for _ in range(args.rounds):
        for path in args.pages:
            rows[path].append(measure(os.path.abspath(path)))
    print(f"| | {' | '.join(COLUMNS)} |\n{'|---' * (len(COLUMNS) + 1)}|")
    for path, sizes in rows.items():
        medians = [f"{statistics.median(column):.0f}" for column in zip(*sizes)]
        print(f"| {path} | {' | '.join(medians)} |")


def measure(path: str) -> list:
    """Return the private memory of a page, for each of COLUMNS."""
    with Browser() as browser:
        sizes = [read_memory(browser)]
        browser.open("file://" + path)
        browser.until(DRAWN)
        browser.run("page.source.started")
        sizes.append(read_memory(browser))
        examples = browser.run("page.models[0].examples")
        words = " und ".join(text.rstrip(".") for text in examples * NUM_WORDS).split()
        for text in (examples[1], " ".join(words[:NUM_WORDS])):
            browser.run("byId('text').focus(); byId('text').select()")
            browser.type(text)
            line = json.dumps(text)
            browser.until(f"page.inspection?.text === {line} && {DRAWN}")
            browser.until("page.inspection.data.without")
            sizes.append(read_memory(browser))
        return sizes


def read_memory(browser: Browser) -> float:
    """Return the private memory of the page, when it has settled."""
    time.sleep(SETTLE)
    return private_memory(browser)


if __name__ == "__main__":
    cli.main(parser(), run)
