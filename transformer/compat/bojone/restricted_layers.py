"""Restricted self-attention as Keras 3 layers: local, atrous and sparse.

The dimension letters are those of `modules`; d is the width of a head, W the number of
positions in a window, R a rate, G the number of positions in a group.
"""

from typing import Any, Dict, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.layers import expand_dims, shape_list
from transformer.blocks.masks import causal_mask
from transformer.compat.bojone.attention_layers import SelfAttention, combine_all
from transformer.compat.bojone.keras_base import check, serializable


class _RestrictedAttention(SelfAttention):
    """Self-attention to a few keys per query, selected by reshaping instead of a mask.

    Some of these keys lie beyond the ends of the sequence. With a padding mask, they
    are hidden like padding. Without one, as in the original, they are vectors of zeros
    that receive a share of the attention; `zero_edges=False` hides them.
    """

    accepts_matrix = False  # whether `mask_right` may be a matrix

    def __init__(
        self,
        heads: int,
        size_per_head: int,
        rate: int = 1,
        key_size: Optional[int] = None,
        mask_right=False,
        zero_edges: bool = True,
        **kwargs,
    ):
        super().__init__(heads, size_per_head, key_size, mask_right, **kwargs)
        self.rate = rate
        self.zero_edges = zero_edges
        check(self, "rate", rate, rate >= 1, "1 or more")
        is_valid = self.accepts_matrix or isinstance(self.mask_right, bool)
        check(self, "mask_right", mask_right, is_valid, "True or False")

    def padding(self, inputs: list, masks: list) -> tuple:
        key_mask, query_mask = super().padding(inputs, masks)
        if key_mask is None and not self.zero_edges:
            key_mask = tf.ones(tf.shape(inputs[0])[:2], tf.bool)
        return key_mask, query_mask

    def select_mask(self, select, key_mask):
        """Select the mask like the keys: bool [N, 1, ..., 1, keys], or None.

        Args:
          select: function of [N, H, T, d] that returns keys: [N, H, ..., keys, d].
          key_mask: bool [N, T] or None.
        """
        if key_mask is None:
            return None
        selected = select(expand_dims(tf.cast(key_mask, tf.float32), 1, 3))
        return tf.not_equal(tf.matrix_transpose(selected), 0)

    def check_call(
        self, attention_mask, use_causal_mask, return_attention_scores
    ) -> None:
        is_valid = attention_mask is None and not (
            use_causal_mask or return_attention_scores
        )
        check(
            self,
            "attention_mask, use_causal_mask and return_attention_scores",
            "one of them",
            is_valid,
            "left out (for a causal mask, use mask_right=True)",
        )

    def get_config(self) -> Dict[str, Any]:
        return {
            **super().get_config(),
            "rate": self.rate,
            "zero_edges": self.zero_edges,
        }


@serializable
class LocalSelfAttention(_RestrictedAttention):
    """Self-attention restricted to `neighbors` positions on each side (section 4).

    Time and memory grow with T * W, where W = 2 * neighbors + 1: no tensor is [T, T].

    Input, output and arguments: as in `SelfAttention`, and
      neighbors: int, the number of positions that a query sees on each side.
      rate: int, the distance between these positions.
      mask_right: True hides the neighbors on the right.
      zero_edges: without a mask, True turns the neighbors beyond the ends into vectors
        of zeros, as in the original; False hides them.
    """

    def __init__(
        self,
        heads: int,
        size_per_head: int,
        neighbors: int = 1,
        rate: int = 1,
        key_size: Optional[int] = None,
        mask_right=False,
        zero_edges: bool = True,
        **kwargs,
    ):
        super().__init__(
            heads, size_per_head, rate, key_size, mask_right, zero_edges, **kwargs
        )
        self.neighbors = neighbors
        check(self, "neighbors", neighbors, neighbors >= 0, "0 or more")

    def attend(self, Q, K, V, key_mask, pair_mask=None) -> tuple:
        mask = self.select_mask(self.make_windows, key_mask)  # [N, 1, T, 1, W]
        slots = np.arange(-self.neighbors, self.neighbors + 1)
        is_left = tf.constant(slots <= 0) if self.mask_right else None
        context, weights = self.apply_attention(
            expand_dims(Q, 3),
            self.make_windows(K),
            self.make_windows(V),
            combine_all([mask, is_left]),
        )  # [N, H, T, 1, d], [N, H, T, 1, W]
        return tf.squeeze(context, 3), weights

    def make_windows(self, x):
        """Return the window of each position: [N, H, T, d] → [N, H, T, W, d]."""
        length = shape_list(x)[2]
        edge = self.neighbors * self.rate
        x = tf.pad(x, [[0, 0], [0, 0], [edge, edge], [0, 0]])
        return tf.stack(
            [
                x[:, :, start : start + length]
                for start in range(0, 2 * edge + 1, self.rate)
            ],
            axis=3,
        )

    def get_config(self) -> Dict[str, Any]:
        return {**super().get_config(), "neighbors": self.neighbors}


@serializable
class AtrousSelfAttention(_RestrictedAttention):
    """Self-attention to the positions whose distance is a multiple of `rate`.

    Time and memory grow with T * T / rate.

    Input, output and arguments: as in `SelfAttention`, and
      rate: int, R. Positions with the same remainder modulo R form a group.
      mask_right: True hides later positions; a matrix [G, G] of ones and zeros hides
        positions in each group where it is zero. G is T // R + 1, because the sequence
        is padded with zeros to the next multiple of R above T.
      zero_edges: without a mask, True attends to these zeros, as in the original; False
        hides them.
    """

    accepts_matrix = True

    def attend(self, Q, K, V, key_mask, pair_mask=None) -> tuple:
        length = shape_list(Q)[2]
        mask = self.select_mask(self.make_groups, key_mask)  # [N, 1, R, 1, G]
        context, weights = self.attend_in_groups(
            self.make_groups(Q), self.make_groups(K), self.make_groups(V), mask
        )
        x = tf.transpose(context, [0, 1, 3, 2, 4])  # [N, H, G, R, d]
        batch, heads, groups, rate, width = shape_list(x)
        x = tf.reshape(x, [batch, heads, groups * rate, width])
        return x[:, :, :length], weights

    def attend_in_groups(self, Q, K, V, mask) -> tuple:
        """Attend within each group: Q, K, V [N, H, R, G, d] → (context, weights)."""
        return self.apply_attention(Q, K, V, combine_all([mask, self.order_mask(Q, K)]))

    def make_groups(self, x):
        """Group positions by their remainder: [N, H, T, d] → [N, H, R, G, d]."""
        batch, heads, length, width = shape_list(x)
        size = length // self.rate + 1
        x = tf.pad(x, [[0, 0], [0, 0], [0, size * self.rate - length], [0, 0]])
        x = tf.reshape(x, [batch, heads, size, self.rate, width])
        return tf.transpose(x, [0, 1, 3, 2, 4])


@serializable
class SparseSelfAttention(AtrousSelfAttention):
    """Atrous and local self-attention under one softmax (after Child et al. 2019).

    As in the original, `rate` also spreads the local window of `rate - 1` neighbors on
    each side, so the window contains keys of the atrous part, which count twice. Time
    and memory grow with T * T / rate.

    Input, output and arguments: as in `AtrousSelfAttention`, but
      rate: int, 2 or more.
      mask_right: True or False.
    """

    accepts_matrix = False

    def __init__(
        self,
        heads: int,
        size_per_head: int,
        rate: int = 2,
        key_size: Optional[int] = None,
        mask_right=False,
        zero_edges: bool = True,
        **kwargs,
    ):
        super().__init__(
            heads, size_per_head, rate, key_size, mask_right, zero_edges, **kwargs
        )
        check(self, "rate", rate, rate > 1, "2 or more (1 is SelfAttention)")

    def attend_in_groups(self, Q, K, V, mask) -> tuple:
        """Attend within each group, and to a copy of it with the mask of the window."""
        edge = self.rate - 1
        size = tf.shape(Q)[3]
        edges = [[0, 0], [0, 0], [0, 0], [edge, edge], [0, 0]]
        K, V = (tf.concat([x, tf.pad(x, edges)], axis=3) for x in (K, V))
        if mask is not None:
            copy = tf.pad(tf.cast(mask, tf.float32), edges[:3] + [[0, 0], [edge, edge]])
            mask = tf.concat([mask, tf.not_equal(copy, 0)], axis=4)
        slots = tf.range(size + 2 * edge) - expand_dims(tf.range(size), 1) - edge
        group = tf.ones([size, size], tf.bool)  # the mask of the atrous part
        window = tf.less_equal(tf.abs(slots), edge)  # [G, G + 2 edge]
        if self.mask_right:
            group = causal_mask(tf.range(size))[0, 0]
            window = tf.logical_and(window, slots <= 0)
        return self.apply_attention(
            Q, K, V, combine_all([mask, tf.concat([group, window], axis=1)])
        )
