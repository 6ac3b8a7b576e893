"""Attention as Keras 3 layers.

The layers add no residual connection, no normalization and no output projection; Q, K
and V have no bias.

Padding is given by Keras masks (`Embedding(mask_zero=True)`, `Masking`, `mask=`) or, as
in the original, by an additional input of ones and zeros, [N, T, 1] or [N, T]. A
position is padding if one of the two says so. Queries do not attend to padding, and the
outputs for padding are zeros. Keras passes its own masks on to the layers that follow;
an additional input masks this layer only.

`x + y`, slices and `keras.ops` drop Keras masks, `keras.layers.Add()([x, y])` keeps
them. A layer warns of it in a functional model; in a subclassed model, it cannot.

The dimension letters are those of `modules`; d is the width of a head, W the number of
positions in a window, R a rate, G the number of positions in a group.
"""

import warnings
from typing import Any, Dict, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.arguments import check_broadcast, format_shape
from transformer.blocks.layers import expand_dims, join_heads, split_heads
from transformer.blocks.masks import causal_mask, combine_masks, mask_to_bool
from transformer.compat.bojone.keras_base import (
    as_list,
    check,
    find_mask_loss,
    keras,
    list_shapes,
    serializable,
)
from transformer.modules import scaled_dot_product_attention


def combine_all(masks: Sequence):
    """Combine masks by logical AND; None is ignored."""
    combined = None
    for mask in masks:
        if mask is not None:
            combined = combine_masks(combined, tf.cast(mask, tf.bool))
    return combined


def make_causal_mask(Q, K):
    """Return the causal mask of queries and keys: bool [1, 1, Tq, Tk]."""
    return causal_mask(tf.range(tf.shape(Q)[-2]), tf.range(tf.shape(K)[-2]))


def normalize_padding(name: str, mask, x):
    """Convert a padding mask of a caller to bool [N, T].

    Args:
      name: the layer and the argument, for messages.
      mask: bool or numbers [N, T] or [N, T, 1], False or 0 = padding; or None.
      x: [N, T, any width], whose rows the mask allows or forbids.

    Raises:
      ValueError: the mask has another shape, or constant values below 0.
    """
    if mask is None:
        return None
    mask = tf.convert_to_tensor(mask)
    if mask.shape.ndims == 3 and mask.shape.as_list()[-1] == 1:
        mask = tf.squeeze(mask, -1)
    if mask.shape.ndims != 2:
        expected = "[N, T] or [N, T, 1]"
        raise ValueError(f"{name}: expected {expected}, got {format_shape(mask)}")
    check_broadcast(name, mask, "[N, T]", x.shape.as_list()[:2])
    return mask_to_bool(name, mask)


def check_pairs(name: str, mask, sizes: Sequence[Optional[int]]) -> None:
    """Raise ValueError unless a mask has a shape for pairs of positions.

    Args:
      name: the layer and the argument.
      mask: [Tq, Tk], [N, Tq, Tk] or [N, H, Tq, Tk]; N, H and Tq may be 1.
      sizes: (N, H, Tq, Tk), ints; None if unknown.
    """
    mask = tf.TensorSpec(mask.shape)  # a KerasTensor has a shape of another kind
    rank = mask.shape.ndims
    if rank not in (2, 3, 4) or mask.shape.as_list()[-1] == 1 != sizes[-1]:
        raise ValueError(
            f"{name}: expected [Tq, Tk], [N, Tq, Tk] or [N, H, Tq, Tk], got "
            f"{format_shape(mask)}; a padding mask [N, T] is given as mask"
        )
    letters, expected = {
        2: ("[Tq, Tk]", sizes[2:]),
        3: ("[N, Tq, Tk]", (sizes[0], *sizes[2:])),
        4: ("[N, H, Tq, Tk]", sizes),
    }[rank]
    check_broadcast(name, mask, letters, expected)


@serializable
class Attention(keras.layers.Layer):
    """Multi-head attention (section 3.2.2) without an output projection.

    Inputs: a list of the queries [N, Tq, any width], the keys [N, Tk, any width] and
    the values [N, Tk, any width]; then, optionally, masks for the values and the
    queries, 0 = padding: [N, Tk, 1] and [N, Tq, 1], or [N, Tk] and [N, Tq].
    Output: [N, Tq, H * size_per_head]. A query that may attend to no key attends
    equally to all, as in the original.

    Args:
      heads: int, H.
      size_per_head: int, the width of a value.
      key_size: int, the width of a query and of a key; None: the width of a value.
      mask_right: True hides the keys after the position of the query; a matrix [Tq, Tk]
        of ones and zeros hides keys where it is zero; False hides nothing.
      dropout: float, the dropout rate for the attention weights in training.
      kernel_initializer, kernel_regularizer: for the kernels, as in Keras.

    The arguments of a call are those of `keras.layers.MultiHeadAttention`:
    `attention_mask`, bool or numbers [Tq, Tk], [N, Tq, Tk] or [N, H, Tq, Tk], hides
    keys where it is 0; the output for a query from which it hides all keys is 0, like
    that for a padded query; `use_causal_mask` means `mask_right=True` for one call;
    `return_attention_scores` also returns the weights [N, H, Tq, Tk].
    """

    expected_inputs = "queries, keys, values [N, T, width], and up to two masks"
    input_counts: Sequence[int] = (3, 4, 5)

    def __init__(
        self,
        heads: int,
        size_per_head: int,
        key_size: Optional[int] = None,
        mask_right=False,
        *,
        dropout: float = 0.0,
        kernel_initializer="glorot_uniform",
        kernel_regularizer=None,
        **kwargs,
    ):
        # Half precision would round additional inputs, such as lengths.
        super().__init__(autocast=False, **kwargs)
        sizes = (heads, size_per_head, key_size or size_per_head)
        is_valid = all(
            isinstance(size, (int, np.integer)) and size > 0 for size in sizes
        )
        check(
            self, "(heads, size_per_head, key_size)", sizes, is_valid, "1 or more each"
        )
        check(self, "dropout", dropout, 0 <= dropout < 1, "0 or more, and below 1")
        self.dropout = dropout
        self.drop = keras.layers.Dropout(dropout, autocast=False) if dropout else None
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.heads = heads
        self.size_per_head = size_per_head
        self.key_size = key_size or size_per_head
        self.mask_right = np.asarray(mask_right).tolist()
        self.supports_masking = True
        check(
            self,
            "mask_right",
            mask_right,
            isinstance(self.mask_right, bool)
            or (np.ndim(mask_right) == 2 and np.min(mask_right) >= 0),
            "True, False or a matrix of ones and zeros",
        )

    def build(self, input_shape) -> None:
        shapes = list_shapes(input_shape)
        is_valid = len(shapes) in self.input_counts and all(
            len(shape) == 3 and shape[-1] for shape in self.sources(shapes)
        )
        check(self, "inputs", shapes, is_valid, self.expected_inputs)
        widths = [shape[-1] for shape in self.sources(shapes)]
        sizes = (self.key_size, self.key_size, self.size_per_head)
        self.kernels = [
            self.add_weight(
                name=name + "_kernel",
                shape=(width, self.heads * size),
                initializer=self.kernel_initializer,
                regularizer=self.kernel_regularizer,
            )
            for name, width, size in zip("qkv", widths, sizes)
        ]

    def call(
        self,
        inputs,
        mask=None,
        attention_mask=None,
        use_causal_mask=False,
        return_attention_scores=False,
        training=None,
        inputs_mask=None,
    ):
        self.check_call(attention_mask, use_causal_mask, return_attention_scores)
        inputs = [tf.convert_to_tensor(x) for x in as_list(inputs)]
        # Keras fills `inputs_mask`, not `mask`, where `attention_mask` is a tensor.
        mask = inputs_mask if mask is None else mask
        key_mask, query_mask = self.padding(inputs, as_list(mask))
        dtype = self.compute_dtype
        kernels = [tf.cast(kernel, dtype) for kernel in self.kernels]
        Q, K, V = (
            split_heads(keras.ops.matmul(tf.cast(x, dtype), kernel), self.heads)
            for x, kernel in zip(self.sources(inputs), kernels)
        )
        pair_mask = None  # [N or 1, H or 1, Tq, Tk]
        if attention_mask is not None:
            name = f"{type(self).__name__}: attention_mask"
            pair_mask = tf.convert_to_tensor(attention_mask)
            check_pairs(name, pair_mask, self.pair_shape([x.shape for x in inputs]))
            pair_mask = mask_to_bool(name, pair_mask)
            if pair_mask.shape.ndims == 3:
                pair_mask = expand_dims(pair_mask, 1)
        attends = None if pair_mask is None else tf.reduce_any(pair_mask, -1)
        if use_causal_mask:
            pair_mask = combine_masks(pair_mask, make_causal_mask(Q, K))
        context, weights = self.attend(Q, K, V, key_mask, pair_mask)
        if attends is not None:  # [N or 1, H or 1, Tq] or [Tq]
            context *= expand_dims(tf.cast(attends, context.dtype), -1)
        x = join_heads(context)  # [N, Tq, H * d]
        if query_mask is not None:
            x *= expand_dims(tf.cast(query_mask, x.dtype), 2)
        return (x, weights) if return_attention_scores else x

    def check_call(
        self, attention_mask, use_causal_mask, return_attention_scores
    ) -> None:
        """Raise ValueError for call arguments that a layer does not support."""

    def sources(self, inputs: list) -> list:
        """Return the sources of queries, keys and values (inputs or shapes)."""
        return inputs[:3]

    def padding(self, inputs: list, masks: list) -> tuple:
        """Return the padding masks for keys and queries: bool [N, T] each, or None."""
        expected = "2 or 3, for queries, keys and values"
        is_valid = len(masks) > 1 or masks[0] is None
        check(self, "the number of masks", len(masks), is_valid, expected)
        queries, keys, values = inputs[:3]
        q, k, v = (masks + [None] * 2)[:3]
        extra_v, extra_q = (inputs[3:] + [None] * 2)[:2]
        return (
            self.combine_padding((k, keys), (v, values), (extra_v, values)),
            self.combine_padding((q, queries), (extra_q, queries)),
        )

    def combine_padding(self, *pairs):
        """Combine padding masks, each beside its sequence: bool [N, T], or None."""
        name = f"{type(self).__name__}: mask"
        return combine_all([normalize_padding(name, *pair) for pair in pairs])

    def attend(self, Q, K, V, key_mask, pair_mask=None) -> tuple:
        """Apply attention.

        Args:
          Q, K, V: float [N, H, T, d] each.
          key_mask: bool [N, Tk] or None.
          pair_mask: bool, broadcastable to [N, H, Tq, Tk], or None.

        Returns:
          (context [N, H, Tq, d], weights).
        """
        if key_mask is not None:
            key_mask = expand_dims(key_mask, 1, 1)
        masks = [key_mask, self.order_mask(Q, K), pair_mask]
        return self.apply_attention(Q, K, V, combine_all(masks))

    def order_mask(self, Q, K):
        """Return the mask of `mask_right`, [..., Tq, Tk], or None."""
        if self.mask_right is False:
            return None
        if self.mask_right is True:
            return make_causal_mask(Q, K)
        mask = tf.constant(self.mask_right)
        sizes = (None, None, Q.shape.as_list()[-2], K.shape.as_list()[-2])
        check_pairs(f"{type(self).__name__}: mask_right", mask, sizes)
        return mask

    def apply_attention(self, Q, K, V, mask) -> tuple:
        """Apply equation 1 over the last two axes, at least in float32."""
        dtype = tf.float32 if V.dtype.size < 4 else V.dtype
        context, weights = scaled_dot_product_attention(
            tf.cast(Q, dtype),
            tf.cast(K, dtype),
            tf.cast(V, dtype),
            mask,
            fully_masked_is_zero=False,
            drop=self.drop,
        )
        return tf.cast(context, V.dtype), tf.cast(weights, V.dtype)

    def compute_mask(self, inputs, mask=None):
        return as_list(mask)[0]

    def compute_output_spec(
        self,
        inputs,
        mask=None,
        attention_mask=None,
        use_causal_mask=False,
        return_attention_scores=False,
        inputs_mask=None,
        **_,
    ):
        self.check_call(attention_mask, use_causal_mask, return_attention_scores)
        shapes = [x.shape for x in as_list(inputs)]
        if attention_mask is not None:
            name = f"{type(self).__name__}: attention_mask"
            check_pairs(name, attention_mask, self.pair_shape(shapes))
        mask = inputs_mask if mask is None else mask
        self.warn_of_mask_loss(as_list(inputs), as_list(mask))
        shape = self.compute_output_shape(shapes)
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        if not return_attention_scores:
            return output
        scores = keras.KerasTensor(self.pair_shape(shapes), dtype=self.compute_dtype)
        return output, scores

    def pair_shape(self, shapes: list) -> tuple:
        """Return the shape of the attention weights, (N, H, Tq, Tk); None: unknown."""
        queries, keys, _ = self.sources(shapes)
        return (queries[0], self.heads, queries[1], keys[1])

    def warn_of_mask_loss(self, inputs: list, masks: list) -> None:
        """Warn if an operation before the layer has dropped the mask of an input."""
        if len(inputs) not in (1, 3):  # an additional input is a mask
            return
        masks = masks + [None] * 2
        losses: set = set()
        for group in (slice(0, 1), slice(1, 3)):  # queries; keys and values
            if all(mask is None for mask in masks[group]):
                losses.update(find_mask_loss(x) for x in inputs[group])
        losses.discard(None)
        if losses:
            warnings.warn(
                f"{type(self).__name__}: expected the mask of its input, which "
                f"{' and '.join(sorted(losses))} dropped: x + y, slices and keras.ops "
                "keep no mask; use keras.layers.Add() or another layer, or pass mask=",
                stacklevel=2,
            )

    def compute_output_shape(self, input_shape) -> tuple:
        return (*list_shapes(input_shape)[0][:2], self.heads * self.size_per_head)

    def get_config(self) -> Dict[str, Any]:
        return {
            **super().get_config(),
            "heads": self.heads,
            "size_per_head": self.size_per_head,
            "key_size": self.key_size,
            "mask_right": self.mask_right,
            "dropout": self.dropout,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
        }


@serializable
class SelfAttention(Attention):
    """`Attention` of a sequence to itself.

    Input: the sequence [N, T, any width], or a list of the sequence and its padding
    mask, [N, T, 1] or [N, T].
    Output: [N, T, H * size_per_head].

    Args: as in `Attention`.
    """

    expected_inputs = "a sequence [N, T, width], and optionally its mask"
    input_counts = (1, 2)

    def sources(self, inputs: list) -> list:
        return inputs[:1] * 3

    def padding(self, inputs: list, masks: list) -> tuple:
        is_valid = len(masks) <= len(inputs)
        check(self, "the number of masks", len(masks), is_valid, "1, for the sequence")
        sequence, extra = (inputs + [None])[:2]
        is_token = self.combine_padding((masks[0], sequence), (extra, sequence))
        return is_token, is_token
