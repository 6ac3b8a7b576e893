"""The position embeddings of bojone/attention (`attention_keras.py`) for Keras 3.

Dimension letters as in `modules`.
"""

import keras
import tensorflow.compat.v1 as tf

from transformer.blocks.positions import interleaved
from transformer.blocks.shapes import shape_list
from transformer.keras_layers.base import as_list, need, serializable, shapes_of

__all__ = ["SinCosPositionEmbedding", "TrainablePositionEmbedding"]


class _PositionEmbedding(keras.layers.Layer):
    """Adds vectors of the positions, or concatenates them.

    Input: [N, T, any width], or a list of it and of one position for each sequence,
    [N, 1], from which its positions are counted, in both directions alike.
    Output: [N, T, v_dim or the sum of the widths].

    Args:
      v_dim: int, the width of the vectors; to be added, that of the input.
      merge_mode: "add" or "concat".
    """

    def __init__(self, v_dim: int, merge_mode: str, **kwargs):
        super().__init__(**kwargs)
        self.v_dim = v_dim
        self.merge_mode = merge_mode
        self.supports_masking = True
        need(
            self,
            "merge_mode",
            merge_mode,
            merge_mode in ("add", "concat"),
            "'add' or 'concat'",
        )

    def build(self, input_shape):
        width = shapes_of(input_shape)[0][-1]
        need(
            self,
            "v_dim",
            self.v_dim,
            self.merge_mode == "concat" or width == self.v_dim,
            f"{width}, the width it is added to",
        )

    def call(self, inputs, mask=None):
        x, origin = (as_list(inputs) + [0])[:2]
        positions = tf.abs(
            tf.range(tf.shape(x)[1])[None, :] - tf.cast(origin, tf.int32)
        )  # [1 or N, T]
        vectors = tf.cast(self.vectors(positions), x.dtype)  # [1 or N, T, v_dim]
        if self.merge_mode == "add":
            return x + vectors
        batch, length = shape_list(x)[:2]
        return tf.concat(
            [x, tf.broadcast_to(vectors, [batch, length, self.v_dim])], axis=-1
        )

    def compute_mask(self, inputs, mask=None):
        return as_list(mask)[0]

    def compute_output_shape(self, input_shape):
        *leading, width = shapes_of(input_shape)[0]
        return (*leading, width + (self.merge_mode == "concat") * self.v_dim)

    def get_config(self):
        return {
            **super().get_config(),
            "v_dim": self.v_dim,
            "merge_mode": self.merge_mode,
        }


@serializable
class SinCosPositionEmbedding(_PositionEmbedding):
    """Adds the sinusoids of section 3.5 (`merge_mode="concat"`: concatenates them).

    Input, output and args: as in `_PositionEmbedding`.
    """

    def __init__(self, v_dim: int, merge_mode: str = "add", **kwargs):
        super().__init__(v_dim, merge_mode, **kwargs)

    def vectors(self, positions):
        flat = tf.cast(tf.reshape(positions, [-1]), tf.float64)
        table = interleaved(flat, self.v_dim)
        return tf.reshape(table, tf.concat([tf.shape(positions), [self.v_dim]], 0))


@serializable
class TrainablePositionEmbedding(_PositionEmbedding):
    """Adds learned vectors, zeros at first (`merge_mode="concat"`: concatenates them).

    Input, output and args: as in `_PositionEmbedding`, and
      maxlen: int, how many positions have a vector.
    """

    def __init__(self, maxlen: int, v_dim: int, merge_mode: str = "add", **kwargs):
        super().__init__(v_dim, merge_mode, **kwargs)
        self.maxlen = maxlen

    def build(self, input_shape):
        super().build(input_shape)
        length = shapes_of(input_shape)[0][1]
        need(
            self,
            "maxlen",
            self.maxlen,
            length is None or length <= self.maxlen,
            f"{length} or more, the length of the input",
        )
        self.embeddings = self.add_weight(
            name="embeddings", shape=(self.maxlen, self.v_dim), initializer="zeros"
        )

    def vectors(self, positions):
        return tf.gather(tf.convert_to_tensor(self.embeddings), positions)

    def get_config(self):
        return {**super().get_config(), "maxlen": self.maxlen}
