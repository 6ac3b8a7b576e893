"""Measure training on several devices and in several processes, beside the estimate.

A device is a core of the CPU here, or a GPU. Processes add up their gradients over the
network of the machine, whose rate is measured, too.
"""

import math
import os
import statistics
import sys
from typing import Any, Dict, List, Tuple

import scaling
import work
from measure import Bench, Contestant

from transformer.launch import free_ports
from transformer.runtime.devices import cores, device_names

EXCHANGES = 5  # in a measurement of the network
# GB/s between the devices of a process: a CPU copies nothing, that of GPUs is assumed.
LINKS = {"cpu": math.inf, "gpu": scaling.A100.link}


def set_up(bench: Bench, one: Contestant) -> Tuple[str, Dict[str, Any]]:
    """Return the set-up of so many devices of one process, or so many processes."""
    count, kind = _parsed(one)
    alone = {"devices": "", "core": None, "addresses": [], "index": 0}
    if kind == "processes":
        addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
        each = dict(alone, addresses=addresses)
        group = [dict(each, index=i, core=_core(i)) for i in range(count)]
        return sys.executable, {"group": group}
    # One core is one device; several logical devices share the threads of a process.
    core = _core(0) if bench.args.device == "cpu" and count == 1 else None
    name = f"{bench.args.device}:{count}"
    return sys.executable, dict(alone, devices=name, core=core)


def _parsed(one):
    count, kind = one.system.split(" ", 1)
    return int(count), kind


def _core(i):
    """Return the core of a process; None where the system cannot confine it."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    return sorted(os.sched_getaffinity(0))[i % cores()]


def contestants(bench: Bench) -> List[Contestant]:
    """Return one device, several, and on CPUs several processes."""
    if bench.args.device == "gpu":
        most = len(device_names(""))
        systems = [f"{n} device{'s' * (n > 1)}" for n in (1, 2, 4, 8) if n <= most]
    else:
        systems = ["1 device", "2 devices", "2 processes", "4 processes"]
    return [Contestant(system, "float32", "ours", set_up) for system in systems]


def measure_scaling(bench: Bench, size: str) -> None:
    """Measure the updates of a size, the network, and what `scaling.py` estimates."""
    steps, name = bench.plan.steps[size], f"scaling/{size}"
    spec = {"work": "several", "sizes": work.SIZES[size]}
    with bench.workers(contestants(bench), spec) as started:
        bench.ask_all(started, {"steps": max(5, steps // 2)})  # warm-up
        found = bench.ask_all(started, {"steps": steps}, bench.plan.rounds)
        exchanged = bench.ask_all(started, {"exchanges": EXCHANGES}, bench.plan.rounds)
    alone = tokens = None  # of an update on one device: seconds, tokens
    for one, answers in found.items():
        if one not in exchanged:  # it failed there
            continue
        count, kind = _parsed(one)
        rates = [answer["tokens"] / answer["seconds"] for answer in answers]
        bench.add(one, name, rates, "tokens/s")
        if count == 1:
            alone = statistics.median(each["seconds"] for each in answers) / steps
            tokens = answers[0]["tokens"] / steps
            continue
        parameters = answers[0]["parameters"]
        machines = scaling.A100._replace(link=LINKS[bench.args.device], devices=count)
        if kind == "processes":
            sent = scaling.sent(parameters, count) * EXCHANGES / 1e9
            network = [sent / each["seconds"] for each in exchanged[one]]
            bench.add(one, f"network/{size}", network, "GB/s")
            machines = machines._replace(network=statistics.median(network), devices=1)
        if alone is not None:
            parts = scaling.seconds_of_update(alone, parameters, count, machines)
            if bench.args.device == "cpu":
                parts["compute"] = alone / min(count, cores())
            bench.add(
                one, f"estimate/{size}", [tokens / sum(parts.values())], "tokens/s"
            )
