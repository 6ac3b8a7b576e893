"""The tensors of a checkpoint: their shapes, their values, into a session.

TensorFlow takes the path of a checkpoint for a pattern of paths, in which `[`, `*` and
others have a meaning. Whatever reads a checkpoint does so here.
"""

import contextlib
import os
import tempfile
from typing import Dict, Iterator, List, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

PATTERN = frozenset("*?[]\\")
NEW = "loss_scale/"  # variables that checkpoints of other precisions do not have


@contextlib.contextmanager
def literal(checkpoint: str) -> Iterator[str]:
    """Yield a path of a checkpoint, while the body runs, that matches itself alone.

    Args:
      checkpoint: its path without the endings of its files.
    """
    folder, name = os.path.split(os.path.abspath(checkpoint))
    if not PATTERN.intersection(checkpoint):
        yield checkpoint
    elif PATTERN.intersection(name):
        raise ValueError(
            f"{checkpoint}: found a name that TensorFlow takes for a pattern, wanted "
            f"one without {' '.join(sorted(PATTERN))}; rename its files"
        )
    else:
        with tempfile.TemporaryDirectory() as place:
            link = os.path.join(place, "logdir")
            os.symlink(folder, link)
            yield os.path.join(link, name)


def shapes(checkpoint: str) -> Dict[str, List[int]]:
    """Return the variables of a checkpoint: name → shape."""
    with literal(checkpoint) as path:
        return tf.train.load_checkpoint(path).get_variable_to_shape_map()


def read(checkpoint: str) -> Dict[str, np.ndarray]:
    """Return the variables of a checkpoint: name → array."""
    with literal(checkpoint) as path:
        reader = tf.train.load_checkpoint(path)
        return {
            name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
        }


def average(paths: Sequence[str]) -> Dict[str, np.ndarray]:
    """Return the variables of checkpoints of one training run, averaged.

    Variables that are not floats, the count of updates, are those of the last one.

    Args:
      paths: without the endings of their files.
    """
    arrays = read(paths[-1])
    sums = {
        name: array.astype(np.float64)
        for name, array in arrays.items()
        if array.dtype == np.float32
    }
    for path in paths[:-1]:
        others = read(path)
        for name in sums:
            sums[name] += others[name]
    for name, total in sums.items():
        arrays[name] = (total / len(paths)).astype(np.float32)
    return arrays


def variables(scope: str = "") -> Dict[str, tf.Variable]:
    """Return the variables of the graph under a scope, by their names in it."""
    start = scope and scope + "/"
    return {
        each.op.name[len(start) :]: each
        for each in tf.global_variables()
        if each.op.name.startswith(start)
    }


def restore(
    session: tf.Session, saver: tf.train.Saver, checkpoint: str, scope: str = ""
) -> None:
    """Load a checkpoint into the variables of a session's graph.

    Args:
      session: the session.
      saver: a saver of the variables under the scope.
      checkpoint: its path without the endings of its files.
      scope: of the variables; those of the checkpoint have none.

    Raises:
      ValueError: it cannot be read, or is of another model.
    """
    try:
        with session.graph.as_default():
            wanted = {
                name: each.shape.as_list() for name, each in variables(scope).items()
            }
        found = shapes(checkpoint)
        absent = {name for name in wanted if name.startswith(NEW) and name not in found}
        if absent:  # they keep their first values
            with session.graph.as_default():
                kept = variables(scope).items()
                saver = tf.train.Saver({k: v for k, v in kept if k not in absent})
        wanted = {name: wanted[name] for name in wanted if name not in absent}
        refuse_other_shapes(checkpoint, found, wanted)
        with literal(checkpoint) as path:
            saver.restore(session, path)
    except tf.errors.OpError as error:
        raise ValueError(
            f"{checkpoint}: found a checkpoint that cannot be read "
            f"({type(error).__name__}), wanted a whole one of this model; "
            "choose another, or remove it"
        ) from error


def refuse_other_shapes(
    checkpoint: str, found: Dict[str, Sequence[int]], wanted: Dict[str, List[int]]
) -> None:
    """Raise ValueError where a checkpoint lacks a variable, or has another shape of it.

    Args:
      checkpoint: its path, for the message.
      found: the shapes of the checkpoint.
      wanted: those of the model.
    """
    others = sorted(
        name for name in wanted if list(found.get(name, [-1])) != wanted[name]
    )
    if others:
        name = others[0]
        shape = f"of shape {list(found[name])}" if name in found else "missing"
        more = f", and {len(others) - 1} more such variables" if others[1:] else ""
        raise ValueError(
            f"{checkpoint}: found {name} {shape}{more}, wanted shape {wanted[name]}, "
            "which hparams.json and the vocabulary imply: it is of another model; put "
            "back those files as they were when it was trained"
        )
