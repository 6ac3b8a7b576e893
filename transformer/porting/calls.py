"""The calls of blocks in a file, and what to write instead of its imports of them."""

import ast
import builtins
import os
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from transformer.porting.formulas import ROLE_OF
from transformer.porting.reading import Script, definitions, dotted
from transformer.porting.signatures import of_module
from transformer.porting.sources import SOURCES, Match, module_of

# Words of module names that a file without its modules.py is told by.
MODULES = {
    "attention_tf": "bojone",
    "attention_keras": "bojone_keras",
    "common_attention": "tensor2tensor",
    "common_layers": "tensor2tensor",
}
# The same for keywords of calls, and for names that only one source has.
KEYWORDS = {
    "query_antecedent": "tensor2tensor",
    "nb_head": "bojone",
    "values": "kyubyong",
    "training": "kyubyong",
    "with_t": "sasrec",
    "l2_reg": "sasrec",
    "with_qk": "sasrec",
}
NAMES = {
    "ff": "kyubyong",
    "get_token_embeddings": "kyubyong",
    "noam_scheme": "kyubyong",
    "time_encoding": "functional_time",
    "basis_time_encode": "functional_time",
    "scaled_dotproduct_attention": "tutorial",
}
GIVE = "to be certain, give the file of its modules too"
GENERAL = "modules"  # the last word of a module that may be anybody's


class Blocks(NamedTuple):
    """An import of blocks, and the calls of what it gives."""

    node: ast.stmt
    module: str  # as it is written there
    qualifiers: Tuple[str, ...]  # what stands before the names: "modules", or nothing
    star: bool
    names: Dict[str, str]  # name in this file → name in the module
    source: str
    because: str
    match: Optional[Match]  # of the module, where its file was read

    @property
    def certain(self) -> bool:
        """Whether it is known what the module computes, not only how it is called."""
        if self.match and self.match.unknown:
            return False
        compared = self.match and SOURCES[self.match.source].facts
        return bool(compared) or self.module.split(".")[-1] in MODULES


class Call(NamedTuple):
    """A call of a block, and what to write there."""

    line: int
    name: str
    advice: Tuple[str, ...]  # empty: unchanged


def imports(script: Script) -> Iterator[Tuple[ast.stmt, str, int]]:
    """Return (node, module, level) of what a file imports, in the order of lines."""
    nodes = [
        node
        for node in ast.walk(script.tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    for node in sorted(nodes, key=lambda node: node.lineno):
        if isinstance(node, ast.ImportFrom):
            yield node, node.module or "", node.level
        elif len(node.names) == 1:
            yield node, node.names[0].name, 0


def paths_of(script: Script, module: str, level: int) -> List[str]:
    """Return where the file of an imported module may be, the nearest place first."""
    folder = os.path.dirname(os.path.abspath(script.path))
    for _ in range(max(level - 1, 0)):
        folder = os.path.dirname(folder)
    places = [folder]
    while not level and len(places) < 4:
        places.append(os.path.dirname(places[-1]))
    return [os.path.join(place, *module.split(".")) + ".py" for place in places]


def blocks(script: Script, matches: Dict[str, Match]) -> List[Blocks]:
    """Return the imports of blocks in a file.

    Args:
      script: what `reading.read` returned.
      matches: absolute path → Match, of the files of modules that were read.
    """
    found = []
    for node, module, level in imports(script):
        paths = paths_of(script, module, level)
        match = next((matches[path] for path in paths if path in matches), None)
        each = _import(script, node, module, match)
        if each is not None:
            found.append(each)
    return found


def _import(script, node, module, match):
    """Return an import as Blocks; None where it is of something else."""
    star = isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
    names, qualifiers = {}, {}
    if isinstance(node, ast.Import):
        qualifiers = {(node.names[0].asname or module): module}
    elif any(each.name in MODULES for each in node.names):
        qualifiers = {
            each.asname or each.name: each.name
            for each in node.names
            if each.name in MODULES
        }
        module = next(iter(qualifiers.values()))
    elif not star:
        names = {each.asname or each.name: each.name for each in node.names}
    last = module.split(".")[-1]
    if match is None and last not in MODULES:
        known = set(names.values()) & set(ROLE_OF)
        may_be = GENERAL in last or (not star and not qualifiers and known)
        if not may_be or module.split(".")[0] in ("transformer", "tensorflow", "keras"):
            return None
    if star:
        names = {name: name for name in (match.parameters if match else _of_all())}
    for name in {dotted(each) for each in ast.walk(script.tree)} if qualifiers else ():
        before, _, attribute = name.rpartition(".")
        if before in qualifiers:
            names[name] = attribute
    source, because = _source_of(script, names, last, match)
    found = Blocks(node, module, tuple(qualifiers), star, names, source, because, match)
    return found if match or last in MODULES or calls(script, found) else None


def _of_all():
    found = {name for each in SOURCES for name in of_module(module_of(each))}
    return found | set(NAMES)


def _source_of(script, names, last, match):
    """Return (source, by what it was told)."""
    if match:
        return match.source, ""
    if last in MODULES:
        return MODULES[last], f"told by the name of {last}"
    evidence = {}
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            called = _called(node.value, names)
            if called and ROLE_OF.get(called) == "attention":
                evidence["interhat"] = f"two results of {called}"
        called = _called(node, names)
        if called in NAMES:
            evidence[NAMES[called]] = called
        for each in node.keywords if called else ():
            if each.arg in KEYWORDS:
                evidence[KEYWORDS[each.arg]] = f"{each.arg} in a call of {called}"
            if ROLE_OF.get(called) == "feedforward" and each.arg == "dropout_rate":
                evidence["sasrec"] = f"{each.arg} in a call of {called}"
    order = ("tensor2tensor", "bojone", "functional_time", "kyubyong", "sasrec")
    for source in order + ("interhat", "tutorial"):
        if source in evidence:
            return source, f"told by {evidence[source]}; {GIVE}"
    return "kyubyong_legacy", f"calls of it and of tutorial look alike; {GIVE}"


def _called(node, names) -> str:
    """Return the original name of the block that a node calls, or ""."""
    return names.get(dotted(node.func), "") if isinstance(node, ast.Call) else ""


def own_blocks(script: Script, match: Match) -> Blocks:
    """Return the blocks that a file defines itself, as if they were imported."""
    names = {name: name for name in match.parameters if name in ROLE_OF}
    return Blocks(script.tree, "", (), False, names, match.source, "", match)


def calls(script: Script, each: Blocks) -> List[Call]:
    """Return the calls of the blocks of an import, with what to write.

    What blocks of the file itself call in each other does not count.
    """
    found, known = [], _known(each)
    here = definitions(script) if each.node is script.tree else {}
    inner = {
        id(node) for name in here if name in each.names for node in ast.walk(here[name])
    }
    for node in ast.walk(script.tree):
        if id(node) in inner:
            continue
        name = _called(node, each.names)
        if name and (name in ROLE_OF or name in known):
            advice = _advice(node, name, each)
            found.append(Call(node.lineno, dotted(node.func), advice))
    return sorted(found)


def _known(each: Blocks):
    """Return the names of blocks that calls are told of."""
    ours = {name for name, s in of_module(module_of(each.source)).items() if s}
    is_one = each.qualifiers and set(ours | set(ROLE_OF)) & set(each.names.values())
    more = set(each.names.values()) if is_one else set(NAMES)
    return ours | (set(each.match.parameters) if each.match else more)


def _advice(node, name, each: Blocks) -> Tuple[str, ...]:
    """Return what to write in a call; nothing where it stays as it is."""
    module = module_of(each.source)
    ours = of_module(module)
    own = own_name(name, each)
    if own is None:
        return (_why_not(name, each),)
    theirs = each.match.parameters[name] if each.match else None
    given = {keyword.arg for keyword in node.keywords}
    advice = []
    if None in given or any(isinstance(arg, ast.Starred) for arg in node.args):
        advice.append("check the names in *args and **kwargs")
        return tuple(advice)
    if ours[own] is None:
        return ()
    for keyword in sorted(given - set(ours[own].names)):
        there = ", there neither" if theirs and keyword not in theirs.names else ""
        advice.append(f"leave out {keyword}, which it does not take{there}")
    for place, _ in enumerate(node.args):
        there = theirs.names[place : place + 1] if theirs else ()
        here = ours[own].names[place : place + 1]
        if there and there != here:
            advice.append(f"name argument {place + 1}: {there[0]}=...")
        elif not here:
            advice.append(f"leave out argument {place + 1}, which it does not take")
        given.add((there or here or ("",))[0])
    for keyword, value in theirs.defaults.items() if theirs else ():
        known = keyword in ours[own].names
        if known and keyword not in given and ours[own].defaults.get(keyword) != value:
            advice.append(f"add {keyword}={value!r}")
    return tuple(advice)


def own_name(name: str, each: Blocks) -> Optional[str]:
    """Return what a block is called in our module; None where it is not covered."""
    if each.match:
        return each.match.names.get(name)
    return name if name in of_module(module_of(each.source)) else None


def _why_not(name, each):
    """Return why a block is not covered."""
    told = [
        difference.text
        for difference in (each.match.differences if each.match else ())
        if difference.function == name and difference.matters
    ]
    return "yours stays: " + ("; ".join(told) or f"not in {module_of(each.source)}")


def rewritten(script: Script, each: Blocks) -> Optional[List[str]]:
    """Return the lines to write instead of an import; None where that is not certain.

    Where a name is not covered, their import stays, and ours follows it.
    """
    module, used = module_of(each.source), _used(script, each)
    ours = of_module(module)
    covered = {local: own_name(name, each) for local, name in used.items()}
    kept = sorted(name for name, own in covered.items() if own is None)
    if each.qualifiers:
        return None if kept or not covered else _modules(each, covered, used)
    ours_of = {local: own for local, own in covered.items() if own}
    if each.star:
        if not ours_of or not ours:
            return None
        others = [] if each.match else _unbound(script) - set(ours)
        if kept or others:
            return [f"from {each.module} import *", _line(module, ours_of)]
        other = {local: own for local, own in ours_of.items() if local != own}
        lines = [f"from {module} import *"]
        return lines + ([_line(module, other)] if other else [])
    theirs = {local: each.names[local] for local in each.names if local not in ours_of}
    lines = [_line(each.module, theirs)] if theirs else []
    return lines + [_line(module, ours_of)] if ours_of else None


def _modules(each: Blocks, covered, used) -> Optional[List[str]]:
    """Return the imports of our modules under the names that theirs have in a file."""
    if covered != used or any("." in local for local in each.qualifiers):
        return None
    others = []
    if isinstance(each.node, ast.ImportFrom):
        others = [alias for alias in each.node.names if alias.name not in MODULES]
    names = {alias.asname or alias.name: alias.name for alias in others}
    return ([_line(each.node.module, names)] if names else []) + [
        _line("transformer.compat", {local: each.source}) for local in each.qualifiers
    ]


def _line(module, names: Dict[str, str]) -> str:
    """Return an import of names: local → in the module."""
    parts = [
        name if name == local else f"{name} as {local}"
        for local, name in sorted(names.items())
    ]
    return f"from {module} import {', '.join(parts)}"


def _used(script, each: Blocks) -> Dict[str, str]:
    """Return the names of an import that a file uses; all, where they are named."""
    if not each.star and not each.qualifiers:
        return dict(each.names)
    seen = {dotted(node) for node in ast.walk(script.tree)}
    bound = set() if each.qualifiers else _bound(script)
    return {n: o for n, o in each.names.items() if n in seen and n not in bound}


def _bound(script):
    """Return the names that a file binds anywhere, those of imports included."""
    found = set()
    for node in ast.walk(script.tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update(n.asname or n.name.split(".")[0] for n in node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
    return found


def _unbound(script):
    """Return the names that a file uses and does not bind."""
    used = {node.id for node in ast.walk(script.tree) if isinstance(node, ast.Name)}
    return used - _bound(script) - set(dir(builtins)) - {"__file__"}
