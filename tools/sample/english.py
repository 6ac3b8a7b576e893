"""The English of the sample corpus: spell a meaning of grammar.py."""

import re
from typing import Tuple

import function_words
import marks
import paradigms
from grammar import (
    Clause,
    NounPhrase,
    Participant,
    Sentence,
    index_of,
    is_noun,
    punctuate,
)
from lexicon import COPULA
from marks import marked, plain
from paradigms import MODALS


def english_determiner(phrase: NounPhrase, is_subject: bool) -> str:
    """Spell the article: a genitive becomes 's; in objects, kein becomes a or any."""
    if phrase.owner:
        owner = english_noun_phrase(phrase.owner)
        *before, last = owner.split()
        last = marked(last, phrase.mark, marks.DETERMINER, possible=True)
        ending = "'" if plain(owner).endswith("s") else "'s"
        return " ".join([*before, last + ending])
    if phrase.determiner.german == "kein" and not is_subject:
        return "any" if phrase.plural or "mass" in phrase.noun.tags else "a"
    return phrase.determiner.english_pl if phrase.plural else phrase.determiner.english


def english_noun_phrase(phrase: Participant, is_subject: bool = False) -> str:
    """Spell a pronoun or noun phrase as a subject or as an object."""
    if not is_noun(phrase):
        form = paradigms.ENGLISH_PRONOUNS[phrase.english][0 if is_subject else 1]
        return marked(form, phrase.mark, marks.NOUN)
    text = phrase.noun.plural_en if phrase.plural else phrase.noun.english
    text = marked(text, phrase.mark, marks.NOUN)
    if phrase.adjective:
        adjective = marked(phrase.adjective.english, phrase.mark, marks.ADJECTIVE)
        text = adjective + " " + text
    article = english_determiner(phrase, is_subject)
    article += "n" if article == "a" and text[0] in "aeiou" else ""
    if not phrase.owner:
        german_article = phrase.determiner.german
        article = marked(article, phrase.mark, marks.DETERMINER, german_article)
    text = (article + " " + text).strip()
    if phrase.relative:
        role, clause = phrase.relative
        text += " " + english_clause(clause, role)
    return text


def english_finite(base: str, index: int) -> str:
    """Conjugate a verb in the present: -s in the third person singular."""
    if base in paradigms.ENGLISH_FINITE:
        return paradigms.ENGLISH_FINITE[base].split()[index]
    if index != 2:
        return base
    if re.search("[^aeiou]y$", base):
        return base[:-1] + "ies"
    return base + ("es" if re.search("(s|sh|ch|o)$", base) else "s")


def english_verb(clause: Clause, support: bool) -> Tuple[str, list]:
    """Return (auxiliary, other words); `support` asks for do, does or did."""
    words, index = clause.verb.english.split(), index_of(clause.subject)
    past = clause.verb.past if clause.mode == "past" else ""
    kinds = [marks.VERB] * len(words)
    auxiliary, kind, is_possible = "", marks.VERB, False
    if clause.mode == "um":
        auxiliary, kind = "to", marks.INFINITIVE
    elif clause.mode in MODALS:
        _, auxiliary, link = MODALS[clause.mode]
        words = link.split() + words
        kind, kinds = marks.MODAL, [marks.MODAL] * len(link.split()) + kinds
    elif clause.verb is COPULA:
        auxiliary, words = english_finite(past or "be", index), []
    if support and not auxiliary:
        auxiliary, is_possible = "did" if past else "does" if index == 2 else "do", True
    elif words and not auxiliary:
        words[0] = past or english_finite(words[0], index)
    return marked(auxiliary, clause.mark, kind, possible=is_possible), [
        marked(word, clause.mark, kind) for word, kind in zip(words, kinds)
    ]


def english_clause(clause: Clause, front: str = "", inverted: bool = False) -> str:
    """Spell subject, verb, objects, phrase and time, in this order.

    Args:
        front: the role that opens the clause, if English fronts it.
        inverted: whether the auxiliary precedes the subject, as in a question.
    """
    direct, phrase = clause.direct, clause.phrase
    negative = clause.negated or is_noun(direct) and direct.determiner.german == "kein"
    auxiliary, words = english_verb(clause, negative or inverted)
    slots = {
        role: english_noun_phrase(getattr(clause, role))
        for role in ("indirect", "direct")
        if getattr(clause, role)
    }
    slots["time"] = marked(clause.time[1], clause.mark, marks.TIME, clause.time[0])
    if clause.mode != "um":
        slots["subject"] = english_noun_phrase(clause.subject, True)
    first, subject = slots.pop(front, ""), slots.pop("subject", "")
    head = [auxiliary, subject] if inverted else [subject, auxiliary]
    if not is_noun(direct) and words and plain(words[-1]) in function_words.PARTICLES:
        words.insert(-1, slots.pop("direct", ""))
    tail = [slots.get("indirect"), slots.get("direct")]
    if phrase:
        tail.append(marked(phrase.english, phrase.mark, marks.OTHER, phrase.german))
    if phrase and phrase.noun_phrase:
        tail.append(english_noun_phrase(phrase.noun_phrase, phrase.case == "nom"))
    negator = clause if clause.negated else direct
    words = [
        first,
        *head,
        marked("not", negator.mark, marks.NEGATION) if negative else "",
        marked(clause.often[1], clause.mark, marks.OFTEN, clause.often[0]),
        *words,
        *tail,
        slots.get("time"),
    ]
    text = " ".join(filter(None, words))
    return re.sub(f"can({marks.MARK.pattern}*) not", r"cannot\1", text)


def english(sentence: Sentence) -> str:
    """Spell a Sentence in English."""
    main, front, mark, joiner, second, lead, own = sentence
    asks = mark == "?" and front != "subject"
    words = [english_clause(main, front if asks or front == "time" else "", asks)]
    link = marked(function_words.JOINERS.get(joiner, ""), own, marks.JOINER)
    if lead:
        words = [link, english_clause(second), ","] + words
    elif joiner:
        words += ["," if joiner == "aber" else "", link, english_clause(second)]
    return punctuate(words, mark)
