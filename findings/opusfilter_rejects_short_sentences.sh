#!/usr/bin/env bash
# OpusFilter 3.3.1: AlphabetRatioFilter with its defaults rejects ordinary sentences: spaces and the
# full stop count against the letters (threshold 0.75).
# Guessed: spaces do not count. Seen: "Ein Hund." is rejected, and so is "A man sits on a bench.";
# sentences of long words pass.
# Met by: whoever takes the filter for one against tables and formulas. (exclude_whitespace=True
# keeps these sentences.)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet opusfilter==3.3.1 setuptools==80.9.0

env/bin/python - 2> /dev/null <<'PYTHON'
from opusfilter.filters import AlphabetRatioFilter

PAIRS = [
    ("Ein Hund.", "A dog."),
    ("Ein Mann sitzt auf einer Bank.", "A man sits on a bench."),
    ("Verschiedene Musikinstrumente", "Different musical instruments"),
]


def accepted(**options):
    rule = AlphabetRatioFilter(**options)
    return [rule.accept(score) for score in rule.score(PAIRS)]


print("defaults:", accepted())
assert accepted() == [False, False, True]
print("exclude_whitespace=True:", accepted(exclude_whitespace=True))
assert accepted(exclude_whitespace=True) == [True, True, True]
PYTHON
