"""Find names that TensorFlow 2 removed, and what replaces them."""

import ast
import re
from typing import Dict, Iterator, List, NamedTuple, Optional

from transformer.porting.reading import Chain, Script, chains, dotted

KERAS = "stays, with tf_keras and TF_USE_LEGACY_KERAS=1"


class Use(NamedTuple):
    """Something that is used in a line, and what to write."""

    line: int
    found: str
    write: str


class Edit(NamedTuple):
    """A text instead of what stands between two places of a file."""

    first: tuple  # (line, column)
    last: tuple
    text: str


# Names that have another one, the arguments being the same.
RENAMED = {
    "tf.contrib.linalg.LinearOperatorTriL": "tf.linalg.LinearOperatorLowerTriangular",
    "tf.contrib.layers.flatten": "tf.layers.flatten",
    "tf.contrib.framework.nest": "tf.nest",
    "tf.mul": "tf.multiply",
    "tf.sub": "tf.subtract",
    "tf.neg": "tf.negative",
    "tf.pack": "tf.stack",
    "tf.unpack": "tf.unstack",
    "tf.batch_matmul": "tf.matmul",
    "np.lib.pad": "np.pad",
    "np.int": "int",
    "np.float": "float",
    "np.bool": "bool",
    "np.object": "object",
    "xrange": "range",
}
RENAMED.update(
    (f"tf.contrib.rnn.{name}", f"tf.nn.rnn_cell.{name}")
    for name in ("BasicLSTMCell", "BasicRNNCell", "GRUCell", "LSTMCell", "RNNCell")
    + ("DropoutWrapper", "MultiRNNCell", "ResidualWrapper", "LSTMStateTuple")
)
RENAMED.update(
    (f"tf.contrib.rnn.{name}", f"tf.nn.{name}")
    for name in ("static_rnn", "static_bidirectional_rnn")
)
# Calls that become another expression of their one argument.
CALLS = {
    "tf.contrib.layers.xavier_initializer": "tf.glorot_uniform_initializer({})",
    "tf.contrib.layers.l2_regularizer": (
        "(lambda weights: ({}) * tf.nn.l2_loss(weights))"
    ),
    "tf.contrib.layers.l1_regularizer": (
        "(lambda weights: ({}) * tf.reduce_sum(tf.abs(weights)))"
    ),
}
WITHOUT_ARGUMENTS = ("tf.contrib.layers.xavier_initializer",)
# What is said of other names, by how they begin; the first that fits.
SAID = (
    ("tf.contrib.crf", "not in TensorFlow 2: keep a copy of these functions yourself"),
    (
        "tf.contrib.layers.layer_norm",
        "not in TensorFlow 2: transformer.modules.normalize, where the last axis alone "
        "is normalized; its variables have other names",
    ),
    (
        "tf.contrib.layers.fully_connected",
        "not in TensorFlow 2: tf.layers.dense with activation=tf.nn.relu, the default "
        "there; its variables have other names",
    ),
    (
        "tf.contrib.layers.variance_scaling_initializer",
        "tf.variance_scaling_initializer(2.0): the first values differ a little",
    ),
    ("tf.contrib.layers.xavier_initializer", "tf.glorot_uniform_initializer(...)"),
    ("tf.contrib", "not in TensorFlow 2, nor in tensorflow.compat.v1 of 1.15"),
    ("tf.layers", KERAS),
    ("tf.nn.rnn_cell", KERAS),
    ("tf.nn.dynamic_rnn", KERAS),
    ("tf.nn.bidirectional_dynamic_rnn", KERAS),
    ("tf.nn.static_rnn", KERAS),
    ("tf.nn.static_bidirectional_rnn", KERAS),
    ("tf.keras", KERAS),
    ("tf.estimator", "not in TensorFlow 2.16 and newer: train in a loop of your own"),
    ("tf.arg_max", "works; its newer name: tf.argmax(x, axis=...)"),
    ("tf.train.Supervisor", "works; newer: tf.train.MonitoredTrainingSession"),
    ("tf.train.slice_input_producer", "works, with queue runners; newer: tf.data"),
    ("tf.train.string_input_producer", "works, with queue runners; newer: tf.data"),
    ("tf.train.shuffle_batch", "works, with queue runners; newer: tf.data"),
    ("tf.train.batch", "works, with queue runners; newer: tf.data"),
    ("np.str", "write str"),
)
EXACT = ("np.str", "tf.train.batch")  # the whole name, not how it begins
IMPORT = re.compile(r"(\s*)(import\s+tensorflow\s+as\s+\w+)")
PARTS = ("tensorflow.contrib", "tensorflow.python", "tensorflow.keras", "keras")


def aliases(script: Script) -> Dict[str, str]:
    """Return the names under which a file has TensorFlow and NumPy → "tf", "np"."""
    found = {"tf": "tf", "np": "np", "numpy": "np"}
    modules = {"tensorflow": "tf", "tensorflow.compat.v1": "tf", "numpy": "np"}
    for node in ast.walk(script.tree):
        for each in node.names if isinstance(node, ast.Import) else ():
            if each.name in modules and (each.asname or "." not in each.name):
                found[each.asname or each.name] = modules[each.name]
    return found


def _canonical(chain: Chain, names: Dict[str, str]) -> str:
    """Return a name as the tables have it: "tensorflow.layers.x" is "tf.layers.x"."""
    first, dot, rest = chain.text.partition(".")
    return names.get(first, first) + dot + rest if dot else first


def uses(script: Script) -> List[Use]:
    """Return what a file uses that is to be changed, or needs tf_keras, by lines."""
    names, found = aliases(script), []
    for chain in chains(script):
        name = _canonical(chain, names)
        edit = _edit(chain, name)
        if edit:
            found.append(Use(chain.line, chain.text, f"write {edit.text}"))
            continue
        for begin, said in SAID:
            if name == begin or (name.startswith(begin) and begin not in EXACT):
                found.append(Use(chain.line, chain.text, said))
                break
    found += _keywords(script)
    for node in _tensorflow_imports(script):
        lines = _import(script, node) or ["import tensorflow.compat.v1 as tf"]
        said = "write " + " and ".join(lines)
        found.append(Use(node.lineno, "import tensorflow", said))
    found += _other_imports(script)
    return sorted(set(found))


def needs_keras(script: Script) -> List[str]:
    """Return the names in a file that TensorFlow 2.16 has with tf_keras alone."""
    return sorted({each.found for each in uses(script) if each.write == KERAS})


def _edit(chain: Chain, name: str) -> Optional[Edit]:
    """Return what replaces a name, with the arguments where they change too."""
    begin, end = (chain.line, chain.start), (chain.line, chain.end)
    if name in RENAMED:
        new, rest = RENAMED[name], chain.text.split(".")[0]
        return Edit(begin, end, new.replace("tf.", rest + ".", new.startswith("tf.")))
    for old, new in RENAMED.items():
        if name.startswith(old + ".") and old == "tf.contrib.framework.nest":
            return Edit(begin, end, new + name[len(old) :])
    if name in CALLS:
        inside = _argument(chain.after)
        if inside is not None and not (inside and name in WITHOUT_ARGUMENTS):
            end = (chain.line, chain.end + len(inside) + 2)
            first = chain.text.split(".")[0]
            text = CALLS[name].format(re.sub(r"^\s*scale\s*=\s*", "", inside))
            return Edit(begin, end, text.replace("tf.", first + "."))
    return None


def _argument(text) -> Optional[str]:
    """Return what stands in the parentheses with which a text begins: one argument."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if place == 0 and letter != "(" or letter in "\"'#":
            return None
        if letter == "," and depth == 1:
            return None
        if depth == 0:
            return text[1:place]
    return None


def _keywords(script) -> Iterator[Use]:
    """Return the uses of keywords that have newer names."""
    for node in ast.walk(script.tree):
        for each in node.keywords if isinstance(node, ast.Call) else ():
            if each.arg == "keep_dims" and dotted(node.func):
                text = "works; its newer name: keepdims"
                yield Use(node.lineno, f"keep_dims of {dotted(node.func)}", text)


def _tensorflow_imports(script) -> List[ast.Import]:
    """Return the imports of TensorFlow itself."""
    return [
        node
        for node in ast.walk(script.tree)
        if isinstance(node, ast.Import)
        and any(each.name == "tensorflow" for each in node.names)
    ]


def _imported(script) -> Iterator[tuple]:
    """Return (line, module) of all that a file imports."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield node.lineno, node.module or ""
        for each in node.names if isinstance(node, ast.Import) else ():
            yield node.lineno, each.name


def _other_imports(script) -> Iterator[Use]:
    """Return the imports of parts of TensorFlow, and of Keras."""
    said = ("not in TensorFlow 2", "private: may be elsewhere, or not there")
    for line, module in _imported(script):
        for part, text in zip(PARTS, said + (KERAS, KERAS)):
            if (module + ".").startswith(part + "."):
                yield Use(line, f"import {module}", text)


def _import(script, node) -> List[str]:
    """Return the lines to write for an import of TensorFlow; none where unsure."""
    [*others] = [each for each in node.names if each.name != "tensorflow"]
    name = next(each.asname for each in node.names if each.name == "tensorflow")
    alone = IMPORT.match(script.lines[node.lineno - 1])
    if others or not name or not alone or imports_keras(script):
        return []
    lines = [f"import tensorflow.compat.v1 as {name}"]
    if not any("disable_v2_behavior" in chain.text for chain in chains(script)):
        lines.append(f"{name}.disable_v2_behavior()")
    return lines


def imports_keras(script: Script) -> bool:
    """Return whether a file has Keras itself, which needs eager execution."""
    return any(module.split(".")[0] == "keras" for _, module in _imported(script))


def imports_tensorflow(script: Script) -> bool:
    """Return whether a file imports TensorFlow under a name."""
    return bool(_tensorflow_imports(script))


def edits(script: Script, imports: bool = True) -> List[Edit]:
    """Return the changes that are certain.

    Args:
      script: what `reading.read` returned.
      imports: import tensorflow.compat.v1, too.
    """
    names, found = aliases(script), []
    for chain in chains(script):
        edit = _edit(chain, _canonical(chain, names))
        if edit:
            found.append(edit)
    for node in _tensorflow_imports(script) if imports else ():
        lines = _import(script, node)
        if lines:
            text = IMPORT.match(script.lines[node.lineno - 1])
            places = [(node.lineno, place) for place in text.span(2)]
            found.append(Edit(*places, ("\n" + text.group(1)).join(lines)))
    return [each for each in found if each.first[0] not in script.changed]
