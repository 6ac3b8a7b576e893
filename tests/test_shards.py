"""Shards: what they are depends on the batch alone, not on who computes it."""

import dataclasses
import functools

import corpora
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG
from slow import slow_except

from transformer import hparams
from transformer.text.batches import (
    SHARD_STRIDE,
    BatchPlan,
    Shards,
    make_batch,
    prefetch_to_device,
    shard_count,
    training_dataset,
)
from transformer.trainer import Start, TrainingData, TrainingGraph, resolve_shards
from transformer.training import run_update, training_loss
from transformer.workers.cluster import Cluster


class Pairs:
    """A split whose pairs have one piece, their number."""

    def batch(self, indices, number, widths):
        rows = [[10 + index] for index in indices]
        return make_batch(rows, rows, number, widths=widths)


@pytest.fixture
def plan():
    """Batches of 1 to 5 pairs."""
    widths = np.array([2] * 7 + [5, 9, 10])
    return BatchPlan(widths, widths, 10, seed=3)


class Indices:
    """In place of a split: a batch is the indices of its pairs."""

    @staticmethod
    def batch(indices, number, widths):
        return indices, number


def dealt(plan, count, workers, batches):
    """{number: its pairs} of the shards of some batches, in their order."""
    of_each = [Shards(plan, count, workers, worker) for worker in range(workers)]
    shards = [
        worker.shard(Indices, position)
        for position in range(batches * of_each[0].per_worker)
        for worker in of_each
    ]
    return {number: list(pairs) for pairs, number in shards}


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_the_shards_of_a_batch_are_its_pairs_in_their_order(plan, count):
    shards = dealt(plan, count, 1, 12)
    assert len(shards) == 12 * count
    for k in range(12):
        indices = [shards[k + i * SHARD_STRIDE] for i in range(count)]
        assert sum(indices, []) == list(plan.batch(k))
        sizes = [len(shard) for shard in indices]
        assert max(sizes) - min(sizes) <= 1 and sizes[0] > 0


@pytest.mark.parametrize("workers", [2, 3, 4, 8, 11])
def test_they_do_not_depend_on_the_number_of_workers(plan, workers):
    shards, expected = dealt(plan, 8, workers, 5), dealt(plan, 8, 1, 5)
    for number in set(shards) - set(expected):
        assert shards.pop(number) == []  # a worker that has nothing to do
    assert shards == expected
    assert list(shards) == sorted(expected, key=lambda n: (n % SHARD_STRIDE, n))


def test_how_many_there_are():
    """A deterministic run keeps their number; any other does not use it."""
    assert [shard_count(0, workers) for workers in (1, 2, 8, 9)] == [1, 8, 8, 9]
    assert [shard_count(3, workers) for workers in (1, 2, 3)] == [3, 3, 3]
    four = Cluster(["a:1", "b:1", "c:1", "d:1"], 0)
    hp = hparams.HParams(deterministic=True)
    assert resolve_shards(hp).shards == 1
    assert resolve_shards(hp, four).shards == 8
    assert resolve_shards(dataclasses.replace(hp, shards=5), four).shards == 5
    with pytest.raises(ValueError, match="shards: expected 4 or more.*, got 3"):
        resolve_shards(dataclasses.replace(hp, shards=3), four)
    any_other = hparams.HParams(shards=3)
    assert resolve_shards(any_other, four) == any_other


@pytest.mark.parametrize("deterministic, count", [(True, 3), (False, 1)])
def test_only_a_deterministic_run_keeps_them_apart(hp, deterministic, count):
    hp = dataclasses.replace(hp, shards=3, deterministic=deterministic)
    with tf.Graph().as_default():
        graph = TrainingGraph(hp, TrainingData(hp), 0)
    assert graph.update.num_runs == graph.shards.count == count


def test_the_dataset_has_the_shards_from_a_batch_on(graph, plan):
    """One shard ahead; what is fed does not advance it."""
    shards = Shards(plan, count=5, workers=2, worker=1)
    dataset = training_dataset(Pairs(), shards, start=4)
    next_batch = tf.data.make_one_shot_iterator(dataset).get_next()
    batch, take_next = prefetch_to_device(next_batch)
    assert [x.shape.rank for x in batch] == [2, 2, 2, 0]
    one_more = batch.number + 1
    with tf.Session(graph=graph, config=CONFIG) as session:
        session.run(take_next)
        for number in range(4 * 3, 8 * 3):
            assert session.run(one_more, {batch.number: 77}) == 78
            arrays, _ = session.run([batch, take_next])
            for array, expected in zip(arrays, shards.shard(Pairs(), number)):
                np.testing.assert_array_equal(array, expected)


# --- Updates of a model ---------------------------------------------------------------


@pytest.fixture(scope="module")
def hp(digits):
    return hparams.HParams(
        data=digits,
        source_vocab_size=int(corpora.VOCAB_SIZE),
        target_vocab_size=int(corpora.VOCAB_SIZE),
        num_blocks=1,
        d_model=16,
        d_ff=32,
        num_heads=2,
        batch_tokens=60,
        dropout_rate=0.0,  # it depends on where a shard begins
        warmup_steps=10,
        deterministic=True,
    )


@functools.lru_cache(maxsize=None)
def updated(hp):
    """(metrics of two updates, values of the variables after them)."""
    random = np.random.RandomState(0)
    with tf.Graph().as_default():
        graph = TrainingGraph(hp, TrainingData(hp), 0)
        with graph.make_session() as session:
            graph.initialize_or_restore(session, Start(0))
            # TensorFlow's first values depend on the number of operations.
            session.run(
                [
                    tf.assign(v, random.uniform(-0.3, 0.3, v.shape.as_list()))
                    for v in tf.trainable_variables()
                ]
            )
            metrics = [run_update(session, graph.update).metrics for _ in range(2)]
            names = {v.op.name: v for v in tf.global_variables()}
            return metrics, session.run(names)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread_only")
@pytest.mark.parametrize(
    "changes",
    [
        {"clip_norm": 0.5, "accumulate": 2},
        *[dict(dialect=name, batch_tokens=10) for name in ("paper", "tensor2tensor")],
        {"dialect": "tutorial", "batch_tokens": 10},
    ],
    ids=str,
)
def test_a_batch_in_shards_is_the_batch(hp, changes):
    """Also where a shard has no pair, whose mean would be no number.

    A batch of 10 tokens has one pair, or two of one length: padding counts in the
    tutorial.
    """
    hp = dataclasses.replace(hp, **changes)
    whole, values = updated(hp)
    cut, values_of_shards = updated(dataclasses.replace(hp, shards=3))
    for metrics, metrics_of_shards in zip(whole, cut):
        np.testing.assert_allclose(metrics, metrics_of_shards, rtol=1e-5)
    for name, array in values.items():
        np.testing.assert_allclose(values_of_shards[name], array, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("batch_tokens", slow_except([10], [60, 10]))
def test_a_batch_in_micro_batches_is_the_batch(hp, monkeypatch, batch_tokens):
    """Also where a micro-batch has no pair, as of batches of 10 tokens."""
    hp = dataclasses.replace(
        hp, deterministic=False, dialect="tensor2tensor", batch_tokens=batch_tokens
    )
    monkeypatch.setattr("transformer.trainer.has_gpu", lambda: False)
    monkeypatch.setattr("transformer.trainer.MICRO_BATCHES", 1)
    whole, values = updated(hp)
    updated.cache_clear()
    monkeypatch.setattr("transformer.trainer.MICRO_BATCHES", 3)
    cut, values_of_micro_batches = updated(hp)
    updated.cache_clear()
    for metrics, metrics_of_micro_batches in zip(whole, cut):
        np.testing.assert_allclose(metrics, metrics_of_micro_batches, rtol=1e-5)
    for name, array in values.items():
        np.testing.assert_allclose(
            values_of_micro_batches[name], array, rtol=1e-3, atol=1e-5
        )


def test_each_micro_batch_has_a_seed_of_its_own(hp, monkeypatch):
    """With that of another, it would have the same dropout."""
    monkeypatch.setattr("transformer.trainer.has_gpu", lambda: False)
    monkeypatch.setattr("transformer.trainer.MICRO_BATCHES", 2)
    seeds = []

    def loss_with(model, batch, hp, seed):
        seeds.append(seed)
        return training_loss(model, batch, hp, seed)

    monkeypatch.setattr("transformer.training.training_loss", loss_with)
    seen = set()
    with tf.Graph().as_default():
        hp = dataclasses.replace(hp, deterministic=False)
        graph = TrainingGraph(hp, TrainingData(hp), 0)
        with graph.make_session() as session:
            graph.initialize_or_restore(session, Start(0))
            for _ in range(3):
                values, _ = session.run([seeds, graph.update.apply])
                seen |= {tuple(seed) for seed in values}
    assert len(seen) == 3 * 2
