"""tools/page/left_out.py: which words were left out, and which ones the page names."""

import os
import random
import sys

from javascript import needs_node, run_node

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tools", "page"))
import left_out  # noqa: E402

NOUNS = {"hund": "dog", "frau": "woman", "garten": "garden", "kind": "child"}
VERBS = {"schläft": "sleeps", "liest": "reads", "singt": "sings"}


def test_the_judge_finds_what_the_translation_lacks(monkeypatch):
    monkeypatch.setattr(left_out, "NUM_FREQUENT", 3)
    monkeypatch.setattr(left_out, "ITERATIONS", 30)  # of few sentences
    draws = random.Random(2)
    sources, targets = [], []
    for _ in range(300):
        nouns = draws.sample(sorted(NOUNS), 2)
        verb = draws.choice(sorted(VERBS))
        sources.append(f"der {nouns[0]} {verb} mit dem {nouns[1]}")
        targets.append(
            f"the {NOUNS[nouns[0]]} {VERBS[verb]} with the {NOUNS[nouns[1]]}"
        )
    judge = left_out.Judge(sources, targets)
    reference = "The dog sleeps with the child."
    for word, translation, expected in (
        ("Hund", "The dog sleeps.", False),
        ("Kind.", "The dog sleeps.", True),
        ("Kind.", "The dogs sleep with the children.", False),
        ("schläft", "The dog.", True),
        ("Frau", "The dog sleeps.", None),  # the reference has no counterpart
        ("Katze", "The dog sleeps.", None),
        ("der", "Dog sleeps.", None),
    ):
        verdict = judge.is_left_out(word, reference, translation)
        assert verdict is expected, (word, translation)


@needs_node
def test_the_page_names_the_runs_that_are_measured():
    draws = random.Random(1)
    for _ in range(5):
        count = draws.randint(1, 12)
        words = [f"wort{draws.randint(10, 99)}" for _ in range(count)]
        effects = [draws.choice([-2.0, -0.31, -0.29, 0.5]) for _ in range(count)]
        is_rare = [draws.random() < 0.5 for _ in range(count)]
        runs = left_out.find_runs(
            words, effects, is_rare, left_out.LIMIT, left_out.LETTERS
        )
        named = run_node(
            "const without = input.effects.map((effect) => [effect - 1, 1]);"
            "return findLeftOut(without, (i) => input.isRare[i]);",
            {"effects": effects, "isRare": is_rare},
            ["left_out.js"],
        )
        assert named == runs
