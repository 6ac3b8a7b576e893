# tolerance: 0.001
import tiny

from transformer.length_penalty import length_penalty

candidates = {"The woman is tired.": (6, -4.2), tiny.REFERENCE: (9, -4.9)}
for alpha in (0.0, 0.6, 1.0):
    print(f"alpha {alpha}: ", end="")
    scores = {}
    for text, (length, log_probability) in candidates.items():
        scores[text] = log_probability / length_penalty(length, alpha)
    print(*[f"{score:.3f}" for score in scores.values()], end="  best: ")
    print(max(scores, key=scores.get))
