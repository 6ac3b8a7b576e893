"""scripts/download.py: a server that cuts, corrupts and stalls, and bad archives."""

import hashlib
import http.server
import io
import os
import re
import shlex
import stat
import sys
import tarfile
import threading
import time
import zipfile

import corpora
import download
import prepare
import pytest

from transformer.runtime import fetch
from transformer.text import public_corpora
from transformer.text.lines import read_lines

TEXT = corpora.reversed_symbols({"train": 900, "dev": 9, "test": 7})


# --- Archives -------------------------------------------------------------------------


def text_of(lines):
    return "".join(line + "\n" for line in lines).encode()


def tar_of(*entries):
    """The bytes of a .tar.gz of entries (name, bytes) or TarInfo."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry)
                continue
            info = tarfile.TarInfo(entry[0])
            info.size = len(entry[1])
            tar.addfile(info, io.BytesIO(entry[1]))
    return packed.getvalue()


def tar_entry(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zip_of(*entries):
    """The bytes of a .zip of entries (name or ZipInfo, bytes)."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return packed.getvalue()


def zip_entry(name, mode):
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def segments(lines):
    return "".join(
        f'<seg id="{number}"> {line} </seg>\n' for number, line in enumerate(lines, 1)
    ).encode()


ARCHIVES = {
    "train.tgz": tar_of(
        ("training/tiny.de", text_of(TEXT["train"][0][:600])),
        ("training/tiny.en", text_of(TEXT["train"][1][:600])),
        ("training/._tiny.de", b"\x80 not this one"),
        ("more.de", text_of(TEXT["train"][0][600:])),
        ("more.en", text_of(TEXT["train"][1][600:])),
    ),
    "tests.zip": zip_of(
        ("x/dev-src.de.sgm", segments(TEXT["dev"][0])),
        ("x/dev-ref.en.sgm", segments(TEXT["dev"][1])),
        ("x/test.de", text_of(TEXT["test"][0])),
        ("x/test.en", text_of(TEXT["test"][1])),
    ),
}
TRAIN = ARCHIVES["train.tgz"]


def sum_of(content):
    return hashlib.sha256(content).hexdigest()


def tiny_corpus(archives):
    return public_corpora.PublicCorpus(
        "digits backwards",
        "the tests",
        tuple(
            public_corpora.Archive(
                ("http://nowhere.invalid/" + name,), sum_of(content), len(content)
            )
            for name, content in archives.items()
        ),
        {
            "train": (("tiny.de", "tiny.en"), ("more.de", "more.en")),
            "dev": (("dev-src.de.sgm", "dev-ref.en.sgm"),),
            "test": (("test.de", "test.en"),),
        },
        vocab_size=int(corpora.VOCAB_SIZE),
    )


# --- The server -----------------------------------------------------------------------


class Server(http.server.ThreadingHTTPServer):
    """Serves `files`; `plan[n]` answers request n, after its end `honest` does."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.plan, self.asked, self.sent = dict(ARCHIVES), [], [], 0
        self.closing, self.marks = threading.Event(), True
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        """Says nothing of clients that hung up: they should."""


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        """Says nothing."""

    def do_GET(self):
        asked, plan = self.server.asked, self.server.plan
        asked.append((self.path, self.headers.get("Range")))
        (plan[len(asked) - 1] if len(asked) <= len(plan) else honest)(self)

    def start(self, heed_range=True, length=None):
        """Sends the headers; returns what is to follow."""
        content = self.server.files[self.path.rsplit("/", 1)[1]]
        mark = f'"{sum_of(content)}"'
        wanted = re.match(r"bytes=(\d+)-$", self.headers.get("Range", ""))
        first = int(wanted.group(1)) if wanted and heed_range else 0
        if self.headers.get("If-Range", mark) != mark:
            first = 0
        if first >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.end_headers()
            return b""
        self.send_response(206 if first else 200)
        if first:
            self.send_header(
                "Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}"
            )
        if self.server.marks:
            self.send_header("ETag", mark)
        self.send_header("Content-Length", str(length or len(content) - first))
        self.end_headers()
        return content[first:]

    def send(self, content):
        self.server.sent += len(content)
        self.wfile.write(content)
        self.wfile.flush()


def honest(handler):
    handler.send(handler.start())


def cut(count):
    """Hangs up after so many bytes."""
    return lambda handler: handler.send(handler.start()[:count])


def silent(count):
    """Sends so many bytes, then nothing, and does not hang up."""

    def answer(handler):
        handler.send(handler.start()[:count])
        handler.server.closing.wait(20)

    return answer


def dripping(handler):
    """A byte now and then."""
    content = handler.start()
    for place in range(len(content)):
        if handler.server.closing.wait(0.02):
            return
        handler.send(content[place : place + 1])


def drips(piece, start=b""):
    """Sends `start`, then the same bytes now and then, without end."""

    def answer(handler):
        handler.wfile.write(start)
        while not handler.server.closing.wait(0.02):
            handler.wfile.write(piece)

    return answer


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
DRIPPING = {
    "status": drips(b"H", b"HTTP/1.1 200 "),
    "header": drips(b"x", OK + b"X-Long: "),
    "headers": drips(b"X: y\r\n", b"HTTP/1.1 100 Continue\r\n"),
    "continue": drips(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "continue_at_full_speed": drips(b"HTTP/1.1 100 Continue\r\n\r\n" * 9999),
    "length_of_a_chunk": drips(b"0", CHUNKED),
    "trailers": drips(b"X: y\r\n", CHUNKED + b"0\r\n"),
    "redirect": drips(
        b"x", b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/x\r\n"
    ),
}
NO_HTTP = {
    "no_http": drips(b"x\r\n"),
    "length_that_is_no_number": drips(b"", OK + b"Content-Length: -9\r\n\r\nx"),
    "chunk_that_is_no_number": drips(b"", CHUNKED + b"zz\r\n"),
}


def corrupted(handler):
    """One bit is another."""
    content = bytearray(handler.start())
    content[len(content) // 2] ^= 1
    handler.send(bytes(content))


def deaf(handler):
    """Sends all, whatever range was asked for."""
    handler.send(handler.start(heed_range=False))


def shifted(handler):
    """Sends another range than the one that was asked for."""
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes 7-{len(TRAIN) - 1}/{len(TRAIN)}")
    handler.end_headers()
    handler.send(TRAIN[7:])


def endless(handler):
    """Does not say how much will come, and never ends."""
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.closing.is_set():
        handler.send(bytes(1 << 16))


def claiming(length):
    """Says how much will come, and sends nothing."""
    return lambda handler: handler.start(length=length)


def redirected(handler):
    """Says that the file has another address."""
    handler.send_response(302)
    handler.send_header("Location", "/moved" + handler.path)
    handler.end_headers()


def status(code):
    return lambda handler: handler.send_error(code)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(fetch, "LONGEST_PAUSE", 0.01)
    monkeypatch.setitem(download.CORPORA, "tiny", tiny_corpus(ARCHIVES))
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.closing.set()
        server.shutdown()
        thread.join()


IMPATIENT = ("--timeout", "0.3")  # for servers that stall


def arguments(server, out, *more):
    return [
        "tiny",
        "--out",
        str(out),
        "--url_base",
        server.url,
        "--attempts",
        "3",
        *more,
    ]


def run(server, out, *more):
    download.main(arguments(server, out, *more))
    for split, sides in TEXT.items():
        for language, lines in zip(("de", "en"), sides):
            assert list(read_lines(str(out / f"{split}.{language}"))) == lines


def refused(capsys, *argv):
    """Runs a command that must refuse; the one line it says beside the progress."""
    with pytest.raises(SystemExit) as stopped:
        download.main([str(word) for word in argv])
    assert stopped.value.code == 2
    output = capsys.readouterr()
    progress = re.compile(r"[\w.]+: [\d,]+( of [\d,]+ \(\d+ %\))? bytes$")
    said = [line for line in output.err.splitlines() if not progress.match(line)]
    assert len(said) == 1 and said[0].startswith("download.py: ")
    assert output.out == ""
    return said[0]


def ranges(server):
    """Where the requests for the first archive began."""
    return [asked for path, asked in server.asked if path == "/train.tgz"]


def text_in(out):
    return [name for name in os.listdir(str(out)) if name != "archives"]


# --- Downloading ----------------------------------------------------------------------


def test_the_command_that_is_printed_prepares_the_corpus(
    server, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(sys, "argv", ["scripts/download.py"])
    run(server, tmp_path / "a corpus")
    words = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert words[:2] == ["python", "scripts/prepare.py"]
    prepare.main(words[2:])
    assert (tmp_path / "a corpus" / "corpus.json").exists()
    assert "train: 900 pairs kept, 0 dropped" in capsys.readouterr().out


def test_what_is_there_is_not_asked_for_again(server, tmp_path):
    run(server, tmp_path)
    before = list(server.asked)
    run(server, tmp_path)
    assert server.asked == before
    (tmp_path / "archives" / "train.tgz").write_bytes(b"somebody else's")
    run(server, tmp_path)
    assert server.asked == before + [("/train.tgz", None)]


def test_a_connection_that_is_cut_goes_on_from_there(server, tmp_path):
    server.plan = [cut(1000), cut(500), cut(0)]
    run(server, tmp_path, "--attempts", "4")
    assert ranges(server) == [None, "bytes=1000-", "bytes=1500-", "bytes=1500-"]
    assert server.sent == sum(map(len, ARCHIVES.values()))  # nothing came twice


def test_a_command_that_was_stopped_goes_on_from_there(server, tmp_path, capsys):
    server.plan = [cut(1000)]
    said = refused(capsys, *arguments(server, tmp_path, "--attempts", "1"))
    for part in (server.url + "/train.tgz", "1,000 bytes", f"{len(TRAIN):,}"):
        assert part in said
    assert text_in(tmp_path) == []
    run(server, tmp_path)
    assert ranges(server) == [None, "bytes=1000-"]
    assert sorted(os.listdir(str(tmp_path / "archives"))) == sorted(ARCHIVES)


@pytest.mark.parametrize("stalling", [silent(800), silent(0), dripping])
def test_a_server_that_stalls_is_asked_again(server, tmp_path, stalling):
    server.plan = [stalling]
    began = time.monotonic()
    run(server, tmp_path, *IMPATIENT)
    assert time.monotonic() - began < 5
    first, second = ranges(server)
    assert first is None
    if stalling is dripping:
        assert 0 < int(re.match(r"bytes=(\d+)-$", second).group(1)) < fetch.LEAST_BYTES
    else:
        assert server.sent == sum(map(len, ARCHIVES.values()))  # nothing came twice


def slowly(handler):
    """All of it, in eight parts; it takes longer than an impatient client waits."""
    content = handler.start()
    size = -(-len(content) // 8)
    for begin in range(0, len(content), size):
        handler.server.closing.wait(0.1)
        handler.send(content[begin : begin + size])


def test_a_slow_server_is_no_stalled_one(server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "LEAST_BYTES", len(TRAIN) // 8)
    server.plan = [slowly]
    began = time.monotonic()
    run(server, tmp_path, *IMPATIENT)
    assert time.monotonic() - began > 2 * float(IMPATIENT[1])
    assert ranges(server) == [None]


@pytest.mark.parametrize("name", sorted({**DRIPPING, **NO_HTTP}))
def test_no_answer_takes_longer_than_the_timeout(server, tmp_path, name):
    server.plan = [{**DRIPPING, **NO_HTTP}[name]]
    began = time.monotonic()
    run(server, tmp_path, *IMPATIENT)
    assert time.monotonic() - began < 4
    assert len(ranges(server)) in (2, 3)  # a byte may have come


def test_a_redirect_with_a_body_without_end_is_followed(server, tmp_path):
    begin = b"HTTP/1.1 302 Found\r\nLocation: /moved/train.tgz\r\n\r\n"
    server.plan = [drips(bytes(1 << 16), begin)]
    began = time.monotonic()
    run(server, tmp_path, "--attempts", "1")
    assert time.monotonic() - began < 4


def test_what_a_server_says_is_escaped(server, tmp_path, capsys):
    server.plan = [drips(b"", b"HTTP/1.1 404 \x1b]52;c;cm0=\x07\r\n\r\n")]
    said = refused(capsys, *arguments(server, tmp_path))
    assert r"404: \x1b]52;c;cm0=\x07" in said


def test_a_server_that_always_stalls_is_given_up(server, tmp_path, capsys):
    server.plan = [silent(10)] * 9
    said = refused(capsys, *arguments(server, tmp_path, *IMPATIENT))
    assert len(server.asked) == 3
    assert server.url in said and "timed out" in said and "3 times" in said


def test_a_byte_that_was_corrupted_on_the_way_is_noticed(server, tmp_path):
    server.plan = [corrupted]
    run(server, tmp_path)
    assert ranges(server) == [None, None]


def test_a_corrupted_file_is_never_opened(server, tmp_path, capsys, monkeypatch):
    opened = []
    monkeypatch.setattr(download, "unpack", lambda *arguments: opened.append(arguments))
    server.files["train.tgz"] = wrong = TRAIN[:-1] + bytes([TRAIN[-1] ^ 1])
    said = refused(capsys, *arguments(server, tmp_path))
    for part in (server.url + "/train.tgz", sum_of(wrong), sum_of(TRAIN)):
        assert part in said
    assert not opened and len(server.asked) == 2
    assert os.listdir(str(tmp_path / "archives")) == text_in(tmp_path) == []


def test_a_server_that_ignores_the_range_sends_the_whole_file(server, tmp_path):
    server.plan = [cut(1000), deaf]
    run(server, tmp_path)
    assert ranges(server) == [None, "bytes=1000-"]


def test_another_range_than_that_asked_for_is_not_read(server, tmp_path, capsys):
    server.plan = [cut(1000), shifted]
    said = refused(capsys, *arguments(server, tmp_path, "--attempts", "2"))
    assert "206" in said and "1,000" in said
    run(server, tmp_path)
    assert ranges(server) == [None, "bytes=1000-", None]


@pytest.mark.parametrize("marks", [True, False])
def test_a_file_that_changes_between_two_attempts_is_not_mixed(server, tmp_path, marks):
    server.marks = marks

    def old_then_new(handler):
        server.files["train.tgz"] = bytes(len(TRAIN))
        cut(1000)(handler)
        server.files["train.tgz"] = TRAIN

    server.plan = [old_then_new]
    run(server, tmp_path)
    # With a mark the server says at once that it is another file; else the sum does.
    assert ranges(server) == [None, "bytes=1000-"] + [None] * (not marks)


def test_what_came_from_another_address_is_not_appended_to(server, tmp_path, capsys):
    server.plan = [cut(1000)]
    refused(capsys, *arguments(server, tmp_path, "--attempts", "1"))
    run(server, tmp_path, "--url_base", server.url + "/mirror")
    assert server.asked[1] == ("/mirror/train.tgz", None)


def test_a_whole_part_is_only_verified(server, tmp_path, capsys):
    server.plan = [cut(len(TRAIN) - 1)]
    refused(capsys, *arguments(server, tmp_path, "--attempts", "1"))
    with open(str(tmp_path / "archives" / "train.tgz.part"), "ab") as file:
        file.write(TRAIN[-1:])
    run(server, tmp_path)
    assert ranges(server) == [None, f"bytes={len(TRAIN)}-"]
    assert server.sent == sum(map(len, ARCHIVES.values())) - 1


@pytest.mark.parametrize("code, requests", [(404, 1), (403, 1), (500, 3), (503, 3)])
def test_a_refusal_is_one_line_with_address_and_status(
    server, tmp_path, capsys, code, requests
):
    server.plan = [status(code)] * 9
    said = refused(capsys, *arguments(server, tmp_path))
    assert server.url + "/train.tgz" in said and str(code) in said and "wanted" in said
    assert len(server.asked) == requests


def test_a_server_with_a_passing_fault_is_asked_again(server, tmp_path):
    server.plan = [status(500), cut(1000), status(503)]
    run(server, tmp_path, "--attempts", "4")
    assert ranges(server) == [None, None, "bytes=1000-", "bytes=1000-"]


def test_attempts_with_progress_do_not_count(server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "PROGRESS_BYTES", 500)
    server.plan = [cut(600)] * 6
    assert len(TRAIN) > 600 * 6
    run(server, tmp_path)  # with three attempts


@pytest.mark.parametrize("answer", [endless, claiming(len(TRAIN) + 1)])
def test_a_file_that_is_too_long_is_refused(server, tmp_path, capsys, answer):
    server.plan = [answer]
    said = refused(capsys, *arguments(server, tmp_path))
    assert server.url in said and f"{len(TRAIN):,}" in said
    assert os.listdir(str(tmp_path / "archives")) == [] and len(server.asked) == 1


def test_the_second_address_is_taken_where_the_first_has_gone(server, tmp_path):
    server.plan = [status(404)]
    path = str(tmp_path / "file")
    fetch.fetch(
        (server.url + "/gone/train.tgz", server.url + "/train.tgz"),
        path,
        sum_of(TRAIN),
        len(TRAIN),
        fetch.Patience(0.3, 2),
        lambda done, total: None,
    )
    with open(path, "rb") as file:
        assert file.read() == TRAIN
    assert [path for path, _ in server.asked] == ["/gone/train.tgz", "/train.tgz"]


def test_a_redirect_is_followed_and_resumed(server, tmp_path, capsys):
    server.plan = [redirected, cut(1000), redirected]
    run(server, tmp_path)
    assert server.asked[:4] == [
        ("/train.tgz", None),
        ("/moved/train.tgz", None),
        ("/train.tgz", "bytes=1000-"),
        ("/moved/train.tgz", "bytes=1000-"),
    ]
    assert server.sent == sum(map(len, ARCHIVES.values()))  # nothing came twice


def test_nobody_there_is_one_line(server, tmp_path, capsys):
    nobody = ["--url_base", "http://127.0.0.1:9", "--attempts", "2"]
    said = refused(capsys, *arguments(server, tmp_path, *nobody))
    assert "http://127.0.0.1:9/train.tgz" in said and "2 times" in said


# --- The command line -----------------------------------------------------------------


@pytest.mark.parametrize(
    "words, parts",
    [
        (["multi31k"], ["multi31k", "multi30k"]),
        ([], ["multi30k"]),
        (["tiny", "--timeout", "0"], ["--timeout", "0"]),
        (["tiny", "--url_base", "file:///x"], ["file:///x/train.tgz", "http"]),
    ],
)
def test_bad_words_are_refused(server, tmp_path, capsys, words, parts):
    said = refused(capsys, *words, "--out", tmp_path)
    assert all(part in said for part in parts)
    assert not server.asked


def test_text_of_another_corpus_is_not_replaced(server, tmp_path, capsys):
    (tmp_path / "dev.en").write_bytes(b"mine\n")
    (tmp_path / "archives").mkdir()
    (tmp_path / "archives" / "other.tgz").write_bytes(b"")
    before = corpora.tree(tmp_path)
    said = refused(capsys, *arguments(server, tmp_path))
    assert "dev.en" in said and not server.asked
    assert corpora.tree(tmp_path) == before


def test_the_list_names_every_corpus_and_where_its_terms_are(capsys):
    download.main(["--list"])
    listed = capsys.readouterr().out
    for name, corpus in public_corpora.CORPORA.items():
        assert name + ":" in listed and corpus.home in listed


def test_the_table_is_whole():
    for corpus in public_corpora.CORPORA.values():
        assert set(corpus.splits) == set(prepare.SPLITS)
        names = [
            name for parts in corpus.splits.values() for pair in parts for name in pair
        ]
        assert len(set(names)) == len(names)
        assert [
            re.search(r"\.(de|en)(\.xml|\.sgm)?$", name).group(1) for name in names
        ] == ["de", "en"] * (len(names) // 2)
        for archive in corpus.archives:
            assert re.match("[0-9a-f]{64}$", archive.sha256)
            for url in archive.urls:
                assert re.match("https?://", url)
                assert url.endswith((".tar.gz", ".tgz", ".zip"))
                assert url.rsplit("/")[-1] == archive.urls[0].rsplit("/")[-1]


def wmt14_stand_ins():
    """Small archives with the files of WMT 2014 in their places; (them, the text)."""
    text, numbers = {"train": [], "dev": [], "test": []}, iter(range(10**6))

    def lines(split, count):
        for _ in range(count):
            number = next(numbers)
            text[split].append((f"Satz {number}.", f"Sentence {number}."))
        return zip(*text[split][-count:])

    def both(stem, split, count):
        return [
            (f"{stem}.{language}", text_of(side))
            for language, side in zip(("de", "en"), lines(split, count))
        ]

    def others(stem):
        return [(f"{stem}.{language}", b"other\n") for language in ("fr", "en")]

    europarl = both("training/europarl-v7.de-en", "train", 40)
    crawl = both("commoncrawl.de-en", "train", 30)
    news = both("training/news-commentary-v9.de-en", "train", 20)
    dev = both("dev/newstest2013", "dev", 5)
    source, target = map(segments, lines("test", 4))
    stem = "dev/newstest2014-deen"
    tests = [
        (f"{stem}-ref.de.sgm", source),
        (f"{stem}-ref.en.sgm", target),
        (f"{stem}-src.de.sgm", source),
        (f"{stem}-src.en.sgm", target),
    ]
    archives = {
        "training-parallel-europarl-v7.tgz": others("training/europarl-v7.fr-en")
        + europarl,
        "training-parallel-commoncrawl.tgz": others("commoncrawl.fr-en") + crawl,
        "training-parallel-nc-v9.tgz": news,
        "dev.tgz": dev + tests,
    }
    return {name: tar_of(*entries) for name, entries in archives.items()}, text


def test_the_archives_of_wmt14_become_its_splits(server, tmp_path, monkeypatch, capsys):
    server.files, text = wmt14_stand_ins()
    row = download.CORPORA["wmt14"]
    names = [archive.urls[0].rsplit("/")[-1] for archive in row.archives]
    assert sorted(names) == sorted(server.files)
    archives = tuple(
        archive._replace(sha256=sum_of(server.files[name]))
        for archive, name in zip(row.archives, names)
    )
    monkeypatch.setitem(download.CORPORA, "wmt14", row._replace(archives=archives))
    out = tmp_path / "wmt14"
    download.main(["wmt14", "--out", str(out), "--url_base", server.url])
    assert capsys.readouterr().out.splitlines()[-1].endswith("--vocab_size 37000")
    for split, pairs in text.items():
        for language, lines in zip(("de", "en"), zip(*pairs)):
            assert list(read_lines(str(out / f"{split}.{language}"))) == list(lines)
    flags = ["--vocab_size", "40", "--max_ratio", "3", "--drop_duplicates"]
    prepare.main(["--out", str(out), *flags])
    assert "train: 90 pairs kept, 0 dropped" in capsys.readouterr().out


# --- Unpacking ------------------------------------------------------------------------


GOOD = ("wanted.de", b"Gut.\n")
EVIL = b"evil"
LINK = stat.S_IFLNK | 0o777
OUTSIDE = {
    "parent.tgz": tar_of(GOOD, ("../wanted.en", EVIL)),
    "absolute.tgz": tar_of(GOOD, ("/wanted.en", EVIL)),
    "deeper.tar.gz": tar_of(GOOD, ("a/../../wanted.en", EVIL)),
    "backslash.tgz": tar_of(GOOD, ("..\\wanted.en", EVIL)),
    "drive.tgz": tar_of(GOOD, ("C:\\wanted.en", EVIL)),
    "symlink.tgz": tar_of(GOOD, tar_entry("wanted.en", tarfile.SYMTYPE, "../../up")),
    "through.tgz": tar_of(
        GOOD, tar_entry("l", tarfile.SYMTYPE, ".."), ("l/wanted.en", EVIL)
    ),
    "hardlink.tgz": tar_of(GOOD, tar_entry("wanted.en", tarfile.LNKTYPE, "../up")),
    "fifo.tgz": tar_of(GOOD, tar_entry("wanted.en", tarfile.FIFOTYPE)),
    "device.tgz": tar_of(GOOD, tar_entry("wanted.en", tarfile.CHRTYPE)),
    "parent.zip": zip_of(GOOD, ("../wanted.en", EVIL)),
    "absolute.zip": zip_of(GOOD, ("/wanted.en", EVIL)),
    "backslash.zip": zip_of(GOOD, ("a\\..\\..\\wanted.en", EVIL)),
    "symlink.zip": zip_of(GOOD, (zip_entry("wanted.en", LINK), "../../up")),
}


def unpack(tmp_path, name, content):
    """Unpacks into a folder of a folder; returns every file of the outer one."""
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    (tmp_path / name).write_bytes(content)
    download.unpack(
        str(tmp_path / name),
        {"wanted.de", "wanted.en"},
        str(tmp_path / "outer" / "inner"),
    )
    return corpora.tree(tmp_path / "outer")


@pytest.mark.parametrize("name", sorted(OUTSIDE))
def test_no_archive_writes_outside_of_the_folder(tmp_path, name):
    found = unpack(tmp_path, name, OUTSIDE[name])
    inner = {os.path.join("inner", base) for base in ("wanted.de", "wanted.en")}
    assert set(found) <= inner
    assert found[os.path.join("inner", "wanted.de")] == GOOD[1]
    assert not any(os.path.islink(str(tmp_path / "outer" / path)) for path in found)
    assert sorted(os.listdir(str(tmp_path))) == sorted(["outer", name])


@pytest.mark.parametrize(
    "name, content",
    [
        (
            "good.tgz",
            tar_of(
                tar_entry("a/b", tarfile.DIRTYPE),
                tar_entry("a/wanted.en", tarfile.DIRTYPE),
                tar_entry("a/b/wanted.en", tarfile.SYMTYPE, "../x"),
                ("a/" + GOOD[0], GOOD[1]),
                ("unwanted.de", EVIL),
                ("other/wanted.de", EVIL),
            ),
        ),
        (
            "good.zip",
            zip_of(
                ("a/", b""),
                ("wanted.en/", b""),
                ("a/b/" + GOOD[0], GOOD[1]),
                ("unwanted.de", EVIL),
                ("other/wanted.de", EVIL),
            ),
        ),
    ],
    ids=["good.tgz", "good.zip"],
)
def test_only_wanted_files_are_written_and_of_each_the_first(tmp_path, name, content):
    found = unpack(tmp_path, name, content)
    assert found == {os.path.join("inner", GOOD[0]): GOOD[1]}


@pytest.mark.parametrize(
    "entries, part", [((), "more.en"), ((("more.en", b"one line\n"),), "more.en")]
)
def test_an_archive_that_does_not_fit_leaves_no_text(
    server, tmp_path, capsys, monkeypatch, entries, part
):
    train = tar_of(
        *[
            (name, text_of(TEXT["train"][0]))
            for name in ("tiny.de", "tiny.en", "more.de")
        ],
        *entries,
    )
    server.files = dict(ARCHIVES, **{"train.tgz": train})
    monkeypatch.setitem(download.CORPORA, "tiny", tiny_corpus(server.files))
    said = refused(capsys, *arguments(server, tmp_path / "out"))
    assert part in said
    assert text_in(tmp_path / "out") == [] and os.listdir(str(tmp_path)) == ["out"]
