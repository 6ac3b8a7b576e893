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
        # Not `+ beta`: the graph optimizer of TensorFlow 2.16 fails on that form.
        return tf.nn.bias_add(_standardize(inputs, epsilon) * gamma, beta)


def _standardize(inputs, epsilon):
    """Return mean 0 and variance 1 along the last axis, with an exact gradient.

    The gradient that TensorFlow derives loses digits where the variance is small: in
    float32 it is off by 3e-5 in a case that tensor2tensor has recorded.
    """

    @tf.custom_gradient
    def standardized(x):
        centred = x - tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
        scale = tf.rsqrt(variance + epsilon)
        outputs = centred * scale

        def gradient(upstream):
            along = tf.reduce_mean(upstream * outputs, -1, keepdims=True) * scale
            upstream = upstream * scale
            shared = tf.reduce_mean(upstream, -1, keepdims=True)
            return upstream - outputs * along - shared

        return outputs, gradient

    return standardized(inputs)


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
