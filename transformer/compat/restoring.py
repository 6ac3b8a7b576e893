"""Checkpoints of a source, in a graph made with the blocks of this package.

from transformer import compat

compat.restore(session, "original/model.ckpt-1000", source="sasrec")
"""

import re
from typing import Dict, List

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.compat.variables import ANONYMOUS
from transformer.originals.convert import read
from transformer.originals.names import BLOCKS, FEEDFORWARD_SCOPES, renamed

# What an optimizer keeps for a variable, and its counters.
OPTIMIZER = re.compile(
    r"(.*/)?(Adam|AdamW|Adagrad|Adadelta|Momentum|RMSProp)(_\d+)?$"
    r"|(.*/)?(beta[12]_power|global_step)(_\d+)?$"
)


def restore(session, prefix: str, source: str, scope: str = "") -> List[str]:
    """Load a checkpoint of a source into the graph of a session.

    A variable gets the array of its own name, without `scope`; in a graph made with
    `transformer.modules`, that of the name which the source has for it. Anonymous
    normalizations whose numbers differ are taken in their order.

    Args:
      session: of the ported graph, its variables initialized or not.
      prefix: path of the checkpoint without the endings of its files, or its folder.
      source: the file of `transformer.compat`: "sasrec", "kyubyong_legacy", ...
      scope: variable scope in which the ported graph stands, and the original did not.

    Returns:
      The names of the variables that were loaded. Those of an optimizer that are not in
      the checkpoint keep their values.

    Raises:
      ValueError: no such source or checkpoint; a variable that is missing, has another
        shape, or is left over.
    """
    if source not in BLOCKS:
        raise ValueError(f"source: found {source!r}, wanted one of {sorted(BLOCKS)}")
    start = scope + "/" if scope else ""
    with session.graph.as_default():
        variables = {
            variable.op.name[len(start) :]: variable
            for variable in tf.global_variables()
            if variable.op.name.startswith(start)
        }
    left = dict(read(prefix))
    rules = FEEDFORWARD_SCOPES.get(source, ()) + BLOCKS[source]
    places = _places(list(variables), left, rules)
    missing = [
        name for name in variables if name not in places and not OPTIMIZER.match(name)
    ]
    if missing:
        raise ValueError(
            f"{prefix}: found no variable for {_some(missing)} of the graph, wanted a "
            f"checkpoint of {source} with all of them; it has {_some(sorted(left))} "
            f"(scope is {scope!r})"
        )
    values = {
        variables[name]: _in_shape(left.pop(place), place, variables[name])
        for name, place in places.items()
    }
    extra = sorted(name for name in left if not OPTIMIZER.match(name))
    if extra:
        raise ValueError(
            f"{prefix}: found {_some(extra)}, wanted no variables without a place: "
            f"{len(extra)} would be left over (for a part of a model, use a tf.train."
            "Saver)"
        )
    session.run(
        [variable.initializer for variable in values],
        {variable.initial_value: value for variable, value in values.items()},
    )
    return sorted(start + name for name in places)


def _some(names):
    """Return the first names of a list, for a message."""
    return ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")


def _places(names: List[str], arrays: Dict[str, np.ndarray], rules) -> Dict[str, str]:
    """Return the name in the checkpoint of each variable that is found there.

    Args:
      names: of the variables, in the order in which they were made.
      arrays: those of the checkpoint.
      rules: from our names to those of the source.
    """
    places = {name: name for name in names if name in arrays}
    theirs = {name: renamed(name, rules) for name in names if name not in places}
    for name, other in theirs.items():
        if other in arrays and not ANONYMOUS.search(other):
            places[name] = other
    rest = sorted(set(arrays) - set(places.values()), key=_natural)
    found = _normalizations({name: name for name in rest})
    for folder, ours in _normalizations(theirs).items():
        if len(ours) == len(found.get(folder, ())):
            for pair, other in zip(ours, found[folder]):
                places.update(zip(sorted(pair), sorted(other)))  # beta before gamma
    return places


def _normalizations(names: Dict[str, str]) -> Dict[str, List[List[str]]]:
    """Return the pairs of anonymous variables, by where they are.

    Args:
      names: name → the name that the source has for it, in order.

    Returns:
      The scope around their own, without numbers → [[beta, gamma], ...].
    """
    pairs = {}
    for name, other in names.items():
        if ANONYMOUS.search(other):
            scope = (name.rpartition("/")[0], other.rpartition("/")[0])
            pairs.setdefault(scope, []).append(name)
    folders = {}
    for (_, scope), pair in pairs.items():
        folder = re.sub(r"_\d+(?=/|$)", "", scope.rpartition("/")[0])
        folders.setdefault(folder, []).append(pair)
    return {
        folder: found
        for folder, found in folders.items()
        if all(len(pair) == 2 for pair in found)
    }


def _natural(name):
    """Return a key by which "ln", "ln_1", "ln_2", "ln_10" are in this order."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _in_shape(array, name, variable):
    """Return an array in the shape of a variable: [1, a, b] may stand for [a, b]."""
    shape = variable.shape.as_list()
    width_one = array.ndim == len(shape) + 1 and array.shape[0] == 1
    if list(array.shape) != shape and not (
        width_one and list(array.shape[1:]) == shape
    ):
        raise ValueError(
            f"{name}: found shape {list(array.shape)}, wanted {shape} for "
            f"{variable.op.name}"
        )
    return array.reshape(shape)
