"""Fill a page with the results that are kept here, in results.jsonl.

    python tools/lab/page.py docs/evidence.md

A place to fill begins with one of these comments, and ends with `<!-- end -->`:

    <!-- lab table NAME -->  the rows of the group NAME, ranked
    <!-- lab mistakes -->    of each mistake: what is changed; and what it costs, which
                             the reader opens after a guess
"""

import os
import re
import sys
from typing import List

import patches
from rows import BASE, MISTAKES
from table import (
    Result,
    format_difference,
    format_doctor,
    make_group,
    read_lines,
    summarize,
)

HERE = os.path.dirname(os.path.abspath(__file__))
PLACE = re.compile(
    r"(<!-- lab (table|mistakes)(?: ([^>]*?))? -->\n)(.*?)(<!-- end -->)", re.S
)


def fill(text: str, lines) -> str:
    """Fill the places of a page.

    Args:
      text: the page.
      lines: the results, as in `table.summarize`.
    """
    results = summarize(lines)

    def fill_place(match) -> str:
        begin, kind, name, _, end = match.groups()
        content = (
            make_mistakes(results) if kind == "mistakes" else make_group(results, name)
        )
        return f"{begin}\n{content}\n{end}"

    return PLACE.sub(fill_place, text)


def make_mistakes(results: List[Result]) -> str:
    """Return the mistakes, in the order of the rows, each with what it costs."""
    bases = [result for result in results if result.row is BASE]
    mistakes = [result for result in results if result.row.group == MISTAKES]
    return "\n".join(make_mistake(result, bases[0]) for result in mistakes)


def make_mistake(result: Result, base: Result) -> str:
    """Return a mistake and what it costs."""
    row = result.row
    lines = [f"### {row.name[0].upper()}{row.name[1:]}", ""]
    if row.seen:
        lines += [f"Seen: {row.seen}.", ""]
    changes = [f"`{name} = {value}`" for name, value in row.settings.items()]
    changes += [f"`prepare.py {' '.join(row.prepare)}`"] if row.prepare else []
    if changes:
        lines += [f"With {', '.join(changes)}.", ""]
    if row.patch:
        changed = [x for x in patches.diff(row.patch)[2:] if not x.startswith("@@")]
        lines += [f"In `transformer/{row.patch.file}`:", ""]
        lines += ["```diff", *changed, "```", ""]
    measured = (
        f"BLEU **{result.bleu:.2f}** instead of {base.bleu:.2f}: "
        f"{format_difference(result)}. Expected: {row.expected:+.1f}."
    )
    losses = [
        f"{name} loss {value:.2f} instead of {of_base:.2f}"
        for name, value, of_base in (
            ("training", result.train_loss, base.train_loss),
            ("dev", result.dev_loss, base.dev_loss),
        )
        if value is not None and of_base is not None
    ]
    lines += ["<details><summary>What it costs</summary>", "", measured, ""]
    lines += [f"{', '.join(losses).capitalize()}.", ""] if losses else []
    findings = format_doctor(result) or "nothing found"
    return "\n".join([*lines, f"`doctor`: {findings}.", "", "</details>", ""])


def main(path: str) -> None:
    """Fill the places of the page in a file."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    filled = fill(text, read_lines(HERE))
    with open(path, "w", encoding="utf-8") as file:
        file.write(filled)


if __name__ == "__main__":
    main(sys.argv[1])
