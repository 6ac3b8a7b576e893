"""Compare a function of a file with one of ours: parameters, then results of calls."""

import inspect
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Tuple

import numpy as np

from transformer.porting import graphs
from transformer.porting.cases import KEEP_RATES
from transformer.porting.graphs import RAISED, RANDOM, Results
from transformer.porting.sources import Candidate

# Aspects of a comparison.
OUTPUTS = "outputs"
UPDATES = "variables after three steps of training"
# Rounding decides on which side of zero the input of a ReLU is, and thus on its step.
UPDATES_TOLERANCE = 1e-3
FIRST_VALUES = "first values:"
SECOND_CALL = "a second call (reuse=True):"
DROPOUT = "dropout:"
OTHER_DEFAULT = "the default of"  # of a parameter


class Comparison(NamedTuple):
    """What differs between a function of a file and one of ours."""

    # Aspect → index of the call → the distance, or the difference in words.
    differences: Dict[str, Dict[int, Any]]
    largest: float  # the largest distance


def compare_calls(candidate: Candidate, references: List[Results]) -> Comparison:
    """Call a function of ours like the function of the file, and compare the results.

    Args:
      candidate: our function.
      references: the results of the function of the file, one for each call.
    """
    differences: Dict[str, Dict[int, Any]] = {}
    largest = 0.0
    dropouts: Dict[int, str] = {}
    for i, reference in enumerate(references):
        try:
            results = _evaluate_ours(candidate, reference)
        except RAISED as error:
            differences.setdefault(OUTPUTS, {})[i] = np.inf
            differences.setdefault("ours raises", {})[i] = describe_error(error)
            continue
        distances, texts = _compare_results(reference, results)
        for aspect, distance in distances.items():
            if aspect != UPDATES:
                largest = max(largest, distance)
            tolerance = reference.call.setting.tolerance
            if distance > (UPDATES_TOLERANCE if aspect == UPDATES else tolerance):
                differences.setdefault(aspect, {})[i] = distance
        for aspect, text in texts.items():
            differences.setdefault(aspect, {})[i] = text
        if reference.masks or results.masks:
            dropouts[i] = _describe_dropouts(reference, results)
    wrong = differences.get(OUTPUTS, {})
    is_dropouts = set(wrong) <= set(dropouts) < set(range(len(references)))
    if wrong and is_dropouts and DROPOUT not in differences:
        differences[DROPOUT] = {i: dropouts[i] for i in wrong}
    return Comparison(differences, largest)


def _evaluate_ours(candidate: Candidate, reference: Results) -> Results:
    """Evaluate our function; gradients get the names of the arguments in the file."""
    arguments = dict(reference.call.arguments)
    for our_name, their_name in candidate.their_names.items():
        arguments[our_name] = arguments[their_name]
    call = reference.call._replace(arguments=arguments)
    results = graphs.evaluate(candidate.function, call, reference)
    their_names = {
        f"argument {our_name}": f"argument {their_name}"
        for our_name, their_name in candidate.their_names.items()
    }
    gradients = {
        their_names.get(name, name): gradient
        for name, gradient in results.gradients.items()
    }
    is_sparse = {
        their_names.get(name, name): x for name, x in results.is_sparse.items()
    }
    return results._replace(gradients=gradients, is_sparse=is_sparse)


def _compare_results(
    reference: Results, results: Results
) -> Tuple[Dict[str, float], Dict[str, str]]:
    """Return (aspect → distance, aspect → difference in words)."""
    texts = _compare_variables(reference, results)
    if reference.is_random:
        texts["its random numbers"] = "cannot be fixed: not compared"
        return {}, texts
    if not _have_same_dropout(reference, results):
        texts[DROPOUT] = _describe_dropouts(reference, results)
    if reference.second_call != results.second_call:
        texts[SECOND_CALL] = f"{reference.second_call}; ours {results.second_call}"
    distances = {OUTPUTS: np.inf}
    if len(reference.outputs) == len(results.outputs):
        pairs = zip(reference.outputs, results.outputs)
        distances[OUTPUTS] = max([0.0] + [_distance(a, b, 1e-6) for a, b in pairs])
        for shape, our_shape in zip(reference.shapes, results.shapes):
            if any(a not in (None, b) for a, b in zip(shape, our_shape)):
                texts["static shape:"] = f"{shape}; ours {our_shape}"
    if reference.form != results.form:
        texts["form:"] = f"{reference.form}; ours {results.form}"
    for name, loss in reference.losses.items():
        our_loss = results.losses[name]
        distances[name] = _distance(np.array(loss), np.array(our_loss), 1e-6)
    if reference.collections != results.collections:
        texts["collections:"] = f"{reference.collections}; ours {results.collections}"
    distances["gradients"] = _compare_gradients(reference.gradients, results.gradients)
    for name, is_sparse in reference.is_sparse.items():
        if is_sparse != results.is_sparse.get(name, is_sparse):
            kinds = (
                ("dense", "sparse") if results.is_sparse[name] else ("sparse", "dense")
            )
            texts["gradient:"] = f"that of {name} is {kinds[0]}, ours {kinds[1]}"
    distances[UPDATES] = max(
        [
            _distance(value, np.reshape(results.updates[name], value.shape), 1e-6)
            for name, value in reference.updates.items()
            if name in results.updates and value.size == results.updates[name].size
        ],
        default=0.0,
    )
    return distances, texts


def _compare_variables(reference: Results, results: Results) -> Dict[str, str]:
    """Compare names, shapes and initial values: aspect → difference in words."""
    texts = {}
    if set(reference.variables) != set(results.variables):
        missing = [
            name for name in reference.variables if name not in results.variables
        ]
        new = [name for name in results.variables if name not in reference.variables]
        texts["variable names:"] = f"{_shorten(missing)}; ours {_shorten(new)}"
    for name, info in reference.variables.items():
        our_info = results.variables.get(name, info)
        if our_info != info:
            text, our_text = (
                f"{shape}, {'trained' if is_trained else 'not trained'}"
                for shape, is_trained in (info, our_info)
            )
            texts["variables:"] = f"{name} is {text}, ours {our_text}"
    for name, value in reference.initial_values.items():
        our_value = results.initial_values.get(name, value)
        if value not in (our_value, RANDOM):
            texts[FIRST_VALUES] = f"{name} is {value}, ours {our_value}"
    return texts


def _compare_gradients(
    reference: Dict[str, np.ndarray], gradients: Dict[str, np.ndarray]
) -> float:
    """Return the largest distance of two gradients with the same name."""
    # What rounding leaves of a zero gradient is measured against the other gradients.
    sizes = [np.abs(gradient).max(initial=0) for gradient in reference.values()]
    floor = max(0.1 * float(np.median(sizes or [0])), 1e-6)
    largest = 0.0
    for name in {*reference, *gradients}:
        pair = [
            np.squeeze(side[name]) for side in (reference, gradients) if name in side
        ]
        if len(pair) == 2:
            distance = _distance(pair[0], pair[1], floor)
        else:  # one of them does not depend on it
            distance = _distance(np.zeros_like(pair[0]), pair[0], floor)
            distance = np.inf if distance > 1 else distance  # of another kind
        largest = max(largest, distance)
    return largest


def _distance(a: np.ndarray, b: np.ndarray, floor: float) -> float:
    """Return the largest difference between two arrays, relative to their elements.

    Each difference is relative to the largest element that is not a forbidden logit, or
    to the element itself if that is larger.
    """
    if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return np.inf
    a = np.nan_to_num(a.astype(np.float64))
    b = np.nan_to_num(b.astype(np.float64))
    ordinary = np.abs(a)[np.abs(a) < 1e6]
    scale = np.maximum(max(ordinary.max(initial=0), floor), np.abs(a))
    return float((np.abs(a - b) / scale).max(initial=0))


# Dropout


def _have_same_dropout(reference: Results, results: Results) -> bool:
    """Compare the sizes of the masks and, where they are static, the rates."""
    sizes, our_sizes = (
        sorted(int(np.prod(mask.sizes or 0)) for mask in side.masks)
        for side in (reference, results)
    )
    rates = [(a.rate, b.rate) for a, b in zip(reference.masks, results.masks)]
    return sizes == our_sizes and all(
        None in pair or pair[0] == pair[1] for pair in rates
    )


def _describe_dropouts(reference: Results, results: Results) -> str:
    """List the tensors that both functions drop, with mask sizes and rates."""
    text, our_text = (
        _shorten(
            [
                f"{mask.name}{'' if mask.sizes is None else f' {list(mask.sizes)}'}"
                f"{'' if mask.rate is None else f' at {mask.rate}'}"
                for mask in side.masks
            ]
        )
        for side in (reference, results)
    )
    return f"{text}; ours {our_text}"


# Words


def compare_parameters(function: Callable, candidate: Candidate) -> List[str]:
    """Describe the differences between the parameters of two functions."""
    parameters = inspect.signature(function).parameters
    our_parameters = inspect.signature(candidate.function).parameters
    renamed = candidate.their_names
    texts = [f"its {name} is our {our_name}" for our_name, name in renamed.items()]
    shared = [name for name in parameters if name in our_parameters]
    takes_any = any(
        parameter.kind == parameter.VAR_KEYWORD for parameter in our_parameters.values()
    )
    extra = [
        name for name in parameters if name not in (*our_parameters, *renamed.values())
    ]
    if extra and not takes_any:
        texts.append(f"ours does not take {', '.join(extra)}")
        rates = [
            n for n in extra if n in KEEP_RATES and "dropout_rate" in our_parameters
        ]
        texts += [f"pass dropout_rate=1 - {name} instead" for name in rates]
    for name in shared:
        default, our_default = (
            tuple(side[name].default)
            if isinstance(side[name].default, list)
            else side[name].default
            for side in (parameters, our_parameters)
        )
        empty = inspect.Parameter.empty
        if default is not empty and default != our_default:
            our_text = "none" if our_default is empty else repr(our_default)
            texts.append(f"{OTHER_DEFAULT} {name}: {default!r}, ours {our_text}")
    places, our_places = _places(parameters), _places(our_parameters)
    moved = [
        name for name in shared if places.get(name) not in (None, our_places.get(name))
    ]
    if moved:
        texts.append(f"ours takes {', '.join(moved)} in another place: pass by name")
    return texts


def _places(parameters: Mapping[str, inspect.Parameter]) -> Dict[str, int]:
    """Return the place of each parameter that can be passed without its name."""
    return {
        name: place
        for place, (name, parameter) in enumerate(parameters.items())
        if parameter.kind == parameter.POSITIONAL_OR_KEYWORD
    }


def describe_error(error: BaseException) -> str:
    """Return an exception as one line of text."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def _shorten(names: List[str]) -> str:
    """Join the first names, and count the rest."""
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + rest if names else "none"
