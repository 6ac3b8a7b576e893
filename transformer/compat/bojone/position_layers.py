"""Positions as Keras 3 layers: sinusoids, and learned vectors.

The dimension letters are those of `modules`.
"""

from typing import Any, Dict

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.layers import expand_dims, shape_list
from transformer.blocks.positions import interleaved_sinusoids
from transformer.compat.bojone.keras_base import (
    as_list,
    check,
    keras,
    list_shapes,
    serializable,
)


class _PositionEmbedding(keras.layers.Layer):
    """Adds position vectors to the input, or concatenates them with it.

    Input: [N, T, any width], or a list of such an input and an origin for each
    sequence, [N, 1]; the position of an element is then its distance from the origin.
    Output: [N, T, v_dim], or the sum of the widths with "concat".

    Args:
      v_dim: int, the width of the vectors; with "add", the width of the input.
      merge_mode: "add" or "concat".
    """

    def __init__(self, v_dim: int, merge_mode: str = "add", **kwargs):
        # Half precision would round the origins.
        super().__init__(autocast=False, **kwargs)
        # If a word in an .h5 file is the name of a function, Keras reads that function.
        merge_mode = getattr(merge_mode, "__name__", merge_mode)
        self.v_dim = v_dim
        self.merge_mode = merge_mode
        self.supports_masking = True
        check(
            self,
            "merge_mode",
            merge_mode,
            merge_mode in ("add", "concat"),
            "'add' or 'concat'",
        )

    def build(self, input_shape) -> None:
        shapes = list_shapes(input_shape)
        is_valid = len(shapes) in (1, 2) and len(shapes[0]) == 3
        check(
            self,
            "inputs",
            shapes,
            is_valid,
            "a sequence [N, T, width], and optionally origins",
        )
        width = shapes[0][-1]
        check(
            self,
            "v_dim",
            self.v_dim,
            self.merge_mode == "concat" or width == self.v_dim,
            f"{width}, the width it is added to",
        )

    def call(self, inputs, mask=None):
        x, origin = (as_list(inputs) + [0])[:2]
        x = tf.cast(x, self.compute_dtype)
        positions = tf.abs(
            expand_dims(tf.range(tf.shape(x)[1]), 0) - tf.cast(origin, tf.int32)
        )  # [1 or N, T]
        return self.merge(x, self.vectors(positions))

    def merge(self, x, vectors):
        """Add vectors [1 or N, T, v_dim] to `x`, or concatenate them with it."""
        vectors = tf.cast(vectors, x.dtype)
        if self.merge_mode == "add":
            return x + vectors
        batch, length = shape_list(x)[:2]
        return tf.concat(
            [x, tf.broadcast_to(vectors, [batch, length, self.v_dim])], axis=-1
        )

    def compute_mask(self, inputs, mask=None):
        return as_list(mask)[0]

    def compute_output_shape(self, input_shape) -> tuple:
        *leading, width = list_shapes(input_shape)[0]
        if self.merge_mode == "concat":
            width += self.v_dim
        return (*leading, width)

    def get_config(self) -> Dict[str, Any]:
        return {
            **super().get_config(),
            "v_dim": self.v_dim,
            "merge_mode": self.merge_mode,
        }


@serializable
class SinCosPositionEmbedding(_PositionEmbedding):
    """Adds the sinusoids of section 3.5 (`merge_mode="concat"`: concatenates them).

    Input, output and arguments: as in `_PositionEmbedding`.
    """

    def vectors(self, positions):
        encoding = interleaved_sinusoids(tf.reshape(positions, [-1]), self.v_dim)
        return tf.reshape(encoding, tf.concat([tf.shape(positions), [self.v_dim]], 0))


@serializable
class TrainablePositionEmbedding(_PositionEmbedding):
    """Adds learned vectors, initially 0 (`merge_mode="concat"`: concatenates them).

    Input, output and arguments: as in `_PositionEmbedding`, and
      maxlen: int, the number of positions with a vector.
    """

    def __init__(self, maxlen: int, v_dim: int, merge_mode: str = "add", **kwargs):
        super().__init__(v_dim, merge_mode, **kwargs)
        self.maxlen = maxlen

    def build(self, input_shape) -> None:
        super().build(input_shape)
        length = list_shapes(input_shape)[0][1]
        check(
            self,
            "maxlen",
            self.maxlen,
            length is None or length <= self.maxlen,
            f"{length} or more, the length of the input",
        )
        self.embeddings = self.add_weight(
            name="embeddings", shape=(self.maxlen, self.v_dim), initializer="zeros"
        )

    def call(self, inputs, mask=None):
        x, *origin = as_list(inputs)
        if origin:
            return super().call(inputs, mask)
        x = tf.cast(x, self.compute_dtype)
        length = shape_list(x)[1]
        message = (
            f"TrainablePositionEmbedding: expected at most {self.maxlen} positions"
        )
        tf.debugging.assert_less_equal(length, self.maxlen, message=message)
        # A slice that is too long also fails when compiled; `gather` does not.
        table = tf.convert_to_tensor(self.embeddings)
        return self.merge(x, tf.slice(table, [0, 0], [length, self.v_dim])[None])

    def vectors(self, positions):
        vectors = tf.gather(tf.convert_to_tensor(self.embeddings), positions)
        # A compiled `gather` clips positions beyond the table; mark them with NaN.
        has_vector = expand_dims(positions, -1) < self.maxlen
        return tf.where_v2(has_vector, vectors, tf.constant(np.nan, vectors.dtype))

    def get_config(self) -> Dict[str, Any]:
        return {**super().get_config(), "maxlen": self.maxlen}
