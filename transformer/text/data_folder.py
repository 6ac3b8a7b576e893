"""A data folder: write the files of a corpus; read them without trusting them.

The summary `corpus.json` has the languages, the number of pairs in each split, and the
checksums of the other files. It is written last and removed first: a folder without it
is not a corpus.

The ids are .npy files. NumPy evaluates the header of such a file as Python text. Here
the header must be exactly what NumPy writes for integers in one dimension, and the size
of the file must match it.
"""

import json
import os
import re
from typing import Any, Dict, Iterable, Tuple

import numpy as np

from transformer.runtime.files import (
    Moves,
    named,
    read_json,
    regular,
    replaced,
    sha256_of,
    stamped,
    sync,
)
from transformer.runtime.terminal import command

SUMMARY = "corpus.json"
SPLITS = ("train", "dev", "test")
SIDES = ("source", "target")
ID_FILES = [
    f"{split}.{side}.{part}.npy"
    for split in SPLITS
    for side in SIDES
    for part in ("ids", "offsets")
]

# The magic number, version 1.0, the length of the header, the header.
HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(..)"
    rb"(\{'descr': '([<>|][iu][1248])', 'fortran_order': False, "
    rb"'shape': \((\d{1,15}),\), \} *\n)",
    re.DOTALL,
)
LONGEST_HEADER = 200  # bytes; NumPy writes 128


# --- Arrays of integers ---------------------------------------------------------------


def save_integers(
    path: str, chunks: Iterable[np.ndarray], kind: type, length: int
) -> None:
    """Write the arrays `chunks` as one array [length], as np.save does.

    Only one chunk is in memory at a time.

    Args:
      path: the file, which errors name.
      chunks: contiguous arrays of one dimension.
      kind: their dtype.
      length: the total number of integers.
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
      ValueError: it holds no such array, or is a link out of its folder.
    """
    with open(regular(path), "rb") as file:
        start = file.read(LONGEST_HEADER)
    found = HEADER.match(start)
    if not found or int.from_bytes(found.group(1), "little") != len(found.group(2)):
        raise ValueError(
            f"{path}: expected an array of integers in one dimension, got another "
            f"file: run {command('prepare')} again"
        )
    kind = np.dtype(found.group(3).decode())
    length = int(found.group(4))
    size = os.path.getsize(path)
    expected = found.end() + kind.itemsize * length
    if size != expected or not length:
        raise ValueError(
            f"{path}: expected one integer or more, and {expected:,} bytes for "
            f"{length:,} of them, got {size:,} bytes: run {command('prepare')} again"
        )
    return np.memmap(path, kind, "r", found.end(), (length,))


# --- The summary ----------------------------------------------------------------------


def check_language(name: str, where: str) -> str:
    """Check the name of a language, which becomes the ending of a file name.

    Args:
      name: the name.
      where: the flag or file with the name, for the message.

    Raises:
      ValueError: it has characters other than letters, digits, - and _. As part of a
        path it could lead to any file.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
        raise ValueError(
            f"{where}: expected a language in letters, got {name!r}: write de or en"
        )
    return name


def read_summary(folder: str) -> Dict[str, Any]:
    """Return the content of corpus.json.

    Raises:
      FileNotFoundError: there is none.
      ValueError: it is broken, or its languages would lead out of the folder.
    """
    path = regular(os.path.join(folder, SUMMARY))
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"{path}: expected a folder that {command('prepare')} has finished, got "
            f"no such file: name the folder with --data, or run {command('prepare')} "
            f"--out {folder}"
        )
    expected = f"what {command('prepare')} writes: run it again"
    summary = read_json(path, expected)
    try:
        languages = (summary["source_lang"], summary["target_lang"])
        for name in ("splits", "sha256"):
            if not isinstance(summary.get(name, {}), dict):
                raise ValueError(name)
    except (ValueError, TypeError, LookupError) as error:
        raise ValueError(
            f"{path}: expected languages, splits and checksums, got none ({error!r}): "
            f"run {command('prepare')} again"
        ) from error
    for language in languages:
        check_language(language, path)
    return summary


def write_summary(
    folder: str, summary: Dict[str, Any], paths: Iterable[str] = ()
) -> None:
    """Write corpus.json, with the checksums of the files that belong to it.

    Args:
      folder: where it is written.
      summary: its content.
      paths: the files, which need not be in `folder` yet.
    """
    by_name = sorted((os.path.basename(path), path) for path in paths)
    sums = {name: sha256_of(path) for name, path in by_name}
    with replaced(os.path.join(folder, SUMMARY)) as file:
        json.dump(stamped(dict(summary, sha256=sums)), file, indent=2)
        file.write("\n")


def text_paths(folder: str, split: str) -> Tuple[str, str]:
    """Return the paths of the source and the target text of a split.

    Raises:
      FileNotFoundError, ValueError: as `read_summary` does; there is no such split.
    """
    summary = read_summary(folder)
    with_text = [each for each in summary.get("splits", {}) if each != "train"]
    if with_text and split not in with_text:
        raise ValueError(
            f"--split: expected one of {', '.join(with_text)}, the text in {folder}, "
            f"got {split}; or name two text files with --files"
        )
    source = os.path.join(folder, f"{split}.{summary['source_lang']}")
    target = os.path.join(folder, f"{split}.{summary['target_lang']}")
    return regular(source), regular(target)


def verify(folder: str, but: str = "test.") -> Dict[str, str]:
    """Return the SHA-256 of each file of a data folder, once it was compared.

    A folder of an older version has no checksums: nothing is compared.

    Args:
      folder: the data folder.
      but: files whose names begin like this are not checked.

    Raises:
      ValueError: a file is not the one that was prepared.
    """
    verified: Dict[str, str] = {}
    for name, expected in read_summary(folder).get("sha256", {}).items():
        if name.startswith(but):
            continue
        path = os.path.join(folder, name)
        if os.path.basename(name) != name or not os.path.isfile(regular(path)):
            raise ValueError(
                f"{folder}: expected the file {name!r}, which {SUMMARY} names, got "
                f"none: run {command('prepare')} again"
            )
        if sha256_of(path) != expected:
            raise ValueError(
                f"{path}: expected the file that {command('prepare')} wrote, got "
                f"another: it was changed, or {command('prepare')} was killed; run "
                f"{command('prepare')} --out {folder} again"
            )
        verified[name] = expected
    return verified


def publish(made: str, out: str, old: Iterable[str]) -> None:
    """Move the files of a finished corpus into the data folder, corpus.json last.

    The old corpus.json is removed first: while it is missing, there is no corpus. A
    process that is killed at any moment leaves the old corpus, none, or the new one.

    Args:
      made: the folder that holds the files.
      out: the data folder, on the same file system; it is created if necessary.
      old: names of files of an earlier corpus, which are removed if not replaced.

    Raises:
      OSError: a file could not be moved; the old corpus is as before.
    """
    new = sorted(set(os.listdir(made)) - {SUMMARY})
    gone = [name for name in old if name not in new]
    for name in [*new, SUMMARY]:
        sync(os.path.join(made, name))
    aside = os.path.join(made, "old")
    os.mkdir(aside)
    os.makedirs(out, exist_ok=True)
    with Moves() as moves:
        for name in [SUMMARY, *gone]:
            moves.move(os.path.join(out, name), os.path.join(aside, name))
            sync(out)  # from here on, corpus.json is not on the disk
        for name in new:
            kept = os.path.join(aside, name)
            moves.replace(os.path.join(made, name), os.path.join(out, name), kept)
        sync(out)
        moves.move(os.path.join(made, SUMMARY), os.path.join(out, SUMMARY))
        sync(out)
