"""Writes the sample corpus: German-English sentence pairs of our own making.

A sentence is invented once, as a meaning (`Clause`, `Sentence`), and spelled twice, by
`german` and by `english`.  The translation is a function of the German text: every word
has one counterpart, the perfect always becomes the simple past, and where a German form
has two readings (sie, ihr, sein) the rest of the sentence decides.

    python scripts/make_sample.py [--out data/sample] [--seed 1]
"""

import argparse
import os
import random
import re
from collections import namedtuple
from functools import lru_cache
from typing import Any, Callable, Dict, Optional, Sequence, Set, Tuple, Union

import sample_lexicon as lexicon
from sample_lexicon import (
    ADJECTIVES, COPULA, DETERMINERS, FINITE, MODALS, PRONOUNS, Determiner, Noun, Verb)

SIZES = (("train", 20000), ("dev", 500), ("test", 500))

# How often the author chooses what, for singular (False), plural (True) and mass nouns.
MIX = {
    "subject": {False: "der der der der ein dies jed mein dein unser",
                True: "der der der dies viel all mein unser number",
                "mass": "der dies"},
    "object": {False: "der der der ein ein ein dies own own mein",
               True: "der der none viel number number dies own own",
               "mass": "none none none der dies"},
    "dative": {False: "der der der ein dies own own mein",
               True: "der der dies own number", "mass": "der"},
    "phrase": {False: "der der der der ein own", True: "der", "mass": "der"},
    "head": {False: "der der ein dies", True: "der dies", "mass": "der"},
    "owner": {False: "der der mein", True: "der unser", "mass": "der"},
}
PRONOUN_MIX = {  # forms that leave no doubt: no acc. sie, no ihr but in the dative
    "subject": "ich=I ich=I du=you du=you er=he sie=she wir=we sie_pl=they",
    "object": "ich=I du=you er=he wir=we",
    "dative": "ich=I du=you er=he sie=she wir=we sie_pl=they",
}
OWNABLE = frozenset({"thing", "pet", "vehicle", "family", "unique"})
FEELINGS = "glücklich hungrig krank müde traurig"
ACTIVITIES = "arbeiten auf|stehen kochen schlafen warten"
STATES = ("brauchen", "gehören", "haben", "kennen", "lieben", "verstehen", "wohnen")
PURPOSES = "ab|holen besuchen treffen suchen helfen"
QUESTIONS = {  # what asks for a phrase, by its case and preposition
    "datin": "wo=where", "datan": "wo=where", "datauf": "wo=where",
    "datunter": "wo=where", "dathinter": "wo=where",
    "datvor": "wo=where", "datneben": "wo=where", "datzu": "wohin=where",
    "accin": "wohin=where", "accan": "wohin=where",
}
# What happens to a thing, and what then: a verb, or an adjective that describes it.
FOLLOW_UPS = (
    "suchen aber finden nicht", "suchen weil brauchen -", "kaufen weil brauchen -",
    "kaufen aber brauchen nicht", "verlieren aber finden -",
    "verkaufen weil brauchen nicht", "vergessen obwohl brauchen -",
    "mit|nehmen weil brauchen -", "kaufen weil schön -", "kaufen obwohl teuer -",
    "verkaufen weil alt -", "weg|werfen weil schmutzig -", "suchen obwohl alt -",
)
PATTERNS = ("statement statement statement statement statement statement description "
            "description yes_no_question object_question object_question who_question "
            "adverb_question reason reason follow_up report report relative relative "
            "pairing purpose")

# Keys of the two pronoun tables, which differ: er may be "he" or "it".
Pronoun = namedtuple("Pronoun", "german english")
# `owner` is a noun phrase in the genitive; `relative` is a (role, clause) pair.
NounPhrase = namedtuple("NounPhrase", "determiner noun plural adjective owner relative",
                        defaults=(False, None, None, None))
Participant = Union[NounPhrase, Pronoun]
# A preposition, or a predicative adjective, and the noun phrase that it governs.
Phrase = namedtuple("Phrase", "german case english noun_phrase", defaults=(None,))
# `mode` is "present", "past", "um" (um ... zu) or the infinitive of a modal verb;
# `time` and `often` are (German, English) pairs.
Clause = namedtuple(
    "Clause", "subject verb mode direct indirect phrase negated time often",
    defaults=("present", None, None, None, False, ("", ""), ("", "")))
# `front` is the role before the finite verb, "" in a yes-no question; `second` follows
# `joiner`, and opens the sentence where `lead` is true.
Sentence = namedtuple("Sentence", "main front mark joiner second lead",
                      defaults=("subject", ".", "", None, False))


def is_noun(phrase: Participant) -> bool:
    """Tells a noun phrase from a pronoun and from nothing."""
    return isinstance(phrase, NounPhrase)


def index_of(subject: Participant) -> int:
    """Returns the person of a subject: 0 ich, 1 du, 2 er/sie/es, 3 any plural."""
    if is_noun(subject):
        return 3 if subject.plural else 2
    return PRONOUNS[subject.german][0]


def column_of(phrase: NounPhrase) -> int:
    """Returns where the paradigms have it: masculine, feminine, neuter, plural."""
    return "mfnp".index("p" if phrase.plural else phrase.noun.gender)


def pronoun_of(phrase: Participant, kind: str = "er sie es sie_pl") -> Pronoun:
    """Returns the Pronoun that replaces `phrase`; `kind` lists them by column."""
    if not is_noun(phrase):
        return phrase
    word = kind.split()[column_of(phrase)]
    if kind.startswith("der"):
        return Pronoun(word, "who" if "person" in phrase.noun.tags else "that")
    return Pronoun(word, "they" if phrase.plural else phrase.noun.pronoun)


def punctuate(words: list, mark: str) -> str:
    """Joins words, closes up commas, drops those next to another sign, capitalizes."""
    text = re.sub(r"( ,)+", ",", " ".join(filter(None, words))).rstrip(",")
    return text[0].upper() + text[1:] + mark


# German


def ending(paradigm: Dict[str, str], case: str, phrase: NounPhrase) -> str:
    """Looks up an ending by case and by the gender, or plural, of a noun phrase."""
    return paradigm[case].split()[column_of(phrase)].strip("-")


def german_noun(noun: Noun, case: str, plural: bool) -> str:
    """Declines a noun: genitive -(e)s, dative plural -n, weak Junge -> Jungen."""
    if plural:
        needs_n = case == "dat" and noun.plural[-1] not in "ns"
        return noun.plural + ("n" if needs_n else "")
    weak = noun.gender == "m" and noun.genitive.endswith("n")
    return noun.genitive if case == "gen" or weak and case != "nom" else noun.german


def german_noun_phrase(phrase: Participant, case: str) -> str:
    """Spells a pronoun or noun phrase; `case` is nom, acc, dat, gen, or refl (sich)."""
    if not is_noun(phrase):
        forms = PRONOUNS[phrase.german][1].split()
        return forms[("nom", "acc", "dat", "refl").index(case)]
    article, adjective = phrase.determiner, phrase.adjective
    declined = ending(lexicon.ARTICLES[article.declined], case, phrase)
    words = [declined if article.german == "der" else article.german + declined]
    if adjective:
        endings = lexicon.ADJECTIVE_ENDINGS[article.adjective]
        words.append(adjective.stem + ending(endings, case, phrase))
    words.append(german_noun(phrase.noun, case, phrase.plural))
    if phrase.owner:
        words.append(german_noun_phrase(phrase.owner, "gen"))
    if phrase.relative:
        role, clause = phrase.relative
        words += [",", german_subordinate(clause, "", role), ","]
    return " ".join(filter(None, words))


def german_phrase(phrase: Phrase) -> str:
    """Spells a prepositional phrase, with im for in dem, or a predicate."""
    if not phrase.noun_phrase:
        return phrase.german
    governed = german_noun_phrase(phrase.noun_phrase, phrase.case)
    words = [phrase.german] + governed.split()
    head = " ".join(words[:2])
    return " ".join([lexicon.CONTRACTIONS.get(head, head)] + words[2:])


def german_finite(infinitive: str, verb: Verb, index: int) -> str:
    """Conjugates an infinitive without its prefix: ich ruf-e, du rufst, wir rufen."""
    if infinitive in FINITE:
        return FINITE[infinitive].split()[index]
    first = infinitive[:-1] + ("e" if infinitive.endswith("ern") else "")
    return (first, verb.du, verb.er, infinitive)[index]


def german_verb(clause: Clause) -> Tuple[str, str, str]:
    """Returns the finite verb, what closes a main clause, and all of it verb-final."""
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
    """Spells all but the verb as {role: text}: pronouns early, nouns late, nicht."""
    is_reflexive = clause.verb.infinitive.startswith("sich ")
    objects = [("indirect", clause.indirect, "dat"), ("direct", clause.direct, "acc")]
    early = [("subject", clause.mode != "um" and clause.subject, "nom"),
             ("reflexive", is_reflexive and pronoun_of(clause.subject), "refl")]
    early += [item for item in objects if item[1] and not is_noun(item[1])]
    late = [item for item in objects if is_noun(item[1])]
    early, late = [[(role, german_noun_phrase(phrase, case))
                    for role, phrase, case in items if phrase]
                   for items in (early, late)]
    adverbs = [("often", clause.often[0]), ("time", clause.time[0])]
    late += [("not", "nicht" if clause.negated else ""),
             ("phrase", clause.phrase and german_phrase(clause.phrase))]
    return {role: text for role, text in early + adverbs + late if text}


def german_main(clause: Clause, front: str) -> str:
    """Spells a main clause: the finite verb is second, or first where `front` is ""."""
    finite, end, _ = german_verb(clause)
    slots = german_slots(clause)
    return " ".join(filter(None, [slots.pop(front, ""), finite, *slots.values(), end]))


def german_subordinate(clause: Clause, opener: str, front: str = "") -> str:
    """Spells a verb-final clause after a conjunction or a fronted relative pronoun."""
    slots = german_slots(clause)
    opener = opener or slots.pop(front)
    return " ".join([opener, *slots.values(), german_verb(clause)[2]])


def german(sentence: Sentence) -> str:
    """Spells a Sentence in German."""
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
    """Spells the article: a genitive becomes 's; in objects, kein becomes a or any."""
    if phrase.owner:
        owner = english_noun_phrase(phrase.owner)
        return owner + ("'" if owner.endswith("s") else "'s")
    if phrase.determiner.german == "kein" and not is_subject:
        return "any" if phrase.plural or "mass" in phrase.noun.tags else "a"
    return phrase.determiner.english_pl if phrase.plural else phrase.determiner.english


def english_noun_phrase(phrase: Participant, is_subject: bool = False) -> str:
    """Spells a pronoun or noun phrase as a subject or as an object."""
    if not is_noun(phrase):
        return lexicon.ENGLISH_PRONOUNS[phrase.english][0 if is_subject else 1]
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
    """Conjugates a verb in the present: -s in the third person singular."""
    if base in lexicon.ENGLISH_FINITE:
        return lexicon.ENGLISH_FINITE[base].split()[index]
    if index != 2:
        return base
    if re.search("[^aeiou]y$", base):
        return base[:-1] + "ies"
    return base + ("es" if re.search("(s|sh|ch|o)$", base) else "s")


def english_verb(clause: Clause, support: bool) -> Tuple[str, list]:
    """Returns (auxiliary, other words); `support` asks for do, does or did."""
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
    """Spells subject, verb, objects, phrase and time, in this order.

    Args:
        front: the role that opens the clause, if English fronts it.
        inverted: whether the auxiliary precedes the subject, as in a question.
    """
    direct, phrase = clause.direct, clause.phrase
    negative = clause.negated or is_noun(direct) and direct.determiner.german == "kein"
    auxiliary, words = english_verb(clause, negative or inverted)
    slots = {role: english_noun_phrase(getattr(clause, role))
             for role in ("indirect", "direct") if getattr(clause, role)}
    slots["time"] = clause.time[1]
    if clause.mode != "um":
        slots["subject"] = english_noun_phrase(clause.subject, True)
    first, subject = slots.pop(front, ""), slots.pop("subject", "")
    head = [auxiliary, subject] if inverted else [subject, auxiliary]
    if not is_noun(direct) and words and words[-1] in lexicon.PARTICLES:
        words.insert(-1, slots.pop("direct", ""))
    tail = [slots.get("indirect"), slots.get("direct"), phrase and phrase.english]
    if phrase and phrase.noun_phrase:
        tail.append(english_noun_phrase(phrase.noun_phrase, phrase.case == "nom"))
    words = [first, *head, "not" if negative else "", clause.often[1], *words, *tail,
             slots.get("time")]
    return " ".join(filter(None, words)).replace("can not", "cannot")


def english(sentence: Sentence) -> str:
    """Spells a Sentence in English."""
    main, front, mark, joiner, second, lead = sentence
    asks = mark == "?" and front != "subject"
    words = [english_clause(main, front if asks or front == "time" else "", asks)]
    link = lexicon.JOINERS.get(joiner, "")
    if lead:
        words = [link, english_clause(second), ","] + words
    elif joiner:
        words += ["," if joiner == "aber" else "", link, english_clause(second)]
    return punctuate(words, mark)


# Invention


@lru_cache(maxsize=None)
def nouns_for(tags: Set[str]) -> list:
    """Returns the nouns that carry one of `tags`, which may be names of CLASSES."""
    wanted = {tag for name in tags
              for tag in lexicon.CLASSES.get(name, name).split(",")}
    return [noun for noun in lexicon.NOUNS if noun.tags & wanted]


def verbs_named(infinitives: str) -> list:
    """Returns the verbs with these infinitives."""
    return [verb for verb in lexicon.VERBS if verb.infinitive in infinitives.split()]


def verbs_for(noun: Noun, role: str) -> list:
    """Returns the verbs that can have `noun` as their "subject" or "direct" object."""
    return [verb for verb in lexicon.VERBS if noun in nouns_for(getattr(verb, role))]


def active_verbs() -> list:
    """Returns the verbs that say what a living being does, not what it has or knows."""
    return [verb for verb in lexicon.VERBS if verb.subject & {"person", "living"}
            and verb.infinitive not in STATES]


def is_person(phrase: Participant) -> bool:
    """Tells whether a subject can want, own and must."""
    return not is_noun(phrase) or bool(phrase.noun.tags & {"person", "name"})


def is_definite(phrase: Participant) -> bool:
    """Tells whether a clause with `phrase` in it is negated by nicht, not by kein."""
    return not is_noun(phrase) or "name" in phrase.noun.tags or (
        phrase.determiner.german in ("der", "dies", "mein", "dein", "unser"))


def is_clear_object(phrase: Participant) -> bool:
    """Tells whether the form of `phrase` (den Hund) shows that it is no subject."""
    return (is_noun(phrase) and not phrase.plural
            and phrase.determiner.german in ("der", "dies", "mein", "dein", "unser")
            and phrase.noun.gender == "m" and not phrase.noun.genitive.endswith("n"))


class Author:
    """Invents plausible meanings.  Its dice are random() alone: alike on any Python."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        """Returns True with this probability."""
        return self.random() < probability

    def pick(self, options: Sequence) -> Any:
        """Returns one item of a sequence, or one word of a string."""
        options = options.split() if isinstance(options, str) else options
        return options[int(self.random() * len(options))]

    def determiner(self, noun: Noun,
                   plural: bool, role: str, subject: Participant) -> Determiner:
        """Chooses an article; only what one can own gets a possessive."""
        name = self.pick(MIX[role]["mass" if "mass" in noun.tags else plural])
        if name == "number":
            word, word_en = self.pick(lexicon.NUMBERS).split("=")
            return Determiner(word, "", "strong", word_en, word_en)
        is_possessive = name in ("own", "mein", "dein", "unser")
        is_own = noun.tags & OWNABLE and not (plural and "unique" in noun.tags)
        if is_possessive and not is_own or name == "none" and "person" in noun.tags:
            name = "der"
        if name == "own":
            return self.possessive(subject)
        return DETERMINERS[name]

    def possessive(self, subject: Participant) -> Determiner:
        """Returns sein or the like if `subject` is a person, else der."""
        owner = pronoun_of(subject)
        word = PRONOUNS[owner.german][2]
        if not word or not is_person(subject):
            return DETERMINERS["der"]
        word_en = lexicon.ENGLISH_PRONOUNS[owner.english][2]
        return DETERMINERS["mein"]._replace(
            german=word, english=word_en, english_pl=word_en)

    def noun_phrase(self, tags: Set[str],
                    role: str, subject: Optional[Participant] = None) -> NounPhrase:
        """Invents a noun phrase."""
        noun = self.pick(nouns_for(frozenset(tags)))
        if "name" in noun.tags:
            return NounPhrase(DETERMINERS["none"], noun)
        plural = bool(noun.plural) and self.chance(0.06 if role == "phrase" else 0.3)
        article = self.determiner(noun, plural or "pair" in noun.tags, role, subject)
        fitting = [item for item in ADJECTIVES if item.tags & noun.tags]
        adjective = self.pick(fitting) if fitting and self.chance(0.35) else None
        return NounPhrase(article, noun, plural or "pair" in noun.tags, adjective)

    def participant(self, tags: Set[str],
                    role: str, subject: Optional[Participant] = None) -> Participant:
        """Invents a pronoun or a noun phrase; PRONOUN_MIX excludes unclear pronouns."""
        personal = tags & {"person", "living"} and (subject is None or is_noun(subject))
        if personal and self.chance(0.3):
            return Pronoun(*self.pick(PRONOUN_MIX[role]).split("="))
        return self.noun_phrase(tags, role, subject)

    def owned(self, phrase: Participant) -> Participant:
        """Adds a genitive to some definite noun phrases."""
        tags = phrase.noun.tags if is_noun(phrase) else frozenset()
        if tags & OWNABLE and not (phrase.plural and "unique" in tags) and (
                phrase.determiner.german == "der" and self.chance(0.25)):
            return phrase._replace(owner=self.noun_phrase({"adult"}, "owner"))
        return phrase

    def clause(self, subject: Optional[Participant] = None,
               mode: Optional[str] = None, verbs: Optional[Sequence] = None) -> Clause:
        """Invents a clause without adverbs and negation."""
        verb = self.pick(verbs or lexicon.VERBS)
        if not subject:
            subject = self.participant(verb.subject, "subject")
            subject = subject if verb.indirect else self.owned(subject)
        mode = mode or self.pick("present present present past past past modal")
        if mode == "modal":
            can_choose = is_person(subject) and verb.infinitive not in STATES
            mode = self.pick(sorted(MODALS)) if can_choose else "present"
        indirect = direct = phrase = None
        if verb.indirect:
            indirect = self.participant(verb.indirect, "dative", subject)
        if verb.direct:
            direct = self.participant(verb.direct, "object", subject)
            direct = direct if indirect else self.owned(direct)
        if verb.phrase and (verb.phrase[-1] != "?" or self.chance(0.4)):
            *words, tags = self.pick(lexicon.PHRASES[verb.phrase.strip("?")])
            role = "dative" if "person" in tags else "phrase"
            phrase = Phrase(*words, self.noun_phrase(tags.split(","), role, subject))
        return Clause(subject, verb, mode, direct, indirect, phrase)

    def adorned(self, clause: Clause) -> Clause:
        """Adds a negation, or an adverb of frequency or of time, to some clauses."""
        direct, mode = clause.direct, clause.mode
        if is_noun(direct) and direct.determiner.german in ("", "ein") and (
                "name" not in direct.noun.tags and self.chance(0.25)):
            direct = direct._replace(determiner=DETERMINERS["kein"])
            return clause._replace(direct=direct)
        if self.chance(0.15) and all(
                map(is_definite, (clause.subject, direct, clause.indirect))):
            return clause._replace(negated=True)
        if clause.verb.infinitive in STATES or self.chance(0.4):
            return clause
        kind = self.pick(["any", "often", "modal" if mode in MODALS else mode])
        adverb = tuple(self.pick(lexicon.TIMES[kind].split("|")).split("="))
        return clause._replace(**{"often" if kind == "often" else "time": adverb})

    def draw(self, accepts: Callable,
             mode: Optional[str] = None, verbs: Optional[Sequence] = None) -> Clause:
        """Invents clauses until one is accepted."""
        while True:
            clause = self.clause(None, mode, verbs)
            if accepts(clause):
                return clause

    def state(self, subject: Participant, mode: str, word: str = "") -> Clause:
        """Invents a predicate: `word`, or any adjective or comparison that fits."""
        tags = {"person"} if is_person(subject) else set()
        if is_noun(subject):
            tags |= subject.noun.tags
            subject = subject._replace(adjective=None)
        adjective = self.pick([item for item in ADJECTIVES if item.german == word or
                               not word and item.tags & tags])
        phrase = Phrase(adjective.german, "", adjective.english)
        if adjective.more_en and not word and self.chance(0.25):
            rival = self.noun_phrase({min(adjective.tags & tags)}, "phrase", subject)
            phrase = Phrase(adjective.more + " als", "nom", adjective.more_en + " than",
                            rival._replace(adjective=None))
        return Clause(subject, COPULA, mode, phrase=phrase)

    def statement(self) -> Sentence:
        """A main clause that opens with its subject, a time or a clear object."""
        clause = self.adorned(self.clause())
        fronts = ["subject", "time" if clause.time[0] else "subject"]
        fronts += [role for role in ("direct", "indirect")
                   if is_clear_object(getattr(clause, role))]
        return Sentence(clause, self.pick(fronts))

    def description(self) -> Sentence:
        """Der Mann ist (nicht) alt, war älter als ..., and as a question."""
        kind = self.pick("living living thing food place furniture")
        subject = self.participant({kind}, "subject")
        clause = self.state(subject, self.pick("present past"))
        if self.chance(0.25):
            return Sentence(clause, "", "?")
        negated = is_definite(subject) and self.chance(0.25)
        return Sentence(clause._replace(negated=negated))

    def yes_no_question(self) -> Sentence:
        """Hat der Mann ...?"""
        return Sentence(self.clause(), "", "?")

    def object_question(self) -> Sentence:
        """Wen, wem, was, welchen Hund or wie viele Hunde ...?"""
        clause = self.draw(lambda c: bool(c.direct) != bool(c.indirect))
        role = "direct" if clause.direct else "indirect"
        asked, word = getattr(clause, role), ""
        if role == "direct" and is_noun(asked) and self.chance(0.6):
            word = "welch" if is_clear_object(asked) else ""
            if asked.plural and index_of(clause.subject) < 3:
                word = "wie viel"
        if word:
            asked = asked._replace(determiner=DETERMINERS[word], owner=None)
        else:
            word = "wer" if role == "indirect" or is_person(asked) else "was"
            asked = Pronoun(word, word)
        return Sentence(clause._replace(**{role: asked}), role, "?")

    def adverb_question(self) -> Sentence:
        """Wann, warum, wo or wohin ...?"""
        clause = self.clause()
        kind = clause.phrase and clause.phrase.case + clause.phrase.german
        word = "warum=why"
        if kind in QUESTIONS:
            word, clause = QUESTIONS[kind], clause._replace(phrase=None)
        elif clause.verb.infinitive not in STATES and self.chance(0.5):
            word = "wann=when"
        return Sentence(clause._replace(time=tuple(word.split("="))), "time", "?")

    def who_question(self) -> Sentence:
        """Wer ...?  The word order is that of a statement."""
        who = Pronoun("wer", "wer")
        return Sentence(self.clause(who, self.pick("present past"), active_verbs()),
                        mark="?")

    def reason(self) -> Sentence:
        """Weil, obwohl, wenn: how the subject feels, or what it must or wants to do."""
        joiner = self.pick("weil obwohl wenn")
        mode = self.pick("present past") if joiner != "wenn" else "present"
        main = self.clause(None, mode, active_verbs())
        main = main if joiner == "wenn" else self.adorned(main)._replace(time=("", ""))
        subject, pronoun = main.subject, pronoun_of(main.subject)
        if is_person(subject) and mode == "present" and self.chance(0.5):
            mode = self.pick("müssen wollen") if joiner != "wenn" else "present"
            second = self.clause(pronoun, mode, verbs_named(ACTIVITIES))
        else:
            second = self.state(pronoun, mode, self.pick(FEELINGS))
            subject = subject._replace(adjective=None) if is_noun(subject) else subject
        if joiner == "wenn" and self.chance(0.5):
            return Sentence(main._replace(subject=pronoun), joiner=joiner, lead=True,
                            second=second._replace(subject=subject))
        return Sentence(main._replace(subject=subject), joiner=joiner, second=second)

    def follow_up(self) -> Sentence:
        """Two clauses about one thing, which the second calls ihn, sie or es."""
        first, joiner, then, negated = self.pick(FOLLOW_UPS).split()
        mode, verbs = self.pick("present past"), verbs_named(then)
        main = self.draw(lambda c: is_noun(c.direct) and "thing" in c.direct.noun.tags,
                         mode, verbs_named(first))
        subject, thing = pronoun_of(main.subject), pronoun_of(main.direct)
        if thing.german == subject.german and (thing.german == "es" or not verbs):
            return self.follow_up()
        if verbs:
            second = Clause(subject, verbs[0], mode, thing)
        else:
            second = self.state(thing, mode, then)
            main = main._replace(direct=main.direct._replace(adjective=None))
        return Sentence(main, joiner=joiner,
                        second=second._replace(negated=negated == "nicht"))

    def report(self) -> Sentence:
        """Dass and ob: what somebody says, hopes, knows or asks."""
        mode, verb = self.pick("present past"), self.pick(lexicon.SPEECH)
        main = Clause(self.participant(verb.subject, "subject"), verb, mode)
        mode = mode if mode == "past" or verb.infinitive == "hoffen" else None
        if self.chance(0.3):
            second = self.clause(pronoun_of(main.subject), mode, active_verbs())
        else:
            second = self.clause(None, mode)
        if verb.infinitive == "fragen":
            return Sentence(main, joiner="ob", second=second)
        if verb.infinitive == "wissen" and is_definite(main.subject) and (
                self.chance(0.5)):
            return Sentence(main._replace(negated=True), joiner="ob", second=second)
        return Sentence(main, joiner="dass", second=self.adorned(second))

    def related(self, head: NounPhrase) -> NounPhrase:
        """Adds a relative clause, whose roles case or number must make clear."""
        pronoun = pronoun_of(head, "der die das die_pl")
        role, mode = self.pick("subject direct indirect"), self.pick("present past")
        verbs = verbs_for(head.noun, role)
        if role == "subject" or not verbs:
            inner = self.clause(pronoun, mode, verbs_for(head.noun, "subject"))
            return head._replace(relative=("subject", inner))
        inner = self.draw(
            lambda c: not c.direct if role == "indirect" else
            pronoun.german == "der" or index_of(pronoun) != index_of(c.subject),
            mode, verbs)
        return head._replace(relative=(role, inner._replace(**{role: pronoun})))

    def relative(self) -> Sentence:
        """A relative clause about a subject, or an object that ends the sentence."""
        head = self.noun_phrase({self.pick("adult child animal thing")}, "head")
        if self.chance(0.5):
            return Sentence(self.state(self.related(head), self.pick("present past")))
        main = self.draw(lambda c: not c.phrase and "|" not in c.verb.infinitive,
                         "present", verbs_for(head.noun, "direct"))
        return Sentence(main._replace(direct=self.related(head)))

    def pairing(self) -> Sentence:
        """Two main clauses with und or aber."""
        mode = self.pick("present past")
        first, second = self.clause(None, mode), self.clause(None, mode)
        return Sentence(first, joiner=self.pick("und aber"), second=second)

    def purpose(self) -> Sentence:
        """Um ... zu after a verb of motion."""
        main = self.clause(None, None, verbs_named("gehen fahren"))
        second = self.clause(main.subject, "um", verbs_named(PURPOSES))
        second = second._replace(phrase=None)
        return Sentence(main, joiner="um", second=second)

    def sentence(self) -> Sentence:
        """Invents a Sentence, but none with Sie in front of a plural: they, or you?"""
        while True:
            sentence = getattr(self, self.pick(PATTERNS))()
            subject = sentence.main.subject
            if (sentence.lead or sentence.front != "subject" or is_noun(subject)
                    or subject.german != "sie_pl"):
                return sentence


def is_natural(text: str) -> bool:
    """Refuses what is too short or long, or repeats a noun: Anna hat Anna gesehen."""
    stems = [word[:4] for word in re.findall(r"\b[A-ZÄÖÜ]\w+", text)]
    return 3 <= len(text.split()) <= 18 and len(stems) == len(set(stems))


def corpus(seed: int) -> Dict[str, list]:
    """Returns {split: [(German, English)]}: no German sentence occurs twice.

    The words of dev and test all occur in train.
    """
    author, seen, known, splits = Author(seed), set(), set(), {}
    for split, size in SIZES:
        pairs = splits[split] = []
        while len(pairs) < size:
            sentence = author.sentence()
            text = german(sentence)
            words = re.findall(r"\w+", text.lower())
            if text not in seen and is_natural(text) and (
                    split == "train" or known.issuperset(words)):
                seen.add(text)
                known.update(words)
                pairs.append((text, english(sentence)))
    return splits


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Writes {train,dev,test}.{de,en}."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default=os.path.join("data", "sample"))
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    os.makedirs(args.out, exist_ok=True)
    for split, pairs in corpus(args.seed).items():
        for column, language in enumerate(("de", "en")):
            path = os.path.join(args.out, split + "." + language)
            with open(path, "w", encoding="utf-8", newline="\n") as lines:
                lines.writelines(pair[column] + "\n" for pair in pairs)


if __name__ == "__main__":
    main()
