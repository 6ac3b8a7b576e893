"""Helpers for the Keras layers: the backend, registered names, lists of inputs.

Keras 3 has several backends; these layers need TensorFlow.
"""

from typing import Any

import keras

if keras.backend.backend() != "tensorflow":
    raise ImportError(
        "transformer.keras_layers: expected the Keras backend "
        f"'tensorflow', got {keras.backend.backend()!r}"
    )

# A layer is saved as `transformer>SelfAttention`, regardless of its file. Classes with
# the same name in `compat.bojone_keras` are saved as `bojone>Attention`.
serializable = keras.saving.register_keras_serializable(package="transformer")
serializable_of_bojone = keras.saving.register_keras_serializable(package="bojone")


def as_list(x) -> list:
    """Return one or more inputs or masks as a list.

    Raises:
      TypeError: one of them is a tensor of tf_keras (Keras 2): a layer accepts it, but
        the model does not find the variables of the layer.
    """
    found = list(x) if isinstance(x, (list, tuple)) else [x]
    if any(type(each).__module__.startswith("tf_keras") for each in found):
        raise TypeError(
            "transformer.keras_layers: expected tensors of Keras 3, got those of "
            "tf_keras; make the model with `import keras`, or unset "
            "TF_USE_LEGACY_KERAS"
        )
    return found


def shapes_of(shape) -> list:
    """Return the shapes of one or more inputs as a list."""
    return list(shape) if isinstance(shape[0], (list, tuple)) else [shape]


def need(
    layer: keras.layers.Layer, name: str, found: Any, fits: bool, expected: str
) -> None:
    """Raise ValueError unless an argument `fits`.

    Args:
      layer: the layer, whose class is named in the message.
      name: the name of the argument.
      found: its value.
      fits: whether the value is allowed.
      expected: what is allowed, in words.
    """
    if not fits:
        raise ValueError(
            f"{type(layer).__name__}: expected {name} to be {expected}, got {found!r}"
        )
