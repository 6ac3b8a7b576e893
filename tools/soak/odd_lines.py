"""Make test input for a translator: sentences, and lines with unusual content.

    python tools/soak/odd_lines.py --count 1000 --seed 1 > odd.de

Every other line is an ordinary sentence; the others have one to three of ODDITIES. The
same seed gives the same lines.
"""

import argparse
import os
import random
import sys
from typing import Any, Callable, Iterator, List, Optional, Sequence

from transformer.runtime import cli

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SENTENCES = os.path.join(ROOT, "data", "sample", "test.de")
LONG_EVERY = 1000  # odd lines between two long ones, on average
LONG = 10000  # words of a long line

Dice = Callable[[], float]  # returns a number in [0, 1)


def pick(options: Sequence, dice: Dice) -> Any:
    """Return one of the options."""
    return options[int(dice() * len(options))]


def encoded(*texts: str) -> List[bytes]:
    """Return each text as UTF-8."""
    return [text.encode("utf-8") for text in texts]


# Kind → what is put into a line, or replaces it.
INSERTED = {
    "tab": [b"\t", b"\t\t"],
    "carriage return": [b"\r", b"\r\r"],
    "NUL": [b"\0"],
    "control character": encoded(
        *(chr(code) for code in [*range(1, 9), *range(14, 28), *range(127, 160)])
    ),
    "line separator": encoded(*"\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"),
    "zero width": encoded(*"\xad\u200b\u200c\u200d\u200e\u200f\u202e\u2060"),
    "byte order mark": [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"],
    "emoji": encoded(
        "🙂", "👩\u200d👩\u200d👧", "🇩🇪", "👍🏽", "❤\ufe0f", "🏴\U000e0067\U000e007f"
    ),
    "other script": encoded(
        "Привет",
        "你好世界",
        "こんにちは",
        "안녕하세요",
        "שלום",
        "مرحبا",
        "नमस्ते",
        "ไทย",
        "ᚠᚢᚦ",
        "𝔘𝔫𝔦",
        "𒀀𒁀",
    ),
    "combining marks": encoded("o" + "\u0308\u0301\u0323" * 20),
    "space": encoded("   ", "\xa0", "\u3000", "\u2009"),
    "not a character": encoded("\uffff", "\ufffd", "\ue000"),
    "not UTF-8": [
        b"\xff",
        b"\xe2\x82",
        b"\xc3",
        b"M\xe4dchen",
        b"\x80\x80",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
    ],
    "markup": encoded(
        "<s>", "</s>", "<unk>", "<pad>", "\u2581", "|||", "&#10;", "\\n", "%s", "../../"
    ),
    "long word": encoded("x" * 200, "ß" * 200, "-" * 200),
}


def insert(line: bytes, kind: str, dice: Dice) -> bytes:
    """Return a line with something of a kind around it, after a word, or instead."""
    piece = pick(INSERTED[kind], dice)
    place = line.find(b" ", int(dice() * len(line))) % (len(line) + 1)
    return pick(
        [piece + line, line + piece, piece, line[:place] + piece + line[place:]], dice
    )


# Other ways to change a line: kind → function.
CHANGED = {
    "empty": lambda line, dice: b"",
    "white space alone": lambda line, dice: pick([b" ", b"   ", b"\t", b" \t "], dice),
    "ended by CR LF": lambda line, dice: line + b"\r",
    "cut in a character": lambda line, dice: line[: int(dice() * len(line))] + b"\xc3",
    "all capitals": lambda line, dice: line.upper(),
    "no spaces": lambda line, dice: line.replace(b" ", b""),
    "repeated": lambda line, dice: line * 3,
}
ODDITIES = sorted(INSERTED) + sorted(CHANGED)


def sentence(sentences: Sequence[bytes], dice: Dice) -> bytes:
    """Return a German sentence, or some digits."""
    if dice() < 0.7:
        return pick(sentences, dice)
    return b" ".join(b"%d" % int(dice() * 10) for _ in range(1 + int(dice() * 12)))


def long_line(sentences: Sequence[bytes], dice: Dice) -> bytes:
    """Return a line of LONG words, with spaces between them or without."""
    words = []
    while len(words) < LONG:
        words += sentence(sentences, dice).split()
    return pick([b" ", b""], dice).join(words[:LONG])


def odd_lines(count: int, seed: int) -> Iterator[bytes]:
    """Yield `count` lines without a newline byte."""
    dice = random.Random(seed).random
    with open(SENTENCES, "rb") as file:
        sentences = file.read().split(b"\n")[:-1]
    for number in range(count):
        line = sentence(sentences, dice)
        if number % 2 and dice() < 1 / LONG_EVERY:
            line = long_line(sentences, dice)
        for _ in range(1 + int(dice() * 3) if number % 2 else 0):
            kind = pick(ODDITIES, dice)
            line = (
                CHANGED[kind](line, dice)
                if kind in CHANGED
                else insert(line, kind, dice)
            )
        yield line


def run(args: argparse.Namespace) -> None:
    """Write odd lines to standard output."""
    for line in odd_lines(args.count, args.seed):
        sys.stdout.buffer.write(line + b"\n")


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line."""
    parser = cli.make_parser("odd_lines.py", __doc__)
    parser.add_argument(
        "--count", type=int, default=1000, metavar="INT", help="lines [1000]"
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="INT", help="chooses the lines [1]"
    )
    cli.main(parser, run, argv)


if __name__ == "__main__":
    main()
