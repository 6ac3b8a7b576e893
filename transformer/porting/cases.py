"""Make the calls with which functions are compared: the arguments of each call."""

import inspect
import itertools
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import numpy as np

# WIDTH / HEADS is not HEADS, so that neither can be taken for the other.
BATCH, HEADS, WIDTH, WORDS = 5, 4, 24, 50
# Functions that have two names.
SYNONYMS = {
    **dict.fromkeys(["ff", "feed_forward"], "feedforward"),
    **dict.fromkeys(["ln", "layer_norm", "layer_normalize"], "normalize"),
}
# Arguments that do not affect results. They are not passed.
IGNORED = ("dtype", "name", "reuse", "scope", "seed")
TRAINING = ("is_training", "training")  # two names for one argument
BOOLEANS = (*TRAINING, "causality")  # even without a default
KEEP_RATES = ["keep_prob", "dropout_keep_prob"]  # one minus the dropout rate
CHOICES: Dict[str, List[Any]] = {
    "mode": ["mul", "add"],
    "type": ["key", "future"],
    **dict.fromkeys(["Q_len", "V_len", "seq_len"], [None, "given"]),
}
# Limits the first setting to all combinations of five Boolean arguments.
MAX_COMBINATIONS = 32


class Setting(NamedTuple):
    """Sizes, and the magnitudes of the numbers."""

    title: str
    queries: int
    keys: int
    inputs: float = 1.0  # the magnitude of the inputs' elements
    variables: float = 0.5  # the standard deviation of the variables
    tolerance: float = 1e-5
    scope: str = ""  # the scope in which the function is called, with a regularizer
    rate: float = 0.5  # of dropout
    step: int = 7  # of training
    # Whether the function may raise an exception: the call is then left out.
    is_optional: bool = False
    is_dynamic: bool = False  # batch size and lengths are unknown when building
    only_required: bool = False  # all other arguments have their defaults


class Call(NamedTuple):
    """A call of a function."""

    options: Dict[str, Any]  # the arguments that are varied
    arguments: Dict[str, Any]  # all arguments; an array becomes a tensor
    setting: Setting
    is_plain: bool  # whether this is the first call
    is_trained: bool  # whether the variables are updated as well


SETTINGS = [
    Setting("length 40", 40, 40),
    Setting("7 queries, 40 keys, in a scope", 7, 40, scope="net", rate=0.25, step=3999),
    Setting("small numbers", 5, 5, inputs=1e-2, variables=3e-3, step=20000),
    # Logits of several hundred keep fewer digits.
    Setting("large numbers", 5, 5, inputs=10.0, tolerance=3e-4, step=100000),
    Setting("unknown lengths", 6, 6, is_optional=True, is_dynamic=True),
    Setting(
        "its required arguments only", 40, 40, is_optional=True, only_required=True
    ),
]


def make_calls(function: Callable, our_names: Dict[str, List[str]]) -> List[Call]:
    """Make the calls with which a function is measured, the plainest first.

    The first setting tries all combinations of the varied arguments; if there are more
    than MAX_COMBINATIONS, it changes one argument at a time. So does the second
    setting, floating-point arguments included. The others change none. Settings that
    are optional are left out if the function raises an exception in them.

    Args:
      function: the function of a file.
      our_names: name of its argument → the names of ours in the same position.

    Raises:
      ValueError: the function requires an argument for which there is no value.
    """
    calls: List[Call] = []
    for setting, variants in itertools.zip_longest(SETTINGS, _make_options(function)):
        variants = variants or [calls[0].options]
        for options in variants:
            arguments = _make_arguments(function, setting, our_names)
            arguments.update(
                {name: value for name, value in options.items() if value != "given"}
            )
            if setting.only_required:
                arguments = _drop_defaults(function, arguments)
                parameters = inspect.signature(function).parameters
                options = {
                    name: arguments.get(name, parameters[name].default)
                    for name in options
                }
            for name, other_name in (TRAINING, TRAINING[::-1]):
                if name in arguments:  # ours may use the other name
                    arguments.setdefault(other_name, arguments[name])
            is_trained = setting in SETTINGS[:2] and (
                options
                in (variants[0], {**variants[0], **dict.fromkeys(TRAINING, True)})
            )
            call = Call(options, arguments, setting, not calls, is_trained)
            calls.append(call)
    return calls


def _drop_defaults(function: Callable, arguments: Dict[str, Any]) -> Dict[str, Any]:
    """Return the required arguments of a function among its arguments."""
    empty = inspect.Parameter.empty
    return {
        name: arguments[name]
        for name, parameter in inspect.signature(function).parameters.items()
        if name in arguments and parameter.default is empty
    }


def _make_options(function: Callable) -> List[List[Dict[str, Any]]]:
    """Choose the values of the varied arguments for each of SETTINGS."""
    choices = _find_choices(function)
    combinations = [
        dict(zip(choices, values)) for values in itertools.product(*choices.values())
    ]
    plain = combinations[0]
    one_changed = [
        options
        for options in combinations
        if sum(options[name] != plain[name] for name in options) <= 1
    ]
    floats = [{**plain, name: value} for name, value in _vary_floats(function).items()]
    return [
        combinations if len(combinations) <= MAX_COMBINATIONS else one_changed,
        one_changed + floats,
    ]


def _find_choices(function: Callable) -> Dict[str, List[Any]]:
    """Return the arguments that are varied, and their values."""
    choices: Dict[str, List[Any]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name in IGNORED:
            continue
        if name in CHOICES:
            choices[name] = CHOICES[name]
        elif name in BOOLEANS or isinstance(parameter.default, bool):
            choices[name] = [False, True]
    return choices


def _vary_floats(function: Callable) -> Dict[str, float]:
    """Return another value for each floating-point argument with a default."""
    values = _argument_values(function, SETTINGS[0])
    return {
        # far from 1e-8 and from 4000
        name: type(parameter.default)(round(3 * parameter.default + 0.25, 2))
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in (*values, *IGNORED)
        if isinstance(parameter.default, float)
        or (name == "warmup_steps" and isinstance(parameter.default, int))
    }


def _make_arguments(
    function: Callable, setting: Setting, our_names: Dict[str, List[str]]
) -> Dict[str, Any]:
    """Return the arguments of a call: values by their names, else the defaults."""
    values = _argument_values(function, setting)
    for name, names in our_names.items():
        for value in [values[our_name] for our_name in names if our_name in values][:1]:
            is_array = isinstance(value, np.ndarray)
            if is_array != isinstance(values.get(name), np.ndarray):  # unknown as well
                values[name] = value
            values.setdefault(name, value)
    arguments = {}
    for name, parameter in inspect.signature(function).parameters.items():
        default = parameter.default
        if name == "scope" and isinstance(default, str):
            # Ours gets it too, for equal names of variables.
            arguments[name] = default + ("_2" if setting.scope else "")
        if name in IGNORED or parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            continue
        if name in values:
            arguments[name] = values[name]
        elif default is not parameter.empty:
            arguments[name] = default
        elif name not in CHOICES and name not in BOOLEANS:
            raise ValueError(f"no value is known for its required argument {name}")
    if not set(KEEP_RATES).isdisjoint(arguments):
        arguments["dropout_rate"] = values["dropout_rate"]  # the name in our functions
    return arguments


def _argument_values(function: Callable, setting: Setting) -> Dict[str, Any]:
    """Return argument name → value, for the names that published programs use."""
    queries = _vectors(setting.queries, setting.inputs, empty=3)
    keys = attended = queries
    if setting.keys != setting.queries:
        # A query of tokens with keys that are all padding, and the other way round.
        keys = _vectors(setting.keys, setting.inputs, empty=4)
        attended = keys[:, ::-1].copy()
    ids = np.arange(BATCH * setting.queries).reshape(BATCH, -1) % WORDS
    ids[:2, -1] = 0
    ids[3] = 0  # no token
    ids[4] = np.maximum(ids[4], 1)  # no padding
    ids[4, -1] = WORDS - 1
    padding = np.all(keys == 0, -1)
    values: Dict[str, Any] = {}
    # tutorials; bojone; tensor2tensor
    names = "inputs queries Q x query_antecedent"
    values.update(dict.fromkeys(names.split(), queries))
    values.update(keys=keys, K=keys, values=attended, V=attended)
    names = "num_units dim position_size ouput_size total_key_depth total_value_depth"
    names += " output_depth channels hidden_size"
    values.update(dict.fromkeys(names.split(), WIDTH))
    values.update(dict.fromkeys("num_heads nb_head".split(), HEADS))
    values.update(dict.fromkeys("sentence_length length".split(), setting.queries))
    values.update(
        dict.fromkeys(KEEP_RATES, 1 - setting.rate), dropout_rate=setting.rate
    )
    for name, length in (
        ("Q_len", setting.queries),
        ("seq_len", setting.queries),
        ("V_len", setting.keys),
    ):
        values[name] = np.array([length, 1, 2, 0, length], np.int32)
    values.update(
        emb=np.roll(queries, 1, axis=0),  # with padding in other places than `queries`
        key_masks=padding,
        vocab_size=WORDS,
        l2_reg=0.1,
        maxlen=40,
        init_lr=1e-3 * setting.rate,
        global_step=np.array(setting.step, np.int32),
        size_per_head=WIDTH // HEADS,
        memory_antecedent=None if keys is queries else keys,
        memory_padding=padding.astype(np.float32),
        bias=(padding * -1e9).astype(np.float32)[:, None, None, :],
        filter_size=2 * WIDTH,
    )
    name = getattr(function, "__name__", "")
    parameters = inspect.signature(function).parameters
    if SYNONYMS.get(name, name) == "feedforward":
        is_wide = setting.scope or setting.inputs != 1
        values["num_units"] = [2 * WIDTH if is_wide else WIDTH, WIDTH]
    if name == "embedding" or (
        name == "positional_encoding" and "num_units" in parameters
    ):
        values["inputs"] = values["x"] = ids.astype(np.int32)
    if name == "label_smoothing":
        values["inputs"] = np.abs(queries)
    if name == "mask":
        count = BATCH if "keys" in parameters else BATCH * HEADS
        values["inputs"] = _random(count, setting.queries, setting.keys)
    if name == "scaled_dot_product_attention":
        values["Q"] = _random(BATCH * HEADS, setting.queries, WIDTH)
        values["K"] = _random(BATCH * HEADS, setting.keys, WIDTH)
        values["V"] = values["K"][:, ::-1].copy()
    return values


def _random(*shape: int) -> np.ndarray:
    rng = np.random.RandomState(sum(shape))
    return rng.standard_normal(shape).astype(np.float32)


def _vectors(length: int, size: float, empty: int) -> np.ndarray:
    """Return vectors [N, T, D] with rows of zeros, and one row whose sum is zero.

    Line `empty` is all zeros; one of the lines 3 and 4 has no row of zeros.
    """
    vectors = size * _random(BATCH, length, WIDTH)
    vectors[empty] = 0
    vectors[0, 2, 3] = 0  # alone in its row
    vectors[0, -1] = 0  # at the end
    vectors[1, 0] = 0  # at the beginning
    vectors[2, length // 2 :] = 0
    vectors[2, 1] = np.tile([size, -size], WIDTH // 2)
    vectors[0, 1] *= 1e-2
    return vectors


def find_synonym(name: str, our_functions: Dict[str, Any]) -> Optional[str]:
    """Return the name of our function with a given name, or with a synonym of it."""
    if name in our_functions:
        return name
    meaning = SYNONYMS.get(name, name)
    for our_name in our_functions:
        if SYNONYMS.get(our_name, our_name) == meaning:
            return our_name
    return None
