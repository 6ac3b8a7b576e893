"""The model: embeddings, a stack of encoder blocks, a stack of decoder blocks, logits.

Figure 1 of the paper. `encode` turns the source into a Memory, `decode` turns the
target and the Memory into logits. One body serves training (all positions at once) and
translation (one position at a time, with a DecoderCache).

The padding masks are made in `encode` and `_decoder_states`.
"""

from typing import Callable, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.masks import (
    broadcast_keys,
    causal_mask,
    found_mask,
    is_token,
    proximity_bias,
)
from transformer.blocks.primitives import dropout
from transformer.blocks.shapes import as_int64, followed_by_zeros
from transformer.dialects import resolve
from transformer.embeddings import Embeddings, logits
from transformer.modules import (
    KeyValueCache,
    feedforward,
    keys_and_values,
    multihead_attention,
    normalize,
)


class Memory(NamedTuple):
    """What the encoder leaves for the decoder."""

    states: tf.Tensor  # float [N, S, D]
    mask: tf.Tensor  # bool [N, 1, 1, S], True where the source has a token
    projected: tuple = ()  # (K, V), [N, H, S, D / H] each, of each decoder block


class DecoderCache(NamedTuple):
    """The cache of a search: keys and values of T positions, K hypotheses at each.

    The keys of the hypotheses of a sentence stay where they are, K at each position;
    `ancestors` says which of them belong to the past of a hypothesis.
    """

    ancestors: tf.Tensor  # bool [N, 1, K, T * K]
    past: Tuple[KeyValueCache, ...]  # of each decoder block, T * K keys


class Order(NamedTuple):
    """The positions in a self-attention, and which keys each query may see."""

    query_positions: tf.Tensor  # int64 [Tq]
    key_positions: tf.Tensor  # int64 [Tk]
    mask: Optional[tf.Tensor]  # causal, or the ancestors of a hypothesis; None: all


class Mode(NamedTuple):
    """Whether to apply dropout, with which seed, and where attention weights go."""

    is_training: bool = False
    dropout_seed: Optional[tf.Tensor] = None  # int [2]
    weights: Optional[dict] = None  # receives the attention weights by scope


class Transformer:
    """A Transformer of the sizes and the dialect of `hp`.

    Its variables are shared between all calls in one graph.

    Args:
      hp: the settings.
      getter: custom getter of the variables of the blocks and of the output layer; see
        `runtime.precision.getter_to`.
    """

    def __init__(self, hp, getter: Optional[Callable] = None):
        self.hp = hp
        self.dialect = resolve(hp.dialect)
        self.embeddings = Embeddings(hp, getter)
        self._sharing = dict(reuse=tf.AUTO_REUSE, custom_getter=getter)

    def encode(
        self,
        source,
        is_training=False,
        dropout_seed=None,
        weights: Optional[dict] = None,
    ):
        """Run the encoder.

        Args:
          source: int32 [N, S], 0 = padding.
          is_training: bool; dropout only where True.
          dropout_seed: int [2] tensor, see `primitives.dropout`.
          weights: dict; receives the attention weights [N, H, S, S] by scope name.

        Returns:
          Memory.
        """
        mode, dialect = Mode(is_training, dropout_seed, weights), self.dialect
        source = as_int64(source)
        if self.hp.pad_sources_to:
            missing = tf.maximum(0, self.hp.pad_sources_to - tf.shape(source)[1])
            source = followed_by_zeros(source, missing, axis=1)  # [N, S]
        real = is_token(source)  # [N, S], the padding mask
        masks = real if dialect.masks_from == "ids" else None
        kept = real if dialect.feedforward_skips_padding else None
        positions = as_int64(tf.range(tf.shape(source)[1]))
        order = Order(positions, positions, None)
        x = self._embed(source, "encoder", positions, mode)  # [N, S, D]
        with tf.variable_scope("encoder", **self._sharing):
            for i in range(self.hp.num_blocks):
                with tf.variable_scope(f"block_{i}"):
                    x, _ = self._self_attention(x, mode, order, masks, masks)
                    x = self._feedforward(x, mode, kept)  # [N, S, D]
            x = self._finish(x)
        if masks is None:
            real = found_mask(x, dialect.padded_row)
        return Memory(x, broadcast_keys(real))

    def decode(
        self,
        target_in,
        memory: Memory,
        is_training=False,
        dropout_seed=None,
        weights: Optional[dict] = None,
    ):
        """Run the decoder on whole targets.

        Args:
          target_in: int32 [N, T], BOS and the target, 0 = padding.
          memory: Memory of N sentences.
          is_training, dropout_seed, weights: as in `encode`.

        Returns:
          float [N, T, V], the logits of the next piece at each position.
        """
        target_in = as_int64(target_in)
        positions = as_int64(tf.range(tf.shape(target_in)[1]))
        order = Order(positions, positions, causal_mask(positions))
        mode = Mode(is_training, dropout_seed, weights)
        states, _ = self._decoder_states(target_in, memory, mode, order)
        return logits(states, *self.embeddings.output_layer())

    def start_search(self, memory: Memory, beam_size: int = 1):
        """Return what `decoding` needs to translate the sentences of `memory`.

        Args:
          memory: Memory of N sentences.
          beam_size: int, K, hypotheses of each sentence.

        Returns:
          (the step function, its state before the first position).
        """
        # Here, so that its table is transposed once and not in each step.
        output_layer = self.embeddings.output_layer()

        def step(ids, parents, state):
            memory, cache = state
            ancestors, order = _order_after(cache, parents, beam_size)
            states, past = self._decoder_states(ids, memory, Mode(), order, cache.past)
            cache = DecoderCache(ancestors, past)
            return logits(states, *output_layer), (memory, cache)

        return step, (self._project(memory), self._empty_cache(memory, beam_size))

    def _decoder_states(self, ids, memory, mode, order, past=None):
        """Run the decoder's blocks, in training and in each step of a search.

        Args:
          ids: int32 [N, T].
          memory, mode, order: Memory, Mode, Order.
          past: the KeyValueCache of each block; None in training.

        Returns:
          (float [N, T, D], the KeyValueCache of each block for the next call).
        """
        dialect, presents, ids = self.dialect, [], as_int64(ids)
        real = is_token(ids)  # [N, T], the padding mask
        query_masks = real if dialect.masks_from == "ids" else None
        key_masks = query_masks if dialect.decoder_masks_padding else True
        x = self._embed(ids, "decoder", order.query_positions, mode)  # [N, T, D]
        with tf.variable_scope("decoder", **self._sharing):
            for i in range(self.hp.num_blocks):
                with tf.variable_scope(f"block_{i}"):
                    x, present = self._self_attention(
                        x, mode, order, key_masks, query_masks, past and past[i]
                    )
                    presents.append(present)
                    x = self._cross_attention(x, memory, i, mode, query_masks)
                    x = self._feedforward(x, mode)  # [N, T, D]
            return self._finish(x), tuple(presents)

    def _project(self, memory):
        """Add to the memory the K and V that every step needs."""
        hp, projected = self.hp, []
        for i in range(hp.num_blocks):
            with tf.variable_scope(
                f"decoder/block_{i}/cross_attention", **self._sharing
            ):
                projected.append(
                    keys_and_values(
                        memory.states, hp.d_model, hp.num_heads, self.dialect
                    )
                )
        return memory._replace(projected=tuple(projected))

    def _empty_cache(self, memory, beam_size):
        """Return the DecoderCache before the first position."""
        hp, batch = self.hp, tf.shape(memory.states)[0]
        keys = tf.zeros([batch, hp.num_heads, 0, hp.d_model // hp.num_heads])
        past = KeyValueCache(keys, keys, tf.zeros([batch, 0], tf.bool))
        ancestors = tf.zeros([batch, 1, beam_size, 0], tf.bool)
        return DecoderCache(ancestors, (past,) * hp.num_blocks)

    def _embed(self, ids, stack, positions, mode):
        """Return embeddings plus positions, with dropout: float [N, T, D] (5.4)."""
        return dropout(
            self.embeddings.embed(ids, stack, positions),
            self.hp.dropout_rate,
            mode.is_training,
            mode.dropout_seed,
            f"{stack}/embedding",
        )

    def _finish(self, x):
        """Normalize the result of a whole stack, if the dialect says so."""
        return normalize(x, self.dialect.norm_epsilon) if self.dialect.final_norm else x

    def _attention_settings(self, mode):
        """Return the arguments that all attentions of the model have in common."""
        hp = self.hp
        return dict(
            num_units=hp.d_model,
            num_heads=hp.num_heads,
            dropout_rate=hp.dropout_rate,
            is_training=mode.is_training,
            dialect=self.dialect,
            weights=mode.weights,
            dropout_seed=mode.dropout_seed,
        )

    def _self_attention(self, x, mode, order, key_masks, query_masks, past=None):
        """Attend within a stack: (float [N, T, D], the next KeyValueCache or None)."""
        bias = None
        if self.hp.proximity_bias:
            bias = proximity_bias(order.query_positions, order.key_positions)
        outputs = multihead_attention(
            x,
            x,
            scope="self_attention",
            key_masks=key_masks,
            query_masks=query_masks,
            mask=order.mask,
            bias=bias,
            query_positions=order.query_positions,
            key_positions=order.key_positions,
            max_relative_position=self.hp.max_relative_position,
            past=past,
            **self._attention_settings(mode),
        )
        return (outputs, None) if past is None else outputs

    def _cross_attention(self, x, memory, block, mode, query_masks):
        """Attend from the target to the source: float [N, T, D]."""
        return multihead_attention(
            x,
            memory.states,
            scope="cross_attention",
            key_masks=memory.mask,
            query_masks=query_masks,
            projected=memory.projected and memory.projected[block],
            **self._attention_settings(mode),
        )

    def _feedforward(self, x, mode, mask=None):
        hp = self.hp
        return feedforward(
            x,
            (hp.d_ff, hp.d_model),
            dropout_rate=hp.dropout_rate,
            is_training=mode.is_training,
            mask=mask,
            dialect=self.dialect,
            dropout_seed=mode.dropout_seed,
        )


def _order_after(cache, parents, beam_size):
    """Place the newest pieces of the hypotheses after those in the cache.

    Args:
      cache: DecoderCache of T positions.
      parents: int32 [N, K], which hypothesis each of the new ones continues; None
        where there is one of each sentence.
      beam_size: int, K.

    Returns:
      (ancestors bool [N, 1, K, (T + 1) * K], Order of K queries).
    """
    length = tf.shape(cache.past[0].keys)[2] // beam_size  # T
    positions = as_int64(tf.range(length + 1))[:, None]
    positions = tf.reshape(tf.tile(positions, [1, beam_size]), [-1])  # [(T + 1) * K]
    if beam_size == 1:
        return cache.ancestors, Order(positions[-1:], positions, None)
    inherited = tf.gather(cache.ancestors[:, 0], parents, batch_dims=1)[:, None]
    every = tf.fill([tf.shape(cache.ancestors)[0], 1, beam_size, 1], True)
    itself = tf.logical_and(every, np.eye(beam_size, dtype=bool))  # [N, 1, K, K]
    ancestors = tf.concat([inherited, itself], axis=-1)
    return ancestors, Order(positions[-beam_size:], positions, ancestors)
