"""Diagnose bad translations: one function for each symptom.

Each symptom is a function of `Texts` that returns an explanation in one line, or None
where there is nothing to find; a further one is a further row of `SYMPTOMS`.
"""

import collections
import re
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from sacrebleu.metrics import CHRF

UNKNOWN = re.compile(r"⁇|<unk>", re.IGNORECASE)
PIECES = re.compile(r"▁|@@( |$)|</?s>|<pad>", re.IGNORECASE)
TOKENS = re.compile(r"\w [.,;:!?](?!\S)|&(quot|apos|amp|lt|gt|#\d+);|@-@")
ENOUGH = 200  # lines that are scored, the first ones
SHIFTS = (-3, -2, -1, 1, 2, 3)  # lines by which translations may be displaced


class Texts(NamedTuple):
    """Lines side by side."""

    sources: List[str]
    references: List[str]
    translations: List[str]
    known: Optional[
        Tuple[List[str], List[str]]
    ]  # dev of the data folder, if it is there


def empty(texts: Texts) -> Optional[str]:
    """Find many empty translations."""
    wanted = [
        line
        for line, source, reference in zip(
            texts.translations, texts.sources, texts.references
        )
        if source.strip() and reference.strip()
    ]
    bare = sum(not line.strip() for line in wanted)
    if bare * 10 <= len(wanted):
        return None
    return (
        f"{bare} of {len(wanted)} translations are empty; train for longer, or "
        "raise --length_penalty and --max_extra_length"
    )


def alike(texts: Texts) -> Optional[str]:
    """Find one translation for many sources: the model ignores the source."""
    (line, times), (_, usual) = map(
        _most_common, (texts.translations, texts.references)
    )
    if times < 3 or times * 10 <= len(texts.translations) or times <= 3 * usual:
        return None
    return (
        f"{times} of {len(texts.translations)} translations are {line!r}, where "
        f"no reference occurs more than {usual} times: the model has not learned to "
        "look at the source; train for longer, or with another --learning_rate or "
        "--warmup_steps (or --dialect tensor2tensor, which tolerates more)"
    )


def unknown(texts: Texts) -> Optional[str]:
    """Find pieces that the vocabulary does not have."""
    share = _share(UNKNOWN, texts.translations)
    if share <= 0.1 or share <= 2 * _share(UNKNOWN, texts.references):
        return None
    return (
        f"{share:.0%} of the translations hold an unknown piece "
        f"({_example(UNKNOWN, texts)}): the vocabulary does not fit the text; "
        "prepare the data again with a larger --vocab_size, on text of the same "
        "kind and in the same script"
    )


def not_detokenized(texts: Texts) -> Optional[str]:
    """Find pieces or tokens in place of text."""
    for pattern, what in ((PIECES, "pieces"), (TOKENS, "tokens")):
        share = _share(pattern, texts.translations)
        usual = _share(pattern, texts.references)
        if share > 0.1 and share > 3 * usual:
            return (
                f"{share:.0%} of the translations, but {usual:.0%} of the "
                f"references, are {what} and not text "
                f"({_example(pattern, texts)}): detokenize the translations, or "
                "train on text that is not tokenized"
            )
    return None


def copied(texts: Texts) -> Optional[str]:
    """Find copies of the source in place of its translation."""
    if swapped(texts):
        return None
    sources, references = (
        _chrf(texts.translations, side) for side in (texts.sources, texts.references)
    )
    if sources < 50 or sources < 1.5 * references:
        return None
    return (
        f"the translations resemble the sources (chrF2 {sources:.0f}) more than "
        f"the references ({references:.0f}): the model copies, or the two "
        "sides of the training data are alike; look at the data folder, and that "
        "--files names the source first"
    )


def other_language(texts: Texts) -> Optional[str]:
    """Find words of the source language in place of the target language."""
    if swapped(texts) or copied(texts):
        return None
    foreign, wanted = _words_of(texts.translations, texts.sources, texts.references)
    if foreign < 0.2 or foreign < 2 * wanted:
        return None
    return (
        f"{foreign:.0%} of the words of the translations occur in the sources and "
        f"not in the references, {wanted:.0%} the other way round: the language is "
        "wrong; look at the order of the files in prepare.py --train, --source_lang "
        "and --target_lang, and that --files names the source first"
    )


def swapped(texts: Texts) -> Optional[str]:
    """Find references in place of the sources, by the text of the data folder."""
    if texts.known is None:
        return None
    of_sources, of_references = (
        _words_of(side, *texts.known) for side in (texts.sources, texts.references)
    )
    if of_sources[1] < max(0.2, 2 * of_sources[0]) or of_references[0] < max(
        0.2, 2 * of_references[1]
    ):
        return None
    return (
        f"{of_sources[1]:.0%} of the words of the sources occur only in the target "
        f"text of the data folder, {of_references[0]:.0%} of the references' only in "
        "its source text: the two files are swapped; name the source first"
    )


def shifted(texts: Texts) -> Optional[str]:
    """Find translations that belong to other lines."""
    if len(texts.translations) < 10:
        return None
    in_place = _chrf(texts.translations, texts.references)
    fit = {
        by: _chrf(*_moved(texts.translations, texts.references, by)) for by in SHIFTS
    }
    best = max(fit, key=fit.get)
    if fit[best] < 20 or fit[best] < 1.5 * in_place:
        return None
    return (
        f"the translations fit the references {abs(best)} lines "
        f"{'further down' if best > 0 else 'further up'} (chrF2 {fit[best]:.0f}) "
        f"better than their own ({in_place:.0f}): a line is missing or too many in "
        "one of the files; compare them with `paste`"
    )


def cut_off(texts: Texts) -> Optional[str]:
    """Find translations that end too soon."""
    lengths = _lengths(texts)
    if not lengths or lengths[0] > 0.6 * lengths[1]:
        return None
    return (
        f"translations that are not empty have {lengths[0]:.1f} words, their "
        f"references {lengths[1]:.1f}: they end too soon; raise --length_penalty "
        "and --max_extra_length, and see whether the training data is cut off"
    )


def endless(texts: Texts) -> Optional[str]:
    """Find translations that repeat themselves to the end."""
    lengths = _lengths(texts)
    if not lengths or lengths[0] < 2 * lengths[1]:
        return None
    return (
        f"translations have {lengths[0]:.1f} words, their references "
        f"{lengths[1]:.1f}: they repeat themselves up to --max_extra_length; train "
        "for longer"
    )


SYMPTOMS: Dict[str, Callable[[Texts], Optional[str]]] = {
    "empty translations": empty,
    "translations equal to each other": alike,
    "unknown pieces": unknown,
    "not detokenized": not_detokenized,
    "sources and references swapped": swapped,
    "copies of the source": copied,
    "the wrong language": other_language,
    "lines shifted": shifted,
    "translations cut off": cut_off,
    "endless translations": endless,
}


def examine(texts: Texts) -> Dict[str, str]:
    """Return what is wrong with translations: name of the symptom → explanation."""
    found = {name: check(texts) for name, check in SYMPTOMS.items()}
    return {name: text for name, text in found.items() if text}


def _most_common(lines):
    """Return (the most frequent line that is not empty, how often it occurs)."""
    counts = collections.Counter(line.strip() for line in lines if line.strip())
    return counts.most_common(1)[0] if counts else ("", 0)


def _share(pattern, lines):
    """Return the share of lines in which a pattern is found."""
    return sum(bool(pattern.search(line)) for line in lines) / max(1, len(lines))


def _example(pattern, texts):
    """Return the beginning of the first translation in which a pattern is found."""
    return next(repr(line[:60]) for line in texts.translations if pattern.search(line))


def _chrf(translations, references):
    """Return the chrF2 of the first lines, which are enough."""
    return CHRF().corpus_score(translations[:ENOUGH], [references[:ENOUGH]]).score


def _moved(translations, references, by):
    """Return both lists such that line i of one is beside line i + by of the other."""
    if by < 0:
        return translations[-by:], references[:by]
    return translations[:-by], references[by:]


def _words(lines):
    """Return the words of lines, of two letters or more."""
    return [word for line in lines for word in re.findall(r"[^\W\d_]{2,}", line)]


def _words_of(lines, first, second):
    """Return the shares of words of `lines` only in `first`, and only in `second`."""
    words, first, second = _words(lines), set(_words(first)), set(_words(second))
    return tuple(
        sum(word in here and word not in there for word in words) / max(1, len(words))
        for here, there in ((first, second), (second, first))
    )


def _lengths(texts):
    """Return the mean words of translations, without empty ones, and references."""
    pairs = [
        (len(line.split()), len(reference.split()))
        for line, reference in zip(texts.translations, texts.references)
        if line.strip()
    ]
    return [sum(side) / len(pairs) for side in zip(*pairs)]
