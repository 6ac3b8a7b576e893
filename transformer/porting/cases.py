"""The arguments with which functions are called for the comparison."""

import inspect
import itertools
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import numpy as np

# WIDTH / HEADS is not HEADS, so that neither can be taken for the other.
BATCH, HEADS, WIDTH, WORDS = 3, 4, 24, 50
# Functions that have two names.
SYNONYMS = {
    **dict.fromkeys(["ff", "feed_forward"], "feedforward"),
    **dict.fromkeys(["ln", "layer_norm", "layer_normalize"], "normalize"),
}
# Arguments that do not affect results; differences in them are ignored.
LEFT_OUT = ("dtype", "name", "reuse", "scope", "seed")
TRAINING = ("is_training", "training")  # two names for one argument
BOOLEANS = (*TRAINING, "causality")  # even without a default
KEEP = ["keep_prob", "dropout_keep_prob"]  # one minus the dropout rate
CHOICES: Dict[str, List[Any]] = {
    "mode": ["mul", "add"],
    "type": ["key", "future"],
    **dict.fromkeys(["Q_len", "V_len", "seq_len"], [None, "given"]),
}
MOST_CALLS = 32  # in the first setting; all combinations of five Boolean arguments


class Setting(NamedTuple):
    """Sizes, and the magnitudes of the numbers."""

    title: str
    queries: int
    keys: int
    inputs: float = 1.0  # the magnitude of the inputs' elements
    variables: float = 0.5  # the standard deviation of the variables
    tolerance: float = 1e-5
    scope: str = ""  # the scope in which the function is called
    rate: float = 0.5  # of dropout
    step: int = 7  # of training


class Call(NamedTuple):
    """A call of a function."""

    options: Dict[str, Any]  # the arguments that are varied
    arguments: Dict[str, Any]  # all arguments; an array becomes a tensor
    setting: Setting
    is_plain: bool  # whether this is the first call


SETTINGS = [
    Setting("length 40", 40, 40),
    Setting("7 queries, 40 keys, in a scope", 7, 40, scope="net", rate=0.25, step=3999),
    Setting("small numbers", 5, 5, inputs=1e-2, variables=3e-3, step=20000),
    # Logits of several hundred keep fewer digits.
    Setting("large numbers", 5, 5, inputs=10.0, tolerance=3e-4, step=100000),
]


def calls(function: Callable, renamed: Dict[str, str]) -> List[Call]:
    """Return the calls with which a function is measured, the plainest first.

    The first setting tries all combinations of the varied arguments (if there are more
    than MOST_CALLS, it changes one argument at a time). The second setting changes one
    argument at a time, floating-point arguments included; the others change none.

    Args:
      function: a function of theirs.
      renamed: name of its argument → the name of ours in the same position.

    Raises:
      ValueError: the function needs an argument about which nothing is known.
    """
    found: List[Call] = []
    choices = _choices(function)
    every = [
        dict(zip(choices, values)) for values in itertools.product(*choices.values())
    ]
    few = [
        options
        for options in every
        if sum(options[name] != every[0][name] for name in options) <= 1
    ]
    combined = every if len(every) <= MOST_CALLS else few
    numbers = [{**every[0], name: value} for name, value in _numbers(function).items()]
    plain = every[:1]
    for setting, varied in zip(SETTINGS, (combined, few + numbers, plain, plain)):
        for options in varied:
            arguments = _arguments(function, setting, renamed)
            chosen = {name: each for name, each in options.items() if each != "given"}
            arguments.update(chosen)
            for name, other in (TRAINING, TRAINING[::-1]):
                if name in arguments:  # ours may use the other name
                    arguments.setdefault(other, arguments[name])
            found.append(Call(options, arguments, setting, not found))
    return found


def _choices(function: Callable) -> Dict[str, List[Any]]:
    """Return the values of the arguments that are varied."""
    found: Dict[str, List[Any]] = {}
    for name, each in inspect.signature(function).parameters.items():
        if name in LEFT_OUT:
            continue
        if name in CHOICES:
            found[name] = CHOICES[name]
        elif name in BOOLEANS or isinstance(each.default, bool):
            found[name] = [False, True]
    return found


def _numbers(function: Callable) -> Dict[str, float]:
    """Return another value for each floating-point argument with a default."""
    known = _known(function, SETTINGS[0])
    return {
        # far from 1e-8 and from 4000
        name: type(each.default)(round(3 * each.default + 0.25, 2))
        for name, each in inspect.signature(function).parameters.items()
        if name not in (*known, *LEFT_OUT)
        if isinstance(each.default, float)
        or (name == "warmup_steps" and isinstance(each.default, int))
    }


def _arguments(
    function: Callable, setting: Setting, renamed: Dict[str, str]
) -> Dict[str, Any]:
    """Return the arguments for a function: known values, then its own defaults."""
    parameters = inspect.signature(function).parameters
    known = _known(function, setting)
    for name, own in renamed.items():
        if own in known:
            known.setdefault(name, known[own])
    found = {}
    for name, each in parameters.items():
        if name == "scope" and isinstance(each.default, str):
            # Ours gets it too, for equal names of variables.
            found[name] = each.default + ("_2" if setting.scope else "")
        if name in LEFT_OUT or each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            continue
        if name in known:
            found[name] = known[name]
        elif each.default is not each.empty:
            found[name] = each.default
        elif name not in CHOICES and name not in BOOLEANS:
            raise ValueError(
                f"this command has no value for its required argument {name}"
            )
    if not set(KEEP).isdisjoint(found):
        found["dropout_rate"] = known["dropout_rate"]  # the name in our functions
    return found


def _known(function: Callable, setting: Setting) -> Dict[str, Any]:
    """Return the known values of arguments, by name, as a function uses them."""
    queries = _vectors(setting.queries, setting.inputs)
    keys = attended = queries
    if setting.keys != setting.queries:
        keys = _vectors(setting.keys, setting.inputs)
        attended = keys[:, ::-1].copy()
    ids = np.arange(BATCH * setting.queries).reshape(BATCH, -1) % WORDS
    ids[:, -1] = [0, 0, WORDS - 1]
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
    values.update(dict.fromkeys(KEEP, 1 - setting.rate), dropout_rate=setting.rate)
    values["Q_len"] = values["seq_len"] = np.array([setting.queries, 1, 2], np.int32)
    values["V_len"] = np.array([setting.keys, 1, 2], np.int32)
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
        wide = setting.scope or setting.inputs != 1
        values["num_units"] = [2 * WIDTH if wide else WIDTH, WIDTH]
    if "vocab_size" in parameters or (
        name == "positional_encoding" and "num_units" in parameters
    ):
        values["inputs"] = ids.astype(np.int32)
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


def _vectors(length: int, size: float) -> np.ndarray:
    """Return vectors [N, T, D] with rows of zeros, and one row whose sum is zero."""
    found = size * _random(BATCH, length, WIDTH)
    found[0, 2, 3] = 0  # alone in its row
    found[0, -1] = 0  # at the end
    found[1, 0] = 0  # at the beginning
    found[2, length // 2 :] = 0
    found[2, 1] = np.tile([size, -size], WIDTH // 2)
    found[0, 1] *= 1e-2
    return found


def alike(name: str, ours: Dict[str, Any]) -> Optional[str]:
    """Return the name of our function that may correspond to a function of theirs."""
    if name in ours:
        return name
    meant = SYNONYMS.get(name, name)
    return next((each for each in ours if SYNONYMS.get(each, each) == meant), None)
