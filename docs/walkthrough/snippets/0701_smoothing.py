# tolerance: 0.0005
import numpy as np
import tensorflow.compat.v1 as tf
import tiny

from transformer.modules import label_smoothing
from transformer.training import cross_entropy

tiny.start()
V, epsilon = 2000, 0.1
labels = label_smoothing(tf.one_hot([[7]], V), epsilon)
right = tf.one_hot([[7]], V) * 100  # surer than the labels
for name, logits in [
    ("log labels", tf.log(labels)),
    ("surer", right),
    ("nothing", 0 * right),
]:
    paper = cross_entropy(logits, tf.constant([[7]]), epsilon).sum
    plain = cross_entropy(logits, tf.constant([[7]]), 0.0).sum
    others = cross_entropy(logits, tf.constant([[7]]), epsilon, "others").sum
    row = tiny.run([paper, plain, others])
    print(f"{name:11}", *[f"{loss:8.3f}" for loss in row])
true = 1 - epsilon + epsilon / V
entropy = -true * np.log(true) - (V - 1) * epsilon / V * np.log(epsilon / V)
print(f"entropy of the labels {entropy:.3f}, ln V {np.log(V):.3f}")
for V in (500, 2000, 8000, 37000):
    true = 1 - epsilon + epsilon / V
    least = -true * np.log(true) - (V - 1) * epsilon / V * np.log(epsilon / V)
    print(f"V = {V:5}: the loss cannot be below {least:.3f}")
