"""The blocks of two files of modules, built with the same variables, side by side.

The files are run: their functions are called, in a graph each.
"""

import importlib
import importlib.util
import inspect
import os
import sys
import types
import warnings
import zlib
from typing import Callable, Dict, List, NamedTuple, Tuple

import numpy as np

from transformer.porting import patch, recipes, tensorflow2
from transformer.porting.reading import Script, read
from transformer.porting.sources import SOURCES, module_of
from transformer.runtime import cli

TOLERANCE = 1e-5


class Built(NamedTuple):
    """What a block gave in a graph of its own."""

    shapes: Dict[str, Tuple[int, ...]]  # of the variables, in their order
    arrays: Dict[str, np.ndarray]  # outputs and gradients


def compare(original: Script, ours: str, verbose: bool) -> Tuple[List[str], int]:
    """Compare the blocks of a file with those of another.

    Args:
      original: the file, as `reading.read` returned it.
      ours: a key of `SOURCES`, or the path of another file.
      verbose: show what TensorFlow writes as it starts.

    Returns:
      (lines of text, the exit status: 1 where a block differs by more than 1e-5, fails,
      or has variables of other names).

    Raises:
      ValueError: the file needs what this TensorFlow does not have.
    """
    other = None if ours in SOURCES else read(ours)
    if importlib.util.find_spec("tf_keras"):
        os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    cli.start_tensorflow(verbose)
    lines, status = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("default" if verbose else "ignore")
        theirs = load(original)
        known = other is None
        mine = importlib.import_module(module_of(ours)) if known else load(other)
        for case in recipes.cases(theirs, mine):
            line, close = _compared(case, theirs, mine)
            lines.append(line)
            status = status or int(not close)
    for name, why in recipes.left_out(theirs, mine):
        lines.append(f"{name}: not compared: {why}")
    if not any(": outputs " in line or "DIFFERENT" in line for line in lines):
        said = "; ".join(lines) or f"found no blocks that {ours} has too"
        raise ValueError(f"{original.path}: nothing could be compared: {said}")
    return lines, status


def load(script: Script) -> types.ModuleType:
    """Run a file as a module; names that this TensorFlow lacks are replaced."""
    import tensorflow.compat.v1 as tf

    is_first = tf.__version__.startswith("1.")
    if not is_first:
        _need_keras(script)
    lines = patch.applied(script, tensorflow2.edits(script, imports=not is_first))
    module = types.ModuleType("compared")
    module.__file__ = script.path
    folder = os.path.dirname(os.path.abspath(script.path))
    sys.path.insert(0, folder)
    try:
        exec(compile("".join(lines), script.path, "exec"), module.__dict__)
    except (ImportError, SyntaxError, AttributeError) as error:
        raise ValueError(f"{script.path}: it does not run here: {error}") from error
    finally:
        sys.path.remove(folder)
    return module


def _need_keras(script):
    """Raise ValueError where a file needs tf_keras, and it is not there."""
    names = tensorflow2.needs_keras(script)
    if names and not (
        importlib.util.find_spec("tf_keras")
        and os.environ.get("TF_USE_LEGACY_KERAS") in ("1", "True", "true")
    ):
        raise ValueError(
            f"{script.path}: found {names[0]}, wanted tf_keras: pip install tf_keras, "
            "and TF_USE_LEGACY_KERAS=1; or run this with TensorFlow 1.15"
        )


def _compared(case, theirs, ours) -> Tuple[str, bool]:
    """Return (a line about a block, whether both give the same)."""
    try:
        first = build(getattr(theirs, case.theirs), case.arguments)
    except Exception as error:
        others = recipes.other_arguments(getattr(theirs, case.theirs), case.arguments)
        if others:
            return f"{case.title}: not compared: theirs takes {others} instead", True
        return f"{case.title}: theirs fails: {_first_line(error)}", False
    try:
        second = build(getattr(ours, case.ours), case.arguments, first.shapes)
    except Exception as error:
        return f"{case.title}: ours fails: {_first_line(error)}", False
    text, close, loads = _told(first, second)
    others = "" if close else _others(case, first, theirs, ours)
    return f"{case.title}: {text}{others}", close and loads


def _told(first: Built, second: Built) -> Tuple[str, bool, bool]:
    """Return (a text, whether numbers are equal, whether names of variables are)."""
    counts = f"variables {len(first.shapes)} and {len(second.shapes)}"
    results = [_count_outputs(first), _count_outputs(second)]
    if results[0] != results[1]:
        text = f"outputs: {results[0]} and {results[1]} of them, {counts}"
        return f"{text}: DIFFERENT", False, False
    if len(first.shapes) != len(second.shapes):
        return f"{counts}: DIFFERENT", False, False
    worst = {
        kind: max([0.0] + list(_distances(first.arrays, second.arrays, kind)))
        for kind in ("output", "gradient")
    }
    close = max(worst.values()) <= TOLERANCE
    text = f"outputs {worst['output']:.1e}, gradients {worst['gradient']:.1e}, {counts}"
    names = sorted(set(first.shapes) ^ set(second.shapes))
    if names:
        text += f", other names, so that checkpoints do not load: {', '.join(names)}"
    return f"{text}{'' if close else ': DIFFERENT'}", close, not names


def _count_outputs(built: Built) -> int:
    return sum(name.startswith("output ") for name in built.arrays)


def _others(case, first: Built, theirs, ours) -> str:
    """Return which other sources give the same as a block of theirs, as a text."""
    found = []
    for source in SOURCES if ours.__name__.startswith(module_of("")) else ():
        try:
            module = importlib.import_module(module_of(source))
            for other in recipes.cases(theirs, module):
                if other.title == case.title and module is not ours:
                    function = getattr(module, other.ours)
                    second = build(function, other.arguments, first.shapes)
                    found += [source] if all(_told(first, second)[1:]) else []
        except Exception:  # another source, which cannot be called so
            continue
    return f" (the same in {', '.join(found)})" if found else ""


def _first_line(error):
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _distances(first, second, kind):
    """Return the differences of the arrays of a kind; what is not there is zero."""
    for name in sorted(set(first) | set(second)):
        if name.startswith(kind):
            a = first.get(name, np.zeros_like(second.get(name)))
            b = second.get(name, np.zeros_like(a))
            yield _distance(a, b)


def _distance(a, b):
    """Return the largest difference of two arrays, as a part of the largest number."""
    if a.shape != b.shape:
        return np.inf
    found = np.abs(a - b) / max(1.0, float(np.abs(a).max(initial=0)))
    return np.inf if np.isnan(found).any() else float(found.max(initial=0))


def build(function: Callable, arguments: Dict, shapes: Dict = None) -> Built:
    """Call a function in a graph of its own, and run what it returns.

    Args:
      function: of the graph.
      arguments: name → value; an array becomes a tensor.
      shapes: of the variables that stand for its own, in their order; where the names
        are others, they get the same values nevertheless.

    Returns:
      What it made.
    """
    import tensorflow.compat.v1 as tf

    known = inspect.signature(function).parameters
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True  # it takes long
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        tf.set_random_seed(1)
        made = {}
        tensors = {
            name: _tensor(tf, value, made)
            for name, value in arguments.items()
            if name in known
        }
        outputs = function(**tensors)
        outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
        variables = tf.global_variables()
        named = [variable.op.name for variable in variables]
        theirs = list(shapes or named)
        others = [
            name if name in theirs else theirs[min(place, len(theirs) - 1)]
            for place, name in enumerate(named)
        ]
        fetches = _fetches(tf, outputs, dict(zip(others, variables)), tensors)
        session.run(
            [variable.initializer for variable in variables],
            {
                variable.initial_value: _value(name, variable.shape.as_list())
                for name, variable in zip(others, variables)
            },
        )
        arrays = session.run(fetches)
    sizes = {name: tuple(v.shape.as_list()) for name, v in zip(named, variables)}
    return Built(sizes, {name: np.asarray(array) for name, array in arrays.items()})


def _tensor(tf, value, made):
    """Return the tensor of an array, the same one each time; else the value itself."""
    if not isinstance(value, np.ndarray):
        return value
    return made.setdefault(id(value), tf.constant(value))


def _fetches(tf, outputs, variables, tensors):
    """Return the outputs, and the gradients of their weighted sum.

    Args:
      tf: TensorFlow.
      outputs: a list of tensors.
      variables: name → variable, and so are `tensors`.
    """
    found, total = {}, 0.0
    for place, output in enumerate(outputs):
        output = tf.convert_to_tensor(output)
        found[f"output {place}"] = output
        if output.dtype.is_floating:
            weights = tf.sin(tf.cast(tf.range(tf.size(output)) + 1, output.dtype))
            weights = tf.reshape(weights, tf.shape(output))
            total += tf.cast(tf.reduce_sum(output * weights), tf.float32)
    sources = dict(variables)
    for name, tensor in tensors.items():
        is_tensor = isinstance(tensor, tf.Tensor) and tensor.dtype.is_floating
        if is_tensor and not any(tensor is each for each in sources.values()):
            sources[name] = tensor
    names = list(sources) if isinstance(total, tf.Tensor) else []
    gradients = tf.gradients(total, [sources[name] for name in names]) if names else []
    for name, gradient in zip(names, gradients):
        if gradient is not None:
            found[f"gradient {name}"] = tf.convert_to_tensor(gradient)
    return found


def _value(name, shape):
    """Return the values of a variable: random, and the same for each name and size."""
    rng = np.random.RandomState(zlib.crc32(name.encode()) % 2**32)
    size = int(np.prod(shape, dtype=np.int64))
    return (0.5 * rng.standard_normal(size)).astype(np.float32).reshape(shape)
