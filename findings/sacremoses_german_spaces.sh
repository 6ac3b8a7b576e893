#!/usr/bin/env bash
# sacremoses 0.2.0: German text does not survive MosesTokenizer("de") and MosesDetokenizer("de").
# Guessed: the same text. Seen: an apostrophe gets a space ("geht 's"), and a space after "€" and
# one before "%" are lost ("1.000,50 €(ca. 3%)").
# Met by: whoever detokenizes before scoring: the spaces cost BLEU that the model did not lose.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet sacremoses==0.2.0

env/bin/python - <<'PYTHON'
from sacremoses import MosesDetokenizer, MosesTokenizer

for line, expected in (
    ("Er fragt, wie geht's?", "Er fragt, wie geht 's?"),
    ("Das kostet 1.000,50 € (ca. 3 %).", "Das kostet 1.000,50 €(ca. 3%)."),
    ("Die Reise dauerte 3-4 Tage.", "Die Reise dauerte 3-4 Tage."),
):
    pieces = MosesTokenizer("de").tokenize(line)
    text = MosesDetokenizer("de").detokenize(pieces)
    print(f"{line}  →  {text}")
    assert text == expected, text
PYTHON
