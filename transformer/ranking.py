"""What a beam search ranks: the continuations of its hypotheses."""

from typing import Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.shapes import as_int64, shape_list
from transformer.text.vocabulary import PAD

NEVER = float("-inf")  # the score of what must not be taken, or was not found


def best_continuations(log_probs, logits, count: int, forced, forbidden: Sequence[int]):
    """Return the best continuations of the open hypotheses of each sentence.

    Only the softmax is computed for the whole vocabulary: the `count` best of a
    sentence are among the `count` best of each hypothesis. (docs/performance.md has
    what that gives.)

    Args:
      log_probs: float [N, K], of the hypotheses.
      logits: float [N, K, V] of their next pieces.
      count: int, how many are wanted.
      forced: int64 [N], the piece that hypotheses must take, PAD where any may.
      forbidden: pieces that none may take.

    Returns:
      (log-probabilities, hypotheses continued, pieces), [N, count] each, best first.
    """
    _, beam_size, vocab_size = shape_list(logits)
    logits = tf.reshape(logits, [-1, vocab_size])  # [N*K, V]
    most = min(vocab_size, count + len(forbidden))
    best, pieces = _top_k(logits, most)  # [N*K, most]
    largest = tf.gather(tf.nn.softmax(logits), pieces[:, :1], batch_dims=1)
    normalizers = best[:, :1] - tf.log(largest)  # [N*K, 1]
    for piece in forbidden:
        best = tf.where_v2(tf.equal(pieces, piece), NEVER, best)
    forced = tf.reshape(tf.tile(forced[:, None], [1, beam_size]), [-1, 1])  # [N*K, 1]
    is_first = np.arange(most)[None] == 0
    only_forced = tf.where_v2(
        is_first, tf.gather(logits, forced, batch_dims=1), NEVER
    )  # [N*K, most]
    best = tf.where_v2(tf.equal(forced, PAD), best, only_forced)
    pieces = tf.where_v2(tf.equal(forced, PAD), pieces, forced)
    totals = tf.reshape(log_probs, [-1, 1]) + (best - normalizers)
    totals, places = rank(tf.reshape(totals, [-1, beam_size * most]), count)
    pieces = tf.gather(tf.reshape(pieces, [-1, beam_size * most]), places, batch_dims=1)
    return totals, places // most, pieces


def rank(x, k):
    """Return tf.nn.top_k of x [M, V]; the places are int64, see `as_int64`."""
    best, places = tf.nn.top_k(x, k)
    return best, as_int64(places)


def _top_k(x, k):
    """Return `rank` of x [M, V], found in blocks where V can be divided.

    The k largest numbers are in the k blocks that have the largest maxima, and a
    maximum is faster to find than a rank: docs/performance.md.
    """
    size = x.shape.as_list()[1]
    width = next(width for width in range(int(size**0.5), 0, -1) if size % width == 0)
    if k * width >= size // 2:
        return rank(x, k)
    blocks = tf.reshape(x, [-1, size // width, width])
    _, chosen = rank(tf.reduce_max(blocks, axis=2), k)  # [M, k]
    among = tf.reshape(tf.gather(blocks, chosen, batch_dims=1), [-1, k * width])
    best, places = rank(among, k)
    chosen = tf.gather(chosen, places // width, batch_dims=1)
    return best, chosen * width + places % width
