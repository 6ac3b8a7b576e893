#!/usr/bin/env bash
# tf2onnx 1.17.0: of two reshapes in a row, the first is removed, although the second takes sizes
# from its result: the converted graph takes them from what came before, and fails when it runs.
# Guessed: a graph that converts without a warning computes what TensorFlow computes.
# Seen: heads split after a dense layer: "cannot be reshaped", because [10, 16] gives N and T.
# Met by: whoever converts attention with an unknown batch and length. (With tf.unstack instead of
# shape[0], shape[1] the optimizer of tf2onnx does not recognize the sizes, and keeps the reshape.)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet tensorflow-cpu==2.21.0 tf2onnx==1.17.0 onnx==1.23.2 onnxruntime==1.32.0

TF_CPP_MIN_LOG_LEVEL=3 env/bin/python - 2> /dev/null <<'PYTHON'
import numpy as np
import onnxruntime
import tensorflow.compat.v1 as tf
import tf2onnx

D = 16
INPUTS = np.random.RandomState(1).randn(2, 5, D).astype(np.float32)


def split_heads_after_a_dense_layer(x, sizes):
    batch, length = sizes(x)
    y = tf.matmul(tf.reshape(x, [-1, D]), tf.eye(D))
    y = tf.reshape(y, [batch, length, D])
    batch, length = sizes(y)
    return tf.identity(tf.reshape(y, [batch, length, 4, D // 4]), name="heads")


def convert(sizes):
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, None, D], name="x")
        heads = split_heads_after_a_dense_layer(x, sizes)
        with tf.Session() as session:
            expected = session.run(heads, {x: INPUTS})
    model, _ = tf2onnx.convert.from_graph_def(
        graph.as_graph_def(), input_names=["x:0"], output_names=["heads:0"]
    )
    return expected, onnxruntime.InferenceSession(model.SerializeToString())


expected, session = convert(lambda x: tf.unstack(tf.shape(x), 3)[:2])
np.testing.assert_array_equal(session.run(None, {"x:0": INPUTS})[0], expected)
print("tf.unstack: the same heads")
expected, session = convert(lambda x: (tf.shape(x)[0], tf.shape(x)[1]))
try:
    session.run(None, {"x:0": INPUTS})
except Exception as error:
    print("shape[0], shape[1]:", str(error).splitlines()[0][-98:])
    assert "cannot be reshaped to the requested shape" in str(error), error
else:
    raise SystemExit("the reshapes are no longer joined")
PYTHON
