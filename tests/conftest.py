"""What every test starts from: the repository on the path, graph mode, own graphs."""
import os
import sys

import numpy as np
import pytest
import sentencepiece  # noqa: F401  before TensorFlow 1.15: see train_vocabulary
import tensorflow.compat.v1 as tf

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
tf.disable_eager_execution()


@pytest.fixture(autouse=True)
def graph():
    """An empty graph, the default one while the test runs."""
    with tf.Graph().as_default() as empty:
        yield empty


@pytest.fixture
def start(graph):
    """start() → (a session in which every variable is random, their values by name).

    Random, because at their first values (a bias of 0, a gamma of 1) a bias that is
    never added and a gamma that never multiplies cannot be seen. The values are float64
    copies for the oracle of what the session holds in float32.
    """
    sessions = []

    def start(seed=0):
        rng = np.random.RandomState(seed)
        session = tf.Session(graph=graph, config=tf.ConfigProto(
            intra_op_parallelism_threads=1, inter_op_parallelism_threads=1))
        sessions.append(session)
        session.run([tf.global_variables_initializer(),
                     tf.local_variables_initializer()])
        values = {}
        for variable in sorted(tf.trainable_variables(), key=lambda v: v.op.name):
            name, shape = variable.op.name, variable.shape.as_list()
            value = rng.randn(*shape) * {1: 0.3, 2: shape[0] ** -0.5}[len(shape)]
            if name.endswith("gamma"):
                value += 1
            values[name] = value.astype(np.float32).astype(np.float64)
            session.run(variable.initializer, {variable.initial_value: values[name]})
        return session, values

    yield start
    for session in sessions:
        session.close()
