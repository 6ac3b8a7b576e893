"""Recommend what to watch next: a sequential recommender built from our blocks.

    python examples/recommend.py

Every user follows two of ten series, and watches the next episode of one or the other.
So there are two good recommendations, but the last episode alone points to only one of
them. Like SASRec (Kang and McAuley 2018), the model is a stack of blocks in which an
item sees itself and the items before it. It trains for about 30 seconds on two cores.
Expect the true next item among the first two recommendations for about 99 % of 1,000
new users. The episode after the last one would be right for half of them, two random
items for 1 %.
"""

import numpy as np
import tensorflow.compat.v1 as tf

from transformer import HParams
from transformer.modules import (
    embedding,
    embedding_table,
    feedforward,
    multihead_attention,
    positional_encoding,
)
from transformer.training import cross_entropy, make_update

STEPS = 800
BATCH_SIZE = 128
D_MODEL = 64
RATES = HParams(
    schedule="linear", learning_rate=0.008, warmup_steps=100, max_steps=STEPS
)

SERIES = 10
EPISODES = 20
ITEMS = 1 + SERIES * EPISODES  # item 0 is padding
SHORTEST = 5
LONGEST = 16  # items in a history


def draw_histories(count: int, random: np.random.RandomState) -> np.ndarray:
    """Draw what `count` users have seen, oldest first: int [N, LONGEST]."""
    histories = np.zeros([count, LONGEST], int)
    for history in histories:
        series = random.choice(SERIES, 2, replace=False)
        next_items = 1 + series * EPISODES + random.randint(0, 5, 2)
        for i in range(random.randint(SHORTEST, LONGEST + 1)):
            choice = i if i < 2 else random.randint(0, 2)  # both begin at once
            history[i] = next_items[choice]
            next_items[choice] += 1
    return histories


def score_next(items):
    """Score each item as the next one at each position.

    Args:
      items: int32 [N, T], 0 = padding.

    Returns:
      float [N, T, ITEMS].
    """
    x = embedding(items, ITEMS, D_MODEL, scope="items")
    x += positional_encoding(items, D_MODEL)  # [N, T, D]
    for i in range(2):
        with tf.variable_scope(f"block_{i}"):
            # Without causality, each position would see the item it has to predict.
            x = multihead_attention(x, x, num_heads=4, causality=True)
            x = feedforward(x, (4 * D_MODEL, D_MODEL))
    # An item fits if its embedding is like the output, so the table is used twice.
    table = embedding_table(ITEMS, D_MODEL, scope="items", reuse=True)
    return tf.einsum("ntd,vd->ntv", x, table)


def main(steps: int = STEPS) -> float:
    """Train; return the share of new users whose next item is one of the two best."""
    random = np.random.RandomState(1)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        seen = tf.placeholder(tf.int32, [None, None])  # [N, T]
        following = tf.placeholder(tf.int32, [None, None])  # [N, T], one item later
        scores = score_next(seen)
        loss = cross_entropy(scores, following)  # padding is not counted
        update = make_update(loss, RATES, tf.train.get_or_create_global_step())

        session.run(tf.global_variables_initializer())
        for step in range(1, steps + 1):
            histories = draw_histories(BATCH_SIZE, random)
            feeds = {seen: histories[:, :-1], following: histories[:, 1:]}
            _, value = session.run([update.apply, update.metrics.loss], feeds)
            if step % 100 == 0:
                print(f"step {step}  loss {value:.3f}", flush=True)

        # The task: find a new user's last item. The model sees the items before it.
        histories = draw_histories(1000, random)
        users = np.arange(len(histories))
        last = np.sum(histories > 0, axis=1) - 1  # [N]
        truth = histories[users, last]  # [N]
        values = session.run(scores, {seen: histories})  # [N, T, ITEMS]
        last_scores = values[users, last - 1]  # [N, ITEMS]
    recommended = np.argsort(-last_scores)[:, :2]  # [N, 2]
    for history, end, best in zip(histories[:3], last, recommended):
        names = [
            f"{(i - 1) // EPISODES}:{(i - 1) % EPISODES}" for i in (*history, *best)
        ]
        print("seen", *names[:end][-8:], "→", " or ".join(names[-2:]))
    first, second = np.mean(recommended == truth[:, None], axis=0)
    percent = 100 * (first + second)
    print(f"right: {100 * first:.1f} %, in the first two: {percent:.1f} %")
    return first + second


if __name__ == "__main__":
    main()
