"""shards.py: what a shard is depends on its batch alone, not on who computes it."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG

from transformer.data import BatchPlan, make_batch
from transformer.shards import APART, Shards, chosen_count, prefetched, training_dataset


class Pairs:
    """A corpus whose pairs are told by their only piece."""

    def batch(self, indices, number):
        rows = [[10 + index] for index in indices]
        return make_batch(rows, rows, number)


@pytest.fixture
def plan():
    """Batches of 1 to 5 pairs."""
    widths = np.array([2] * 7 + [5, 9, 10])
    return BatchPlan(widths, widths, 10, seed=3)


def by_number(shards, batches):
    """{number: its pairs} of some batches, in the order in which they are dealt."""
    rounds = range(batches * shards.rounds)
    return {s.number: list(s.pairs) for r in rounds for s in shards.dealt(r)}


def test_the_shards_of_a_batch_are_its_pairs_in_their_order(plan):
    for count in (1, 2, 3, 8):
        shards = by_number(Shards(plan, count), 12)
        for k in range(12):
            parts = [shards[k + i * APART] for i in range(count)]
            assert sum(parts, []) == list(plan.batch(k))
            sizes = [len(part) for part in parts]
            assert max(sizes) - min(sizes) <= 1
            assert sizes[0] > 0
        assert len(shards) == 12 * count


@pytest.mark.parametrize("devices", [1, 2, 3, 4, 8, 11])
def test_they_do_not_depend_on_the_devices(plan, devices):
    dealt = Shards(plan, 8, devices)
    assert all(len(dealt.dealt(number)) == devices for number in range(20))
    found, wanted = by_number(dealt, 5), by_number(Shards(plan, 8), 5)
    for number in set(found) - set(wanted):
        assert found.pop(number) == []  # a device that has nothing to do
    assert found == wanted
    in_order = sorted(wanted, key=lambda number: (number % APART, number))
    assert list(found) == in_order


def test_a_batch_that_is_not_cut_is_one_shard_with_its_number(plan):
    for k in range(9):
        [shard] = Shards(plan).dealt(k)
        assert shard.number == k
        np.testing.assert_array_equal(shard.pairs, plan.batch(k))


def test_how_many_there_are():
    assert [chosen_count(0, devices) for devices in (1, 2, 8, 9)] == [1, 8, 8, 9]
    assert [chosen_count(3, devices) for devices in (1, 2, 3)] == [3, 3, 3]


def test_the_dataset_has_the_rounds_from_a_batch_on(plan):
    shards = Shards(plan, 5, 2)
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = training_dataset(Pairs(), shards, 4)
        batches = tf.data.make_one_shot_iterator(dataset).get_next()
        assert [batch.number.shape.as_list() for batch in batches] == [[], []]
        for number in range(4 * 3, 8 * 3):
            for found, wanted in zip(
                session.run(batches), shards.batches(Pairs(), number)
            ):
                for one, two in zip(found, wanted):
                    np.testing.assert_array_equal(one, two)


def test_rounds_are_taken_one_ahead(graph, plan):
    """What is fed takes nothing, and leaves what comes next in its place."""
    shards = Shards(plan, count=3, devices=2)
    rounds = training_dataset(Pairs(), shards, start=1)
    batches = tf.data.make_one_shot_iterator(rounds).get_next()
    pairs = zip(batches, ["/cpu:0", "/device:CPU:0"])
    current, take_next = zip(*[prefetched(*pair) for pair in pairs])
    one_more = current[0].number + 1
    with tf.Session(graph=graph, config=CONFIG) as session:
        session.run(take_next)
        for number in range(2, 7):
            assert session.run(one_more, {current[0].number: 77}) == 78
            found, _ = session.run([current, take_next])
            wanted = shards.batches(Pairs(), number)
            for batch, expected in zip(found, wanted):
                for array, other in zip(batch, expected):
                    np.testing.assert_array_equal(array, other)
        assert all(x.shape.rank == 2 for x in current[1][:-1])
