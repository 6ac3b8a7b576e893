# tolerance: 0.03
import numpy as np
import tensorflow.compat.v1 as tf
import tiny

from transformer.blocks.layers import dropout

tiny.start()
ones = tf.ones([100, 100])
seed = tf.constant([1, 2])
for name, training in [("training", True), ("translation", False)]:
    x = tiny.run(dropout(ones, 0.1, training, seed))
    values = sorted({f"{value:.3f}" for value in np.unique(x)})
    print(
        f"{name:12} values {' '.join(values):12} zeros {(x == 0).mean():.2f}", end=" "
    )
    print(f"mean {x.mean():.2f}")
again = tiny.run([dropout(ones, 0.1, True, seed), dropout(ones, 0.1, True, seed)])
print("the same seed, the same zeros:", np.array_equal(*again))
