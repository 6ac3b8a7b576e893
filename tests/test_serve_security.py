"""The server of the page, attacked; and what the page can be made to do."""

import contextlib
import http.client
import json
import re
import socket
import time

import pytest
import serve
from serving import Echo, ask, connect, refused, served

from transformer.seeing import page_files


@pytest.fixture(scope="module")
def server():
    with served([Echo()]) as server:
        yield server


def raw(server, data):
    """What the server answers to bytes, until it closes."""
    with socket.create_connection(server.server_address, timeout=60) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


# --- Who may ask ----------------------------------------------------------------------


def test_it_listens_to_this_machine_alone_unless_told_otherwise():
    assert serve.parser().parse_args(["--logdir", "x"]).host == "127.0.0.1"


@pytest.mark.parametrize("path", ["/", "/healthz", "/models", "/translate"])
@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "localhost.evil.example", "", "[", "a]"],
)
def test_another_host_name_is_refused(server, path, host):
    """DNS rebinding: the name of a page's own site leads here."""
    body = "{}" if path == "/translate" else None
    status, _ = refused(ask(server, path, headers={"Host": host}, body=body))
    assert status == 421


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1:80", "[::1]:8000", "10.0.0.7"]
)
def test_this_machine_and_addresses_are_served(server, host):
    assert ask(server, "/healthz", headers={"Host": host})[0] == 200


@pytest.mark.parametrize(
    "status, headers",
    [
        (403, {"Origin": "http://evil.example"}),
        (403, {"Origin": "null"}),
        (403, {"Sec-Fetch-Site": "cross-site"}),
        (415, {"Content-Type": "text/plain"}),
        (415, {"Content-Type": "application/x-www-form-urlencoded"}),
    ],
    ids=str,
)
def test_the_page_of_another_site_is_refused(server, status, headers):
    assert refused(ask(server, "/see", {"text": "x"}, headers))[0] == status


def test_the_own_page_is_served(server):
    host = "127.0.0.1:{}".format(server.server_address[1])
    headers = {"Host": host, "Origin": "http://" + host}
    assert ask(server, "/see", {"text": "x"}, headers)[0] == 200


# --- What is sent ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "//evil.example", "/page.js", "/%2e%2e", "/see/", "*"]
)
def test_there_are_no_other_places(server, path):
    assert refused(ask(server, path))[0] == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "HEAD", "TRACE"])
def test_there_are_no_other_methods(server, method):
    connection = connect(server)
    connection.request(method, "/")
    assert connection.getresponse().status == 501


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"[" * 30000,
        b"{" * 30000,
        b'{"text": NaN}',
        b'{"text": "x", "model": 1e400}',
        b'{"text": "x", "padding": 99999999999999999999999999}',
        b'{"text": "x", "prefix": {"0": 1}}',
        b'{"text": "x", "__class__": 1}',
    ],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_no_question_is_refused(server, body):
    assert refused(ask(server, "/translate", body=body))[0] == 400


@pytest.mark.parametrize(
    "text",
    ["\ud800", "\0", "\u2028", "a\x1b[2Jb", "<script>alert(1)</script>", "🐕" * 99],
)
def test_any_text_is_text(server, text):
    status, told, headers = ask(server, "/translate", {"text": text})
    assert status == 200 and headers["Content-Type"] == "application/json"
    assert "\0" not in told["result"][0]["text"]


@pytest.mark.parametrize(
    "status, headers",
    [
        (411, b""),
        (411, b"Content-Length: -5\r\n"),
        (411, b"Content-Length: 5, 6\r\n"),
        (411, b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
        (413, b"Content-Length: 99999999999999\r\n"),
    ],
)
def test_lengths_are_checked_before_anything_is_read(server, status, headers):
    head = (
        b"POST /see HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    )
    answer = raw(server, head + headers + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert json.loads(answer.partition(b"\r\n\r\n")[2].decode())["error"]
    assert b"\r\nConnection: close" in answer


@pytest.mark.parametrize(
    "data",
    [b"\x16\x03\x01", b"GET", b"GET / HTTP/9.9\r\n\r\n", b"x" * 70000, b"\r\n\r\n"],
)
def test_what_is_not_http_harms_nobody(server, data):
    raw(server, data)
    assert ask(server, "/healthz")[0] == 200


def test_a_client_that_sends_half_of_its_request_is_let_go(server):
    head = (
        b"POST /see HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    )
    assert raw(server, head + b"Content-Length: 50\r\n\r\n{") == b""
    assert ask(server, "/healthz")[1]["waiting"] == 0


def test_no_more_clients_than_it_has_threads_for(monkeypatch):
    """One too many is let go without an answer; whoever leaves makes room."""
    monkeypatch.setattr("transformer.seeing.server.MOST_CLIENTS", 1)
    with served([Echo()]) as server:
        first = connect(server)
        first.request("GET", "/healthz")
        assert first.getresponse().read()
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
            ask(server, "/healthz")
        first.close()
        for _ in range(1000):
            with contextlib.suppress(ConnectionError):
                assert ask(server, "/healthz")[0] == 200
                break
            time.sleep(0.01)
        else:
            pytest.fail("nobody is served any more")


# --- What the page may do -------------------------------------------------------------


def test_every_answer_says_what_it_may_do(server):
    for path in ("/", "/healthz", "/nothing"):
        _, _, headers = ask(server, path)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "Access-Control-Allow-Origin" not in headers
        assert "Python" not in headers["Server"]


@pytest.mark.parametrize("name", page_files.SCRIPTS)
def test_no_script_reads_text_as_html_or_as_code(name):
    text = page_files.read(name)
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write"):
        assert word not in text
    assert not re.search(r"\beval\b|new Function|setTimeout\(['\"`]|DOMParser", text)
    assert len(text.splitlines()) <= 350


def test_the_page_names_no_other_place_and_is_small():
    made, policy = page_files.page({"server": True})
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'`)]*", made))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of a language
    assert len(made.encode()) < 1_000_000
    assert not re.search(r"\bon\w+=|style=|javascript:", page_files.read("page.html"))


def test_data_cannot_leave_their_block():
    evil = "</script><script>alert(1)</script><!-- {{script}} \u2028 &lt; ]]>"
    made, _ = page_files.page({"text": evil})
    [block] = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', made
    )
    assert json.loads(block) == {"text": evil}
    assert made.count("<script") == 2 and "alert(1)<" not in made


def test_the_policy_names_the_script_and_the_style_of_the_page():
    made, policy = page_files.page({})
    [style] = re.findall(r"<style>(.*?)</style>", made, re.S)
    [script] = re.findall(r"<script>(.*?)</script>", made, re.S)
    for text in (style, script):
        assert page_files.checksum(text) in policy and policy in made
    assert "connect-src 'none'" in policy
