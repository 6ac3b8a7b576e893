"""Validate the requests of the service: JSON, and what LibreTranslate's clients send.

msgspec checks names and types. What depends on the model, and limits that have an HTTP
status of their own, are checked here. `viewer/page/openapi.json` describes the fields.
"""

import ipaddress
import json
import re
import urllib.parse
from typing import (
    Annotated,
    Any,
    Collection,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
)

import msgspec

from transformer.serving.languages import normalize_code
from transformer.text import sentences
from transformer.text.lines import remove_display_marks
from transformer.viewer.sentence_request import MAX_PIECES, SentenceRequest

MAX_BYTES = 256 * 1024  # of a request
MAX_CHARACTERS = 2000  # of a sentence
MAX_CHARACTERS_SPLIT = 20000  # of a text that is split into sentences
MAX_TEXTS = 128  # of a request
MAX_SENTENCES = 256  # of all texts of a request
MAX_PADDING = 16
MAX_HEADS = 1024  # that a request switches off
MAX_FIELDS = MAX_TEXTS + 16  # of a form
MAX_ALTERNATIVES = 9999  # that a request may ask for; it gets what the search finds
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
MARKUP = re.compile("<[a-z/!?]|&[a-z#]", re.I)  # a tag, or a character of HTML

TYPES = {  # of msgspec's errors
    "array": "a list",
    "bool": "a boolean",
    "float": "a decimal number",
    "int": "a whole number",
    "null": "null",
    "object": "an object",
    "str": "a string",
    "str | array": "a string or a list",
    "str | array | null": "a string, a list or null",
}

Fields = TypeVar("Fields", bound=msgspec.Struct)
Index = Annotated[int, msgspec.Meta(ge=0)]
Padding = Annotated[int, msgspec.Meta(ge=0, le=MAX_PADDING)]
Ids = Annotated[List[int], msgspec.Meta(max_length=2 * MAX_PIECES)]


class RequestError(Exception):
    """A request is rejected, with an HTTP status and one sentence.

    Args:
      status: the status.
      sentence: the sentence.
      code: names the kind of error, for a page that has a sentence of its own for it;
        "": there is none.
      values: what such a sentence states, such as a limit.
    """

    def __init__(
        self, status: int, sentence: str, code: str = "", values: Sequence[int] = ()
    ):
        super().__init__(sentence)
        self.status = status
        self.code = code
        self.values = values


class See(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a request to inspect a translation."""

    text: str
    model: Index = 0
    prefix: Union[Ids, str] = []
    target: Union[Ids, str, None] = None
    padding: Padding = 0
    leave_out: bool = True


class Head(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a request to look inside an attention head."""

    text: str
    kind: str
    layer: Index
    head: Index
    model: Index = 0
    prefix: Ids = []
    target: Optional[Ids] = None
    padding: Padding = 0


class Ablate(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a request to translate without some attention heads."""

    text: str
    heads: Annotated[List[Tuple[str, Index, Index]], msgspec.Meta(max_length=MAX_HEADS)]
    model: Index = 0
    prefix: Ids = []
    target: Optional[Ids] = None


class Alone(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a request to leave out each word, or each head, alone."""

    text: str
    target: Ids
    model: Index = 0


class Words(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a request for the words that may stand at a place."""

    text: str
    target: Ids
    word: Index
    model: Index = 0


class WhyNot(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a request to explain what became of an expected translation."""

    text: str
    target: Union[Ids, str]
    model: Index = 0


class TestSentences(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a request for sentences with references."""

    model: Index = 0
    start: Index = 0


class TrainingPairs(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a request for training pairs that are like a sentence."""

    text: str
    model: Index = 0


class Texts(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a request for translations."""

    text: Union[str, List[str]]
    model: Index = 0
    n_best: Annotated[int, msgspec.Meta(ge=1)] = 1
    scores: bool = False
    alignments: bool = False
    words: bool = False
    split: Union[bool, msgspec.UnsetType] = msgspec.UNSET


class Detect(msgspec.Struct):
    """The fields of a LibreTranslate request to detect a language."""

    q: Union[str, List[str]]


class LibreTranslate(Detect):
    """The fields of a LibreTranslate request; like its server, ignore others."""

    target: str
    source: Optional[str] = None
    format: Optional[str] = None
    alternatives: Optional[Annotated[int, msgspec.Meta(le=MAX_ALTERNATIVES)]] = None
    api_key: Any = None


class TranslateRequest(NamedTuple):
    """A valid request for translations."""

    model: int  # the index of the model
    texts: List[List[tuple]]  # the sentences of each text, as in `sentences.split`
    is_list: bool  # whether the client sent a list of texts
    n_best: int
    scores: bool
    alignments: bool
    split: bool
    words: bool = False
    source: str = ""  # the language that a LibreTranslate client named; "" for others
    is_copy: bool = False  # whether the texts are in the target language already


def media_type(content_type: str) -> str:
    """Return the media type in a Content-Type header, without its parameters.

    A type that ends with +json is JSON (RFC 6839, 3.1).
    """
    name = content_type.partition(";")[0].strip().lower()
    return JSON if re.fullmatch(r"application/.*\+json", name) else name


def parse_fields(body: bytes, content_type: str, query: bytes = b"") -> Dict[str, Any]:
    """Parse the fields of a request.

    Args:
      body: JSON in UTF-8 (or UTF-16 or UTF-32), a form, or nothing.
      content_type: the header of the request.
      query: the query of the URL; a form may have fields in both.

    Raises:
      RequestError: the body is not of that type.
    """
    if media_type(content_type) != JSON:
        return _parse_form(body, content_type, query)
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError(400, "The request is not JSON in UTF-8.") from None
    if not isinstance(fields, dict):
        raise RequestError(400, "The request is not a JSON object.")
    return fields


def _parse_form(body, content_type, query):
    """Parse a form; every `q` is a text, other fields have their first value."""
    try:
        pairs = _parse_pairs(query)
        if media_type(content_type) == MULTIPART:
            pairs += _parse_multipart(body, content_type)
        else:
            pairs += _parse_pairs(body)
        if len(pairs) > MAX_FIELDS:
            raise ValueError
    except ValueError:
        raise RequestError(
            400, f"The request is not a form in UTF-8 of at most {MAX_FIELDS} fields."
        ) from None
    values: Dict[str, List[str]] = {}
    for name, value in pairs:
        # Forms end lines with CR LF (RFC 2046, 4.1.1).
        values.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return {
        name: texts if name == "q" and len(texts) > 1 else texts[0]
        for name, texts in values.items()
    }


def _parse_pairs(text):
    """Parse a form; refuse a field without "=": mostly text after an "&" of its own."""
    pairs = [pair for pair in text.decode("utf-8").split("&") if pair]
    if not pairs:  # an error for Python 3.10
        return []
    return urllib.parse.parse_qsl(
        "&".join(pairs), True, True, errors="strict", max_num_fields=MAX_FIELDS
    )


def _parse_multipart(body, content_type):
    """Return the (name, value) of each part, without files (RFC 7578)."""
    boundary = re.search('\\bboundary="?([^";]+)', content_type, re.I)
    if not boundary:
        raise ValueError
    limit = b"\r\n--" + boundary[1].strip().encode("latin-1")
    _, *parts, end = (b"\r\n" + body).split(limit, MAX_FIELDS + 1)
    if not end.startswith(b"--"):
        raise ValueError
    pairs = []
    for part in parts:
        head, separator, value = part.partition(b"\r\n\r\n")
        parameters = dict(re.findall(b';[ \t]*([a-z]+)="?([^";\r\n]*)', head, re.I))
        if not part.startswith(b"\r\n") or not separator or b"name" not in parameters:
            raise ValueError
        if b"filename" not in parameters:
            pairs.append((parameters[b"name"].decode("utf-8"), value.decode("utf-8")))
    return pairs


def parse_see(fields: Dict[str, Any], models: Sequence) -> Tuple[int, SentenceRequest]:
    """Parse a request to inspect a translation.

    Args:
      fields: the fields of the request.
      models: the models, each a Model.

    Returns:
      (index of the model, request).

    Raises:
      RequestError: the request is invalid or too long.
    """
    see = _convert(fields, See)
    model = _choose_model(see.model, models)
    return see.model, SentenceRequest(
        _check_sentence(see.text, model),
        _check_target(see.prefix, model),
        _check_target(see.target, model),
        see.padding,
        leave_out=see.leave_out,
    )


def parse_head(fields: Dict[str, Any], models: Sequence) -> Tuple[int, SentenceRequest]:
    """Parse a request to look inside an attention head, as `parse_see` does."""
    head = _convert(fields, Head)
    text = _check_sentence(head.text, _choose_model(head.model, models))
    names = [(head.kind, head.layer, head.head)]
    return head.model, SentenceRequest(
        text, head.prefix, head.target, head.padding, heads=names
    )


def parse_ablate(
    fields: Dict[str, Any], models: Sequence
) -> Tuple[int, SentenceRequest]:
    """Parse a request to translate without some heads, as `parse_see` does."""
    ablate = _convert(fields, Ablate)
    text = _check_sentence(ablate.text, _choose_model(ablate.model, models))
    return ablate.model, SentenceRequest(
        text, ablate.prefix, ablate.target, heads=ablate.heads
    )


def parse_alone(
    fields: Dict[str, Any], models: Sequence
) -> Tuple[int, SentenceRequest]:
    """Parse a request to leave out each word or head alone, as `parse_see` does."""
    alone = _convert(fields, Alone)
    text = _check_sentence(alone.text, _choose_model(alone.model, models))
    return alone.model, SentenceRequest(text, target=alone.target)


def parse_words(
    fields: Dict[str, Any], models: Sequence
) -> Tuple[int, SentenceRequest]:
    """Parse a request for the words at a place, as `parse_see` does."""
    words = _convert(fields, Words)
    text = _check_sentence(words.text, _choose_model(words.model, models))
    return words.model, SentenceRequest(text, target=words.target, word=words.word)


def parse_why_not(
    fields: Dict[str, Any], models: Sequence
) -> Tuple[int, SentenceRequest]:
    """Parse a request to explain an expected translation, as `parse_see` does."""
    why_not = _convert(fields, WhyNot)
    model = _choose_model(why_not.model, models)
    text = _check_sentence(why_not.text, model)
    return why_not.model, SentenceRequest(
        text, target=_check_target(why_not.target, model)
    )


def parse_training_pairs(
    fields: Dict[str, Any], models: Sequence
) -> Tuple[int, SentenceRequest]:
    """Parse a request for training pairs that are like a sentence, as `parse_see`."""
    pairs = _convert(fields, TrainingPairs)
    text = _check_sentence(pairs.text, _choose_model(pairs.model, models))
    return pairs.model, SentenceRequest(text)


def parse_test_sentences(
    fields: Dict[str, Any], models: Sequence
) -> Tuple[int, int, int]:
    """Parse a request for sentences with references.

    Returns:
      (index of the model, index of the first sentence, number of all sentences).

    Raises:
      RequestError: the request is invalid.
    """
    tests = _convert(fields, TestSentences)
    total = _choose_model(tests.model, models).test_sentences.total
    return tests.model, min(tests.start, total), total


def _check_sentence(text, model):
    """Return a text as one line, if it is not too long."""
    line = _join_lines(text)
    _check_pieces(line, model)
    return line


def _check_target(target, model):
    """Return a text in the target language as one line, if it is not too long.

    Lists of ids, whose length has been checked, stay as they are.
    """
    if isinstance(target, str):
        target = _join_lines(target)
        pieces = model.count_target_pieces(target)
        if pieces > 2 * MAX_PIECES:
            raise RequestError(
                413,
                f"The translation has {pieces:,} pieces; at most {2 * MAX_PIECES} are "
                "read.",
                "too_many_target_pieces",
                [pieces, 2 * MAX_PIECES],
            )
    return target


def parse_translate(
    fields: Dict[str, Any], models: Sequence, split: Optional[bool] = None
) -> TranslateRequest:
    """Parse a request for translations, with our fields or those of LibreTranslate.

    Args:
      fields: the fields of the request.
      models: the models, each a Model.
      split: whether to split texts into sentences if the request does not say. None:
        unless it asks for n best, scores, alignments or words, which belong to a
        sentence.

    Raises:
      RequestError: the request is invalid or too long.
    """
    if "q" in fields or ("text" not in fields and {"source", "target"} & set(fields)):
        return _parse_libretranslate(fields, models, split is not False)
    texts = _convert(fields, Texts)
    model = _choose_model(texts.model, models)
    if texts.n_best > model.n_best:
        raise RequestError(
            400, f"Expected n_best to be at most {model.n_best}, got {texts.n_best}."
        )
    if isinstance(texts.split, bool):
        split = texts.split
    elif split is None:
        split = texts.n_best == 1 and not (
            texts.scores or texts.alignments or texts.words
        )
    return TranslateRequest(
        texts.model,
        _split_texts(texts.text, model, split),
        isinstance(texts.text, list),
        texts.n_best,
        texts.scores,
        texts.alignments,
        split,
        texts.words,
    )


def check_detect(fields: Dict[str, Any]) -> None:
    """Check the fields of a LibreTranslate request to detect a language.

    Raises:
      RequestError: the request is invalid.
    """
    _convert(fields, Detect)


def _parse_libretranslate(fields, models, split):
    """Parse the request of a LibreTranslate client; its languages choose the model."""
    # The fields of a form are text.
    request = _convert(fields, LibreTranslate, strict=False)
    for name in Texts.__struct_fields__:
        if name in fields:  # only unknown to LibreTranslate
            raise RequestError(400, f"Expected q or {name}, got both.")
    texts = request.q if isinstance(request.q, list) else [request.q]
    if request.format == "html":
        if any(map(MARKUP.search, texts)):
            raise RequestError(
                400, "Expected format to be text, got 'html', and a text with markup."
            )
    elif request.format not in ("text", "", None):
        raise RequestError(
            400, f"Expected format to be text, got {request.format[:40]!r}."
        )
    wanted = normalize_code(request.source or "auto"), normalize_code(request.target)
    for index, model in enumerate(models):
        source, target = map(normalize_code, model.languages)
        is_copy = wanted in ((source, source), (target, target))
        if is_copy or wanted in ((source, target), ("auto", target)):
            return TranslateRequest(
                index,
                _as_sentences(request.q)
                if is_copy
                else _split_texts(request.q, model, split),
                isinstance(request.q, list),
                1 + max(0, request.alternatives or 0),
                False,
                False,
                split,
                source=wanted[0],
                is_copy=is_copy,
            )
    pairs = dict.fromkeys("{} to {}".format(*model.languages) for model in models)
    raise RequestError(400, f"This server translates only {' and '.join(pairs)}.")


def _convert(fields, kind: Type[Fields], strict: bool = True) -> Fields:
    """Convert fields to a Struct, which checks their names and types."""
    try:
        return msgspec.convert(fields, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise RequestError(400, _describe_error(str(error))) from None
    except UnicodeEncodeError:  # the name of a field is not Unicode
        raise RequestError(400, "A field is unknown.") from None


def _describe_error(error: str) -> str:
    """Return an error of msgspec as a sentence in the words of the interface."""
    match = re.fullmatch("Object missing required field `(.*)`", error)
    if match:
        return f"The field {match[1]} is missing."
    match = re.fullmatch("Object contains unknown field `(.*)`", error, re.S)
    if match:
        return f"The field {match[1][:40]!r} is unknown."
    match = re.fullmatch(
        r"Expected `([^`]*)`([^`]*?)(?:, got `([a-z]*)`)? - at `\$\.([^`]*)`", error
    )
    if not match:
        return f"{error}."
    names, limit, actual, field = match.groups()
    expected = TYPES.get(names) or " or ".join(
        TYPES.get(name, name) for name in names.split(" | ")
    )
    return f"Expected {field} to be {expected}{limit}" + (
        f", got {TYPES.get(actual, actual)}." if actual else "."
    )


def _choose_model(index, models):
    """Return a model by its index."""
    if index >= len(models):
        raise RequestError(
            400,
            f"Expected model to be at most {len(models) - 1}, got {index}.",
            "no_model",
        )
    return models[index]


def _as_sentences(value):
    """Return each text as one sentence, unchanged."""
    texts = value if isinstance(value, list) else [value]
    if len(texts) > MAX_TEXTS:
        raise RequestError(413, f"The request has more than {MAX_TEXTS} texts.")
    return [[(_replace_surrogates(text), "")] for text in texts]


def _split_texts(value, model, split):
    """Return the sentences of each text, checked for their length."""
    texts = [text for [(text, _)] in _as_sentences(value)]
    if split:
        split_texts = [_split_text(text, model.languages[0]) for text in texts]
    else:
        split_texts = [[(_join_lines(text), "")] for text in texts]
    if sum(map(len, split_texts)) > MAX_SENTENCES:
        raise RequestError(413, f"The request has more than {MAX_SENTENCES} sentences.")
    for text in split_texts:
        for sentence, _ in text:
            _check_pieces(sentence, model)
    return split_texts


def _split_text(text, language):
    """Split a text into its sentences, each on one line."""
    _check_characters(text, MAX_CHARACTERS_SPLIT)
    return [
        (_join_lines(sentence), space)
        for sentence, space in sentences.split(_replace_invalid(text), language)
    ]


def _join_lines(text):
    """Put a sentence on one line, with invalid Unicode replaced."""
    _check_characters(text, MAX_CHARACTERS)
    return " ".join(_replace_invalid(text).split())


def _replace_invalid(text):
    """Replace surrogates and NUL; remove display marks."""
    return remove_display_marks(_replace_surrogates(text).replace("\0", " "))


def _replace_surrogates(text):
    """Replace surrogates, which are not Unicode."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _check_characters(text, limit):
    if len(text) > limit:
        raise RequestError(
            413,
            f"The text has {len(text):,} characters; at most {limit:,} are translated.",
            "too_many_characters",
            [len(text), limit],
        )


def _check_pieces(sentence, model):
    pieces = model.count_pieces(sentence)
    if pieces > model.max_pieces:
        raise RequestError(
            413,
            f"The sentence has {pieces:,} pieces; at most {model.max_pieces} are "
            "translated.",
            "too_many_pieces",
            [pieces, model.max_pieces],
        )


def check_host(host: Optional[str], served: Collection[str]) -> None:
    """Reject a request that the page of another site may have sent (DNS rebinding).

    Such a page makes its own host name resolve to this machine, but the browser still
    sends that name. A numeric address is accepted, because it is not the name of a
    site.

    Args:
      host: the Host header.
      served: the host names of this server.

    Raises:
      RequestError: the host is missing or has another name.
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
        raise RequestError(
            421, "This server does not answer to that host name."
        ) from None


def check_origin(headers: Mapping[str, str]) -> None:
    """Reject a request from the page of another site.

    Raises:
      RequestError: the request has another Origin.
    """
    host = headers.get("host", "").strip().lower()
    origin = headers.get("origin")
    is_own = origin is None or origin.lower() in ("http://" + host, "https://" + host)
    site = headers.get("sec-fetch-site", "same-origin")
    if not is_own or site not in ("same-origin", "none"):
        raise RequestError(403, "This server answers only its own page.")
