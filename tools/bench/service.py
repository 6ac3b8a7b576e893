"""Measure a running service: how long N clients wait, and sentences per second.

    python scripts/serve.py --logdir logs/sample
    python tools/bench/service.py --text data/sample/test.de --clients 1 8 64

Each client sends a sentence, waits for its translation, and sends another, on a
connection that stays open. The percentiles of the waits are in milliseconds.
"""

import argparse
import asyncio
import itertools
import json
import re
import socket
import statistics
import time
import urllib.parse
from typing import Iterable, Iterator, List, NamedTuple


class Answer(NamedTuple):
    """An answer, and when its request was sent and when it arrived, in seconds."""

    body: bytes
    start: float
    end: float

    @property
    def wait(self) -> float:
        """The milliseconds that the client waited."""
        return 1000 * (self.end - self.start)


def send(url: str, bodies: Iterable[bytes], clients: int) -> List[Answer]:
    """Send requests to /translate by a number of clients at the same time.

    All clients run in this thread, with little code, because they take their time from
    the service that they measure.

    Args:
      url: the address of the service.
      bodies: the requests, as JSON; each client takes the next one.
      clients: their number.

    Returns:
      The answers, in the order of `bodies`.

    Raises:
      RuntimeError: the service answered with an error.
    """
    address = urllib.parse.urlsplit(url)
    answers = {}

    async def run_all():
        shared = enumerate(bodies)
        await asyncio.gather(
            *(_run_client(address, shared, answers) for _ in range(clients))
        )

    asyncio.run(run_all())
    return [answers[index] for index in sorted(answers)]


async def _run_client(address, bodies: Iterator, answers: dict) -> None:
    """Send requests, each when the one before is answered."""
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = (
        f"POST /translate HTTP/1.1\r\nHost: {address.netloc}\r\n"
        "Content-Type: application/json\r\nContent-Length: "
    ).encode()
    for index, body in bodies:
        start = time.perf_counter()
        writer.write(head + b"%d\r\n\r\n" % len(body) + body)
        answer_head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)\ncontent-length: *(\d+)", answer_head)[1]
        content = await reader.readexactly(int(length))
        answers[index] = Answer(content, start, time.perf_counter())
        status = answer_head.split(maxsplit=2)[1]
        if status != b"200":
            raise RuntimeError(f"{status.decode()}: {content.decode()}")
    writer.close()


def percentile(values: List[float], percent: int) -> float:
    """Return a percentile of some values."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def measure(url, lines, clients, warm_up, seconds):
    """Return the table row for a number of clients."""
    begin = time.perf_counter() + warm_up
    bodies = itertools.takewhile(
        lambda _: time.perf_counter() < begin + seconds,
        itertools.cycle([json.dumps({"text": line}).encode() for line in lines]),
    )
    answers = [x for x in send(url, bodies, clients) if x.start >= begin]
    waits = [answer.wait for answer in answers]
    rate = len(answers) / (max(answer.end for answer in answers) - begin)
    cells = [f"{percentile(waits, percent):,.0f}" for percent in (50, 95, 99)]
    return f"| {clients} | " + " | ".join(cells) + f" | {rate:,.1f} |"


def parser():
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000/")
    parser.add_argument("--text", required=True, help="a file with a sentence a line")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--warm_up", type=float, default=2.0, help="seconds")
    parser.add_argument("--seconds", type=float, default=20.0)
    return parser


def main(argv=None):
    args = parser().parse_args(argv)
    address = urllib.parse.urlsplit(args.url)
    with open(args.text, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip()]
    with socket.create_connection((address.hostname, address.port)):  # it listens
        pass
    print("| clients | p50 ms | p95 ms | p99 ms | sentences/s |\n|---|---|---|---|---|")
    for clients in args.clients:
        print(measure(args.url, lines, clients, args.warm_up, args.seconds), flush=True)


if __name__ == "__main__":
    main()
