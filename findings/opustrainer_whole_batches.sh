#!/usr/bin/env bash
# OpusTrainer 0.5: "until clean 1" is not one pass over a corpus. The trainer is fed whole batches
# of 100 lines, and the last one is filled from the next pass.
# Guessed: each of 1,005 lines once. Seen: 1,100 lines, 95 of them twice; a corpus of 5 lines is
# fed 20 times.
# Met by: whoever mixes a small clean corpus into a large one and counts on its weight.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet opustrainer==0.5 setuptools==80.9.0

cat > config.yml <<'YAML'
datasets:
  clean: clean.tsv
stages:
  - start
start:
  - clean 1.0
  - until clean 1
trainer: /bin/sh -c "cat > fed.tsv"
seed: 1
YAML
for lines in 1005 5; do
  for i in $(seq "$lines"); do printf 'Satz %d\tsentence %d\n' "$i" "$i"; done > clean.tsv
  env/bin/opustrainer-train --config config.yml --do-not-resume 2> /dev/null
  echo "$lines lines: $(wc -l < fed.tsv) fed, of which $(sort fed.tsv | uniq -d | wc -l) more than once"
  [ "$(sort -u fed.tsv | wc -l)" = "$lines" ]
  [ "$(wc -l < fed.tsv)" = $(((lines + 99) / 100 * 100)) ]
done
