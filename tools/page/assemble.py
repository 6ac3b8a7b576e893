"""Assemble the kernels of the page: kernels.wat → kernels.wasm and kernels.fma.wasm.

    python tools/page/assemble.py

It needs wasmtime (`pip install -e '.[test]'`). The second file multiplies and adds in
one instruction of relaxed SIMD, which is faster; its sums may round differently.
"""

import os
import re

import wasmtime

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "transformer", "viewer", "page")
SUM = re.compile(
    r"(\(local\.set \$\w+) "
    r"\(f32x4\.add (\(local\.get \$\w+\)) \(f32x4\.mul (.*)\)\)\)$",
    re.M,
)


def assemble():
    """Return the assembled files: name → bytes."""
    with open(os.path.join(FOLDER, "kernels.wat"), encoding="utf-8") as file:
        text = file.read()
    with_fma = SUM.sub(r"\1 (f32x4.relaxed_madd \3 \2))", text)
    return {
        "kernels.wasm": bytes(wasmtime.wat2wasm(text)),
        "kernels.fma.wasm": bytes(wasmtime.wat2wasm(with_fma)),
    }


if __name__ == "__main__":
    for name, content in assemble().items():
        with open(os.path.join(FOLDER, name), "wb") as file:
            file.write(content)
        print(name, len(content), "bytes")
