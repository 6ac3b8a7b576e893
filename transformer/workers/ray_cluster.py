"""Workers on the machines of a Ray cluster: place them, start them, watch them.

Each worker is a child process of an actor: what Ray changes in its own processes (it
blocks SIGINT, and chooses the working directory) does not reach it. It ends with its
actor, and the actor with this process. Ray restarts nothing: `run_workers` does.

    with connect("auto", warn) as cluster:
        run_workers(lambda: cluster.start_team(command, 8, logdir), restarts, warn)
"""

import collections
import concurrent.futures
import contextlib
import functools
import importlib
import itertools
import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from transformer.runtime.devices import count_cores, share_of_cores
from transformer.runtime.errors import (
    EngineError,
    RayClusterNotFound,
    SettingsError,
    missing_package,
)
from transformer.runtime.progress import format_count
from transformer.runtime.signals import SIGNALS, in_main_thread
from transformer.workers.cluster import SHARE_PORTS, split_address
from transformer.workers.launch import (
    Workers,
    make_config,
    python_arguments,
    reserve_ports,
    start_process,
)
from transformer.workers.team import REPORT

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
READ = 0.5  # seconds that an actor waits for output
PATIENCE = 5.0  # seconds to wait for the last lines of a process, or for a connection


# --- On the machine of a worker -------------------------------------------------------


class Host:
    """An actor that runs one worker on its machine."""

    def __init__(self):
        self._sockets = contextlib.ExitStack()
        self._lines: "queue.Queue[bytes]" = queue.Queue()
        self._process: Optional["subprocess.Popen[bytes]"] = None
        # Linux kills the worker when the thread ends that started it.
        self._starter = concurrent.futures.ThreadPoolExecutor(1)

    def enter(self, folder: str, probe: str) -> None:
        """Change to the working directory.

        Args:
          folder: the path.
          probe: a file in a folder that all machines share; "": there is none.

        Raises:
          SettingsError: this machine does not have them.
        """
        host = socket.gethostname()
        try:
            os.chdir(folder)
        except OSError as error:
            raise SettingsError(
                f"{host}: the working directory {folder} is missing "
                f"({error.strerror}); start from a folder that all machines share"
            ) from None
        if probe and not os.path.exists(probe):
            raise SettingsError(
                f"{host}: {os.path.dirname(probe)} is another folder than on "
                f"{os.path.basename(probe).partition('@')[2]}; choose a folder that "
                "all machines share"
            )

    def reserve(self, address: str, is_chief: bool) -> str:
        """Reserve a port, for the chief also its second one; return host:port."""
        (port,) = reserve_ports(1, self._sockets, address, is_chief)
        return f"{address}:{port}"

    def start(
        self, command: List[str], variables: Dict[str, str], room: Tuple[int, int, int]
    ) -> None:
        """Start the worker.

        Args:
          command: as in `start_workers`.
          variables: environment variables beside those of this process.
          room: (its number among the workers of this machine, how many there is room
            for, how many cores each should have), the last 0 for all cores.

        Raises:
          ProgramNotFound: this machine has no such program.
        """
        rank, count, size = room
        cores = share_of_cores(rank, max(count, count_cores() // size)) if size else []
        gpus = importlib.import_module("ray").get_gpu_ids()  # of this actor
        visible = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))}
        environment = {**os.environ, **variables, **visible}
        arguments = python_arguments(command)
        task = self._starter.submit(start_process, arguments, environment, cores)
        self._process = task.result()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(line)

    def read(self) -> Tuple[List[bytes], Optional[int]]:
        """Return the lines since the last call, and the status if it has ended."""
        status = self._process.poll() if self._process else None
        if status is not None:
            self._reader.join(PATIENCE)
        lines = []
        with contextlib.suppress(queue.Empty):
            lines.append(self._lines.get(status is None, READ))
            while True:
                lines.append(self._lines.get_nowait())
        return lines, status

    def send_signal(self, signum: int) -> None:
        """Send a signal to the worker."""
        if self._process:
            self._process.send_signal(signum)


# --- On the machine of the user -------------------------------------------------------


class RemoteProcess:
    """A worker on another machine, with what `Workers` needs of `subprocess.Popen`.

    Args:
      cluster: the cluster.
      actor: its `Host`.
      node: the machine, as Ray describes it.
    """

    def __init__(self, cluster: "RayCluster", actor: Any, node: Dict[str, Any]):
        self.returncode: Optional[int] = None
        self.loss = ""  # how the worker was lost
        self.stdout = self._read()
        self._cluster = cluster
        self._actor = actor
        self._node = node
        self._status: Optional[int] = None
        self._is_killed = False  # by this process

    def poll(self) -> Optional[int]:
        """Return the exit status, None while the worker is running."""
        self.returncode = self._status
        return self.returncode

    def send_signal(self, signum: int) -> None:
        """Send a signal to the worker; SIGKILL ends its actor, too."""
        if signum == signal.SIGKILL:
            self._is_killed = True
            self._cluster.ray.kill(self._actor)
        else:
            self._actor.send_signal.remote(signum)

    def _read(self) -> Iterator[bytes]:
        """Yield the output lines until the worker ends."""
        host, status = self._node["NodeManagerHostname"], None
        try:
            while status is None:
                lines, status = self._cluster.get(self._actor.read.remote())
                yield from lines
            if status < 0:
                self.loss = f"it was killed by signal {-status} on {host}"
        except self._cluster.errors:
            status = -signal.SIGKILL
            if not self._cluster.is_alive(self._node):
                self.loss = f"its machine was lost ({host})"
            elif not self._is_killed:
                self.loss = f"its process was killed on {host}"
        self._status = status


class RayCluster:
    """The cluster to which this process is connected; `connect` makes it."""

    def __init__(self, ray: Any, warn: Callable[[str], None]):
        self.ray = ray
        self.errors = (ray.exceptions.RayError,)
        self._warn = warn
        self._lock = threading.Lock()
        self._ranks: Dict[str, Set[int]] = {}  # address → of the workers there

    def get(self, references: Any) -> Any:
        """Return results of actors; raise the exceptions that they raised."""
        try:
            return self.ray.get(references)
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None

    def is_alive(self, node: Dict[str, Any]) -> bool:
        """Return whether Ray runs on a machine; the cluster may learn it later."""
        with contextlib.suppress(OSError):
            address = node["NodeManagerAddress"], node["NodeManagerPort"]
            socket.create_connection(address, PATIENCE).close()
            return True
        return False

    def list_nodes(self) -> List[Dict[str, Any]]:
        """List the machines, as Ray describes them."""
        return [node for node in self.ray.nodes() if node["Alive"]]

    def choose_share(self, count: int, use_gpu: bool = True) -> Dict[str, int]:
        """Choose the resources of each worker: a GPU, or equally many CPUs.

        Args:
          count: the number of workers.
          use_gpu: whether they can use GPUs; `CUDA_VISIBLE_DEVICES=` hides them, too.
        """
        nodes = [node["Resources"] for node in self.list_nodes()]
        is_hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all") in ("", "-1")
        if use_gpu and not is_hidden and any(node.get("GPU") for node in nodes):
            return {"GPU": 1, "CPU": 1}
        cpus = [int(node.get("CPU", 0)) for node in nodes]
        for size in range(max(cpus, default=1), 1, -1):
            if sum(available // size for available in cpus) >= count:
                return {"CPU": size}
        return {"CPU": 1}

    def _place(self, count: int, choose: Callable[[], Dict[str, int]]) -> Any:
        """Wait for resources; return (Ray's group of them, those of each worker)."""
        begun = time.monotonic()
        while True:
            share = choose()
            group = self.ray.util.placement_group([share] * count, strategy="PACK")
            if group.wait(REPORT):
                return group, share
            self.ray.util.remove_placement_group(group)
            name = next(iter(share))
            nodes = sum(name in node["Resources"] for node in self.list_nodes())
            free = int(self.ray.available_resources().get(name, 0))
            self._warn(
                f"waiting for {format_count(count, 'worker')} with {share[name]} "
                f"{name}{'s' * (share[name] > 1)} each: {free} free on "
                f"{format_count(nodes, 'machine')}, {time.monotonic() - begun:.0f} s "
                "so far"
            )

    def start_team(
        self, command: Sequence[str], count: int, shared: Optional[str] = None
    ) -> Workers:
        """Start the workers of a training run.

        Args:
          command: a Python program and its arguments; each worker runs it.
          count: the number of workers.
          shared: a folder that all machines should share; None: there is none.

        Raises:
          SettingsError: a machine lacks the working directory, or does not share the
            folder.
        """
        choose = functools.partial(self.choose_share, count)
        return self._start(command, range(count), choose, shared, is_team=True)

    def start_one(
        self,
        command: Sequence[str],
        number: int,
        share: Dict[str, int],
        shared: Optional[str] = None,
    ) -> Workers:
        """Start one worker that works on its own.

        Args:
          command: as in `start_team`.
          number: shown before its lines.
          share: from `choose_share`.
          shared: as in `start_team`.

        Raises: as `start_team`.
        """
        return self._start(command, [number], lambda: share, shared, is_team=False)

    def _start(self, command, numbers, choose, shared, is_team):
        """Place and start workers that have these numbers."""
        group, share = self._place(len(numbers), choose)
        sockets = contextlib.ExitStack()
        sockets.callback(self.ray.util.remove_placement_group, group)
        with contextlib.ExitStack() as undo:
            undo.callback(sockets.close)
            actors = [self._make_actor(group, i, share) for i in range(len(numbers))]
            bundles = self.ray.util.placement_group_table(group)["bundles_to_node_id"]
            nodes = {node["NodeID"]: node for node in self.ray.nodes()}
            nodes = [nodes[bundles[i]] for i in range(len(numbers))]
            try:
                self._enter(actors, shared)
                variables = self._make_variables(actors, nodes) if is_team else [{}]
                self.get(
                    [
                        actor.start.remote(list(command), own, room)
                        for actor, own, room in zip(
                            actors, variables, self._take_rooms(nodes, share, sockets)
                        )
                    ]
                )
            except self.errors as error:  # then `read` fails, too
                self._refuse_creation(error)
            undo.pop_all()
        processes = [RemoteProcess(self, *pair) for pair in zip(actors, nodes)]
        return Workers(list(zip(numbers, processes)), sockets)

    def _make_actor(self, group, index, share):
        """Make the actor of a worker in its part of a group."""
        variables = {"RAY_worker_niceness": "0"}  # not 15
        if os.path.exists(os.path.join(PACKAGE, "setup.py")):  # a checkout
            variables["PYTHONPATH"] = f"{PACKAGE}:${{PYTHONPATH}}"
        strategy = self.ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
        return (
            self.ray.remote(Host)
            .options(
                num_cpus=share["CPU"],
                num_gpus=share.get("GPU", 0),
                max_concurrency=2,  # signals arrive while `read` waits
                runtime_env={"env_vars": variables},
                scheduling_strategy=strategy(group, index),
            )
            .remote()
        )

    def _enter(self, actors, shared):
        """Let all actors enter the working directory, and look into a shared folder."""
        probe = ""
        if shared:
            folder = os.path.abspath(shared)
            while not os.path.isdir(folder):
                folder = os.path.dirname(folder)
            name = f".{uuid.uuid4().hex}@{socket.gethostname()}"
            probe = os.path.join(folder, name)
            open(probe, "wb").close()
        try:
            self.get([actor.enter.remote(os.getcwd(), probe) for actor in actors])
        finally:
            if probe:
                os.remove(probe)

    def _make_variables(self, actors, nodes):
        """Reserve the ports of a team; return the variables of each worker."""
        references = [
            actor.reserve.remote(node["NodeManagerAddress"], index == 0)
            for index, (actor, node) in enumerate(zip(actors, nodes))
        ]
        addresses = self.get(references)
        return [
            {"TF_CONFIG": make_config(addresses, index), SHARE_PORTS: "true"}
            for index in range(len(actors))
        ]

    def _take_rooms(self, nodes, share, sockets):
        """Return the `room` of each worker (`Host.start`); `sockets` gives it back."""
        size = 0 if "GPU" in share else share["CPU"]
        counts: Dict[str, int] = collections.Counter()
        for node in self.list_nodes():
            cpus = int(node["Resources"].get("CPU", 0))
            counts[node["NodeManagerAddress"]] += cpus // share["CPU"]
        rooms = []
        with self._lock:
            for address in (node["NodeManagerAddress"] for node in nodes):
                ranks = self._ranks.setdefault(address, set())
                rank = next(i for i in itertools.count() if i not in ranks)
                ranks.add(rank)
                sockets.callback(ranks.discard, rank)
                rooms.append((rank, max(counts[address], rank + 1), size))
        return rooms

    def _refuse_creation(self, error):
        """Raise EngineError if an actor could not be made: a package is missing."""
        text = str(error).strip()
        if "creation task" in text or "ModuleNotFoundError" in text:
            raise EngineError(
                f"a machine of the cluster cannot start a worker: "
                f"{text.splitlines()[-1].strip()}; install the same packages on all"
            ) from None


@contextlib.contextmanager
def connect(address: str, warn: Callable[[str], None]) -> Iterator[RayCluster]:
    """Connect to a Ray cluster; all that runs there for this process ends with it.

    Args:
      address: host:port of its head; "auto": the cluster to which this machine belongs.
      warn: function of a text, for what the user should see.

    Raises:
      PackageNotInstalled: Ray is not installed.
      RayClusterNotFound: there is no such cluster.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray: Any = importlib.import_module("ray")
        importlib.import_module("ray.util.scheduling_strategies")
    except ImportError as error:
        raise missing_package("ray", "ray", error) from error
    with _hold_stderr() as held:
        try:
            if address != "auto":
                _check_port(address)
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            held.seek(0)
            if b"AuthToken" in held.read() or "token" in str(error):
                text = "the cluster asks for its token"
            else:
                text = f"no cluster is running ({str(error).splitlines()[0]:.200})"
            raise RayClusterNotFound(f"Ray: {text}") from None
    if os.environ.get("RAY_AUTH_MODE") != "token":
        warn(
            "this Ray cluster obeys everyone who can reach its ports; to protect it, "
            "call `ray get-auth-token --generate` before `ray start`"
        )
    try:
        yield RayCluster(ray, warn)
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _hold_stderr():
    """Hold back what Ray writes to standard error; keep our signal handlers."""
    handlers = {signum: signal.getsignal(signum) for signum in SIGNALS}
    sys.stderr.flush()
    original = os.dup(2)
    try:
        with tempfile.TemporaryFile() as held:
            os.dup2(held.fileno(), 2)
            yield held
    finally:
        sys.stderr.flush()
        os.dup2(original, 2)
        os.close(original)
        for signum, handler in handlers.items():
            if in_main_thread() and handler is not None:
                signal.signal(signum, handler)


def _check_port(address):
    """Raise OSError unless something answers at a port; Ray would try for 100 s."""
    try:
        host, port = split_address(address)
    except ValueError:
        raise RayClusterNotFound(
            f"Ray: expected auto or host:port, got {address!r}"
        ) from None
    socket.create_connection((host, port), PATIENCE).close()
