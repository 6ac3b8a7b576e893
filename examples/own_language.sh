#!/usr/bin/env bash
# Train a translator for a language pair of your own, from text files to BLEU.
#
#     bash examples/own_language.sh [FOLDER [FLAGS OF train.py]]
#
# The example is Spanish → English: if FOLDER (by default data/spanish) has no
# corpus.es, make_spanish.py writes a small corpus there. For your own pair, put your
# files there instead: one sentence per line, with line n of one file the translation of
# line n of the other. The languages are read from the file extensions.
#
# It takes about a minute and a half on two cores. Expect a BLEU above 95 (all sentences
# come from one small grammar), and these lines at the end:
#
#     We do not buy the red house.
#     Do you look for this green book now?
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-data/spanish}

[ -e "$folder/corpus.es" ] || python examples/make_spanish.py "$folder"
head -n 3 "$folder/corpus.es" "$folder/corpus.en"

# Learn a vocabulary of pieces, and write every sentence as the ids of its pieces.
python scripts/prepare.py --out "$folder" --vocab_size 250 \
  --train "$folder/corpus.es" "$folder/corpus.en" \
  --dev "$folder/dev.es" "$folder/dev.en" \
  --test "$folder/test.es" "$folder/test.en"

# A small model. A larger corpus deserves a larger one: --preset base; on CPUs, use
# --preset multi30k, and add --max_extra_length 50 for long sentences.
python train.py --preset sample --data "$folder" --logdir "$folder/model" \
  --max_steps 300 --warmup_steps 60 --eval_every 150 --save_every 150 "${@:2}"

python eval.py --logdir "$folder/model"

printf '%s\n' "No compramos la casa roja." "¿Buscas este libro verde ahora?" |
  python scripts/translate.py --logdir "$folder/model"
