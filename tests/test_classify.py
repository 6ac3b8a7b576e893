"""The classifier of reviews: its corpora, its reader of IMDB files, its accuracy."""

import collections
import os
import pickle
import re

import classify
import corpora
import make_reviews
import numpy as np
import pytest
import tensorflow.compat.v1 as tf


def accuracy(capsys, *flags):
    """What the script prints as the accuracy."""
    classify.main(list(flags))
    return float(
        re.search(
            r"^accuracy = ([\d.]+)$", capsys.readouterr().out, re.MULTILINE
        ).group(1)
    )


# --- Our own reviews ------------------------------------------------------------------


def says(words):
    """Whether a review is good, opinion by opinion; fails if they are not of a mind."""
    minds = set()
    for opinion in re.split(r" (?:,|and|;|\.) ?", " ".join(words)):
        tokens = set(opinion.split())
        for good, adjectives in (
            (True, make_reviews.PRAISE),
            (False, make_reviews.BLAME),
        ):
            if tokens & set(adjectives):
                minds.add(good != bool(tokens & set(make_reviews.NEGATIONS)))
    assert len(minds) == 1, words
    return minds.pop()


def test_reviews_are_what_their_labels_say():
    for words, label in make_reviews.reviews(300):
        assert says(words) == bool(label)


def test_no_bag_of_words_tells_good_from_bad():
    reviews = make_reviews.reviews(300)
    bags = [collections.defaultdict(int) for _ in range(2)]
    for words, label in reviews:
        bags[label][tuple(sorted(words))] += 1
    assert bags[0] == bags[1]


def test_reviews_are_the_same_every_time():
    assert make_reviews.reviews(20, 3) == make_reviews.reviews(20, 3)
    assert make_reviews.reviews(20, 3) != make_reviews.reviews(20, 4)


def test_make_reviews_prints_them(capsys):
    make_reviews.main(["--pairs", "2", "--seed", "3"])
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [(text.split(), int(label)) for label, text in lines] == (
        make_reviews.reviews(2, 3)
    )


def test_own_corpus_is_tested_with_reviews_it_has_not_seen():
    corpus = classify.own_reviews(200, 1)
    known = {tuple(ids) for ids, _ in corpus.train}
    assert len(corpus.train) == 400 and len(corpus.test) > 900
    assert not any(tuple(ids) in known for ids, _ in corpus.test)
    used = {i for ids, _ in corpus.train for i in ids}
    assert used == set(range(classify.FIRST_WORD, corpus.vocab_size))


# --- IMDB files -----------------------------------------------------------------------


def object_array(lists):
    array = np.empty(len(lists), object)
    array[:] = lists
    return array


def imdb_arrays(count=40, longest=9, seed=0):
    """Good reviews have more words of low ranks than bad ones."""
    draw, arrays = np.random.RandomState(seed), {}
    for part in ("train", "test"):
        labels = draw.randint(0, 2, [count])
        arrays["x_" + part] = object_array(
            [
                [
                    int(rank)
                    for rank in draw.randint(1, 5, [draw.randint(2, longest)])
                    + 10 * (1 - label)
                ]
                for label in labels
            ]
        )
        arrays["y_" + part] = labels.astype(np.int64)
    return arrays


def test_reading_imdb(tmp_path):
    arrays = imdb_arrays()
    np.savez(str(tmp_path / "imdb.npz"), **arrays)
    found = classify.read_imdb(str(tmp_path / "imdb.npz"))
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        assert found[name].tolist() == array.tolist()


@pytest.mark.parametrize("protocol", [0, 1, 2, 3])
def test_reading_pickles_of_old_protocols(tmp_path, protocol):
    array = object_array([[1, 2], [3]])
    path = tmp_path / "array.npy"
    with open(str(path), "wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"shape": (2,), "fortran_order": False, "descr": "|O"}
        )
        pickle.dump(array, file, protocol=protocol)
    with open(str(path), "rb") as file:
        assert classify.read_array(file).tolist() == [[1, 2], [3]]


class Malicious:
    def __reduce__(self):
        return os.system, ("echo this must not run",)


def test_a_pickle_that_would_run_code_is_refused(tmp_path, capfd):
    np.savez(
        str(tmp_path / "imdb.npz"),
        **dict(imdb_arrays(), x_train=object_array([Malicious()])),
    )
    said = corpora.refusal(capfd, classify.main, "--imdb", tmp_path / "imdb.npz")
    assert re.match(r"classify.py: found \w+\.system in", said)
    assert "must not run" not in capfd.readouterr().out


def test_files_that_do_not_fit_are_refused(tmp_path, capsys):
    path = str(tmp_path / "imdb.npz")

    def said():
        return corpora.refusal(capsys, classify.main, "--imdb", path)

    assert re.search("classify.py: .*No such file", said())
    np.savez(path, x_train=np.zeros(3))
    assert re.search("'x_train.npy'.*wanted y_train.npy as well", said())
    np.savez(path, **dict(imdb_arrays(), y_test=np.zeros(3)))
    assert "found 40 reviews x_test and 3 labels y_test" in said()
    with open(path, "wb") as file:
        file.write(b"no archive")
    assert re.search("classify.py: .*zip", said())


def test_imdb_ids_are_ranks_moved_up_and_rare_words_are_unknown(tmp_path):
    reviews = object_array([[1, 2, 98, 99, 5000]])
    np.savez(
        str(tmp_path / "imdb.npz"),
        x_train=reviews,
        y_train=np.array([1]),
        x_test=reviews,
        y_test=np.array([0]),
    )
    corpus = classify.imdb_reviews(str(tmp_path / "imdb.npz"), 100)
    assert corpus.train == [([2, 3, 99, classify.UNKNOWN, classify.UNKNOWN], 1)]
    assert corpus.test[0][1] == 0 and corpus.vocab_size == 100


def test_learning_from_an_imdb_file(tmp_path, capsys):
    np.savez(str(tmp_path / "imdb.npz"), **imdb_arrays(300))
    assert accuracy(capsys, "--imdb", str(tmp_path / "imdb.npz")) == 1.0


def test_downloading_imdb(monkeypatch, capsys):
    arrays = imdb_arrays(300)

    def load_data(**kwargs):
        assert kwargs == {"start_char": None, "oov_char": None, "index_from": 0}
        return (
            (arrays["x_train"], arrays["y_train"]),
            (arrays["x_test"], arrays["y_test"]),
        )

    monkeypatch.setattr(tf.keras.datasets.imdb, "load_data", load_data)
    assert accuracy(capsys, "--imdb") == 1.0

    def fails(**kwargs):
        raise Exception("URL fetch failure")

    monkeypatch.setattr(tf.keras.datasets.imdb, "load_data", fails)
    said = corpora.refusal(capsys, classify.main, "--imdb")
    assert re.search("URL fetch failure.*--imdb imdb.npz", said)


# --- The model ------------------------------------------------------------------------


def test_batches_keep_the_end_of_a_long_review():
    reviews = [(list(range(2, 5)), 1), (list(range(2, 200)), 0)]
    ((ids, labels),) = classify.batches(reviews)
    assert ids.shape == (2, classify.MAX_LENGTH) and labels == [1, 0]
    assert ids[0].tolist() == [2, 3, 4] + [classify.PAD] * (classify.MAX_LENGTH - 3)
    assert ids[1, -1] == 199
    shuffled = [
        labels for _, labels in classify.batches(reviews * 50, np.random.RandomState(0))
    ]
    assert sum(map(len, shuffled)) == 100 and shuffled[0] != [1, 0] * 16


def test_padding_changes_no_probability():
    model = classify.build(20)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        alone, padded = (
            session.run(model.positive, {model.ids: [[3, 4, 5] + padding]})
            for padding in ([], [0] * 7)
        )
        nothing = session.run(model.positive, {model.ids: [[0, 0]]})
    np.testing.assert_allclose(alone, padded, rtol=1e-5)
    assert np.isfinite(nothing).all()


@pytest.mark.slow
def test_our_own_reviews_are_told_apart(capsys):
    assert accuracy(capsys) >= 0.95
