"""What can be said of a file of Python without running it."""

import ast
import importlib.util
import io
import itertools
import os
import stat
import tokenize
import warnings
from typing import Dict, Iterator, List, NamedTuple, Tuple

MOST_BYTES = 1_000_000

# What a measurement finds: the words of the report.
KINDS = {
    "same": "same numbers",
    "but": "same but for",
    "none": "not one of these: keep yours",
    "failed": "could not be run",
}

# A module of `transformer.compat` → names of functions and parameters of which a file
# has all; those after "without" it has not. The first row that fits is the likely one.
SOURCES = {
    "tensor2tensor": "query_antecedent",
    "bojone_keras": "nb_head Layer",
    "bojone": "nb_head",
    "kyubyong": "key_masks training",
    "functional_time": "with_qk time_encoding",
    "sasrec": "with_qk",
    "tutorial": "mulithead_attention",
    "interhat": "multihead_attention queries keys without causality",
    "kyubyong_legacy": "multihead_attention queries keys causality",
}

KERAS = "needs `pip install tf_keras` and TF_USE_LEGACY_KERAS=1"
# What TensorFlow 2 lacks even as `tensorflow.compat.v1`, and what to write.
NOTES = {
    "tf.contrib.layers.xavier_initializer": "tf.glorot_uniform_initializer",
    "tf.contrib.layers.l2_regularizer": "lambda w: scale * tf.nn.l2_loss(w)",
    "tf.contrib.layers.l1_regularizer": "lambda w: scale * tf.reduce_sum(tf.abs(w))",
    "tf.contrib.layers.fully_connected": "tf.layers.dense(..., activation=tf.nn.relu); "
    "its variables have other names",
    "tf.contrib.layers.layer_norm": "transformer.modules.normalize with epsilon 1e-12 "
    "and the scope LayerNorm, if the last axis alone is normalized",
    "tf.contrib.linalg.LinearOperatorTriL": "tf.linalg.LinearOperatorLowerTriangular",
    "tf.contrib.framework.nest": "tf.nest",
    "tf.contrib.rnn": f"tf.nn.rnn_cell; {KERAS}",
    "tf.contrib.crf": "keep a copy of tensorflow/contrib/crf/python/ops/crf.py from "
    "TensorFlow 1.15",
    "tf.contrib": "not there",
    "tf.estimator": "not there from 2.16 on",
    "tf.layers": KERAS,
    "tf.keras": KERAS,
    "tf.nn.rnn_cell": KERAS,
    "tf.nn.dynamic_rnn": KERAS,
    "tf.nn.bidirectional_dynamic_rnn": KERAS,
    "np.lib.pad": "np.pad",
    "xrange": "range",
}


class Script(NamedTuple):
    """A file that was read."""

    path: str
    text: str
    tree: ast.Module


def read(path: str) -> Script:
    """Read a file, without running it. Tabs are eight columns, as in Python 2.

    Raises:
      OSError: it cannot be read.
      ValueError: it is too large, or is not Python 3.
    """
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path}: expected a regular file; give a file of Python")
    if status.st_size > MOST_BYTES:
        raise ValueError(
            f"{path}: expected at most {MOST_BYTES} bytes, got {status.st_size}; give "
            "the file that defines the functions"
        )
    with open(path, "rb") as file:
        content = file.read()
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        text = content.decode(encoding)
        try:
            tree = _parsed(text)
        except TabError:
            text = text.expandtabs(8)
            tree = _parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(
            f"{path}: expected Python 3, got {type(error).__name__} {error}".rstrip()
        ) from None
    return Script(path, text, tree)


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def report(script: Script) -> List[str]:
    """Return lines: what a file imports, its likely source, what TensorFlow 2 lacks."""
    imported = sorted(set(_imports(script)))
    defined = [
        node.name for node in script.tree.body if isinstance(node, ast.FunctionDef)
    ]
    lines = [
        f"imports: {', '.join(imported) or 'nothing'}",
        f"functions: {', '.join(defined) or 'none'}",
    ]
    source = likely(script)
    known = f"transformer.compat.{source}" if source else "none that we know"
    lines.append(f"likely source: {known}")
    classes = [node.name for node in script.tree.body if isinstance(node, ast.ClassDef)]
    if classes:
        lines.append(f"classes, which are not measured: {', '.join(classes)}")
    for module in imported:
        path = _beside(script, module)
        if path:
            lines.append(f"{module} is {path}: give it too, if it has the functions")
    return lines + _lacking(script)


def likely(script: Script) -> str:
    """Return the module of `transformer.compat` that a file is likely to be; or ""."""
    words = set()
    for node in ast.walk(script.tree):
        if isinstance(node, ast.FunctionDef):
            words.update([node.name, *(each.arg for each in node.args.args)])
            words.update(map(_text, node.args.defaults))
        elif isinstance(node, ast.ClassDef):
            words.update([node.name, *(getattr(each, "id", "") for each in node.bases)])
    for source, marks in SOURCES.items():
        with_, _, without = marks.partition(" without ")
        if words >= set(with_.split()) and not words & set(without.split()):
            return source
    return ""


def _text(node: ast.AST) -> str:
    """Return the string that a node is; Python 3.7 calls it `s`."""
    return str(getattr(node, "value", getattr(node, "s", "")))


def _beside(script: Script, module: str) -> str:
    """Return the file of an imported module, beside the script or here; or ""."""
    inside = os.path.join(*module.strip(".").split(".")) + ".py" if module else ""
    for folder in (os.path.dirname(script.path), ""):
        path = os.path.join(folder, inside)
        if inside != ".py" and os.path.isfile(path):
            return path
    return ""


def _lacking(script: Script) -> List[str]:
    """Return what the names of a file become in TensorFlow 2."""
    lines: Dict[str, List[int]] = {}
    for name, line in _dotted_names(script):
        lines.setdefault(name, []).append(line)
    moved = _moved()
    found = []
    in_v1 = []
    for name, places in sorted(lines.items()):
        parts = name.split(".")
        begins = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
        note = next((NOTES[begin] for begin in begins if begin in NOTES), "")
        new = next((moved[begin] for begin in begins if begin in moved), "")
        if note:
            said = "line" if len(places) == 1 else "lines"
            numbers = ", ".join(map(str, places))
            found.append(f"{said} {numbers}: {name}: in TensorFlow 2: {note}")
        elif new.startswith("tf.compat.v1."):
            in_v1.append(name)
    if in_v1:
        found.append(
            f"not in TensorFlow 2, or with another meaning: {', '.join(in_v1)}: write "
            "import tensorflow.compat.v1 as tf, and tf.disable_v2_behavior()"
        )
    return found


def _dotted_names(script: Script) -> Iterator[Tuple[str, int]]:
    """Return the longest names joined by dots, "tf.layers.dense", and their lines."""
    inner = {
        id(node.value)
        for node in ast.walk(script.tree)
        if isinstance(node, ast.Attribute)
    }
    for node in ast.walk(script.tree):
        if id(node) in inner or not isinstance(node, (ast.Attribute, ast.Name)):
            continue
        line = node.lineno
        parts = []
        each: ast.AST = node
        while isinstance(each, ast.Attribute):
            parts.append(each.attr)
            each = each.value
        if isinstance(each, ast.Name):
            first = {"tensorflow": "tf", "numpy": "np"}.get(each.id, each.id)
            yield ".".join([first, *reversed(parts)]), line


def _moved() -> Dict[str, str]:
    """Return name → name in TensorFlow 2: the tables of `tf_upgrade_v2`, unimported."""
    found: Dict[str, str] = {}
    specs = map(importlib.util.find_spec, ("tensorflow", "tensorflow_core"))  # 2, 1.15
    folders = [spec.submodule_search_locations or [] for spec in specs if spec]
    for folder in itertools.chain(*folders):
        for name in ("renames_v2.py", "all_renames_v2.py"):
            path = os.path.join(folder, "tools", "compatibility", name)
            if not os.path.isfile(path):
                continue
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read())
            for node in tree.body:
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
                    found.update(ast.literal_eval(node.value))
    return found


def _imports(script: Script) -> Iterator[str]:
    for node in ast.walk(script.tree):
        if isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
