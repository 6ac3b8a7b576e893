"""The HTTP service: translations, and the page that shows how they are made.

uvicorn handles HTTP, Starlette handles the routes, and two threads compute (see
jobs.py). The service needs Python 3.10 or newer, and `pip install
'transformer-tf[serve]'`. It has no TLS, no authentication and no clustering:
docs/serving.md shows a proxy for these.
"""

import asyncio
import json
import logging
import socket
import threading
import time
from typing import Any, Awaitable, Callable, Dict, List, Optional, Sequence, Tuple

import h11
import prometheus_client
import uvicorn
from prometheus_client import core
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from transformer.runtime.progress import escape_control
from transformer.serving import requests
from transformer.serving.jobs import Full, Job, Jobs, Refused
from transformer.serving.requests import (
    RefusedRequest,
    SentenceRequest,
    TranslateRequest,
)
from transformer.text import sentences
from transformer.viewer.page_files import page, read

MOST_CONNECTIONS = 768  # below the 1,024 files that a process may open by default
SECONDS_TO_SEND = 20  # within which a client must send its request, or it is dropped
SECONDS_TO_READ = 60  # within which a client must read each MiB of an answer
SECONDS_TO_STOP = 20  # for answers in progress
LEFT = 499  # the status in the log if the client left
JSON_POLICY = "default-src 'none'"

log = logging.getLogger("transformer.service")


class Json(JSONResponse):
    """JSON that ends with a line feed, for users on a terminal."""

    def render(self, content: Any) -> bytes:
        """Return the body of the response."""
        return super().render(content) + b"\n"


class Service:
    """The routes, as an ASGI application.

    Args:
      models: the models, each a Model.
      jobs: the queue.
      names: host names that requests may name, in lower case.
      split: as in `requests.parse_translate`.
    """

    def __init__(
        self,
        models: Sequence,
        jobs: Jobs,
        names: Sequence[str],
        split: Optional[bool] = None,
    ):
        self.models = models
        self.jobs = jobs
        self._names = set(names)
        self._split = split
        self._page, self._policy = page({"server": True})
        self._openapi = json.loads(read("openapi.json"))
        self._registry = prometheus_client.CollectorRegistry()
        self._registry.register(_OfJobs(jobs))
        self._seconds = prometheus_client.Histogram(
            "transformer_request_seconds",
            "Time from a request to its answer, by path and status",
            ["path", "status"],
            registry=self._registry,
        )
        routes = [
            Route("/", self._show),
            Route("/healthz", self._health),
            Route("/languages", self._languages),
            Route("/metrics", self._metrics),
            Route("/models", self._models),
            Route("/openapi.json", self._describe),
            Route("/see", self._see, methods=["POST"]),
            Route("/translate", self._translate, methods=["POST"]),
        ]
        self._paths = {route.path for route in routes}
        handlers: Dict[Any, Callable] = {
            RefusedRequest: lambda _, error: _error(error.status, str(error)),
            Full: lambda _, error: _error(
                429, f"Too busy: {error}.", {"Retry-After": str(error.seconds)}
            ),
            Refused: lambda _, error: _error(503, f"{error}."),
            ClientDisconnect: lambda *_: Response(status_code=LEFT),
            HTTPException: _refused,
            Exception: lambda *_: _error(500, "The server failed."),
        }
        self._app = Starlette(routes=routes, exception_handlers=handlers)
        self._app.router.redirect_slashes = False

    async def __call__(self, scope, receive, send) -> None:
        """Answer a request, count it, and log it in one line."""
        began = time.perf_counter()
        headers = Headers(scope=scope)
        status = LEFT

        async def send_with_headers(message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._add_headers(MutableHeaders(scope=message))
            await send(message)

        app: Callable[..., Awaitable] = self._app
        try:
            requests.refuse_other_hosts(headers.get("host"), self._names)
        except RefusedRequest as refusal:
            app = _error(refusal.status, str(refusal))
        try:
            await app(scope, receive, send_with_headers)
        finally:
            seconds = time.perf_counter() - began
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._seconds.labels(path, str(status)).observe(seconds)
            log.info(
                "%s %s %s %d %.0f ms",
                escape_control(
                    (scope["client"] or ["-"])[0][:60]
                ),  # X-Forwarded-For is text
                scope["method"],
                scope["raw_path"].decode("ascii", "replace")[:200],
                status,
                1000 * seconds,
            )

    def _add_headers(self, headers):
        """Add the headers of every answer."""
        is_page = headers.get("content-type", "").startswith("text/html")
        policy = self._policy if is_page else JSON_POLICY
        headers.update(
            {
                "Content-Security-Policy": policy + "; frame-ancestors 'self'",
                "X-Content-Type-Options": "nosniff",
                "Referrer-Policy": "no-referrer",
                "Cross-Origin-Resource-Policy": "same-origin",
                "Cache-Control": "no-store",
            }
        )

    async def _show(self, request: Request) -> Response:
        return Response(self._page, media_type="text/html")

    async def _health(self, request: Request) -> Response:
        jobs = self.jobs
        return Json(
            {
                "status": "ok",
                "waiting": len(jobs),
                "computed": jobs.computed,
                "batches": jobs.batches,
            }
        )

    async def _models(self, request: Request) -> Response:
        return Json({"models": [model.description() for model in self.models]})

    async def _metrics(self, request: Request) -> Response:
        text = prometheus_client.generate_latest(self._registry)
        return Response(text, media_type="text/plain; version=0.0.4")

    async def _describe(self, request: Request) -> Response:
        return Json(self._openapi)

    async def _languages(self, request: Request) -> Response:
        """Answer with the languages, as LibreTranslate does."""
        targets: Dict[str, List[str]] = {}
        for source, target in (model.languages for model in self.models):
            if target not in targets.setdefault(source, []):
                targets[source].append(target)
        return Json(
            [
                {"code": source, "name": source, "targets": found}
                for source, found in targets.items()
            ]
        )

    async def _see(self, request: Request) -> Response:
        fields = await _fields(request, [requests.JSON])
        asked = await run_in_threadpool(requests.parse_see, fields, self.models)
        job = Job(self.models[asked.model].see, asked)
        [seen] = await self._computed(request, [job])
        return Json({"result": seen})

    async def _translate(self, request: Request) -> Response:
        fields = await _fields(request, [requests.JSON, requests.FORM])
        wanted = await run_in_threadpool(
            requests.parse_translate, fields, self.models, self._split
        )
        work = self.models[wanted.model].translate
        jobs = [
            Job(
                work,
                SentenceRequest(wanted.model, sentence, alignments=wanted.alignments),
                True,
            )
            for text in wanted.texts
            for sentence, _ in text
        ]
        results = iter(await self._computed(request, jobs))
        rows = [[next(results) for _ in text] for text in wanted.texts]
        if wanted.source:
            return Json(_for_libretranslate(wanted, rows, self.models))
        return Json(
            {
                "translations": [
                    _translation(wanted, text, row)
                    for text, row in zip(wanted.texts, rows)
                ]
            }
        )

    async def _computed(self, request: Request, jobs: List[Job]) -> List[Any]:
        """Return the results of jobs; cancel the jobs if the client leaves."""
        self.jobs.submit(jobs)
        futures = [asyncio.wrap_future(job.future) for job in jobs]
        outcomes = asyncio.gather(*futures, return_exceptions=True)
        left = asyncio.ensure_future(_left(request))
        either: List[asyncio.Future] = [outcomes, left]
        try:
            await asyncio.wait(either, return_when="FIRST_COMPLETED")
            if not outcomes.done():
                raise ClientDisconnect
        finally:
            left.cancel()
            for future in futures:
                future.cancel()
        for error in outcomes.result():
            if isinstance(error, ValueError):
                raise RefusedRequest(400, f"Refused: {error}.")
            if isinstance(error, BaseException):
                log.error("a model failed: %r", error)
                raise RefusedRequest(500, "The model could not compute this sentence.")
        return outcomes.result()


async def _left(request: Request) -> None:
    """Return when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _fields(request: Request, kinds: Sequence[str]) -> Dict[str, Any]:
    """Read a request whose body is one of some kinds, and return its fields.

    Raises:
      RefusedRequest: the request comes from another site, is too long, or is not of
        these kinds.
    """
    requests.refuse_other_origins(request.headers)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in kinds:
        raise RefusedRequest(415, f"The request is not of type {' or '.join(kinds)}.")
    length = int(request.headers.get("content-length", "0"))
    body = bytearray()
    if length <= requests.MOST_BYTES:
        async for part in request.stream():
            body += part
            length = max(length, len(body))
            if length > requests.MOST_BYTES:
                break
    if length > requests.MOST_BYTES:
        raise RefusedRequest(
            413, f"The request has more than {requests.MOST_BYTES:,} bytes."
        )
    return requests.fields_of(bytes(body), kind)


def _error(
    status: int, sentence: str, headers: Optional[Dict[str, str]] = None
) -> Response:
    return Json({"error": sentence}, status, headers)


def _refused(request: Request, error: Exception) -> Response:
    """Return Starlette's refusal of a path or a method as JSON."""
    assert isinstance(error, HTTPException)
    sentences_of = {
        404: "There is nothing here; the page is at /.",
        405: f"This path does not accept {request.method[:20]}.",
    }
    sentence = sentences_of.get(error.status_code, "The request is refused.")
    return _error(error.status_code, sentence, dict(error.headers or {}))


def _translation(wanted: TranslateRequest, text, row) -> Dict[str, Any]:
    """Return the answer about a text.

    Args:
      wanted: the request of the client.
      text: the sentences of the text, each with the white space after it.
      row: the n best translations of each sentence.
    """
    translated = [_n_best(wanted, n_best) for n_best in row]
    if not wanted.split:
        return translated[0]
    whole: Dict[str, Any] = {
        "text": sentences.join([each["text"] for each in translated], text)
    }
    if wanted.n_best > 1 or wanted.scores or wanted.alignments:
        whole["sentences"] = [
            {"source": source, **each} for (source, _), each in zip(text, translated)
        ]
    return whole


def _n_best(wanted: TranslateRequest, n_best) -> Dict[str, Any]:
    """Return the best translation of a sentence, with the others if requested."""
    names = ["text"] + ["score"] * wanted.scores + ["alignment"] * wanted.alignments
    best, *others = (
        {name: each[name] for name in names} for each in n_best[: wanted.n_best]
    )
    return dict(best, alternatives=others) if wanted.n_best > 1 else best


def _for_libretranslate(wanted: TranslateRequest, rows, models) -> Dict[str, Any]:
    """Return the answer that a client of LibreTranslate expects."""
    made = []
    for text, row in zip(wanted.texts, rows):
        joined = (
            sentences.join(
                [n_best[min(i, len(n_best) - 1)]["text"] for n_best in row], text
            )
            for i in range(min(wanted.n_best, models[wanted.model].n_best))
        )
        made.append(list(dict.fromkeys(joined)))  # each once, in order
    answer: Dict[str, Any] = {"translatedText": [each[0] for each in made]}
    if wanted.n_best > 1:
        answer["alternatives"] = [each[1:] for each in made]
    if wanted.source == "auto":  # no language is detected
        language = models[wanted.model].languages[0]
        detected = {"language": language, "confidence": 0}
        answer["detectedLanguage"] = [detected] * len(made)
    if wanted.is_list:
        return answer
    return {name: values[0] for name, values in answer.items()}


class _OfJobs:
    """The counters of the queue, for Prometheus."""

    def __init__(self, jobs: Jobs):
        self._jobs = jobs

    def collect(self):
        """Yield the numbers."""
        jobs = self._jobs
        yield core.GaugeMetricFamily(
            "transformer_waiting", "Sentences waiting", len(jobs)
        )
        for name, text, value in (
            ("sentences", "Sentences computed", jobs.computed),
            ("batches", "Batches computed", jobs.batches),
            ("busy_seconds", "Time spent computing", jobs.seconds),
            ("cancelled", "Sentences whose client disconnected", jobs.cancelled),
        ):
            yield core.CounterMetricFamily("transformer_" + name, text, value)


class Protocol(H11Protocol):
    """HTTP on one connection, which is closed if its client is too slow.

    uvicorn waits forever for the end of a request, and until an answer is read. Here,
    both have a deadline. If there are too many connections, the one whose deadline is
    the nearest is closed.
    """

    def connection_made(self, transport) -> None:
        """Start the timer for the first request."""
        super().connection_made(transport)
        self.deadline: Optional[asyncio.TimerHandle] = None
        self._watch()
        if len(self.connections) > MOST_CONNECTIONS:
            every: Any = self.connections
            slow = [each for each in every if each.deadline and each is not self]
            min(slow or [self], key=lambda each: each.deadline.when()).give_up()

    def handle_events(self) -> None:
        """Handle what was received; stop the timer if the request is complete."""
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        """Begin the next request, or close; start the timer for either."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Start the timer: the client has not read all that was sent."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Stop the timer: the client has read it."""
        super().resume_writing()
        self._watch()

    def shutdown(self) -> None:
        """Close the connection after its answer, or when the time for that is over."""
        super().shutdown()
        self.loop.call_later(SECONDS_TO_STOP, self.give_up)

    def connection_lost(self, exc) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._stop_watching()

    def give_up(self) -> None:
        """Close the connection."""
        self._stop_watching()
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP with JSON, like every refusal."""
        log.info("%s sent what is not HTTP 400", (self.client or ["-"])[0])
        body = json.dumps({"error": "The request is not HTTP."}).encode() + b"\n"
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"
            b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        self.transport.close()

    def _watch(self):
        seconds = 0
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            seconds = SECONDS_TO_SEND
        elif self.flow.write_paused or self.transport.is_closing():
            size = self.transport.get_write_buffer_size()
            seconds = SECONDS_TO_READ * (1 + (size >> 20))
        if not seconds:
            self._stop_watching()
        elif self.deadline is None:
            self.deadline = self.loop.call_later(seconds, self.give_up)

    def _stop_watching(self):
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None


def listen(address: Tuple[str, int]) -> socket.socket:
    """Return a socket that listens at an address; port 0: any free port.

    Raises:
      OSError: the port is in use, or the host is not this machine.
    """
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    try:
        return socket.create_server(address, family=family, backlog=1024)
    except OSError as error:
        raise OSError(
            f"{address[0]}, port {address[1]}: expected an address to listen on, got "
            f"{error.strerror}; choose another --port or --host"
        ) from error


class Server:
    """The service at an address.

    Args:
      address: (host, port); port 0: any free port.
      models: the models, each a Model.
      jobs: the queue.
      names: host names to answer to, besides those of this machine.
      split: as in `requests.parse_translate`.
    """

    def __init__(
        self,
        address: Tuple[str, int],
        models: Sequence,
        jobs: Jobs,
        names: Sequence[str] = (),
        split: Optional[bool] = None,
    ):
        self._socket = listen(address)
        # Connections inherit this option. Without it, the body of an answer waits 40 ms
        # until the client acknowledges its head.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server_address = self._socket.getsockname()
        self.jobs = jobs
        self._stopped = threading.Event()
        known = ["localhost", address[0], socket.gethostname(), *names]
        service = Service(models, jobs, [name.lower() for name in known], split)
        self._server = uvicorn.Server(
            uvicorn.Config(
                service,
                http=Protocol,
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                access_log=False,
                log_level=logging.ERROR,
                server_header=False,
                timeout_graceful_shutdown=SECONDS_TO_STOP + 5,
            )
        )

    def serve_forever(self) -> None:
        """Serve until `drain` is called; this runs in its own thread."""
        try:
            self._server.run([self._socket])
        finally:
            self._stopped.set()

    def drain(self) -> None:
        """Accept no new clients, finish the waiting jobs, and send the answers."""
        self._server.should_exit = True
        self.jobs.drain()
        self._stopped.wait(2 * SECONDS_TO_STOP)
