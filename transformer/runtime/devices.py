"""Find the device of this process: a GPU, or cores of the CPU.

A process computes on one device. To use several devices, start a process for each: see
`transformer/commands/launch.py` and docs/scaling.md.
"""

import contextlib
import os
import re

CPU_INFO = "/proc/cpuinfo"
TILE_LEAF = 0x1D  # the CPUID leaf with the size of AMX tiles


def has_gpu() -> bool:
    """Return whether TensorFlow sees a GPU."""
    import tensorflow.compat.v1 as tf  # only here: the fast engine does not need it

    return bool(tf.config.experimental.list_physical_devices("GPU"))


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def spare_hidden_tiles() -> None:
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
