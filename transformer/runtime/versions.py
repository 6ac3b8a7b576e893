"""Which TensorFlow this is: genuine 1.15, or 2 through `tensorflow.compat.v1`."""

import tensorflow.compat.v1 as tf

IS_TENSORFLOW_1 = tf.__version__.startswith("1.")
