"""Download a public corpus; write its text, to be prepared.

    transformer-tf download --list
    transformer-tf download multi30k --out data/multi30k
    transformer-tf download sample      # it comes with the package: no network

Archives are stored in OUT/archives, and none is opened before its SHA-256 is verified.
At the end OUT holds {train,dev,test}.{de,en}, all of them or none. Corpora other than
the sample need the package pooch: pip install pooch.
"""

import argparse
import filecmp
import os
import shlex
import shutil
import sys
import tarfile
from typing import List, Optional, Sequence, Set, Tuple

from transformer.runtime import cli
from transformer.runtime.files import sha256_of, unfinished
from transformer.runtime.terminal import PACKAGE, Progress, command_line, say
from transformer.text.corpus import write_text
from transformer.text.public_corpora import CORPORA, Archive, PublicCorpus

LANGUAGES = ("de", "en")
SAMPLE = "sample"
SAMPLE_FILES = (".de", ".en", ".align")
SAMPLE_PIECES = 2000  # --vocab_size of its small grammar
BLOCK = 1 << 16  # bytes read at a time
LONGEST_TIMEOUT = 86400  # seconds, a day


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's flags."""
    flags = cli.make_parser("download", __doc__)
    flags.usage = "%(prog)s NAME [--flag value] ..."
    flags.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help=f"one of {', '.join([SAMPLE, *CORPORA])}",
    )
    flags.add_argument("--out", metavar="DIR", help="the data folder [data/NAME]")
    flags.add_argument("--list", action="store_true", help="show the corpora")
    flags.add_argument(
        "--url_base", metavar="URL", help="a mirror: take the archives from URL/FILE"
    )
    flags.add_argument(
        "--timeout",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="longest wait for a server that sends nothing [30]",
    )
    flags.add_argument(
        "--attempts",
        type=int,
        default=6,
        metavar="INT",
        help="how often to try an archive if the connection fails [6]",
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
    if not 0 < args.timeout <= LONGEST_TIMEOUT or args.attempts < 1:
        raise ValueError(
            f"--timeout and --attempts: expected 0 < seconds <= {LONGEST_TIMEOUT}, and "
            f"1 attempt or more, got {args.timeout:g} and {args.attempts}"
        )
    out = args.out or os.path.join("data", args.name)
    if args.name == SAMPLE:
        copy_sample(out)
        size = SAMPLE_PIECES
        said = "The sample corpus, of a small grammar. Next:"
    else:
        corpus = CORPORA[args.name]
        download(corpus, out, args.url_base, args.timeout, args.attempts)
        size = corpus.vocab_size
        said = f"{corpus.home} says who made this corpus, and its terms of use. Next:"
    prepare = f"{command_line('prepare')} --out {shlex.quote(out)}"
    say(said, f"{prepare} --vocab_size {size}")


def copy_sample(out: str) -> None:
    """Write the text of the sample corpus, with its word alignments, to `out`.

    Raises:
      ValueError: `out` has other files of these names.
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
                f"{path}: expected no other text, got a file that is not of the "
                "sample corpus: choose another --out"
            )
    with unfinished(out) as work:
        for name in names:
            shutil.copyfile(os.path.join(folder, name), os.path.join(work, name))
        os.makedirs(out, exist_ok=True)
        for name in names:
            os.replace(os.path.join(work, name), os.path.join(out, name))


def show_list() -> None:
    """Print the corpora."""
    say(f"{SAMPLE}: sentences of a small grammar, 20,000 pairs; comes with the package")
    for name, corpus in CORPORA.items():
        size = sum(archive.max_bytes for archive in corpus.archives) / 1e6
        say(f"{name}: {corpus.described}; at most {size:,.0f} MB", f"    {corpus.home}")


def download(
    corpus: PublicCorpus,
    out: str,
    url_base: Optional[str],
    timeout: float,
    attempts: int,
) -> None:
    """Fetch and verify the archives of a corpus, and write its text to `out`.

    Args:
      corpus: an entry of CORPORA.
      out: the data folder.
      url_base: take the archives from here; None: from their own addresses.
      timeout: seconds to wait for a server that sends nothing.
      attempts: how often an archive is tried.
    """
    names = [os.path.basename(archive.url) for archive in corpus.archives]
    paths = [os.path.join(out, "archives", name) for name in names]
    _refuse_other_text(corpus, out, paths)
    with unfinished(out) as work:
        for archive, path in zip(corpus.archives, paths):
            if os.path.exists(path) and sha256_of(path) == archive.sha256:
                continue
            fetched = fetch(archive, work, url_base, timeout, attempts)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.replace(fetched, path)
        files = os.path.join(work, "files")
        _unpack_all(corpus, paths, files)
        texts = [
            _join(split, pairs, files, work) for split, pairs in corpus.splits.items()
        ]
        for name in (name for pair in texts for name in pair):
            os.replace(os.path.join(work, name), os.path.join(out, name))


def fetch(
    archive: Archive,
    folder: str,
    url_base: Optional[str],
    timeout: float,
    attempts: int,
) -> str:
    """Download an archive into a folder; return its path, once its SHA-256 is right.

    Args:
      archive: what to download.
      folder: where it is written.
      url_base, timeout, attempts: as of `download`.

    Raises:
      ValueError: the server does not have that file, or pooch is not installed.
    """
    try:
        import pooch
        import requests
    except ImportError as error:
        raise ValueError(
            "expected the package pooch, got none: pip install pooch"
        ) from error

    name = os.path.basename(archive.url)
    url = f"{url_base.rstrip('/')}/{name}" if url_base else archive.url

    def download_once(url, file, manager):
        download_file = pooch.HTTPDownloader(
            progressbar=LimitedProgress(name, archive.max_bytes),
            chunk_size=BLOCK,
            timeout=timeout,
            headers={"Accept-Encoding": "identity"},
        )
        try:
            download_file(url, file, manager)
        except requests.HTTPError as error:
            if error.response.status_code < 500:  # another attempt would end as this
                raise PermanentError(str(error)) from error
            raise

    pooch.get_logger().setLevel("ERROR")
    files = pooch.create(
        path=folder,
        base_url="",
        registry={name: f"sha256:{archive.sha256}"},
        urls={name: url},
        retry_if_failed=attempts - 1,
    )
    try:
        return files.fetch(name, downloader=download_once)
    except (ValueError, PermanentError, requests.RequestException) as error:
        raise ValueError(f"{url}: expected the archive, got none: {error}") from error


class PermanentError(Exception):
    """A download that would fail again."""


class LimitedProgress:
    """Shows the progress of a download, and ends one that is too long, for pooch.

    Args:
      name: the name of the file.
      max_bytes: its largest length.
    """

    def __init__(self, name: str, max_bytes: int):
        self.total = 0  # bytes, as the server says; set by pooch
        self._name = name
        self._max_bytes = max_bytes
        self._done = 0
        self._progress = Progress(sys.stderr, every=0.2 if sys.stderr.isatty() else 10)

    def update(self, count: int) -> None:
        """Count what has arrived, in whole blocks."""
        self._done += count
        if max(self.total, self._done - BLOCK) > self._max_bytes:
            raise PermanentError(
                f"the file is longer than the expected {self._max_bytes:,} bytes; "
                f"nothing was kept"
            )
        done = min(self._done, self.total or self._done)
        share = f" of {self.total:,}" if self.total else ""
        self._progress.show(done, self.total, f"{self._name}: {done:,}{share} bytes")

    def reset(self) -> None:
        """Begin to count anew, as pooch does at the end."""
        self._done = 0

    def close(self) -> None:
        """Do nothing; the last line stays."""


def _text_names(split):
    return [f"{split}.{language}" for language in LANGUAGES]


def _refuse_other_text(corpus, out, paths):
    """Raise ValueError if other text would be replaced."""
    found = [
        name
        for split in corpus.splits
        for name in _text_names(split)
        if os.path.exists(os.path.join(out, name))
    ]
    if found and not all(os.path.exists(path) for path in paths):
        raise ValueError(
            f"--out {out}: expected a folder without text of another corpus, got "
            f"{', '.join(found)}: choose another"
        )


def _unpack_all(corpus, paths, folder):
    """Write the files that make up the splits to a new folder."""
    needed = {
        name for pairs in corpus.splits.values() for pair in pairs for name in pair
    }
    os.mkdir(folder)
    for path in paths:
        unpack(path, needed, folder)
    missing = sorted(needed.difference(os.listdir(folder)))
    if missing:
        raise ValueError(
            f"{', '.join(paths)}: expected the files of the splits, got none named "
            f"{', '.join(missing)}"
        )


def unpack(path: str, needed: Set[str], folder: str) -> None:
    """Write files of an archive to a folder.

    Only the base names in `needed` are written, independent of their folders in the
    archive; of several files with the same base name, the first.

    Args:
      path: a tar of any compression.
      needed: base names; those that the archive does not hold are ignored.
      folder: where they are written.
    """
    with tarfile.open(path, "r|*") as archive:
        for info in archive:
            name = os.path.basename(info.name)
            copy = os.path.join(folder, name)
            if name not in needed or not info.isreg() or os.path.exists(copy):
                continue
            source = archive.extractfile(info)
            if source:  # a file has one
                with open(copy, "wb") as file:
                    shutil.copyfileobj(source, file)


def _join(
    split: str, pairs: Sequence[Tuple[str, str]], files: str, work: str
) -> List[str]:
    """Write the sentences of a split, one per line; return the names of both files.

    Args:
      split: "train", "dev" or "test".
      pairs: the names of the files that make it up.
      files: the folder that holds those.
      work: the folder to write to.
    """
    names = _text_names(split)
    for pair in pairs:
        counts = [
            write_text(os.path.join(files, part), os.path.join(work, name))
            for part, name in zip(pair, names)
        ]
        if counts[0] != counts[1]:
            raise ValueError(
                f"{split}: expected as many sentences in both files, got "
                f"{counts[0]:,} in {pair[0]} and {counts[1]:,} in {pair[1]}"
            )
    return names


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line."""
    cli.main(
        parser(),
        run,
        argv,
        advice="run the same command again; whole archives are kept",
    )
