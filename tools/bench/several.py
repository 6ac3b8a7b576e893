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

from transformer.launch import free_ports, share_of_cores, visible_gpus
from transformer.runtime.devices import count_cores

EXCHANGES = 5  # in a measurement of the network


def set_up(bench: Bench, one: Contestant) -> Tuple[str, Dict[str, Any]]:
    """Return the set-up for the processes of a contestant."""
    count = count_of(one)
    addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
    gpus = visible_gpus() if bench.args.device == "gpu" else []
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


def count_of(one: Contestant) -> int:
    """Return the number of processes of a contestant."""
    return int(one.system.split(" ", 1)[0])


def contestants(bench: Bench) -> List[Contestant]:
    """Return the contestants: one process, and several."""
    counts = [1, 2, 4]
    if bench.args.device == "gpu":
        counts = [count for count in (1, 2, 4, 8) if count <= len(visible_gpus())]
    return [
        Contestant(f"{n} process{'es' * (n > 1)}", "float32", "ours", set_up)
        for n in counts
    ]


def measure_scaling(bench: Bench, size: str) -> None:
    """Measure updates of a size and the network; add the estimate of `scaling.py`."""
    steps = bench.plan.steps[size]
    spec = {"work": "several", "sizes": work.SIZES[size]}
    with bench.workers(contestants(bench), spec) as started:
        bench.ask_all(started, {"steps": max(5, steps // 2)})  # warm-up
        found = bench.ask_all(started, {"steps": steps}, bench.plan.rounds)
        exchanged = bench.ask_all(started, {"exchanges": EXCHANGES}, bench.plan.rounds)
    alone = None  # seconds of an update in one process
    tokens = None  # of such an update
    for one, answers in found.items():
        if one not in exchanged:  # its exchanges failed
            continue
        count = count_of(one)
        rates = [answer["tokens"] / answer["seconds"] for answer in answers]
        bench.add(one, f"scaling/{size}", rates, "tokens/s")
        if count == 1:
            alone = statistics.median(each["seconds"] for each in answers) / steps
            tokens = answers[0]["tokens"] / steps
            continue
        parameters = answers[0]["parameters"]
        sent = scaling.sent(parameters, count) * EXCHANGES / 1e9
        network = [sent / each["seconds"] for each in exchanged[one]]
        bench.add(one, f"network/{size}", network, "GB/s")
        if alone is not None:
            rate = statistics.median(network)
            machines = scaling.A100._replace(link=rate, devices=count)
            parts = scaling.seconds_of_update(alone, parameters, count, machines)
            if bench.args.device == "cpu":
                parts["compute"] = alone / min(count, count_cores())
            estimate = tokens / sum(parts.values())
            bench.add(one, f"estimate/{size}", [estimate], "tokens/s")
