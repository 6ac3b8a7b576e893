"""Several workers: TF_CONFIG, their connections, how a run of several ends."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import types

import corpora
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG

from transformer import hparams, trainer
from transformer.commands import train
from transformer.logdir import manifests
from transformer.runtime import devices
from transformer.runtime.errors import DataFolderChanged
from transformer.runtime.signals import forward_signals
from transformer.workers import agreement, exchange, launch
from transformer.workers import team as workers
from transformer.workers.cluster import SHARE_PORTS, Cluster, read_cluster
from transformer.workers.exchange import ClusterSession, Exchange, make_packs
from transformer.workers.team import Ended, NotFiniteElsewhere, Team

needs_tf2 = pytest.mark.skipif(tf.__version__ < "2", reason="TensorFlow 1.15 refuses")
TWO = ["a:1", "b:2"]


def config(kind="worker", index=0, **jobs):
    """An environment with a TF_CONFIG."""
    content = {"cluster": jobs, "task": {"type": kind, "index": index}}
    return {"TF_CONFIG": json.dumps(content)}


# --- TF_CONFIG ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "environment, cluster",
    [
        ({}, None),
        ({"TF_CONFIG": " "}, None),
        ({"TF_CONFIG": "{}"}, None),
        (config(worker=["a:1"]), None),
        (config(index=1, worker=TWO), Cluster(TWO, 1)),
        (config("chief", 0, chief=["c:3"], worker=TWO), Cluster(["c:3", *TWO], 0)),
        (config("worker", 1, chief=["c:3"], worker=TWO), Cluster(["c:3", *TWO], 2)),
    ],
)
def test_the_workers_of_tf_config(environment, cluster):
    assert read_cluster(environment) == cluster


@pytest.mark.parametrize(
    "environment",
    [
        {"TF_CONFIG": "{"},
        {"TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:2"]}}'},
        config(worker=["a:1", "a:1"]),
        config(worker=["a:1", "b:123456"]),
        config(worker=["a:1", "b:65536"]),
        config(index=2, worker=TWO),
        config(index=1e999, worker=TWO),
        config("chief", worker=TWO),
        config(chief=TWO, worker=TWO),
        config(ps=TWO, worker=TWO),
    ],
    ids=lambda environment: environment["TF_CONFIG"],
)
def test_a_malformed_tf_config_is_refused(environment):
    with pytest.raises(ValueError, match="TF_CONFIG: expected .*, got "):
        read_cluster(environment)


def test_the_port_of_the_connections_to_the_chief():
    assert Cluster(["a:2222", "b:1"], 0).chief_address() == ("a", 3222)
    assert Cluster(["[::1]:65535", "b:1"], 0).chief_address() == ("::1", 64535)


def refused(digits, tmp_path, capsys, *flags):
    """The line with which train.py refuses; it made no log directory."""
    where = "--data", digits, "--logdir", str(tmp_path / "logs")
    line = corpora.refusal(capsys, "train", *where, *flags)
    assert not (tmp_path / "logs").exists()
    return line


def test_a_malformed_tf_config_is_refused_before_tensorflow_starts(
    digits, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("TF_CONFIG", "{")
    monkeypatch.setattr(train.cli, "start_tensorflow", lambda _: pytest.fail("started"))
    assert "TF_CONFIG: expected" in refused(digits, tmp_path, capsys)


@pytest.mark.skipif(tf.__version__ >= "2", reason="TensorFlow 2 can")
def test_tensorflow_1_refuses_several_workers(digits, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config(worker=TWO)["TF_CONFIG"])
    message = refused(digits, tmp_path, capsys)
    assert "expected TensorFlow 2 for more than one worker, got 2 workers" in message


@needs_tf2
def test_more_workers_than_shards_are_refused(digits, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config(worker=TWO)["TF_CONFIG"])
    message = refused(digits, tmp_path, capsys, "--shards=1", "--deterministic")
    assert "shards: expected 2 or more, one for each worker, got 1" in message


@pytest.mark.parametrize("flag", ["--data", "--init_from"])
def test_workers_name_whole_paths(tmp_path, capsys, monkeypatch, flag):
    """They may run in other folders, where a relative path leads elsewhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TF_CONFIG", config(worker=TWO)["TF_CONFIG"])
    message = corpora.refusal(capsys, "train", "--logdir=logs", flag, "nowhere")
    assert str(tmp_path / "nowhere") in message


# --- Connections ----------------------------------------------------------------------

SAME = {"d_model": 16, "seed": 1}


class Threads:
    """The workers of a run as threads of this process; `leave` ends no process."""

    def __init__(self, count, monkeypatch):
        ports = launch.find_free_ports(count)
        self.addresses = [f"127.0.0.1:{port}" for port in ports]
        self.messages = []
        self.statuses = []
        monkeypatch.setattr(workers, "GRACE", 0.3)
        monkeypatch.setattr(workers, "HEARTBEAT", 0.1)
        monkeypatch.setattr(workers, "RETRY", 0.05)
        monkeypatch.setattr(workers, "TIMEOUT", 1.0)

    def team(self, index, **changes):
        cluster = Cluster(self.addresses, index)
        team = Team(cluster, {**SAME, **changes}, self.messages.append, (KeyError,))
        team.leave = self.statuses.append
        return team

    def run(self, index, work, **changes):
        """Start a worker; return a function that waits for its result or error."""
        results = []

        def run():
            try:
                with self.team(index, **changes) as team:
                    results.append(work(team))
            except BaseException as error:
                results.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return lambda: (thread.join(20), results[0])[1]

    def client(self):
        """A connection to the chief of a process that is no worker."""
        return socket.create_connection(Cluster(self.addresses, 0).chief_address())


@pytest.fixture
def threads(monkeypatch):
    """threads(n): n workers."""
    if tf.__version__ < "2":
        pytest.skip("TensorFlow 1.15 refuses several workers")
    return lambda count: Threads(count, monkeypatch)


def joins(team):
    """Meet, begin, wait: what a worker does that has nothing to compute."""
    team.handshake({"step": 7})
    team.barrier()
    team.wait_for_end()


def ending(result):
    """(text, status) of the Ended that a worker raised."""
    assert isinstance(result, Ended), result
    return str(result), result.status


def test_all_meet_compare_and_end_with_the_chief(threads):
    here = threads(3)

    def work(team):
        start = team.handshake({"step": 7} if team.is_chief else None)
        team.barrier()
        gathered = team.gather("x", team.cluster.index)
        if team.is_chief:
            return start, gathered
        assert start == {"step": 7}
        team.wait_for_end()

    others = [here.run(index, work) for index in (2, 1)]
    assert here.run(0, work)() == ({"step": 7}, {1: 1, 2: 2})
    assert [ending(other()) for other in others] == [("", 0), ("", 0)]


def test_a_single_process_is_a_chief_without_others():
    with Team(failures=(KeyError,)) as team:
        error = NotFiniteElsewhere("here")
        assert team.is_chief and team.find_cause(error) is error
        assert team.handshake(3) == 3
        team.barrier()
        assert team.compute(lambda: 3) == 3
        with pytest.raises(KeyError):
            team.compute(lambda: {}["x"])


def test_the_end_of_the_chief_has_its_reason(threads):
    here = threads(2)
    other = here.run(1, joins)

    def lead(team):
        team.handshake()
        team.barrier()
        raise OSError("no room")

    here.run(0, lead)()
    error = other()
    assert isinstance(error, ValueError)
    assert str(error) == f"worker 0 at {here.addresses[0]} ended: no room"


def test_another_configuration_is_refused_on_all(threads):
    """Also on a worker that comes later; nobody waits for one that never does."""
    here = threads(4)
    results = [here.run(0, joins), here.run(2, joins, seed=5, code="x")]
    time.sleep(0.3)
    results.append(here.run(1, joins))
    for result in results:
        error = result()
        assert isinstance(error, ValueError)
        assert (
            f"worker 2 at {here.addresses[2]}: expected the same configuration on all "
            "workers, got code x (the chief: None), seed 5 (the chief: 1); give each"
            in str(error)
        )


@pytest.mark.parametrize(
    "error", [OSError(24, "Too many open files"), RuntimeError("can't start a thread")]
)
def test_the_chief_accepts_connections_after_one_that_it_could_not(
    threads, monkeypatch, error
):
    here = threads(2)
    failures = [error, error]
    accept = socket.socket.accept

    def fail_first(listener):
        if failures:
            raise failures.pop()
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", fail_first)
    chief = here.run(0, lambda team: team.handshake(7))
    other = here.run(1, lambda team: team.handshake())
    assert (chief(), other()) == (7, 7)
    [message] = here.messages
    assert message.endswith(f"not accepted yet: {error.args[-1]}")


def test_nobody_waits_for_a_worker_without_a_name(threads, monkeypatch):
    """The last one connects between two looks at who is there."""
    here = threads(2)
    monkeypatch.setattr(workers, "REPORT", 0.0)
    chief = here.team(0)
    connect = chief.connections.update
    monkeypatch.setattr(workers.time, "sleep", lambda _: connect({1: None}))
    chief._wait_for_peers()
    assert here.messages == []


def test_a_name_that_cannot_be_resolved_is_named_before_tensorflow_needs_it(threads):
    here = threads(2)
    host, port = here.addresses[1].split(":")
    unknown = f"no-such-machine.invalid:{port}"
    here.addresses[1] = unknown
    results = [here.run(index, joins) for index in (0, 1)]
    for result in results:
        error = result()
        assert isinstance(error, ValueError)
        assert "expected names that this machine can resolve, got worker 1 at " in str(
            error
        )
        assert unknown in str(error) and "run the same command" not in str(error)


def test_the_line_of_a_failure_has_its_reason():
    """TensorFlow writes it after the places in the program, and before repetitions."""
    places = "".join(f'    File "x{n}.py", line {n}, in <module>\n' for n in range(99))
    reason = "Collective ops is aborted by: Socket closed"
    message = (
        "Graph execution error:\n\nDetected at node 'Sum' defined at (most recent "
        f"call last):\n{places}Node: 'Sum'\nFrom /job:worker/task:0:\n{reason}\n"
        "Additional GRPC error information from remote target /job:worker:\n:{1}\n"
        "\t [[{{node Sum}}]]"
    )
    error = tf.errors.UnavailableError(None, None, message)
    assert workers.find_reason(error) == f"From /job:worker/task:0: {reason}"
    long = KeyError("x" * 10**5 + "no route")
    assert workers.find_reason(long).endswith("no route'")
    assert len(workers.find_reason(long)) < 2000


def test_who_waits_says_for_whom(threads, monkeypatch):
    here = threads(2)
    monkeypatch.setattr(workers, "REPORT", 0.2)
    other = here.run(1, joins)
    corpora.wait_until(lambda: here.messages)
    _, port = Cluster(here.addresses, 0).chief_address()
    assert re.fullmatch(
        rf"waiting for worker 0 at \S+, the chief \(its port {port}: Connection "
        r"refused\), \d+ s so far",
        here.messages[0],
    )
    here.run(0, lambda team: team.handshake())(), other()


@pytest.mark.parametrize("is_dead", [True, False], ids=["dead", "frozen"])
def test_a_worker_that_is_lost_is_named_on_all(threads, is_dead):
    """A frozen one sends no heartbeats: it was not entered."""
    here = threads(3)
    lost = here.team(2)
    results = [here.run(index, joins) for index in (0, 1)]
    lost.handshake()
    lost.connections[0].send({"ready": None})
    if is_dead:
        lost.connections[0].shut_down()
    how = (
        "died: its connection was closed"
        if is_dead
        else "has not been heard from for 1 s"
    )
    for result in results:
        text, status = ending(result())
        assert text.startswith(f"worker 2 at {here.addresses[2]} {how}")
        assert status == 75


def test_a_connection_that_breaks_says_why():
    class Unreachable:
        def readline(self, limit):
            raise OSError(113, "No route to host")

    with socket.socket() as sock:
        connection = workers.Connection(sock, "worker 1")
        connection._lines = Unreachable()
        with pytest.raises(Ended, match="worker 1 died: .*No route to host"):
            connection.receive()


@pytest.mark.parametrize("chief_notices", [True, False])
def test_a_worker_whose_ids_change_lets_the_chief_save_first(
    threads, monkeypatch, chief_notices
):
    monkeypatch.setattr(trainer, "TIMEOUT", 0.5)

    def refuse(checksums):
        raise DataFolderChanged("ids have changed")

    data = types.SimpleNamespace(refuse_changes=refuse)
    run = types.SimpleNamespace(data=data, checksums={})
    here = threads(2)

    def follow(team):
        team.handshake()
        trainer.refuse_changed_ids(run, team)

    def lead(team):
        team.handshake()
        if chief_notices:
            raise DataFolderChanged("saved step 5")
        team.wait_for_end()

    results = [here.run(index, work) for index, work in ((1, follow), (0, lead))]
    texts = [str(result()) for result in results]
    saved = f"worker 0 at {here.addresses[0]} ended: saved step 5"
    changed = f"worker 1 at {here.addresses[1]} ended: ids have changed"
    if chief_notices:
        assert texts == [saved, "saved step 5"]
    else:
        assert texts == ["ids have changed", changed]


def test_a_main_thread_that_hangs_is_ended(threads):
    here = threads(2)
    met = threading.Event()
    stuck = threading.Event()
    hanging = here.run(1, lambda team: [team.handshake(), met.set(), stuck.wait(10)])

    def lead(team):
        team.handshake()
        met.wait(10)
        raise Ended("stopped", 75)

    here.run(0, lead)()
    corpora.wait_until(lambda: here.statuses)
    assert here.statuses == [75]
    assert here.messages == [f"stopped; {workers.RESTART}"]
    stuck.set()
    hanging()


def test_a_computation_that_fails_while_all_are_there_ends_the_run(threads):
    """A connection of TensorFlow broke."""
    here = threads(2)
    other = here.run(
        1, lambda team: [team.handshake(), team.compute(lambda: {}["Broken"])]
    )
    chief = here.run(0, lambda team: [team.handshake(), team.wait_for_end()])
    name = f"worker 1 at {here.addresses[1]}"
    for result in (chief, other):
        text, status = ending(result())
        assert text == f"{name} could not compute with the others: 'Broken'"
        assert status == 75


@pytest.mark.parametrize("is_ignored", [False, True])
def test_a_signal_of_another_worker_stops_the_chief(threads, monkeypatch, is_ignored):
    here = threads(2)
    killed = []
    handler = signal.SIG_IGN if is_ignored else signal.default_int_handler
    monkeypatch.setattr(signal, "getsignal", lambda _: handler)
    monkeypatch.setattr(os, "kill", lambda _, number: killed.append(number))
    asks = here.run(
        1, lambda team: [team.handshake(), team.forward_signal(signal.SIGINT)]
    )
    chief = here.run(0, lambda team: [team.handshake(), team.wait_for_end()])
    asks(), chief()
    assert killed == [signal.SIGTERM if is_ignored else signal.SIGINT]
    assert here.messages == [f"worker 1 at {here.addresses[1]} was asked to stop"]


STRANGE = [
    b"GET / HTTP/1.1\r\n\r\n",
    b'{"index": 1e999, "configuration": {}}\n',
    b'{"index": 1, "configuration": 3}\n',
    b"[" * 10**5 + b"\n",
    b"x" * (workers.MAX_MESSAGE + 1),
]


def test_strangers_are_turned_away_one_by_one(threads, monkeypatch):
    """Even one that says nothing, and one that goes on for ever, and a late worker."""
    monkeypatch.setattr(workers, "HANDSHAKE", 0.5)
    here = threads(2)
    with here.team(0) as chief:
        silent, slow = here.client(), here.client()
        for sent in STRANGE:
            stranger = here.client()
            stranger.sendall(sent)
            stranger.settimeout(20)
            try:
                assert stranger.recv(10) == b""
            except ConnectionError:
                pass  # that is an end, too
        first = here.run(1, lambda team: [team.handshake(), team._has_ended.wait(20)])
        chief.handshake()
        second = here.run(1, joins)()
        assert "expected one worker per index, got a second worker 1" in str(second)
        with pytest.raises(OSError):
            for _ in range(100):
                slow.sendall(b"{")
                time.sleep(0.1)
        silent.settimeout(20)
        assert silent.recv(10) == b""
        chief.raise_verdict()  # nothing has happened to the run
    first()


def test_two_chiefs_cannot_listen(threads):
    here = threads(2)
    with here.team(0):
        with pytest.raises(ValueError, match="cannot be used .*; another chief may"):
            with here.team(0):
                pass


@pytest.mark.parametrize("bad", [1, None])
def test_what_is_not_finite_is_reported_by_the_worker_that_has_it(threads, bad):
    """Its diagnosis takes longest; or the sum alone is not finite."""
    here = threads(3)

    def work(team):
        team.handshake()
        if team.cluster.index == bad:
            time.sleep(0.3)
            raise team.find_cause(FloatingPointError("a NaN in x"))
        raise team.find_cause(NotFiniteElsewhere("not here"))

    errors = [str(each()) for each in [here.run(index, work) for index in range(3)]]
    cause = "not here" if bad is None else "a NaN in x"
    assert errors[bad or 0] == cause
    name = f"worker {bad or 0} at {here.addresses[bad or 0]}"
    assert errors.count(f"{name} ended: {cause}") == 2


# --- What is compared, and what is summed ---------------------------------------------


def test_workers_compare_settings_corpus_and_code():
    """But not the path of the data: folders may have other names there."""
    hp = hparams.HParams(data="a")
    other = hparams.HParams(data="b", seed=hp.seed + 1)
    first = agreement.describe_configuration(hp, {"train": 64 * "1"})
    second = agreement.describe_configuration(other, {"train": 64 * "2"})
    different = {name for name in first if first[name] != second[name]}
    assert different == {"seed", "corpus train"} and "code" in first


def test_a_worker_continues_from_the_checkpoint_of_the_chief(trained, tmp_path):
    newest = manifests.find_checkpoint(trained, "newest")
    description = agreement.identify_checkpoint(newest)
    copy = corpora.copy_folder(trained, tmp_path / "copy")
    there = os.path.join(copy, os.path.basename(newest))
    assert agreement.find_agreed_checkpoint(copy, description) == there
    nothing = agreement.identify_checkpoint(None)
    assert agreement.find_agreed_checkpoint(copy, nothing) is None
    changed = dict(description, manifest=description["manifest"].replace("0", "1"))
    with pytest.raises(
        ValueError, match="expected the checkpoint .* differs from the chief's"
    ):
        agreement.find_agreed_checkpoint(copy, changed)
    os.remove(there + ".index")
    with pytest.raises(ValueError, match=re.escape(copy)):
        agreement.find_agreed_checkpoint(copy, description)


def test_packs_begin_with_the_last_layers():
    assert make_packs([1, 2, 3, 9, 2, 2], limit=5) == [[5, 4], [3], [2, 1], [0]]
    assert make_packs([1, 1, 1]) == [[2, 1, 0]]
    assert make_packs([]) == []


@needs_tf2
def test_an_exchange_of_one_worker_returns_what_it_got(graph, monkeypatch):
    """One pack after the other, the last tensors first; NCCL is asked for."""
    monkeypatch.setattr(
        exchange, "make_packs", lambda sizes: make_packs(sizes, limit=20)
    )
    exchange_of_one = Exchange(Cluster(["a:1"], 0))
    arrays = [np.arange(size, dtype=np.float32) for size in (4, 2, 3, 1)]
    tensors = [tf.reshape(tf.constant(array), [-1, 1]) for array in arrays]
    results = [
        exchange_of_one.all_reduce(tensors),
        *exchange_of_one.all_gather(tensors),
    ]
    reduce_ops = [
        op for op in graph.get_operations() if op.type.startswith("CollectiveReduce")
    ]
    assert [op.inputs[0].shape[0] for op in reduce_ops] == [4, 2, 4]
    for op, before in zip(reduce_ops[1:], reduce_ops):
        assert before in op.control_inputs
        assert op.get_attr("communication_hint") == b"nccl"
    with tf.Session(config=CONFIG) as session:
        for result in session.run(results):
            for value, array in zip(result, arrays):
                np.testing.assert_array_equal(value[:, 0], array)


def test_a_run_that_the_server_refuses_by_chance_is_made_again(graph, monkeypatch):
    """Not one that fails in the middle, after which another would take other data."""
    refusal = "From /job:worker/replica:0/task:0:\nThe same RunGraph (Worker) request "
    refusal += "was received twice. "
    inner = "Collective ops is aborted by: The same RecvBuf request was received twice"
    errors = []

    def run(session, *args):
        if errors:
            raise tf.errors.AbortedError(None, None, errors.pop(0))
        return args

    monkeypatch.setattr(tf.Session, "run", run)
    session = ClusterSession(types.SimpleNamespace(target=""), graph, CONFIG)
    for words in ([refusal, "Socket closed"], [inner], 50 * [refusal]):
        errors[:] = words
        with pytest.raises(tf.errors.AbortedError, match=re.escape(words[-1])):
            session.run("x")
    errors[:] = [refusal]
    assert session.run("x", {"y": 1}) == ("x", {"y": 1}, None, None)


def test_a_session_that_cannot_be_made_leaves_quietly():
    """Python writes what `__del__` raises to stderr."""
    with pytest.raises(TypeError):
        ClusterSession(types.SimpleNamespace(target=3), None, CONFIG)
    ClusterSession.__new__(ClusterSession).__del__()


# --- Signals --------------------------------------------------------------------------


def test_a_signal_is_passed_on_even_while_the_main_thread_computes():
    received = []
    before = signal.getsignal(signal.SIGTERM)
    with forward_signals(received.append):
        os.kill(os.getpid(), signal.SIGTERM)
        corpora.wait_until(lambda: received)
    assert received == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) == before


# --- The launcher ---------------------------------------------------------------------

# What a worker does, by its index; "starts" counts how often it was started.
WORKER = """
import json, os, signal, sys, time
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
with open(f"starts-{index}", "a") as file:
    file.write("x")
starts = os.path.getsize(f"starts-{index}")
print("hello of", index, flush=True)
"""


@pytest.fixture
def launched(tmp_path, monkeypatch, capsys):
    """launched(script, *flags) → (status, lines) of workers that run a script."""
    monkeypatch.setattr(launch, "PATIENCE", 0.5)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(tmp_path)

    def launched(script, *flags):
        (tmp_path / "worker.py").write_text(WORKER + script)
        status = corpora.exit_status("launch", *flags, "--", "worker.py")
        return status, capsys.readouterr().err.splitlines()

    return launched


def test_the_launcher_shows_the_lines_of_all(launched):
    status, lines = launched("print('b\\xff', file=sys.stderr)", "--workers=3")
    assert status == 0 and {f"[{i}] hello of {i}" for i in range(3)} < set(lines)


@pytest.mark.parametrize("gpus", [["0", "2"], []])
def test_each_worker_has_a_gpu_or_its_share_of_the_cores(launched, monkeypatch, gpus):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(gpus))
    shown = "print(os.environ['CUDA_VISIBLE_DEVICES'], sorted(os.sched_getaffinity(0)))"
    _, lines = launched(shown)
    every = sorted(os.sched_getaffinity(0))
    for index in range(2):
        gpu = gpus[index] if gpus else ""
        cores = every if gpus else devices.share_of_cores(index, 2)
        assert f"[{index}] {gpu} {cores}" in lines


@needs_tf2
def test_reserved_ports_are_for_the_workers_alone(monkeypatch):
    """From the choice until a worker listens, seconds pass in which others look."""
    with contextlib.ExitStack() as sockets:
        *_, environment = launch.make_environments(2, sockets=sockets)
        cluster = read_cluster(environment)
        host, port = cluster.chief_address()
        for number in (int(cluster.addresses[0].split(":")[1]), port):
            with socket.socket() as other, pytest.raises(OSError):
                other.bind((host, number))
        monkeypatch.setenv(SHARE_PORTS, environment[SHARE_PORTS])
        with workers.listen(cluster) as listener:
            with socket.create_connection((host, port)):
                assert listener.accept()


def test_gpus_are_found_without_tensorflow(tmp_path, monkeypatch):
    listed = "#!/bin/sh\necho 'GPU 0: A (UUID: GPU-1)'\necho '  MIG 1g Device 0'\n"
    (tmp_path / "nvidia-smi").write_text(listed + "echo 'GPU 1: A (UUID: GPU-2)'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert devices.list_gpus() == ["0", "1"]
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert devices.list_gpus() == []
    for text, gpus in (("", []), ("-1", []), ("3", ["3"]), ("3, 5", ["3", "5"])):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", text)
        assert devices.list_gpus() == gpus


@pytest.mark.parametrize(
    "script, status",
    [
        ("sys.exit(3 if index else time.sleep(60))", 3),
        ("if index: os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(60)", 137),
        ("if index: sys.exit(0)\ntime.sleep(60)", 137),
    ],
)
def test_all_end_with_the_status_of_the_first_that_failed(launched, script, status):
    assert launched(script)[0] == status


@pytest.mark.parametrize(
    "script, status, starts",
    [
        ("sys.exit(75 if starts == 1 and index else 0)", 0, 2),
        ("sys.exit(75)", 75, 3),
        ("sys.exit(2)", 2, 1),
    ],
)
def test_restarts_follow_the_loss_of_a_worker(
    launched, tmp_path, monkeypatch, script, status, starts
):
    monkeypatch.setattr(launch, "PATIENCE", 60)  # all end by themselves
    exit_status, lines = launched(script, "--restarts=2")
    assert exit_status == status
    assert (tmp_path / "starts-1").read_text() == "x" * starts
    assert sum("restart" in line for line in lines) == starts - 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_launcher(tmp_path, number):
    """By the signal that it passes on; where it is killed, the system kills them."""
    (tmp_path / "worker.py").write_text(WORKER + "print(os.getpid())\ntime.sleep(60)")
    command = ["-m", "transformer.launch", "--restarts=3", "--", "worker.py"]
    environment = {
        **os.environ,
        "PYTHONPATH": corpora.ROOT,
        "PYTHONUNBUFFERED": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=str(tmp_path),
        env=environment,
        stderr=subprocess.PIPE,
    )
    lines = [process.stderr.readline().decode() for _ in range(4)]
    pids = [line.split()[1] for line in lines if "hello" not in line]
    process.send_signal(number)
    assert process.communicate(timeout=60)[1] == b""
    ended = 128 + number if number == signal.SIGTERM else -number
    assert process.returncode == ended

    if sys.platform.startswith("linux"):
        assert len(pids) == 2
        corpora.wait_until(lambda: not any(map(corpora.is_running, pids)))


@pytest.mark.parametrize(
    "flag, message",
    [
        ("--workers=0", "workers: expected 1 or more, got 0"),
        ("--restarts=-1", "restarts: expected 0 or more, got -1"),
        ("--workers=3", "workers: expected at most 2, one for each visible GPU, got 3"),
    ],
)
def test_the_launcher_refuses_what_cannot_be(capsys, monkeypatch, flag, message):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert message in corpora.refusal(capsys, "launch", flag, "--", "train.py")


def test_the_launcher_refuses_a_program_that_is_not_there(capsys, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    message = corpora.refusal(capsys, "launch", "--", "no-such-program")
    assert (
        "got 'no-such-program', which is neither a file nor on the search path"
        in message
    )
    assert "expected a Python program" in corpora.refusal(
        capsys, "launch", "--", "python3"
    )


@pytest.mark.parametrize(
    "line", ["train.py --seed 2", "python train.py --seed 2", "-m transformer train"]
)
def test_the_launcher_takes_a_program_as_it_is_typed(line):
    words = line.split()
    arguments = launch.python_arguments(words)
    assert arguments == (words[1:] if words[0] == "python" else words)
