"""The recommender: it learns, is kept, and is imported from a checkpoint of SASRec."""

import import_checkpoint
import numpy as np
import pytest
import recommend
import tensorflow.compat.v1 as tf
from conftest import CONFIG
from corpora import refusal

from transformer.originals import recommender

SETTINGS = recommender.Settings(9, 20, 8, 2, 2)


def run(capsys, *flags):
    """What it prints, line by line."""
    recommend.main(list(map(str, flags)))
    return capsys.readouterr().out.splitlines()


@pytest.mark.slow
def test_it_recommends_what_the_sequence_tells(tmp_path, capsys):
    logdir = tmp_path / "logs"
    *_, last = run(capsys, "--logdir", logdir, "--users", 600, "--epochs", 25)
    rate = float(last.split("=")[1].split()[0])
    assert rate > 0.8 and "(by chance 0.1000)" in last
    [line] = run(capsys, "--logdir", logdir, "--after", "3 5 7 9 11")
    items = [int(item) for item in line.split()]
    assert len(set(items)) == 10 and 13 in items


def test_the_variables_are_those_of_the_graph():
    recommend.build(SETTINGS)
    assert recommender.shapes(SETTINGS) == {
        variable.op.name: variable.shape.as_list()
        for variable in tf.trainable_variables()
    }


@pytest.fixture
def checkpoint(tmp_path):
    """(prefix, scores of a sequence) as SASRec's own code would have saved it."""
    with tf.Graph().as_default(), tf.Session(config=CONFIG) as session:
        graph = recommend.build(SETTINGS)
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver().save(session, str(tmp_path / "SASRec.ckpt"))
        return prefix, recommend.recommended(session, graph, [[3, 1]], SETTINGS)[0]


def imported(prefix, logdir, *flags):
    import_checkpoint.main(
        f"--from sasrec --ckpt {prefix} --num_heads 2 --out {logdir}".split()
        + list(map(str, flags))
    )


@pytest.mark.slow
def test_an_imported_checkpoint_recommends_the_same(checkpoint, tmp_path, capsys):
    prefix, expected = checkpoint
    imported(prefix, tmp_path / "logs")
    assert "a recommender of 9 items" in capsys.readouterr().out
    [line] = run(capsys, "--logdir", tmp_path / "logs", "--after", "3 1")
    assert [int(item) for item in line.split()] == list(expected)


def test_names_of_ones_own_are_renamed_first(tmp_path, capsys):
    arrays = {
        "my" + name: np.zeros(shape, np.float32)
        for name, shape in recommender.shapes(SETTINGS).items()
    }
    with tf.Graph().as_default(), tf.Session(config=CONFIG) as session:
        for name, array in arrays.items():
            tf.get_variable(name, initializer=array)
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver().save(session, str(tmp_path / "model"))
    rules = tmp_path / "names.json"
    rules.write_text('{"^my": ""}')
    imported(prefix, tmp_path / "logs", "--names", rules)
    assert recommender.load(str(tmp_path / "logs")) == SETTINGS


@pytest.mark.slow
@pytest.mark.parametrize("content", ["{", "[1]", '{"(": ""}', '{"a": 1}'])
def test_invalid_names_are_refused(content, checkpoint, tmp_path, capsys):
    rules = tmp_path / "names.json"
    rules.write_text(content)
    flags = ["--from", "sasrec", "--ckpt", checkpoint[0], "--num_heads", "2"]
    flags += ["--out", str(tmp_path / "logs"), "--names", str(rules)]
    said = refusal(capsys, import_checkpoint.main, *flags)
    assert "found no such rules" in said and not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    "flags, said",
    [
        ("--after 5", "found no recommender, wanted one for --after"),
        ("--data nowhere.txt", "nowhere.txt"),
    ],
)
def test_refusals(flags, said, tmp_path, capsys):
    found = refusal(
        capsys, recommend.main, "--logdir", str(tmp_path / "logs"), *flags.split()
    )
    assert said in found


TABLE, BIAS = "SASRec/dec_pos/lookup_table", "SASRec/num_blocks_1/ln/Variable"


@pytest.mark.parametrize(
    "changed, num_heads, said",
    [
        ({TABLE: None}, 2, f"{TABLE}: found no such table, wanted one of SASRec"),
        ({TABLE: [8]}, 2, f"{TABLE}: found no such table, wanted one of SASRec"),
        ({}, 3, "--num_heads: found 3, wanted a divisor of 8, the width"),
        ({}, 0, "--num_heads: found 0, wanted a divisor of 8, the width"),
        ({BIAS: None}, 2, f"{BIAS}: found nothing, wanted shape [8]"),
        ({BIAS: [9]}, 2, f"{BIAS}: found [9], wanted shape [8]"),
    ],
)
def test_variables_of_something_else_are_refused(changed, num_heads, said, tmp_path):
    shapes = {**recommender.shapes(SETTINGS), **changed}
    arrays = {name: np.zeros(shape) for name, shape in shapes.items() if shape}
    with pytest.raises(ValueError) as refused:
        recommender.write(arrays, num_heads, str(tmp_path / "logs"))
    assert str(refused.value) == said
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("content", ["[]", '{"items": 9}'])
def test_the_settings_of_something_else_are_refused(content, tmp_path, capsys):
    (tmp_path / recommender.FILE_NAME).write_text(content)
    said = refusal(capsys, recommend.main, "--logdir", str(tmp_path), "--after", "3 1")
    assert f"{recommender.FILE_NAME}: found {content[:1]}" in said
    assert "wanted ['items', 'max_length', 'num_units'," in said


def test_a_file_of_events_is_read(tmp_path):
    path = tmp_path / "events.txt"
    path.write_text("1 5\n2 7\n1 6\n1 9\n2 8\n")
    assert recommend.read_sequences(str(path)) == [[5, 6, 9]]
    path.write_text("1 0\n")
    with pytest.raises(ValueError, match="events.txt:1: found '1 0'"):
        recommend.read_sequences(str(path))
