"""Writes the sample corpus: German-English sentence pairs of our own making.

A sentence is invented once, as a meaning (`Clause`, `Sentence`), and then spelled
twice, by `german` and by `english`.  The translation is a function of the German text:
every word has one counterpart, the perfect always becomes the simple past, and where a
German form has two readings (sie, ihr, sein) the sentence itself decides.

    python scripts/make_sample.py [--out data/sample] [--seed 1]
"""

import argparse
import io
import os
import random
import re
from collections import namedtuple

from sample_lexicon import (
    ADJECTIVE_ENDINGS, ADJECTIVES, ARTICLES, CLASSES, CONTRACTIONS, COPULA, DETERMINERS,
    ENGLISH_FINITE, ENGLISH_PRONOUNS, FINITE, JOINERS, MODALS, NOUNS, NUMBERS, PHRASES,
    PRONOUNS, TIMES, VERBS, Determiner)

SIZES = (("train", 20000), ("dev", 500), ("test", 500))

# `german` and `english` are keys of the two pronoun tables: er may be "he" or "it".
Pronoun = namedtuple("Pronoun", "german english")
# `owner` is a noun phrase in the genitive; `relative` is a (role, clause) pair.
NounPhrase = namedtuple("NounPhrase", "determiner noun plural adjective owner relative")
NounPhrase.__new__.__defaults__ = (False, None, None, None)
Phrase = namedtuple("Phrase", "german case english noun_phrase")
# `mode` is "present", "past" or a modal verb; `predicate` an (adjective, noun phrase
# that is surpassed or None) pair; `time` and `often` are (German, English) pairs.
Clause = namedtuple("Clause", "subject verb mode direct indirect phrase predicate "
                              "time often negated")
Clause.__new__.__defaults__ = ("present", None, None, None, None, ("", ""), ("", ""),
                               False)
# `front` names the role before the finite verb, "" in yes-no questions; `second` is
# the clause after `joiner`, and comes first where `lead` is true.
Sentence = namedtuple("Sentence", "main front mark joiner second lead")
Sentence.__new__.__defaults__ = ("subject", ".", "", None, False)

PARTICLES = ("away", "on", "up")  # they follow a pronoun: picks him up


def index_of(subject):
    """Returns the person of `subject`: 0 ich, 1 du, 2 er/sie/es, 3 any plural."""
    if isinstance(subject, Pronoun):
        return PRONOUNS[subject.german][0]
    return 3 if subject.plural else 2


# German


def cell(table, case, noun, plural):
    """Looks up the ending for a noun's gender, or for the plural, in a paradigm."""
    ending = table[case].split()["mfnp".index("p" if plural else noun.gender)]
    return ending.strip("-")


def german_noun(noun, case, plural):
    """Declines a noun: -(e)s genitives, -n in the dative plural, weak Junge -> Jungen."""
    if plural:
        needs_n = case == "dat" and noun.plural[-1] not in "ns"
        return noun.plural + ("n" if needs_n else "")
    weak = noun.gender == "m" and noun.genitive.endswith("n")
    return noun.genitive if case == "gen" or weak and case != "nom" else noun.german


def german_noun_phrase(phrase, case):
    """Spells a pronoun or noun phrase in "nom", "acc", "dat" or "gen"."""
    if isinstance(phrase, Pronoun):
        forms = PRONOUNS[phrase.german][1].split()
        return forms[("nom", "acc", "dat").index(case)]
    noun, plural, kind = phrase.noun, phrase.plural, phrase.determiner
    article = cell(ARTICLES[kind.declined], case, noun, plural)
    words = [article if kind.german == "der" else kind.german + article]
    if phrase.adjective:
        endings = ADJECTIVE_ENDINGS[kind.adjective]
        words.append(phrase.adjective.stem + cell(endings, case, noun, plural))
    words.append(german_noun(noun, case, plural))
    if phrase.owner:
        words.append(german_noun_phrase(phrase.owner, "gen"))
    if phrase.relative:
        role, clause = phrase.relative
        words += [",", german_subordinate(clause, "", role), ","]
    return " ".join(filter(None, words))


def german_phrase(phrase):
    """Spells a prepositional phrase, contracting in dem -> im, zu der -> zur."""
    text = phrase.german + " " + german_noun_phrase(phrase.noun_phrase, phrase.case)
    head = " ".join(text.split()[:2])
    contracts = head in CONTRACTIONS and len(text.split()) > 2
    return CONTRACTIONS[head] + text[len(head):] if contracts else text


def german_predicate(predicate):
    """Spells a predicative adjective (no ending) or a comparison with als."""
    adjective, rival = predicate
    if rival is None:
        return adjective.german
    return adjective.more + " als " + german_noun_phrase(rival, "nom")


def german_finite(infinitive, verb, index):
    """Conjugates `infinitive`, the form without prefix and reflexive, by person."""
    if infinitive in FINITE:
        return FINITE[infinitive].split()[index]
    first = infinitive[:-1] + ("e" if infinitive.endswith("ern") else "")
    return (first, verb.du, verb.er, infinitive)[index]


def german_verb(clause):
    """Returns the verb bracket: (finite verb, what closes the clause, verb-final)."""
    verb, index = clause.verb, index_of(clause.subject)
    prefix, _, stem = verb.infinitive.replace("sich ", "").rpartition("|")
    if clause.mode == "present":
        finite = german_finite(stem, verb, index)
        return finite, prefix, prefix + finite
    if clause.mode == "past" and stem in ("sein", "haben"):
        finite = german_finite({"sein": "war", "haben": "hatte"}[stem], verb, index)
        return finite, "", finite
    if clause.mode == "past":
        auxiliary = "sein" if verb.aux == "s" else "haben"
        finite, end = FINITE[auxiliary].split()[index], verb.participle
    else:
        finite, end = MODALS[clause.mode][0].split()[index], prefix + stem
    return finite, end, end + " " + finite


def german_slots(clause):
    """Spells all but the verb, in order, as {role: text}.

    Pronouns come early and nouns late; nicht stands behind the objects, but before a
    prepositional phrase or predicate.
    """
    objects = [("indirect", clause.indirect, "dat"), ("direct", clause.direct, "acc")]
    objects = [(role, isinstance(phrase, Pronoun), german_noun_phrase(phrase, case))
               for role, phrase, case in objects if phrase]
    reflexive = ""
    if clause.verb.infinitive.startswith("sich "):
        pronoun = clause.subject
        if isinstance(pronoun, NounPhrase):
            pronoun = pronoun_of(pronoun)
        reflexive = PRONOUNS[pronoun.german][1].split()[-1]
    slots = [("subject", clause.subject and german_noun_phrase(clause.subject, "nom")),
             ("reflexive", reflexive)]
    slots += [(role, text) for role, light, text in objects if light]
    slots += [("often", clause.often[0]), ("time", clause.time[0])]
    slots += [(role, text) for role, light, text in objects if not light]
    slots += [("not", "nicht" if clause.negated else ""),
              ("phrase", clause.phrase and german_phrase(clause.phrase)),
              ("predicate", clause.predicate and german_predicate(clause.predicate))]
    return dict((role, text) for role, text in slots if text)


def german_main(clause, front):
    """Spells a main clause: the finite verb is second, or first if `front` is ""."""
    finite, end, _ = german_verb(clause)
    slots = german_slots(clause)
    return " ".join(filter(None, [slots.pop(front, ""), finite, *slots.values(), end]))


def german_subordinate(clause, opener, front=""):
    """Spells a verb-final clause behind a conjunction or a fronted relative pronoun."""
    slots = german_slots(clause)
    opener = opener or slots.pop(front)
    return " ".join([opener, *slots.values(), german_verb(clause)[2]])


def german_purpose(clause):
    """Spells um ... zu: the zu goes between a separable prefix and its verb."""
    slots = german_slots(clause)
    del slots["subject"]
    prefix, _, stem = clause.verb.infinitive.rpartition("|")
    last = prefix + "zu" + stem if prefix else "zu " + stem
    return " ".join(["um", *slots.values(), last])


def german(sentence):
    """Spells a Sentence in German."""
    main, second, joiner = sentence.main, sentence.second, sentence.joiner
    if sentence.lead:
        words = [german_subordinate(second, joiner), ",", german_main(main, "")]
    else:
        words = [german_main(main, sentence.front)]
        if joiner == "um":
            words += [",", german_purpose(second)]
        elif joiner in ("und", "aber"):
            words += [", aber" if joiner == "aber" else joiner,
                      german_main(second, "subject")]
        elif joiner:
            words += [",", german_subordinate(second, joiner)]
    return punctuate(" ".join(words), sentence.mark)


def punctuate(text, mark):
    """Closes up commas, drops those that another sign makes redundant, capitalizes."""
    text = re.sub(r"( ,)+", ",", text).rstrip(",")
    return text[0].upper() + text[1:] + mark


# English


def pronoun_of(phrase, kind="er"):
    """Returns the Pronoun that can replace `phrase`, a relative one if `kind` is der."""
    if isinstance(phrase, Pronoun):
        return phrase
    noun = phrase.noun
    if kind == "der":
        word = "that" if noun.pronoun == "it" and noun.german != "Kind" else "who"
        words = ("die_pl", "der", "die", "das")
    else:
        word = "they" if phrase.plural else noun.pronoun
        words = ("sie_pl", "er", "sie", "es")
    column = 0 if phrase.plural else "mfn".index(noun.gender) + 1
    return Pronoun(words[column], word)


def english_determiner(phrase, is_subject):
    """Spells the article: a genitive becomes 's, an object's kein becomes a or any."""
    if phrase.owner:
        owner = english_noun_phrase(phrase.owner)
        return owner + ("'" if owner.endswith("s") else "'s")
    kind = phrase.determiner
    many = phrase.plural or "mass" in phrase.noun.tags
    if kind.german == "kein" and not is_subject:
        return "any" if many else "a"
    return kind.english_pl if phrase.plural else kind.english


def english_noun_phrase(phrase, is_subject=False):
    """Spells a pronoun or noun phrase as a subject or as an object."""
    if isinstance(phrase, Pronoun):
        return ENGLISH_PRONOUNS[phrase.english][0 if is_subject else 1]
    noun = phrase.noun
    words = [phrase.adjective.english if phrase.adjective else "",
             noun.plural_en if phrase.plural else noun.english]
    text = " ".join(filter(None, words))
    article = english_determiner(phrase, is_subject)
    if article == "a" and text[0] in "aeiou":
        article = "an"
    text = (article + " " + text).strip()
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
    """Returns (auxiliary, words): do, does and did appear where `support` is true."""
    words, index = clause.verb.english.split(), index_of(clause.subject)
    past = clause.verb.past if clause.mode == "past" else ""
    if clause.mode in MODALS:
        _, auxiliary, link = MODALS[clause.mode]
        words = link.split() + words
        if auxiliary:
            return auxiliary, words
    elif clause.verb is COPULA:
        return english_finite(past or "be", index), []
    if support:
        return ("did" if past else "does" if index == 2 else "do"), words
    return "", [past or english_finite(words[0], index)] + words[1:]


def english_clause(clause, front="", inverted=False):
    """Spells a clause: subject, verb, objects, phrase, time.

    Args:
        front: the role that opens the clause, where English fronts it as well.
        inverted: whether the auxiliary precedes the subject, as in questions.
    """
    negative = clause.negated or (
        isinstance(clause.direct, NounPhrase) and clause.direct.determiner.german == "kein")
    auxiliary, words = english_verb(clause, negative or inverted)
    slots = {role: english_noun_phrase(getattr(clause, role))
             for role in ("indirect", "direct") if getattr(clause, role)}
    slots["time"] = clause.time[1]
    first = slots.pop(front, "")
    subject = english_noun_phrase(clause.subject, True) if clause.subject else ""
    head = [auxiliary, subject] if inverted else [subject, auxiliary]
    if isinstance(clause.direct, Pronoun) and words[-1] in PARTICLES:
        words = words[:-1] + [slots.pop("direct", ""), words[-1]]
    tail = [slots.get("indirect"), slots.get("direct"), english_phrase(clause),
            slots.get("time")]
    words = [first] + head + ["not" if negative else "", clause.often[1]] + words + tail
    return " ".join(filter(None, words)).replace("can not", "cannot")


def english_phrase(clause):
    """Spells what follows the objects: a prepositional phrase or a predicate."""
    if clause.phrase:
        return clause.phrase.english + " " + english_noun_phrase(clause.phrase.noun_phrase)
    if not clause.predicate:
        return ""
    adjective, rival = clause.predicate
    if rival is None:
        return adjective.english
    return adjective.more_en + " than " + english_noun_phrase(rival, True)


def english(sentence):
    """Spells a Sentence in English."""
    main, second, joiner = sentence.main, sentence.second, sentence.joiner
    asks = sentence.mark == "?" and sentence.front != "subject"
    front = sentence.front if asks or sentence.front == "time" else ""
    text = english_clause(main, front, asks)
    if sentence.lead:
        text = JOINERS[joiner] + " " + english_clause(second) + ", " + text
    elif joiner == "um":
        bare = second._replace(subject=None)
        text += " to " + second.verb.english + english_clause(bare)
    elif joiner:
        text += ", but " if joiner == "aber" else " " + JOINERS[joiner] + " "
        text += english_clause(second)
    return punctuate(text, sentence.mark)
