"""Nothing waits for the host: where TensorFlow would run our graphs on a GPU."""

import zlib

import corpora
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG
from placement import DEVICE, HOST, Placement, has_kernels_for_gpus

import hparams
from transformer.blocks.primitives import dropout
from transformer.decoding import SearchOptions
from transformer.dialects import DIALECTS
from transformer.trainer import Data, TrainingGraph
from transformer.translator import Member, TranslationGraph

needs_kernels = pytest.mark.skipif(
    not has_kernels_for_gpus(), reason="this TensorFlow has no kernels for GPUs"
)

# What the host makes of files; its batches are prefetched to the device.
PIPELINE = {"OneShotIterator", "MakeIterator", "IteratorV2", "IteratorGetNext"}
# (what is copied to the host, for what).
TRAINING = {
    ("IsFinite", "Switch"): "whether to update: what must not run is skipped by the "
    "host, which waits for the same number as a metric.",
    ("LogicalAnd", "Switch"): "likewise, whether float16 skips the update.",
}
WAITS = {"Where", "Unique", "UniqueV2", "DynamicPartition"}  # for the host, within
MOST = 1024  # bytes of what is copied, but for the batch and the results
EVERYTHING = dict(
    max_relative_position=4,
    proximity_bias=True,
    pad_sources_to=40,
    positions="learned",
    clip_norm=1.0,
)
SETTINGS = [dict(dialect=name) for name in DIALECTS]
SETTINGS.append(dict(EVERYTHING, dialect="paper"))
SETTINGS += [dict(precision=name) for name in ("bfloat16", "float16")]


def settings(data="", **changes):
    size = int(corpora.VOCAB_SIZE) if data else 1000
    return hparams.HParams(
        data=data,
        source_vocab_size=size,
        target_vocab_size=size,
        num_blocks=2,
        d_model=32,
        d_ff=64,
        num_heads=4,
        batch_tokens=1500,
        **changes,
    )


def refuse_large_copies(copies):
    """Fail where anything large crosses that is neither a batch nor a result."""
    for copy in copies:
        source, target = copy.kinds
        if source not in ("_Arg", "IteratorGetNext") and target != "_Retval":
            assert copy.bytes <= MOST, copy


@needs_kernels
def test_copies_are_found(graph):
    """TensorFlow adds int32 on the host, and int64 where it is."""
    given = tf.placeholder(tf.float32, [300])
    for integer, towards in ((tf.int32, [HOST, DEVICE]), (tf.int64, [])):
        total = tf.cast(tf.cast(given, integer) + tf.ones([300], integer), tf.float32)
        with tf.Session(config=CONFIG) as session:
            found = Placement(session, total * 2, {given: np.arange(300.0)})
        assert not found.without_kernel()
        found = [copy for copy in found.copies() if "_" not in "".join(copy.kinds)]
        assert [copy.towards for copy in found] == towards
        assert all(copy.bytes == 1200 and copy.times == 1 for copy in found)


@needs_kernels
def test_what_has_no_kernel_is_found(graph):
    text = tf.placeholder(tf.string, [1])
    with tf.Session(config=CONFIG) as session:
        found = Placement(session, tf.strings.to_number(text), {text: ["1"]})
    assert found.without_kernel() == ["StringToNumber StringToNumber"]


@pytest.mark.slow
@needs_kernels
@pytest.mark.parametrize("changes", SETTINGS, ids=str)
def test_a_training_step_waits_for_nothing(digits, changes):
    hp = settings(digits, **changes)
    with tf.Graph().as_default() as graph:
        training = TrainingGraph(hp, Data(hp), 0)
        with tf.Session(config=CONFIG) as session:
            training.open(session, None)
            update = training.update
            fetches = [update.apply, update.metrics]
            step = Placement(session, fetches, None, PIPELINE)
    assert "Softmax" in {op.type for op in graph.get_operations()}
    assert {each.split()[0] for each in step.without_kernel()} <= PIPELINE
    refuse_large_copies(step.copies())
    to_host = {copy.kinds for copy in step.copies() if copy.towards == HOST}
    metrics = {kinds for kinds in to_host if kinds[1] == "_Retval"}
    assert to_host - metrics <= set(TRAINING)
    # The batch comes from the device: the next one is copied there meanwhile.
    to_device = [copy for copy in step.copies() if copy.towards == DEVICE]
    large = {copy.kinds for copy in to_device if copy.bytes > MOST}
    assert large == {("IteratorGetNext", "Stage")}
    assert len(metrics) <= len(tf.nest.flatten(update.metrics))


@pytest.mark.slow
@needs_kernels
@pytest.mark.parametrize(
    "search, changes, options",
    [
        ("greedy", {}, {}),
        ("sample", {}, {}),
        ("beam", {}, {}),
        ("beam", {}, {"keep_history": True}),
        ("beam", {}, {"must_end": False}),
        ("beam", EVERYTHING, {}),
        ("greedy", EVERYTHING, {}),
        *[("beam", {"dialect": name}, {}) for name in DIALECTS],
    ],
    ids=str,
)
def test_a_decoding_step_waits_for_its_condition_alone(search, changes, options):
    hp = settings(search=search, max_extra_length=5, **changes)
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        options = SearchOptions(forbidden=(0, 2), **options)
        ops = TranslationGraph([Member(hp, "", None, "")], options)
        feed = {
            ops.source: np.random.RandomState(0).randint(4, 1000, [40, 25]),
            ops.prefix: np.full([40, 1], 7),
        }
        with tf.Session(config=CONFIG) as session:
            session.run(tf.global_variables_initializer())
            placed = Placement(session, ops.found, feed)
    assert not placed.without_kernel()
    refuse_large_copies(placed.copies())
    to_host = [copy for copy in placed.copies() if copy.towards == HOST]
    conditions = [copy for copy in to_host if copy.kinds[1] == "LoopCond"]
    assert {copy.kinds[1] for copy in to_host} <= {"LoopCond", "_Retval"}
    steps, rounds = sorted((copy.times for copy in conditions), reverse=True)
    assert steps > 25 > rounds and all(copy.bytes == 1 for copy in conditions)
    for node in placed.nodes.values():
        if node.node.op in WAITS:
            assert placed.runs[node.node.name] < rounds


def kept(shape, rate, seed, place):
    """Which elements dropout keeps: those whose byte is large, of 4 in each word."""
    size = int(np.prod(shape))
    words = tf.random.stateless_uniform(
        [(size + 3) // 4],
        np.array(seed, np.int64) + np.array([zlib.crc32(place), 0], np.int64),
        -(2**31),
        2**31 - 1,
        tf.int32,
    )
    with tf.Session(config=CONFIG) as session:
        drawn = session.run(words).view(np.uint8)
    return drawn[:size].reshape(shape) >= round(rate * 256)


@pytest.mark.parametrize("rate", [0.1, 0.5])
@pytest.mark.parametrize("seed", [(1, 2), (2**32 - 1, 2**33)])
@pytest.mark.parametrize(
    "shape, shared, drawn",
    [
        ([3, 5, 7], (), [3, 5, 7]),
        ([3, 5, 8], (1,), [3, 1, 8]),
        ([2, 4], (0, 1), [1, 1]),
        ([0, 4], (), [0, 4]),
    ],
)
def test_masks_are_a_function_of_seed_and_place_alone(
    graph, shape, shared, drawn, seed, rate
):
    """By this formula a run of any version continues as it would have gone on."""
    given = tf.placeholder_with_default(tf.ones(shape), [None] * len(shape))
    pair = tf.constant(seed, tf.int64)
    with tf.variable_scope("encoder/block_1"):
        output = dropout(given, rate, seed=pair, name="weights", shared=shared)
    with tf.Session(config=CONFIG) as session:
        found = session.run(output) > 0
    mask = kept(drawn, rate, seed, b"encoder/block_1/weights")
    np.testing.assert_array_equal(found, np.broadcast_to(mask, shape))
