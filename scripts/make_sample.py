"""Writes the sample corpus: German-English sentence pairs of our own making.

A sentence is invented once, as a meaning (`Clause`, `Sentence`), and spelled twice, by
`german` and by `english`.  The translation is a function of the German text: every word
has one counterpart, the perfect always becomes the simple past, and where a German form
has two readings (sie, ihr, sein) the rest of the sentence decides.

    python scripts/make_sample.py [--out data/sample] [--seed 1]
"""

import argparse
import io
import os
import random
import re
from collections import namedtuple
from functools import lru_cache

from sample_lexicon import (
    ADJECTIVE_ENDINGS, ADJECTIVES, ARTICLES, CLASSES, CONTRACTIONS, COPULA, DETERMINERS,
    ENGLISH_FINITE, ENGLISH_PRONOUNS, FEELINGS, FINITE, FOLLOW_UPS, JOINERS, MIX,
    MODALS, NOUNS, NUMBERS, OWNABLE, PARTICLES, PATTERNS, PHRASES, PRONOUN_MIX, PRONOUNS, QUESTIONS, TIMES,
    VERBS, Determiner)

SIZES = (("train", 20000), ("dev", 500), ("test", 500))

# Keys of the two pronoun tables, which differ: er may be "he" or "it".
Pronoun = namedtuple("Pronoun", "german english")
# `owner` is a noun phrase in the genitive; `relative` is a (role, clause) pair.
NounPhrase = namedtuple("NounPhrase", "determiner noun plural adjective owner relative",
                        defaults=(False, None, None, None))
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


def index_of(subject):
    """Returns the person of a subject: 0 ich, 1 du, 2 er/sie/es, 3 any plural."""
    if isinstance(subject, Pronoun):
        return PRONOUNS[subject.german][0]
    return 3 if subject.plural else 2


def pronoun_of(phrase, kind="er"):
    """Returns the Pronoun that replaces `phrase`, a relative one if `kind` is "der"."""
    if isinstance(phrase, Pronoun):
        return phrase
    words = ("er", "sie", "es", "sie_pl") if kind == "er" else ("der", "die", "das", "die_pl")
    word = words[3 if phrase.plural else "mfn".index(phrase.noun.gender)]
    if kind == "der":
        return Pronoun(word, "who" if phrase.noun.tags & {"person"} else "that")
    return Pronoun(word, "they" if phrase.plural else phrase.noun.pronoun)


def punctuate(text, mark):
    """Closes up commas, drops those next to another sign, capitalizes."""
    text = re.sub(r"( ,)+", ",", text).rstrip(",")
    return text[0].upper() + text[1:] + mark


# German


def ending(paradigm, case, phrase):
    """Looks up an ending by case and by the gender, or plural, of a noun phrase."""
    column = "mfnp".index("p" if phrase.plural else phrase.noun.gender)
    return paradigm[case].split()[column].strip("-")


def german_noun(noun, case, plural):
    """Declines a noun: genitive -(e)s, dative plural -n, weak Junge -> Jungen."""
    if plural:
        return noun.plural + ("n" if case == "dat" and noun.plural[-1] not in "ns" else "")
    weak = noun.gender == "m" and noun.genitive.endswith("n")
    return noun.genitive if case == "gen" or weak and case != "nom" else noun.german


def german_noun_phrase(phrase, case):
    """Spells a pronoun or noun phrase; `case` is nom, acc, dat, gen, or refl (sich)."""
    if isinstance(phrase, Pronoun):
        return PRONOUNS[phrase.german][1].split()[("nom", "acc", "dat", "refl").index(case)]
    article, adjective = phrase.determiner, phrase.adjective
    declined = ending(ARTICLES[article.declined], case, phrase)
    words = [declined if article.german == "der" else article.german + declined]
    if adjective:
        endings = ADJECTIVE_ENDINGS[article.adjective]
        words.append(adjective.stem + ending(endings, case, phrase))
    words.append(german_noun(phrase.noun, case, phrase.plural))
    if phrase.owner:
        words.append(german_noun_phrase(phrase.owner, "gen"))
    if phrase.relative:
        role, clause = phrase.relative
        words += [",", german_subordinate(clause, "", role), ","]
    return " ".join(filter(None, words))


def german_phrase(phrase):
    """Spells a prepositional phrase, where in dem is contracted to im, or a predicate."""
    if not phrase.noun_phrase:
        return phrase.german
    words = [phrase.german] + german_noun_phrase(phrase.noun_phrase, phrase.case).split()
    head = " ".join(words[:2])
    return " ".join([CONTRACTIONS.get(head, head)] + words[2:])


def german_finite(infinitive, verb, index):
    """Conjugates an infinitive without its prefix: ich ruf-e, du rufst, wir rufen."""
    if infinitive in FINITE:
        return FINITE[infinitive].split()[index]
    first = infinitive[:-1] + ("e" if infinitive.endswith("ern") else "")
    return (first, verb.du, verb.er, infinitive)[index]


def german_verb(clause):
    """Returns the finite verb, what closes a main clause, and all of it verb-final."""
    verb, mode, index = clause.verb, clause.mode, index_of(clause.subject)
    prefix, _, stem = verb.infinitive.replace("sich ", "").rpartition("|")
    if mode == "um":
        return "", "", prefix + "zu" + stem if prefix else "zu " + stem
    if mode == "present" or mode == "past" and stem in ("sein", "haben"):
        preterite = {"sein": "war", "haben": "hatte"}
        finite = german_finite(stem if mode == "present" else preterite[stem], verb, index)
        return finite, prefix, prefix + finite
    if mode == "past":
        auxiliary = FINITE["sein" if verb.aux == "s" else "haben"]
        finite, end = auxiliary.split()[index], verb.participle
    else:
        finite, end = MODALS[mode][0].split()[index], prefix + stem
    return finite, end, end + " " + finite


def german_slots(clause):
    """Spells all but the verb as {role: text}: pronouns early, nouns late, then nicht."""
    is_reflexive = clause.verb.infinitive.startswith("sich ")
    slots = [("subject", clause.mode != "um" and clause.subject, "nom"),
             ("reflexive", is_reflexive and pronoun_of(clause.subject), "refl")]
    objects = [("indirect", clause.indirect, "dat"), ("direct", clause.direct, "acc")]
    light = [item for item in objects if isinstance(item[1], Pronoun)]
    early = [(role, german_noun_phrase(phrase, case))
             for role, phrase, case in slots + light if phrase]
    late = [(role, german_noun_phrase(phrase, case))
            for role, phrase, case in objects if isinstance(phrase, NounPhrase)]
    late += [("not", "nicht")] if clause.negated else []
    late += [("phrase", german_phrase(clause.phrase))] if clause.phrase else []
    adverbs = [("often", clause.often[0]), ("time", clause.time[0])]
    return dict((role, text) for role, text in early + adverbs + late if text)


def german_main(clause, front):
    """Spells a main clause: the finite verb is second, or first where `front` is ""."""
    finite, end, _ = german_verb(clause)
    slots = german_slots(clause)
    return " ".join(filter(None, [slots.pop(front, ""), finite, *slots.values(), end]))


def german_subordinate(clause, opener, front=""):
    """Spells a verb-final clause after a conjunction or a fronted relative pronoun."""
    slots = german_slots(clause)
    opener = opener or slots.pop(front)
    return " ".join([opener, *slots.values(), german_verb(clause)[2]])


def german(sentence):
    """Spells a Sentence in German."""
    main, front, mark, joiner, second, lead = sentence
    if lead:
        text = german_subordinate(second, joiner) + " , " + german_main(main, "")
    elif joiner in ("und", "aber"):
        comma = " , " if joiner == "aber" else " "
        text = german_main(main, front) + comma + joiner + " " + german_main(second, "subject")
    else:
        text = german_main(main, front)
        text += " , " + german_subordinate(second, joiner) if joiner else ""
    return punctuate(text, mark)


# English


def english_determiner(phrase, is_subject):
    """Spells the article: a genitive becomes 's; in objects, kein becomes a or any."""
    if phrase.owner:
        owner = english_noun_phrase(phrase.owner)
        return owner + ("'" if owner.endswith("s") else "'s")
    if phrase.determiner.german == "kein" and not is_subject:
        return "any" if phrase.plural or "mass" in phrase.noun.tags else "a"
    return phrase.determiner.english_pl if phrase.plural else phrase.determiner.english


def english_noun_phrase(phrase, is_subject=False):
    """Spells a pronoun or noun phrase as a subject or as an object."""
    if isinstance(phrase, Pronoun):
        return ENGLISH_PRONOUNS[phrase.english][0 if is_subject else 1]
    text = phrase.noun.plural_en if phrase.plural else phrase.noun.english
    if phrase.adjective:
        text = phrase.adjective.english + " " + text
    article = english_determiner(phrase, is_subject)
    text = (article + ("n " if article == "a" and text[0] in "aeiou" else " ") + text).strip()
    if phrase.relative:
        role, clause = phrase.relative
        text += " " + english_clause(clause, role)
    return text


def english_finite(base, index):
    """Conjugates a verb in the present: -s in the third person singular."""
    if base in ENGLISH_FINITE:
        return ENGLISH_FINITE[base].split()[index]
    if index != 2:
        return base
    if re.search("[^aeiou]y$", base):
        return base[:-1] + "ies"
    return base + ("es" if re.search("(s|sh|ch|o)$", base) else "s")


def english_verb(clause, support):
    """Returns (auxiliary, other words), with do, does or did where `support` is true."""
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


def english_clause(clause, front="", inverted=False):
    """Spells subject, verb, objects, phrase and time, in this order.

    Args:
        front: the role that opens the clause, if English fronts it.
        inverted: whether the auxiliary precedes the subject, as in a question.
    """
    direct, phrase = clause.direct, clause.phrase
    is_noun = isinstance(direct, NounPhrase)
    negative = clause.negated or is_noun and direct.determiner.german == "kein"
    auxiliary, words = english_verb(clause, negative or inverted)
    slots = {role: english_noun_phrase(getattr(clause, role))
             for role in ("indirect", "direct") if getattr(clause, role)}
    slots.update(subject=clause.mode != "um" and english_noun_phrase(clause.subject, True),
                 time=clause.time[1])
    first, subject = slots.pop(front, ""), slots.pop("subject", "")
    head = [auxiliary, subject] if inverted else [subject, auxiliary]
    if not is_noun and words and words[-1] in PARTICLES:
        words.insert(-1, slots.pop("direct", ""))
    tail = [slots.get("indirect"), slots.get("direct"), phrase and phrase.english]
    if phrase and phrase.noun_phrase:
        tail.append(english_noun_phrase(phrase.noun_phrase, phrase.case == "nom"))
    words = [first, *head, "not" if negative else "", clause.often[1], *words, *tail,
             slots.get("time")]
    return " ".join(filter(None, words)).replace("can not", "cannot")


def english(sentence):
    """Spells a Sentence in English."""
    main, front, mark, joiner, second, lead = sentence
    asks = mark == "?" and front != "subject"
    text = english_clause(main, front if asks or front == "time" else "", asks)
    link = JOINERS.get(joiner, "")
    if lead:
        text = link + " " + english_clause(second) + ", " + text
    elif joiner:
        text += ", " if joiner == "aber" else " "
        text += (link + " " + english_clause(second)).strip()
    return punctuate(text, mark)


# Invention


@lru_cache(maxsize=None)
def nouns_for(tags):
    """Returns the nouns that carry one of `tags`, which may be names of CLASSES."""
    wanted = {tag for name in tags for tag in CLASSES.get(name, name).split(",")}
    return [noun for noun in NOUNS if noun.tags & wanted]


def is_person(phrase):
    """Tells whether a subject can want, own and must."""
    return isinstance(phrase, Pronoun) or bool(phrase.noun.tags & {"person", "name"})


def is_definite(phrase):
    """Tells whether a clause with `phrase` in it is negated by nicht, not by kein."""
    return not isinstance(phrase, NounPhrase) or "name" in phrase.noun.tags or (
        phrase.determiner.german in ("der", "dies", "mein", "dein", "unser"))


def is_clear_object(phrase):
    """Tells whether the form of `phrase` (den Hund, dem Kind) shows it is no subject."""
    return (isinstance(phrase, NounPhrase) and not phrase.plural
            and phrase.determiner.german == "der" and phrase.noun.gender == "m"
            and not phrase.noun.genitive.endswith("n"))


def verbs_of(*subjects, **limits):
    """Returns the verbs of such subjects; `without` leaves out those with objects."""
    return [verb for verb in VERBS if verb.subject & set(subjects) and "dass" not in
            verb.direct and not (limits and (verb.direct or verb.indirect or verb.phrase))]


def verbs_named(infinitives):
    """Returns the verbs with these infinitives."""
    return [verb for verb in VERBS if verb.infinitive in infinitives.split()]


def verbs_for(noun, role):
    """Returns the verbs that can have `noun` as their "subject" or "direct" object."""
    return [verb for verb in VERBS if getattr(verb, role) - {"dass"}
            and "dass" not in verb.direct and noun in nouns_for(getattr(verb, role))]


def is_thing(phrase):
    """Tells whether `phrase` is a noun that ihn, sie or es can refer back to."""
    return phrase.noun.tags & {"thing", "vehicle"} and phrase.determiner.german != "kein"


class Author:
    """Invents plausible meanings.  Its dice are random() alone: alike on any Python."""

    def __init__(self, seed):
        self.random = random.Random(seed).random

    def chance(self, probability):
        """Returns True with this probability."""
        return self.random() < probability

    def pick(self, options):
        """Returns one item of a sequence, or one word of a string."""
        options = options.split() if isinstance(options, str) else options
        return options[int(self.random() * len(options))]

    def adverbial(self, kind):
        """Returns a (German, English) pair of TIMES."""
        return tuple(self.pick(TIMES[kind].split("|")).split("="))

    def determiner(self, noun, plural, role, subject):
        """Chooses an article; only what one can own gets a possessive."""
        name = self.pick(MIX[role]["mass" if "mass" in noun.tags else plural])
        if name == "number":
            number = self.pick(sorted(NUMBERS))
            return Determiner(number, "", "strong", "", NUMBERS[number])
        if name in ("own", "mein", "dein", "unser") and not noun.tags & OWNABLE:
            name = "der"
        owner = pronoun_of(subject) if name == "own" and is_person(subject) else None
        if owner and PRONOUNS[owner.german][2]:
            english_form = ENGLISH_PRONOUNS[owner.english][2]
            return Determiner(PRONOUNS[owner.german][2], "ein", "mixed",
                              english_form, english_form)
        return DETERMINERS.get("der" if name == "own" else name, DETERMINERS[""])

    def noun_phrase(self, tags, role, subject=None):
        """Invents a noun phrase; a "subject" or "object" may have a genitive."""
        noun = self.pick(nouns_for(tags))
        if "name" in noun.tags:
            return NounPhrase(DETERMINERS[""], noun)
        plural = bool(noun.plural) and self.chance(0.15 if role == "phrase" else 0.3)
        article = self.determiner(noun, plural, role, subject)
        fitting = [item for item in ADJECTIVES if item.tags & noun.tags]
        adjective = self.pick(fitting) if fitting and self.chance(0.35) else None
        return NounPhrase(article, noun, plural, adjective)

    def living(self, tags, role, subject=None):
        """Invents a pronoun or a noun phrase; PRONOUN_MIX excludes unclear pronouns."""
        free = "person" in tags or "living" in tags
        if free and not isinstance(subject, Pronoun) and self.chance(0.25):
            return Pronoun(*self.pick(PRONOUN_MIX[role]).split("="))
        return self.noun_phrase(tags, role, subject)

    def owned(self, phrase):
        """Adds a genitive to some definite noun phrases."""
        if isinstance(phrase, NounPhrase) and phrase.determiner.german == "der" and (
                phrase.noun.tags & OWNABLE and self.chance(0.25)):
            return phrase._replace(owner=self.noun_phrase(frozenset({"adult"}), "owner"))
        return phrase

    def clause(self, subject=None, mode=None, verbs=None, plain=False):
        """Invents a clause; a `plain` one has neither adverbs nor negation."""
        verb = self.pick(verbs or verbs_of("living", "person", "thing", "owned"))
        mode = mode or self.pick("present present present past past past modal")
        if not subject:
            subject = self.living(verb.subject, "subject")
            subject = subject if verb.indirect else self.owned(subject)
        if mode == "modal":
            mode = self.pick(sorted(MODALS)) if is_person(subject) else "present"
        indirect = direct = phrase = None
        if verb.indirect:
            indirect = self.living(verb.indirect, "dative", subject)
        if verb.direct:
            direct = self.living(verb.direct, "object", subject)
            direct = direct if indirect else self.owned(direct)
        if verb.phrase and (verb.phrase[-1] != "?" or self.chance(0.4)):
            word, case, word_en, tags = self.pick(PHRASES[verb.phrase.strip("?")])
            inner = self.noun_phrase(frozenset(tags.split(",")), "phrase", subject)
            phrase = Phrase(word, case, word_en, inner)
        clause = Clause(subject, verb, mode, direct, indirect, phrase)
        return clause if plain else self.adorned(clause)

    def adorned(self, clause):
        """Adds a negation, or an adverb of frequency or of time."""
        direct, mode = clause.direct, clause.mode
        if isinstance(direct, NounPhrase) and direct.determiner.german in ("", "ein") and (
                "name" not in direct.noun.tags and self.chance(0.2)):
            return clause._replace(direct=direct._replace(determiner=DETERMINERS["kein"]))
        if self.chance(0.15) and all(
                map(is_definite, (clause.subject, direct, clause.indirect))):
            return clause._replace(negated=True)
        if mode not in MODALS and self.chance(0.15):
            return clause._replace(often=self.adverbial("often"))
        if self.chance(0.4):
            kind = self.pick(["any", "modal" if mode in MODALS else mode])
            return clause._replace(time=self.adverbial(kind))
        return clause

    def draw(self, accepts, **wanted):
        """Invents plain clauses until one is accepted."""
        while True:
            clause = self.clause(plain=True, **wanted)
            if accepts(clause):
                return clause

    def state(self, subject, mode, word=""):
        """Invents a predicate: `word`, or any adjective or comparison that fits."""
        tags = {"person"} if is_person(subject) else set()
        tags |= subject.noun.tags if isinstance(subject, NounPhrase) else set()
        options = [item for item in ADJECTIVES if item.german == word or
                   not word and item.tags & tags]
        adjective = self.pick(options)
        phrase = Phrase(adjective.german, "", adjective.english)
        if adjective.more_en and not word and self.chance(0.25):
            kind = sorted(adjective.tags & tags)[0]
            rival = self.noun_phrase(frozenset({kind}), "phrase", subject)
            phrase = Phrase(adjective.more + " als", "nom", adjective.more_en + " than", rival)
        return Clause(subject, COPULA, mode, phrase=phrase)

    def statement(self):
        """A main clause: before its verb stand the subject, a time or a clear object."""
        clause = self.clause()
        fronts = ["subject", "time" if clause.time[0] else "subject"]
        fronts += [role for role in ("direct", "indirect")
                   if is_clear_object(getattr(clause, role))]
        return Sentence(clause, self.pick(fronts))

    def description(self):
        """Der Mann ist (nicht) alt, war älter als ..., and as a question."""
        subject = self.living(frozenset({self.pick("living thing food place furniture")}),
                              "subject")
        clause = self.state(subject, self.pick("present past"))
        if is_definite(subject) and self.chance(0.2):
            clause = clause._replace(negated=True)
        return self.pick([Sentence(clause), Sentence(clause), Sentence(clause, "", "?")])

    def yes_no_question(self):
        """Hat der Mann ...?"""
        return Sentence(self.clause(plain=True), "", "?")

    def object_question(self):
        """Wen, wem, was, welchen Hund or wie viele Hunde ...?"""
        role = self.pick("direct direct indirect")
        clause = self.draw(lambda c: bool(c.direct) == (role == "direct"))
        asked = getattr(clause, role)
        if asked is None:
            return self.yes_no_question()
        word = "wer" if is_person(asked) else "was"
        new = Pronoun(word, word)
        if role == "direct" and isinstance(asked, NounPhrase) and self.chance(0.6):
            if is_clear_object(asked):
                new = asked._replace(determiner=DETERMINERS["welch"], owner=None)
            elif asked.plural and index_of(clause.subject) < 3:
                new = asked._replace(determiner=DETERMINERS["wie viel"], owner=None)
        return Sentence(clause._replace(**{role: new}), role, "?")

    def adverb_question(self):
        """Wann, warum, wo or wohin ...?"""
        clause = self.clause(plain=True)
        words = ["wann=when", "warum=why"]
        if clause.phrase:
            words.append(QUESTIONS.get(clause.phrase.german + clause.phrase.case, "wann=when"))
        word = self.pick(words)
        if word.endswith("where"):
            clause = clause._replace(phrase=None)
        return Sentence(clause._replace(time=tuple(word.split("="))), "time", "?")

    def who_question(self):
        """Wer ...?  The word order is that of a statement."""
        clause = self.clause(Pronoun("wer", "wer"), self.pick("present past"), plain=True,
                             verbs=verbs_of("person", "living"))
        return Sentence(clause, "subject", "?")

    def reason(self):
        """Weil, obwohl, wenn: how the subject feels, or what it must or wants to do."""
        joiner = self.pick("weil obwohl wenn")
        mode = self.pick("present past") if joiner != "wenn" else "present"
        main = self.clause(mode=mode, verbs=verbs_of("person", "living"))
        noun, pronoun = main.subject, pronoun_of(main.subject)
        second = self.state(pronoun, mode, self.pick(FEELINGS))
        if is_person(noun) and mode == "present" and self.chance(0.5):
            activity = self.pick(["wollen", "müssen"] if joiner != "wenn" else ["present"])
            second = self.clause(pronoun, activity, verbs_of("person", without=True), True)
        if joiner == "wenn" and self.chance(0.5):
            return Sentence(main._replace(subject=pronoun), "subject", ".", joiner,
                            second._replace(subject=noun), True)
        return Sentence(main, "subject", ".", joiner, second)

    def follow_up(self):
        """Two clauses about one thing, which the second calls ihn, sie or es."""
        first, joiner, then, negated = self.pick(FOLLOW_UPS).split()
        mode = self.pick("present past")
        main = self.draw(lambda c: not is_person(c.direct) and is_thing(c.direct),
                         mode=mode, verbs=verbs_named(first))
        subject, thing = pronoun_of(main.subject), pronoun_of(main.direct)
        if then.islower() and verbs_named(then):
            second = Clause(subject, verbs_named(then)[0], mode, thing)
        else:
            second = self.state(thing, mode, then)
        if thing.german == subject.german:
            return self.statement()
        return Sentence(main, "subject", ".", joiner,
                        second._replace(negated=negated == "nicht"))

    def report(self):
        """Dass and ob: what somebody says, hopes, knows or asks."""
        mode = self.pick("present past")
        verb = self.pick(verbs_named("sagen hoffen wissen fragen"))
        subject = self.living(verb.subject, "subject")
        asks = verb.infinitive == "fragen" or (
            verb.infinitive == "wissen" and is_definite(subject) and self.chance(0.5))
        main = Clause(subject, verb, mode,
                      negated=asks and verb.infinitive == "wissen")
        again = pronoun_of(subject) if self.chance(0.3) else None
        second = self.clause(again, mode if mode == "past" else None)
        return Sentence(main, "subject", ".", "ob" if asks else "dass", second)

    def relative(self):
        """A relative clause about a subject, or about an object that ends the sentence."""
        tags = frozenset({self.pick("living person thing")})
        head = self.noun_phrase(tags, "head")
        inner_role = self.pick("subject direct")
        pronoun = pronoun_of(head, "der")
        if "name" in head.noun.tags:
            return self.statement()
        if inner_role == "subject":
            inner = self.clause(pronoun, self.pick("present past"), plain=True,
                                verbs=verbs_for(head.noun, "subject"))
        else:
            inner = self.draw(lambda c: index_of(c.subject) != 2 or pronoun.german == "der",
                              mode=self.pick("present past"),
                              verbs=verbs_for(head.noun, "direct"))
            inner = inner._replace(direct=pronoun)
        head = head._replace(relative=(inner_role, inner))
        if self.chance(0.5):
            return Sentence(self.state(head, self.pick("present past")))
        main = self.draw(lambda c: not c.phrase and "|" not in c.verb.infinitive,
                         mode="present", verbs=verbs_for(head.noun, "direct"))
        return Sentence(main._replace(direct=head))

    def pairing(self):
        """Two main clauses with und or aber."""
        mode = self.pick("present past")
        return Sentence(self.clause(mode=mode, plain=True), "subject", ".",
                        self.pick("und aber"), self.clause(mode=mode, plain=True))

    def purpose(self):
        """Um ... zu after a verb of motion."""
        main = self.clause(None, None, verbs_named("gehen fahren laufen"), True)
        verbs = verbs_named("ab|holen besuchen treffen suchen an|rufen kaufen helfen")
        second = self.clause(main.subject, "um", verbs, True)
        return Sentence(main, "subject", ".", "um", second)

    def sentence(self):
        """Invents a Sentence, and rejects Sie at its start: "they" or polite "you"?"""
        while True:
            sentence = getattr(self, self.pick(PATTERNS))()
            subject = sentence.main.subject
            unclear = (not sentence.lead and sentence.front == "subject" and
                       isinstance(subject, Pronoun) and subject.german == "sie_pl")
            if not unclear:
                return sentence


def corpus(seed):
    """Returns {split: [(German, English)]}: no German sentence occurs twice.

    The words of dev and test all occur in train.
    """
    author, seen, words, splits = Author(seed), set(), set(), {}
    for split, size in SIZES:
        pairs = splits[split] = []
        while len(pairs) < size:
            sentence = author.sentence()
            text = german(sentence)
            forms = re.findall(r"\w+", text.lower())
            if text in seen or len(forms) > 18 or (
                    split != "train" and not words.issuperset(forms)):
                continue
            seen.add(text)
            words.update(forms)
            pairs.append((text, english(sentence)))
    return splits


def main(argv=None):
    """Writes {train,dev,test}.{de,en}."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default=os.path.join("data", "sample"))
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    os.makedirs(args.out, exist_ok=True)
    for split, pairs in corpus(args.seed).items():
        for column, language in enumerate(("de", "en")):
            path = os.path.join(args.out, split + "." + language)
            with io.open(path, "w", encoding="utf-8", newline="\n") as lines:
                lines.writelines(pair[column] + "\n" for pair in pairs)


if __name__ == "__main__":
    main()
