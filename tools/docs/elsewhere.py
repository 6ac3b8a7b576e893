"""Convert stacks of blocks to ONNX and LiteRT, and compare the outputs.

    pip install -e '.[convert]'
    python tools/docs/elsewhere.py

It prints the table of docs/elsewhere.md. Batch and length are unknown when a stack is
converted; the outputs of three batches are compared.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from transformer import modules
from transformer.compat import bojone, kyubyong, sasrec, tensor2tensor, tutorial

D, V = 16, 50
SHAPES = [(2, 5), (3, 11), (1, 200)]


def stack_modules(ids):
    x = modules.embedding(ids, V, D)
    x += modules.positional_encoding(ids, D)
    for i in range(2):
        with tf.variable_scope(f"block_{i}"):
            x = modules.multihead_attention(x, x, num_heads=4, causality=True)
            x = modules.feedforward(x, (32, D))
    return x


def stack_modules_with_masks(ids):
    mask = tf.not_equal(ids, 0)
    x = modules.embedding(ids, V, D, zero_pad=False)
    x += modules.positional_encoding(ids, D, zero_pad=False)
    x = modules.multihead_attention(
        x, x, num_heads=4, key_masks=mask, query_masks=mask, max_relative_position=3
    )
    return modules.feedforward(x, (32, D), mask=mask)


def stack_sasrec(ids):
    mask = tf.cast(tf.not_equal(ids, 0), tf.float32)
    x = sasrec.embedding(ids, V, D)
    for i in range(2):
        with tf.variable_scope(f"block_{i}"):
            x = sasrec.multihead_attention(
                sasrec.normalize(x), x, num_heads=4, causality=True
            )
            x = sasrec.feedforward(sasrec.normalize(x), (D, D), is_training=False)
            x *= tf.expand_dims(mask, -1)
    return sasrec.normalize(x)


def stack_kyubyong(ids):
    x = tf.gather(kyubyong.get_token_embeddings(V, D), ids)
    x += kyubyong.positional_encoding(x)
    padding = tf.equal(ids, 0)
    for i in range(2):
        with tf.variable_scope(f"block_{i}"):
            x = kyubyong.multihead_attention(x, x, x, padding, num_heads=4)
            x = kyubyong.ff(x, (32, D))
    return x


def stack_bojone(ids):
    lengths = tf.reduce_sum(tf.cast(tf.not_equal(ids, 0), tf.int32), 1)
    x = tf.gather(tf.get_variable("table", [V, D]), ids)
    x += bojone.Position_Embedding(x, D)
    x = bojone.Attention(x, x, x, 4, 4, lengths, lengths)
    return bojone.Dense(x, D, seq_len=lengths)


def stack_tensor2tensor(ids):
    x = tensor2tensor.embedding(ids, V, D)
    x *= tf.expand_dims(tf.cast(tf.not_equal(ids, 0), tf.float32), -1)
    bias = tensor2tensor.attention_bias_ignore_padding(
        tensor2tensor.embedding_to_padding(x)
    )
    x = tensor2tensor.add_timing_signal_1d(x)
    for i in range(2):
        with tf.variable_scope(f"block_{i}"):
            y = tensor2tensor.layer_norm(x)
            x += tensor2tensor.multihead_attention(y, None, bias, D, D, D, 4, 0.0)
            x += tensor2tensor.dense_relu_dense(tensor2tensor.layer_norm(x), 32, D)
    return tensor2tensor.layer_norm(x)


def stack_tutorial(ids):
    x = tutorial.embedding(ids, V, D)
    x += tutorial.positional_encoding(ids, D)
    for i in range(2):
        with tf.variable_scope(f"block_{i}"):
            x = tutorial.multihead_attention(x, x, num_heads=4)
            x = tutorial.feedforward(x, (32, D))
    return x


STACKS = {
    "`transformer.modules`": stack_modules,
    "`transformer.modules`, masks given": stack_modules_with_masks,
    "`compat.sasrec`": stack_sasrec,
    "`compat.kyubyong`": stack_kyubyong,
    "`compat.bojone`": stack_bojone,
    "`compat.tensor2tensor`": stack_tensor2tensor,
    "`compat.tutorial`": stack_tutorial,
}


def save(stack, folder):
    """Save a stack as a SavedModel; return (ids, outputs) of a few batches."""
    random = np.random.RandomState(1)
    batches = [random.randint(1, V, shape).astype(np.int32) for shape in SHAPES]
    for ids in batches:
        ids[0, ids.shape[1] // 2 :] = 0  # padding
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        ids = tf.placeholder(tf.int32, [None, None])
        outputs = stack(ids)
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, folder, {"ids": ids}, {"outputs": outputs})
        return [(batch, session.run(outputs, {ids: batch})) for batch in batches]


def compare_onnx(folder, cases):
    """Convert a SavedModel to ONNX; return the largest difference of the outputs."""
    import onnxruntime

    path = folder + ".onnx"
    command = [sys.executable, "-m", "tf2onnx.convert", "--saved-model", folder]
    subprocess.run([*command, "--output", path], check=True, capture_output=True)
    session = onnxruntime.InferenceSession(path)
    name = session.get_inputs()[0].name
    return max(
        np.abs(session.run(None, {name: ids})[0] - expected).max()
        for ids, expected in cases
    )


def compare_litert(folder, cases):
    """Convert a SavedModel to LiteRT; return the largest difference of the outputs."""
    from ai_edge_litert.interpreter import Interpreter

    model = tf2.lite.TFLiteConverter.from_saved_model(folder).convert()
    interpreter = Interpreter(model_content=model)
    [inputs], [outputs] = (
        interpreter.get_input_details(),
        interpreter.get_output_details(),
    )
    differences = []
    for ids, expected in cases:
        interpreter.resize_tensor_input(inputs["index"], ids.shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(inputs["index"], ids)
        interpreter.invoke()
        actual = interpreter.get_tensor(outputs["index"])
        differences.append(np.abs(actual - expected).max())
    return max(differences)


def main():
    tf.disable_eager_execution()
    print("| stack | ONNX | LiteRT |")
    print("|---|---:|---:|")
    for name, stack in STACKS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "saved")
            cases = save(stack, path)
            onnx, litert = compare_onnx(path, cases), compare_litert(path, cases)
        print(f"| {name} | {onnx:.1e} | {litert:.1e} |", flush=True)


if __name__ == "__main__":
    main()
