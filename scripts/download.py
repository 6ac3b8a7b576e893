"""Download a public corpus, and put its text where prepare.py looks for it.

    python scripts/download.py --list
    python scripts/download.py multi30k --out data/multi30k

Archives are stored in OUT/archives. A download that was interrupted continues where it
stopped, and no archive is opened before its SHA-256 is verified. At the end OUT holds
{train,dev,test}.{de,en}, all of them or none.
"""

import argparse
import os
import shlex
import shutil
import sys
import tarfile
import zipfile
from typing import IO, Iterator, List, Optional, Sequence, Set, Tuple

from transformer.runtime import cli
from transformer.runtime.fetch import Patience, fetch
from transformer.runtime.folders import unfinished
from transformer.runtime.reporting import Progress
from transformer.runtime.terminal import say
from transformer.text.corpus import write_text
from transformer.text.public_corpora import CORPORA, PublicCorpus

LANGUAGES = ("de", "en")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's flags."""
    flags = cli.make_parser("download.py", __doc__)
    flags.usage = "%(prog)s NAME [--flag value] ..."
    flags.add_argument(
        "name", nargs="?", metavar="NAME", help=f"one of {', '.join(CORPORA)}"
    )
    flags.add_argument("--out", metavar="DIR", help="the data folder [data/NAME]")
    flags.add_argument("--list", action="store_true", help="show the corpora")
    flags.add_argument(
        "--url_base", metavar="URL", help="a mirror: take the archives from URL/FILE"
    )
    flags.add_argument(
        "--timeout",
        type=float,
        default=Patience().timeout,
        metavar="SECONDS",
        help="longest wait for a server [30]",
    )
    flags.add_argument(
        "--attempts",
        type=int,
        default=Patience().attempts,
        metavar="INT",
        help="give up after so many failed ones in a row [6]",
    )
    return flags


def run(args: argparse.Namespace) -> None:
    """Show the list, or download one corpus and say what to do next."""
    if args.list:
        return show_list()
    if args.name not in CORPORA:
        raise ValueError(
            f"found the name {args.name or ''!r}, wanted one of {', '.join(CORPORA)}"
        )
    if args.timeout <= 0 or args.attempts < 1:
        raise ValueError(
            f"found --timeout {args.timeout:g} and --attempts {args.attempts}, wanted "
            f"more than 0 seconds, and 1 attempt or more: raise them"
        )
    out, corpus = args.out or os.path.join("data", args.name), CORPORA[args.name]
    download(corpus, out, args.url_base, Patience(args.timeout, args.attempts))
    prepare = os.path.join(os.path.dirname(sys.argv[0]), "prepare.py")
    say(
        f"{corpus.home} says who made this corpus, and its terms of use. Next:",
        f"python {shlex.quote(prepare)} --out {shlex.quote(out)} "
        f"--vocab_size {corpus.vocab_size}",
    )


def show_list() -> None:
    """Print the corpora."""
    for name, corpus in CORPORA.items():
        size = sum(archive.most_bytes for archive in corpus.archives) / 1e6
        say(f"{name}: {corpus.described}; at most {size:,.0f} MB", f"    {corpus.home}")


def download(
    corpus: PublicCorpus, out: str, url_base: Optional[str], patience: Patience
) -> None:
    """Fetch and verify the archives of a corpus, and write its text to `out`.

    Args:
      corpus: an entry of CORPORA.
      out: the data folder.
      url_base: take the archives from here; None: from their own addresses.
      patience: how long to wait for a server.
    """
    names = [os.path.basename(archive.urls[0]) for archive in corpus.archives]
    paths = [os.path.join(out, "archives", name) for name in names]
    _refuse_other_text(corpus, out, paths)
    os.makedirs(os.path.join(out, "archives"), exist_ok=True)
    for archive, name, path in zip(corpus.archives, names, paths):
        urls = (f"{url_base.rstrip('/')}/{name}",) if url_base else archive.urls
        report = _reporter(name)
        fetch(urls, path, archive.sha256, archive.most_bytes, patience, report)
    with unfinished(out) as work:
        files = os.path.join(work, "files")
        _unpack_all(corpus, paths, files)
        texts = [
            _join(split, pairs, files, work) for split, pairs in corpus.splits.items()
        ]
        for name in (name for pair in texts for name in pair):
            os.replace(os.path.join(work, name), os.path.join(out, name))


def _reporter(name):
    """Return a function that shows (bytes so far, bytes of the file or None)."""
    progress = Progress(sys.stderr, every=0.2 if sys.stderr.isatty() else 10)

    def report(done, total):
        share = f" of {total:,} ({100 * done / total:.0f} %)" if total else ""
        progress.show(done, total or 0, f"{name}: {done:,}{share} bytes")

    return report


def _text_names(split):
    return [f"{split}.{language}" for language in LANGUAGES]


def _refuse_other_text(corpus, out, paths):
    """Raise ValueError where text of another origin would be replaced."""
    found = [
        name
        for split in corpus.splits
        for name in _text_names(split)
        if os.path.exists(os.path.join(out, name))
    ]
    if found and not all(os.path.exists(path) for path in paths):
        raise ValueError(
            f"--out {out}: found {', '.join(found)}, wanted a folder without text of "
            f"another corpus: choose another"
        )


def _unpack_all(corpus, paths, folder):
    """Write the files that make up the splits to a new folder."""
    wanted = {
        name for pairs in corpus.splits.values() for pair in pairs for name in pair
    }
    os.mkdir(folder)
    for path in paths:
        unpack(path, wanted, folder)
    missing = sorted(wanted.difference(os.listdir(folder)))
    if missing:
        raise ValueError(
            f"{', '.join(paths)}: found no {', '.join(missing)}, wanted each of them"
        )


def unpack(path: str, wanted: Set[str], folder: str) -> None:
    """Write the wanted files of an archive into a folder.

    Nothing is written but the base names `wanted`, wherever the archive has them; of
    several files with the same base name, the first.

    Args:
      path: a zip, or a tar of any compression.
      wanted: base names; those that the archive does not hold are ignored.
      folder: where they are written.
    """
    members = _zip_files if path.endswith(".zip") else _tar_files
    for member, source in members(path):
        name = os.path.basename(member)
        copy = os.path.join(folder, name)
        if name in wanted and not os.path.exists(copy):
            with open(copy, "wb") as file:
                shutil.copyfileobj(source, file)


def _tar_files(path: str) -> Iterator[Tuple[str, IO[bytes]]]:
    """Yield the (name, stream) of each plain file, in one pass."""
    with tarfile.open(path, "r|*") as archive:
        for info in archive:
            if info.isreg():
                yield info.name, archive.extractfile(info)


def _zip_files(path: str) -> Iterator[Tuple[str, IO[bytes]]]:
    """Yield the (name, stream) of each entry."""
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            with archive.open(info) as source:
                yield info.filename, source


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
                f"{split}: found {counts[0]:,} sentences in {pair[0]} and "
                f"{counts[1]:,} in {pair[1]}, wanted the same number"
            )
    return names


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line."""
    cli.main(parser(), run, argv, advice="run the same command again to continue")


if __name__ == "__main__":
    main()
