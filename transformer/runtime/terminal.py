"""Escape control characters before text reaches a terminal.

A vocabulary, a settings file or a server may come from anybody. Sent to a terminal, the
control characters of such text could recolour it, rename it, or fill its clipboard.
"""

import re
import sys

# Also the line and paragraph separators, the overrides of the writing direction, and
# halves of characters, which no output can encode.
CONTROL = re.compile(
    "[\0-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def shown(text: str) -> str:
    r"""Return one line of text with its control characters escaped: "\x1b" for ESC."""
    return CONTROL.sub(lambda found: ascii(found.group())[1:-1], text)


def say(*lines: str) -> None:
    """Write lines to standard output, each of them on one line whatever it contains."""
    for line in lines:
        sys.stdout.write(shown(line) + "\n")
