"""The service: the queue, batches, clients that disconnect, shutdown; the interface."""

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
import time
import urllib.parse
import urllib.request

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


def start_clients(server, texts):
    """Threads that each translate a text, and their answers: {text: answer}."""
    answers = {}

    def translate(text):
        answers[text] = ask(server, "/translate", {"text": text})

    threads = [threading.Thread(target=translate, args=[text]) for text in texts]
    for thread in threads:
        thread.start()
    return threads, answers


def test_an_answer_does_not_wait_for_an_acknowledgement(server):
    """40 ms for each, where the head and the body are two packets."""
    assert server._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_sentence_is_translated(server):
    fields = {"text": " ein\nHund \t", "split": False}
    status, answer, _ = ask(server, "/translate", fields)
    assert (status, answer) == (200, {"translations": [{"text": "EIN HUND"}]})
    for path in ("/see", "/why_not"):  # a target is ids or text
        for target in ([5], "ein Hund"):
            request = {"text": "x", "target": target}
            assert ask(server, path, request)[1]["result"] == request
        long = {"text": "x", "target": "a " * 600}
        assert check_error(ask(server, path, long))[0] == 413
        sentence = check_error(ask(server, path, {"text": "x", "target": 5}))[1]
        assert sentence.startswith("Expected target to be a string")
    assert ask(server, "/training_pairs", {"text": "x"})[1]["result"] is None


def test_the_words_of_each_sentence_are_described_if_requested(server):
    fields = {"text": "ein Hund. Noch einer.", "words": True, "n_best": 2}
    [answer] = ask(server, "/translate", fields)[1]["translations"]
    assert answer["words"] == [{"word": "EIN HUND. NOCH EINER.", "probability": 0.5}]
    assert answer["unknown"] == [] and "words" not in answer["alternatives"][0]
    fields = {**fields, "split": True, "n_best": 1}
    [answer] = ask(server, "/translate", fields)[1]["translations"]
    words = [sentence["words"][0]["word"] for sentence in answer["sentences"]]
    assert words == ["EIN HUND.", "NOCH EINER."]


@pytest.mark.parametrize(
    ("path", "fields", "code", "values"),
    [
        ("/see", {"text": "a " * 300}, "too_many_pieces", [300, 256]),
        ("/see", {"text": "a" * 2001}, "too_many_characters", [2001, 2000]),
        ("/see", {"text": "a", "model": 1}, "no_model", None),
        ("/see", {"text": "a", "target": "b " * 600}, "too_many_target_pieces", None),
        ("/translate", {"text": "fail"}, "failed", None),
        ("/translate", {"text": 1}, None, None),
    ],
)
def test_errors_that_a_reader_may_meet_have_a_code(server, path, fields, code, values):
    _, answer, _ = ask(server, path, fields)
    assert answer.get("code") == code
    if values:
        assert answer["values"] == values


def translate_together(server, model, texts):
    """The answer for each text; all of them wait while another one is computed."""
    model.gate.clear()
    first, answers = start_clients(server, ["first"])
    model.begun.acquire()
    waiting, waiting_answers = start_clients(server, texts)
    corpora.wait_until(lambda: len(server.jobs) == len(texts))
    model.gate.set()
    for thread in first + waiting:
        thread.join(60)
    return {**answers, **waiting_answers}


def test_waiting_sentences_form_a_batch_and_each_client_gets_its_own(server, model):
    texts = [f"text {i}" for i in range(20)]
    answers = translate_together(server, model, texts)
    assert model.batches[0] == ["first"] and sorted(model.batches[1]) == sorted(texts)
    assert len(model.batches) == 2
    for text, (status, answer, _) in answers.items():
        assert status == 200 and answer["translations"] == [{"text": text.upper()}]


def test_threads_share_the_sentences_that_wait():
    """Both compute at the same time: neither passes the barrier alone."""
    both = threading.Barrier(2, timeout=60)
    sizes = []

    def work(arguments):
        both.wait()
        sizes.append(len(arguments))
        return arguments

    queue = jobs.Jobs(2)
    waiting = [Job(work, number, batched=True) for number in range(7)]
    queue.submit(waiting)
    assert [job.future.result(60) for job in waiting] == list(range(7))
    assert sorted(sizes) == [3, 4]
    queue.drain()


@pytest.mark.parametrize("share, sizes", [(1e6, [4, 4]), (0, [4, 1])])
def test_a_batch_waits_for_the_clients_of_the_one_before(monkeypatch, share, sizes):
    """But not for long: one of them may send nothing more."""
    monkeypatch.setattr(jobs, "SHARE_TO_GATHER", share)
    batches = []

    def work(arguments):
        batches.append(len(arguments))
        return arguments

    queue = jobs.Jobs()
    for sent in ([4], [1] * sizes[1]):
        waiting = []
        for number in sent:
            new = [Job(work, None, batched=True) for _ in range(number)]
            queue.submit(new)
            waiting += new
        for job in waiting:
            job.future.result(60)
    assert batches == sizes
    queue.drain()


def test_the_request_of_a_client_that_disconnects_is_not_computed(server, model):
    model.gate.clear()
    first, _ = start_clients(server, ["first"])
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


@pytest.mark.parametrize("num_requests", [1, 2])
def test_a_client_that_stops_sending_gets_its_answers(
    server, model, monkeypatch, num_requests
):
    """It has shut down one direction of the connection, as `nc -N` does."""
    monkeypatch.setattr(service, "SECONDS_TO_PROBE", 0.05)
    model.gate.clear()
    body = b'{"text": "x"}'
    request = (
        b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\n"
        b"Content-Type: application/json\r\n\r\n" + body
    )
    with socket.create_connection(server.server_address, timeout=60) as client:
        client.sendall(num_requests * request)
        client.shutdown(socket.SHUT_WR)
        model.begun.acquire()
        time.sleep(0.3)  # several probes
        model.gate.set()
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert answer.count(b"HTTP/1.1 200 ") == answer.count(b'"X"') == num_requests
    assert server.jobs.cancelled == 0


def test_a_sentence_that_fails_fails_alone(server, model):
    answers = translate_together(server, model, ["good", "fail", "fine"])
    assert [answers[text][0] for text in ("good", "fine")] == [200, 200]
    status, sentence = check_error(answers["fail"])
    assert status == 500 and "secret" not in sentence


def test_an_error_of_the_server_does_not_reveal_its_reason(server, model, caplog):
    model.count_pieces = lambda line: 1 // 0
    status, sentence = check_error(ask(server, "/translate", {"text": "x"}))
    assert (status, sentence) == (500, "The server failed.")
    corpora.wait_until(lambda: "ZeroDivisionError" in caplog.text)  # for who runs it
    assert ask(server, "/healthz")[0] == 200


def test_drain_finishes_the_waiting_jobs_and_accepts_no_more(model):
    with serve([model]) as server:
        model.gate.clear()
        begun, answers = start_clients(server, ["begun"])
        model.begun.acquire()
        waiting, waiting_answers = start_clients(server, ["waiting"])
        corpora.wait_until(lambda: len(server.jobs) == 1)
        draining = threading.Thread(target=server.drain)
        draining.start()
        corpora.wait_until(lambda: server.jobs._is_stopping)
        with pytest.raises(QueueClosed):
            server.jobs.submit([Job(model.translate, None)])
        model.gate.set()
        for thread in [*begun, *waiting, draining]:
            thread.join(60)
        assert answers["begun"][0] == waiting_answers["waiting"][0] == 200
        with pytest.raises(OSError):
            ask(server, "/healthz")
        server.drain = lambda: None  # it is drained already


def test_drain_waits_for_every_accepted_request_and_says_how_long(
    model, monkeypatch, caplog
):
    """However long they take: the limit is for clients that do not read."""
    monkeypatch.setattr(service, "SECONDS_TO_STOP", 0.2)
    monkeypatch.setattr(jobs, "MAX_BATCH_SIZE", 1)
    texts = [f"text {i}" for i in range(6)]
    all_accepted = threading.Event()

    def translate(requests):
        all_accepted.wait(60)
        time.sleep(0.4)
        return Echo.translate(model, requests)

    model.translate = translate
    with serve([model]) as server:
        threads, answers = start_clients(server, texts)
        corpora.wait_until(lambda: len(server.jobs) == 5)  # one is being translated
        all_accepted.set()
        corpora.wait_until(lambda: len(server.jobs) == 4)
        with caplog.at_level(logging.INFO, "transformer.service"):
            server.drain()
        for thread in threads:
            thread.join(60)
    assert [answers[text][0] for text in texts] == [200] * 6
    [line] = [line for line in caplog.messages if line.startswith("stopping")]
    sentences, seconds = map(int, re.findall(r"\d+", line))
    assert sentences == 4 and 2 <= seconds <= 3


def test_a_stopping_server_closes_the_connection_of_a_rejected_request(server):
    """A client that keeps it would delay the end of the server."""
    server.jobs.close()
    answer = ask(server, "/translate", {"text": "x"})
    assert check_error(answer)[0] == 503 and answer[2]["Connection"] == "close"


def test_health_and_models(server):
    ask(server, "/translate", {"text": "x"})
    answer = ask(server, "/healthz")[1]
    assert answer == {"status": "ok", "waiting": 0, "computed": 1, "batches": 1}
    assert ask(server, "/models")[1]["models"][0]["name"] == "echo"


@pytest.mark.parametrize(
    "status, fields",
    [
        (400, {}),
        (400, {"text": 5}),
        (400, {"text": "x", "other": 1}),
        (400, {"text": "x", "n_best": 3}),
        (400, {"q": "x", "target": "fr"}),
        (400, {"q": "<b>x</b>", "target": "en", "format": "html"}),
        (400, {"q": "x", "target": "en", "text": "x"}),
        (400, []),
        (413, {"text": "x" * (requests.MAX_CHARACTERS + 1)}),
        (413, {"text": ["x"] * (requests.MAX_TEXTS + 1)}),
        (413, {"text": "x" * requests.MAX_BYTES}),
    ],
    ids=lambda value: str(value)[:60],
)
def test_invalid_requests_are_rejected_in_one_sentence(server, status, fields):
    assert check_error(ask(server, "/translate", fields))[0] == status


@pytest.mark.parametrize(
    "fields",
    [{"prefix": ["a"]}, {"target": [1] * 2000}, {"padding": 17}, {"scores": True}],
    ids=lambda value: str(value)[:60],
)
def test_invalid_requests_of_the_page_are_rejected(server, fields):
    assert check_error(ask(server, "/see", {"text": "x", **fields}))[0] == 400


def test_the_error_of_the_model_is_shown(server):
    assert "no piece" in check_error(ask(server, "/see", {"text": ""}))[1]


def test_a_full_queue_says_when_to_return(server, monkeypatch):
    monkeypatch.setattr("transformer.serving.jobs.MAX_WAITING", 1)
    answer = ask(server, "/translate", {"text": ["x", "y"]})
    status, sentence = check_error(answer)
    assert status == 429 and "busy" in sentence and int(answer[2]["Retry-After"]) >= 1
    assert ask(server, "/translate", {"text": ["x"]})[0] == 200


@pytest.mark.slow
def test_retry_after_is_the_time_until_there_is_room(server, model, monkeypatch):
    monkeypatch.setattr(jobs, "MAX_WAITING", 4)
    monkeypatch.setattr(jobs, "MAX_BATCH_SIZE", 2)
    monkeypatch.setattr(model, "inspect", lambda _: time.sleep(1.5) or [{}])
    ask(server, "/see", {"text": "x"})  # the time of the page does not count

    def translate(requests):
        time.sleep(1.1)
        return Echo.translate(model, requests)

    model.translate = translate
    ask(server, "/translate", {"text": "x"})
    threads, _ = start_clients(server, ["a"])
    corpora.wait_until(lambda: any(worker.start for worker in server.jobs._workers))
    more, _ = start_clients(server, ["b", "c", "d", "e"])
    corpora.wait_until(lambda: len(server.jobs) == 4)
    start = time.monotonic()
    for num_texts, num_waiting in ((2, 2), (4, 0)):
        status, _, headers = ask(server, "/translate", {"text": ["x"] * num_texts})
        assert status == 429
        corpora.wait_until(lambda number=num_waiting: len(server.jobs) == number)
        seconds = time.monotonic() - start
        seconds_said = int(headers["Retry-After"])
        assert seconds_said - 1.2 <= seconds <= seconds_said
        start = time.monotonic()
    for thread in threads + more:
        thread.join(60)


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


def start_inspection(server):
    """A thread that sends the request of the page."""
    thread = threading.Thread(target=ask, args=[server, "/see", {"text": "x"}])
    thread.start()
    return thread


def test_the_page_has_a_lower_limit_so_that_translations_are_accepted(
    server, slow_page, monkeypatch
):
    monkeypatch.setattr("transformer.serving.jobs.MAX_WAITING_FOR_PAGE", 1)
    begun, end = slow_page
    threads = [start_inspection(server)]
    begun.acquire()
    threads.append(start_inspection(server))
    corpora.wait_until(lambda: len(server.jobs) == 1)
    assert check_error(ask(server, "/see", {"text": "x"}))[0] == 429
    assert ask(server, "/translate", {"text": "x"})[0] == 200
    end.set()
    for thread in threads:
        thread.join(60)


def test_translations_do_not_wait_for_the_page(server, slow_page):
    begun, end = slow_page
    seeing = start_inspection(server)
    begun.acquire()
    for text in ("first", "second"):
        status, answer, _ = ask(server, "/translate", {"text": text})
        assert (status, answer["translations"][0]["text"]) == (200, text.upper())
    assert seeing.is_alive()
    end.set()
    seeing.join(60)


def test_the_page_does_not_wait_for_translations(server, model):
    model.gate.clear()
    begun, _ = start_clients(server, ["begun"])
    model.begun.acquire()
    assert ask(server, "/see", {"text": "x"})[0] == 200
    model.gate.set()
    begun[0].join(60)


# The interface


def test_a_list_of_texts_gets_a_list_of_translations(server):
    fields = {"text": ["ein", "der hund"], "n_best": 2, "scores": True}
    answer = ask(server, "/translate", dict(fields, alignments=True))[1]
    assert answer["translations"][1] == {
        "text": "DER HUND",
        "score": -1.0,
        "alignment": [[0, 0]],
        "alternatives": [{"text": "Der Hund", "score": -2.0, "alignment": [[0, 0]]}],
    }
    assert [translation["text"] for translation in answer["translations"]] == [
        "EIN",
        "DER HUND",
    ]
    assert ask(server, "/translate", {"text": []})[1] == {"translations": []}


def test_a_paragraph_is_translated_sentence_by_sentence(model):
    text = "Ein Hund schläft. Dr. Bach\tkommt!\n\nJa."
    with serve([model], split=True) as server:
        answer = ask(server, "/translate", {"text": text})[1]
        assert answer == {
            "translations": [{"text": "EIN HUND SCHLÄFT. DR. BACH KOMMT!\n\nJA."}]
        }
        assert sorted(model.batches.pop()) == sorted(
            ["Ein Hund schläft.", "Dr. Bach kommt!", "Ja."]
        )
        fields = {"text": "Ja. Nein.", "scores": True}
        answer = ask(server, "/translate", fields)[1]["translations"][0]["sentences"]
        assert answer[1] == {"source": "Nein.", "text": "NEIN.", "score": -1.0}
        answer = ask(server, "/translate", dict(fields, split=False))[1]
        assert answer["translations"] == [{"text": "JA. NEIN.", "score": -1.0}]


def test_spaces_between_sentences_are_those_of_the_target_language(model):
    pytest.importorskip("sentencex")
    model.languages = ("zh", "en")
    with serve([model]) as server:
        fields = {"text": "你好。Ja！\n再见。"}
        answer = ask(server, "/translate", fields)[1]
        assert answer == {"translations": [{"text": "你好。 JA！\n再见。"}]}
        answer = ask(server, "/translate", {"q": "你好。再见。", "target": "en"})[1]
        assert answer["translatedText"] == "你好。 再见。"


def test_a_translation_cut_at_its_length_limit_is_marked(server):
    texts = ["Ja. Endlos: endless.", "Ja."]
    answer = ask(server, "/translate", {"text": texts})[1]["translations"]
    assert answer[0]["truncated"] and "truncated" not in answer[1]
    fields = {"text": texts[0], "scores": True}
    [whole] = ask(server, "/translate", fields)[1]["translations"]
    [parts] = ask(server, "/translate", dict(fields, split=True))[1]["translations"]
    assert whole["truncated"] and parts["truncated"]
    assert ["truncated" in sentence for sentence in parts["sentences"]] == [False, True]
    for q, truncated in ((texts, [True, False]), (texts[0], True)):
        answer = ask(server, "/translate", {"q": q, "target": "en"})[1]
        assert answer["truncated"] == truncated
    answer = ask(server, "/translate", {"q": "Ja.", "target": "en"})[1]
    assert "truncated" not in answer


def test_soft_hyphens_and_marks_of_direction_are_removed(server, model):
    text = "\ufeffEin Hu\u00adnd.\u200e Ja\u2060."
    ask(server, "/translate", {"text": text})
    assert sorted(model.batches.pop()) == ["Ein Hund.", "Ja."]


def test_texts_are_split_unless_the_answer_belongs_to_a_sentence(server, model):
    for options, expected in (
        ({}, ["Ja.", "Nein."]),
        ({"split": False}, ["Ja. Nein."]),
        ({"scores": True}, ["Ja. Nein."]),
        ({"n_best": 2, "split": True}, ["Ja.", "Nein."]),
    ):
        ask(server, "/translate", {"text": "Ja. Nein.", **options})
        assert sorted(itertools.chain(*model.batches)) == expected
        model.batches.clear()


def test_clients_of_libretranslate_are_answered(server, model):
    """By JSON, and by the form that libretranslatepy sends."""
    fields = {"q": "ein hund", "source": "de", "target": "en", "format": "text"}
    assert ask(server, "/translate", fields)[1] == {"translatedText": "EIN HUND"}
    fields = {"q": ["ein", "hund"], "target": "en", "alternatives": 1, "api_key": "x"}
    answer = ask(server, "/translate", fields)[1]
    assert answer["translatedText"] == ["EIN", "HUND"]
    assert answer["alternatives"] == [["Ein"], ["Hund"]]
    assert [language["language"] for language in answer["detectedLanguage"]] == [
        "de",
        "de",
    ]
    body = urllib.parse.urlencode({"q": "größer & <b>", "source": "de", "target": "en"})
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = ask(server, "/translate", body=body, headers=form)[1]
    assert answer == {"translatedText": "GRÖSSER & <B>"}
    for invalid in (b"q=\xff&target=en", b"q=%ff&target=en", b"q", b"&" * 99):
        assert (
            check_error(ask(server, "/translate", body=invalid, headers=form))[0] == 400
        )
    body = "q=ä&target=en&alternatives=1".encode()
    answer = ask(server, "/translate", body=body, headers=form)[1]
    assert (
        answer["translatedText"] == "Ä" and answer["alternatives"] == []
    )  # none differs
    fields = {"q": "Ja. Nein.", "target": "en", "alternatives": 3}
    answer = ask(server, "/translate", fields)[1]
    assert answer["translatedText"] == "JA. NEIN." and len(answer["alternatives"]) == 1
    assert sorted(model.batches.pop()) == ["Ja.", "Nein."]
    assert ask(server, "/languages")[1] == [
        {"code": "de", "name": "German", "targets": ["de", "en"]},
        {"code": "en", "name": "English", "targets": ["en"]},
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
            name: list if name == "alignment" else shape(item)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [shape(item) for item in value]
    return type(value)


def examples():
    """(path, name, request, answer) of each example of the description."""
    for path, methods in json.loads(page_files.read_file("openapi.json"))[
        "paths"
    ].items():
        if "post" in methods:
            requests = methods["post"]["requestBody"]["content"]["application/json"]
            answers = methods["post"]["responses"]["200"]["content"]["application/json"]
            for name, example in requests["examples"].items():
                expected = answers.get("examples", {}).get(name, {}).get("value")
                yield path, name, example["value"], expected


@pytest.mark.parametrize("path, name, fields, expected", list(examples()))
def test_the_examples_of_the_openapi_document(server, path, name, fields, expected):
    status, answer, _ = ask(server, path, fields)
    assert status == 200
    if expected is not None:
        assert shape(answer) == shape(expected)


def documented_requests():
    """(command, answer) of each curl in docs/serving.md."""
    for _, block in blocks(read("docs/serving.md")):
        lines = re.sub(r"\\\n\s*", "", block).splitlines()
        for command, answer in zip(lines, lines[1:]):
            if command.startswith("curl "):
                yield command, json.loads(answer)


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl")
@pytest.mark.parametrize("command, expected", list(documented_requests()))
def test_the_examples_of_the_documentation(server, command, expected):
    port = str(server.server_address[1])
    assert "127.0.0.1:8000/" in command
    answer = subprocess.check_output(["bash", "-c", command.replace("8000", port)])
    assert shape(json.loads(answer)) == shape(expected)


def test_the_documentation_states_the_limits():
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


def test_the_openapi_document_has_every_field_and_every_path(server):
    openapi = ask(server, "/openapi.json")[1]
    names = openapi["components"]["schemas"]["Texts"]["properties"]
    expected = {"text", "model", "n_best", "scores", "alignments", "words", "split"}
    assert set(names) == expected

    def schema_of(path):
        body = openapi["paths"][path]["post"]["requestBody"]
        return body["content"][requests.JSON]["schema"]

    for kind, schema in (
        (requests.Texts, openapi["components"]["schemas"]["Texts"]),
        (requests.LibreTranslate, openapi["components"]["schemas"]["LibreTranslate"]),
        (requests.See, schema_of("/see")),
        (requests.Words, schema_of("/words")),
        (requests.Head, schema_of("/head")),
        (requests.Ablate, schema_of("/ablate")),
        (requests.Alone, schema_of("/ablate_each")),
        (requests.Alone, schema_of("/leave_out")),
        (requests.WhyNot, schema_of("/why_not")),
        (requests.TestSentences, schema_of("/test_sentences")),
        (requests.TrainingPairs, schema_of("/training_pairs")),
    ):
        assert set(kind.__struct_fields__) == set(schema["properties"])
        required = {
            field.name
            for field in requests.msgspec.structs.fields(kind)
            if field.required
        }
        assert required == set(schema.get("required", []))
    for name in (*expected, "other"):
        answer = ask(server, "/translate", {"text": "x", name: None})[1]
        assert ("unknown" in json.dumps(answer)) == (name == "other"), name
    for path, statuses in (
        ("/translate", "200 400 403 413 415 421 429 500 503"),
        ("/see", "200 400 403 413 415 421 429 500 503"),
        ("/leave_out", "200 400 403 413 415 421 429 500 503"),
        ("/words", "200 400 403 413 415 421 429 500 503"),
        ("/detect", "200 400 403 413 415 421"),
    ):
        assert list(openapi["paths"][path]["post"]["responses"]) == statuses.split()
    for path in {
        path for path, methods in openapi["paths"].items() if "get" in methods
    }:
        assert list(openapi["paths"][path]["get"]["responses"]) == ["200", "421"]
        assert ask(server, path, headers={"Host": "example.org"})[0] == 421
    for path, methods in openapi["paths"].items():
        for method in ("GET", "POST"):
            status = ask(server, path, method=method)[0]
            assert (status == 405) == (method.lower() not in methods), path


def test_each_operation_has_a_name_for_generated_clients(server):
    openapi = ask(server, "/openapi.json")[1]
    names = [
        operation["operationId"]
        for methods in openapi["paths"].values()
        for operation in methods.values()
    ]
    assert all(name.isidentifier() for name in names)
    assert len(set(names)) == len(names)
    [address] = [item["url"] for item in openapi["servers"]]
    assert ask(server, address + "models")[0] == 200


def test_metrics_and_one_line_a_request(server, caplog):
    with caplog.at_level(logging.INFO, "transformer.service"):
        ask(server, "/translate?secret=1", {"text": ["ein", "hund"]})
        ask(server, "/nothing%0aGET%1b")
        ask(server, "/healthz", headers={"X-Forwarded-For": "\x1b[31mx"})
        text = ask(server, "/metrics")[1]
    first, second, third = [record.getMessage() for record in caplog.records][:3]
    assert re.fullmatch(r"127\.0\.0\.1 POST /translate 200 \d+ ms", first)
    assert re.fullmatch(r"127\.0\.0\.1 GET /nothing%0aGET%1b 404 \d+ ms", second)
    assert third.startswith(r"\x1b[31mx GET /healthz 200 ")
    assert "\ntransformer_sentences_total 2.0\n" in text
    assert 'seconds_count{path="/translate",status="200"} 1.0' in text
    assert 'seconds_count{path="other",status="404"} 1.0' in text


def test_a_server_name_is_answered(model):
    with serve([model], host_names=["Translate.example.org"]) as server:
        host = {"Host": "translate.example.org:443"}
        assert ask(server, "/healthz", headers=host)[0] == 200
        origin = dict(host, Origin="https://translate.example.org:443")
        assert ask(server, "/translate", {"text": "x"}, origin)[0] == 200


def test_the_answers_equal_those_of_the_translator(trained, digits):
    """Through HTTP: texts, scores and pairs of words, n best, in any batch."""
    model = Model(hparams.load(trained), trained)
    lines = corpora.read_lines(os.path.join(digits, "dev.de"))[:4] + [""]
    expected = model.translator.translate(lines)
    assert model.languages == ("de", "en")
    with serve([model]) as server:
        fields = {"text": lines, "n_best": 2, "scores": True, "alignments": True}
        answer = ask(server, "/translate", fields)[1]
        assert "often wrong" in answer["warning"]  # no head was chosen
        answer = answer["translations"]
        [alone] = ask(server, "/translate", {"text": lines[1]})[1]["translations"]
    assert alone == {"text": expected[1][0].text}
    for translation, n_best in zip(answer, expected):
        translations = [translation, *translation["alternatives"]]
        assert [item["text"] for item in translations] == [
            item.text for item in n_best[:2]
        ]
        scores = [item.score for item in n_best[:2]]
        assert [item["score"] for item in translations] == pytest.approx(
            scores, abs=1e-4
        )
    chosen = alignment.default_head(model.translator.hp.decoder_blocks)
    assert answer[4]["alignment"] == []
    best = [translation["text"] for translation in answer[:4]]
    pairs = model.translator.align(lines[:4], best, [chosen])
    for i, translation in enumerate(answer[:4]):
        assert {tuple(pair) for pair in translation["alignment"]} == pairs[i][0]
    model.close()


def test_without_the_extra_the_error_says_what_to_install(trained, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "transformer.serving.service", None)
    line = corpora.refusal(capsys, "serve", "--logdir", trained)
    assert "pip install 'transformer-tf[serve]'" in line


@pytest.mark.slow
def test_sigterm_ends_the_command_with_status_0(trained):
    command = [sys.executable, "scripts/serve.py", "--logdir", trained, "--port", "0"]
    process = subprocess.Popen(
        [*command, "--docs", "https://docs.example"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": ROOT},
    )
    line = process.stdout.readline().decode()
    assert line.startswith("http://127.0.0.1:")
    page = urllib.request.urlopen(line.strip()).read()
    assert b'"docs": "https://docs.example"' in page
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def test_short_requests_are_computed_before_long_ones(server, model, monkeypatch):
    order, gate = [], threading.Event()

    def inspect(requests):
        order.append(requests[0].text)
        assert gate.wait(60)
        return [{}]

    monkeypatch.setattr(model, "inspect", inspect)
    texts = ["first", "long " * 60, "short", "middle " * 9]
    threads = []
    for i, text in enumerate(texts):
        threads.append(
            threading.Thread(target=ask, args=(server, "/see", {"text": text}))
        )
        threads[-1].start()
        is_there = lambda i=i: len(server.jobs) + len(order) == i + 1  # noqa: E731
        corpora.wait_until(is_there)
    gate.set()
    for thread in threads:
        thread.join(60)
    assert [text.split()[0] for text in order] == ["first", "short", "middle", "long"]


def test_a_long_request_is_not_overtaken_forever(server, model, monkeypatch):
    monkeypatch.setattr(jobs, "SECONDS_AHEAD", {True: 0.0, False: 0.0})
    model.gate.clear()
    first, _ = start_clients(server, ["first"])
    model.begun.acquire()
    monkeypatch.setattr(jobs, "MAX_BATCH_SIZE", 2)
    bulk = threading.Thread(
        target=ask, args=(server, "/translate", {"text": ["a", "b", "c"]})
    )
    bulk.start()
    corpora.wait_until(lambda: len(server.jobs) == 3)
    late, _ = start_clients(server, ["late"])
    corpora.wait_until(lambda: len(server.jobs) == 4)
    model.gate.set()
    for thread in (*first, bulk, *late):
        thread.join(60)
    assert model.batches == [["first"], ["a", "b"], ["c", "late"]]


def test_words_are_left_out_on_request(server):
    fields = {"text": "x", "target": [5, 6]}
    status, answer, _ = ask(server, "/leave_out", fields)
    assert status == 200 and answer == {"result": [[-1.0, -1.0]]}
    check_error(ask(server, "/leave_out", {"text": "x"}))


def test_the_words_for_a_place_are_listed(server):
    fields = {"text": "x", "target": [5, 6], "word": 1}
    status, answer, _ = ask(server, "/words", fields)
    assert status == 200 and answer == {"result": [{"word": "1"}]}
    for wrong in ({"word": -1}, {"word": None}, {"target": None}):
        assert check_error(ask(server, "/words", {**fields, **wrong}))[0] == 400


def test_heads_are_read_and_switched_off_on_request(server):
    head = {"text": "x", "kind": "cross", "layer": 0, "head": 1}
    status, answer, _ = ask(server, "/head", head)
    assert status == 200 and answer == {"result": {"heads": [["cross", 0, 1]]}}
    fields = {"text": "x", "heads": [["cross", 0, 1]], "target": [5]}
    status, answer, _ = ask(server, "/ablate", fields)
    assert status == 200 and answer["result"]["score"] == -2.0
    status, answer, _ = ask(server, "/ablate_each", {"text": "x", "target": [5]})
    assert status == 200 and set(answer["result"]) == {"encoder", "decoder", "cross"}
    for path, wrong, sentence in (
        ("/head", {**head, "layer": -1}, "Expected layer to be a whole number >= 0."),
        ("/ablate", {"text": "x"}, "The field heads is missing."),
        (
            "/ablate",
            {"text": "x", "heads": [["cross", 0]]},
            "Expected heads[0] to be a list of length 3, got 2.",
        ),
        ("/ablate_each", {"text": "x"}, "The field target is missing."),
    ):
        assert check_error(ask(server, path, wrong)) == (400, sentence)
