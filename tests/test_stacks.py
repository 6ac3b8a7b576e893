"""Stacks of blocks, and every example that builds blocks: nothing leaks, or it is said.

A published system leaks where padding that is appended changes its real positions.
"""

import ast
import functools
import glob
import inspect
import os
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from conftest import initialize, random_values
from documents import ROOT, between, blocks, documents, read
from tensorflow.python.eager import context

from transformer import modules
from transformer.checks import (
    CheckFailed,
    check_batch_invariance,
    check_causality,
    check_padding,
)
from transformer.dialects import DIALECTS
from transformer.hparams import HParams
from transformer.model import Transformer

VOCAB_SIZE = 20
WIDTH = 16
DEPTHS = (1, 2, 6)


# --- Stacks in each dialect -----------------------------------------------------------


def stack(ids, dialect, depth, causality=False):
    """Blocks that find the padding themselves: int [N, T] → float [N, T, D]."""
    x = modules.embedding(ids, VOCAB_SIZE, WIDTH)
    x += modules.positional_encoding(ids, WIDTH, dialect=dialect)
    for i in range(depth):
        with tf.variable_scope(f"block_{i}"):
            x = modules.multihead_attention(
                x, x, num_heads=2, causality=causality, dialect=dialect
            )
            x = modules.feedforward(x, (32, WIDTH), dialect=dialect)
    return x


def encoder(ids, dialect, depth):
    """The encoder of the system of a source."""
    hp = HParams(
        dialect=dialect,
        num_blocks=depth,
        d_model=WIDTH,
        d_ff=32,
        num_heads=2,
        source_vocab_size=VOCAB_SIZE,
        target_vocab_size=VOCAB_SIZE,
    )
    return Transformer(hp).encode(ids).states


@functools.lru_cache(maxsize=None)
def opened(build, *arguments):
    """The function of ids that a graph of its own computes, at random variables."""
    with tf.Graph().as_default() as graph:
        ids = tf.placeholder(tf.int32, [None, None])
        output = build(ids, *arguments)
        session = tf.Session(graph=graph)
        initialize(session, random_values(tf.trainable_variables(), seed=0))
    return lambda ids_fed: session.run(output, {ids: ids_fed})


def moved(build, dialect, depth):
    """How far real positions move when as much padding is appended."""
    fn = opened(build, dialect, depth)
    ids = np.random.RandomState(0).randint(1, VOCAB_SIZE, [8, 5])
    padded = fn(np.pad(ids, [[0, 0], [0, 5]], "constant"))
    return np.abs(padded[:, :5] - fn(ids)).max()


def table_of_leaks():
    """How far padding moves real positions, as Markdown; below 1e-5 is rounding."""
    lines = [["", *DIALECTS], ["---"] * (len(DIALECTS) + 1)]
    for build, name in ((stack, "blocks alone"), (encoder, "encoder of the system")):
        for depth in DEPTHS:
            examples_by_place = [moved(build, dialect, depth) for dialect in DIALECTS]
            cells = [
                "0" if leak < 1e-5 else f"{leak:.2f}" for leak in examples_by_place
            ]
            lines.append([f"{name}, {depth}", *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


@pytest.mark.slow
def test_the_table_of_what_leaks():
    assert between("docs/dialects.md", "table of leaks") == table_of_leaks()


@pytest.mark.parametrize(
    "dialect",
    [
        "paper",
        *(pytest.param(x, marks=pytest.mark.slow) for x in DIALECTS if x != "paper"),
    ],
)
def test_a_stack_leaks_where_its_source_does(dialect):
    """Where it leaks is in the table; the paper's leaks nowhere."""
    depth = 2
    for build in (stack, encoder):
        fn = opened(build, dialect, depth)
        check_batch_invariance(fn, vocab_size=VOCAB_SIZE)
        if dialect == "paper" or moved(build, dialect, depth) < 1e-5:
            check_padding(fn, vocab_size=VOCAB_SIZE)
        else:
            with pytest.raises(CheckFailed, match="columns of padding were removed"):
                check_padding(fn, vocab_size=VOCAB_SIZE)
    check_causality(
        opened(stack, dialect, depth, True),
        vocab_size=VOCAB_SIZE,
        leading_padding=dialect == "paper",
    )


# --- Examples in README, docs and docstrings ------------------------------------------


def code_of(docstring):
    """The indented code of a docstring, from its first import on."""
    code = re.search(r"^ {4}(?:import|from) .*(?:\n(?: {4}.*)?)*", docstring, re.M)
    return inspect.cleandoc("\n" + code.group()) if code else ""


def examples():
    """{where: code} of each example that makes `x` of blocks."""
    examples_by_place = {}
    for document in documents():
        # The book has experiments with what leaks; its code is checked by its output.
        if document == "README.zh.md" or document.startswith("docs/walkthrough/"):
            continue
        for language, text in blocks(read(document)):
            if language == "python":
                examples_by_place[document, text] = text
    for path in glob.glob(
        os.path.join(ROOT, "transformer", "**", "*.py"), recursive=True
    ):
        name = os.path.relpath(path, ROOT).replace(os.sep, "/")
        for node in ast.walk(ast.parse(read(name))):
            if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)):
                code = code_of(ast.get_docstring(node) or "")
                examples_by_place[name, code] = code
    return {
        where: code
        for (where, _), code in examples_by_place.items()
        if re.search(r"transformer\.(modules|functional|keras_layers) import", code)
        and re.search(r"^\s*x = ", code, re.M)
    }


EXAMPLES = examples()


def run_example(monkeypatch, where, causality=False):
    """Its names, after it ran without dropout."""

    def patch(block, **defaults):
        return lambda *arguments, **options: block(
            *arguments, **{**options, **defaults}
        )

    attend = patch(modules.multihead_attention, dropout_rate=0, causality=causality)
    monkeypatch.setattr(modules, "multihead_attention", attend)
    monkeypatch.setattr(
        modules, "feedforward", patch(modules.feedforward, dropout_rate=0)
    )
    monkeypatch.setattr(tf, "reset_default_graph", lambda: None)  # it is a new one
    names = {}
    exec(compile(EXAMPLES[where], where, "exec"), names)
    return names


def test_each_example_is_checked():
    assert set(EXAMPLES) == {
        "README.md",
        "transformer/modules.py",
        "transformer/functional.py",
        "transformer/keras_layers.py",
    }


@pytest.mark.parametrize("causality", [False, True], ids=["all_keys", "causal"])
@pytest.mark.parametrize("where", ["README.md", "transformer/modules.py"])
def test_an_example_of_blocks(monkeypatch, start, where, causality):
    names = run_example(monkeypatch, where, causality)
    session, _ = start()

    def fn(ids):
        return session.run(names["x"], {names["ids"]: ids})

    check_padding(fn, vocab_size=90)
    check_batch_invariance(fn, vocab_size=90)
    if causality:
        check_causality(fn, vocab_size=90)
    else:
        with pytest.raises(CheckFailed, match="check_causality"):
            check_causality(fn, vocab_size=90)


def test_the_example_of_lengths(monkeypatch, graph, start):
    names = run_example(monkeypatch, "transformer/functional.py")
    placeholders = [op for op in graph.get_operations() if op.type == "Placeholder"]
    x, lengths = (op.outputs[0] for op in placeholders)
    session, _ = start()

    def fn(vectors, real=None):
        real = [vectors.shape[1]] * len(vectors) if real is None else real
        return session.run(names["x"], {x: vectors, lengths: real})

    check_padding(fn, num_units=64, with_lengths=True)
    check_batch_invariance(fn, num_units=64)


@pytest.mark.skipif(tf.__version__.startswith("1."), reason="needs TensorFlow 2")
def test_the_example_of_keras(monkeypatch):
    with context.eager_mode():
        names = run_example(monkeypatch, "transformer/keras_layers.py")
        keras = names["keras"]
        pooled = keras.Model(names["ids"], names["x"])
        attended = keras.Model(names["ids"], pooled.layers[-2].output)
        check_padding(lambda ids: attended(ids).numpy(), vocab_size=90)
        for model in (pooled, attended):
            check_batch_invariance(
                lambda ids, model=model: model(ids).numpy(), vocab_size=90
            )
