"""Download files: resumed by range requests, retried, verified by their SHA-256."""

import contextlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from typing import Callable, Dict, Iterator, NamedTuple, Optional, Sequence

from transformer.runtime.deadlines import Watch
from transformer.runtime.files import replaced, sha256_of

BLOCK = 1 << 16
LEAST_BYTES = 1024  # in `timeout` seconds; a server that sends fewer has stalled
PROGRESS_BYTES = 1 << 20  # an attempt that brings so many does not count as failed
LONGEST_PAUSE = 30.0
TRANSIENT_CODES = (408, 425, 429)  # of HTTP, and all from 500 on: try again


class Patience(NamedTuple):
    """How long to wait for a server."""

    timeout: float = 30.0  # seconds without data
    attempts: int = 6  # in a row, without progress
    pause: float = 1.0  # seconds after the first failed attempt; then twice as long


class TransientError(Exception):
    """A failed attempt that is worth repeating."""


def fetch(
    urls: Sequence[str],
    path: str,
    sha256: str,
    most_bytes: int,
    patience: Patience,
    report: Callable[[int, Optional[int]], None],
) -> None:
    """Download a file from the first of some addresses that has it.

    Args:
      urls: http or https.
      path: the file, which gets this name when its checksum is right.
      sha256: the checksum, 64 hexadecimal digits.
      most_bytes: a longer file is refused.
      patience: how long to wait for a server.
      report: function of the bytes so far and of those of the whole file, or None.

    Raises:
      ValueError: no address has the file.
      OSError: it cannot be written.
    """
    if os.path.exists(path) and sha256_of(path) == sha256:
        return
    refusals = []
    for url in urls:
        try:
            return _Download(url, path, sha256, most_bytes, report).run(patience)
        except ValueError as error:
            refusals.append(f"{url}: {error}")
    raise ValueError("; ".join(refusals))


class _Download:
    """A download from one address; what has arrived so far is in PATH.part.

    PATH.from holds the address and the server's mark (ETag or date) of that version, so
    that parts of two versions are never joined.
    """

    def __init__(self, url, path, sha256, most_bytes, report):
        if not re.match("https?://", url):
            raise ValueError("found no http or https address, wanted one")
        self.url, self.path, self.sha256 = url, path, sha256
        self.most_bytes, self.report = most_bytes, report
        self.part, self.source = path + ".part", path + ".from"

    def run(self, patience: Patience) -> None:
        """Attempt until the checksum is right, or until the patience ends."""
        failures, wrong = 0, None
        while True:
            before = self.size()
            try:
                self.attempt(patience.timeout)
                found = sha256_of(self.part)
                if found == self.sha256:
                    os.replace(self.part, self.path)
                    return self.discard()
                self.discard()
                fault = f"found sha256 {found}, wanted {self.sha256}"
                if found == wrong:  # twice the same: the file is another one
                    raise ValueError(f"{fault}; nothing was kept")
                wrong = found
            except TransientError as error:
                fault = str(error)
            failures = 1 if self.size() >= before + PROGRESS_BYTES else failures + 1
            if failures >= patience.attempts:
                raise ValueError(
                    f"{fault}, {failures} times in a row; run the same command again "
                    f"to continue"
                )
            time.sleep(min(patience.pause * 2 ** (failures - 1), LONGEST_PAUSE))

    def attempt(self, timeout: float) -> None:
        """Make one request, and append what arrives to the part.

        Raises:
          TransientError: the connection failed or broke off.
          ValueError: another attempt would end in the same way.
        """
        headers = self.resuming()
        start = self.size() if headers else 0
        headers.update({"User-Agent": "download.py", "Accept-Encoding": "identity"})
        with Watch(timeout) as watch:
            try:
                with _network_errors(watch):
                    request = urllib.request.Request(self.url, headers=headers)
                    response = watch.open(request)
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == 416 and start:  # all bytes are there, says the server
                    return
                is_transient = error.code >= 500 or error.code in TRANSIENT_CODES
                refusal = TransientError if is_transient else ValueError
                raise refusal(f"found {error}, wanted the file") from error
            with response:
                start = self.begin(response, start)
                length = response.headers.get("Content-Length", "")
                total = start + int(length) if length.isdigit() else None
                self.refuse_long(total or 0)
                done = self.receive(response, start, total, watch)
        if total is not None and done < total:
            raise TransientError(f"found {done:,} bytes, wanted {total:,}")

    def resuming(self) -> Dict[str, str]:
        """Return the headers that ask for the missing bytes; none to begin anew."""
        if not (self.size() and os.path.exists(self.source)):
            return {}
        with open(self.source, encoding="utf-8", errors="replace") as file:
            url, _, mark = file.read().partition("\n")
        headers = {"Range": f"bytes={self.size()}-", "If-Range": mark}
        return {k: v for k, v in headers.items() if v} if url == self.url else {}

    def begin(self, response, start: int) -> int:
        """Return the byte at which a response begins; unless it resumes, discard."""
        found = f"HTTP {response.status} {response.headers.get('Content-Range', '')}"
        if start and found.startswith(f"HTTP 206 bytes {start}-"):
            return start
        self.discard()
        if response.status != 200:
            raise TransientError(
                f"found {found}, wanted 200, or 206 from byte {start:,} on"
            )
        mark = response.headers.get("ETag", "")
        if not mark or mark.startswith("W/"):
            mark = response.headers.get("Last-Modified", "")
        with replaced(self.source) as file:
            file.write(f"{self.url}\n{mark}")
        return 0

    def receive(self, response, done: int, total: Optional[int], watch: Watch) -> int:
        """Append a response to the part of `done` bytes; return its new size."""
        since, began, timeout = done, time.monotonic(), watch.timeout
        with open(self.part, "ab") as file:
            while True:
                watch.begin_anew()
                with _network_errors(watch):
                    # read1, because read waits for a whole block
                    block = response.read1(BLOCK)
                if not block:
                    return done
                done += len(block)
                self.refuse_long(done)
                file.write(block)
                self.report(done, total)
                if time.monotonic() - began >= timeout:
                    if done - since < LEAST_BYTES:
                        raise TransientError(
                            f"found {done - since:,} bytes in {timeout:g} s"
                        )
                    since, began = done, time.monotonic()

    def refuse_long(self, size: int) -> None:
        """Raise ValueError, and discard the part, where the file is too long."""
        if size > self.most_bytes:
            self.discard()
            raise ValueError(
                f"found {size:,} bytes or more, wanted at most {self.most_bytes:,}: it "
                f"is another file; nothing was kept"
            )

    def size(self) -> int:
        """Return how many bytes have arrived."""
        return os.path.getsize(self.part) if os.path.exists(self.part) else 0

    def discard(self) -> None:
        """Remove the part."""
        for path in (self.part, self.source):
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)


@contextlib.contextmanager
def _network_errors(watch: Watch) -> Iterator[None]:
    """Raise TransientError for errors of the network; OSError stays for the disk."""
    try:
        yield
        if watch.is_over:
            raise TimeoutError
    except urllib.error.HTTPError:
        raise
    except (OSError, ValueError, http.client.HTTPException) as error:
        # ValueError: a length that is no number.
        reason = str(error) or type(error).__name__
        if watch.is_over:
            reason = f"no whole answer in {watch.timeout:g} s (timed out)"
        raise TransientError(f"found {reason}, wanted the file") from error
