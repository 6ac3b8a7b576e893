"""Download a public corpus, and write its text for the command prepare.

    transformer-tf download --list
    transformer-tf download multi30k --out data/multi30k
    transformer-tf download sample      # it comes with the package: no network

Archives are stored in OUT/archives, and no archive is opened before its SHA-256 is
verified. At the end, OUT holds all of {train,dev,test}.{de,en}, or none of them.
Corpora other than the sample need the package pooch, and tqdm for a progress bar: pip
install 'pooch[progress]'.
"""

import argparse
import filecmp
import importlib.util
import io
import os
import shutil
import sys
import tarfile
import threading
from typing import Any, Callable, List, Optional, Set, Tuple

from transformer.commands import cli
from transformer.commands.terminal import PACKAGE, command_line, print_lines
from transformer.runtime.errors import PackageNotInstalled
from transformer.runtime.files import name_file_in_errors, sha256_of, temporary_folder
from transformer.text.corpus import write_lines
from transformer.text.lines import FilePair, read_side
from transformer.text.public_corpora import CORPORA, Archive, PublicCorpus

LANGUAGES = ("de", "en")
SAMPLE = "sample"
SAMPLE_FILES = (".de", ".en", ".align")
SAMPLE_VOCAB_SIZE = 2000  # for its small grammar
READ_BYTES = 1 << 16  # at a time
MAX_PAUSE = 60.0  # seconds within which a server must send READ_BYTES
RETRIES = 5  # for an archive; pooch waits 1 s after the first, 2 s after the second, …


def parser() -> cli.Parser:
    """Return the parser of the command's flags."""
    parser = cli.make_parser("download", __doc__)
    parser.usage = "%(prog)s NAME [--flag value] ..."
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help=f"one of {', '.join([SAMPLE, *CORPORA])}",
    )
    parser.add_argument(
        "--out", type=cli.path, metavar="DIR", help="the data folder [data/NAME]"
    )
    parser.add_argument("--list", action="store_true", help="show the corpora")
    parser.add_argument(
        "--url_base",
        metavar="URL",
        help="a mirror: download the archives from URL/FILE",
    )
    return parser


def run(args: argparse.Namespace) -> None:
    """Print the list, or download one corpus and print the next command."""
    if args.list:
        return print_list()
    if args.name not in (SAMPLE, *CORPORA):
        raise ValueError(
            f"expected the name of a corpus, one of {', '.join([SAMPLE, *CORPORA])}, "
            f"got {args.name or ''!r}"
        )
    out = args.out or os.path.join("data", args.name)
    if args.name == SAMPLE:
        copy_sample(out)
        vocab_size = SAMPLE_VOCAB_SIZE
        origin = "The sample corpus, generated from a small grammar."
    else:
        corpus = CORPORA[args.name]
        download(corpus, out, args.url_base)
        vocab_size = corpus.vocab_size
        origin = f"{corpus.homepage} names the authors and terms of use of this corpus."
    print_lines(
        f"{origin} Next:",
        command_line("prepare", "--out", out, "--vocab_size", str(vocab_size)),
    )


def copy_sample(out: str) -> None:
    """Write the text of the sample corpus, with its word alignments, to `out`.

    Raises:
      ValueError: `out` has different files with these names.
    """
    folder = os.path.join(PACKAGE, SAMPLE)  # in a wheel
    if not os.path.isdir(folder):
        folder = os.path.join(os.path.dirname(PACKAGE), "data", SAMPLE)
    names = [name for name in os.listdir(folder) if name.endswith(SAMPLE_FILES)]
    for name in names:
        path = os.path.join(out, name)
        if os.path.exists(path) and not filecmp.cmp(
            os.path.join(folder, name), path, shallow=False
        ):
            raise ValueError(
                f"{path}: expected no other text, got a file that is not part of the "
                "sample corpus; choose another --out"
            )
    with temporary_folder(out) as work_dir:
        for name in names:
            shutil.copyfile(os.path.join(folder, name), os.path.join(work_dir, name))
        os.makedirs(out, exist_ok=True)
        for name in names:
            os.replace(os.path.join(work_dir, name), os.path.join(out, name))


def print_list() -> None:
    """Print the corpora."""
    print_lines(
        f"{SAMPLE}: sentences from a small grammar, 20,000 pairs; comes with the "
        "package"
    )
    for name, corpus in CORPORA.items():
        size = sum(archive.max_bytes for archive in corpus.archives) / 1e6
        print_lines(
            f"{name}: {corpus.description}; at most {size:,.0f} MB",
            f"    {corpus.homepage}",
        )


def download(corpus: PublicCorpus, out: str, url_base: Optional[str]) -> None:
    """Fetch and verify the archives of a corpus, and write its text to `out`.

    Args:
      corpus: an entry of CORPORA.
      out: the data folder.
      url_base: the address of a mirror; None: take the archives from their own
        addresses.

    Raises:
      ValueError: `out` has text from another corpus, or an archive is not the expected
        one.
      OSError: an archive is too long.
    """
    names = [os.path.basename(archive.url) for archive in corpus.archives]
    paths = [os.path.join(out, "archives", name) for name in names]
    text_names = [
        f"{split}.{language}" for split in corpus.file_pairs for language in LANGUAGES
    ]
    existing = [name for name in text_names if os.path.exists(os.path.join(out, name))]
    if existing and not all(map(os.path.exists, paths)):
        raise ValueError(
            f"--out {out}: expected the archives that its text is from, got "
            f"{', '.join(existing)} without them; choose another folder, or remove the "
            "text to download it again"
        )
    with name_file_in_errors(out), temporary_folder(out) as work_dir:
        for archive, path in zip(corpus.archives, paths):
            if not os.path.exists(path) or sha256_of(path) != archive.sha256:
                fetch(archive, path, work_dir, url_base)
        folder = os.path.join(work_dir, "files")
        os.mkdir(folder)
        needed = {
            name
            for file_pairs in corpus.file_pairs.values()
            for file_pair in file_pairs
            for name in file_pair
        }
        for path in paths:
            unpack(path, needed, folder)
        missing = sorted(needed.difference(os.listdir(folder)))
        if missing:
            raise ValueError(
                f"{', '.join(paths)}: files of the splits are missing: "
                f"{', '.join(missing)}"
            )
        for split, file_pairs in corpus.file_pairs.items():
            for file_pair in file_pairs:
                append_text(file_pair, folder, split, work_dir)
        for name in existing:
            path = os.path.join(out, name)
            if not filecmp.cmp(os.path.join(work_dir, name), path, shallow=False):
                raise ValueError(
                    f"{path}: expected the text of the archives, got another; choose "
                    "another --out, or remove the file to write it again"
                )
        for name in text_names:
            os.replace(os.path.join(work_dir, name), os.path.join(out, name))


def fetch(archive: Archive, path: str, work_dir: str, url_base: Optional[str]) -> None:
    """Download an archive; verify its SHA-256.

    Args:
      archive: what to download.
      path: where it is written.
      work_dir: a folder for files that have not been verified.
      url_base: as in `download`.

    Raises:
      ValueError: no attempt succeeded.
      PackageNotInstalled: pooch is missing.
      OSError: the file is too long, or the server too slow.
    """
    try:
        import pooch
        from requests import RequestException
    except ImportError as error:
        raise PackageNotInstalled(
            "pooch is not installed: pip install 'pooch[progress]'", "download"
        ) from error
    pooch.get_logger().setLevel("ERROR")
    has_bar = sys.stderr.isatty() and importlib.util.find_spec("tqdm") is not None
    identity = {"Accept-Encoding": "identity"}
    downloader = pooch.HTTPDownloader(has_bar, READ_BYTES, headers=identity)

    def download_limited(url, path, manager):
        with LimitedFile(path, url, archive.max_bytes) as file:
            watch(file, url, lambda: downloader(url, file, manager))

    name = os.path.basename(path)
    url = f"{url_base.rstrip('/')}/{name}" if url_base else archive.url
    manager = pooch.create(
        path=work_dir,
        base_url="",
        registry={name: f"sha256:{archive.sha256}"},
        urls={name: url},
        retry_if_failed=RETRIES,
    )
    try:
        new_path = manager.fetch(name, downloader=download_limited)
    except (ValueError, RequestException) as error:
        raise ValueError(f"{url}: downloading the archive failed: {error}") from error
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.replace(new_path, path)


def watch(file: io.FileIO, url: str, write: Callable[[], None]) -> None:
    """Write a file in a thread, which may not pause for `MAX_PAUSE` seconds.

    The time limits of requests are those of single reads: a server that sends a byte
    now and then does not exceed them, neither in the headers nor in the archive.

    Args:
      file: the file, to which READ_BYTES are written at a time.
      url: the address, for the message.
      write: writes the file.

    Raises:
      TimeoutError: it pauses. Its thread is left behind, and ends with the process.
    """
    errors: List[BaseException] = []

    def work():
        try:
            write()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    previous = -1
    while thread.is_alive():
        size = file.tell()
        if size == previous:
            raise TimeoutError(
                f"{url}: expected {READ_BYTES:,} bytes, or the end, within "
                f"{MAX_PAUSE:.0f} s, got fewer after {size:,}; run the same command "
                "later, or name a mirror with --url_base"
            )
        previous = size
        thread.join(MAX_PAUSE)
    if errors:
        raise errors[0]


class LimitedFile(io.FileIO):
    """A new file that refuses to grow beyond its expected size."""

    def __init__(self, path: str, url: str, max_bytes: int):
        super().__init__(path, "w")
        self._url = url
        self._max_bytes = max_bytes

    def write(self, data: Any) -> int:
        """Write data; at the limit, raise OSError, which ends pooch."""
        if self.tell() + len(data) > self._max_bytes:
            raise OSError(f"{self._url}: expected {self._max_bytes:,} bytes, got more")
        return super().write(data)


def unpack(path: str, needed: Set[str], folder: str) -> None:
    """Write files from an archive to a folder.

    Only files whose base names are in `needed` are written, whatever their folders in
    the archive; if several files have the same base name, the first is written.

    Args:
      path: a tar of any compression.
      needed: base names; names that are not in the archive are ignored.
      folder: where they are written.
    """
    with tarfile.open(path, "r|*") as archive:
        for info in archive:
            name = os.path.basename(info.name)
            copy = os.path.join(folder, name)
            if name not in needed or not info.isreg() or os.path.exists(copy):
                continue
            source = archive.extractfile(info)
            if source:  # as for all regular files
                with open(copy, "wb") as file:
                    shutil.copyfileobj(source, file)


def append_text(
    file_pair: Tuple[str, str], folder: str, split: str, work_dir: str
) -> None:
    """Append the sentences of two files to the text of a split, one per line.

    Args:
      file_pair: the names of the files.
      folder: where they are.
      split: "train", "dev" or "test".
      work_dir: where the text is written.
    """
    source, target = (os.path.join(folder, name) for name in file_pair)
    paths = FilePair(source, target)
    num_source, num_target = [
        write_lines(
            read_side(paths, side), os.path.join(work_dir, f"{split}.{language}")
        )
        for side, language in enumerate(LANGUAGES)
    ]
    if num_source != num_target:
        raise ValueError(
            f"{split}: expected the same number of sentences in both files, got "
            f"{num_source:,} in {file_pair[0]} and {num_target:,} in {file_pair[1]}"
        )
