"""The service: one queue, batches, clients that leave, a quiet end; what it answers."""

import itertools
import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.parse

import corpora
import pytest
from documents import blocks, read
from serving import Echo, ask, check_error, connect, serve, service

from transformer import alignment, hparams
from transformer.serving import jobs, requests
from transformer.serving.jobs import Job, QueueClosed
from transformer.viewer import page_files
from transformer.viewer.models import Model

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture
def model():
    return Echo()


@pytest.fixture
def server(model):
    with serve([model]) as server:
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


def test_an_answer_does_not_wait_for_an_acknowledgement(server):
    """40 ms for each, where the head and the body are two packets."""
    assert server._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_sentence_is_translated(server):
    fields = {"text": " ein\nHund \t", "split": False}
    status, told, _ = ask(server, "/translate", fields)
    assert (status, told) == (200, {"translations": [{"text": "EIN HUND"}]})
    assert ask(server, "/see", {"text": "x", "target": [5]})[1]["result"] == {
        "text": "x",
        "target": [5],
    }


def answers_of_batch(server, model, texts):
    """What each text gets; they wait together while another one is computed."""
    model.gate.clear()
    first, answers = asking(server, ["first"])
    model.begun.acquire()
    others, more = asking(server, texts)
    corpora.wait_until(lambda: len(server.jobs) == len(texts))
    model.gate.set()
    for thread in first + others:
        thread.join(60)
    return {**answers, **more}


def test_what_waits_makes_a_batch_and_everybody_gets_his_own(server, model):
    texts = [f"text {i}" for i in range(20)]
    answers = answers_of_batch(server, model, texts)
    assert model.batches[0] == ["first"] and sorted(model.batches[1]) == sorted(texts)
    assert len(model.batches) == 2
    for text, (status, told, _) in answers.items():
        assert status == 200 and told["translations"] == [{"text": text.upper()}]


def test_what_a_client_wanted_that_left_is_not_computed(server, model):
    model.gate.clear()
    first, _ = asking(server, ["first"])
    model.begun.acquire()
    leaving = connect(server)
    headers = {"Content-Type": "application/json"}
    leaving.request("POST", "/translate", json.dumps({"text": "left"}), headers)
    corpora.wait_until(lambda: len(server.jobs) == 1)
    leaving.close()
    corpora.wait_until(lambda: len(server.jobs) == 0 and server.jobs.cancelled == 1)
    model.gate.set()
    first[0].join(60)
    assert ask(server, "/translate", {"text": "next"})[0] == 200
    assert "left" not in sum(model.batches, [])


def test_a_sentence_that_fails_fails_alone(server, model):
    answers = answers_of_batch(server, model, ["good", "fail", "fine"])
    assert [answers[text][0] for text in ("good", "fine")] == [200, 200]
    status, sentence = check_error(answers["fail"])
    assert status == 500 and "secret" not in sentence


def test_a_fault_of_the_server_is_told_without_its_reason(server, model, caplog):
    model.count_pieces = lambda line: 1 // 0
    status, sentence = check_error(ask(server, "/translate", {"text": "x"}))
    assert (status, sentence) == (500, "The server failed.")
    corpora.wait_until(lambda: "ZeroDivisionError" in caplog.text)  # for who runs it
    assert ask(server, "/healthz")[0] == 200


def test_a_drain_finishes_what_was_begun_and_takes_no_more(model):
    with serve([model]) as server:
        model.gate.clear()
        begun, answers = asking(server, ["begun"])
        model.begun.acquire()
        waiting, more = asking(server, ["waiting"])
        corpora.wait_until(lambda: len(server.jobs) == 1)
        draining = threading.Thread(target=server.drain)
        draining.start()
        corpora.wait_until(lambda: server.jobs._is_stopping)
        with pytest.raises(QueueClosed):
            server.jobs.submit([Job(model.translate, None)])
        model.gate.set()
        for thread in [*begun, *waiting, draining]:
            thread.join(60)
        assert answers["begun"][0] == more["waiting"][0] == 200
        with pytest.raises(OSError):
            ask(server, "/healthz")
        server.drain = lambda: None  # it was


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
        (400, {"text": "x", "other": 1}),
        (400, {"text": "x", "n_best": 3}),
        (400, {"q": "x", "target": "fr"}),
        (400, {"q": "x", "target": "en", "format": "html"}),
        (400, {"q": "x", "target": "en", "text": "x"}),
        (400, []),
        (413, {"text": "x" * (requests.MAX_CHARACTERS + 1)}),
        (413, {"text": ["x"] * (requests.MAX_TEXTS + 1)}),
        (413, {"text": "x" * requests.MAX_BYTES}),
    ],
    ids=lambda value: str(value)[:60],
)
def test_wrong_requests_are_refused_in_one_sentence(server, status, fields):
    assert check_error(ask(server, "/translate", fields))[0] == status


@pytest.mark.parametrize(
    "fields",
    [{"prefix": ["a"]}, {"target": [1] * 2000}, {"padding": 17}, {"scores": True}],
    ids=lambda value: str(value)[:60],
)
def test_wrong_questions_of_the_page_are_refused(server, fields):
    assert check_error(ask(server, "/see", {"text": "x", **fields}))[0] == 400


def test_what_the_model_refuses_is_told(server):
    assert "no piece" in check_error(ask(server, "/see", {"text": ""}))[1]


def test_a_full_queue_is_told_and_when_to_return(server, monkeypatch):
    monkeypatch.setattr("transformer.serving.jobs.MAX_WAITING", 1)
    answer = ask(server, "/translate", {"text": ["x", "y"]})
    status, sentence = check_error(answer)
    assert status == 429 and "busy" in sentence and int(answer[2]["Retry-After"]) >= 1
    assert ask(server, "/translate", {"text": ["x"]})[0] == 200


@pytest.fixture
def slow_page(model):
    """A semaphore that counts the page's requests that have begun, and their end."""
    begun, end = threading.Semaphore(0), threading.Event()

    def inspect(requests):
        begun.release()
        assert end.wait(60)
        return [{}]

    model.inspect = inspect
    yield begun, end
    end.set()


def looking(server):
    """A thread that asks what the page asks."""
    thread = threading.Thread(target=ask, args=[server, "/see", {"text": "x"}])
    thread.start()
    return thread


def test_the_page_may_ask_less_so_that_translations_are_accepted(
    server, slow_page, monkeypatch
):
    monkeypatch.setattr("transformer.serving.jobs.MAX_WAITING_FOR_PAGE", 1)
    begun, end = slow_page
    threads = [looking(server)]
    begun.acquire()
    threads.append(looking(server))
    corpora.wait_until(lambda: len(server.jobs) == 1)
    assert check_error(ask(server, "/see", {"text": "x"}))[0] == 429
    assert ask(server, "/translate", {"text": "x"})[0] == 200
    end.set()
    for thread in threads:
        thread.join(60)


def test_translations_do_not_wait_for_the_page(server, slow_page):
    begun, end = slow_page
    seeing = looking(server)
    begun.acquire()
    for text in ("first", "second"):
        status, told, _ = ask(server, "/translate", {"text": text})
        assert (status, told["translations"][0]["text"]) == (200, text.upper())
    assert seeing.is_alive()
    end.set()
    seeing.join(60)


def test_the_page_does_not_wait_for_translations(server, model):
    model.gate.clear()
    begun, _ = asking(server, ["begun"])
    model.begun.acquire()
    assert ask(server, "/see", {"text": "x"})[0] == 200
    model.gate.set()
    begun[0].join(60)


# --- What the interface answers -------------------------------------------------------


def test_a_list_gets_a_list_with_what_is_asked_for(server):
    fields = {"text": ["ein", "der hund"], "n_best": 2, "scores": True}
    told = ask(server, "/translate", dict(fields, alignments=True))[1]
    assert told["translations"][1] == {
        "text": "DER HUND",
        "score": -1.0,
        "alignment": [[0, 0]],
        "alternatives": [{"text": "Der Hund", "score": -2.0, "alignment": [[0, 0]]}],
    }
    assert [each["text"] for each in told["translations"]] == ["EIN", "DER HUND"]
    assert ask(server, "/translate", {"text": []})[1] == {"translations": []}


def test_a_paragraph_is_translated_sentence_by_sentence(model):
    text = "Ein Hund schläft. Dr. Bach\tkommt!\n\nJa."
    with serve([model], split=True) as server:
        told = ask(server, "/translate", {"text": text})[1]
        assert told == {
            "translations": [{"text": "EIN HUND SCHLÄFT. DR. BACH KOMMT!\n\nJA."}]
        }
        assert sorted(model.batches.pop()) == sorted(
            ["Ein Hund schläft.", "Dr. Bach kommt!", "Ja."]
        )
        fields = {"text": "Ja. Nein.", "scores": True}
        told = ask(server, "/translate", fields)[1]["translations"][0]["sentences"]
        assert told[1] == {"source": "Nein.", "text": "NEIN.", "score": -1.0}
        told = ask(server, "/translate", dict(fields, split=False))[1]
        assert told["translations"] == [{"text": "JA. NEIN.", "score": -1.0}]


def test_texts_are_split_unless_the_answer_belongs_to_a_sentence(server, model):
    for more, expected in (
        ({}, ["Ja.", "Nein."]),
        ({"split": False}, ["Ja. Nein."]),
        ({"scores": True}, ["Ja. Nein."]),
        ({"n_best": 2, "split": True}, ["Ja.", "Nein."]),
    ):
        ask(server, "/translate", {"text": "Ja. Nein.", **more})
        assert sorted(itertools.chain(*model.batches)) == expected
        model.batches.clear()


def test_clients_of_libretranslate_are_answered(server, model):
    """By JSON, and by the form that libretranslatepy sends."""
    fields = {"q": "ein hund", "source": "de", "target": "en", "format": "text"}
    assert ask(server, "/translate", fields)[1] == {"translatedText": "EIN HUND"}
    fields = {"q": ["ein", "hund"], "target": "en", "alternatives": 1, "api_key": "x"}
    told = ask(server, "/translate", fields)[1]
    assert told["translatedText"] == ["EIN", "HUND"]
    assert told["alternatives"] == [["Ein"], ["Hund"]]
    assert [each["language"] for each in told["detectedLanguage"]] == ["de", "de"]
    body = urllib.parse.urlencode({"q": "größer & <b>", "source": "de", "target": "en"})
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    told = ask(server, "/translate", body=body, headers=form)[1]
    assert told == {"translatedText": "GRÖSSER & <B>"}
    for odd in (b"q=\xff&target=en", b"q=%ff&target=en", b"q", b"&" * 99):
        assert check_error(ask(server, "/translate", body=odd, headers=form))[0] == 400
    body = "q=ä&target=en&alternatives=1".encode()
    told = ask(server, "/translate", body=body, headers=form)[1]
    assert told["translatedText"] == "Ä" and told["alternatives"] == []  # each once
    fields = {"q": "Ja. Nein.", "target": "en", "alternatives": 3}
    told = ask(server, "/translate", fields)[1]
    assert told["translatedText"] == "JA. NEIN." and len(told["alternatives"]) == 1
    assert sorted(model.batches.pop()) == ["Ja.", "Nein."]
    assert ask(server, "/languages")[1] == [
        {"code": "de", "name": "de", "targets": ["en"]}
    ]


def test_the_languages_choose_the_model(model):
    other = Echo()
    other.languages = ("en", "de")
    with serve([model, other]) as server:
        ask(server, "/translate", {"q": "dog", "source": "en", "target": "de"})
        assert other.batches == [["dog"]] and model.batches == []


def shape(value):
    """The names and kinds of a JSON value; how many pairs an alignment has is free."""
    if isinstance(value, dict):
        return {
            name: list if name == "alignment" else shape(each)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [shape(each) for each in value]
    return type(value)


def examples():
    """(path, name, request, answer) of each example of the description."""
    for path, methods in json.loads(page_files.read_file("openapi.json"))[
        "paths"
    ].items():
        if "post" in methods:
            asked = methods["post"]["requestBody"]["content"]["application/json"]
            told = methods["post"]["responses"]["200"]["content"]["application/json"]
            for name, example in asked["examples"].items():
                wanted = told.get("examples", {}).get(name, {}).get("value")
                yield path, name, example["value"], wanted


@pytest.mark.parametrize("path, name, fields, wanted", list(examples()))
def test_the_examples_of_the_description_are_answered_so(
    server, path, name, fields, wanted
):
    status, told, _ = ask(server, path, fields)
    assert status == 200
    if wanted is not None:
        assert shape(told) == shape(wanted)


def shown_requests():
    """(command, answer) of each curl in docs/serving.md."""
    for _, block in blocks(read("docs/serving.md")):
        lines = re.sub(r"\\\n\s*", "", block).splitlines()
        for command, answer in zip(lines, lines[1:]):
            if command.startswith("curl "):
                yield command, json.loads(answer)


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl")
@pytest.mark.parametrize("command, wanted", list(shown_requests()))
def test_what_the_document_asks_is_answered_so(server, command, wanted):
    port = str(server.server_address[1])
    assert "127.0.0.1:8000/" in command
    told = subprocess.check_output(["bash", "-c", command.replace("8000", port)])
    assert shape(json.loads(told)) == shape(wanted)


def test_the_document_says_the_limits(model):
    text = read("docs/serving.md")
    for limit in (
        f"{requests.MAX_CHARACTERS:,} characters; {requests.MAX_PIECES} pieces",
        f"{requests.MAX_CHARACTERS_SPLIT:,} characters",
        f"{requests.MAX_BYTES >> 10} KiB, {requests.MAX_TEXTS} texts, "
        f"{requests.MAX_SENTENCES} sentences",
        f"{jobs.MAX_WAITING:,}; of the page, {jobs.MAX_WAITING_FOR_PAGE} |",
        f"{service.SECONDS_TO_SEND} seconds",
        f"| {service.SECONDS_TO_READ} seconds, and",
        f"{service.MAX_CONNECTIONS};",
        f"up to {jobs.MAX_BATCH_SIZE};",
    ):
        assert limit in text


def test_the_description_has_every_field_and_every_path(server):
    told = ask(server, "/openapi.json")[1]
    names = told["components"]["schemas"]["Texts"]["properties"]
    known = {"text", "model", "n_best", "scores", "alignments", "split"}
    assert set(names) == known
    for name in (*known, "other"):
        said = ask(server, "/translate", {"text": "x", name: None})[1]
        assert ("unknown" in json.dumps(said)) == (name == "other"), name
    for path, methods in told["paths"].items():
        for method in ("GET", "POST"):
            status = ask(server, path, method=method)[0]
            assert (status == 405) == (method.lower() not in methods), path


def test_metrics_and_one_line_a_request(server, caplog):
    with caplog.at_level(logging.INFO, "transformer.service"):
        ask(server, "/translate?secret=1", {"text": ["ein", "hund"]})
        ask(server, "/nothing%0aGET%1b")
        ask(server, "/healthz", headers={"X-Forwarded-For": "\x1b[31mx"})
        text = ask(server, "/metrics")[1]
    first, second, third = [each.getMessage() for each in caplog.records][:3]
    assert re.fullmatch(r"127\.0\.0\.1 POST /translate 200 \d+ ms", first)
    assert re.fullmatch(r"127\.0\.0\.1 GET /nothing%0aGET%1b 404 \d+ ms", second)
    assert third.startswith(r"\x1b[31mx GET /healthz 200 ")
    assert "\ntransformer_sentences_total 2.0\n" in text
    assert 'seconds_count{path="/translate",status="200"} 1.0' in text
    assert 'seconds_count{path="other",status="404"} 1.0' in text


def test_a_name_that_is_given_is_answered(model):
    with serve([model], host_names=["Translate.example.org"]) as server:
        host = {"Host": "translate.example.org:443"}
        assert ask(server, "/healthz", headers=host)[0] == 200
        origin = dict(host, Origin="https://translate.example.org:443")
        assert ask(server, "/translate", {"text": "x"}, origin)[0] == 200


def test_the_answers_are_those_of_the_translator(trained, digits):
    """Through HTTP: texts, scores and pairs of words, n best, in any batch."""
    model = Model(hparams.load(trained), trained)
    lines = corpora.read_lines(os.path.join(digits, "dev.de"))[:4] + [""]
    wanted = model.translator.translate(lines)
    assert model.languages == ("de", "en")
    with serve([model]) as server:
        fields = {"text": lines, "n_best": 2, "scores": True, "alignments": True}
        told = ask(server, "/translate", fields)[1]["translations"]
        [alone] = ask(server, "/translate", {"text": lines[1]})[1]["translations"]
    assert alone == {"text": wanted[1][0].text}
    for each, row in zip(told, wanted):
        both = [each, *each["alternatives"]]
        assert [one["text"] for one in both] == [one.text for one in row[:2]]
        scores = [one.score for one in row[:2]]
        assert [one["score"] for one in both] == pytest.approx(scores, abs=1e-4)
    chosen = alignment.default_head(model.translator.hp.decoder_blocks)
    assert told[4]["alignment"] == []
    best = [each["text"] for each in told[:4]]
    pairs = model.translator.align(lines[:4], best, [chosen])
    for number, each in enumerate(told[:4]):
        assert {tuple(pair) for pair in each["alignment"]} == pairs[number][0]
    model.close()


def test_without_the_extra_it_says_what_to_install(trained, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "transformer.serving.service", None)
    line = corpora.refusal(capsys, "serve", "--logdir", trained)
    assert "pip install 'transformer-tf[serve]'" in line


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
