"""Memory: how much a training run needs, how much is free, and a warning if too little.

Dimension letters: B tokens of a batch on either side, with padding; L the longest
sentence, D d_model, F d_ff, H heads, V vocabulary.
"""

import contextlib
import os
import re
from typing import Iterator, NamedTuple, Tuple

import tensorflow.compat.v1 as tf

FLOAT = 4  # bytes


class Forecast(NamedTuple):
    """What a training run adds to the memory of its process, in bytes."""

    parameters: int  # for training, and once more for translating dev
    optimizer: int  # two moments of each parameter; its sum, with accumulation
    gradients: int  # one for each use of the embeddings, then their sum
    activations: int  # of the largest batch

    @property
    def total(self) -> int:
        return sum(self)

    def __str__(self) -> str:
        parts = ", ".join(
            f"{readable(size)} {name}" for name, size in self._asdict().items()
        )
        return f"about {readable(self.total)} ({parts})"


def forecast(hp, parameters: int, pairs: int, longest: int) -> Forecast:
    """Return the memory that a training run needs, derived from its sizes.

    The backward pass reads results of the forward pass, which are kept. For each token
    these are, in numbers of 4 bytes,

        an attention    9 D + 3 H L    its input, Q, K, V, the joined heads, the dropout
                                       mask, the sum, the normalized sum twice; the
                                       weights, their mask, the product of both
        a feed-forward  5 D + 3 F      mask, sum, normalized twice, the next input; the
                                       inner layer, its mask, the product of both
        an embedding    4 D            the sum, its mask, the product, one to spare
        the logits      2 V            logits and probabilities; V with TensorFlow 1.15,
                                       which overwrites the former with the latter

    without the masks and products if there is no dropout. A pair of blocks has 3
    attentions and 2 feed-forwards; there are 2 embeddings. The embeddings get a
    gradient from each of 3 uses (source, target, logits) before these are added. The
    scratch memory of single operations is not counted, nor what TensorFlow itself
    takes: some 500 MB before the first step, and 100 MB in it.

    Args:
      hp: the settings.
      parameters: their number.
      pairs: sentence pairs of the corpus.
      longest: L, the tokens of its longest sentence.
    """
    tokens = min(hp.batch_tokens, pairs * longest)  # B
    D, F, V = hp.d_model, hp.d_ff, hp.target_vocab_size
    weights = hp.num_heads * longest
    masks = 2 if hp.dropout_rate else 0
    attention = (7 + masks) * D + (1 + masks) * weights
    feedforward = (4 + masks // 2) * D + (1 + masks) * F
    a_token = hp.num_blocks * (3 * attention + 2 * feedforward) + 8 * D
    a_token += V if tf.__version__.startswith("1.") else 2 * V
    sums = 1 if hp.accumulate > 1 else 0
    return Forecast(
        2 * parameters * FLOAT,
        (2 + sums) * parameters * FLOAT,
        (parameters + 2 * V * D) * FLOAT,
        tokens * a_token * FLOAT,
    )


def available(session: tf.Session) -> Tuple[int, str]:
    """Return (bytes, where): the memory of a session's GPU, else what is free.

    The latter is the least of what Linux calls available and what the limits of the
    control group (in a container) and of the process (ulimit -v) leave; 0 if unknown.
    """
    gpus = [
        device.memory_limit_bytes
        for device in session.list_devices()
        if device.device_type == "GPU"
    ]
    if gpus:
        return min(gpus), "on the GPU"
    found = [
        _available_to_linux(),
        *_left_to_the_group(),
        _left_to_the_process(_read("/proc/self/limits"), _read("/proc/self/statm")),
    ]
    return min((size for size in found if size is not None), default=0), "free"


def _available_to_linux():
    """Return what new programs can have without swapping, or None."""
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _left_to_the_group(root="/sys/fs/cgroup"):
    """Yield what the limit of a control group leaves, of either version, if any."""
    for limit, usage in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        sizes = [_read(os.path.join(root, name)).strip() for name in (limit, usage)]
        if all(size.isdigit() for size in sizes):  # "max" is no limit
            yield max(0, int(sizes[0]) - int(sizes[1]))


def _left_to_the_process(limits, pages):
    """Return what the limit of the address space leaves, or None.

    Args:
      limits: the text of /proc/self/limits.
      pages: the text of /proc/self/statm.
    """
    found = re.search(r"^Max address space +(\d+)", limits, re.MULTILINE)
    if not found:
        return None
    taken = int(pages.split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return max(0, int(found.group(1)) - taken)


def _read(path):
    """Return the text of a file of the system, "" where there is none."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""


def report(needed: Forecast, session: tf.Session, batch_tokens: int) -> str:
    """Return the forecast and what is free; a second line warns if that is less."""
    size, where = available(session)
    text = f"memory for the largest batches: {needed}"
    if size:
        text += f"; {readable(size)} {where}"
    if 0 < size < needed.total:
        text += (
            "\nwarning: training needs more memory than there is; lower "
            f"--batch_tokens (found {batch_tokens})"
        )
    return text


@contextlib.contextmanager
def shortage_explained(what: str, advice: str) -> Iterator[None]:
    """Turn a failed allocation into a MemoryError of one line.

    Args:
      what: when it failed.
      advice: what to change.
    """
    try:
        yield
    except (tf.errors.ResourceExhaustedError, MemoryError) as error:
        raise MemoryError(f"out of memory {what}: {advice}") from error


def readable(size: int) -> str:
    """Return a number of bytes for people: 1.2 GB, 34 MB."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"
