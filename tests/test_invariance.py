"""A translation depends on its line alone, not on batches, order or threads."""

import json
import random
import subprocess
import sys

import corpora
import pytest

# TensorFlow has one number of threads for all sessions of a process.
IN_A_PROCESS = """
import dataclasses, json, sys
import tensorflow.compat.v1 as tf
from transformer import hparams
from transformer.translator import Translator

tf.disable_eager_execution()
make_config, given = tf.ConfigProto, json.load(sys.stdin)
tf.ConfigProto = lambda **_: make_config(
    intra_op_parallelism_threads=given["threads"],
    inter_op_parallelism_threads=given["threads"])
hp = dataclasses.replace(
    hparams.load(given["logdir"]), decode_batch_size=given["batch_size"])
with Translator.for_settings(hp, given["logdir"]) as translator:
    translator.find_and_restore()
    found = translator.translate(given["lines"])
json.dump([(best.text, best.score) for best, in found], sys.stdout)
"""


def translate(**arguments):
    """The text and the score of each line, translated in a process of its own."""
    finished = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS],
        input=json.dumps(arguments),
        stdout=subprocess.PIPE,
        check=True,
        universal_newlines=True,
        cwd=corpora.ROOT,
    )
    return json.loads(finished.stdout)


@pytest.mark.slow
def test_batches_order_and_threads_change_no_translation(trained):
    """Two texts may differ where their scores are as close as those of one text."""
    lines, _ = corpora.reversed_symbols({"": 1000}, shortest=1, longest=20, seed=7)[""]
    order = random.Random(7).sample(range(len(lines)), len(lines))
    shuffled = [lines[place] for place in order]
    expected = translate(logdir=trained, lines=lines, threads=1, batch_size=64)
    actual = translate(logdir=trained, lines=shuffled, threads=4, batch_size=7)
    assert len({text for text, _ in expected}) > 500
    ties = 0
    for place, (text, score) in zip(order, actual):
        assert score == pytest.approx(expected[place][1], rel=0, abs=1e-4), place
        ties += text != expected[place][0]
    assert ties <= 2
