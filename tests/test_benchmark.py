"""tools/bench: a short run, and the cost of a token that its GFLOP/s stand on."""

import json

import benchmark
import plans
import pytest
import report
import work

TINY = {"num_blocks": 2, "d_model": 16, "d_ff": 64, "num_heads": 2, "batch_tokens": 200}


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
