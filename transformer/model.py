"""The model: embeddings, a stack of encoder blocks, a stack of decoder blocks, logits.

Figure 1 of the paper. `encode` turns the source into a Memory, `decode` turns the
target so far and the Memory into logits. The one body of `decode` serves training (all
positions at once) and translation (one position at a time, with a cache).
"""

from typing import NamedTuple

import tensorflow.compat.v1 as tf

from transformer.blocks.attention import breadth
from transformer.blocks.masks import broadcast_keys, found_mask, proximity_bias
from transformer.blocks.primitives import dense_variables, dropout, reshape, shape_list
from transformer.dialects import dialect_named
from transformer.modules import (
    embedding,
    embedding_table,
    feedforward,
    keys_and_values,
    multihead_attention,
    normalize,
    positional_encoding,
)


class Memory(NamedTuple):
    """What the encoder leaves for the decoder."""

    states: tf.Tensor  # float [N, S, D]
    mask: tf.Tensor  # bool [N, 1, 1, S], True where the source has a token
    projected: tuple = ()  # K and V, [N, H, S, D / H] each, for each decoder block


class Run(NamedTuple):
    """How a call of the model is run."""

    is_training: bool
    dropout_seed: tf.Tensor  # int [2], or None
    weights: dict  # receives the attention weights by scope, or None


class Transformer:
    """A Transformer of the sizes and the dialect of `hp`; its variables are shared
    between all calls in one graph."""

    def __init__(self, hp):
        self.hp = hp
        self.dialect = dialect_named(hp.dialect)

    def encode(self, source, is_training=False, dropout_seed=None, weights=None):
        """Runs the encoder.

        Args:
          source: int32 [N, S], 0 = padding.
          is_training: bool; dropout only where True.
          dropout_seed: int [2] tensor, see `primitives.dropout`.
          weights: dict; receives the attention weights [N, H, S, S] by scope name.

        Returns:
          Memory.
        """
        run = Run(is_training, dropout_seed, weights)
        if self.hp.pad_sources_to:
            missing = tf.maximum(0, self.hp.pad_sources_to - tf.shape(source)[1])
            source = tf.pad(source, [[0, 0], [0, missing]])  # [N, S]
        row, real = self.dialect, tf.not_equal(source, 0)  # [N, S]
        masks = real if row.masks_from == "ids" else None
        skipped = real if row.feedforward_skips_padding else None
        x = self._embed(source, "encoder", run)  # [N, S, D]
        with tf.variable_scope("encoder", reuse=tf.AUTO_REUSE):
            for i in range(self.hp.num_blocks):
                with tf.variable_scope(f"block_{i}"):
                    x = self._self_attention(x, run, masks, masks)
                    x = self._feedforward(x, run, skipped)  # [N, S, D]
            x = self._finish(x)
        if masks is None:
            real = found_mask(x, row.padded_row)
        return Memory(x, broadcast_keys(real))

    def decode(
        self,
        target_in,
        memory,
        is_training=False,
        dropout_seed=None,
        cache=None,
        weights=None,
    ):
        """Runs the decoder.

        Args:
          target_in: int32 [N, T], BOS and the target so far, 0 = padding. With a
            cache, only the positions that the cache does not hold yet; with a cache of
            hypotheses, the newest piece of each, [N, K].
          memory: Memory of N sentences.
          is_training, dropout_seed, weights: as in `encode`.
          cache: what the last call returned, or `empty_cache`; None in training.

        Returns:
          (logits float [N, T, V] of the next piece at each position, the new cache).
        """
        x, cache = self.decoder_states(
            target_in, memory, is_training, dropout_seed, cache, weights
        )
        table, bias = self._output_layer()
        return _logits(x, tf.transpose(table), bias), cache

    def decoder_states(
        self,
        target_in,
        memory,
        is_training=False,
        dropout_seed=None,
        cache=None,
        weights=None,
    ):
        """`decode` without its output layer: (float [N, T, D], the new cache)."""
        run, row = Run(is_training, dropout_seed, weights), self.dialect
        real = tf.not_equal(target_in, 0)  # [N, T]
        query_masks = real if row.masks_from == "ids" else None
        key_masks = query_masks if row.decoder_masks_padding else tf.ones_like(real)
        cache = None if cache is None else {name: dict(cache[name]) for name in cache}
        x = self._embed(
            target_in, "decoder", run, cache and cache["block_0"]
        )  # [N, T, D]
        with tf.variable_scope("decoder", reuse=tf.AUTO_REUSE):
            for i in range(self.hp.num_blocks):
                with tf.variable_scope(f"block_{i}"):
                    x = self._self_attention(
                        x,
                        run,
                        key_masks,
                        query_masks,
                        True,
                        cache and cache[f"block_{i}"],
                    )
                    x = self._cross_attention(x, memory, i, run, query_masks)
                    x = self._feedforward(x, run)  # [N, T, D]
            return self._finish(x), cache

    def project(self, memory):
        """The memory with the keys and values that each decoding step would compute."""
        hp, projected = self.hp, []
        for i in range(hp.num_blocks):
            with tf.variable_scope(
                f"decoder/block_{i}/cross_attention", reuse=tf.AUTO_REUSE
            ):
                projected.append(
                    keys_and_values(memory.states, hp.d_model, hp.num_heads, hp.dialect)
                )
        return memory._replace(projected=tuple(projected))

    def empty_cache(self, batch, hypotheses=1):
        """The cache before the first position.

        Args:
          batch: int or scalar tensor, the number of sentences.
          hypotheses: int, K, of each sentence. Where there are several, their keys and
            values stay where they are, K at each position; the masks of the cache tell
            which of them belong to a hypothesis.
        """
        hp = self.hp
        shape = [batch, hp.num_heads, 0, hp.d_model // hp.num_heads]
        mask = [batch, 1, hypotheses, 0] if hypotheses > 1 else [batch, 0]
        return {
            f"block_{i}": {
                "k": tf.zeros(shape),
                "v": tf.zeros(shape),
                "mask": tf.zeros(mask, tf.bool),
            }
            for i in range(hp.num_blocks)
        }

    def start_search(self, memory, hypotheses=1):
        """What `decoding` needs: the step function for the sentences of `memory`, and
        its state before the first position of as many hypotheses each."""
        table, bias = self._output_layer()
        kernel = tf.transpose(table)  # once, not in each step

        def step(ids, parents, state):
            memory, cache = state
            if breadth(cache["block_0"]) > 1:
                cache = {
                    name: dict(
                        block,
                        mask=tf.gather(block["mask"][:, 0], parents, batch_dims=1)[
                            :, None
                        ],
                    )
                    for name, block in cache.items()
                }
            x, cache = self.decoder_states(ids, memory, cache=cache)  # [N, K, D]
            return _logits(x, kernel, bias), (memory, cache)

        cache = self.empty_cache(tf.shape(memory.states)[0], hypotheses)
        return step, (self.project(memory), cache)

    def _table(self, stack):
        """(vocabulary size, variable scope) of the embedding of a stack."""
        hp = self.hp
        shared = self.dialect.tied_embeddings and hp.joint_vocab
        size = hp.source_vocab_size if stack == "encoder" else hp.target_vocab_size
        return size, "embedding" if shared else f"{stack}/embedding"

    def _embed(self, ids, stack, run, cache=None):
        """Embeddings plus positions, with dropout: float [N, T, D] (3.4, 5.4)."""
        hp, row = self.hp, self.dialect
        vocab_size, scope = self._table(stack)
        offset = tf.shape(cache["k"])[2] if cache else 0
        if row.begins_with_zeros and stack == "decoder":
            places = (tf.range(tf.shape(ids)[1]) + offset) // breadth(cache)
            ids = tf.where_v2(tf.equal(places, 0)[None, :], tf.zeros_like(ids), ids)
        x = embedding(ids, vocab_size, hp.d_model, scope=scope, reuse=tf.AUTO_REUSE)
        if row.target_space and stack == "encoder":
            x += self._target_space()
        if breadth(cache) > 1:  # one position for all
            ids, offset = ids[:, :1], offset // breadth(cache)
        x += self._positions(ids, stack, offset)
        return dropout(
            x, hp.dropout_rate, run.is_training, run.dropout_seed, f"{stack}/embedding"
        )

    def _positions(self, ids, stack, offset):
        """What is added to the embeddings of ids [N, T]: float [N, T, D]."""
        hp, row = self.hp, self.dialect
        scope = f"{stack}/positional_encoding"
        if hp.positions == "learned" or (row.learned_positions and not hp.positions):
            places = tf.minimum(
                tf.range(tf.shape(ids)[1]) + offset, hp.max_positions - 1
            )
            places = tf.tile(places[None, :], [tf.shape(ids)[0], 1])  # [N, T]
            return embedding(
                places,
                hp.max_positions,
                hp.d_model,
                zero_pad=False,
                scale=False,
                scope=scope,
                reuse=tf.AUTO_REUSE,
            )
        return positional_encoding(
            ids,
            hp.d_model,
            not row.positions_on_padding,
            scale=False,
            scope=scope,
            dialect=hp.dialect,
            offset=offset,
        )

    def _target_space(self):
        """tensor2tensor's vector for the kind of text that is wanted: float [D]."""
        with tf.variable_scope("encoder", reuse=tf.AUTO_REUSE):
            return tf.get_variable("target_space", [self.hp.d_model])

    def _output_layer(self):
        """(table float [V, D], bias float [V] or None): logits = states table^T + bias.
        Where tied, the table is the target's embeddings."""
        vocab_size, scope = self._table("decoder")
        if not self.dialect.tied_embeddings:
            with tf.variable_scope("decoder", reuse=tf.AUTO_REUSE):
                kernel, bias = dense_variables(
                    self.hp.d_model, vocab_size, True, "output"
                )
            return tf.transpose(kernel), bias
        table = embedding_table(vocab_size, self.hp.d_model, scope, reuse=tf.AUTO_REUSE)
        if self.dialect.padding_row_is_zero:
            real = tf.cast(tf.not_equal(tf.range(vocab_size), 0), tf.float32)
            table = table * real[:, None]
        return table, None

    def output_factors(self, x):
        """The output layer as one product: logits = states table^T.

        Args:
          x: float [N, T, D], the states of the decoder.

        Returns:
          (states float [N, T, any width], table float [V, that width]).
        """
        table, bias = self._output_layer()
        if bias is None:
            return x, table
        return (
            tf.concat([x, tf.ones_like(x[..., :1])], -1),
            tf.concat([table, bias[:, None]], 1),
        )

    def _finish(self, x):
        """What the dialect puts behind a whole stack."""
        return normalize(x, self.dialect.norm_epsilon) if self.dialect.final_norm else x

    def _attention_settings(self, run):
        """The arguments that all attentions of the model have in common."""
        hp = self.hp
        return dict(
            num_units=hp.d_model,
            num_heads=hp.num_heads,
            dropout_rate=hp.dropout_rate,
            is_training=run.is_training,
            dialect=hp.dialect,
            weights=run.weights,
            dropout_seed=run.dropout_seed,
        )

    def _self_attention(
        self, x, run, key_masks, query_masks, causality=False, cache=None
    ):
        """Attention within a stack, knowing distances where the settings ask for it."""
        bias = None
        if self.hp.proximity_bias:
            length, offset = tf.shape(x)[1], tf.shape(cache["k"])[2] if cache else 0
            bias = proximity_bias(length, length + offset, offset, breadth(cache))
        return multihead_attention(
            x,
            x,
            causality=causality,
            scope="self_attention",
            key_masks=key_masks,
            query_masks=query_masks,
            bias=bias,
            cache=cache,
            max_relative_position=self.hp.max_relative_position,
            **self._attention_settings(run),
        )

    def _cross_attention(self, x, memory, block, run, query_masks):
        """Attention from the target to the source: float [N, T, D]."""
        keys, cache = memory.states, None
        if memory.projected:
            K, V = memory.projected[block]
            keys, cache = None, {"k": K, "v": V}
        return multihead_attention(
            x,
            keys,
            scope="cross_attention",
            key_masks=memory.mask,
            cache=cache,
            query_masks=query_masks,
            **self._attention_settings(run),
        )

    def _feedforward(self, x, run, mask=None):
        hp = self.hp
        return feedforward(
            x,
            (hp.d_ff, hp.d_model),
            dropout_rate=hp.dropout_rate,
            is_training=run.is_training,
            mask=mask,
            dialect=hp.dialect,
            dropout_seed=run.dropout_seed,
        )


def _logits(x, kernel, bias):
    """The output layer: float [N, T, D] → [N, T, V]."""
    batch, length, width = shape_list(x)
    logits = tf.matmul(tf.reshape(x, [-1, width]), kernel)
    if bias is not None:
        logits = tf.nn.bias_add(logits, bias)
    return reshape(logits, [batch, length, kernel.shape.as_list()[1]])
