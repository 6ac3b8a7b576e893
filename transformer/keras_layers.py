"""Attention and positions as Keras 3 layers, on TensorFlow 2 in its eager default.

The layers of bojone/attention (`attention_keras.py`), numbers included, except that
`mask_right=False`, its default, really means no limit: there it made all logits equal.
They add no residual connection, no normalization and no output projection; Q, K and V
have no bias. Nothing else of the package needs Keras: import this file to use it.

    import keras
    from transformer.keras_layers import SelfAttention, SinCosPositionEmbedding

    ids = keras.Input([None], dtype="int32")                                # [N, T]
    x = keras.layers.Embedding(20000, 128, mask_zero=True)(ids)             # [N, T, 128]
    x = SinCosPositionEmbedding(128)(x)                                     # [N, T, 128]
    x = SelfAttention(heads=8, size_per_head=16)(x)                         # [N, T, 128]
    x = keras.layers.GlobalAveragePooling1D()(x)                            # [N, 128]

Padding is what Keras masks say (`Embedding(mask_zero=True)`, `Masking`, `mask=`), or a
further input of ones and zeros [N, T, 1], as in the original; both where both are given.
Padding is never attended to, and its own outputs are zeros.

Dimension letters as in `modules`; W is the width of a window, r a rate, G = T / r.
"""
import keras
import numpy as np
import tensorflow.compat.v1 as tf

from transformer.masks import causal_mask
from transformer.modules import scaled_dot_product_attention
from transformer.positions import POSITIONS
from transformer.primitives import join_heads, shape_list, split_heads

__all__ = [
    "Attention", "AtrousSelfAttention", "LocalSelfAttention", "SelfAttention",
    "SinCosPositionEmbedding", "SparseSelfAttention", "TrainablePositionEmbedding"]

if keras.backend.backend() != "tensorflow":
    raise ImportError("transformer.keras_layers: found Keras on the backend "
                      f"{keras.backend.backend()!r}, wanted 'tensorflow'")

serializable = keras.saving.register_keras_serializable(package="transformer")


def _as_list(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


def _first_shape(shape):
    """The shape of the first input, given the shape of one or those of several."""
    return tuple(shape[0] if isinstance(shape[0], (list, tuple)) else shape)


def _both(mask, extra_input):
    """A Keras mask [N, T] or None, and an input [N, T, 1] or None: bool [N, T]."""
    if extra_input is None:
        return mask
    extra = tf.not_equal(tf.squeeze(extra_input, -1), 0)
    return extra if mask is None else tf.logical_and(mask, extra)


@serializable
class Attention(keras.layers.Layer):
    """Multi-head attention (section 3.2.2) up to where the heads are joined.

    Its inputs are a list: queries [N, Tq, any width], keys [N, Tk, any width] and values
    [N, Tk, any width], then, if wanted, which values and which queries are real
    ([N, Tk, 1] and [N, Tq, 1], ones and zeros). The output is [N, Tq, H * size_per_head].

    Args:
      heads: int, H.
      size_per_head: int, the width of a value, d_v.
      key_size: int, the width of a query and of a key, d_k; size_per_head if None.
      mask_right: True hides the keys behind the query's own position; a matrix
        [Tq, Tk] of ones and zeros hides where it is zero; False hides nothing.

    A query that may attend to no key attends to all alike, as in the original.
    """

    matrix_allowed = True  # whether `mask_right` may be a matrix

    def __init__(self, heads, size_per_head, key_size=None, mask_right=False, **kwargs):
        super().__init__(**kwargs)
        self.heads = heads
        self.size_per_head = size_per_head
        self.key_size = key_size or size_per_head
        self.mask_right = mask_right
        self.supports_masking = True
        if not isinstance(mask_right, (bool, np.bool_)):
            self.mask_right = np.asarray(mask_right).tolist()
            if not self.matrix_allowed or np.ndim(self.mask_right) != 2:
                raise ValueError(
                    f"{type(self).__name__}: found mask_right = {mask_right!r}, wanted "
                    "True or False" + " or a matrix" * self.matrix_allowed)

    def build(self, input_shape):
        widths = [shape[-1] for shape in self._three(input_shape)]
        sizes = [self.key_size, self.key_size, self.size_per_head]
        self.kernels = [
            self.add_weight(name=name + "_kernel", shape=(width, self.heads * size))
            for name, width, size in zip("qkv", widths, sizes)]

    def call(self, inputs, mask=None):
        sources = self._three(inputs)
        value_mask, query_mask = self._masks(_as_list(inputs), mask)
        Q, K, V = (split_heads(keras.ops.matmul(x, kernel), self.heads)
                   for x, kernel in zip(sources, self.kernels))    # [N, H, T, size]
        x = join_heads(self.attend(Q, K, V, value_mask))           # [N, Tq, H * size]
        if query_mask is None:
            return x
        return tf.where_v2(query_mask[:, :, None], x, tf.zeros([], x.dtype))

    def attend(self, Q, K, V, value_mask):
        """Who attends to whom: [N, H, T, size] each, bool [N, Tk] → [N, H, Tq, size]."""
        mask = None if value_mask is None else value_mask[:, None, None, :]
        return self._attention(Q, K, V, [mask, self._right(Q, K)])

    def _attention(self, Q, K, V, masks):
        """Equation 1, under all the masks that are not None; in float32 at least."""
        masks, allowed = [each for each in masks if each is not None], None
        for each in masks:
            allowed = each if allowed is None else tf.logical_and(allowed, each)
        wide = tf.float32 if Q.dtype.size < 4 else Q.dtype
        context, _ = scaled_dot_product_attention(
            *(tf.cast(x, wide) for x in (Q, K, V)), allowed,
            blind_queries_are_zero=False)
        return tf.cast(context, V.dtype)

    def _right(self, Q, K):
        """The mask that `mask_right` asks for, [..., Tq, Tk], or None."""
        if self.mask_right is False:
            return None
        if self.mask_right is True:
            return causal_mask(tf.shape(Q)[-2], tf.shape(K)[-2])
        return tf.constant(np.asarray(self.mask_right) != 0)

    def _three(self, inputs):
        """What Q, K and V are projected from (or the shapes of it)."""
        return inputs[:3]

    def _masks(self, inputs, mask):
        """Which values and which queries are real: bool [N, T] or None."""
        masks = _as_list(mask) + [None] * 3
        extra = inputs[3:] + [None] * 2
        values = masks[1] if masks[2] is None else masks[2]
        return _both(values, extra[0]), _both(masks[0], extra[1])

    def compute_mask(self, inputs, mask=None):
        return _as_list(mask)[0]

    def compute_output_shape(self, input_shape):
        return _first_shape(input_shape)[:2] + (self.heads * self.size_per_head,)

    def get_config(self):
        return {**super().get_config(), "heads": self.heads,
                "size_per_head": self.size_per_head, "key_size": self.key_size,
                "mask_right": self.mask_right}


@serializable
class SelfAttention(Attention):
    """`Attention` of a sequence to itself.

    Its input is the sequence [N, T, any width], or a list of it and of which positions
    are real ([N, T, 1], ones and zeros). The output is [N, T, H * size_per_head].
    """

    def _three(self, inputs):
        if hasattr(inputs, "dtype"):
            return [inputs] * 3
        return [_first_shape(inputs) if isinstance(inputs[0], int) else inputs[0]] * 3

    def _masks(self, inputs, mask):
        both = _both(_as_list(mask)[0], (inputs + [None])[1])
        return both, both
