"""The published systems in NumPy, each as its source has it, beside the paper's oracle.

Like `oracle`: float64, slow, variables by the package's names, and no line shared with
it; nor are its dialects read: what each system does is written out here again. The
tables at the end say for each dialect how ids become logits, logits and labels a loss,
and the number of a step (the first is 1) a learning rate.

Where a query may attend to nothing, these systems attend to every key alike: their
float32 logits are lost in the constant that they mask with.
"""

import math

import numpy as np
import oracle


def dense(x, variables, scope):
    """x W + b, or x W where there is no b."""
    return x @ variables[scope + "/kernel"] + variables.get(scope + "/bias", 0)


def normed(x, variables, scope, epsilon):
    """The layer normalization of a scope."""
    return oracle.layer_norm(
        x, variables[scope + "/ln/gamma"], variables[scope + "/ln/beta"], epsilon
    )


def joined_heads(queries, keys, allowed, variables, scope, num_heads, activation=None):
    """The heads of an attention side by side: [N, Tq, D]; allowed [N, Tq, Tk]."""
    activation = activation or (lambda x: x)
    Q, K, V = (
        np.split(activation(dense(x, variables, f"{scope}/{name}")), num_heads, axis=-1)
        for x, name in ((queries, "q"), (keys, "k"), (keys, "v"))
    )
    blind = ~allowed.any(-1, keepdims=True)  # [N, Tq, 1]
    return np.concatenate(
        [
            oracle.attention(q * ~blind, k, v, allowed | blind)[0]
            for q, k, v in zip(Q, K, V)
        ],
        axis=-1,
    )


def feed_forward(x, variables, scope):
    """Equation 2 alone."""
    hidden = np.maximum(0, dense(x, variables, scope + "/inner"))
    return dense(hidden, variables, scope + "/outer")


def up_to_own_place(allowed):
    """What of it is not in the future."""
    return allowed & np.tri(*allowed.shape[1:], dtype=bool)


# --- The tutorial ---------------------------------------------------------------------


def sums_to_something(x):
    """The tutorial's test of what is no padding: [N, T, D] → [N, T]."""
    return x.sum(-1) != 0


def tutorial(source, target_in, variables, num_heads, is_real=sums_to_something):
    """ReLU on Q, K and V; no W^O; learned positions, also on padding, which is told by
    rows that sum to 0, and so hardly ever; tables of its own for each language and for
    the output, which has a bias."""

    def embedded(ids, side):
        table = variables[side + "/embedding/lookup_table"]
        places = variables[side + "/positional_encoding/lookup_table"]
        embedded = oracle.embed(ids, table)
        if is_real is sums_to_something:
            return embedded + places[: ids.shape[1]]
        return (embedded + places[: ids.shape[1]]) * is_real(embedded)[..., None]

    def attended(queries, keys, scope, causal=False):
        allowed = np.repeat(is_real(keys)[:, None], queries.shape[1], axis=1)
        allowed = up_to_own_place(allowed) if causal else allowed
        heads = joined_heads(
            queries,
            keys,
            allowed,
            variables,
            scope,
            num_heads,
            lambda x: np.maximum(0, x),
        )
        heads *= is_real(queries)[..., None]
        return normed(queries + heads, variables, scope, 1e-8)

    def fed(x, scope):
        return normed(x + feed_forward(x, variables, scope), variables, scope, 1e-8)

    memory = embedded(source, "encoder")
    for b in range(oracle.num_blocks(variables, "encoder")):
        memory = attended(memory, memory, f"encoder/block_{b}/self_attention")
        memory = fed(memory, f"encoder/block_{b}/feedforward")
    x = embedded(target_in, "decoder")
    for b in range(oracle.num_blocks(variables, "decoder")):
        x = attended(x, x, f"decoder/block_{b}/self_attention", causal=True)
        x = attended(x, memory, f"decoder/block_{b}/cross_attention")
        x = fed(x, f"decoder/block_{b}/feedforward")
    return dense(x, variables, "decoder/output")


# --- Kyubyong -------------------------------------------------------------------------


def kyubyong_legacy(source, target_in, variables, num_heads):
    """What the tutorial was made from: padding is rows of zeros, without positions."""

    def has_something(x):
        return np.abs(x).sum(-1) != 0

    return tutorial(source, target_in, variables, num_heads, has_something)


def kyubyong(source, target_in, variables, num_heads):
    """Biases on Q, K and V; no W^O; padding told by ids, in the decoder too; one table,
    whose row 0 is zeros, in the output layer as well."""
    table = variables["embedding/lookup_table"].copy()
    table[0] = 0

    def embedded(ids):
        vectors = oracle.embed_with_positions(ids, table)
        vectors[ids == 0] = 0
        return vectors

    def attended(queries, keys, key_ids, scope, causal=False):
        allowed = np.repeat((key_ids != 0)[:, None], queries.shape[1], axis=1)
        allowed = up_to_own_place(allowed) if causal else allowed
        heads = joined_heads(queries, keys, allowed, variables, scope, num_heads)
        return normed(queries + heads, variables, scope, 1e-8)

    def fed(x, scope):
        return normed(x + feed_forward(x, variables, scope), variables, scope, 1e-8)

    memory = embedded(source)
    for b in range(oracle.num_blocks(variables, "encoder")):
        memory = attended(memory, memory, source, f"encoder/block_{b}/self_attention")
        memory = fed(memory, f"encoder/block_{b}/feedforward")
    x = embedded(target_in)
    for b in range(oracle.num_blocks(variables, "decoder")):
        x = attended(x, x, target_in, f"decoder/block_{b}/self_attention", causal=True)
        x = attended(x, memory, source, f"decoder/block_{b}/cross_attention")
        x = fed(x, f"decoder/block_{b}/feedforward")
    return x @ table.T


# --- tensor2tensor --------------------------------------------------------------------


def timing(length, width):
    """[length, width]: all sines, then all cosines; the slowest rate is 1 / 10000."""
    signal = np.zeros((length, width))
    for place, j in np.ndindex(length, width // 2):
        angle = place * 10000 ** (-j / (width // 2 - 1))
        signal[place, j] = math.sin(angle)
        signal[place, j + width // 2] = math.cos(angle)
    return signal


def before_sublayers(x, sublayer, variables, scope):
    """The base model since its second version: x + sublayer(norm(x))."""
    return x + sublayer(normed(x, variables, scope, 1e-6))


def after_sublayers(x, sublayer, variables, scope):
    """Its first version, and the paper: norm(x + sublayer(x))."""
    return normed(x + sublayer(x), variables, scope, 1e-6)


def tensor2tensor(source, target_in, variables, num_heads, around=before_sublayers):
    """One table; a vector for the target's language and positions, on padding too; the
    target begins with zeros and is masked by causality alone; padding is fed nothing
    in the encoder; a last norm of each stack, where norms are before sub-layers."""
    table = variables["embedding/lookup_table"]

    def attention(keys, allowed, scope):
        """A sub-layer; where keys are None, those are its queries."""

        def sublayer(x):
            heads = joined_heads(
                x, x if keys is None else keys, allowed, variables, scope, num_heads
            )
            return dense(heads, variables, scope + "/o")

        return sublayer

    def fed(scope, real):
        return lambda x: feed_forward(x, variables, scope) * real

    def finished(x, side):
        if around is after_sublayers:
            return x
        return normed(x, variables, side, 1e-6)

    (batch, length_s), length_t = source.shape, target_in.shape[1]
    real = source != 0
    x = oracle.embed(source, table) + variables["encoder/target_space"]
    x += timing(length_s, table.shape[1])
    to_source = np.repeat(real[:, None], length_s, axis=1)
    for b in range(oracle.num_blocks(variables, "encoder")):
        scope = f"encoder/block_{b}/self_attention"
        x = around(x, attention(None, to_source, scope), variables, scope)
        scope = f"encoder/block_{b}/feedforward"
        x = around(x, fed(scope, real[..., None]), variables, scope)
    memory = finished(x, "encoder")

    x = oracle.embed(target_in, table)
    x[:, 0] = 0
    x += timing(length_t, table.shape[1])
    to_target = up_to_own_place(np.ones((batch, length_t, length_t), bool))
    to_source = np.repeat(real[:, None], length_t, axis=1)
    for b in range(oracle.num_blocks(variables, "decoder")):
        scope = f"decoder/block_{b}/self_attention"
        x = around(x, attention(None, to_target, scope), variables, scope)
        scope = f"decoder/block_{b}/cross_attention"
        x = around(x, attention(memory, to_source, scope), variables, scope)
        scope = f"decoder/block_{b}/feedforward"
        x = around(x, fed(scope, 1), variables, scope)
    return finished(x, "decoder") @ table.T


def tensor2tensor_v1(source, target_in, variables, num_heads):
    """The first version of the same."""
    return tensor2tensor(source, target_in, variables, num_heads, after_sublayers)


def padded_cross_entropy(logits, target_out, epsilon):
    """Its sum and count: epsilon is spread over the other classes, and the entropy of
    the labels is subtracted."""
    others = epsilon / (logits.shape[-1] - 1)
    labels = np.full(logits.shape, others)
    for place in np.ndindex(*target_out.shape):
        labels[place + (target_out[place],)] = 1 - epsilon
    log_labels = np.log(labels, where=labels > 0, out=np.zeros_like(labels))
    losses = (labels * (log_labels - oracle.log_softmax(logits))).sum(-1)
    real = target_out != 0
    return losses[real].sum(), real.sum()


# --- By dialect -----------------------------------------------------------------------


def constant(step, d_model, warmup):
    """The tutorial's."""
    return 1e-4


def noam_by_peak(step, d_model, warmup):
    """0.0003 at the end of the warm-up, whatever the width."""
    return 3e-4 * min(step / warmup, math.sqrt(warmup / step))


def rsqrt(step, d_model, warmup):
    """Its first update has the number 0, and so a rate of 0."""
    number = step - 1
    return (
        2.0
        * min(1, number / warmup)
        / math.sqrt(max(number, warmup))
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
