"""Attention as Keras 3 layers.

The layers of bojone/attention (`attention_keras.py`), numbers included, except that
`mask_right=False`, the default, hides nothing: there it made all logits equal. They add
no residual connection, no normalization and no output projection; Q, K and V have no
bias. Nothing else of the package needs Keras: it is imported with this folder only.

Padding is what Keras masks say (`Embedding(mask_zero=True)`, `Masking`, `mask=`), or a
further input of ones and zeros [N, T, 1], as in the original; where both are given a
position must be real in both. Padding is not attended to, and its outputs are zeros.

Dimension letters as in `modules`; d a width per head, W slots of a window, R a rate,
G positions of a group.
"""

import keras
import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.masks import causal_mask
from transformer.blocks.primitives import join_heads, shape_list, split_heads
from transformer.keras_layers.base import as_list, need, serializable, shapes_of
from transformer.modules import scaled_dot_product_attention

__all__ = [
    "Attention",
    "AtrousSelfAttention",
    "LocalSelfAttention",
    "SelfAttention",
    "SparseSelfAttention",
]


def _all_of(masks):
    """Return where all masks are True; those that are None do not count."""
    result = None
    for mask in masks:
        if mask is not None:
            mask = tf.cast(mask, tf.bool)
            result = mask if result is None else tf.logical_and(result, mask)
    return result


@serializable
class Attention(keras.layers.Layer):
    """Multi-head attention (section 3.2.2) without an output projection.

    Inputs: a list of the queries [N, Tq, any width], the keys [N, Tk, any width] and
    the values [N, Tk, any width]; then, where wanted, of which values and which queries
    are real, [N, Tk, 1] and [N, Tq, 1].
    Output: [N, Tq, H * size_per_head]. A query that may attend to no key attends to all
    alike, as in the original.

    Args:
      heads: int, H.
      size_per_head: int, the width of a value.
      key_size: int, the width of a query and of a key; None for that of a value.
      mask_right: True hides the keys behind a query's own position; a matrix [Tq, Tk]
        of ones and zeros hides where it is zero; False hides nothing.
    """

    def __init__(self, heads, size_per_head, key_size=None, mask_right=False, **kwargs):
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
        """Return what queries, keys and values are made from, or the shapes of these."""
        return inputs[:3]

    def padding(self, inputs, masks):
        """Return which keys and which queries are real: bool [N, T] each, or None."""
        q, k, v = (masks + [None] * 2)[:3]
        extra_v, extra_q = (
            [None if x is None else tf.squeeze(x, -1) for x in inputs[3:]] + [None] * 2
        )[:2]
        return _all_of([k, v, extra_v]), _all_of([q, extra_q])

    def attend(self, Q, K, V, key_mask):
        """Attend: [N, H, T, d] each and bool [N, Tk] or None → [N, H, Tq, d]."""
        real = None if key_mask is None else key_mask[:, None, None, :]
        return self.weigh(Q, K, V, _all_of([real, self.limits(Q, K)]))

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
    real, [N, T, 1].
    Output: [N, T, H * size_per_head].

    Args: as in `Attention`.
    """

    def sources(self, inputs):
        return inputs[:1] * 3

    def padding(self, inputs, masks):
        extra = None if len(inputs) < 2 else tf.squeeze(inputs[1], -1)
        both = _all_of([masks[0], extra])
        return both, both


class _SomeKeys(SelfAttention):
    """Self-attention to a few keys of each query, found by reshaping, not by a mask.

    Some of these keys lie beyond the ends of the sequence. Where padding is known they
    are hidden with it. Else, as in the original, they are vectors of zeros, which take
    their share of the attention; `zero_edges=False` hides them.
    """

    def __init__(
        self, heads, size_per_head, rate, key_size, mask_right, zero_edges, **kwargs
    ):
        super().__init__(heads, size_per_head, key_size, mask_right, **kwargs)
        self.rate = rate
        self.zero_edges = zero_edges
        need(self, "rate", rate, rate >= 1, "1 or more")

    def padding(self, inputs, masks):
        key_mask, query_mask = super().padding(inputs, masks)
        if key_mask is None and not self.zero_edges:
            key_mask = tf.ones(tf.shape(inputs[0])[:2], tf.bool)
        return key_mask, query_mask

    def get_config(self):
        return {
            **super().get_config(),
            "rate": self.rate,
            "zero_edges": self.zero_edges,
        }


@serializable
class LocalSelfAttention(_SomeKeys):
    """Restricted self-attention (section 4): to `neighbors` positions on each side.

    Time and memory grow with T * W, W = 2 * neighbors + 1: nothing is [T, T].

    Args: as in `SelfAttention`, as are input and output, and
      neighbors: int, how many positions a query sees on each side.
      rate: int, the distance from each of these to the next.
      mask_right: True hides the neighbors on the right.
      zero_edges: whether, without a mask, the neighbors beyond the ends are vectors of
        zeros, as in the original, instead of hidden.
    """

    def __init__(
        self,
        heads,
        size_per_head,
        neighbors=1,
        rate=1,
        key_size=None,
        mask_right=False,
        zero_edges=True,
        **kwargs,
    ):
        super().__init__(
            heads, size_per_head, rate, key_size, mask_right, zero_edges, **kwargs
        )
        self.neighbors = neighbors
        need(self, "neighbors", neighbors, neighbors >= 0, "0 or more")
        need(
            self,
            "mask_right",
            mask_right,
            isinstance(self.mask_right, bool),
            "True or False",
        )

    def attend(self, Q, K, V, key_mask):
        real = None
        if key_mask is not None:
            real = self.windows(tf.cast(key_mask, tf.float32)[:, None, :, None])
            real = tf.not_equal(tf.matrix_transpose(real), 0)  # [N, 1, T, 1, W]
        slots = np.arange(-self.neighbors, self.neighbors + 1)
        left = tf.constant(slots <= 0) if self.mask_right else None
        context = self.weigh(
            Q[:, :, :, None, :], self.windows(K), self.windows(V), _all_of([real, left])
        )  # [N, H, T, 1, d]
        return tf.squeeze(context, 3)

    def windows(self, x):
        """Return the positions that each position sees: [N, H, T, d] → [N, H, T, W, d]."""
        length, edge = shape_list(x)[2], self.neighbors * self.rate
        x = tf.pad(x, [[0, 0], [0, 0], [edge, edge], [0, 0]])
        return tf.stack(
            [
                x[:, :, start : start + length]
                for start in range(0, 2 * edge + 1, self.rate)
            ],
            axis=3,
        )

    def get_config(self):
        return {**super().get_config(), "neighbors": self.neighbors}


@serializable
class AtrousSelfAttention(_SomeKeys):
    """Self-attention to the positions at a distance that `rate` divides.

    Time and memory grow with T * T / rate.

    Args: as in `SelfAttention`, as are input and output, and
      rate: int, R. Positions with the same remainder make a group.
      mask_right: True hides what is behind, a matrix [G, G] what it says in each group.
        G is T // R + 1: in front of the next multiple of R stand zeros.
      zero_edges: whether, without a mask, these are vectors of zeros, as in the
        original, instead of hidden.
    """

    def __init__(
        self,
        heads,
        size_per_head,
        rate=1,
        key_size=None,
        mask_right=False,
        zero_edges=True,
        **kwargs,
    ):
        super().__init__(
            heads, size_per_head, rate, key_size, mask_right, zero_edges, **kwargs
        )

    def attend(self, Q, K, V, key_mask):
        length, real = shape_list(Q)[2], None
        if key_mask is not None:
            real = self.groups(tf.cast(key_mask, tf.float32)[:, None, :, None])
            real = tf.not_equal(tf.matrix_transpose(real), 0)  # [N, 1, R, 1, G]
        context = self.attend_in_groups(*map(self.groups, (Q, K, V)), real)
        x = tf.transpose(context, [0, 1, 3, 2, 4])  # [N, H, G, R, d]
        batch, heads, groups, rate, width = shape_list(x)
        return tf.reshape(x, [batch, heads, groups * rate, width])[:, :, :length]

    def attend_in_groups(self, Q, K, V, real):
        """Attend within groups: [N, H, R, G, d] each, a mask or None → [N, H, R, G, d]."""
        return self.weigh(Q, K, V, _all_of([real, self.limits(Q, K)]))

    def groups(self, x):
        """Sort positions by their remainder: [N, H, T, d] → [N, H, R, G, d]."""
        batch, heads, length, width = shape_list(x)
        size = length // self.rate + 1
        x = tf.pad(x, [[0, 0], [0, 0], [0, size * self.rate - length], [0, 0]])
        x = tf.reshape(x, [batch, heads, size, self.rate, width])
        return tf.transpose(x, [0, 1, 3, 2, 4])


@serializable
class SparseSelfAttention(AtrousSelfAttention):
    """Atrous and local self-attention under one softmax (after Child et al. 2019).

    As in the original the local window, of `rate - 1` neighbors on each side, is spread
    by `rate` too. So it sees what the atrous part sees, and those keys count twice.
    Time and memory grow with T * T / rate.

    Args: as in `AtrousSelfAttention`, as are input and output, but
      rate: int, 2 or more.
      mask_right: True or False.
    """

    def __init__(
        self,
        heads,
        size_per_head,
        rate=2,
        key_size=None,
        mask_right=False,
        zero_edges=True,
        **kwargs,
    ):
        super().__init__(
            heads, size_per_head, rate, key_size, mask_right, zero_edges, **kwargs
        )
        need(self, "rate", rate, rate > 1, "2 or more (1 is SelfAttention)")
        need(
            self,
            "mask_right",
            mask_right,
            isinstance(self.mask_right, bool),
            "True or False",
        )

    def attend_in_groups(self, Q, K, V, real):
        """Attend to each group, and to its copy as the windows see it."""
        edge, size = self.rate - 1, tf.shape(Q)[3]
        edges = [[0, 0], [0, 0], [0, 0], [edge, edge], [0, 0]]
        K, V = (tf.concat([x, tf.pad(x, edges)], axis=3) for x in (K, V))
        if real is not None:
            copy = tf.pad(tf.cast(real, tf.float32), edges[:3] + [[0, 0], [edge, edge]])
            real = tf.concat([real, tf.not_equal(copy, 0)], axis=4)
        slots = tf.range(size + 2 * edge)[None, :] - tf.range(size)[:, None] - edge
        whole = tf.ones([size, size], tf.bool)
        window = tf.less_equal(tf.abs(slots), edge)  # [G, G + 2 edge]
        if self.mask_right:
            whole = causal_mask(tf.range(size))[0, 0]
            window = tf.logical_and(window, slots <= 0)
        return self.weigh(Q, K, V, _all_of([real, tf.concat([whole, window], axis=1)]))
