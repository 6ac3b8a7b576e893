"""Mixed precision: the compute type of a model whose variables are float32.

With a custom getter, `tf.get_variable` returns a kernel, a bias or a table cast to the
compute type, so that products, and the operations between them, use this type. The
variables themselves, and those of the optimizer, stay float32 under their names. The
blocks compute normalization, softmax and the residual sum in float32.
"""

from typing import Callable, Optional

import tensorflow.compat.v1 as tf

from transformer.runtime.devices import has_gpu
from transformer.runtime.errors import SettingsError
from transformer.runtime.versions import IS_TENSORFLOW_1

PRECISIONS = ("float32", "bfloat16", "float16")
CAST_VARIABLES = ("kernel", "bias", "lookup_table")  # last parts of their names


def compute_type(precision: str, setting: str = "precision") -> tf.DType:
    """Resolve the type in which a model computes.

    float16 is slow on a CPU; use it there only to test what a GPU computes.

    Args:
      precision: one of PRECISIONS.
      setting: the name of the setting, for the message.

    Raises:
      SettingsError: this TensorFlow cannot compute in this precision.
    """
    # On a CPU, products of TensorFlow 1.15 sum in float16.
    if IS_TENSORFLOW_1 and precision != "float32":
        if precision == "bfloat16" or not has_gpu():
            where = "" if precision == "bfloat16" else " on a CPU"
            raise SettingsError(
                f"{setting}: expected float32, got {precision}: TensorFlow "
                f"{tf.__version__} cannot compute in {precision}{where}"
            )
    return tf.as_dtype(precision)


def make_getter(dtype: tf.DType) -> Optional[Callable]:
    """Make a custom getter that casts variables to `dtype` where they are used.

    Returns:
      The argument for `tf.variable_scope(custom_getter=...)`; None for float32.
    """
    if dtype == tf.float32:
        return None

    def cast(getter, name, *args, **kwargs):
        variable = getter(name, *args, **kwargs)
        if name.split("/")[-1] not in CAST_VARIABLES:
            return variable
        with tf.init_scope():  # once, not in every step of a search
            return tf.cast(variable, dtype)

    return cast
