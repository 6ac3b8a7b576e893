"""Measure whether the functions of a file compute the same results as ours.

This is a separate program, which the command starts because it executes the file:

    python -c "from transformer.porting import measure; measure.main()" FILE RESULTS

For each function, it writes a `Verdict` to RESULTS, as one line of JSON.

A function is called with many combinations of arguments (`cases`), each in a graph of
its own (`graphs`). Then each of our functions with that name (`sources`) is called in
the same way, with the same values of the variables, and the results are compared
(`compare`).
"""

import json
import sys
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Tuple

import numpy as np

from transformer.porting import graphs
from transformer.porting.cases import Call, make_calls
from transformer.porting.compare import (
    DROPOUT,
    FIRST_VALUES,
    OTHER_DEFAULT,
    OUTPUTS,
    SECOND_CALL,
    Comparison,
    compare_calls,
    compare_parameters,
    describe_error,
)
from transformer.porting.graphs import RAISED, Results
from transformer.porting.sources import (
    Candidate,
    find_candidates,
    guess_source,
    load_file,
    public_functions,
)
from transformer.runtime.progress import format_count

# Kind of a verdict → the beginning of its text.
KINDS = {
    "same": "same numbers",
    "similar": "same except for",
    "different": "not one of these: keep yours",
    "failed": "could not be run",
}


class Verdict(NamedTuple):
    """The result of measuring a function."""

    name: str
    kind: str  # a key of KINDS
    text: str
    line: str = ""  # the import of our function
    rank: Tuple[int, int] = (
        0,
        0,
    )  # lower is closer: calls that differ, all differences


def main() -> None:
    """Measure the file named by the arguments."""
    path, results = sys.argv[1:]
    sys.argv = [path]
    with open(results, "w", encoding="utf-8") as file:
        for verdict in measure_file(path):
            text = f"{KINDS[verdict.kind]}: {verdict.text}"
            file.write(json.dumps(verdict._replace(text=text)._asdict()) + "\n")
            file.flush()
        file.write('{"kind": "done"}\n')


def measure_file(path: str) -> Iterator[Verdict]:
    """Yield the verdicts on the functions of a file."""
    try:
        module, error = load_file(path)
    except RAISED as load_error:
        yield Verdict("", "failed", describe_error(load_error))
        return
    functions = public_functions(module)
    if error is not None:
        where = "; what it defines before that is measured" if functions else ""
        yield Verdict("", "failed", describe_error(error) + where)
    likely_source = guess_source(functions)
    for name, function in functions.items():
        yield measure_function(name, function, likely_source)


def measure_function(name: str, function: Callable, likely_source: str = "") -> Verdict:
    """Compare a function with ours, starting with those of the likely source."""
    try:
        candidates = find_candidates(name, function, likely_source)
        our_names: Dict[str, List[str]] = {}
        for candidate in candidates:
            for our_name, their_name in candidate.their_names.items():
                our_names.setdefault(their_name, []).append(our_name)
        calls = make_calls(function, our_names)
    except ValueError as error:
        return Verdict(name, "different", str(error))
    try:
        first = graphs.evaluate(function, calls[0])
    except RAISED as error:
        renamed = candidates[0].their_names
        if not all(candidate.their_names for candidate in candidates):
            return Verdict(name, "failed", describe_error(error))
        text = " and ".join(f"{renamed[key]} like our {key}" for key in renamed)
        text = f"it does not take {text}: {describe_error(error)}"
        return Verdict(name, "different", text)
    comparisons = [compare_calls(candidate, [first]) for candidate in candidates]
    equal = [
        candidate
        for candidate, comparison in zip(candidates, comparisons)
        if OUTPUTS not in comparison.differences
    ]
    if not equal:
        distances = [comparison.differences[OUTPUTS][0] for comparison in comparisons]
        nearest = int(np.argmin(distances))
        source = candidates[nearest].source
        return _judge_different(name, source, comparisons[nearest])
    references = [first]
    failures: Dict[str, List[Call]] = {}  # exception → the calls that raise it
    for call in calls[1:]:
        try:
            references.append(graphs.evaluate(function, call))
        except RAISED as error:
            if not call.setting.is_optional:
                failures.setdefault(describe_error(error), []).append(call)
    verdict = _judge_best(name, function, equal, references)
    return _add_failures(verdict, failures, references) if failures else verdict


def _judge_different(name: str, source: str, comparison: Comparison) -> Verdict:
    """Judge a function whose outputs differ from ours in the first call."""
    distance = comparison.differences[OUTPUTS][0]
    text = f"nearest: {source}, outputs {_format_distance(distance)}"
    for difference in comparison.differences.get(DROPOUT, {}).values():
        text += f"; {DROPOUT} {difference}"
    return Verdict(name, "different", text)


def _judge_best(
    name: str,
    function: Callable,
    candidates: List[Candidate],
    references: List[Results],
) -> Verdict:
    """Judge a function beside each candidate; return the best verdict."""
    verdicts = []
    for candidate in candidates:
        verdicts.append(_judge(name, function, candidate, references))
        if verdicts[-1].kind == "same":
            break
    return min(verdicts, key=lambda verdict: verdict.rank)


def _judge(
    name: str, function: Callable, candidate: Candidate, references: List[Results]
) -> Verdict:
    """Judge a function beside one of ours, in all calls."""
    texts = compare_parameters(function, candidate)
    has_other_default = any(text.startswith(OTHER_DEFAULT) for text in texts)
    if has_other_default:  # that is enough to say
        references = [x for x in references if not x.call.setting.only_required]
    differences, largest = compare_calls(candidate, references)
    num_differences = len(texts) + len(differences)
    rank = (len(differences.get(OUTPUTS, ())) + has_other_default, num_differences)
    for aspect, by_call in differences.items():
        where = ""
        if aspect not in (FIRST_VALUES, SECOND_CALL):  # they are checked in one call
            calls = [references[i].call for i in by_call]
            other_calls = [
                reference.call
                for i, reference in enumerate(references)
                if i not in by_call
            ]
            where = _describe_calls(calls, other_calls)
        values = list(by_call.values())
        worst = values[0] if isinstance(values[0], str) else max(values)
        texts.append(f"{aspect} {_format_distance(worst)}{where and ' ' + where}")
    if texts:
        text = f"{'; '.join(texts)} (compared with {candidate.source})"
        return Verdict(name, "similar", text, candidate.line, rank)
    text = f"{candidate.source} (largest difference {largest:.1e}"
    text += f", {format_count(len(references), 'call')}"
    num_dropouts = sum(bool(reference.masks) for reference in references)
    text += f", {num_dropouts} of them with dropout)" if num_dropouts else ")"
    return Verdict(name, "same", text, candidate.line)


def _add_failures(
    verdict: Verdict, failures: Dict[str, List[Call]], references: List[Results]
) -> Verdict:
    """Add the calls that raised an exception to the verdict on the other calls."""
    calls = [reference.call for reference in references]
    texts = [
        f"{_describe_calls(failures[error], calls)}: {error}" for error in failures
    ]
    text = f"{'; '.join(texts)}; else {KINDS[verdict.kind]}: {verdict.text}"
    return verdict._replace(kind="failed", text=text)


def _format_distance(distance: Any) -> str:
    """Return a distance in words; a difference in words stays as it is."""
    if isinstance(distance, str):
        return distance
    return f"{distance:.1e} apart" if distance < np.inf else "of another kind"


def _describe_calls(calls: List[Call], other_calls: List[Call]) -> str:
    """Describe calls by what they share: "with causality=True"; "" for all calls."""
    if not other_calls:
        return ""

    def conditions(call: Call) -> List[str]:
        options = [f"{name}={value}" for name, value in call.options.items()]
        return [*options, call.setting.title]

    shared = [
        condition
        for condition in conditions(calls[0])
        if all(condition in conditions(call) for call in calls)
    ]
    for condition in shared:
        if not any(condition in conditions(call) for call in other_calls):
            return f"with {condition}"
    text = f"in {len(calls)} of {len(calls) + len(other_calls)} calls"
    return text + (f", all with {' and '.join(shared)}" if shared else "")
