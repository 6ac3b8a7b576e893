"""Measure a running service: how long N clients wait, and sentences per second.

    python scripts/serve.py --logdir logs/sample
    python tools/bench/service.py --text data/sample/test.de --clients 1 8 64

Each client sends a sentence, waits for its translation, and sends another, on a
connection that stays open. The percentiles of the waits are in milliseconds.
"""

import argparse
import http.client
import itertools
import json
import socket
import statistics
import threading
import time
import urllib.parse


def run_client(address, lines, times, begin, end):
    """Send requests until `end`; add (when, how long) for each answer to `times`."""
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=600)
    headers = {"Content-Type": "application/json"}
    while time.perf_counter() < end:
        body = json.dumps({"text": next(lines)})
        start = time.perf_counter()
        connection.request("POST", "/translate", body, headers)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {content.decode()}")
        if begin <= start:
            times.append((time.perf_counter(), time.perf_counter() - start))
    connection.close()


def measure(address, lines, clients, warm_up, seconds):
    """Return the table row for a number of clients."""
    begin = time.perf_counter() + warm_up
    end = begin + seconds
    times = []
    endless_lines = itertools.cycle(
        lines
    )  # `next` is atomic, so all threads can share it
    threads = [
        threading.Thread(
            target=run_client, args=[address, endless_lines, times, begin, end]
        )
        for _ in range(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    waits = [1000 * wait for _, wait in times]
    cuts = statistics.quantiles(waits, n=100, method="inclusive")
    rate = len(times) / (max(when for when, _ in times) - begin)
    cells = [f"{cuts[percent - 1]:,.0f}" for percent in (50, 95, 99)]
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
        print(measure(address, lines, clients, args.warm_up, args.seconds), flush=True)


if __name__ == "__main__":
    main()
