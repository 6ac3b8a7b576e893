"""Variants of the functions of tests/tutorials.py that compute other results."""

TRIL = "tf.contrib.linalg.LinearOperatorTriL(ones).to_dense()"
DIVIDED = "outputs = outputs / (K_.get_shape().as_list()[-1] ** 0.5)"
MASKED = "outputs = tf.where(tf.equal(key_masks, 0), low, outputs)"
TRAINING = "training=tf.convert_to_tensor(is_training)"
DROPPED = f"outputs, rate=dropout_rate, {TRAINING})"
Q = "Q = tf.layers.dense(queries, num_units, activation=tf.nn.relu)"
V = "V = tf.layers.dense(keys, num_units, activation=tf.nn.relu)"
HEADS = "tf.concat(tf.split({}, num_heads, axis=2), axis=0)"
INTERLEAVED = "tf.concat([{}[:, :, i::num_heads] for i in range(num_heads)], axis=0)"
FIRST_LAYER = '1,\n                   "activation": tf.nn.relu'
LEARNED = "initializer=tf.contrib.layers.xavier_initializer()"
ZERO_FIRST = "tf.concat((tf.zeros(shape=[1, num_units]), table[1:, :]), 0)"
ZERO_LAST = "tf.concat((table[:-1, :], tf.zeros(shape=[1, num_units])), 0)"
TABLE = f"table = {ZERO_FIRST}\n        outputs = tf.nn.embedding_lookup(table, inputs)"
PLACES = (
    f"table = {ZERO_FIRST}\n        outputs = tf.nn.embedding_lookup(table, places)"
)
SINES = "table[:, 0::2] = np.sin(table[:, 0::2])"
COSINES = "table[:, 1::2] = np.cos(table[:, 1::2])"

# Of LEGACY: function → name of the variant → texts, and what stands there instead.
OF_LEGACY = {
    "multihead_attention": {
        "mask reversed": [(TRIL, "tf.reverse(tf.matrix_band_part(ones, -1, 0), [1])")],
        "mask shifted": [(TRIL, "tf.matrix_band_part(ones, -1, 1)")],
        "keys inverted": [("tf.equal(key_masks, 0)", "tf.equal(key_masks, 1)")],
        "keys not masked": [(MASKED, "")],
        "keys by their product": [("tf.abs(keys), axis=-1", "keys ** 3, axis=-1")],
        "weights of padding removed": [
            (
                "outputs = tf.nn.softmax(outputs)",
                "outputs = tf.nn.softmax(outputs) * tf.to_float(key_masks)",
            )
        ],
        "with its weights": [
            (
                "return outputs\n\n\ndef feedforward",
                "return [outputs]\n\n\ndef feedforward",
            )
        ],
        "in a collection": [
            (
                "        weights = outputs",
                "        tf.add_to_collection('weights', outputs)",
            )
        ],
        "queries not masked": [("outputs *= query_masks", "outputs *= 1.")],
        "no scale": [(DIVIDED, "")],
        "scale of the heads": [(DIVIDED, "outputs = outputs / num_heads ** 0.5")],
        "scale of the width": [(DIVIDED, "outputs = outputs / num_units ** 0.25")],
        "softmax axis": [("tf.nn.softmax(outputs)", "tf.nn.softmax(outputs, 1)")],
        "logits clipped": [(DIVIDED, f"{DIVIDED[:10]}tf.minimum({DIVIDED[10:]}, 50.)")],
        "residual halved": [("outputs += queries", "outputs += 0.5 * queries")],
        "values linear": [(V, V.replace("tf.nn.relu", "None"))],
        "values reversed": [(V, V.replace("(keys", "(keys[:, ::-1]"))],
        "no bias": [(Q, Q.replace("tf.nn.relu", "tf.nn.relu, use_bias=False"))],
        "regularized": [
            (Q, Q[:-1] + ", kernel_regularizer=tf.contrib.layers.l2_regularizer(1e-3))")
        ],
        "frozen": [(Q, Q[:-1] + ", trainable=False)")],
        "half the dropout": [("rate=dropout_rate", "rate=0.5 * dropout_rate")],
        "no dropout": [("rate=dropout_rate", "rate=0.")],
        "dropout always": [(TRAINING, "training=True")],
        "dropout elsewhere": [
            (DROPPED, "outputs, rate=0.)"),
            (
                "        outputs += queries",
                f"        outputs = tf.layers.dropout(outputs, dropout_rate, {TRAINING}"
                ")\n        outputs += queries",
            ),
        ],
        "dropout at a rate of its own": [("rate=dropout_rate", "rate=0.5")],
        "dropout shared by the heads": [
            (
                DROPPED,
                "outputs, rate=dropout_rate, noise_shape="
                f"[1] + outputs.get_shape().as_list()[1:], {TRAINING})",
            )
        ],
        "heads interleaved": [
            (HEADS.format(name), INTERLEAVED.format(name)) for name in "QKV"
        ],
    },
    "feedforward": {
        "kernel of 3": [(FIRST_LAYER, f'3, "padding": "same"{FIRST_LAYER[1:]}')],
        "residual halved": [("outputs += inputs", "outputs += 0.5 * inputs")],
        "default widths": [("num_units=[2048, 512]", "num_units=[96, 24]")],
        "arguments moved": [
            (
                'num_units=[2048, 512], scope="multihead_attention",',
                'num_units=[2048, 512], is_deep=0, scope="multihead_attention",',
            )
        ],
        "gradients stopped": [
            ("outputs += inputs", "outputs = tf.stop_gradient(outputs) + inputs")
        ],
        "with dropout": [
            ("outputs += inputs", "outputs = inputs + tf.nn.dropout(outputs, rate=0.1)")
        ],
        "fully connected": [
            (
                '"filters": num_units[0], "kernel_size": 1',
                '"num_outputs": num_units[0]',
            ),
            (
                '"activation": tf.nn.relu, "use_bias": True}\n'
                "        outputs = tf.layers.conv1d(",
                '"activation_fn": tf.nn.relu}\n'
                "        outputs = tf.contrib.layers.fully_connected(",
            ),
        ],
    },
    "normalize": {
        "epsilon in the body": [("variance + epsilon", "variance + 1e-6")],
        "epsilon ignored": [("variance + epsilon", "variance + 1e-8")],
        "epsilon outside": [("(variance + epsilon) ** 0.5", "variance ** 0.5 + 1e-8")],
        "unbiased": [("variance + epsilon", "variance * 16. / 15. + epsilon")],
        "swapped": [("gamma * scaled + beta", "beta * scaled + gamma")],
        "frozen": [
            ("tf.Variable(tf.zeros(width))", "tf.Variable(tf.zeros(width), False)")
        ],
    },
    "positional_encoding": {
        "sin and cos swapped": [
            (SINES, SINES.replace("sin", "cos")),
            (COSINES, COSINES.replace("cos", "sin")),
        ],
        "from 1": [("for pos in range(T)", "for pos in range(1, T + 1)")],
        "zero row last": [(PLACES, PLACES.replace(ZERO_FIRST, ZERO_LAST))],
        "clipped": [("for pos in range(T)", "for pos in np.minimum(range(T), 31)")],
    },
    "embedding": {
        "zero row last": [(TABLE, TABLE.replace(ZERO_FIRST, ZERO_LAST))],
        "frozen": [(LEARNED, f"trainable=False, {LEARNED}")],
        "sparse gradient": [
            (
                TABLE,
                "outputs = tf.nn.embedding_lookup(table, inputs)\n"
                "            outputs *= tf.to_float(tf.sign(inputs))[:, :, None]\n"
                "        else:\n"
                "            outputs = tf.nn.embedding_lookup(table, inputs)",
            )
        ],
        "another collection of losses": [
            (
                "if scale:\n            outputs = outputs * (",
                "tf.losses.add_loss(1e-3 * tf.nn.l2_loss(table))\n"
                "        if scale:\n            outputs = outputs * (",
            )
        ],
        "regularized": [
            (LEARNED, f"regularizer=tf.contrib.layers.l2_regularizer(1e-3), {LEARNED}")
        ],
    },
}

# The beginning of a variant's name → a part of the report.
REPORTED = {
    "mask r": "with causality=True",
    "mask s": "with causality=True",
    "regularized": "regularization losses",
    "weights of padding": "outputs",
    "with its w": "form: [float32]; ours float32",
    "in a coll": "collections: {'weights': 1}; ours {}",
    "default w": "the default of num_units: (96, 24), ours (2048, 512)",
    "arguments m": "ours takes scope, reuse in another place: pass by name",
    "sparse gr": "that of embedding/lookup_table is sparse, ours dense",
    "another coll": "losses 1.0e+00 apart",
    "frozen": "not trained, ours",
    "half the dropout": " at 0.25; ours ",
    "no dropout": "dropout: none; ours multihead_attention/",
    "dropout always": "dropout: multihead_attention/",
    "dropout elsewhere": "with is_training=True",
    "dropout at": " at 0.5; ours ",
    "dropout sh": "dropout: multihead_attention/",
    "zero row last": "with zero_pad=True",
    "logits clipped": "with large numbers",
    "epsilon ignored": "with epsilon=0.25",
    "fully connected": "multihead_attention/fully_connected/weights, ",
}
