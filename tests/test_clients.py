"""Clients of LibreTranslate, as their authors released them, and its fields."""

import asyncio
import glob
import gzip
import json
import os
import re
import shutil
import subprocess

import pytest
from serving import Echo, ask, check_error, connect, serve, url

from transformer.serving import requests

NPM_PACKAGE = "libretranslate@1.0.1"
FORM = {"Content-Type": requests.FORM}
BOUNDARY = "----WebKitFormBoundary7MA4YWxk"
MULTIPART = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
TEXT = "größer & <b>"


@pytest.fixture
def model():
    return Echo()


@pytest.fixture
def server(model):
    with serve([model]) as server:
        yield server


def test_deep_translator(server):
    """It sends the fields in the query of a POST without a body."""
    deep_translator = pytest.importorskip("deep_translator")
    client = deep_translator.LibreTranslator(
        source="de", target="en", api_key="x", custom_url=url(server)
    )
    assert client.translate(TEXT) == TEXT.upper()
    assert client.translate_batch(["ein", "hund"]) == ["EIN", "HUND"]


def test_quart_libretranslate(server):
    quart = pytest.importorskip("quart")
    quart_libretranslate = pytest.importorskip("quart_libretranslate")
    app = quart.Quart("test")
    quart_libretranslate.LibreTranslate(app, url(server), "key")

    async def call():
        async with app.app_context():
            answer = await quart_libretranslate.translate(TEXT, "de", "en")
            languages = await quart_libretranslate.languages()
            detected = await quart_libretranslate.detect(TEXT)
            with pytest.raises(quart_libretranslate.ApiError, match="only de to en"):
                await quart_libretranslate.translate(TEXT, "de", "fr")
        return answer, [language["code"] for language in languages], detected

    assert asyncio.run(call()) == (
        {"translatedText": TEXT.upper()},
        ["de", "en"],
        [{"language": "de", "confidence": 0}],
    )


def test_libretranslate_aio(server):
    """Its list of texts is a repeated q, of which LibreTranslate translates one."""
    libretranslate_aio = pytest.importorskip("libretranslate_aio")
    with libretranslate_aio.LibreTranslate(url(server), api_key="key") as client:
        translation = client.translate(TEXT, "auto", "en", alternatives=1)
        assert translation.translated_text == TEXT.upper()
        assert translation.alternatives == [TEXT.title()]
        assert translation.detected_language.language == "de"
        texts = [f"text {i}" for i in range(100)]
        translations = client.translate(texts, "de", "en").translated_text
        assert translations == [text.upper() for text in texts]
        assert [language.name for language in client.languages()] == [
            "German",
            "English",
        ]
        assert client.detect(TEXT)[0].language == "de"
        assert client.health()
        settings = client.frontend_settings()
        assert (settings.language.source.code, settings.key_required) == ("de", False)
        with pytest.raises(libretranslate_aio.BadRequestError, match="format"):
            client.translate(TEXT, "de", "en", format="html")


def pack_npm_client(folder):
    """Download and unpack the client of npm; skip the test where this fails."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("node or npm is missing")
    try:
        subprocess.run(
            ["npm", "pack", NPM_PACKAGE, "--silent"],
            cwd=folder,
            check=True,
            capture_output=True,
            timeout=120,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"npm cannot download {NPM_PACKAGE}: {error}")
    [archive] = glob.glob(os.path.join(str(folder), "*.tgz"))
    shutil.unpack_archive(archive, str(folder))
    return os.path.join(str(folder), "package", "dist", "translate.js")


def test_the_client_of_npm(server, tmp_path):
    """It refuses a target that is not a code of /languages, and sends `apiKey`."""
    path = pack_npm_client(tmp_path)
    fields = {"query": TEXT, "source": "de", "target": "en", "apiurl": url(server)[:-1]}
    script = (
        f"require({json.dumps(path)}).translate({json.dumps(fields)})"
        ".then(text => console.log(text))"
    )
    result = subprocess.run(
        ["node", "-e", script], capture_output=True, text=True, timeout=60
    )
    assert result.stdout.rstrip("\n") == TEXT.upper(), result.stderr


def make_multipart(fields, name='form-data; name="{}"'):
    """The body that a browser sends for FormData."""
    parts = [
        f"--{BOUNDARY}\r\nContent-Disposition: {name.format(field)}\r\n\r\n{value}\r\n"
        for field, value in fields
    ]
    return ("".join(parts) + f"--{BOUNDARY}--\r\n").encode()


def test_the_page_of_libretranslate(server):
    """app.js of version 1.9.6 sends multipart/form-data."""
    fields = [("q", "ein\r\nhund"), ("source", "auto"), ("target", "en")]
    fields += [("format", "text"), ("alternatives", "3"), ("api_key", "")]
    body = make_multipart([*fields, ("secret", "x")])
    status, answer, _ = ask(server, "/translate", headers=MULTIPART, body=body)
    assert (status, answer["translatedText"]) == (200, "EIN\nHUND")
    assert answer["alternatives"] == ["Ein\nHund"]
    settings = ask(server, "/frontend/settings")[1]
    assert settings["charLimit"] == requests.MAX_CHARACTERS_SPLIT
    assert settings["supportedFilesFormat"] == []


GOOD = make_multipart([("q", "x"), ("target", "en")])


@pytest.mark.parametrize(
    "headers, body",
    [
        (MULTIPART, GOOD[:-9]),  # without its end
        (MULTIPART, b""),
        (MULTIPART, GOOD.replace(b"; name=", b"; nam=")),
        (MULTIPART, GOOD.replace(b"x", b"\xff")),
        (MULTIPART, make_multipart([("q", "x")] * 200)),
        (MULTIPART, make_multipart([("q", "x")], 'form-data; name="q"; filename="f"')),
        ({"Content-Type": "multipart/form-data"}, GOOD),
        ({"Content-Type": 'multipart/form-data; boundary=""'}, GOOD),
    ],
    ids=range(8),
)
def test_what_is_not_multipart_is_rejected(server, headers, body):
    answer = ask(server, "/translate", headers=headers, body=body)
    assert check_error(answer)[0] == 400


@pytest.mark.parametrize(
    "fields",
    [
        {"format": None},
        {"format": "html"},
        {"alternatives": "0", "source": None},
        {"source": "DE", "target": "EN"},
        {"source": "", "format": "", "alternatives": -1},
        {"apiKey": "x", "secret": "x", "sourc": "de"},
    ],
    ids=str,
)
def test_what_libretranslate_accepts_is_accepted(server, fields):
    fields = {"q": "ein hund", "target": "en", "source": "de", **fields}
    assert ask(server, "/translate", fields)[1]["translatedText"] == "EIN HUND"


@pytest.mark.parametrize(
    "path, headers, encoding",
    [
        ("//translate", {}, "utf-8"),
        ("/translate", {"Content-Type": "application/vnd.api+json"}, "utf-8"),
        ("/translate", {"Content-Encoding": "identity"}, "utf-8"),
        ("/translate", {}, "utf-8-sig"),  # with a byte order mark
        ("/translate", {}, "utf-16"),
    ],
)
def test_requests_as_libretranslate_understands_them(server, path, headers, encoding):
    body = json.dumps({"q": TEXT, "source": "de", "target": "en"}, ensure_ascii=False)
    answer = ask(server, path, headers=headers, body=body.encode(encoding))
    assert answer[1] == {"translatedText": TEXT.upper()}


def test_only_the_paths_of_libretranslate_may_have_more_slashes(server):
    """A proxy may protect other paths, as /metrics in docs/serving.md."""
    for path in ("/metrics", "/models", "/"):
        assert ask(server, path)[0] == 200
        assert ask(server, "/" + path)[0] == 404
    assert ask(server, "///languages")[0] == 200


def test_empty_fields_of_a_form_are_ignored(server):
    """But what stands after an "&" in a text is not lost silently."""
    answer = ask(server, "/translate?target=en&", body="&q=a&&x=&", headers=FORM)
    assert answer[1]["translatedText"] == "A"
    answer = ask(server, "/translate", body="q=a&b&target=en", headers=FORM)
    assert check_error(answer)[0] == 400


@pytest.mark.parametrize("source", ["zh", "zh-Hans"])
@pytest.mark.parametrize("code", ["zh", "ZH-hans"])
def test_both_codes_of_a_language_name_it(model, source, code):
    model.languages = (source, "en")
    with serve([model]) as server:
        fields = {"q": "x", "source": code, "target": "en"}
        assert ask(server, "/translate", fields)[1] == {"translatedText": "X"}


def test_html_without_markup_is_text(server):
    """Clients ask for HTML by default, and LibreTranslate's page for "a < b > c"."""
    fields = {"target": "en", "format": "html"}
    answer = ask(server, "/translate", {"q": "a < b > c & d", **fields})
    assert answer[1]["translatedText"] == "A < B > C & D"
    for markup in ("<b>x", "x</P>", "<!-- x -->", "a &amp; b", "&#228;"):
        status, sentence = check_error(
            ask(server, "/translate", {"q": ["x", markup], **fields})
        )
        assert status == 400 and "markup" in sentence


@pytest.mark.parametrize("language", ["de", "EN"])
@pytest.mark.parametrize("q", ["ein  Hund\n", ["ein", "Hund"]], ids=str)
def test_a_text_in_the_target_language_is_returned(server, model, language, q):
    fields = {"q": q, "source": language, "target": language, "alternatives": 1}
    copies = [[], []] if isinstance(q, list) else []
    answer = ask(server, "/translate", fields)[1]
    assert answer == {"translatedText": q, "alternatives": copies}
    assert model.batches == []


def test_errors_name_the_field(server):
    for fields, name in (
        ({"source": "de", "target": "en"}, " q "),
        ({"q": "x", "source": "de"}, " target "),
        ({"q": "x", "target": "en", "n_best": 2}, " n_best"),
        ({"text": "x", "source": "de"}, "'source'"),
        ({"txt\n`": "x"}, r"'txt\n`'"),
    ):
        status, sentence = check_error(ask(server, "/translate", fields))
        assert status == 400 and name in sentence
    assert check_error(ask(server, "/detect", {}))[0] == 400


VALUES = (None, -1, 1.5, True, "x", [], [5], [None], [1] * 600, {}, 10**4)


@pytest.mark.parametrize(
    "kind", [requests.See, requests.Texts, requests.Detect, requests.LibreTranslate]
)
def test_errors_are_in_the_words_of_json(kind):
    """Not those of Python or of the library that checks the fields."""
    required = {"target": "en"} if kind is requests.LibreTranslate else {}
    for name in set(kind.__struct_fields__) & {"q", "text"}:
        required[name] = "x"
    sentences = []
    for name in kind.__struct_fields__:
        for value in VALUES:
            try:
                requests._convert({**required, name: value}, kind)
            except requests.RequestError as error:
                sentences.append(str(error))
    assert sentences
    for sentence in sentences:
        assert re.match(r"Expected \w+(\[0\])? to be .*\.", sentence)
        assert not re.search(r"[`$]|\b(str|int|float|bool|array|None)\b", sentence)
    if kind is requests.Texts:
        expected = "Expected text to be a string or a list, got null."
        assert expected in sentences


def test_every_q_of_a_form_is_translated(server):
    answer = ask(server, "/translate", body="q=a&target=en&q=b&target=x", headers=FORM)
    assert answer[1]["translatedText"] == ["A", "B"]
    body = "&".join(["q=x"] * requests.MAX_TEXTS + ["target=en", "source=de"])
    answer = ask(server, "/translate", body=body, headers=FORM)[1]
    assert len(answer["translatedText"]) == requests.MAX_TEXTS


def test_the_query_has_fields_of_a_form_only(server):
    path = "/translate?q=x&target=en"
    answer = ask(server, path, body="", headers={"Content-Type": "text/plain"})
    assert answer[1]["translatedText"] == "X"
    answer = ask(server, "/translate?q=x", body="target=en", headers=FORM)
    assert answer[1]["translatedText"] == "X"
    assert ask(server, path, {"text": "y"})[1] == {"translations": [{"text": "Y"}]}
    for headers, body in (
        ({"Content-Type": "text/plain"}, "y"),
        ({"Content-Encoding": "gzip"}, gzip.compress(b'{"text": "x"}')),
    ):
        answer = ask(server, path, body=body, headers=headers)
        status, sentence = check_error(answer)
        assert status == 415 and ("compressed" in sentence) == (body != "y")
    assert check_error(ask(server, "/see?text=x", body="", headers=FORM))[0] == 415


def test_languages_have_names_and_targets(model):
    other = Echo()
    other.languages = ("en", "xx")
    with serve([model, other]) as server:
        assert ask(server, "/languages")[1] == [
            {"code": "de", "name": "German", "targets": ["de", "en"]},
            {"code": "en", "name": "English", "targets": ["en", "xx"]},
            {"code": "xx", "name": "xx", "targets": ["xx"]},
        ]


def test_answers_are_compressed_for_clients_that_ask(server):
    for path, accepted, encoding in (
        ("/openapi.json", "gzip", "gzip"),
        ("/openapi.json", "br, gzip;q=0.1", "gzip"),
        ("/openapi.json", "identity", None),
        ("/openapi.json", "gzip; q=0, *", None),
        ("/health", "gzip", None),  # too short
    ):
        connection = connect(server)
        connection.request("GET", path, headers={"Accept-Encoding": accepted})
        response = connection.getresponse()
        body = response.read()
        connection.close()
        assert response.getheader("Content-Encoding") == encoding
        assert json.loads(gzip.decompress(body) if encoding else body)


def test_alignments_without_a_chosen_head_have_a_warning(server, model, monkeypatch):
    fields = {"text": "x", "alignments": True}
    assert "warning" not in ask(server, "/translate", fields)[1]
    monkeypatch.setattr(model, "has_chosen_head", lambda: False)
    assert "head was chosen" in ask(server, "/translate", fields)[1]["warning"]
    assert "warning" not in ask(server, "/translate", {"text": "x"})[1]
