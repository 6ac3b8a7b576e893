"""Read and write .npy files of integers, without trusting their headers.

NumPy evaluates the header of an .npy file as Python text. Here it has to be, letter by
letter, what NumPy writes for integers in one dimension, and the size of the file has to
be what it says.
"""

import os
import re

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
    with named(path), open(path, "wb") as file:
        header = np.lib.format.header_data_from_array_1_0(array)
        np.lib.format.write_array_header_1_0(file, header)
        file.write(array.data)


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
