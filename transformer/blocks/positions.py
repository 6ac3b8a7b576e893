"""Position encodings: POSITIONS maps each name to a function.

A function takes the positions, int [T], and the width D, and returns float32 [T, D].
It takes positions in float64, too, and then computes and returns float64.
"""

import math

import tensorflow.compat.v1 as tf

from transformer.blocks.layers import expand_dims
from transformer.dialects import Dialect
from transformer.runtime.names import refuse_unknown

LEARNED = "learned"  # a table of variables instead of a function
QUARTER_TURN = 2**30  # in units of 1 / 2^32 of a turn


def interleaved_sinusoids(positions, num_units: int):
    """Compute sin(p / 10000^(2i/D)) in channel 2i, the cosine in 2i+1 (section 3.5)."""
    pairs = (num_units + 1) // 2
    rates = 10000.0 ** (-2.0 * tf.range(pairs, dtype=tf.float64) / num_units)  # [D/2]
    table = tf.stack(sines_and_cosines(positions, rates), axis=-1)  # [T, D/2, 2]
    table = tf.reshape(table, [-1, 2 * pairs])
    return table[:, :num_units] if num_units % 2 else table  # [T, D]


def per_channel_sinusoids(positions, num_units: int):
    """Compute the tutorial's encoding; channel i has the angle p / 10000^(2i/D).

    Here i is the channel, so a sine and its cosine have different frequencies, and the
    exponents go up to 2.
    """
    channels = tf.range(num_units)
    rates = 10000.0 ** (-2.0 * tf.cast(channels, tf.float64) / num_units)  # [D]
    return tf.where_v2(tf.equal(channels % 2, 0), *sines_and_cosines(positions, rates))


def concatenated_sinusoids(
    positions,
    num_units: int,
    min_timescale: float = 1.0,
    max_timescale: float = 10000.0,
):
    """Compute tensor2tensor's encoding: all sines, then all cosines.

    The slowest rate is exactly 1/10000. If the width is odd, the last channel is zero.
    The width may be a tensor.
    (As in tensor2tensor, `min_timescale` multiplies the rates.)
    """
    pairs = num_units // 2
    is_dynamic = tf.is_tensor(num_units)
    if is_dynamic:
        pairs = tf.cast(pairs, tf.float64)
        intervals = tf.maximum(pairs - 1, 1)
    else:
        intervals = max(1, pairs - 1)
    step = math.log(max_timescale / min_timescale) / intervals
    rates = min_timescale * tf.exp(-step * tf.range(pairs, dtype=tf.float64))  # [D/2]
    table = tf.concat(sines_and_cosines(positions, rates), axis=1)
    if is_dynamic or num_units % 2:
        table = tf.pad(table, [[0, 0], [0, num_units % 2]])
    return table  # [T, D]


def sines_and_cosines(positions, rates) -> tuple:
    """Compute the sine and the cosine of each position times each rate.

    A float32 angle is wrong by 6e-5 at position 1,000. Float64 angles are right, but
    LiteRT has no float64. So the angles of integer positions are integers, in units of
    1 / 2^32 of a turn: an int32 product that overflows loses whole turns only.

    Args:
      positions: int [T]; or float [T], whose angles are float64.
      rates: float64 [R], in radians.

    Returns:
      (float [T, R], float [T, R]): float32, right to 1.2e-7, for int positions;
      otherwise float64.
    """
    positions = tf.convert_to_tensor(positions)
    if not positions.dtype.is_integer:
        angles = expand_dims(tf.cast(positions, tf.float64), 1) * rates  # [T, R]
        return tf.sin(angles), tf.cos(angles)
    turns = rates / (2 * math.pi)
    units = (turns - tf.round(turns)) * 2.0**32
    positions = expand_dims(tf.cast(positions, tf.int32), 1)  # [T, 1]
    rest = tf.cast(positions, tf.float32) * tf.cast(units - tf.floor(units), tf.float32)
    angles = positions * tf.cast(tf.floor(units), tf.int32)  # [T, R]
    angles += tf.cast(tf.round(rest), tf.int32)

    def sine(angles):
        # sin(x) = sin(pi / 2 - |x - pi / 2|), an angle within a quarter of a turn.
        angles = QUARTER_TURN - tf.abs(angles - QUARTER_TURN)
        return tf.sin(tf.cast(angles, tf.float32) * (math.pi / 2 / QUARTER_TURN))

    return sine(angles), sine(angles + QUARTER_TURN)


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

    Raises:
      SettingsError: there is no such encoding.
    """
    refuse_unknown("positions", name, [*POSITIONS, LEARNED, ""])
    return name or (LEARNED if dialect.learned_positions else dialect.positions)
