"""Attention as Keras 3 layers.

The layers of bojone/attention (`attention_keras.py`), numbers included, except that
`mask_right=False`, the default, hides nothing: there it made all logits equal. They add
no residual connection, no normalization and no output projection; Q, K and V have no
bias. Nothing else of the package needs Keras: it is imported with this folder only.

Padding is what Keras masks say (`Embedding(mask_zero=True)`, `Masking`, `mask=`), or a
further input of ones and zeros [N, T, 1] or [N, T], as in the original; where both are
given a position must be real in both. Padding is not attended to, and its outputs are
zeros.

Dimension letters as in `modules`; d a width per head, W slots of a window, R a rate,
G positions of a group.
"""

from typing import Optional

import keras
import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.masks import both, causal_mask
from transformer.blocks.shapes import join_heads, split_heads
from transformer.keras_layers.base import as_list, need, serializable, shapes_of
from transformer.modules import scaled_dot_product_attention

__all__ = ["Attention", "SelfAttention"]


def all_of(masks):
    """Return where all masks are True; those that are None do not count."""
    result = None
    for mask in masks:
        if mask is not None:
            result = both(result, tf.cast(mask, tf.bool))
    return result


def flat(mask):
    """Return a mask [N, T, 1] or [N, T] as [N, T]."""
    return mask if mask.shape.ndims == 2 else tf.squeeze(mask, -1)


@serializable
class Attention(keras.layers.Layer):
    """Multi-head attention (section 3.2.2) without an output projection.

    Inputs: a list of the queries [N, Tq, any width], the keys [N, Tk, any width] and
    the values [N, Tk, any width]; then, optionally, masks of the values and of the
    queries, 0 = padding: [N, Tk, 1] and [N, Tq, 1], or [N, Tk] and [N, Tq].
    Output: [N, Tq, H * size_per_head]. A query that may attend to no key attends to all
    alike, as in the original.

    Args:
      heads: int, H.
      size_per_head: int, the width of a value.
      key_size: int, the width of a query and of a key; None for that of a value.
      mask_right: True hides the keys after a query's own position; a matrix [Tq, Tk]
        of ones and zeros hides where it is zero; False hides nothing.
    """

    def __init__(
        self,
        heads: int,
        size_per_head: int,
        key_size: Optional[int] = None,
        mask_right=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.heads = heads
        self.size_per_head = size_per_head
        self.key_size = key_size or size_per_head
        self.mask_right = np.asarray(mask_right).tolist()
        self.supports_masking = True
        need(
            self,
            "mask_right",
            mask_right,
            isinstance(self.mask_right, bool) or np.ndim(mask_right) == 2,
            "True, False or a matrix",
        )

    def build(self, input_shape):
        widths = [shape[-1] for shape in self.sources(shapes_of(input_shape))]
        sizes = self.key_size, self.key_size, self.size_per_head
        self.kernels = [
            self.add_weight(name=name + "_kernel", shape=(width, self.heads * size))
            for name, width, size in zip("qkv", widths, sizes)
        ]

    def call(self, inputs, mask=None):
        inputs = as_list(inputs)
        key_mask, query_mask = self.padding(inputs, as_list(mask))
        Q, K, V = (
            split_heads(keras.ops.matmul(x, kernel), self.heads)
            for x, kernel in zip(self.sources(inputs), self.kernels)
        )
        x = join_heads(self.attend(Q, K, V, key_mask))  # [N, Tq, H * d]
        if query_mask is None:
            return x
        return x * tf.cast(query_mask, x.dtype)[:, :, None]

    def sources(self, inputs):
        """Return what queries, keys and values are made from, or its shapes."""
        return inputs[:3]

    def padding(self, inputs, masks):
        """Return which keys and which queries are real: bool [N, T] each, or None."""
        q, k, v = (masks + [None] * 2)[:3]
        extra_v, extra_q = (
            [None if x is None else flat(x) for x in inputs[3:]] + [None] * 2
        )[:2]
        return all_of([k, v, extra_v]), all_of([q, extra_q])

    def attend(self, Q, K, V, key_mask):
        """Attend to values: [N, H, T, d] each, bool [N, Tk] or None → [N, H, Tq, d]."""
        real = None if key_mask is None else key_mask[:, None, None, :]
        return self.weigh(Q, K, V, all_of([real, self.limits(Q, K)]))

    def limits(self, Q, K):
        """Return the mask of `mask_right`, [..., Tq, Tk], or None."""
        if self.mask_right is False:
            return None
        if self.mask_right is True:
            return causal_mask(tf.range(tf.shape(Q)[-2]), tf.range(tf.shape(K)[-2]))
        return tf.constant(self.mask_right)

    def weigh(self, Q, K, V, mask):
        """Apply equation 1 over the last two axes, in float32 at least."""
        wide = tf.float32 if V.dtype.size < 4 else V.dtype
        context, _ = scaled_dot_product_attention(
            *(tf.cast(x, wide) for x in (Q, K, V)), mask, blind_queries_are_zero=False
        )
        return tf.cast(context, V.dtype)

    def compute_mask(self, inputs, mask=None):
        return as_list(mask)[0]

    def compute_output_shape(self, input_shape):
        return (*shapes_of(input_shape)[0][:2], self.heads * self.size_per_head)

    def get_config(self):
        return {
            **super().get_config(),
            "heads": self.heads,
            "size_per_head": self.size_per_head,
            "key_size": self.key_size,
            "mask_right": self.mask_right,
        }


@serializable
class SelfAttention(Attention):
    """`Attention` of a sequence to itself.

    Input: the sequence [N, T, any width], or a list of it and of which positions are
    real, [N, T, 1] or [N, T].
    Output: [N, T, H * size_per_head].

    Args: as in `Attention`.
    """

    def sources(self, inputs):
        return inputs[:1] * 3

    def padding(self, inputs, masks):
        extra = None if len(inputs) < 2 else flat(inputs[1])
        real = all_of([masks[0], extra])
        return real, real
