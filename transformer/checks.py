"""Checks for your own blocks: causality, padding, independence from the batch.

A check calls `fn`, a function of NumPy arrays, and raises CheckFailed for the first
output position that depends on an input it must not see. `graph_function` makes such an
`fn` from TF1 code:

    from transformer.checks import (
        check_batch_invariance, check_causality, check_padding, graph_function)

    check_causality(graph_function(lambda x: my_attention(x, x, causality=True)))
    check_padding(graph_function(my_encoder), vocab_size=100)
    check_batch_invariance(lambda x: my_layer(x).numpy(), num_units=64)

Arguments of all three:
  fn: function of float32 [N, T, num_units], in which rows of zeros are padding; with
    `vocab_size`, function of int32 ids [N, T], 0 = padding. It returns an array
    [N, T, ...]. Dropout must be off.
  num_units: int, D.
  vocab_size: int, V, at least 3; every id is below it.
  batch, length: int, the largest numbers of sentences and of positions in one call of
    `fn`; at least 2.
  tolerance: float, the largest allowed change of an output, relative to the largest
    output or to 1, whichever is larger.
  seed: int, the seed for the random inputs; the same seed gives the same result.

All three also raise CheckFailed if outputs are not finite, have a wrong shape or differ
from call to call, and if `fn` fails on any input but the first; the first two also if
outputs are the same at two positions. None of them checks a formula: a scale that is
missing, or a normalization at another place, passes.
"""

import dataclasses
from typing import Any, Callable, List, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

HINTS = {
    "check_causality": "a causal mask that is missing, reversed or off by one; softmax "
    "over another axis than the keys'; a reshape that mixes positions and heads; "
    "statistics over time; a query that may attend to nothing attends to everything",
    "check_padding": "a padding mask that is missing, reversed or never true; padding "
    "that is no longer zero when a mask is made of it; a mask made of "
    "sums or of single elements; softmax over another axis than the keys'; a reshape "
    "that mixes positions and heads; statistics over time",
    "check_batch_invariance": "statistics over the batch; a reshape that mixes batch "
    "and heads; a width or a stopping point taken from the whole batch",
}
SMALL_CHANGE = 1e-5  # how far an input value is moved
LARGEST_RESPONSE = 1e-3  # how far the outputs may then move


class CheckFailed(AssertionError):
    """A check failed; the message names the position, the difference and the change."""


def graph_function(
    build: Callable, noise: float = 0.1, seed: int = 0
) -> Callable[..., np.ndarray]:
    """Turn TF1 graph code into a function of NumPy arrays.

    Args:
      build: function of placeholders (batch and length unknown) that returns a tensor.
        It is called once, in a graph of its own, with the first arrays.
      noise: the standard deviation of the noise that is added to every trainable
        variable after its initialization, so that a bias of 0 does not hide a bug. 0:
        no noise.
      seed: the seed for the initialization and the noise.
    """
    graph: List[Any] = []

    def fn(*arrays):
        if not graph:
            graph.extend(_build_graph(build, arrays, noise, seed))
        session, inputs, output = graph
        return session.run(output, dict(zip(inputs, arrays)))

    return fn


def _build_graph(build, arrays, noise, seed):
    """Build a graph on the CPU: (session, placeholders like `arrays`, output)."""
    with tf.Graph().as_default():
        tf.set_random_seed(seed)
        inputs = [
            tf.placeholder(x.dtype, ([None] * x.ndim)[:2] + list(x.shape[2:]))
            for x in arrays
        ]
        output = build(*inputs)
        session = tf.Session(config=tf.ConfigProto(device_count={"GPU": 0}))
        session.run(
            [
                tf.global_variables_initializer(),
                tf.local_variables_initializer(),
                tf.tables_initializer(),
            ]
        )
        rng = np.random.RandomState(seed)
        variables = [v for v in tf.trainable_variables() if v.dtype.is_floating]
        values = session.run([tf.identity(v) for v in variables])
        noisy_values = [
            value + noise * rng.standard_normal(value.shape) for value in values
        ]
        session.run(
            [v.initializer for v in variables],
            {v.initial_value: value for v, value in zip(variables, noisy_values)},
        )
    return session, inputs, output


def check_causality(
    fn: Callable,
    *,
    num_units: int = 16,
    vocab_size: Optional[int] = None,
    batch: int = 4,
    length: int = 8,
    tolerance: float = 1e-4,
    seed: int = 0,
    leading_padding: bool = True,
) -> None:
    """Raise CheckFailed if changing an input position changes an output before it.

    Args:
      fn, num_units, vocab_size, batch, length, tolerance, seed: as in the module
        docstring.
      leading_padding: whether some sentences begin with padding; the queries at those
        positions see no token.

    Raises:
      CheckFailed: a position depends on a later one.
    """
    _check_at_least_two("length", length)
    subject = _Subject("check_causality", fn, num_units, vocab_size, tolerance, seed)
    starts = np.arange(batch) * length // (2 * batch) * leading_padding
    is_token = np.arange(length) >= starts[:, None]  # [N, T]
    x = subject.make_inputs(is_token)
    replacement = subject.make_inputs(np.ones_like(is_token))
    expected = subject.compute_first_outputs(x)
    for how, new in (
        ("was changed", replacement),
        ("and all after it were padding", 0 * x),
    ):
        for i in range(1, length):
            end = i + 1 if new is replacement else length
            changed = x.copy()
            change = f"input position {i} {how}"
            changed[:, i:end] = new[:, i:end]
            earlier = np.arange(length) < i  # [T]
            subject.compare(expected, subject.run(change, changed), earlier, change)
    subject.conclude()


def check_padding(
    fn: Callable,
    *,
    num_units: int = 16,
    vocab_size: Optional[int] = None,
    batch: int = 4,
    length: int = 8,
    tolerance: float = 1e-4,
    seed: int = 0,
    with_lengths: bool = False,
    mixes_positions: bool = True,
) -> None:
    """Raise CheckFailed if padding changes an output, or a real row counts as padding.

    The check removes columns of padding at the end from sentences of different lengths;
    one sentence is empty, and some have leading padding. Without `vocab_size`, it also
    moves real rows that resemble padding (rows whose sum is 0, or with a single 0) by a
    tiny amount; no output may change by much. Finally, it changes the real positions of
    a sentence without padding, one by one: other outputs must move.

    Args:
      fn, num_units, vocab_size, batch, length, tolerance, seed: as in the module
        docstring.
      with_lengths: call `fn(inputs, lengths int32 [N])`, for a block that makes its
        mask from the lengths; the padding then holds random values, which vary.
      mixes_positions: whether the outputs depend on other positions, as those of
        self-attention do; False for a feed-forward layer, an embedding, a
        normalization, or attention to something else.

    Raises:
      CheckFailed: a real position depends on padding, or a real row is taken for
        padding.
    """
    subject = _Subject("check_padding", fn, num_units, vocab_size, tolerance, seed)
    lengths = _make_lengths(0, batch, length)
    positions = np.arange(length)
    starts = np.arange(batch) % 2 * (not with_lengths)
    is_token = (positions < lengths[:, None]) & (positions >= starts[:, None])  # [N, T]
    x = subject.make_inputs(is_token)

    def cut(width):
        """Select the sentences that fit the width: (their rows, the inputs of fn).

        The rows are repeated to fill the batch.
        """
        rows = np.resize(np.flatnonzero(lengths <= width), batch)
        padding = subject.make_inputs(~is_token)
        if with_lengths:
            return rows, ((x + padding)[rows, :width], lengths[rows])
        return rows, (x[rows, :width],)

    expected = subject.compute_first_outputs(*cut(length)[1])
    for width in range(1, length + 1):
        num_columns = length - width
        change = f"{num_columns} columns of padding were removed"
        if num_columns == 1:
            change = "1 column of padding was removed"
        if with_lengths:
            change += " and the padding changed"
        rows, arrays = cut(width)
        subject.compare(
            expected[rows, :width],
            subject.run(change, *arrays),
            is_token[rows, :width],
            change,
        )
    full = (np.full_like(lengths, length),) if with_lengths else ()
    if vocab_size is None:
        _check_lookalikes(subject, np.ones_like(is_token), *full)
    subject.conclude()
    if mixes_positions:
        _check_attended(subject, np.ones_like(is_token), *full)


def _check_at_least_two(name, size):
    """Raise ValueError if a size is too small for the check."""
    if size < 2:
        raise ValueError(f"a check: expected {name} of at least 2, got {size}")


def _make_lengths(min_length, batch, length):
    """Make sentence lengths, evenly spaced from `min_length` to `length`: int32 [N]."""
    _check_at_least_two("batch", batch)
    _check_at_least_two("length", length)
    return np.linspace(min_length, length, batch).round().astype(np.int32)


def _check_lookalikes(subject, is_token, *also):
    """Compare the outputs for rows that a wrong mask would treat as padding."""
    x = subject.make_inputs(is_token)
    channels = np.arange(subject.num_units)
    sum_is_0 = (-1) ** channels * (channels < len(channels) // 2 * 2)
    lone_0 = subject.rng.standard_normal(len(channels)) * (channels > 0)
    for i in range(is_token.shape[1]):
        for row, name in ((sum_is_0, "the sum 0"), (lone_0, "a lone 0")):
            if not row.any():  # with a single channel, it is padding
                continue
            near = x.copy()
            near[:, i] = row
            change = (
                f"input position {i}, a real row with {name}, was moved by "
                f"{SMALL_CHANGE}"
            )
            expected = subject.run(change, near, *also)
            near[:, i] += SMALL_CHANGE * subject.rng.standard_normal(near[:, i].shape)
            outputs = subject.run(change, near, *also)
            subject.compare(
                expected,
                outputs,
                is_token,
                change,
                max(LARGEST_RESPONSE, subject.tolerance),
            )


def _check_attended(subject, is_token, *also):
    """Raise CheckFailed if the outputs do not depend on the first or last position.

    The vectors are short, so that a position does not attend to itself alone.
    """
    x = subject.make_inputs(is_token)
    if subject.vocab_size is None:
        x *= 0.1
    replacement = -x if subject.vocab_size is None else x % (subject.vocab_size - 1) + 1
    expected = subject.run("no position was padding", x, *also)
    length = is_token.shape[1]
    moved = np.zeros([length, length], bool)  # [position that is changed, output]
    for i in range(length):
        changed = x.copy()
        changed[:, i] = replacement[:, i]
        outputs = subject.run(f"input position {i} was changed", changed, *also)
        limit = subject.tolerance * max(1, np.abs(expected).max())
        moved[i] = (np.abs(outputs - expected).max(-1) > limit).any(0)
    np.fill_diagonal(moved, False)
    moves_earlier = np.tril(moved).any()
    moves_later = np.triu(moved).any()
    for i, is_due in ((0, moves_later or not moves_earlier), (-1, moves_earlier)):
        if is_due and not moved[i].any():
            subject.fail(
                f"in sentences without padding, no other output moved when input "
                f"position {i % length} was changed. Usual causes: a padding mask that "
                "is reversed, or hides a real position, such as one made from lengths "
                "- 1. If the outputs are to depend on their own position only, pass "
                "mixes_positions=False"
            )


def check_batch_invariance(
    fn: Callable,
    *,
    num_units: int = 16,
    vocab_size: Optional[int] = None,
    batch: int = 4,
    length: int = 8,
    tolerance: float = 1e-4,
    seed: int = 0,
) -> None:
    """Raise CheckFailed if the output of a sentence depends on the rest of its batch.

    Here `fn` may also return [N] or [N, any width], such as the result of a search, if
    the width is the same in every call.

    Args:
      fn, num_units, vocab_size, batch, length, tolerance, seed: as in the module
        docstring.

    Raises:
      CheckFailed: the output of a sentence changes with the other sentences in the
        batch, or with its index in the batch.
    """
    subject = _Subject(
        "check_batch_invariance",
        fn,
        num_units,
        vocab_size,
        tolerance,
        seed,
        by_position=False,
    )
    is_token = np.arange(length) < _make_lengths(1, batch, length)[:, None]  # [N, T]
    x = subject.make_inputs(is_token)
    expected = subject.compute_first_outputs(x)
    change = "the order of the sentences was reversed"
    subject.compare(expected, subject.run(change, x[::-1])[::-1], True, change)
    for n in range(batch):
        own = np.arange(batch)[:, None] == n  # [N, 1]
        change = f"sentence {n} was alone in its batch"
        outputs = np.repeat(subject.run(change, x[n : n + 1]), batch, axis=0)
        subject.compare(expected, outputs, own, change)
        change = f"all sentences but {n} were changed"
        changed = subject.make_inputs(np.ones_like(is_token))
        changed[n] = x[n]
        subject.compare(expected, subject.run(change, changed), own, change)
    subject.conclude()


@dataclasses.dataclass
class _Subject:
    """The function under test, its inputs, and the failures found so far."""

    check: str
    fn: Callable
    num_units: int
    vocab_size: Optional[int]
    tolerance: float
    seed: int
    by_position: bool = True

    def __post_init__(self) -> None:
        if self.vocab_size is not None and self.vocab_size < 3:
            raise ValueError(
                f"a check: expected vocab_size of at least 3, got {self.vocab_size}"
            )
        if self.tolerance < 0:
            raise ValueError(
                f"a check: expected tolerance of at least 0, got {self.tolerance}"
            )
        self.failures: List[Tuple[int, str]] = []
        self.rng = np.random.RandomState(self.seed)

    def make_inputs(self, is_token):
        """Draw ids [N, T] > 0, or vectors [N, T, D]; 0 unless `is_token` [N, T]."""
        if self.vocab_size is None:
            vectors = self.rng.standard_normal(is_token.shape + (self.num_units,))
            return (vectors * is_token[:, :, None]).astype(np.float32)
        ids = self.rng.randint(1, self.vocab_size, is_token.shape)
        return (ids * is_token).astype(np.int32)

    def fail(self, message: str, cause: Optional[Exception] = None) -> None:
        """Raise CheckFailed."""
        raise CheckFailed(f"{self.check}: {message}") from cause

    def run(self, change, *arrays):
        """Run `fn` and check that its outputs, float64 [N, T, C], are finite."""
        try:
            # Copies, because `fn` may change its arguments.
            outputs = np.asarray(self.fn(*map(np.copy, arrays)), np.float64)
        except Exception as error:
            self.fail(f"fn failed when {change}: {error!r}", error)
        leading = arrays[0].shape[: 2 if self.by_position else 1]
        if outputs.shape[: len(leading)] != leading:
            self.fail(
                f"when {change}, expected outputs of shape {leading} and any "
                f"further dimensions, got {outputs.shape}"
            )
        outputs = outputs.reshape((outputs.shape + (1,))[:2] + (-1,))
        for position, sentence in np.argwhere(~np.isfinite(outputs).all(-1).T):
            self.fail(
                f"sentence {sentence}, output position {position} is not finite "
                f"when {change}. Usual causes: softmax over nothing, 0 / 0"
            )
        return outputs

    def compute_first_outputs(self, *arrays):
        """Compute the outputs to compare with, and check that they vary."""
        first = self.fn(*map(np.copy, arrays))  # the caller's errors propagate
        if tf.is_tensor(first) and not hasattr(first, "numpy"):  # of a graph
            raise ValueError(
                "a check: expected fn to return an array, got a tensor of a graph; "
                "wrap it: graph_function(fn)"
            )
        kind = np.asarray(first).dtype.kind
        outputs = self.run("given its first input", *arrays)
        again = self.run("called again", *arrays)
        change = "the same inputs were given again"
        causes = "dropout that is on, or another random operation"
        self.compare(outputs, again, True, change, causes=causes)
        self.conclude()
        limit = 1e-6 * np.abs(outputs).max()
        if self.by_position and kind == "f":
            # In the last sentence, at least the last two positions are real.
            last = outputs.shape[1] - 1
            for rows, i, j in ((slice(None), 0, 1), (slice(-1, None), last - 1, last)):
                pair = outputs[rows, i], outputs[rows, j]
                differ = (arrays[0][rows, i] != arrays[0][rows, j]).any()
                if differ and np.any(pair) and np.allclose(*pair, 1e-6, limit):
                    self.fail(
                        f"output position {j} equals position {i}, but the inputs "
                        "differ. Usual cause: uniform attention, as its logits are "
                        "lost in a huge constant"
                    )
        return outputs

    def compare(self, expected, outputs, where, change, tolerance=None, causes=""):
        """Record the first position in `where` [N, T] that differs too much."""
        if outputs.shape != expected.shape:
            self.fail(
                f"when {change}, expected outputs of shape {expected.shape} "
                f"as in the first call, got {outputs.shape}"
            )
        limit = (tolerance or self.tolerance) * max(1, np.abs(expected).max())
        difference = np.abs(outputs - expected).max(-1)  # [N, T]
        for position, sentence in np.argwhere(((difference > limit) & where).T)[:1]:
            message = (
                f"sentence {sentence}, output position {position} moved by "
                f"{difference[sentence, position]:.3g} (tolerance {limit:.3g}) "
                f"when {change}. Usual causes: {causes or HINTS[self.check]}"
            )
            self.failures.append((position, message))

    def conclude(self) -> None:
        """Raise CheckFailed for the earliest recorded position, if there is one."""
        if self.failures:
            self.fail(min(self.failures, key=lambda failure: failure[0])[-1])
