#!/usr/bin/env bash
# eflomal 2.0.0 (word alignment by sampling): the same command on the same text gives other links
# in each run, and there is no option for a seed.
# Guessed: the same links. Seen: about two thirds of 500 lines differ.
# Met by: whoever compares two aligners, or caches links, and takes a difference for a change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet eflomal==2.0.0 numpy==2.3.5

env/bin/python - <<'PYTHON'
import random

random.seed(1)
words = "der die ein eine mann frau hund katze haus baum läuft schläft sieht rot grün alt".split()
source = [[random.choice(words) for _ in range(random.randint(3, 9))] for _ in range(500)]


def translate(word):
    return "e_" + (word if random.random() < 0.7 else random.choice(words))


with open("source", "w") as file:
    file.writelines(" ".join(line) + "\n" for line in source)
with open("target", "w") as file:
    file.writelines(
        " ".join(map(translate, random.sample(line, len(line)))) + "\n" for line in source
    )
PYTHON
for run in 1 2; do
  env/bin/eflomal-align -s source -t target -f "forward$run" -r "reverse$run" 2> /dev/null
done
differ=$(paste -d '|' forward1 forward2 | awk -F '|' '$1 != $2' | wc -l)
echo "lines whose links differ between two runs: $differ of 500"
[ "$differ" -gt 100 ]
env/bin/eflomal-align --help > help
if grep -iq seed help; then
  echo "there is an option for a seed now"
  exit 1
fi
