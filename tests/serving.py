"""The service with models that tests control, and clients of it."""

import contextlib
import http.client
import json
import threading

import pytest

from transformer.serving.jobs import Jobs
from transformer.viewer.test_sentences import TestSentences

service = pytest.importorskip(
    "transformer.serving.service", reason="the service needs the extra [serve]"
)


class Echo:
    """A model that translates a sentence to itself, in capitals.

    It waits while `gate` is closed; `batches` has the sentences of each batch.
    """

    languages = ("de", "en")
    n_best = 2
    max_pieces = 256
    test_sentences = TestSentences(None, None)

    def __init__(self):
        self.gate, self.batches = threading.Event(), []
        self.gate.set()
        self.begun = threading.Semaphore(0)

    def describe(self):
        return {"name": "echo", "layers": 1, "heads": 1}

    def translate(self, requests):
        texts = [request.text for request in requests]
        self.batches.append(texts)
        self.begun.release()
        assert self.gate.wait(60)
        if "fail" in texts:
            raise RuntimeError("a secret of the machine")
        return [
            [
                {
                    "text": translation,
                    "score": -score,
                    "alignment": [[0, 0]],
                    "truncated": "endless" in text,
                    "words": [{"word": translation, "probability": 0.5}],
                    "unknown": [],
                }
                for translation, score in ((text.upper(), 1.0), (text.title(), 2.0))
            ]
            for text in texts
        ]

    def inspect(self, requests):
        if not requests[0].text:
            raise ValueError("the line has no piece: wanted a sentence")
        return [
            {"text": request.text, "target": request.target} for request in requests
        ]

    def leave_out_words(self, requests):
        return [[[-1.0] * len(request.target)] for request in requests]

    def list_words(self, requests):
        return [[{"word": str(request.word)}] for request in requests]

    def inspect_heads(self, requests):
        return [{"heads": request.heads} for request in requests]

    def ablate(self, requests):
        return [
            {
                "nBest": [{"text": request.text, "score": -1.0, "ids": [5, 6, 7, 8]}],
                "score": None if request.target is None else -2.0,
            }
            for request in requests
        ]

    def ablate_each(self, requests):
        return [{"encoder": [[-1.0]], "decoder": [[-0.5]], "cross": [[0.0]]}]

    def explain(self, requests):
        return [
            {"text": request.text, "target": request.target} for request in requests
        ]

    def find_training_pairs(self, requests):
        return [None for _ in requests]

    def has_chosen_head(self):
        return True

    def count_pieces(self, line):
        return len(line.split())

    count_target_pieces = count_pieces


@contextlib.contextmanager
def serve(models, host="127.0.0.1", port=0, **options):
    """A server in this process, on a free port."""
    server = service.Server((host, port), models, Jobs(), **options)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.drain()
        thread.join(60)


def url(server):
    return "http://127.0.0.1:{}/".format(server.server_address[1])


def connect(server):
    return http.client.HTTPConnection(*server.server_address[:2], timeout=60)


def ask(server, path, fields=None, headers=(), body=None, method=None):
    """(status, JSON, headers) of a request; a POST if there are fields or a body."""
    connection = connect(server)
    if fields is not None:
        body = json.dumps(fields)
    method = method or ("GET" if body is None else "POST")
    headers = {"Content-Type": "application/json", **dict(headers)}
    connection.request(method, path, body=body, headers=headers)
    response = connection.getresponse()
    text = response.read().decode("utf-8")
    connection.close()
    is_json = response.getheader("Content-Type") == "application/json"
    return response.status, json.loads(text) if is_json else text, response.headers


def check_error(answer):
    """(status, sentence) of an answer, which must be an error in one sentence."""
    status, error, _ = answer
    assert status >= 400 and {"error"} <= set(error) <= {"error", "code", "values"}
    sentence = error["error"]
    assert sentence[0].isupper() and sentence.endswith(".") and "\n" not in sentence
    return status, sentence
