"""Assemble the kernels of the page: kernels.wat → kernels.wasm.

    python tools/page/assemble.py

It needs wasmtime (`pip install -e '.[test]'`).
"""

import os

import wasmtime

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KERNELS = os.path.join(ROOT, "transformer", "viewer", "page", "kernels")


def assemble() -> bytes:
    """Return the assembled file."""
    with open(KERNELS + ".wat", encoding="utf-8") as file:
        return bytes(wasmtime.wat2wasm(file.read()))


if __name__ == "__main__":
    content = assemble()
    with open(KERNELS + ".wasm", "wb") as file:
        file.write(content)
    print(len(content), "bytes")
