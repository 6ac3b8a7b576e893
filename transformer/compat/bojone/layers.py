"""The layers of bojone/attention, `attention_keras.py`, as Keras 3 layers.

Instead of `from attention_keras import *`:

    from keras.layers import *
    from transformer.compat.bojone.layers import *

Keep this order: Keras has its own `Attention`, and the last import wins. Otherwise,
give ours another name:

    from transformer.compat.bojone.layers import Attention as MultiHead

This module exports only the layers of `attention_keras.py`. The original also exports
all of `keras.layers` and the backend `K`: import them from `keras`.

The numbers are those of the last version of that file, with one exception: there,
`mask_right=False`, the default, makes all logits equal, so each query attends equally
to all keys. Here, it means ordinary attention.

Earlier versions have `Position_Embedding` and `Attention(nb_head, size_per_head,
mask_right=False)`, with lengths instead of masks; both are available here. (The first
version does not divide the logits by the square root of `size_per_head`; this module
does.)
"""

from typing import Any, Dict

import tensorflow.compat.v1 as tf

from transformer.compat.bojone import attention_layers, functions
from transformer.compat.bojone.attention_layers import SelfAttention
from transformer.compat.bojone.keras_base import check, serializable_of_bojone
from transformer.compat.bojone.position_layers import (
    SinCosPositionEmbedding,
    TrainablePositionEmbedding,
)
from transformer.compat.bojone.restricted_layers import (
    AtrousSelfAttention,
    LocalSelfAttention,
    SparseSelfAttention,
)

__all__ = [
    "Attention",
    "AtrousSelfAttention",
    "LocalSelfAttention",
    "Position_Embedding",
    "SelfAttention",
    "SinCosPositionEmbedding",
    "SparseSelfAttention",
    "TrainablePositionEmbedding",
]


@serializable_of_bojone
class Attention(attention_layers.Attention):
    """Attention that also takes the arguments of earlier versions.

    Inputs: a list of the queries, the keys and the values; then, optionally, masks for
    the values and the queries, [N, T, 1] or [N, T]; or, as in earlier versions, the
    lengths of the queries and of the values, int [N, 1] each.

    Args: as in `transformer.keras_layers.Attention`, and
      nb_head: int, the earlier name of `heads`.
      key_size: True means `mask_right`, the third argument in earlier versions.
    """

    def __init__(
        self,
        heads=None,
        size_per_head=None,
        key_size=None,
        mask_right=False,
        nb_head=None,
        **kwargs,
    ):
        if key_size is True:
            key_size = None
            mask_right = True
        sizes = {"heads": heads, "nb_head": nb_head, "size_per_head": size_per_head}
        has_heads = (heads is None) != (nb_head is None)
        check(
            self,
            "arguments",
            sizes,
            has_heads and size_per_head is not None,
            "heads or nb_head, and size_per_head",
        )
        heads = nb_head if heads is None else heads
        super().__init__(heads, size_per_head, key_size, mask_right, **kwargs)

    def padding(self, inputs: list, masks: list) -> tuple:
        sources = inputs[:3]
        extra = inputs[3:]
        if _are_lengths(sources, extra):
            queries, _, values = sources
            extra = [
                functions.mask(tf.ones_like(x[:, :, 0], tf.int32), lengths[:, 0])
                for x, lengths in zip((values, queries), reversed(extra))
            ]
        return super().padding(sources + extra, masks)


def _are_lengths(sources, extra):
    """Tell lengths, two inputs [N, 1], from masks for sequences of one position."""
    widths = [None if x is None else x.shape.as_list()[1:] for x in extra]
    has_one_position = all(x.shape.as_list()[1] == 1 for x in sources)
    return widths == [[1], [1]] and not has_one_position


@serializable_of_bojone
class Position_Embedding(SinCosPositionEmbedding):
    """Adds sinusoids, cosines first, or concatenates them with the input.

    Input: [N, T, any width].
    Output: [N, T, that width, or size + that width].

    Args:
      size: int, the width of the sinusoids for "concat"; None: the width of the input.
      mode: "sum" or "concat".
    """

    def __init__(self, size=None, mode="sum", **kwargs):
        check(self, "mode", mode, mode in ("sum", "concat"), "'sum' or 'concat'")
        super().__init__(size, {"sum": "add"}.get(mode, mode), **kwargs)
        self.size = size
        self.mode = mode

    def build(self, input_shape) -> None:
        if self.size is None or self.mode == "sum":
            self.v_dim = input_shape[-1]
        super().build(input_shape)

    def call(self, inputs, mask=None):
        inputs = tf.cast(inputs, self.compute_dtype)
        sinusoids = functions.position_embedding(inputs, self.v_dim)
        sinusoids = tf.cast(sinusoids, inputs.dtype)
        if self.mode == "sum":
            return inputs + sinusoids
        return tf.concat([sinusoids, inputs], axis=-1)

    def get_config(self) -> Dict[str, Any]:
        config = super().get_config()
        del config["v_dim"]
        del config["merge_mode"]
        return {**config, "size": self.size, "mode": self.mode}
