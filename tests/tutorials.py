"""Modules in the style of each published program, written for the tests.

Like the originals, they use tf.layers, tf.contrib, and np without an import.
"""

FAMILY = """
import tensorflow as tf


def normalize(inputs, epsilon=1e-8, scope="ln", reuse=None):
    with tf.variable_scope(scope, reuse=reuse):
        width = inputs.get_shape()[-1:]
        mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
        beta = tf.Variable(tf.zeros(width))
        gamma = tf.Variable(tf.ones(width))
        scaled = (inputs - mean) / ((variance + epsilon) ** 0.5)
        return gamma * scaled + beta


def embedding(inputs, vocab_size, num_units, zero_pad={zero_pad}, scale=True,{l2}
              scope="embedding", {with_t}reuse=None):
    with tf.variable_scope(scope, reuse=reuse):
        table = tf.get_variable(
            "lookup_table", dtype=tf.float32, shape=[vocab_size, num_units],
            {regularizer}initializer=tf.contrib.layers.xavier_initializer())
        if zero_pad:
            table = tf.concat((tf.zeros(shape=[1, num_units]), table[1:, :]), 0)
        outputs = tf.nn.embedding_lookup(table, inputs)
        if scale:
            outputs = outputs * (num_units ** 0.5)
    return {returned}


{positions}
def multihead_attention(queries, keys, num_units=None, num_heads={heads},
                        dropout_rate=0, is_training=True,{causality}
                        scope="{scope}", reuse=None{with_qk}):
    with tf.variable_scope(scope, reuse=reuse):
        if num_units is None:
            num_units = queries.get_shape().as_list()[-1]
        Q = tf.layers.dense(queries, num_units, activation={relu})
        K = tf.layers.dense(keys, num_units, activation={relu})
        V = tf.layers.dense(keys, num_units, activation={relu})
        Q_ = tf.concat(tf.split(Q, num_heads, axis=2), axis=0)
        K_ = tf.concat(tf.split(K, num_heads, axis=2), axis=0)
        V_ = tf.concat(tf.split(V, num_heads, axis=2), axis=0)
        outputs = tf.matmul(Q_, tf.transpose(K_, [0, 2, 1]))
        outputs = outputs / (K_.get_shape().as_list()[-1] ** 0.5)
        key_masks = tf.sign({real_keys})
        key_masks = tf.tile(key_masks, [num_heads, 1])
        key_masks = tf.tile(tf.expand_dims(key_masks, 1), [1, tf.shape(queries)[1], 1])
        low = tf.ones_like(outputs) * (-2 ** 32 + 1)
        outputs = tf.where(tf.equal(key_masks, 0), low, outputs){future}
        outputs = tf.nn.softmax(outputs)
        weights = outputs
        query_masks = tf.sign({real_queries})
        query_masks = tf.tile(query_masks, [num_heads, 1])
        query_masks = tf.expand_dims(query_masks, -1)
        query_masks = tf.tile(query_masks, [1, 1, tf.shape(keys)[1]])
        outputs *= query_masks
        outputs = tf.layers.dropout(
            outputs, rate=dropout_rate, training=tf.convert_to_tensor(is_training))
        outputs = tf.matmul(outputs, V_)
        outputs = tf.concat(tf.split(outputs, num_heads, axis=0), axis=2)
        {output_layer}
        outputs += queries
        {attention_norm}
    return {result}


def feedforward(inputs, num_units=[2048, 512], scope="multihead_attention",
                {dropout_arguments}reuse=None):
    with tf.variable_scope(scope, reuse=reuse):
        params = {{"inputs": inputs, "filters": num_units[0], "kernel_size": 1,
                   "activation": tf.nn.relu, "use_bias": True}}
        outputs = tf.layers.conv1d(**params)
        {first_dropout}
        params = {{"inputs": outputs, "filters": num_units[1], "kernel_size": 1,
                   "activation": None, "use_bias": True}}
        outputs = tf.layers.conv1d(**params)
        {second_dropout}
        {condition}outputs += inputs
        {norm}
    return outputs
"""

FUTURE = """
        if causality:
            ones = tf.ones_like(outputs[0, :, :])
            tril = tf.contrib.linalg.LinearOperatorTriL(ones).to_dense()
            past = tf.tile(tf.expand_dims(tril, 0), [tf.shape(outputs)[0], 1, 1])
            low = tf.ones_like(past) * (-2 ** 32 + 1)
            outputs = tf.where(tf.equal(past, 0), low, outputs)"""
BY_IDS = """def positional_encoding(inputs, num_units, zero_pad=True, scale=True,
                        scope="positional_encoding", reuse=None):
    N, T = inputs.get_shape().as_list()
    with tf.variable_scope(scope, reuse=reuse):
        places = tf.tile(tf.expand_dims(tf.range(T), 0), [N, 1])
        table = np.array([
            [pos / np.power(10000, 2. * i / num_units) for i in range(num_units)]
            for pos in range(T)])
        table[:, 0::2] = np.sin(table[:, 0::2])
        table[:, 1::2] = np.cos(table[:, 1::2])
        table = tf.convert_to_tensor(table, tf.float32)
        if zero_pad:
            table = tf.concat((tf.zeros(shape=[1, num_units]), table[1:, :]), 0)
        outputs = tf.nn.embedding_lookup(table, places)
        if scale:
            outputs = outputs * num_units ** 0.5
        return outputs
"""
BY_LENGTH = """def positional_encoding(dim, sentence_length, dtype=tf.float32):
    encoded = np.array([pos / np.power(10000, 2 * i / dim)
                        for pos in range(sentence_length) for i in range(dim)])
    encoded[::2] = np.sin(encoded[::2])
    encoded[1::2] = np.cos(encoded[1::2])
    return tf.convert_to_tensor(encoded.reshape([sentence_length, dim]), dtype=dtype)
"""
FIELDS = {
    "zero_pad": "True",
    "l2": "",
    "with_t": "",
    "regularizer": "",
    "returned": "outputs",
    "positions": BY_IDS,
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
    "second_dropout": "",
    "condition": "",
    "norm": "outputs = normalize(outputs)",
}


def modules(fields=()):
    """The modules of a program: the first one's, with others of its fields."""
    return FAMILY.format(**dict(FIELDS, **dict(fields)))


def replace_once(text, *pairs):
    """The text with other parts; each part must be there once."""
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


BY_SUM = {
    "real_keys": "tf.abs(tf.reduce_sum(keys, axis=-1))",
    "real_queries": "tf.abs(tf.reduce_sum(queries, axis=-1))",
}
DROPPED = """outputs = tf.layers.dropout(
            outputs, rate=dropout_rate, training=tf.convert_to_tensor(is_training))"""
OF_SASREC = {
    "relu": "None",
    "l2": " l2_reg=0.0,",
    "with_t": "with_t=False, ",
    "regularizer": "regularizer=tf.contrib.layers.l2_regularizer(l2_reg), ",
    "returned": "(outputs, table) if with_t else outputs",
    "positions": BY_LENGTH,
    "with_qk": ", with_qk=False",
    "attention_norm": "if with_qk: return Q, K",
    "dropout_arguments": "dropout_rate=0.2, is_training=True, ",
    "first_dropout": DROPPED,
    "second_dropout": DROPPED,
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
INTERHAT = modules(
    dict(
        BY_SUM,
        zero_pad="False",
        causality="",
        future="",
        output_layer="outputs = tf.layers.dense(outputs, num_units, tf.nn.relu)",
        result="outputs, weights",
    )
)
KYUBYONG_NORM = """
def ln(inputs, epsilon=1e-8, scope="ln"):
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        width = inputs.get_shape()[-1:]
        mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
        beta = tf.get_variable("beta", width, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", width, initializer=tf.ones_initializer())
        return gamma * (inputs - mean) / (variance + epsilon) ** 0.5 + beta
"""
KYUBYONG = (
    """
import numpy as np
import tensorflow as tf

"""
    + KYUBYONG_NORM
    + """

def scaled_dot_product_attention(Q, K, V, key_masks, causality=False, dropout_rate=0.,
                                 training=True, scope="scaled_dot_product_attention"):
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        outputs = tf.matmul(Q, tf.transpose(K, [0, 2, 1]))
        outputs /= Q.get_shape().as_list()[-1] ** 0.5
        outputs = mask(outputs, key_masks=key_masks, type="key")
        if causality:
            outputs = mask(outputs, type="future")
        outputs = tf.nn.softmax(outputs)
        tf.summary.image("weights", tf.transpose(outputs, [0, 2, 1])[:1, :, :, None])
        outputs = tf.layers.dropout(outputs, rate=dropout_rate, training=training)
        return tf.matmul(outputs, V)


def mask(inputs, key_masks=None, type=None):
    low = -2 ** 32 + 1
    if type in ("k", "key", "keys"):
        key_masks = tf.to_float(key_masks)
        heads = tf.shape(inputs)[0] // tf.shape(key_masks)[0]
        outputs = inputs + tf.tile(key_masks, [heads, 1])[:, None, :] * low
    elif type in ("f", "future", "right"):
        tril = tf.linalg.LinearOperatorLowerTriangular(
            tf.ones_like(inputs[0, :, :])).to_dense()
        tril = tf.tile(tf.expand_dims(tril, 0), [tf.shape(inputs)[0], 1, 1])
        outputs = tf.where(tf.equal(tril, 0), tf.ones_like(tril) * low, inputs)
    return outputs


def multihead_attention(queries, keys, values, key_masks, num_heads=8, dropout_rate=0,
                        training=True, causality=False, scope="multihead_attention"):
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        width = queries.get_shape().as_list()[-1]
        Q, K, V = [tf.layers.dense(x, width) for x in (queries, keys, values)]
        Q, K, V = [tf.concat(tf.split(x, num_heads, axis=2), 0) for x in (Q, K, V)]
        outputs = scaled_dot_product_attention(
            Q, K, V, key_masks, causality, dropout_rate, training)
        outputs = tf.concat(tf.split(outputs, num_heads, axis=0), axis=2)
        outputs += queries
        return ln(outputs)


def ff(inputs, num_units, scope="positionwise_feedforward"):
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        outputs = tf.layers.dense(inputs, num_units[0], activation=tf.nn.relu)
        outputs = tf.layers.dense(outputs, num_units[1])
        outputs += inputs
        return ln(outputs)


def label_smoothing(inputs, epsilon=0.1):
    return (1 - epsilon) * inputs + epsilon / inputs.get_shape().as_list()[-1]


def positional_encoding(inputs, maxlen, masking=True, scope="positional_encoding"):
    E = inputs.get_shape().as_list()[-1]
    N, T = tf.shape(inputs)[0], tf.shape(inputs)[1]
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        places = tf.tile(tf.expand_dims(tf.range(T), 0), [N, 1])
        table = np.array([[pos / np.power(10000, (i - i % 2) / E) for i in range(E)]
                          for pos in range(maxlen)])
        table[:, 0::2] = np.sin(table[:, 0::2])
        table[:, 1::2] = np.cos(table[:, 1::2])
        table = tf.convert_to_tensor(table, tf.float32)
        outputs = tf.nn.embedding_lookup(table, places)
        return tf.where(tf.equal(inputs, 0), inputs, outputs) if masking else outputs
"""
)
BOJONE = """
import tensorflow as tf


def Position_Embedding(inputs, position_size):
    lengths = 1. / tf.pow(10000., 2 * tf.range(position_size / 2, dtype=tf.float32
                                               ) / position_size)
    angles = tf.range(tf.shape(inputs)[1])
    angles = tf.matmul(tf.to_float(angles)[:, None], lengths[None])
    both = tf.concat([tf.cos(angles), tf.sin(angles)], 1)
    return tf.expand_dims(both, 0) + tf.zeros(
        (tf.shape(inputs)[0], tf.shape(inputs)[1], position_size))


def Mask(inputs, seq_len, mode="mul"):
    if seq_len is None:
        return inputs
    mask = tf.cast(tf.sequence_mask(seq_len), tf.float32)
    for _ in range(len(inputs.shape) - 2):
        mask = tf.expand_dims(mask, 2)
    if mode == "mul":
        return inputs * mask
    if mode == "add":
        return inputs - (1 - mask) * 1e12


def Dense(inputs, ouput_size, bias=True, seq_len=None):
    W = tf.Variable(tf.random_uniform([int(inputs.shape[-1]), ouput_size], -.05, .05))
    outputs = tf.matmul(tf.reshape(inputs, (-1, int(inputs.shape[-1]))), W)
    if bias:
        outputs += tf.Variable(tf.random_uniform([ouput_size], -.05, .05))
    shape = tf.concat([tf.shape(inputs)[:-1], [ouput_size]], 0)
    outputs = tf.reshape(outputs, shape)
    outputs.set_shape(inputs.get_shape().as_list()[:-1] + [ouput_size])
    return outputs if seq_len is None else Mask(outputs, seq_len, "mul")


def Attention(Q, K, V, nb_head, size_per_head, Q_len=None, V_len=None):
    def heads(x):
        x = Dense(x, nb_head * size_per_head, False)
        x = tf.reshape(x, (-1, tf.shape(x)[1], nb_head, size_per_head))
        return tf.transpose(x, [0, 2, 1, 3])

    Q, K, V = heads(Q), heads(K), heads(V)
    A = tf.matmul(Q, K, transpose_b=True) / tf.sqrt(float(size_per_head))
    A = tf.transpose(A, [0, 3, 2, 1])
    A = tf.transpose(Mask(A, V_len, mode="add"), [0, 3, 2, 1])
    O = tf.transpose(tf.matmul(tf.nn.softmax(A), V), [0, 2, 1, 3])
    O = tf.reshape(O, (-1, tf.shape(O)[1], nb_head * size_per_head))
    return Mask(O, Q_len, "mul")
"""
TENSOR2TENSOR = """
import tensorflow as tf


def multihead_attention(query_antecedent, memory_antecedent, bias, total_key_depth,
                        total_value_depth, output_depth, num_heads, dropout_rate,
                        *, name="multihead_attention", **kwargs):
    def heads(x, depth, name):
        x = tf.layers.dense(x, depth, use_bias=False, name=name)
        x = tf.reshape(x, [-1, tf.shape(x)[1], num_heads, depth // num_heads])
        return tf.transpose(x, [0, 2, 1, 3])

    with tf.variable_scope(name):
        memory = query_antecedent if memory_antecedent is None else memory_antecedent
        q = heads(query_antecedent, total_key_depth, "q")
        k = heads(memory, total_key_depth, "k")
        v = heads(memory, total_value_depth, "v")
        logits = tf.matmul(q * (total_key_depth // num_heads) ** -0.5, k,
                           transpose_b=True)
        weights = tf.nn.softmax(logits if bias is None else logits + bias)
        weights = tf.nn.dropout(weights, 1.0 - dropout_rate)
        x = tf.transpose(tf.matmul(weights, v), [0, 2, 1, 3])
        x = tf.reshape(x, [-1, tf.shape(x)[1], total_value_depth])
        return tf.layers.dense(x, output_depth, use_bias=False,
                               name="output_transform")
"""

MODULES = {
    "kyubyong_legacy": LEGACY,
    "tutorial": TUTORIAL,
    "sasrec": SASREC,
    "functional_time": FUNCTIONAL_TIME,
    "interhat": INTERHAT,
    "kyubyong": KYUBYONG,
    "bojone": BOJONE,
    "tensor2tensor": TENSOR2TENSOR,
}
