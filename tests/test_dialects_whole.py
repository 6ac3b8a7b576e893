"""Whole models beside recorded numbers: logits, losses, gradients, updates, searches.

They are of the tutorial (A), Kyubyong (B) and tensor2tensor (D). The sizes are those
that the import finds in the recorded variables.
"""

import fixtures
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG, initialize
from originals import dense_gradients
from recorded import RECORDED, cut_after_end, recorded_losses, shift_right, token_ids

from transformer import decoding, hparams, training
from transformer.compat import convert
from transformer.model import Transformer

WORST_SCORE = -1e6  # below it, what is recorded are fillers
NOISE = 1e-6  # gradients below this have few digits that are not rounding errors

SOURCE = {"A": "tutorial", "B": "kyubyong", "D": "tensor2tensor"}

pytestmark = pytest.mark.usefixtures("one_thread_only")


def is_whole(meta):
    """Whether a case is a whole model, with gradients."""
    return meta.get("function", "").startswith(
        ("train.Graph(is_training=True)", "model.Transformer", "models.transformer.Tr")
    )


WHOLE = fixtures.over("A", "B", "D", where=is_whole)
TRAINED = fixtures.over("A", "B", where=is_whole)


class Whole:
    """A recorded case, and our model with its variables in a session."""

    def __init__(self, name, variables="var", of=None):
        self.case = case = fixtures.load(name)
        source = SOURCE[name[0]]
        self.names, kwargs = RECORDED[source], case["meta"]["kwargs"]
        self.losses = recorded_losses(case, self.names)
        held = fixtures.load(of) if of else case
        arrays = convert.join_shards(fixtures.group(held, variables))
        self.hp = hparams.HParams(
            num_heads=kwargs["num_heads"],
            learning_rate=kwargs.get("lr", 0.0),
            warmup_steps=kwargs.get("warmup_steps", 4000),
            dropout_rate=0.0,
            **convert.infer_settings(source, arrays),
        )
        self.model = Transformer(self.hp)
        self.source = tf.constant(token_ids(case[self.names.source]))
        self.memory = self.model.encode(self.source)
        if self.names.target_out in case:
            self.build_loss()
        self.variables = self.rename_arrays("var", held)
        self.session = tf.Session(config=CONFIG)

    def build_loss(self):
        """The logits of the recorded target."""
        names, case = self.names, self.case
        self.target_out = token_ids(case[names.target_out])
        target_in = (
            token_ids(case[names.target_in])
            if names.target_in
            else shift_right(self.target_out, names.first)
        )
        target_in = tf.constant(target_in)
        self.logits = self.model.decode(target_in, self.memory)

    def loss(self, epsilon, target_out=None):
        if target_out is None:
            target_out = self.target_out
        return training.cross_entropy(
            self.logits, tf.constant(target_out), epsilon, self.model.dialect.smoothing
        )

    def rename_arrays(self, prefix, case=None):
        """The recorded arrays below a prefix, by our names."""
        arrays = convert.join_shards(fixtures.group(case or self.case, prefix))
        space = self.case["meta"].get("target_space_id", 0)
        converted = convert.convert(arrays, self.hp, space).arrays
        return {
            name: array
            for name, array in converted.items()
            if not name.endswith(convert.SLOTS)
            and name not in (*convert.POWERS, convert.STEP)
        }

    def start(self):
        """Gives every variable its value; the session."""
        self.session.run(tf.global_variables_initializer())
        initialize(self.session, self.variables)
        return self.session


def assert_all_close(actual, recorded):
    assert set(actual) == set(recorded)
    for name in sorted(actual):
        fixtures.assert_close(actual[name], recorded[name], name)


def states_of(logits):
    """What the output layer multiplies, the states of the decoder: [N * T, D]."""
    op = logits.op
    while op.type != "MatMul":
        op = op.inputs[0].op
    return op.inputs[0]


@WHOLE
def test_logits_predictions_and_memory(name):
    whole = Whole(name)
    case = whole.case
    logits, states, memory, mask = whole.start().run(
        [whole.logits, states_of(whole.logits), whole.memory.states, whole.memory.mask]
    )
    for key in ("out/logits", "out/logits_train_mode"):
        if key in case:
            fixtures.assert_close(logits, case[key].reshape(logits.shape), key)
    for key in ("out/preds", "out/y_hat"):
        if key in case:
            assert (logits.argmax(-1) == case[key]).all()
    for key in ("out/enc", "out/memory"):
        if key in case:
            fixtures.assert_close(memory, case[key], key)
    if "out/dec" in case:
        expected = case["out/dec"]
        fixtures.assert_close(
            states.reshape(expected.shape), expected, "decoder states"
        )
    if "out/src_masks" in case:  # True where padding is
        assert np.array_equal(mask[:, 0, 0], ~case["out/src_masks"])
    if "out/acc" in case:
        is_token = whole.target_out != 0
        assert np.array_equal(is_token, case["out/istarget"])
        accuracy = (logits.argmax(-1) == whole.target_out)[is_token].mean()
        fixtures.assert_close(accuracy, case["out/acc"], "accuracy")


@pytest.mark.slow
@WHOLE
def test_gradients_of_every_variable(name):
    whole = Whole(name)
    variables = tf.trainable_variables()
    places = {0: "grad", 1: "out/grad_train"} if len(whole.losses) > 1 else {0: "grad"}
    for place, prefix in places.items():
        if not fixtures.group(whole.case, prefix):
            continue
        loss = whole.loss(whole.losses[place][1])
        gradients = dense_gradients(loss.sum / loss.count, variables)
        actual = whole.start().run(
            {v.op.name: gradient for v, gradient in zip(variables, gradients)}
        )
        assert_all_close(actual, whole.rename_arrays(prefix))


@pytest.mark.slow
@TRAINED
def test_five_updates(name):
    whole = Whole(name)
    case, (_, epsilon) = whole.case, whole.losses[0]
    loss = whole.loss(epsilon)
    global_step = tf.train.get_or_create_global_step()
    update = training.make_update(loss, whole.hp, global_step)
    session = whole.start()
    (expected,) = (case[key] for key in case if key.startswith("out/losses_after_each"))
    losses, rates = [], []
    for _ in expected:
        rates.append(session.run([update.metrics.learning_rate, update.apply])[0])
        total, count = session.run(loss)
        losses.append(total / count)
    fixtures.assert_close(np.array(losses), expected, "losses")
    if "out/lr_used_at_each_step" in case:
        fixtures.assert_close(np.array(rates), case["out/lr_used_at_each_step"])
    assert session.run(global_step) == case["out/global_step_after"]
    if fixtures.group(case, "out/var_after_5_steps"):
        actual = session.run({v.op.name: v for v in tf.trainable_variables()})
        recorded, gradients = (
            whole.rename_arrays(prefix) for prefix in ("out/var_after_5_steps", "grad")
        )
        for name, gradient in gradients.items():
            # Adam steps by the sign of a gradient that is nothing but rounding. That of
            # a bias of keys is, sooner or later: it adds the same to a query's logits.
            is_noise = (gradient != 0) & (abs(gradient) < NOISE)
            is_noise |= name.endswith("k/bias")
            assert (abs(actual[name] - recorded[name]) <= 2 * sum(rates)).all()
            fixtures.assert_close(
                np.where(is_noise, 0, actual[name]),
                np.where(is_noise, 0, recorded[name]),
                name,
            )


# --- Searches -------------------------------------------------------------------------


def search(whole, function, length, **options):
    """The Hypotheses of a search in which every piece may occur."""
    size = options.get("beam_size", 1)
    step, state = whole.model.start_search(whole.memory, size)
    limits = tf.fill([whole.source.shape.as_list()[0]], length)
    names = whole.names
    options = decoding.SearchOptions(bos=names.first, eos=names.end, **options)
    actual = function(step, state, limits, options)
    return whole.start().run(actual)


def pad(ids, length):
    """Ids [..., T], cut off or padded to [..., length]."""
    ids = ids[..., :length]
    before = [[0, 0]] * (ids.ndim - 1)
    return np.pad(ids, [*before, [0, length - ids.shape[-1]]], mode="constant")


def assert_greedy(whole, recorded):
    expected = cut_after_end(recorded, whole.names.end)
    length = expected.shape[1]
    # One more: the last place may hold nothing but EOS.
    hypotheses = search(whole, decoding.greedy, length + 1)
    np.testing.assert_array_equal(pad(hypotheses.ids[:, 0], length), expected)


@pytest.mark.slow
@fixtures.over("B", "D", where=is_whole)
def test_greedy_output(name):
    whole = Whole(name)
    assert_greedy(whole, whole.case[whole.names.greedy])


@pytest.mark.slow
@fixtures.over("B", where=is_whole)
def test_greedy_output_after_five_updates(name):
    whole = Whole(name, "out/var_after_5_steps")
    whole.variables = whole.rename_arrays("out/var_after_5_steps")
    assert_greedy(whole, whole.case["out/greedy_decode_after_5_steps"])


def model_of(name):
    """The case whose variables a greedy case of the tutorial was decoded with."""
    return max(
        (
            prefix
            for prefix in fixtures.cases("A", where=is_whole)
            if name.startswith(prefix)
        ),
        key=len,
    )


@fixtures.over("A", function="train.Graph(is_training=False)*")
def test_greedy_output_of_the_tutorial(name):
    whole = Whole(name, of=model_of(name))
    assert_greedy(whole, whole.case["out/preds"])


@pytest.mark.slow
@fixtures.over("D", where=is_whole)
def test_beams_of_tensor2tensor(name):
    whole = Whole(name)
    length = whole.case["out/beam4_outputs"].shape[-1]
    options = {"beam_size": 4, "n_best": 4, "length_penalty": 0.6, "must_end": False}
    hypotheses = search(whole, decoding.beam, length, **options)
    for kind in ("out/beam4", "out/beam4_slow"):
        scores = whole.case[kind + "_scores"]
        is_real = scores > WORST_SCORE
        fixtures.assert_close(hypotheses.scores[is_real], scores[is_real], kind)
        # Rounding decides the order of hypotheses with equal scores.
        apart = -np.diff(scores) > fixtures.TOLERANCE  # [N, 3]
        edges = [[0, 0], [1, 1]]
        apart = np.pad(apart, edges, mode="constant", constant_values=True)
        is_alone = is_real & apart[:, :-1] & apart[:, 1:]
        expected = whole.case[kind + "_outputs"]
        ids = pad(hypotheses.ids, length)
        np.testing.assert_array_equal(
            *(
                cut_after_end(rows[is_alone], whole.names.end)
                for rows in (ids, expected)
            )
        )


# --- Learning rates -------------------------------------------------------------------


def is_learning_rate(meta):
    function = meta.get("function", "")
    return "noam_scheme" in function or "learning_rate_factor" in function


@fixtures.over("B", "D", where=is_learning_rate)
def test_learning_rate(name):
    case = fixtures.load(name)
    kwargs = case["meta"]["kwargs"]
    if name.startswith("B"):
        hp = hparams.HParams(
            dialect="kyubyong",
            learning_rate=kwargs["init_lr"],
            warmup_steps=int(kwargs["warmup_steps"]),
        )
        step = case["in/global_step"]
    else:
        hp = hparams.HParams(
            dialect="tensor2tensor",
            learning_rate=kwargs["constant"],
            d_model=kwargs["hidden_size"],
            warmup_steps=kwargs["warmup"],
        )
        step = case["in/step"]
    rate = training.learning_rate(hp, tf.constant(step, tf.int64))
    with tf.Session(config=CONFIG) as session:
        fixtures.assert_close(session.run(rate), case["out/out"], name)
