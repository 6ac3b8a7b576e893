# tolerance: 0.001
import numpy as np
import tensorflow.compat.v1 as tf
import tiny

from transformer.decoding import SearchOptions, beam, greedy

# Pieces: 3 is the end, 4 is "a", 5 is "b". "a" is the likeliest first piece (0.6), but
# no piece after it is likely; after "b" (0.4) the end is nearly certain.
TABLE = np.full([6, 6], 1e-9, np.float32)
TABLE[2, [4, 5]] = 0.6, 0.4  # after BOS
TABLE[4, [3, 4, 5]] = 0.3, 0.4, 0.3
TABLE[5, [3, 4]] = 0.9, 0.1

print("probabilities of prefixes of one and two pieces:")
for first in (4, 5):
    begun = TABLE[2, first]
    tiny.bar(" ab"[first - 3], begun)
    for second in (3, 4, 5):
        name = f"  {' ab'[first - 3]} {'.ab'[second - 3]}"
        tiny.bar(name, begun * TABLE[first, second])

tiny.start()


def step(ids, parents, state):
    """Return log-probabilities that depend on the newest piece alone."""
    return tf.log(tf.gather(tf.constant(TABLE), ids)), state


limits = tf.constant([4])
options = SearchOptions(beam_size=2, length_penalty=0.0)
with tf.Session() as session:
    for name, search in [("greedy", greedy), ("beam of 2", beam)]:
        hypotheses = session.run(search(step, tf.zeros([1]), limits, options))
        score = hypotheses.scores[0, 0]
        words = [" ab"[i - 3] for i in hypotheses.ids[0, 0] if i > 3]
        print(f"{name:10} {' '.join(words):8} log-probability {score:.3f}", end=" ")
        print(f"probability {np.exp(score):.3f}")
