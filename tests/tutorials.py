"""Modules in the manner of each tutorial, written for the tests in our own words.

They need no tf.layers and no tf.contrib, so that they run on both TensorFlows.
"""

TEMPLATE = """
import numpy as np
import tensorflow as tf


def dense(x, units, name, activation=None):
    kernel = tf.get_variable(name + "/kernel", [x.shape.as_list()[-1], units])
    bias = tf.get_variable(name + "/bias", [units], initializer=tf.zeros_initializer())
    y = tf.tensordot(x, kernel, 1) + bias
    return y if activation is None else activation(y)


def conv1d(x, units, name, activation=None):
    kernel = tf.get_variable(name + "/kernel", [1, x.shape.as_list()[-1], units])
    bias = tf.get_variable(name + "/bias", [units], initializer=tf.zeros_initializer())
    y = tf.tensordot(x, kernel[0], 1) + bias
    return y if activation is None else activation(y)


def dropout(x, rate, is_training):
    return tf.nn.dropout(x, rate=rate) if is_training else x


def normalize(inputs, epsilon=1e-8, scope="ln", reuse=None):
    with tf.variable_scope(scope, reuse=reuse):
        shift = tf.Variable(tf.zeros(inputs.shape[-1:]))
        factor = tf.Variable(tf.ones(inputs.shape[-1:]))
        mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
        return shift + factor * (inputs - mean) / tf.sqrt(variance + epsilon)


def embedding(inputs, vocab_size, num_units, zero_pad={zero_pad}, scale=True,{l2}
              scope="embedding", {with_t}reuse=None):
    with tf.variable_scope(scope, reuse=reuse):
        table = tf.get_variable("lookup_table", [vocab_size, num_units])
        if zero_pad:
            table = tf.concat([tf.zeros([1, num_units]), table[1:]], 0)
        found = tf.gather(table, inputs)
        found = found * num_units ** 0.5 if scale else found
        return {found}


def multihead_attention(queries, keys, num_units=None, num_heads={heads},
                        dropout_rate=0, is_training=True,{causality}
                        scope="{scope}", reuse=None{with_qk}):
    with tf.variable_scope(scope, reuse=reuse):
        num_units = num_units or queries.shape.as_list()[-1]
        Q = dense(queries, num_units, "dense", activation={relu})
        K = dense(keys, num_units, "dense_1", activation={relu})
        V = dense(keys, num_units, "dense_2", activation={relu})
        Q_, K_, V_ = [tf.concat(tf.split(x, num_heads, 2), 0) for x in (Q, K, V)]
        logits = tf.matmul(Q_, K_, transpose_b=True)
        logits = logits / (num_units // num_heads) ** 0.5
        seen = {real_keys}
        seen = tf.tile(seen, [num_heads, 1])[:, None, :]
        seen = tf.tile(seen, [1, tf.shape(queries)[1], 1])
        low = tf.ones_like(logits) * (-2 ** 32 + 1)
        logits = tf.where(tf.equal(seen, 0), low, logits){future}
        weights = tf.nn.softmax(logits)
        asking = tf.sign({real_queries})
        weights *= tf.tile(tf.abs(asking), [num_heads, 1])[:, :, None]
        weights = dropout(weights, dropout_rate, is_training)
        outputs = tf.concat(tf.split(tf.matmul(weights, V_), num_heads, 0), 2)
        {output_layer}outputs += queries
        {attention_norm}
    return {result}


def feedforward(inputs, num_units=[2048, 512], scope="multihead_attention",
                {dropout_arguments}reuse=None):
    with tf.variable_scope(scope, reuse=reuse):
        outputs = conv1d(inputs, num_units[0], "conv1d", activation=tf.nn.relu)
        {first_dropout}
        outputs = conv1d(outputs, num_units[1], "conv1d_1")
        {first_dropout}
        {condition}outputs += inputs
        {norm}
    return outputs
"""

FUTURE = """
        if causality:
            past = tf.matrix_band_part(tf.ones_like(logits), -1, 0)
            logits = tf.where(tf.equal(past, 0), low, logits)"""
FIELDS = {
    "zero_pad": "True",
    "l2": "",
    "with_t": "",
    "found": "found",
    "heads": "8",
    "causality": " causality=False,",
    "scope": "multihead_attention",
    "with_qk": "",
    "relu": "tf.nn.relu",
    "real_keys": "tf.reduce_sum(tf.abs(keys), axis=-1)",
    "real_queries": "tf.reduce_sum(tf.abs(queries), axis=-1)",
    "future": FUTURE,
    "output_layer": "",
    "attention_norm": "outputs = normalize(outputs)",
    "result": "outputs",
    "dropout_arguments": "",
    "first_dropout": "",
    "condition": "",
    "norm": "outputs = normalize(outputs)",
}


def modules(others=()):
    """The modules of a tutorial: the first one's, with others of its fields."""
    return TEMPLATE.format(**dict(FIELDS, **dict(others)))


def changed(text, *pairs):
    """The text with other parts; each part must be there once."""
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


BY_SUM = {
    "real_keys": "tf.abs(tf.reduce_sum(keys, axis=-1))",
    "real_queries": "tf.abs(tf.reduce_sum(queries, axis=-1))",
}
OF_SASREC = {
    "relu": "None",
    "l2": " l2_reg=0.0,",
    "with_t": "with_t=False, ",
    "found": "(found, table) if with_t else found",
    "with_qk": ", with_qk=False",
    "attention_norm": "if with_qk: return Q, K",
    "dropout_arguments": "dropout_rate=0.2, is_training=True, ",
    "first_dropout": "outputs = dropout(outputs, dropout_rate, is_training)",
    "norm": "",
}

LEGACY = modules()
TUTORIAL = modules(dict(BY_SUM, heads="0", scope="mulithead_attention"))
SASREC = modules(OF_SASREC)
TIME = """

def time_encoding(inputs, num_units):
    return tf.sin(inputs)[:, :, None] * tf.ones([num_units])
"""
ADDS = "if num_units[0] == num_units[1]: "
FUNCTIONAL_TIME = modules(dict(OF_SASREC, condition=ADDS, **BY_SUM)) + TIME
PROJECTED = """outputs = dense(outputs, num_units, "dense_3", activation=tf.nn.relu)
        """
INTERHAT = modules(
    dict(
        BY_SUM,
        zero_pad="False",
        causality="",
        future="",
        output_layer=PROJECTED,
        result="outputs, weights",
    )
)
KYUBYONG = """
import tensorflow as tf


def ln(inputs, epsilon=1e-8, scope="ln"):
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        beta = tf.get_variable("beta", inputs.shape[-1:])
        gamma = tf.get_variable("gamma", inputs.shape[-1:])
        mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
        return beta + gamma * (inputs - mean) / tf.sqrt(variance + epsilon)


def multihead_attention(queries, keys, values, key_masks, num_heads=8, dropout_rate=0,
                        training=True, causality=False, scope="multihead_attention"):
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        Q, K, V = [tf.layers.dense(x, 8) for x in (queries, keys, values)]
        logits = tf.matmul(Q, K, transpose_b=True) / 8 ** 0.5
        logits += tf.to_float(key_masks)[:, None] * (-2 ** 32 + 1)
        outputs = tf.matmul(tf.layers.dropout(tf.nn.softmax(logits)), V)
        outputs += queries
        return ln(outputs)


def ff(inputs, num_units, scope="positionwise_feedforward"):
    outputs = tf.layers.dense(inputs, num_units[0], activation=tf.nn.relu)
    outputs = tf.layers.dense(outputs, num_units[1])
    outputs += inputs
    return ln(outputs)
"""
BOJONE = """
import tensorflow as tf


def Attention(Q, K, V, nb_head, size_per_head, Q_len=None, V_len=None):
    return Q
"""
BOJONE_KERAS = """
from keras.layers import Layer


class Attention(Layer):
    def __init__(self, nb_head, size_per_head, **kwargs):
        self.nb_head = nb_head
"""
TENSOR2TENSOR = """
import tensorflow as tf


def multihead_attention(query_antecedent, memory_antecedent, bias, total_key_depth,
                        total_value_depth, output_depth, num_heads, dropout_rate):
    return query_antecedent
"""

MODULES = {
    "kyubyong_legacy": LEGACY,
    "tutorial": TUTORIAL,
    "sasrec": SASREC,
    "functional_time": FUNCTIONAL_TIME,
    "interhat": INTERHAT,
    "kyubyong": KYUBYONG,
    "bojone": BOJONE,
    "bojone_keras": BOJONE_KERAS,
    "tensor2tensor": TENSOR2TENSOR,
}
