import tensorflow.compat.v1 as tf
import tiny

from transformer.hparams import HParams
from transformer.model import Transformer
from transformer.training import cross_entropy


def products(graph):
    """Return the number of multiplications in all matrix products of a graph."""
    total = 0
    for op in graph.get_operations():
        if op.type in ("MatMul", "BatchMatMulV2"):
            a, b = (tensor.shape.as_list() for tensor in op.inputs)
            name = "transpose_a" if op.type == "MatMul" else "adj_x"
            inner = a[-2] if op.get_attr(name) else a[-1]
            size = 1
            for dimension in op.outputs[0].shape.as_list():
                size *= dimension
            total += size * inner
    return total


tiny.start()
hp = HParams(num_blocks=2, source_vocab_size=2000, target_vocab_size=2000)
ids = tf.constant([[5] * 20] * 8)
model = Transformer(hp)
loss = cross_entropy(model.decode(ids, model.encode(ids)), ids)
forward = products(tf.get_default_graph())
tf.gradients(loss.sum, tf.trainable_variables())
both = products(tf.get_default_graph())
print(f"forward {forward / 1e9:.2f} billion multiplications")
print(f"forward and backward {both / 1e9:.2f}: {both / forward:.2f} times as many")
