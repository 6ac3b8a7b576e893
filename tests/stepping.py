"""What the tests of the model ask of a search: one position after the other."""

import tensorflow.compat.v1 as tf


def logits_step_by_step(model, memory, target_in):
    """The logits of a target [N, T], one position at a time: float [N, T, V]."""
    step, state = model.start_search(memory)
    parts = []
    for place in range(target_in.shape.as_list()[1]):
        logits, state = step(target_in[:, place : place + 1], None, state)
        parts.append(logits)
    return tf.concat(parts, axis=1)
