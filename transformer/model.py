"""The model: embeddings, encoder blocks, decoder blocks, logits (figure 1).

`encode` turns the source into a Memory; `decode` turns the target and the Memory into
logits. One method, `_decoder_states`, serves both training (all positions at once) and
translation (one position at a time, with a DecoderCache).
"""

from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from transformer.blocks.attention import (
    KeyValueCache,
    RelativePositions,
    keys_and_values,
)
from transformer.blocks.layers import (
    Dropout,
    append_zeros,
    cast_to_float32,
    cast_to_int64,
    dense_variables,
    embedding_table,
    normalize,
    shape_list,
    zero_first_row,
)
from transformer.blocks.masks import (
    causal_mask,
    is_token,
    make_masks,
    nonzero_rows,
    proximity_bias,
)
from transformer.blocks.positions import LEARNED, choose_positions
from transformer.hparams import HParams
from transformer.modules import (
    AttentionSettings,
    FeedforwardSettings,
    Probe,
    attention_sublayer,
    embedding,
    feedforward_sublayer,
    positional_encoding,
)


class Memory(NamedTuple):
    """The output of the encoder, which the decoder attends to."""

    states: tf.Tensor  # float [N, S, D]
    # bool [N, 1, 1, S], True where the source has a token; in dialects with
    # masks_from="activations", where the state is not padding by `padded_row`.
    mask: tf.Tensor
    # K and V of S keys for each decoder block; only in a search, where all steps need
    # them.
    projected: Tuple[KeyValueCache, ...] = ()


class DecoderCache(NamedTuple):
    """The cache of a search: the keys and values of T positions, for K hypotheses each.

    Keys are never reordered: each position keeps the keys of K hypotheses, and
    `ancestors` marks those that belong to the past of each hypothesis. For example, in
    the second step with K = 2, if both hypotheses continue hypothesis 1 of the first
    step, `ancestors` is [[0, 1, 1, 0], [0, 1, 0, 1]]. Attention computes T * K keys
    instead of T, but no keys are reordered.
    """

    ancestors: tf.Tensor  # bool [N, 1, K, T * K]
    past: Tuple[KeyValueCache, ...]  # T * K keys for each decoder block
    # bool [N, T * K] for each decoder block, False = padding; empty in dialects whose
    # decoder does not mask padding.
    masks: Tuple[tf.Tensor, ...] = ()


class SublayerSettings(NamedTuple):
    """The settings of the sub-layers, the same in all blocks of a model."""

    attention: AttentionSettings
    feedforward: FeedforwardSettings


class Transformer:
    """A Transformer with the sizes and the dialect of `hp`.

    All calls in one graph share its variables.

        model = Transformer(hp)
        logits = model.decode(target_in, model.encode(source))  # [N, T, V]

    Args:
      hp: the settings.
      getter: custom getter for the variables of the blocks and of the output layer;
        see `runtime.precision.make_getter`.
      probe: a Probe, to look inside.
    """

    def __init__(
        self,
        hp: HParams,
        getter: Optional[Callable] = None,
        probe: Optional[Probe] = None,
    ):
        self.hp = hp
        self.dialect = hp.resolved_dialect
        self._getter = getter
        self._probe = probe

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
        settings = self._make_settings(is_training, dropout_seed, weights)
        source = cast_to_int64(source)
        if hp.pad_sources_to:
            missing = tf.maximum(0, hp.pad_sources_to - tf.shape(source)[1])
            source = append_zeros(source, missing, axis=1)  # [N, S]
        token_mask = is_token(source)  # [N, S]
        positions = cast_to_int64(tf.range(tf.shape(source)[1]))  # [S]
        relative = self._make_relative(positions, positions)
        bias = self._make_bias(positions, positions)
        feedforward_mask = None
        if dialect.feedforward_skips_padding:
            feedforward_mask = token_mask[..., None]  # [N, S, 1]
        x = self.embed(source, "encoder", positions)  # [N, S, D]
        x = settings.attention.dropout.apply(x, "encoder/embedding")
        with self._open_scope("encoder"):
            for i in range(hp.encoder_blocks):
                with tf.variable_scope(f"block_{i}"):
                    mask = self._mask_padding(token_mask, x)  # [N, S]
                    masks = make_masks(dialect, mask, mask, bias=bias)
                    x, _ = attention_sublayer(
                        x,
                        x,
                        masks,
                        settings.attention,
                        "self_attention",
                        relative=relative,
                    )
                    x = feedforward_sublayer(
                        x, settings.feedforward, "feedforward", mask=feedforward_mask
                    )  # [N, S, D]
            x = self._normalize_stack(x)
        return Memory(x, self._mask_padding(token_mask, x)[:, None, None, :])

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
            visible=causal_mask(positions),
            settings=self._make_settings(is_training, dropout_seed, weights),
        )
        return compute_logits(states, *self.output_layer())

    def start_search(
        self, memory: Memory, beam_size: int = 1
    ) -> Tuple[Callable, tuple]:
        """Prepare a search: see `decoding`.

        Args:
          memory: Memory of N sentences.
          beam_size: int, K, the number of hypotheses for each sentence.

        Returns:
          (the step function, the state before the first position).
        """
        # Outside `step`, so that the table is transposed only once.
        output_layer = self.output_layer()

        hp = self.hp
        settings = self._make_settings()
        projected = []  # K and V, which every step needs
        for i in range(hp.decoder_blocks):
            with self._open_scope(f"decoder/block_{i}/cross_attention"):
                projected.append(
                    keys_and_values(
                        memory.states,
                        hp.key_units,
                        hp.num_heads,
                        self.dialect,
                        hp.value_units,
                    )
                )
        sizes = [tf.shape(memory.states)[0], hp.num_heads, 0]
        dtype = projected[0].keys.dtype
        past = KeyValueCache(
            tf.zeros([*sizes, hp.key_units // hp.num_heads], dtype),
            tf.zeros([*sizes, hp.value_units // hp.num_heads], dtype),
        )
        cache = DecoderCache(
            ancestors=tf.zeros([sizes[0], 1, beam_size, 0], tf.bool),
            past=(past,) * hp.decoder_blocks,
            masks=(tf.zeros([sizes[0], 0], tf.bool),)
            * (hp.decoder_blocks if self.dialect.decoder_masks_padding else 0),
        )

        def step(ids, parents, state):
            # With K = 2 and T = 3 positions in the cache:
            #   ids [N, 2]: the newest piece of each hypothesis, at position 3
            #   cached keys [N, H, 6, d] become [N, H, 8, d]
            #   positions [8]: 0, 0, 1, 1, 2, 2, 3, 3; newest [2]: 3, 3
            #   ancestors [N, 1, 2, 6] become [N, 1, 2, 8]
            memory, cache = state
            length = tf.shape(cache.past[0].keys)[2] // beam_size  # T
            positions = cast_to_int64(tf.range(length + 1))[:, None]
            positions = tf.reshape(tf.tile(positions, [1, beam_size]), [-1])
            ancestors = cache.ancestors
            visible = None
            if beam_size > 1:  # a hypothesis sees its ancestors and itself
                inherited = tf.gather(ancestors[:, 0], parents, batch_dims=1)[:, None]
                itself = tf.fill([tf.shape(ancestors)[0], 1, beam_size, 1], True)
                itself = tf.logical_and(itself, np.eye(beam_size, dtype=bool))
                ancestors = tf.concat([inherited, itself], axis=-1)
                visible = ancestors  # [N, 1, K, (T + 1) * K]
            newest = positions[-beam_size:]
            newest.set_shape([beam_size])
            states, cache = self._decoder_states(
                ids,
                memory,
                query_positions=newest,
                key_positions=positions,
                visible=visible,
                settings=settings,
                cache=cache._replace(ancestors=ancestors),
            )
            return compute_logits(states, *output_layer), (memory, cache)

        return step, (memory._replace(projected=tuple(projected)), cache)

    def _decoder_states(
        self,
        ids,
        memory: Memory,
        query_positions,
        key_positions,
        visible,
        settings: SublayerSettings,
        cache: Optional[DecoderCache] = None,
    ) -> Tuple[tf.Tensor, Optional[DecoderCache]]:
        """Run the decoder's blocks, in training and in each step of a search.

        Args:
          ids: int [N, T]; in a search, T is the K hypotheses, all at one position.
          memory: Memory of N sentences.
          query_positions, key_positions: int64 [T], [Tk], of the self-attention.
          visible: a causal mask, or the ancestors of each hypothesis; None: all keys
            are seen.
          settings: SublayerSettings.
          cache: DecoderCache; None in training.

        Returns:
          (float [N, T, D], the DecoderCache for the next call or None).
        """
        hp = self.hp
        dialect = self.dialect
        ids = cast_to_int64(ids)
        token_mask = is_token(ids)  # [N, T]
        relative = self._make_relative(query_positions, key_positions)
        bias = self._make_bias(query_positions, key_positions)
        presents: List[KeyValueCache] = []
        key_masks: List[tf.Tensor] = []
        x = self.embed(ids, "decoder", query_positions)  # [N, T, D]
        x = settings.attention.dropout.apply(x, "decoder/embedding")
        with self._open_scope("decoder"):
            for i in range(hp.decoder_blocks):
                with tf.variable_scope(f"block_{i}"):
                    mask = self._mask_padding(token_mask, x)  # [N, T]
                    key_mask = None
                    if dialect.decoder_masks_padding:
                        key_mask = mask
                        if cache is not None:
                            key_mask = tf.concat([cache.masks[i], mask], axis=1)
                        key_masks.append(key_mask)  # [N, Tk]
                    x, present = attention_sublayer(
                        x,
                        x,
                        make_masks(dialect, key_mask, mask, visible, bias),
                        settings.attention,
                        "self_attention",
                        relative=relative,
                        past=cache.past[i] if cache else None,
                    )
                    presents.append(present)
                    mask = self._mask_padding(token_mask, x)
                    x, _ = attention_sublayer(
                        x,
                        memory.projected[i] if memory.projected else memory.states,
                        make_masks(dialect, memory.mask, mask),
                        settings.attention,
                        "cross_attention",
                    )
                    x = feedforward_sublayer(x, settings.feedforward, "feedforward")
            x = self._normalize_stack(x)
        if cache is not None:
            cache = cache._replace(past=tuple(presents), masks=tuple(key_masks))
        return x, cache

    def _open_scope(self, name: str):
        """Open a variable scope that all calls share."""
        return tf.variable_scope(name, reuse=tf.AUTO_REUSE, custom_getter=self._getter)

    def _make_settings(
        self, is_training=False, dropout_seed=None, weights: Optional[Dict] = None
    ) -> SublayerSettings:
        """Make the settings that all blocks share."""
        hp = self.hp
        dialect = self.dialect
        dropout = Dropout(hp.dropout_rate, is_training, dropout_seed)
        attention = AttentionSettings(
            hp.key_units,
            hp.num_heads,
            dialect,
            dropout,
            dropout.replace_rate(
                hp.rate_of("attention_dropout"), dialect.attention_dropout
            ),
            weights,
            hp.value_units,
            self._probe,
        )
        feedforward = FeedforwardSettings(
            (hp.d_ff, hp.d_model),
            dialect,
            dropout,
            dropout.replace_rate(hp.rate_of("ffn_dropout"), dialect.inner_dropout),
            self._probe,
        )
        return SublayerSettings(attention, feedforward)

    def _mask_padding(self, token_mask, x):
        """Choose the padding mask of a sub-layer: bool [N, T], False = padding.

        Args:
          token_mask: bool [N, T], from the ids.
          x: float [N, T, D], the inputs of a sub-layer.
        """
        if self.dialect.masks_from == "ids":
            return token_mask
        return nonzero_rows(x, self.dialect.padded_row)

    def _normalize_stack(self, x):
        """Normalize the outputs of a stack, float [N, T, D], if the dialect does."""
        if self.dialect.final_norm:  # nothing else normalizes the sum
            x = normalize(x, self.dialect.norm_epsilon)
        return x

    def _make_relative(self, query_positions, key_positions):
        """Make the RelativePositions; None if the settings do not ask for them."""
        max_distance = self.hp.max_relative_position
        if not max_distance:
            return None
        return RelativePositions(query_positions, key_positions, max_distance)

    def _make_bias(self, query_positions, key_positions):
        """Compute the bias for near keys; None if the settings do not ask for one."""
        if not self.hp.proximity_bias:
            return None
        return proximity_bias(query_positions, key_positions)

    # Embeddings and the output layer (section 3.4)

    def embed(self, ids, stack: str, positions):
        """Add the embeddings and the positions: float [N, T, D].

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
        encoding = choose_positions(hp.positions, dialect)
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
            positions=tf.cast(positions, tf.float64, name=f"{scope}/positions"),
            dialect=dialect._replace(positions=encoding),
        )

    def output_layer(self) -> tuple:
        """Get the output layer: (kernel float [D, V], bias float [V] or None).

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


def variable_shapes(hp: HParams) -> Dict[str, List[int]]:
    """Return the name and the shape of each variable of a model."""
    with tf.Graph().as_default():
        model = Transformer(hp)
        ids = tf.placeholder(tf.int32, [None, None])
        model.decode(ids, model.encode(ids))
        return {
            variable.op.name: variable.shape.as_list()
            for variable in tf.trainable_variables()
        }


def table_scope(hp: HParams, stack: str) -> str:
    """Return the variable scope of the embedding table of a stack.

    Args:
      hp: the settings.
      stack: "encoder" or "decoder".
    """
    shared = hp.resolved_dialect.tied_embeddings and hp.joint_vocab
    return "embedding" if shared else f"{stack}/embedding"


def compute_logits(states, kernel, bias):
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
