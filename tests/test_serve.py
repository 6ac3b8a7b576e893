"""The server of the page: one queue, batches, clients that leave, a quiet end."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import corpora
import pytest
from serving import Echo, ask, connect, refused, served

import hparams
from transformer.seeing import confidence, requests
from transformer.seeing.jobs import Job, Jobs, Refused
from transformer.seeing.models import Model

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture
def model():
    return Echo()


@pytest.fixture
def server(model):
    with served([model]) as server:
        yield server


def asking(server, texts):
    """Threads that each translate a text, and what they get: {text: answer}."""
    answers = {}

    def one(text):
        answers[text] = ask(server, "/translate", {"text": text})

    threads = [threading.Thread(target=one, args=[text]) for text in texts]
    for thread in threads:
        thread.start()
    return threads, answers


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_sentence_is_translated(server):
    status, told, _ = ask(server, "/translate", {"text": " ein\nHund \t"})
    assert (status, told) == (200, {"result": [{"text": "EIN HUND", "score": -1.0}]})
    assert ask(server, "/see", {"text": "x", "target": [5]})[1]["result"] == {
        "text": "x",
        "target": [5],
    }


def test_what_waits_makes_a_batch_and_everybody_gets_his_own(server, model):
    model.gate.clear()
    first, answers = asking(server, ["first"])
    model.begun.acquire()
    texts = [f"text {i}" for i in range(20)]
    others, more = asking(server, texts)
    until(lambda: len(server.jobs) == 20)
    model.gate.set()
    for thread in first + others:
        thread.join(60)
    assert model.batches[0] == ["first"] and sorted(model.batches[1]) == sorted(texts)
    assert len(model.batches) == 2
    for text, (status, told, _) in {**answers, **more}.items():
        assert status == 200 and told["result"][0]["text"] == text.upper()


def test_what_a_client_wanted_that_left_is_not_computed(server, model):
    model.gate.clear()
    first, _ = asking(server, ["first"])
    model.begun.acquire()
    leaving = connect(server)
    headers = {"Content-Type": "application/json"}
    leaving.request("POST", "/translate", json.dumps({"text": "left"}), headers)
    until(lambda: len(server.jobs) == 1)
    [job] = server.jobs._waiting
    leaving.close()
    until(lambda: job.is_cancelled)
    model.gate.set()
    first[0].join(60)
    assert ask(server, "/translate", {"text": "next"})[0] == 200
    assert "left" not in sum(model.batches, [])


def test_a_sentence_that_fails_fails_alone(server, model):
    model.gate.clear()
    first, _ = asking(server, ["first"])
    model.begun.acquire()
    others, answers = asking(server, ["good", "fail", "fine"])
    until(lambda: len(server.jobs) == 3)
    model.gate.set()
    for thread in first + others:
        thread.join(60)
    assert [answers[text][0] for text in ("good", "fine")] == [200, 200]
    status, sentence = refused(answers["fail"])
    assert status == 500 and "secret" not in sentence


def test_a_drain_finishes_what_was_begun_and_takes_no_more(model):
    with served([model]) as server:
        model.gate.clear()
        begun, answers = asking(server, ["begun"])
        model.begun.acquire()
        waiting, more = asking(server, ["waiting"])
        until(lambda: len(server.jobs) == 1)
        draining = threading.Thread(target=server.drain)
        draining.start()
        until(lambda: server.jobs._is_stopping)
        with pytest.raises(Refused):
            server.jobs.submit(Job(model.translate, None))
        model.gate.set()
        for thread in [*begun, *waiting, draining]:
            thread.join(60)
        assert answers["begun"][0] == more["waiting"][0] == 200
        assert answers["begun"][2]["Connection"] == "close"
        with pytest.raises(OSError):
            ask(server, "/healthz")
        server.drain = lambda: None  # it was


def has_ipv6():
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as tried:
        tried.bind(("::1", 0))
        return True
    return False


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6")
def test_an_address_of_ipv6_is_served(model):
    with served([model], host="::1") as server:
        assert ask(server, "/translate", {"text": "x"})[1]["result"][0]["text"] == "X"


def test_health_and_models(server):
    ask(server, "/translate", {"text": "x"})
    told = ask(server, "/healthz")[1]
    assert told == {"status": "ok", "waiting": 0, "computed": 1, "batches": 1}
    assert ask(server, "/models")[1]["models"][0]["name"] == "echo"


@pytest.mark.parametrize(
    "status, fields",
    [
        (400, {}),
        (400, {"text": 5}),
        (400, {"text": "x", "model": 1}),
        (400, {"text": "x", "model": True}),
        (400, {"text": "x", "prefix": ["a"]}),
        (400, {"text": "x", "target": [1] * 2000}),
        (400, {"text": "x", "padding": 17}),
        (400, {"text": "x", "other": 1}),
        (400, []),
        (413, {"text": "x" * (requests.MOST_CHARACTERS + 1)}),
        (413, {"text": "x " * (requests.MOST_PIECES + 1)}),
        (413, {"text": "x" * requests.MOST_BYTES}),
    ],
    ids=str,
)
def test_wrong_requests_are_refused_in_one_sentence(server, status, fields):
    assert refused(ask(server, "/translate", fields))[0] == status


def test_what_the_model_refuses_is_told(server):
    assert "no piece" in refused(ask(server, "/see", {"text": ""}))[1]


def test_a_full_queue_is_told(server, model, monkeypatch):
    monkeypatch.setattr("transformer.seeing.jobs.MOST_WAITING", 0)
    status, sentence = refused(ask(server, "/translate", {"text": "x"}))
    assert status == 503 and "busy" in sentence


def test_idle_work_goes_on_while_nobody_waits_and_ends_with_an_error():
    done = []

    def work():
        for i in range(3):
            done.append(i)
            yield
        raise RuntimeError

    jobs = Jobs(work())
    job = Job(lambda arguments: arguments, "x")
    jobs.submit(job)
    assert job.done.wait(60) and job.result == "x"
    until(lambda: done == [0, 1, 2])
    jobs.drain()


def test_confidence_is_counted_on_dev_once(trained, digits, tmp_path):
    logdir = str(tmp_path / "logs")
    shutil.copytree(trained, logdir)
    hp = hparams.load(logdir)
    model = Model(hp, logdir)
    assert model.legend is None and len(list(model.count_confidence())) > 0
    shades = model.legend["shades"]
    dev = corpora.read_lines(os.path.join(digits, "dev.de"))
    rows = [row[0].text.split() for row in model.translator.translate(dev)]
    assert sum(words for _, _, words, _ in shades) == sum(map(len, rows))
    references = corpora.read_lines(os.path.join(digits, "dev.en"))
    matches = sum(
        min(row.count(word), reference.split().count(word))
        for row, reference in zip(rows, references)
        for word in set(row)
    )
    assert sum(found for _, _, _, found in shades) == matches
    assert confidence.read(logdir, model.checkpoint) == model.legend
    assert list(model.count_confidence()) == []
    assert confidence.read(logdir, "another") is None
    model.close()
    with open(os.path.join(logdir, confidence.FILE_NAME), "w") as file:
        file.write('{"best": [')
    assert confidence.read(logdir, model.checkpoint) is None


@pytest.mark.slow
def test_sigterm_ends_the_command_with_status_0(trained):
    command = [sys.executable, "scripts/serve.py", "--logdir", trained, "--port", "0"]
    done = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": ROOT},
    )
    line = done.stdout.readline().decode()
    assert line.startswith("http://127.0.0.1:")
    done.send_signal(signal.SIGTERM)
    assert done.wait(60) == 0
