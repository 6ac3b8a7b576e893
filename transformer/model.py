"""The model: embeddings, encoder blocks, decoder blocks, logits (figure 1).

`encode` turns the source into a Memory; `decode` turns the target and the Memory into
logits. One method, `_decoder_states`, serves both training (all positions at once) and
translation (one position at a time, with a DecoderCache).
"""

import functools
from typing import Callable, Dict, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.layers import (
    append_zeros,
    cast_to_float32,
    cast_to_int64,
    dense_variables,
    dropout,
    embedding_table,
    shape_list,
    zero_first_row,
)
from transformer.blocks.masks import causal_mask, is_token, nonzero_rows, proximity_bias
from transformer.blocks.positions import LEARNED, chosen_positions
from transformer.dialects import resolve
from transformer.hparams import HParams
from transformer.modules import (
    KeyValueCache,
    embedding,
    feedforward,
    keys_and_values,
    multihead_attention,
    normalize,
    positional_encoding,
)


class Memory(NamedTuple):
    """The output of the encoder, which the decoder attends to."""

    states: tf.Tensor  # float [N, S, D]
    mask: tf.Tensor  # bool [N, 1, 1, S], True where the source has a token
    projected: tuple = ()  # (K, V) of each decoder block, [N, H, S, D / H] each


class DecoderCache(NamedTuple):
    """The cache of a search: the keys and values of T positions, for K hypotheses each.

    Keys are never reordered: each position keeps the keys of K hypotheses, and
    `ancestors` marks those that belong to the past of each hypothesis.
    """

    ancestors: tf.Tensor  # bool [N, 1, K, T * K]
    past: Tuple[KeyValueCache, ...]  # for each decoder block, T * K keys


class Transformer:
    """A Transformer with the sizes and the dialect of `hp`.

    All calls in one graph share its variables.

        model = Transformer(hp)
        logits = model.decode(target_in, model.encode(source))  # [N, T, V]

    Args:
      hp: the settings.
      getter: custom getter for the variables of the blocks and of the output layer;
        see `runtime.precision.getter_to`.
    """

    def __init__(self, hp: HParams, getter: Optional[Callable] = None):
        self.hp = hp
        self.dialect = resolve(hp.dialect)
        self._getter = getter

    def encode(
        self,
        source,
        is_training=False,
        dropout_seed=None,
        weights: Optional[Dict] = None,
    ) -> Memory:
        """Run the encoder.

        Args:
          source: int32 [N, S], 0 = padding.
          is_training: bool, whether dropout is applied.
          dropout_seed: int [2] tensor: see `layers.dropout`.
          weights: dict; receives the attention weights [N, H, S, S] by scope name.

        Returns:
          Memory.
        """
        hp = self.hp
        dialect = self.dialect
        attention, transform = self._sublayers(is_training, dropout_seed, weights)
        source = cast_to_int64(source)
        if hp.pad_sources_to:
            missing = tf.maximum(0, hp.pad_sources_to - tf.shape(source)[1])
            source = append_zeros(source, missing, axis=1)  # [N, S]
        padding_mask = is_token(source)  # [N, S]
        masks = padding_mask if dialect.masks_from == "ids" else None
        positions = cast_to_int64(tf.range(tf.shape(source)[1]))  # [S]
        x = self.embed(source, "encoder", positions)  # [N, S, D]
        x = dropout(x, hp.dropout_rate, is_training, dropout_seed, "encoder/embedding")
        with self._scope("encoder"):
            for i in range(hp.encoder_blocks):
                with tf.variable_scope(f"block_{i}"):
                    x = attention(
                        x,
                        x,
                        scope="self_attention",
                        key_masks=masks,
                        query_masks=masks,
                        bias=self._proximity_bias(positions, positions),
                        query_positions=positions,
                        key_positions=positions,
                        max_relative_position=hp.max_relative_position,
                    )
                    kept = padding_mask if dialect.feedforward_skips_padding else True
                    x = transform(x, mask=kept)  # [N, S, D]
            if dialect.final_norm:  # nothing else normalizes the sum
                x = normalize(x, dialect.norm_epsilon)
        if masks is None:
            padding_mask = nonzero_rows(x, dialect.padded_row)
        return Memory(x, padding_mask[:, None, None, :])

    def decode(
        self,
        target_in,
        memory: Memory,
        is_training=False,
        dropout_seed=None,
        weights: Optional[Dict] = None,
    ):
        """Run the decoder on whole targets.

        Args:
          target_in: int32 [N, T], BOS and then the target, 0 = padding.
          memory: Memory of N sentences.
          is_training, dropout_seed, weights: as in `encode`.

        Returns:
          float [N, T, V], the logits of the next piece at each position.
        """
        positions = cast_to_int64(tf.range(tf.shape(target_in)[1]))  # [T]
        states, _ = self._decoder_states(
            target_in,
            memory,
            query_positions=positions,
            key_positions=positions,
            mask=causal_mask(positions),
            is_training=is_training,
            dropout_seed=dropout_seed,
            weights=weights,
        )
        return logits(states, *self.output_layer())

    def start_search(
        self, memory: Memory, beam_size: int = 1
    ) -> Tuple[Callable, tuple]:
        """Return the step function and the first state for a search: see `decoding`.

        Args:
          memory: Memory of N sentences.
          beam_size: int, K, the number of hypotheses for each sentence.

        Returns:
          (the step function, the state before the first position).
        """
        # Outside `step`, so that the table is transposed only once.
        output_layer = self.output_layer()

        hp = self.hp
        projected = []  # K and V, which every step needs
        for i in range(hp.decoder_blocks):
            with self._scope(f"decoder/block_{i}/cross_attention"):
                projected.append(
                    keys_and_values(
                        memory.states, hp.d_model, hp.num_heads, self.dialect
                    )
                )
        batch = tf.shape(memory.states)[0]
        sizes = [batch, hp.num_heads, 0, hp.d_model // hp.num_heads]
        keys = tf.zeros(sizes, projected[0][0].dtype)
        past = KeyValueCache(keys, keys, tf.zeros([batch, 0], tf.bool))
        ancestors = tf.zeros([batch, 1, beam_size, 0], tf.bool)
        cache = DecoderCache(ancestors, (past,) * hp.decoder_blocks)

        def step(ids, parents, state):
            memory, cache = state
            length = tf.shape(cache.past[0].keys)[2] // beam_size  # T
            positions = cast_to_int64(tf.range(length + 1))[:, None]
            positions = tf.reshape(tf.tile(positions, [1, beam_size]), [-1])
            ancestors = cache.ancestors
            mask = None
            if beam_size > 1:  # a hypothesis sees its ancestors and itself
                inherited = tf.gather(ancestors[:, 0], parents, batch_dims=1)[:, None]
                every = tf.fill([tf.shape(ancestors)[0], 1, beam_size, 1], True)
                itself = tf.logical_and(every, np.eye(beam_size, dtype=bool))
                ancestors = tf.concat([inherited, itself], axis=-1)
                mask = ancestors  # [N, 1, K, (T + 1) * K]
            newest = positions[-beam_size:]
            newest.set_shape([beam_size])
            states, past = self._decoder_states(
                ids,
                memory,
                query_positions=newest,
                key_positions=positions,
                mask=mask,
                past=cache.past,
            )
            cache = DecoderCache(ancestors, past)
            return logits(states, *output_layer), (memory, cache)

        return step, (memory._replace(projected=tuple(projected)), cache)

    def _decoder_states(
        self,
        ids,
        memory: Memory,
        query_positions,
        key_positions,
        mask,
        past: Optional[Tuple[KeyValueCache, ...]] = None,
        is_training=False,
        dropout_seed=None,
        weights: Optional[Dict] = None,
    ):
        """Run the decoder's blocks, in training and in each step of a search.

        Args:
          ids: int [N, T].
          memory: Memory of N sentences.
          query_positions, key_positions: int64 [T], [Tk], of the self-attention.
          mask: causal, or the ancestors of each hypothesis; None: all keys are seen.
          past: the KeyValueCache of each block; None in training.
          is_training, dropout_seed, weights: as in `encode`.

        Returns:
          (float [N, T, D], the KeyValueCache of each block for the next call).
        """
        hp = self.hp
        dialect = self.dialect
        attention, transform = self._sublayers(is_training, dropout_seed, weights)
        ids = cast_to_int64(ids)
        query_masks = is_token(ids) if dialect.masks_from == "ids" else None  # [N, T]
        key_masks = query_masks if dialect.decoder_masks_padding else True
        presents = []
        x = self.embed(ids, "decoder", query_positions)  # [N, T, D]
        x = dropout(x, hp.dropout_rate, is_training, dropout_seed, "decoder/embedding")
        with self._scope("decoder"):
            for i in range(hp.decoder_blocks):
                with tf.variable_scope(f"block_{i}"):
                    x = attention(
                        x,
                        x,
                        scope="self_attention",
                        key_masks=key_masks,
                        query_masks=query_masks,
                        mask=mask,
                        bias=self._proximity_bias(query_positions, key_positions),
                        query_positions=query_positions,
                        key_positions=key_positions,
                        max_relative_position=hp.max_relative_position,
                        past=past[i] if past else None,
                    )
                    if past:
                        x, present = x
                        presents.append(present)
                    x = attention(
                        x,
                        memory.states,
                        scope="cross_attention",
                        key_masks=memory.mask,
                        query_masks=query_masks,
                        projected=memory.projected[i] if memory.projected else None,
                    )
                    x = transform(x, mask=True)  # [N, T, D]
            if dialect.final_norm:
                x = normalize(x, dialect.norm_epsilon)
        return x, tuple(presents)

    def _scope(self, name: str):
        """Return a variable scope that all calls share."""
        return tf.variable_scope(name, reuse=tf.AUTO_REUSE, custom_getter=self._getter)

    def _sublayers(
        self, is_training, dropout_seed, weights
    ) -> Tuple[Callable, Callable]:
        """Return `multihead_attention` and `feedforward` with this model's settings."""
        hp = self.hp
        attention = functools.partial(
            multihead_attention,
            num_units=hp.d_model,
            num_heads=hp.num_heads,
            dropout_rate=hp.dropout_rate,
            attention_dropout=hp.rate_of("attention_dropout"),
            is_training=is_training,
            dialect=self.dialect,
            weights=weights,
            dropout_seed=dropout_seed,
        )
        transform = functools.partial(
            feedforward,
            num_units=(hp.d_ff, hp.d_model),
            dropout_rate=hp.dropout_rate,
            inner_dropout=hp.rate_of("ffn_dropout"),
            is_training=is_training,
            dialect=self.dialect,
            dropout_seed=dropout_seed,
        )
        return attention, transform

    def _proximity_bias(self, query_positions, key_positions):
        """Return the bias for near keys; None if the settings do not ask for one."""
        if not self.hp.proximity_bias:
            return None
        return proximity_bias(query_positions, key_positions)

    # Embeddings and the output layer (section 3.4)

    def embed(self, ids, stack: str, positions):
        """Return embeddings plus positions: float [N, T, D].

        Args:
          ids: int64 [N, T].
          stack: "encoder" or "decoder".
          positions: int64 [T].
        """
        hp = self.hp
        dialect = self.dialect
        if dialect.begins_with_zeros and stack == "decoder":
            ids = tf.where_v2(tf.equal(positions, 0)[None, :], tf.zeros_like(ids), ids)
        x = embedding(
            ids,
            hp.source_vocab_size if stack == "encoder" else hp.target_vocab_size,
            hp.d_model,
            scope=table_scope(hp, stack),
            reuse=tf.AUTO_REUSE,
        )
        if dialect.target_space and stack == "encoder":
            with tf.variable_scope("encoder", reuse=tf.AUTO_REUSE):
                x += tf.get_variable("target_space", [hp.d_model])
        scope = f"{stack}/positional_encoding"
        encoding = chosen_positions(hp.positions, dialect)
        if encoding == LEARNED:
            table = embedding(
                tf.minimum(positions, hp.max_positions - 1)[None, :],
                hp.max_positions,
                hp.d_model,
                zero_pad=False,
                scale=False,
                scope=scope,
                reuse=tf.AUTO_REUSE,
            )  # [1, T, D]
            if not dialect.positions_on_padding:
                table *= tf.cast(is_token(ids), table.dtype)[..., None]
            return x + table
        return x + positional_encoding(
            ids,
            hp.d_model,
            zero_pad=not dialect.positions_on_padding,
            scale=False,
            scope=scope,
            positions=positions,
            dialect=dialect._replace(positions=encoding),
        )

    def output_layer(self) -> tuple:
        """Return (kernel float [D, V], bias float [V] or None).

        With tied embeddings, the kernel is the transposed table of the target.
        """
        hp = self.hp
        size = hp.target_vocab_size
        scope = tf.get_variable_scope()
        with tf.variable_scope(scope, custom_getter=self._getter):
            if not self.dialect.tied_embeddings:
                with tf.variable_scope("decoder", reuse=tf.AUTO_REUSE):
                    return dense_variables(hp.d_model, size, True, "output")
            table = embedding_table(
                size, hp.d_model, table_scope(hp, "decoder"), tf.AUTO_REUSE
            )
            if self.dialect.padding_row_is_zero:
                table = zero_first_row(table)
            return tf.transpose(table), None


def table_scope(hp: HParams, stack: str) -> str:
    """Return the variable scope of the embedding table of a stack.

    Args:
      hp: the settings.
      stack: "encoder" or "decoder".
    """
    shared = resolve(hp.dialect).tied_embeddings and hp.joint_vocab
    return "embedding" if shared else f"{stack}/embedding"


def logits(states, kernel, bias):
    """Apply the output layer, states W + b: float [N, T, D] → [N, T, V].

    The result is float32, even if the kernel has 16 bits.

    Args:
      states: float [N, T, D].
      kernel: float [D, V].
      bias: float [V], or None.
    """
    batch, length, width = shape_list(states)
    states = tf.cast(tf.reshape(states, [-1, width]), kernel.dtype)
    outputs = cast_to_float32(tf.matmul(states, kernel))
    if bias is not None:
        outputs = tf.nn.bias_add(outputs, tf.cast(bias, outputs.dtype))
    return tf.reshape(outputs, [batch, length, kernel.shape.as_list()[1]])
