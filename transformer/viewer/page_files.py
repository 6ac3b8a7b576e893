"""The page: HTML, CSS and JavaScript → one file that loads nothing else.

The hand-written sources are in `page/`. Only the script and the style of the file take
effect: a content security policy names them by their checksums, and forbids all other
requests. Data is embedded in a script element that is not executed.
"""

import base64
import hashlib
import json
import os
import re
from typing import Any, Dict, List, Sequence, Tuple

from transformer.serving.requests import SentenceRequest
from transformer.text.translations import as_lines

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page")
SCRIPTS = (  # in this order: code that runs at once uses the code before it
    "elements.js",
    "sight.js",
    "heat.js",
    "grid.js",
    "reading.js",
    "tree.js",
    "export.js",
    "server.js",
    "compare.js",
    "view.js",
    "look.js",
    "main.js",
)
ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
ESCAPED.update({"\u2028": "\\u2028", "\u2029": "\\u2029"})
LIKELIEST = 2  # alternatives of each word of the best translation on a frozen page
MOST_ALTERNATIVES = 64  # of a sentence: each has its own attention


def page(data: Dict[str, Any]) -> Tuple[str, str]:
    """Return (the page, its content security policy).

    Args:
      data: what the page shows without a server, {"models": …, "sights": …}; or
        {"server": true}: the page then asks its own server.
    """
    script = "".join(read(name) for name in SCRIPTS)
    style = read("page.css")
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src '{checksum(script)}'",
            f"style-src '{checksum(style)}'",
            "img-src data: blob:",
            "connect-src " + ("'self'" if data.get("server") else "'none'"),
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    parts = {
        "policy": policy,
        "style": style,
        "data": in_a_block(data),
        "script": script,
    }
    html = re.sub(r"{{(\w+)}}", lambda found: parts[found.group(1)], read("page.html"))
    return html, policy


def read(name: str) -> str:
    """Return the text of one of the page's files."""
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


def in_a_block(data: Any) -> str:
    """Return JSON that is safe in a script element, which it cannot end."""
    text = json.dumps(data, ensure_ascii=False)
    for character, escaped in ESCAPED.items():
        text = text.replace(character, escaped)
    return text


def checksum(text: str) -> str:
    """Return the checksum of an inlined text, as a policy states it."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")


# --- A page without a server ----------------------------------------------------------


def frozen_page(models: Sequence, lines: Sequence[str]) -> Tuple[str, List[str]]:
    """Return (the page as HTML, the translation of each line by the first model).

    Args:
      models: the models, each a Model.
      lines: sentences; the page shows the n best translations of each, and what follows
        from the likeliest alternatives of each word.
    """
    sights = []
    translations = []
    for line in as_lines(lines):
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

    These are the requests that the page makes: they keep the words before, and decode
    the rest again or end the translation there.
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
