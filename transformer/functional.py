"""Attention with lengths instead of masks, for models other than Transformers.

Example:

    import tensorflow.compat.v1 as tf
    from transformer.functional import attention, position_embedding

    x = tf.placeholder(tf.float32, [None, None, 64])           # [N, T, 64]
    lengths = tf.placeholder(tf.int32, [None])                 # [N]
    x += position_embedding(x, 64)                             # [N, T, 64]
    x = attention(x, x, x, nb_head=8, size_per_head=16,
                  Q_len=lengths, V_len=lengths)                # [N, T, 128]
"""

from transformer.compat.bojone.functions import attention, mask, position_embedding

__all__ = ["attention", "mask", "position_embedding"]
