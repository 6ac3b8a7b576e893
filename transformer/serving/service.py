"""The HTTP service: translations, and the page that shows how they are made.

uvicorn handles HTTP, Starlette handles the routes, and a few threads compute (see
jobs.py). The service needs Python 3.10 or newer, and `pip install
'transformer-tf[serve]'`. It has no TLS, no authentication and no clustering:
docs/serving.md shows a proxy for these.
"""

import asyncio
import functools
import json
import logging
import re
import socket
import threading
import time
from typing import Any, Awaitable, Callable, Dict, List, Optional, Sequence, Set, Tuple

import prometheus_client
import uvicorn
from prometheus_client import core
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from transformer.runtime.progress import escape_control
from transformer.serving import requests
from transformer.serving.jobs import Job, Jobs, QueueClosed, QueueFull
from transformer.serving.languages import name_language
from transformer.serving.requests import RequestError, TranslateRequest
from transformer.text import sentences
from transformer.viewer.page_files import make_page, read_file
from transformer.viewer.sentence_request import NoPiecesError, SentenceRequest
from transformer.viewer.test_sentences import BATCH_SIZE

MAX_CONNECTIONS = 768  # below the 1,024 files that a process may open by default
SECONDS_TO_SEND = 20  # within which a client must send its request
SECONDS_TO_READ = 60  # within which a client must read each MiB of an answer
SECONDS_TO_STOP = 20  # for clients to read their answers when the service stops
SECONDS_TO_PROBE = 0.5  # whether a client that has stopped sending is still there
MILLISECONDS_TO_TYPE = 500  # after which LibreTranslate's page asks for a translation
# LibreTranslate accepts several slashes before its paths, because clients append
# "/translate" to an address that may end with a slash.
LIBRETRANSLATE_PATHS = (
    "/detect",
    "/frontend/settings",
    "/health",
    "/languages",
    "/spec",
    "/translate",
)
FORM_TYPES = (requests.JSON, requests.FORM, requests.MULTIPART)
CLIENT_DISCONNECTED = 499  # the status in the log
UNCHOSEN_HEAD = (
    "The alignments are often wrong: no attention head was chosen to align words."
)
TEST_COST = 200  # of a test sentence, in sentences: others go before it
LEAVE_OUT_COST = 5  # of leaving out each word or head, in units of the other numbers
JSON_POLICY = "default-src 'none'"
MIN_BYTES_TO_COMPRESS = 1024
# Of 9: the fastest, because other clients wait meanwhile. For 1.8 MB of numbers, 28 ms
# instead of 140 (level 5) or 1,331 (level 9), and 808 KB instead of 751 or 710.
COMPRESSION_LEVEL = 1
# The weight 0 (RFC 9110, 12.4.2), which Starlette does not read.
REFUSED_GZIP = re.compile(r"gzip\s*;\s*q=0(\.0*)?\s*(,|$)", re.I)

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
      host_names: the host names that requests may use, in lower case.
      split: as in `requests.parse_translate`.
      example: what the page opens with, from `Model.inspect_example`; None: nothing.
      docs: the address of the documentation as a site, which the page links to.
    """

    def __init__(
        self,
        models: Sequence,
        jobs: Jobs,
        host_names: Sequence[str],
        split: Optional[bool] = None,
        example: Optional[Dict[str, Any]] = None,
        docs: Optional[str] = None,
    ):
        self.models = models
        self.jobs = jobs
        self._host_names = set(host_names)
        self._split = split
        self._page, self._page_policy = make_page(
            {
                "server": True,
                "models": self._describe_models(),
                "example": example,
                "docs": docs,
            }
        )
        self._openapi = json.loads(read_file("openapi.json"))
        self._registry = prometheus_client.CollectorRegistry()
        self._registry.register(JobMetrics(jobs))
        self._request_seconds = prometheus_client.Histogram(
            "transformer_request_seconds",
            "Time from a request to its answer, by path and status",
            ["path", "status"],
            registry=self._registry,
        )
        self.slow_clients = prometheus_client.Counter(
            "transformer_slow_clients",
            "Connections closed because their client sent or read too slowly",
            registry=self._registry,
        )
        routes = [
            Route("/", self._get_page),
            Route("/ablate", self._ablate, methods=["POST"]),
            Route("/ablate_each", self._ablate_each, methods=["POST"]),
            Route("/detect", self._detect, methods=["POST"]),
            Route("/frontend/settings", self._get_frontend_settings),
            Route("/head", self._head, methods=["POST"]),
            Route("/health", self._get_health),
            Route("/healthz", self._get_health),
            Route("/languages", self._get_languages),
            Route("/leave_out", self._leave_out, methods=["POST"]),
            Route("/metrics", self._get_metrics),
            Route("/models", self._get_models),
            Route("/openapi.json", self._get_openapi),
            Route("/see", self._see, methods=["POST"]),
            Route("/spec", self._get_openapi),
            Route("/test_sentences", self._test_sentences, methods=["POST"]),
            Route("/training_pairs", self._training_pairs, methods=["POST"]),
            Route("/translate", self._translate, methods=["POST"]),
            Route("/why_not", self._why_not, methods=["POST"]),
            Route("/words", self._list_words, methods=["POST"]),
        ]
        self._paths = {route.path for route in routes}
        handlers: Dict[Any, Callable] = {
            RequestError: lambda _, error: _answer_error(error),
            QueueFull: lambda _, error: _answer_error(
                RequestError(429, f"{error}.", "queue_full"),
                {"Retry-After": str(error.retry_after)},
            ),
            # uvicorn would keep the connection, and wait for its client, for 5 seconds.
            QueueClosed: lambda _, error: _answer_error(
                RequestError(503, f"{error}.", "stopping"), {"Connection": "close"}
            ),
            ClientDisconnect: lambda *_: Response(status_code=CLIENT_DISCONNECTED),
            HTTPException: _answer_routing_error,
            Exception: lambda *_: _answer_error(
                RequestError(500, "The server failed.", "failed")
            ),
        }
        compress = Middleware(
            GZipMiddleware,
            minimum_size=MIN_BYTES_TO_COMPRESS,
            compresslevel=COMPRESSION_LEVEL,
        )
        self._app = Starlette(
            routes=routes, exception_handlers=handlers, middleware=[compress]
        )
        self._app.router.redirect_slashes = False

    async def __call__(self, scope, receive, send) -> None:
        """Answer a request, count it, and log it in one line."""
        start = time.perf_counter()
        headers = Headers(scope=scope)
        path = "/" + scope["path"].lstrip("/")
        if path in LIBRETRANSLATE_PATHS:
            scope = {**scope, "path": path}
        if REFUSED_GZIP.search(headers.get("accept-encoding", "")):
            scope = {
                **scope,
                "headers": [x for x in headers.raw if x[0] != b"accept-encoding"],
            }
        status = CLIENT_DISCONNECTED

        async def send_with_headers(message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._add_headers(MutableHeaders(scope=message))
                if {"content-length", "transfer-encoding"} <= set(headers):
                    # Where the request ends is doubtful (RFC 9112, 6.1).
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        app: Callable[..., Awaitable] = self._app
        try:
            requests.check_host(headers.get("host"), self._host_names)
        except RequestError as error:
            app = _answer_error(error)
        try:
            await app(scope, receive, send_with_headers)
        finally:
            seconds = time.perf_counter() - start
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._request_seconds.labels(path, str(status)).observe(seconds)
            client = (scope["client"] or ["-"])[0]  # X-Forwarded-For is any text
            log.info(
                "%s %s %s %d %.0f ms",
                escape_control(client[:60]),
                scope["method"],
                scope["raw_path"].decode("ascii", "replace")[:200],
                status,
                1000 * seconds,
            )

    def _add_headers(self, headers):
        """Add the headers of every answer."""
        is_page = headers.get("content-type", "").startswith("text/html")
        policy = self._page_policy if is_page else JSON_POLICY
        headers.update(
            {
                "Content-Security-Policy": policy + "; frame-ancestors 'self'",
                "X-Content-Type-Options": "nosniff",
                "Referrer-Policy": "no-referrer",
                "Cross-Origin-Resource-Policy": "same-origin",
                "Cache-Control": "no-store",
            }
        )

    async def _get_page(self, request: Request) -> Response:
        return Response(self._page, media_type="text/html")

    async def _get_health(self, request: Request) -> Response:
        jobs = self.jobs
        return Json(
            {
                "status": "ok",
                "waiting": len(jobs),
                "computed": jobs.computed,
                "batches": jobs.batches,
            }
        )

    async def _get_models(self, request: Request) -> Response:
        return Json({"models": self._describe_models()})

    def _describe_models(self):
        split = self._split is not False  # how the page asks for translations
        return [{**model.describe(), "split": split} for model in self.models]

    async def _get_metrics(self, request: Request) -> Response:
        text = prometheus_client.generate_latest(self._registry)
        return Response(text, media_type="text/plain; version=0.0.4")

    async def _get_openapi(self, request: Request) -> Response:
        return Json(self._openapi)

    async def _get_languages(self, request: Request) -> Response:
        """Answer with the languages, as LibreTranslate does."""
        targets: Dict[str, Set[str]] = {}
        for source, target in (model.languages for model in self.models):
            targets.setdefault(source, {source}).add(target)
            targets.setdefault(target, {target})
        return Json(
            [
                {**_describe_language(code), "targets": sorted(codes)}
                for code, codes in targets.items()
            ]
        )

    async def _get_frontend_settings(self, request: Request) -> Response:
        """Answer with the settings that LibreTranslate's page asks for."""
        source, target = self.models[0].languages
        is_split = self._split is not False
        return Json(
            {
                "charLimit": requests.MAX_CHARACTERS_SPLIT
                if is_split
                else requests.MAX_CHARACTERS,
                "frontendTimeout": MILLISECONDS_TO_TYPE,
                "apiKeys": False,
                "keyRequired": False,
                "suggestions": False,
                "filesTranslation": False,
                "supportedFilesFormat": [],
                "language": {
                    "source": _describe_language(source),
                    "target": _describe_language(target),
                },
            }
        )

    async def _detect(self, request: Request) -> Response:
        """Answer with the source languages; no language is detected."""
        requests.check_detect(await _read_fields(request, FORM_TYPES))
        languages = dict.fromkeys(model.languages[0] for model in self.models)
        return Json([_format_detected(language) for language in languages])

    async def _see(self, request: Request) -> Response:
        index, sentence = await self._parse(requests.parse_see, request)
        return await self._inspect(request, self.models[index].inspect, sentence)

    async def _leave_out(self, request: Request) -> Response:
        index, sentence = await self._parse(requests.parse_alone, request)
        leave_out = self.models[index].leave_out_words
        return await self._inspect(request, leave_out, sentence, LEAVE_OUT_COST)

    async def _list_words(self, request: Request) -> Response:
        index, sentence = await self._parse(requests.parse_words, request)
        return await self._inspect(request, self.models[index].list_words, sentence)

    async def _head(self, request: Request) -> Response:
        index, sentence = await self._parse(requests.parse_head, request)
        return await self._inspect(request, self.models[index].inspect_heads, sentence)

    async def _ablate(self, request: Request) -> Response:
        index, sentence = await self._parse(requests.parse_ablate, request)
        return await self._inspect(request, self.models[index].ablate, sentence)

    async def _ablate_each(self, request: Request) -> Response:
        index, sentence = await self._parse(requests.parse_alone, request)
        ablate_each = self.models[index].ablate_each
        return await self._inspect(request, ablate_each, sentence, LEAVE_OUT_COST)

    async def _why_not(self, request: Request) -> Response:
        index, sentence = await self._parse(requests.parse_why_not, request)
        return await self._inspect(request, self.models[index].explain, sentence)

    async def _training_pairs(self, request: Request) -> Response:
        index, sentence = await self._parse(requests.parse_training_pairs, request)
        find = self.models[index].find_training_pairs
        return await self._inspect(request, find, sentence)

    async def _test_sentences(self, request: Request) -> Response:
        """Translate a few test sentences; the page asks again for the next ones."""
        index, start, total = await self._parse(requests.parse_test_sentences, request)
        work = self.models[index].test_sentences.translate
        jobs = [
            Job(work, i, batched=True, cost=TEST_COST)
            for i in range(start, min(start + BATCH_SIZE, total))
        ]
        return Json({"total": total, "sentences": await self._run_jobs(request, jobs)})

    async def _parse(self, parse: Callable, request: Request) -> Any:
        fields = await _read_fields(request, [requests.JSON])
        return await run_in_threadpool(parse, fields, self.models)

    async def _inspect(self, request, work, sentence, factor=1) -> Response:
        job = Job(work, sentence, cost=factor * len(sentence.text))
        [result] = await self._run_jobs(request, [job])
        return Json({"result": result})

    async def _translate(self, request: Request) -> Response:
        fields = await _read_fields(request, FORM_TYPES)
        parsed = await run_in_threadpool(
            requests.parse_translate, fields, self.models, self._split
        )
        model = self.models[parsed.model]
        is_libretranslate = bool(parsed.source)
        if parsed.is_copy:
            copies = [[[{"text": text}] for text, _ in texts] for texts in parsed.texts]
            return Json(_format_libretranslate(parsed, copies, model))
        jobs = [
            Job(
                model.translate,
                SentenceRequest(
                    sentence, alignments=parsed.alignments, words=parsed.words
                ),
                batched=True,
                cost=sum(map(len, parsed.texts)),
            )
            for text in parsed.texts
            for sentence, _ in text
        ]
        results = iter(await self._run_jobs(request, jobs))
        translations = [[next(results) for _ in text] for text in parsed.texts]
        if is_libretranslate:
            return Json(_format_libretranslate(parsed, translations, model))
        answer: Dict[str, Any] = {
            "translations": [
                _format_text(parsed, text, n_bests, model.languages)
                for text, n_bests in zip(parsed.texts, translations)
            ]
        }
        if parsed.alignments and not model.has_chosen_head():
            answer["warning"] = UNCHOSEN_HEAD
        return Json(answer)

    async def _run_jobs(self, request: Request, jobs: List[Job]) -> List[Any]:
        """Return the results of jobs; cancel the jobs if the client disconnects."""
        self.jobs.submit(jobs)
        futures = [asyncio.wrap_future(job.future) for job in jobs]
        results = asyncio.gather(*futures, return_exceptions=True)
        disconnect = asyncio.ensure_future(_wait_for_disconnect(request))
        events: List[asyncio.Future] = [results, disconnect]
        try:
            await asyncio.wait(events, return_when="FIRST_COMPLETED")
            if not results.done():
                raise ClientDisconnect
        finally:
            disconnect.cancel()
            for future in futures:
                future.cancel()
        for result in results.result():
            if isinstance(result, ValueError):
                code = "no_pieces" if isinstance(result, NoPiecesError) else ""
                raise RequestError(400, f"Refused: {result}.", code)
            if isinstance(result, BaseException):
                log.error("a model failed: %r", result)
                raise RequestError(
                    500, "The model could not compute this sentence.", "failed"
                )
        return results.result()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _read_fields(
    request: Request, content_types: Sequence[str]
) -> Dict[str, Any]:
    """Read the fields of a request.

    Raises:
      RequestError: the request comes from another site, is too long, or is of another
        content type.
    """
    requests.check_origin(request.headers)
    content_type = request.headers.get("content-type", "")
    is_known = requests.media_type(content_type) in content_types
    # Clients that send all fields in the query name any type for their empty body.
    query = request.scope["query_string"] if requests.FORM in content_types else b""
    wrong_type = RequestError(
        415, f"The request is not of type {' or '.join(content_types)}."
    )
    if not (is_known or query):
        raise wrong_type
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestError(415, "The request is compressed: send it as it is.")
    length = int(request.headers.get("content-length", "0"))
    body = bytearray()
    if length <= requests.MAX_BYTES:
        async for part in request.stream():
            body += part
            length = max(length, len(body))
            if length > requests.MAX_BYTES:
                break
    if length > requests.MAX_BYTES:
        raise RequestError(
            413, f"The request has more than {requests.MAX_BYTES:,} bytes."
        )
    if body and not is_known:
        raise wrong_type
    return requests.parse_fields(bytes(body), content_type, query)


def _answer_error(
    error: RequestError, headers: Optional[Dict[str, str]] = None
) -> Response:
    answer: Dict[str, Any] = {"error": str(error)}
    if error.code:
        answer["code"] = error.code
    if error.values:
        answer["values"] = error.values
    return Json(answer, error.status, headers)


def _answer_routing_error(request: Request, error: Exception) -> Response:
    """Return Starlette's error about a path or a method as JSON."""
    assert isinstance(error, HTTPException)
    sentence = {
        404: "There is nothing here; the page is at /.",
        405: f"This path does not accept {request.method[:20]}.",
    }.get(error.status_code, "The request is refused.")
    headers = dict(error.headers or {})
    return _answer_error(RequestError(error.status_code, sentence), headers)


def _format_text(request: TranslateRequest, text, n_bests, languages) -> Dict[str, Any]:
    """Return the answer for a text.

    Args:
      request: the request of the client.
      text: the sentences of the text, each with the white space after it.
      n_bests: the n best translations of each sentence.
      languages: of source and target.
    """
    translated = [_format_n_best(request, n_best) for n_best in n_bests]
    if not request.split:
        return translated[0]
    answer: Dict[str, Any] = {
        "text": sentences.join(
            [sentence["text"] for sentence in translated], text, *languages
        )
    }
    if any(sentence.get("truncated") for sentence in translated):
        answer["truncated"] = True
    if request.n_best > 1 or request.scores or request.alignments or request.words:
        answer["sentences"] = [
            {"source": source, **sentence}
            for (source, _), sentence in zip(text, translated)
        ]
    return answer


def _format_n_best(request: TranslateRequest, n_best) -> Dict[str, Any]:
    """Return the best translation of a sentence, with its alternatives if requested."""
    names = ["text"] + ["score"] * request.scores + ["alignment"] * request.alignments
    best, *alternatives = (
        {
            name: translation[name]
            for name in names + ["truncated"] * translation["truncated"]
        }
        for translation in n_best[: request.n_best]
    )
    if request.words:
        best.update({name: n_best[0][name] for name in ("words", "unknown")})
    return dict(best, alternatives=alternatives) if request.n_best > 1 else best


def _format_libretranslate(
    request: TranslateRequest, translations, model
) -> Dict[str, Any]:
    """Return the answer that a LibreTranslate client expects.

    Args:
      request: the request of the client.
      translations: the n best translations of each sentence of each text.
      model: the model that translated.
    """
    texts = []  # the different translations of each text, best first
    for text, n_bests in zip(request.texts, translations):
        joined = (
            sentences.join(
                [n_best[min(rank, len(n_best) - 1)]["text"] for n_best in n_bests],
                text,
                *model.languages,
            )
            for rank in range(min(request.n_best, model.n_best))
        )
        texts.append(list(dict.fromkeys(joined)))
    answer: Dict[str, Any] = {"translatedText": [best for best, *_ in texts]}
    if request.n_best > 1:
        answer["alternatives"] = [alternatives for _, *alternatives in texts]
    truncated = [
        any(n_best[0].get("truncated", False) for n_best in n_bests)
        for n_bests in translations
    ]
    if any(truncated):
        answer["truncated"] = truncated
    if request.source == "auto":  # no language is detected
        answer["detectedLanguage"] = [_format_detected(model.languages[0])] * len(texts)
    if request.is_list:
        return answer
    return {name: values[0] for name, values in answer.items()}


def _format_detected(language: str) -> Dict[str, Any]:
    return {"language": language, "confidence": 0}


def _describe_language(code: str) -> Dict[str, str]:
    return {"code": code, "name": name_language(code)}


class JobMetrics:
    """The counters of the queue, for Prometheus."""

    def __init__(self, jobs: Jobs):
        self._jobs = jobs

    def collect(self):
        """Yield the metrics."""
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

    uvicorn has no timeout for the first request, for half a request, or for an answer
    that is not read, and its `limit_concurrency` refuses everybody once slow clients
    hold that many connections. Here, a client has a deadline whenever the next move is
    its own. If there are too many connections, the one with the nearest deadline is
    closed.
    """

    deadline: Optional[asyncio.TimerHandle] = None
    is_half_closed = False
    is_stopping = False

    def __init__(self, *args, count_slow: Callable[[], None], **options):
        super().__init__(*args, **options)
        self._count_slow = count_slow

    def connection_made(self, transport) -> None:
        """Wait for the first request; close a connection if there are too many."""
        super().connection_made(transport)
        self._set_deadline()
        if len(self.connections) > MAX_CONNECTIONS:
            connections: Any = self.connections
            slow = [
                connection
                for connection in connections
                if connection.deadline and connection is not self
            ]
            min(slow or [self], key=lambda protocol: protocol.deadline.when()).drop()

    def data_received(self, data: bytes) -> None:
        """Remove the deadline once a request is complete; never move it before."""
        super().data_received(data)
        if self._is_computing() and not self.transport.get_write_buffer_size():
            self._clear_deadline()

    def on_response_complete(self) -> None:
        """Wait until the answer is read, or for the next request."""
        super().on_response_complete()
        if self.is_half_closed and not self._is_computing():
            self.transport.close()
        self._set_deadline()

    def eof_received(self) -> Any:
        """Let a client that has only stopped sending wait for its answer.

        uvicorn closes the connection. The packet is the same if the client has left;
        but then its machine answers the next packets with a reset.
        """
        self.is_half_closed = True
        self._probe()
        return self._is_computing()

    def shutdown(self) -> None:
        """Close the connection after its answer, which must be read soon."""
        super().shutdown()
        self.is_stopping = True
        self._set_deadline()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP with JSON, like every error; log it."""
        log.info("%s sent no HTTP: status 400", (self.client or ["-"])[0])
        body = b'{"error":"The request is not HTTP."}\n'
        head = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"
        head += b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
        self.transport.write(head + body)
        self.transport.close()

    def connection_lost(self, exc) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._clear_deadline()

    def drop(self) -> None:
        """Close the connection of a slow client at once."""
        self._count_slow()
        self._clear_deadline()
        self.transport.abort()

    def _probe(self):
        """Send an interim response, which a client ignores, until the answer begins."""
        is_waiting = self._is_computing() and not self.cycle.response_started
        if is_waiting and self.conn.their_http_version == b"1.1":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.loop.call_later(SECONDS_TO_PROBE, self._probe)

    def _is_computing(self):
        """Return whether a request is complete and its answer is not."""
        cycle = self.cycle  # the newest request
        return bool(cycle and not (cycle.more_body or cycle.response_complete))

    def _set_deadline(self):
        self._clear_deadline()
        unread_bytes = self.transport.get_write_buffer_size()
        if unread_bytes:
            seconds = SECONDS_TO_READ * (1 + (unread_bytes >> 20))
        elif self._is_computing():
            return
        else:
            seconds = SECONDS_TO_SEND
        if self.is_stopping:
            seconds = min(seconds, SECONDS_TO_STOP)
        self.deadline = self.loop.call_later(seconds, self.drop)

    def _clear_deadline(self):
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
            f"cannot listen on {address[0]}, port {address[1]}: {error.strerror}"
        ) from error


class Server:
    """The service at an address.

    Args:
      address: (host, port); port 0: any free port.
      models: the models, each a Model.
      jobs: the queue.
      host_names: host names that requests may use, besides those of this machine.
      split, example, docs: as in Service.
    """

    def __init__(
        self,
        address: Tuple[str, int],
        models: Sequence,
        jobs: Jobs,
        host_names: Sequence[str] = (),
        split: Optional[bool] = None,
        example: Optional[Dict[str, Any]] = None,
        docs: Optional[str] = None,
    ):
        self._socket = listen(address)
        # Connections inherit this option. Without it, the body of an answer waits 40 ms
        # until the client acknowledges its head.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server_address = self._socket.getsockname()
        self.jobs = jobs
        self._stopped = threading.Event()
        host_names = ["localhost", address[0], socket.gethostname(), *host_names]
        host_names = [name.lower() for name in host_names]
        service = Service(models, jobs, host_names, split, example, docs)
        protocol: Any = functools.partial(Protocol, count_slow=service.slow_clients.inc)
        self._server = uvicorn.Server(
            uvicorn.Config(
                service,
                http=protocol,
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                access_log=False,
                log_level=logging.WARNING,
                server_header=False,
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
        log.info(
            "stopping when the %d waiting sentences are computed, in about %d s",
            len(self.jobs),
            self.jobs.close(),
        )
        self.jobs.drain()
        self._stopped.wait(2 * SECONDS_TO_STOP)
