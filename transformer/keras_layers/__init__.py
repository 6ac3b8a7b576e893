"""Attention and positions as Keras 3 layers, for TensorFlow 2 in eager mode.

Example:

    import keras
    from transformer.keras_layers import SelfAttention, SinCosPositionEmbedding

    ids = keras.Input([None], dtype="int32")                       # [N, T]
    x = keras.layers.Embedding(20000, 128, mask_zero=True)(ids)    # [N, T, 128]
    x = SinCosPositionEmbedding(128)(x)                            # [N, T, 128]
    x = SelfAttention(heads=8, size_per_head=16)(x)                # [N, T, 128]
    x = keras.layers.GlobalAveragePooling1D()(x)                   # [N, 128]
"""

import tensorflow.compat.v1 as tf

if tf.__version__.startswith("1."):
    raise ImportError(
        "transformer.keras_layers: expected TensorFlow 2.16 or newer, which has Keras "
        f"3, got {tf.__version__}; for graphs of TensorFlow 1.15, import "
        "transformer.functional or transformer.compat.bojone"
    )

from transformer.keras_layers.attention import Attention, SelfAttention  # noqa: E402
from transformer.keras_layers.positions import (  # noqa: E402
    SinCosPositionEmbedding,
    TrainablePositionEmbedding,
)
from transformer.keras_layers.restricted import (  # noqa: E402
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
