"""checkpoints.py: which are found, kept, copied, and still there after a move."""
import os
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from transformer import checkpoints


@pytest.fixture
def session(graph):
    with tf.Session(graph=graph) as opened:
        yield opened


@pytest.fixture
def write(session, tmp_path):
    """write(step, …): a checkpoint in which every number of `x` is the step."""
    variable = tf.get_variable("x", [3])
    saver = checkpoints.make_saver()

    def write(*steps, keep=100):
        for step in steps:
            session.run(variable.assign([step] * 3))
            checkpoints.save(session, saver, str(tmp_path), step, keep)
        return str(tmp_path)

    return write


def numbers_in(checkpoint):
    return tf.train.load_checkpoint(checkpoint).get_tensor("x").tolist()


def step_found(logdir, which="best"):
    """(the step in the name, the step in the numbers) of what `find` finds."""
    found = checkpoints.find(logdir, which)
    return checkpoints.step_of(found), numbers_in(found)[0]


def test_steps_are_numbers_in_order(write):
    assert checkpoints.steps(write(9, 100, 20)) == [9, 20, 100]


def test_a_folder_that_is_not_there_has_no_steps(tmp_path):
    assert checkpoints.steps(str(tmp_path / "none")) == []


def test_other_files_are_no_checkpoints(write, tmp_path):
    for name in ("model.ckpt-7.data-00000-of-00001", "model.ckpt-x.index",
                 "my_model.ckpt-8.index", "model.ckpt-9.index.tmp",
                 "modelXckpt-9.index", "best.ckpt-9.index", "checkpoint"):
        (tmp_path / name).write_bytes(b"")
    assert checkpoints.steps(write(5)) == [5]


def test_find_newest_and_a_step(write):
    logdir = write(9, 100, 20)
    assert step_found(logdir, "newest") == (100, 100)
    assert step_found(logdir, "20") == (20, 20)
    assert step_found(logdir, 9) == (9, 9)


def test_best_is_the_newest_until_one_is_kept_as_the_best(write):
    logdir = write(10, 20, 30)
    assert step_found(logdir) == (30, 30)
    checkpoints.save_best(logdir, 20)
    assert step_found(logdir) == (20, 20)
    assert checkpoints.steps(logdir) == [10, 20, 30]


def test_only_one_best_is_kept_and_the_later_one_wins(write):
    logdir = write(9, 100)
    for step in (9, 100):
        checkpoints.save_best(logdir, step)
        assert checkpoints.steps(logdir, checkpoints.BEST) == [step]
    assert not [name for name in os.listdir(logdir) if name.startswith("best.ckpt-9.")]


def test_the_best_may_be_kept_again(write):
    logdir = write(10)
    for _ in range(2):
        checkpoints.save_best(logdir, 10)
    assert step_found(logdir) == (10, 10)


@pytest.mark.parametrize("which", ["best", "newest", "7", 7])
def test_find_in_an_empty_folder_says_what_to_do(tmp_path, which):
    with pytest.raises(FileNotFoundError) as error:
        checkpoints.find(str(tmp_path), which)
    assert str(tmp_path) in str(error.value)
    assert "train.py" in str(error.value)


@pytest.mark.parametrize("which", ["11", "-10", "1", "10 ", "latest", "", "1.0"])
def test_find_refuses_what_is_not_there_and_says_what_is(write, which):
    with pytest.raises(FileNotFoundError) as error:
        checkpoints.find(write(10, 20), which)
    assert repr(which) in str(error.value)
    assert "[10, 20]" in str(error.value)


def test_save_prunes_the_oldest_with_all_their_files(write):
    logdir = write(9, 10, 11, 100, keep=2)
    assert checkpoints.steps(logdir) == [11, 100]
    assert {name.split(".")[1] for name in os.listdir(logdir)} == {
        "ckpt-11", "ckpt-100"}


def test_pruning_a_step_leaves_the_steps_whose_names_begin_alike(write):
    logdir = write(1, 10, 11, keep=2)
    assert [numbers_in(checkpoints.prefix(logdir, step))[0] for step in (10, 11)] == [
        10, 11]


def test_pruning_leaves_the_best(write):
    logdir = write(10)
    checkpoints.save_best(logdir, 10)
    write(20, 30, keep=1)
    assert checkpoints.steps(logdir) == [30]
    assert step_found(logdir) == (10, 10)


def test_save_writes_nothing_but_the_checkpoint(write):
    names = os.listdir(write(10))
    assert sorted(names) == ["model.ckpt-10.data-00000-of-00001", "model.ckpt-10.index"]


def test_a_folder_may_be_moved_and_renamed(write, session, tmp_path):
    shutil.copytree(write(10, 20), str(tmp_path / "logs"))
    logdir = str(tmp_path / "logs")
    checkpoints.save_best(logdir, 10)
    moved = str(tmp_path / "moved" / "a new name.ckpt-3, größer")
    shutil.move(logdir, moved)
    assert step_found(moved) == (10, 10)
    assert step_found(moved, "newest") == (20, 20)
    checkpoints.save_best(moved, 20)
    assert step_found(moved) == (20, 20)
    checkpoints.make_saver().restore(session, checkpoints.find(moved))
    np.testing.assert_array_equal(session.run(tf.global_variables()[0]), [20] * 3)


def test_the_saver_holds_global_variables_and_no_local_ones(session, tmp_path):
    tf.get_variable("kept", [])
    tf.get_variable("counter", [], trainable=False)
    tf.get_variable("sum", [], collections=[tf.GraphKeys.LOCAL_VARIABLES])
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    checkpoints.save(session, checkpoints.make_saver(), str(tmp_path), 1, 1)
    reader = tf.train.load_checkpoint(checkpoints.find(str(tmp_path)))
    assert sorted(reader.get_variable_to_shape_map()) == ["counter", "kept"]
