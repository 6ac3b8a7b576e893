"""The biases and timing signals of tensor2tensor, and the inputs of its encoder.

A bias is added to the logits of attention: 0 where a query may attend, otherwise -1e9.
"""

import tensorflow.compat.v1 as tf

from transformer.blocks.arguments import check_size, refuse_function
from transformer.blocks.layers import expand_dims
from transformer.blocks.masks import mask_to_bias, nonzero_rows, proximity_bias
from transformer.blocks.positions import concatenated_sinusoids
from transformer.compat.tensor2tensor.layers import cast_like, embedding, shape_list

__all__ = [
    "add_positional_embedding",
    "add_timing_signal_1d",
    "add_timing_signal_1d_given_position",
    "add_timing_signal_nd",
    "attention_bias_ignore_padding",
    "attention_bias_local",
    "attention_bias_lower_triangle",
    "attention_bias_proximal",
    "attention_bias_same_segment",
    "attention_bias_to_padding",
    "embedding_to_padding",
    "get_timing_signal_1d",
    "transformer_prepare_encoder",
]


def get_timing_signal_1d(
    length, channels, min_timescale=1.0, max_timescale=1.0e4, start_index=0
):
    """Return the sinusoids from position `start_index` on: [1, length, channels].

    See `positions.concatenated_sinusoids`, whose angles are more precise than the
    float32 of the original. `length`, `channels` and `start_index` may be tensors.
    """
    length, channels = (
        size if tf.is_tensor(size) else check_size("get_timing_signal_1d", size, 0)
        for size in (length, channels)
    )
    positions = tf.range(length) + start_index
    signal = concatenated_sinusoids(positions, channels, min_timescale, max_timescale)
    return expand_dims(tf.cast(signal, tf.float32), 0)


def add_timing_signal_1d(x, min_timescale=1.0, max_timescale=1.0e4, start_index=0):
    """Add the result of `get_timing_signal_1d` to float [N, T, D]."""
    _, length, width = shape_list(x)
    signal = get_timing_signal_1d(
        length, width, min_timescale, max_timescale, start_index
    )
    return x + tf.cast(signal, x.dtype)


def add_timing_signal_1d_given_position(
    x, position, min_timescale=1.0, max_timescale=1.0e4
):
    """Add the sinusoids of positions, int or float [N, T], to float [N, T, D]."""
    signal = concatenated_sinusoids(
        tf.reshape(position, [-1]), shape_list(x)[-1], min_timescale, max_timescale
    )
    return x + tf.cast(tf.reshape(signal, shape_list(x)), x.dtype)


def add_timing_signal_nd(x, min_timescale=1.0, max_timescale=1.0e4):
    """Add sinusoids for n positions to float [N, T1, ..., Tn, D].

    The channels are divided among the dimensions. Each dimension has sines, then
    cosines.
    """
    *lengths, width = shape_list(x)[1:]
    pairs = width // (2 * len(lengths))
    for i, length in enumerate(lengths):
        signal = concatenated_sinusoids(
            tf.range(length), 2 * pairs, min_timescale, max_timescale
        )
        first = 2 * pairs * i  # the first channel of this dimension
        signal = tf.pad(signal, [[0, 0], [first, width - first - 2 * pairs]])
        later_dims = [1] * (len(lengths) - 1 - i)
        x += tf.cast(tf.reshape(signal, [length, *later_dims, width]), x.dtype)
    return x


def add_positional_embedding(x, max_length, name=None, positions=None):
    """Add learned positions, the variable `name` [max_length, D], to [N, T, D].

    Args:
      x: float [N, T, D].
      max_length: int; later positions get zeros.
      name: the name of the variable.
      positions: int [N, T], below `max_length`; by default 0, 1, ...
    """
    _, length, width = shape_list(x)
    refuse_function("add_positional_embedding")
    max_length = check_size("add_positional_embedding: max_length", max_length)
    table = tf.cast(tf.get_variable(name, [max_length, width]), x.dtype)
    if positions is not None:
        return x + tf.gather(table, tf.cast(positions, tf.int32))
    table = tf.pad(table, [[0, tf.maximum(0, length - max_length)], [0, 0]])
    return x + table[None, :length]


def transformer_prepare_encoder(
    inputs,
    target_space,
    hparams,
    features=None,
    type_ids=None,
    num_types=None,
    reuse_target_embedding=tf.AUTO_REUSE,
):
    """Add positions, the target language and types to embeddings, and make the biases.

    Args:
      inputs: float [N, S, D]; rows of zeros are padding.
      target_space: int scalar below 32, or None.
      hparams: an object with `pos` ("timing", "emb" or None) and `proximity_bias`; for
        "emb", also `max_length`; optionally `unidirectional_encoder` and
        `use_target_space_embedding`.
      features: dict; for packed sentences, it has `inputs_segmentation`,
        `inputs_position` and `targets_segmentation`.
      type_ids, num_types: int [N, S] and the number of types, or None.
      reuse_target_embedding: for the table `target_space_embedding`.

    Returns:
      (float [N, S, D], the bias for the encoder's self-attention, the bias for the
      decoder's attention to the encoder).

    Raises:
      ValueError: `pos` is unknown, or `type_ids` are given without `num_types`.
    """
    if hparams.pos not in ("timing", "emb", "none", None):
        raise ValueError(
            "transformer_prepare_encoder: expected pos = 'timing', 'emb' or None, "
            f"got {hparams.pos!r}"
        )
    if type_ids is not None and not num_types:
        raise ValueError("transformer_prepare_encoder: num_types is missing")
    _, length, width = shape_list(inputs)
    positions = None
    if features and "inputs_segmentation" in features:
        segments = features["inputs_segmentation"]
        positions = features["inputs_position"]
        self_bias = attention_bias_same_segment(segments, segments)
        memory_bias = attention_bias_same_segment(
            features["targets_segmentation"], segments
        )
    else:
        self_bias = attention_bias_ignore_padding(embedding_to_padding(inputs))
        memory_bias = self_bias
    if getattr(hparams, "unidirectional_encoder", False):
        self_bias = attention_bias_lower_triangle(length)
    if hparams.proximity_bias:
        self_bias += attention_bias_proximal(length)
    x = inputs
    if target_space is not None and getattr(
        hparams, "use_target_space_embedding", True
    ):
        x += embedding(
            tf.reshape(target_space, [1, 1]),
            32,
            width,
            name="target_space_embedding",
            reuse=reuse_target_embedding,
        )
    if hparams.pos == "timing" and positions is None:
        x = add_timing_signal_1d(x)
    elif hparams.pos == "timing":
        x = add_timing_signal_1d_given_position(x, positions)
    elif hparams.pos == "emb":
        name = "inputs_positional_embedding"
        x = add_positional_embedding(x, hparams.max_length, name, positions)
    if type_ids is not None:
        x = add_positional_embedding(x, num_types, "inputs_type_embedding", type_ids)
    return x, cast_like(self_bias, x), cast_like(memory_bias, x)


def embedding_to_padding(emb):
    """Return 1 where a vector is all zeros, else 0: float [..., D] → float32 [...]."""
    return tf.cast(tf.logical_not(nonzero_rows(emb)), tf.float32)


def attention_bias_local(length, max_backward, max_forward):
    """Return -1e9 for keys too far from the query, else 0: float32 [1, 1, T, T].

    A negative distance has no limit.
    """
    is_near = tf.linalg.band_part(tf.ones([length, length]), max_backward, max_forward)
    return expand_dims(mask_to_bias(is_near), 0, 0)


def attention_bias_lower_triangle(length):
    """Return -1e9 for keys after the query, else 0: float32 [1, 1, T, T]."""
    return attention_bias_local(length, -1, 0)


def attention_bias_same_segment(query_segment_id, memory_segment_id):
    """Return -1e9 for keys in other segments, else 0: [N, 1, Tq, Tk]."""
    is_same = tf.equal(
        expand_dims(query_segment_id, 2), expand_dims(memory_segment_id, 1)
    )
    return expand_dims(mask_to_bias(is_same), 1)


def attention_bias_ignore_padding(memory_padding):
    """Return -1e9 for keys whose padding, float [N, Tk], is not 0: [N, 1, 1, Tk]."""
    return expand_dims(mask_to_bias(tf.equal(memory_padding, 0)), 1, 1)


def attention_bias_to_padding(
    attention_bias, cast_fn=lambda padding: tf.cast(padding, tf.float32)
):
    """Return the padding [N, Tk] of a bias [N, 1, 1, Tk]."""
    return tf.squeeze(cast_fn(tf.less(attention_bias, -1)), axis=[1, 2])


def attention_bias_proximal(length):
    """Return -log(1 + distance), a bias towards near keys: float32 [1, 1, T, T]."""
    return proximity_bias(tf.range(length))
