"""tools/mutation/mutants.py: which changes there are, one at a time."""

import sys

import pytest

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 9), reason="ast.unparse came with Python 3.9"
)

TEXT = '''"""1 < 2 is not changed here."""


def f(x: int = 1, *, axis=None) -> int:
    """Nor here: 3."""
    if not x or x < 2:
        raise ValueError(x - 4)
    x += 1
    print(x, end="")
    return g(x[1:], axis=-1, name="g")
'''


def changes():
    import mutants

    return [(place.line, *mutants.mutant(TEXT, place)) for place in places()]


def places():
    import mutants

    return mutants.places_of(TEXT)


def test_the_changes_of_a_text():
    assert sorted((line, change) for line, _, change in changes()) == [
        (4, "1 → 2"),
        (6, "2 → 3"),
        (6, "not x or x < 2 → not (not x or x < 2)"),
        (6, "not x or x < 2 → not x and x < 2"),
        (6, "not x → x"),
        (6, "x < 2 → x <= 2"),
        (7, "raise ValueError(x - 4) → pass"),
        (8, "1 → 2"),
        (8, "x += 1 → pass"),
        (8, "x += 1 → x -= 1"),
        (9, "print(x, end='') → pass"),
        (9, "print(…) without end="),
        (10, "-1 → 1"),
        (10, "1 → 2"),
        (10, "1 → 2"),
        (10, "1: → :"),
        (10, "g(…) without axis="),
        (10, "return g(x[1:], axis=-1, name='g… → return None"),
    ]


def test_each_is_a_change_of_its_own_and_compiles():
    import mutants

    texts = [text for _, text, _ in changes()]
    assert len(set(texts)) == len(texts)
    for text in texts:
        compile(text, "mutant", "exec")
    assert mutants.places_of(TEXT) == places()
