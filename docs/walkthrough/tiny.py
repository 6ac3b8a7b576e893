"""What the snippets of the walkthrough share: a sentence, fixed weights, a tiny system.

A snippet begins with `tiny.start()`, an empty graph. `tiny.session()` gives every
variable a value that depends on its name alone, so that the numbers in the book do not
change when operations are added to a block. `tiny.trained()` trains a small translator
in `logs/walkthrough`, once; the environment variable WALKTHROUGH names another folder.
"""

import os
import subprocess
import sys
import zlib

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.text.vocabulary import load_vocabularies

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.abspath(
    os.environ.get("WALKTHROUGH") or os.path.join(ROOT, "logs", "walkthrough")
)
SAMPLE = os.path.join(ROOT, "data", "sample")

SENTENCE = "Die Frau, die wir besuchen, ist müde."
REFERENCE = "The woman whom we visit is tired."
VOCAB_SIZE = 500

# Commands have a process of their own, which needs memory of a GPU too.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")

# A minute of training: one block, 1,000 updates.
SETTINGS = (
    "--num_blocks 1 --d_model 96 --d_ff 192 --num_heads 4 --dialect tensor2tensor "
    "--dropout_rate 0 --batch_tokens 1024 --schedule linear --learning_rate 0.006 "
    "--warmup_steps 100 --max_steps 1000 --log_every 100 --eval_every 1000 "
    "--save_every 1000 --max_extra_length 10"
)
SHADES = " ░▒▓█"


def start():
    """Begin with an empty graph, without eager execution."""
    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.reset_default_graph()


def session():
    """Open a session in which each variable has a value made from its name."""
    opened = tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=1))
    opened.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    for variable in tf.trainable_variables():
        variable.load(fixed(variable.op.name, variable.shape.as_list()), opened)
    return opened


def run(fetches, feed=None):
    """Return the values of tensors, with the variables of `session`."""
    with session() as opened:
        return opened.run(fetches, feed)


def fixed(name, shape):
    """Return random numbers that depend on a name alone, sized as at the start.

    A table gets a deviation of D ** -0.5, a kernel that of Glorot. Biases, beta and
    gamma differ a little from 0 and 1, so that they can be seen.
    """
    draw = np.random.RandomState(zlib.crc32(name.encode()))
    values = draw.standard_normal(shape)
    if name.endswith("gamma"):
        return 1 + 0.1 * values
    if len(shape) < 2:
        return 0.1 * values
    if name.endswith("lookup_table"):
        return values * shape[-1] ** -0.5
    return values * (2 / sum(shape[-2:])) ** 0.5


def data():
    """Return a data folder with ids of `data/sample`, preparing it the first time."""
    folder = os.path.join(FOLDER, "data")
    if not os.path.exists(os.path.join(folder, "corpus.json")):
        command = ["--out", folder, "--vocab_size", str(VOCAB_SIZE)]
        for split in ("train", "dev", "test"):
            paths = (os.path.join(SAMPLE, f"{split}.{end}") for end in ("de", "en"))
            command += [f"--{split}", *paths]
        _call("prepare", command)
    return folder


def vocabulary():
    """Return the vocabulary of both languages."""
    return load_vocabularies(data()).source


def trained():
    """Return the log directory of a small translator, training it the first time."""
    logdir = os.path.join(FOLDER, "model")
    if not os.path.exists(os.path.join(logdir, "dev_scores.jsonl")):
        log = _call("train", ["--logdir", logdir, "--data", data(), *SETTINGS.split()])
        with open(os.path.join(logdir, "train.log"), "w", encoding="utf-8") as file:
            file.write(log)
    return logdir


def _call(command, arguments):
    """Run a command in a process of its own; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "transformer", command, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    if done.returncode:
        raise RuntimeError(done.stdout)
    return done.stdout


def picture(matrix, rows=(), columns=()):
    """Print numbers from 0 to 1 as shades, a row of the matrix a line."""
    if columns:
        print(" " * 10 + " " + " ".join(f"{name:>4.4}" for name in columns))
    for i, row in enumerate(np.asarray(matrix, float)):
        shades = [_shade(x) * 2 for x in row]
        name = rows[i] if i < len(rows) else ""
        print(f"{name:>10.10} " + " ".join(f"{shade:>4}" for shade in shades))


def pictures(matrices, rows=()):
    """Print matrices of numbers from 0 to 1 side by side, a character a number."""
    matrices = {name: np.asarray(matrix, float) for name, matrix in matrices.items()}
    widths = [max(len(name), m.shape[1]) for name, m in matrices.items()]
    names = "  ".join(f"{name:{w}}" for name, w in zip(matrices, widths))
    print(f"{'':10} {names}")
    for i in range(max(len(matrix) for matrix in matrices.values())):
        cells = []
        for matrix, width in zip(matrices.values(), widths):
            row = matrix[i] if i < len(matrix) else ()
            cells.append("".join(map(_shade, row)).ljust(width))
        name = rows[i] if i < len(rows) else ""
        print(f"{name:>10.10} {'  '.join(cells)}")


def bar(name, x):
    """Print a number from 0 to 1 as a bar."""
    print(f"{name:8} {x:5.2f} {bar_of(x)}")


def bar_of(x):
    """Return a bar for a number from 0 to 1."""
    return SHADES[-1] * int(round(40 * x))


def _shade(x):
    """Return the shade of a number from 0 to 1."""
    return SHADES[int(round(4 * min(max(x, 0), 1)))]
