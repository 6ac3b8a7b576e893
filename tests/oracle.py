"""The Transformer in NumPy, written from the equations of the paper.

Vaswani et al. 2017, "Attention Is All You Need" (arXiv:1706.03762); section and
equation numbers are theirs. Nothing here is fast, everything is float64, and no line
is shared with the package: where the two agree, they agree because both follow the
paper. It is short enough to be read as a lesson, from top to bottom.

Dimensions: N batch, S source length, T target length, Tq queries, Tk keys, H heads,
D d_model, F d_ff, V vocabulary.

Variables come as one dict, name -> array, with the names of the package's checkpoints
("encoder/block_0/self_attention/q/kernel"). Kernels are [in, out].
"""

import itertools
import math

import numpy as np

PAD = 0


# --- 3.2.1 Scaled dot-product attention ----------------------------------------------


def softmax(x):
    """exp(x_i) / sum_j exp(x_j) over the last axis."""
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def attention(q, k, v, allowed):
    """Equation 1: softmax(Q K^T / sqrt(d_k)) V, over the keys that are allowed.

    Args:
      q: [N, Tq, d_k].
      k: [N, Tk, d_k].
      v: [N, Tk, d_v].
      allowed: bool [N, Tq, Tk]; True where the query may attend to the key.

    Returns:
      (outputs [N, Tq, d_v], weights [N, Tq, Tk]). The paper puts -inf where attending
      is illegal, which leaves a query without any legal key undefined: it gets zeros.
    """
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])  # [N, Tq, Tk]
    weights = np.zeros_like(scores)
    for n, i in np.ndindex(*scores.shape[:2]):
        legal = allowed[n, i]
        if legal.any():
            weights[n, i, legal] = softmax(scores[n, i, legal])
    return weights @ v, weights


# --- 3.2.2 Multi-head attention -------------------------------------------------------


def multi_head(queries, keys, allowed, variables, scope, num_heads):
    """Concat(head_1 .. head_H) W^O, head_h = Attention(Q W^Q_h, K W^K_h, V W^V_h).

    W^Q_h is the h-th slice of the columns of the kernel `q`, and so on for k and v.

    Returns:
      (outputs [N, Tq, D], weights [N, H, Tq, Tk]).
    """
    w_q, w_k, w_v, w_o = (variables[f"{scope}/{x}/kernel"] for x in "qkvo")
    heads, maps = [], []
    for h in range(num_heads):

        def columns(kernel, h=h):
            size = kernel.shape[1] // num_heads
            return kernel[:, h * size : (h + 1) * size]

        head, weights = attention(
            queries @ columns(w_q), keys @ columns(w_k), keys @ columns(w_v), allowed
        )
        heads.append(head)
        maps.append(weights)
    return np.concatenate(heads, axis=-1) @ w_o, np.stack(maps, axis=1)


# --- 3.2.3 Who may attend to whom -----------------------------------------------------


def may_attend(query_ids, key_ids, causal=False):
    """bool [N, Tq, Tk]: the key is not padding; if causal, nor is it in the future."""
    (batch, length_q), length_k = query_ids.shape, key_ids.shape[1]
    allowed = np.zeros((batch, length_q, length_k), bool)
    for n, i, j in np.ndindex(*allowed.shape):
        allowed[n, i, j] = key_ids[n, j] != PAD and not (causal and j > i)
    return allowed


# --- 3.1 Residual connections and layer normalization ---------------------------------


def layer_norm(x, gamma, beta, epsilon=1e-6):
    """Ba et al. 2016: zero mean and unit (biased) variance over the last axis."""
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return gamma * (x - mean) / np.sqrt(variance + epsilon) + beta


def add_and_norm(x, sublayer, variables, scope, epsilon=1e-6):
    """LayerNorm(x + Sublayer(x)): around every sub-layer of the model."""
    gamma, beta = variables[scope + "/ln/gamma"], variables[scope + "/ln/beta"]
    return layer_norm(x + sublayer, gamma, beta, epsilon)


def attention_block(queries, keys, allowed, variables, scope, num_heads):
    """Multi-head attention with its residual connection and normalization."""
    outputs, _ = multi_head(queries, keys, allowed, variables, scope, num_heads)
    return add_and_norm(queries, outputs, variables, scope)


# --- 3.3 Position-wise feed-forward networks ------------------------------------------


def feed_forward_block(x, variables, scope):
    """Equation 2: max(0, x W_1 + b_1) W_2 + b_2, with residual and normalization."""
    inner = x @ variables[scope + "/inner/kernel"] + variables[scope + "/inner/bias"]
    hidden = np.maximum(0, inner)  # [N, T, F]
    outer = hidden @ variables[scope + "/outer/kernel"]
    outer = outer + variables[scope + "/outer/bias"]  # [N, T, D]
    return add_and_norm(x, outer, variables, scope)


# --- 3.4 Embeddings -------------------------------------------------------------------


def embed(ids, table):
    """Rows of the table times sqrt(d_model); padding is a vector of zeros."""
    vectors = table[ids] * math.sqrt(table.shape[1])  # [N, T, D]
    vectors[ids == PAD] = 0
    return vectors


def tables(variables):
    """(source table, target table): one variable when the vocabulary is shared."""
    if "embedding/lookup_table" in variables:
        return (variables["embedding/lookup_table"],) * 2
    sides = ("encoder", "decoder")
    return tuple(variables[side + "/embedding/lookup_table"] for side in sides)


# --- 3.5 Positional encoding ----------------------------------------------------------


def sinusoids(length, d_model):
    """[length, D]: PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(same)."""
    encoding = np.zeros((length, d_model))
    for pos, column in np.ndindex(length, d_model):
        angle = pos / 10000 ** (2 * (column // 2) / d_model)
        encoding[pos, column] = math.sin(angle) if column % 2 == 0 else math.cos(angle)
    return encoding


def embed_with_positions(ids, table):
    """What enters the bottom of a stack."""
    return embed(ids, table) + sinusoids(ids.shape[1], table.shape[1])


# --- 3.1 Encoder and decoder stacks ---------------------------------------------------


def num_blocks(variables, side):
    """How many blocks the variables of the "encoder" or "decoder" hold."""
    prefix = side + "/block_"
    return len({name.split("/")[1] for name in variables if name.startswith(prefix)})


def encode(source, variables, num_heads):
    """Source ids [N, S] -> memory [N, S, D]."""
    x = embed_with_positions(source, tables(variables)[0])
    allowed = may_attend(source, source)
    for b in range(num_blocks(variables, "encoder")):
        scope = f"encoder/block_{b}"
        x = attention_block(
            x, x, allowed, variables, scope + "/self_attention", num_heads
        )
        x = feed_forward_block(x, variables, scope + "/feedforward")
    return x


def decode(target_in, memory, source, variables, num_heads):
    """Target ids, shifted right, and memory -> logits [N, T, V] of the next tokens."""
    table = tables(variables)[1]
    x = embed_with_positions(target_in, table)
    to_target = may_attend(target_in, target_in, causal=True)
    to_source = may_attend(target_in, source)
    for b in range(num_blocks(variables, "decoder")):
        scope = f"decoder/block_{b}"
        x = attention_block(
            x, x, to_target, variables, scope + "/self_attention", num_heads
        )
        x = attention_block(
            x, memory, to_source, variables, scope + "/cross_attention", num_heads
        )
        x = feed_forward_block(x, variables, scope + "/feedforward")
    return x @ table.T  # 3.4: the output layer shares the table of the embedding


def transformer(source, target_in, variables, num_heads):
    """The whole model: ids [N, S] and [N, T] -> logits [N, T, V]."""
    memory = encode(source, variables, num_heads)
    return decode(target_in, memory, source, variables, num_heads)


# --- 5.4 Label smoothing and the loss -------------------------------------------------


def log_softmax(x):
    """log of softmax, over the last axis."""
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def smooth(distribution, epsilon=0.1):
    """Szegedy et al. 2016: (1 - epsilon) q + epsilon / V, for every class."""
    return (1 - epsilon) * distribution + epsilon / distribution.shape[-1]


def cross_entropy(logits, target_out, epsilon=0.1):
    """(sum over the real tokens of -sum_v q_v log p_v, number of real tokens)."""
    targets = smooth(np.eye(logits.shape[-1])[target_out], epsilon)  # [N, T, V]
    losses = -(targets * log_softmax(logits)).sum(axis=-1)  # [N, T]
    is_token = target_out != PAD
    return losses[is_token].sum(), is_token.sum()


# --- 5.3 Optimizer --------------------------------------------------------------------


def noam(step, d_model, warmup, factor=1.0):
    """Equation 3: a linear warm-up, then the inverse square root of the step (>= 1)."""
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def adam_step(w, m, v, gradient, step, rate, beta1=0.9, beta2=0.98, epsilon=1e-9):
    """One step (the first is 1) of Kingma & Ba 2015, in the form TensorFlow uses.

    TensorFlow follows the remark before section 2.1 of that paper: both corrections of
    the bias go into the rate, and epsilon is added to the uncorrected root.
    """
    m = beta1 * m + (1 - beta1) * gradient
    v = beta2 * v + (1 - beta2) * gradient**2
    corrected_rate = rate * math.sqrt(1 - beta2**step) / (1 - beta1**step)
    return w - corrected_rate * m / (np.sqrt(v) + epsilon), m, v


# --- 6.1 Search -----------------------------------------------------------------------


def length_penalty(length, alpha, form="wu"):
    """Wu et al. 2016, equation 14: ((5 + |Y|) / 6)^alpha, |Y| counting the EOS.

    With the form "power", that of fairseq: |Y|^alpha.
    """
    return (length if form == "power" else (5 + length) / 6) ** alpha


def penalize_repetition(logits, tokens, penalty):
    """Keskar et al. 2019, section 4.1, as Hugging Face has it for negative logits.

    Args:
      logits: [V], of the next token.
      tokens: the ids so far.
      penalty: divides the logits of these ids, or multiplies them if they are negative.

    Returns:
      [V], log probabilities.
    """
    logits = np.array(logits, np.float64)
    for token in set(tokens):
        logits[token] *= penalty if logits[token] < 0 else 1 / penalty
    return log_softmax(logits)


def beam_search(log_probs, beam, max_length, eos, alpha=0.6):
    """The best finished sequences a beam finds.

    Every step looks at the 2 * beam best continuations: at most `beam` of them end
    (each unfinished sequence has one way to end), so as many stay unfinished. The
    last place can hold nothing but EOS.

    Args:
      log_probs: function from a tuple of token ids (without BOS) to the list of log
        probabilities of the next token.
      beam: how many unfinished sequences survive each step, and how many finished
        ones are kept.
      max_length: tokens a sequence may have, EOS included.
      eos: the id that ends a sequence.
      alpha: exponent of the length penalty that divides the log probability.

    Returns:
      A list of at most `beam` pairs (score, tokens with EOS), best first.
    """
    alive, finished = [(0.0, ())], []
    for position in range(max_length):
        continuations = [
            (total + p, tokens + (token,))
            for total, tokens in alive
            for token, p in enumerate(log_probs(tokens))
            if p > -math.inf and (token == eos or position < max_length - 1)
        ]
        continuations = sorted(continuations, reverse=True)[: 2 * beam]
        finished += [
            (total / length_penalty(len(tokens), alpha), tokens)
            for total, tokens in continuations
            if tokens[-1] == eos
        ]
        alive = [g for g in continuations if g[1][-1] != eos][:beam]
    return sorted(finished, reverse=True)[:beam]


def all_sequences(
    log_probs, max_length, vocabulary, eos, alpha=0.6, form="wu", keep_open=False
):
    """Every sequence of at most max_length tokens that ends in EOS, best first.

    With `keep_open`, also every one of max_length tokens that does not end.

    Returns:
      A list of pairs (score, tokens with EOS): what a beam without bound must find.
    """
    other_tokens = [token for token in range(vocabulary) if token != eos]
    scored = []
    for length in range(max_length + keep_open):
        for start in itertools.product(other_tokens, repeat=length):
            tokens = start + (eos,) * (length < max_length)
            total = sum(log_probs(tokens[:i])[t] for i, t in enumerate(tokens))
            if total > -math.inf:
                penalty = length_penalty(len(tokens), alpha, form)
                scored.append((total / penalty, tokens))
    return sorted(scored, reverse=True)
