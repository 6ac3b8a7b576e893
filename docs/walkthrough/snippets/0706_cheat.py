# tolerance: 0.05
import numpy as np
import tensorflow.compat.v1 as tf
import tiny

from transformer.hparams import HParams
from transformer.modules import (
    dense,
    embedding,
    feedforward,
    multihead_attention,
    positional_encoding,
)
from transformer.text.batches import make_batch
from transformer.training import cross_entropy, make_update


def accuracy(causality):
    """Train on random digits; return the accuracy and the loss of the last batch."""
    tiny.start()
    given, wanted = (tf.placeholder(tf.int32, [None, None]) for _ in range(2))
    x = embedding(given, 14, 32) + positional_encoding(given, 32, scale=False)
    x = multihead_attention(x, x, num_heads=4, causality=causality)
    x = feedforward(x, (64, 32))
    logits = dense(x, 14, True, "output")
    loss = cross_entropy(logits, wanted)
    hp = HParams(schedule="constant", learning_rate=0.01)
    update = make_update(loss, hp, tf.train.get_or_create_global_step())
    draw = np.random.RandomState(1)
    with tiny.session() as session:
        for _ in range(150):
            digits = draw.randint(4, 14, [32, 12])
            batch = make_batch(digits, digits, 0)
            feed = {given: batch.target_in, wanted: batch.target_out}
            loss, _, guess = session.run(
                [update.metrics.loss, update.apply, logits], feed
            )
    right = (guess.argmax(-1) == batch.target_out)[:, :-1]  # without EOS
    return right.mean(), loss


for causality in (True, False):
    share, loss = accuracy(causality)
    name = "with the causal mask" if causality else "without it"
    print(f"{name:21} right {share:.2f}, loss {loss:.2f} nats")
print(f"ten digits at random  right {1 / 10:.2f}, loss {np.log(10) * 12 / 13:.2f} nats")
