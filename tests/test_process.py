"""process.py: one training run in a log directory; signals wait, a second one not."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import corpora
import pytest
import tensorflow.compat.v1 as tf

import hparams
from transformer.runtime.process import LOCK, Lock, Stopped, StopSignals
from transformer.runtime.sessions import make_session, set_up_process

HOLDER = """
import sys, time
from transformer.runtime.process import Lock
with Lock(sys.argv[1]):
    print("taken", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that has the lock of `tmp_path`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        cwd=corpora.ROOT,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"taken\n"
    yield process
    process.kill()
    process.communicate()


def test_the_second_is_refused_and_told_by_whom(tmp_path, holder):
    with pytest.raises(ValueError) as refused, Lock(str(tmp_path)):
        raise AssertionError("the lock was given twice")
    for word in (str(tmp_path), str(holder.pid), socket.gethostname(), "--logdir"):
        assert word in str(refused.value)
    assert str(holder.pid) in (tmp_path / LOCK).read_text()  # and that stays


def test_a_killed_process_leaves_no_lock(tmp_path, holder):
    holder.kill()
    holder.wait()
    with Lock(str(tmp_path)):
        assert str(os.getpid()) in (tmp_path / LOCK).read_text()


def test_a_lock_that_was_given_back_can_be_taken_again(tmp_path):
    for _ in range(2):
        with Lock(str(tmp_path)) as lock:
            lock.take()  # once is enough, twice no harm
            with pytest.raises(ValueError):
                Lock(str(tmp_path)).take()


def test_a_log_directory_that_was_moved_or_deleted_is_noticed(tmp_path):
    logdir, moved = tmp_path / "logs", tmp_path / "moved"
    logdir.mkdir()
    with Lock(str(logdir)) as lock:
        lock.check()
        (logdir / "lock").unlink()  # by someone who tidies up
        lock.check()
        logdir.rename(moved)
        for make in (lambda: None, logdir.mkdir):
            make()
            with pytest.raises(FileNotFoundError, match="moved or deleted"):
                lock.check()
        shutil.rmtree(str(moved))
        shutil.rmtree(str(logdir))
        logdir.mkdir()
        with pytest.raises(FileNotFoundError):
            lock.check()


def test_a_signal_that_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            signals.check()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_log_directory_that_is_not_there_yet_is_not_made(tmp_path):
    folder = tmp_path / "none"
    with Lock(str(folder)) as lock:
        assert not folder.exists()
        folder.mkdir()
        lock.take()
        with pytest.raises(ValueError):
            Lock(str(folder)).take()


@pytest.mark.parametrize("number", StopSignals.NUMBERS)
def test_a_signal_waits_and_handlers_come_back(number):
    before = {each: signal.getsignal(each) for each in StopSignals.NUMBERS}
    with StopSignals() as signals:
        assert signals.received is None
        os.kill(os.getpid(), number)
        assert signals.received == number
        with pytest.raises(Stopped) as stopped, signals.at_once():
            raise AssertionError("nothing is begun once a signal came")
    assert stopped.value.status == 128 + number
    assert signal.Signals(number).name in str(stopped.value)
    assert before == {each: signal.getsignal(each) for each in StopSignals.NUMBERS}


@pytest.mark.parametrize("number", StopSignals.NUMBERS)
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
from transformer.runtime.process import StopSignals
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


@pytest.mark.parametrize("deterministic", [False, True])
def test_what_is_deterministic_has_one_thread(monkeypatch, deterministic):
    configs, asked = [], []
    monkeypatch.setattr(tf, "Session", lambda graph, config: configs.append(config))
    for name in (
        "set_intra_op_parallelism_threads",
        "set_inter_op_parallelism_threads",
    ):
        monkeypatch.setattr(tf.config.threading, name, asked.append)
    has_kernels = hasattr(tf.compat, "v2")  # TensorFlow 2
    if has_kernels:
        monkeypatch.setattr(
            tf.compat.v2.config.experimental,
            "enable_op_determinism",
            lambda: asked.append("kernels"),
        )
    hp = hparams.HParams(deterministic=deterministic)
    set_up_process(hp)
    make_session(hp)
    [config] = configs
    threads = config.intra_op_parallelism_threads, config.inter_op_parallelism_threads
    assert (threads == (1, 1)) == deterministic
    assert asked == [1, 1, "kernels"][: 2 + has_kernels] * deterministic
