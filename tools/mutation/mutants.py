"""The mutants of a file: what it would be with one small change each."""

import ast
import collections
import os

# Where a file can be changed: its line, the node, which of the changes of that node.
Place = collections.namedtuple("Place", "line node number")

COMPARISONS = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
# Arguments that name an operation, or say something to a reader alone.
NAMES = ("name", "default_name", "help")


def places_of(text):
    """Return where a source text can be changed, in the order of its lines.

    Not changed are docstrings, annotations, decorators, and what an error says.
    """
    return [
        Place(node.lineno, place, number)
        for place, node in enumerate(_changeable(ast.parse(text)))
        for number in range(len(_changes(node)))
    ]


def mutant(text, place):
    """Return (the text with one change, "what was → what is")."""
    tree = ast.parse(text)
    node = _changeable(tree)[place.node]
    before = ast.unparse(_shown(node))
    change = _changes(node)[place.number]
    said = change() or _difference(before, ast.unparse(_shown(node)))
    return ast.unparse(tree) + "\n", said


def _changeable(tree):
    """Return the nodes that may be changed, always in the same order."""
    nodes = []

    def visit(node):
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list"):
                continue
            if isinstance(node, ast.Raise):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                    if isinstance(child, (ast.stmt, ast.expr, ast.keyword)):
                        nodes.append(child)
                    visit(child)

    visit(tree)
    return nodes


def _shown(node):
    """Return what of a node is shown: of a statement with a body, its condition."""
    return node.test if isinstance(node, (ast.If, ast.While)) else node


def _difference(before, after, around=25):
    """Return "before → after", and of long texts what is around the difference."""
    before, after = " ".join(before.split()), " ".join(after.split())
    same = len(os.path.commonprefix([before, after]))
    start = max(0, same - around)

    def part(text):
        end = same + around
        dots = ["…" if start else "", "…" if end < len(text) else ""]
        return dots[0] + text[start:end] + dots[1]

    return f"{part(before)} → {part(after)}"


def _changes(node):
    """Return the changes of a node: functions that make one each, in place.

    One that returns text says what it did.
    """
    changes = []
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            new = COMPARISONS[type(operator)]()
            changes.append(lambda place=place, new=new: _put(node.ops, place, new))
    elif isinstance(node, (ast.BinOp, ast.AugAssign)):
        if type(node.op) in ARITHMETIC and not _is_text(node):
            changes.append(lambda: setattr(node, "op", ARITHMETIC[type(node.op)]()))
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        changes.append(lambda: setattr(node, "op", other))
    elif isinstance(node, ast.UnaryOp):
        if isinstance(node.op, (ast.Not, ast.USub)):
            changes.append(lambda: _become(node, node.operand))
    elif isinstance(node, ast.Constant):
        changes += [lambda new=new: setattr(node, "value", new) for new in _near(node)]
    elif isinstance(node, (ast.If, ast.While, ast.IfExp)) and not _turns(node.test):
        negated = ast.UnaryOp(ast.Not(), node.test)
        changes.append(lambda: setattr(node, "test", negated))
    elif isinstance(node, ast.Slice):
        for bound in ("lower", "upper"):
            if getattr(node, bound) is not None:
                changes.append(lambda bound=bound: setattr(node, bound, None))
    elif isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg not in (None, *NAMES):
                changes.append(lambda each=keyword: _remove(node, each))
    return changes + _dropped(node)


def _turns(test):
    """Return whether a condition has a change of its own that is its negation."""
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not)
    return isinstance(test, ast.Compare) and isinstance(
        test.ops[0], (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)
    )


def _dropped(node):
    """Return the changes that take a statement away."""
    if isinstance(node, ast.Return) and node.value is not None:
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            return [lambda: setattr(node, "value", ast.Constant(None))]
    called = isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    if called or isinstance(node, (ast.AugAssign, ast.Raise, ast.Continue)):
        return [lambda: _become(node, ast.Pass())]
    return []


def _near(node):
    """Return other values for a constant: none for text, a name or a message."""
    if isinstance(node.value, bool):
        return [not node.value]
    if isinstance(node.value, (int, float)):
        return [node.value + 1]
    return []


def _is_text(node):
    """Return whether an operation joins or formats text."""
    sides = [getattr(node, side, None) for side in ("left", "right", "value")]
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in sides
    )


def _put(operators, place, new):
    operators[place] = new


def _remove(call, keyword):
    call.keywords.remove(keyword)
    return f"{ast.unparse(call.func)}(…) without {keyword.arg}="


def _become(node, other):
    """Turn a node into another one, where it stands."""
    node.__class__ = other.__class__
    fields = dict(ast.iter_fields(other))
    for name in node._fields:
        node.__dict__.pop(name, None)
    node.__dict__.update(fields)
