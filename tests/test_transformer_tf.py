"""The package by its other name, in programs with and without a transformer.py."""

import subprocess
import sys
import textwrap

import pytest
import tutorials

PROGRAM = """
    import tensorflow.compat.v1 as tf
    {first}
    from transformer_tf.compat.sasrec import multihead_attention, normalize
    from transformer_tf import modules
    {then}
    with tf.Graph().as_default():
        x = tf.ones([2, 3, 4])
        multihead_attention(normalize(x), x, num_heads=2)
        modules.feedforward(x, (8, 4))
        print(len(tf.trainable_variables()))
"""
OWN = "import transformer; assert transformer.MINE == 5"


def output(folder, first="", then=""):
    (folder / "main.py").write_text(
        textwrap.dedent(PROGRAM.format(first=first, then=then))
    )
    return subprocess.run(
        [sys.executable, "main.py"],
        cwd=str(folder),
        check=True,
        stdout=subprocess.PIPE,
        universal_newlines=True,
    ).stdout.split()


@pytest.mark.slow
def test_beside_a_package_of_that_name(tmp_path):
    (tmp_path / "transformer").mkdir()
    (tmp_path / "transformer" / "__init__.py").write_text("MINE = 5\n")
    (tmp_path / "transformer" / "modules.py").write_text("MINE = 6\n")
    own = OWN + "; from transformer import modules as own; assert own.MINE == 6"
    assert output(tmp_path, first=own, then=own) == ["14"]


@pytest.mark.slow
def test_without_one_it_is_the_package_itself(tmp_path):
    same = "import transformer.modules; assert transformer.modules is modules"
    assert output(tmp_path, then=same) == ["14"]


@pytest.mark.slow
def test_the_command_measures_beside_a_file_of_that_name(tmp_path):
    (tmp_path / "transformer.py").write_text("MINE = 5\n")
    text = tutorials.SASREC + "\nimport transformer\nassert transformer.MINE == 5\n"
    (tmp_path / "modules.py").write_text(text)

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "transformer_tf.porting", *arguments],
            cwd=str(tmp_path),
            check=True,
            stdout=subprocess.PIPE,
            universal_newlines=True,
        ).stdout

    assert run("--help").count("python -m transformer_tf.porting") == 2
    text = run("--run", "modules.py")
    assert text.count("same numbers: sasrec") == 5
    assert "write: from transformer_tf.compat.sasrec import feedforward\n" in text
