"""Format the porting report of a file as text."""

import os
from typing import Dict, Iterator, List, Tuple

from transformer.porting import hidden, tensorflow2
from transformer.porting.calls import (
    Blocks,
    Call,
    blocks,
    calls,
    imports,
    own_blocks,
    rewritten,
)
from transformer.porting.formulas import ROLE_OF, facts_of
from transformer.porting.reading import Script, definitions
from transformer.porting.signatures import of_module
from transformer.porting.sources import SOURCES, Match, class_blocks, module_of

ANYWAY = (
    "anyway: other first values, dropout rates rounded to 256ths, rounding of float32"
)

ONLY_PARAMETERS = "no difference found in the parameters, and no more compared, of"


def report(script: Script, matches: Dict[str, Match]) -> str:
    """Return what is known of a file, and what to write in it.

    Args:
      script: what `reading.read` returned.
      matches: absolute path → Match, of the files of modules that were read.
    """
    lines = []
    if script.problem:
        count = len(script.changed)
        lines.append(
            f"not Python 3 ({script.problem}): {count} of its lines were not read as "
            "they are; make it Python 3 first (2to3)"
        )
    match = matches.get(os.path.abspath(script.path))
    if match:
        lines += _modules(script, match)
        lines += _calls_of_its_own(script, match)
    found = blocks(script, matches)
    for each in found:
        lines += _imported(script, each)
    lines += [
        f"line {line}: class {name}: class APIs are not covered"
        for name, line in class_blocks(script)
        if not (match and match.source == "bojone_keras")
    ]
    if not match and not found:
        lines.append("no modules of a tutorial, and no import of them")
    lines += _file_name(script)
    lines += _tensorflow(script)
    return f"{script.path}\n" + "".join(f"  {line}\n" for line in lines)


def _modules(script, match: Match) -> Iterator[str]:
    """Return what is known of a file of modules."""
    yield f"the modules of {SOURCES[match.source].title}: {module_of(match.source)}"
    if match.because:
        yield f"  told by: {'; '.join(match.because)}"
    yield f"  dialect: {SOURCES[match.source].dialect}"
    differing = {each.function for each in match.differences}
    for looked, said in ((True, "no difference found in"), (False, ONLY_PARAMETERS)):
        same = [
            name
            for name in sorted(set(match.names) - differing)
            if _is_looked_at(name, script, match.source) == looked
        ]
        if same:
            yield f"  {said}: {', '.join(same)}"
    for each in match.differences:
        yield f"  {each.function}: {each.text}"
    missing = [
        name
        for name in match.parameters
        if name not in match.names and name not in differing
    ]
    if missing:
        yield f"  not there, keep yours: {', '.join(sorted(missing))}"
    if match.unknown:
        yield "  unknown variant: check with --compare"
    elif any(each.matters for each in match.differences):
        yield "  a variant: keep what differs, and check the rest with --compare"


def _is_looked_at(name, script, source) -> bool:
    """Return whether more than the parameters of a function of a file is compared."""
    facts = facts_of(name, definitions(script))
    return bool(
        set(facts) & set(SOURCES[source].facts.get(ROLE_OF.get(name, name), {}))
    )


def _calls_of_its_own(script, match: Match) -> Iterator[str]:
    """Return what to write in the calls of functions that the file itself defines."""
    found = calls(script, own_blocks(script, match))
    if found and match.names:
        module, names = module_of(match.source), sorted(match.names.items())
        taken = [own if own == n else f"{own} as {n}" for n, own in names]
        [line] = hidden.named(script, [f"from {module} import {', '.join(taken)}"])
        yield f"  where --compare finds no difference, delete yours, and write: {line}"
    for call in found:
        yield f"  {script.path}:{call.line}: {call.name}(...): {_said(call)}"


def _imported(script, each: Blocks) -> Iterator[str]:
    """Return what to write for an import of blocks, and in each call of them."""
    told = f" ({each.because})" if each.because else ""
    yield f"line {each.node.lineno}: {each.module} is {module_of(each.source)}{told}"
    lines = rewritten(script, each)
    there, all_of_it = _imported_at(script, each)
    if there and (lines is None or all_of_it):
        yield f"  line {there} imports it already"
        lines = []
    elif lines is None:
        lines = [f"from {module_of(each.source)} import ... (by hand, what you need)"]
    for line in hidden.named(script, lines):
        yield f"  write: {line}"
    yield f"  dialect: {SOURCES[each.source].dialect}"
    found = calls(script, each)
    for call in found:
        yield f"  {script.path}:{call.line}: {call.name}(...): {_said(call)}"
    called = {each.names[call.name] for call in found}
    for change in SOURCES[each.source].changes:
        if _concerns(change.split()[0], called, script, each):
            yield f"  changes: {change}"
    yield f"  {ANYWAY}"


def _imported_at(script, each: Blocks) -> Tuple[int, bool]:
    """Return where a file imports our module already (0: nowhere), and if by a star."""
    names = [module_of(each.source)]
    names += [names[0].replace("transformer", hidden.OTHER_NAME, 1)]
    for node, module, _ in imports(script):
        if module in names:
            return node.lineno, node.names[0].name == "*"
    return 0, False


def _concerns(first: str, called, script, each: Blocks) -> bool:
    """Return whether a change whose text begins with a word concerns a file."""
    ours = of_module(module_of(each.source))
    if first in ours:
        return first in called
    if not any(first in parameters.names for parameters in ours.values() if parameters):
        return True  # no name of ours: it concerns everybody
    if each.match:
        known = [each.match.parameters[n] for n in called if n in each.match.parameters]
        return any(first in parameters.names for parameters in known)
    return any(token.string == first for token in script.tokens)


def _said(call: Call) -> str:
    return "; ".join(call.advice) or "unchanged"


def _file_name(script) -> List[str]:
    """Return what to do about a file or folder that hides this package."""
    found = hidden.hider_of(script)
    return [
        f"{name} of its folder hides this package: write {hidden.OTHER_NAME} instead "
        f"of transformer, and run python -m {hidden.OTHER_NAME}.porting there"
        for name in filter(None, [found])
    ]


def _tensorflow(script) -> Iterator[str]:
    """Return what to write for TensorFlow 2.16 and newer; equal cases in one line."""
    groups = {}
    for each in tensorflow2.uses(script):
        groups.setdefault((each.found, each.write), []).append(each.line)
    if groups:
        yield "TensorFlow 2.16 and newer:"
    for (found, write), lines in sorted(groups.items(), key=lambda each: each[1]):
        numbers = ", ".join(map(str, sorted(set(lines))))
        yield f"  line {numbers}: {found}: {write}"
