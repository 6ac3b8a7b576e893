import tensorflow.compat.v1 as tf
import tiny

from hparams import PRESETS
from transformer.hparams import HParams
from transformer.model import Transformer

for preset, pieces in [
    ("sample", 2000),
    ("multi30k", 8000),
    ("base", 37000),
    ("big", 37000),
]:
    tiny.start()
    sizes = {"source_vocab_size": pieces, "target_vocab_size": pieces}
    model = Transformer(HParams(**{**PRESETS[preset], **sizes}))
    ids = tf.placeholder(tf.int32, [None, None])
    model.decode(ids, model.encode(ids))
    count = sum(v.shape.num_elements() for v in tf.trainable_variables())
    print(f"{preset:9} {pieces:6} pieces: {count:12,} parameters")
