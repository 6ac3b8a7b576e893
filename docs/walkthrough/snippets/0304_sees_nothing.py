import numpy as np
import tensorflow.compat.v1 as tf
import tiny

from transformer.modules import scaled_dot_product_attention

tiny.start()
q, k, v = (tf.constant(tiny.fixed(name, [1, 1, 3, 4]), tf.float32) for name in "qkv")
mask = (
    tf.constant([[[[1, 1, 0], [1, 1, 1], [0, 0, 0]]]]) > 0
)  # the last query sees none
zeros = scaled_dot_product_attention(q, k, v, mask)
uniform = scaled_dot_product_attention(q, k, v, mask, fully_masked_is_zero=False)
for name, (_, weights) in [("paper", zeros), ("tutorials", uniform)]:
    print(f"{name:10}", *[f"{w:.3f}" for w in tiny.run(weights)[0, 0, 2]])
with np.errstate(invalid="ignore"):
    logits = np.full(3, -np.inf)
    exponentials = np.exp(logits - logits.max())
print("with -inf ", *[f"{w:.3f}" for w in exponentials / exponentials.sum()])
