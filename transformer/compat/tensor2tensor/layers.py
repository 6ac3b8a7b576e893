"""The functions of tensor2tensor's common_layers.

Dropout has no switch in tensor2tensor: evaluation uses a rate of 0. A default name that
is taken gets a number (`layer_norm`, `layer_norm_1`); a given name does not.
"""

import contextlib
import functools

import tensorflow.compat.v1 as tf

from transformer.blocks import arguments
from transformer.blocks import layers as block_layers
from transformer.compat.variables import original_variables
from transformer.decoding import SearchOptions, filter_logits
from transformer.training import token_cross_entropies

__all__ = [
    "apply_norm",
    "cast_like",
    "comma_separated_string_to_integer_list",
    "conv1d",
    "conv_hidden_relu",
    "dense",
    "dense_relu_dense",
    "dropout_with_broadcast_dims",
    "embedding",
    "flatten4d3d",
    "layer_norm",
    "layer_norm_vars",
    "layer_postprocess",
    "layer_preprocess",
    "layer_prepostprocess",
    "pad_to_same_length",
    "padded_cross_entropy",
    "sample_with_temperature",
    "shape_list",
    "shift_right",
    "shift_right_2d",
    "shift_right_3d",
    "smoothing_cross_entropy",
    "weights_all",
    "weights_nonzero",
]


def refuse_unsupported(function, *settings):
    """Raise ValueError for an argument whose value is not supported.

    Args:
      function: the name of the function that was called.
      settings: (name, value, the only supported value) of each argument.
    """
    for name, value, expected in settings:
        if value is expected or not tf.is_tensor(value) and value == expected:
            continue
        raise ValueError(f"{function}: expected {name} = {expected!r}, got {value!r}")


@contextlib.contextmanager
def open_scope(name, default_name, reuse=None, initializer=None):
    """Open a variable scope in which blocks create variables like tensor2tensor."""
    with tf.variable_scope(name, default_name, reuse=reuse, initializer=initializer):
        with original_variables("tensor2tensor"):
            yield


def dense(
    x,
    units,
    *,
    activation=None,
    use_bias=True,
    kernel_initializer=None,
    name="dense",
    layer_collection=None,
):
    """Return activation(x W + b), as `tf.layers.dense` does: see `blocks.layers.dense`.

    Args:
      x: float [..., in].
      units: int.
      activation: function of a tensor, or None.
      use_bias: bool.
      kernel_initializer: an initializer; None: the initializer of the scope.
      name: the scope of `kernel` and `bias`; it is numbered if it is taken.

    Raises:
      ValueError: a `layer_collection` is given.
    """
    refuse_unsupported("dense", ("layer_collection", layer_collection, None))
    with open_scope(None, name, initializer=kernel_initializer):
        here = tf.get_variable_scope()
        return block_layers.dense(x, units, use_bias, here, activation)


def conv1d(
    inputs,
    filters,
    kernel_size,
    dilation_rate=1,
    *,
    activation=None,
    use_bias=True,
    kernel_initializer=None,
    padding="VALID",
    name="conv",
):
    """Convolve along T: float [N, T, in] → float [N, T or less, filters].

    Args:
      kernel_size, dilation_rate: int.
      padding: "VALID", "SAME" or "LEFT". "LEFT" keeps the length of `inputs`, and sees
        no later positions; it needs an odd `kernel_size`.
      activation, use_bias, kernel_initializer, name: as in `dense`.
    """
    outputs = _convolve(
        block_layers.expand_dims(inputs, 2),
        filters,
        (kernel_size, 1),
        name,
        padding,
        (dilation_rate, 1),
        use_bias,
        kernel_initializer,
    )
    outputs = tf.squeeze(outputs, 2)
    return outputs if activation is None else activation(outputs)


def _convolve(
    x, filters, size, name, padding, dilation=(1, 1), use_bias=True, initializer=None
):
    """Convolve float [N, H, W, in] with one kernel: float [N, H, W, filters]."""
    if padding == "LEFT":
        if not all(length % 2 for length in size):
            raise ValueError(f"conv: expected odd sizes for padding LEFT, got {size}")
        edges = [2 * (length // 2) * rate for length, rate in zip(size, dilation)]
        x = tf.pad(x, [[0, 0], [edges[0], 0], [edges[1], 0], [0, 0]])
        padding = "VALID"
    with open_scope(None, f"{name}_single", initializer=initializer):
        shape = [*size, x.shape.as_list()[-1], filters]
        kernel = tf.get_variable("kernel", shape)
        x = tf.nn.convolution(
            x, kernel, padding=padding.upper(), dilation_rate=list(dilation)
        )
        return _add_bias(x, filters) if use_bias else x


def _convolve_separably(x, filters, size, name, padding):
    """Convolve each channel separately, then mix the channels: see `_convolve`."""
    width = x.shape.as_list()[-1]
    with open_scope(None, f"{name}_single"):
        x = tf.nn.separable_conv2d(
            x,
            tf.get_variable("depthwise_kernel", [*size, width, 1]),
            tf.get_variable("pointwise_kernel", [1, 1, width, filters]),
            [1, 1, 1, 1],
            padding.upper(),
        )
        return _add_bias(x, filters)


def _add_bias(x, filters):
    """Add the variable `bias` [filters]."""
    bias = tf.get_variable("bias", [filters], initializer=tf.zeros_initializer())
    return tf.nn.bias_add(x, bias)


def conv_hidden_relu(
    inputs,
    hidden_size,
    output_size,
    kernel_size=(1, 1),
    second_kernel_size=(1, 1),
    dropout=0.0,
    *,
    padding="VALID",
    name=None,
):
    """Apply two convolutions, `conv1` and `conv2`, with ReLU and dropout between them.

    Args:
      inputs: float [N, H, W, in] or [N, T, in].
      hidden_size, output_size: int.
      kernel_size, second_kernel_size: (int, int); unless it is (1, 1), the convolution
        is separable.
      dropout: float, the dropout rate between the convolutions.
      padding: "VALID" or "SAME".
      name: the name of the scope.

    Returns:
      float [N, H, W, output_size] or [N, T, output_size].
    """
    with open_scope(name, "conv_hidden_relu"):
        x = inputs if inputs.shape.ndims == 4 else block_layers.expand_dims(inputs, 2)
        for width, size, layer in (
            (hidden_size, kernel_size, "conv1"),
            (output_size, second_kernel_size, "conv2"),
        ):
            is_plain = tuple(size) == (1, 1)
            convolve = _convolve if is_plain else _convolve_separably
            x = convolve(x, width, size, layer, padding)
            if layer == "conv1":
                x = block_layers.dropout(tf.nn.relu(x), dropout)
        return x if inputs.shape.ndims == 4 else tf.squeeze(x, 2)


def embedding(
    x,
    vocab_size,
    dense_size,
    name=None,
    reuse=None,
    multiplier=1.0,
    symbol_dropout_rate=0.0,
    embedding_var=None,
    dtype=tf.float32,
):
    """Turn ids into vectors, with a table `kernel` [V, D] whose gradient is dense.

    Args:
      x: int [N, T] or [N, T, H]; also [N, T, H, 1], whose last dimension is removed.
      vocab_size, dense_size: int, V and D.
      name, reuse: for the variable scope; by default "embedding", numbered.
      multiplier: float, the factor for the vectors.
      symbol_dropout_rate: float, the share of ids that become 0.
      embedding_var: a table to use instead of a new one.

    Raises:
      ValueError: `dtype` is not float32.
    """
    refuse_unsupported("embedding", ("dtype", tf.as_dtype(dtype), tf.float32))
    with open_scope(name, "embedding", reuse):
        if embedding_var is None:
            embedding_var = tf.get_variable("kernel", [vocab_size, dense_size])
        x = tf.convert_to_tensor(x)
        if symbol_dropout_rate:
            keep = tf.random_uniform(tf.shape(x)) < 1.0 - symbol_dropout_rate
            x *= cast_like(keep, x)
        vectors = tf.gather(embedding_var * multiplier, x)
        return tf.squeeze(vectors, 3) if vectors.shape.ndims == 5 else vectors


def flatten4d3d(x):
    """Join two dimensions: [N, H, W, D] → [N, H * W, D]."""
    batch, height, width, depth = shape_list(x)
    return tf.reshape(x, [batch, height * width, depth])


def cast_like(x, y):
    """Cast `x` to the type of `y`."""
    return tf.cast(x, tf.convert_to_tensor(y).dtype.base_dtype)


def pad_to_same_length(x, y, final_length_divisible_by=1, axis=1):
    """Append zeros to the shorter of two tensors, so that both have the same length.

    Args:
      x, y: tensors of rank 2 or more.
      final_length_divisible_by: int; the length becomes a multiple of it.
      axis: 1 or 2, the dimension.

    Raises:
      ValueError: `axis` is neither 1 nor 2.
    """
    final_length_divisible_by = arguments.check_size(
        "pad_to_same_length: final_length_divisible_by", final_length_divisible_by
    )
    if axis not in (1, 2):
        raise ValueError(f"pad_to_same_length: expected axis 1 or 2, got {axis}")
    lengths = [shape_list(tensor)[axis] for tensor in (x, y)]
    if any(tf.is_tensor(length) for length in lengths):
        longest = tf.maximum(*lengths)
    else:
        longest = max(lengths)
    longest += -longest % final_length_divisible_by
    return tuple(
        block_layers.append_zeros(tensor, longest - length, axis)
        for tensor, length in zip((x, y), lengths)
    )


def sample_with_temperature(logits, temperature, sampling_keep_top_k=-1):
    """Sample ids from softmax(logits / temperature); a temperature of 0 is argmax.

    Args:
      logits: float [..., V].
      temperature: float.
      sampling_keep_top_k: int; sample from this many most probable ids; -1: from all.

    Returns:
      int64 [...].

    Raises:
      ValueError: `sampling_keep_top_k` is neither -1 nor positive.
    """
    if sampling_keep_top_k != -1 and sampling_keep_top_k < 1:
        raise ValueError(
            "sample_with_temperature: expected sampling_keep_top_k to be -1 or "
            f"positive, got {sampling_keep_top_k}"
        )
    *leading, vocab_size = shape_list(logits)
    flat = tf.reshape(logits, [-1, vocab_size])
    if not tf.is_tensor(temperature) and temperature == 0.0:
        return tf.reshape(tf.argmax(flat, axis=1), leading)
    options = SearchOptions(temperature=temperature, top_k=max(0, sampling_keep_top_k))
    sampled = tf.random.categorical(filter_logits(flat, options), 1)
    return tf.reshape(sampled, leading)


def shape_list(x):
    """Return the shape of `x` as a list: ints for static sizes, else scalar tensors."""
    x = tf.convert_to_tensor(x)
    return tf.shape(x) if x.shape.ndims is None else block_layers.shape_list(x)


def comma_separated_string_to_integer_list(s):
    """Parse "0,1" as [0, 1]."""
    return [int(number) for number in s.split(",") if number]


def dropout_with_broadcast_dims(
    x, keep_prob, broadcast_dims=None, *, seed=None, name="dropout"
):
    """Zero elements with probability 1 - keep_prob: see `blocks.layers.dropout`.

    Along each of `broadcast_dims`, elements are zeroed together. With a `seed` (int),
    each session gets the same masks in the same order.
    """
    if seed is not None:
        seed = tf.random_uniform([2], maxval=2**31 - 1, dtype=tf.int32, seed=seed)
    return block_layers.dropout(
        x, 1.0 - keep_prob, seed=seed, name=name, broadcast_dims=broadcast_dims or ()
    )


def shift_right(x, pad_value=None):
    """Shift [N, T, ...] along T: zeros or `pad_value` [N, 1, ...] come first."""
    first = tf.zeros_like(x[:, :1]) if pad_value is None else pad_value
    return tf.concat([first, x], axis=1)[:, :-1]


shift_right_3d = shift_right
shift_right_2d = shift_right


def layer_norm_vars(filters):
    """Create the variables `layer_norm_scale` and `layer_norm_bias` [filters]."""
    arguments.refuse_function("layer_norm")
    ones = tf.ones_initializer()
    zeros = tf.zeros_initializer()
    scale = tf.get_variable("layer_norm_scale", [filters], initializer=ones)
    bias = tf.get_variable("layer_norm_bias", [filters], initializer=zeros)
    return scale, bias


def layer_norm(
    x, filters=None, epsilon=1e-6, name=None, reuse=None, layer_collection=None
):
    """Normalize the last axis, `filters` wide: see `blocks.layers.normalize`.

    In eager mode, each call makes new variables, as in tensor2tensor.

    Raises:
      ValueError: `x` is not float [..., D], `filters` is not the width, or a
        `layer_collection` is given.
    """
    width = x.shape.as_list()[-1]
    if width is None and filters is not None:
        width = filters
        x = tf.ensure_shape(x, [*x.shape.as_list()[:-1], filters])
    refuse_unsupported(
        "layer_norm",
        ("filters", width if filters is None else filters, width),
        ("layer_collection", layer_collection, None),
    )
    x = arguments.check_tensor("layer_norm: x", x, "float", "[..., D]")
    with open_scope(name, "layer_norm", reuse):
        scale, bias = layer_norm_vars(width)
        return block_layers.standardize(x, epsilon, scale, bias)


def apply_norm(x, norm_type, depth, epsilon, layer_collection=None):
    """Apply layer normalization ("layer"), or no normalization ("none").

    Raises:
      ValueError: `norm_type` is neither "layer" nor "none".
    """
    if norm_type == "layer":
        return layer_norm(x, depth, epsilon, layer_collection=layer_collection)
    if norm_type != "none":
        raise ValueError(
            f"apply_norm: expected norm_type 'layer' or 'none', got {norm_type!r}"
        )
    return x


def layer_prepostprocess(
    previous_value,
    x,
    sequence,
    dropout_rate,
    norm_type,
    depth,
    epsilon,
    default_name,
    name=None,
    dropout_broadcast_dims=None,
    layer_collection=None,
):
    """Apply a sequence of steps before or after a sub-layer, in order.

    Args:
      previous_value: float [N, T, D], the residual, or None.
      x: float [N, T, D].
      sequence: "none", or letters: "a" adds the residual, "d" applies dropout, "n"
        normalizes.
      dropout_rate: float.
      norm_type, depth, epsilon, layer_collection: as in `apply_norm`.
      default_name, name: of the variable scope.
      dropout_broadcast_dims: dimensions along which elements are zeroed together.

    Raises:
      ValueError: the sequence has an unknown letter.
    """
    drop = functools.partial(
        block_layers.dropout,
        rate=dropout_rate,
        name="residual",
        broadcast_dims=dropout_broadcast_dims or (),
    )
    with open_scope(name, default_name):
        for letter in "" if sequence == "none" else sequence:
            if letter not in "adn":
                raise ValueError(
                    "layer_prepostprocess: expected letters of 'adn', got "
                    f"{letter!r} in sequence = {sequence!r}"
                )
            if letter == "a":
                x = previous_value + tf.cast(x, previous_value.dtype)
            elif letter == "d":
                x = drop(x)
            else:
                x = apply_norm(x, norm_type, depth, epsilon, layer_collection)
    return x


def _apply_sequence(previous_value, x, sequence, hparams, default_name):
    """Apply a sequence of steps with the settings in `hparams`."""
    dims = getattr(hparams, "layer_prepostprocess_dropout_broadcast_dims", "")
    return layer_prepostprocess(
        previous_value,
        x,
        sequence,
        hparams.layer_prepostprocess_dropout,
        hparams.norm_type,
        None,
        hparams.norm_epsilon,
        default_name,
        dropout_broadcast_dims=comma_separated_string_to_integer_list(dims),
    )


def layer_preprocess(layer_input, hparams, layer_collection=None):
    """Apply the steps before a sub-layer.

    Args:
      layer_input: float [N, T, D].
      hparams: an object with layer_preprocess_sequence, layer_prepostprocess_dropout,
        norm_type and norm_epsilon.

    Raises:
      ValueError: the sequence adds a residual, or a `layer_collection` is given.
    """
    sequence = hparams.layer_preprocess_sequence
    refuse_unsupported("layer_preprocess", ("layer_collection", layer_collection, None))
    if sequence != "none" and set(sequence) & {"a", "z"}:
        raise ValueError(
            "layer_preprocess: expected no 'a' or 'z' before a "
            f"sub-layer, got layer_preprocess_sequence = {sequence!r}"
        )
    return _apply_sequence(None, layer_input, sequence, hparams, "layer_prepostprocess")


def layer_postprocess(layer_input, layer_output, hparams):
    """Apply the steps after a sub-layer.

    Args:
      layer_input: float [N, T, D], the residual.
      layer_output: float [N, T, D].
      hparams: as in `layer_preprocess`, with layer_postprocess_sequence.
    """
    sequence = hparams.layer_postprocess_sequence
    return _apply_sequence(
        layer_input, layer_output, sequence, hparams, "layer_postprocess"
    )


def dense_relu_dense(
    inputs,
    filter_size,
    output_size,
    output_activation=None,
    dropout=0.0,
    dropout_broadcast_dims=None,
    layer_collection=None,
    name=None,
):
    """Apply the dense layers `conv1` and `conv2`, with ReLU and dropout between them.

    Raises:
      ValueError: a `layer_collection` is given.
    """
    refuse_unsupported("dense_relu_dense", ("layer_collection", layer_collection, None))
    prefix = f"{name}_" if name else ""
    x = dense(inputs, filter_size, activation=tf.nn.relu, name=prefix + "conv1")
    x = block_layers.dropout(x, dropout, broadcast_dims=dropout_broadcast_dims or ())
    x = dense(x, output_size, name=prefix + "conv2")
    return x if output_activation is None else output_activation(x)


def weights_nonzero(labels):
    """Return 1 for tokens and 0 for padding: float32 in the shape of `labels`."""
    return tf.cast(tf.not_equal(labels, 0), tf.float32)


def weights_all(labels):
    """Return 1 for each label: float32 in the shape of `labels`."""
    return tf.ones_like(labels, dtype=tf.float32)


def smoothing_cross_entropy(logits, labels, vocab_size, confidence, gaussian=False):
    """Return the cross entropy of each label, including padding: float [...].

    Args:
      logits: float [..., vocab_size].
      labels: int [...].
      vocab_size: int.
      confidence: float, the probability of the true label.

    Raises:
      ValueError: `gaussian` is True, or `vocab_size` is not the width of the logits.
    """
    refuse_unsupported(
        "smoothing_cross_entropy",
        ("gaussian", gaussian, False),
        ("vocab_size", vocab_size, logits.shape.as_list()[-1]),
    )
    return _label_losses(logits, labels, 1.0 - confidence)


def _label_losses(logits, labels, epsilon):
    """Return the loss of each label, smoothed as in tensor2tensor: float [...]."""
    if tf.is_tensor(epsilon):
        raise ValueError(f"label smoothing: expected a Python number, got {epsilon}")
    losses = token_cross_entropies(logits, tf.reshape(labels, [-1]), epsilon, "others")
    return tf.reshape(losses, shape_list(labels))


def padded_cross_entropy(
    logits,
    labels,
    label_smoothing,
    weights_fn=weights_nonzero,
    reduce_sum=True,
    cutoff=0.0,
    gaussian=False,
):
    """Return the sums of the losses and of the weights: see `training`.

    Args:
      logits: float [N, T, ..., V].
      labels: int [N, T, ...]; if T (or the last dimension, if there are three) differs
        from that of the logits, zeros are appended to the shorter.
      label_smoothing: float.
      weights_fn: function from labels to their weights.
      reduce_sum: if False, return the loss and the weight of each label, float
        [N, T, ...].

    Raises:
      ValueError: `cutoff` or `gaussian` is given.
    """
    refuse_unsupported(
        "padded_cross_entropy", ("cutoff", cutoff, 0.0), ("gaussian", gaussian, False)
    )
    if logits.shape.ndims == 2:
        labels = tf.reshape(labels, [-1])
    else:
        for axis in (1, 2) if labels.shape.ndims == 3 else (1,):
            logits, labels = pad_to_same_length(logits, labels, axis=axis)
    logits = tf.reshape(logits, shape_list(labels) + shape_list(logits)[-1:])
    losses = _label_losses(tf.cast(logits, tf.float32), labels, label_smoothing)
    weights = weights_fn(labels)
    losses *= weights
    if not reduce_sum:
        return losses, weights
    return tf.reduce_sum(losses), tf.reduce_sum(weights)
