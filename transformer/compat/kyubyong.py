"""The modules of Kyubyong/transformer, 2019.

Instead of `from modules import ...`:

    from transformer.compat.kyubyong import *

In these masks, True or 1 means padding: may *not* attend. Scopes are shared: a second
call in the same scope uses the same variables. (The original also writes images of the
attention weights for TensorBoard; this module does not.)
"""

import functools
import warnings

import numpy as np
import tensorflow.compat.v1 as tf

from transformer import modules
from transformer.blocks.attention import project
from transformer.blocks.layers import dropout, expand_dims, zero_first_row
from transformer.blocks.mask_probes import find_meaning
from transformer.blocks.masks import causal_mask, make_masks, mask_to_bias, mask_to_bool
from transformer.compat.variables import original_variables
from transformer.dialects import DIALECTS
from transformer.modules import label_smoothing
from transformer.training import noam_by_peak

__all__ = [
    "ff",
    "get_token_embeddings",
    "label_smoothing",
    "ln",
    "mask",
    "multihead_attention",
    "noam_scheme",
    "np",
    "positional_encoding",
    "scaled_dot_product_attention",
    "tf",
]

DIALECT = DIALECTS["kyubyong"]
MASKED = -(2.0**32) + 1  # `mask` adds it to logits, or replaces them by it


@original_variables("kyubyong")
def ln(inputs, epsilon=1e-8, scope="ln"):
    """Normalize the last axis: see `modules.normalize`."""
    return modules.normalize(inputs, epsilon, scope, tf.AUTO_REUSE)


@original_variables("kyubyong")
def get_token_embeddings(vocab_size, num_units, zero_pad=True):
    """Return the embedding table, float [V, D]; with `zero_pad`, row 0 is zeros.

    A second call uses the same variable, as in forks that reuse the scope.
    """
    table = modules.embedding_table(
        vocab_size, num_units, "shared_weight_matrix", tf.AUTO_REUSE
    )
    return zero_first_row(table) if zero_pad else table


def scaled_dot_product_attention(
    Q,
    K,
    V,
    key_masks,
    causality=False,
    dropout_rate=0.0,
    training=True,
    scope="scaled_dot_product_attention",
):
    """Return softmax(Q K^T / sqrt(d_k)) V for heads stacked on the batch axis.

    Args:
      Q, K, V: float [H * N, Tq, d_k], [H * N, Tk, d_k], [H * N, Tk, d_v].
      key_masks: bool or float [N, Tk], True = padding.
      causality: whether a query sees only keys up to its own position.
      dropout_rate, training: for the dropout of the weights.
      scope: the name scope of the ops.

    Returns:
      float [H * N, Tq, d_v].
    """
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        visible = None
        if causality:
            visible = causal_mask(tf.range(tf.shape(Q)[1]), tf.range(tf.shape(K)[1]))
        masks = make_masks(
            DIALECT, tf.logical_not(_repeat_for_heads(key_masks, Q)), visible=visible
        )
        drop = functools.partial(
            dropout, rate=dropout_rate, is_training=training, name="weights"
        )
        context, _ = modules.scaled_dot_product_attention(
            *(expand_dims(x, 1) for x in (Q, K, V)),
            masks.allowed,
            bias=masks.bias,
            fully_masked_is_zero=False,
            drop=drop,
        )
        return tf.squeeze(context, 1)


def mask(inputs, key_masks=None, type=None):  # noqa: A002 (the original name)
    """Mask logits: add to those of padded keys, or replace those of later keys.

    Args:
      inputs: float [H * N, Tq, Tk].
      key_masks: bool or float [N, Tk], True = padding.
      type: "k", "key" or "keys"; "f", "future" or "right".

    Returns:
      float [H * N, Tq, Tk].

    Raises:
      ValueError: `type` is unknown.
    """
    if type in ("k", "key", "keys"):
        padding = _repeat_for_heads(key_masks, inputs)  # [H * N, Tk]
        return inputs + expand_dims(mask_to_bias(tf.logical_not(padding), MASKED), 1)
    if type in ("f", "future", "right"):
        sizes = tf.shape(inputs)
        order = causal_mask(tf.range(sizes[1]), tf.range(sizes[2]))[0]  # [1, Tq, Tk]
        return tf.where_v2(order, inputs, MASKED)
    raise ValueError(f"mask: expected type 'key' or 'future', got {type!r}")


def _repeat_for_heads(key_masks, stacked):
    """Repeat padding masks [N, Tk] for each head: bool [H * N, Tk]."""
    key_masks = _convert_padding(key_masks)
    heads = tf.shape(stacked)[0] // tf.maximum(1, tf.shape(key_masks)[0])
    return tf.tile(key_masks, [heads, 1])


def _convert_padding(key_masks):
    """Convert padding masks to bool; warn about masks that are True for tokens."""
    key_masks = tf.convert_to_tensor(key_masks)
    if find_meaning(key_masks) == "tokens":
        warnings.warn(
            "transformer.compat.kyubyong: expected key_masks in which True = padding, "
            "as tf.equal(ids, 0) makes them, got masks that are True for tokens, as "
            "tf.not_equal(ids, 0) makes them; invert them with tf.logical_not",
            stacklevel=4,
        )
    return mask_to_bool(
        "transformer.compat.kyubyong: key_masks",
        key_masks,
        "True or 1 = padding, False or 0 = a token",
    )


@original_variables("kyubyong")
def multihead_attention(
    queries,
    keys,
    values,
    key_masks,
    num_heads=8,
    dropout_rate=0,
    training=True,
    causality=False,
    scope="multihead_attention",
):
    """Attend with several heads, then add and normalize: see `modules`.

    Args:
      queries: float [N, Tq, D].
      keys, values: float [N, Tk, any width].
      key_masks: bool or float [N, Tk], True = padding.
      num_heads, dropout_rate, training, causality: as in `modules`.
      scope: for the variables, which all calls in this scope share.

    Returns:
      float [N, Tq, D].
    """
    is_token = tf.logical_not(_convert_padding(key_masks))
    if values is not keys:
        width = queries.shape.as_list()[-1]
        with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
            heads = modules.KeyValueCache(
                project(keys, width, num_heads, DIALECT, "k"),
                project(values, width, num_heads, DIALECT, "v"),
            )
        visible = None
        if causality:
            visible = causal_mask(*(tf.range(tf.shape(x)[1]) for x in (queries, keys)))
        rates = modules.Dropout(dropout_rate, training)
        settings = modules.AttentionSettings(width, num_heads, DIALECT, rates, rates)
        masks = make_masks(DIALECT, is_token, visible=visible)
        return modules.attention_sublayer(
            queries, heads, masks, settings, scope, tf.AUTO_REUSE
        )[0]
    return modules.multihead_attention(
        queries,
        keys,
        None,
        num_heads,
        dropout_rate,
        training,
        causality,
        scope,
        tf.AUTO_REUSE,
        key_masks=True,
        # Not as `key_masks`: an inverted mask would be reported twice.
        bias=expand_dims(mask_to_bias(is_token), 1, 1),
        dialect=DIALECT,
    )


@original_variables("kyubyong")
def ff(inputs, num_units, scope="positionwise_feedforward"):
    """Apply two dense layers, then add and normalize: see `modules.feedforward`."""
    return modules.feedforward(inputs, num_units, scope, tf.AUTO_REUSE, dialect=DIALECT)


def positional_encoding(inputs, maxlen=None, masking=True, scope="positional_encoding"):
    """Return the sinusoids of section 3.5, float32 [N, T, E].

    Args:
      inputs: float [N, T, E].
      maxlen: ignored, because there is no maximum here.
      masking: whether to keep elements of the input that are 0.
      scope: the name scope of the ops.
    """
    width = inputs.shape.as_list()[-1]
    encoding = modules.positional_encoding(
        inputs, width, zero_pad=False, scale=False, scope=scope, dialect=DIALECT
    )
    return tf.where_v2(tf.equal(inputs, 0), inputs, encoding) if masking else encoding


def noam_scheme(init_lr, global_step, warmup_steps=4000.0):
    """Return the learning rate at a step, counted from 0; its peak is `init_lr`."""
    step = tf.cast(global_step + 1, tf.float32)
    return init_lr * noam_by_peak(step, warmup_steps)
