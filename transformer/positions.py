"""Position encodings: POSITIONS maps a name to a function of positions.

Each takes the positions, float64 [T], and the width D, and returns float64 [T, D].
"""
import tensorflow.compat.v1 as tf


def sinusoid(positions, num_units):
    """Section 3.5: sin(p / 10000^(2i/D)) in channel 2i, the cosine in channel 2i+1.

    Args:
      positions: float64 [T].
      num_units: int, D, even or odd.

    Returns:
      float64 [T, D].
    """
    pairs = (num_units + 1) // 2
    rates = 10000.0 ** (-2.0 * tf.range(pairs, dtype=tf.float64) / num_units)  # [D/2]
    angles = positions[:, None] * rates[None, :]                          # [T, D/2]
    table = tf.stack([tf.sin(angles), tf.cos(angles)], axis=-1)           # [T, D/2, 2]
    return tf.reshape(table, [-1, 2 * pairs])[:, :num_units]              # [T, D]


POSITIONS = {"sinusoid": sinusoid}
