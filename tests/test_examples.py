"""The programs of examples/: each runs, and prints the result that it promises."""

import glob
import os
import random
import re
import subprocess
import sys

import corpora
import dates
import language_model
import numpy as np
import print_attention
import pytest
import recommend
import reverse_digits
import tensorflow.compat.v1 as tf
from documents import ROOT, read
from slow import slow_except

PROGRAMS = sorted(glob.glob(os.path.join(ROOT, "examples", "*.*[yh]")))


@pytest.mark.parametrize("path", PROGRAMS, ids=os.path.basename)
def test_an_example_is_short_and_listed(path):
    name = os.path.basename(path)
    assert read(f"examples/{name}").count("\n") <= 120
    assert name in read("examples/README.md")


# No position sees a later one.


@pytest.mark.parametrize(
    "scores",
    [language_model.next_byte, recommend.score_next],
    ids=["language_model", "recommend"],
)
def test_scores_do_not_depend_on_what_follows(scores, start):
    ids = tf.placeholder(tf.int32, [None, None])
    outputs = scores(ids)
    session, _ = start()
    first, second = session.run(outputs, {ids: [[5, 6, 7, 8, 9], [5, 6, 7, 3, 4]]})
    np.testing.assert_allclose(first[:3], second[:3], rtol=1e-5, atol=1e-5)
    assert np.abs(first[3:] - second[3:]).max() > 0.1


# They run.


@pytest.mark.parametrize(
    "example",
    slow_except([reverse_digits], [reverse_digits, dates, recommend, language_model]),
    ids=lambda module: module.__name__,
)
def test_a_few_steps_of_an_example(example, capsys):
    result = example.main(steps=2)
    last = capsys.readouterr().out.splitlines()[-1]
    printed = float(re.search(r"([\d.]+)( %)?$", last).group(1))
    assert printed == pytest.approx(100 * result if "%" in last else result, abs=0.06)


def test_printed_attention_adds_up_to_100(trained, capsys):
    print_attention.main(trained, "1 2 3 4 5")
    source, *rows = capsys.readouterr().out.splitlines()
    assert len(source.split()) == 6 and len(rows) > 3
    for row in rows:
        assert sum(map(int, row.split()[1:])) == pytest.approx(100, abs=4)


# They do what they promise.


@pytest.mark.slow
@pytest.mark.parametrize(
    "example, min_accuracy",
    [(reverse_digits, 1.0), (recommend, 0.95), (dates, 0.99)],
    ids=["reverse_digits", "recommend", "dates"],
)
def test_an_example_learns_its_rule(example, min_accuracy):
    assert example.main() >= min_accuracy


@pytest.mark.slow
def test_the_language_model_predicts_unseen_text():
    assert language_model.main() < 3.0


def run_script(path, *arguments):
    """Runs a shell script with this Python; returns what it prints."""
    programs = os.path.dirname(sys.executable)
    return subprocess.run(
        ["bash", path, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PATH": programs + os.pathsep + os.environ["PATH"]},
        check=True,
        stdout=subprocess.PIPE,
        universal_newlines=True,
    ).stdout


@pytest.mark.slow
def test_another_language_pair_from_text_to_bleu(tmp_path):
    output = run_script("examples/own_language.sh", tmp_path / "es-en")
    assert float(re.search(r"^BLEU = ([\d.]+)", output, re.M).group(1)) > 95
    promised = re.findall(r"^#  {4}([A-Z].*)$", read("examples/own_language.sh"), re.M)
    assert output.splitlines()[-2:] == promised


@pytest.mark.slow
def test_the_best_model_of_multi30k_from_text_to_bleu(tmp_path):
    """Of other text, whose words have letters enough for 8,000 pieces."""
    draw = random.Random(3)
    for split, count in (("train", 1500), ("dev", 5), ("test", 5)):
        lines = [
            " ".join("".join(draw.choices("abcdefghijkl", k=7)) for _ in range(6))
            for _ in range(count)
        ]
        corpora.write_lines(tmp_path / f"{split}.de", lines)
        lines = [" ".join(line.split()[::-1]) for line in lines]
        corpora.write_lines(tmp_path / f"{split}.en", lines)
    flags = ["--max_steps", "2", "--warmup_steps", "1", "--max_extra_length", "2"]
    if tf.__version__.startswith("1."):
        flags += ["--precision", "float32"]
    output = run_script("examples/multi30k.sh", tmp_path, *flags)
    assert re.search(r"^BLEU = ", output, re.M)
    assert "36,000 pairs" in output
