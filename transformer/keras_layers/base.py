"""What the Keras layers share: their backend, their name on disk, lists of inputs.

Keras 3 runs on several backends; the layers here compute with TensorFlow.
"""

import keras

if keras.backend.backend() != "tensorflow":
    raise ImportError(
        "transformer.keras_layers: found the Keras backend "
        f"{keras.backend.backend()!r}, wanted 'tensorflow'"
    )

# Saved as `transformer>SelfAttention`, whatever file the class is in; and, where
# `compat.bojone_keras` has a class of the same name, as `bojone>Attention`.
serializable = keras.saving.register_keras_serializable(package="transformer")
serializable_of_bojone = keras.saving.register_keras_serializable(package="bojone")


def as_list(x):
    """Return one or several inputs, or masks, as a list."""
    return list(x) if isinstance(x, (list, tuple)) else [x]


def shapes_of(shape):
    """Return the shapes of one or several inputs as a list."""
    return list(shape) if isinstance(shape[0], (list, tuple)) else [shape]


def need(layer, name, found, fits, wanted):
    """Raise ValueError, with what was found and wanted, unless it `fits`."""
    if not fits:
        raise ValueError(
            f"{type(layer).__name__}: found {name} = {found!r}, wanted {wanted}"
        )
