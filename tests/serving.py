"""The service with models that tests control, and clients of it."""

import contextlib
import http.client
import json
import threading

import pytest

from transformer.serving.jobs import Jobs

service = pytest.importorskip(
    "transformer.serving.service", reason="the service needs the extra [serve]"
)


class Echo:
    """A model that translates a sentence to itself, in capitals.

    `gate` holds it back; `batches` are the sentences that it was given at once.
    """

    languages = ("de", "en")
    n_best = 2
    most_pieces = 256

    def __init__(self):
        self.gate, self.batches = threading.Event(), []
        self.gate.set()
        self.begun = threading.Semaphore(0)

    def description(self):
        return {"name": "echo", "layers": 1, "heads": 1}

    def translate(self, asked):
        texts = [each.text for each in asked]
        self.batches.append(texts)
        self.begun.release()
        assert self.gate.wait(60)
        if "fail" in texts:
            raise RuntimeError("a secret of the machine")
        return [
            [
                {"text": text, "score": -score, "alignment": [[0, 0]]}
                for text, score in ((each.text.upper(), 1.0), (each.text.title(), 2.0))
            ]
            for each in asked
        ]

    def see(self, asked):
        if not asked[0].text:
            raise ValueError("the line has no piece: wanted a sentence")
        return [{"text": each.text, "target": each.target} for each in asked]

    def pieces(self, line):
        return len(line.split())


@contextlib.contextmanager
def served(models, host="127.0.0.1", port=0, **more):
    """A server in this process, on a free port."""
    server = service.Server((host, port), models, Jobs(), **more)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.drain()
        thread.join(60)


def address(server):
    return "http://127.0.0.1:{}/".format(server.server_address[1])


def connect(server):
    return http.client.HTTPConnection(*server.server_address[:2], timeout=60)


def ask(server, path, fields=None, headers=(), body=None, method=None):
    """(status, JSON, headers) of a request; a POST where there are fields or a body."""
    connection = connect(server)
    if fields is not None:
        body = json.dumps(fields)
    method = method or ("GET" if body is None else "POST")
    sent = {"Content-Type": "application/json", **dict(headers)}
    connection.request(method, path, body=body, headers=sent)
    answer = connection.getresponse()
    text = answer.read().decode("utf-8")
    connection.close()
    is_json = answer.getheader("Content-Type") == "application/json"
    return answer.status, json.loads(text) if is_json else text, answer.headers


def refused(answer):
    """The one sentence of an error."""
    status, told, _ = answer
    assert status >= 400 and set(told) == {"error"}
    sentence = told["error"]
    assert sentence[0].isupper() and sentence.endswith(".") and "\n" not in sentence
    return status, sentence
