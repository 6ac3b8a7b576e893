"""Several workers as real processes: the same bits, and how each failure ends all."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import corpora
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from transformer.logdir import manifests
from transformer.logdir.names import checkpoint_path
from transformer.workers import launch

pytestmark = [
    pytest.mark.skipif(tf.__version__ < "2", reason="TensorFlow 1.15 refuses"),
    pytest.mark.slow,
]

EXACT = ["--deterministic", "--shards=4", "--dropout_rate=0.2", "--save_every=4"]
EXACT += ["--eval_every=1000", "--keep_checkpoints=100"]
FOREVER = "--max_steps=100000"


class Process:
    """A worker as a process of its own, on the CPU; its lines are read as it writes."""

    def __init__(self, environment, *argv):
        self.lines = []
        self.process = subprocess.Popen(
            [sys.executable, *argv],
            cwd=corpora.ROOT,
            env={"PYTHONPATH": corpora.ROOT, **environment, "CUDA_VISIBLE_DEVICES": ""},
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def wait_for(self, text):
        """Wait until a line has a text."""
        deadline = time.monotonic() + 300
        while not any(text in line for line in self.lines):
            assert time.monotonic() < deadline and self._reader.is_alive(), self.lines
            time.sleep(0.01)

    def end(self):
        """(its status, its last line)."""
        status = self.process.wait(300)
        self._reader.join(20)
        return status, self.lines[-1] if self.lines else ""

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def started():
    """started(environment, *argv): a Process, which ends with the test."""
    processes = []

    def started(*args):
        processes.append(Process(*args))
        return processes[-1]

    yield started
    for worker in processes:
        worker.kill()


@pytest.fixture
def command(digits):
    """command(logdir, *flags): the arguments of a training run in exact steps."""

    def command(logdir, *flags):
        where = ["--data", digits, "--logdir", str(logdir)]
        return ["train.py", *where, *corpora.TINY, *EXACT, *flags]

    return command


@pytest.fixture
def start(started, command):
    """start(count, logdir, *flags): so many workers; what they start ends with them."""

    def start(count, logdir, *flags):
        return [
            started(environment, *command(logdir, *flags))
            for environment in launch.make_environments(count)
        ]

    return start


@pytest.fixture(scope="module")
def alone(digits, tmp_path_factory):
    """The log directory of a hundred steps of one process; do not write."""
    logdir = tmp_path_factory.mktemp("alone")
    where = ["train.py", "--data", digits, "--logdir", str(logdir), *corpora.TINY]
    done = Process(os.environ, *where, *EXACT, "--max_steps=100")
    assert done.end()[0] == 0, done.lines
    return logdir


def bytes_of(logdir, step):
    variables = corpora.read_variables(checkpoint_path(str(logdir), step))
    return {name: np.asarray(array).tobytes() for name, array in variables.items()}


def assert_goes_on(start, logdir, alone):
    """The same command continues; what it makes is what one process makes."""
    step = manifests.list_steps(str(logdir))[-1] + 4
    assert step <= 100
    for worker in start(2, logdir, f"--max_steps={step}"):
        assert worker.end()[0] == 0, worker.lines
    assert bytes_of(logdir, step) == bytes_of(alone, step)


# Trains as train.py does, after a change of the package.
CHANGED = """
import os, signal, sys
from transformer.text import batches as data
from transformer import trainer, training
from transformer.workers import exchange
from transformer.trainer import TrainingGraph
{}
from transformer.commands import program
sys.argv[:1] = []
program.main(["train", *sys.argv[1:]])
"""


@pytest.mark.parametrize("count", [2, 3, 4])
def test_the_same_bits_as_one_process(tmp_path, command, started, alone, count):
    """By the launcher; three workers compute four shards, up to two each."""
    launcher = ["-m", "transformer.launch", f"--workers={count}", "--"]
    run = started(os.environ, *launcher, *command(tmp_path, "--max_steps=8"))
    assert run.end()[0] == 0, run.lines
    for step in (4, 8):
        assert bytes_of(tmp_path, step) == bytes_of(alone, step)
    assert any(line.startswith("[0] step 8/8") for line in run.lines)
    message = (
        f"[0] {count} workers: each computes {-(-4 // count)} of 4 shards of a batch; "
    )
    assert message + "an update adds up 0 MB of gradients over the workers" in run.lines
    assert not any(line.startswith("[1]") for line in run.lines)  # only the chief


def test_float16_is_the_same_on_two_workers(started, command, tmp_path):
    """The loss scale, and the updates that it skips, are the same, too."""
    script = CHANGED.format("training.FIRST_SCALE = 2.0**14")  # too large for float16
    environments = {"one": [os.environ], "two": launch.make_environments(2)}
    for worker in [
        started(
            environment,
            *("-c", script),
            *command(tmp_path / logdir, "--precision=float16", "--max_steps=8"),
        )
        for logdir in environments
        for environment in environments[logdir]
    ]:
        assert worker.end()[0] == 0, worker.lines
    assert bytes_of(tmp_path / "one", 8) == bytes_of(tmp_path / "two", 8)
    variables = corpora.read_variables(checkpoint_path(str(tmp_path / "one"), 8))
    assert 0 < variables["loss_scale/skipped_updates"] < 8


def test_without_deterministic_each_worker_computes_one_piece(
    digits, started, tmp_path
):
    """Sums are exchanged in packs, and are nearly those of one process."""
    script = CHANGED.format(
        "exchange.PACK_BYTES = exchange.make_packs.__defaults__ = (4096,)"
    )
    flags = ["--dropout_rate=0", "--max_steps=4", "--seed=7"]
    losses = []
    for environments in ([os.environ], launch.make_environments(2)):
        logdir = tmp_path / str(len(environments))
        where = ["--data", digits, "--logdir", str(logdir), *corpora.TINY, *flags]
        for worker in [started(one, "-c", script, "x", *where) for one in environments]:
            status, message = worker.end()
            assert status == 0, worker.lines
        losses.append(corpora.read_scalars(logdir)["loss"])
    for step in range(1, 5):
        np.testing.assert_allclose(losses[0][step], losses[1][step], rtol=1e-4)


@pytest.mark.parametrize("killed, count", [(2, 3), (0, 2)], ids=["worker", "chief"])
def test_one_that_is_killed_ends_all_and_the_run_goes_on(
    start, tmp_path, alone, killed, count
):
    """The run of three goes on with two."""
    processes = start(count, tmp_path, FOREVER)
    processes[0].wait_for("step 5/")
    processes.pop(killed).kill()
    for worker in processes:
        status, message = worker.end()
        assert status == 75, worker.lines
        assert re.search(
            rf"train.py: worker {killed} at \S+ died: .* to continue", message
        )
    assert_goes_on(start, tmp_path, alone)


def test_a_worker_that_is_frozen_ends_all(start, tmp_path):
    chief, frozen = start(2, tmp_path, FOREVER)
    chief.wait_for("step 5/")
    frozen.process.send_signal(signal.SIGSTOP)
    status, message = chief.end()
    assert status == 75, chief.lines
    assert re.search(r"worker 1 at \S+ has not been heard from for 30 s", message)
    frozen.process.send_signal(signal.SIGCONT)
    assert frozen.end()[0] == 75


@pytest.mark.parametrize(
    "number, receivers, text",
    [(signal.SIGTERM, [1], "SIGTERM"), (signal.SIGINT, [1, 0], "interrupted")],
    ids=["one", "all"],
)
def test_a_signal_stops_all_with_a_checkpoint(start, tmp_path, number, receivers, text):
    """A Ctrl-C reaches all of them; those that are not the chief pass it on, too."""
    processes = start(2, tmp_path, FOREVER)
    processes[0].wait_for("step 5/")
    for index in receivers:
        processes[index].process.send_signal(number)
    for worker in processes:
        status, message = worker.end()
        assert (status, text in message) == (128 + number, True), worker.lines
    *_, last = [line for line in processes[0].lines if line.startswith("step ")]
    saved = manifests.list_steps(str(tmp_path))[-1]
    assert last.startswith(f"step {saved}/")
