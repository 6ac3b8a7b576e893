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
from typing import Any, Optional, Set, Tuple

from transformer.commands import cli
from transformer.commands.terminal import PACKAGE, command_line, print_lines
from transformer.runtime.files import named, sha256_of, unfinished
from transformer.text.corpus import write_text
from transformer.text.public_corpora import CORPORA, Archive, PublicCorpus

LANGUAGES = ("de", "en")
SAMPLE = "sample"
SAMPLE_FILES = (".de", ".en", ".align")
SAMPLE_PIECES = 2000  # --vocab_size for its small grammar
BLOCK = 1 << 16  # bytes read at a time
RETRIES = 5  # for an archive; pooch waits 1 s after the first, 2 s after the second, …


def parser() -> cli.Parser:
    """Return the parser of the command's flags."""
    flags = cli.make_parser("download", __doc__)
    flags.usage = "%(prog)s NAME [--flag value] ..."
    flags.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help=f"one of {', '.join([SAMPLE, *CORPORA])}",
    )
    flags.add_argument(
        "--out", type=cli.path, metavar="DIR", help="the data folder [data/NAME]"
    )
    flags.add_argument("--list", action="store_true", help="show the corpora")
    flags.add_argument(
        "--url_base",
        metavar="URL",
        help="a mirror: download the archives from URL/FILE",
    )
    return flags


def run(args: argparse.Namespace) -> None:
    """Show the list, or download one corpus and say what to do next."""
    if args.list:
        return show_list()
    if args.name not in (SAMPLE, *CORPORA):
        raise ValueError(
            f"expected the name of a corpus, one of {', '.join([SAMPLE, *CORPORA])}, "
            f"got {args.name or ''!r}"
        )
    out = args.out or os.path.join("data", args.name)
    if args.name == SAMPLE:
        copy_sample(out)
        size = SAMPLE_PIECES
        said = "The sample corpus, generated from a small grammar. Next:"
    else:
        corpus = CORPORA[args.name]
        download(corpus, out, args.url_base)
        size = corpus.vocab_size
        said = f"{corpus.home} names the authors and terms of use of this corpus. Next:"
    print_lines(said, command_line("prepare", "--out", out, "--vocab_size", f"{size}"))


def copy_sample(out: str) -> None:
    """Write the text of the sample corpus, with its word alignments, to `out`.

    Raises:
      ValueError: `out` has different files with these names.
    """
    folder = os.path.join(PACKAGE, SAMPLE)  # in a wheel
    if not os.path.isdir(folder):
        folder = os.path.join(os.path.dirname(PACKAGE), "data", SAMPLE)
    names = [each for each in os.listdir(folder) if each.endswith(SAMPLE_FILES)]
    for name in names:
        path = os.path.join(out, name)
        if os.path.exists(path) and not filecmp.cmp(
            os.path.join(folder, name), path, shallow=False
        ):
            raise ValueError(
                f"{path}: expected no other text, got a file that is not part of the "
                "sample corpus; choose another --out"
            )
    with unfinished(out) as work:
        for name in names:
            shutil.copyfile(os.path.join(folder, name), os.path.join(work, name))
        os.makedirs(out, exist_ok=True)
        for name in names:
            os.replace(os.path.join(work, name), os.path.join(out, name))


def show_list() -> None:
    """Print the corpora."""
    print_lines(
        f"{SAMPLE}: sentences from a small grammar, 20,000 pairs; comes with the "
        "package"
    )
    for name, corpus in CORPORA.items():
        size = sum(archive.max_bytes for archive in corpus.archives) / 1e6
        print_lines(
            f"{name}: {corpus.described}; at most {size:,.0f} MB", f"    {corpus.home}"
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
    texts = [f"{split}.{each}" for split in corpus.splits for each in LANGUAGES]
    found = [name for name in texts if os.path.exists(os.path.join(out, name))]
    if found and not all(map(os.path.exists, paths)):
        raise ValueError(
            f"--out {out}: expected the archives that its text is from, got "
            f"{', '.join(found)} without them; choose another folder, or remove the "
            "text to download it again"
        )
    with named(out), unfinished(out) as work:
        for archive, path in zip(corpus.archives, paths):
            if not os.path.exists(path) or sha256_of(path) != archive.sha256:
                fetch(archive, path, work, url_base)
        files = os.path.join(work, "files")
        os.mkdir(files)
        needed = {
            name for pairs in corpus.splits.values() for pair in pairs for name in pair
        }
        for path in paths:
            unpack(path, needed, files)
        missing = sorted(needed.difference(os.listdir(files)))
        if missing:
            raise ValueError(
                f"{', '.join(paths)}: expected the files of the splits, got none named "
                f"{', '.join(missing)}"
            )
        for split, pairs in corpus.splits.items():
            for pair in pairs:
                _append(pair, files, split, work)
        for name in found:
            path = os.path.join(out, name)
            if not filecmp.cmp(os.path.join(work, name), path, shallow=False):
                raise ValueError(
                    f"{path}: expected the text of the archives, got another; choose "
                    "another --out, or remove the file to write it again"
                )
        for name in texts:
            os.replace(os.path.join(work, name), os.path.join(out, name))


def fetch(archive: Archive, path: str, work: str, url_base: Optional[str]) -> None:
    """Download an archive; verify its SHA-256.

    Args:
      archive: what to download.
      path: where it is written.
      work: a folder for files that have not been verified.
      url_base: as in `download`.

    Raises:
      ValueError: no attempt succeeded, or pooch is not installed.
      OSError: the file is too long.
    """
    try:
        import pooch
        from requests import RequestException
    except ImportError as error:
        raise ValueError(
            "expected the package pooch, got none; pip install 'pooch[progress]'"
        ) from error
    pooch.get_logger().setLevel("ERROR")
    has_bar = sys.stderr.isatty() and importlib.util.find_spec("tqdm") is not None
    identity = {"Accept-Encoding": "identity"}
    get = pooch.HTTPDownloader(has_bar, BLOCK, headers=identity)

    def get_limited(url, path, manager):
        with LimitedFile(path, url, archive.max_bytes) as file:
            get(url, file, manager)

    name = os.path.basename(path)
    url = f"{url_base.rstrip('/')}/{name}" if url_base else archive.url
    manager = pooch.create(
        path=work,
        base_url="",
        registry={name: f"sha256:{archive.sha256}"},
        urls={name: url},
        retry_if_failed=RETRIES,
    )
    try:
        fetched = manager.fetch(name, downloader=get_limited)
    except (ValueError, RequestException) as error:
        raise ValueError(f"{url}: expected the archive, got none: {error}") from error
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.replace(fetched, path)


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
            if source:  # regular files have one
                with open(copy, "wb") as file:
                    shutil.copyfileobj(source, file)


def _append(pair: Tuple[str, str], files: str, split: str, work: str) -> None:
    """Append the sentences of two files to the text of a split, one per line.

    Args:
      pair: the names of the files.
      files: their folder.
      split: "train", "dev" or "test".
      work: the folder to write to.
    """
    source, target = [
        write_text(os.path.join(files, name), os.path.join(work, f"{split}.{language}"))
        for name, language in zip(pair, LANGUAGES)
    ]
    if source != target:
        raise ValueError(
            f"{split}: expected the same number of sentences in both files, got "
            f"{source:,} in {pair[0]} and {target:,} in {pair[1]}"
        )
