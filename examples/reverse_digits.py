"""Teach a Transformer to write numbers backwards: the first program to run.

    python examples/reverse_digits.py

The source is a row of four to nine digits; the target is the same digits in reverse.
The model is the encoder and decoder of the paper, but small. It trains for about 20
seconds on two cores. Expect `right: 100.0 %` for 500 new rows.
"""

from typing import Callable, List, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from transformer import HParams, Transformer
from transformer.decoding import SearchOptions, greedy
from transformer.text.batches import make_batch
from transformer.text.vocabulary import EOS, SPECIAL_IDS
from transformer.training import cross_entropy, make_update

Rows = List[List[int]]  # ids

STEPS = 600
BATCH_SIZE = 64
ZERO = len(SPECIAL_IDS)  # the id of digit 0, after padding, unknown, begin and end

SETTINGS = HParams(
    source_vocab_size=ZERO + 10,
    target_vocab_size=ZERO + 10,
    num_blocks=1,
    d_model=64,
    d_ff=128,
    num_heads=4,
    dropout_rate=0.0,  # every batch is new, so the model cannot memorize
    schedule="linear",
    learning_rate=0.004,
    warmup_steps=100,
    max_steps=STEPS,
)


def draw_pairs(count: int, random: np.random.RandomState) -> Tuple[Rows, Rows]:
    """Draw `count` rows of digits, and the same rows reversed."""
    sources = [
        random.randint(ZERO, ZERO + 10, random.randint(4, 10)).tolist()
        for _ in range(count)
    ]
    return sources, [row[::-1] for row in sources]


def learn(
    hp: HParams, draw: Callable, test_sources: Sequence, max_length: int, steps: int
) -> Rows:
    """Train a Transformer; return its outputs for new sources.

    Args:
      hp: the settings of the model and its training.
      draw: function like `draw_pairs` that returns the pairs for a batch.
      test_sources: the new sources.
      max_length: the largest length of a target, including its end.
      steps: the number of batches to train on.
    """
    random = np.random.RandomState(hp.seed)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(hp.seed)
        model = Transformer(hp)

        # Training: at each position, the decoder sees the true target before it. So its
        # input is a begin, then the target; its output is the target, then an end.
        source = tf.placeholder(tf.int32, [None, None])  # [N, S]
        target_in = tf.placeholder(tf.int32, [None, None])  # [N, T]
        target_out = tf.placeholder(tf.int32, [None, None])  # [N, T]
        memory = model.encode(source, is_training=True)  # states: [N, S, D]
        logits = model.decode(target_in, memory, is_training=True)  # [N, T, V]
        loss = cross_entropy(logits, target_out)
        update = make_update(loss, hp, tf.train.get_or_create_global_step())

        # Translation: the decoder sees its own output up to this position.
        decode_step, state = model.start_search(model.encode(source))
        limits = tf.fill(tf.shape(source)[:1], max_length)
        hypotheses = greedy(decode_step, state, limits, SearchOptions())

        session.run(tf.global_variables_initializer())
        for step in range(1, steps + 1):
            batch = make_batch(*draw(BATCH_SIZE, random), step)
            feeds = {
                source: batch.source,
                target_in: batch.target_in,
                target_out: batch.target_out,
            }
            _, mean_loss = session.run([update.apply, update.metrics.loss], feeds)
            if step % 100 == 0:
                print(f"step {step}  loss {mean_loss:.3f}", flush=True)

        batch = make_batch(test_sources, test_sources, 0)
        outputs = session.run(hypotheses.ids, {source: batch.source})[:, 0].tolist()
    return [ids[: ids.index(EOS)] for ids in outputs]


def main(steps: int = STEPS) -> float:
    """Train, and return the share of 500 new rows that are right."""
    sources, targets = draw_pairs(500, np.random.RandomState(0))
    outputs = learn(SETTINGS, draw_pairs, sources, max_length=10, steps=steps)
    for source, ids in zip(sources[:3], outputs):
        print(*[i - ZERO for i in source], "→", *[i - ZERO for i in ids])
    accuracy = np.mean([ids == target for ids, target in zip(outputs, targets)])
    print(f"right: {100 * accuracy:.1f} %")
    return accuracy


if __name__ == "__main__":
    main()
