"""Local attention, whose cost is linear in the length (section 4)."""

from typing import Tuple

import tensorflow.compat.v1 as tf

from transformer.blocks.attention import scaled_dot_product_attention
from transformer.blocks.primitives import as_size, shape_list


def local_attention(
    queries,
    keys,
    values,
    block_length: int,
    *,
    window: Tuple[int, int] = (0, 0),
    causality: bool = False,
    key_mask=None,
    fully_masked_is_zero: bool = True,
) -> tuple:
    """Attend within blocks of a sequence, and to a window around each block.

    The sequence is cut into blocks of `block_length` positions. A position sees the
    positions in its block, and those in a window before and after the block. The local
    attentions of tensor2tensor are

        local_attention_1d:                      window = (filter_width, filter_width)
        masked_local_attention_1d:               window = (block_length, 0), causality
        masked_within_block_local_attention_1d:  window = (0, 0), causality

    Args:
      queries, keys: float [N, H, T, d_k]; T need not be a multiple of B.
      values: float [N, H, T, d_v].
      block_length: int, B.
      window: (int, int), the numbers of positions before and after the block.
      causality: of these positions, a position sees only itself and earlier ones.
      key_mask: bool [N, T] or [N, H, T], True = may attend.
      fully_masked_is_zero: as in `scaled_dot_product_attention`.

    Returns:
      (context float [N, H, T, d_v], weights float
      [N, H, blocks, B, before + B + after]).
    """
    queries = tf.convert_to_tensor(queries)
    keys = tf.convert_to_tensor(keys)
    values = tf.convert_to_tensor(values)
    block_length = as_size("local_attention: block_length", block_length)
    batch, heads, length, _ = shape_list(queries)
    before, after = window
    blocks = (length + block_length - 1) // block_length
    padding = blocks * block_length - length
    starts = tf.range(blocks)[:, None] * block_length  # [blocks, 1]
    members = starts + tf.range(block_length)[None, :]  # [blocks, B]
    positions = starts + tf.range(-before, block_length + after)[None, :]  # [blocks, W]

    def in_blocks(x, axis):
        return tf.gather(_padded(x, axis, 0, padding), members, axis=axis)

    def in_windows(x, axis):
        return tf.gather(
            _padded(x, axis, before, padding + after), positions + before, axis=axis
        )

    inside = tf.logical_and(positions >= 0, positions < length)
    mask = inside[:, None, :]  # [blocks, 1, W]
    if causality:
        mask = tf.logical_and(mask, positions[:, None, :] <= members[:, :, None])
    if key_mask is not None:
        key_mask = tf.convert_to_tensor(key_mask)
        if key_mask.shape.ndims == 2:
            key_mask = key_mask[:, None]  # [N, 1, T]
        key_mask = in_windows(key_mask, axis=2)[..., None, :]
        mask = tf.logical_and(mask, key_mask)  # [N, 1 or H, blocks, 1 or B, W]
    context, weights = scaled_dot_product_attention(
        in_blocks(queries, 2),
        in_windows(keys, 2),
        in_windows(values, 2),
        mask,
        fully_masked_is_zero=fully_masked_is_zero,
    )
    context = tf.reshape(
        context, [batch, heads, blocks * block_length, shape_list(values)[-1]]
    )
    return context[:, :, :length], weights


def _padded(x, axis, before, after):
    """Pad `x` with zeros (or False) before and after it along an axis."""
    sizes = [[0, 0]] * x.shape.ndims
    sizes[axis] = [before, after]
    return tf.pad(x, sizes)
