"""The beam search of tensor2tensor, based on `decoding.beam`."""

import tensorflow.compat.v1 as tf

from transformer.blocks.arguments import check_size
from transformer.blocks.layers import shape_list
from transformer.compat.tensor2tensor.layers import refuse_unsupported
from transformer.decoding import SearchOptions, beam, reorder

__all__ = ["beam_search"]

WORST_SCORE = -1e9  # of hypotheses that do not exist


def beam_search(
    symbols_to_logits_fn,
    initial_ids,
    beam_size,
    decode_length,
    vocab_size,
    alpha,
    states=None,
    eos_id=1,
    stop_early=True,
    use_tpu=False,
    use_top_k_with_unique=True,
):
    """Search with a beam and a length penalty: see `decoding.beam`.

    Args:
      symbols_to_logits_fn: function of the ids so far, int32 [N * K, t], that returns
        logits [N * K, V]; with `states`, function of (ids, t - 1, states) that returns
        (logits, states).
      initial_ids: int32 [N], the first ids.
      beam_size: int, K.
      decode_length: int, the largest number of additional ids.
      vocab_size: int, V.
      alpha: float, the exponent of the length penalty.
      states: a nest of tensors [N, ...]. The function gets them as [N * K, ...], with
        only the last dimension static.
      eos_id: int, the id that ends a sequence.
      stop_early: stop once the best hypothesis of each sentence is certain; the others
        may be worse, or missing. Otherwise, once all K are certain.
      use_top_k_with_unique: ignored, as it is for TPUs.

    Returns:
      (ids int32 [N, K, t], with the first ids, padded with zeros, and N not static;
      scores float32 [N, K]; the states [N, K, ...] of the hypotheses that were open at
      the end).

    Raises:
      ValueError: `use_tpu` is given.
    """
    refuse_unsupported("beam_search", ("use_tpu", use_tpu, False))
    beam_size = check_size("beam_search: beam_size", beam_size)
    vocab_size = check_size("beam_search: vocab_size", vocab_size)
    initial_ids = tf.cast(initial_ids, tf.int32)
    batch = shape_list(initial_ids)[0]

    def repeat_for_beam(x):
        """Repeat [N, ...] to [N, K, ...]; all sizes except the last may change."""
        x = tf.convert_to_tensor(x)
        repeats = [1, beam_size] + [1] * (x.shape.ndims - 1)
        last = x.shape.as_list()[1:][-1:]
        static_shape = (
            [None, beam_size] + [None] * (x.shape.ndims - 1 - len(last)) + last
        )
        return tf.placeholder_with_default(tf.tile(x[:, None], repeats), static_shape)

    def flatten_beam(x):
        _, _, *rest = shape_list(x)
        return tf.reshape(x, [batch * beam_size, *rest])

    def unflatten_beam(x):
        return tf.reshape(x, [-1, beam_size, *shape_list(x)[1:]])

    def step(newest, parents, state):
        ids, states = reorder(state, parents)
        length = tf.shape(ids)[2]
        first = initial_ids[:, None] + tf.zeros_like(newest)
        newest = tf.where_v2(tf.equal(length, 0), first, newest)
        ids = tf.concat([ids, newest[:, :, None]], axis=2)  # [N, K, t]
        if has_states:
            logits, states = symbols_to_logits_fn(
                flatten_beam(ids), length, tf.nest.map_structure(flatten_beam, states)
            )
            states = tf.nest.map_structure(unflatten_beam, states)
        else:
            logits = symbols_to_logits_fn(flatten_beam(ids))
        logits = tf.reshape(logits, [-1, beam_size, vocab_size])
        return logits, (ids, states)

    has_states = states is not None and bool(tf.nest.flatten(states))
    states = tf.nest.map_structure(repeat_for_beam, states if has_states else ())
    hypotheses = beam(
        step,
        (tf.zeros([batch, beam_size, 0], tf.int32), states),
        tf.fill([batch], decode_length),
        SearchOptions(
            beam_size=beam_size,
            length_penalty=alpha,
            n_best=beam_size,
            must_end=False,
            eos=eos_id,
            keep_batch=True,
            stop_early=bool(stop_early),
        ),
    )
    first = initial_ids[:, None, None] + tf.zeros_like(hypotheses.ids[:, :, :1])
    scores = tf.maximum(hypotheses.scores, WORST_SCORE)
    scores.set_shape([initial_ids.shape.as_list()[0], beam_size])
    _, states = reorder(hypotheses.state, hypotheses.parents)
    ids = tf.concat([first, hypotheses.ids], axis=2)
    ids = tf.placeholder_with_default(ids, [None, beam_size, None])
    return ids, scores, states
