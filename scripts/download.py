"""Downloads a public corpus, and puts its text where `prepare.py` looks for it.

    python scripts/download.py --list
    python scripts/download.py multi30k --out data/multi30k

Archives go to OUT/archives and stay there. A download that was interrupted goes on
where it stopped; nothing is opened before its SHA-256 was found right, and nothing in
an archive can write outside of OUT. At the end OUT holds {train,dev,test}.{de,en}, all
of them or none.
"""

import argparse
import os
import shlex
import sys
import tempfile
import time

from fetching import Patience, fetch
from public_corpora import CORPORA
from unpacking import unpack

from transformer.text.lines import read_lines

LANGUAGES = ("de", "en")
UNPACKED = 20  # bytes of text for each byte of an archive are believed, not more


class Progress:
    """Shows how much of a file has arrived: redrawn on a terminal, else in lines."""

    def __init__(self, stream, name, every=10.0):
        self._stream, self._name, self._live = stream, name, stream.isatty()
        self._every, self._next = 0.2 if self._live else every, 0.0

    def __call__(self, done, total):
        if time.monotonic() >= self._next or done == total:
            self._next = time.monotonic() + self._every
            share = f" of {total:,} ({100 * done / total:.0f} %)" if total else ""
            end = "\r" if self._live and done != total else "\n"
            self._stream.write(f"{self._name}: {done:,}{share} bytes{end}")
            self._stream.flush()


def download(corpus, out, url_base, patience):
    """Fetches, verifies and unpacks the archives of a corpus, then writes its text."""
    names = [os.path.basename(archive.urls[0]) for archive in corpus.archives]
    paths = [os.path.join(out, "archives", name) for name in names]
    _refuse_other_text(corpus, out, paths)
    os.makedirs(os.path.join(out, "archives"), exist_ok=True)
    for archive, name, path in zip(corpus.archives, names, paths):
        urls = (f"{url_base.rstrip('/')}/{name}",) if url_base else archive.urls
        fetch(
            urls,
            path,
            archive.sha256,
            archive.most_bytes,
            patience,
            Progress(sys.stderr, name),
        )
    with tempfile.TemporaryDirectory(prefix=".download-", dir=out) as work:
        _unpack_all(corpus, paths, work)
        texts = [_join(parts, split, work) for split, parts in corpus.splits.items()]
        for name in (name for pair in texts for name in pair):
            os.replace(os.path.join(work, name), os.path.join(out, name))


def _text_names(split):
    return [f"{split}.{language}" for language in LANGUAGES]


def _refuse_other_text(corpus, out, paths):
    """Raises ValueError where text would be replaced that did not come from here."""
    found = [
        name
        for split in corpus.splits
        for name in _text_names(split)
        if os.path.exists(os.path.join(out, name))
    ]
    if found and not all(os.path.exists(path) for path in paths):
        raise ValueError(
            f"--out {out}: found {', '.join(found)}, wanted a folder "
            "without text of another corpus: choose another"
        )


def _unpack_all(corpus, paths, work):
    """Writes the files that make up the splits to WORK/files."""
    folder = os.path.join(work, "files")
    os.mkdir(folder)
    wanted = {
        name for parts in corpus.splits.values() for pair in parts for name in pair
    }
    for archive, path in zip(corpus.archives, paths):
        unpack(
            path,
            wanted - set(os.listdir(folder)),
            folder,
            UNPACKED * archive.most_bytes,
        )
    missing = sorted(wanted - set(os.listdir(folder)))
    if missing:
        raise ValueError(
            f"{', '.join(paths)}: found no {', '.join(missing)}, wanted each of them"
        )


def _join(parts, split, work):
    """Writes the sentences of a split, one a line; returns the two files' names."""
    names = _text_names(split)
    with open(os.path.join(work, names[0]), "wb") as source, open(
        os.path.join(work, names[1]), "wb"
    ) as target:
        for pair in parts:
            counts = [
                _append(os.path.join(work, "files", name), file)
                for name, file in zip(pair, (source, target))
            ]
            if counts[0] != counts[1]:
                raise ValueError(
                    f"{split}: found {counts[0]:,} sentences in {pair[0]} and "
                    f"{counts[1]:,} in {pair[1]}, wanted as many of both"
                )
    return names


def _append(path, file):
    """Appends the sentences of a corpus file; returns how many there are."""
    count = 0
    for line in read_lines(path):
        file.write(line.encode("utf-8") + b"\n")
        count += 1
    return count


def show_list():
    """Prints the corpora."""
    for name, corpus in CORPORA.items():
        size = sum(archive.most_bytes for archive in corpus.archives) / 1e6
        print(f"{name}: {corpus.described}; at most {size:,.0f} MB\n    {corpus.home}")


def run(args):
    if args.list:
        return show_list()
    if args.name not in CORPORA:
        raise ValueError(
            f"found the name {args.name or ''!r}, wanted one of {', '.join(CORPORA)}"
        )
    if args.timeout <= 0 or args.attempts < 1:
        raise ValueError(
            f"found --timeout {args.timeout:g} and --attempts "
            f"{args.attempts}, wanted more than 0 seconds, 1 attempt or "
            "more"
        )
    out, corpus = args.out or os.path.join("data", args.name), CORPORA[args.name]
    download(corpus, out, args.url_base, Patience(args.timeout, args.attempts))
    print(
        f"{corpus.home} says who made this corpus, and its terms of use. Next:\n"
        f"python scripts/prepare.py --out {shlex.quote(out)} "
        f"--vocab-size {corpus.vocab_size}"
    )


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help=f"one of {', '.join(CORPORA)}"
    )
    parser.add_argument("--out", metavar="DIR", help="the data folder [data/NAME]")
    parser.add_argument("--list", action="store_true", help="show the corpora")
    parser.add_argument(
        "--url-base",
        metavar="URL",
        help="a mirror: the archives are taken from URL/FILE",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=Patience().timeout,
        metavar="SECONDS",
        help="longest wait for a server [30]",
    )
    parser.add_argument(
        "--attempts",
        type=int,
        default=Patience().attempts,
        metavar="N",
        help="failed ones in a row that end it [6]",
    )
    try:
        run(parser.parse_args(argv))
    except (ValueError, OSError) as error:
        sys.exit(f"download.py: {error}")
    except KeyboardInterrupt:
        sys.exit(
            "\ndownload.py: interrupted; the same command goes on where it stopped"
        )


if __name__ == "__main__":
    main()
