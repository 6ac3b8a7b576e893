"""python -m transformer.porting: functions of TF1 programs, compared with ours."""

import concurrent.futures
import json
import os
import subprocess
import sys

import corpora
import pytest
import tutorials
import variants

from transformer.porting import __main__ as porting

# Measures functions of files: [[path, function], ...] → their verdicts, in one process.
# Results of our functions are kept: the variants of a function call them alike.
CHILD = """
import json, pickle, sys
from transformer.porting import graphs, measure, sources

evaluate, results = graphs.evaluate, {}

def evaluate_once(function, call, reference=None):
    if reference is None:
        return evaluate(function, call)
    key = id(function), pickle.dumps(call), str(reference.variables)
    if key not in results:
        try:
            results[key] = evaluate(function, call, reference)
        except Exception as error:
            results[key] = error
    if isinstance(results[key], Exception):
        raise results[key]
    return results[key]

graphs.evaluate = evaluate_once
for path, name in json.loads(sys.argv[1]):
    functions = sources.public_functions(sources.load_file(path)[0])
    source = sources.guess_source(functions)
    verdict = measure.measure_function(name, functions[name], source)
    print(json.dumps(["verdict", path, verdict.kind, verdict.text]), flush=True)
"""


def measure_functions(folder, functions):
    """Measure functions: name → (function, text of its file); name → (kind, text).

    Two processes measure them; functions that are called alike share a process.
    """
    jobs = {}
    for i, (function, text) in enumerate(functions.values()):
        path = os.path.join(str(folder), f"modules{i}.py")
        with open(path, "w") as file:
            file.write(text)
        jobs.setdefault(function == "multihead_attention", []).append([path, function])
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, json.dumps(job)],
            stdout=subprocess.PIPE,
            universal_newlines=True,
        )
        for job in jobs.values()
    ]
    lines = [line for child in children for line in child.communicate()[0].splitlines()]
    assert [child.returncode for child in children] == [0] * len(children)
    verdicts = [json.loads(line)[1:] for line in lines if line.startswith('["verdict"')]
    by_path = {path: (kind, text) for path, kind, text in verdicts}
    assert len(by_path) == len(functions)
    return {
        name: by_path[os.path.join(str(folder), f"modules{i}.py")]
        for i, name in enumerate(functions)
    }


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """write(name, text) → a file of the folder in which the command runs."""
    monkeypatch.chdir(tmp_path)

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode("utf-8"))
        return name

    return write


def run_port(capsys, *argv, status=0):
    """Run the command, which must end with a status; return what it prints."""
    exit_status = corpora.exit_status("port", *argv)
    captured = capsys.readouterr()
    assert exit_status == status, captured.err + captured.out
    return captured.out or captured.err


# Verdicts


UNCHANGED = [
    (source, function)
    for source, text in tutorials.MODULES.items()
    for function in [
        line[4 : line.index("(")]
        for line in text.splitlines()
        if line.startswith("def ")
    ]
    if function != "time_encoding"
]
CHANGED = [
    (function, name)
    for function in variants.OF_LEGACY
    for name in variants.OF_LEGACY[function]
]


CONTRIB = "tf.contrib.layers.l2_regularizer(l2_reg)"
KERAS = ["tf.keras.regularizers.l2(l2_reg)", "tf.keras.regularizers.l2(l=l2_reg)"]
CALLERS = ["multihead_attention", "feedforward"]  # of `normalize`
# What ours calls `training`.
RENAMED = [
    ('training=True, scope="scaled', 'is_training=True, scope="scaled'),
    ("rate=dropout_rate, training=training", "dropout_rate, training=is_training"),
]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    texts = {key: (key[1], tutorials.MODULES[key[0]]) for key in UNCHANGED}
    for function, name in CHANGED:
        pairs = variants.OF_LEGACY[function][name]
        text = tutorials.replace_once(tutorials.LEGACY, *pairs)
        texts[function, name] = (function, text)
        if name == "epsilon in the body":
            texts.update({("caller", caller): (caller, text) for caller in CALLERS})
    for keras in KERAS:
        text = tutorials.replace_once(tutorials.SASREC, (CONTRIB, keras))
        texts["keras", keras] = ("embedding", text)
    text = tutorials.replace_once(tutorials.KYUBYONG, *RENAMED)
    texts["renamed"] = ("scaled_dot_product_attention", text)
    return measure_functions(tmp_path_factory.mktemp("measured"), texts)


@pytest.mark.slow
@pytest.mark.parametrize("source, function", UNCHANGED)
def test_unchanged_functions_are_the_same(verdicts, source, function):
    kind, text = verdicts[source, function]
    assert (kind, text.split(" ")[0]) == ("same", source)


@pytest.mark.slow
@pytest.mark.parametrize("function, name", CHANGED)
def test_changed_functions_are_not_the_same(verdicts, function, name):
    kind, text = verdicts[function, name]
    assert kind in ("similar", "different"), text
    for prefix, message in variants.REPORTED.items():
        if name.startswith(prefix):
            assert message in text


@pytest.mark.slow
@pytest.mark.parametrize("function", CALLERS)
def test_a_function_that_calls_a_changed_one_is_not_the_same(verdicts, function):
    kind, text = verdicts["caller", function]
    assert kind == "similar" and "with small numbers" in text


@pytest.mark.slow
@pytest.mark.parametrize("keras", KERAS)
def test_the_regularizer_of_keras_is_twice_that_of_contrib(verdicts, keras):
    kind, text = verdicts["keras", keras]
    assert kind == "similar"
    assert text.startswith("regularization losses 5.0e-01 apart")


@pytest.mark.slow
def test_training_and_is_training_are_one_argument(verdicts):
    kind, text = verdicts["renamed"]
    assert kind == "similar" and text.startswith("ours does not take ")
    assert "outputs" not in text and "dropout" not in text


SOME = """
import tensorflow as tf

class Attention: pass

def normalize(inputs, epsilon=1e-8, scope="ln"):
\twith tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
            width = inputs.shape[-1:]
            mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
            beta = tf.get_variable("beta", width)
            gamma = tf.get_variable("gamma", width)
            return gamma * (inputs - mean) / (variance + epsilon) ** 0.5 + beta

def label_smoothing(inputs, epsilon=0.2):
    return (1 - epsilon) * inputs + epsilon / np.float32(inputs.shape[-1].value)

def feedforward(inputs, num_units, time_matrix):
    return inputs + time_matrix

def helper(x):
    return x

def embedding(inputs, vocab_size, num_units, zero_pad=True):
    if zero_pad:
        raise SystemExit("no table")
    table = tf.get_variable("lookup_table", [vocab_size, num_units])
    return tf.gather(table, inputs) * num_units ** 0.5

def noam_scheme(init_lr, global_step, warmup_steps=4000.):
    step = tf.cast(global_step + 1, tf.float32)
    return init_lr * tf.minimum(1., step / warmup_steps)

def layer_norm(vectors):
    return normalize(vectors)
"""


def test_each_function_has_a_verdict(folder, capsys):
    path = folder("modules.py", SOME)
    lines = run_port(capsys, "--run", path, status=2).splitlines()
    assert "  normalize: same numbers: kyubyong (largest difference " in lines[1]
    assert lines[2].endswith(
        "write: from transformer.compat.kyubyong import ln as normalize"
    )
    assert (
        "same except for: the default of epsilon: 0.2, ours 0.1 (compared " in lines[3]
    )
    assert lines[5] == (
        "  feedforward: not one of these: keep yours: no value is known for its "
        "required argument time_matrix"
    )
    assert lines[6] == (
        "  helper: not one of these: keep yours: we have no function of that name"
    )
    assert lines[7].startswith(
        "  embedding: could not be run: with zero_pad=True: SystemExit: no table; else "
    )
    assert lines[8].startswith("  noam_scheme: same except for: outputs ")
    assert lines[10] == (
        "  layer_norm: same except for: its vectors is our inputs "
        "(compared with kyubyong)"
    )


FORK = """
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow.contrib import rnn
from tensorflow.contrib.layers.python.layers import batch_norm

def layer_normalize(inputs, epsilon=1e-8, scope="norm"):
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        width = inputs.shape[-1:]
        mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
        beta = tf.get_variable("beta", width, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", width, initializer=tf.zeros_initializer())
        return gamma * (inputs - mean) / (variance + epsilon) ** 0.5 + beta

def feed_forward(inputs, num_units, scope="multihead_attention",
                 dropout_keep_prob=1.0, reuse=None):
    with tf.variable_scope(scope, reuse=reuse):
        outputs = tf.layers.conv1d(inputs, num_units[0], 1, activation=tf.nn.relu)
        outputs = tf.nn.dropout(outputs, keep_prob=dropout_keep_prob)
        outputs = tf.layers.conv1d(outputs, num_units[1], 1)
        return tf.nn.dropout(outputs, keep_prob=dropout_keep_prob) + inputs

def scaled_dot_product_attention(Q, K, V):
    return tf.matmul(tf.nn.softmax(tf.matmul(Q, K, transpose_b=True)), V)

def mask(inputs, queries=None, keys=None, type=None):
    real = tf.sign(tf.reduce_sum(tf.abs(keys), axis=-1))[:, None, :]
    low = tf.ones_like(inputs) * -1e9
    return tf.where(tf.equal(real + tf.zeros_like(inputs), 0), low, inputs)

def label_smoothing(inputs, epsilon=0.1):
    return tfp.distributions.Normal(inputs, epsilon).mean()

def embedding(inputs, vocab_size, num_units):
    return rnn.BasicLSTMCell(num_units)(inputs)
"""
BY_EMBEDDING = [
    ("attention(queries,", "attention(emb, queries,"),
    ("tf.abs(keys)", "tf.abs(emb)"),
    ("tf.abs(queries)", "tf.abs(emb)"),
]


@pytest.mark.slow
def test_changes_of_forks_are_named(folder, capsys):
    attention = tutorials.LEGACY.index("def multihead_attention")
    attention = tutorials.replace_once(tutorials.LEGACY[attention:], *BY_EMBEDDING)
    attention = attention[: attention.index("def feedforward")]
    attention = attention.replace("normalize(", "layer_normalize(")
    output = run_port(capsys, "--run", folder("modules.py", FORK + attention), status=2)
    verdicts = dict(line.strip().split(": ", 1) for line in output.splitlines()[1:])
    norm = verdicts["layer_normalize"]
    assert norm.startswith("same except for: the default of scope: 'norm', ours 'ln'; ")
    assert norm.endswith(
        "first values: norm/gamma is 0, ours 1 (compared with kyubyong)"
    )
    assert verdicts["feed_forward"].startswith(
        "same except for: ours does not take dropout_keep_prob; pass dropout_rate=1 - "
        "dropout_keep_prob instead; ours takes reuse in another place: pass by name; "
    )
    assert " at 0.2 with its required arguments only" in verdicts["feed_forward"]
    different = "not one of these: keep yours: "
    assert verdicts["scaled_dot_product_attention"] == (
        f"{different}our functions of that name require key_masks"
    )
    assert verdicts["mask"] == f"{different}nearest: kyubyong, outputs of another kind"
    assert verdicts["label_smoothing"].startswith(
        "could not be run: NotImplementedError: tensorflow_probability.distributions."
    )
    assert verdicts["embedding"].startswith("could not be run: ")
    assert verdicts["multihead_attention"].startswith(
        f"{different}nearest: kyubyong_leg"
    )


PACKAGE_FILES = {
    "net/__init__.py": "from .settings import EPSILON\n",
    "net/settings.py": """
import tensorflow as tf

tf.flags.DEFINE_float("epsilon", 1e-8, "of the normalization")
FLAGS = tf.flags.FLAGS
EPSILON = FLAGS.epsilon
""",
    "net/blocks/helpers.py": """
import tensorflow as tf
from ..settings import EPSILON

def look_up(table, ids):
    return tf.nn.embedding_lookup(table, ids)
""",
    "net/blocks/modules.py": """
import tensorflow as tf
import tensorflow.contrib as tc
import tensorflow.contrib.slim as slim
import tensorflow_probability.python.distributions as tfd
from tensorflow.contrib import layers
from tensorflow.contrib.framework import nest
from tensorflow.contrib.rnn import GRUCell
from tensorflow.contrib.rnn.python.ops import core_rnn_cell
from .. import EPSILON
from ..settings import FLAGS
from .helpers import *
from . import helpers

tf.disable_v2_behavior()


def embedding(inputs, vocab_size, num_units, zero_pad=True, scale=True, l2_reg=0.,
              scope="embedding", with_t=False, reuse=None):
    with tf.variable_scope(scope, reuse=reuse):
        table = tf.get_variable("lookup_table", [vocab_size, num_units],
                                regularizer=tf.keras.regularizers.l2(l2_reg / 2))
        if zero_pad:
            table = tf.concat((tf.zeros([1, num_units]), table[1:]), 0)
        outputs = helpers.look_up(table, inputs)
        outputs = outputs * num_units ** 0.5 if scale else outputs
    return (outputs, table) if with_t else outputs

"""
    + tutorials.KYUBYONG_NORM.replace("1e-8", "EPSILON"),
}


@pytest.mark.slow
def test_a_file_of_a_package_that_imports_what_is_missing(folder, capsys):
    os.makedirs("net/blocks")
    for name, text in PACKAGE_FILES.items():
        folder(name, text)
    output = run_port(capsys, "--run", "net/blocks/modules.py")
    assert output.count("same numbers: ") == 2
    assert "import ln\n" in output and "import embedding\n" in output


TRAINS = """
import tensorflow as tf
"""
AFTER_IT = """
x = tf.placeholder(tf.float32, [None, 8])
step = tf.train.AdamOptimizer().minimize(tf.reduce_sum(ln(x)))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    lines = open("data/train.txt").readlines()

def label_smoothing(inputs, epsilon=0.1):
    return inputs
"""


@pytest.mark.slow
def test_what_a_file_defines_before_it_fails_is_measured(folder, capsys):
    path = folder("train.py", TRAINS + tutorials.KYUBYONG_NORM + AFTER_IT)
    lines = run_port(capsys, "--run", path, status=2).splitlines()
    assert lines[1].startswith("  could not be run: FileNotFoundError: ")
    assert lines[1].endswith("; what it defines before that is measured")
    assert lines[2].startswith("  ln: same numbers: kyubyong ") and len(lines) == 4
    path = folder(
        "ends.py", TRAINS + tutorials.KYUBYONG_NORM + "tf.app.run(lambda _: 0)\n"
    )
    assert run_port(capsys, "--run", path).count("same numbers: ") == 1


KINDS = """
import tensorflow as tf

def embedding(x, V, D, scope="embedding"):
    with tf.variable_scope(scope):
        return tf.gather(tf.get_variable("lookup_table", [V, D]), x)

def feedforward(x, hidden):
    return tf.layers.dense(x, int(hidden))

def normalize(*inputs, **options):
    return inputs[0]

def multihead_attention(queries, keys, seq_mask, heads):
    return queries

def label_smoothing(*, inputs, epsilon=0.1):
    return (1 - epsilon) * inputs + epsilon / inputs.get_shape().as_list()[-1]

def ff(inputs, num_units, training=True, scope="positionwise_feedforward"):
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        outputs = tf.layers.dense(inputs, num_units[0], activation=tf.nn.relu)
        return ln(tf.layers.dense(outputs, num_units[1]) + inputs)
"""


@pytest.mark.slow
def test_arguments_are_matched_only_if_they_are_of_one_kind(folder, capsys):
    path = folder("modules.py", KINDS + tutorials.KYUBYONG_NORM)
    output = run_port(capsys, "--run", path, status=1)
    verdicts = dict(
        line.strip().split(": ", 1) for line in output.splitlines() if ": " in line
    )
    assert "outputs" not in verdicts["embedding"]
    different = "not one of these: keep yours: "
    assert verdicts["feedforward"].startswith(
        f"{different}it does not take x like our "
    )
    assert verdicts["normalize"].startswith(
        f"{different}our functions of that name req"
    )
    assert verdicts["multihead_attention"].startswith(
        f"{different}no value is known for its required argument seq_mask"
    )
    assert verdicts["label_smoothing"].startswith("same numbers: ")
    assert "ours takes scope in another place: pass by name" in verdicts["ff"]
    # The closest, not the first that has equal outputs: its variables, too.
    assert verdicts["ln"].startswith("same numbers: kyubyong ")


CANNOT = {
    'print "Python 2"\n': "SyntaxError: Missing parentheses in call to 'print'",
    "import no_such_module\n": "ModuleNotFoundError: No module named 'no_such_mod",
    "import os\nos._exit(3)\n": "its process ended with status 3",
    "import time\ntime.sleep(99)\n": "it reached the time limit of 3 s (--seconds)",
}


@pytest.mark.slow
def test_files_that_cannot_be_run_and_one_without_functions(tmp_path):
    paths = [str(tmp_path / f"modules{i}.py") for i in range(5)]
    for path, text in zip(paths, [*CANNOT, "from math import sqrt\nx = sqrt(1)\n"]):
        with open(path, "w") as file:
            file.write(text)
    with concurrent.futures.ThreadPoolExecutor() as pool:  # processes side by side
        limits = [99, 99, 99, 3, 99]
        results = list(pool.map(porting.measure_file, paths, limits, [False] * 5))
    for verdicts, reason in zip(results, CANNOT.values()):
        assert [verdict["kind"] for verdict in verdicts] == ["failed"]
        assert porting.format_report(verdicts)[0].startswith(
            f"could not be run: {reason}"
        )
    assert porting.format_report(results[4])[0].startswith("no functions found")


# The command


def test_it_executes_only_existing_files_and_only_when_confirmed(folder, capsys):
    path = folder("modules.py", "raise SystemExit(7)\n")
    assert "confirm with --run" in run_port(capsys, path, status=2)
    message = run_port(capsys, "--run", path, "none.py", status=2)
    assert "none.py does not exist: expected a Python file" in message
    message = run_port(capsys, "--run", ".", status=2)
    assert ". is a folder: expected a Python file" in message


def test_a_file_with_the_name_of_the_package_is_to_be_renamed(folder):
    path = folder("net/modules.py", "")
    assert porting.find_shadow(path) == ""
    shadow = folder("net/transformer.py", "")
    assert porting.find_shadow(path) == os.path.abspath(shadow)
    lines = porting.format_report([], shadow)
    assert lines[-1].startswith(f"rename {shadow}, ")


def test_help_needs_no_tensorflow():
    code = (
        "import sys\n"
        "from transformer.commands import program\n"
        "try: program.main(['port', '--help'])\n"
        "except SystemExit: print('tensorflow' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, universal_newlines=True
    )
    assert done.stdout.endswith("False False\n")
    assert "EXECUTES" in done.stdout
