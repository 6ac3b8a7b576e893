# tolerance: 0.5, any shade
import tensorflow.compat.v1 as tf
import tiny

from transformer.translator import Translator

tf.disable_eager_execution()
logdir = tiny.trained()
with Translator(logdir) as translator:
    ids = translator.encode([tiny.SENTENCE])
    weights = translator.inspect(ids, ids, lambda seen: seen.weights)
    pieces = [*translator.vocabularies.source.pieces(ids[0]), "</s>"]
heads = weights["encoder/block_0/self_attention"][0]  # [H, S, S]
print("self-attention of the trained encoder:", "x".join(map(str, heads.shape)))
shown = {f"head {h}": heads[h] / heads[h].max() for h in range(4)}
tiny.pictures(shown, pieces)
