import tensorflow.compat.v1 as tf
import tiny

from transformer.modules import causal_mask, padding_mask
from transformer.text.batches import make_batch

tiny.start()
vocabulary = tiny.vocabulary()
words = vocabulary.encode("The child sleeps.")
other = vocabulary.encode(tiny.REFERENCE)
batch = make_batch([words, other], [words, other], 0)
ids = batch.target_in[:, :11]
padding = padding_mask(tf.constant(ids))  # [N, 1, 1, Tk]
causal = causal_mask(tf.range(11))  # [1, 1, Tq, Tk]
padding, causal, both = tiny.run([padding, causal, padding & causal])
pieces = vocabulary.pieces(ids[0])
for name, mask in [("padding", padding), ("causal", causal), ("both", both)]:
    print(name, mask.shape)
    tiny.picture(mask[0, 0], pieces if mask.shape[2] > 1 else ["any query"], pieces)
