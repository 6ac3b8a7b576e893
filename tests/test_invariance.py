"""A translation depends on its line alone: 1,000 lines, translated in many ways."""

import json
import os
import random
import subprocess
import sys

import corpora
import pytest

from transformer.text.lines import Oddities

pytestmark = pytest.mark.slow

CLOSE = 1e-4
# What changes: lines a batch, the threads of TensorFlow, which of the lines, in which
# order. TensorFlow has one number of threads for all sessions of a process.
WAYS = {1: [(64, "all"), (7, "shuffled")], 4: [(1, "all"), (64, "half")]}

IN_A_PROCESS = """
import dataclasses, json, sys
import tensorflow.compat.v1 as tf
import hparams
from transformer.translator import Translator

tf.disable_eager_execution()
make_config, given = tf.ConfigProto, json.load(sys.stdin)
tf.ConfigProto = lambda **_: make_config(
    intra_op_parallelism_threads=given["threads"],
    inter_op_parallelism_threads=given["threads"])
found = []
for search in given["searches"]:
    for batch_size, lines in given["ways"]:
        hp = dataclasses.replace(
            hparams.load(given["logdir"]), decode_batch_size=batch_size,
            max_source_length=30, **search)
        with Translator(hp, given["logdir"]) as translator:
            translator.restore()
            found.append([(best.text, best.score)
                          for best, in translator.translate(lines)])
json.dump(found, sys.stdout)
"""
SEARCHES = [{"search": "greedy"}, {"search": "beam", "beam_size": 5}]


ODDITIES = [
    b"\t",
    b"\r",
    b"\0",
    b"\x1b[31m",
    "\u2028\u200b\ufeff".encode(),
    b"\xff\xfe",
]
ODDITIES += [
    "🇩🇪 👩\u200d👧 Привет 你好 שלום 𒀀".encode(),
    b"<s> </s> <pad>",
    b"",
    b"x " * 500,
]


def odd_line(draw):
    """Bytes of a line: digits, and two oddities among them."""
    words = [str(draw.randrange(10)).encode() for _ in range(draw.randrange(8))]
    for odd in draw.sample(ODDITIES, 2):
        words.insert(draw.randint(0, len(words)), odd)
    return b" ".join(words) + b"\n"


@pytest.fixture(scope="module")
def lines():
    """1,000 lines: digits, which the model knows, and oddities."""
    digits, _ = corpora.reversed_symbols({"": 500}, shortest=1, longest=20, seed=7)[""]
    draw = random.Random(7)
    odd = Oddities().read(odd_line(draw) for _ in range(500))
    return [line for pair in zip(digits, odd) for line in pair]


def places_of(which, count):
    """The numbers of the lines to translate, in order."""
    shuffled = random.Random(count).sample(range(count), count)
    return {
        "all": list(range(count)),
        "shuffled": shuffled,
        "half": shuffled[: count // 2],
    }[which]


def translated(logdir, lines, threads):
    """{(search, threads, batch size, which lines): {line's number: (text, score)}}."""
    places = [places_of(which, len(lines)) for _, which in WAYS[threads]]
    finished = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS],
        input=json.dumps(
            {
                "logdir": logdir,
                "threads": threads,
                "searches": SEARCHES,
                "ways": [
                    (size, [lines[i] for i in chosen])
                    for (size, _), chosen in zip(WAYS[threads], places)
                ],
            }
        ),
        stdout=subprocess.PIPE,
        check=True,
        universal_newlines=True,
        cwd=corpora.ROOT,
        env=dict(os.environ),
    )
    names = [
        (search["search"], threads, *way)
        for search in SEARCHES
        for way in WAYS[threads]
    ]
    return {
        name: dict(zip(chosen, rows))
        for name, chosen, rows in zip(
            names, places * len(SEARCHES), json.loads(finished.stdout)
        )
    }


@pytest.fixture(scope="module")
def found(trained, lines):
    """What every one of WAYS makes of the lines, with both searches."""
    return {
        name: rows
        for threads in WAYS
        for name, rows in translated(trained, lines, threads).items()
    }


@pytest.mark.parametrize("search", [search["search"] for search in SEARCHES])
def test_batches_order_and_threads_change_no_translation(found, search):
    """The scores agree to 1e-4; two texts may differ where they are as close as that:
    no more than 2 of 1,000."""
    wanted = found[search, 1, 64, "all"]
    assert len(wanted) == 1000
    assert len({text for text, _ in wanted.values()}) > 500
    others = [rows for name, rows in found.items() if name[0] == search]
    assert sorted(map(len, others)) == [500, 1000, 1000, 1000]
    for rows in others:
        ties = 0
        for place, (text, score) in rows.items():
            assert score == pytest.approx(wanted[place][1], rel=0, abs=CLOSE), place
            ties += text != wanted[place][0]
        assert ties <= 2
