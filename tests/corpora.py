"""Small corpora, short training runs, and helpers for the tests of commands."""

import collections
import contextlib
import glob
import io
import os
import pathlib
import random
import select
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.commands import program
from transformer.logdir import manifests
from transformer.logdir.history import read_dev_scores

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VOCAB_SIZE = "25"  # ten digits, ten at the beginning of a word, the rest

# A model that trains in a second, and learns next to nothing.
TINY = [
    "--num_blocks=1",
    "--d_model=16",
    "--d_ff=32",
    "--num_heads=2",
    "--batch_tokens=200",
    "--search=greedy",
    "--max_extra_length=3",
    "--log_every=1",
    "--eval_every=4",
    "--save_every=4",
]

# What makes going on hard: dropout, several batches an update, and clipping.
HARD = ["--dropout_rate=0.2", "--accumulate=2", "--clip_norm=0.5", "--max_steps=12"]

# A model that learns something in a few seconds, but not everything.
SMALL = [
    "--num_blocks=1",
    "--d_model=32",
    "--d_ff=64",
    "--num_heads=4",
    "--batch_tokens=512",
    "--search=beam",
    "--max_extra_length=5",
    "--schedule=linear",
    "--learning_rate=0.006",
    "--warmup_steps=60",
    "--max_steps=240",
    "--log_every=40",
    "--eval_every=80",
    "--save_every=40",
    "--keep_checkpoints=3",
]


def reversed_symbols(sizes, symbols="0123456789", shortest=4, longest=9, seed=1):
    """{split: (source, target) lines}: symbols in a row; no line occurs twice."""
    rng, used, splits = random.Random(seed), set(), {}
    for split, size in sizes.items():
        splits[split] = [], []
        while len(splits[split][0]) < size:
            line = tuple(
                rng.choice(symbols) for _ in range(rng.randint(shortest, longest))
            )
            if line not in used:
                used.add(line)
                splits[split][0].append(" ".join(line))
                splits[split][1].append(" ".join(reversed(line)))
    return splits


def write_lines(path, lines):
    """Write a text file of lines; return its path."""
    with open(str(path), "wb") as file:
        file.writelines(line.encode("utf-8") + b"\n" for line in lines)
    return str(path)


def read_lines(path):
    """The lines of a text file, cut at "\\n" and nowhere else."""
    with open(str(path), "rb") as file:
        return file.read().decode("utf-8").split("\n")[:-1]


def write_text(folder, splits):
    """Write {split}.de and {split}.en; return the folder."""
    os.makedirs(str(folder), exist_ok=True)
    for split, sides in splits.items():
        for language, lines in zip(("de", "en"), sides):
            write_lines(os.path.join(str(folder), f"{split}.{language}"), lines)
    return str(folder)


def prepare_corpus(folder, splits):
    """Write and prepare a corpus; return the data folder."""
    run_command(
        "prepare", "--out", write_text(folder, splits), "--vocab-size", VOCAB_SIZE
    )
    return str(folder)


def run_train(data, logdir, *flags):
    """Run train.py in this process, with the flags of TINY before the others."""
    run_command("train", "--data", data, "--logdir", logdir, *TINY, *flags)


def read_tree(folder):
    """Read every file below a folder: path → bytes; None if there is no folder."""
    contents = {}
    if not os.path.exists(str(folder)):
        return None
    for parent, _, files in os.walk(str(folder)):
        for name in files:
            with open(os.path.join(parent, name), "rb") as file:
                path = os.path.relpath(os.path.join(parent, name), str(folder))
                contents[path] = file.read()
    return contents


def copy_folder(folder, to):
    """Copy a folder; return the path of the copy."""
    return shutil.copytree(str(folder), str(to))


def forget_vocabulary(logdir):
    """Make the checkpoints like those of versions that did not name the vocabulary."""
    for manifest in pathlib.Path(str(logdir)).glob("*.sha256"):
        lines = manifest.read_text().splitlines(keepends=True)
        manifest.write_text("".join(line for line in lines if "ckpt" in line))


def read_variables(checkpoint):
    """Read the variables of a checkpoint: name → array."""
    reader = tf.train.load_checkpoint(str(checkpoint))
    return {
        name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
    }


def read_scalars(logdir):
    """Read the scalars of TensorBoard: {tag: {step: value}}."""
    scalars = collections.defaultdict(dict)
    for path in sorted(glob.glob(os.path.join(str(logdir), "events.out.tfevents.*"))):
        for event in tf.train.summary_iterator(path):
            for value in event.summary.value:
                scalars[value.tag][event.step] = value.simple_value
    return scalars


def wait_until(condition):
    """Wait, for a minute at most, until a condition holds."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def run_python(*argv, **options):
    """Run Python in the checkout; return the finished process, its output as text."""
    options = {
        "cwd": ROOT,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "universal_newlines": True,
        **options,
    }
    return subprocess.run([sys.executable, *map(str, argv)], **options)


def call_in_fork(function, *args):
    """Call a function in a fork of this process; return the text of its exception.

    A fork that waits for threads that it lacks is killed after 20 s: then it is None.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            function(*args)
        except BaseException as error:
            os.write(writer, str(error).encode("utf-8"))
        finally:
            os._exit(0)
    os.close(writer)
    is_ready, *_ = select.select([reader], [], [], 20)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with open(reader, encoding="utf-8") as file:
        return file.read() if is_ready else None


def is_running(pid):
    """Return whether a process exists and has not ended, on Linux."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def run_command(name, *argv):
    """Run a command of the program in this process."""
    program.main([name, *map(str, argv)])


def exit_status(name, *argv):
    """Run a command in this process; return its exit status."""
    try:
        run_command(name, *argv)
    except SystemExit as stopped:
        return stopped.code
    return 0


def command_output(name, *argv):
    """Run a command in this process; return the lines that it prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        run_command(name, *argv)
    return output.getvalue().splitlines()


def refusal(capsys, name, *argv):
    """Run a command that must exit with status 2; return its one-line message.

    argparse may print a usage line before it.
    """
    assert exit_status(name, *argv) == 2
    stderr = capsys.readouterr().err
    lines = [line for line in stderr.splitlines() if not line.startswith("usage:")]
    assert len(lines) == 1, stderr
    return lines[0]


def refuse_training(capsys, data, logdir, *flags):
    """Run train.py with flags that it refuses; return its message.

    It must not write anything into the log directory.
    """
    before = read_tree(logdir)
    folders = ["--data", data, "--logdir", logdir]
    message = refusal(capsys, "train", *folders, *TINY, "--max_steps", "13", *flags)
    assert read_tree(logdir) == before
    return message


def assert_same_training(logdir, expected):
    """Assert equal losses, dev scores and variables of two runs, to the last bit."""
    scalars, expected_scalars = read_scalars(logdir), read_scalars(expected)
    for tag in ("loss", "learning_rate", "gradient_norm", "dev/loss", "dev/bleu"):
        assert scalars[tag] == expected_scalars[tag], tag
    assert read_dev_scores(str(logdir)) == read_dev_scores(str(expected))
    for which in ("newest", "best"):
        assert_same_variables(
            *(
                manifests.find_checkpoint(str(folder), which)
                for folder in (logdir, expected)
            )
        )


def assert_same_variables(*paths):
    """Assert equal variables of two checkpoints, to the last bit."""
    values, expected = (read_variables(path) for path in paths)
    assert sorted(values) == sorted(expected)
    for name in expected:
        np.testing.assert_array_equal(values[name], expected[name], err_msg=name)
