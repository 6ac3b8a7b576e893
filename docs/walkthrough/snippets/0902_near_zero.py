# tolerance: 0.3
import random

import tensorflow.compat.v1 as tf
import tiny

from transformer.evaluation import load_text, score
from transformer.translator import Translator

tf.disable_eager_execution()
logdir = tiny.trained()
sources, references = (lines[:100] for lines in load_text(tiny.data(), "test"))
print("BLEU of 100 lines of test")
for search in ("greedy", "beam"):
    with Translator(logdir, search=search) as translator:
        hypotheses = [best.text for best, *_ in translator.translate(sources)]
    print(f"{search:24} {score(hypotheses, references).bleu:5.0f}")
shuffled = random.Random(1).sample(hypotheses, len(hypotheses))
wrong = {
    "in another order": shuffled,
    "the German itself": sources,
    "one line missing": [*hypotheses[1:], ""],
}
for name, lines in wrong.items():
    print(f"{name:24} below 3: {score(lines, references).bleu < 3}")
