"""batches.py: the shift, the batches of a run, and what reaches the graph."""

import itertools
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from transformer.runtime.files import sha256_of
from transformer.text import batches
from transformer.text.batches import (
    Batch,
    BatchPlan,
    Shards,
    Split,
    evaluation_dataset,
    make_batch,
    pad,
    training_dataset,
)
from transformer.text.vocabulary import EOS, JOINT_MODEL, JOINT_SUBWORDS, PAD

BUDGET = 200


def write_split(folder, split, pairs, seed=0):
    """Writes prepared ids as scripts/prepare.py does; returns them as lists."""
    random = np.random.RandomState(seed)
    sides = {}
    for side in ("source", "target"):
        sides[side] = [
            random.randint(4, 50, random.randint(1, 30)).tolist() for _ in range(pairs)
        ]
        offsets = np.cumsum([0] + [len(ids) for ids in sides[side]], dtype=np.int64)
        stem = os.path.join(str(folder), f"{split}.{side}")
        np.save(f"{stem}.ids.npy", np.concatenate(sides[side]).astype(np.uint16))
        np.save(f"{stem}.offsets.npy", offsets)
    (Path(str(folder)) / JOINT_MODEL).touch()  # its name says how a sentence ends
    return sides


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_split(folder, "train", 500)
    write_split(folder, "dev", 40)
    return str(folder)


@pytest.fixture
def corpus(folder):
    return Split(folder, "train")


def plan_of(corpus, batch_tokens=BUDGET, seed=1, max_shapes=0):
    lengths = corpus.source_lengths, corpus.target_lengths
    return BatchPlan(*lengths, batch_tokens, seed, max_shapes)


def epoch(plan, number):
    return [plan.batch(number * len(plan) + k) for k in range(len(plan))]


# Sentences to a Batch


def test_nothing_can_be_padded():
    assert pad([]).shape == (0, 0)
    assert pad([[], []]).shape == (2, 0)
    assert make_batch([[]], [[]], 0).target_out.tolist() == [[EOS]]


def test_a_batch_as_wide_as_asked_has_only_more_padding():
    narrow = make_batch([[5, 6]], [[7]], 0)
    wide = make_batch([[5, 6]], [[7]], 0, widths=(5, 3))
    assert wide.source.tolist() == [[*narrow.source[0], PAD, PAD]]
    assert wide.target_in.tolist() == [[*narrow.target_in[0], PAD]]
    assert wide.target_out.tolist() == [[*narrow.target_out[0], PAD]]
    assert make_batch([], [], 0, widths=(5, 3)).source.shape == (0, 5)
    assert_same([make_batch([[5, 6]], [[7]], 0, widths=(2, 1))], [narrow])  # too narrow


# Split


def test_a_corpus_is_what_was_written(tmp_path):
    written = write_split(tmp_path, "train", 20)
    corpus = Split(str(tmp_path), "train")
    assert len(corpus) == 20
    for i in range(20):
        assert corpus.source(i).tolist() == written["source"][i]
        assert corpus.target(i).tolist() == written["target"][i]
        assert corpus.source_lengths[i] == len(written["source"][i]) + 1
        assert corpus.target_lengths[i] == len(written["target"][i]) + 1
    assert corpus.source_lengths.dtype == corpus.target_lengths.dtype == np.int32


def test_a_split_that_is_not_prepared_is_named(folder):
    with pytest.raises(FileNotFoundError, match=r"test\.source.*is missing.*prepared"):
        Split(folder, "test")


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    write_split(tmp_path, "train", 20)
    write_split(tmp_path, "dev", 10)
    for part in ("ids", "offsets"):
        shutil.copy(
            str(tmp_path / f"dev.source.{part}.npy"),
            str(tmp_path / f"train.source.{part}.npy"),
        )
    with pytest.raises(
        ValueError, match="same number of source and target .*, got 10 and 20"
    ):
        Split(str(tmp_path), "train")
    np.save(str(tmp_path / "dev.source.ids.npy"), np.zeros([3], np.uint16))
    with pytest.raises(ValueError, match="expected ascending offsets from 0 to 3"):
        Split(str(tmp_path), "dev")


def fill_with_zeros_unseen(path):
    """Keep the time of the last modification, as `rsync --inplace --times` does."""
    status = os.stat(path)
    fill_with_zeros(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def fill_with_zeros(path):
    with open(path, "r+b") as file:
        file.seek(-20, os.SEEK_END)
        file.write(bytes(20))


@pytest.mark.parametrize(
    "change",
    [lambda path: os.truncate(path, 150), fill_with_zeros, fill_with_zeros_unseen],
    ids=["cut", "0", "unseen"],
)
def test_ids_that_change_while_they_are_read_are_noticed(tmp_path, change):
    """Not a new time, nor another file of the same name: the first one stays open."""
    written = write_split(tmp_path, "train", 20)
    path = str(tmp_path / "train.target.ids.npy")
    checksums = {
        name: sha256_of(str(tmp_path / name)) for name in os.listdir(str(tmp_path))
    }
    corpus = Split(str(tmp_path), "train")
    os.utime(path, (1, 1))
    shutil.copy(path, path + ".new")
    os.replace(path, path + ".old")
    os.replace(path + ".new", path)
    corpus.refuse_changes(checksums)
    change(path)
    corpus.refuse_changes(checksums)
    assert corpus.target(19).tolist() == written["target"][19]
    change(path + ".old")
    assert set(corpus.target(19)) <= {PAD, *written["target"][19]}
    with pytest.raises(ValueError, match="expected the ids that training began with"):
        corpus.refuse_changes(checksums)


def test_ids_that_were_missing_for_a_moment_are_noticed(tmp_path):
    """As while the same file is copied over itself."""
    write_split(tmp_path, "train", 20)
    path = tmp_path / "train.source.ids.npy"
    content = path.read_bytes()
    corpus = Split(str(tmp_path), "train")
    os.truncate(str(path), 200)
    assert not corpus.source(19).any()
    with open(str(path), "r+b") as file:
        file.write(content)
    checksums = dict.fromkeys(os.listdir(str(tmp_path)), sha256_of(str(path)))
    with pytest.raises(ValueError, match="the file was truncated"):
        corpus.refuse_changes(checksums)


def test_the_vocabulary_says_how_sentences_end(tmp_path):
    write_split(tmp_path, "train", 20)
    (tmp_path / JOINT_MODEL).rename(tmp_path / JOINT_SUBWORDS)
    corpus = Split(str(tmp_path), "train")
    batch = corpus.batch([4], 0)
    assert batch.source.tolist() == [[*corpus.source(4), 1]]
    assert batch.target_in.tolist() == [[1, *corpus.target(4)]]
    assert batch.target_out.tolist() == [[*corpus.target(4), 1]]
    (tmp_path / JOINT_SUBWORDS).unlink()
    with pytest.raises(FileNotFoundError, match="the vocabulary is missing"):
        Split(str(tmp_path), "train")


# BatchPlan


def test_seeds_and_epochs_differ_in_batches_and_in_their_order(corpus):
    plan, other_plan = plan_of(corpus), plan_of(corpus, seed=2)

    def members(batches):
        return {frozenset(batch.tolist()) for batch in batches}

    def widths(batches):
        return [corpus.target_lengths[batch].max() for batch in batches]

    first = epoch(plan, 0)
    for different in (epoch(plan, 1), epoch(other_plan, 0)):
        assert members(first) != members(different)
        assert widths(first) != widths(different)
        assert sorted(map(len, first)) == sorted(map(len, different))


def test_the_order_is_the_same_on_every_version_of_numpy():
    """Recorded once; a run resumed elsewhere must go on with the same batches."""
    lengths = np.array([3] * 6 + [5] * 6)
    plan = BatchPlan(lengths, lengths, 10, seed=7)
    recorded = [[10, 9], [3, 4, 2], [7, 10], [6, 9]]
    assert [plan.batch(k).tolist() for k in (0, 1, len(plan), 10**5)] == recorded


def test_batches_hold_little_padding():
    """Of lengths as they are in text, those of a pair nearly equal."""
    random = np.random.RandomState(0)
    source = np.minimum(random.geometric(0.04, 10**5) + 3, 250)
    target = np.minimum(source + random.randint(0, 7, 10**5), 250)
    plan = BatchPlan(source, target, 4096, seed=1)
    assert (source.sum() + target.sum()) / (2 * 4096 * len(plan)) > 0.9


def lengths_of_captions(pairs=10**4):
    """Source and target lengths as in Multi30k."""
    random = np.random.RandomState(0)
    source = np.clip(random.normal(15, 5, pairs), 4, 50).astype(int)
    target = np.clip(source + random.normal(0, 2.5, pairs), 4, 50).astype(int)
    return source, target


def shapes_of(plan):
    """[(N, S, T)] of the batches of an epoch."""
    return [(len(plan.batch(k)), *plan.widths(k)) for k in range(len(plan))]


def test_few_shapes_cost_little_padding():
    source, target = lengths_of_captions()
    tokens, counts = {}, {}
    for max_shapes in (6, 12, 24):
        plan = BatchPlan(source, target, 2048, seed=1, max_shapes=max_shapes)
        shapes = shapes_of(plan)
        assert len(set(shapes)) <= max_shapes + 1
        assert sum(rows for rows, *_ in shapes) == len(source)
        tokens[max_shapes] = sum(rows * (s + t) for rows, s, t in shapes)
        counts[max_shapes] = len(plan)
    assert tokens[6] > tokens[12] > tokens[24]
    assert (source.sum() + target.sum()) / tokens[24] > 0.92
    assert counts[24] < 1.05 * len(BatchPlan(source, target, 2048, seed=1))


def cost_of(runs, batch_tokens):
    """Tokens with padding, and a tenth of the budget for each batch."""
    cost = 0.0
    for widths in runs:
        rows = batch_tokens // widths[-1]
        rows -= rows % 2 if rows >= 10 else 0
        cost += len(widths) * (widths[-1] + 0.1 * batch_tokens / rows)
    return cost


@pytest.mark.parametrize("max_runs", [1, 2, 3, 4])
def test_no_other_cuts_cost_less(max_runs):
    random = np.random.RandomState(max_runs)
    for _ in range(20):
        widths = np.sort(random.randint(4, 13, 9))
        cuts = batches._best_cuts(widths, 100, max_runs)
        assert len(cuts) <= max_runs and cuts[-1] == 9
        tried = [
            cost_of(np.split(widths, inner), 100)
            for count in range(max_runs)
            for inner in itertools.combinations(range(1, 9), count)
        ]
        cost = cost_of(np.split(widths, cuts[:-1]), 100)
        np.testing.assert_allclose(cost, min(tried))


def test_pairs_of_one_shape_are_mixed_in_each_epoch():
    source, target = lengths_of_captions(3000)
    plan = BatchPlan(source, target, 2048, seed=1, max_shapes=8)

    def lengths_by_width(epoch):
        lengths = {}
        for k in range(epoch * len(plan), (epoch + 1) * len(plan)):
            pairs = plan.batch(k)
            lengths.setdefault(plan.widths(k), []).append(source[pairs].tolist())
        return lengths

    first, second = lengths_by_width(0), lengths_by_width(1)
    assert set(first) == set(second)
    for width in first:
        assert sorted(sum(first[width], [])) == sorted(sum(second[width], []))
    assert first != second


def test_many_lengths_are_grouped(monkeypatch):
    """A plan of them is as quick, and hardly pads more."""
    source, target = lengths_of_captions()
    fine = shapes_of(BatchPlan(source, target, 2048, 1, max_shapes=24))
    monkeypatch.setattr(batches, "MAX_GROUPS", 30)
    coarse = shapes_of(BatchPlan(source, target, 2048, 1, max_shapes=24))
    fine, coarse = (
        sum(rows * (s + t) for rows, s, t in shapes) for shapes in (fine, coarse)
    )
    assert coarse < 1.03 * fine


@pytest.mark.parametrize(
    "batch_tokens, seed, message",
    [
        (0, 1, "batch_tokens: expected 1 or more, got 0"),
        (100, 2**32, "seed: expected 0 to 4294967295, got 4294967296"),
        (29, 1, r"batch_tokens: expected 30 or more, .*got 29; .*max_length below 29"),
    ],
)
def test_what_cannot_be_planned_is_refused(corpus, batch_tokens, seed, message):
    with pytest.raises(ValueError, match=message):
        plan_of(corpus, batch_tokens, seed)


def test_no_pair_and_no_batch_before_the_first(corpus):
    with pytest.raises(ValueError, match="a split is empty: expected one pair or more"):
        BatchPlan([], [], 100, seed=1)
    with pytest.raises(ValueError, match="expected batch 0 or more, got -1"):
        plan_of(corpus).batch(-1)


# In the graph


def fetch(dataset, count):
    """Returns up to `count` batches of a dataset, as arrays."""
    with tf.Graph().as_default(), tf.Session() as session:
        batch = tf.data.make_one_shot_iterator(dataset()).get_next()
        assert isinstance(batch, Batch)
        for ids in batch[:3]:
            assert ids.dtype == tf.int32
            assert ids.shape.as_list() == [None, None]
        assert batch.number.dtype == tf.int64
        assert batch.number.shape.as_list() == []
        arrays = []
        try:
            while len(arrays) < count:
                arrays.append(session.run(batch))
        except tf.errors.OutOfRangeError:
            pass
    return arrays


def assert_same(batches, expected):
    assert len(batches) == len(expected)
    for batch, expected_batch in zip(batches, expected):
        for array, expected_array in zip(batch, expected_batch):
            np.testing.assert_array_equal(array, expected_array)


@pytest.mark.parametrize("max_shapes", [0, 5])
def test_a_run_is_the_plan_for_ever(corpus, max_shapes):
    """From any batch on: so training continues."""
    plan = plan_of(corpus, max_shapes=max_shapes)
    numbers = range(5, len(plan) + 8)
    arrays = fetch(lambda: training_dataset(corpus, Shards(plan), 5), len(numbers))
    expected = [corpus.batch(plan.batch(k), k, plan.widths(k)) for k in numbers]
    assert_same(arrays, expected)
    if max_shapes:
        shapes = {(*batch.source.shape, *batch.target_in.shape) for batch in arrays}
        assert len(shapes) <= max_shapes + 1


def test_shards_of_a_batch_have_its_widths(corpus):
    """So also the shapes of shards are few, whoever computes them."""
    plan = plan_of(corpus, batch_tokens=1000, max_shapes=4)
    shapes = set()
    for worker in range(3):
        shards = Shards(plan, count=8, workers=3, worker=worker)
        for position in range(len(plan) * shards.per_worker):
            batch = shards.shard(corpus, position)
            widths = plan.widths(position // shards.per_worker)
            assert (batch.source.shape[1], batch.target_out.shape[1]) == widths
            shapes.add(batch.source.shape + batch.target_in.shape)
    shapes = {shape for shape in shapes if shape[0]}  # without those without a pair
    assert len(shapes) <= 2 * (4 + 1)  # the sizes of shards differ by at most one


@pytest.mark.parametrize("max_shapes", [0, 3])
def test_an_evaluation_sees_each_pair_once_and_ends(folder, max_shapes):
    dev = Split(folder, "dev")
    plan = plan_of(dev, max_shapes=max_shapes)
    arrays = fetch(lambda: evaluation_dataset(dev, plan), 1000)
    assert len(arrays) == len(plan)
    seen = sorted(row[row > EOS].tolist() for batch in arrays for row in batch.source)
    assert seen == sorted(dev.source(i).tolist() for i in range(len(dev)))
    assert_same(arrays, fetch(lambda: evaluation_dataset(dev, plan), 1000))


def test_no_thread_tunes_that_a_stopped_training_would_wait_for(corpus):
    """It sleeps for up to a minute, and the session is not closed before it wakes."""
    with tf.Graph().as_default():
        dataset = training_dataset(corpus, Shards(plan_of(corpus)), 0)
    options = dataset.options()
    is_tuned = (
        options.autotune.enabled
        if hasattr(options, "autotune")
        else options.experimental_optimization.autotune
    )  # TensorFlow 1.15
    assert is_tuned is False
