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

from transformer.text.translations import as_lines
from transformer.viewer.sentence_request import SentenceRequest

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page")
SCRIPTS = (  # in this order: code that runs at once uses the code before it
    "elements.js",
    "memory.js",
    "german.js",
    "spanish.js",
    "french.js",
    "chinese.js",
    "say.js",
    "errors.js",
    "sentences.js",
    "inspection.js",
    "heat.js",
    "grid.js",
    "reading.js",
    "tree.js",
    "export.js",
    "server.js",
    "model_source.js",
    "compare.js",
    "stage.js",
    "player.js",
    "lessons.js",
    "documents.js",
    "lesson_card.js",
    "inside_head.js",
    "switch_off.js",
    "chrf.js",
    "why.js",
    "why_not.js",
    "view.js",
    "request.js",
    "left_out.js",
    "panes.js",
    "choices.js",
    "paper.js",
    "attention.js",
    "main.js",
)
# The model in the page, which runs in a worker: what translates, and what explains.
TRANSLATOR = ("tokenizer.js", "weights.js", "kernels.js", "model.js", "search.js")
ENGINE = (
    *TRANSLATOR,
    "verdict.js",
    "words.js",
    "doubts.js",
    "roles.js",
    "engine.js",
    "heads.js",
)
WORKER = (*ENGINE, "memory.js", "worker.js")
KERNELS = "kernels.wasm"
WEIGHTS = '<template class="weights">{}</template>\n'
NOT_ASCII = re.compile(r"[^\x00-\x7f]")
ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
ALTERNATIVES_PER_WORD = 2  # of the best translation, on a frozen page
MAX_ALTERNATIVES = 64  # of a sentence: each has its own attention


def make_page(data: Dict[str, Any], weights: Sequence[str] = ()) -> Tuple[str, str]:
    """Return (the page, its content security policy).

    Args:
      data: what the page shows without a server, {"models": …, "inspections": …}; or
        the model that runs in the page, from `model_page.py`; or {"server": true,
        "models": …, "example": …}: the page then asks its own server. "docs" is the
        address of the documentation as a site, which it links to, if there is one.
      weights: those of the model that runs in the page: pieces of base64. Each has a
        small element of its own, since browsers hold a long text, and all text of
        scripts, several times.
    """
    script = "".join(read_file(name) for name in SCRIPTS)
    style = read_file("page.css")
    has_model = "engine" in data
    if has_model:  # browsers keep a large page in half the memory if it is ASCII
        script = NOT_ASCII.sub(lambda match: json.dumps(match.group())[1:-1], script)
        style = NOT_ASCII.sub(lambda match: f"\\{ord(match.group()):x} ", style)
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src '{checksum(script)}'"
            + (" 'self'" if data.get("parts") else "")
            + (" 'wasm-unsafe-eval'; worker-src blob:" if has_model else ""),
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
        "data": escape_json(data),
        "weights": "".join(map(WEIGHTS.format, weights)),
        "script": script,
    }
    html = re.sub(
        r"{{(\w+)}}", lambda match: parts[match.group(1)], read_file("page.html")
    )
    if has_model:
        html = html.encode("ascii", "xmlcharrefreplace").decode("ascii")
    return html, policy


def read_file(name: str) -> str:
    """Read one of the page's files."""
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


def read_bytes(name: str) -> bytes:
    """Read one of the page's files that is not text."""
    with open(os.path.join(FOLDER, name), "rb") as file:
        return file.read()


def escape_json(data: Any) -> str:
    """Return data as JSON that cannot end the script element it stands in.

    It is ASCII: see `make_page`.
    """
    text = json.dumps(data)
    for character, escaped in ESCAPED.items():
        text = text.replace(character, escaped)
    return text


def checksum(text: str) -> str:
    """Return the checksum of an inlined text, as a policy states it."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")


# A page without a server


def make_frozen_page(models: Sequence, lines: Sequence[str]) -> Tuple[str, List[str]]:
    """Return (the page as HTML, the translation of each line by the first model).

    Args:
      models: the models, each a Model.
      lines: sentences. The page shows the n best translations of each, and how each of
        the likeliest alternatives of a word continues.
    """
    entries = []
    translations = []
    for line in as_lines(lines):
        line = " ".join(line.split())
        for index, model in enumerate(models):
            of_line = _inspect_line(model, index, line)
            entries += of_line
            if index == 0:
                translations.append(of_line[0]["inspection"]["nBest"][0]["text"])
    descriptions = [model.describe() for model in models]
    html, _ = make_page({"models": descriptions, "inspections": entries})
    return html, translations


def _inspect_line(model, index: int, line: str) -> List[Dict[str, Any]]:
    """Inspect the translations of a line that the page can show, the best one first."""
    best_request = SentenceRequest(line)
    [best] = model.inspect([best_request])
    target = best["target"]["ids"][:-1]
    best["choices"] = model.list_words(
        [
            SentenceRequest(line, target=target, word=word)
            for word in range(len(best["target"]["spans"]) - 1)
        ]
    )
    requests = [
        SentenceRequest(line, target=translation["ids"])
        for translation in best["nBest"][1:]
    ]
    requests += [SentenceRequest(line, *choice) for choice in _choose_words(best)]
    return [
        {
            "model": index,
            "text": line,
            "prefix": list(request.prefix),
            "inspection": inspection,
        }
        for request, inspection in zip(
            [best_request, *requests], [best, *model.inspect(requests)]
        )
    ]


def _choose_words(inspection: Dict[str, Any]) -> List[Tuple[List[int], Any]]:
    """Return the (prefix, target) of the likeliest choices for each word.

    These are the requests that the page makes: they keep the words up to the choice,
    and decode the rest again or end the translation there.
    """
    target = inspection["target"]
    choices = []
    for (_, end), words in zip(target["spans"], inspection["choices"]):
        others = [
            word
            for word in words
            if word["isEnd"] or word["ids"] != target["ids"][:end]
        ]
        for word in others[:ALTERNATIVES_PER_WORD]:
            ids = word["ids"]
            choice = ([], ids) if word["isEnd"] else (ids, None)
            choices.append((word["probability"], choice))
    choices.sort(key=lambda choice: -choice[0])
    return [choice for _, choice in choices[:MAX_ALTERNATIVES]]
