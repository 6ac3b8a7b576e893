#!/usr/bin/env bash
# TensorFlow 2.21.0 (LiteRT converter) and tf2onnx 1.17.0: tf.Assert is left out of the converted
# model, without a word; so what a graph checks when it runs is checked no more.
# Guessed: the converter refuses the operation, or the model fails. Seen: it computes.
# Met by: whoever checks masks, lengths or ids in the graph, and takes it to a phone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet tensorflow-cpu==2.21.0 ai-edge-litert==2.3.0 tf2onnx==1.17.0 \
    onnx==1.23.2 onnxruntime==1.32.0

TF_CPP_MIN_LOG_LEVEL=3 env/bin/python - 2> /dev/null <<'PYTHON'
import subprocess
import sys

import numpy as np
import onnxruntime
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from ai_edge_litert.interpreter import Interpreter

tf.disable_eager_execution()
NEGATIVE = np.float32([-2])
with tf.Graph().as_default(), tf.Session() as session:
    x = tf.placeholder(tf.float32, [1])
    with tf.control_dependencies([tf.Assert(tf.reduce_all(x >= 0), ["negative"])]):
        y = x * 3
    try:
        session.run(y, {x: NEGATIVE})
        raise SystemExit("TensorFlow no longer refuses it")
    except tf.errors.InvalidArgumentError:
        print("TensorFlow: refused")
    tf.saved_model.simple_save(session, "saved", {"x": x}, {"y": y})

model = tf2.lite.TFLiteConverter.from_saved_model("saved").convert()
interpreter = Interpreter(model_content=model)
interpreter.allocate_tensors()
interpreter.set_tensor(interpreter.get_input_details()[0]["index"], NEGATIVE)
interpreter.invoke()
result = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
print("LiteRT:", result)
assert result == [-6], result

command = [sys.executable, "-m", "tf2onnx.convert", "--saved-model", "saved"]
subprocess.run([*command, "--output", "y.onnx"], check=True, capture_output=True)
session = onnxruntime.InferenceSession("y.onnx")
[result] = session.run(None, {session.get_inputs()[0].name: NEGATIVE})
print("ONNX:", result)
assert result == [-6], result
PYTHON
