"""Position encodings: POSITIONS maps each name to a function.

A function takes the positions, float64 [T], and the width D, and returns float64
[T, D].
"""

import math

import tensorflow.compat.v1 as tf

from transformer.dialects import Dialect

LEARNED = "learned"  # a table of variables instead of a function


def interleaved_sinusoids(positions, num_units: int):
    """Compute sin(p / 10000^(2i/D)) in channel 2i, the cosine in 2i+1 (section 3.5)."""
    pairs = (num_units + 1) // 2
    rates = 10000.0 ** (-2.0 * tf.range(pairs, dtype=tf.float64) / num_units)  # [D/2]
    angles = positions[:, None] * rates[None, :]  # [T, D/2]
    table = tf.stack([tf.sin(angles), tf.cos(angles)], axis=-1)  # [T, D/2, 2]
    return tf.reshape(table, [-1, 2 * pairs])[:, :num_units]  # [T, D]


def per_channel_sinusoids(positions, num_units: int):
    """Compute the tutorial's encoding; channel i has the angle p / 10000^(2i/D).

    Here i is the channel, so a sine and its cosine have different frequencies, and the
    exponents go up to 2.
    """
    channels = tf.range(num_units)
    rates = 10000.0 ** (-2.0 * tf.cast(channels, tf.float64) / num_units)  # [D]
    angles = positions[:, None] * rates[None, :]  # [T, D]
    return tf.where_v2(tf.equal(channels % 2, 0), tf.sin(angles), tf.cos(angles))


def concatenated_sinusoids(
    positions,
    num_units: int,
    min_timescale: float = 1.0,
    max_timescale: float = 10000.0,
):
    """Compute tensor2tensor's encoding: all sines, then all cosines.

    The slowest rate is exactly 1/10000. If the width is odd, the last channel is zero.
    (As in tensor2tensor, `min_timescale` multiplies the rates.)
    """
    pairs = num_units // 2
    step = math.log(max_timescale / min_timescale) / max(1, pairs - 1)
    rates = min_timescale * tf.exp(-step * tf.range(pairs, dtype=tf.float64))  # [D/2]
    angles = positions[:, None] * rates[None, :]  # [T, D/2]
    table = tf.concat([tf.sin(angles), tf.cos(angles)], axis=1)
    return tf.pad(table, [[0, 0], [0, num_units % 2]])  # [T, D]


POSITIONS = {
    "interleaved": interleaved_sinusoids,
    "per_channel": per_channel_sinusoids,
    "halves": concatenated_sinusoids,
}


def choose_positions(name: str, dialect: Dialect) -> str:
    """Choose the position encoding of a model: a key of POSITIONS, or LEARNED.

    Args:
      name: the setting `positions`: a key of POSITIONS, LEARNED, or "" for the encoding
        of the dialect.
      dialect: a Dialect.
    """
    return name or (LEARNED if dialect.learned_positions else dialect.positions)
