"""What a function computes, in plain words, by simple rules on its syntax tree.

A fact is a pair (what, how): ("padding", "rows whose sum is zero"). What the rules do
not recognize is not there, so that two sets of facts are compared by those in both.
"""

import ast
from typing import Dict, Iterator, List, Optional

from transformer.porting.layers import (
    DENSE,
    activations,
    biases,
    calls_where,
    is_false,
    last_name,
    settings_of_layers,
)
from transformer.porting.reading import dotted
from transformer.porting.signatures import constant, signature

Facts = Dict[str, str]
Functions = Dict[str, ast.FunctionDef]

# What other code bases call the blocks.
ROLES = {
    "attention": ("multihead_attention", "mulithead_attention", "multi_head_attention"),
    "feedforward": ("feedforward", "ff", "feed_forward", "positionwise_feedforward"),
    "normalize": ("normalize", "ln", "norm", "layer_norm", "layer_normalize")
    + ("layer_normalization",),
    "embedding": ("embedding", "get_token_embeddings"),
    "positions": ("positional_encoding", "position_encoding"),
    "smoothing": ("label_smoothing",),
}
ROLE_OF = {name: role for role, names in ROLES.items() for name in names}
LARGE = 1e5  # a constant as large as this stands for minus infinity


def facts_of(name: str, functions: Functions) -> Facts:
    """Return the facts of a function of a file.

    Args:
      name: of the function.
      functions: all those at the top of its file; what it calls there belongs to it.
    """
    role = ROLE_OF.get(name, name)
    return FACTS[role](functions[name], functions) if role in FACTS else {}


def _nodes(function, functions: Functions) -> Iterator[ast.AST]:
    """Return the nodes of a function, and of those of its file that it calls.

    Normalization, dense layers and dropout are calls: what is in them does not count.
    """
    waiting, seen = [function], {function.name}
    while waiting:
        for statement in waiting.pop().body:
            for node in ast.walk(statement):
                yield node
                name = dotted(node.func) if isinstance(node, ast.Call) else ""
                opaque = _normalizes(name) or _drops(name) or name in DENSE
                if name in functions and name not in seen and not opaque:
                    seen.add(name)
                    waiting.append(functions[name])


def _attention(function, functions) -> Facts:
    nodes = list(_nodes(function, functions))
    names = signature(function).names
    settings = settings_of_layers(function, nodes)
    layers = activations(settings)
    found = {
        "padding": _padding(nodes, names),
        "forbidden logits": _forbidden(nodes),
        "scale": _yes(_has_root(nodes), "root of the width of a head", "none"),
        "dropout": _yes(calls_where(nodes, _drops), "yes", "no"),
        "residual": _residual(nodes, names[:1]),
        "normalization": _normalization(nodes),
        "result": _result(function),
        **_made_of(nodes, names),
    }
    if len(layers) >= 3:
        found["projections"] = " and ".join(sorted(set(layers[:3])))
        found["output projection"] = ", ".join(layers[3:]) or "none"
        found["biases of Q, K, V"] = " and ".join(sorted(set(biases(settings[:3]))))
    sums = [node for node in nodes if _sum_of(node, names[:1])]
    found["padded queries"] = "zeros, before the dropout" if sums else "as others"
    return found


def _feedforward(function, functions) -> Facts:
    nodes = list(_nodes(function, functions))
    layers = activations(settings_of_layers(function, nodes))
    found = {
        "dropout": str(len(calls_where(nodes, _drops))),
        "residual": _residual(nodes, signature(function).names[:1]),
        "normalization": _normalization(nodes),
    }
    if layers:
        found["layers"] = ", ".join(layers)
    return found


def _normalize(function, functions) -> Facts:
    made = calls_where(_nodes(function, functions), lambda name: name == "Variable")
    named = calls_where(
        _nodes(function, functions), lambda name: name == "get_variable"
    )
    found = {}
    if made or named:
        shared = "shared by their names"
        found["variables"] = "new ones at each call" if made else shared
    defaults = signature(function).defaults
    for name in ("epsilon", "eps"):
        if name in defaults:
            found["epsilon"] = str(defaults[name])
    if "epsilon" not in found:
        small = [v for v in _constants(function.body) if 0 < abs(v) < 1e-2]
        found.update({"epsilon": str(small[0])} if small else {})
    return found


def _positions(function, functions) -> Facts:
    nodes = list(_nodes(function, functions))
    if calls_where(nodes, lambda name: name in ("get_variable", "Variable")):
        return {"angles": "none, but a table that is learned"}
    pairs = any(isinstance(node, (ast.Mod, ast.FloorDiv)) for node in nodes)
    angles = "one for two channels" if pairs else "one for each channel"
    return {"angles": angles, **_base(function, functions)}


def _base(function, functions) -> Facts:
    """Return the base of the wavelengths of sinusoids, where one number is so large."""
    tops = [node for node in _nodes(function, functions) if isinstance(node, ast.stmt)]
    large = {value for value in _constants(tops) if value >= 100}
    return {"base": f"{large.pop():.6g}"} if len(large) == 1 else {}


def _attention_by_lengths(function, functions) -> Facts:
    """Return the facts of bojone's attention, whose layers say `bias` by its place."""
    nodes = list(_nodes(function, functions))
    layers = calls_where(nodes, lambda name: name in DENSE)
    if len(layers) < 3:
        return {}
    said = [
        dict([("bias", bias) for bias in call.args[2:3]])
        or {each.arg: each.value for each in call.keywords}
        for call in layers
    ]
    found = {_yes(is_false(each.get("bias")), "none", "yes") for each in said}
    return {
        "biases of its layers": " and ".join(sorted(found)),
        "layers": str(len(layers)),
        "masks": str(len(calls_where(nodes, lambda name: name == "Mask"))),
        "forbidden logits": _forbidden(nodes),
        "scale": _yes(_has_root(nodes), "root of the width of a head", "none"),
        "normalization": _normalization(nodes),
        **_made_of(nodes, signature(function).names),
    }


FACTS = {
    "attention": _attention,
    "feedforward": _feedforward,
    "normalize": _normalize,
    "positions": _positions,
    "Attention": _attention_by_lengths,
    "Position_Embedding": _base,
}


def _normalization(nodes):
    count = len(calls_where(nodes, _normalizes))
    return f"{count} calls" if count > 1 else "after the sum" if count else "none"


def _made_of(nodes, names) -> Facts:
    """Return of which arguments the first three layers are made, where they say it."""
    layers = calls_where(nodes, lambda name: name in DENSE)[:3]
    inputs = [dotted(call.args[0]) if call.args else "" for call in layers]
    if len(inputs) < 3 or not set(inputs) <= set(names):
        return {}
    places = ", ".join(str(names.index(each) + 1) for each in inputs)
    return {"Q, K, V are made of": f"arguments {places}"}


def _yes(found, if_so, if_not):
    return if_so if found else if_not


def _drops(name):
    return "dropout" in name.lower()


def _normalizes(name):
    return ROLE_OF.get(name) == "normalize" or "norm" in name.lower().split("_")


def _padding(nodes, names):
    """Return by what the padding is known."""
    found = {_sum_of(node, None) for node in nodes} - {""}
    if calls_where(nodes, lambda name: name == "sequence_mask"):
        found.add("lengths, by tf.sequence_mask")
    if found:
        return " and ".join(sorted(found))
    given = [name for name in names if "mask" in name or name.endswith("_len")]
    return " and ".join(given) or "not looked for"


def _sum_of(node, names: Optional[tuple]) -> str:
    """Return which rows a node takes for padding; "" for any other node.

    Args:
      names: the tensor must have one of these; None for any.
    """
    if not isinstance(node, ast.Call) or not node.args:
        return ""
    outer, inner = node, node.args[0]
    if not isinstance(inner, ast.Call) or not inner.args:
        return ""
    if names is not None and dotted(inner.args[0]) not in names:
        return ""
    pair = (last_name(outer.func), last_name(inner.func))
    if pair == ("sign", "reduce_sum") and isinstance(inner.args[0], ast.Call):
        return ""  # the sign of a sum of absolute values: seen on its own
    return {
        ("reduce_sum", "abs"): "rows of zeros",
        ("abs", "reduce_sum"): "rows whose sum is zero",
        ("sign", "reduce_sum"): "rows whose sum is zero",
    }.get(pair, "")


def _constants(nodes) -> List[float]:
    """Return the numbers in nodes; of what is computed from numbers, the result."""
    found, waiting = [], list(nodes)
    while waiting:
        node = waiting.pop()
        try:
            value = constant(node)
        except ValueError:
            value = None
        if type(value) in (int, float):
            found.append(value)
        elif value is None:
            waiting += ast.iter_child_nodes(node)
    return found


def _forbidden(nodes):
    """Return the constants that stand for minus infinity."""
    tops = [node for node in nodes if isinstance(node, ast.stmt)]
    found = {f"{-abs(value):.6g}" for value in _constants(tops) if abs(value) >= LARGE}
    return " and ".join(sorted(found)) or "none"


def _has_root(nodes):
    """Return whether there is a square root, or a division by one."""
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            try:
                if abs(constant(node.right)) == 0.5:
                    return True
            except (ValueError, TypeError):
                continue
    return bool(calls_where(nodes, lambda name: name in ("sqrt", "rsqrt")))


def _residual(nodes, names):
    """Return whether one of the names is added to something, and when."""
    conditional = {
        id(inner)
        for node in nodes
        if isinstance(node, ast.If)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in nodes:
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            sides = [node.value]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            sides = [node.left, node.right]
        elif isinstance(node, ast.Call) and last_name(node.func) == "add":
            sides = node.args
        else:
            continue
        if any(dotted(side) in names for side in sides):
            return "under a condition" if id(node) in conditional else "added"
    return "none"


def _result(function):
    """Return whether a function returns one tensor or several."""
    kinds = {
        isinstance(node.value, ast.Tuple)
        for node in ast.walk(function)
        if isinstance(node, ast.Return)
    }
    if kinds == {True, False}:
        return "one tensor, or several"
    return _yes(True in kinds, "several tensors", "one tensor")
