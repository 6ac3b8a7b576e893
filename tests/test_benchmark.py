"""tools/bench: what is counted, who takes turns, what stands in the table."""

import json
import os
import shutil

import benchmark
import corpora
import folders
import numpy as np
import plans
import pytest
import report
import scaling
import tensorflow.compat.v1 as tf
import work
from worker import open_worker

import hparams
from transformer.data import Corpus
from transformer.model import Transformer

TINY = {"num_blocks": 2, "d_model": 16, "d_ff": 64, "num_heads": 2, "batch_tokens": 200}

ECHO = """
import os
import time
from worker import serve

def open_echo(spec):
    print("a library talks")
    calls = []
    def measure(request):
        print("and talks")
        if request.get("fail") in (True, spec["said"]):
            raise ValueError("that much is known")
        if "fail" in request:
            time.sleep(600)
        calls.append(request)
        return {"calls": len(calls), "said": spec["said"], "pid": os.getpid()}
    return measure

serve({"echo": open_echo, "slow": lambda spec: time.sleep(600)})
"""


@pytest.fixture
def echo(tmp_path, monkeypatch):
    """echo(spec) → a Worker of a process that counts its requests."""
    (tmp_path / "echo.py").write_text(ECHO)
    monkeypatch.setattr("worker.ROOT", str(tmp_path))
    workers = []

    def echo(**spec):
        workers.append(open_worker("echo", dict(spec, work="echo")))
        return workers[-1]

    yield echo
    for worker in workers:
        worker.close()


def test_workers_answer_in_turn(echo):
    one, other = echo(said="one"), echo(said="other")
    for calls in (1, 2):
        for worker, said in ((one, "one"), (other, "other")):
            answer = worker.ask({})
            assert (answer["calls"], answer["said"]) == (calls, said)
            assert answer["pid"] == worker.pid
            assert answer["peak"] > 1


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="there is no /proc")
def test_a_worker_that_is_not_asked_is_stopped(echo):
    worker = echo(said="")
    for _ in range(2):
        os.waitpid(worker.pid, os.WUNTRACED)  # returns once it has stopped
        with open("/proc/{}/stat".format(worker.pid)) as file:
            assert file.read().split()[2] == "T"
        worker.ask({})


def test_a_worker_that_fails_says_why(echo):
    worker = echo(said="")
    with pytest.raises(ChildProcessError, match="ValueError: that much is known"):
        worker.ask({"fail": True})


def test_a_group_is_asked_as_one(echo, request):
    group = open_worker("echo", {"work": "echo", "group": [{"said": 1}, {"said": 2}]})
    request.addfinalizer(group.close)
    for calls in (1, 2):
        answer = group.ask({})
        assert (answer["calls"], answer["said"]) == (calls, 1)
        assert answer["pid"] == group.pid
    with pytest.raises(ChildProcessError, match="that much is known"):
        group.ask({"fail": True})
    with pytest.raises(ChildProcessError, match="KeyError"):
        open_worker("echo", {"work": "echo", "group": [{"said": 1}, {"work": "rest"}]})


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


@pytest.mark.parametrize("size", ["base", "big"])
def test_an_estimate_has_the_cost_of_sentences_of_one_length(monkeypatch, size):
    monkeypatch.setattr(
        Corpus, "_load", lambda self, side: (np.zeros(78), np.array([0, 26, 52, 78]))
    )
    wanted = work.training_gflop("", work.SIZES[size], scaling.VOCAB_SIZE)
    found = scaling.flop_of_token(work.SIZES[size], 27)
    assert found / 1e9 == pytest.approx(wanted)


def test_a_row_is_the_median_and_its_spread():
    row = report.row("ours", "greedy/64", "float32", [3.0, 1.0, 8.0], "sentences/s")
    assert row == {
        "system": "ours",
        "work": "greedy/64",
        "precision": "float32",
        "value": 3.0,
        "unit": "sentences/s",
        "spread": [1.0, 8.0],
    }
    assert report.line(row) == (
        "| greedy/64 | ours | float32 | 3.0 | sentences/s | 1.0 – 8.0 |\n"
    )


def test_the_summary_has_a_column_for_each_system():
    rows = [
        report.row(system, name, precision, [value], "tokens/s")
        for name, system, precision, value in (
            ("ceiling/x", "machine", "float32", 9),
            ("train/x", "a", "float32", 1),
            ("train/x", "b", "bfloat16", 2000),
            ("train/y", "b", "bfloat16", 3),
        )
    ]
    assert report.summary(rows).splitlines() == [
        "| median | a float32 | b bfloat16 |",
        "| --- | --- | --- |",
        "| train/x, tokens/s | 1 | 2,000 |",
        "| train/y, tokens/s |  | 3 |",
    ]


def test_text_is_prepared(tmp_path, monkeypatch):
    raw = str(tmp_path / "raw")
    for name, (source, target) in corpora.reversed_symbols(
        {"train": 50, "val": 5, "test_2016_flickr": 5}
    ).items():
        corpora.write_text(raw, {name: (source, target)})
    monkeypatch.setattr(work, "VOCAB_SIZE", corpora.VOCAB_SIZE)
    data = folders.prepared(raw, str(tmp_path / "data"))
    assert [len(Corpus(data, split)) for split in ("train", "dev", "test")] == [
        50,
        5,
        5,
    ]
    assert folders.prepared(data, "not used") == data
    with pytest.raises(ValueError, match="corpus.json"):
        folders.prepared(str(tmp_path), "not used")


def test_a_grown_corpus_repeats_its_pairs(digits, tmp_path):
    once, folder = Corpus(digits, "train"), str(tmp_path / "grown")
    work.write_corpus(digits, folder, len(once) + 3)
    grown = Corpus(folder, "train")
    assert len(grown) == len(once) + 3
    for place in (0, len(once) - 1, len(once), len(once) + 2):
        for side in ("source", "target"):
            assert np.array_equal(
                getattr(grown, side)(place), getattr(once, side)(place % len(once))
            )
    assert len(Corpus(folder, "dev")) == len(Corpus(digits, "dev"))


@pytest.fixture
def short(monkeypatch):
    """A plan of a few seconds, with a system that is not there."""
    monkeypatch.setitem(work.SIZES, "tiny", TINY)
    monkeypatch.setattr(benchmark, "use_cores", lambda count: None)
    monkeypatch.setattr(benchmark.signal, "signal", lambda *_: None)
    missing = plans.contestants("missing", "no_such_module", "float32")
    monkeypatch.setattr(
        plans,
        "QUICK",
        plans.QUICK._replace(
            sizes=["tiny"],
            trainers=plans.OURS[:1] + missing,
            decoders=plans.OURS[:1] + missing,
            steps={"tiny": 2},
            rounds=2,
            every=2,
            every_single=10,
            pairs=[100],
            several="tiny",
            seconds=0.01,
        ),
    )


@pytest.mark.slow
def test_a_whole_run(short, trained, digits, tmp_path, capsys):
    logdir = shutil.copytree(trained, str(tmp_path / "logs"))
    path = str(tmp_path / "rows.json")
    benchmark.main(["--quick", "--data", digits, "--logdir", logdir, "--json", path])
    printed = capsys.readouterr()
    assert "missing float32: not measured" in printed.err
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)
    assert report.table(rows) + "\n" + report.summary(rows) == printed.out
    for row in rows:
        assert set(row) == {"system", "work", "precision", "value", "unit", "spread"}
        assert row["spread"][0] <= row["value"] <= row["spread"][1]
    found = {row["work"]: row["value"] for row in rows if row["system"] == "ours"}
    assert set(found) >= {
        "train/tiny",
        "greedy/64",
        "beam5/64",
        "beam5/1",
        "memory/train/tiny",
        "growth/100",
        "memory/input-100",
    }
    if hasattr(tf.compat, "v2"):
        several = {r["system"] for r in rows if r["work"] == "scaling/tiny"}
        estimated = {r["system"] for r in rows if r["work"] == "estimate/tiny"}
        assert several - estimated == {"1 process"}
        assert estimated == {"2 processes", "4 processes"}
    assert {"ceiling/copy", "ceiling/tiny"} <= {row["work"] for row in rows}
    assert (
        min(
            value
            for work, value in found.items()
            if not work.startswith(("bleu", "memory/input"))
        )
        > 0
    )
    assert found["beam5/1"] <= found["p95/beam5/1"]


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--only", "sleep"], "unknown part sleep"),
        (["--logdir", "nowhere"], "expected a log directory"),
    ],
)
def test_what_cannot_be_measured_is_one_line(short, digits, capsys, flags, said):
    with pytest.raises(SystemExit) as stopped:
        benchmark.main(["--quick", "--data", digits, *flags])
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err.splitlines()[-1]
