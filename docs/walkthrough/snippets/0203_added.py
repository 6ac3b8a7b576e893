# tolerance: 0.001
import numpy as np
import tensorflow.compat.v1 as tf
import tiny

from transformer.modules import embedding, positional_encoding

tiny.start()
D = 64
ids = tf.constant([[5, 6, 7, 8]])
words = embedding(ids, 100, D)
places = positional_encoding(ids, D, scale=False)
x, p = (values[0] for values in tiny.run([words, places]))
W = tiny.fixed("W", [D, D])
added = (x + p) @ W
appended = np.concatenate([x, p], axis=1) @ np.concatenate([W, W])
print(
    "(x + p) W and [x, p] [W, W]: largest difference",
    f"{abs(added - appended).max():.3f}",
)
print("weights of Q, K, V: added", 3 * D * D, "appended", 3 * (2 * D) * D)

later = tf.range(1, 5)  # positions from 1 instead of from 0
from_1 = tiny.run(positional_encoding(ids, D, scale=False, positions=later))[0]
print(
    "from 0 or from 1: p.p differs by", f"{abs(p @ p.T - from_1 @ from_1.T).max():.3f}"
)
print("the vectors themselves by", f"{abs(p - from_1).max():.3f}")
