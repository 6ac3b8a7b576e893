"""Attention to the neighbourhood only, at a cost that grows with the length, not with
its square (section 4 of the paper)."""

import tensorflow.compat.v1 as tf

from transformer.blocks.attention import scaled_dot_product_attention
from transformer.blocks.primitives import shape_list


def local_attention(
    queries,
    keys,
    values,
    block_length,
    *,
    before=0,
    after=0,
    causality=False,
    key_mask=None,
    blind_queries_are_zero=True,
    drop=None,
):
    """Self-attention of blocks: each sees itself and what lies next to it.

    The sequence is cut into blocks of `block_length`. A position sees those of its
    block, `before` positions in front of the block and `after` positions behind it.
    tensor2tensor's kinds of local attention are

        local_attention_1d:              before = after = filter_width
        masked_local_attention_1d:       before = block_length, causality
        masked_within_block_local_attention_1d:                 causality

    Args:
      queries, keys: float [N, H, T, d_k]; T need not be a multiple of anything.
      values: float [N, H, T, d_v].
      block_length: int, B.
      before, after: ints.
      causality: of these, a position sees only itself and those before it.
      key_mask: bool [N, T], True = may attend.
      blind_queries_are_zero, drop: as in `scaled_dot_product_attention`.

    Returns:
      (context float [N, H, T, d_v], weights float
      [N, H, blocks, B, before + B + after]).
    """
    batch, heads, length, _ = shape_list(queries)
    blocks = (length + block_length - 1) // block_length
    padding = blocks * block_length - length
    starts = tf.range(blocks)[:, None] * block_length  # [blocks, 1]
    places = starts + tf.range(block_length)[None, :]  # [blocks, B]
    window = starts + tf.range(-before, block_length + after)[None, :]  # [blocks, W]

    def in_blocks(x, axis):
        return tf.gather(_padded(x, axis, 0, padding), places, axis=axis)

    def in_windows(x, axis):
        return tf.gather(
            _padded(x, axis, before, padding + after), window + before, axis=axis
        )

    inside = tf.logical_and(window >= 0, window < length)
    mask = inside[:, None, :]  # [blocks, 1, W]
    if causality:
        mask = tf.logical_and(mask, window[:, None, :] <= places[:, :, None])
    if key_mask is not None:
        key_mask = in_windows(key_mask, axis=1)[:, None, :, None, :]
        mask = tf.logical_and(mask, key_mask)  # [N, 1, blocks, 1 or B, W]
    context, weights = scaled_dot_product_attention(
        in_blocks(queries, 2),
        in_windows(keys, 2),
        in_windows(values, 2),
        mask,
        blind_queries_are_zero=blind_queries_are_zero,
        drop=drop,
    )
    context = tf.reshape(
        context, [batch, heads, blocks * block_length, shape_list(values)[-1]]
    )
    return context[:, :, :length], weights


def _padded(x, axis, before, after):
    """`x` with zeros (or False) before and after it along an axis."""
    sizes = [[0, 0]] * x.shape.ndims
    sizes[axis] = [before, after]
    return tf.pad(x, sizes)
