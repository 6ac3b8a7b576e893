"""Data folders: write the files of a corpus; read them without trusting them.

The summary `corpus.json` has the languages, the number of pairs in each split, and the
checksums of the other files. It is written last and removed first: a folder without it
is not a data folder.
"""

import contextlib
import json
import os
import re
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from transformer.runtime.errors import (
    CorpusError,
    DataFolderChanged,
    DataFolderNotPrepared,
    FileError,
)
from transformer.runtime.files import (
    add_stamp,
    name_file_in_errors,
    open_file,
    read_json,
    replace_file,
    sha256_of,
    short_hash,
    sync,
)
from transformer.runtime.progress import format_count
from transformer.text.lines import (
    FilePair,
    align_lines,
    have_segments,
    read_lines,
    read_stored_lines,
    split_label,
)

SUMMARY = "corpus.json"
LANGUAGE = r"[a-z]{2,3}(?:[-_](?:[A-Za-z]+|\d{3}))*"  # de, pt-BR, zho_Hans, es-419
# File extensions that are not languages.
OTHER_ENDINGS = ("txt", "tsv", "csv", "raw", "tok", "src", "trg", "tgt", "ref")
SPLITS = ("train", "dev", "test")
SIDES = ("source", "target")
ID_FILES = [
    f"{split}.{side}.{part}.npy"
    for split in SPLITS
    for side in SIDES
    for part in ("ids", "offsets")
]

# --- Arrays of integers ---------------------------------------------------------------


@contextlib.contextmanager
def write_integers(path: str, dtype: type) -> Iterator[Callable[[np.ndarray], None]]:
    """Open a new file, and yield a function that appends an array of integers to it.

    The file is what np.save would write for all arrays concatenated, but only one array
    is in memory at a time.

    Args:
      path: the file, which is named in errors.
      dtype: that of the arrays, which are contiguous and one-dimensional.
    """
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    header = {"descr": descr, "fortran_order": False, "shape": (0,)}
    length = 0

    def append(array):
        nonlocal length
        length += len(array)
        with name_file_in_errors(path):
            file.write(array.data)

    with name_file_in_errors(path), open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        yield append
        header["shape"] = (length,)
        file.seek(0)  # the header has the same size for any length
        np.lib.format.write_array_header_1_0(file, header)


# What NumPy writes before a one-dimensional array of integers.
HEADER_SIZE = 128
HEADER = re.compile(
    rb"\x93NUMPY\x01\x00\x76\x00\{'descr': '([<>|][iu][1248])', "
    rb"'fortran_order': False, 'shape': \(([0-9]{1,15}),\), \} *\n"
)


def open_integers(path: str) -> np.memmap:
    """Map the integers in a file, [length], into memory.

    NumPy does not see the header, which may come from anyone: it must be exactly what
    NumPy writes, and belong to the size of the file.

    Raises:
      FileNotFoundError: there is no such file.
      FileError: it is a pipe, a device or a folder.
      DataFolderChanged: the file does not hold such an array.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        header = HEADER.fullmatch(file.read(HEADER_SIZE))
        if header:
            dtype = np.dtype(header.group(1).decode())
            length = int(header.group(2))
            if size == HEADER_SIZE + length * dtype.itemsize:
                return np.memmap(file, dtype, "r", HEADER_SIZE, (length,))
    raise DataFolderChanged(
        f"{path}: expected a one-dimensional array of integers, got something else, or "
        "a part of one",
        os.path.dirname(path),
    )


# --- The summary ----------------------------------------------------------------------


def language_of(path: str) -> str:
    """Return the language at the end of a file name, or of its label, or ""."""
    path, label = split_label(path)
    if label:
        path = "." + label.partition(":")[0]
    name = re.sub(r"(\.gz|\.xml|\.sgm)*$", "", os.path.basename(path))
    match = re.search(rf"\.({LANGUAGE})$", name)
    return match.group(1) if match and match.group(1) not in OTHER_ENDINGS else ""


# Languages that are written without spaces between words → sacreBLEU's tokenizer. For
# all others it is 13a.
TOKENIZERS = {
    **dict.fromkeys("zh zho cmn yue".split(), "zh"),
    **dict.fromkeys("ja jpn th tha lo lao km khm my mya".split(), "char"),
}


def tokenizer_of(language: str) -> str:
    """Return the name of sacreBLEU's tokenizer for a language, such as zh or zh-CN."""
    return TOKENIZERS.get(re.split("[-_]", language.lower())[0], "13a")


def read_languages(folder: str) -> Optional[Tuple[str, str]]:
    """Return the languages of a data folder, or None if it cannot be read."""
    try:
        summary = read_summary(folder)
        return summary["source_lang"], summary["target_lang"]
    except (OSError, ValueError):
        return None


def check_language(name: str, where: str) -> str:
    """Check the name of a language, which becomes a file extension; return it.

    Args:
      name: the name.
      where: the flag or the file that has the name, for the message.

    Raises:
      CorpusError: the name has characters other than letters, digits, - and _. As part
        of a path, it could lead to any file.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
        raise CorpusError(
            f"{where}: expected letters, digits, - and _ only, got {name!r}; write de "
            "or pt-br, for example"
        )
    return name


def read_summary(folder: str) -> Dict[str, Any]:
    """Return the content of corpus.json.

    Raises:
      DataFolderNotPrepared: there is no corpus.json.
      DataFolderChanged: it is broken.
      CorpusError: its languages would lead outside the folder.
    """
    path = os.path.join(folder, SUMMARY)
    if not os.path.exists(path):
        raise DataFolderNotPrepared(
            f"{path} is missing: expected a data folder that has been prepared", folder
        )
    try:
        summary = read_json(path, "the summary of a data folder")
    except ValueError as error:
        if type(error) is FileError:  # it is a pipe, for example
            raise
        raise DataFolderChanged(str(error), folder) from error
    try:
        languages = (summary["source_lang"], summary["target_lang"])
        for name in ("splits", "sha256"):
            if not isinstance(summary.get(name, {}), dict):
                raise ValueError(name)
    except (ValueError, TypeError, LookupError) as error:
        raise DataFolderChanged(
            f"{path}: expected source_lang, target_lang, splits and sha256, got a "
            f"problem with {error}",
            folder,
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
    checksums = {name: sha256_of(path) for name, path in by_name}
    with replace_file(os.path.join(folder, SUMMARY)) as file:
        json.dump(add_stamp(dict(summary, sha256=checksums)), file, indent=2)
        file.write("\n")


def text_paths(folder: str, split: str) -> Tuple[str, str]:
    """Return the paths of the source and the target text of a split.

    Raises:
      CorpusError: as in `read_summary`; or there is no such split.
    """
    summary = read_summary(folder)
    with_text = [name for name in summary.get("splits", {}) if name != "train"]
    if with_text and split not in with_text:
        raise CorpusError(
            f"split: expected one of {', '.join(with_text)}, the splits with text in "
            f"{folder}, got {split}"
        )
    source = os.path.join(folder, f"{split}.{summary['source_lang']}")
    target = os.path.join(folder, f"{split}.{summary['target_lang']}")
    return source, target


def verify_checksums(folder: str) -> Dict[str, str]:
    """Verify the files of a data folder that training reads.

    A folder from an older version has no checksums, so nothing is compared.

    Args:
      folder: the data folder.

    Returns:
      The checksums: file name → SHA-256.

    Raises:
      DataFolderChanged: a file differs from the prepared one.
    """
    checksums: Dict[str, str] = {}
    for name, expected in read_summary(folder).get("sha256", {}).items():
        if name.startswith("test."):
            continue
        path = os.path.join(folder, os.path.basename(name))
        if not os.path.exists(path) or sha256_of(path) != expected:
            raise DataFolderChanged(
                f"{path} is missing, or is not the file that was prepared: it was "
                "changed, or preparing the data was interrupted",
                folder,
            )
        checksums[name] = expected
    return checksums


def publish(work_dir: str, out: str, old_names: Iterable[str]) -> None:
    """Move the files of a finished corpus into the data folder, corpus.json last.

    The old corpus.json is removed first; while it is missing, there is no data folder.
    If the process ends at any moment, it leaves the old corpus, none, or the new one.

    Args:
      work_dir: the folder that holds the files.
      out: the data folder, on the same file system; it is created if necessary.
      old_names: the files of an earlier corpus, which are removed if not replaced.
    """
    new_names = sorted(set(os.listdir(work_dir)) - {SUMMARY})
    for name in [*new_names, SUMMARY]:
        sync(os.path.join(work_dir, name))
    os.makedirs(out, exist_ok=True)
    for name in [SUMMARY, *set(old_names).difference(new_names)]:
        path = os.path.join(out, name)
        if os.path.lexists(path):
            os.remove(path)
        sync(out)  # from here on, corpus.json is not on the disk
    for name in new_names:
        os.replace(os.path.join(work_dir, name), os.path.join(out, name))
    sync(out)
    os.replace(os.path.join(work_dir, SUMMARY), os.path.join(out, SUMMARY))
    sync(out)


# --- Lines and their references ------------------------------------------------------


class ParallelText(NamedTuple):
    """Source lines and their references."""

    name: str  # of the split, or of the file, with a hash of its lines
    sources: List[str]
    references: List[str]
    tokenizer: str = "13a"  # sacreBLEU's, for the language of the references
    is_split: bool = False  # whether it is a split of a data folder
    source_path: str = ""
    # Names of segments, left out, that only the sources, or only the references, have.
    unmatched: Sequence[Sequence[str]] = ()
    more_references: Sequence[List[str]] = ()  # further lists like `references`


def load_text(data: str, split: str) -> Tuple[List[str], List[str]]:
    """Return the plain source and reference lines of a split in a data folder.

    Raises:
      FileNotFoundError: a file is missing.
      CorpusError: corpus.json is broken, points outside the folder, or lacks the split.
    """
    source, reference = text_paths(data, split)
    return list(read_stored_lines(source)), list(read_stored_lines(reference))


def choose_dev_lines(data: str, count: int) -> List[str]:
    """Choose sources of the dev split, from short to long; [] if there are none.

    Args:
      data: the data folder.
      count: how many to choose, at most.
    """
    sources: List[str] = []
    with contextlib.suppress(ValueError, OSError):
        sources, _ = load_text(data, "dev")
    lines = sorted(filter(str.strip, dict.fromkeys(sources)), key=len)
    step = max(1, len(lines) // count)
    return lines[step // 2 :: step][:count]


def find_references(data: str, lines: Sequence[str]) -> List[Tuple[str, str]]:
    """Return (line, reference) for each of the lines that the dev split has.

    Args:
      data: the data folder, which may be missing.
      lines: sentences.
    """
    references: Dict[str, str] = {}
    with contextlib.suppress(ValueError, OSError):
        references = dict(zip(*load_text(data, "dev")))
    return [(line, references[line]) for line in lines if line in references]


def read_parallel(
    data: str, split: str, paths: Optional[Sequence[str]] = None
) -> ParallelText:
    """Return the lines of two files, or of a split of the data folder.

    Args:
      data: the data folder, whose target language counts if the name of the reference
        file has none.
      split: "dev" or "test"; ignored if `paths` are given.
      paths: the source file and the reference file, or None.

    Raises:
      CorpusError: the numbers of lines differ, or there are no lines.
      OSError: a file cannot be read.
    """
    is_split = not paths
    unmatched: Tuple[List[str], List[str]] = ([], [])
    if paths:
        sources, references = read_two_files(FilePair(paths[0], paths[1]), unmatched)
        name = f"{os.path.basename(paths[0])}-{hash_lines(sources)}"
        language = language_of(paths[1])
        if not language:
            with contextlib.suppress(OSError, ValueError):  # there is no data folder
                language = read_summary(data)["target_lang"]
    else:
        paths = text_paths(data, split)
        sources, references = load_text(data, split)
        name = split
        language = read_summary(data)["target_lang"]
    if len(sources) != len(references) or not sources:
        raise CorpusError(
            f"{' and '.join(paths)}: expected the same number of lines, at least one, "
            f"got {len(sources)} and {len(references)}"
        )
    tokenizer = tokenizer_of(language)
    return ParallelText(
        name, sources, references, tokenizer, is_split, paths[0], unmatched
    )


def read_translations(path: str, text: ParallelText) -> List[str]:
    """Return the translations of a text in a file, in the order of the sources.

    Raises:
      CorpusError: the file lacks segments of the source.
    """
    unmatched: Tuple[List[str], List[str]] = ([], [])
    file_pair = FilePair(text.source_path, path)
    if not have_segments(file_pair):
        return list(read_lines(path))
    _, translations = read_two_files(file_pair, unmatched)
    if unmatched[0]:
        raise CorpusError(
            f"{path}: expected the segments of {text.source_path}, got none for "
            f"{format_count(len(unmatched[0]), 'segment')}, such as {unmatched[0][0]!r}"
        )
    return translations


def read_two_files(
    file_pair: FilePair, unmatched: Tuple[List[str], List[str]]
) -> Tuple[List[str], List[str]]:
    """Return the lines of two files, one file after the other: they may be pipes.

    Args: as in `align_lines`, by which segments of markup are paired.
    """
    if not have_segments(file_pair):
        return list(read_lines(file_pair.source)), list(read_lines(file_pair.target))
    pairs = list(align_lines(file_pair, unmatched))
    sources = [source for source, _ in pairs if source is not None]
    return sources, [target for _, target in pairs if target is not None]


def hash_lines(lines: Sequence[str]) -> str:
    """Return eight hexadecimal digits that identify lines of text."""
    return short_hash("\n".join(lines))


def name_text(text: ParallelText, own_data: str) -> str:
    """Return the name under which translations of a text are stored.

    The name of a split ends with a hash if the split of the log directory's own data
    folder has other sources, so that translations of the two are different files. If
    the folder is missing, the split counts as its own: the folder has moved.

    Args:
      text: the text.
      own_data: the data folder that the log directory names.
    """
    if not text.is_split or not os.path.isdir(own_data):
        return text.name
    try:
        is_own = load_text(own_data, text.name)[0] == text.sources
    except (OSError, ValueError):
        is_own = False
    return text.name if is_own else f"{text.name}-{hash_lines(text.sources)}"
