"""Arguments with which the blocks of any source can be called, to compare them."""

import inspect
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from transformer.porting.formulas import ROLE_OF

BATCH, LENGTH, KEYS, WIDTH, HEADS, WORDS = 3, 5, 4, 8, 2, 11


class Case(NamedTuple):
    """A call of a block of both files."""

    title: str
    theirs: str
    ours: str
    arguments: Dict[str, Any]  # by name; what a function does not take is left out


def _random(*shape):
    rng = np.random.RandomState(sum(shape))
    return rng.standard_normal(shape).astype(np.float32)


def _padded(length):
    """Return vectors [N, T, D]: rows that are zero, and one whose sum alone is zero."""
    found = _random(BATCH, length, WIDTH)
    found[0, -1] = 0
    found[1, 0] = 0
    found[2, 1] = np.tile([1, -1], WIDTH // 2)
    return found


def _padding(length):
    """Return [N, T], True = padding."""
    return np.arange(length) >= np.array([[length], [1], [length - 1]])


IDS = np.array([[1, 2, 3, 4, 0], [5, 6, 0, 0, 0], [7, 8, 9, 10, 1]], np.int32)
QUERIES, MEMORY = _padded(LENGTH), _padded(KEYS)
SHARES = np.abs(_random(BATCH, LENGTH, WORDS))
LENGTHS = {size: np.array([size, 1, 3], np.int32) for size in (LENGTH, KEYS)}
NOT_TRAINING = {"is_training": False, "training": False}
ATTENTION = dict(NOT_TRAINING, num_units=WIDTH, num_heads=HEADS)
ITSELF = dict(
    ATTENTION, queries=QUERIES, keys=QUERIES, values=QUERIES, key_masks=_padding(LENGTH)
)
OTHER = dict(
    ATTENTION, queries=QUERIES, keys=MEMORY, values=MEMORY, key_masks=_padding(KEYS)
)
HEADS_OF = {
    "Q": _random(HEADS * BATCH, LENGTH, WIDTH),
    "K": _random(HEADS * BATCH, KEYS, WIDTH),
    "V": _random(HEADS * BATCH, KEYS, WIDTH),
    "key_masks": _padding(KEYS),
    "training": False,
}
LOGITS = {"inputs": _random(HEADS * BATCH, LENGTH, KEYS), "key_masks": _padding(KEYS)}
WORDS_OF = {"inputs": IDS, "vocab_size": WORDS, "num_units": WIDTH}
SIZES = {"nb_head": HEADS, "size_per_head": WIDTH // HEADS}

# By the name of a function, or by its role: what it is called with, in turns.
RECIPES = {
    "attention": {
        "": ITSELF,
        "causality": dict(ITSELF, causality=True),
        "other keys": OTHER,
        "with_qk": dict(OTHER, with_qk=True),
    },
    "scaled_dotproduct_attention": {"": ITSELF},
    "scaled_dot_product_attention": {
        "": HEADS_OF,
        "causality": dict(HEADS_OF, causality=True),
    },
    "mask": {"key": dict(LOGITS, type="key"), "future": dict(LOGITS, type="future")},
    "feedforward": {
        "wider inside": dict(
            NOT_TRAINING, inputs=QUERIES, num_units=[2 * WIDTH, WIDTH]
        ),
        "as wide": dict(NOT_TRAINING, inputs=QUERIES, num_units=[WIDTH, WIDTH]),
    },
    "normalize": {"": {"inputs": QUERIES}},
    "embedding": {
        "": WORDS_OF,
        "zero_pad": dict(WORDS_OF, zero_pad=True),
        "neither zero_pad nor scale": dict(WORDS_OF, zero_pad=False, scale=False),
        "with_t": dict(WORDS_OF, with_t=True),
    },
    "positions": {
        "": {"inputs": IDS, "num_units": WIDTH},
        "zero_pad=False": {"inputs": IDS, "num_units": WIDTH, "zero_pad": False},
        "of vectors": {"inputs": QUERIES, "maxlen": LENGTH},
        "of a length": {"dim": WIDTH, "sentence_length": LENGTH},
    },
    "smoothing": {"": {"inputs": SHARES}},
    "noam_scheme": {"": {"init_lr": 1e-3, "global_step": np.array(7, np.int32)}},
    "Position_Embedding": {"": {"inputs": QUERIES, "position_size": WIDTH}},
    "Mask": {
        mode: {"inputs": QUERIES, "seq_len": LENGTHS[LENGTH], "mode": mode}
        for mode in ("mul", "add")
    },
    "Dense": {"": {"inputs": QUERIES, "ouput_size": 6, "seq_len": LENGTHS[LENGTH]}},
    "Attention": {
        "": dict(SIZES, Q=QUERIES, K=MEMORY, V=MEMORY),
        "lengths": dict(
            SIZES,
            Q=QUERIES,
            K=MEMORY,
            V=MEMORY,
            Q_len=LENGTHS[LENGTH],
            V_len=LENGTHS[KEYS],
        ),
    },
}
SCOPE = ("scope", "reuse", "name")  # which any function may have
# Arguments that are the point of a call: both functions must take them.
TOLD = ("with_qk", "with_t", "maxlen", "dim", "causality", "zero_pad", "scale")


def functions_of(module) -> List[str]:
    """Return the names of the functions that a module defines, in their order."""
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]


def _ours(name, module) -> Optional[str]:
    """Return the name of the function of ours that does what one of theirs does."""
    public = getattr(module, "__all__", None) or functions_of(module)
    role = ROLE_OF.get(name)
    same = [each for each in public if role and ROLE_OF.get(each) == role]
    return name if name in public else same[0] if same else None


def cases(theirs, ours) -> Iterator[Case]:
    """Return the calls that both modules can answer."""
    for name in functions_of(theirs):
        other = _ours(name, ours)
        for title, arguments in _recipes(name).items() if other else ():
            functions = (getattr(theirs, name), getattr(ours, other))
            if all(not _refused(each, arguments) for each in functions):
                yield Case(f"{name} {title}".strip(), name, other, arguments)


def left_out(theirs, ours) -> Iterator[Tuple[str, str]]:
    """Return (name, why) of the functions of theirs that are not compared."""
    compared = {case.theirs for case in cases(theirs, ours)}
    for name in functions_of(theirs):
        if name in compared or name.startswith("_"):
            continue
        if _ours(name, ours) is None:
            yield name, "ours has none"
        elif not _recipes(name):
            yield name, "it is not known how to call it"
        else:
            arguments = next(iter(_recipes(name).values()))
            functions = (getattr(theirs, name), getattr(ours, _ours(name, ours)))
            why = [_refused(each, arguments) for each in functions]
            yield name, "; ".join(filter(None, why))


def _recipes(name):
    return RECIPES.get(name) or RECIPES.get(ROLE_OF.get(name), {})


def _refused(function, arguments) -> str:
    """Return why a function cannot be called with arguments; "" where it can."""
    known = inspect.signature(function).parameters
    missing = [
        name
        for name, parameter in known.items()
        if parameter.default is parameter.empty and name not in arguments
    ]
    extra = [name for name in TOLD if name in arguments and name not in known]
    text = f"it needs {', '.join(missing)}" if missing else ""
    return text or (f"it has no {', '.join(extra)}" if extra else "")


def other_arguments(function, arguments) -> str:
    """Return what a function takes instead of some of the arguments; "" if of none."""
    known = inspect.signature(function).parameters
    lacking = [name for name in arguments if name not in known]
    others = [name for name in known if name not in arguments and name not in SCOPE]
    if set(lacking) <= set(NOT_TRAINING) or not others:
        return ""
    return ", ".join(others)
