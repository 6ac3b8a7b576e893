"""Fills a page in Markdown with results of the laboratory.

A place to fill begins with one of these comments, and ends with `<!-- end -->`:

    <!-- lab table NAME -->  the rows of the group NAME, ranked
    <!-- lab mistakes -->    of each mistake: what is changed; and what it costs, which
                             the reader opens after a guess
"""

import re
from typing import List

import patches
from rows import MISTAKES
from table import Result, format_difference, format_doctor, make_group, summarize

PLACE = re.compile(r"(<!-- lab (table|mistakes) ?(.*?) -->\n)(.*?)(<!-- end -->)", re.S)


def fill(text: str, lines) -> str:
    """Fill the places of a page.

    Args:
      text: the page.
      lines: the results, as in `table.summarize`.
    """
    results = summarize(lines)

    def fill_place(match) -> str:
        begin, kind, name, _, end = match.groups()
        made = (
            make_mistakes(results) if kind == "mistakes" else make_group(results, name)
        )
        return f"{begin}\n{made}\n{end}"

    return PLACE.sub(fill_place, text)


def fill_file(path: str, lines) -> None:
    """Fill the places of a page in a file."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(fill(text, lines))


def make_mistakes(results: List[Result]) -> str:
    """Return the mistakes, in the order of the rows, each with what it cost."""
    return "\n".join(
        make_mistake(result) for result in results if result.row.group == MISTAKES
    )


def make_mistake(result: Result) -> str:
    """Return a mistake and what it cost."""
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
    losses = [
        f"{name} loss {value:.2f}"
        for name, value in (("training", result.train_loss), ("dev", result.dev_loss))
        if value is not None
    ]
    measured = [
        f"BLEU {result.bleu:.2f}, {format_difference(result)} to the base",
        *losses,
    ]
    lines += [
        "<details><summary>What it costs</summary>",
        "",
        f"{'; '.join(measured)}. Expected: {row.expected:+.1f}. "
        f"`doctor`: {format_doctor(result) or 'nothing found'}.",
        "",
        "</details>",
        "",
    ]
    return "\n".join(lines)
