# tolerance: 0.02
import numpy as np
import tiny

T, D = 20, 64
x = tiny.fixed("words/lookup_table", [T, D]) * np.sqrt(D)
for name, W_K in [("W_K = W_Q", "W_Q"), ("W_K is its own", "W_K")]:
    q, k = (x @ tiny.fixed(matrix, [D, D]) for matrix in ("W_Q", W_K))
    logits = q @ k.T / np.sqrt(D)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    asymmetry = abs(logits - logits.T).max()
    itself = np.trace(weights) / T
    print(f"{name:15} asymmetry {asymmetry:.2f}, weight on itself {itself:.2f}")
print(f"{'uniform':15} weight on itself {1 / T:.2f}")
