"""Assemble the kernels of the page: kernels.wat → kernels.wasm.

    python tools/page/assemble.py

It needs wasmtime (`pip install -e '.[test]'`).
"""

import os
from typing import Tuple

import wasmtime

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KERNELS = os.path.join(ROOT, "transformer", "viewer", "page", "kernels")
NAMES = 0  # the number of a section that has only names


def assemble() -> bytes:
    """Return the assembled file, without the names of parameters and variables."""
    with open(KERNELS + ".wat", encoding="utf-8") as file:
        content = bytes(wasmtime.wat2wasm(file.read()))
    stripped, at = content[:8], 8
    while at < len(content):  # a section: its number, its length, its content
        start = at
        length, at = read_number(content, at + 1)
        at += length
        if content[start] != NAMES:
            stripped += content[start:at]
    return stripped


def read_number(content: bytes, at: int) -> Tuple[int, int]:
    """Read a number, seven bits a byte, the lowest first; return it and its end."""
    number, shift = 0, 0
    while True:
        number |= (content[at] & 127) << shift
        shift += 7
        at += 1
        if content[at - 1] < 128:
            return number, at


if __name__ == "__main__":
    content = assemble()
    with open(KERNELS + ".wasm", "wb") as file:
        file.write(content)
    print(len(content), "bytes")
