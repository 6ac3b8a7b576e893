# tolerance: 0.03
import numpy as np
import tensorflow.compat.v1 as tf
import tiny

from transformer.modules import scaled_dot_product_attention

tiny.start()
T = 20
draw = np.random.RandomState(1)
print(f"entropy of the weights over {T} keys; at most ln {T} = {np.log(T):.2f}")
print("d_k    divided   largest   not divided   largest")
for d_k in (4, 16, 64, 256):
    q, k = (
        tf.constant(draw.standard_normal([1, 1, 200, d_k]), tf.float32) for _ in "qk"
    )
    k = k[:, :, :T]
    row = []
    for scale in (None, 1.0):  # None: d_k ** -0.5
        _, weights = scaled_dot_product_attention(q, k, k, scale=scale)
        w = tiny.run(weights)[0, 0]  # [200, T]
        row += [-(w * np.log(w + 1e-30)).sum(axis=-1).mean(), w.max(axis=-1).mean()]
    print("{:3} {:10.2f} {:9.2f} {:13.2f} {:9.2f}".format(d_k, *row))
