"""The loop of a search, whose batch shrinks as sentences end.

Whenever a quarter of the sentences is done, their results are stored, and the others
continue in a smaller batch. Four sentences, of which b ends first, then d, then a and c
together:

    sentences   open after each step              stored
    [a b c d]   [a b c d], [a - c d]              b
    [a c d]     [a c d], [a c -]                  d
    [a c]       [a c], [a c], [- -]               a, c

Without it, every step would compute four sentences to the end of the last.
"""

from typing import Callable

import tensorflow.compat.v1 as tf

from transformer.blocks.shapes import as_int64, followed_by_zeros


def search_loop(is_open: Callable, extend: Callable, found, extras: tuple, state):
    """Extend the open hypotheses until none is open.

    Args:
      is_open: function of found, *extras → bool [N].
      extend: function of found, *extras, state → the same, one piece longer.
      found: a nest of tensors [N, ...], the results; their third dimension may grow.
      extras: further tensors [N, ...] of the search, whose third dimension may grow.
      state: the state of the step function.

    Returns:
      What was found of all sentences, in their order.
    """

    def number_open(found, extras: tuple):
        return tf.reduce_sum(tf.cast(is_open(found, *extras), tf.float32))

    def extend_all(found, extras: tuple, state):
        found, *extras, state = extend(found, *extras, state)
        return found, tuple(extras), state

    def until_a_quarter_is_done(sentences, results, search):
        remaining = tf.cast(3 * tf.shape(sentences)[0] // 4, tf.float32)
        search = tf.while_loop(
            lambda found, extras, state: number_open(found, extras) > remaining,
            extend_all,
            search,
            shape_invariants=shapes,
            back_prop=False,
        )
        found, extras, _ = search
        results = tf.nest.map_structure(
            lambda x, rows: _store(x, sentences, rows), results, found
        )
        left = tf.where(is_open(found, *extras))[:, 0]
        return (
            tf.gather(sentences, left),
            results,
            tf.nest.map_structure(lambda x: tf.gather(x, left), search),
        )

    search = (found, extras, state)
    shapes = (
        *tf.nest.map_structure(_growing, (found, extras)),
        tf.nest.map_structure(_of_any_batch, state),
    )
    sentences = as_int64(tf.range(tf.shape(extras[0])[0]))  # [N]
    _, results, _ = tf.while_loop(
        lambda sentences, *_: tf.shape(sentences)[0] > 0,
        until_a_quarter_is_done,
        (sentences, found, search),
        back_prop=False,
        shape_invariants=(tf.TensorShape([None]), shapes[0], shapes),
    )
    return results


def _growing(x):
    """Return the shape of `x` with an unknown batch and unknown third dimension on."""
    sizes = x.shape.as_list()
    return tf.TensorShape([None, *sizes[1:2]] + [None] * len(sizes[2:]))


def _of_any_batch(x):
    """Return the shape of `x` with the batch, and dimensions of size 0, unknown."""
    return tf.TensorShape([None] + [size or None for size in x.shape.as_list()[1:]])


def _store(x, sentences, rows):
    """Put the rows of some sentences into `x`; zeros lengthen its third dimension."""
    if x.shape.ndims > 2:
        x = followed_by_zeros(x, tf.shape(rows)[2] - tf.shape(x)[2], axis=2)
    return tf.tensor_scatter_nd_update(x, sentences[:, None], rows)
