"""The biases and timing signals of tensor2tensor's common_attention.

A bias is added to the logits of attention: 0 where a query may attend, -1e9 where not.
"""

import tensorflow.compat.v1 as tf

from transformer.blocks.attention import lowering
from transformer.blocks.masks import broadcast_keys, found_mask, proximity_bias
from transformer.blocks.positions import halves
from transformer.compat.tensor2tensor_layers import shape_list


def get_timing_signal_1d(
    length, channels, min_timescale=1.0, max_timescale=1.0e4, start_index=0
):
    """Return the sinusoids of positions start_index, ...: [1, length, channels].

    See `positions.halves`; angles are float64 here, float32 there.
    """
    positions = tf.cast(tf.range(length) + start_index, tf.float64)
    signal = halves(positions, channels, min_timescale, max_timescale)
    return tf.cast(signal, tf.float32)[None]


def add_timing_signal_1d(x, min_timescale=1.0, max_timescale=1.0e4, start_index=0):
    """Add `get_timing_signal_1d` to float [N, T, D]."""
    _, length, width = shape_list(x)
    signal = get_timing_signal_1d(
        length, width, min_timescale, max_timescale, start_index
    )
    return x + tf.cast(signal, x.dtype)


def add_timing_signal_1d_given_position(
    x, position, min_timescale=1.0, max_timescale=1.0e4
):
    """Add the sinusoids of positions, int or float [N, T], to float [N, T, D]."""
    places = tf.cast(tf.reshape(position, [-1]), tf.float64)
    signal = halves(places, shape_list(x)[-1], min_timescale, max_timescale)
    return x + tf.cast(tf.reshape(signal, shape_list(x)), x.dtype)


def embedding_to_padding(emb):
    """Return 1 where a vector is all zeros, else 0: float [..., D] → float32 [...]."""
    return tf.cast(tf.logical_not(found_mask(emb)), tf.float32)


def attention_bias_local(length, max_backward, max_forward):
    """Return -1e9 for keys too far from the query, else 0: float32 [1, 1, T, T].

    A negative distance has no limit.
    """
    near = tf.linalg.band_part(tf.ones([length, length]), max_backward, max_forward)
    return lowering(near)[None, None]


def attention_bias_lower_triangle(length):
    """Return -1e9 for keys after the query, else 0: float32 [1, 1, T, T]."""
    return attention_bias_local(length, -1, 0)


def attention_bias_same_segment(query_segment_id, memory_segment_id):
    """Return -1e9 for keys of other segments, else 0: [N, 1, Tq, Tk]."""
    same = tf.equal(query_segment_id[:, :, None], memory_segment_id[:, None, :])
    return lowering(same)[:, None]


def attention_bias_ignore_padding(memory_padding):
    """Return -1e9 for keys whose padding, float [N, Tk], is not 0: [N, 1, 1, Tk]."""
    return lowering(broadcast_keys(tf.equal(memory_padding, 0)))


def attention_bias_to_padding(
    attention_bias, cast_fn=lambda padding: tf.cast(padding, tf.float32)
):
    """Return the padding [N, Tk] of what `attention_bias_ignore_padding` returns."""
    return tf.squeeze(cast_fn(tf.less(attention_bias, -1)), axis=[1, 2])


def attention_bias_proximal(length):
    """Return -log(1 + distance), a bias for near keys: float32 [1, 1, T, T]."""
    return proximity_bias(tf.range(length))
