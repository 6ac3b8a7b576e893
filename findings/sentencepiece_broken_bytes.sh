#!/usr/bin/env bash
# sentencepiece 0.2.3: the bytes of a broken character are decoded to one U+FFFD each.
# Guessed: one U+FFFD for a character that ends too soon, as Python, browsers and the Unicode
# standard (chapter 3.9) have it. Seen: two for the first two bytes of "你" (three bytes).
# Met by: whoever decodes pieces of byte fallback elsewhere, or shows a translation as it grows.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet sentencepiece==0.2.3

env/bin/python - <<'PYTHON'
import io

import sentencepiece

model = io.BytesIO()
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(["a b c d"] * 20),
    model_writer=model,
    vocab_size=270,
    byte_fallback=True,
    hard_vocab_limit=False,
    minloglevel=2,
)
vocabulary = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
for count, expected in ((3, "你"), (2, "\ufffd\ufffd"), (1, "\ufffd")):
    part = "你".encode()[:count]
    ids = [vocabulary.piece_to_id(f"<0x{byte:02X}>") for byte in part]
    text = vocabulary.decode(ids)
    print(f"{part}: {text!a}; Python: {part.decode(errors='replace')!a}")
    assert text == expected, text
PYTHON
