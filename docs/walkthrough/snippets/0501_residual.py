# tolerance: 0.01
import numpy as np
import tensorflow.compat.v1 as tf
import tiny

from transformer.modules import normalize

tiny.start()
x = tiny.fixed("x", [4, 8])
sublayer = 3 + 5 * tiny.fixed("f", [4, 8])
y = tiny.run(normalize(tf.constant(x + sublayer, tf.float32), epsilon=1e-6))
before = x + sublayer
gamma, beta = tiny.fixed("ln/gamma", [8]), tiny.fixed("ln/beta", [8])
plain = (y - beta) / gamma
print(f"x + f(x):  mean {before[0].mean():.2f}, deviation {before[0].std():.2f}")
print(f"normalized: mean {plain[0].mean():.2f}, deviation {plain[0].std():.2f}")
print("one position, 8 channels, from -5 (blank) to 5 (full):")
rows = np.array([x[0], sublayer[0], before[0], plain[0]])
tiny.picture((rows + 5) / 10, ["x", "f(x)", "x + f(x)", "normalized"])
by_hand = (before - before.mean(-1, keepdims=True)) / before.std(-1, keepdims=True)
print(f"by hand differs by {np.abs(plain - by_hand).max():.3f}")
