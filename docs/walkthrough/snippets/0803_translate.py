# tolerance: 0.7, any shade
import tensorflow.compat.v1 as tf
import tiny

from transformer.translator import Translator

tf.disable_eager_execution()
logdir = tiny.trained()
with Translator(logdir, beam_size=4) as translator:
    [[best]] = translator.translate([tiny.SENTENCE])
    sources, targets = (
        translator.encode([text]) for text in (tiny.SENTENCE, best.text)
    )
    weights = translator.inspect(sources, targets, lambda seen: seen.weights)
print("source      ", tiny.SENTENCE)
print("translation ", best.text)
print("reference   ", tiny.REFERENCE)
print(f"score        {best.score:.1f}")
cross = weights["decoder/block_0/cross_attention"][0].mean(axis=0)  # of the four heads
pieces = [translator.vocabularies.source.pieces(ids[0]) for ids in (sources, targets)]
print("cross-attention, mean of four heads:")
tiny.picture(cross / cross.max(), ["<s>", *pieces[1]], [*pieces[0], "</s>"])
