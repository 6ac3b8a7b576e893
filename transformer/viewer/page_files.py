"""The page: HTML, CSS and JavaScript → one file that asks for nothing else.

The sources are in `page/`, as a person writes them. Only the script and the style of
the file run: a content security policy names them by their checksums, and forbids all
other requests. Data are embedded in a script element that is not executed.
"""

import base64
import hashlib
import json
import os
import re
from typing import Any, Dict, Tuple

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page")
SCRIPTS = (  # in their order: what runs at once uses what stands before it
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


def page(data: Dict[str, Any]) -> Tuple[str, str]:
    """Return (the page, its content security policy).

    Args:
      data: what the page shows without a server: {"models": …, "sights": …}; or
        {"server": true}, and it asks its own server.
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
    """Return the text of a file of the page."""
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


def in_a_block(data: Any) -> str:
    """Return JSON that may stand in a script element: it cannot end there."""
    text = json.dumps(data, ensure_ascii=False)
    for character, escaped in ESCAPED.items():
        text = text.replace(character, escaped)
    return text


def checksum(text: str) -> str:
    """Return the checksum of an inlined text as a policy names it."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")
