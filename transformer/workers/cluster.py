"""The workers of a training run, as named by the environment variable `TF_CONFIG`.

    {"cluster": {"worker": ["a:2222", "b:2222"]},
     "task": {"type": "worker", "index": 1}}

Worker 0, or the job "chief", is the chief. It accepts connections from the other
workers at a separate port, at the distance `PORT_OFFSET` from the one in `TF_CONFIG`,
which belongs to TensorFlow. This file does not import TensorFlow, not even indirectly.
"""

import dataclasses
import json
import re
import socket
from typing import List, Mapping, Optional, Tuple

from transformer.runtime.errors import SettingsError

PORT_OFFSET = 1000  # from TensorFlow's port to the port for connections to the chief
LAST_PORT = 2**16 - 1
# TensorFlow's variable for servers that share their port with other sockets, such as
# those with which the launcher reserves it.
SHARE_PORTS = "TF_GRPC_REUSE_PORT"


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers of a training run, and the index of this process among them."""

    addresses: List[str]  # host:port of each worker, the chief first
    index: int

    @property
    def size(self) -> int:
        """The number of workers."""
        return len(self.addresses)

    def name(self, index: int) -> str:
        """Return the name of a worker in messages: "worker 1 at host:port"."""
        return f"worker {index} at {self.addresses[index]}"

    def chief_address(self) -> Tuple[str, int]:
        """Return (host, port) at which the chief accepts the others' connections."""
        host, port = split_address(self.addresses[0])
        port += PORT_OFFSET
        if port > LAST_PORT:
            port -= 2 * PORT_OFFSET
        return host, port

    def find_unresolved(self) -> str:
        """Describe another worker whose machine has an unknown name; "" for none."""
        for index, address in enumerate(self.addresses):
            if index != self.index:
                try:
                    socket.getaddrinfo(*split_address(address))
                except (OSError, UnicodeError) as error:
                    reason = getattr(error, "strerror", "") or error
                    return f"{self.name(index)} ({reason})"
        return ""


def split_address(address: str) -> Tuple[str, int]:
    """Split "host:port"; the brackets around an IPv6 address are removed."""
    host, port = address.rsplit(":", 1)
    return host.strip("[]"), int(port)


def read_cluster(environment: Mapping[str, str]) -> Optional[Cluster]:
    """Read the workers of a training run from `TF_CONFIG`.

    Args:
      environment: the environment variables.

    Returns:
      None for a single process: without `TF_CONFIG`, or with one worker.

    Raises:
      SettingsError: `TF_CONFIG` is malformed.
    """
    text = environment.get("TF_CONFIG", "").strip()
    if not text:
        return None
    try:
        content = json.loads(text)
        jobs = {job: list(hosts) for job, hosts in content.get("cluster", {}).items()}
        chiefs = jobs.pop("chief", [])
        workers = jobs.pop("worker", [])
        addresses = chiefs + workers
        if not addresses and not jobs:
            return None
        job = content["task"]["type"]
        index = content["task"]["index"]
        members = {"chief": chiefs, "worker": workers}[job]
        is_valid = (
            not jobs
            and len(chiefs) <= 1
            and len(set(addresses)) == len(addresses)
            and all(re.fullmatch(r"\S+:[1-9]\d{0,4}", name) for name in addresses)
            and all(int(name.rsplit(":", 1)[1]) <= LAST_PORT for name in addresses)
            and type(index) is int
            and 0 <= index < len(members)
        )
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        is_valid = False
    if not is_valid:
        raise SettingsError(
            'TF_CONFIG: expected {"cluster": {"worker": ["host:port", ...]}, '
            '"task": {"type": "worker", "index": 0}}, with at most one "chief", got '
            f"{text:.200}; unset it to train in a single process"
        )
    if len(addresses) == 1:
        return None
    return Cluster(addresses, index + (len(chiefs) if job == "worker" else 0))
