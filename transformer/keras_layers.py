"""Attention and positions as Keras 3 layers, for TensorFlow 2 in eager mode.

Example:

    import keras
    from transformer.keras_layers import SelfAttention, SinCosPositionEmbedding

    ids = keras.Input([None], dtype="int32")                       # [N, T]
    x = keras.layers.Embedding(20000, 128, mask_zero=True)(ids)    # [N, T, 128]
    x = SinCosPositionEmbedding(128)(x)                            # [N, T, 128]
    y = SelfAttention(heads=8, size_per_head=16)(x)                # [N, T, 128]
    x = keras.layers.Add()([x, y])                # x + y would drop the Keras mask
    x = keras.layers.GlobalAveragePooling1D()(x)                   # [N, 128]
"""

from transformer.compat.bojone.attention_layers import Attention, SelfAttention
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
    "SelfAttention",
    "SinCosPositionEmbedding",
    "SparseSelfAttention",
    "TrainablePositionEmbedding",
]
