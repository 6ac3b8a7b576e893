"""Sentences → a page that shows them without a server."""

from typing import Any, Dict, List, Sequence, Tuple

from transformer.viewer.page_files import page
from transformer.viewer.requests import SentenceRequest

LIKELIEST = 2  # alternatives of each word of the best translation
MOST_ALTERNATIVES = 64  # of a sentence: each has attention of its own


def page_of(models: Sequence, lines: Sequence[str]) -> Tuple[str, List[str]]:
    """Return (the page as HTML, the translation of each line by the first model).

    Args:
      models: each a Model.
      lines: sentences; the n best translations of each are looked at, and what follows
        from the likeliest alternatives of each word.
    """
    sights = []
    translations = []
    for line in lines:
        line = " ".join(line.split())
        for number, model in enumerate(models):
            seen = _sights(model, number, line)
            sights += seen
            if number == 0:
                translations.append(seen[0]["sight"]["nBest"][0]["text"])
    descriptions = [model.description() for model in models]
    return page({"models": descriptions, "sights": sights})[0], translations


def _sights(model, number: int, line: str) -> List[Dict[str, Any]]:
    """Return what can be seen of a line, the best translation first."""
    asked = [SentenceRequest(number, line)]
    seen = model.see(asked)
    others = [
        SentenceRequest(number, line, target=each["ids"])
        for each in seen[0]["nBest"][1:]
    ]
    others += [
        SentenceRequest(number, line, *choice) for choice in _alternatives(seen[0])
    ]
    return [
        {"model": number, "text": line, "prefix": list(each.prefix), "sight": sight}
        for each, sight in zip(asked + others, seen + model.see(others))
    ]


def _alternatives(sight: Dict[str, Any]) -> List[Tuple[List[int], Any]]:
    """Return the (prefix, target) of the likeliest alternatives of each word.

    They are what the page asks for: the words before are kept and the rest is decoded
    again, or the translation ends there.
    """
    ids = sight["target"]["ids"]
    end = ids[-1]
    found = []
    for begin, _ in sight["target"]["spans"]:
        others = [
            each for each in sight["alternatives"][begin] if each[0] != ids[begin]
        ]
        for one, _, probability in others[:LIKELIEST]:
            before = ids[:begin]
            choice = ([], before) if one == end else ([*before, one], None)
            found.append((probability, choice))
    found.sort(key=lambda each: -each[0])
    return [choice for _, choice in found[:MOST_ALTERNATIVES]]
