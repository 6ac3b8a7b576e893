"""files.py: a file is the old one or the new one; what leads elsewhere is refused."""

import hashlib
import os
import signal
import subprocess
import sys
import tempfile

import corpora
import pytest

from transformer.runtime import files


@pytest.mark.parametrize("mode, content", [("w", "größer\n\n"), ("wb", b"\xff\r\n")])
def test_what_is_written_replaces_the_file(tmp_path, mode, content):
    path = tmp_path / "file"
    path.write_text("old")
    with files.replaced(str(path), mode) as file:
        file.write(content)
        assert path.read_text() == "old"
    assert path.read_bytes() == (
        content if isinstance(content, bytes) else content.encode("utf-8")
    )
    assert os.listdir(str(tmp_path)) == ["file"]


class Killed(BaseException):
    """Ends what writes a file."""


@pytest.mark.parametrize("error", [OSError, ValueError, Killed])
@pytest.mark.parametrize("place", ["body", "fsync", "replace"])
def test_what_fails_leaves_the_old_file_and_no_other(
    tmp_path, monkeypatch, place, error
):
    def fail(*args):
        raise error

    (tmp_path / "file").write_text("old")
    if place != "body":
        monkeypatch.setattr(os, place, fail)
    with pytest.raises(error), files.replaced(str(tmp_path / "file")) as file:
        file.write("new")
        if place == "body":
            fail()
    assert corpora.tree(tmp_path) == {"file": b"old"}


def test_a_folder_that_is_not_there_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="none"):
        with files.replaced(str(tmp_path / "none" / "file")) as file:
            file.write("new")


WRITER = """
import itertools, sys
from transformer.runtime import files
for number in itertools.count():
    with files.replaced(sys.argv[1]) as file:
        for _ in range(1000):
            file.write(f"{number}\\n")
    if number == 5:
        print("begun", flush=True)
"""


def test_killed_it_leaves_a_whole_file(tmp_path):
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "file")],
            cwd=corpora.ROOT,
            stdout=subprocess.PIPE,
        )
        assert process.stdout.readline() == b"begun\n"
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        lines = corpora.read_lines(tmp_path / "file")
        assert len(lines) == 1000 and len(set(lines)) == 1


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1])
def test_the_checksum_is_that_of_the_content(tmp_path, size):
    (tmp_path / "file").write_bytes(b"x" * size)
    wanted = hashlib.sha256(b"x" * size).hexdigest()
    assert files.sha256_of(str(tmp_path / "file")) == wanted


def test_files_and_folders_are_synced(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    (tmp_path / "file").write_bytes(b"x")
    for path in (tmp_path, tmp_path / "file"):
        files.sync(str(path))
    assert len(synced) == 2


UNWRITABLE = """
import os, sys
from transformer.runtime import files
if os.geteuid() == 0:  # who may write everywhere
    os.setuid(65534)
files.refuse_unwritable(os.path.join(sys.argv[1], "logs", "mine"), "--out")
"""


def test_a_folder_in_which_nothing_can_be_written_is_refused():
    with tempfile.TemporaryDirectory() as folder:  # everybody may read it
        for mode in (0o555, 0o777):
            os.chmod(folder, mode)
            done = subprocess.run(
                [sys.executable, "-c", UNWRITABLE, folder],
                cwd=corpora.ROOT,
                stderr=subprocess.PIPE,
                universal_newlines=True,
            )
            assert os.listdir(folder) == []
            assert (
                (f"no permission to write in {folder}, wanted it" in done.stderr)
                == ("choose another --out" in done.stderr)
                == (mode == 0o555)
                == (done.returncode != 0)
            )


def test_a_file_in_place_of_a_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(ValueError, match="--logdir .*found a file .*/file,"):
            files.refuse_unwritable(str(path), "--logdir")


def test_a_link_that_leads_out_of_a_folder_is_refused(tmp_path):
    folder = tmp_path / "folder"
    (folder / "deeper").mkdir(parents=True)
    os.symlink("deeper", str(folder / "inside"))
    files.refuse_links(str(folder))
    os.symlink(str(tmp_path / "secret"), str(folder / "deeper" / "link"))
    with pytest.raises(ValueError, match="deeper/link: found a link to .*secret"):
        files.refuse_links(str(folder))
