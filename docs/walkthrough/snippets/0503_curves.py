# tolerance: 0.35
import numpy as np
import tensorflow.compat.v1 as tf
import tiny

from transformer.dialects import PAPER
from transformer.hparams import HParams
from transformer.modules import (
    dense,
    embedding,
    feedforward,
    multihead_attention,
    normalize,
    positional_encoding,
)
from transformer.training import cross_entropy, make_update


def losses(norm, warmup):
    """Learn to write eight digits backwards with four blocks; return mean losses."""
    tiny.start()
    dialect = PAPER._replace(norm=norm)
    source, target = (tf.placeholder(tf.int32, [32, 8]) for _ in range(2))
    x = embedding(source, 14, 32) + positional_encoding(source, 32, scale=False)
    for i in range(4):
        with tf.variable_scope(f"block_{i}"):
            x = multihead_attention(x, x, num_heads=4, dialect=dialect)
            x = feedforward(x, (64, 32), dialect=dialect)
    if norm == "before":
        x = normalize(x)
    loss = cross_entropy(dense(x, 14, True, "output"), target)
    settings = dict(schedule="linear", learning_rate=0.007, max_steps=500)
    hp = HParams(warmup_steps=warmup, **settings)
    update = make_update(loss, hp, tf.train.get_or_create_global_step())
    rng = np.random.RandomState(1)
    history = []
    with tiny.session() as session:
        for _ in range(400):
            digits = rng.randint(4, 14, [32, 8])
            feed = {source: digits, target: digits[:, ::-1]}
            loss, _ = session.run([update.metrics.loss, update.apply], feed)
            history.append(loss)
    return [np.mean(history[i : i + 100]) for i in range(0, 400, 100)]


print("loss in nats, means of 100 updates (ln 10 = 2.30: guessing)")
for norm, warmup in [("after", 1), ("after", 100), ("before", 1)]:
    row = losses(norm, warmup)
    print(f"norm {norm:6} warm-up {warmup:3}:", *[f"{loss:5.2f}" for loss in row])
