# tolerance: 0.02
import tensorflow.compat.v1 as tf
import tiny

from transformer.modules import normalize

tiny.start()
x = tf.placeholder(tf.float32, [None, None, 16])
layer = normalize(x)
mean, variance = tf.nn.moments(x, [0, 1], keepdims=True)  # over batch and positions
batch = (x - mean) * tf.rsqrt(variance + 1e-6)
sentence = tiny.fixed("sentence", [1, 5, 16])
others = 2 * tiny.fixed("others", [3, 5, 16])
together = [*sentence, *others]
with tiny.session() as session:
    for name, y in [("layer", layer), ("batch", batch)]:
        alone = session.run(y, {x: sentence})[0]
        among = session.run(y, {x: together})[0]
        first = session.run(y, {x: sentence[:, :1]})[0]
        print(
            f"{name}: alone or among others differs by {abs(alone - among).max():.2f};"
        )
        print(
            f"       one sentence, one position: largest number {abs(first).max():.2f}"
        )
