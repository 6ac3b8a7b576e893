"""Memory: how much a training run needs, how much is free, and a warning if too little.

Dimension letters: B tokens of a batch on either side, with padding; L the longest
sentence, D d_model, F d_ff, H heads, V vocabulary.
"""

import contextlib
import os
import re
from typing import Iterator, NamedTuple, Tuple

import tensorflow.compat.v1 as tf

from transformer.blocks.positions import LEARNED, chosen_positions
from transformer.dialects import resolve
from transformer.runtime.devices import has_gpu, training_devices

FLOAT = 4  # bytes
A_PAIR = 4 << 20  # bytes of the graph of an encoder and a decoder block, at least


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

    Of a batch that is cut into shards, each device computes one at a time; the logical
    devices of a CPU share its memory. Of several GPUs it is the first that is told of.

    Args:
      hp: the settings.
      parameters: their number.
      pairs: sentence pairs of the corpus.
      longest: L, the tokens of its longest sentence.
    """
    devices = len(training_devices(hp))
    at_once = 1 if has_gpu() else devices
    shards = hp.shards or 1
    tokens = -(-min(hp.batch_tokens, pairs * longest) // shards) * at_once  # B
    D, F, V = hp.d_model, hp.d_ff, hp.target_vocab_size
    weights = hp.num_heads * longest
    masks = 2 if hp.dropout_rate else 0
    attention = (7 + masks) * D + (1 + masks) * weights
    feedforward = (4 + masks // 2) * D + (1 + masks) * F
    a_token = hp.num_blocks * (3 * attention + 2 * feedforward) + 8 * D
    a_token += V if tf.__version__.startswith("1.") else 2 * V
    if shards > 1 and hp.deterministic:
        sums = 1  # all are added to one, in their order
    else:
        sums = at_once if hp.accumulate > 1 or shards > devices else 0
    return Forecast(
        2 * parameters * FLOAT,
        (2 + sums) * parameters * FLOAT,
        (parameters + 2 * V * D) * at_once * FLOAT,
        tokens * a_token * FLOAT,
    )


def parameters_of(hp) -> int:
    """Return how many parameters a model has, at least, by its settings alone."""
    D, width = hp.d_model, hp.d_model // hp.num_heads
    tables = hp.target_vocab_size + (0 if hp.joint_vocab else hp.source_vocab_size)
    distances = 2 * hp.max_relative_position + 1 if hp.max_relative_position else 0
    a_pair = 12 * D * D + 4 * D * hp.d_ff + 2 * distances * width
    are_learned = chosen_positions(hp.positions, resolve(hp.dialect)) == LEARNED
    tables += hp.max_positions if are_learned else 0
    return hp.num_blocks * a_pair + tables * D


def refuse_too_large(hp, copies: int = 1) -> None:
    """Raise ValueError for a model, or a search, that cannot fit into the memory.

    It is called before any of it is made: such sizes may come from a settings file of
    somebody else, and a graph of a billion blocks would never be finished.

    Args:
      hp: the settings, with the sizes of the vocabularies.
      copies: how often the memory of the machine holds the parameters.
    """
    free = free_memory()
    parameters = parameters_of(hp)
    model = hp.num_blocks * A_PAIR + copies * parameters * FLOAT
    sizes = "num_blocks d_model d_ff max_positions max_relative_position"
    vocabularies = " source_vocab_size target_vocab_size"
    _refuse(hp, model, free, f"{parameters:,} parameters", sizes + vocabularies)
    # Keys and values of a translation that does not end; a source that is padded.
    a_piece = 2 * hp.num_blocks * hp.d_model * FLOAT
    search = hp.beam_size * hp.max_extra_length * a_piece
    _refuse(hp, search, free, "endless translations", "beam_size max_extra_length")
    source = hp.num_heads * hp.pad_sources_to**2 * FLOAT
    _refuse(hp, source, free, "attention", "pad_sources_to num_heads")


def _refuse(hp, needed, free, what, names):
    """Raise ValueError where more bytes are needed than are free."""
    if needed > free > 0:
        found = ", ".join(f"{name} {getattr(hp, name)}" for name in names.split())
        raise ValueError(
            f"found {found}, which need {readable(needed)} of memory or more "
            f"({what}), wanted at most the {readable(free)} that are free; lower the "
            "largest of them"
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
    return free_memory(), "free"


def free_memory():
    """Return how many bytes this process may still take; 0 if unknown."""
    found = [
        _available_to_linux(),
        *_left_to_the_group(),
        _left_to_the_process(_read("/proc/self/limits"), _read("/proc/self/statm")),
    ]
    return min((size for size in found if size is not None), default=0)


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
        advice = f"--batch_tokens (found {batch_tokens})"
        if needed.activations < needed.total / 2:
            advice = "--d_model, --d_ff, --num_blocks or the vocabulary's size"
        text += f"\nwarning: training needs more memory than there is; lower {advice}"
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
