"""The devices of this machine and of this process: GPUs and CPU cores.

A process computes on one device. To use several devices, start a process for each: see
`transformer/workers/launch.py` and docs/scaling.md.
"""

import contextlib
import os
import re
import subprocess
from typing import List

CPU_INFO = "/proc/cpuinfo"
TILE_LEAF = 0x1D  # the CPUID leaf with the size of AMX tiles


def has_gpu() -> bool:
    """Return whether TensorFlow sees a GPU."""
    import tensorflow.compat.v1 as tf  # only here: the fast engine does not need it

    return bool(tf.config.experimental.list_physical_devices("GPU"))


def list_gpus() -> List[str]:
    """List the GPUs of this machine that `CUDA_VISIBLE_DEVICES` does not hide.

    This does not ask TensorFlow, whose import takes seconds.
    """
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        names = [name.strip() for name in chosen.split(",")]
        return [name for name in names if name and name != "-1"]
    try:
        command = ["nvidia-smi", "--list-gpus"]
        output = subprocess.check_output(command, stderr=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return []
    lines = output.decode("utf-8", "replace").splitlines()
    count = sum(line.startswith("GPU ") for line in lines)
    return [str(index) for index in range(count)]


def share_of_cores(index: int, count: int) -> List[int]:
    """Return the CPU cores of one of `count` processes; [] if none can be assigned."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    cores = sorted(os.sched_getaffinity(0))
    if count >= len(cores):
        return [cores[index % len(cores)]]
    return cores[index * len(cores) // count : (index + 1) * len(cores) // count]


def count_cores() -> int:
    """Count the CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def uses_onednn() -> bool:
    """Return whether TensorFlow computes on this CPU with oneDNN's compiled products.

    By default, it does if the CPU has instructions for neural networks.
    """
    from transformer.runtime.versions import IS_TENSORFLOW_1  # it imports TensorFlow

    if IS_TENSORFLOW_1:
        return False
    from tensorflow.python.util import _pywrap_util_port

    return bool(_pywrap_util_port.IsMklEnabled())


def has_avx512() -> bool:
    """Return whether the CPU has AVX-512."""
    with contextlib.suppress(OSError), open(CPU_INFO, encoding="utf-8") as file:
        return (
            re.search(r"^flags\s*:.* avx512f\b", file.read(), re.MULTILINE) is not None
        )
    return False


def avoid_broken_amx() -> None:
    """Keep oneDNN from using AMX on a machine that hides the size of its tiles.

    Some virtual machines list AMX, but hide the CPUID leaf TILE_LEAF. oneDNN then reads
    a size of zero, and the first large bfloat16 product ends the process with SIGILL.
    """
    with contextlib.suppress(OSError), open(CPU_INFO, encoding="utf-8") as file:
        info = file.read()
        has_tiles = re.search(r"^flags\s*:.* amx_tile\b", info, re.MULTILINE)
        leaves = re.search(r"^cpuid level\s*: (\d+)", info, re.MULTILINE)
        if has_tiles and leaves and int(leaves.group(1)) < TILE_LEAF:
            os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
