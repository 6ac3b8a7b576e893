"""The calls in a function, and the settings of the dense layers among them."""

import ast
from typing import Callable, List, Tuple

from transformer.porting.signatures import constant

DENSE = ("dense", "conv1d", "fully_connected", "linear", "Dense", "Conv1D")


def calls_where(nodes, belongs: Callable[[str], bool]) -> List[ast.Call]:
    """Return the calls of functions whose last name fits, in their order."""
    found = [
        node
        for node in nodes
        if isinstance(node, ast.Call) and belongs(last_name(node.func))
    ]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def last_name(node):
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def settings_of_layers(function, nodes) -> List[List[Tuple[str, ast.AST]]]:
    """Return the keywords of each dense layer, in order: (name, value)."""
    settings = _dictionaries(function)
    found = []
    for call in calls_where(nodes, lambda name: name in DENSE):
        given = [(each.arg, each.value) for each in call.keywords]
        for name, value in list(given):
            if name is None and isinstance(value, ast.Name):  # **params
                before = [s for line, n, s in settings if n == value.id]
                lines = [line for line, n, _ in settings if n == value.id]
                last = sum(line < call.lineno for line in lines)
                given += before[last - 1] if last else []
        found.append(given)
    return found


def activations(settings) -> List[str]:
    """Return the activation of each dense layer: "linear", "relu", ..."""
    names = ("activation", "activation_fn", "act")
    return [
        ([""] + [last_name(value) for name, value in given if name in names])[-1]
        or "linear"
        for given in settings
    ]


def biases(settings) -> List[str]:
    """Return whether each dense layer has a bias: "yes", "none"."""
    values = [dict(given).get("use_bias") for given in settings]
    return ["none" if is_false(value) else "yes" for value in values]


def is_false(node) -> bool:
    try:
        return node is not None and constant(node) is False
    except ValueError:
        return False


def _dictionaries(function):
    """Return (line, name, [(key, node), ...]) of the dictionaries in a function."""
    return sorted(
        (
            (
                node.lineno,
                last_name(node.targets[0]),
                [
                    (constant(key), value)
                    for key, value in zip(node.value.keys, node.value.values)
                    if key is not None and _is_text(key)
                ],
            )
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
        ),
        key=lambda each: each[0],
    )


def _is_text(node):
    try:
        return isinstance(constant(node), str)
    except ValueError:
        return False
