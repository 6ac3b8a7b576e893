"""text/shards.py and translate --shards: no line is lost, whoever dies."""

import errno
import glob
import io
import os
import re
import shutil
import subprocess
import sys
import time

import corpora
import pytest

from transformer.commands import translate
from transformer.runtime.errors import PlanDiffers, ShardsFailed, ShardsMissing
from transformer.text import shards

BOM = b"\xef\xbb\xbf"
ODD_LINES = (
    BOM + b"1 2 3 4\r\n",
    b"\n",
    b"5\xff6 7\n",
    "1\u20282\u0085 3\x0c4\n".encode(),
    b"\r\n",
    BOM + b"9 8\r7\n",
    b" \t \n",
    b"1\x1c2 3",  # no line feed at the end
)
TEXT = b"".join(b"%d 2 %d\n" % (i % 10, i % 7) for i in range(23))

# A process that "translates" slowly, and reports each shard that it begins.
SLOW = """
import sys, time
from transformer.text import shards

def slow(lines, first_line, output):
    print(first_line, flush=True)
    time.sleep(float(sys.argv[3]))
    output.write(b"".join(line[::-1].strip() + b"\\n" for line in lines))

plan = shards.open_plan(sys.argv[1], sys.argv[2], 4, {"search": "slow"})
shards.translate_missing(plan, slow)
"""


@pytest.fixture
def source(tmp_path):
    """The path of a file of 23 lines: five shards of 4 lines, and one of 3."""
    path = tmp_path / "big.de"
    path.write_bytes(TEXT)
    return str(path)


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "shards")


def reverse(lines, first_line, output):
    output.write(b"".join(line[::-1].strip() + b"\n" for line in lines))


REVERSED = b"".join(line[::-1].strip() + b"\n" for line in io.BytesIO(TEXT))


def open_plan(folder, source, **identity):
    return shards.open_plan(folder, source, 4, {"search": "slow", **identity})


def joined(plan):
    output = io.BytesIO()
    shards.join(plan, output)
    return output.getvalue()


def start(folder, source, seconds):
    argv = [sys.executable, "-c", SLOW, folder, source, str(seconds)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=corpora.ROOT)


def assert_clean(folder, plan):
    names = {shards.PLAN, *(shard.file_name for shard in plan.shards)}
    assert set(os.listdir(folder)) == names


# The plan


@pytest.mark.parametrize("shard_lines", [1, 2, 3, 100])
def test_shards_are_the_lines_of_the_file(folder, tmp_path, shard_lines):
    path = tmp_path / "odd.de"
    for count in range(len(ODD_LINES) + 1):
        content = b"".join(ODD_LINES[:count])
        path.write_bytes(content)
        _, rows = shards.cut_file(str(path), shard_lines)
        plan = shards.Plan(None, str(path), {}, rows)
        lines = [plan.read_source(shard) for shard in rows]
        assert b"".join(sum(lines, [])) == content
        assert sum(lines, []) == list(io.BytesIO(content))
        assert [len(few) for few in lines] == [shard.num_lines for shard in rows]
        assert all(shard.num_lines == shard_lines for shard in rows[:-1])


def test_another_plan_is_refused_by_naming_what_differs(folder, source, tmp_path):
    open_plan(folder, source, beam_size=4)
    other = str(tmp_path / "moved.de")
    shutil.copy(source, other)
    open_plan(folder, other, beam_size=4)  # the content decides
    with pytest.raises(PlanDiffers, match="beam_size: expected 4, got 5$"):
        open_plan(folder, source, beam_size=5)
    with pytest.raises(PlanDiffers, match="shard_lines: expected 4, got 5$"):
        shards.open_plan(folder, source, 5, {"search": "slow", "beam_size": 4})
    with open(source, "r+b") as file:
        file.write(b"7")
    with pytest.raises(PlanDiffers, match=": input checksum: expected .*, got "):
        open_plan(folder, source, beam_size=4)
    with open(source, "ab") as file:
        file.write(b"7")
    with pytest.raises(PlanDiffers, match=": input size: expected .*, got .*checksum"):
        open_plan(folder, source, beam_size=4)


def test_lines_that_change_unseen_fail_when_they_are_read(folder, source):
    before = os.stat(source)
    plan = open_plan(folder, source)
    with open(source, "r+b") as file:
        file.write(b"7")
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    plan = open_plan(folder, source)
    with pytest.raises(ShardsFailed, match=r"shard 0 \(lines 1 to 4\): .*big.de"):
        shards.translate_missing(plan, reverse)
    assert [shard.number for shard in plan.list_missing()] == [0]


# Failures


def test_a_shard_that_fails_names_its_lines_and_stops_no_other(folder, source):
    def fail(lines, first_line, output):
        output.write(b"half\n")
        if first_line == 9:
            raise RuntimeError("no luck")
        reverse(lines[1:], first_line, output)

    plan = open_plan(folder, source)
    pattern = r"^shard 2 \(lines 9 to 12\): no luck; the others are finished$"
    with pytest.raises(ShardsFailed, match=pattern):
        shards.translate_missing(plan, fail)
    with pytest.raises(ShardsMissing, match=r"shard 2 \(lines 9 to 12\) is missing"):
        joined(plan)
    assert not glob.glob(os.path.join(folder, "*" + shards.CLAIM + "*"))
    shards.translate_missing(plan, reverse)
    assert joined(plan).count(b"\n") == TEXT.count(b"\n")


def test_another_number_of_translations_is_refused(folder, source):
    plan = open_plan(folder, source)
    with pytest.raises(ShardsFailed, match=r"shard 5 .*: expected 3 .*, got 2"):
        shards.translate_missing(
            plan, lambda lines, *rest: reverse(lines[len(lines) == 3 :], *rest)
        )
    shards.translate_missing(plan, reverse)
    with open(os.path.join(folder, plan.shards[1].file_name), "ab") as file:
        file.write(b"more\n")
    output = io.BytesIO()
    with pytest.raises(ShardsMissing, match="expected 4 lines, .*shard 1 .* got 5"):
        shards.join(plan, output)
    assert not output.getvalue()


@pytest.mark.parametrize("name", ["mkdir", "open", "fsync", "replace"])
def test_a_full_disk_leaves_nothing_half(folder, source, monkeypatch, name):
    """It ends the process: the other shards would be translated in vain."""
    plan = open_plan(folder, source)

    def fail(*args, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    begun = []

    def translate_two(lines, first_line, output):
        begun.append(first_line)
        if len(begun) == 2 and name in ("fsync", "replace"):
            monkeypatch.setattr(os, name, fail)
        if len(begun) == 2 and name == "open":
            fail()  # as a write does
        reverse(lines, first_line, output)
        if len(begun) == 1 and name == "mkdir":
            monkeypatch.setattr(os, name, fail)

    with pytest.raises(OSError) as error:
        shards.translate_missing(plan, translate_two)
    assert error.value.filename.startswith(folder)
    monkeypatch.undo()
    assert set(os.listdir(folder)) == {shards.PLAN, plan.shards[0].file_name}
    assert len(begun) <= 2
    shards.translate_missing(plan, reverse)
    assert joined(plan) == REVERSED


def test_a_full_disk_leaves_no_plan(folder, source, monkeypatch, limit_file_size):
    limit_file_size(100)
    with pytest.raises(OSError):
        open_plan(folder, source)
    limit_file_size()
    assert not os.listdir(folder)
    open_plan(folder, source)


# Several processes


def test_a_killed_process_loses_the_shard_that_it_works_on(folder, source):
    process = start(folder, source, 0.2)
    for _ in range(3):
        process.stdout.readline()
    process.kill()
    process.communicate()
    plan = open_plan(folder, source)
    assert [shard.number for shard in plan.list_missing()][0] == 2
    written = {
        name: os.stat(os.path.join(folder, name)).st_ino
        for name in os.listdir(folder)
        if name.endswith(".txt")
    }
    os.mkdir(os.path.join(folder, plan.shards[4].file_name + shards.CLAIM))  # emptied
    begun = time.monotonic()
    shards.translate_missing(plan, reverse)  # this machine sees that it is dead
    assert time.monotonic() - begun < shards.SILENCE / 2
    assert joined(plan) == REVERSED
    for name, inode in written.items():
        assert os.stat(os.path.join(folder, name)).st_ino == inode
    assert_clean(folder, plan)


def test_two_processes_do_no_shard_twice(folder, source):
    processes = [start(folder, source, 0.1) for _ in range(2)]
    outputs = [process.communicate()[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(map(int, sum(outputs, []))) == [1, 5, 9, 13, 17, 21]
    plan = open_plan(folder, source)
    assert joined(plan) == REVERSED
    assert_clean(folder, plan)


def test_the_claim_of_another_machine_is_taken_over_once_it_is_silent(
    folder, source, monkeypatch
):
    plan = open_plan(folder, source)
    claim = os.path.join(folder, plan.shards[0].file_name + shards.CLAIM)
    os.mkdir(claim)
    draft = os.path.join(claim, "1@elsewhere-12345678")
    open(draft, "wb").close()
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    beats, waits, messages = [1, 2, 3], [], []

    def sleep(seconds):  # the other process lives for a while
        waits.append(seconds)
        clock[0] += shards.SILENCE * 0.6
        if beats:
            os.utime(draft, (beats[0], beats.pop(0)))

    monkeypatch.setattr(time, "sleep", sleep)
    shards.translate_missing(plan, reverse, messages.append)
    assert len(waits) > 3
    (message,) = messages
    assert "shard 0 (lines 1 to 4), at work: 1@elsewhere" in message
    assert joined(plan) == REVERSED
    assert_clean(folder, plan)


def test_a_process_at_work_touches_its_draft(folder, source, monkeypatch):
    monkeypatch.setattr(shards, "BEAT", 0.01)
    plan = open_plan(folder, source)

    def think(lines, first_line, output):
        (draft,) = glob.glob(os.path.join(folder, "*" + shards.CLAIM, "*"))
        os.utime(draft, (1, 1))
        deadline = time.monotonic() + 10
        while os.stat(draft).st_mtime == 1:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        reverse(lines, first_line, output)

    assert shards.translate_shard(plan, plan.shards[0], think)


def test_nothing_breaks_if_two_processes_do_the_same_shard(folder, source):
    """One is frozen, another takes its claim over, and the first one wakes up."""
    plan, shard = open_plan(folder, source), None
    shard = plan.shards[0]
    claim = os.path.join(folder, shard.file_name + shards.CLAIM)

    def freeze(lines, first_line, output):
        os.rename(claim, claim + "-grave")
        shutil.rmtree(claim + "-grave")
        assert shards.translate_shard(open_plan(folder, source), shard, reverse)
        reverse(lines, first_line, output)

    assert shards.translate_shard(plan, shard, freeze)
    os.remove(os.path.join(folder, shard.file_name))

    def freeze_longer(lines, first_line, output):
        """The other one is still at work."""
        os.rename(claim, claim + "-grave")
        shutil.rmtree(claim + "-grave")
        os.mkdir(claim)
        open(os.path.join(claim, "1@elsewhere-12345678"), "wb").close()
        reverse(lines, first_line, output)

    assert not shards.translate_shard(plan, shard, freeze_longer)
    assert os.listdir(claim) == ["1@elsewhere-12345678"]


def test_claims_that_are_removed_at_the_end_stop_no_other_process(
    folder, source, monkeypatch
):
    """Another process finishes the last shard while this one begins it."""
    plan = open_plan(folder, source)
    replace, opened = os.rename, []

    def rename(old, new):
        if not opened:
            opened.append(old)
            shards.translate_missing(open_plan(folder, source), reverse)
        replace(old, new)

    monkeypatch.setattr(os, "rename", rename)
    shards.translate_missing(plan, reverse)
    assert opened and joined(plan) == REVERSED
    assert_clean(folder, plan)


# The command


@pytest.fixture
def command(trained, folder, source, monkeypatch):
    """command(flag, …) → the joined bytes of translate --shards with small chunks."""
    monkeypatch.setattr(translate, "CHUNK", 4)

    def command(*flags, logdir=trained):
        corpora.run_command(
            "translate",
            *("--logdir", logdir, "--shards", folder, "--input", source),
            *("--shard_lines", "4", *flags),
        )
        return joined(shards.read_plan(folder))

    return command


def translate_whole(monkeypatch, trained, content, *flags):
    """Return the bytes that translate writes for those of a file."""
    stdin, stdout = (io.TextIOWrapper(io.BytesIO(raw)) for raw in (content, b""))
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setattr(sys, "stdout", stdout)
    corpora.run_command("translate", "--logdir", trained, *flags)
    monkeypatch.undo()
    return stdout.buffer.getvalue()


@pytest.mark.usefixtures("one_thread_only")
@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--scores", "--alignments"],
        ["--search", "sample", "--seed", "3"],
        ["--split", "--search", "greedy"],
        ["--engine", "ctranslate2"],
    ],
    ids=" ".join,
)
def test_joined_shards_are_the_bytes_of_translate(
    command, trained, folder, source, flags, monkeypatch, tmp_path, capsys
):
    logdir = trained
    if "ctranslate2" in flags:
        pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
        logdir = str(tmp_path / "logs")
        shutil.copytree(trained, logdir)
    content = b"".join(ODD_LINES[:-1] * 2 + ODD_LINES)
    with open(source, "wb") as file:
        file.write(content)
    by_shard = command(*flags, logdir=logdir)
    assert "not UTF-8" in capsys.readouterr().err
    assert by_shard == translate_whole(monkeypatch, logdir, content, *flags)
    assert by_shard.count(b"\n") == len(ODD_LINES) * 3 - 2


@pytest.mark.usefixtures("one_thread_only")
def test_the_command_refuses_another_plan(command, trained, folder, tmp_path, capsys):
    flags = ["--search", "greedy"]
    expected = command(*flags)
    paths = glob.glob(os.path.join(folder, "*.txt"))
    inodes = {path: os.stat(path).st_ino for path in paths}
    logdir = str(tmp_path / "elsewhere")
    shutil.copytree(trained, logdir)
    assert command(*flags, logdir=logdir) == expected  # the content decides
    for more, name in (
        (["--search", "beam"], "search: expected greedy, got beam"),
        (["--scores"], "scores: expected False, got True"),
        (["--checkpoint", "newest"], "log directory: expected .*best.* got .*model"),
        (["--shard_lines", "8"], "shard_lines: expected 4, got 8"),
    ):
        with pytest.raises(SystemExit) as refused:
            command(*flags, *more)
        assert refused.value.code == 2
        message = capsys.readouterr().err.splitlines()[-1]
        assert re.search(name, message)
        assert "choose another --shards" in message
    assert len(paths) == 6
    assert inodes == {path: os.stat(path).st_ino for path in paths}


@pytest.mark.parametrize(
    "flags, message",
    [
        ([], "--logdir is missing"),
        (["--logdir", "x", "--workers", "2"], "--workers: --shards is missing"),
        (["--join"], "--join: --shards is missing"),
        (["--logdir", "x", "--shards", "x"], "--shards: --input is missing"),
        (
            ["--logdir=x", "--shards=x", "--input=x", "--stream"],
            "expected --shards or --stream, got both",
        ),
        (
            ["--logdir=x", "--shards=x", "--input=x", "--shard_lines=100"],
            "--shard_lines: expected a multiple of 2,000, got 100",
        ),
        (["--shards=missing", "--join"], "missing: expected shards, got no plan.json"),
    ],
    ids=" ".join,
)
def test_flags_of_shards_are_checked(flags, message, capsys):
    assert message in corpora.refusal(capsys, "translate", *flags)


@pytest.mark.slow
def test_workers_give_the_bytes_of_one_process(trained, digits, folder, tmp_path):
    lines = corpora.read_lines(os.path.join(digits, "train.de"))
    source, flags = str(tmp_path / "big.de"), ["--logdir", trained, "--deterministic"]
    corpora.write_lines(source, (lines * 4)[:7001])
    shard_flags = ["--shards", folder, "--input", source, "--shard_lines", "2000"]
    script = "scripts/translate.py"
    done = corpora.run_python(script, *flags, *shard_flags, "--workers", "2")
    assert (done.returncode, done.stderr.splitlines()[-1:]) == (0, ["4 of 4 shards"])
    done = corpora.run_python(script, "--shards", folder, "--join")
    with open(source, encoding="utf-8") as file:
        expected = corpora.run_python(script, *flags, stdin=file)
    assert done.stdout == expected.stdout != ""
