"""Sentences → a page that shows them without a server."""

from typing import Any, Dict, List, Sequence, Tuple

from transformer.seeing.page_files import page
from transformer.seeing.requests import Asked


def page_of(models: Sequence, lines: Sequence[str]) -> Tuple[str, List[str]]:
    """Return (the page as HTML, the translation of each line by the first model).

    Args:
      models: each a Model.
      lines: sentences; the n best translations of each are looked at.
    """
    sights, translations = [], []
    for line in lines:
        line = " ".join(line.split())
        for number, model in enumerate(models):
            seen = _sights(model, number, line)
            sights += seen
            if number == 0:
                translations.append(seen[0]["sight"]["nBest"][0]["text"])
    told = [model.told() for model in models]
    return page({"models": told, "sights": sights})[0], translations


def _sights(model, number: int, line: str) -> List[Dict[str, Any]]:
    """Return what can be seen of the n best translations of a line, the best first."""
    [best] = model.see([Asked(number, line, [], None, 0)])
    others = [Asked(number, line, [], each["ids"], 0) for each in best["nBest"][1:]]
    seen = [best, *model.see(others)]
    return [{"model": number, "text": line, "sight": each} for each in seen]
