"""folders.py: a folder is there whole or not at all; what killed processes leave."""

import os
import signal
import subprocess
import sys
import time

import average_checkpoints
import corpora
import import_checkpoint
import pytest
from originals import with_moments, write

import hparams
import train
from transformer.runtime import folders
from transformer.runtime.checkpoints import path_of
from transformer.text.summary import verify

# --- New folders ----------------------------------------------------------------------


@pytest.mark.parametrize("before", ["nothing", "empty", "deeper"])
def test_a_new_folder_appears_whole(tmp_path, before):
    out = tmp_path / "deeper" / "out" if before == "deeper" else tmp_path / "out"
    if before == "empty":
        out.mkdir()
    with folders.new_folder(str(out), "--out") as made:
        corpora.write_lines(os.path.join(made, "file"), ["text"])
        assert not out.exists() or os.listdir(str(out)) == []
    assert corpora.tree(out) == {"file": b"text\n"}
    assert os.listdir(str(out.parent)) == ["out"]
    umask = os.umask(0)
    os.umask(umask)
    assert os.stat(str(out)).st_mode & 0o777 == 0o777 & ~umask  # not a private folder


def test_a_folder_that_fails_never_appears(tmp_path):
    with pytest.raises(KeyError), folders.new_folder(
        str(tmp_path / "a" / "b"), "--out"
    ):
        raise KeyError
    assert os.listdir(str(tmp_path)) == []


def test_a_folder_of_other_things_is_refused_and_one_of_ours_replaced(tmp_path):
    for name in ("Documents", "a", "b", "c"):
        (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match="found Documents, a, b and 1 more in it"):
        folders.refuse_used(str(tmp_path), "--out")
    out = tmp_path / "a"
    (out / "model.bin").write_text("old")
    with folders.new_folder(str(out), "--out", replaces="model.bin"):
        pass
    assert os.listdir(str(out)) == []
    assert sorted(os.listdir(str(tmp_path))) == ["Documents", "a", "b", "c"]


def test_what_killed_processes_left_is_swept_and_what_is_in_use_is_not(tmp_path):
    left = tmp_path / (folders.NAME_START + "left")
    (left / "deeper").mkdir(parents=True)
    mine = tmp_path / "mine"
    mine.mkdir()
    os.symlink(str(mine), str(tmp_path / (folders.NAME_START + "link")))
    with folders.unfinished(str(tmp_path)) as first:
        assert not left.exists() and mine.exists()
        with folders.unfinished(str(tmp_path)) as second:
            assert os.path.isdir(first) and first != second
    assert not os.path.exists(first) and folders.UNFINISHED == set()


@pytest.mark.parametrize(
    "name, is_swept",
    [(".prepare-abcd_123", True), (".prepare-notes", False), (".prepare-", False)],
)
def test_what_older_versions_left_is_swept_a_day_later(tmp_path, name, is_swept):
    for age, folder in ((0, "young"), (2 * folders.DAY, "old")):
        left = tmp_path / folder / name
        (left / "deeper").mkdir(parents=True)
        when = time.time() - age
        os.utime(str(left), (when, when))
        with folders.unfinished(str(tmp_path / folder)):
            assert left.exists() == (not is_swept or folder == "young")


# --- Moves, all of them or none -------------------------------------------------------


def test_moves_are_undone_where_one_fails(tmp_path):
    for name in ("a", "b", "c", "d"):
        (tmp_path / name).write_text(name)
    before = corpora.tree(tmp_path)

    def path(name):
        return str(tmp_path / name)

    with pytest.raises(OSError), folders.Moves() as moves:
        moves.move(path("missing"), path("x"))
        moves.move(path("a"), path("aside"))
        moves.replace(path("b"), path("c"), path("kept"))
        moves.replace(path("d"), path("new"), path("kept-too"))
        assert corpora.tree(tmp_path) == {
            "aside": b"a",
            "c": b"b",
            "kept": b"c",
            "new": b"d",
        }
        moves.move(path("c"), path("no/such/folder"))
    del before["b"]  # what took the place of another is not needed any more
    assert corpora.tree(tmp_path) == before


@pytest.mark.parametrize("is_possible", [True, False])
def test_folders_are_exchanged_and_put_back(tmp_path, monkeypatch, is_possible):
    if not is_possible:
        monkeypatch.setattr(folders, "_exchange", lambda *_: os.rmdir("/"))
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text(name)
    before = corpora.tree(tmp_path)
    mine, other = str(tmp_path / "mine"), str(tmp_path / "other")
    with pytest.raises(KeyError), folders.Moves() as moves:
        moves.exchange(mine, other)
        assert os.listdir(other) == ["mine"]
        raise KeyError
    assert corpora.tree(tmp_path) == before


# --- Killed at every call that changes a folder ---------------------------------------

KILLED = """
import os, signal, sys
calls, last = 0, int(sys.argv[1])

def counted(function):
    def call(*args, **more):
        global calls
        calls += 1
        if calls == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **more)
    return call

sys.path[:0] = ["scripts", "."]
import {command}
import transformer.runtime.files
for name in ("mkdir", "replace", "rename", "remove", "fsync", "rmdir", "unlink"):
    setattr(os, name, counted(getattr(os, name)))
{command}.main(sys.argv[2:])
"""


def killed(command, call, *argv):
    """Run a command that is killed at its n-th such call; return whether it was."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED.format(command=command), str(call), *argv],
        cwd=corpora.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


def prepared_again(tmp_path, call):
    """A corpus on which another prepare.py was killed; (its folder, the flags)."""
    splits = corpora.reversed_symbols({"train": 40, "dev": 5, "test": 5}, shortest=3)
    out = corpora.write_text(tmp_path / str(call), splits)
    flags = ["--out", out, "--vocab_size"]
    corpora.prepare.main([*flags, "25"])
    again = [*flags, "24", "--separate"]
    return out, again, killed("prepare", call, *again)


@pytest.mark.slow
def test_prepare_killed_anywhere_leaves_a_corpus_or_none(tmp_path, capsys):
    wanted, again, _ = prepared_again(tmp_path, 10**6)
    calls, refused = -1, 0
    while True:
        calls += 3
        out, again, was_killed = prepared_again(tmp_path, calls)
        if not was_killed:
            break
        if os.path.exists(os.path.join(out, "corpus.json")):
            verify(out)
        else:
            refused += 1
            said = corpora.refusal(
                capsys,
                train.main,
                "--data",
                out,
                "--logdir",
                tmp_path / "logs",
                *corpora.TINY,
            )
            assert "prepare.py" in said
        corpora.prepare.main(again)
        assert corpora.tree(out) == corpora.tree(wanted)
    assert calls > 20 and refused > 5
    assert not [name for name in os.listdir(str(tmp_path)) if name.startswith(".")]


@pytest.fixture(scope="module")
def commands(trained, tmp_path_factory):
    """command → its flags but --out, and the step of the checkpoint it writes."""
    folder = tmp_path_factory.mktemp("original")
    original = write(with_moments("kyubyong"), folder)
    imports = ["--from", "kyubyong", "--ckpt", str(original), "--num_heads", "2"]
    return {
        "average_checkpoints": (["--logdir", trained, "--last", "2"], 240),
        "import_checkpoint": (imports, 3),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [average_checkpoints, import_checkpoint], ids=lambda each: each.__name__
)
def test_what_writes_a_log_directory_killed_anywhere_goes_on(
    commands, tmp_path, command
):
    flags, step = commands[command.__name__]
    out = str(tmp_path / "out")
    for call in (1, 5, 13, 10**6):
        was_killed = killed(command.__name__, call, *flags, "--out", out)
        assert was_killed == (not os.path.exists(out))
    assert call == 10**6 and not was_killed
    assert os.listdir(str(tmp_path)) == ["out"]
    assert hparams.load(out) and os.path.exists(path_of(out, step) + ".index")
