#!/usr/bin/env bash
# Train a translator for a language pair of your own, from text files to BLEU.
#
#     bash examples/own_language.sh [FOLDER [FLAGS OF train.py]]
#
# The example is Spanish → English: if FOLDER (by default data/spanish) is missing or
# empty, make_spanish.py writes a small corpus there. For your own pair, make the
# folder, put your files there, and change their names below. Each has one sentence per
# line; line n of one file is the translation of line n of the other. prepare.py reads
# the languages from the file extensions.
#
# It takes about a minute and a half on two cores. Expect a BLEU above 95 (all sentences
# come from one small grammar), and these lines at the end:
#
#     We do not buy the red house.
#     Do you look for this green book now?
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$root/data/spanish}
[[ $folder = /* ]] || folder=$PWD/$folder
cd "$root"

[ "$(ls -A "$folder" 2> /dev/null)" ] || python examples/make_spanish.py "$folder"
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
