"""Ids become vectors, and the decoder's states become logits (section 3.4).

Where a dialect ties them, source, target and output layer share one table.
"""

from typing import Callable, Optional

import tensorflow.compat.v1 as tf

from transformer.blocks.masks import is_token
from transformer.blocks.positions import LEARNED, chosen_positions
from transformer.blocks.primitives import (
    dense_variables,
    embedding_table,
    widened,
    with_zero_row,
)
from transformer.blocks.shapes import shape_list
from transformer.dialects import resolve
from transformer.modules import embedding, positional_encoding


class Embeddings:
    """The tables of the vocabularies and positions of a model.

    Args:
      hp: the settings.
      getter: custom getter of the variables of the output layer, or None.
    """

    def __init__(self, hp, getter: Optional[Callable] = None):
        self.hp, self._getter = hp, getter
        self.dialect = resolve(hp.dialect)

    def _table(self, stack):
        """Return (vocabulary size, variable scope) of the embedding of a stack."""
        hp = self.hp
        size = hp.source_vocab_size if stack == "encoder" else hp.target_vocab_size
        return size, table_scope(hp, stack)

    def embed(self, ids, stack: str, positions):
        """Return embeddings plus positions: float [N, T, D].

        Args:
          ids: int32 [N, T].
          stack: "encoder" or "decoder".
          positions: int32 [T].
        """
        hp, dialect = self.hp, self.dialect
        vocab_size, scope = self._table(stack)
        if dialect.begins_with_zeros and stack == "decoder":
            ids = tf.where_v2(tf.equal(positions, 0)[None, :], tf.zeros_like(ids), ids)
        x = embedding(ids, vocab_size, hp.d_model, scope=scope, reuse=tf.AUTO_REUSE)
        if dialect.target_space and stack == "encoder":
            x += self._target_space()
        return x + self._positions(ids, stack, positions)

    def _positions(self, ids, stack, positions):
        """Return what is added to the embeddings: float [N or 1, T, D]."""
        hp, dialect = self.hp, self.dialect
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
            if dialect.positions_on_padding:
                return table
            return table * tf.cast(is_token(ids), table.dtype)[..., None]
        return positional_encoding(
            ids,
            hp.d_model,
            zero_pad=not dialect.positions_on_padding,
            scale=False,
            scope=scope,
            positions=positions,
            dialect=dialect._replace(positions=encoding),
        )

    def _target_space(self):
        """Return tensor2tensor's vector for the kind of target: float [D]."""
        with tf.variable_scope("encoder", reuse=tf.AUTO_REUSE):
            return tf.get_variable("target_space", [self.hp.d_model])

    def output_layer(self):
        """Return (kernel float [D, V], bias float [V] or None).

        Where embeddings are tied, the kernel is the target's table, transposed.
        """
        here = tf.get_variable_scope()
        with tf.variable_scope(here, custom_getter=self._getter):
            return self._output_variables()

    def _output_variables(self):
        vocab_size, scope = self._table("decoder")
        if not self.dialect.tied_embeddings:
            with tf.variable_scope("decoder", reuse=tf.AUTO_REUSE):
                return dense_variables(self.hp.d_model, vocab_size, True, "output")
        table = embedding_table(vocab_size, self.hp.d_model, scope, tf.AUTO_REUSE)
        if self.dialect.padding_row_is_zero:
            table = with_zero_row(table)
        return tf.transpose(table), None


def table_scope(hp, stack: str) -> str:
    """Return the variable scope of the embedding of a stack, shared or its own.

    Args:
      hp: the settings.
      stack: "encoder" or "decoder".
    """
    shared = resolve(hp.dialect).tied_embeddings and hp.joint_vocab
    return "embedding" if shared else f"{stack}/embedding"


def logits(states, kernel, bias):
    """Return states kernel + bias, the output layer: float [N, T, D] → [N, T, V].

    The result is float32, also where the kernel has 16 bits.

    Args:
      states: float [N, T, D].
      kernel: float [D, V].
      bias: float [V], or None.
    """
    batch, length, width = shape_list(states)
    states = tf.cast(tf.reshape(states, [-1, width]), kernel.dtype)
    outputs = widened(tf.matmul(states, kernel))
    if bias is not None:
        outputs = tf.nn.bias_add(outputs, tf.cast(bias, outputs.dtype))
    return tf.reshape(outputs, [batch, length, kernel.shape.as_list()[1]])
