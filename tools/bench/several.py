"""Measure training in several processes, one per device, next to the estimate.

A device is a CPU core or a GPU. The processes sum their gradients over the machine's
network, whose rate is also measured.
"""

import os
import statistics
import sys
from typing import Any, Dict, List, Tuple

import scaling
import work
from measure import Bench, Contestant

from transformer.runtime.devices import count_cores, list_gpus, share_of_cores
from transformer.workers.launch import find_free_ports

EXCHANGES = 5  # in a measurement of the network


def set_up(bench: Bench, contestant: Contestant) -> Tuple[str, Dict[str, Any]]:
    """Return the set-up for the processes of a contestant."""
    count = count_processes(contestant)
    addresses = [f"127.0.0.1:{port}" for port in find_free_ports(count)]
    gpus = list_gpus() if bench.args.device == "gpu" else []
    available = count_cores()
    group = [
        {
            "addresses": addresses,
            "index": index,
            "gpu": gpus[index] if gpus else None,
            "cores": [] if gpus else share_of_cores(index % available, available),
        }
        for index in range(count)
    ]
    return sys.executable, {"group": group}


def take_device(spec: Dict[str, Any]) -> None:
    """Confine this process to its device, before TensorFlow computes."""
    if spec["gpu"] is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = spec["gpu"]
    if spec["cores"]:
        os.sched_setaffinity(0, spec["cores"])


def count_processes(contestant: Contestant) -> int:
    """Return the number of processes of a contestant."""
    return int(contestant.system.split(" ", 1)[0])


def contestants(bench: Bench) -> List[Contestant]:
    """Return the contestants: one process, and several."""
    counts = [1, 2, 4]
    if bench.args.device == "gpu":
        counts = [count for count in (1, 2, 4, 8) if count <= len(list_gpus())]
    return [
        Contestant(f"{n} process{'es' * (n > 1)}", "float32", "ours", set_up)
        for n in counts
    ]


def measure_scaling(bench: Bench, size: str) -> None:
    """Measure updates of a size and the network; add the estimate of `scaling.py`."""
    steps = bench.plan.steps[size]
    spec = {"work": "several", "sizes": work.SIZES[size]}
    with bench.workers(contestants(bench), spec) as workers:
        bench.ask_all(workers, {"steps": max(5, steps // 2)})  # warm-up
        updates = bench.ask_all(workers, {"steps": steps}, bench.plan.rounds)
        exchanges = bench.ask_all(workers, {"exchanges": EXCHANGES}, bench.plan.rounds)
    alone = None  # seconds of an update in one process
    tokens = None  # of such an update
    for contestant, answers in updates.items():
        if contestant not in exchanges:  # its exchanges failed
            continue
        count = count_processes(contestant)
        rates = [answer["tokens"] / answer["seconds"] for answer in answers]
        bench.add(contestant, f"scaling/{size}", rates, "tokens/s")
        if count == 1:
            alone = statistics.median(answer["seconds"] for answer in answers) / steps
            tokens = answers[0]["tokens"] / steps
            continue
        parameters = answers[0]["parameters"]
        gigabytes = scaling.bytes_sent(parameters, count) * EXCHANGES / 1e9
        network = [gigabytes / answer["seconds"] for answer in exchanges[contestant]]
        bench.add(contestant, f"network/{size}", network, "GB/s")
        if alone is not None:
            rate = statistics.median(network)
            machines = scaling.A100._replace(link=rate, devices=count)
            parts = scaling.update_seconds(alone, parameters, count, machines)
            if bench.args.device == "cpu":
                parts["compute"] = alone / min(count, count_cores())
            estimate = tokens / sum(parts.values())
            bench.add(contestant, f"estimate/{size}", [estimate], "tokens/s")
