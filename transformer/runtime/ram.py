"""Memory: how much is free, and what to do when an allocation fails."""

import contextlib
from typing import Any, Iterator

MEMINFO = "/proc/meminfo"
# Where Linux control groups store the memory limit of a container.
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def free_memory() -> int:
    """Return the bytes that this process can still allocate, at most; 0 if unknown."""
    sizes = []
    with contextlib.suppress(OSError), open(MEMINFO, encoding="ascii") as file:
        fields = [line.split() for line in file if line.startswith("MemAvailable:")]
        sizes += [1024 * int(kilobytes) for _, kilobytes, *_ in fields]
    for path in LIMITS:
        with contextlib.suppress(OSError, ValueError):  # "max" is not a number
            with open(path, encoding="ascii") as file:
                sizes.append(int(file.read()))
    return min(sizes, default=0)


def available_memory(session: Any) -> int:
    """Return the bytes that a session may use of its smallest GPU, or else of RAM.

    Args:
      session: a tf.Session.
    """
    devices = session.list_devices()
    sizes = [
        device.memory_limit_bytes for device in devices if device.device_type == "GPU"
    ]
    return min(sizes) if sizes else free_memory()


@contextlib.contextmanager
def explain_memory_errors(when: str, advice: str) -> Iterator[None]:
    """Turn a failed allocation in the body into a MemoryError with a one-line message.

    Args:
      when: when it failed, in words.
      advice: what to change.
    """
    import tensorflow.compat.v1 as tf  # not at the top: scoring does not need it

    try:
        yield
    except (tf.errors.ResourceExhaustedError, MemoryError) as error:
        raise MemoryError(f"out of memory {when}: {advice}") from error


def format_bytes(size: int) -> str:
    """Format a number of bytes: 1.2 GB, 34 MB."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"
