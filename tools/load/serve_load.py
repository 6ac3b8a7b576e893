"""Many clients at once: does the server lose an answer, mix two up, or grow?

    python tools/load/serve_load.py --logdir logs/sample --requests 10000 --clients 64

Starts `scripts/serve.py`, asks for each sentence once alone, then for all of them from
many clients in turn, and compares. Memory is read after a tenth of the requests and at
the end. The exit status is 1 if an answer was lost or another sentence's, or if memory
grew by 5 % or more.
"""

import http.client
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time

from transformer.runtime import cli
from transformer.runtime.terminal import say
from transformer.text.lines import read_lines

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GROWTH = 0.05


class Client:
    """A connection that stays open."""

    def __init__(self, port: int):
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)

    def translate(self, text: str) -> str:
        """Return the best translation."""
        headers = {"Content-Type": "application/json"}
        body = json.dumps({"text": text})
        self._connection.request("POST", "/translate", body, headers)
        answer = json.loads(self._connection.getresponse().read().decode("utf-8"))
        return answer["result"][0]["text"]


def memory(process: int) -> int:
    """Return the resident memory of a process in KiB."""
    with open(f"/proc/{process}/status", encoding="ascii") as file:
        [line] = [line for line in file if line.startswith("VmRSS")]
    return int(line.split()[1])


def ask_all(port: int, clients: int, texts, wanted) -> dict:
    """Return how many answers were right, another's, and lost.

    Args:
      port: of the server.
      clients: how many ask at once.
      texts: what is asked, in order.
      wanted: text → its translation.
    """
    waiting, counts = queue.Queue(), {"right": 0, "mixed up": 0, "lost": 0}
    for text in texts:
        waiting.put(text)

    def work():
        client, found = Client(port), dict.fromkeys(counts, 0)
        while True:
            try:
                text = waiting.get_nowait()
            except queue.Empty:
                break
            try:
                is_right = client.translate(text) == wanted[text]
                found["right" if is_right else "mixed up"] += 1
            except (OSError, ValueError, KeyError, http.client.HTTPException):
                found["lost"] += 1
                client = Client(port)
        for name, count in found.items():
            counts[name] += count

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts


def measure(args, server) -> int:
    """Ask a running server; report, return the exit status."""
    port = int(server.stdout.readline().decode().rstrip("/\n").rpartition(":")[2])
    sentences = sorted(set(read_lines(args.source)))
    alone = Client(port)
    wanted = {text: alone.translate(text) for text in sentences}
    texts = list(itertools.islice(itertools.cycle(sentences), args.requests))
    first, begin = len(texts) // 10, time.monotonic()
    counts = ask_all(port, args.clients, texts[:first], wanted)
    before = memory(server.pid)
    for name, count in ask_all(port, args.clients, texts[first:], wanted).items():
        counts[name] += count
    seconds, after = time.monotonic() - begin, memory(server.pid)
    growth = after / before - 1
    say(
        f"{len(texts):,} requests of {len(sentences)} sentences from {args.clients} "
        f"clients in {seconds:.0f} s: {counts['right']:,} right, "
        f"{counts['lost']} lost, {counts['mixed up']} another's; memory "
        f"{before / 1024:.0f} → {after / 1024:.0f} MB ({growth:+.1%})"
    )
    return int(counts["right"] != len(texts) or growth >= GROWTH)


def parser():
    """Return the parser of the command line."""
    made = cli.make_parser("serve_load.py", __doc__)
    cli.add_logdir(made)
    made.add_argument(
        "--source",
        default=os.path.join(ROOT, "data", "sample", "test.de"),
        metavar="FILE",
        help="sentences [data/sample/test.de]",
    )
    made.add_argument(
        "--requests", type=int, default=10000, metavar="INT", help="[10000]"
    )
    made.add_argument("--clients", type=int, default=64, metavar="INT", help="[64]")
    return made


def run(args) -> int:
    """Start a server, measure it, stop it."""
    command = [sys.executable, os.path.join(ROOT, "scripts", "serve.py")]
    command += ["--logdir", args.logdir, "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        return measure(args, server)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def main(argv=None):
    cli.main(parser(), run, argv)


if __name__ == "__main__":
    main()
