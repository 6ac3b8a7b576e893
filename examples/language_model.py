"""Train a language model on the bytes of this project's documentation.

    python examples/language_model.py

A stack of blocks, in which each byte sees itself and the bytes before it, predicts the
next byte: a decoder without an encoder, as in GPT. Only `causality=True` makes it a
language model. It trains for about a minute on two cores. Expect fewer than 3.0 bits
per byte on unseen text (8 without training, 5.1 from the byte frequencies alone), and a
continuation of mostly English words.
"""

import glob
import os

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.modules import (
    dense,
    embedding,
    feedforward,
    multihead_attention,
    positional_encoding,
)

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PATTERNS = ["README.md", "docs/*.md", "docs/walkthrough/en/*.md"]

STEPS = 800
BATCH_SIZE = 16
LENGTH = 128  # bytes that the model sees
LEARNING_RATE = 0.002
D_MODEL = 128
BLOCKS = 2
BYTES = 256
TEMPERATURE = 0.7  # below 1, likely bytes become likelier


def read_text() -> np.ndarray:
    """Read the documentation as one array of bytes."""
    text = b""
    for pattern in PATTERNS:
        for path in sorted(glob.glob(os.path.join(ROOT, pattern))):
            with open(path, "rb") as file:
                text += file.read()
    return np.frombuffer(text, np.uint8).astype(int)


def next_byte(inputs):
    """Compute the logits of the byte after each position: float [N, T, 256]."""
    # zero_pad=False: a byte of 0 is a byte like any other, not padding.
    x = embedding(inputs, BYTES, D_MODEL, zero_pad=False)  # [N, T, D]
    x += positional_encoding(inputs, D_MODEL, zero_pad=False)
    for i in range(BLOCKS):
        with tf.variable_scope(f"block_{i}"):
            x = multihead_attention(x, x, num_heads=4, causality=True)
            x = feedforward(x, (4 * D_MODEL, D_MODEL))
    return dense(x, BYTES, True, "output")


def main(steps: int = STEPS) -> float:
    """Train, write a continuation, and return the bits per byte on unseen text."""
    text = read_text()
    train, test = np.split(text, [len(text) * 9 // 10])
    random = np.random.RandomState(1)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        inputs = tf.placeholder(tf.int32, [None, None])  # [N, T]
        following = tf.placeholder(tf.int32, [None, None])  # [N, T], one byte later
        logits = next_byte(inputs)  # [N, T, 256]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=following, logits=logits
        )
        nats = tf.reduce_mean(losses)
        train_op = tf.train.AdamOptimizer(LEARNING_RATE).minimize(nats)

        session.run(tf.global_variables_initializer())
        for step in range(1, steps + 1):
            starts = random.randint(0, len(train) - LENGTH, BATCH_SIZE)
            rows = np.stack([train[start : start + LENGTH + 1] for start in starts])
            feeds = {inputs: rows[:, :-1], following: rows[:, 1:]}
            value, _ = session.run([nats, train_op], feeds)
            if step % 100 == 0:
                print(f"step {step}  bits per byte {value / np.log(2):.2f}", flush=True)

        # Score each byte of the held-out text, given at most LENGTH bytes before it.
        count = (len(test) - 1) // LENGTH
        feeds = {
            inputs: test[: count * LENGTH].reshape(count, LENGTH),
            following: test[1 : count * LENGTH + 1].reshape(count, LENGTH),
        }
        unseen = session.run(nats, feeds) / np.log(2)

        # Continue a text: draw each byte from the model, likely bytes more often.
        output = list(b"The attention ")
        for _ in range(300):
            last = session.run(logits, {inputs: [output[-LENGTH:]]})
            scores = last[0, -1].astype(float) / TEMPERATURE  # [256]
            probabilities = np.exp(scores - scores.max())
            output.append(random.choice(256, p=probabilities / probabilities.sum()))
        print(bytes(output).decode("utf-8", "replace"))
    print(f"bits per byte of unseen text: {unseen:.2f}")
    return unseen


if __name__ == "__main__":
    main()
