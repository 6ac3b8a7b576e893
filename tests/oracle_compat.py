"""Blocks of ported sources in NumPy, written from what each computes.

Float64; variables by the names that the source itself gives them; no line shared with
the package.
"""

import numpy as np
import oracle


def dense(x, variables, scope):
    """x W + b; the kernel of a convolution of width 1 is [1, in, out]."""
    kernel = variables[scope + "/kernel"]
    kernel = kernel[0] if kernel.ndim == 3 else kernel
    return x @ kernel + variables[scope + "/bias"]


def normed(x, variables, scope):
    """The layer normalization whose variables have no names: beta, then gamma."""
    return oracle.layer_norm(
        x, variables[scope + "/Variable_1"], variables[scope + "/Variable"], 1e-8
    )


def relu(x):
    return np.maximum(0, x)


def has_something(x):
    """Rows that are not zeros: [N, T, D] → [N, T]."""
    return np.abs(x).sum(-1) != 0


def sums_to_something(x):
    """Rows that do not sum to zero: [N, T, D] → [N, T]."""
    return x.sum(-1) != 0


def attended(queries, keys, variables, scope, num_heads, **differences):
    """(heads side by side [N, Tq, D], weights [H * N, Tq, Tk]), padded queries zeroed.

    A query that may attend to nothing attends to every key alike.
    """
    activation = differences.get("activation", lambda x: x)
    is_real = differences.get("is_real", has_something)
    allowed = np.repeat(is_real(keys)[:, None], queries.shape[1], axis=1)
    if differences.get("causal"):
        allowed = allowed & np.tri(*allowed.shape[1:], dtype=bool)
    blind = ~allowed.any(-1, keepdims=True)
    Q, K, V = (
        np.split(activation(dense(x, variables, scope + name)), num_heads, axis=-1)
        for x, name in ((queries, "/dense"), (keys, "/dense_1"), (keys, "/dense_2"))
    )
    pairs = [
        oracle.attention(q * ~blind, k, v, allowed | blind) for q, k, v in zip(Q, K, V)
    ]
    heads = np.concatenate([head for head, _ in pairs], axis=-1)
    weights = np.concatenate([weights for _, weights in pairs])
    return heads * is_real(queries)[..., None], weights


def fed(x, variables, scope):
    """Two dense layers with a ReLU between them."""
    hidden = relu(dense(x, variables, scope + "/conv1d"))
    return dense(hidden, variables, scope + "/conv1d_1")


def legacy_attention(queries, keys, variables, scope, num_heads, **differences):
    """Kyubyong 2017: ReLU on Q, K, V; add, normalize."""
    heads, _ = attended(
        queries, keys, variables, scope, num_heads, activation=relu, **differences
    )
    return normed(queries + heads, variables, scope + "/ln")


def sasrec_attention(queries, keys, variables, scope, num_heads, **differences):
    """SASRec: no ReLU, no normalization."""
    heads, _ = attended(queries, keys, variables, scope, num_heads, **differences)
    return queries + heads


def interhat_attention(queries, keys, variables, scope, num_heads):
    """InterHAt: a dense layer with a ReLU before the residual; (outputs, weights)."""
    heads, weights = attended(
        queries,
        keys,
        variables,
        scope,
        num_heads,
        activation=relu,
        is_real=sums_to_something,
    )
    outputs = queries + relu(dense(heads, variables, scope + "/dense_3"))
    return normed(outputs, variables, scope + "/ln"), weights


def sasrec(ids, variables, num_heads, num_blocks):
    """The states of the recommender, and its table: ([N, T, D], [V, D])."""
    table = variables["SASRec/input_embeddings/lookup_table"].copy()
    table[0] = 0
    real = (ids != 0)[..., None]
    x = table[ids] * table.shape[1] ** 0.5
    x = (x + variables["SASRec/dec_pos/lookup_table"][: ids.shape[1]]) * real
    for i in range(num_blocks):
        block = f"SASRec/num_blocks_{i}/"
        x = sasrec_attention(
            normed(x, variables, block + "ln"),
            x,
            variables,
            block + "self_attention",
            num_heads,
            causal=True,
        )
        x = normed(x, variables, block + "ln_1")
        x = (x + fed(x, variables, block + "multihead_attention")) * real
    return normed(x, variables, "SASRec/ln"), table
