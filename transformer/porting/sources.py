"""Tell from which source a file of modules was copied.

A file of `transformer.compat` is a row of `SOURCES`: what the functions of its source
compute, in the words of `formulas`. A file belongs to the row with the fewest
differences, and these are reported.
"""

import ast
from typing import Any, Dict, List, NamedTuple, Tuple

from transformer.porting.formulas import ROLE_OF, Facts, facts_of
from transformer.porting.reading import Script, definitions, dotted
from transformer.porting.signatures import Signature, of_module, signature


class Source(NamedTuple):
    """The modules of one code base."""

    title: str
    dialect: str  # in words: the row, and what is changed in it
    facts: Dict[str, Facts]  # role, or name of a function → facts
    changes: Tuple[str, ...] = ()  # what its owner will notice


LEGACY = {
    "attention": {
        "projections": "relu",
        "output projection": "none",
        "biases of Q, K, V": "yes",
        "padding": "rows of zeros",
        "forbidden logits": "-4.29497e+09",
        "padded queries": "zeros, before the dropout",
        "scale": "root of the width of a head",
        "dropout": "yes",
        "residual": "added",
        "normalization": "after the sum",
        "result": "one tensor",
        "Q, K, V are made of": "arguments 1, 2, 2",
    },
    "feedforward": {
        "layers": "relu, linear",
        "dropout": "0",
        "residual": "added",
        "normalization": "after the sum",
    },
    "normalize": {"variables": "new ones at each call", "epsilon": "1e-08"},
    "positions": {"angles": "one for each channel", "base": "10000"},
}


def _changed(facts, attention=(), feedforward=(), normalize=(), positions=()):
    """Return facts in which some are others: pairs, by role."""
    changes = {
        "attention": attention,
        "feedforward": feedforward,
        "normalize": normalize,
        "positions": positions,
    }
    return {role: {**facts[role], **dict(changes[role])} for role in facts}


BY_SUM = ("padding", "rows whose sum is zero")
TUTORIAL = _changed(LEGACY, attention=[BY_SUM])
SASREC = _changed(
    LEGACY,
    attention=[
        ("projections", "linear"),
        ("normalization", "none"),
        ("result", "one tensor, or several"),
    ],
    feedforward=[("dropout", "2"), ("normalization", "none")],
)
# What to do about a difference, beside keeping what is there.
HINTS = {
    "biases of Q, K, V": ", or transformer.modules with a dialect that has "
    "projection_bias=False"
}
EVEN = "positional_encoding refuses an odd dim, for which its channels change places"
ANY_LENGTH = "positional_encoding takes any N and T, not only those known beforehand"

SOURCES = {
    "kyubyong_legacy": Source(
        "Kyubyong/transformer, tf1.2_legacy (2017)",
        "kyubyong_legacy",
        LEGACY,
        (ANY_LENGTH,),
    ),
    "tutorial": Source(
        "princewen/tensorflow_practice, Basic-Transformer-Demo",
        "tutorial",
        TUTORIAL,
        (ANY_LENGTH,),
    ),
    "sasrec": Source(
        "kang205/SASRec",
        "kyubyong_legacy without ReLU on Q, K, V and without normalization "
        "(compat.sasrec.ATTENTION, FEEDFORWARD)",
        SASREC,
        (EVEN,),
    ),
    "functional_time": Source(
        "Self-attention with Functional Time Representation Learning, a fork of SASRec",
        "compat.sasrec.ATTENTION, but a row is padding if its sum is zero",
        _changed(
            SASREC, attention=[BY_SUM], feedforward=[("residual", "under a condition")]
        ),
        (EVEN,),
    ),
    "interhat": Source(
        "zyli93/InterHAt",
        "tutorial with an output projection, its bias and a ReLU "
        "(compat.interhat.DIALECT)",
        _changed(
            TUTORIAL,
            attention=[("output projection", "relu"), ("result", "several tensors")],
        ),
        (ANY_LENGTH,),
    ),
    "kyubyong": Source(
        "Kyubyong/transformer (2019)",
        "kyubyong",
        _changed(
            LEGACY,
            attention=[
                ("projections", "linear"),
                ("padding", "key_masks"),
                ("padded queries", "as others"),
                ("Q, K, V are made of", "arguments 1, 2, 3"),
            ],
            normalize=[("variables", "shared by their names")],
            positions=[("angles", "one for two channels")],
        ),
        (
            "key_masks stay as they are: True is padding there and here",
            "the images of the attention weights are not written for TensorBoard",
            "mask with an unknown type raises ValueError instead of printing",
        ),
    ),
    "bojone": Source(
        "bojone/attention, attention_tf.py",
        "functions of transformer.functional, which no row describes",
        {
            "Attention": {
                "biases of its layers": "none",
                "layers": "3",
                "masks": "2",
                "forbidden logits": "-1e+12",
                "scale": "root of the width of a head",
                "normalization": "none",
                "Q, K, V are made of": "arguments 1, 2, 3",
            },
            "Position_Embedding": {"base": "10000"},
        },
        ("a mask is as wide as what it masks, also where all sequences are shorter",),
    ),
    "bojone_keras": Source(
        "bojone/attention, attention_keras.py",
        "layers of transformer.keras_layers, which no row describes; TensorFlow 2 only",
        {},
        (
            "import it after keras.layers, whose own Attention has the same name",
            "mask_right=False is ordinary attention; there it makes all weights equal",
        ),
    ),
    "tensor2tensor": Source(
        "tensor2tensor 1.15.7, common_attention and common_layers", "tensor2tensor", {}
    ),
}

REASONS = 4  # for a classification, so many are told
# A parameter that one source alone has, in a function or where a class is made.
SIGNS = {
    "query_antecedent": "tensor2tensor",
    "nb_head": "bojone",
    "size_per_head": "bojone",
}


class Difference(NamedTuple):
    """What a function of a file has otherwise than that of its source."""

    function: str
    text: str
    matters: bool = True  # False for a default, which a call may name
    fits: bool = True  # False where ours cannot be called as theirs


class Match(NamedTuple):
    """A source, and how far the functions of a file are its own."""

    source: str
    because: Tuple[str, ...]
    parameters: Dict[str, Signature]  # of their functions
    names: Dict[str, str]  # theirs → ours, of the functions that compute the same
    differences: Tuple[Difference, ...]

    @property
    def unknown(self) -> bool:
        """Whether so much differs that it is a variant of its own."""
        return sum(each.matters for each in self.differences) > 3


def module_of(source: str) -> str:
    return "transformer.compat." + source


def classify(script: Script) -> Any:
    """Return the Match of a file; None where it defines no attention or feed-forward.

    Args:
      script: what `reading.read` returned.
    """
    functions = definitions(script)
    parameters = {name: signature(node) for name, node in functions.items()}
    for name, taken in {**parameters, **_classes(script)}.items():
        for parameter in taken.names:
            if parameter in SIGNS:
                source = SIGNS[parameter]
                if name not in functions:
                    source = "bojone_keras"
                match = _match(source, functions, parameters)
                return match._replace(because=(f"{parameter} in {name}",))
    roles = {ROLE_OF.get(name) for name in functions}
    if not roles & {"attention", "feedforward"}:
        return None
    matches = [
        _match(source, functions, parameters)
        for source in SOURCES
        if "attention" in SOURCES[source].facts
    ]
    best = min(matches, key=_distance)
    reasons = sorted(_reasons(best, functions), key=lambda reason: ":" in reason)
    return best._replace(because=tuple(reasons[:REASONS]))


def _distance(match):
    """Return how much differs; what is not covered counts most."""
    return sum(
        5 if not each.fits else 3 if each.matters else 1 for each in match.differences
    )


def _classes(script) -> Dict[str, Signature]:
    """Return with what the classes at the top of a file are made."""
    found = {}
    for node in script.tree.body:
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                    found[node.name] = signature(each)
    return found


def class_blocks(script: Script) -> List[Tuple[str, int]]:
    """Return (name, line) of the classes of a file that are blocks of a Transformer."""
    words = ("attention", "feedforward", "feed_forward", "layernorm", "position")
    return [
        (node.name, node.lineno)
        for node in script.tree.body
        if isinstance(node, ast.ClassDef)
        and any(word in node.name.lower() for word in words)
        and (
            any(_is_method(each, ("call", "__call__", "build")) for each in node.body)
            or any(dotted(base).split(".")[-1] == "Layer" for base in node.bases)
        )
    ]


def _is_method(node, names):
    return isinstance(node, ast.FunctionDef) and node.name in names


def _match(source, functions, parameters) -> Match:
    """Compare the functions of a file with those of a source."""
    ours = of_module(module_of(source))
    names, differences = {}, []
    for name in functions:
        own = _own_name(name, ours)
        if own is None:
            continue
        found = _of_parameters(name, parameters[name], own, ours[own])
        found += _of_facts(name, functions, SOURCES[source].facts)
        differences += found
        if not any(each.matters for each in found):
            names[name] = own
    return Match(source, (), parameters, names, tuple(differences))


def _own_name(name, ours):
    """Return what a function is called in a module of ours; None where it is not."""
    if ours.get(name):
        return name
    role = ROLE_OF.get(name)
    same = [each for each in ours if role and ROLE_OF.get(each) == role]
    return same[0] if same else None


def _of_parameters(name, theirs: Signature, own, ours) -> List[Difference]:
    """Return the differences between the parameters of two functions."""
    extra = [each for each in theirs.names if each not in ours.names]
    found = []
    if extra:
        text = f"takes {', '.join(extra)}, which {own} of ours does not"
        found.append(Difference(name, text, fits=False))
    shared = [each for each in theirs.names if each in ours.names]
    for each in shared:
        here, there = ours.defaults.get(each), theirs.defaults.get(each)
        if each in theirs.defaults and here != there:
            text = f"{each} is {there!r} by default, here {here!r}"
            found.append(Difference(name, text, matters=False))
    if list(ours.names[: len(shared)]) != shared:
        text = f"takes its arguments in another order: {', '.join(theirs.names)}"
        found.append(Difference(name, text, matters=False))
    return found


def _of_facts(name, functions, facts) -> List[Difference]:
    """Return the differences between what two functions compute."""
    wanted = facts.get(ROLE_OF.get(name, name), {})
    return [
        Difference(name, f"{what}: {found}; here: {wanted[what]}{HINTS.get(what, '')}")
        for what, found in sorted(facts_of(name, functions).items())
        if what in wanted and wanted[what] != found
    ]


def _reasons(match, functions):
    """Return by what a source is told from the first one."""
    first, facts = SOURCES["kyubyong_legacy"].facts, SOURCES[match.source].facts
    usual = of_module(module_of("kyubyong_legacy"))
    for name in functions:
        role, own = ROLE_OF.get(name), match.names.get(name)
        if own and own not in usual:
            yield name
        elif own:
            names = match.parameters[name].names
            more = [each for each in names if each not in usual[own].names]
            if more:
                yield f"{', '.join(more)} in {name}"
        for what, found in sorted(facts_of(name, functions).items()):
            said = facts.get(role, {}).get(what)
            if said == found and first[role].get(what) != said:
                yield f"{name}: {what}: {found}"
