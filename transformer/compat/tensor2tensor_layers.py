"""The functions of tensor2tensor's common_layers.

There, dropout has no switch: an evaluation has the rate 0. A name that is a default is
numbered where it is taken (`layer_norm`, `layer_norm_1`); a name that is given is not.
"""

import contextlib
import functools

import tensorflow.compat.v1 as tf

from transformer import modules
from transformer.blocks import primitives, shapes
from transformer.compat.variables import variables_named_as
from transformer.training import cross_entropies

STEPS = {"a": "add", "d": "dropout", "n": "norm"}


def refuse(function, *settings):
    """Raise ValueError for a setting that has no counterpart here.

    Args:
      function: name of the function that was called.
      settings: (name, what was found, the one value that is wanted).
    """
    for name, found, wanted in settings:
        if found is wanted or not tf.is_tensor(found) and found == wanted:
            continue
        raise ValueError(f"{function}: found {name} = {found!r}, wanted {wanted!r}")


@contextlib.contextmanager
def scope_of(name, default_name, reuse=None):
    """Open a variable scope in which blocks make the variables of tensor2tensor."""
    with tf.variable_scope(name, default_name, reuse=reuse) as scope:
        with variables_named_as("tensor2tensor"):
            yield scope


def dense_layer(x, units, use_bias, name, activation=None):
    """Return activation(x W + b): `kernel` and `bias` in a scope that is numbered."""
    with scope_of(None, name):
        here = tf.get_variable_scope()
        return primitives.dense(x, units, use_bias, here, activation)


def shape_list(x):
    """Return the shape of `x` as a list: ints where known, else scalar tensors."""
    x = tf.convert_to_tensor(x)
    return tf.shape(x) if x.shape.ndims is None else shapes.shape_list(x)


def comma_separated_string_to_integer_list(s):
    """Return the numbers of "0,1" as a list."""
    return [int(number) for number in s.split(",") if number]


def dropout_with_broadcast_dims(x, keep_prob, broadcast_dims=None):
    """Zero elements with probability 1 - keep_prob: see `primitives.dropout`.

    Along each of `broadcast_dims`, elements are zeroed together.
    """
    return primitives.dropout(x, 1.0 - keep_prob, shared=broadcast_dims or ())


def shift_right(x, pad_value=None):
    """Shift [N, T, 1, D] along T: zeros or `pad_value` [N, 1, 1, D] come first."""
    return _shifted(x, pad_value)


def shift_right_3d(x, pad_value=None):
    """Shift [N, T, D] along T: zeros or `pad_value` [N, 1, D] come first."""
    return _shifted(x, pad_value)


def shift_right_2d(x, pad_value=None):
    """Shift [N, T] along T: zeros or `pad_value` [N, 1] come first."""
    return _shifted(x, pad_value)


def _shifted(x, first):
    """Return `x` one position later along axis 1; the last position is left out."""
    if first is None:
        first = tf.zeros_like(x[:, :1])
    return tf.concat([first, x], axis=1)[:, :-1]


def layer_norm_vars(filters):
    """Make the variables `layer_norm_scale` and `layer_norm_bias` [filters]."""
    ones, zeros = tf.ones_initializer(), tf.zeros_initializer()
    scale = tf.get_variable("layer_norm_scale", [filters], initializer=ones)
    bias = tf.get_variable("layer_norm_bias", [filters], initializer=zeros)
    return scale, bias


def layer_norm(
    x, filters=None, epsilon=1e-6, name=None, reuse=None, layer_collection=None
):
    """Normalize the last axis: see `modules.normalize`.

    Raises:
      ValueError: `filters` other than the width; a `layer_collection`.
    """
    width = x.shape.as_list()[-1]
    refuse(
        "layer_norm",
        ("filters", width if filters is None else filters, width),
        ("layer_collection", layer_collection, None),
    )
    with scope_of(name, "layer_norm", reuse):
        layer_norm_vars(width)  # in their order; the block has another
        return modules.normalize(x, epsilon, "norm", reuse=True)


def apply_norm(x, norm_type, depth, epsilon, layer_collection=None):
    """Normalize by "layer", or not at all by "none".

    Raises:
      ValueError: another `norm_type`.
    """
    if norm_type == "layer":
        return layer_norm(x, depth, epsilon, layer_collection=layer_collection)
    if norm_type != "none":
        raise ValueError(
            f"apply_norm: found norm_type = {norm_type!r}, wanted 'layer' or 'none'"
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
    """Apply the steps of a sequence before or after a sub-layer, in their order.

    Args:
      previous_value: float [N, T, D], the residual, or None.
      x: float [N, T, D].
      sequence: "none", or letters: a adds the residual, d is dropout, n normalizes.
      dropout_rate: float.
      norm_type, depth, epsilon, layer_collection: as in `apply_norm`.
      default_name, name: of the variable scope.
      dropout_broadcast_dims: dimensions along which elements are zeroed together.

    Raises:
      ValueError: another letter.
    """
    drop = functools.partial(
        primitives.dropout, rate=dropout_rate, shared=dropout_broadcast_dims or ()
    )
    with scope_of(name, default_name):
        for letter in "" if sequence == "none" else sequence:
            if letter not in STEPS:
                raise ValueError(
                    f"layer_prepostprocess: found {letter!r} in sequence = "
                    f"{sequence!r}, wanted letters of 'adn'"
                )
            if letter == "n":
                x = apply_norm(x, norm_type, depth, epsilon, layer_collection)
            else:
                steps = (STEPS[letter],)
                x = primitives.apply_steps(steps, x, previous_value, None, drop)
    return x


def _processed(previous_value, x, sequence, hparams, default_name):
    """Apply a sequence with the settings of `hparams`."""
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
      ValueError: a sequence that adds; a `layer_collection`.
    """
    sequence = hparams.layer_preprocess_sequence
    refuse("layer_preprocess", ("layer_collection", layer_collection, None))
    if sequence != "none" and set(sequence) & {"a", "z"}:
        raise ValueError(
            f"layer_preprocess: found layer_preprocess_sequence = {sequence!r}, "
            "wanted no 'a' or 'z' before a sub-layer"
        )
    return _processed(None, layer_input, sequence, hparams, "layer_prepostprocess")


def layer_postprocess(layer_input, layer_output, hparams):
    """Apply the steps after a sub-layer.

    Args:
      layer_input: float [N, T, D], the residual.
      layer_output: float [N, T, D].
      hparams: as in `layer_preprocess`, with layer_postprocess_sequence.
    """
    sequence = hparams.layer_postprocess_sequence
    return _processed(layer_input, layer_output, sequence, hparams, "layer_postprocess")


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
    """Apply two dense layers, a ReLU and dropout between them: `conv1` and `conv2`.

    Raises:
      ValueError: a `layer_collection`.
    """
    refuse("dense_relu_dense", ("layer_collection", layer_collection, None))
    prefix = f"{name}_" if name else ""
    x = dense_layer(inputs, filter_size, True, prefix + "conv1", tf.nn.relu)
    x = primitives.dropout(x, dropout, shared=dropout_broadcast_dims or ())
    x = dense_layer(x, output_size, True, prefix + "conv2")
    return x if output_activation is None else output_activation(x)


def weights_nonzero(labels):
    """Return 1 for real labels and 0 for padding: float32, like `labels`."""
    return tf.cast(tf.not_equal(labels, 0), tf.float32)


def weights_all(labels):
    """Return 1 for each label: float32, like `labels`."""
    return tf.ones_like(labels, dtype=tf.float32)


def smoothing_cross_entropy(logits, labels, vocab_size, confidence, gaussian=False):
    """Return the cross entropy of each label, padding included: like `labels`.

    Args:
      logits: float [..., vocab_size].
      labels: int [...].
      vocab_size: int.
      confidence: float, the probability of the true label.

    Raises:
      ValueError: `gaussian`; a `vocab_size` that is not the width of the logits.
    """
    refuse(
        "smoothing_cross_entropy",
        ("gaussian", gaussian, False),
        ("vocab_size", vocab_size, logits.shape.as_list()[-1]),
    )
    return _label_losses(logits, labels, 1.0 - confidence)


def _label_losses(logits, labels, epsilon):
    """Return the loss of each label, smoothed as in tensor2tensor: like `labels`."""
    if tf.is_tensor(epsilon):
        raise ValueError(f"label smoothing: found {epsilon}, wanted a Python number")
    losses = cross_entropies(logits, tf.reshape(labels, [-1]), epsilon, "others")
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
    """Return the sum of the losses, and of the weights: see `training`.

    Args:
      logits: float [N, T, ..., V].
      labels: int [N, T, ...]; of the same lengths, which are not made equal here.
      label_smoothing: float.
      weights_fn: function from labels to their weights.
      reduce_sum: False: losses and weights of each label, float [N, T, ...].

    Raises:
      ValueError: a `cutoff`, or `gaussian`.
    """
    refuse(
        "padded_cross_entropy", ("cutoff", cutoff, 0.0), ("gaussian", gaussian, False)
    )
    if logits.shape.ndims == 2:
        labels = tf.reshape(labels, [-1])
    logits = tf.reshape(logits, shape_list(labels) + shape_list(logits)[-1:])
    losses = _label_losses(tf.cast(logits, tf.float32), labels, label_smoothing)
    weights = weights_fn(labels)
    losses *= weights
    if not reduce_sum:
        return losses, weights
    return tf.reduce_sum(losses), tf.reduce_sum(weights)
