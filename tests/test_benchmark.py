"""tools/bench: a short run, and the cost of a token that its GFLOP/s stand on."""

import json

import benchmark
import numpy as np
import plans
import pytest
import report
import tensorflow.compat.v1 as tf
import work

import hparams
from transformer.data import Corpus
from transformer.model import Transformer

TINY = {"num_blocks": 2, "d_model": 16, "d_ff": 64, "num_heads": 2, "batch_tokens": 200}


def test_the_cost_of_a_token_is_that_of_the_products_in_the_graph(start, monkeypatch):
    """Three times the forward pass: counted from the shapes of all products."""
    source, target = [5, 6, 7, 8, 9, 3], [2, 10, 11, 12]
    monkeypatch.setattr(
        Corpus,
        "_load",
        lambda self, side: (
            np.zeros(9),
            np.array([0, {"source": 5, "target": 3}[side]]),
        ),
    )
    hp = hparams.HParams(
        source_vocab_size=25, target_vocab_size=25, dialect="tensor2tensor", **TINY
    )
    model = Transformer(hp)
    model.decode(tf.constant([target]), model.encode(tf.constant([source])))
    products = [
        op
        for op in tf.get_default_graph().get_operations()
        if op.type.startswith(("MatMul", "BatchMatMul"))
    ]
    session, _ = start()
    flop = 0
    for op in products:
        left, out = session.run([tf.shape(op.inputs[0]), tf.shape(op.outputs[0])])
        transposed = op.get_attr("transpose_a" if op.type == "MatMul" else "adj_x")
        flop += 2 * np.prod(out) * left[-2 if transposed else -1]
    counted = 3 * flop / len(target) / 1e9
    assert work.training_gflop("", TINY, 25) == pytest.approx(counted)


@pytest.mark.slow
def test_a_short_run(monkeypatch, trained, digits, tmp_path, capsys):
    """Of a training and of decoding, with a system that is not there."""
    monkeypatch.setitem(work.SIZES, "tiny", TINY)
    monkeypatch.setattr(benchmark, "use_cores", lambda count: None)
    monkeypatch.setattr(benchmark.signal, "signal", lambda *_: None)
    missing = plans.contestants("missing", "no_such_module", "float32")
    plan = plans.QUICK._replace(
        sizes=["tiny"],
        trainers=plans.OURS[:1] + missing,
        decoders=plans.OURS[:1],
        steps={"tiny": 2},
        rounds=2,
        every_single=10,
        seconds=0.01,
    )
    monkeypatch.setattr(plans, "QUICK", plan)
    path = str(tmp_path / "rows.json")
    places = ["--data", digits, "--logdir", trained, "--json", path]
    benchmark.main(["--quick", *places, "--only", "train/tiny", "greedy"])
    printed = capsys.readouterr()
    assert "missing float32: not measured" in printed.err
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)
    assert report.table(rows) + "\n" + report.summary(rows) == printed.out
    for row in rows:
        assert row["spread"][0] <= row["value"] <= row["spread"][1]
    found = {row["work"]: row["value"] for row in rows if row["system"] == "ours"}
    for name in ("train/tiny", "gflops/train/tiny", "memory/train/tiny", "greedy/64"):
        assert found[name] > 0
    assert 0 < found["greedy/1"] <= found["p95/greedy/1"]
