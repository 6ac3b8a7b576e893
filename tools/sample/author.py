"""The author of the sample corpus: invents noun phrases and clauses, without spelling.

patterns.py composes sentences of them; grammar.py spells those.
"""

import random
from typing import Any, Callable, Optional, Sequence, Set

import function_words
import lexicon
from choices import MIX, OWNABLE, PRONOUN_MIX, STATES, nouns_for
from function_words import DETERMINERS, Determiner
from grammar import (
    Clause,
    NounPhrase,
    Participant,
    Phrase,
    Pronoun,
    is_noun,
    pronoun_of,
)
from lexicon import ADJECTIVES, COPULA, Noun
from paradigms import ENGLISH_PRONOUNS, MODALS, PRONOUNS


def is_person(phrase: Participant) -> bool:
    """Return whether a subject can want, own and must."""
    return not is_noun(phrase) or bool(phrase.noun.tags & {"person", "name"})


def is_definite(phrase: Participant) -> bool:
    """Return whether a clause with `phrase` in it is negated by nicht, not by kein."""
    return (
        not is_noun(phrase)
        or "name" in phrase.noun.tags
        or (phrase.determiner.german in ("der", "dies", "mein", "dein", "unser"))
    )


def is_clear_object(phrase: Participant) -> bool:
    """Return whether the form of `phrase` (den Hund) shows that it is no subject."""
    return (
        is_noun(phrase)
        and not phrase.plural
        and phrase.determiner.german in ("der", "dies", "mein", "dein", "unser")
        and phrase.noun.gender == "m"
        and not phrase.noun.genitive.endswith("n")
    )


class Author:
    """Invents plausible meanings, the same for a seed on any version of Python.

    Of its random generator it uses random() alone, whose numbers never changed.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random() < probability

    def pick(self, options: Sequence) -> Any:
        """Return one item of a sequence, or one word of a string."""
        options = options.split() if isinstance(options, str) else options
        return options[int(self.random() * len(options))]

    def determiner(
        self, noun: Noun, plural: bool, role: str, subject: Participant
    ) -> Determiner:
        """Choose an article; only what one can own gets a possessive."""
        name = self.pick(MIX[role]["mass" if "mass" in noun.tags else plural])
        if name == "number":
            word, word_en = self.pick(function_words.NUMBERS).split("=")
            return Determiner(word, "", "strong", word_en, word_en)
        is_possessive = name in ("own", "mein", "dein", "unser")
        is_own = noun.tags & OWNABLE and not (plural and "unique" in noun.tags)
        if is_possessive and not is_own or name == "none" and "person" in noun.tags:
            name = "der"
        if name == "own":
            return self.possessive(subject)
        return DETERMINERS[name]

    def possessive(self, subject: Participant) -> Determiner:
        """Return sein or the like if `subject` is a person, else der."""
        owner = pronoun_of(subject)
        word = PRONOUNS[owner.german][2]
        if not word or not is_person(subject):
            return DETERMINERS["der"]
        word_en = ENGLISH_PRONOUNS[owner.english][2]
        return DETERMINERS["mein"]._replace(
            german=word, english=word_en, english_pl=word_en
        )

    def noun_phrase(
        self, tags: Set[str], role: str, subject: Optional[Participant] = None
    ) -> NounPhrase:
        """Invent a noun phrase."""
        noun = self.pick(nouns_for(frozenset(tags)))
        if "name" in noun.tags:
            return NounPhrase(DETERMINERS["none"], noun)
        plural = bool(noun.plural) and self.chance(0.06 if role == "phrase" else 0.3)
        article = self.determiner(noun, plural or "pair" in noun.tags, role, subject)
        fitting = [item for item in ADJECTIVES if item.tags & noun.tags]
        adjective = self.pick(fitting) if fitting and self.chance(0.35) else None
        return NounPhrase(article, noun, plural or "pair" in noun.tags, adjective)

    def participant(
        self, tags: Set[str], role: str, subject: Optional[Participant] = None
    ) -> Participant:
        """Invent a pronoun or a noun phrase; PRONOUN_MIX excludes unclear pronouns."""
        personal = tags & {"person", "living"} and (subject is None or is_noun(subject))
        if personal and self.chance(0.3):
            return Pronoun(*self.pick(PRONOUN_MIX[role]).split("="))
        return self.noun_phrase(tags, role, subject)

    def owned(self, phrase: Participant) -> Participant:
        """Add a genitive to some definite noun phrases."""
        tags = phrase.noun.tags if is_noun(phrase) else frozenset()
        if (
            tags & OWNABLE
            and not (phrase.plural and "unique" in tags)
            and (phrase.determiner.german == "der" and self.chance(0.25))
        ):
            return phrase._replace(owner=self.noun_phrase({"adult"}, "owner"))
        return phrase

    def clause(
        self,
        subject: Optional[Participant] = None,
        mode: Optional[str] = None,
        verbs: Optional[Sequence] = None,
    ) -> Clause:
        """Invent a clause without adverbs and negation."""
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
            *words, tags = self.pick(function_words.PHRASES[verb.phrase.strip("?")])
            role = "dative" if "person" in tags else "phrase"
            phrase = Phrase(*words, self.noun_phrase(tags.split(","), role, subject))
        return Clause(subject, verb, mode, direct, indirect, phrase)

    def adorned(self, clause: Clause) -> Clause:
        """Add a negation, or an adverb of frequency or of time, to some clauses."""
        direct, mode = clause.direct, clause.mode
        if (
            is_noun(direct)
            and direct.determiner.german in ("", "ein")
            and ("name" not in direct.noun.tags and self.chance(0.25))
        ):
            direct = direct._replace(determiner=DETERMINERS["kein"])
            return clause._replace(direct=direct)
        if self.chance(0.15) and all(
            map(is_definite, (clause.subject, direct, clause.indirect))
        ):
            return clause._replace(negated=True)
        if clause.verb.infinitive in STATES or self.chance(0.4):
            return clause
        kind = self.pick(["any", "often", "modal" if mode in MODALS else mode])
        adverb = tuple(self.pick(function_words.TIMES[kind].split("|")).split("="))
        return clause._replace(**{"often" if kind == "often" else "time": adverb})

    def draw(
        self,
        accepts: Callable,
        mode: Optional[str] = None,
        verbs: Optional[Sequence] = None,
    ) -> Clause:
        """Invent clauses until one is accepted."""
        while True:
            clause = self.clause(None, mode, verbs)
            if accepts(clause):
                return clause

    def state(self, subject: Participant, mode: str, word: str = "") -> Clause:
        """Invent a predicate: `word`, or any adjective or comparison that fits."""
        tags = {"person"} if is_person(subject) else set()
        if is_noun(subject):
            tags |= subject.noun.tags
            subject = subject._replace(adjective=None)
        adjective = self.pick(
            [
                item
                for item in ADJECTIVES
                if item.german == word or not word and item.tags & tags
            ]
        )
        phrase = Phrase(adjective.german, "", adjective.english)
        if adjective.more_en and not word and self.chance(0.25):
            rival = self.noun_phrase({min(adjective.tags & tags)}, "phrase", subject)
            phrase = Phrase(
                adjective.more + " als",
                "nom",
                adjective.more_en + " than",
                rival._replace(adjective=None),
            )
        return Clause(subject, COPULA, mode, phrase=phrase)
