"""python -m transformer.porting: whose modules a file has, what to write instead."""

import ast
import importlib
import inspect
import os
import runpy
import shutil
import subprocess
import sys

import corpora
import pytest
import tensorflow.compat.v1 as tf
import tutorials

from transformer.porting import __main__ as porting
from transformer.porting import reading, signatures, sources

TF1 = tf.__version__.startswith("1.")


@pytest.fixture(autouse=True)
def v2_behavior_stays(monkeypatch):
    """What is compared switches it off, for all tests that this process has yet to run.

    Graphs are what these tests need of it, and they have those (conftest.py).
    """
    monkeypatch.setattr(tf, "disable_v2_behavior", lambda: None)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """write(name, text) → a file of the folder in which the command runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "0")

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode("utf-8"))
        return name

    return write


def said(capsys, *argv, status=0):
    """What the command prints; it must end with the status."""
    found = 0
    try:
        porting.main(list(argv))
    except SystemExit as stopped:
        found = stopped.code
    printed = capsys.readouterr()
    assert found == status, printed.err
    return printed.err if status == 2 else printed.out


# Whose modules


@pytest.mark.parametrize("source", sorted(tutorials.MODULES))
def test_modules_are_told_by_what_they_take_and_compute(folder, capsys, source):
    path = folder("modules.py", tutorials.MODULES[source])
    match = sources.classify(reading.read(path))
    assert (match.source, match.unknown) == (source, False)
    assert not any(each.matters for each in match.differences)
    text = said(capsys, path)
    assert f"transformer.compat.{source}\n" in text
    assert f"dialect: {sources.SOURCES[source].dialect}\n" in text


@pytest.mark.parametrize("source", sorted(tutorials.MODULES))
def test_a_source_is_a_file_of_compat(source):
    """And its parameters are read as they are, though nothing is imported."""
    module = sources.module_of(source)
    found = signatures.of_module(module)
    assert found
    if source == "bojone_keras" and TF1:
        return
    imported = importlib.import_module(module)
    assert sorted(found) == sorted(imported.__all__)
    for name, each in found.items():
        if each is not None and name not in ("tf", "np"):
            wanted = inspect.signature(getattr(imported, name)).parameters
            names = [key for key, p in wanted.items() if p.kind != p.VAR_KEYWORD]
            assert list(each.names) == names, name


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("-(2 ** 32) + 1", -(2**32) + 1),
        ("[512, 2048]", (512, 2048)),
        ("'a'", "a"),
        ("1 / 0", None),
        ("1e300 ** 2", None),
        ("'a' * 2", None),
        ("-'a'", None),
        ("-FLAGS.size", None),
    ],
)
def test_constants_are_computed_and_all_else_is_none(text, wanted):
    node = ast.parse(text, mode="eval").body
    if wanted is not None:
        assert signatures.constant(node) == wanted
        return
    with pytest.raises(ValueError):
        signatures.constant(node)


def test_every_file_of_compat_with_blocks_is_a_source():
    place = os.path.join(corpora.ROOT, "transformer", "compat")
    helpers = {"__init__", "restoring", "variables"}
    names = {name[:-3] for name in os.listdir(place) if name.endswith(".py")} - helpers
    names -= {name for name in names if name.startswith("tensor2tensor_")}
    assert names == set(sources.SOURCES) == set(tutorials.MODULES)


@pytest.mark.parametrize(
    "old, new, wanted",
    [
        ("(-2 ** 32 + 1)", "-1e9", "forbidden logits: -1e+09; here: -4.29497e+09"),
        ("epsilon=1e-8", "epsilon=1e-5", "epsilon: 1e-05; here: 1e-08"),
        ("asking = tf.sign(tf.reduce_sum(tf.abs(queries), axis=-1))",)
        + ("asking = tf.ones_like(queries[:, :, 0])", "padded queries: as others"),
        (
            '"dense_2", activation=tf.nn.relu',
            '"dense_2"',
            "projections: linear and relu",
        ),
        ("/ (num_units // num_heads) ** 0.5", "/ 1.0", "scale: none"),
        ("        outputs += queries\n", "", "residual: none"),
        (
            '"conv1d_1")',
            '"conv1d_1", tf.tanh, activation=tf.tanh)',
            "layers: relu, tanh",
        ),
        ("dropout(weights, dropout_rate, is_training)", "weights", "dropout: no"),
        (
            "V = dense(keys",
            "V = dense(queries",
            "Q, K, V are made of: arguments 1, 2, 1",
        ),
        (
            "        outputs += queries\n",
            "        outputs = normalize(outputs + queries)\n",
            "normalization: 2 calls; here: after the sum",
        ),
    ],
)
def test_what_a_fork_changes_is_told(folder, capsys, old, new, wanted):
    path = folder("modules.py", tutorials.changed(tutorials.LEGACY, (old, new)))
    text = said(capsys, path)
    assert "transformer.compat.kyubyong_legacy\n" in text
    assert wanted in text
    assert "a variant: keep what differs, and check the rest with --compare" in text


BOJONE = """
import tensorflow as tf


def Position_Embedding(inputs, position_size):
    lengths = tf.pow(10000.0, tf.range(0, position_size, 2.0) / position_size)
    angles = tf.range(1.0 * tf.shape(inputs)[1])[:, None] / lengths
    return tf.concat([tf.cos(angles), tf.sin(angles)], 1)[None]


def Mask(inputs, seq_len, mode="mul"):
    seen = tf.cast(tf.sequence_mask(seq_len), tf.float32)[:, :, None]
    return inputs * seen if mode == "mul" else inputs - (1 - seen) * 1e12


def Dense(inputs, ouput_size, bias=True, seq_len=None):
    W = tf.Variable(tf.ones([inputs.shape[-1], ouput_size]))
    return tf.tensordot(inputs, W, 1) + (tf.Variable(tf.ones([4])) if bias else 0)


def Attention(Q, K, V, nb_head, size_per_head, Q_len=None, V_len=None):
    Q = Dense(Q, nb_head * size_per_head, False)
    K = Dense(K, nb_head * size_per_head, bias=False)
    V = Dense(V, nb_head * size_per_head, False)
    A = tf.matmul(K, Q, transpose_b=True) / size_per_head ** 0.5
    A = tf.nn.softmax(Mask(A, V_len, "add"), 1)
    return Mask(tf.matmul(A, V, transpose_a=True), Q_len)
"""


@pytest.mark.parametrize(
    "old, new, wanted",
    [
        ("10000.0", "1000.0", "Position_Embedding: base: 1000; here: 10000"),
        ("Dense(Q, nb_head * size_per_head, False)", "Dense(Q, 4)")
        + ("Attention: biases of its layers: none and yes; here: none",),
        ("1e12", "1e10", "Attention: forbidden logits: -1e+10; here: -1e+12"),
        ("V = Dense(V", "V = Dense(K", "Q, K, V are made of: arguments 1, 2, 2; here"),
        ("Mask(tf.matmul(A, V, transpose_a=True), Q_len)", "tf.matmul(A, V)")
        + ("Attention: masks: 1; here: 2",),
        ("size_per_head ** 0.5", "size_per_head", "scale: none; here: root"),
    ],
)
def test_what_a_fork_of_functions_with_lengths_changes_is_told(
    folder, capsys, old, new, wanted
):
    text = said(capsys, folder("attention.py", BOJONE))
    assert "no difference found in: Attention, Position_Embedding\n" in text
    assert "parameters, and no more compared, of: Dense, Mask\n" in text
    text = tutorials.changed(BOJONE, (old, new))
    assert wanted in said(capsys, folder("attention.py", text))


def test_what_is_read_alone_is_to_be_compared_before_switching(folder, capsys):
    first = "before switching: python -m transformer.porting --compare modules.py"
    modules = folder("modules.py", tutorials.SASREC)
    path = folder("model.py", "from modules import *\nx = normalize(x)\n")
    for argv in ([path], [modules], [path, modules]):
        assert said(capsys, *argv).splitlines()[-1] == first + " --with sasrec"
    porting.main(["--diff", path])
    assert first in capsys.readouterr().err
    porting.main(["--diff", modules])  # which has nothing to switch
    assert first not in capsys.readouterr().err


def test_functions_that_cannot_be_compared_are_not_in_the_patch(folder, capsys):
    """Of these, the parameters alone are known."""
    folder("net.py", tutorials.TENSOR2TENSOR)
    path = folder("model.py", "import net\nnet.multihead_attention(x)\n")
    assert "write: from transformer.compat import tensor2tensor as net\n" in said(
        capsys, path
    )
    assert said(capsys, "--diff", path) == ""


SCALED = "logits = logits / (num_units // num_heads) ** 0.5"
LAYERS = (
    'outputs = conv1d(inputs, num_units[0], "conv1d", activation=tf.nn.relu)',
    'outputs = conv1d(outputs, num_units[1], "conv1d_1")',
)
SETTINGS = (
    'made = {"name": "conv1d", "activation": tf.nn.relu}\n'
    "        outputs = conv1d(inputs, num_units[0], **made)",
    'made = {"name": "conv1d_1", "activation": tf.tanh}\n'
    "        outputs = conv1d(outputs, num_units[1], **made)",
)
PAIRS = "np.array([[t / 1e4 ** ((i - i % 2) / 8) for i in range(8)] for t in range(9)])"


@pytest.mark.parametrize(
    "pairs, more, wanted",
    [
        (
            [(SCALED, "logits = scaled(logits)")],
            "def scaled(logits):\n    return logits\n",
            "multihead_attention: scale: none; here: root of the width of a head",
        ),
        (
            list(zip(LAYERS, SETTINGS)),
            "",
            "feedforward: layers: relu, tanh; here: relu, linear",
        ),
        (
            [("epsilon=1e-8, ", ""), ("variance + epsilon", "variance + 1e-6")],
            "",
            "normalize: epsilon: 1e-06; here: 1e-08",
        ),
        (
            [],
            f"def positional_encoding(inputs, num_units):\n    return {PAIRS}\n",
            "positional_encoding: angles: one for two channels; here: one for each",
        ),
        (
            [],
            "def positional_encoding(inputs, num_units):\n"
            "    return tf.gather(tf.get_variable('t', [9, num_units]), inputs)\n",
            "positional_encoding: angles: none, but a table that is learned; here: one",
        ),
    ],
    ids=["in a helper", "settings", "epsilon inside", "angles", "learned positions"],
)
def test_what_a_fork_writes_elsewhere_is_told(folder, capsys, pairs, more, wanted):
    text = tutorials.changed(tutorials.LEGACY, *pairs) + "\n\n" + more
    assert f"  {wanted}" in said(capsys, folder("modules.py", text))


@pytest.mark.parametrize(
    "pairs, more",
    [
        (
            [(SCALED, "logits = scaled(logits, num_units // num_heads)")],
            "def scaled(logits, width):\n    return logits / width ** 0.5\n",
        ),
        ([("outputs += queries", "outputs = tf.add(outputs, queries)")], ""),
        (
            list(
                zip(LAYERS, ("outputs = dot(inputs, W)", "outputs = dot(outputs, V)"))
            ),
            "",
        ),
        (
            [
                ("shift = tf.Variable(tf.zeros(inputs.shape[-1:]))", ""),
                ("factor = tf.Variable(tf.ones(inputs.shape[-1:]))", ""),
                ("shift + factor * (", "batch_normalized("),
            ],
            "",
        ),
    ],
    ids=["in a helper", "tf.add", "no layers", "no variables"],
)
def test_the_same_in_other_words_and_what_is_not_known_are_no_difference(
    folder, capsys, pairs, more
):
    text = tutorials.changed(tutorials.LEGACY, *pairs) + "\n\n" + more
    text = said(capsys, folder("modules.py", text))
    assert "no difference found in: feedforward, multihead_attention, norm" in text
    assert "parameters, and no more compared, of: embedding\n" in text


def test_what_is_too_far_from_all_is_an_unknown_variant(folder, capsys):
    text = tutorials.changed(
        tutorials.LEGACY,
        ("(-2 ** 32 + 1)", "-1e9"),
        ("epsilon=1e-8", "epsilon=1e-5"),
        ("/ (num_units // num_heads) ** 0.5", "/ 1.0"),
        ("        outputs += queries\n", ""),
        ("dropout(weights, dropout_rate, is_training)", "weights"),
    )
    text = said(capsys, folder("modules.py", text))
    assert "unknown variant: check with --compare" in text


def test_what_ours_does_not_take_is_not_covered(folder, capsys):
    modules = tutorials.changed(
        tutorials.SASREC,
        ("attention(queries, keys, num_units=None",)
        + ("attention(queries, keys, time_matrix_K, num_units=None",),
    )
    folder("modules.py", modules)
    path = folder(
        "model.py",
        "from modules import *\nx = normalize(x)\n"
        "x = multihead_attention(x, x, t, num_units=8)\n",
    )
    text = said(capsys, path)
    wanted = "takes time_matrix_K, which multihead_attention of ours does not"
    assert f"model.py:3: multihead_attention(...): yours stays: {wanted}\n" in text
    assert "write: from modules import *\n" in text
    assert "write: from transformer.compat.sasrec import normalize\n" in text


# Calls


@pytest.mark.parametrize(
    "source, text",
    [
        ("kyubyong_legacy", "x = multihead_attention(x, x, 8, causality=True)"),
        ("sasrec", "x, t = embedding(x, 9, 8, l2_reg=0.1, with_t=True)"),
        ("sasrec", "x = feedforward(x, [8, 8], dropout_rate=0.1)"),
        ("functional_time", "x = time_encoding(feedforward(x, [8, 8]), 8)"),
        ("interhat", "x, w = multihead_attention(x, x, 8)"),
        ("kyubyong", "x = multihead_attention(x, x, values=x, key_masks=m)"),
        ("kyubyong", "x = ff(x, [8, 8])"),
        ("bojone", "x = multihead_attention(x, x, x, nb_head=4)"),
        ("tensor2tensor", "x = multihead_attention(query_antecedent=x)"),
    ],
)
def test_a_file_without_its_modules_is_told_by_its_calls(folder, capsys, source, text):
    path = folder("model.py", f"from modules import *\nx = None\n{text}\n")
    found = said(capsys, path)
    assert f"line 1: modules is transformer.compat.{source} (" in found
    assert "to be certain, give the file of its modules too)" in found
    assert said(capsys, "--diff", path) == ""  # another source may be called so too
    assert f"dialect: {sources.SOURCES[source].dialect}\n" in found


@pytest.mark.parametrize("given", [True, False])
def test_the_file_of_the_modules_decides(folder, capsys, given):
    """Whether it is given, or beside the other one."""
    folder("modules.py", tutorials.TUTORIAL)
    path = folder("model.py", "from modules import *\nx = feedforward(x, [8, 8])\n")
    text = said(capsys, path, *(["modules.py"] if given else []))
    assert "line 1: modules is transformer.compat.tutorial\n" in text
    assert "model.py:2: feedforward(...): unchanged\n" in text


def test_other_defaults_other_names_and_wrong_arguments_are_told(folder, capsys):
    modules = tutorials.changed(
        tutorials.TUTORIAL, ("num_heads=0", "num_heads=4")
    ).replace("normalize(", "layer_norm(")
    folder("net/modules.py", modules)
    path = folder(
        "net/model.py",
        "from net.modules import *\n"
        "x = layer_norm(multihead_attention(x, x, **settings))\n"
        "x = multihead_attention(x, x, 8)\n"
        "x = embedding(x, 9, 8, vocab=3)\n",
    )
    text = said(capsys, path)
    assert "multihead_attention(...): check the names in *args and **kwargs\n" in text
    assert "model.py:3: multihead_attention(...): add num_heads=4\n" in text
    assert "leave out vocab, which it does not take, there neither\n" in text
    assert "import normalize as layer_norm\n" in text


@pytest.mark.parametrize(
    "written, wanted",
    [
        ("import modules as m", "from transformer.compat import sasrec as m"),
        ("import modules", "from transformer.compat import sasrec as modules"),
        (
            "from modules import normalize as n",
            "from transformer.compat.sasrec import n",
        )
        and ("from modules import normalize as n",)
        + ("from transformer.compat.sasrec import normalize as n",),
        ("from modules import (\n    normalize,\n    other)",)
        + (
            "from modules import other\n"
            "from transformer.compat.sasrec import normalize",
        ),
    ],
)
def test_each_kind_of_import(folder, capsys, written, wanted):
    folder("modules.py", tutorials.SASREC + "\n\ndef other(x):\n    return x\n")
    name = {"m": "m.normalize", "modules": "modules.normalize", "n": "n"}.get(
        written.split()[-1], "normalize"
    )
    path = folder("model.py", f"{written}  # blocks\n\nx = {name}(x)\n")
    text = said(capsys, path)
    for line in wanted.splitlines():
        assert f"write: {line}\n" in text
    patched = apply(capsys, path)
    assert patched == f"{wanted}  # blocks\n\nx = {name}(x)\n"


@pytest.mark.parametrize(
    "written, call, wanted",
    [
        (
            "from ..modules import normalize",
            "normalize(x)",
            "from transformer.compat.sasrec import normalize",
        ),
        (
            "from tensor2tensor.layers import common_layers as c, discretization",
            "c.layer_norm(x, 8)",
            "from tensor2tensor.layers import discretization\n"
            "from transformer.compat import tensor2tensor as c",
        ),
        (
            "import attention_keras as a",
            "a.SelfAttention(2, 4)(a.Attention(2, 4)(x))",
            "from transformer.compat import bojone_keras as a",
        ),
        ("import net.modules", "net.modules.normalize(x)", None),  # dots in a name
        ("import net.changed as m", "m.layer_norm(x)", None),  # not its name in ours
    ],
)
def test_imports_of_modules_that_lie_elsewhere(folder, capsys, written, call, wanted):
    folder("net/modules.py", tutorials.SASREC)
    folder("net/changed.py", tutorials.SASREC.replace("normalize(", "layer_norm("))
    path = folder("net/sub/model.py", f"{written}\nx = {call}\n")
    text = said(capsys, path)
    assert f"{path}:2: {call.split('(')[0]}(...): unchanged\n" in text
    assert apply(capsys, path) == f"{wanted or written}\nx = {call}\n"
    for line in (wanted or "from transformer.compat.sasrec import ... (by hand").split(
        "\n"
    ):
        assert f"write: {line}" in text


@pytest.mark.parametrize("import_", ["*", "normalize, other"])
def test_a_file_that_is_patched_has_nothing_more_to_write(folder, capsys, import_):
    folder("modules.py", tutorials.SASREC + "\n\ndef other(x):\n    return x\n")
    text = f"from modules import {import_}\nx = other(normalize(x))\n"
    folder("model.py", apply(capsys, folder("model.py", text)))
    text = said(capsys, "model.py")
    assert "  line 2 imports it already\n" in text
    assert "write: from" not in text
    assert said(capsys, "--diff", "model.py") == ""
    start = "from modules import *\nfrom transformer.compat.sasrec import {}\n"
    folder("model.py", start.format("embedding") + "x = normalize(x)\n")
    assert "write: from transformer.compat.sasrec import *" in said(capsys, "model.py")
    folder("model.py", start.format("*") + "x = other(normalize(x))\n")
    assert "write: from" not in said(capsys, "model.py")


def test_arguments_in_other_places_are_told(folder, capsys):
    path = folder(
        "model.py",
        "from modules import *\nx = normalize(x, 1e-8, 'ln', None, 5)\n"
        "x = multihead_attention(x, x, 2, 8)\n",
    )
    wanted = "model.py:2: normalize(...): leave out argument 5, which it does not take"
    assert wanted in said(capsys, path)
    units, heads = "num_units=None, ", "num_heads=8,"
    text = tutorials.changed(tutorials.LEGACY, (units + heads, f"{heads} {units[:-1]}"))
    folder("modules.py", text)
    assert (
        "model.py:3: multihead_attention(...): name argument 3: num_heads=...; "
        "name argument 4: num_units=...\n"
    ) in said(capsys, path)


def test_classes_and_a_file_that_hides_the_package_are_told(folder, capsys):
    path = folder(
        "transformer.py",
        "from modules import *\n\nclass SelfAttention:\n    def __call__(self, x):\n"
        "        return feedforward(x)\n",
    )
    text = said(capsys, path)
    assert "line 3: class SelfAttention: class APIs are not covered\n" in text
    assert "transformer.py of its folder hides this package" in text


def test_a_transformer_of_a_package_hides_nothing(folder, capsys):
    said_of = "transformer.py of its folder hides this package"
    folder("models/modules.py", tutorials.LEGACY)
    path = folder(
        "models/transformer.py", "from models.modules import *\nnormalize(x)\n"
    )
    assert said_of not in said(capsys, path)
    folder("models/transformer.py", "from modules import *\nx = normalize(x)\n")
    assert said_of in said(capsys, path)  # its folder is on the path
    folder("models/__init__.py", "")
    assert said_of not in said(capsys, path)
    os.remove("models/__init__.py")
    folder("models/transformer.py", "x = 1\n")
    program = "import os\nif __name__ == {}:\n    os.listdir()\n"
    path = folder("models/train.py", program.format("'net'"))
    assert said_of not in said(capsys, path, status=1)
    folder("models/train.py", program.format("'__main__'"))
    assert said_of in said(capsys, path, status=1)  # its folder is on the path


@pytest.mark.parametrize(
    "hides, name",
    [
        ("transformer.py", "transformer_tf"),
        ("transformer/__init__.py", "transformer_tf"),
        ("transformer/compat/__init__.py", "transformer"),  # a copy of this package
        ("transformer/other.py", "transformer"),  # which is found behind this package
    ],
)
@pytest.mark.parametrize("package", [True, False])
def test_what_hides_the_package_gives_it_its_other_name(
    folder, capsys, tmp_path, hides, name, package
):
    """Beside a program, or beside the package that a file belongs to."""
    (tmp_path / "transformer" / "compat").mkdir(parents=True)
    folder("modules.py", tutorials.LEGACY)
    if "compat" in hides:
        folder("transformer/__init__.py", "")
    folder(hides, "")
    path = folder("net/model.py" if package else "model.py", CALL)
    if package:
        folder("net/__init__.py", "")
        folder("net/modules.py", tutorials.LEGACY)
    text = said(capsys, path)
    wanted = f"from {name}.compat.kyubyong_legacy import *\n"
    assert f"write: {wanted}" in text
    assert ("hides this package" in text) == (name == "transformer_tf")
    assert f"before switching: python -m {name}.porting --compare " in text
    assert apply(capsys, path).startswith(wanted)
    path = folder("own.py", f"{tutorials.LEGACY}\nif 1:\n    y = normalize(x)\n")
    assert f"delete yours, and write: from {name}.compat.kyub" in said(capsys, path)


def test_a_change_is_told_where_there_is_what_changes(folder, capsys):
    told = "changes: key_masks stay as they are"
    call = "x = multihead_attention(x, x, x{}, training=True)\n"
    start = "from modules import *\n"
    path = folder("model.py", start + call.format(""))
    assert told not in said(capsys, path)
    folder("model.py", start + call.format(", key_masks=m"))
    assert told in said(capsys, path)
    folder("modules.py", tutorials.KYUBYONG)
    folder("model.py", start + call.format(", m"))  # by its place
    assert told in said(capsys, path)


def test_calls_beside_their_functions_are_told(folder, capsys):
    model = "\n\ndef model(x):\n    x = normalize(x, 'a')\n    return feedforward(x)\n"
    path = folder("model.py", tutorials.LEGACY + model)
    lines = said(capsys, path).splitlines()
    last = len(tutorials.LEGACY.split("\n")) + 3
    assert [line.strip() for line in lines if "(...)" in line] == [
        f"{path}:{last}: normalize(...): unchanged",
        f"{path}:{last + 1}: feedforward(...): unchanged",
    ]
    [write] = [line for line in lines if "finds no difference, delete yours" in line]
    assert (
        "write: from transformer.compat.kyubyong_legacy import embedding, feed" in write
    )


@pytest.mark.parametrize(
    "old, new, wanted",
    [
        (
            "asking = tf.sign(tf.reduce_sum(tf.abs(queries), axis=-1))",
            "asking = tf.sequence_mask(keys)",
            "padding: lengths, by tf.sequence_mask and rows of zeros; here: ",
        ),
        (
            "activation=tf.nn.relu)\n        {0} =",
            "activation=tf.nn.relu, use_bias=False)\n        {0} =",
            "biases of Q, K, V: none; here: yes, or transformer.modules with a dialect",
        ),
    ],
    ids=["sequence_mask", "use_bias"],
)
def test_what_masks_and_biases_are_is_told(folder, capsys, old, new, wanted):
    text = tutorials.LEGACY
    for name in ("K", "V", "Q_, K_, V_"):
        text = text.replace(old.format(name), new.format(name))
    assert wanted in said(capsys, folder("modules.py", text))


def test_a_file_of_something_else_ends_with_status_1(folder, capsys):
    path = folder("main.py", "import tensorflow as tf\nx = tf.layers.dense(y, 3)\n")
    text = said(capsys, path, status=1)
    assert "no modules of a tutorial, and no import of them\n" in text
    assert "tf.layers.dense: stays, with tf_keras and TF_USE_LEGACY_KERAS=1" in text


# TensorFlow 2


@pytest.mark.parametrize(
    "line, write",
    [
        ("tf.contrib.layers.xavier_initializer()", "tf.glorot_uniform_initializer()"),
        (
            "tf.contrib.layers.l2_regularizer(scale=args.l2 * f(1))",
            "(lambda weights: (args.l2 * f(1)) * tf.nn.l2_loss(weights))",
        ),
        ("tf.contrib.rnn.LSTMCell(8)", "tf.nn.rnn_cell.LSTMCell"),
        ("np.lib.pad(x, 3)", "np.pad"),
        ("tf.contrib.framework.nest.flatten(y)", "tf.nest.flatten"),
    ],
)
def test_a_name_that_has_another_one(folder, capsys, line, write):
    path = folder("a.py", f'x = {line}  # tf.contrib\ny = "tf.contrib.x"\n')
    text = said(capsys, path, status=1)
    assert f"line 1: {line.split('(')[0]}: write {write}\n" in text
    assert "line 2" not in text
    assert apply(capsys, path).startswith(f"x = {write}")


@pytest.mark.parametrize(
    "line, wanted",
    [
        ("tf.contrib.crf.crf_log_likelihood(x)", "keep a copy of these functions"),
        ("tf.contrib.seq2seq.sequence_loss(x)", "not in TensorFlow 2, nor in"),
        ("tf.contrib.layers.xavier_initializer(uniform=False)", "tf.glorot_uniform"),
        ("tf.contrib.layers.l2_regularizer(1,\n  2)", "not in TensorFlow 2, nor in"),
        ("tf.contrib.layers.l2_regularizer(\n  2)", "not in TensorFlow 2, nor in"),
        ("[tf.contrib.layers.l2_regularizer]", "not in TensorFlow 2, nor in"),
        ("tf.nn.rnn_cell.GRUCell(3)", "stays, with tf_keras"),
        ("tf.nn.moments(x, [0], keep_dims=True)", "works; its newer name: keepdims"),
        ("tf.arg_max(x, dimension=1)", "works; its newer name: tf.argmax"),
        ("tf.train.Supervisor()", "works; newer: tf.train.MonitoredTrainingSession"),
    ],
)
def test_a_name_that_stays_is_told(folder, capsys, line, wanted):
    path = folder("a.py", f"x = {line}\n")
    assert wanted in said(capsys, path, status=1)
    assert said(capsys, "--diff", path) == ""


@pytest.mark.parametrize(
    "written, wanted",
    [
        ("import tensorflow as tf", "import tensorflow.compat.v1 as tf\n"),
        ("import tensorflow as T; x = 1", "import tensorflow.compat.v1 as T\n"),
        (
            "import tensorflow as tf\ntf.compat.v1.disable_v2_behavior()",
            "import tensorflow.compat.v1 as tf\n",
        ),
        ("import tensorflow", None),
        ("import tensorflow as tf, os", None),
        ("import keras\nimport tensorflow as tf", None),
    ],
)
def test_the_import_of_tensorflow(folder, capsys, written, wanted):
    text = apply(capsys, folder("a.py", written + "\n"))
    assert text.startswith(wanted or written + "\n")
    assert text.count("disable_v2_behavior()") == bool(wanted)


# Python 2

CALL = "from modules import *\nx = feedforward(x, [8, 8])\n"
PYTHON_2 = """import tensorflow as tf
from modules import *
print "starts", tf.__version__
if True: print x,
for i in xrange(3):
\tprint "%d of %d" % (i,
\t    3)
try:
    x = feedforward(x, [8, 8L])
except ValueError, error:
    raise Exception, "no"
"""


def test_python_2_is_read_and_told(folder, capsys):
    path = folder("model.py", PYTHON_2)
    text = said(capsys, path)
    assert "not Python 3 (line " in text and "7 of its lines were not read" in text
    assert "model.py:9: feedforward(...): unchanged\n" in text
    assert "line 5: xrange: write range\n" in text
    patched = apply(capsys, path)
    assert patched.startswith("import tensorflow.compat.v1 as tf\ntf.disable_v2")
    assert 'print "starts", tf.__version__\n' in patched  # what is not certain stays


@pytest.mark.parametrize("text", ["a:(", "# of (", "'", '\\"(', "%s"])
def test_what_python_2_prints_hides_no_line(folder, capsys, text):
    path = folder("model.py", f'print "{text}"\n{CALL}print "%d" % (\n')
    assert "model.py:3: feedforward(...): unchanged\n" in said(capsys, path)


@pytest.mark.parametrize(
    "text",
    [
        "from modules import *\n)(\n" * 30,
        f"np.int\nif True:\n        x = 1\n    y = 2\n{CALL}",
    ],
    ids=["brackets", "indentation"],
)
def test_what_cannot_be_read_at_all_is_told(folder, capsys, text):
    path, count = folder("a.py", text), text.count("\n")
    found = said(capsys, path, status=1)
    assert "not Python 3 (line " in found
    assert f"{count} of its lines were not read as they are" in found
    assert ("line 1: np.int: write int\n" in found) == ("np.int" in text)
    assert said(capsys, "--diff", path) == ""


@pytest.mark.skipif(TF1, reason="Python 3.7 says that such a string ends the file")
def test_what_follows_a_string_without_an_end_is_read(folder, capsys):
    folder("modules.py", tutorials.LEGACY)
    path = folder("a.py", f'x = """\n{CALL}')
    wanted = "from transformer.compat.kyubyong_legacy import *\n"
    assert apply(capsys, path).startswith(f'x = """\n{wanted}')


# The patch


def apply(capsys, path):
    """The text of a file after its patch, by the program of that name."""
    made = said(capsys, "--diff", path)
    if not made:
        return reading_of(path)
    if not shutil.which("patch"):
        pytest.skip("there is no program `patch`")
    before = reading_of(path)
    subprocess.run(
        ["patch", "-p0", "--binary"],
        input=made.encode(),
        check=True,
        stdout=subprocess.PIPE,
    )
    found = reading_of(path)
    with open(path, "wb") as file:
        file.write(before.encode())
    return found


def reading_of(path):
    with open(path, "rb") as file:
        return file.read().decode()


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n"])
def test_a_patch_keeps_the_ends_of_lines(folder, capsys, ends, last):
    text = "# é\nimport os\nimport tensorflow as tf\nx = np.lib.pad(y)" + last
    found = apply(capsys, folder("a.py", text.replace("\n", ends)))
    assert found == (
        "# é\nimport os\nimport tensorflow.compat.v1 as tf\ntf.disable_v2_behavior()\n"
        "x = np.pad(y)" + last
    ).replace("\n", ends)


def test_a_patch_names_files_from_here(folder, capsys):
    """So that `patch -p0` finds them."""
    path = folder("net/a.py", "x = np.int\n")
    made = said(capsys, "--diff", os.path.abspath(path))
    assert made == said(capsys, "--diff", path)
    assert made.startswith("--- net/a.py\n+++ net/a.py\n")


MODEL = """
from modules import *

ids = tf.placeholder(tf.int32, [None, 3])
with tf.variable_scope("net"):
    x, table = embedding(ids, 9, 8, l2_reg=0.1, with_t=True)
    x = multihead_attention(queries=normalize(x), keys=x, num_heads=2,
                            dropout_rate=0.1, is_training=False, scope="a")
    x = feedforward(normalize(x), [8, 8], dropout_rate=0.1, is_training=False)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    print(session.run(x, {ids: [[1, 2, 0]]}).shape, len(tf.trainable_variables()))
"""


@pytest.mark.slow
def test_a_patched_file_runs(folder, capsys):
    folder("modules.py", tutorials.SASREC)
    path = folder("model.py", MODEL)
    text = apply(capsys, path)
    os.remove("modules.py")
    folder("model.py", text)
    done = subprocess.run(
        [sys.executable, path], stdout=subprocess.PIPE, universal_newlines=True
    )
    assert done.stdout == "(1, 3, 8) 15\n"


# Comparing


@pytest.mark.slow
@pytest.mark.parametrize("source", ["kyubyong_legacy", "tutorial", "sasrec"])
def test_what_is_equal_is_told_to_be(folder, capsys, source):
    path = folder("modules.py", tutorials.MODULES[source])
    text = said(capsys, "--compare", path)
    assert "DIFFERENT" not in text and "fails" not in text
    assert "multihead_attention causality: outputs " in text
    assert "feedforward as wide: outputs " in text
    assert "dense: not compared: ours has none\n" in text
    assert ", other names" not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    "old, new, block",
    [
        ("epsilon=1e-8", "epsilon=1e-2", "normalize"),
        ('"dense_2", activation=tf.nn.relu', '"dense_2"', "multihead_attention"),
        ("num_units ** 0.5 if", "num_units if", "embedding"),
    ],
)
def test_another_formula_is_different(folder, capsys, old, new, block):
    text = tutorials.changed(tutorials.LEGACY, (old, new))
    path = folder("modules.py", text)
    text = said(capsys, "--compare", path, "--with", "kyubyong_legacy", status=1)
    [line] = [line for line in text.splitlines() if line.startswith(block + ": ")]
    assert line.endswith(": DIFFERENT")


def test_a_block_that_another_source_has_is_told(folder, capsys):
    fed = tutorials.LEGACY.split("def feedforward")[1]
    text = tutorials.SASREC.split("def feedforward")[0] + "def feedforward" + fed
    path = folder("modules.py", text)
    text = said(capsys, "--compare", path, "--with", "sasrec", status=1)
    found = [line for line in text.splitlines() if line.startswith("feedforward ")]
    assert len(found) == 2
    for line in found:
        assert line.endswith(
            "DIFFERENT (the same in kyubyong_legacy, tutorial, interhat)"
        )


@pytest.mark.slow
def test_two_files_are_compared_and_other_names_told(folder, capsys):
    first = folder("first.py", tutorials.LEGACY)
    second = folder("second.py", tutorials.LEGACY.replace('"dense_1"', '"keys"'))
    text = said(capsys, "--compare", first, "--with", second, status=1)
    assert "other names, so that checkpoints do not load: multihead_atten" in text
    assert "DIFFERENT" not in text and "multihead_attention/keys/kernel" in text
    other = tutorials.changed(tutorials.LEGACY, ("scale else found", "scale else 0"))
    text = said(capsys, "--compare", first, "--with", folder("b.py", other), status=1)
    assert "embedding neither zero_pad nor scale: " in text


def test_other_arguments_are_no_failure(folder, capsys):
    """The masks of an older version of the same source."""
    mask = (
        "\n\ndef mask(inputs, queries=None, keys=None, type=None):\n"
        "    return inputs + tf.reduce_sum(keys)\n"
    )
    ln = tutorials.KYUBYONG.split("def multihead_attention")[0]
    path = folder("modules.py", ln + mask)
    text = said(capsys, "--compare", path, "--with", "kyubyong")
    assert "mask key: not compared: theirs takes queries, keys instead\n" in text


NORMALIZE = """
import tensorflow as tf


def normalize(inputs):
    with tf.variable_scope("ln"):
        return inputs * tf.get_variable("gamma", [8]), []
"""
SHIFTED = tutorials.changed(NORMALIZE, (", []", ' + tf.get_variable("beta", [8]), []'))
ADDED = "\n\ndef label_smoothing(inputs{}):\n    return inputs + {}\n"


@pytest.mark.parametrize(
    "theirs, ours, status, wanted",
    [
        (NORMALIZE, NORMALIZE, 0, "normalize: outputs 0.0e+00, gradients 0.0e+00, "),
        (NORMALIZE, SHIFTED, 1, "normalize: variables 1 and 2: DIFFERENT"),
        (
            NORMALIZE + ADDED.format("", "none"),
            NORMALIZE + ADDED.format("", "1"),
            1,
            "label_smoothing: theirs fails: NameError: name 'none' is not defined",
        ),
        (
            NORMALIZE + ADDED.format("", "1"),
            NORMALIZE + ADDED.format("", "none"),
            1,
            "label_smoothing: ours fails: NameError: name 'none' is not defined",
        ),
        (
            NORMALIZE + ADDED.format("", "1"),
            NORMALIZE + ADDED.format("", "1, inputs"),
            1,
            "label_smoothing: outputs: 1 and 2 of them, variables 0 and 0: DIFFERENT",
        ),
        (
            NORMALIZE + ADDED.format(", width", "1"),
            NORMALIZE + ADDED.format("", "1"),
            0,
            "label_smoothing: not compared: it needs width",
        ),
    ],
    ids=["equal", "variables", "theirs fails", "ours fails", "outputs"]
    + ["not called"],
)
def test_what_became_of_each_block_is_told(
    folder, capsys, theirs, ours, status, wanted
):
    paths = folder("theirs.py", theirs), "--with", folder("ours.py", ours)
    text = said(capsys, "--compare", *paths, status=status)
    assert wanted in text
    assert ("normalize: outputs 0.0e+00" in text) == (ours is not SHIFTED)


def test_tf_keras_is_used_where_it_is_installed(folder, capsys, monkeypatch, tmp_path):
    path = folder("modules.py", NORMALIZE + ADDED.format("", "tf.layers.dense"))
    folder("tf_keras/__init__.py", "")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("TF_USE_LEGACY_KERAS")
    text = said(capsys, "--compare", path, "--with", path, status=1)
    assert "normalize: outputs 0.0e+00" in text
    assert os.environ["TF_USE_LEGACY_KERAS"] == "1"  # before TensorFlow is imported


@pytest.mark.skipif(TF1, reason="TensorFlow 1.15 has tf.layers")
def test_what_needs_tf_keras_is_refused(folder, capsys):
    path = folder("modules.py", tutorials.KYUBYONG)
    text = said(capsys, "--compare", path, status=2)
    assert "found tf.layers.dense, wanted tf_keras: pip install tf_keras" in text


# The command


@pytest.mark.parametrize(
    "argv, wanted",
    [
        ([], "found no files"),
        (["none.py"], "No such file"),
        (["binary.py"], "wanted a text of Python"),
        (["zero.py"], "found a byte 0, wanted a text of Python"),
        (["--with", "sasrec"], "found no --compare"),
        (["--compare", "x.py", "y.py"], "found other arguments"),
        (["--compare", "x.py"], "found no blocks, wanted --with NAME"),
        (["--compare", "x.py", "--with", "sasrek"], "did you mean sasrec?"),
        (["--compare", "x.py", "--with", "x.py"], "nothing could be compared"),
        (["--compare", "wrong.py", "--with", "sasrec"], "it does not run here"),
    ],
)
def test_what_is_refused(folder, capsys, argv, wanted):
    folder("x.py", "x = 1\n")
    folder("wrong.py", "import no_such_module\n")
    folder("zero.py", "x = 1\0\n")
    with open("binary.py", "wb") as file:
        file.write(b"x = '\xff'\n")
    assert wanted in said(capsys, *argv, status=2)


@pytest.mark.filterwarnings("ignore:.*found in sys.modules")
def test_python_m_runs_it(folder, capsys, monkeypatch):
    path = folder("modules.py", tutorials.TUTORIAL)
    monkeypatch.setattr(sys, "argv", ["python -m", path])
    runpy.run_module("transformer.porting", run_name="__main__")
    assert capsys.readouterr().out == said(capsys, path)


def test_help_needs_no_tensorflow():
    code = (
        "import sys; sys.argv[1:] = ['--help']\n"
        "from transformer.porting import __main__ as porting\n"
        "try: porting.main()\n"
        "except SystemExit: print('tensorflow' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, universal_newlines=True
    )
    assert done.stdout.endswith("False False\n")
    assert "RUNS" in done.stdout
