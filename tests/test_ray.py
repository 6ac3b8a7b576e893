"""launch --ray and translate --ray: what one machine promises, several machines keep.

The machines are several nodes of Ray on this one.
"""

import contextlib
import glob
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import types

import corpora
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from transformer.commands.launch import find_logdir
from transformer.logdir import manifests
from transformer.logdir.names import checkpoint_path
from transformer.runtime.errors import SettingsError
from transformer.text import shards
from transformer.workers import ray_cluster

needs_tf2 = pytest.mark.skipif(tf.__version__ < "2", reason="TensorFlow 1.15 refuses")
EXACT = ["--deterministic", "--shards=4", "--dropout_rate=0.2", "--save_every=4"]
EXACT += ["--eval_every=100000", "--keep_checkpoints=2"]
FLAGS = {
    "launch": ["--", "train.py", "--logdir", "x"],
    "translate": ["--logdir=x", "--shards=x", "--input=x"],
}


# Without a cluster


@pytest.mark.parametrize("name", FLAGS)
def test_without_ray_the_commands_name_the_extra(name, monkeypatch, capsys, trained):
    monkeypatch.setitem(sys.modules, "ray", None)
    flags = [flag.replace("=x", f"={trained}") for flag in FLAGS[name]]
    message = corpora.refusal(capsys, name, "--ray", "auto", *flags)
    assert re.search(r"ray is not installed.*transformer-tf\[ray\].* 3\.10", message)


@pytest.mark.parametrize(
    "address, message",
    [
        ("127.0.0.1:1", "Ray: no cluster answers .*refused.*; start a cluster with"),
        ("x", "Ray: expected auto or host:port, got 'x'"),
    ],
)
def test_a_cluster_that_is_not_there_is_refused_at_once(
    address, message, capsys, monkeypatch
):
    monkeypatch.setenv("RAY_AUTH_MODE", "token")  # Ray reads it when it is imported
    pytest.importorskip("ray", reason="Ray is not installed")
    refusal = corpora.refusal(capsys, "launch", "--ray", address, *FLAGS["launch"])
    assert re.search(message, refusal)


def test_ray_needs_shards(capsys):
    message = corpora.refusal(capsys, "translate", "--logdir", "x", "--ray", "auto")
    assert "--ray: --shards is missing" in message


class Machine:
    """What stands for the actor of a machine: it sees some files, or none."""

    def __init__(self, hides):
        self.has_file = types.SimpleNamespace(
            remote=lambda path: os.path.exists(path) and hides not in path
        )


def test_a_folder_that_is_not_shared_is_refused_by_naming_the_host(tmp_path):
    cluster = ray_cluster.RayCluster(types.SimpleNamespace(get=lambda x: x), print)
    machines = [{"NodeManagerHostname": name} for name in ("node6", "node7")]
    actors = [Machine("\0"), Machine(".shared-")]
    folder = str(tmp_path / "logs" / "base")
    with pytest.raises(SettingsError, match="^node7: .* is another folder than on "):
        cluster._check_shared(folder, actors, machines)
    cluster._check_shared(folder, actors[:1], machines[:1])
    assert os.listdir(str(tmp_path)) == []


@pytest.mark.parametrize(
    "words, logdir",
    [
        ("train.py --data d --logdir=a/b --preset base", "a/b"),
        ("-m transformer train --logdir a --seed 1", "a"),
        ("worker.py x", None),
    ],
)
def test_the_log_directory_of_a_command_is_known(words, logdir):
    assert find_logdir(words.split()) == logdir


@pytest.mark.parametrize(
    "machines, count, share",
    [
        ([(16,), (16,)], 2, {"CPU": 16}),
        ([(16,), (16,)], 3, {"CPU": 8}),
        ([(16,), (4,)], 2, {"CPU": 8}),
        ([(2,)], 5, {"CPU": 1}),
        ([(16, 2), (16,)], 2, {"GPU": 1, "CPU": 1}),
        ([], 2, {"CPU": 1}),
    ],
)
def test_workers_share_the_cores_equally_or_have_a_gpu_each(
    machines, count, share, monkeypatch
):
    nodes = [
        {"Alive": True, "Resources": dict(zip(("CPU", "GPU"), amounts))}
        for amounts in machines
    ]
    nodes.append({"Alive": False, "Resources": {"CPU": 64, "GPU": 8}})
    ray = types.SimpleNamespace(nodes=lambda: nodes)
    cluster = ray_cluster.RayCluster(ray, print)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert cluster.choose_share(count) == share
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "GPU" not in cluster.choose_share(count)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="assigns no cores")
def test_workers_of_a_machine_take_cores_of_their_own(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1007, 1001, 1003, 1002})
    with contextlib.ExitStack() as held:
        with contextlib.ExitStack() as first:
            assert ray_cluster.take_cores(2, first) == [1001, 1002]
            assert ray_cluster.take_cores(1, held) == [1003]
            assert ray_cluster.take_cores(0, held) == []
            assert ray_cluster.take_cores(3, held) == []
        assert ray_cluster.take_cores(2, held) == [1001, 1002]


# With a cluster


def add_machine(cluster, **options):
    """Add a machine with two CPUs; Ray itself gives up after 30 seconds."""
    for _ in range(2):
        with contextlib.suppress(Exception):
            return cluster.add_node(num_cpus=2, object_store_memory=2**27, **options)
    return cluster.add_node(num_cpus=2, object_store_memory=2**27, **options)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster of two machines with two CPUs each; it asks for a token."""
    token = tmp_path_factory.mktemp("token") / "auth_token"
    token.write_text("0123456789abcdef" * 4)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patched.setenv("RAY_AUTH_MODE", "token")
        patched.setenv("RAY_AUTH_TOKEN_PATH", str(token))
        utils = pytest.importorskip("ray.cluster_utils", reason="Ray is not installed")
        cluster = utils.Cluster()
        add_machine(cluster, include_dashboard=False)
        add_machine(cluster)
        yield cluster
        cluster.shutdown()


class Driver:
    """A command that uses the cluster; its lines are read as it writes."""

    def __init__(self, cluster, *argv, cwd=corpora.ROOT, **variables):
        self.lines = []
        self.process = subprocess.Popen(
            [sys.executable, "-u", *argv[:2], "--ray", cluster.address, *argv[2:]],
            cwd=cwd,
            env={
                **os.environ,
                "PYTHONPATH": corpora.ROOT,
                "CUDA_VISIBLE_DEVICES": "",
                **variables,
            },
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def wait_for(self, pattern, seen=0):
        """Wait for a line after the first `seen` that matches; return how many came."""
        deadline = time.monotonic() + 300
        while True:
            for index in range(seen, len(self.lines)):
                if re.search(pattern, self.lines[index]):
                    return index + 1
            assert time.monotonic() < deadline and self._reader.is_alive(), self.lines
            time.sleep(0.05)

    def end(self):
        status = self.process.wait(300)
        self._reader.join(20)
        return status


@pytest.fixture
def start(cluster):
    """start(program, name, *flags): a Driver, which ends with the test."""
    drivers = []

    def start(*argv, **options):
        drivers.append(Driver(cluster, *argv, **options))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.process.kill()
        driver.process.wait()


def find_workers(folder):
    """{index: process id} of the workers whose arguments name a folder."""
    workers = {}
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path) as file:
                words = file.read().split("\0")
            with open(os.path.join(os.path.dirname(path), "environ")) as file:
                variables = dict(
                    pair.split("=", 1)
                    for pair in file.read().split("\0")
                    if "=" in pair
                )
        except OSError:  # it has ended
            continue
        if str(folder) in words and "RAY_JOB_ID" in variables:
            config = json.loads(variables.get("TF_CONFIG", "{}"))
            index = config.get("task", {}).get("index", len(workers))
            workers[index] = int(path.split("/")[2])
    return workers


def read_bytes(logdir, step):
    variables = corpora.read_variables(checkpoint_path(str(logdir), step))
    return {name: np.asarray(array).tobytes() for name, array in variables.items()}


@needs_tf2
@pytest.mark.slow
def test_a_cluster_needs_a_token_and_the_package(cluster, start, tmp_path):
    launcher = ("-m", "transformer.launch", "--", "worker.py")
    (tmp_path / "worker.py").touch()
    none = str(tmp_path / "none")
    driver = start(*launcher, RAY_AUTH_TOKEN_PATH=none, cwd=str(tmp_path))
    assert driver.end() == 2
    assert "Ray: this machine has no token; start a cluster" in driver.lines[-1]

    (tmp_path / "program.py").write_text(
        "import sys, types\n"
        "from transformer.commands import cli, launch\n"
        "from transformer.workers import ray_cluster\n"
        "sys.modules['gone'] = types.ModuleType('gone')\n"  # in this process alone
        "sys.modules['gone'].Host = ray_cluster.Host\n"
        "ray_cluster.Host.__module__ = 'gone'\n"
        "cli.main(launch.parser(), launch.run)\n"
    )
    driver = start("program.py", "--restarts=2", *launcher[2:], cwd=str(tmp_path))
    assert driver.end() == 2
    pattern = "cannot start a worker: .*No module named 'gone'; install the same"
    assert re.search(pattern, driver.lines[-1])


@needs_tf2
@pytest.mark.slow
def test_a_cluster_without_a_token_is_refused(cluster, monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    utils = pytest.importorskip("ray.cluster_utils")
    open_cluster = utils.Cluster()
    try:
        add_machine(open_cluster, include_dashboard=False)
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        driver = Driver(open_cluster, "-m", "transformer.launch", "train.py")
        assert driver.end() == 2
        assert "the cluster has no token, and obeys everyone" in driver.lines[-1]
    finally:
        open_cluster.shutdown()


@needs_tf2
@pytest.mark.slow
def test_what_ray_changes_does_not_reach_a_worker(start, tmp_path):
    (tmp_path / "worker.py").write_text(
        "import json, os, signal, sys, time\n"
        "index = json.loads(os.environ['TF_CONFIG'])['task']['index']\n"
        "print(os.getcwd(), os.nice(0), signal.pthread_sigmask(signal.SIG_BLOCK, []),\n"
        "    repr(os.environ['CUDA_VISIBLE_DEVICES']),\n"
        "    os.environ.get('OMP_NUM_THREADS'), flush=True)\n"
        "sys.exit(3 if index else time.sleep(600))\n"
    )
    launcher = ("-m", "transformer.launch", "--restarts=2", "--", "worker.py")
    driver = start(*launcher, cwd=str(tmp_path))
    assert driver.end() == 3, driver.lines
    for index in range(2):
        assert f"[{index}] {tmp_path} {os.nice(0)} set() '' None" in driver.lines
    assert not any("restart" in line for line in driver.lines)


@needs_tf2
@pytest.mark.slow
def test_training_loses_a_machine_but_no_bit(cluster, start, digits, tmp_path):
    logdir = tmp_path / "logs"
    train = ["train.py", "--data", digits, "--logdir", str(logdir), *corpora.TINY]
    train += [*EXACT, "--max_steps=1000000"]
    driver = start("-m", "transformer.launch", "--restarts=2", "--", *train)
    seen = driver.wait_for(r"^\[0\] step 5/")
    cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
    pattern = r"launch: worker \d: its machine was lost \(.*\); restart 1 of 2"
    seen = driver.wait_for(pattern, seen)
    driver.wait_for(r"^\[0\] step \d+/", seen)
    workers = find_workers(logdir)
    driver.process.send_signal(signal.SIGINT)
    assert driver.end() == 128 + signal.SIGINT, driver.lines
    assert not any(map(corpora.is_running, map(str, workers.values())))
    *_, last = [line for line in driver.lines if line.startswith("[0] step ")]
    saved = manifests.list_steps(str(logdir))[-1]
    assert last.startswith(f"[0] step {saved}/")

    alone = tmp_path / "alone"
    where = ["--data", digits, "--logdir", str(alone), *corpora.TINY, *EXACT]
    done = corpora.run_python("train.py", *where, f"--max_steps={saved}")
    assert done.returncode == 0, done.stderr
    assert read_bytes(logdir, saved) == read_bytes(alone, saved)
    add_machine(cluster)


@needs_tf2
@pytest.mark.slow
def test_translation_loses_workers_and_its_driver_but_no_line(
    cluster, start, trained, digits, tmp_path
):
    lines = corpora.read_lines(os.path.join(digits, "train.de"))
    source, folder = str(tmp_path / "big.de"), str(tmp_path / "shards")
    corpora.write_lines(source, (lines * 8)[:15001])
    flags = ["--logdir", trained, "--deterministic"]
    command = ("scripts/translate.py", "--workers=2", *flags, "--input", source)
    command += ("--shards", folder, "--shard_lines=2000")

    def wait_for_shards(count):
        deadline = time.monotonic() + 300
        while len(glob.glob(os.path.join(folder, "*.txt"))) < count:
            assert time.monotonic() < deadline, driver.lines
            time.sleep(0.05)

    driver = start(*command)
    wait_for_shards(1)
    os.kill(find_workers(folder)[0], signal.SIGKILL)
    driver.wait_for("it was killed by signal 9 on .*; restart 1 of 10")
    wait_for_shards(3)
    workers = find_workers(folder)
    driver.process.kill()
    driver.process.wait()
    corpora.wait_until(
        lambda: not any(map(corpora.is_running, map(str, workers.values())))
    )
    written = {path: os.stat(path).st_ino for path in glob.glob(folder + "/*.txt")}
    assert len(written) < 8

    driver = start(*command)
    driver.wait_for(r"\[\d\]|of 8 shards")
    assert driver.end() == 0, driver.lines
    assert driver.lines[-1] == "8 of 8 shards"
    for path, inode in written.items():
        assert os.stat(path).st_ino == inode
    names = {
        shards.PLAN,
        *(shard.file_name for shard in shards.read_plan(folder).shards),
    }
    assert set(os.listdir(folder)) == names
    joined = corpora.run_python("scripts/translate.py", "--shards", folder, "--join")
    with open(source, encoding="utf-8") as file:
        whole = corpora.run_python("scripts/translate.py", *flags, stdin=file)
    assert joined.stdout == whole.stdout != ""
