"""Restore a checkpoint of an original program in a graph made with our blocks.

from transformer import compat

compat.restore(session, "original/model.ckpt-1000", source="sasrec")
"""

import re
from typing import Dict, List, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.compat.convert import read
from transformer.compat.names import BLOCKS, FEEDFORWARD_SCOPES, renamed
from transformer.compat.variables import ANONYMOUS

# The slots and the counters of optimizers.
OPTIMIZER = re.compile(
    r"(.*/)?(Adam|AdamW|Adagrad|Adadelta|Momentum|RMSProp)(_\d+)?$"
    r"|(.*/)?(beta[12]_power|global_step)(_\d+)?$"
)


def restore(
    session: tf.Session, prefix: str, source: str, scope: str = ""
) -> List[str]:
    """Load a checkpoint of an original program into the graph of a session.

    A variable gets the array with its name, without `scope`; in a graph made with
    `transformer.modules`, the array with the original name. Anonymous normalizations
    whose numbers differ are matched in their order.

    Args:
      session: a session of the ported graph; the variables may be uninitialized.
      prefix: path of the checkpoint without the endings of its files, or its folder.
      source: the module of `transformer.compat`: "sasrec", "kyubyong_legacy", ...
      scope: the variable scope of the ported graph, if the original had none.

    Returns:
      The names of the variables that were loaded. Variables of an optimizer that are
      not in the checkpoint keep their values.

    Raises:
      ValueError: there is no such source or checkpoint, or a variable is missing, has
        another shape or is left over.
    """
    if source not in BLOCKS:
        raise ValueError(f"source: expected one of {sorted(BLOCKS)}, got {source!r}")
    start = scope + "/" if scope else ""
    with session.graph.as_default():
        variables = {
            variable.op.name[len(start) :]: variable
            for variable in tf.global_variables()
            if variable.op.name.startswith(start)
        }
    left = dict(read(prefix))
    rules = FEEDFORWARD_SCOPES.get(source, ()) + BLOCKS[source]
    originals = _originals(list(variables), left, rules)
    missing = [
        name
        for name in variables
        if name not in originals and not OPTIMIZER.match(name)
    ]
    if missing:
        raise ValueError(
            f"{prefix}: expected a checkpoint of {source} with all of "
            f"them, got no variable for {_some(missing)} of the graph; it "
            f"has {_some(sorted(left))} (scope is {scope!r})"
        )
    values = {
        variables[name]: _in_shape(left.pop(original), original, variables[name])
        for name, original in originals.items()
    }
    extra = sorted(name for name in left if not OPTIMIZER.match(name))
    if extra:
        raise ValueError(
            f"{prefix}: expected no other variables, got {_some(extra)}: "
            f"{len(extra)} would be left over (for a part of a model, use "
            "a tf.train.Saver)"
        )
    session.run(
        [variable.initializer for variable in values],
        {variable.initial_value: value for variable, value in values.items()},
    )
    return sorted(start + name for name in originals)


def _some(names):
    """Return the first names of a list, for a message."""
    return ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")


def _originals(
    names: List[str], arrays: Dict[str, np.ndarray], rules: Sequence
) -> Dict[str, str]:
    """Return the name in the checkpoint of each variable that is found there.

    Args:
      names: the names of the variables, in the order of their creation.
      arrays: the arrays of the checkpoint.
      rules: renaming rules from our names to the original ones.
    """
    originals = {name: name for name in names if name in arrays}
    theirs = {name: renamed(name, rules) for name in names if name not in originals}
    for name, other in theirs.items():
        if other in arrays and not ANONYMOUS.search(other):
            originals[name] = other
    rest = sorted(set(arrays) - set(originals.values()), key=_natural)
    found = _normalizations({name: name for name in rest})
    for folder, ours in _normalizations(theirs).items():
        if len(ours) == len(found.get(folder, ())):
            for pair, original_pair in zip(ours, found[folder]):
                # In both, beta is sorted before gamma.
                originals.update(zip(sorted(pair), sorted(original_pair)))
    return originals


def _normalizations(names: Dict[str, str]) -> Dict[str, List[List[str]]]:
    """Return the pairs of anonymous variables, by the scope around them.

    Args:
      names: name → original name, in order.

    Returns:
      The scope around that of the pair, without numbers → [[beta, gamma], ...].
    """
    pairs: Dict[Tuple[str, str], List[str]] = {}
    for name, other in names.items():
        if ANONYMOUS.search(other):
            scope = (name.rpartition("/")[0], other.rpartition("/")[0])
            pairs.setdefault(scope, []).append(name)
    folders: Dict[str, List[List[str]]] = {}
    for (_, original_scope), pair in pairs.items():
        folder = re.sub(r"_\d+(?=/|$)", "", original_scope.rpartition("/")[0])
        folders.setdefault(folder, []).append(pair)
    return {
        folder: found
        for folder, found in folders.items()
        if all(len(pair) == 2 for pair in found)
    }


def _natural(name):
    """Return a sort key for the order "ln", "ln_1", "ln_2", "ln_10"."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _in_shape(array, name, variable):
    """Return an array in the shape of a variable; [1, a, b] becomes [a, b]."""
    shape = variable.shape.as_list()
    width_one = array.ndim == len(shape) + 1 and array.shape[0] == 1
    if list(array.shape) != shape and not (
        width_one and list(array.shape[1:]) == shape
    ):
        raise ValueError(
            f"{name}: expected shape {shape} for {variable.op.name}, got "
            f"{list(array.shape)}"
        )
    return array.reshape(shape)
