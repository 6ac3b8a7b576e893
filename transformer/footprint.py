"""The memory footprint of a training run, estimated from its settings.

Dimension letters: L the longest sentence, D d_model, F d_ff, H heads, V vocabulary.
"""

from transformer.hparams import HParams
from transformer.runtime.devices import has_avx512, has_gpu, uses_onednn
from transformer.runtime.ram import format_bytes

FLOAT_BYTES = 4
# Copies of the parameters: for training, for dev scores, two moments, a gradient.
PARAMETER_COPIES = 5
# The rest of a process on a CPU, measured: see docs/performance.md.
PROCESS_BYTES = 770 * 10**6  # before its first step, without the parameters
# Memory between the tensors that no tensor fits into, as a share of the tensors: if
# batches have any number of shapes, and if they have few.
WASTED_SHARE = 0.5
WASTED_SHARE_OF_FEW_SHAPES = 0.15
# oneDNN's compiled products. TensorFlow keeps up to MAX_PRODUCTS for each thread.
PRODUCTS_OF_SHAPE = 50
PRODUCTS_OF_SQUARE_SHAPE = 20  # of a batch whose sides are equally wide
MAX_PRODUCTS = 2 * 1024  # 1,024 for each of two types of numbers
PRODUCT_BYTES = 50 * 10**3
AVX512_PRODUCT_BYTES = 350 * 10**3


def estimate_memory(tensors: int, hp: HParams, num_shapes: int, threads: int) -> int:
    """Estimate the bytes that training takes: on a GPU, or of a process on a CPU.

    Args:
      tensors: the bytes of its tensors, from `estimate_footprint`.
      hp: the settings.
      num_shapes: the number of shapes of batches.
      threads: the number of threads that compute side by side.
    """
    if has_gpu():
        return tensors
    if hp.batch_shapes > 0:
        wasted, products_of_shape = WASTED_SHARE_OF_FEW_SHAPES, PRODUCTS_OF_SQUARE_SHAPE
    else:
        wasted, products_of_shape = WASTED_SHARE, PRODUCTS_OF_SHAPE
    products = num_shapes * products_of_shape
    product_bytes = AVX512_PRODUCT_BYTES if has_avx512() else PRODUCT_BYTES
    compiled = threads * min(products, MAX_PRODUCTS) * product_bytes
    return PROCESS_BYTES + int(tensors * (1 + wasted)) + compiled * uses_onednn()


def estimate_footprint(
    hp: HParams, num_parameters: int, num_pairs: int, longest: int, shards: int = 1
) -> int:
    """Estimate the bytes that the tensors of a training run take, in each worker.

    The backward pass reads activations of the forward pass, which are kept. For each
    token, these are, in numbers of 4 bytes: 9 D + H L for an attention, 5 D + F for a
    feed-forward layer, 4 D for an embedding, and 2 V for the logits. Dropout of the
    weights and of the inner layer also keeps its mask and the product: 3 H L and 3 F.

    Args:
      hp: the settings.
      num_parameters: the number of parameters.
      num_pairs: the number of sentence pairs in the train split.
      longest: L, the number of tokens in its longest sentence.
      shards: the number of shards in a batch; a worker computes one at a time.
    """
    dialect = hp.resolved_dialect

    def kept_tensors(name, is_default_in_dialect):
        rate = hp.rate_of(name)
        has_dropout = is_default_in_dialect if rate is None else rate > 0
        return 3 if has_dropout else 1

    weights = kept_tensors("attention_dropout", dialect.attention_dropout)
    attention = 9 * hp.d_model + weights * hp.num_heads * longest
    inner = kept_tensors("ffn_dropout", dialect.inner_dropout)
    feedforward = 5 * hp.d_model + inner * hp.d_ff
    per_token = 8 * hp.d_model + 2 * hp.target_vocab_size
    per_token += hp.encoder_blocks * (attention + feedforward)
    per_token += hp.decoder_blocks * (2 * attention + feedforward)
    tokens = min(hp.batch_tokens, num_pairs * longest) // shards
    passes = 2 if hp.r_drop else 1
    accumulates = hp.accumulate > 1 or (hp.deterministic and shards > 1)
    copies = PARAMETER_COPIES + accumulates  # a sum of gradients
    return FLOAT_BYTES * (copies * num_parameters + passes * tokens * per_token)


def describe_footprint(needed: int, available: int) -> str:
    """Describe a footprint in a line, with a warning if it exceeds what is available.

    Args:
      needed: bytes, from `estimate_memory`.
      available: bytes; 0 if unknown.
    """
    text = f"memory for training: about {format_bytes(needed)}"
    if available:
        text += f" of {format_bytes(available)} available"
    if 0 < available < needed:
        text += "; this may not be enough: lower batch_tokens or the model size"
    return text
