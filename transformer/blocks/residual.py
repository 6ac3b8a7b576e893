"""Layer normalization, and the steps around a sub-layer: dropout, add, normalize."""

import tensorflow.compat.v1 as tf


def normalize(inputs, epsilon=1e-8, scope="ln", reuse=None):
    """Return (x - mean) / sqrt(variance + epsilon) * gamma + beta: layer normalization.

    Args:
      inputs: float [..., D]; mean and (biased) variance are over the last axis.
      epsilon: float, inside the root.
      scope, reuse: of the variables `gamma` [D], ones at first, and `beta` [D], zeros.

    Returns:
      float [..., D]. `[[1., 3.]]` gives `[[-1., 1.]]` at first.

    Source: Ba, Kiros, Hinton 2016.
    """
    width = [inputs.shape.as_list()[-1]]
    with tf.variable_scope(scope, reuse=reuse):
        gamma = tf.get_variable("gamma", width, initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", width, initializer=tf.zeros_initializer())
        centred = inputs - tf.reduce_mean(inputs, -1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
        standardized = centred * tf.rsqrt(variance + epsilon)
        # Not `+ beta`: the graph optimizer of TensorFlow 2.16 fails on that form.
        return tf.nn.bias_add(standardized * gamma, beta)


def apply_steps(steps, x, residual, dialect, drop):
    """Apply the steps of a dialect before or after a sub-layer, in their order.

    Args:
      steps: some of "dropout", "add", "norm".
      x: float [N, T, D].
      residual: float [N, T, D], what "add" adds.
      dialect: a Dialect.
      drop: function of a tensor and the name of its dropout.
    """
    for step in steps:
        if step == "dropout":
            x = drop(x, name="residual")
        elif step == "add":
            x = residual + x
        elif step == "norm":
            x = normalize(x, dialect.norm_epsilon)
        else:
            raise ValueError(
                f"a step of a dialect: found {step!r}, wanted 'dropout', 'add' or "
                "'norm'"
            )
    return x
