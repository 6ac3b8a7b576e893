# tolerance: 0.5, any shade
import numpy as np
import tensorflow.compat.v1 as tf
import tiny

from transformer.translator import Translator

tf.disable_eager_execution()
logdir = tiny.trained()
with Translator(logdir) as translator:
    texts = (tiny.SENTENCE, tiny.REFERENCE)
    sources, targets = (translator.encode([text]) for text in texts)
    seen = translator.inspect(sources, targets, lambda seen: seen)
    pieces = [*translator.vocabularies.target.pieces(targets[0]), "</s>"]
shape = "x".join(map(str, seen.log_probs.shape))
print(f"log softmax(logits): {shape}; the probability of the right piece:")
for piece, log_prob in zip(pieces, seen.target_log_probs[0]):
    print(f"{piece:>8} {tiny.bar_of(np.exp(log_prob))}".rstrip())
loss = -seen.target_log_probs[0].mean()
print(f"loss without smoothing, mean of -ln p: {loss:.1f} nats")
