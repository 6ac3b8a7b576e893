"""Call a function in a graph of its own, and evaluate all that it makes."""

import inspect
import zlib
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.porting import tensorflow1
from transformer.porting.cases import Call

# What building or running a graph may raise; a file may also exit.
RAISED = (Exception, SystemExit)
RANDOM = "random"  # the initial value of a variable whose elements differ


class VariableInfo(NamedTuple):
    """A variable that a function created."""

    shape: List[int]
    is_trained: bool


# Collection → what it is in a report.
LOSSES = {
    tf.GraphKeys.REGULARIZATION_LOSSES: "regularization losses",
    tf.GraphKeys.LOSSES: "losses",
}


class Results(NamedTuple):
    """The results of a call in a graph of its own."""

    call: Call
    variables: Dict[str, VariableInfo]
    form: str  # how the outputs are packed, and their types
    shapes: List[List[Optional[int]]]  # of the outputs, as far as they are static
    outputs: List[np.ndarray]
    losses: Dict[str, float]  # value of LOSSES → the sum of what the function added
    collections: Dict[str, int]  # other collection → the number of items
    gradients: Dict[str, np.ndarray]  # with respect to variables and arguments
    is_sparse: Dict[str, bool]  # whether these are tf.IndexedSlices
    updates: Dict[str, np.ndarray]  # variables after a few steps of training
    largest_gradient: float  # of the function of the file; it scales the updates
    initial_values: Dict[str, str]  # of constant variables the constant; or RANDOM
    second_call: str  # what a second call with reuse=True does
    masks: List[tensorflow1.Mask]  # of its dropout
    is_random: bool


def evaluate(
    function: Callable, call: Call, reference: Optional[Results] = None
) -> Results:
    """Call a function in a graph of its own, and evaluate what it returns.

    Args:
      function: a function of the file, or of ours.
      call: how to call it; arguments that it does not take are left out.
      reference: for a function of ours, the results of the function of the file: ours
        gets the values of the variables with the same name or, if the names differ,
        with the same shape, in order.
    """
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True  # it is slow
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        tf.set_random_seed(1)
        tensorflow1.masks.clear()
        arguments = _make_tensors(function, call)
        result = _call_in_scope(function, arguments, call)
        outputs = [tf.convert_to_tensor(x) for x in tf.nest.flatten(result)]
        masks = list(tensorflow1.masks)
        collections = _count_collections()
        variables = tf.global_variables()
        infos = _variable_infos(variables)
        names = _match_variables(
            infos, infos if reference is None else reference.variables
        )
        initial_values = {}
        if call.is_plain:
            initial_values = _initial_values(session, variables, names)
        losses = {
            name: tf.reduce_sum(
                [tf.cast(x, tf.float32) for x in tf.get_collection(key)]
            )
            for key, name in LOSSES.items()
        }
        sources = _gradient_sources(variables, names, arguments)
        gradients = _gradients(outputs, losses, sources)
        fetches = [
            outputs,
            losses,
            {name: tf.convert_to_tensor(x) for name, x in gradients.items()},
        ]
        _set_variables(session, variables, names, call.setting.variables)
        arrays, loss_values, gradient_values = session.run(fetches)
        is_random = False
        if reference is None:
            repeated, _, _ = session.run(fetches)
            is_random = not all(map(_are_close, arrays, repeated))
        largest = max(
            [np.abs(x).max(initial=0) for x in gradient_values.values()] + [0]
        )
        if reference is not None:
            largest = reference.largest_gradient
        second_call = ""
        if call.is_plain:
            second_call = _describe_second_call(function, arguments, call)
        updates = {}
        if call.is_trained and largest:
            updates = _train(session, call, variables, names, gradients, float(largest))
    return Results(
        call=call,
        variables=infos,
        form=_describe_form(result),
        shapes=[
            x.shape.as_list() if x.shape.ndims is not None else [] for x in outputs
        ],
        outputs=arrays,
        losses={name: float(value) for name, value in loss_values.items()},
        collections=collections,
        gradients=gradient_values,
        is_sparse={
            name: isinstance(gradient, tf.IndexedSlices)
            for name, gradient in gradients.items()
        },
        updates=updates,
        largest_gradient=float(largest),
        initial_values=initial_values,
        second_call=second_call,
        masks=masks,
        is_random=is_random,
    )


def _make_tensors(function: Callable, call: Call) -> Dict[str, Any]:
    """Return the arguments that a function takes; arrays become tensors.

    An array that is passed twice becomes one tensor, so attention of a sequence to
    itself is recognized.
    """
    tensors: Dict[int, Any] = {}  # id of an array → its tensor
    parameters = inspect.signature(function).parameters
    accepted = {}
    for name, value in call.arguments.items():
        if name not in parameters:
            continue
        if isinstance(value, np.ndarray):
            if id(value) not in tensors:
                tensors[id(value)] = _make_tensor(value, call.setting.is_dynamic)
            value = tensors[id(value)]
        accepted[name] = value
    return accepted


def _make_tensor(value: np.ndarray, is_dynamic: bool) -> Any:
    """Make a constant, or a placeholder of which only the width is static."""
    if not is_dynamic:
        return tf.constant(value)
    sizes = [None] * min(value.ndim, 2) + list(value.shape[2:])
    return tf.placeholder_with_default(value, sizes)


def _call_in_scope(function: Callable, arguments: Dict[str, Any], call: Call) -> Any:
    if not call.setting.scope:
        return function(**arguments)
    regularizer = tensorflow1.l2_regularizer(1e-2)
    with tf.variable_scope(call.setting.scope, regularizer=regularizer):
        return function(**arguments)


def _describe_form(result: Any) -> str:
    """Describe how tensors are packed, and their types: "(float32, [int32])"."""
    if isinstance(result, dict):
        items = (f"{key}: {_describe_form(result[key])}" for key in sorted(result))
        return "{" + ", ".join(items) + "}"
    if isinstance(result, (list, tuple)):
        text = ", ".join(map(_describe_form, result))
        return f"[{text}]" if isinstance(result, list) else f"({text})"
    if isinstance(result, (bool, int, float, np.generic, np.ndarray)):
        return type(result).__name__  # a program may compute with it in Python
    return str(tf.convert_to_tensor(result).dtype.base_dtype.name)


def _count_collections() -> Dict[str, int]:
    """Count what collections hold: not those of variables, losses and summaries."""
    keys = tf.GraphKeys
    left_out = (
        keys.GLOBAL_VARIABLES,
        keys.TRAINABLE_VARIABLES,
        keys.SUMMARIES,
        *LOSSES,
    )
    return {
        key: len(tf.get_collection(key))
        for key in sorted(map(str, tf.get_default_graph().get_all_collection_keys()))
        if key not in left_out and not key.startswith("_") and "context" not in key
        if tf.get_collection(key)
    }


# Variables


def _variable_infos(variables: List[Any]) -> Dict[str, VariableInfo]:
    trained = tf.trainable_variables()
    return {
        variable.op.name: VariableInfo(
            variable.shape.as_list(), any(variable is other for other in trained)
        )
        for variable in variables
    }


def _match_variables(
    variables: Dict[str, VariableInfo], reference: Dict[str, VariableInfo]
) -> Dict[str, str]:
    """Match variables by name and shape, or by shape: name → name in the reference."""
    matches = {
        name: name
        for name in variables
        if name in reference and variables[name].shape == reference[name].shape
    }
    unmatched = [name for name in reference if name not in matches]
    for name, info in variables.items():
        if name not in matches:
            size = _drop_ones(info.shape)
            fitting = [
                other
                for other in unmatched
                if _drop_ones(reference[other].shape) == size
            ]
            matches[name] = fitting[0] if fitting else name
            unmatched = [other for other in unmatched if other != matches[name]]
    return matches


def _drop_ones(shape: List[int]) -> List[int]:
    """Remove dimensions of length 1: a convolution of width 1 has one more."""
    return [length for length in shape if length != 1]


def _initial_values(
    session: Any, variables: List[Any], names: Dict[str, str]
) -> Dict[str, str]:
    """Return the constant with which each variable is initialized, or RANDOM."""
    values = session.run({names[v.op.name]: v.initializer.inputs[1] for v in variables})
    texts = {}
    for name, value in values.items():
        is_constant = value.size > 1 and np.ptp(value) == 0
        texts[name] = f"{value.flat[0]:g}" if is_constant else RANDOM
    return texts


def _set_variables(
    session: Any, variables: List[Any], names: Dict[str, str], size: float
) -> None:
    """Give each variable random values that its name and shape determine."""
    session.run(
        [variable.initializer for variable in variables],
        {
            variable.initializer.inputs[1]: _random_values(
                names[variable.op.name], variable, size
            )
            for variable in variables
        },
    )


def _random_values(name: str, variable: Any, size: float) -> np.ndarray:
    rng = np.random.RandomState(zlib.crc32(name.encode()) % 2**32)
    values = size * rng.standard_normal(variable.shape.as_list())
    return values.astype(variable.dtype.base_dtype.as_numpy_dtype)


def _describe_second_call(
    function: Callable, arguments: Dict[str, Any], call: Call
) -> str:
    """Call a function again, with reuse=True, and list the variables that it makes."""
    if "reuse" in inspect.signature(function).parameters:
        arguments = dict(arguments, reuse=True)
    old_names = {variable.op.name for variable in tf.global_variables()}
    try:
        _call_in_scope(function, arguments, call)
    except RAISED as error:
        return type(error).__name__
    names = [variable.op.name for variable in tf.global_variables()]
    new_names = [name for name in names if name not in old_names]
    return f"makes {', '.join(new_names)}" if new_names else "makes no variables"


# Gradients


def _gradient_sources(
    variables: List[Any], names: Dict[str, str], arguments: Dict[str, Any]
) -> Dict[str, Any]:
    """Return what gradients are taken of: variables, and floating-point arguments."""
    sources = {names[variable.op.name]: variable for variable in variables}
    for name, value in arguments.items():
        if tf.is_tensor(value) and value.dtype.is_floating:
            if not any(value is source for source in sources.values()):
                sources[f"argument {name}"] = value
    return sources


def _gradients(
    outputs: List[Any], losses: Dict[str, Any], sources: Dict[str, Any]
) -> Dict[str, Any]:
    """Return the gradients of a weighted sum of the outputs plus the losses."""
    total = tf.add_n(list(losses.values()))
    for output in outputs:
        if output.dtype.is_floating:
            weights = tf.sin(tf.cast(tf.range(tf.size(output)) + 1, output.dtype))
            weights = tf.reshape(weights, tf.shape(output))
            total += tf.cast(tf.reduce_sum(output * weights), tf.float32)
    gradients = zip(sources, tf.gradients(total, list(sources.values())))
    return {name: gradient for name, gradient in gradients if gradient is not None}


def _train(
    session: Any,
    call: Call,
    variables: List[Any],
    names: Dict[str, str],
    gradients: Dict[str, Any],
    largest: float,
) -> Dict[str, np.ndarray]:
    """Return the variables after three steps of gradient descent, and of Adam.

    Steps are short, so that they do not amplify rounding errors; nor does Adam, whose
    epsilon is not small beside the gradients.

    Args:
      session, call, variables, names: of the function.
      gradients: of the variables and arguments.
      largest: the largest element of a gradient.
    """
    size = call.setting.variables
    trained = {variable.op.name for variable in tf.trainable_variables()}
    pairs = [
        (gradients[names[variable.op.name]], variable)
        for variable in variables
        if names[variable.op.name] in gradients and variable.op.name in trained
    ]
    values = {}
    for title, optimizer in (
        ("gradient descent", tf.train.GradientDescentOptimizer(0.02 * size / largest)),
        ("Adam", tf.train.AdamOptimizer(0.02 * size, epsilon=0.1 * largest)),
    ):
        update = optimizer.apply_gradients(pairs) if pairs else tf.no_op()
        _set_variables(session, variables, names, size)
        session.run(tf.variables_initializer(optimizer.variables()))
        for _ in range(3):
            session.run([update, tf.get_collection(tf.GraphKeys.UPDATE_OPS)])
        for name, value in session.run(
            {names[variable.op.name]: variable for variable in variables}
        ).items():
            values[f"{title}: {name}"] = value
    return values


def _are_close(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True))
