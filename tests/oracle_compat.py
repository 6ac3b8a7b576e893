"""The blocks of ported sources in NumPy, written from the equations of each.

Float64; the names of variables are those of the source; no line is shared with the
package.
"""

import numpy as np
import oracle


def dense(x, variables, scope):
    """x W + b; the kernel of a convolution of width 1 is [1, in, out]."""
    kernel = variables[scope + "/kernel"]
    kernel = kernel[0] if kernel.ndim == 3 else kernel
    return x @ kernel + variables[scope + "/bias"]


def normalize(x, variables, scope):
    """Normalize with variables that have no names: beta, then gamma."""
    return oracle.layer_norm(
        x, variables[scope + "/Variable_1"], variables[scope + "/Variable"], 1e-8
    )


def relu(x):
    return np.maximum(0, x)


def is_nonzero(x):
    """Find the rows that are not all zeros: [N, T, D] → [N, T]."""
    return np.abs(x).sum(-1) != 0


def has_nonzero_sum(x):
    """Find the rows whose sum is not zero: [N, T, D] → [N, T]."""
    return x.sum(-1) != 0


def attend(queries, keys, variables, scope, num_heads, **differences):
    """Return (concatenated heads [N, Tq, D], weights [H * N, Tq, Tk]).

    Heads of padded queries are zeros. A query that may attend to nothing attends
    equally to all keys.
    """
    activation = differences.get("activation", lambda x: x)
    is_token = differences.get("is_token", is_nonzero)
    allowed = np.repeat(is_token(keys)[:, None], queries.shape[1], axis=1)
    if differences.get("causal"):
        allowed = allowed & np.tri(*allowed.shape[1:], dtype=bool)
    is_fully_masked = ~allowed.any(-1, keepdims=True)
    Q, K, V = (
        np.split(activation(dense(x, variables, scope + name)), num_heads, axis=-1)
        for x, name in ((queries, "/dense"), (keys, "/dense_1"), (keys, "/dense_2"))
    )
    pairs = [
        oracle.attention(q * ~is_fully_masked, k, v, allowed | is_fully_masked)
        for q, k, v in zip(Q, K, V)
    ]
    heads = np.concatenate([head for head, _ in pairs], axis=-1)
    weights = np.concatenate([weights for _, weights in pairs])
    return heads * is_token(queries)[..., None], weights


def feed_forward(x, variables, scope):
    """Two dense layers with a ReLU between them."""
    hidden = relu(dense(x, variables, scope + "/conv1d"))
    return dense(hidden, variables, scope + "/conv1d_1")


def legacy_attention(queries, keys, variables, scope, num_heads, **differences):
    """Kyubyong 2017: ReLU on Q, K, V; add, normalize."""
    heads, _ = attend(
        queries, keys, variables, scope, num_heads, activation=relu, **differences
    )
    return normalize(queries + heads, variables, scope + "/ln")


def sasrec_attention(queries, keys, variables, scope, num_heads, **differences):
    """SASRec: no ReLU, no normalization."""
    heads, _ = attend(queries, keys, variables, scope, num_heads, **differences)
    return queries + heads


def interhat_attention(queries, keys, variables, scope, num_heads):
    """InterHAt: a dense layer with a ReLU before the residual; (outputs, weights)."""
    heads, weights = attend(
        queries,
        keys,
        variables,
        scope,
        num_heads,
        activation=relu,
        is_token=has_nonzero_sum,
    )
    outputs = queries + relu(dense(heads, variables, scope + "/dense_3"))
    return normalize(outputs, variables, scope + "/ln"), weights


def sasrec(ids, variables, num_heads, num_blocks):
    """Return the states of the recommender and its table: [N, T, D], [V, D]."""
    table = variables["SASRec/input_embeddings/lookup_table"].copy()
    table[0] = 0
    token_mask = (ids != 0)[..., None]
    x = table[ids] * table.shape[1] ** 0.5
    x = (x + variables["SASRec/dec_pos/lookup_table"][: ids.shape[1]]) * token_mask
    for i in range(num_blocks):
        block = f"SASRec/num_blocks_{i}/"
        x = sasrec_attention(
            normalize(x, variables, block + "ln"),
            x,
            variables,
            block + "self_attention",
            num_heads,
            causal=True,
        )
        x = normalize(x, variables, block + "ln_1")
        x = (x + feed_forward(x, variables, block + "multihead_attention")) * token_mask
    return normalize(x, variables, "SASRec/ln"), table
