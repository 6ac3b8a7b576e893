# tolerance: 0.001
import numpy as np
import tensorflow.compat.v1 as tf
import tiny

from transformer.hparams import HParams
from transformer.model import Transformer

tiny.start()
hp = HParams(
    num_blocks=2,
    d_model=32,
    d_ff=64,
    num_heads=4,
    source_vocab_size=50,
    target_vocab_size=50,
)
model = Transformer(hp)
memory = model.encode(tf.constant([[5, 6, 7, 3]]))
target_in = [[2, 8, 9, 10, 11]]
at_once = model.decode(tf.constant(target_in), memory)  # as in training
step, state = model.start_search(memory)  # as in translation
steps, cached = [], []
for piece in target_in[0]:
    logits, state = step(tf.constant([[piece]]), None, state)
    steps.append(logits[:, 0])
    cached.append(tf.shape(state[1].past[0].keys))
at_once, steps, cached = tiny.run([at_once[0], steps, cached])
print(
    "T steps or once: largest difference",
    f"{abs(at_once - np.concatenate(steps)).max():.3f}",
)
print(
    "cached keys of a block, [N, H, T, D / H]:",
    *[shape.tolist() for shape in cached[:3]],
)
T = 30
print(f"positions computed for T = {T}: training {T}, steps with a cache {T},")
print(f"steps without one {T * (T + 1) // 2}")
