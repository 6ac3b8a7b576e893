"""Helpers for the Keras layers: Keras itself, registered names, lists of inputs.

The layers need Keras 3 with TensorFlow as its backend. They import `keras` from here,
so an installation without it gets one clear message.
"""

from typing import Any, Optional

import tensorflow.compat.v1 as tf

from transformer.runtime.versions import IS_TENSORFLOW_1

if IS_TENSORFLOW_1:
    raise ImportError(
        "transformer.keras_layers: expected TensorFlow 2.16 or newer, which has Keras "
        f"3, got {tf.__version__}; for graphs of TensorFlow 1.15, import "
        "transformer.functional or transformer.compat.bojone"
    )

import keras  # noqa: E402

if keras.backend.backend() != "tensorflow":
    raise ImportError(
        "transformer.keras_layers: expected the Keras backend "
        f"'tensorflow', got {keras.backend.backend()!r}"
    )

# A layer is saved as `transformer>SelfAttention`, regardless of its file. Classes with
# the same name in `layers` are saved as `bojone>Attention`.
serializable = keras.saving.register_keras_serializable(package="transformer")
serializable_of_bojone = keras.saving.register_keras_serializable(package="bojone")


def as_list(x) -> list:
    """Put one or more inputs or masks into a list.

    Raises:
      TypeError: one of them is a tensor of tf_keras (Keras 2). A Keras 3 layer accepts
        it, but the model does not find the variables of the layer.
    """
    tensors = list(x) if isinstance(x, (list, tuple)) else [x]
    if any(type(tensor).__module__.startswith("tf_keras") for tensor in tensors):
        raise TypeError(
            "transformer.keras_layers: expected tensors of Keras 3, got those of "
            "tf_keras; make the model with `import keras`, or unset "
            "TF_USE_LEGACY_KERAS"
        )
    return tensors


def list_shapes(shape) -> list:
    """Put the shapes of one or more inputs into a list."""
    return list(shape) if isinstance(shape[0], (list, tuple)) else [shape]


def find_mask_loss(tensor) -> Optional[str]:
    """Return the name of the operation that dropped the mask of a symbolic tensor.

    Layers pass masks on, or Keras warns that they do not; operations such as `+` drop
    them without a word. None: no operation did.
    """
    tensors, visited = [tensor], set()
    while tensors:
        x = tensors.pop()
        operation, node_index, _ = getattr(x, "_keras_history", [None] * 3)
        nodes = getattr(operation, "_inbound_nodes", [])
        if has_mask(x) or not nodes or (operation, node_index) in visited:
            continue
        visited.add((operation, node_index))
        sources = nodes[node_index].input_tensors
        if not isinstance(operation, keras.layers.Layer):
            if any(map(has_mask, sources)):
                return operation.name
            tensors += sources
        elif operation.supports_masking:
            tensors += sources
    return None


def has_mask(tensor) -> bool:
    """Return whether a tensor has a Keras mask."""
    return getattr(tensor, "_keras_mask", None) is not None


def check(
    layer: keras.layers.Layer, name: str, value: Any, is_valid: bool, expected: str
) -> None:
    """Raise ValueError for an invalid argument.

    Args:
      layer: the layer, whose class is named in the message.
      name: the name of the argument.
      value: its value.
      is_valid: whether the value is allowed.
      expected: the allowed values, in words.
    """
    if not is_valid:
        raise ValueError(
            f"{type(layer).__name__}: expected {name} to be {expected}, got {value!r}"
        )
