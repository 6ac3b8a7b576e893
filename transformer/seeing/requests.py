"""Validate the JSON requests of the page."""

import ipaddress
import json
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

MOST_BYTES = 64 * 1024  # of a request
MOST_CHARACTERS = 2000  # of a sentence
MOST_PIECES = 256  # of a sentence: attention grows with their square
MOST_PADDING = 16


class Wrong(Exception):
    """A request that is refused, with a status of HTTP and one sentence."""

    def __init__(self, status: int, sentence: str):
        super().__init__(sentence)
        self.status = status


class Asked(NamedTuple):
    """What a client asks about."""

    model: int
    text: str
    prefix: List[int]
    target: Optional[List[int]]
    padding: int


def parse(body: bytes, models: Sequence) -> Asked:
    """Return what the body of a request asks.

    Args:
      body: JSON in UTF-8.
      models: each a Model.

    Raises:
      Wrong: it is not what is wanted, or too long.
    """
    try:
        fields = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Wrong(400, "The request is not JSON in UTF-8.") from None
    if not isinstance(fields, dict):
        raise Wrong(400, "The request is not a JSON object.")
    unknown = sorted(set(fields) - set(Asked._fields))
    if unknown:
        raise Wrong(400, f"The request has the unknown field {unknown[0][:40]!r}.")
    asked = Asked(
        _integer(fields, "model", len(models) - 1),
        _text(fields),
        _ids(fields, "prefix") or [],
        _ids(fields, "target"),
        _integer(fields, "padding", MOST_PADDING),
    )
    pieces = models[asked.model].pieces(asked.text)
    if pieces > MOST_PIECES:
        raise Wrong(
            413, f"The sentence has {pieces:,} pieces, at most {MOST_PIECES} are shown."
        )
    return asked


def _integer(fields: Dict[str, Any], name: str, most: int) -> int:
    value = fields.get(name, 0)
    if type(value) is not int or not 0 <= value <= most:
        raise Wrong(400, f"The field {name} is not an integer from 0 to {most}.")
    return value


def _text(fields):
    """Return the sentence on one line, with what is not Unicode replaced."""
    text = fields.get("text")
    if not isinstance(text, str):
        raise Wrong(400, "The field text is not a string.")
    if len(text) > MOST_CHARACTERS:
        raise Wrong(
            413,
            f"The sentence has {len(text):,} characters, at most {MOST_CHARACTERS:,} "
            "are translated.",
        )
    text = text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")
    return " ".join(text.split())


def _ids(fields, name):
    """Return a list of ids, None where there is none."""
    ids = fields.get(name)
    if ids is None:
        return None
    is_list = isinstance(ids, list) and len(ids) <= 2 * MOST_PIECES
    if not is_list or not all(type(one) is int for one in ids):
        raise Wrong(
            400, f"The field {name} is not a list of at most {2 * MOST_PIECES} ids."
        )
    return ids


def refuse_other_hosts(host: Optional[str], served: Sequence[str]) -> None:
    """Refuse a request that a page of another site may have sent: DNS rebinding.

    Such a page makes its own name lead to this machine, but the browser still says the
    name. An address is nobody's name.

    Args:
      host: the Host header.
      served: names that are this server's.

    Raises:
      Wrong: the host is missing, or another name.
    """
    name = (host or "").strip().lower()
    if not name.endswith("]") and ":" in name:
        name = name.rpartition(":")[0]
    name = name.strip("[]")
    if name in served:
        return
    try:
        ipaddress.ip_address(name)
    except ValueError:
        raise Wrong(421, "This server does not answer to that host name.") from None


def refuse_other_origins(headers) -> None:
    """Refuse what the page of another site sends.

    Raises:
      Wrong: the request has another Origin, or is no JSON, which a form cannot send.
    """
    origin = headers.get("Origin")
    if origin is not None and origin.lower() not in (
        "http://" + headers.get("Host", "").strip().lower(),
        "https://" + headers.get("Host", "").strip().lower(),
    ):
        raise Wrong(403, "This server answers its own page only.")
    if headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise Wrong(403, "This server answers its own page only.")
    if headers.get_content_type() != "application/json":
        raise Wrong(415, "The request is not of type application/json.")
