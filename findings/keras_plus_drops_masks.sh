#!/usr/bin/env bash
# Keras 3.15.1: `x + y` drops the mask of an embedding, keras.layers.Add()([x, y]) keeps it.
# Guessed: they are the same. Seen: after `+`, padding counts in the mean over positions, without a
# warning; other layers that drop a mask warn. (In half precision, Keras also rounds floating-point
# inputs such as lengths: in mixed_float16, 4097 becomes 4096.)
# Met by: whoever writes a residual connection with `+` in a functional model. transformer.keras_layers
# warn of it, and take lengths and origins as they are.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet keras==3.15.1 tensorflow-cpu==2.21.0

TF_CPP_MIN_LOG_LEVEL=3 env/bin/python -W error::UserWarning - 2> /dev/null <<'PYTHON'
import keras
import numpy as np

ids = keras.Input([None], dtype="int32")
x = keras.layers.Embedding(10, 4, mask_zero=True)(ids)


def change_by_padding(total):
    model = keras.Model(ids, keras.layers.GlobalAveragePooling1D()(total))
    short, padded = np.array([[5, 6]]), np.array([[5, 6, 0, 0]])
    return float(np.abs(model.predict(short, verbose=0) - model.predict(padded, verbose=0)).max())


by_layer = change_by_padding(keras.layers.Add()([x, x]))
by_plus = change_by_padding(x + x)
print(f"padding changes the mean by {by_layer:.3f} after Add, by {by_plus:.3f} after +")
assert by_layer < 1e-6 < 1e-3 < by_plus


class Lengths(keras.layers.Layer):
    def call(self, lengths):
        return keras.ops.cast(lengths, "float32")


rounded = float(Lengths(dtype="mixed_float16")(np.array([4097.0], np.float32))[0])
print("mixed_float16: a layer that is called with the length 4097 gets", rounded)
assert rounded == 4096
PYTHON
