"""Mixed precision: what is computed in 16 bits, what is not, and how near it comes."""

import dataclasses
import functools

import corpora
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from conftest import CONFIG, HAS_BFLOAT16

from transformer import hparams, model
from transformer.blocks import layers
from transformer.blocks.attention import scaled_dot_product_attention
from transformer.logdir.history import read_dev_scores
from transformer.model import Transformer
from transformer.runtime.precision import compute_type, make_getter
from transformer.training import cross_entropy, make_update
from transformer.translator import Translator

needs_16_bits = pytest.mark.skipif(
    not HAS_BFLOAT16, reason="TensorFlow 1.15 cannot on CPUs"
)
SOME = ("paper", "tutorial", "kyubyong", "tensor2tensor")  # dialects
PRECISIONS = [
    pytest.param(name, marks=needs_16_bits) for name in ("bfloat16", "float16")
]
# What needs more than 16 bits: softmax, reductions of a loss, statistics, sums of rows.
WIDE = {
    "Softmax",
    "LogSoftmax",
    "Log",
    "Exp",
    "Mean",
    "Sum",
    "Max",
    "Rsqrt",
    "Square",
    "L2Loss",
    "BiasAddGrad",
    "UnsortedSegmentSum",
    "Cumsum",
}


def settings(**changes):
    return hparams.HParams(
        source_vocab_size=30,
        target_vocab_size=30,
        **{**dict(num_blocks=2, d_model=32, d_ff=64, num_heads=4), **changes},
    )


class Gradients:
    """The training graph of a small model, and its gradients for one batch."""

    def __init__(self, precision, **changes):
        hp = settings(precision=precision, **changes)
        ids = np.random.RandomState(0).randint(4, 30, [50, 20])
        ids[:, 15:] *= np.arange(50)[:, None] % 2  # half of the rows end with padding
        with tf.Graph().as_default() as self.graph:
            tf.set_random_seed(1)
            model = Transformer(hp, make_getter(compute_type(hp.precision)))
            ids, seed = tf.constant(ids, tf.int32), tf.constant([1, 2])
            logits = model.decode(ids, model.encode(ids, True, seed), True, seed)
            loss = cross_entropy(logits, ids, 0.1, model.dialect.smoothing)
            step = tf.train.get_or_create_global_step()
            self.update = make_update(loss, hp, step)
            self.variables = {v.op.name: v for v in tf.trainable_variables()}
            self.expected = tf.gradients(loss.sum, list(self.variables.values()))

    def values(self):
        with tf.Session(
            graph=self.graph, config=CONFIG
        ) as session, self.graph.as_default():
            session.run(tf.global_variables_initializer())
            expected = [tf.convert_to_tensor(x) for x in self.expected]
            return dict(zip(self.variables, session.run(expected)))

    def nodes(self):
        """All that an update runs, the insides of functions too."""
        results = [
            self.update.apply,
            *(metric.op for metric in tf.nest.flatten(self.update.metrics)),
        ]
        definition = tf.graph_util.extract_sub_graph(
            self.graph.as_graph_def(), [op.name for op in results]
        )
        functions = definition.library.function
        return [
            *definition.node,
            *(node for function in functions for node in function.node_def),
        ]


@functools.lru_cache(None)
def gradients_of(precision, dialect):
    return Gradients(precision, dialect=dialect)


def errors(actual, expected):
    """The relative error of each gradient, by the name of its variable."""
    return {
        name: np.linalg.norm(actual[name] - expected[name])
        / np.linalg.norm(expected[name])
        for name in expected
    }


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "changes",
    [
        *[dict(dialect=name) for name in SOME],
        dict(max_relative_position=3, proximity_bias=True, positions="learned"),
    ],
    ids=str,
)
def test_softmax_statistics_and_losses_are_float32(precision, changes):
    graph = (gradients_of if len(changes) == 1 else Gradients)(precision, **changes)
    nodes = graph.nodes()
    dtype = tf.as_dtype(precision).as_datatype_enum
    for node in nodes:
        assert node.op not in WIDE or node.attr["T"].type != dtype, node
    products = [node for node in nodes if "MatMul" in node.op]
    wide = [node.name for node in products if node.attr["T"].type != dtype]
    # The gradient of each gamma adds up rows, by a product.
    assert all("/ln/" in name for name in wide)
    assert len(wide) == sum(name.endswith("gamma") for name in graph.variables)
    assert len(products) > 50


@pytest.mark.slow
@needs_16_bits
def test_gradients_are_near_those_of_float32():
    """A product of factors of 8 bits is off by less than 2^-8; float16 has 11."""
    expected, medians = gradients_of("float32", "paper").values(), []
    for precision in ("float16", "bfloat16"):
        actual = errors(gradients_of(precision, "paper").values(), expected)
        medians.append(np.median(list(actual.values())))
        assert medians[-1] < 4 * 2.0**-8
        for name, error in actual.items():
            assert 0 < error < 16 * 2.0**-8, name
    assert medians[0] < medians[1] / 2


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_gradient_of_a_bias_is_a_sum_of_many_rows(start, precision):
    """Of 25,000 times 0.01; added up in bfloat16 it would be 4, in float16 32."""
    with tf.variable_scope("", custom_getter=make_getter(tf.as_dtype(precision))):
        outputs = layers.dense(tf.zeros([25000, 1]), 1, True, "x")
    [bias] = [v for v in tf.trainable_variables() if v.op.name == "x/bias"]
    upstream = tf.fill(tf.shape(outputs), tf.cast(0.01, outputs.dtype))
    [gradient] = tf.gradients(outputs, bias, upstream)
    session, _ = start()
    assert gradient.dtype == tf.float32
    np.testing.assert_allclose(session.run(gradient), [250], rtol=0.01)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_loss_of_a_token_that_float16_takes_for_impossible(start, precision):
    """Its probability is e^-30, and the least of float16 is e^-17."""
    kernel = tf.cast(30 * np.eye(2), tf.as_dtype(precision))
    logits = model.compute_logits(tf.constant([[[1.0, 0.0]]]), kernel, None)
    loss = cross_entropy(logits, tf.constant([[1]]))
    session, _ = start()
    assert logits.dtype == tf.float32
    np.testing.assert_allclose(session.run(loss.sum), 30, rtol=1e-2)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_attention_over_many_keys_sums_to_one(start, precision):
    """With weights of bfloat16 alone, 3,000 keys could sum to 0.97."""
    dtype = tf.as_dtype(precision)
    Q, K = (tf.zeros([1, 1, size, 4], dtype) for size in (1, 3000))
    context, weights = scaled_dot_product_attention(Q, K, K + 1)
    session, _ = start()
    assert (context.dtype, weights.dtype) == (dtype, tf.float32)
    actual = session.run([tf.reduce_sum(weights), tf.cast(context, tf.float32)])
    np.testing.assert_allclose(actual[0], 1, rtol=1e-5)
    np.testing.assert_allclose(actual[1], np.ones([1, 1, 1, 4]), rtol=0.01)


def test_tensorflow_1_15_refuses_16_bits_in_a_line(
    digits, tmp_path, capsys, monkeypatch
):
    precision = "float16"
    monkeypatch.setattr(tf, "__version__", "1.15.5")
    monkeypatch.setattr("transformer.runtime.precision.IS_TENSORFLOW_1", True)
    monkeypatch.setattr("transformer.runtime.precision.has_gpu", lambda: False)
    places = ["--data", digits, "--logdir", str(tmp_path / "logs")]
    message = corpora.refusal(capsys, "train", *places, "--precision", precision)
    assert f"expected float32, got {precision}: TensorFlow 1.15.5 cannot" in message
    assert not (tmp_path / "logs").exists()


@pytest.mark.slow
@needs_16_bits
def test_bfloat16_learns_as_much(digits, trained, tmp_path):
    """Dev losses of other seeds are 5 % apart (Multi30k is in docs/multi30k.md)."""
    corpora.run_train(digits, tmp_path, *corpora.SMALL, "--precision", "bfloat16")
    actual, expected = (
        [row["loss"] for row in read_dev_scores(str(logdir))]
        for logdir in (tmp_path, trained)
    )
    assert actual != expected
    np.testing.assert_allclose(actual, expected, rtol=0.02)


@pytest.mark.slow
@needs_16_bits
@pytest.mark.parametrize("count", [1, 2])
def test_translations_in_bfloat16_are_nearly_the_same(trained, lines, count):
    """By one model and by an ensemble; scores differ in what 8 bits leave out.

    Which of two nearly equal translations is found depends on the processor, but each
    is as good in float32, nearly.
    """
    logdirs = [trained] * count
    with Translator(logdirs) as exact, Translator(
        logdirs, decode_precision="bfloat16"
    ) as nearly:
        texts = [best.text for best, *_ in exact.translate(lines)]
        narrow_texts = [best.text for best, *_ in nearly.translate(lines)]
        expected = np.array(exact.score(lines, texts))
        scores = np.array(nearly.score(lines, texts))
        narrow_scores = np.array(exact.score(lines, narrow_texts))
    assert (scores != expected).any()
    np.testing.assert_allclose(scores, expected, rtol=0.05, atol=0.05)
    assert (narrow_scores >= expected - 0.05 - 0.05 * abs(expected)).all()


@pytest.mark.skipif(HAS_BFLOAT16, reason="TensorFlow 2 has it")
def test_tensorflow_1_refuses_to_translate_in_bfloat16(trained):
    with pytest.raises(ValueError, match="decode_precision: expected float32, got bf"):
        Translator(trained, decode_precision="bfloat16")


@pytest.mark.skipif(HAS_BFLOAT16, reason="TensorFlow 2 has it")
@pytest.mark.parametrize("setting", ["precision", "decode_precision"])
def test_tensorflow_1_refuses_bfloat16_before_anything_is_written(
    digits, tmp_path, capsys, setting
):
    message = corpora.refuse_training(
        capsys, digits, str(tmp_path / "logs"), f"--{setting}", "bfloat16"
    )
    assert message.endswith("cannot compute in bfloat16")
    assert f" {setting}: expected float32, got bfloat16" in message


def test_a_log_directory_of_another_tensorflow_can_be_examined(trained, tmp_path):
    logdir = corpora.copy_folder(trained, tmp_path / "logs")
    hp = dataclasses.replace(hparams.load(logdir), decode_precision="bfloat16")
    hparams.save(hp, logdir)
    flags = [f"--logdir={logdir}", "--decode_precision=float32"]
    assert corpora.exit_status("doctor", *flags) in (0, 1)  # 2: refused
