"""Read and write .npy files of integers, without trusting their headers.

NumPy evaluates the header of an .npy file as Python text. Here it has to be, letter by
letter, what NumPy writes for integers in one dimension, and the size of the file has to
be what it says.
"""

import os
import re
from typing import Iterable

import numpy as np

from transformer.runtime.files import named, regular

# The magic number, version 1.0, the length of the header, the header.
HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(..)"
    rb"(\{'descr': '([<>|][iu][1248])', 'fortran_order': False, "
    rb"'shape': \((\d{1,15}),\), \} *\n)",
    re.DOTALL,
)
LONGEST = 200  # bytes of such a header; NumPy writes 128


def save_integers(path: str, array: np.ndarray) -> None:
    """Write an array [length] as np.save does; an error names the file."""
    save_chunks(path, [array], array.dtype, len(array))


def save_chunks(
    path: str, chunks: Iterable[np.ndarray], kind: np.dtype, length: int
) -> None:
    """Write the arrays `chunks` as one array [length], as np.save does.

    Memory holds one of them at a time.

    Args:
      path: the file; an error names it.
      chunks: contiguous arrays of one dimension.
      kind: their dtype.
      length: how many integers they hold together.
    """
    descr = np.lib.format.dtype_to_descr(np.dtype(kind))
    header = {"descr": descr, "fortran_order": False, "shape": (length,)}
    with named(path), open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for chunk in chunks:
            file.write(chunk.data)


def open_integers(path: str) -> np.ndarray:
    """Return the integers of a file, [length], memory-mapped.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is no such array, or leads out of its folder.
    """
    with open(regular(path), "rb") as file:
        start = file.read(LONGEST)
    found, size = HEADER.match(start), os.path.getsize(path)
    if not found or int.from_bytes(found.group(1), "little") != len(found.group(2)):
        raise ValueError(
            f"{path}: found no array of integers in one dimension, wanted one: run "
            f"prepare.py again"
        )
    kind, length = np.dtype(found.group(3).decode()), int(found.group(4))
    wanted = found.end() + kind.itemsize * length
    if size != wanted or not length:
        raise ValueError(
            f"{path}: found {size:,} bytes that hold {length:,} integers, wanted "
            f"{wanted:,} bytes, and one integer or more: run prepare.py again"
        )
    return np.memmap(path, kind, "r", found.end(), (length,))
