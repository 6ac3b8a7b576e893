"""The grammar of the sample corpus: spell one meaning in German and in English.

A sentence is a meaning (`Clause`, `Sentence`), spelled by `german` and by `english`.
The translation is a function of the German text: every word has one counterpart, the
perfect always becomes the simple past, and where a German form has two readings (sie,
ihr, sein) the rest of the sentence decides.
"""

import re
from collections import namedtuple
from typing import Dict, Tuple, Union

import function_words
import paradigms
from lexicon import COPULA, Noun, Verb
from paradigms import FINITE, MODALS, PRONOUNS

# Keys of the two pronoun tables, which differ: er may be "he" or "it".
Pronoun = namedtuple("Pronoun", "german english")
# `owner` is a noun phrase in the genitive; `relative` is a (role, clause) pair.
NounPhrase = namedtuple(
    "NounPhrase",
    "determiner noun plural adjective owner relative",
    defaults=(False, None, None, None),
)
Participant = Union[NounPhrase, Pronoun]
# A preposition, or a predicative adjective, and the noun phrase that it governs.
Phrase = namedtuple("Phrase", "german case english noun_phrase", defaults=(None,))
# `mode` is "present", "past", "um" (um ... zu) or the infinitive of a modal verb;
# `time` and `often` are (German, English) pairs.
Clause = namedtuple(
    "Clause",
    "subject verb mode direct indirect phrase negated time often",
    defaults=("present", None, None, None, False, ("", ""), ("", "")),
)
# `front` is the role before the finite verb, "" in a yes-no question; `second` follows
# `joiner`, and opens the sentence where `lead` is true.
Sentence = namedtuple(
    "Sentence",
    "main front mark joiner second lead",
    defaults=("subject", ".", "", None, False),
)


def is_noun(phrase: Participant) -> bool:
    """Return whether it is a noun phrase, not a pronoun or None."""
    return isinstance(phrase, NounPhrase)


def index_of(subject: Participant) -> int:
    """Return the person of a subject: 0 ich, 1 du, 2 er/sie/es, 3 any plural."""
    if is_noun(subject):
        return 3 if subject.plural else 2
    return PRONOUNS[subject.german][0]


def column_of(phrase: NounPhrase) -> int:
    """Return the column of the paradigms: masculine, feminine, neuter, plural."""
    return "mfnp".index("p" if phrase.plural else phrase.noun.gender)


def pronoun_of(phrase: Participant, kind: str = "er sie es sie_pl") -> Pronoun:
    """Return the Pronoun that replaces `phrase`; `kind` lists them by column."""
    if not is_noun(phrase):
        return phrase
    word = kind.split()[column_of(phrase)]
    if kind.startswith("der"):
        return Pronoun(word, "who" if "person" in phrase.noun.tags else "that")
    return Pronoun(word, "they" if phrase.plural else phrase.noun.pronoun)


def punctuate(words: list, mark: str) -> str:
    """Join words, without space before commas or repeated signs, and capitalize."""
    text = re.sub(r"( ,)+", ",", " ".join(filter(None, words))).rstrip(",")
    return text[0].upper() + text[1:] + mark


# German


def ending(paradigm: Dict[str, str], case: str, phrase: NounPhrase) -> str:
    """Look up an ending by case and by the gender, or plural, of a noun phrase."""
    return paradigm[case].split()[column_of(phrase)].strip("-")


def german_noun(noun: Noun, case: str, plural: bool) -> str:
    """Decline a noun: genitive -(e)s, dative plural -n, weak Junge -> Jungen."""
    if plural:
        needs_n = case == "dat" and noun.plural[-1] not in "ns"
        return noun.plural + ("n" if needs_n else "")
    weak = noun.gender == "m" and noun.genitive.endswith("n")
    return noun.genitive if case == "gen" or weak and case != "nom" else noun.german


def german_noun_phrase(phrase: Participant, case: str) -> str:
    """Spell a pronoun or noun phrase; `case` is nom, acc, dat, gen, or refl (sich)."""
    if not is_noun(phrase):
        forms = PRONOUNS[phrase.german][1].split()
        return forms[("nom", "acc", "dat", "refl").index(case)]
    article, adjective = phrase.determiner, phrase.adjective
    declined = ending(paradigms.ARTICLES[article.declined], case, phrase)
    words = [declined if article.german == "der" else article.german + declined]
    if adjective:
        endings = paradigms.ADJECTIVE_ENDINGS[article.adjective]
        words.append(adjective.stem + ending(endings, case, phrase))
    words.append(german_noun(phrase.noun, case, phrase.plural))
    if phrase.owner:
        words.append(german_noun_phrase(phrase.owner, "gen"))
    if phrase.relative:
        role, clause = phrase.relative
        words += [",", german_subordinate(clause, "", role), ","]
    return " ".join(filter(None, words))


def german_phrase(phrase: Phrase) -> str:
    """Spell a prepositional phrase, with im for in dem, or a predicate."""
    if not phrase.noun_phrase:
        return phrase.german
    governed = german_noun_phrase(phrase.noun_phrase, phrase.case)
    words = [phrase.german] + governed.split()
    head = " ".join(words[:2])
    return " ".join([paradigms.CONTRACTIONS.get(head, head)] + words[2:])


def german_finite(infinitive: str, verb: Verb, index: int) -> str:
    """Conjugate an infinitive without its prefix: ich ruf-e, du rufst, wir rufen."""
    if infinitive in FINITE:
        return FINITE[infinitive].split()[index]
    first = infinitive[:-1] + ("e" if infinitive.endswith("ern") else "")
    return (first, verb.du, verb.er, infinitive)[index]


def german_verb(clause: Clause) -> Tuple[str, str, str]:
    """Return the finite verb, what closes a main clause, and all of it verb-final."""
    verb, mode, index = clause.verb, clause.mode, index_of(clause.subject)
    prefix, _, stem = verb.infinitive.replace("sich ", "").rpartition("|")
    if mode == "um":
        return "", "", prefix + "zu" + stem if prefix else "zu " + stem
    preterite = mode == "past" and {"sein": "war", "haben": "hatte"}.get(stem)
    if mode == "present" or preterite:
        finite = german_finite(preterite or stem, verb, index)
        return finite, prefix, prefix + finite
    if mode == "past":
        auxiliary = FINITE["sein" if verb.aux == "s" else "haben"]
        finite, end = auxiliary.split()[index], verb.participle
    else:
        finite, end = MODALS[mode][0].split()[index], prefix + stem
    return finite, end, end + " " + finite


def german_slots(clause: Clause) -> Dict[str, str]:
    """Spell all but the verb as {role: text}: pronouns early, nouns late, nicht."""
    is_reflexive = clause.verb.infinitive.startswith("sich ")
    objects = [("indirect", clause.indirect, "dat"), ("direct", clause.direct, "acc")]
    early = [
        ("subject", clause.mode != "um" and clause.subject, "nom"),
        ("reflexive", is_reflexive and pronoun_of(clause.subject), "refl"),
    ]
    early += [item for item in objects if item[1] and not is_noun(item[1])]
    late = [item for item in objects if is_noun(item[1])]
    early, late = [
        [
            (role, german_noun_phrase(phrase, case))
            for role, phrase, case in items
            if phrase
        ]
        for items in (early, late)
    ]
    adverbs = [("often", clause.often[0]), ("time", clause.time[0])]
    late += [
        ("not", "nicht" if clause.negated else ""),
        ("phrase", clause.phrase and german_phrase(clause.phrase)),
    ]
    return {role: text for role, text in early + adverbs + late if text}


def german_main(clause: Clause, front: str) -> str:
    """Spell a main clause: the finite verb is second, or first where `front` is ""."""
    finite, end, _ = german_verb(clause)
    slots = german_slots(clause)
    return " ".join(filter(None, [slots.pop(front, ""), finite, *slots.values(), end]))


def german_subordinate(clause: Clause, opener: str, front: str = "") -> str:
    """Spell a verb-final clause after a conjunction or a fronted relative pronoun."""
    slots = german_slots(clause)
    opener = opener or slots.pop(front)
    return " ".join([opener, *slots.values(), german_verb(clause)[2]])


def german(sentence: Sentence) -> str:
    """Spell a Sentence in German."""
    main, front, mark, joiner, second, lead = sentence
    if lead:
        words = [german_subordinate(second, joiner), ",", german_main(main, "")]
    else:
        words = [german_main(main, front), "," if joiner != "und" else ""]
        if joiner in ("und", "aber"):
            words += [joiner, german_main(second, "subject")]
        elif joiner:
            words += [german_subordinate(second, joiner)]
    return punctuate(words, mark)


# English


def english_determiner(phrase: NounPhrase, is_subject: bool) -> str:
    """Spell the article: a genitive becomes 's; in objects, kein becomes a or any."""
    if phrase.owner:
        owner = english_noun_phrase(phrase.owner)
        return owner + ("'" if owner.endswith("s") else "'s")
    if phrase.determiner.german == "kein" and not is_subject:
        return "any" if phrase.plural or "mass" in phrase.noun.tags else "a"
    return phrase.determiner.english_pl if phrase.plural else phrase.determiner.english


def english_noun_phrase(phrase: Participant, is_subject: bool = False) -> str:
    """Spell a pronoun or noun phrase as a subject or as an object."""
    if not is_noun(phrase):
        return paradigms.ENGLISH_PRONOUNS[phrase.english][0 if is_subject else 1]
    text = phrase.noun.plural_en if phrase.plural else phrase.noun.english
    if phrase.adjective:
        text = phrase.adjective.english + " " + text
    article = english_determiner(phrase, is_subject)
    article += "n" if article == "a" and text[0] in "aeiou" else ""
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
    if clause.mode == "um":
        return "to", words
    if clause.mode in MODALS:
        _, auxiliary, link = MODALS[clause.mode]
        words = link.split() + words
        if auxiliary:
            return auxiliary, words
    elif clause.verb is COPULA:
        return english_finite(past or "be", index), []
    if support:
        return "did" if past else "does" if index == 2 else "do", words
    return "", [past or english_finite(words[0], index)] + words[1:]


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
    slots["time"] = clause.time[1]
    if clause.mode != "um":
        slots["subject"] = english_noun_phrase(clause.subject, True)
    first, subject = slots.pop(front, ""), slots.pop("subject", "")
    head = [auxiliary, subject] if inverted else [subject, auxiliary]
    if not is_noun(direct) and words and words[-1] in function_words.PARTICLES:
        words.insert(-1, slots.pop("direct", ""))
    tail = [slots.get("indirect"), slots.get("direct"), phrase and phrase.english]
    if phrase and phrase.noun_phrase:
        tail.append(english_noun_phrase(phrase.noun_phrase, phrase.case == "nom"))
    words = [
        first,
        *head,
        "not" if negative else "",
        clause.often[1],
        *words,
        *tail,
        slots.get("time"),
    ]
    return " ".join(filter(None, words)).replace("can not", "cannot")


def english(sentence: Sentence) -> str:
    """Spell a Sentence in English."""
    main, front, mark, joiner, second, lead = sentence
    asks = mark == "?" and front != "subject"
    words = [english_clause(main, front if asks or front == "time" else "", asks)]
    link = function_words.JOINERS.get(joiner, "")
    if lead:
        words = [link, english_clause(second), ","] + words
    elif joiner:
        words += ["," if joiner == "aber" else "", link, english_clause(second)]
    return punctuate(words, mark)
