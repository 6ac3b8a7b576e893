"""Memory: a forecast of what a training run needs, and what is free.

Dimension letters: L the longest sentence, D d_model, F d_ff, H heads, V vocabulary.
"""

import contextlib
from typing import Any, Iterator

from transformer.dialects import resolve
from transformer.hparams import HParams

FLOAT = 4  # bytes
# Copies of the parameters: training, dev scores, two moments, a gradient.
COPIES = 5
MEMINFO = "/proc/meminfo"
# The limit of a container, by the control groups of Linux.
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def forecast(hp: HParams, parameters: int, pairs: int, longest: int) -> int:
    """Return how many bytes a training run adds to the memory of its process.

    The backward pass reads results of the forward pass, which are kept. These are for
    each token, in numbers of 4 bytes: 9 D + H L of an attention, 5 D + F of a
    feed-forward, 4 D of an embedding, 2 V of the logits. Dropout of weights and of the
    inner layer keeps its mask and the product, too: 3 H L, 3 F.

    Args:
      hp: the settings.
      parameters: their number.
      pairs: sentence pairs of the corpus.
      longest: L, the tokens of its longest sentence.
    """
    dialect = resolve(hp.dialect)

    def kept(name, in_dialect):
        rate = hp.rate_of(name)
        drops = in_dialect if rate is None else rate > 0
        return 3 if drops else 1

    kept_weights = kept("attention_dropout", dialect.attention_dropout)
    attention = 9 * hp.d_model + kept_weights * hp.num_heads * longest
    kept_inner = kept("ffn_dropout", dialect.inner_dropout)
    feedforward = 5 * hp.d_model + kept_inner * hp.d_ff
    a_token = 8 * hp.d_model + 2 * hp.target_vocab_size
    a_token += hp.encoder_blocks * (attention + feedforward)
    a_token += hp.decoder_blocks * (2 * attention + feedforward)
    shards = (hp.shards or 1) if hp.deterministic else 1
    tokens = min(hp.batch_tokens, pairs * longest) // shards
    passes = 2 if hp.r_drop else 1
    copies = COPIES + (hp.accumulate > 1 or shards > 1)  # a sum of gradients
    return FLOAT * (copies * parameters + passes * tokens * a_token)


def report(needed: int, session: Any) -> str:
    """Return the forecast and what is free, in a line; a warning if that is less."""
    devices = session.list_devices()
    gpus = [each.memory_limit_bytes for each in devices if each.device_type == "GPU"]
    free = min(gpus) if gpus else free_memory()
    text = f"memory for training: about {readable(needed)}"
    if free:
        text += f" of {readable(free)} that are free"
    if 0 < free < needed:
        text += "; it may not suffice: lower --batch_tokens, or the size of the model"
    return text


def free_memory() -> int:
    """Return how many bytes this process may still take, at most; 0 if unknown."""
    sizes = []
    with contextlib.suppress(OSError), open(MEMINFO, encoding="ascii") as file:
        found = [line.split() for line in file if line.startswith("MemAvailable:")]
        sizes += [1024 * int(words[1]) for words in found]
    for path in LIMITS:
        with contextlib.suppress(OSError, ValueError):  # "max" is no number
            with open(path, encoding="ascii") as file:
                sizes.append(int(file.read()))
    return min(sizes, default=0)


@contextlib.contextmanager
def shortage_explained(what: str, advice: str) -> Iterator[None]:
    """Turn a failed allocation into a MemoryError of one line.

    Args:
      what: when it failed.
      advice: what to change.
    """
    import tensorflow.compat.v1 as tf  # not above: scoring reads this file without it

    try:
        yield
    except (tf.errors.ResourceExhaustedError, MemoryError) as error:
        raise MemoryError(f"out of memory {what}: {advice}") from error


def readable(size: int) -> str:
    """Return a number of bytes for people: 1.2 GB, 34 MB."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"
