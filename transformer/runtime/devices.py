"""Find the devices of this machine, and say which of them compute.

Each of several devices computes a part of the graph of its own, a tower made under
`tf.device`; the variables and the update live on the first. What the towers compute is
added up by `training.make_update`, in an order that is part of the result.
`tf.distribute.MirroredStrategy` would add up in an order of its own, in which the last
bits depend on the number of devices; its optimizer adds once more, and its variables
are not those that checkpoints, diagnosis and verification know. Towers need none of it,
and are the same on TensorFlow 1.15. What they cost is traffic: the first device sends
the variables to each other one and receives their sums.

Several machines exchange what their towers made by the collective operations of
`tf.distribute` (`runtime/exchange.py`).
"""

import contextlib
import os
import re
from typing import List

import tensorflow.compat.v1 as tf

CPU_FACTS = "/proc/cpuinfo"
TILES = 0x1D  # the leaf of CPUID that tells the size of AMX's tiles


def has_gpu() -> bool:
    """Return whether TensorFlow sees a GPU."""
    return bool(_gpus())


def _gpus():
    return tf.config.experimental.list_physical_devices("GPU")


def cores() -> int:
    """Return how many cores of the CPU this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def device_names(devices: str) -> List[str]:
    """Return the devices that compute, as `tf.device` takes them.

    Args:
      devices: "gpu:4", four GPUs; "cpu:2", two logical devices of the CPU; "", all
        GPUs, or the CPU.

    Returns:
      One name or more; "" where TensorFlow chooses as it does without a name.

    Raises:
      ValueError: it is no such text, or there are fewer GPUs.
    """
    gpus = len(_gpus())
    found = re.fullmatch(r"(cpu|gpu):([1-9]\d{0,2})", devices)
    if devices and not found:
        raise ValueError(
            f"devices: found {devices!r}, wanted gpu:N, cpu:N with N from 1 to 999, or "
            "nothing for all GPUs, or the CPU"
        )
    kind, count = found.groups() if found else ("gpu", max(1, gpus))
    count = int(count)
    if found and kind == "gpu" and count > gpus:
        raise ValueError(
            f"devices: found {devices}, wanted at most gpu:{gpus}: TensorFlow sees "
            f"{gpus} GPUs; name fewer, or cpu:{count} for logical devices of the CPU"
        )
    if count == 1 and not (kind == "cpu" and gpus):
        return [""]
    return [f"/{kind}:{i}" for i in range(count)]


def training_devices(hp) -> List[str]:
    """Return the devices that train: no more than there are shards of a batch.

    Raises:
      ValueError: more are asked for, or see `device_names`.
    """
    names = device_names(hp.devices)
    if 0 < hp.shards < len(names) and hp.devices:
        raise ValueError(
            f"devices: found {hp.devices}, wanted at most shards = {hp.shards}: each "
            f"batch is cut into so many; name fewer devices, or --shards {len(names)} "
            "or more, with which dropout is another from here on"
        )
    return names[: hp.shards or None]


def set_up_devices(config: tf.ConfigProto, devices: str) -> None:
    """Set what a session needs to have the devices; one device needs nothing."""
    spare_hidden_tiles()
    names = device_names(devices)
    if len(names) > 1 and names[0].startswith("/cpu"):
        config.device_count["CPU"] = len(names)
    if names != [""]:
        config.allow_soft_placement = True  # what has no kernel for a GPU


def spare_hidden_tiles() -> None:
    """Keep oneDNN from AMX on a machine that does not tell the size of its tiles.

    Some virtual machines list AMX, but hide that leaf of CPUID. oneDNN takes the size
    for zero, and the first large product of bfloat16 ends the process with SIGILL.
    """
    with contextlib.suppress(OSError), open(CPU_FACTS, encoding="utf-8") as file:
        facts = file.read()
        has_tiles = re.search(r"^flags\s*:.* amx_tile\b", facts, re.MULTILINE)
        leaves = re.search(r"^cpuid level\s*: (\d+)", facts, re.MULTILINE)
        if has_tiles and leaves and int(leaves.group(1)) < TILES:
            os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
