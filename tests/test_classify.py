"""The classifier of reviews: its corpora, the reader of IMDB files, its accuracy."""

import io
import os
import pickle
import re
import zipfile

import classify
import imdb
import numpy as np
import pytest
import tensorflow.compat.v1 as tf


def accuracy(capsys, *flags):
    """Run the script; return the accuracy that it prints."""
    classify.main(list(flags))
    return float(
        re.search(
            r"^accuracy = ([\d.]+)$", capsys.readouterr().out, re.MULTILINE
        ).group(1)
    )


# --- Our own reviews ------------------------------------------------------------------


def test_own_corpus_is_tested_with_reviews_it_has_not_seen():
    train, test = classify.generate_reviews(200)
    train_reviews = {tuple(ids) for ids, _ in train}
    assert len(train) == 400 and len(test) > 900
    assert not any(tuple(ids) in train_reviews for ids, _ in test)
    used = {i for ids, _ in train for i in ids}
    assert used == set(range(2, max(used) + 1))


# --- IMDB files -----------------------------------------------------------------------


def object_array(lists):
    array = np.empty(len(lists), object)
    array[:] = lists
    return array


def imdb_arrays(count=40, max_length=9, seed=0):
    """Good reviews have more words of low ranks than bad ones."""
    rng, arrays = np.random.RandomState(seed), {}
    for split in ("train", "test"):
        labels = rng.randint(0, 2, [count])
        arrays["x_" + split] = object_array(
            [
                [
                    int(rank)
                    for rank in rng.randint(1, 5, [rng.randint(2, max_length)])
                    + 10 * (1 - label)
                ]
                for label in labels
            ]
        )
        arrays["y_" + split] = labels.astype(np.int64)
    return arrays


def test_reading_imdb(tmp_path):
    arrays = imdb_arrays()
    np.savez(str(tmp_path / "imdb.npz"), **arrays)
    loaded = imdb.read(str(tmp_path / "imdb.npz"))
    assert set(loaded) == set(arrays)
    for name, array in arrays.items():
        assert np.asarray(loaded[name], array.dtype).tolist() == array.tolist()


class Malicious:
    def __reduce__(self):
        return os.system, ("echo this must not run",)


def test_a_pickle_that_would_run_code_is_refused(tmp_path, capfd):
    np.savez(
        str(tmp_path / "imdb.npz"),
        **dict(imdb_arrays(), x_train=object_array([Malicious()])),
    )
    with pytest.raises(SystemExit, match="2"):
        classify.main(["--imdb", str(tmp_path / "imdb.npz")])
    out, message = capfd.readouterr()
    assert re.match(
        r"classify.py: expected lists of numbers, got \w+\.system in", message
    )
    assert message.count("\n") == 1 and "must not run" not in out


class Forged:
    """An array whose pickle gives bytes for the addresses of its objects."""

    def __reduce__(self):
        function, arguments, state = object_array([[1]]).__reduce__()
        return function, arguments, (*state[:4], b"A" * 8)


def test_a_pickle_with_addresses_is_refused(tmp_path, capfd):
    path = str(tmp_path / "imdb.npz")
    file = io.BytesIO()
    header = {"descr": "|O", "fortran_order": False, "shape": (1,)}
    np.lib.format.write_array_header_1_0(file, header)
    file.write(pickle.dumps(Forged(), protocol=2))
    with zipfile.ZipFile(path, "w") as archive:
        for name in imdb_arrays():
            archive.writestr(name + ".npy", file.getvalue())
    with pytest.raises(SystemExit, match="2"):
        classify.main(["--imdb", path])
    assert capfd.readouterr().err == (
        "classify.py: a pickled array holds no lists of numbers\n"
    )


def test_imdb_ids_are_ranks_moved_up_and_rare_words_are_unknown(tmp_path):
    reviews = object_array([[1, 2, 98, 99, 5000]])
    np.savez(
        str(tmp_path / "imdb.npz"),
        x_train=reviews,
        y_train=np.array([1]),
        x_test=reviews,
        y_test=np.array([0]),
    )
    train, test = imdb.load(str(tmp_path / "imdb.npz"), 100)
    assert train == [([2, 3, 99, imdb.UNKNOWN, imdb.UNKNOWN], 1)]
    assert test[0][1] == 0


# --- The model ------------------------------------------------------------------------


def test_batches_keep_the_end_of_a_long_review():
    reviews = [(list(range(2, 5)), 1), (list(range(2, 200)), 0)]
    ((ids, labels),) = classify.make_batches(reviews)
    assert ids.shape == (2, classify.MAX_LENGTH) and labels == [1, 0]
    assert ids[0].tolist() == [2, 3, 4] + [0] * (classify.MAX_LENGTH - 3)
    assert ids[1, -1] == 199


def test_padding_changes_no_probability():
    ids = tf.placeholder(tf.int32, [None, None])
    logits = classify.positive_logits(ids, is_training=False)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        alone, padded = (
            session.run(logits, {ids: [[3, 4, 5] + padding]})
            for padding in ([], [0] * 7)
        )
        nothing = session.run(logits, {ids: [[0, 0]]})
    np.testing.assert_allclose(alone, padded, rtol=1e-4)
    assert np.isfinite(nothing).all()


@pytest.mark.slow
def test_our_own_reviews_are_told_apart(capsys):
    assert accuracy(capsys) >= 0.95
