# tolerance: 0.03
import numpy as np
import tiny

# How well does W2 max(0, x W1 + b1) approximate a function of the coordinates if W1
# is random and only W2 is fitted?
D, N = 16, 4000
x = tiny.fixed("x/lookup_table", [N, D]) * np.sqrt(D)
wanted = x[:, :1] * x[:, 1:2] + np.abs(x[:, 2:3]) + np.sin(2 * x[:, 3:4])
wanted -= wanted.mean()
for times in (1, 2, 4, 8):
    F = times * D
    W1, b1 = tiny.fixed(f"W1 {F}", [D, F]), tiny.fixed(f"b1 {F}", [1, F])
    inner = np.maximum(0, x @ W1 + b1)
    columns = np.concatenate([inner, np.ones([N, 1])], axis=1)
    W2, *_ = np.linalg.lstsq(columns, wanted, rcond=None)
    missed = ((wanted - columns @ W2) ** 2).sum() / (wanted**2).sum()
    zeros = (inner == 0).mean()
    print(f"F = {times} D: {missed:.2f} missed, {zeros:.2f} of the inner numbers are 0")
    if times == 4:
        print("  four positions: x, 16 numbers, and max(0, x W1 + b1), 64 numbers:")
        shown = {"x": (x[:4] + 3) / 6, "inner": inner[:4] / 3}
        tiny.pictures(shown)
without = np.concatenate([x, np.ones([N, 1])], axis=1)
W, *_ = np.linalg.lstsq(without, wanted, rcond=None)
print(
    f"without the ReLU: {((wanted - without @ W) ** 2).sum() / (wanted**2).sum():.2f}"
)
D, F = 512, 2048
print(f"weights of a block: attention {4 * D * D}, feed-forward {2 * D * F}")
