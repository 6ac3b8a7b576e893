import tensorflow.compat.v1 as tf
import tiny

from transformer.blocks.masks import nonzero_rows
from transformer.modules import embedding, positional_encoding

tiny.start()
ids = tf.constant([[5, 6, 7, 0, 0]])
words = embedding(ids, 100, 16)
for dialect, zero_pad in [("paper", True), ("tutorial", True), ("tutorial", False)]:
    p = positional_encoding(ids, 16, zero_pad, scale=False, dialect=dialect)
    rows, is_token = tiny.run([p, nonzero_rows(words + p)])
    zeros = ["zeros" if not row.any() else "sines" for row in rows[0]]
    print(
        f"{dialect:9} zero_pad={zero_pad!s:5}",
        *zeros,
        "->",
        is_token[0].sum(),
        "tokens",
    )
