# tolerance: 0.01
import tiny
from sacrebleu.metrics import BLEU

from transformer.evaluation import score


def in_pieces(texts):
    """Return the texts as pieces, with spaces between them."""
    vocabulary = tiny.vocabulary()
    return [" ".join(vocabulary.pieces(vocabulary.encode(text))) for text in texts]


references = [tiny.REFERENCE, "The child sleeps in the large garden."]
same = list(references)
shorter = ["The woman whom we visit is", "The child sleeps in the"]
lower = [text.lower() for text in references]
print("                 BLEU   brevity")
for name, texts in [("equal", same), ("cut short", shorter), ("lower case", lower)]:
    result = BLEU().corpus_score(texts, [references])
    print(f"{name:14} {score(texts, references).bleu:6.1f} {result.bp:8.2f}")
print(f"pieces         {score(in_pieces(same), references).bleu:6.1f}")
print("signature:", score(same, references)["bleu"].signature.rsplit("|version", 1)[0])
wrong = [
    tiny.REFERENCE.replace("visit", "see"),
    "the child sleeps in the large garden !",
]
precisions = BLEU().corpus_score(wrong, [references]).precisions
print("small errors: p_n, the n-grams that are in the reference")
for n in range(4):
    tiny.bar(f"n = {n + 1}", precisions[n] / 100)
print("small errors, by tokenization and case:")
for tokenize in ("13a", "none", "char"):
    for lowercase in (False, True):
        metric = BLEU(tokenize=tokenize, lowercase=lowercase)
        bleu = metric.corpus_score(wrong, [references]).score
        print(f"  {tokenize:5} lowercase={lowercase!s:5} {bleu:6.1f}")
pieces = score(in_pieces(wrong), in_pieces(references)).bleu
print(f"  13a   pieces, references too {pieces:5.1f}")
