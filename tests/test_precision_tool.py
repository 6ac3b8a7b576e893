"""tools/precision: the BLEU of models trained in several precisions."""

import json

import numpy as np
import precision
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG

from transformer.runtime import checkpoints


def test_the_table_has_means_and_how_far_they_are_from_the_first():
    found = {"float32": [10.0, 20.0], "bfloat16": [11.0, 20.0]}
    assert list(precision.table(found)) == [
        "| precision | seed 1 | seed 2 | mean | difference |",
        "|---|---|---|---|---|",
        "| float32 | 10.00 | 20.00 | 15.00 | +0.00 |",
        "| bfloat16 | 11.00 | 20.00 | 15.50 | +0.50 |",
    ]


@pytest.mark.parametrize("batch", [(), (2,)], ids=["matrices", "batches of them"])
def test_float16_is_that_of_gpus(graph, batch):
    """Sums are added up in float32: 4,096 ones and more are not 2,048 or infinite."""
    with precision.float16_as_on_gpus():
        a = tf.placeholder(tf.float16, [*batch, 3, 5000])
        b = tf.placeholder(tf.float16, [*batch, 5000, 4])
        product = tf.matmul(a, b)
        gradients = tf.gradients(product, [a, b])
    draw = np.random.RandomState(0)
    values = {
        each: draw.uniform(0.5, 1.5, each.shape.as_list()).astype(np.float16)
        for each in (a, b)
    }
    with tf.Session(config=CONFIG) as session:
        found = session.run([product, *gradients], values)
    wide = {each: value.astype(np.float64) for each, value in values.items()}
    ones = np.ones([*batch, 3, 4])
    wanted = [
        wide[a] @ wide[b],
        ones @ np.swapaxes(wide[b], -1, -2),
        np.swapaxes(wide[a], -1, -2) @ ones,
    ]
    for array, exact in zip(found, wanted):
        assert array.dtype == np.float16
        np.testing.assert_allclose(array.astype(np.float64), exact, rtol=2**-10)
    assert found[0].mean() > 4096


@pytest.mark.parametrize(
    "argv, said",
    [
        (["--seeds", "0", "--out", "x"], "--seeds: found 0"),
        ([], "--out: found nothing"),
    ],
)
def test_what_cannot_be_compared_is_one_line(capsys, argv, said):
    with pytest.raises(SystemExit) as ended:
        precision.main(argv)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_each_is_trained_and_scored_once(digits, tmp_path, capsys, monkeypatch):
    if not hasattr(tf.compat, "v2"):
        pytest.skip("TensorFlow 1.15 trains in float32 alone")
    argv = ["--out", str(tmp_path), "--seeds", "1", "--", "--data", digits]
    argv += ["--num_blocks=1", "--d_model=16", "--d_ff=32", "--num_heads=2"]
    argv += ["--batch_tokens=200", "--max_steps=20", "--search=greedy"]
    precision.main(argv)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[2:]] == list(precision.PRECISIONS)
    for name in precision.PRECISIONS:
        logdir = tmp_path / f"{name}-1"
        assert json.loads((logdir / "hparams.json").read_text())["precision"] == name
    with monkeypatch.context() as nothing_runs:
        nothing_runs.setattr(precision.subprocess, "run", None)
        precision.main(argv)
    assert capsys.readouterr().out.splitlines() == lines
    # It continues.
    precision.main(["--precisions", "float16", *argv, "--max_steps=21"])
    assert checkpoints.steps(str(logdir))[-1] == 21
