"""The blocks under tf.distribute.MirroredStrategy: two replicas train as one."""

import subprocess
import sys

import pytest
import tensorflow.compat.v1 as tf

# In a process of its own: TensorFlow divides the CPU in two before anything else.
START = """
import importlib
import numpy as np
import tensorflow
import tensorflow.compat.v1 as tf

config = tensorflow.config.experimental
[cpu] = config.list_physical_devices("CPU")
config.set_virtual_device_configuration(cpu, [config.VirtualDeviceConfiguration()] * 2)
REPLICAS = ["/cpu:0", "/cpu:1"]
IDS = np.array([[5, 6, 7, 0], [3, 0, 0, 0], [1, 2, 3, 4], [9, 8, 0, 0]], np.int32)
"""
GRAPH = """
tf.disable_v2_behavior()
WORDS = np.random.RandomState(0).randn(20, 8).astype(np.float32)


def network(name, ids):
    module = importlib.import_module("transformer." + name)
    if name.endswith(("functional", "tensor2tensor", "kyubyong")):
        x = tf.gather(WORDS, ids)
    else:
        x = module.embedding(ids, 20, 8)
    if name.endswith("functional"):
        lengths = tf.reduce_sum(tf.sign(ids), axis=1)
        x = x + module.position_embedding(x, 8)
        return module.attention(x, x, x, 2, 4, lengths, lengths)
    if name.endswith("tensor2tensor"):
        is_padding = tf.cast(tf.equal(ids, 0), tf.float32)
        bias = module.attention_bias_ignore_padding(is_padding)
        return module.multihead_attention(x, None, bias, 8, 8, 8, 2, 0.0)
    if name.endswith("kyubyong"):
        x = tf.gather(module.get_token_embeddings(20, 8), ids)
        x = module.multihead_attention(x, x, x, tf.equal(ids, 0), 2)
        return module.ff(x, [16, 8])
    if name.endswith("sasrec"):
        x = module.multihead_attention(module.normalize(x), x, 8, 2, causality=True)
        return module.feedforward(x, [8, 8], "ff", 0.0)
    options = {"max_relative_position": 2} if name == "modules" else {}
    x = module.multihead_attention(x, x, 8, 2, **options)
    return module.feedforward(x[0] if isinstance(x, tuple) else x, [16, 8], "ff")


def update(name, ids):
    outputs = network(name, ids)
    weights = tf.reshape(tf.sin(tf.range(32.0)), [4, 8])
    loss = tf.reduce_sum(tf.tanh(outputs) * weights) / 4
    operation = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss)
    with tf.control_dependencies([operation]):
        return tf.identity(loss)


def train(name, initial=None):
    with tf.Graph().as_default(), tf.Session() as session:
        if initial is None:  # one device
            with tf.variable_scope("net"):
                loss = update(name, tf.constant(IDS))
        else:
            strategy = tf.distribute.MirroredStrategy(REPLICAS)

            def step(ids):
                with tf.variable_scope("net"):
                    return update(name, ids)

            with strategy.scope():
                data = tf.data.Dataset.from_tensor_slices(IDS).batch(4).repeat()
                batches = strategy.make_dataset_iterator(data)
                run = getattr(strategy, "run", None) or strategy.experimental_run_v2
                losses = run(step, args=(batches.get_next(),))
                loss = strategy.reduce(tf.distribute.ReduceOp.SUM, losses, None)
            session.run(batches.initialize())
        session.run(tf.global_variables_initializer())
        variables = {v.name.split(":")[0]: v for v in tf.trainable_variables()}
        if initial is None:
            random = np.random.RandomState(1)
            shapes = {name: v.shape.as_list() for name, v in variables.items()}
            initial = {name: random.randn(*shape) for name, shape in shapes.items()}
        assert set(variables) == set(initial), (set(variables), set(initial))
        for variable_name, variable in variables.items():
            for copy in getattr(variable, "values", [variable]):
                copy.load(initial[variable_name], session)
        losses = [session.run(loss) for _ in range(3)]
        return initial, losses, [session.run(variables[name]) for name in initial]


for name in sys.argv[1:]:
    initial, losses, values = train(name)
    _, our_losses, our_values = train(name, initial)
    np.testing.assert_allclose(our_losses, losses, rtol=1e-4)
    for variable, value, our_value in zip(initial, values, our_values):
        np.testing.assert_allclose(our_value, value, atol=1e-4, err_msg=variable)
    assert losses[2] < losses[0] or not initial, losses
    print("as one:", name)
"""
KERAS = """
import keras
from transformer import keras_layers


def make_model(kind, **kwargs):
    keras.utils.set_random_seed(0)
    ids = keras.Input([None], dtype="int32")
    x = keras.layers.Embedding(20, 8, mask_zero=True)(ids)
    x = keras_layers.TrainablePositionEmbedding(10, 8)(x)
    x = keras_layers.SinCosPositionEmbedding(8)(x)
    y = kind(2, 4, **kwargs)([x, x, x] if kind is keras_layers.Attention else x)
    x = keras.layers.GlobalAveragePooling1D()(keras.layers.Add()([x, y]))
    model = keras.Model(ids, keras.layers.Dense(1)(x))
    model.compile("sgd", "mse", jit_compile=False)
    return model


for name in sys.argv[1:]:
    kind = getattr(keras_layers, name)
    models = [make_model(kind)]
    with tf.distribute.MirroredStrategy(REPLICAS).scope():
        models.append(make_model(kind))
    for model in models:
        model.fit(IDS, np.arange(4.0)[:, None], 4, 3, shuffle=False, verbose=0)
    for values in zip(*[model.get_weights() for model in models]):
        np.testing.assert_allclose(*values, atol=1e-6)
    print("as one:", name)
"""
MODULES = ["modules", "functional"] + [
    f"compat.{name}"
    for name in "kyubyong_legacy kyubyong sasrec interhat tensor2tensor".split()
]
LAYERS = ["Attention", "LocalSelfAttention"]


def train_twice(program, names):
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{START}{program}", *names],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    assert done.stdout.count("as one:") == len(names), done.stderr[-3000:]


@pytest.mark.slow
def test_blocks_train_the_same_on_two_replicas():
    train_twice(GRAPH, MODULES)


@pytest.mark.slow
@pytest.mark.skipif(tf.__version__.startswith("1."), reason="Keras 3")
def test_keras_layers_train_the_same_on_two_replicas():
    train_twice(KERAS, LAYERS)
