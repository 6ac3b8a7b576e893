"""Memory: a forecast of the tensors of a training run, and how much is free.

Dimension letters: L the longest sentence, D d_model, F d_ff, H heads, V vocabulary.
"""

import contextlib
from typing import Any, Iterator

from transformer.dialects import resolve
from transformer.hparams import HParams

FLOAT = 4  # bytes
# Copies of the parameters: for training, for dev scores, two moments, a gradient.
COPIES = 5
MEMINFO = "/proc/meminfo"
# Where Linux control groups store the memory limit of a container.
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def forecast(
    hp: HParams, parameters: int, pairs: int, longest: int, parts: int = 1
) -> int:
    """Return how many bytes the tensors of a training run take, in each worker.

    On a CPU, TensorFlow also keeps up to 1,024 compiled products for each thread (see
    docs/performance.md), which are not counted.

    The backward pass reads results of the forward pass, which are kept. For each token,
    these are, in numbers of 4 bytes: 9 D + H L for an attention, 5 D + F for a
    feed-forward layer, 4 D for an embedding, and 2 V for the logits. Dropout of the
    weights and of the inner layer also keeps its mask and the product: 3 H L and 3 F.

    Args:
      hp: the settings.
      parameters: the number of parameters.
      pairs: the number of sentence pairs in the corpus.
      longest: L, the number of tokens in its longest sentence.
      parts: the number of parts into which a batch is cut for shards or workers; a
        worker computes one at a time.
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
    tokens = min(hp.batch_tokens, pairs * longest) // parts
    passes = 2 if hp.r_drop else 1
    adds_up = hp.accumulate > 1 or (hp.deterministic and parts > 1)
    copies = COPIES + adds_up  # a sum of gradients
    return FLOAT * (copies * parameters + passes * tokens * a_token)


def report(needed: int, session: Any) -> str:
    """Return a line on the forecast and the free memory, with a warning if low."""
    devices = session.list_devices()
    gpus = [each.memory_limit_bytes for each in devices if each.device_type == "GPU"]
    free = min(gpus) if gpus else free_memory()
    text = f"memory for the tensors of training: about {readable(needed)}"
    if free:
        text += f" of {readable(free)} free"
    if 0 < free < needed:
        text += "; this may not be enough: lower --batch_tokens or the model size"
    return text


def free_memory() -> int:
    """Return how many bytes this process can still allocate, at most; 0 if unknown."""
    sizes = []
    with contextlib.suppress(OSError), open(MEMINFO, encoding="ascii") as file:
        found = [line.split() for line in file if line.startswith("MemAvailable:")]
        sizes += [1024 * int(words[1]) for words in found]
    for path in LIMITS:
        with contextlib.suppress(OSError, ValueError):  # "max" is not a number
            with open(path, encoding="ascii") as file:
                sizes.append(int(file.read()))
    return min(sizes, default=0)


@contextlib.contextmanager
def shortage_explained(what: str, advice: str) -> Iterator[None]:
    """Turn a failed allocation into a MemoryError with a one-line message.

    Args:
      what: when it failed, in words.
      advice: what to change.
    """
    import tensorflow.compat.v1 as tf  # not at the top: scoring does not need it

    try:
        yield
    except (tf.errors.ResourceExhaustedError, MemoryError) as error:
        raise MemoryError(f"out of memory {what}: {advice}") from error


def readable(size: int) -> str:
    """Return a number of bytes in readable form: 1.2 GB, 34 MB."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"
