"""files.py: a file or folder is the old one or the new one; no link leads elsewhere."""

import hashlib
import os
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
    with files.replace_file(str(path), mode) as file:
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
    with pytest.raises(error), files.replace_file(str(tmp_path / "file")) as file:
        file.write("new")
        if place == "body":
            fail()
    assert corpora.read_tree(tmp_path) == {"file": b"old"}


def test_what_is_in_the_way_of_a_file_is_named_by_its_path(tmp_path):
    (tmp_path / "folder").mkdir()
    for path, message in (
        ("none/file", "folder .*none is missing; create"),
        ("folder", "folder'$"),
    ):
        with pytest.raises(OSError, match=message) as error:
            with files.replace_file(str(tmp_path / path)):
                pass
        assert ".tmp" not in str(error.value).split(" -> ")[0]


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1])
def test_the_checksum_is_that_of_the_content(tmp_path, size):
    (tmp_path / "file").write_bytes(b"x" * size)
    expected = hashlib.sha256(b"x" * size).hexdigest()
    assert files.sha256_of(str(tmp_path / "file")) == expected


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
                (f"no permission to write in {folder}" in done.stderr)
                == ("choose another --out" in done.stderr)
                == (mode == 0o555)
                == (done.returncode != 0)
            )


def test_a_file_in_place_of_a_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(ValueError, match="--logdir .*got a file, .*/file;"):
            files.refuse_unwritable(str(path), "--logdir")


# --- New folders ----------------------------------------------------------------------


@pytest.mark.parametrize("before", ["nothing", "empty", "deeper"])
def test_a_new_folder_appears_whole(tmp_path, before):
    out = tmp_path / "deeper" / "out" if before == "deeper" else tmp_path / "out"
    if before == "empty":
        out.mkdir()
    with files.new_folder(str(out), "--out") as folder:
        corpora.write_lines(os.path.join(folder, "file"), ["text"])
        assert not out.exists() or os.listdir(str(out)) == []
    assert corpora.read_tree(out) == {"file": b"text\n"}
    assert os.listdir(str(out.parent)) == ["out"]
    umask = os.umask(0)
    os.umask(umask)
    assert os.stat(str(out)).st_mode & 0o777 == 0o777 & ~umask  # not a private folder


def test_a_folder_that_fails_never_appears(tmp_path):
    with pytest.raises(KeyError), files.new_folder(str(tmp_path / "a" / "b"), "--out"):
        raise KeyError
    assert os.listdir(str(tmp_path)) == []


def test_a_folder_of_other_things_is_refused_and_one_of_ours_replaced(tmp_path):
    for name in ("Documents", "a", "b", "c"):
        (tmp_path / name).mkdir()
    with pytest.raises(
        ValueError, match="got one that contains Documents, a, b and 1 more"
    ):
        files.refuse_used(str(tmp_path), "--out")
    out = tmp_path / "a"
    (out / "model.bin").write_text("old")
    with files.new_folder(str(out), "--out", replaces="model.bin"):
        pass
    assert os.listdir(str(out)) == []
    assert sorted(os.listdir(str(tmp_path))) == ["Documents", "a", "b", "c"]


def test_what_killed_processes_left_is_swept_and_what_is_in_use_is_not(tmp_path):
    remainder = tmp_path / (files.NAME_START + "left")
    (remainder / "deeper").mkdir(parents=True)
    mine = tmp_path / "mine"
    mine.mkdir()
    os.symlink(str(mine), str(tmp_path / (files.NAME_START + "link")))
    with files.temporary_folder(str(tmp_path)) as first:
        assert not remainder.exists() and mine.exists()
        with files.temporary_folder(str(tmp_path)) as second:
            assert os.path.isdir(first) and first != second
    assert not os.path.exists(first) and files.UNFINISHED == set()
