"""The parameters of functions, from their text: nothing is imported."""

import ast
import functools
import os
from typing import Any, Dict, NamedTuple, Optional, Tuple

from transformer.porting.reading import definitions, dotted, read

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OPERATIONS = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: float(a) ** b if abs(b) < 100 else None,
}


class Signature(NamedTuple):
    """The parameters of a function."""

    names: Tuple[str, ...]  # in their order, those for keywords alone last
    defaults: Dict[str, Any]  # None where it is None, a text where it is no constant


def constant(node) -> Any:
    """Return the value of a constant expression; of a list, as a tuple.

    Raises:
      ValueError: it is none.
    """
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        sides = constant(node.left), constant(node.right)
        if all(type(side) in (int, float) for side in sides):
            try:
                return OPERATIONS[type(node.op)](*sides)
            except (ArithmeticError, TypeError) as error:
                raise ValueError(str(error)) from error
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = constant(node.operand)
        if type(value) in (int, float):
            return -value
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError) as error:
        raise ValueError("no constant") from error
    return tuple(value) if isinstance(value, list) else value


def signature(function: ast.FunctionDef) -> Signature:
    """Return the parameters of a function of a syntax tree."""
    given = function.args
    names = [each.arg for each in given.args]
    pairs = list(zip(names[len(names) - len(given.defaults) :], given.defaults))
    pairs += [
        (each.arg, default)
        for each, default in zip(given.kwonlyargs, given.kw_defaults)
        if default is not None
    ]
    names += [each.arg for each in given.kwonlyargs]
    return Signature(tuple(names), {name: _default(node) for name, node in pairs})


def _default(node):
    try:
        return constant(node)
    except ValueError:
        return dotted(node) or "..."


@functools.lru_cache(maxsize=None)
def of_module(module: str) -> Dict[str, Optional[Signature]]:
    """Return the public names of a module of this package, each with its parameters.

    Args:
      module: "transformer.compat.sasrec".

    Returns:
      name → Signature; None for what has none. Empty where there is no such module.
    """
    path = os.path.join(os.path.dirname(PACKAGE), *module.split(".")) + ".py"
    if not os.path.exists(path):
        return {}
    tree = read(path)
    found = {name: signature(node) for name, node in definitions(tree).items()}
    modules, public = {}, ()
    for node in tree.tree.body:
        if isinstance(node, ast.ImportFrom) and node.module.startswith("transformer"):
            for alias in node.names:
                name = alias.asname or alias.name
                modules[name] = f"{node.module}.{alias.name}"
                found[name] = of_module(node.module).get(alias.name)
        elif isinstance(node, ast.ClassDef):
            found[node.name] = _of_class(node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name == "__all__":
                public = constant(node.value)
            elif isinstance(node.value, ast.Call) and node.value.args:  # a partial
                place, _, function = dotted(node.value.args[0]).rpartition(".")
                found[name] = of_module(modules.get(place, "")).get(function)
    return {name: found.get(name) for name in public or found}


def _of_class(node):
    """Return the parameters with which a class is made; None where they are unknown."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            names, defaults = signature(each)
            return Signature(names[1:], defaults)
    return None
