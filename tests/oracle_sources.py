"""The published systems in NumPy, each as in its source, beside the paper's oracle.

Like `oracle`: float64, slow, with the package's variable names, and no line shared with
it. Its dialects are not read: each system is written out here again. The tables at the
end have the model, the loss, the learning rate of a step (the first is 1) and the
settings of Adam for each dialect.

A query that may attend to nothing attends equally to all keys in these systems: their
float32 logits vanish in the constant that masks them.
"""

import math

import numpy as np
import oracle


def dense(x, variables, scope):
    """x W + b, or x W if there is no b."""
    return x @ variables[scope + "/kernel"] + variables.get(scope + "/bias", 0)


def normalize(x, variables, scope, epsilon):
    """Normalize with the variables of a scope."""
    return oracle.layer_norm(
        x, variables[scope + "/ln/gamma"], variables[scope + "/ln/beta"], epsilon
    )


def attend_heads(queries, keys, allowed, variables, scope, num_heads, activation=None):
    """Attend, and concatenate the heads: [N, Tq, D]; `allowed` is [N, Tq, Tk]."""
    activation = activation or (lambda x: x)
    Q, K, V = (
        np.split(activation(dense(x, variables, f"{scope}/{name}")), num_heads, axis=-1)
        for x, name in ((queries, "q"), (keys, "k"), (keys, "v"))
    )
    is_fully_masked = ~allowed.any(-1, keepdims=True)  # [N, Tq, 1]
    return np.concatenate(
        [
            oracle.attention(q * ~is_fully_masked, k, v, allowed | is_fully_masked)[0]
            for q, k, v in zip(Q, K, V)
        ],
        axis=-1,
    )


def feed_forward(x, variables, scope):
    """Equation 2."""
    hidden = np.maximum(0, dense(x, variables, scope + "/inner"))
    return dense(hidden, variables, scope + "/outer")


def hide_future(allowed):
    """Remove later positions from a mask [N, T, T]."""
    return allowed & np.tri(*allowed.shape[1:], dtype=bool)


# --- The tutorial ---------------------------------------------------------------------


def has_nonzero_sum(x):
    """Find tokens as the tutorial does: [N, T, D] → [N, T]."""
    return x.sum(-1) != 0


def tutorial(source, target_in, variables, num_heads, is_token=has_nonzero_sum):
    """ReLU on Q, K and V; no W^O; learned positions, also on padding; a table for each
    language and one for the output, which has a bias. Padding is rows whose sum is 0,
    so it is hardly ever found."""

    def embed(ids, side):
        table = variables[side + "/embedding/lookup_table"]
        positions = variables[side + "/positional_encoding/lookup_table"]
        vectors = oracle.embed(ids, table)
        if is_token is has_nonzero_sum:
            return vectors + positions[: ids.shape[1]]
        return (vectors + positions[: ids.shape[1]]) * is_token(vectors)[..., None]

    def attend(queries, keys, scope, causal=False):
        allowed = np.repeat(is_token(keys)[:, None], queries.shape[1], axis=1)
        allowed = hide_future(allowed) if causal else allowed
        heads = attend_heads(
            queries,
            keys,
            allowed,
            variables,
            scope,
            num_heads,
            lambda x: np.maximum(0, x),
        )
        heads *= is_token(queries)[..., None]
        return normalize(queries + heads, variables, scope, 1e-8)

    def add_feed_forward(x, scope):
        return normalize(x + feed_forward(x, variables, scope), variables, scope, 1e-8)

    memory = embed(source, "encoder")
    for b in range(oracle.num_blocks(variables, "encoder")):
        memory = attend(memory, memory, f"encoder/block_{b}/self_attention")
        memory = add_feed_forward(memory, f"encoder/block_{b}/feedforward")
    x = embed(target_in, "decoder")
    for b in range(oracle.num_blocks(variables, "decoder")):
        x = attend(x, x, f"decoder/block_{b}/self_attention", causal=True)
        x = attend(x, memory, f"decoder/block_{b}/cross_attention")
        x = add_feed_forward(x, f"decoder/block_{b}/feedforward")
    return dense(x, variables, "decoder/output")


# --- Kyubyong -------------------------------------------------------------------------


def kyubyong_legacy(source, target_in, variables, num_heads):
    """The model for the tutorial: padding is rows of zeros, and gets no positions."""

    def is_nonzero(x):
        return np.abs(x).sum(-1) != 0

    return tutorial(source, target_in, variables, num_heads, is_nonzero)


def kyubyong(source, target_in, variables, num_heads):
    """Biases on Q, K and V; no W^O; padding is found in the ids, in the decoder, too;
    one table, whose row 0 is zeros, in the output layer as well."""
    table = variables["embedding/lookup_table"].copy()
    table[0] = 0

    def embed(ids):
        vectors = oracle.embed_with_positions(ids, table)
        vectors[ids == 0] = 0
        return vectors

    def attend(queries, keys, key_ids, scope, causal=False):
        allowed = np.repeat((key_ids != 0)[:, None], queries.shape[1], axis=1)
        allowed = hide_future(allowed) if causal else allowed
        heads = attend_heads(queries, keys, allowed, variables, scope, num_heads)
        return normalize(queries + heads, variables, scope, 1e-8)

    def add_feed_forward(x, scope):
        return normalize(x + feed_forward(x, variables, scope), variables, scope, 1e-8)

    memory = embed(source)
    for b in range(oracle.num_blocks(variables, "encoder")):
        memory = attend(memory, memory, source, f"encoder/block_{b}/self_attention")
        memory = add_feed_forward(memory, f"encoder/block_{b}/feedforward")
    x = embed(target_in)
    for b in range(oracle.num_blocks(variables, "decoder")):
        x = attend(x, x, target_in, f"decoder/block_{b}/self_attention", causal=True)
        x = attend(x, memory, source, f"decoder/block_{b}/cross_attention")
        x = add_feed_forward(x, f"decoder/block_{b}/feedforward")
    return x @ table.T


# --- tensor2tensor --------------------------------------------------------------------


def timing(length, width):
    """Sinusoids [length, width]: sines, then cosines; the lowest rate is 1 / 10000."""
    signal = np.zeros((length, width))
    for position, j in np.ndindex(length, width // 2):
        angle = position * 10000 ** (-j / (width // 2 - 1))
        signal[position, j] = math.sin(angle)
        signal[position, j + width // 2] = math.cos(angle)
    return signal


def normalize_before(x, sublayer, variables, scope):
    """x + sublayer(norm(x)): the base model from its second version on."""
    return x + sublayer(normalize(x, variables, scope, 1e-6))


def normalize_after(x, sublayer, variables, scope):
    """norm(x + sublayer(x)): its first version, and the paper."""
    return normalize(x + sublayer(x), variables, scope, 1e-6)


def tensor2tensor(source, target_in, variables, num_heads, connect=normalize_before):
    """One table; a vector for the target language and positions, on padding, too. The
    target begins with zeros, and only later positions are masked. The feed-forward of
    the encoder skips padding. Each stack ends with a normalization, if sub-layers begin
    with one."""
    table = variables["embedding/lookup_table"]

    def make_attention(keys, allowed, scope):
        """Make a sub-layer; without keys, it is self-attention."""

        def sublayer(x):
            heads = attend_heads(
                x, x if keys is None else keys, allowed, variables, scope, num_heads
            )
            return dense(heads, variables, scope + "/o")

        return sublayer

    def make_feed_forward(scope, is_token):
        return lambda x: feed_forward(x, variables, scope) * is_token

    def normalize_stack(x, side):
        if connect is normalize_after:
            return x
        return normalize(x, variables, side, 1e-6)

    (batch, length_s), length_t = source.shape, target_in.shape[1]
    is_token = source != 0
    x = oracle.embed(source, table) + variables["encoder/target_space"]
    x += timing(length_s, table.shape[1])
    to_source = np.repeat(is_token[:, None], length_s, axis=1)
    for b in range(oracle.num_blocks(variables, "encoder")):
        scope = f"encoder/block_{b}/self_attention"
        x = connect(x, make_attention(None, to_source, scope), variables, scope)
        scope = f"encoder/block_{b}/feedforward"
        x = connect(x, make_feed_forward(scope, is_token[..., None]), variables, scope)
    memory = normalize_stack(x, "encoder")

    x = oracle.embed(target_in, table)
    x[:, 0] = 0
    x += timing(length_t, table.shape[1])
    to_target = hide_future(np.ones((batch, length_t, length_t), bool))
    to_source = np.repeat(is_token[:, None], length_t, axis=1)
    for b in range(oracle.num_blocks(variables, "decoder")):
        scope = f"decoder/block_{b}/self_attention"
        x = connect(x, make_attention(None, to_target, scope), variables, scope)
        scope = f"decoder/block_{b}/cross_attention"
        x = connect(x, make_attention(memory, to_source, scope), variables, scope)
        scope = f"decoder/block_{b}/feedforward"
        x = connect(x, make_feed_forward(scope, 1), variables, scope)
    return normalize_stack(x, "decoder") @ table.T


def tensor2tensor_v1(source, target_in, variables, num_heads):
    """The first version of the base model."""
    return tensor2tensor(source, target_in, variables, num_heads, normalize_after)


def padded_cross_entropy(logits, target_out, epsilon):
    """Return the sum of the losses and the number of tokens.

    Epsilon is spread over the other classes, and the entropy of the labels is
    subtracted.
    """
    other_label = epsilon / (logits.shape[-1] - 1)
    labels = np.full(logits.shape, other_label)
    for position in np.ndindex(*target_out.shape):
        labels[position + (target_out[position],)] = 1 - epsilon
    log_labels = np.log(labels, where=labels > 0, out=np.zeros_like(labels))
    losses = (labels * (log_labels - oracle.log_softmax(logits))).sum(-1)
    is_token = target_out != 0
    return losses[is_token].sum(), is_token.sum()


# --- By dialect -----------------------------------------------------------------------


def constant(step, d_model, warmup):
    """The learning rate of the tutorial."""
    return 1e-4


def noam_by_peak(step, d_model, warmup):
    """0.0003 at the end of the warm-up, for any width."""
    return 3e-4 * min(step / warmup, math.sqrt(warmup / step))


def rsqrt(step, d_model, warmup):
    """The first update is update 0, with a rate of 0."""
    update = step - 1
    return (
        2.0
        * min(1, update / warmup)
        / math.sqrt(max(update, warmup))
        / math.sqrt(d_model)
    )


MODELS = {
    "paper": oracle.transformer,
    "tutorial": tutorial,
    "kyubyong_legacy": kyubyong_legacy,
    "kyubyong": kyubyong,
    "tensor2tensor": tensor2tensor,
    "tensor2tensor_v1": tensor2tensor_v1,
}
LOSSES = {
    "paper": oracle.cross_entropy,
    "tutorial": oracle.cross_entropy,
    "kyubyong_legacy": oracle.cross_entropy,
    "kyubyong": oracle.cross_entropy,
    "tensor2tensor": padded_cross_entropy,
    "tensor2tensor_v1": padded_cross_entropy,
}
RATES = {
    "paper": oracle.noam,
    "tutorial": constant,
    "kyubyong_legacy": constant,
    "kyubyong": noam_by_peak,
    "tensor2tensor": rsqrt,
    "tensor2tensor_v1": oracle.noam,
}
ADAM = {
    "paper": (0.9, 0.98, 1e-9),
    "tutorial": (0.9, 0.98, 1e-8),
    "kyubyong_legacy": (0.9, 0.98, 1e-8),
    "kyubyong": (0.9, 0.999, 1e-8),
    "tensor2tensor": (0.9, 0.997, 1e-9),
    "tensor2tensor_v1": (0.9, 0.98, 1e-9),
}
