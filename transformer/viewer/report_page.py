"""A report of analysis.py → text, and one HTML file without a script."""

import difflib
import html
from typing import List, Sequence

from transformer.analysis import Line, Listing, Report, Table
from transformer.viewer.page_files import checksum, filled, read


def as_text(report: Report) -> List[str]:
    """Return a report as lines of text."""
    lines = [report.title]
    for table in report.tables:
        lines += ["", table.title]
        columns = list(zip(table.head, *table.rows))
        widths = [max(map(len, column)) for column in columns]
        for row in [table.head, *table.rows]:
            first, *others = zip(row, widths)
            cells = [first[0].ljust(first[1]), *(each.rjust(n) for each, n in others)]
            lines.append("  " + "  ".join(cells).rstrip())
        lines += ["  " + table.note] * bool(table.note)
    for listing in report.listings:
        lines += ["", f"{listing.title}. {listing.note}"]
        for line in listing.lines:
            rows = [("source", "", line.source), ("reference", "", line.reference)]
            lines.append(f"  line {line.number}")
            for name, remark, text in [*rows, *line.translations]:
                about = f"{name} ({remark})" if remark else name
                lines.append(f"    {about}: {text}")
    return lines


def report_page(report: Report) -> str:
    """Return a report as HTML; what its texts say is never interpreted."""
    style = read("page.css") + read("report.css")
    parts = [_table(each) for each in report.tables]
    parts += [_listing(each) for each in report.listings]
    return filled(
        "report.html",
        {
            "policy": f"default-src 'none'; style-src '{checksum(style)}'",
            "style": style,
            "title": html.escape(report.title),
            "body": "\n".join(parts),
        },
    )


def _section(title, note, body):
    note = f'<p class="note">{html.escape(note)}</p>' if note else ""
    return f"<section><h2>{html.escape(title)}</h2>{note}{body}</section>"


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{html.escape(each)}</th>' for each in table.head)
    rows = "".join(
        f'<tr><th scope="row">{html.escape(row[0])}</th>'
        + "".join(f"<td>{html.escape(each)}</td>" for each in row[1:])
        + "</tr>"
        for row in table.rows
    )
    body = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    table_of = f'<div class="scrolled"><table class="numbers">{body}</table></div>'
    return _section(table.title, table.note, table_of)


def _listing(listing: Listing) -> str:
    body = "".join(map(_line, listing.lines))
    return _section(listing.title, listing.note, body)


def _line(line: Line) -> str:
    rows = [
        ("source", "", html.escape(line.source)),
        ("reference", "", html.escape(line.reference)),
    ]
    rows += [
        (name, remark, marked(text, line.reference))
        for name, remark, text in line.translations
    ]
    cells = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th><td class="said">{text}</td>'
        f'<td class="note">{html.escape(remark)}</td></tr>'
        for name, remark, text in rows
    )
    return f"<h3>Line {line.number}</h3><table>{cells}</table>"


def marked(text: str, reference: str) -> str:
    """Return a text as HTML; words that the reference does not have are marked."""
    words = text.split()
    same = _same(words, reference.split())
    return " ".join(
        html.escape(word) if is_same else f"<mark>{html.escape(word)}</mark>"
        for word, is_same in zip(words, same)
    )


def _same(words: Sequence[str], others: Sequence[str]) -> List[bool]:
    """Return which words stand in the others, in the same order."""
    found = [False] * len(words)
    matcher = difflib.SequenceMatcher(None, words, others, autojunk=False)
    for begin, _, size in matcher.get_matching_blocks():
        found[begin : begin + size] = [True] * size
    return found
