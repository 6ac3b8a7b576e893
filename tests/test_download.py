"""scripts/download.py: right, wrong and broken files of a server, bad archives."""

import contextlib
import hashlib
import http.server
import io
import os
import re
import shlex
import socket
import sys
import tarfile
import threading

import corpora
import pytest

from transformer.commands import download
from transformer.text import public_corpora
from transformer.text.data_folder import SPLITS
from transformer.text.lines import read_lines

TEXT = corpora.reversed_symbols({"train": 900, "dev": 9, "test": 7})
GOOD = ("wanted.de", b"Gut.\n")
EVIL = b"evil"


def join_lines(lines):
    return "".join(line + "\n" for line in lines).encode()


def make_sgm(lines):
    return join_lines(
        f'<seg id="{n}"> {line} </seg>' for n, line in enumerate(lines, 1)
    )


def make_tar(*entries):
    """The bytes of a .tar.gz of entries (name, bytes), or (name, kind, target)."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content, *target in entries:
            info = tarfile.TarInfo(name)
            if target:
                info.type, info.linkname = content, target[0]
                tar.addfile(info)
                continue
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


TRAIN = make_tar(
    ("training/tiny.de", join_lines(TEXT["train"][0][:600])),
    ("training/tiny.en", join_lines(TEXT["train"][1][:600])),
    ("training/._tiny.de", b"\x80 not this one"),
    ("more.de", join_lines(TEXT["train"][0][600:])),
    ("more.en", join_lines(TEXT["train"][1][600:])),
)
TESTS = make_tar(
    ("x/dev-src.de.sgm", make_sgm(TEXT["dev"][0])),
    ("x/dev-ref.en.sgm", make_sgm(TEXT["dev"][1])),
    ("x/test.de", join_lines(TEXT["test"][0])),
    ("x/test.en", join_lines(TEXT["test"][1])),
)


def make_corpus(files):
    """An entry of CORPORA for archives."""
    archives = tuple(
        public_corpora.Archive(
            "http://nowhere.invalid/" + name,
            hashlib.sha256(content).hexdigest(),
            len(content),
        )
        for name, content in files.items()
    )
    splits = {
        "train": (("tiny.de", "tiny.en"), ("more.de", "more.en")),
        "dev": (("dev-src.de.sgm", "dev-ref.en.sgm"),),
        "test": (("test.de", "test.en"),),
    }
    size = int(corpora.VOCAB_SIZE)
    return public_corpora.PublicCorpus("digits", "the tests", archives, splits, size)


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        """Say nothing."""

    def do_GET(self):
        """Answer as the first of `server.plan` does, or send the file."""
        self.server.asked.append(self.path)
        content = self.server.files[os.path.basename(self.path)]
        plan = self.server.plan
        status, length, content = (plan.pop(0) if plan else send)(content)
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(content)


def send(content):
    return 200, len(content), content


def truncated(content):
    return 200, len(content), content[:100]


def changed(content):
    return 200, len(content), content[:-1] + b"x"


def too_long(content):
    """Without saying so beforehand."""
    return 200, None, content + bytes(10**7)


def failing(content):
    return 500, 0, b""


@pytest.fixture
def server(monkeypatch):
    files = {"train.tgz": TRAIN, "tests.tgz": TESTS}
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setitem(download.CORPORA, "tiny", make_corpus(files))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # clients hang up
        server.files, server.plan, server.asked = files, [], []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def make_flags(server, out):
    url = f"http://127.0.0.1:{server.server_port}"
    return ["tiny", "--out", str(out), "--url_base", url]


def refuse_download(capsys, *argv):
    """Run download with flags that it refuses; return its message."""
    return corpora.refusal(capsys, "download", *argv)


def test_the_command_that_is_printed_prepares_the_corpus(server, tmp_path, capsys):
    out = tmp_path / "out"
    corpora.run_command("download", *make_flags(server, out))
    for split, sides in TEXT.items():
        for language, lines in zip(("de", "en"), sides):
            assert list(read_lines(str(out / f"{split}.{language}"))) == lines
    command = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert command[1].endswith("prepare.py")
    corpora.run_command("prepare", *command[2:])
    assert (out / "corpus.json").exists()
    assert len(server.asked) == 2
    corpora.run_command(
        "download", *make_flags(server, out)
    )  # nothing is asked for again
    assert len(server.asked) == 2
    (out / "archives" / "train.tgz").write_bytes(b"damaged")
    corpora.run_command("download", *make_flags(server, out))
    assert (out / "archives" / "train.tgz").read_bytes() == TRAIN
    assert sorted(os.listdir(str(tmp_path))) == ["out"]


@pytest.mark.parametrize(
    "answer, reason",
    [
        (truncated, "train.tgz"),
        (changed, "hash of downloaded file (train.tgz) does not match"),
        (failing, "500 Server Error"),
    ],
)
def test_a_passing_fault_is_tried_again_and_a_lasting_one_refused(
    server, tmp_path, capsys, answer, reason
):
    server.plan = [answer] * (1 + download.RETRIES)
    assert reason in refuse_download(capsys, *make_flags(server, tmp_path / "out"))
    assert server.plan == [] and os.listdir(str(tmp_path)) == []
    server.plan = [answer]
    corpora.run_command("download", *make_flags(server, tmp_path / "out"))


def test_a_file_that_is_too_long_is_refused_at_once(server, tmp_path, capsys):
    server.plan = [too_long]
    message = refuse_download(capsys, *make_flags(server, tmp_path / "out"))
    assert f"/train.tgz: expected {len(TRAIN):,} bytes, got more" in message
    assert len(server.asked) == 1 and os.listdir(str(tmp_path)) == []


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n"]
)
def test_a_server_that_sends_a_byte_now_and_then_is_left(
    tmp_path, capsys, monkeypatch, answer
):
    """No read takes long, of headers or of the archive."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setitem(download.CORPORA, "tiny", make_corpus({"train.tgz": TRAIN}))
    monkeypatch.setattr(download, "MAX_PAUSE", 0.5)
    has_ended = threading.Event()

    def drip(listener):
        client, _ = listener.accept()
        client.sendall(answer)
        with contextlib.suppress(OSError):
            while not has_ended.wait(0.05):
                client.sendall(b"x")

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        threading.Thread(target=drip, args=(listener,), daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        flags = ["tiny", "--out", str(tmp_path / "out"), "--url_base", url]
        message = refuse_download(capsys, *flags)
        has_ended.set()
    assert f"{url}/train.tgz: expected 65,536 bytes, or the end, within" in message
    assert os.listdir(str(tmp_path)) == []


def test_nobody_there_bad_words_and_no_pooch_are_one_line(
    server, tmp_path, capsys, monkeypatch
):
    out = str(tmp_path / "out")
    words = ["tiny", "--out", out, "--url_base"]
    assert "train.tgz" in refuse_download(capsys, *words, "http://127.0.0.1:9")
    assert "one of sample, multi30k" in refuse_download(capsys, "none")
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert "pip install 'pooch" in refuse_download(capsys, *make_flags(server, out))
    assert os.listdir(str(tmp_path)) == []


def test_text_of_another_corpus_is_not_replaced(server, tmp_path, capsys):
    (tmp_path / "dev.de").write_bytes(b"mine\n")
    assert "got dev.de" in refuse_download(capsys, *make_flags(server, tmp_path))
    assert server.asked == [] and (tmp_path / "dev.de").read_bytes() == b"mine\n"


def test_text_that_was_changed_is_not_replaced(server, tmp_path, capsys):
    corpora.run_command("download", *make_flags(server, tmp_path))
    with open(str(tmp_path / "train.en"), "ab") as file:
        file.write(b"mine\n")
    before = corpora.read_tree(tmp_path)
    assert "train.en: expected the text of the archives" in refuse_download(
        capsys, *make_flags(server, tmp_path)
    )
    assert corpora.read_tree(tmp_path) == before


@pytest.mark.parametrize("extra_entries", [(), (("more.en", b"one line\n"),)])
def test_an_archive_that_does_not_fit_leaves_no_text(
    server, tmp_path, capsys, monkeypatch, extra_entries
):
    names = ("tiny.de", "tiny.en", "more.de")
    server.files["train.tgz"] = make_tar(
        *[(name, join_lines(TEXT["train"][0])) for name in names], *extra_entries
    )
    monkeypatch.setitem(download.CORPORA, "tiny", make_corpus(server.files))
    assert "more.en" in refuse_download(capsys, *make_flags(server, tmp_path / "out"))
    assert os.listdir(str(tmp_path / "out")) == ["archives"]


@pytest.mark.parametrize(
    "name, content",
    [
        ("parent.tgz", make_tar(GOOD, ("../wanted.en", EVIL))),
        ("absolute.tgz", make_tar(GOOD, ("/wanted.en", EVIL))),
        ("link.tgz", make_tar(GOOD, ("wanted.en", tarfile.SYMTYPE, "../../up"))),
        ("hardlink.tgz", make_tar(GOOD, ("wanted.en", tarfile.LNKTYPE, "../up"))),
        ("pipe.tgz", make_tar(GOOD, ("wanted.en", tarfile.FIFOTYPE, ""))),
        ("second.tgz", make_tar(("a/wanted.de", GOOD[1]), ("b/wanted.de", EVIL))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_no_archive_writes_outside_of_the_folder(tmp_path, name, content):
    folder = tmp_path / "outer" / "inner"
    folder.mkdir(parents=True)
    (tmp_path / name).write_bytes(content)
    download.unpack(str(tmp_path / name), {"wanted.de", "wanted.en"}, str(folder))
    assert sorted(os.listdir(str(tmp_path))) == sorted(["outer", name])
    assert os.listdir(str(tmp_path / "outer")) == ["inner"]
    assert set(os.listdir(str(folder))) <= {"wanted.de", "wanted.en"}
    assert (folder / "wanted.de").read_bytes() == GOOD[1]
    assert not any(path.is_symlink() for path in folder.iterdir())


def test_the_table_is_whole_and_listed(capsys):
    corpora.run_command("download", "--list")
    listed = capsys.readouterr().out
    for name, corpus in public_corpora.CORPORA.items():
        assert name + ":" in listed and corpus.homepage in listed
        assert set(corpus.file_pairs) == set(SPLITS)
        for pairs in corpus.file_pairs.values():
            for source, target in pairs:
                assert re.search(r"\.de(\.xml|\.sgm)?$", source)
                assert re.search(r"\.en(\.xml|\.sgm)?$", target)
        for archive in corpus.archives:
            assert re.match("[0-9a-f]{64}$", archive.sha256)
            assert re.match(r"https?://.*\.(tar\.gz|tgz)$", archive.url)
