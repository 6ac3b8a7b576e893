"""Signals, a closed pipe, a full disk: what ends a command is one line."""

import os
import signal
import subprocess
import sys
import threading
import time

import corpora
import pytest

from transformer.__main__ import interrupt_quietly
from transformer.commands import cli
from transformer.runtime import files
from transformer.runtime.signals import SIGNALS, Stopped, StopSignals, forward_signals

# A command that hangs in each of the ways in which an exception would be lost.
COMMAND = """
import sys, time
sys.path.insert(0, ".")
from transformer.commands import cli
from transformer.runtime.files import temporary_folder

def ready():
    print("ready", flush=True)
    time.sleep(60)

def run(args):
    if args.kind == "swallowed":
        try:
            ready()
        except BaseException:
            pass
    elif args.kind == "silenced":
        with cli.hold_stderr():
            print("what the start says", file=sys.stderr)
            ready()
    elif args.kind == "folder":
        with temporary_folder(args.out) as work:
            open(work + "/file", "w").close()
            ready()

parser = cli.make_parser("x.py", "Hangs.")
parser.add_argument("--kind")
parser.add_argument("--out", metavar="DIR")
cli.main(parser, run, sys.argv[1:], "run it again")
print("went on", flush=True)
"""
NAMES = {signal.SIGINT: "interrupted"}


@pytest.fixture
def start():
    """start(*argv): a process of Python, which does not outlive the test."""
    started = []

    def start(*argv, **more):
        started.append(
            subprocess.Popen(
                [sys.executable, *argv],
                cwd=corpora.ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                **more,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("kind", ["swallowed", "silenced", "folder"])
def test_a_signal_ends_a_command_in_one_line_wherever_it_is(start, tmp_path, kind):
    command = start("-c", COMMAND, "--kind", kind, "--out", str(tmp_path))
    assert command.stdout.readline() == b"ready\n"
    assert len(os.listdir(str(tmp_path))) == (kind == "folder")
    command.send_signal(signal.SIGTERM)
    output, message = command.communicate(timeout=30)
    assert message.decode() == "x.py: stopped by SIGTERM; run it again\n"
    assert (command.returncode, output) == (128 + signal.SIGTERM, b"")
    assert os.listdir(str(tmp_path)) == []


class Ended(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_removes_what_is_unfinished_and_handlers_come_back(
    number, monkeypatch, capfd, tmp_path
):
    """In this process, which does not end."""

    def end(status):
        raise Ended(status)

    monkeypatch.setattr(os, "_exit", end)

    def work(args):
        with files.temporary_folder(str(tmp_path / "out")) as folder:
            open(os.path.join(folder, "file"), "w").close()
            os.kill(os.getpid(), number)

    before = [signal.getsignal(signum) for signum in SIGNALS]
    with pytest.raises(Ended, match=str(128 + number)):
        cli.main(cli.make_parser("x.py", "Writes."), work, [], "run it again")
    what = NAMES.get(number, f"stopped by {signal.Signals(number).name}")
    assert capfd.readouterr().err == f"x.py: {what}; run it again\n"
    assert os.listdir(str(tmp_path)) == []
    assert [signal.getsignal(signum) for signum in SIGNALS] == before


ENDS = """
import os, signal, sys
sys.path.insert(0, ".")
from transformer.commands import cli

class Library:
    def __del__(self, kill=os.kill, me=os.getpid()):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            kill(me, number)

library = Library()  # it ends after Python's handlers
cli.main(cli.make_parser("x.py", "Ends."), lambda args: 3, [])
"""


def test_a_signal_after_the_end_changes_no_status():
    done = corpora.run_python("-c", ENDS)
    assert (done.returncode, done.stderr) == (3, "")


# --- Signals that wait for a safe point -----------------------------------------------


def test_a_signal_that_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            signals.check()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_waits_and_handlers_come_back(number):
    before = {signum: signal.getsignal(signum) for signum in SIGNALS}
    with StopSignals() as signals:
        assert signals.received is None
        os.kill(os.getpid(), number)
        assert signals.received == number
        with pytest.raises(Stopped) as stopped, signals.at_once():
            raise AssertionError("nothing is begun once a signal came")
    assert stopped.value.status == 128 + number
    message = NAMES.get(number, signal.Signals(number).name)
    assert message in str(stopped.value)
    assert before == {signum: signal.getsignal(signum) for signum in SIGNALS}


@pytest.mark.parametrize("number", SIGNALS)
def test_where_nothing_can_be_lost_a_signal_does_not_wait(number):
    with StopSignals() as signals:
        with signals.at_once():
            pass
        with pytest.raises(Stopped), signals.at_once():
            os.kill(os.getpid(), number)
            time.sleep(60)
        assert signals.received == number


STUBBORN = """
import time
from transformer.runtime.signals import StopSignals
with StopSignals() as signals:
    print("ready", flush=True)
    while not signals.received:
        time.sleep(0.01)
    print("once", flush=True)
    time.sleep(60)
"""


def test_a_second_ctrl_c_ends_at_once():
    process = subprocess.Popen(
        [sys.executable, "-c", STUBBORN], cwd=corpora.ROOT, stdout=subprocess.PIPE
    )
    try:
        for word in (b"ready\n", b"once\n"):
            assert process.stdout.readline() == word
            process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == -signal.SIGINT
    finally:
        process.kill()
        process.communicate()


ASKED = """
import os, signal, sys, threading, time
from transformer.runtime.signals import Stopped, StopSignals
own = lambda: os.kill(os.getpid(), signal.SIGINT)
with StopSignals() as signals:
    request = threading.Thread(target=signals.request, args=(signal.SIGINT,)).start
    for deliver in (own, request) if sys.argv[1] == "own first" else (request, own):
        deliver()
        time.sleep(0.1)
    print(int(signals.received), flush=True)
    own()
    if sys.argv[1] != "own first":
        own()
    time.sleep(60)
"""


@pytest.mark.parametrize("order", ["own first", "request first"])
def test_a_ctrl_c_that_comes_twice_is_one(order):
    """From the terminal, and from another worker, which it reached too."""
    done = corpora.run_python("-c", ASKED, order)
    assert (done.stdout, done.returncode) == ("2\n", -signal.SIGINT)


def test_a_request_interrupts_an_evaluation():
    with StopSignals() as signals, pytest.raises(Stopped) as stopped:
        with signals.at_once():
            signals.request(signal.SIGINT)
            time.sleep(60)
    assert stopped.value.status == 128 + signal.SIGINT
    signals.request(signal.SIGINT)  # the run ends anyway


def test_outside_the_main_thread_no_handler_is_set():
    """As in a thread of Ray, or of a notebook."""
    before = [signal.getsignal(signum) for signum in SIGNALS]
    errors = []

    def work():
        try:
            interrupt_quietly()
            with forward_signals(print), StopSignals() as signals, signals.at_once():
                cli.main(cli.make_parser("x.py", "Works."), lambda args: None, [])
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    thread.start()
    thread.join()
    signal.signal(signal.SIGINT, before[0])
    assert not errors
    assert [signal.getsignal(signum) for signum in SIGNALS] == before


# --- Pipes and disks ------------------------------------------------------------------

PRINTS = """
import sys
sys.path.insert(0, ".")
from transformer.commands import cli

def run(args):
    for number in range(int(args.lines)):
        print(number)

parser = cli.make_parser("x.py", "Prints.")
parser.add_argument("--lines")
cli.main(parser, run, sys.argv[1:])
"""


@pytest.mark.parametrize("lines", [3, 10**6])
def test_who_reads_no_further_ends_it_silently(lines):
    shell = f'"$1" -c "$2" --lines {lines} | head -1; echo ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", shell, "bash", sys.executable, PRINTS],
        cwd=corpora.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert (done.stdout, done.stderr) == (b"0\n0\n", b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("lines", [3, 10**5])
def test_a_full_disk_is_told_in_one_line(lines):
    with open("/dev/full", "wb") as full:
        done = corpora.run_python("-c", PRINTS, "--lines", lines, stdout=full)
    assert done.returncode == 2
    assert done.stderr == (
        "x.py: standard output: there is no space for it (No space left on device); "
        "free some space, then run the same command again\n"
    )


@pytest.mark.parametrize("error", [MemoryError(), OSError(5, "broken")], ids=repr)
def test_no_message_is_empty(error):
    assert cli.format_error(error)
    assert files.UNFINISHED == set()
