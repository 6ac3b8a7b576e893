"""The checks: our blocks pass; the known bugs of the sources are caught, one by one."""

import numpy as np
import oracle
import pytest
import tensorflow.compat.v1 as tf

from transformer import checks, modules
from transformer.blocks import layers
from transformer.checks import CheckFailed, graph_function
from transformer.decoding import SearchOptions, beam
from transformer.hparams import HParams
from transformer.model import Transformer

CAUSALITY, PADDING, BATCH = (
    checks.check_causality,
    checks.check_padding,
    checks.check_batch_invariance,
)
ALL = (CAUSALITY, PADDING, BATCH)
HP = HParams(
    num_blocks=2,
    d_model=8,
    d_ff=16,
    num_heads=2,
    source_vocab_size=13,
    target_vocab_size=13,
)
IDS, VECTORS = {"vocab_size": 13}, {"num_units": 16}


# --- Our own blocks -------------------------------------------------------------------


def decoder(target):
    """The decoder, on one source for all."""
    model = Transformer(HP)
    source = tf.tile([[5, 4, 9, 3, 0]], [tf.shape(target)[0], 1])
    return model.decode(target, model.encode(source))


def same_in_both_languages(ids):
    model = Transformer(HP)
    return model.decode(ids, model.encode(ids))


def two_best_of_a_search(ids):
    """Scores [N, 2] of a beam search whose step depends on the ids of each sentence."""

    def step(pieces, _, state):
        wishes = tf.gather(table, pieces) + tf.cast(state[:, None, None], tf.float32)
        return 2 * tf.sin(7 * wishes), state + 1

    table = tf.get_variable("table", [13, 13])
    sums = tf.reduce_sum(ids, axis=1)
    return beam(
        step, sums, tf.fill([tf.shape(ids)[0]], 9), SearchOptions(beam_size=2, n_best=2)
    ).scores


OURS = {
    "causal_attention": (
        lambda x: modules.multihead_attention(x, x, causality=True),
        VECTORS,
        ALL,
    ),
    "attention": (
        lambda x: modules.multihead_attention(x, x),
        VECTORS,
        (PADDING, BATCH),
    ),
    "decoder": (decoder, IDS, ALL),
    "model": (same_in_both_languages, IDS, (PADDING, BATCH)),
    "beam_search": (two_best_of_a_search, IDS, (BATCH,)),
}


@pytest.mark.parametrize("name", OURS)
def test_our_blocks_pass(name):
    build, inputs, passes = OURS[name]
    fn = graph_function(build)
    for check in passes:
        check(fn, **inputs)


def test_mask_of_lengths():
    def build(x, lengths, mask_keys):
        is_token = tf.sequence_mask(lengths, tf.shape(x)[1])
        seen = is_token if mask_keys else tf.ones_like(is_token)
        return modules.multihead_attention(x, x, key_masks=seen, query_masks=is_token)

    PADDING(graph_function(lambda *args: build(*args, True)), with_lengths=True)
    with pytest.raises(CheckFailed, match="and the padding changed"):
        PADDING(graph_function(lambda *args: build(*args, False)), with_lengths=True)


# --- The sources' bugs ----------------------------------------------------------------
#
# Each is a stand-in of a few lines, written from the description of what the source
# does. `mended` is the same without the bug, and passes.

RANDOM = np.random.RandomState(7)
W_Q, W_K, W_V = RANDOM.randn(3, 16, 16) / 4
TABLE = np.concatenate([np.zeros([1, 16]), RANDOM.randn(12, 16)])  # row 0 is padding
POSITIONS = RANDOM.randn(8, 16)


def attention(queries, keys, allowed, blind_are_zero=False):
    """One head without residual: `allowed` is bool, broadcastable to [N, Tq, Tk]."""
    logits = queries @ W_Q @ np.swapaxes(keys @ W_K, 1, 2) / 4
    allowed = np.broadcast_to(allowed, logits.shape)
    weights = oracle.softmax(np.where(allowed, logits, -1e9))
    if blind_are_zero:
        weights = weights * allowed.any(-1, keepdims=True)
    return weights @ (keys @ W_V)


def real_rows(x):
    return (x != 0).any(-1)


def learned_positions_on_padding(ids, mended):
    """The positions are added to padding too; the mask then asks which rows are 0."""
    positions = POSITIONS[: ids.shape[1]] * ((ids != 0)[:, :, None] if mended else 1)
    x = TABLE[ids] + positions
    return attention(x, x, real_rows(x)[:, None])


def mask_of_row_sums(x, mended):
    """A key is padding if its channels sum to 0, whatever they are."""
    is_token = real_rows(x) if mended else x.sum(-1) != 0
    return attention(x, x, is_token[:, None])


def blind_queries_see_all(x, mended):
    """A causal query whose visible keys are all padding attends to all keys alike."""
    queries = np.broadcast_to(POSITIONS[: x.shape[1]], x.shape)
    causal = np.tril(np.ones([x.shape[1]] * 2, bool))
    return attention(queries, x, real_rows(x)[:, None] & causal, mended)


def positions_masked_by_element(x, mended):
    """An encoding is left out wherever an element, not a row, of the input is 0."""
    is_token = real_rows(x)[:, :, None] if mended else x != 0
    return x + POSITIONS[: x.shape[1]] * is_token


def logits_lost_in_a_constant(x, mended):
    """The default's guard is always true: 1e10 is taken from every float32 logit."""
    logits = (x @ W_Q @ np.swapaxes(x @ W_K, 1, 2) / 4).astype(np.float32)
    logits -= np.float32(1e12) * ~real_rows(x)[:, None]
    return oracle.softmax(logits - np.float32(0 if mended else 1e10)) @ (x @ W_V)


def windows_over_padding(x, lengths, mended):
    """Local, without x_mask: what lies behind the end of a sentence serves as keys."""
    places = np.arange(x.shape[1])
    near = abs(places[:, None] - places) <= 2
    is_token = (places < lengths[:, None])[:, None]
    return attention(x, x, near & is_token if mended else near)


def search_stopped_by_the_batch(ids, mended):
    """Two best scores: a sentence is searched as long as any other of its batch is."""
    found = -2 - np.sin(ids[:, :1] * np.arange(1, 9))  # [N, 8], one at each step
    done = found.max(-1, keepdims=True) <= np.maximum.accumulate(found, -1)
    steps = 2 + done.argmax(-1)  # [N], one after the best
    if not mended:
        steps[:] = steps.max()
    return np.stack([np.sort(row[:n])[:-3:-1] for row, n in zip(found, steps)])


def dropout_that_is_on(x, mended):
    return x if mended else x * (np.random.uniform(size=x.shape) < 0.5)


def softmax_over_nothing(x, mended):
    """Padding is masked by minus infinity: an empty sentence becomes NaN."""
    is_token = real_rows(x)[:, None]
    if mended:
        return attention(x, x, is_token, True)
    with np.errstate(invalid="ignore"):
        logits = np.where(is_token, x @ W_Q @ np.swapaxes(x @ W_K, 1, 2), -np.inf)
        return oracle.softmax(logits) @ (x @ W_V)


REMOVED = "output position 0 moved by .* columns of padding were removed"
CAUGHT = [  # source, stand-in, the check that catches it, its arguments, what it says
    ("tutorial", learned_positions_on_padding, PADDING, IDS, REMOVED),
    ("tutorial", mask_of_row_sums, PADDING, {}, "a real row with the sum 0"),
    (
        "tutorial",
        blind_queries_see_all,
        CAUSALITY,
        {},
        "sentence 1, output position 0 moved by .* input position 1 was changed",
    ),
    (
        "kyubyong",
        positions_masked_by_element,
        PADDING,
        {"mixes_positions": False},
        "a real row with a lone 0",
    ),
    ("bojone", logits_lost_in_a_constant, PADDING, {}, "uniform attention"),
    (
        "bojone",
        windows_over_padding,
        PADDING,
        {"with_lengths": True},
        "and the padding changed",
    ),
    ("tensor2tensor", search_stopped_by_the_batch, BATCH, IDS, "sentence . was alone"),
    ("lilianweng", dropout_that_is_on, CAUSALITY, {}, "causes: dropout that is on"),
    (
        "elsewhere",
        softmax_over_nothing,
        PADDING,
        {},
        "sentence 0, output position 0 is not finite",
    ),
]


@pytest.mark.parametrize(
    "source,stand_in,check,arguments,says",
    CAUGHT,
    ids=["{}-{}-{}".format(row[0], row[1].__name__, row[2].__name__) for row in CAUGHT],
)
def test_known_bug_is_caught(source, stand_in, check, arguments, says):
    with pytest.raises(CheckFailed, match=says):
        check(lambda *arrays: stand_in(*arrays, mended=False), **arguments)
    check(lambda *arrays: stand_in(*arrays, mended=True), **arguments)


# --- What the checks say --------------------------------------------------------------


def leaking(pairs):
    """A function whose output position p sees input position i, for pairs (p, i)."""

    def fn(x):
        outputs = x.copy()
        for position, source in pairs:
            outputs[:, position] += x[:, source]
        return outputs

    return fn


def test_the_first_output_position_is_named_and_the_input_it_saw():
    with pytest.raises(CheckFailed) as caught:
        CAUSALITY(leaking([(3, 5), (2, 6)]))
    message = str(caught.value)
    assert "check_causality: sentence 0, output position 2 moved by" in message
    assert "when input position 6 was changed" in message and "tolerance" in message
    assert "a causal mask that is missing" in message
    with pytest.raises(CheckFailed) as again:
        CAUSALITY(leaking([(3, 5), (2, 6)]))
    assert str(again.value) == message


@pytest.mark.parametrize("pair", [(0, 1), (0, 7), (6, 7)], ids=str)
def test_no_leak_is_missed(pair):
    says = f"output position {pair[0]} .* input position {pair[1]} was changed"
    with pytest.raises(CheckFailed, match=says):
        CAUSALITY(leaking([pair]))


def test_leading_padding_can_be_left_out():
    CAUSALITY(lambda x: blind_queries_see_all(x, mended=False), leading_padding=False)


def test_a_mask_that_hides_real_positions_is_caught():
    """The padding is zero, so that attending only to it changes nothing."""

    def masked(hides):
        return lambda x: x + attention(x, x, hides(real_rows(x))[:, None], True)

    PADDING(masked(lambda is_token: is_token))
    with pytest.raises(CheckFailed, match="position 0 was changed.* is reversed"):
        PADDING(masked(np.logical_not))
    with pytest.raises(CheckFailed, match="mixes_positions=False"):
        PADDING(lambda x: 2 * x)

    def counted(missing):
        def fn(x, lengths):
            seen = np.arange(x.shape[1]) < lengths[:, None] - missing
            return attention(x, x, seen[:, None], True)

        return fn

    PADDING(counted(0), with_lengths=True)
    with pytest.raises(CheckFailed, match="position 7 was changed.* lengths - 1"):
        PADDING(counted(1), with_lengths=True)


def test_blocks_that_are_right_are_no_alarm():
    """Ids that repeat, attention to later positions only, wide vectors."""

    def encoder(ids):
        x = TABLE[ids]
        return x + attention(x, x, (ids != 0)[:, None], True)

    for seed in range(20):
        PADDING(encoder, vocab_size=4, seed=seed)

    def backwards(x):
        is_token = real_rows(x)
        later = np.triu(np.ones([x.shape[1]] * 2, bool))
        return (x + attention(x, x, is_token[:, None] & later)) * is_token[..., None]

    PADDING(backwards)

    def unprojected(x):
        weights = oracle.softmax(
            np.where(real_rows(x)[:, None], x @ x.transpose(0, 2, 1) / 512**0.5, -1e9)
        )
        return x + weights @ x

    PADDING(unprojected, num_units=512)


def test_a_function_may_change_its_argument():
    def fn(x):
        x += 1
        return x

    CAUSALITY(fn)


def test_tolerance():
    def fn(x):
        return x + 0.001 * x[:, ::-1]

    CAUSALITY(fn, tolerance=0.01)
    with pytest.raises(CheckFailed):
        CAUSALITY(fn)


@pytest.mark.parametrize("check", [CAUSALITY, PADDING])
def test_wrong_shape(check):
    with pytest.raises(
        CheckFailed, match=r"expected outputs of shape \(4, .*, got \(4, .*, 16\)"
    ):
        check(lambda x: x[:, 1:])
    with pytest.raises(
        CheckFailed, match=r"expected outputs of shape \(4, .*, got \(4,\)"
    ):
        check(lambda x: x.sum((1, 2)))


def test_a_function_of_a_graph_is_to_be_wrapped():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="graph_function"):
        CAUSALITY(tf.identity)
    for wrong in ({"vocab_size": 2}, {"tolerance": -1}):
        with pytest.raises(ValueError, match="expected .* of at least"):
            CAUSALITY(lambda x: x, **wrong)


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
@pytest.mark.parametrize("sizes", [{"batch": 1}, {"length": 1}], ids=str)
def test_sizes_in_which_nothing_can_be_seen_are_refused(check, sizes):
    """But one sentence is enough to see that its future is hidden."""
    if check is CAUSALITY and "batch" in sizes:
        return check(lambda x: x, **sizes)
    [(name, size)] = sizes.items()
    with pytest.raises(ValueError, match=f"expected {name} of at least 2, got {size}"):
        check(lambda x: x, **sizes)


def test_a_result_for_each_sentence_is_enough_for_the_batch():
    BATCH(lambda x: x.sum((1, 2)))
    with pytest.raises(CheckFailed, match="output position 0 moved by"):
        BATCH(lambda x: x.sum((1, 2)) + x.sum())


# --- Graphs ---------------------------------------------------------------------------


def test_graph_function_builds_once_in_a_graph_of_its_own(graph):
    built = []

    def build(x, lengths):
        built.append((x.shape.as_list(), lengths.shape.as_list()))
        return (
            layers.dense(x, 3, True, "layer")
            + tf.cast(lengths, tf.float32)[:, None, None]
        )

    fn = graph_function(build)
    x, lengths = np.ones([2, 4, 5], np.float32), np.array([4, 1], np.int32)
    first = fn(x, lengths)
    np.testing.assert_array_equal(fn(x, lengths), first)
    np.testing.assert_array_equal(graph_function(build)(x, lengths), first)
    assert (graph_function(build, seed=1)(x, lengths) != first).all()
    assert fn(x[:1, :2], lengths[:1]).shape == (1, 2, 3)
    assert built == [([None, None, 5], [None])] * 3
    assert not graph.get_operations()
