# tolerance: 0.02
import numpy as np
import tensorflow.compat.v1 as tf
import tiny

from transformer.modules import embedding, multihead_attention, positional_encoding

tiny.start()
ids = tf.placeholder(tf.int32, [1, 6])
x = embedding(ids, 50, 32) + positional_encoding(ids, 32, scale=False)
sees_all = multihead_attention(x, x, num_heads=4)
sees_past = multihead_attention(x, x, num_heads=4, causality=True, reuse=True)
before, after = [[5, 6, 7, 8, 9, 10]], [[5, 6, 7, 8, 9, 11]]  # another last token
with tiny.session() as session:
    for name, y in [("padding mask only", sees_all), ("causal mask too", sees_past)]:
        rows = [session.run(y, {ids: tokens})[0] for tokens in (before, after)]
        change = np.abs(rows[0] - rows[1]).max(axis=-1)
        print(f"{name:18} change by position:", *[f"{c:.3f}" for c in change])
