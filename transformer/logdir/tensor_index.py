"""The index of a checkpoint: name of a variable → its type, shape, and place.

A checkpoint may come from anyone, and its manifest with it. TensorFlow believes the
index: an impossible shape, or a size without data, ends the process, which Python
cannot catch. `check_index` compares it with the data files, before TensorFlow sees it.

The index is a sorted table of LevelDB: blocks of entries (name, BundleEntryProto), a
block with the handles (offset and size) of those blocks, and a footer with the handle
of that block. TensorFlow does not compress it.
"""

import glob
import os
from typing import Dict, Iterator, List, Tuple

import tensorflow.compat.v1 as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf.tensor_bundle_pb2 import (
    BundleEntryProto,
    BundleHeaderProto,
)

from transformer.logdir.names import DATA, INDEX
from transformer.runtime import files
from transformer.runtime.errors import CheckpointError

FOOTER_SIZE = 48  # bytes: two handles, padding, and the magic number
MAX_AXES = 254  # of a tensor
MAX_EMPTY = 1 << 40  # bytes of a tensor, if its axes of size 0 are left out
REFERENCES = 100  # types from here on are those of references to variables


def check_index(checkpoint: str) -> Dict[str, List[int]]:
    """Compare the index of a checkpoint with its data files; return name → shape.

    Args:
      checkpoint: its path, without file extensions.

    Raises:
      CheckpointError: the index is damaged: a variable does not fit into its file.
      FileError: a file is a pipe, a device or a folder.
      FileNotFoundError: a file is missing.
    """
    content = files.read_file(checkpoint + INDEX)
    sizes = {}  # path of a data file → its size
    for path in glob.glob(glob.escape(checkpoint + DATA) + "*"):
        files.refuse_irregular(path)
        sizes[path] = os.path.getsize(path)
    shapes = {}
    name = b""
    try:
        (_, header), *entries = _read_table(content)
        num_files = BundleHeaderProto.FromString(header).num_shards
        for name, value in entries:
            entry = BundleEntryProto.FromString(value)
            path = f"{checkpoint}{DATA}{entry.shard_id:05}-of-{num_files:05}"
            if path not in sizes:
                raise FileNotFoundError(f"{path} is missing")
            shape = [axis.size for axis in entry.shape.dim]
            # The slices of a large variable are entries of their own.
            room = sum(sizes.values()) if entry.slices else entry.size
            _refuse_impossible(entry, shape, room, sizes[path])
            if not name.startswith(b"\0"):  # a slice
                shapes[name.decode("utf-8")] = shape
    except (ValueError, TypeError, DecodeError) as error:
        raise CheckpointError(
            f"{checkpoint}{INDEX}: expected variables that fit into the data file, got "
            f"{name!r:.80} ({error}): the checkpoint is damaged; choose another"
        ) from error
    return shapes


def _refuse_impossible(entry, shape, room, file_size) -> None:
    """Raise ValueError for a tensor that cannot be where its entry says.

    Args:
      entry: the BundleEntryProto.
      shape: its shape.
      room: how many bytes the tensor can have.
      file_size: the size of its data file.
    """
    dtype = tf.as_dtype(entry.dtype)
    size = 1 if dtype == tf.string else dtype.size  # of an element, at least
    for axis in shape:
        size *= max(axis, 1)
    is_possible = (
        entry.dtype < REFERENCES
        and dtype not in (tf.resource, tf.variant)
        and len(shape) <= MAX_AXES
        and min(shape, default=0) >= 0
        and size <= (MAX_EMPTY if 0 in shape else room)
        and min(entry.offset, entry.size) >= 0
        and entry.offset + entry.size <= file_size
    )
    if not is_possible:
        raise ValueError(
            f"{dtype.name} of shape {str(shape):.80}, {entry.size} bytes from "
            f"{entry.offset} of {file_size}"
        )


# --- The table ------------------------------------------------------------------------


def _read_table(content: bytes) -> List[Tuple[bytes, bytes]]:
    """Read the entries of a table: (name, value).

    Raises:
      ValueError: it is damaged.
    """
    _, end = _read_handle(content, max(0, len(content) - FOOTER_SIZE))
    handle, _ = _read_handle(content, end)
    return [
        entry
        for _, value in _read_block(content, *handle)
        for entry in _read_block(content, *_read_handle(value, 0)[0])
    ]


def _read_block(content: bytes, start: int, size: int) -> Iterator[Tuple[bytes, bytes]]:
    """Yield the entries of a block: (name, value).

    An entry has the number of bytes that its name shares with the previous name, the
    number of the other ones, and the size of the value. Every few entries, the name
    stands alone; the places of these entries are at the end of the block.
    """
    block = _slice(content, start, size)
    if _slice(content, start + size, 1) != b"\0":
        raise ValueError("a compressed block")
    num_restarts = int.from_bytes(_slice(block, size - 4, 4), "little")
    end = size - 4 - 4 * num_restarts
    restarts = _slice(block, end, 4 * num_restarts)
    places = set()
    name = b""
    position = 0
    while position < end:
        place = position
        num_shared, position = _read_number(block, position)
        num_other, position = _read_number(block, position)
        value_size, position = _read_number(block, position)
        if not num_shared:
            places.add(place)
        name = _slice(name, 0, num_shared) + _slice(block, position, num_other)
        value = _slice(block, position + num_other, value_size)
        position += num_other + value_size
        yield name, value
    # TensorFlow begins to search at these places.
    if position != end or not places.issuperset(
        int.from_bytes(restarts[i : i + 4], "little")
        for i in range(0, len(restarts), 4)
    ):
        raise ValueError("entries that overlap")


def _read_handle(content: bytes, position: int) -> Tuple[Tuple[int, int], int]:
    """Read the handle of a block; return it, and the position after it."""
    start, position = _read_number(content, position)
    size, position = _read_number(content, position)
    return (start, size), position


def _read_number(content: bytes, position: int) -> Tuple[int, int]:
    """Read an integer, seven bits a byte; return it, and the position after it."""
    number = shift = 0
    while True:
        [byte] = _slice(content, position, 1)
        number |= (byte & 127) << shift
        position += 1
        shift += 7
        if byte < 128:
            return number, position


def _slice(content: bytes, start: int, size: int) -> bytes:
    """Return `size` bytes from `start`; raise ValueError if there are fewer."""
    if start < 0 or size < 0 or start + size > len(content):
        raise ValueError(f"{size} bytes from {start} of {len(content)}")
    return content[start : start + size]
