"""The service, attacked; and what the page can be html to do."""

import contextlib
import json
import logging
import re
import socket
import time

import corpora
import pytest
from serving import Echo, ask, check_error, connect, serve, service

from transformer.commands import serve as serve_command
from transformer.viewer import page_files


@pytest.fixture(scope="module")
def server():
    with serve([Echo()]) as server:
        yield server


def raw(server, data, is_all=False):
    """The answer of the server to bytes, until it closes the connection."""
    with socket.create_connection(server.server_address, timeout=60) as client:
        client.sendall(data)
        if is_all:
            client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


# Hosts and origins


def test_by_default_it_listens_to_this_machine_only():
    assert serve_command.parser().parse_args(["--logdir", "x"]).host == "127.0.0.1"


@pytest.mark.parametrize("flag", ["--host", "--server_name"])
def test_an_empty_name_would_be_every_address(flag, capsys):
    message = corpora.refusal(capsys, "serve", "--logdir", "x", flag, "")
    assert f"{flag}: expected a name or an address, got an empty one" in message


@pytest.mark.parametrize("host", ["evil.example:8000", "localhost.evil.example", "a]"])
def test_another_host_name_is_refused(server, host):
    """DNS rebinding: the name of a page's own site leads here."""
    for path, body in (("/", None), ("/translate", "{}")):
        status, _ = check_error(ask(server, path, headers={"Host": host}, body=body))
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
    assert check_error(ask(server, "/see", {"text": "x"}, headers))[0] == status


def test_the_own_page_is_served(server):
    host = "127.0.0.1:{}".format(server.server_address[1])
    headers = {"Host": host, "Origin": "http://" + host}
    assert ask(server, "/see", {"text": "x"}, headers)[0] == 200


# Requests


@pytest.mark.parametrize("path", ["/../../etc/passwd", "//evil.example", "/see/"])
def test_there_are_no_other_paths(server, path):
    assert check_error(ask(server, path))[0] == 404


def test_there_are_no_other_methods(server):
    assert check_error(ask(server, "/", method="PUT"))[0] == 405


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe",
        b"[" * 30000,
        b'{"text": "x", "model": NaN}',
        b'{"text": "x", "n_best": ' + b"9" * 9999 + b"}",
        b'{"\\ud800": "x"}',
    ],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_not_a_request_is_rejected(server, body):
    assert check_error(ask(server, "/translate", body=body))[0] == 400


@pytest.mark.parametrize("text", ["\ud800", "\0", "<script>alert(1)</script>"])
def test_any_text_is_text(server, text):
    status, answer, headers = ask(server, "/translate", {"text": text})
    assert status == 200 and headers["Content-Type"] == "application/json"
    assert "\0" not in answer["translations"][0]["text"]


HEAD = (
    b"POST /see HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Connection: close\r\n"
)


@pytest.mark.parametrize(
    "status, headers",
    [
        (400, b""),
        (400, b"Content-Length: \xc2\xb2\r\n"),
        (413, b"Content-Length: 99999999999999\r\n"),
    ],
)
def test_lengths_are_checked_before_anything_is_read(server, status, headers):
    answer = raw(server, HEAD + headers + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert json.loads(answer.partition(b"\r\n\r\n")[2].decode())["error"]
    assert b"\r\nconnection: close" in answer.lower()


def test_what_is_not_http_is_logged(server, caplog):
    with caplog.at_level(logging.INFO, "transformer.service"):
        assert raw(server, b"\xff\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    messages = [record.getMessage() for record in caplog.records]
    assert "127.0.0.1 sent no HTTP: status 400" in messages


def test_two_lengths_close_the_connection(server):
    """RFC 9112, 6.1: a proxy may see the end of the request elsewhere."""
    head = HEAD.replace(b"Connection: close\r\n", b"").replace(b"/see", b"/translate")
    lengths = b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"d\r\n" + b'{"text": "x"}' + b"\r\n0\r\n\r\n"
    answer = raw(server, 2 * (head + lengths + body))
    assert answer.count(b"HTTP/1.1 200 ") == answer.count(b'"X"') == 1
    assert b"\r\nconnection: close" in answer.lower()


def test_a_body_in_pieces_has_the_same_limit(server):
    head = (
        b"POST /translate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    small = b"d\r\n" + b'{"text": "x"}' + b"\r\n0\r\n\r\n"
    assert b'"X"' in raw(server, head + small)
    large = b"40000\r\n" + b" " * (1 << 18) + b"\r\n1\r\nx\r\n0\r\n\r\n"
    assert raw(server, head + large).startswith(b"HTTP/1.1 413 ")


def count_slow_clients(server):
    """The metric of connections that were closed because their client was slow."""
    metrics = ask(server, "/metrics")[1]
    return float(re.search(r"^transformer_slow_clients_total (.+)", metrics, re.M)[1])


HALF = (
    b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n"
    b"Content-Type: application/json\r\n\r\n{"
)


@pytest.mark.parametrize("data", [b"", b"GET / HT", HALF], ids=["", "head", "body"])
def test_a_slow_request_has_a_deadline(server, monkeypatch, data):
    """However often a byte comes."""
    slow_clients = count_slow_clients(server)
    monkeypatch.setattr(service, "SECONDS_TO_SEND", 0.4)
    began = time.monotonic()
    with socket.create_connection(server.server_address, timeout=60) as client:
        client.sendall(data)
        client.settimeout(0.05)
        with pytest.raises((ConnectionError, EOFError)):
            while time.monotonic() < began + 30:
                client.sendall(b"x")
                with contextlib.suppress(socket.timeout):
                    if not client.recv(1):
                        raise EOFError
    assert 0.3 < time.monotonic() - began < 10
    assert ask(server, "/healthz")[1]["waiting"] == 0
    assert count_slow_clients(server) == slow_clients + 1


def test_half_a_request_behind_a_whole_one_has_a_deadline(server, monkeypatch):
    monkeypatch.setattr(service, "SECONDS_TO_SEND", 0.4)
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    began = time.monotonic()
    assert raw(server, whole + HALF).count(b"HTTP/1.1 200 ") == 1
    assert 0.3 < time.monotonic() - began < 10


@contextlib.contextmanager
def unread(server, path, last=""):
    """The connection of a client that asks for a page and does not read the answer."""
    connections = server._server.server_state.connections
    corpora.wait_until(lambda: not connections)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.connect(server.server_address)
        corpora.wait_until(lambda: connections)
        [connection] = connections
        server_socket = connection.transport.get_extra_info("socket")
        server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2048)
        request = (
            f"GET /{path} HTTP/1.1\r\nHost: localhost\r\nConnection: {last}\r\n\r\n"
        )
        client.sendall(request.encode())
        corpora.wait_until(connection.transport.get_write_buffer_size)
        yield connection


@pytest.mark.parametrize("path, last", [("", ""), ("openapi.json", "close")])
def test_reading_an_answer_has_a_deadline(server, monkeypatch, path, last):
    """Whether the server waits until it can send more, or only to close."""
    monkeypatch.setattr(service, "SECONDS_TO_READ", 0.4)
    slow_clients = count_slow_clients(server)
    with unread(server, path, last) as connection:
        assert connection.flow.write_paused != bool(last)
        corpora.wait_until(lambda: not server._server.server_state.connections)
    assert count_slow_clients(server) == slow_clients + 1


def test_a_client_that_does_not_read_does_not_delay_the_shutdown(monkeypatch, caplog):
    monkeypatch.setattr(service, "SECONDS_TO_STOP", 0.4)
    with serve([Echo()]) as server, unread(server, ""):
        server.drain()
        assert server._stopped.is_set()
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_slow_clients_shut_nobody_out(monkeypatch):
    """512 of them; more than the limit, and the oldest of them make room."""
    with serve([Echo()]) as server, contextlib.ExitStack() as clients:
        slow = [
            clients.enter_context(socket.create_connection(server.server_address))
            for _ in range(256)
        ]
        for i, client in enumerate(slow):
            client.sendall(HALF if i % 2 else b"POST /tr")
        keeping = connect(server)
        keeping.request("GET", "/healthz")
        keeping.getresponse().read()
        monkeypatch.setattr(service, "MAX_CONNECTIONS", 300)
        slow += [
            clients.enter_context(socket.create_connection(server.server_address))
            for _ in range(256)
        ]
        for client in slow[256:]:
            client.sendall(b"G")
        for _ in range(20):
            began = time.monotonic()
            assert ask(server, "/translate", {"text": "x"})[0] == 200
            # Else it waits until the slow ones have used up their time.
            assert time.monotonic() - began < service.SECONDS_TO_SEND / 2
        assert [slow[0].recv(1), slow[100].recv(1)] == [b"", b""]
        slow[-1].sendall(b"E")
        keeping.request("GET", "/healthz")
        assert keeping.getresponse().status == 200


# The page


def test_every_answer_has_the_security_headers(server):
    for path in ("/", "/healthz", "/nothing"):
        _, _, headers = ask(server, path)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "Access-Control-Allow-Origin" not in headers
        assert "Server" not in headers


@pytest.mark.parametrize("name", page_files.SCRIPTS)
def test_no_script_reads_text_as_html_or_as_code(name):
    text = page_files.read_file(name)
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write"):
        assert word not in text
    assert not re.search(r"\beval\b|new Function|setTimeout\(['\"`]|DOMParser", text)


def test_the_page_has_no_other_address_and_is_small():
    html, policy = page_files.make_page({"server": True})
    links = re.findall(r"<a .*?>", html)
    html = re.sub(r"<a .*?>", "", html)
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'`)]*", html))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of a language
    for link in links:  # they open beside the page, and do not tell where from
        assert re.search('href="https://.*" target="_blank" rel="noreferrer"', link)
    assert len(html.encode()) < 1_000_000
    assert not re.search(
        r"\bon\w+=|style=|javascript:", page_files.read_file("page.html")
    )


def test_data_cannot_leave_its_script_element():
    evil = "</script><script>alert(1)</script><!-- {{script}} \u2028 &lt; ]]>"
    html, _ = page_files.make_page({"text": evil})
    [block] = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', html
    )
    assert json.loads(block) == {"text": evil}
    assert html.count("<script") == 2 and "alert(1)<" not in html


def test_the_policy_names_the_script_and_the_style_of_the_page():
    html, policy = page_files.make_page({})
    [style] = re.findall(r"<style>(.*?)</style>", html, re.S)
    [script] = re.findall(r"<script>(.*?)</script>", html, re.S)
    for text in (style, script):
        assert page_files.checksum(text) in policy and policy in html
    assert "connect-src 'none'" in policy
