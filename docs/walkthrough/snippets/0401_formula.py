import numpy as np
import tensorflow.compat.v1 as tf
import tiny

from transformer.modules import scaled_dot_product_attention

tiny.start()
q, k, v = (3 * tiny.fixed(name, [3, 4]) for name in "QKV")
logits = q @ k.T / np.sqrt(4)
weights = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
context = weights @ v
tensors = [tf.constant(x[None, None], tf.float32) for x in (q, k, v)]
ours = tiny.run(scaled_dot_product_attention(*tensors))
print("weights, a row for each query:")
tiny.picture(weights)
print("first row:", *[f"{w:.3f}" for w in weights[0]], "sum", f"{weights[0].sum():.3f}")
print("context, first row:", *[f"{x:.3f}" for x in context[0]])
print("ours differs by", f"{abs(ours[0][0, 0] - context).max():.4f}")
