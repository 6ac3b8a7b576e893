"""tensor2tensor's stacks of encoder and decoder blocks, against its recorded numbers.

The recorded stacks begin with embeddings, ours with ids. So each recorded vector
becomes a row of the embedding table, and a padded one (of zeros) the id 0. The recorded
decoder ends with states, ours with logits. So the table ends with the unit vectors,
whose logits are the states.
"""

import fixtures
import numpy as np
import tensorflow.compat.v1 as tf
from conftest import CONFIG, initialize

from transformer.blocks.masks import MASKED_LOGIT, causal_mask, proximity_bias
from transformer.compat.names import original_name
from transformer.hparams import HParams
from transformer.model import Memory, Transformer
from transformer.text.vocabulary import BOS, EOS

BODY = "transformer/body/"
FIRST_ID = EOS + 1


def vectors_to_ids(vectors):
    """float [N, T, D] → (ids [N, T], table [FIRST_ID + N * T + D, D])."""
    width = vectors.shape[-1]
    rows = vectors.reshape([-1, width])
    ids = np.where(rows.any(axis=-1), FIRST_ID + np.arange(len(rows)), 0)
    table = np.concatenate(
        [np.zeros([FIRST_ID, width]), rows / width**0.5, np.eye(width)]
    )
    return ids.reshape(vectors.shape[:2]).astype(np.int32), table


def settings(kwargs, vocab_size):
    """The settings of a recorded model."""
    prenorm = kwargs["layer_preprocess_sequence"] == "n"
    return HParams(
        dialect="tensor2tensor" if prenorm else "tensor2tensor_v1",
        dropout_rate=0.0,
        num_blocks=kwargs["num_hidden_layers"],
        d_model=kwargs["hidden_size"],
        d_ff=kwargs["filter_size"],
        num_heads=kwargs["num_heads"],
        max_relative_position=kwargs["max_relative_position"],
        proximity_bias=kwargs["proximity_bias"],
        source_vocab_size=vocab_size,
        target_vocab_size=vocab_size,
    )


def variable_values(hp, case, table):
    """Return the values of our variables; each recorded one must be used."""
    recorded, values = fixtures.group(case, "var"), {}
    for variable in tf.trainable_variables():
        name = variable.op.name
        if name == "embedding/lookup_table":
            values[name] = table
        elif name == "encoder/target_space":
            kernel = recorded.pop("target_space_embedding/kernel", None)
            values[name] = (
                np.zeros(hp.d_model)
                if kernel is None
                else kernel[int(case["in/target_space"])]
            )
        else:
            original = original_name(name, hp.dialect, variable.shape.as_list())
            assert original.startswith(BODY)
            values[name] = recorded.pop(original[len(BODY) :])
    assert not recorded
    return values


def run(fetches, values):
    with tf.Session(config=CONFIG) as session:
        initialize(session, values)
        return session.run(fetches)


def lookup_gradient(loss, width):
    """Return the gradient of the embeddings of the ids: [N * T, D]."""
    [table] = [
        variable
        for variable in tf.trainable_variables()
        if variable.op.name == "embedding/lookup_table"
    ]
    [gradient] = tf.gradients(loss, [table])
    return tf.convert_to_tensor(gradient)[FIRST_ID:-width] / width**0.5


@fixtures.over("D", function="transformer_prepare_encoder*")
def test_encoder_stack(name):
    case = fixtures.load(name)
    inputs, dout = case["in/inputs"], case["in/dout"]
    ids, table = vectors_to_ids(inputs)
    hp = settings(case["meta"]["kwargs"], len(table))
    memory = Transformer(hp).encode(tf.constant(ids))
    embedded = Transformer(hp).embed(
        tf.constant(ids), "encoder", tf.range(ids.shape[1])
    )
    bias = tf.where_v2(memory.mask, 0.0, MASKED_LOGIT)
    if hp.proximity_bias:
        bias += proximity_bias(tf.range(ids.shape[1]))
    gradient = lookup_gradient(tf.reduce_sum(memory.states * dout), hp.d_model)
    states, mask, embedded, bias, gradient = run(
        [memory.states, memory.mask, embedded, bias, gradient],
        variable_values(hp, case, table),
    )
    fixtures.assert_close(states, case["out/out"], "states")
    assert np.array_equal(mask, case["out/encoder_decoder_attention_bias"] == 0)
    fixtures.assert_close(embedded, case["out/encoder_input"], "input")
    fixtures.assert_close(bias, case["out/encoder_self_attention_bias"], "bias")
    is_token = ids.flatten() != 0
    fixtures.assert_close(
        gradient[is_token],
        case["gradin/inputs"].reshape(gradient.shape)[is_token],
        "gradient",
    )
    assert not gradient[~is_token].any()  # the id 0 has no vector, so no gradient


@fixtures.over("D", function="transformer_prepare_decoder*")
def test_decoder_stack(name):
    case = fixtures.load(name)
    targets, dout = case["in/targets"], case["in/dout"]
    width, bias = targets.shape[-1], case["in/encoder_decoder_attention_bias"]
    ids, table = vectors_to_ids(targets)
    hp = settings(case["meta"]["kwargs"], len(table))
    target_in = np.concatenate([np.full([len(ids), 1], BOS), ids[:, :-1]], axis=1)
    source = tf.constant(case["in/encoder_output"])
    tf.get_variable("embedding/lookup_table", table.shape)  # the encoder has made it
    logits = Transformer(hp).decode(
        tf.constant(target_in, tf.int32), Memory(source, tf.constant(bias == 0))
    )
    states = logits[:, :, -width:]
    embedded = Transformer(hp).embed(
        tf.constant(target_in, tf.int32), "decoder", tf.range(ids.shape[1])
    )
    bias = tf.where_v2(causal_mask(tf.range(ids.shape[1])), 0.0, MASKED_LOGIT)
    if hp.proximity_bias:
        bias += proximity_bias(tf.range(ids.shape[1]))
    loss = tf.reduce_sum(states * dout)
    fetches = [
        states,
        embedded,
        bias,
        tf.gradients(loss, [source])[0],
        lookup_gradient(loss, width),
    ]
    states, embedded, bias, source_gradient, gradient = run(
        fetches, variable_values(hp, case, table)
    )
    fixtures.assert_close(states, case["out/out"], "states")
    fixtures.assert_close(embedded, case["out/decoder_input"], "input")
    fixtures.assert_close(bias, case["out/decoder_self_attention_bias"], "bias")
    fixtures.assert_close(source_gradient, case["gradin/encoder_output"], "memory")
    is_token = ids.flatten() != 0
    fixtures.assert_close(
        gradient[is_token],
        case["gradin/targets"].reshape(gradient.shape)[is_token],
        "gradient",
    )
