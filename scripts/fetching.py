"""Downloads files: resumed, retried, verified before anybody opens them.

What has arrived lies in FILE.part, and in FILE.from the address it came from with the
server's mark (ETag or date) of that version; FILE itself appears when its sum is right.
"""

import contextlib
import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from typing import Callable, NamedTuple, Optional, Tuple

BLOCK = 1 << 16
LEAST = 1024  # bytes in `timeout` seconds; a server that sends fewer has stalled
PROGRESS = 1 << 20  # bytes that make a failed attempt worth it: it is not counted
LONGEST_PAUSE = 30.0
AGAIN = (408, 425, 429)  # and 500 and above: what may be mended by waiting


class Patience(NamedTuple):
    """How long a server is waited for."""

    timeout: float = 30.0  # seconds without news
    attempts: int = 6  # in a row, without progress
    pause: float = 1.0  # seconds after the first failed attempt; then twice as long


class Trouble(Exception):
    """An attempt that failed; the next one may not."""


class Part:
    """What has arrived of a file."""

    def __init__(self, path: str, url: str):
        self.path, self.url, self._source = path + ".part", url, path + ".from"

    def size(self) -> int:
        return os.path.getsize(self.path) if os.path.exists(self.path) else 0

    def mark(self) -> Optional[str]:
        """The server's mark of what has arrived, "" for none; None: begin anew."""
        if not self.size() or not os.path.exists(self._source):
            return None
        with open(self._source, encoding="ascii", errors="ignore") as file:
            url, mark = (file.read().split("\n") + [""])[:2]
        return mark if url == self.url else None

    def begin(self, mark: str) -> None:
        """Forgets what has arrived; what arrives from now on has this mark."""
        self.discard()
        with open(self._source, "w", encoding="ascii", errors="replace") as file:
            file.write(f"{self.url}\n{mark}\n")

    def discard(self) -> None:
        for path in (self.path, self._source):
            if os.path.exists(path):
                os.remove(path)

    def finish(self, path: str) -> None:
        """Gives what has arrived its name."""
        os.replace(self.path, path)
        self.discard()


def fetch(
    urls: Tuple[str, ...],
    path: str,
    sha256: str,
    most_bytes: int,
    patience: Patience,
    report: Callable[[int, Optional[int]], None],
) -> None:
    """Downloads a file from the first of some addresses that has it.

    Args:
      urls: http or https.
      path: where it goes, not before its sum was found right.
      sha256: its sum, 64 hexadecimal digits.
      most_bytes: what is longer is refused.
      patience: how long a server is waited for.
      report: called with the bytes that have arrived, and all that there are if known.

    Raises:
      ValueError: none of them has it.
      OSError: it cannot be written.
    """
    if os.path.exists(path) and sha256_of(path) == sha256:
        return
    refusals = []
    for url in urls:
        if not re.match("https?://", url):
            raise ValueError(f"{url}: found no http or https address, wanted one")
        try:
            _fetch_from(Part(path, url), path, sha256, most_bytes, patience, report)
            return
        except ValueError as error:
            refusals.append(str(error))
    raise ValueError("; ".join(refusals))


def sha256_of(path: str) -> str:
    """The sum of a file in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(BLOCK), b""):
            digest.update(block)
    return digest.hexdigest()


def _fetch_from(part, path, sha256, most_bytes, patience, report):
    """Attempts until the sum is right, or until `patience` ends."""
    failures, best, wrong = 0, part.size(), None
    while True:
        try:
            _attempt(part, most_bytes, patience.timeout, report)
            found = sha256_of(part.path)
            if found == sha256:
                part.finish(path)
                return
            part.discard()
            if found == wrong:  # not an accident on the way
                raise ValueError(
                    f"{part.url}: found a file with sha256 {found}, "
                    f"wanted {sha256}: it is another file; nothing was "
                    "kept"
                )
            wrong, what = found, f"sha256 {found}, wanted {sha256}"
        except Trouble as trouble:
            what = str(trouble)
        if part.size() >= best + PROGRESS:
            failures, best = 0, part.size()
        failures += 1
        if failures >= patience.attempts:
            raise ValueError(
                f"{part.url}: found {what}, {failures} times in a row; "
                "the same command goes on where this one stopped"
            )
        time.sleep(min(patience.pause * 2 ** (failures - 1), LONGEST_PAUSE))


def _attempt(part, most_bytes, timeout, report):
    """One request: appends what comes to the part, to its end.

    Raises:
      Trouble: it broke off, or never came.
      ValueError: no attempt would be better.
    """
    response, start, total = _open(part, timeout)
    if response is None:
        return
    with contextlib.closing(response):
        if max(start, total or 0) > most_bytes:
            part.discard()
            raise _too_long(part.url, max(start, total or 0), most_bytes)
        with open(part.path, "ab") as file:
            done = _receive(response, file, start, total, timeout, report, most_bytes)
    if done > most_bytes:
        part.discard()
        raise _too_long(part.url, done, most_bytes)
    if total is not None and done < total:
        raise Trouble(f"{done:,} bytes and then no more, wanted {total:,}")


def _receive(response, file, start, total, timeout, report, most_bytes):
    """Writes what comes; returns how much of the file is there now."""
    done = since = start
    began = time.monotonic()
    while done <= most_bytes and (total is None or done < total):
        with _as_trouble():  # read1, because read waits for a whole block
            block = response.read1(BLOCK if total is None else min(BLOCK, total - done))
        if not block:
            break
        file.write(block)
        done += len(block)
        report(done, total)
        if time.monotonic() - began >= timeout:
            if done - since < LEAST:
                raise Trouble(
                    f"{done - since:,} bytes in {timeout:g} s, wanted {LEAST:,}"
                )
            since, began = done, time.monotonic()
    return done


def _open(part, timeout):
    """(response, the byte at which it starts, bytes of the whole file if known).

    The response is None where nothing is left to ask for.
    """
    start, mark = part.size(), part.mark()
    headers = {"User-Agent": "download.py", "Accept-Encoding": "identity"}
    if mark is None:
        start = 0
    else:
        headers["Range"] = f"bytes={start}-"
        if mark:  # another version is sent from its beginning
            headers["If-Range"] = mark
    try:
        with _as_trouble():
            response = urllib.request.urlopen(
                urllib.request.Request(part.url, headers=headers), timeout=timeout
            )
    except urllib.error.HTTPError as error:
        with contextlib.closing(error):
            return _explain(part, error, start)
    status, length = response.status, response.headers.get("Content-Length", "")
    if status == 206 and start:
        found = re.match(
            r"bytes (\d+)-\d+/(\d+|\*)$", response.headers.get("Content-Range", "")
        )
        if found and int(found.group(1)) == start:
            total = found.group(2)
            return response, start, None if total == "*" else int(total)
    if status != 200:
        response.close()
        part.discard()
        raise Trouble(f"HTTP {status}, wanted 200, or 206 from byte {start:,} on")
    part.begin(_mark_of(response.headers))
    return response, 0, int(length) if length.isdigit() else None


def _explain(part, error, start):
    """What an error status means: all has arrived, Trouble, or ValueError."""
    size = re.match(r"bytes \*/(\d+)$", error.headers.get("Content-Range", ""))
    if error.code == 416:  # nothing from there on
        if size and int(size.group(1)) == start:
            return None, start, start
        part.discard()
    if error.code >= 500 or error.code in AGAIN + (416,):
        raise Trouble(f"HTTP {error.code} {error.reason}, wanted the file")
    raise ValueError(
        f"{part.url}: found HTTP {error.code} {error.reason}, wanted the "
        "file: it has gone, or the address is wrong"
    )


def _mark_of(headers) -> str:
    """What tells one version of a file from another; "" where the server does not."""
    tag = headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified", "")


def _too_long(url, found, most_bytes):
    return ValueError(
        f"{url}: found {found:,} bytes or more, wanted at most "
        f"{most_bytes:,}: it is another file; nothing was kept"
    )


@contextlib.contextmanager
def _as_trouble():
    """What goes wrong on the network is `Trouble`; on the disk it is not."""
    try:
        yield
    except urllib.error.HTTPError:
        raise
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise Trouble(f"{reason or type(error).__name__}, wanted the file") from error
