import tensorflow.compat.v1 as tf
import tiny

from transformer.modules import positional_encoding

tiny.start()
tokens = tf.ones([1, 60], tf.int32)
small = tiny.run(positional_encoding(tokens, 8, scale=False))[0]
print("the first positions of D = 8, from -1 (blank) to 1 (full):")
tiny.picture((small[:6] + 1) / 2, [f"position {p}" for p in range(6)])
print("position 1:", *[f"{x:.4f}" for x in small[1]])

for dialect in ("paper", "tensor2tensor", "tutorial"):
    x = positional_encoding(tokens, 512, zero_pad=False, scale=False, dialect=dialect)
    x = tiny.run(x)[0]
    products = [x[3] @ x[p] for p in (3, 4, 5, 13)]
    flat = (abs(x - x[0]).max(axis=0) < 0.01).sum()
    print(f"{dialect:14} p3.p3, p3.p4, p3.p5, p3.p13:", *[f"{y:.1f}" for y in products])
    print(f"{'':14} p10.p12: {x[10] @ x[12]:.1f}; flat channels: {flat} of 512")
