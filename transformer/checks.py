"""Checks for blocks of your own: that nothing is seen which must not be seen.

A check takes `fn`, a function of NumPy arrays, and raises CheckFailed at the first
output position that breaks the promise. `graph_function` makes such a `fn` of TF1 code:

    from transformer.checks import (
        check_batch_invariance, check_causality, check_padding, graph_function)

    check_causality(graph_function(lambda x: my_attention(x, x, causality=True)))
    check_padding(graph_function(my_encoder), vocab_size=100)
    check_batch_invariance(lambda x: my_layer(x).numpy(), num_units=64)

Arguments of all three:
  fn: function of float32 [N, T, num_units], padding being rows of zeros; with
    `vocab_size`, of int32 ids [N, T], 0 = padding. Returns an array [N, T, ...].
    Dropout must be off.
  num_units: int, D.
  vocab_size: int, V, at least 3; the ids are below it.
  batch, length: int, the most sentences and positions that `fn` is given at once; at
    least 2.
  tolerance: float, how far an output may move, in units of the largest output (or of
    1, where that is larger).
  seed: int, of the random inputs; the same seed gives the same verdict.

All three also refuse outputs that are not finite, have another shape, differ from call
to call or are the same at each position, and an `fn` that fails on a further input.
"""

import numpy as np
import tensorflow.compat.v1 as tf

HINTS = {
    "check_causality": "no causal mask, or one that is off by one; statistics over "
    "time; a query that may attend to nothing attends to everything",
    "check_padding": "a padding mask that is missing, reversed or never true; padding "
    "that is no longer zero when a mask is made of it; a mask made of "
    "sums or of single elements; statistics over time",
    "check_batch_invariance": "statistics over the batch; a reshape that mixes batch "
    "and heads; a width or a stop taken from the whole batch",
}
HAIR, JUMP = 1e-5, 1e-3  # what moves an input by the one moves no output by the other


class CheckFailed(AssertionError):
    """A block breaks a promise; the message says where, how far and on what change."""


def graph_function(build, noise=0.1, seed=0):
    """A function of NumPy arrays, made of TF1 graph code.

    Args:
      build: function of placeholders (batch and length unknown), returns a tensor. It
        is called once, in a graph of its own, when the first arrays are known.
      noise: float, standard deviation of what is added to every trainable variable
        after its initialization, lest a bias of 0 hide a bug. 0 adds nothing.
      seed: int, of initialization and noise.
    """
    opened = []

    def fn(*arrays):
        if not opened:
            opened.extend(_open(build, arrays, noise, seed))
        session, inputs, output = opened
        return session.run(output, dict(zip(inputs, arrays)))

    return fn


def _open(build, arrays, noise, seed):
    """(session, placeholders like `arrays`, output) in a new graph, on the CPU."""
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
        noisy = [value + noise * rng.standard_normal(value.shape) for value in values]
        session.run(
            [v.initializer for v in variables],
            {v.initial_value: value for v, value in zip(variables, noisy)},
        )
    return session, inputs, output


def check_causality(
    fn,
    *,
    num_units=16,
    vocab_size=None,
    batch=4,
    length=8,
    tolerance=1e-4,
    seed=0,
    leading_padding=True,
):
    """Changing an input position changes no output position before it.

    Args:
      fn, num_units, vocab_size, batch, length, tolerance, seed: as at the top.
      leading_padding: some sentences begin with padding, whose queries see no token.

    Raises:
      CheckFailed: a position that sees a later one.
    """
    subject = _Subject("check_causality", fn, num_units, vocab_size, tolerance, seed)
    starts = np.arange(batch) * length // (2 * batch) * leading_padding
    real = np.arange(length) >= starts[:, None]  # [N, T]
    x, other = subject.inputs(real), subject.inputs(np.ones_like(real))
    expected = subject.first_outputs(x)
    for how, new in (("was changed", other), ("and all after it were padding", 0 * x)):
        for i in range(1, length):
            end = i + 1 if new is other else length
            changed, change = x.copy(), f"input position {i} {how}"
            changed[:, i:end] = new[:, i:end]
            earlier = np.arange(length) < i  # [T]
            subject.compare(expected, subject.run(change, changed), earlier, change)
    subject.conclude()


def check_padding(
    fn,
    *,
    num_units=16,
    vocab_size=None,
    batch=4,
    length=8,
    tolerance=1e-4,
    seed=0,
    with_lengths=False,
):
    """Padding changes no output at a real position, and only padding counts as such.

    Columns of padding are taken away from sentences of different lengths, one of them
    empty, some with a leading padding. And rows of vectors that are real but look like
    padding (a sum of 0, a lone 0) are moved by a hair: no output may jump.

    Args:
      fn, num_units, vocab_size, batch, length, tolerance, seed: as at the top.
      with_lengths: call `fn(inputs, lengths int32 [N])`, as a block that takes its mask
        from the lengths; what stands in the padding is then random, and is changed.

    Raises:
      CheckFailed: a real position that sees padding, or is taken for padding.
    """
    subject = _Subject("check_padding", fn, num_units, vocab_size, tolerance, seed)
    lengths, places = _lengths(0, batch, length), np.arange(length)
    starts = np.arange(batch) % 2 * (not with_lengths)
    real = (places < lengths[:, None]) & (places >= starts[:, None])  # [N, T]
    x = subject.inputs(real)

    def cut(width):
        """Which sentences fit, repeated to fill the batch, and fn's arguments."""
        rows = np.resize(np.flatnonzero(lengths <= width), batch)
        inputs = x + with_lengths * subject.inputs(~real)
        return rows, (inputs[rows, :width],) + (lengths[rows],) * with_lengths

    expected = subject.first_outputs(*cut(length)[1])
    for width in range(1, length + 1):
        change = (
            f"{length - width} columns of padding were taken away"
            + " and the padding changed" * with_lengths
        )
        rows, arrays = cut(width)
        subject.compare(
            expected[rows, :width],
            subject.run(change, *arrays),
            real[rows, :width],
            change,
        )
    if vocab_size is None:
        full = (np.full_like(lengths, length),) * with_lengths
        _check_lookalikes(subject, np.ones_like(real), *full)
    subject.conclude()


def _lengths(least, batch, length):
    """Lengths of the sentences of a batch, from `least` to `length`: int32 [N]."""
    if batch < 2 or length < 2:
        raise ValueError(
            f"a check: found batch = {batch} and length = {length}, "
            "wanted at least 2 of each"
        )
    return np.linspace(least, length, batch).round().astype(np.int32)


def _check_lookalikes(subject, real, *also):
    """Real rows that a careless mask takes for padding: fn must be continuous there."""
    x, channels = subject.inputs(real), np.arange(subject.num_units)
    sum_is_0 = (-1) ** channels * (channels < len(channels) // 2 * 2)
    lone_0 = subject.rng.standard_normal(len(channels)) * (channels > 0)
    for i in range(real.shape[1]):
        for row, name in ((sum_is_0, "the sum 0"), (lone_0, "a lone 0")):
            near = x.copy()
            near[:, i] = row
            change = f"input position {i}, a real row with {name}, was moved by {HAIR}"
            expected = subject.run(change, near, *also)
            near[:, i] += HAIR * subject.rng.standard_normal(near[:, i].shape)
            found = subject.run(change, near, *also)
            subject.compare(expected, found, real, change, max(JUMP, subject.tolerance))


def check_batch_invariance(
    fn, *, num_units=16, vocab_size=None, batch=4, length=8, tolerance=1e-4, seed=0
):
    """The output of a sentence depends neither on its batch nor on its place there.

    Here `fn` may also return [N] or [N, anything]: the result of a search, say, in a
    width of its own that is the same each time.

    Args:
      fn, num_units, vocab_size, batch, length, tolerance, seed: as at the top.

    Raises:
      CheckFailed: a sentence whose output changes with the company it is in.
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
    real = np.arange(length) < _lengths(1, batch, length)[:, None]  # [N, T]
    x = subject.inputs(real)
    expected = subject.first_outputs(x)
    change = "the order of the sentences was reversed"
    subject.compare(expected, subject.run(change, x[::-1])[::-1], True, change)
    for n in range(batch):
        own = np.arange(batch)[:, None] == n  # [N, 1]
        change = f"sentence {n} was alone in its batch"
        found = np.repeat(subject.run(change, x[n : n + 1]), batch, axis=0)
        subject.compare(expected, found, own, change)
        change = f"all sentences but {n} were changed"
        changed = subject.inputs(np.ones_like(real))
        changed[n] = x[n]
        subject.compare(expected, subject.run(change, changed), own, change)
    subject.conclude()


class _Subject:
    """The function that a check examines, its inputs, and what was found against it."""

    def __init__(
        self, check, fn, num_units, vocab_size, tolerance, seed, by_position=True
    ):
        self.check, self.fn, self.tolerance = check, fn, tolerance
        self.num_units, self.vocab_size = num_units, vocab_size
        self.by_position, self.failures = by_position, []
        self.rng = np.random.RandomState(seed)

    def inputs(self, real):
        """New ids [N, T] above 0, or vectors [N, T, D]; 0 where not `real` [N, T]."""
        if self.vocab_size is None:
            vectors = self.rng.standard_normal(real.shape + (self.num_units,))
            return (vectors * real[:, :, None]).astype(np.float32)
        ids = self.rng.randint(1, self.vocab_size, real.shape)
        return (ids * real).astype(np.int32)

    def fail(self, message, cause=None):
        raise CheckFailed(f"{self.check}: {message}") from cause

    def run(self, change, *arrays):
        """float64 [N, T, C] of `fn`: finite, and of the shape wanted."""
        try:
            outputs = np.asarray(self.fn(*arrays), np.float64)
        except Exception as error:
            self.fail(f"fn failed when {change}: {error!r}", error)
        wanted = arrays[0].shape[: 2 if self.by_position else 1]
        if outputs.shape[: len(wanted)] != wanted:
            self.fail(
                f"when {change}, found outputs of shape {outputs.shape}, wanted "
                f"{wanted} and whatever follows"
            )
        outputs = outputs.reshape((outputs.shape + (1,))[:2] + (-1,))
        for position, sentence in np.argwhere(~np.isfinite(outputs).all(-1).T):
            self.fail(
                f"sentence {sentence}, output position {position} is not finite "
                f"when {change}. Usual causes: softmax over nothing, 0 / 0"
            )
        return outputs

    def first_outputs(self, *arrays):
        """What later outputs are compared to; complains if it is useless for that."""
        kind = np.asarray(self.fn(*arrays)).dtype.kind  # the caller's own errors pass
        outputs = self.run("given its first input", *arrays)
        self.compare(
            outputs,
            self.run("called again", *arrays),
            True,
            "the same inputs were given again, as if dropout were on",
        )
        self.conclude()
        if (
            self.by_position
            and kind == "f"
            and np.allclose(
                outputs[:, 0], outputs[:, 1], 1e-6, 1e-6 * np.abs(outputs).max()
            )
        ):
            self.fail(
                "output position 1 equals position 0 in each sentence, but the "
                "inputs differ. Usual cause: uniform attention, for its logits "
                "are lost beside a huge constant"
            )
        return outputs

    def compare(self, expected, found, where, change, tolerance=None):
        """Notes the first place `where` [N, T] holds and the outputs differ too far."""
        if found.shape != expected.shape:
            self.fail(
                f"when {change}, found outputs of shape {found.shape}, wanted "
                f"{expected.shape} as at first"
            )
        limit = (tolerance or self.tolerance) * max(1, np.abs(expected).max())
        difference = np.abs(found - expected).max(-1)  # [N, T]
        for position, sentence in np.argwhere(((difference > limit) & where).T)[:1]:
            self.failures.append(
                (
                    position,
                    (
                        f"sentence {sentence}, output position {position} moved by "
                        f"{difference[sentence, position]:.3g} (tolerance {limit:.3g}) "
                        f"when {change}. Usual causes: {HINTS[self.check]}"
                    ),
                )
            )

    def conclude(self):
        """Raises for the first position found, if any."""
        if self.failures:
            self.fail(min(self.failures, key=lambda failure: failure[0])[-1])
