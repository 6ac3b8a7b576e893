"""The server of the page: HTTP from the standard library, one queue for all clients.

Why the standard library: four routes of JSON for people who look at a model need no
framework, and each line that reads what strangers send is here to be read. A thread
waits for each client; one computes, so that TensorFlow has the cores. What it does not
do: HTTPS, passwords, many machines. For these put a proxy before it.
"""

import http.server
import json
import select
import socket
import threading
from typing import Any, Callable, Dict, Sequence

from transformer.seeing.jobs import Job, Jobs, Refused
from transformer.seeing.page_files import page
from transformer.seeing.requests import (
    MOST_BYTES,
    Asked,
    Wrong,
    parse,
    refuse_other_hosts,
    refuse_other_origins,
)

MOST_CLIENTS = 512
SECONDS_TO_SEND = 20  # a client has to send its request, or is forgotten
SECONDS_BETWEEN_LOOKS = 0.05  # whether a client that waits is still there


class Server(http.server.ThreadingHTTPServer):
    """Serves the page of some models.

    Args:
      address: (host, port); port 0: any that is free.
      models: each a Model.
      jobs: the queue.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address, models: Sequence, jobs: Jobs):
        self.models, self.jobs = models, jobs
        self.names = {"localhost", address[0].lower(), socket.gethostname().lower()}
        self.page, self.policy = page({"server": True})
        self._clients, self.is_stopping = threading.Semaphore(MOST_CLIENTS), False
        self._answering = threading.Condition()
        self._answers = 0
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, Handler)

    def process_request(self, request, client_address):
        """Serve a client in a thread of its own; not too many of them."""
        if self._clients.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request, client_address):
        """Serve a client, then make room for another."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._clients.release()

    def handle_error(self, request, client_address):
        """Say nothing of a client that left in the middle."""

    def count_answers(self, change: int) -> None:
        """Note that an answer begins (1) or has been sent (-1)."""
        with self._answering:
            self._answers += change
            self._answering.notify_all()

    def drain(self) -> None:
        """Accept nobody, finish what waits, send the answers."""
        self.is_stopping = True
        self.shutdown()
        self.jobs.drain()
        with self._answering:
            self._answering.wait_for(lambda: not self._answers, SECONDS_TO_SEND)
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers one client."""

    protocol_version, timeout = "HTTP/1.1", SECONDS_TO_SEND
    server_version, sys_version = "transformer", ""

    def do_GET(self):
        """Answer with the page, or what can be asked without a sentence."""
        self._answer({"/": self._page, "/healthz": self._health, "/models": self._told})

    def do_POST(self):
        """Answer a question about a sentence."""
        self._answer({"/translate": self._translate, "/see": self._see})

    def log_message(self, format, *args):
        """Write no log: what is translated is nobody's business."""

    def send_error(self, code, message=None, explain=None):
        """Answer what the standard library refuses with JSON too."""
        self.close_connection = True
        self._send(code, {"error": message or "The request is not HTTP."})

    def _answer(self, routes: Dict[str, Callable[[], Any]]):
        self.server.count_answers(1)
        try:
            try:
                refuse_other_hosts(self.headers.get("Host"), self.server.names)
                route = routes.get(self.path.partition("?")[0])
                if route is None:
                    raise Wrong(404, "There is nothing here; the page is at /.")
                route()
            except Wrong as wrong:
                self.close_connection = True  # its body may not have been read
                self._send(wrong.status, {"error": str(wrong)})
            except Refused as refused:
                self._send(503, {"error": f"Too busy: {refused}."})
        except (ConnectionError, socket.timeout):
            self.close_connection = True  # the client left
        finally:
            self.server.count_answers(-1)

    def _page(self):
        self._send(200, self.server.page, "text/html; charset=utf-8")

    def _health(self):
        jobs = self.server.jobs
        told = {"status": "ok", "waiting": len(jobs)}
        self._send(200, dict(told, computed=jobs.computed, batches=jobs.batches))

    def _told(self):
        self._send(200, {"models": [model.told() for model in self.server.models]})

    def _translate(self):
        asked = self._asked()
        self._compute(Job(self.server.models[asked.model].translate, asked, True))

    def _see(self):
        asked = self._asked()
        self._compute(Job(self.server.models[asked.model].see, asked))

    def _asked(self) -> Asked:
        """Return what the client asks; read all of it."""
        refuse_other_origins(self.headers)
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or "Transfer-Encoding" in self.headers:
            raise Wrong(411, "The request does not say its length.")
        if int(length) > MOST_BYTES:
            raise Wrong(413, f"The request has more than {MOST_BYTES:,} bytes.")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise ConnectionError("the client left while it sent")
        return parse(body, self.server.models)

    def _compute(self, job: Job):
        """Have a job computed; send its result, or give it up if the client leaves."""
        self.server.jobs.submit(job)
        while not job.done.wait(SECONDS_BETWEEN_LOOKS):
            if self._has_left():
                job.cancel()
                raise ConnectionError("the client left")
        if job.error is None:
            self._send(200, {"result": job.result})
        elif isinstance(job.error, ValueError):
            self._send(400, {"error": f"Refused: {job.error}."})
        else:
            self._send(500, {"error": "The model could not compute this sentence."})

    def _has_left(self):
        """Return whether the client has closed its end."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

    def _send(self, status, content, kind="application/json"):
        """Send an answer, with the headers that every answer has."""
        text = content if isinstance(content, str) else json.dumps(content)
        body = text.encode("utf-8")
        self.send_response(status)
        policy = (
            self.server.policy if kind != "application/json" else "default-src 'none'"
        )
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", policy + "; frame-ancestors 'self'"),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        if self.close_connection or self.server.is_stopping:
            self.close_connection = True
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
