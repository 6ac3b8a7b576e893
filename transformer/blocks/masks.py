"""Masks: who may attend to whom (section 3.2.3).

A mask is a bool tensor, True = may attend, that broadcasts to [N, H, Tq, Tk].
AttentionMasks holds all masks of one attention. The model makes it with `make_masks`;
`multihead_attention` makes it with `normalize_masks` from the masks of its caller.
The shapes of a caller's masks are checked when the graph is built. Their values are
checked, too, because a bias or an inverted mask may have the right shape: those of
constants, and of masks that are computed from ids or lengths, when the graph is built
(see `mask_probes`), other values when it runs.
"""

import warnings
from typing import Any, Callable, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.arguments import check_broadcast, format_shape
from transformer.blocks.layers import expand_dims
from transformer.blocks.mask_probes import LOWEST_BIAS, find_meaning
from transformer.dialects import Dialect

MASKED_LOGIT = -1e9  # the softmax makes it exactly 0 in float32, never NaN


class AttentionMasks(NamedTuple):
    """Who may attend to whom in one attention. None: nothing is masked."""

    # bool, broadcastable to [N, H, Tq, Tk]; the logits of forbidden keys are replaced.
    allowed: Optional[tf.Tensor] = None
    # float, broadcastable to [N, H, Tq, Tk], added to the logits.
    bias: Optional[tf.Tensor] = None
    # bool, broadcastable to [N, 1, Tq, 1]; a query that is False gets zeros.
    queries: Optional[tf.Tensor] = None


def make_masks(
    dialect: Dialect, keys=None, queries=None, visible=None, bias=None
) -> AttentionMasks:
    """Combine padding masks, a causal mask and a bias as a dialect does.

    A forbidden logit is replaced (by `allowed`) or lowered (by `bias`). Both give the
    same weights, unless a query may attend to nothing.

    Args:
      dialect: a Dialect.
      keys: bool [N, Tk], False = padding, or up to [N, H, Tq, Tk]. None: no padding.
      queries: bool [N, Tq], False = padding; it has no effect in dialects without
        `mask_queries`. None: no padding.
      visible: bool, broadcastable to [N, H, Tq, Tk], such as a causal mask; or None.
      bias: float, broadcastable to [N, H, Tq, Tk]; or None.
    """
    allowed = None
    if keys is not None and keys.shape.ndims == 2:
        keys = expand_dims(keys, 1, 1)  # [N, 1, 1, Tk]
    for mask, masking in (
        (keys, dialect.key_masking),
        (visible, dialect.future_masking),
    ):
        if mask is None:
            continue
        if masking == "replaced":
            allowed = combine_masks(allowed, mask)
        else:
            lowered = mask_to_bias(mask)
            bias = lowered if bias is None else bias + lowered
    if queries is not None:
        queries = expand_dims(queries, -1, -3) if dialect.mask_queries else None
    return AttentionMasks(allowed, bias, queries)


# Padding, order, distance


def is_token(ids):
    """Find the tokens: int ids of any shape, 0 = padding → bool."""
    return tf.not_equal(ids, 0)


def padding_mask(ids):
    """Allow keys that hold a token: int [N, Tk], 0 = padding → bool [N, 1, 1, Tk]."""
    return expand_dims(is_token(ids), 1, 1)


def distances(query_positions, key_positions=None):
    """Compute key position - query position: int [Tq, Tk], negative for earlier keys.

    Args:
      query_positions: int [Tq].
      key_positions: int [Tk]; by default `query_positions`.
    """
    query_positions = tf.convert_to_tensor(query_positions)
    if key_positions is None:
        key_positions = query_positions
    key_positions = tf.cast(key_positions, query_positions.dtype)
    return key_positions - expand_dims(query_positions, 1)


def causal_mask(query_positions, key_positions=None):
    """Allow keys up to the position of the query: bool [1, 1, Tq, Tk] (section 3.2.3).

    `causal_mask(tf.range(T))` is the lower triangle. Args: as in `distances`.
    """
    return expand_dims(distances(query_positions, key_positions) <= 0, 0, 0)


def local_mask(positions, window: int):
    """Allow keys up to `window` positions away: bool [1, 1, T, T] (section 4)."""
    return expand_dims(tf.abs(distances(positions)) <= window, 0, 0)


def proximity_bias(query_positions, key_positions=None):
    """Compute -log(1 + distance), a bias towards near keys: float32 [1, 1, Tq, Tk].

    Args: as in `distances`.

    Source: tensor2tensor, `attention_bias_proximal`.
    """
    distance = tf.abs(distances(query_positions, key_positions))
    return expand_dims(-tf.log1p(tf.cast(distance, tf.float32)), 0, 0)


def nonzero_rows(x, padded_row: str = "is zero"):
    """Find padding in vectors: float [N, T, D] → bool [N, T], False = padding.

    Args:
      x: float [N, T, D].
      padded_row: a row is padding if it "is zero" or, as in the tutorial, if it "sums
        to zero". Rows of a normalized tensor may sum to zero by accident.
    """
    if padded_row == "sums to zero":
        return tf.not_equal(tf.reduce_sum(x, axis=-1), 0)
    return tf.reduce_any(tf.not_equal(x, 0), axis=-1)


def combine_masks(mask, other):
    """Combine two masks by a logical AND; the first may be None, which allows all."""
    return other if mask is None else tf.logical_and(mask, other)


def mask_to_bias(mask, value: float = MASKED_LOGIT):
    """Convert a mask to a bias: 0 where the mask is True, else `value`."""
    return value * (1.0 - tf.cast(mask, tf.float32))


def zero_masked(x, mask):
    """Zero the elements that a mask forbids.

    Args:
      x: float of any shape.
      mask: bool, broadcastable to `x`; None: `x` is returned.
    """
    return x if mask is None else x * tf.cast(mask, x.dtype)


# The masks of a caller


class CallerMasks(NamedTuple):
    """The masks that a caller gives to `multihead_attention`: see its docstring."""

    key_masks: Any = None
    query_masks: Any = None
    mask: Any = None
    bias: Any = None


def normalize_masks(
    dialect: Dialect,
    queries,
    keys,
    num_heads: int,
    caller_masks: CallerMasks,
    causality: bool,
) -> AttentionMasks:
    """Make the AttentionMasks of `multihead_attention` from its arguments.

    Args:
      dialect: a Dialect.
      queries, keys: float [N, Tq, D], [N, Tk, any width].
      num_heads: int, H.
      caller_masks: CallerMasks.
      causality: as in `multihead_attention`.

    Raises:
      ValueError: a mask has a wrong shape, or constant values that are wrong.
    """
    block = "multihead_attention"
    batch, query_length, _ = queries.shape.as_list()
    _, key_length, key_width = keys.shape.as_list()
    check_broadcast(f"{block}: keys", keys, "[N, Tk, D]", (batch, None, key_width))

    def check_pairs(name, x):
        _check_pairs(name, x, (batch, num_heads, query_length, key_length))

    def check_keys(name, x):
        if x.shape.ndims == 4:
            check_pairs(name, x)
        else:
            _check_padding(name, x, "[N, Tk]", (batch, key_length))

    def check_queries(name, x):
        _check_padding(name, x, "[N, Tq]", (batch, query_length))

    key_masks, query_masks, mask, bias = caller_masks
    if key_masks is None:
        key_masks = nonzero_rows(keys, dialect.padded_row)
    else:
        name = f"{block}: key_masks"
        key_masks = _normalize(name, key_masks, check_keys)
        key_masks = _refuse_inverted(name, key_masks, keys)
    if query_masks is not None:
        name = f"{block}: query_masks"
        query_masks = _normalize(name, query_masks, check_queries)
        query_masks = _refuse_inverted(name, query_masks, queries)
    elif dialect.mask_queries:
        query_masks = nonzero_rows(queries, dialect.padded_row)
    if mask is not None:
        name = f"{block}: mask"
        mask = _normalize(name, mask, check_pairs, is_of_positions=True)
        # A mask of sentences knows their padding; one for the whole batch does not.
        if mask is not None and mask.shape.ndims == 4 and mask.shape.as_list()[0] != 1:
            mask = _refuse_inverted(name, mask, keys)
    if bias is not None:
        name = f"{block}: bias"
        bias = _normalize_bias(name, bias, check_pairs, keys)
    if causality:
        positions = (tf.range(tf.shape(x)[1]) for x in (queries, keys))
        mask = combine_masks(mask, causal_mask(*positions))
    return make_masks(dialect, key_masks, query_masks, mask, bias)


def normalize_padding(name: str, mask, inputs):
    """Convert a padding mask of a caller to bool, and check it.

    Args:
      name: the block and the argument, for messages.
      mask: bool or numbers [N, T], False or 0 = padding; Python True: no padding.
      inputs: float [N, T, D], whose rows the mask allows or forbids.

    Returns:
      bool, broadcastable to [N, T, 1]; None for Python True.

    Raises:
      ValueError: the mask has a wrong shape, or constant values that are wrong.
    """
    sizes = inputs.shape.as_list()[:2]

    def check_shape(name, mask):
        _check_padding(name, mask, "[N, T]", sizes)

    mask = _normalize(name, mask, check_shape)
    mask = _refuse_inverted(name, mask, inputs)
    return None if mask is None else expand_dims(mask, -1)


def _normalize(name: str, mask, check_shape: Callable, is_of_positions: bool = False):
    """Convert a mask of a caller to bool, and check it; Python True becomes None.

    Args:
      name: the block and the argument, for messages.
      mask: the argument.
      check_shape: function of the name and the mask that raises ValueError.
      is_of_positions: whether two dimensions are [Tq, Tk]; otherwise, [N, T].
    """
    if mask is True or isinstance(mask, np.bool_) and mask:
        return None
    mask = tf.convert_to_tensor(mask)
    check_shape(name, mask)
    if mask.shape.ndims != 2 or not is_of_positions:
        _warn_of_meaning(name, mask)
    return mask_to_bool(name, mask)


def _warn_of_meaning(name: str, mask, is_bias: bool = False) -> None:
    """Warn about a mask, or a bias, that is not what its place wants.

    Unlike `_refuse_inverted`, this also works if the vectors of padding are not zero.
    It works for masks that are computed from ids or lengths.

    Args:
      name: the block and the argument.
      mask: a tensor.
      is_bias: whether it is added to the logits.
    """
    meaning = find_meaning(mask, is_bias)
    messages = {
        "padding": "expected a mask in which True = may attend, as "
        "tf.not_equal(ids, 0) makes it, got one that is True only for padding, as "
        "tf.equal(ids, 0) makes it, if 0 is padding, and padding comes last; invert it "
        "with tf.logical_not (in transformer.compat.kyubyong, True means padding)",
        "queries": "expected a mask that forbids keys, got one that forbids queries, "
        "and allows padding to all others; what masks queries belongs in query_masks, "
        "as [N, Tq]",
        "zeros and ones": "expected numbers that are added to logits, got only 0 and "
        "1; what allows or forbids keys is a mask: give it as mask",
    }
    if is_bias:
        messages["padding"] = (
            "expected low numbers for padding, got them for all tokens, and none for "
            "padding, if 0 is padding, and padding comes last; or give it as mask"
        )
    if meaning in messages:
        warnings.warn(f"{name}: {messages[meaning]}", stacklevel=5)


def mask_to_bool(
    name: str, mask, meaning: str = "True or 1 = may attend, False or 0 = may not"
):
    """Convert a mask of bool or numbers to bool: 0 is False.

    The values of a numeric mask are checked: those of a constant at once, those of any
    other tensor when the graph runs.

    Args:
      name: the block and the argument, for messages.
      mask: bool or numbers.
      meaning: of the values, for messages.

    Raises:
      ValueError: the mask is a constant with numbers below 0.
    """
    mask = tf.convert_to_tensor(mask)
    if mask.dtype == tf.bool:
        return mask
    message = (
        f"{name}: expected {meaning}, got %s; what is added to logits is a bias, not a "
        "mask"
    )
    static = tf.get_static_value(mask)
    if static is None:
        mask = _assert(tf.reduce_all(mask >= 0), message % "numbers below 0", mask)
    elif (static.astype(np.float32) < 0).any():
        raise ValueError(message % f"{float(static.min()):g}")
    return tf.not_equal(mask, 0)


def _refuse_inverted(name: str, mask, rows, message: str = ""):
    """Add a check to a padding mask: it fails, when the graph runs, if it is inverted.

    An inverted mask allows padding only. If the vectors of padding are zero, as after
    `embedding`, this can be seen: in the whole batch, the mask allows some rows of
    zeros, and no other row. A mask that allows any other row passes.

    Args:
      name: the block and the argument, for the message.
      mask: bool [N, T] or [N, H, Tq, T], or a shape that broadcasts to it; or None.
      rows: float [N, T, D].
      message: instead of the one for a mask.
    """
    static = None if mask is None else tf.get_static_value(mask)
    if mask is None or static is not None and static.all():
        return mask
    if mask.shape.as_list()[-1] is None or rows.shape.as_list()[1] is None:
        has_length = tf.equal(tf.shape(mask)[-1], tf.shape(rows)[1])
        wrong_length = f"{name}: expected a value for each position, got another length"
        mask = _assert(has_length, wrong_length, mask)
    allowed = mask
    if mask.shape.ndims == 4:
        allowed = tf.reduce_any(mask, [1, 2])  # [N, T], whether any query may see it
    is_zero = tf.logical_not(nonzero_rows(rows))  # bool [N, T]
    allows_zeros = tf.reduce_any(tf.logical_and(allowed, is_zero))
    allows_tokens = tf.reduce_any(tf.logical_and(allowed, tf.logical_not(is_zero)))
    is_inverted = tf.logical_and(
        tf.logical_and(allows_zeros, tf.logical_not(allows_tokens)),
        tf.logical_not(tf.reduce_all(is_zero)),
    )
    message = message or (
        f"{name}: expected a mask that is False for padding, got one that is True only "
        "for padding (rows of zeros); invert it with tf.logical_not"
    )
    return _assert(tf.logical_not(is_inverted), message, mask)


def _normalize_bias(name: str, bias, check_shape: Callable, keys):
    """Convert a bias to float32, and check that it is no mask, and not inverted.

    Args:
      name: the block and the argument, for messages.
      bias: numbers [N, H, Tq, Tk], or a shape that broadcasts to it.
      check_shape: as in `_normalize`.
      keys: float [N, Tk, D].

    Raises:
      ValueError: it is bool, or has a wrong shape.
    """
    bias = tf.convert_to_tensor(bias)
    if bias.dtype == tf.bool:
        raise ValueError(
            f"{name}: expected float, got bool; what allows or forbids keys is a mask: "
            "give it as mask"
        )
    check_shape(name, bias)
    _warn_of_meaning(name, bias, is_bias=True)
    bias = tf.cast(bias, tf.float32)
    is_static = tf.get_static_value(bias) is not None
    if is_static or bias.shape.ndims != 4 or bias.shape.as_list()[0] == 1:
        return bias
    is_token = nonzero_rows(keys)
    is_one = tf.equal(bias, 1)
    is_mask = (
        tf.reduce_all(is_one | tf.equal(bias, 0))
        & tf.reduce_all(tf.equal(tf.reduce_any(is_one, [1, 2]), is_token))
        & tf.logical_not(tf.reduce_all(is_token))
    )
    message = (
        f"{name}: expected numbers that are added to logits, got 1 for tokens and 0 "
        "for padding (rows of zeros); give it as mask"
    )
    bias = _assert(tf.logical_not(is_mask), message, bias)
    message = (
        f"{name}: expected low numbers for padding, got them for all tokens, and none "
        "for padding (rows of zeros)"
    )
    allowed = _refuse_inverted(name, bias > LOWEST_BIAS, keys, message)
    with tf.control_dependencies([allowed]):
        return tf.identity(bias)


def _assert(condition, message: str, x):
    """Return `x`, whose evaluation fails with a message if the condition is False."""
    with tf.control_dependencies([tf.Assert(condition, [message])]):
        return tf.identity(x)


def _check_padding(name: str, mask, shape: str, sizes: Sequence[Optional[int]]) -> None:
    """Raise ValueError unless a mask has the shape of a padding mask, [N, T].

    Args:
      name: the block and the argument.
      mask: a tensor.
      shape: the names of the dimensions.
      sizes: (N, T), ints; None if unknown.
    """
    check_broadcast(name, mask, shape, sizes)
    _check_last(name, mask, shape, sizes)


def _check_pairs(name: str, x, sizes: Sequence[Optional[int]]) -> None:
    """Raise ValueError unless a mask or a bias has a shape for [N, H, Tq, Tk].

    It must broadcast to this shape, with Tk in the last dimension. Three dimensions
    broadcast as [H, Tq, Tk], but most callers mean [N, Tq, Tk]. So the first of three
    must be 1, or H where H is not N.

    Args:
      name: the block and the argument.
      x: a tensor.
      sizes: (N, H, Tq, Tk), ints; None if unknown.
    """
    batch, num_heads, query_length, key_length = sizes
    sizes = (batch, None, query_length, key_length)
    check_broadcast(name, x, "[N, H, Tq, Tk]", sizes)
    _check_last(name, x, "[N, H, Tq, Tk]", sizes)
    first = x.shape.as_list()[0] if x.shape.ndims == 3 else 1
    is_of_heads = first == num_heads and first != batch
    if first != 1 and not is_of_heads:
        argument = name.split()[-1]
        raise ValueError(
            f"{name}: expected [Tq, Tk] or [N, H, Tq, Tk], got three dimensions; for "
            f"[N, Tq, Tk], give {argument}[:, None], and for [H, Tq, Tk], "
            f"{argument}[None]"
        )


def _check_last(name: str, x, shape: str, sizes: Sequence[Optional[int]]) -> None:
    """Raise ValueError if a mask has a single value for all keys (or positions).

    Such a mask broadcasts, but it distinguishes no keys.
    """
    last = x.shape.as_list()[-1] if x.shape.ndims else 1
    if last == 1 and sizes[-1] != 1:
        letter = shape.strip("[]").split(", ")[-1]
        expected = letter if sizes[-1] is None else f"{letter} = {sizes[-1]}"
        advice = ""
        if letter == "Tk":
            advice = "; what masks queries belongs in query_masks, as [N, Tq]"
        raise ValueError(
            f"{name}: expected {shape} with {expected} in the last dimension, got "
            f"{format_shape(x)}, with a single value for all positions{advice}"
        )
