"""Workers on the machines of a Ray cluster: place them, start them, watch them.

Each worker is a child process of an actor: what Ray changes in its own processes (it
blocks SIGINT, and chooses the working directory) does not reach it. It ends with its
actor, and the actor with this process. Ray restarts nothing: `run_workers` does.

    with connect("auto", warn) as cluster:
        run_workers(lambda: cluster.start(command, 8, logdir), restarts, warn)
"""

import concurrent.futures
import contextlib
import importlib
import logging
import os
import queue
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from transformer.runtime.errors import (
    EngineError,
    RayClusterNotFound,
    SettingsError,
    missing_package,
)
from transformer.runtime.progress import format_count
from transformer.runtime.signals import in_main_thread
from transformer.workers.cluster import SHARE_PORTS, split_address
from transformer.workers.launch import (
    PATIENCE,
    Workers,
    make_config,
    python_arguments,
    reserve_ports,
    start_process,
)
from transformer.workers.team import REPORT

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
AUTH_MODE = "RAY_AUTH_MODE"
READ = 0.5  # seconds that an actor waits for output


# --- On the machine of a worker -------------------------------------------------------


class Host:
    """An actor that runs one worker on its machine."""

    def __init__(self):
        self._held = contextlib.ExitStack()  # ports and cores, until the actor ends
        self._lines: "queue.Queue[bytes]" = queue.Queue()
        self._process: Optional["subprocess.Popen[bytes]"] = None
        # Linux kills the worker when the thread ends that started it.
        self._starter = concurrent.futures.ThreadPoolExecutor(1)

    def enter(self, folder: str) -> None:
        """Change to the working directory.

        Raises:
          SettingsError: this machine does not have it.
        """
        try:
            os.chdir(folder)
        except OSError as error:
            raise SettingsError(
                f"{socket.gethostname()}: the working directory {folder} is missing "
                f"({error.strerror}); start from a folder that all machines share"
            ) from None

    def has_file(self, path: str) -> bool:
        """Return whether this machine has a file."""
        return os.path.exists(path)

    def reserve(self, address: str, is_chief: bool) -> str:
        """Reserve a port, for the chief also its second one; return host:port."""
        (port,) = reserve_ports(1, self._held, address, is_chief)
        return f"{address}:{port}"

    def start(
        self, command: List[str], variables: Dict[str, str], num_cores: int
    ) -> None:
        """Start the worker.

        Args:
          command: as in `start_workers`.
          variables: environment variables beside those of this process.
          num_cores: how many cores it should use; 0: all.

        Raises:
          ProgramNotFound: this machine has no such program.
        """
        cores = take_cores(num_cores, self._held)
        gpus = importlib.import_module("ray").get_gpu_ids()  # of this actor
        visible = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))}
        environment = {**os.environ, **variables, **visible}
        environment.pop("OMP_NUM_THREADS", None)  # Ray sets it: 1 beside a GPU
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


def take_cores(count: int, held: contextlib.ExitStack) -> List[int]:
    """Take CPU cores of this machine that no other worker has taken.

    Args:
      count: how many.
      held: gives them back when it is closed.

    Returns:
      The cores; [] if so many are not left, or where they cannot be assigned.
    """
    cores: List[int] = []
    for core in sorted(getattr(os, "sched_getaffinity", lambda pid: [])(0)):
        name = f"\0transformer-tf core {core}"  # Linux frees it with the process
        with contextlib.suppress(OSError):  # it is taken
            if len(cores) < count:
                held.enter_context(socket.socket(socket.AF_UNIX)).bind(name)
                cores.append(core)
    return cores if len(cores) == count else []


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
        except self._cluster.ray.exceptions.RayError:
            status = -signal.SIGKILL
            if not is_alive(self._node):
                self.loss = f"its machine was lost ({host})"
            elif not self._is_killed:
                self.loss = f"its process in Ray ended on {host}"
        self._status = status


def is_alive(node: Dict[str, Any]) -> bool:
    """Return whether Ray runs on a machine; the cluster may learn it later."""
    with contextlib.suppress(OSError):
        address = node["NodeManagerAddress"], node["NodeManagerPort"]
        socket.create_connection(address, PATIENCE).close()
        return True
    return False


class RayCluster:
    """The cluster to which this process is connected; `connect` makes it."""

    def __init__(self, ray: Any, warn: Callable[[str], None]):
        self.ray = ray
        self._warn = warn

    def get(self, references: Any) -> Any:
        """Return results of actors; raise the exceptions that they raised."""
        try:
            return self.ray.get(references)
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None

    def choose_share(self, count: int, use_gpu: bool = True) -> Dict[str, int]:
        """Choose the resources of each worker: a GPU, or equally many CPUs.

        Args:
          count: the number of workers.
          use_gpu: whether they can use GPUs; `CUDA_VISIBLE_DEVICES=` hides them, too.
        """
        is_hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all") in ("", "-1")
        if use_gpu and not is_hidden and any(self._list_capacities("GPU")):
            return {"GPU": 1, "CPU": 1}
        cpus = self._list_capacities("CPU")
        for size in range(max(cpus, default=1), 1, -1):
            if sum(capacity // size for capacity in cpus) >= count:
                return {"CPU": size}
        return {"CPU": 1}

    def _list_capacities(self, name):
        """List how much of a resource each machine has."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        return [int(resources.get(name, 0)) for resources in nodes]

    def start(
        self,
        command: Sequence[str],
        count: int,
        shared: Optional[str] = None,
        number: Optional[int] = None,
        use_gpu: bool = True,
    ) -> Workers:
        """Wait for resources, and start workers there.

        Args:
          command: a Python program and its arguments; each worker runs it.
          count: how many workers share the cluster.
          shared: a folder that all machines should share; None: there is none.
          number: that of the only worker to start, which works on its own; None: start
            all, as the workers of a training run.
          use_gpu: as in `choose_share`.

        Raises:
          EngineError: a machine lacks a package.
          SettingsError: a machine lacks the working directory, or does not share the
            folder.
        """
        numbers = range(count) if number is None else [number]
        exceptions = self.ray.exceptions
        with contextlib.ExitStack() as stack:
            group, share = self._place(len(numbers), count, use_gpu)
            stack.callback(self.ray.util.remove_placement_group, group)
            actors = [self._make_actor(group, i, share) for i in range(len(numbers))]
            ids = self.ray.util.placement_group_table(group)["bundles_to_node_id"]
            nodes = {node["NodeID"]: node for node in self.ray.nodes()}
            machines = [nodes[ids[i]] for i in range(len(numbers))]
            try:
                self.get([actor.enter.remote(os.getcwd()) for actor in actors])
                if shared:
                    self._check_shared(shared, actors, machines)
                variables: List[Dict[str, str]] = [{} for _ in actors]
                if number is None:
                    variables = self._make_variables(actors, machines)
                num_cores = 0 if "GPU" in share else share["CPU"]
                self.get(
                    [
                        actor.start.remote(list(command), own, num_cores)
                        for actor, own in zip(actors, variables)
                    ]
                )
            except exceptions.RayError as error:
                if isinstance(error, exceptions.RuntimeEnvSetupError) or getattr(
                    error, "actor_init_failed", False
                ):
                    raise EngineError(
                        "a machine of the cluster cannot start a worker: "
                        f"{str(error).strip().splitlines()[-1]}; install the same "
                        "packages on all"
                    ) from None
                # An actor was lost: its `read` says so.
            processes = [RemoteProcess(self, *pair) for pair in zip(actors, machines)]
            return Workers(list(zip(numbers, processes)), stack.pop_all())

    def _place(self, size, count, use_gpu):
        """Wait for resources; return (Ray's group of them, those of each worker)."""
        begun = time.monotonic()
        while True:
            share = self.choose_share(count, use_gpu)
            group = self.ray.util.placement_group([share] * size, strategy="PACK")
            if group.wait(REPORT):
                return group, share
            self.ray.util.remove_placement_group(group)
            name = next(iter(share))
            machines = sum(map(bool, self._list_capacities(name)))
            free = int(self.ray.available_resources().get(name, 0))
            self._warn(
                f"waiting for {format_count(size, 'worker')} with {share[name]} "
                f"{name}{'s' * (share[name] > 1)} each: {free} free on "
                f"{format_count(machines, 'machine')}, "
                f"{time.monotonic() - begun:.0f} s so far"
            )

    def _make_actor(self, group, index, share):
        """Make the actor of a worker in its part of a group."""
        variables = {"RAY_worker_niceness": "0"}  # not 15
        if os.path.exists(os.path.join(CHECKOUT, "setup.py")):
            variables["PYTHONPATH"] = f"{CHECKOUT}:${{PYTHONPATH}}"
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

    def _check_shared(self, folder, actors, machines):
        """Raise SettingsError if a machine does not share a folder with this one."""
        folder = os.path.abspath(folder)
        while not os.path.isdir(folder):
            folder = os.path.dirname(folder)
        with tempfile.NamedTemporaryFile(prefix=".shared-", dir=folder) as probe:
            answers = self.get([actor.has_file.remote(probe.name) for actor in actors])
        for machine, is_shared in zip(machines, answers):
            if not is_shared:
                raise SettingsError(
                    f"{machine['NodeManagerHostname']}: {folder} is another folder "
                    f"than on {socket.gethostname()}; choose a folder that all "
                    "machines share"
                )

    def _make_variables(self, actors, machines):
        """Reserve the ports of a team; return the variables of each worker."""
        references = [
            actor.reserve.remote(machine["NodeManagerAddress"], index == 0)
            for index, (actor, machine) in enumerate(zip(actors, machines))
        ]
        addresses = self.get(references)
        configs = [make_config(addresses, index) for index in range(len(actors))]
        return [{"TF_CONFIG": config, SHARE_PORTS: "true"} for config in configs]


@contextlib.contextmanager
def connect(address: str, warn: Callable[[str], None]) -> Iterator[RayCluster]:
    """Connect to a Ray cluster; all that runs there for this process ends with it.

    The cluster must ask for a token (`RAY_AUTH_MODE=disabled`: it need not), because it
    runs any program of everyone who reaches its ports.

    Args:
      address: host:port of its head; "auto": the cluster to which this machine belongs.
      warn: function of a text, for what the user should see.

    Raises:
      PackageNotInstalled: Ray is not installed.
      SettingsError: the address is not one.
      RayClusterNotFound: there is no such cluster, or it has another token, or none.
    """
    if not re.fullmatch(r"auto|.+:\d+", address):
        raise SettingsError(f"Ray: expected auto or host:port, got {address!r}")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"  # by a thread, after the end
    mode = os.environ.setdefault(AUTH_MODE, "token")
    try:
        ray: Any = importlib.import_module("ray")
        importlib.import_module("ray.util.scheduling_strategies")
    except ImportError as error:
        raise missing_package("ray", "ray", error) from error
    try:
        _connect(ray, address)
        get_mode = ray.remote(os.getenv).options(num_cpus=0)
        if mode == "token" and ray.get(get_mode.remote(AUTH_MODE)) != mode:
            raise RayClusterNotFound(
                "Ray: the cluster has no token, and obeys everyone who can reach its "
                "ports; RAY_AUTH_MODE=disabled accepts this"
            )
        yield RayCluster(ray, warn)
    finally:
        ray.shutdown()


def _connect(ray, address):
    """Connect to a cluster, or raise RayClusterNotFound."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        if address != "auto":  # where nothing answers, Ray would try for 20 seconds
            socket.create_connection(split_address(address), PATIENCE).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except ray.exceptions.AuthenticationError:
        raise RayClusterNotFound("Ray: this machine has no token") from None
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        reason = str(error).splitlines()[0]
        raise RayClusterNotFound(f"Ray: no cluster answers ({reason:.200})") from None
    finally:
        if in_main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray sets its own
