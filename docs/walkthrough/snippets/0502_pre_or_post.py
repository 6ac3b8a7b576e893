# tolerance: 0.05
import numpy as np
import tensorflow.compat.v1 as tf
import tiny

from transformer.dialects import PAPER
from transformer.modules import embedding, feedforward, multihead_attention, normalize

ids = np.random.RandomState(1).randint(4, 50, [4, 10])
print("before any update, blocks 1 to 6:")
for norm in ("after", "before"):
    tiny.start()
    dialect = PAPER._replace(norm=norm)
    x = embedding(tf.constant(ids), 50, 32)
    states, kernels = [], []
    for i in range(6):
        with tf.variable_scope(f"block_{i}"):
            x = multihead_attention(x, x, num_heads=4, dialect=dialect)
            x = feedforward(x, (64, 32), dialect=dialect)
        states.append(tf.math.reduce_std(x))
        kernels += [v for v in tf.trainable_variables(f"block_{i}/.*/v/kernel")]
    if norm == "before":
        x = normalize(x)  # the last norm
    noise = tf.constant(tiny.fixed("noise", [4, 10, 32]), tf.float32)
    gradients = tf.gradients(tf.reduce_sum(x * noise), kernels)
    states, gradients = tiny.run([states, [tf.norm(g) for g in gradients]])
    print(f"norm {norm:6} the sub-layer")
    print("  deviation of x  ", *[f"{s:5.2f}" for s in states])
    print("  gradient of W_V ", *[f"{g:5.1f}" for g in gradients])
