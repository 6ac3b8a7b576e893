"""Print the table of dialects in docs/dialects.md: `python tools/docs/dialects.py`.

It has a column for each dialect and a row for each decision.
"""

import os
import sys
from typing import Any

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, ROOT)

from transformer.dialects import DIALECTS, Dialect  # noqa: E402 (after the path)


def format_value(value: Any) -> str:
    """Format the value of a field as a cell of the table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text or "–"


def make_table() -> str:
    """Return the table in Markdown."""
    lines = [["", *DIALECTS], ["---"] * (len(DIALECTS) + 1)]
    for field in Dialect._fields:
        cells = [format_value(getattr(row, field)) for row in DIALECTS.values()]
        lines.append([f"`{field}`", *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(make_table())
