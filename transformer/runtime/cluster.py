"""Find the workers of a training run.

`TF_CONFIG` names them, as other programs of TensorFlow have it:

    {"cluster": {"worker": ["a:2222", "b:2222"]},
     "task": {"type": "worker", "index": 1}}

Worker 0, or the job "chief", is the chief. It takes the connections of the others at a
port of its own, `PORTS_APART` from the one in `TF_CONFIG`, which is TensorFlow's.
"""

import json
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from transformer.runtime.process import Stopped

PORTS_APART = 1000  # of TensorFlow and of the connections to the chief
LOST = 75  # the exit status where a worker was lost: EX_TEMPFAIL, the same may work


class Cluster(NamedTuple):
    """The workers of a training run, and which of them this process is."""

    addresses: List[str]  # host:port of each, the chief first
    index: int

    @property
    def size(self) -> int:
        """How many workers there are."""
        return len(self.addresses)

    def name(self, index: int) -> str:
        """Return what messages call a worker: "worker 1 at host:port"."""
        return f"worker {index} at {self.addresses[index]}"

    def place(self, index: int) -> Tuple[str, int]:
        """Return (host, port) where TensorFlow listens on a worker."""
        host, port = self.addresses[index].rsplit(":", 1)
        return host.strip("[]"), int(port)

    def meeting_point(self) -> Tuple[str, int]:
        """Return (host, port) where the chief takes the connections of the others."""
        host, port = self.place(0)
        port += PORTS_APART
        return host, port if port < 2**16 else port - 2 * PORTS_APART


def cluster_of(environment: Mapping[str, str]) -> Optional[Cluster]:
    """Return the workers that `TF_CONFIG` names; None for one, or where it is not set.

    Raises:
      ValueError: it is no such text.
    """
    text = environment.get("TF_CONFIG", "").strip()
    if not text:
        return None
    try:
        content = json.loads(text)
        jobs = {kind: list(some) for kind, some in content.get("cluster", {}).items()}
        kind, index = "worker", 0
        if jobs:
            kind = str(content["task"]["type"])
            index = int(content["task"]["index"])
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise _refused(text) from None
    addresses = jobs.get("chief", []) + jobs.get("worker", [])
    right = [re.fullmatch(r"\S+:[1-9]\d{0,4}", str(each)) for each in addresses]
    known = set(jobs) <= {"chief", "worker"} and len(jobs.get("chief", [])) <= 1
    there = not jobs or (0 <= index < len(jobs.get(kind, [])))
    if not (all(right) and known and there and len(set(addresses)) == len(addresses)):
        raise _refused(text)
    if kind == "worker":
        index += len(jobs.get("chief", []))
    return Cluster(addresses, index) if len(addresses) > 1 else None


def _refused(text):
    return ValueError(
        f"TF_CONFIG: found {text:.200}, wanted "
        '{"cluster": {"worker": ["host:port", ...]}, '
        '"task": {"type": "worker", "index": 0}}, with a "chief" at most beside them; '
        "unset it for a process alone"
    )


class Ended(Stopped):
    """Another worker ended the training run; `status` is that of this process, too."""

    def __init__(self, text: str, status: int):
        BaseException.__init__(self, text)
        self.status = status


def differences(found: Dict[str, Any], wanted: Dict[str, Any]) -> str:
    """Return the facts of a worker that are not those of the chief, in words.

    Args:
      found: those of the worker, name → value.
      wanted: those of the chief.
    """
    others = [
        f"{each} {found.get(each)} (the chief: {wanted.get(each)})"
        for each in sorted(set(found) | set(wanted))
        if found.get(each) != wanted.get(each)
    ]
    more = f" and {len(others) - 5} more" if len(others) > 5 else ""
    return ", ".join(others[:5]) + more
