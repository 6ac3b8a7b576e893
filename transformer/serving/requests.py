"""Validate the requests of the service: JSON, and the forms of LibreTranslate."""

import ipaddress
import json
import re
import urllib.parse
from typing import Any, Collection, Dict, List, Mapping, NamedTuple, Optional, Sequence

from transformer.text import sentences

MOST_BYTES = 256 * 1024  # of a request
MOST_CHARACTERS = 2000  # of a sentence
MOST_CHARACTERS_SPLIT = 20000  # of a text that is split into sentences
MOST_TEXTS = 128  # of a request
MOST_SENTENCES = 256  # of all texts of a request
MOST_PIECES = 256  # of a sentence: attention grows with the square of this
MOST_PADDING = 16
MOST_FIELDS = 16  # of a form
MOST_ALTERNATIVES = 9999  # that a request may ask for; it gets what the search finds
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


class RefusedRequest(Exception):
    """A request that is refused, with an HTTP status and one sentence."""

    def __init__(self, status: int, sentence: str):
        super().__init__(sentence)
        self.status = status


class SentenceRequest(NamedTuple):
    """A client's request about a sentence."""

    model: int
    text: str
    prefix: Sequence[int] = ()
    target: Optional[List[int]] = None
    padding: int = 0
    alignments: bool = False


class TranslateRequest(NamedTuple):
    """A client's request for translations."""

    model: int
    texts: List[List[tuple]]  # the sentences of each text, as in `sentences.split`
    is_list: bool  # whether the client sent a list
    n_best: int
    scores: bool
    alignments: bool
    split: bool
    source: str = ""  # as named by a LibreTranslate client; "" for others


def fields_of(body: bytes, content_type: str) -> Dict[str, Any]:
    """Return the fields of a request.

    Args:
      body: JSON in UTF-8, or a form.
      content_type: JSON or FORM.

    Raises:
      RefusedRequest: the body is not of that type.
    """
    if content_type == FORM:
        return _fields_of_form(body)
    try:
        fields = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise RefusedRequest(400, "The request is not JSON in UTF-8.") from None
    if not isinstance(fields, dict):
        raise RefusedRequest(400, "The request is not a JSON object.")
    return fields


def _refuse_constant(name):
    raise ValueError(f"{name} is no JSON")


def _fields_of_form(body):
    """Return the fields of a form, with numeric fields as numbers."""
    try:
        pairs = urllib.parse.parse_qsl(
            body.decode("utf-8"),
            True,
            True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError:
        raise RefusedRequest(
            400, f"The request is not a form in UTF-8 of at most {MOST_FIELDS} fields."
        ) from None
    fields = dict(pairs)
    if re.fullmatch("[0-9]{1,4}", fields.get("alternatives", "")):
        fields["alternatives"] = int(fields["alternatives"])
    return fields


def parse_see(fields: Dict[str, Any], models: Sequence) -> SentenceRequest:
    """Return the request to see a translation.

    Args:
      fields: the fields of the request.
      models: the models, each a Model.

    Raises:
      RefusedRequest: the request is invalid or too long.
    """
    _refuse_unknown(fields, ("model", "text", "prefix", "target", "padding"))
    text = fields.get("text")
    if not isinstance(text, str):
        raise RefusedRequest(400, "The field text is not a string.")
    asked = SentenceRequest(
        _integer(fields, "model", 0, 0, len(models) - 1),
        _one_line(text),
        _ids(fields, "prefix") or [],
        _ids(fields, "target"),
        _integer(fields, "padding", 0, 0, MOST_PADDING),
    )
    _refuse_long(asked.text, models[asked.model])
    return asked


def parse_translate(
    fields: Dict[str, Any], models: Sequence, split: Optional[bool] = None
) -> TranslateRequest:
    """Return the request for translations, in our fields or those of LibreTranslate.

    Args:
      fields: the fields of the request.
      models: the models, each a Model.
      split: whether to split texts into sentences if the request does not say. None:
        unless it asks for n best, scores or alignments, which belong to a sentence.

    Raises:
      RefusedRequest: the request is invalid or too long.
    """
    if "q" in fields:
        return _parse_libretranslate(fields, models, split)
    names = ("text", "model", "n_best", "scores", "alignments", "split")
    _refuse_unknown(fields, names)
    number = _integer(fields, "model", 0, 0, len(models) - 1)
    n_best = _integer(fields, "n_best", 1, 1, models[number].n_best)
    scores = _switch(fields, "scores")
    alignments = _switch(fields, "alignments")
    if split is None:
        split = not (n_best > 1 or scores or alignments)
    split = _switch(fields, "split", split)
    return TranslateRequest(
        number,
        _texts(fields, "text", models[number], split),
        isinstance(fields["text"], list),
        n_best,
        scores,
        alignments,
        split,
    )


def _parse_libretranslate(fields, models, split):
    """Return the request of a LibreTranslate client; its languages choose the model."""
    split = split is not False
    names = ("q", "source", "target", "format", "alternatives", "api_key")
    _refuse_unknown(fields, names)
    source = fields.get("source", "auto")
    target = fields.get("target")
    number = next(
        (
            number
            for number, model in enumerate(models)
            if source in ("auto", model.languages[0]) and target == model.languages[1]
        ),
        None,
    )
    if number is None:
        pairs = " and ".join(
            dict.fromkeys("{} to {}".format(*model.languages) for model in models)
        )
        raise RefusedRequest(400, f"This server translates only {pairs}.")
    if fields.get("format", "text") != "text":
        raise RefusedRequest(
            400, "The field format is not text: HTML is not translated."
        )
    n_best = 1 + _integer(fields, "alternatives", 0, 0, MOST_ALTERNATIVES)
    return TranslateRequest(
        number,
        _texts(fields, "q", models[number], split),
        isinstance(fields["q"], list),
        n_best,
        False,
        False,
        split,
        source,
    )


def _refuse_unknown(fields, known: Collection[str]):
    unknown = sorted(set(fields) - set(known))
    if unknown:
        raise RefusedRequest(
            400, f"The request has the unknown field {unknown[0][:40]!r}."
        )


def _integer(fields, name, default, least, most):
    value = fields.get(name, default)
    if type(value) is not int or not least <= value <= most:
        raise RefusedRequest(
            400, f"The field {name} is not an integer from {least} to {most}."
        )
    return value


def _switch(fields, name, default=False):
    value = fields.get(name, default)
    if not isinstance(value, bool):
        raise RefusedRequest(400, f"The field {name} is not true or false.")
    return value


def _ids(fields, name):
    """Return a list of ids; None if there is none."""
    ids = fields.get(name)
    if ids is None:
        return None
    is_list = isinstance(ids, list) and len(ids) <= 2 * MOST_PIECES
    if not is_list or not all(type(one) is int for one in ids):
        raise RefusedRequest(
            400, f"The field {name} is not a list of at most {2 * MOST_PIECES} ids."
        )
    return ids


def _texts(fields, name, model, split):
    """Return the sentences of each text in a field."""
    given = fields.get(name)
    texts = given if isinstance(given, list) else [given]
    if not all(isinstance(text, str) for text in texts):
        raise RefusedRequest(
            400, f"The field {name} is not a string or a list of strings."
        )
    if len(texts) > MOST_TEXTS:
        raise RefusedRequest(413, f"The request has more than {MOST_TEXTS} texts.")
    if split:
        made = [_split(text) for text in texts]
    else:
        made = [[(_one_line(text), "")] for text in texts]
    if sum(map(len, made)) > MOST_SENTENCES:
        raise RefusedRequest(
            413, f"The request has more than {MOST_SENTENCES} sentences."
        )
    for sentence, _ in (each for text in made for each in text):
        _refuse_long(sentence, model)
    return made


def _split(text):
    """Return the sentences of a text, each on one line."""
    _refuse_characters(text, MOST_CHARACTERS_SPLIT)
    parts = sentences.split(_unicode(text))
    return [(_one_line(sentence), space) for sentence, space in parts]


def _one_line(text):
    """Return a sentence on one line, with invalid Unicode replaced."""
    _refuse_characters(text, MOST_CHARACTERS)
    return " ".join(_unicode(text).split())


def _unicode(text):
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")


def _refuse_characters(text, most):
    if len(text) > most:
        raise RefusedRequest(
            413,
            f"The text has {len(text):,} characters; at most {most:,} are translated.",
        )


def _refuse_long(sentence, model):
    pieces = model.pieces(sentence)
    if pieces > model.most_pieces:
        raise RefusedRequest(
            413,
            f"The sentence has {pieces:,} pieces; at most {model.most_pieces} are "
            "translated.",
        )


def refuse_other_hosts(host: Optional[str], served: Collection[str]) -> None:
    """Refuse a request that a page of another site may have sent: DNS rebinding.

    Such a page makes its own host name resolve to this machine, but the browser still
    sends that name. A numeric address is accepted, because it is not the name of a
    site.

    Args:
      host: the Host header.
      served: the host names of this server.

    Raises:
      RefusedRequest: the host is missing or has another name.
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
        raise RefusedRequest(
            421, "This server does not answer to that host name."
        ) from None


def refuse_other_origins(headers: Mapping[str, str]) -> None:
    """Refuse requests from a page of another site.

    Raises:
      RefusedRequest: the request has another Origin.
    """
    host = headers.get("host", "").strip().lower()
    origin = headers.get("origin")
    is_own = origin is None or origin.lower() in ("http://" + host, "https://" + host)
    site = headers.get("sec-fetch-site", "same-origin")
    if not is_own or site not in ("same-origin", "none"):
        raise RefusedRequest(403, "This server answers only its own page.")
