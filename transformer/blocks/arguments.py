"""Checks of the arguments of the blocks: types, ranks, shapes, sizes."""

import operator
from typing import Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

DTYPES = {"float": (tf.float32, tf.float16, tf.bfloat16), "int": (tf.int32, tf.int64)}


def check_tensor(name: str, x, kind: str, *shapes: str):
    """Convert an argument of a block to a tensor; check its type and rank.

    Args:
      name: the block and the argument, such as "feedforward: inputs".
      x: tensor, variable, NumPy array or list; NumPy's float64 becomes float32.
      kind: "float" (16 or 32 bits; the last size must be static), "int" (32 or 64
        bits), or "numbers" (any).
      shapes: the names of the dimensions, such as "[N, T, D]"; "[..., D]": any rank.

    Raises:
      ValueError: `x` has a wrong type or rank.
    """
    expected = f"{kind} {' or '.join(shapes)}"
    try:
        if not tf.is_tensor(x) and getattr(x, "dtype", None) == np.float64:
            x = np.float32(x)
        x = tf.convert_to_tensor(x)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name}: expected {expected}, got {type(x).__name__}; give a tensor"
        ) from error
    sizes = None if x.shape.ndims is None else x.shape.as_list()
    any_rank = "..." in shapes[0]
    ranks = [shape.count(",") + 1 for shape in shapes]
    advice = ""
    if x.dtype.base_dtype not in DTYPES.get(kind, [x.dtype.base_dtype]):
        may_be_ids = kind == "float" and x.dtype.is_integer
        advice = "embed it if it holds ids, else " if may_be_ids else ""
        advice += f"cast it to {kind}32"
    elif sizes is None:
        advice = "" if any_rank and kind == "int" else "set its shape with set_shape"
    elif (not any_rank and len(sizes) not in ranks) or (kind == "float" and not sizes):
        advice = "reshape it"
    elif kind == "float" and sizes[-1] is None:
        advice = "set its last dimension with set_shape"
    if advice:
        letters = [] if any_rank else shapes[0].strip("[]").split(", ")
        if kind == "float":
            letters = letters[:-1]  # the last size must be known
        actual = f"{x.dtype.base_dtype.name} {format_shape(x, letters)}"
        raise ValueError(f"{name}: expected {expected}, got {actual}; {advice}")
    return x


def format_shape(x, letters: Sequence[str] = ()) -> str:
    """Format the shape of a tensor, with letters or "?" for unknown sizes."""
    if x.shape.ndims is None:
        return "of unknown rank"
    letters = [*letters, *(["?"] * x.shape.ndims)]
    sizes = [
        letters[i] if size is None else str(size)
        for i, size in enumerate(x.shape.as_list())
    ]
    return f"[{', '.join(sizes)}]"


def check_broadcast(name: str, x, shape: str, sizes: Sequence[Optional[int]]) -> None:
    """Check that a tensor broadcasts to a shape, as far as the sizes are static.

    Args:
      name: the block and the argument.
      x: a tensor.
      shape: the names of the dimensions, such as "[N, Tk]".
      sizes: the sizes of these dimensions, ints; None if unknown.

    Raises:
      ValueError: it does not broadcast, or its rank is unknown.
    """
    if x.shape.ndims is None:
        raise ValueError(
            f"{name}: expected {shape}, got unknown rank; set its shape with set_shape"
        )
    actual_sizes = x.shape.as_list()
    pairs = zip(reversed(actual_sizes), reversed(sizes))
    if len(actual_sizes) > len(sizes) or any(
        None not in (actual, size) and actual not in (1, size) for actual, size in pairs
    ):
        expected = ", ".join("?" if size is None else str(size) for size in sizes)
        raise ValueError(
            f"{name}: expected {shape} = [{expected}], got {format_shape(x)}; give a "
            "shape that broadcasts to it"
        )


def check_size(name: str, size, minimum: int = 1) -> int:
    """Convert a size, such as TensorFlow 1's `x.shape[-1]`, to an int.

    Raises:
      ValueError: it is not an int of `minimum` or more.
    """
    try:
        result = operator.index(size)
    except TypeError:
        result = minimum - 1
    if result < minimum:
        raise ValueError(f"{name}: expected an int of {minimum} or more, got {size!r}")
    return result


def check_is_training(block: str, is_training) -> None:
    """Raise ValueError unless `is_training` is True, False or a bool tensor."""
    if tf.is_tensor(is_training):
        is_bool = is_training.dtype.base_dtype == tf.bool
    else:
        is_bool = is_training in (True, False)
    if not is_bool:
        raise ValueError(
            f"{block}: expected is_training to be True, False or a bool tensor, got "
            f"{is_training!r}"
        )


def refuse_eager(block: str) -> None:
    """Raise ValueError in eager mode, which does not find variables by their names."""
    if tf.executing_eagerly() or _is_in_function():
        raise ValueError(
            f"{block}: expected graph mode, got eager mode, in which each call makes "
            "new variables; call tf.compat.v1.disable_eager_execution() first, or call "
            "the block in a function that tf.compat.v1.wrap_function wraps"
        )


def refuse_function(block: str) -> None:
    """Raise ValueError in a tf.function of eager mode; eager mode itself is allowed."""
    if not tf.executing_eagerly():
        refuse_eager(block)


def _is_in_function() -> bool:
    """Return whether this is the graph of a tf.function or a dataset, in eager mode.

    The graph of `wrap_function` is not: there, variables have names, as in graph mode.
    """
    with tf.init_scope():  # outside of all functions
        if not tf.executing_eagerly():
            return False
    creators = getattr(tf.get_default_graph(), "_variable_creator_stack", ())
    owners = (getattr(creator, "__self__", None) for _, creator in creators)
    return "VariableHolder" not in {type(owner).__name__ for owner in owners}
