# tolerance: 0.02
import numpy as np
import tensorflow.compat.v1 as tf
import tiny

from transformer.modules import embedding, positional_encoding

tiny.start()
ids = tf.constant([[5, 6, 7, 8, 9, 10, 11, 0]])  # the last one is padding
plain = embedding(ids, 100, 512, scale=False)
scaled = embedding(ids, 100, 512, reuse=True)
places = positional_encoding(ids, 512, scale=False)
words, positions = tiny.run([scaled, places])
shown = {"words": words, "positions": positions, "sums": words + positions}
print("the first 24 of 512 channels, from -3 (blank) to 3 (full); a row for each id:")
tiny.pictures({name: (x[0, :, :24] + 3) / 6 for name, x in shown.items()})
for name, x in zip(
    ["table row", "times sqrt(512)", "position"], [plain, scaled, places]
):
    lengths = np.linalg.norm(tiny.run(x)[0], axis=-1)
    print(
        f"{name:16} mean length {lengths[:-1].mean():6.2f}, padding {lengths[-1]:.2f}"
    )
