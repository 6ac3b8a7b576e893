"""Run the functions of a file and ours with the same variables.

This is a separate program, which the command starts because it executes the file:

    python -c "from transformer.porting import measure; measure.main()" FILE RESULTS

For each function, it writes a `Verdict` to RESULTS, as one line of JSON.
"""

import importlib
import inspect
import json
import os
import sys
import tokenize
import types
import zlib
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
)

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.porting import tensorflow1
from transformer.porting.cases import KEEP, Call, alike, calls

# What building or running a graph may raise; a file may also exit.
RAISED = (Exception, SystemExit)

# A module of `transformer.compat` → names of functions and parameters. A file derived
# from that module's source has all of them, and none of the names after "without". The
# first row that fits is the likely source.
SOURCES = {
    "tensor2tensor": "query_antecedent",
    "bojone": "nb_head",
    "kyubyong": "key_masks training",
    "functional_time": "with_qk time_encoding",
    "sasrec": "with_qk",
    "tutorial": "mulithead_attention",
    "interhat": "multihead_attention queries keys without causality",
    "kyubyong_legacy": "multihead_attention queries keys causality",
}


def _ours(source: str) -> Dict[str, Callable]:
    """Return the functions of a module of `transformer.compat`."""
    module = importlib.import_module(f"transformer.compat.{source}")
    every = {name: getattr(module, name) for name in module.__all__}
    return {name: each for name, each in every.items() if callable(each)}


CATALOGUE = {source: _ours(source) for source in SOURCES}
# Looked up now, because a user's module may take the name `transformer` later.
OURS = [sys.modules[name] for name in sys.modules if name.startswith("transformer.")]
# Kind of a verdict → the beginning of its text.
KINDS = {
    "same": "same numbers",
    "but": "same except for",
    "none": "not one of these: keep yours",
    "failed": "could not be run",
}
RANDOM = "random"
FIRST_VALUES = "first values:"
SECOND_CALL = "a second call (reuse=True):"
DROPOUT = "dropout:"


class Built(NamedTuple):
    """The results of a function in a graph of its own."""

    variables: Dict[str, Tuple[List[int], bool]]  # name → shape, whether trained
    outputs: List[np.ndarray]
    regularization: float  # the sum of the losses that it added
    gradients: Dict[str, np.ndarray]  # with respect to variables and arguments
    initial: Dict[str, str]  # variable → the first value of all its elements; or RANDOM
    again: str  # what a second call with reuse=True does
    masks: List[tensorflow1.Mask]  # of its dropout
    is_random: bool


class Candidate(NamedTuple):
    """A function of ours that may correspond to one of theirs."""

    source: str  # a key of SOURCES
    line: str  # the import
    function: Callable
    renamed: Dict[str, str] = {}  # name of its argument → name in theirs


class Verdict(NamedTuple):
    """The result of measuring a function."""

    name: str
    kind: str  # a key of KINDS
    text: str
    line: str = ""  # the import of our function


def main() -> None:
    """Measure the file named by the arguments."""
    path, results = sys.argv[1:]
    sys.argv = [path]
    with open(results, "w", encoding="utf-8") as file:
        for each in verdicts(path):
            found = each._replace(text=f"{KINDS[each.kind]}: {each.text}")
            file.write(json.dumps(found._asdict()) + "\n")
            file.flush()
        file.write('{"kind": "done"}\n')


def verdicts(path: str) -> Iterator[Verdict]:
    """Yield the verdicts on the functions of a file."""
    try:
        found = functions(load(path))
    except RAISED as error:
        yield Verdict("", "failed", said(error))
        return
    source = likely(found)
    for name, function in found.items():
        yield measured(name, function, source)


def load(path: str) -> types.ModuleType:
    """Run a file as a module, with TensorFlow 1 names lent to it."""
    with tokenize.open(path) as file:
        text = file.read()
    try:
        code = compile(text, path, "exec")
    except TabError:  # in Python 2, a tab is eight columns
        code = compile(text.expandtabs(8), path, "exec")
    tensorflow1.lend(text, OURS)
    module = types.ModuleType(os.path.splitext(os.path.basename(path))[0])
    # Python 2 has xrange; np came from an `import *` of TensorFlow 1.
    module.__dict__.update(np=np, xrange=range, unicode=str, __file__=path)
    sys.path[:0] = [os.path.dirname(os.path.abspath(path)), os.getcwd()]
    exec(code, module.__dict__)
    return module


def functions(module: types.ModuleType) -> Dict[str, Callable]:
    """Return the public functions that a file itself defines."""
    return {
        name: each
        for name, each in vars(module).items()
        if inspect.isfunction(each)
        and each.__code__.co_filename == module.__file__
        and not name.startswith("_")
        and name != "main"
    }


def likely(found: Dict[str, Callable]) -> str:
    """Return the likely source of the functions in a file: a key of SOURCES, or ""."""
    words = set(found)
    for function in found.values():
        for name, each in inspect.signature(function).parameters.items():
            words.update([name, str(each.default)])
    for source, marks in SOURCES.items():
        with_, _, without = marks.partition(" without ")
        if words >= set(with_.split()) and not words & set(without.split()):
            return source
    return ""


def candidates(
    name: str, function: Callable, likely: str
) -> Tuple[List[Candidate], str]:
    """Return our functions that can be called like a given function.

    Returns:
      (candidates, those from the likely source first; why there are none).
    """
    theirs = inspect.signature(function).parameters
    found: Dict[Callable, Candidate] = {}  # two sources may share a function
    lacking: Dict[str, None] = {}
    for source, ours in sorted(CATALOGUE.items(), key=lambda item: item[0] != likely):
        own = alike(name, ours)
        if own is None:
            continue
        renamed = _renamed(theirs, inspect.signature(ours[own]).parameters)
        needed = [
            parameter
            for parameter, each in inspect.signature(ours[own]).parameters.items()
            if _is_required(each) and parameter not in (*theirs, *renamed)
        ]
        if needed:
            lacking[" and ".join(needed)] = None
            continue
        as_theirs = "" if own == name else f" as {name}"
        line = f"from transformer.compat.{source} import {own}{as_theirs}"
        found.setdefault(ours[own], Candidate(source, line, ours[own], renamed))
    why = "we have no function of that name"
    if lacking:
        why = f"our functions of that name require {', or '.join(lacking)}"
    return list(found.values()), why


def _is_required(parameter: inspect.Parameter) -> bool:
    is_several = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not is_several


def _renamed(
    theirs: Mapping[str, inspect.Parameter], ours: Mapping[str, inspect.Parameter]
) -> Dict[str, str]:
    """Return our name → their name for required arguments in the same position."""
    return {
        own: name
        for (own, mine), (name, each) in zip(ours.items(), theirs.items())
        if own not in theirs and name not in ours
        if _is_required(mine) and _is_required(each)
    }


# The verdict on a function


def measured(name: str, function: Callable, likely: str = "") -> Verdict:
    """Compare a function with ours, starting with those from the likely source."""
    found, why = candidates(name, function, likely)
    if not found:
        return Verdict(name, "none", why)
    try:
        renamed = {
            name: own for each in found[::-1] for own, name in each.renamed.items()
        }
        every = calls(function, renamed)
    except ValueError as error:
        return Verdict(name, "none", str(error))
    try:
        theirs = [(every[0], build(function, every[0]))]
    except RAISED as error:
        return Verdict(name, "failed", said(error))
    at_first = [compare(candidate, theirs)[0] for candidate in found]
    equal = [each for each, differences in zip(found, at_first) if not differences]
    if not equal:
        distances = [each.get("outputs", {0: 0.0})[0] for each in at_first]
        nearest = int(np.argmin(distances))
        equal = [found[nearest]]
        if distances[nearest] > 0:
            text = f"nearest: {equal[0].source}, outputs {_amount(distances[nearest])}"
            for difference in at_first[nearest].get(DROPOUT, {}).values():
                text += f"; {DROPOUT} {difference}"
            return Verdict(name, "none", text)
    failed: Dict[str, List[Call]] = {}  # exception → the calls that raise it
    for call in every[1:]:
        try:
            theirs.append((call, build(function, call)))
        except RAISED as error:
            failed.setdefault(said(error), []).append(call)
    beside = []
    for candidate in equal:
        beside.append(_beside(name, function, candidate, theirs))
        if beside[-1][1].kind == "same":
            break
    _, verdict = min(beside, key=lambda one: one[0])
    if failed:
        others = [call for call, _ in theirs]
        lost = [f"{_where(failed[each], others)}: {each}" for each in failed]
        text = f"{'; '.join(lost)}; else {KINDS[verdict.kind]}: {verdict.text}"
        verdict = verdict._replace(kind="failed", text=text)
    return verdict


def _beside(
    name: str,
    function: Callable,
    candidate: Candidate,
    theirs: List[Tuple[Call, Built]],
) -> Tuple[int, Verdict]:
    """Return (how many things differ, the verdict) for one of our functions."""
    differences, largest = compare(candidate, theirs)
    texts = _parameters(function, candidate)
    count = len(texts)
    for aspect, by_call in differences.items():
        others = [call for i, (call, _) in enumerate(theirs) if i not in by_call]
        where = _where([theirs[i][0] for i in by_call], others)
        if aspect in (FIRST_VALUES, SECOND_CALL):
            where = ""  # checked in only one of the calls
        values = list(by_call.values())
        worst = values[0] if isinstance(values[0], str) else max(values)
        texts.append(f"{aspect} {_amount(worst)}{where and ' ' + where}")
        count += len(by_call)
    if texts:
        text = f"{'; '.join(texts)} (compared with {candidate.source})"
        return count, Verdict(name, "but", text, candidate.line)
    text = f"{candidate.source} (largest difference {largest:.1e}, {len(theirs)} calls"
    dropped = sum(bool(built.masks) for _, built in theirs)
    text += f", {dropped} of them with dropout)" if dropped else ")"
    return 0, Verdict(name, "same", text, candidate.line)


def _amount(distance: Any) -> str:
    if isinstance(distance, str):
        return distance
    return f"{distance:.1e} apart" if distance < np.inf else "of another kind"


def _where(these: List[Call], others: List[Call]) -> str:
    """Return in which calls something holds: "with causality=True"; "" for all."""
    if not others:
        return ""

    def conditions(call: Call) -> List[str]:
        options = [f"{name}={value}" for name, value in call.options.items()]
        return [*options, call.setting.title]

    shared = [
        each
        for each in conditions(these[0])
        if all(each in conditions(call) for call in these)
    ]
    for each in shared:
        if not any(each in conditions(call) for call in others):
            return f"with {each}"
    text = f"in {len(these)} of {len(these) + len(others)} calls"
    return text + (f", all with {' and '.join(shared)}" if shared else "")


def _parameters(theirs: Callable, ours: Candidate) -> List[str]:
    """Return the differences between the parameters of two functions."""
    there = inspect.signature(theirs).parameters
    here = inspect.signature(ours.function).parameters
    found = [f"its {name} is our {own}" for own, name in ours.renamed.items()]
    shared = [name for name in there if name in here]
    takes_any = any(each.kind == each.VAR_KEYWORD for each in here.values())
    more = [name for name in there if name not in (*here, *ours.renamed.values())]
    if more and not takes_any:
        found.append(f"ours does not take {', '.join(more)}")
        kept = [name for name in more if name in KEEP and "dropout_rate" in here]
        found += [f"pass dropout_rate=1 - {name} instead" for name in kept]
    for name in shared:
        default, own = (
            tuple(each.default) if isinstance(each.default, list) else each.default
            for each in (there[name], here[name])
        )
        if default is not inspect.Parameter.empty and default != own:
            our_default = "none" if own is inspect.Parameter.empty else repr(own)
            found.append(f"the default of {name}: {default!r}, ours {our_default}")
    if [name for name in here if name in there] != shared:
        found.append(f"the order of its arguments: {', '.join(shared)}")
    return found


Differences = Dict[str, Dict[int, Any]]  # aspect → number of a call → difference


def compare(
    candidate: Candidate, theirs: List[Tuple[Call, Built]]
) -> Tuple[Differences, float]:
    """Call a function of ours like theirs, and compare the results.

    Returns:
      (what differs, in which calls and by how much; the largest numeric difference).
    """
    differences: Differences = {}
    largest = 0.0
    dropped: Dict[int, str] = {}
    for i, (call, first) in enumerate(theirs):
        try:
            arguments = dict(call.arguments)
            for own, name in candidate.renamed.items():
                arguments[own] = arguments[name]
            own_call = call._replace(arguments=arguments)
            second = build(candidate.function, own_call, first)
        except RAISED as error:
            differences.setdefault("outputs", {})[i] = np.inf
            differences.setdefault("ours raises", {})[i] = said(error)
            continue
        named = {f"argument {own}": name for own, name in candidate.renamed.items()}
        slopes = {
            f"argument {named[name]}" if name in named else name: each
            for name, each in second.gradients.items()
        }
        numbers, texts = _apart(first, second._replace(gradients=slopes))
        for aspect, distance in numbers.items():
            largest = max(largest, distance)
            if distance > call.setting.tolerance:
                differences.setdefault(aspect, {})[i] = distance
        for aspect, text in texts.items():
            differences.setdefault(aspect, {})[i] = text
        if first.masks or second.masks:
            dropped[i] = f"{_dropped(first)}; ours {_dropped(second)}"
    wrong = differences.get("outputs", {})
    is_dropouts = set(wrong) <= set(dropped) < set(range(len(theirs)))
    if wrong and is_dropouts and DROPOUT not in differences:
        differences[DROPOUT] = {i: dropped[i] for i in wrong}
    return differences, largest


def _dropped(built: Built) -> str:
    """Return what a function drops, and at what rates."""
    return _some(
        [
            f"{mask.name}{'' if mask.sizes is None else f' {list(mask.sizes)}'}"
            f"{'' if mask.rate is None else f' at {mask.rate}'}"
            for mask in built.masks
        ]
    )


def _drop_alike(first: Built, second: Built) -> bool:
    """Return whether masks have the same sizes and, where known, the same rates."""
    sizes = [
        sorted(int(np.prod(mask.sizes or 0)) for mask in built.masks)
        for built in (first, second)
    ]
    rates = [(a.rate, b.rate) for a, b in zip(first.masks, second.masks)]
    return sizes[0] == sizes[1] and all(
        None in pair or pair[0] == pair[1] for pair in rates
    )


def _apart(first: Built, second: Built) -> Tuple[Dict[str, float], Dict[str, str]]:
    """Return (how far numbers are apart, what else differs) for two functions."""
    texts = {}
    if set(first.variables) != set(second.variables):
        lacking = [name for name in first.variables if name not in second.variables]
        new = [name for name in second.variables if name not in first.variables]
        texts["variable names:"] = f"{_some(lacking)}; ours {_some(new)}"
    for name, (shape, trained) in first.variables.items():
        here = second.variables.get(name, (shape, trained))
        if here != (shape, trained):
            both = [
                f"{size}, {'trained' if is_trained else 'not trained'}"
                for size, is_trained in ((shape, trained), here)
            ]
            texts["variables:"] = f"{name} is {both[0]}, ours {both[1]}"
    for name, value in first.initial.items():
        ours = second.initial.get(name, value)
        if value not in (ours, RANDOM):
            texts[FIRST_VALUES] = f"{name} is {value}, ours {ours}"
    if first.is_random:
        texts["its random numbers"] = "cannot be fixed: not compared"
        return {}, texts
    if not _drop_alike(first, second):
        texts[DROPOUT] = f"{_dropped(first)}; ours {_dropped(second)}"
    if first.again != second.again:
        texts[SECOND_CALL] = f"{first.again}; ours {second.again}"
    kinds = [[str(each.dtype) for each in built.outputs] for built in (first, second)]
    numbers = {"outputs": np.inf}
    if len(kinds[0]) == len(kinds[1]):
        pairs = zip(first.outputs, second.outputs)
        numbers["outputs"] = max([0.0] + [_distance(a, b, 1e-6) for a, b in pairs])
        if kinds[0] != kinds[1]:
            texts["types:"] = f"{', '.join(kinds[0])}; ours {', '.join(kinds[1])}"
    losses = [np.array(built.regularization) for built in (first, second)]
    numbers["regularization losses"] = _distance(losses[0], losses[1], 1e-6)
    # What rounding leaves of a zero gradient is measured against the other gradients.
    sizes = [np.abs(each).max(initial=0) for each in first.gradients.values()]
    floor = max(0.1 * float(np.median(sizes or [0])), 1e-6)
    slopes = [
        {name: np.squeeze(each) for name, each in built.gradients.items()}
        for built in (first, second)
    ]
    numbers["gradients"] = 0.0
    for name in {*first.gradients, *second.gradients}:
        pair = [each[name] for each in slopes if name in each]
        if len(pair) == 2:
            distance = _distance(pair[0], pair[1], floor)
        else:  # one of them does not depend on it
            distance = _distance(np.zeros_like(pair[0]), pair[0], floor)
            distance = np.inf if distance > 1 else distance  # of another kind
        numbers["gradients"] = max(numbers["gradients"], distance)
    return numbers, texts


def _some(names: List[str]) -> str:
    """Return the first of some names, and how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more if names else "none"


def _distance(a: np.ndarray, b: np.ndarray, floor: float) -> float:
    """Return the largest difference between two arrays, relative to their elements.

    Each difference is relative to the largest element that is not a forbidden logit, or
    to the element itself if that is larger.
    """
    if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return np.inf
    a = np.nan_to_num(a.astype(np.float64))
    b = np.nan_to_num(b.astype(np.float64))
    usual = np.abs(a)[np.abs(a) < 1e6]
    scale = np.maximum(max(usual.max(initial=0), floor), np.abs(a))
    return float((np.abs(a - b) / scale).max(initial=0))


def said(error: BaseException) -> str:
    """Return the text of an exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


# Building


def build(function: Callable, call: Call, like: Optional[Built] = None) -> Built:
    """Call a function in a graph of its own, and evaluate what it returns.

    Args:
      function: a function of theirs or of ours.
      call: how to call it; arguments that it does not take are left out.
      like: the results of theirs; ours gets the values of the variables with the same
        name or, if the names differ, with the same shape, in order.
    """
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True  # it is slow
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        tf.set_random_seed(1)
        tensorflow1.masks.clear()
        made: Dict[int, Any] = {}
        known = inspect.signature(function).parameters
        arguments = {
            name: _tensor(value, made)
            for name, value in call.arguments.items()
            if name in known
        }
        outputs = tf.nest.flatten(_called(function, arguments, call))
        outputs = [tf.convert_to_tensor(each) for each in outputs]
        masks = list(tensorflow1.masks)
        variables = tf.global_variables()
        trained = tf.trainable_variables()
        shapes = {
            each.op.name: (each.shape.as_list(), any(each is v for v in trained))
            for each in variables
        }
        names = _matched(shapes, shapes if like is None else like.variables)
        initial = {}
        if call.is_plain:
            values = {names[v.op.name]: v.initializer.inputs[1] for v in variables}
            for name, value in session.run(values).items():
                is_constant = value.size > 1 and np.ptp(value) == 0
                initial[name] = f"{value.flat[0]:g}" if is_constant else RANDOM
        losses = tf.losses.get_losses() + tf.losses.get_regularization_losses()
        added = tf.cast(tf.add_n(losses), tf.float32) if losses else tf.constant(0.0)
        sources = {names[each.op.name]: each for each in variables}
        for name, each in arguments.items():
            if tf.is_tensor(each) and each.dtype.is_floating:
                if not any(each is other for other in sources.values()):
                    sources[f"argument {name}"] = each
        gradients = _gradients(outputs, added, sources)
        fetches = [outputs, added, gradients]
        session.run(
            [each.initializer for each in variables],
            {
                each.initializer.inputs[1]: _value(
                    names[each.op.name], each, call.setting.variables
                )
                for each in variables
            },
        )
        arrays, loss, slopes = session.run(fetches)
        is_random = False
        if like is None:
            again, _, _ = session.run(fetches)
            is_random = not all(map(_same, arrays, again))
        second = _again(function, arguments, call) if call.is_plain else ""
    return Built(
        variables=shapes,
        outputs=arrays,
        regularization=float(loss),
        gradients=slopes,
        initial=initial,
        again=second,
        masks=masks,
        is_random=is_random,
    )


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True))


def _called(function: Callable, arguments: Dict[str, Any], call: Call) -> Any:
    if not call.setting.scope:
        return function(**arguments)
    with tf.variable_scope(call.setting.scope):
        return function(**arguments)


def _again(function: Callable, arguments: Dict[str, Any], call: Call) -> str:
    """Return what a second call does with the variables of the first call."""
    if "reuse" in inspect.signature(function).parameters:
        arguments = dict(arguments, reuse=True)
    before = {each.op.name for each in tf.global_variables()}
    try:
        _called(function, arguments, call)
    except RAISED as error:
        return type(error).__name__
    new = [v.op.name for v in tf.global_variables() if v.op.name not in before]
    return f"makes {', '.join(new)}" if new else "makes no variables"


def _matched(own: Dict[str, Any], theirs: Dict[str, Any]) -> Dict[str, str]:
    """Return own name → the name of the corresponding variable of theirs."""
    found = {
        name: name for name in own if name in theirs and own[name][0] == theirs[name][0]
    }
    left = [name for name in theirs if name not in found]
    for name, (shape, _) in own.items():
        if name not in found:
            size = [length for length in shape if length != 1]
            same = [n for n in left if [m for m in theirs[n][0] if m != 1] == size]
            found[name] = same[0] if same else name
            left = [each for each in left if each != found[name]]
    return found


def _tensor(value: Any, made: Dict[int, Any]) -> Any:
    """Return the tensor for an array, the same one each time; else the value itself."""
    if not isinstance(value, np.ndarray):
        return value
    if id(value) not in made:
        made[id(value)] = tf.constant(value)
    return made[id(value)]


def _gradients(
    outputs: List[Any], added: Any, sources: Dict[str, Any]
) -> Dict[str, Any]:
    """Return the gradients of a weighted sum of the outputs plus the losses."""
    total = added
    for output in outputs:
        if output.dtype.is_floating:
            weights = tf.sin(tf.cast(tf.range(tf.size(output)) + 1, output.dtype))
            weights = tf.reshape(weights, tf.shape(output))
            total += tf.cast(tf.reduce_sum(output * weights), tf.float32)
    found = zip(sources, tf.gradients(total, list(sources.values())))
    return {
        name: tf.convert_to_tensor(each) for name, each in found if each is not None
    }


def _value(name: str, variable: Any, size: float) -> np.ndarray:
    """Return random values for a variable, determined by its name and shape."""
    rng = np.random.RandomState(zlib.crc32(name.encode()) % 2**32)
    values = size * rng.standard_normal(variable.shape.as_list())
    return values.astype(variable.dtype.base_dtype.as_numpy_dtype)
