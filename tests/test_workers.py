"""Several workers: TF_CONFIG, what they tell each other, how a run of several ends."""

import dataclasses
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import corpora
import documents
import pytest
import tensorflow.compat.v1 as tf

import hparams
import train
from transformer import following, launch, starting
from transformer.runtime import checkpoints, exchange, links, workers
from transformer.runtime import team as sides
from transformer.runtime.cluster import Cluster, Ended, cluster_of
from transformer.runtime.links import Connection
from transformer.runtime.nonfinite import NotFiniteElsewhere
from transformer.runtime.process import told_of_signals
from transformer.runtime.workers import Chief, Member

needs_tf2 = pytest.mark.skipif(tf.__version__ < "2", reason="TensorFlow 1.15 refuses")


def config(kind="worker", index=0, **jobs):
    """An environment with a TF_CONFIG."""
    content = {"cluster": jobs, "task": {"type": kind, "index": index}}
    return {"TF_CONFIG": json.dumps(content)}


# --- TF_CONFIG ------------------------------------------------------------------------

TWO = ["a:1", "b:2"]


@pytest.mark.parametrize(
    "environment, found",
    [
        ({}, None),
        ({"TF_CONFIG": " "}, None),
        ({"TF_CONFIG": "{}"}, None),
        (config(worker=["a:1"]), None),
        (config(worker=TWO), Cluster(TWO, 0)),
        (config(index=1, worker=TWO), Cluster(TWO, 1)),
        (config("chief", 0, chief=["c:3"], worker=TWO), Cluster(["c:3", *TWO], 0)),
        (config("worker", 1, chief=["c:3"], worker=TWO), Cluster(["c:3", *TWO], 2)),
    ],
)
def test_the_workers_of_tf_config(environment, found):
    assert cluster_of(environment) == found


@pytest.mark.parametrize(
    "environment",
    [
        {"TF_CONFIG": "{"},
        {"TF_CONFIG": "[]"},
        {"TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:2"]}}'},
        config(worker=["a:1", "a:1"]),
        config(worker=["a", "b"]),
        config(worker=["a:1", "b:123456"]),
        config(index=2, worker=TWO),
        config(index=-1, worker=TWO),
        config("chief", worker=TWO),
        config(chief=TWO, worker=TWO),
        config(ps=TWO, worker=TWO),
    ],
    ids=lambda environment: environment["TF_CONFIG"],
)
def test_what_names_no_workers_is_refused(environment):
    with pytest.raises(ValueError, match="TF_CONFIG: found .*, wanted "):
        cluster_of(environment)


def test_the_port_of_the_chief_s_connections():
    assert Cluster(["a:2222", "b:1"], 0).meeting_point() == ("a", 3222)
    assert Cluster(["[::1]:65535", "b:1"], 0).meeting_point() == ("::1", 64535)


def test_a_command_refuses_a_wrong_one(digits, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{")
    where = "--data", digits, "--logdir", str(tmp_path / "logs")
    assert "TF_CONFIG: found {" in corpora.refusal(capsys, train.main, *where)
    assert not (tmp_path / "logs").exists()


@pytest.mark.skipif(tf.__version__ >= "2", reason="TensorFlow 2 can")
def test_tensorflow_1_refuses_several_workers(digits, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config(worker=TWO)["TF_CONFIG"])
    where = "--data", digits, "--logdir", str(tmp_path / "logs")
    said = corpora.refusal(capsys, train.main, *where)
    assert "found 2 workers and TensorFlow 1.15" in said
    assert not (tmp_path / "logs").exists()


@needs_tf2
def test_more_workers_than_shards_are_refused(digits, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config(worker=TWO)["TF_CONFIG"])
    where = "--data", digits, "--logdir", str(tmp_path / "logs")
    said = corpora.refusal(capsys, train.main, *where, "--shards=1")
    assert "found 2 workers of 1 devices, wanted at most shards = 1" in said


# --- The recipes of docs/scaling.md ---------------------------------------------------


def recipe(language):
    """The block of docs/scaling.md in a language."""
    [text] = [
        text
        for found, text in documents.blocks(documents.read("docs/scaling.md"))
        if found == language
    ]
    return text


def told_by(script, **variables):
    """The workers of which a script of bash tells `python train.py`."""
    script = "python() { printenv TF_CONFIG; }; export -f python\n" + script
    script = script.replace("exec python", "python")
    environment = {**os.environ, **variables}
    text = subprocess.check_output(["bash", "-c", script], env=environment)
    return cluster_of({"TF_CONFIG": text.decode()})


def test_the_example_of_tf_config():
    assert cluster_of({"TF_CONFIG": recipe("json")}).index == 0


def test_the_recipe_for_kubernetes():
    yaml = pytest.importorskip("yaml")
    service, job = yaml.safe_load_all(recipe("yaml"))
    assert (service["kind"], job["kind"]) == ("Service", "Job")
    pod = job["spec"]["template"]["spec"]
    name = f"{job['metadata']['name']}-{{}}.{pod['subdomain']}"
    assert pod["subdomain"] == service["metadata"]["name"]
    [container] = pod["containers"]
    [script] = container["args"]
    found = told_by(script, JOB_COMPLETION_INDEX="1")
    assert found.index == 1
    wanted = [name.format(i) for i in range(job["spec"]["completions"])]
    assert [each.rsplit(":", 1)[0] for each in found.addresses] == wanted
    ports = [each["containerPort"] for each in container["ports"]]
    assert ports == [2222, found.meeting_point()[1]]


def test_the_recipe_for_slurm():
    tools = 'scontrol() { printf "a1\\na2\\n"; }; srun() { "$@"; };\n'
    variables = {"SLURM_PROCID": "1", "SLURM_JOB_NODELIST": "a[1-2]"}
    found = told_by(tools + recipe("slurm"), **variables)
    assert found == Cluster(["a1:2222", "a2:2222"], 1)


# --- What they tell each other --------------------------------------------------------

FACTS = {"d_model": 16, "seed": 1}


class Told:
    """The workers of a run as threads of this process; `leave` ends no process."""

    def __init__(self, count, monkeypatch):
        ports = launch.free_ports(count)
        self.addresses = [f"127.0.0.1:{port}" for port in ports]
        self.servers = [socket.socket() for _ in ports]  # in the place of TensorFlow's
        for server, port in zip(self.servers, ports):
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("127.0.0.1", port))
            server.listen(50)
        self.said, self.left = [], []
        monkeypatch.setattr(sides, "GRACE", 0.3)
        monkeypatch.setattr(sides, "BEAT", 0.1)
        monkeypatch.setattr(links, "AGAIN", 0.1)
        for each in (sides, workers, links):
            monkeypatch.setattr(each, "AGAIN", 0.05)
            monkeypatch.setattr(each, "LIMIT", 1.0)
        monkeypatch.setattr(sides.Team, "leave", lambda _, code: self.left.append(code))

    def team(self, index, **facts):
        kind = Member if index else Chief
        of = Cluster(self.addresses, index)
        team = kind(of, {**FACTS, **facts}, self.said.append)
        team.leave = self.left.append  # not this process
        return team

    def run(self, index, work, **facts):
        """Start a worker; returns where its result, or its error, will be."""
        found = []

        def run():
            try:
                with self.team(index, **facts) as team:
                    found.append(work(team))
            except BaseException as error:
                found.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return lambda: (thread.join(20), found[0])[1]


@pytest.fixture
def told(monkeypatch):
    """told(n): the places of n workers."""
    return lambda count: Told(count, monkeypatch)


def wait_until(condition):
    """Wait, for 20 seconds at most, until a condition holds."""
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


def joins(team):
    """Meet, begin, wait: what a worker does that has nothing to compute."""
    welcome = team.meet()
    team.begin()
    team.wait_for_the_end()
    return welcome


def ends(result):
    """(text, status) of the Ended that a worker raised."""
    assert isinstance(result, Ended), result
    return str(result), result.status


def test_all_meet_and_end_with_the_chief(told):
    here = told(3)
    others = [here.run(index, joins) for index in (2, 1)]

    def lead(team):
        team.meet({"checkpoint": "x"})
        team.begin()
        return sorted(team.connections)

    assert here.run(0, lead)() == [1, 2]
    assert [ends(other()) for other in others] == [("", 0), ("", 0)]


def test_workers_compare_settings_corpus_and_code():
    """But not the places of the machines: folders may have other names there."""
    here = hparams.HParams(data="a")
    found = starting.facts(here, {"train": 64 * "1"})
    assert (
        starting.facts(dataclasses.replace(here, data="b"), {"train": 64 * "1"})
        == found
    )
    other = starting.facts(
        dataclasses.replace(here, seed=here.seed + 1), {"train": 64 * "2"}
    )
    different = {name for name in found if found[name] != other[name]}
    assert different == {"seed", "corpus train"} and "code" in found


def test_a_worker_wants_the_checkpoint_of_the_chief(trained, tmp_path):
    newest = checkpoints.find(trained, "newest")
    told = starting.welcome(newest)
    copy = corpora.copy_of(trained, tmp_path / "copy")
    there = os.path.join(copy, os.path.basename(newest))
    assert starting.welcomed(copy, told) == there
    assert starting.welcomed(copy, starting.welcome(None)) is None
    another = dict(told, manifest=told["manifest"].replace("0", "1"))
    with pytest.raises(ValueError, match="is another one, wanted the checkpoint from"):
        starting.welcomed(copy, another)
    os.remove(there + ".index")
    with pytest.raises(ValueError, match=re.escape(copy)):
        starting.welcomed(copy, told)


@pytest.mark.parametrize("bad", [None, 5])
def test_a_follower_updates_and_compares_until_the_last_step(bad):
    made, audits = [], []

    def make_step(session):
        made.append(4 + len(made))
        loss = float("nan") if made[-1] == bad else 1.0
        return SimpleNamespace(loss=loss, gradient_norm=1.0, scaling=())

    graph = SimpleNamespace(
        hp=SimpleNamespace(audit_every=2),
        make_step=make_step,
        checksums=lambda session: {"a": made[-1]},
    )
    team = SimpleNamespace(
        computed=lambda work, failures: work(),
        audit=lambda step, sums: audits.append((step, sums["a"])),
        cause=lambda error: error,
    )
    guard = SimpleNamespace(error=lambda step: FloatingPointError(f"step {step + 1}"))
    arguments = None, graph, guard, team, range(3, 7)
    if bad:
        with pytest.raises(FloatingPointError, match="step 5"):
            following._update(*arguments)
        assert made == [4, 5] and audits == [(4, 4)]
    else:
        following._update(*arguments)
        assert made == [4, 5, 6, 7] and audits == [(4, 4), (6, 6)]


def test_the_end_of_the_chief_has_its_reason(told):
    here = told(2)
    other = here.run(1, joins)

    def lead(team):
        team.meet({})
        team.begin()
        raise OSError("no room")

    here.run(0, lead)()
    [error] = [other()]
    assert isinstance(error, ValueError)
    assert str(error) == f"worker 0 at {here.addresses[0]} ended: no room"


def test_other_facts_are_refused_everywhere(told):
    """Also to a worker that comes later; nobody waits for one that never does."""
    here, teams = told(4), []
    chief = here.run(0, lambda team: [teams.append(team), team.meet({})])
    others = [here.run(2, joins, seed=5, code="x")]
    wait_until(lambda: teams and teams[0].connections)
    others.append(here.run(1, joins))
    for each in [chief, *others]:
        found = each()
        assert isinstance(found, ValueError)
        assert (
            f"worker 2 at {here.addresses[2]}: found code x (the chief: None), "
            "seed 5 (the chief: 1), wanted the same on all workers" in str(found)
        )


def test_a_refusal_before_the_chief_waits_is_told_to_those_that_come_later(told):
    here, teams, others = told(3), [], []

    def lead(team):
        others.append(here.run(2, joins, seed=5))
        wait_until(lambda: team.connections)
        teams.append(team)
        team.meet({})

    chief = here.run(0, lead)
    wait_until(lambda: teams)
    time.sleep(0.4)
    assert not teams[0]._over.is_set()  # it waits, for 1 s at most
    others.append(here.run(1, joins))
    for each in [chief, *others]:
        assert "worker 2" in str(each()) and "found seed 5" in str(each())


def test_a_worker_that_comes_while_the_chief_ends_is_told_why(told):
    """All that were there have been told; the port is still open."""
    here = told(2)
    chief = here.team(0).__enter__()
    sides.Team.__exit__(chief, OSError, OSError("no room"), None)
    assert "worker 0 at" in str(here.run(1, joins)())
    assert "ended: no room" in str(here.run(1, joins)())
    chief._listener.close()


def test_who_waits_says_for_whom(told, monkeypatch):
    here = told(2)
    for each in (workers, links):
        monkeypatch.setattr(each, "WAITING", 0.2)
    other = here.run(1, joins)
    wait_until(lambda: here.said)
    _, port = Cluster(here.addresses, 0).meeting_point()
    reason = f"(its port {port}: Connection refused)"
    name = re.escape(f"worker 0 at {here.addresses[0]}, the chief")
    assert re.fullmatch(rf"waiting for {name}, \d s {re.escape(reason)}", here.said[0])
    here = told(2)
    chief = here.run(0, lambda team: team.meet({}))
    wait_until(lambda: here.said)
    name = re.escape(f"worker 1 at {here.addresses[1]}")
    assert re.fullmatch(rf"waiting for {name}, \d s", here.said[0])
    with here.team(1) as team:
        team.meet()
    assert chief() is None
    del other


def test_a_worker_that_dies_is_named_to_all(told):
    here = told(3)
    dying = here.team(2)
    other = here.run(1, joins)
    chief = here.run(0, lambda team: [team.meet({}), team.begin(), team.next("x")])
    dying.meet()
    dying.connections[0].send({"ready": 1})
    dying.connections[0].hang_up()
    wanted = f"worker 2 at {here.addresses[2]} died: its connection ended", 75
    assert ends(chief()) == ends(other()) == wanted


def test_a_worker_that_is_frozen_is_named_to_all(told):
    """It is not heard of: it was not entered, so nothing beats."""
    here = told(3)
    frozen = here.team(2)
    other = here.run(1, joins)
    chief = here.run(0, lambda team: [team.meet({}), team.begin(), team.next("x")])
    frozen.meet()
    frozen.connections[0].send({"ready": 1})
    text, status = ends(chief())
    assert text.startswith(f"worker 2 at {here.addresses[2]} was not heard of for 1 s")
    assert (text, status) == ends(other()) and status == 75
    with pytest.raises(Ended, match="worker 2 at .* was not heard of"):
        frozen.next("x")  # when it wakes up


def test_a_way_that_is_cut_between_two_others_ends_all(told):
    """Both still reach the chief; nobody reaches the port of worker 2."""
    here = told(3)
    here.servers[2].close()
    results = [here.run(index, joins) for index in (1, 2)]
    results.append(
        here.run(0, lambda team: [team.meet({}), team.begin(), team.next("x")])
    )
    found = {ends(result()) for result in results}
    assert {status for _, status in found} == {75}
    for text, _ in found:  # the chief and worker 1 may find it at the same time
        assert re.match(
            rf"worker [01] at \S+ has not reached worker 2 at {here.addresses[2]} for "
            r"1 s \(Connection refused\): the link between them is cut, or a firewall",
            text,
        )


def test_a_worker_that_is_started_again_too_early_is_told_the_verdict(told):
    here = told(2)
    with pytest.raises(Ended, match="was lost"):
        with here.team(0) as chief:
            chief._end(Ended("worker 1 was lost", 75))
            assert ends(here.run(1, joins)()) == ("worker 1 was lost", 75)
            chief.check()


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "::1", socket.gethostname()]
)
def test_the_chief_is_found_at_each_kind_of_address(host):
    [port] = launch.free_ports(1)
    at = Cluster([f"[{host}]:{port}" if ":" in host else f"{host}:{port}", "b:2"], 0)
    try:
        family, *_, place = socket.getaddrinfo(host, 0)[0]
        with socket.socket(family) as sock:
            sock.bind(place)  # the name may be known, and be that of another machine
        listener = links.listen(at)
    except (ValueError, OSError):
        pytest.skip(f"this machine has no {host}")
    with listener:
        links.connect(at, print).hang_up()


def test_a_main_thread_that_hangs_is_ended(told):
    here = told(2)
    met, stuck = threading.Event(), threading.Event()
    hanging = here.run(1, lambda team: [team.meet(), met.set(), stuck.wait(10)])

    def lead(team):
        team.meet({})
        met.wait(10)
        raise Ended("stopped", 75)

    here.run(0, lead)()
    wait_until(lambda: here.left)
    assert here.left == [75]
    assert here.said == [f"stopped; {sides.ADVICE}"]
    stuck.set()
    hanging()


def test_what_tensorflow_cannot_say_the_verdict_does(told):
    here = told(2)

    def compute():
        raise KeyError("Socket closed")

    def work(team):
        team.meet()
        return team.computed(compute, (KeyError,))

    other = here.run(1, work)

    def lead(team):
        team.meet({})
        raise Ended("stopped by SIGTERM", 143)

    here.run(0, lead)()
    assert ends(other()) == ("stopped by SIGTERM", 143)
    with pytest.raises(KeyError):
        Chief().computed(compute, (KeyError,))


def test_what_fails_while_all_are_there_is_told_by_the_worker_where_it_did(told):
    """A connection of TensorFlow broke, and a new one can be made."""
    here = told(2)

    def compute():
        raise KeyError("Collective ops is aborted by: Socket closed")

    def work(team):
        team.meet()
        return team.computed(compute, (KeyError,))

    other = here.run(1, work)
    chief = here.run(0, lambda team: [team.meet({}), team.next("x")])
    text = f"worker 1 at {here.addresses[1]} could not compute with the others: Socket"
    for each in (chief, other):
        said, status = ends(each())
        assert said.startswith(text) and status == 75


def test_a_signal_of_another_worker_stops_the_chief(told, monkeypatch):
    here, killed = told(2), []
    monkeypatch.setattr(workers.os, "kill", lambda _, number: killed.append(number))
    asks = here.run(1, lambda team: [team.meet(), team.tell_signal(2), joins])
    chief = here.run(0, lambda team: [team.meet({}), team.next("x")])
    asks(), chief()
    assert killed == [15]
    assert here.said == [f"worker 1 at {here.addresses[1]} was asked to stop"]


def test_what_is_no_worker_is_refused(told):
    here = told(2)
    place = Cluster(here.addresses, 0).meeting_point()
    hello = {"hello": 1, "facts": FACTS}
    with here.team(0) as chief:
        for sent in ({"x": 1}, {"hello": 2, "facts": {}}, {"hello": 1, "facts": 3}):
            stranger = Connection(socket.create_connection(place))
            stranger.send(sent)
            assert next(stranger.messages())["status"] == 2
        first = Connection(socket.create_connection(place))
        first.send(hello)
        chief.meet({})
        assert any("welcome" in each for each in first.messages())  # behind a beat
        second = Connection(socket.create_connection(place))
        second.send(hello)
        assert (
            "found another worker 1, wanted one of each index"
            in next(second.messages())["end"]
        )


def test_what_is_no_message_counts_as_lost():
    for sent in (b"GET / HTTP/1.1\r\n\r\n", b"3\n", b"x" * (links.LONGEST + 1)):
        here, there = socket.socketpair()
        threading.Thread(target=there.sendall, args=(sent,), daemon=True).start()
        with pytest.raises(Ended, match="worker 7 sent what is no message"):
            next(Connection(here, "worker 7").messages())
        here.close(), there.close()


def test_two_chiefs_cannot_listen(told):
    here = told(2)
    with here.team(0):
        with pytest.raises(ValueError, match="cannot listen there .* another chief"):
            with here.team(0):
                pass


def test_an_audit_names_the_worker_and_the_first_variable(told):
    here = told(3)

    def audited(sums):
        return lambda team: [team.meet(), team.audit(8, sums), team.next("x")]

    others = [here.run(1, audited({"a": 1, "b": 2, "c": 3}))]
    others.append(here.run(2, audited({"a": 1, "b": 5, "c": 6})))
    chief = here.run(0, lambda t: [t.meet({}), t.audit(8, {"a": 1, "b": 2, "c": 3})])
    assert (
        f"step 8: found other values of b on worker 2 at {here.addresses[2]} than on "
        "the chief" in str(chief())
    )
    assert all(isinstance(other(), ValueError) for other in others)


def test_what_is_not_finite_elsewhere_is_told_by_who_has_it(told):
    """The diagnosis of one worker takes longer than that of the others."""
    here, found = told(3), threading.Event()

    def is_fine(team):
        team.meet(*[{}][team.cluster.index :])
        found.set()
        raise team.cause(NotFiniteElsewhere("not here"))

    def is_bad(team):
        team.meet()
        found.wait(10), time.sleep(0.5)
        raise team.cause(FloatingPointError("a NaN in x"))

    chief, bad, other = (
        here.run(index, work) for index, work in enumerate((is_fine, is_bad, is_fine))
    )
    assert str(bad()) == "a NaN in x"
    wanted = f"worker 1 at {here.addresses[1]} ended: a NaN in x"
    assert str(chief()) == str(other()) == wanted


def test_what_is_not_finite_in_the_sum_alone_ends_all(told):
    here = told(2)

    def work(team):
        team.meet(*[{}][team.cluster.index :])
        raise team.cause(NotFiniteElsewhere("not here"))

    chief, other = here.run(0, work), here.run(1, work)
    assert str(chief()) == "not here"
    assert str(other()) == f"worker 0 at {here.addresses[0]} ended: not here"


def test_what_a_server_refuses_by_chance_is_run_again():
    """Not what ends in the middle of a run, where another one would take other data."""
    refused = "From /job:worker/replica:0/task:0:\nThe same RunGraph (Worker) request "
    refused += "was received twice. "
    within = "Collective ops is aborted by: The same RecvBuf request was received twice"
    said = []

    def run(*args):
        if said:
            raise tf.errors.AbortedError(None, None, said.pop(0))
        return args

    repeated = exchange.again_if_refused(run)
    for words in ([refused, "Socket closed"], [within], 50 * [refused]):
        said[:] = words
        with pytest.raises(tf.errors.AbortedError, match=re.escape(words[-1])):
            repeated("x")
    said[:] = [refused]
    assert repeated("x", {"y": 1}) == ("x", {"y": 1}, None, None)


def test_a_chief_alone_does_nothing():
    with Chief() as team:
        error = NotFiniteElsewhere("here")
        assert team.cause(error) is error
        team.meet({})
        team.begin()
        team.audit(1, {"a": 1})
        assert team.computed(lambda: 3, ()) == 3


def test_a_signal_is_told_at_once_even_while_the_main_thread_computes():
    told, before = [], signal.getsignal(signal.SIGTERM)
    with told_of_signals(told.append):
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: told)
    assert told == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_second_signal_ends_a_worker():
    code = """
import os, signal, sys, time
from transformer.runtime.process import told_of_signals
with told_of_signals(lambda number: print("told", number, flush=True)):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=corpora.ROOT, stdout=-1)
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, b"told 2\n")


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
    monkeypatch.chdir(tmp_path)

    def launched(script, *flags):
        (tmp_path / "worker.py").write_text(WORKER + script)
        try:
            launch.main([*flags, "--", "worker.py"])
            status = 0
        except SystemExit as stopped:
            status = stopped.code
        return status, capsys.readouterr().err.splitlines()

    return launched


def test_the_launcher_shows_the_lines_of_all(launched):
    status, lines = launched("print('b\\xff', file=sys.stderr)", "--workers=3")
    hello = {f"[{i}] hello of {i}" for i in range(3)}
    assert status == 0 and hello < set(lines)


@pytest.mark.parametrize(
    "script, status",
    [
        ("sys.exit(3 if index else time.sleep(60))", 3),
        ("if index: os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(60)", 137),
        ("if index: sys.exit(0)\ntime.sleep(60)", 137),
        ("sys.exit(75)", 75),
    ],
)
def test_all_end_with_the_status_of_the_first_that_failed(launched, script, status):
    assert launched(script)[0] == status


@pytest.mark.parametrize(
    "script, status, starts",
    [
        ("sys.exit(75 if starts == 1 and index else 0)", 0, 2),
        ("if starts < 3: os.kill(os.getpid(), 9)", 0, 3),
        ("sys.exit(75)", 75, 3),
        ("sys.exit(2)", 2, 1),
        ("", 0, 1),
    ],
)
def test_restarts_follow_the_loss_of_a_worker(
    launched, tmp_path, monkeypatch, script, status, starts
):
    monkeypatch.setattr(launch, "PATIENCE", 60)  # all end by themselves
    found, lines = launched(script, "--restarts=2")
    assert found == status
    assert (tmp_path / "starts-1").read_text() == "x" * starts
    assert sum("restart" in line for line in lines) == starts - 1


def test_signals_go_to_all_workers_and_nothing_starts_again(tmp_path):
    """A worker that ends by the signal has the status of a shell."""
    (tmp_path / "worker.py").write_text(WORKER + "time.sleep(60)")
    command = ["-m", "transformer.launch", "--restarts=3", "--", "worker.py"]
    environment = {**os.environ, "PYTHONPATH": corpora.ROOT}
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=str(tmp_path),
        env=environment,
        stderr=subprocess.PIPE,
    )
    lines = {process.stderr.readline() for _ in range(2)}
    assert lines == {b"[0] hello of 0\n", b"[1] hello of 1\n"}
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("flag", ["--workers=0", "--restarts=-1"])
def test_the_launcher_refuses_what_cannot_be(capsys, flag):
    said = corpora.refusal(capsys, launch.main, flag, "--", "train.py")
    assert f"{flag[2:].split('=')[0]}: found" in said
