"""The author of the sample corpus, who invents meanings: no spelling, no files.

`Author.sentence` makes one of PATTERNS, each a method, out of clauses, and those out of
noun phrases; `german` and `english` of grammar.py spell the result.
"""

import random
from typing import Any, Callable, Optional, Sequence, Set

import lexicon as lexicon
from choices import (
    ACTIVITIES,
    FEELINGS,
    FOLLOW_UPS,
    MIX,
    OWNABLE,
    PATTERNS,
    PRONOUN_MIX,
    PURPOSES,
    QUESTIONS,
    STATES,
    active_verbs,
    nouns_for,
    verbs_for,
    verbs_named,
)
from grammar import (
    Clause,
    NounPhrase,
    Participant,
    Phrase,
    Pronoun,
    Sentence,
    index_of,
    is_noun,
    pronoun_of,
)
from lexicon import ADJECTIVES, COPULA, DETERMINERS, Determiner, Noun
from paradigms import ENGLISH_PRONOUNS, MODALS, PRONOUNS


def is_person(phrase: Participant) -> bool:
    """Tells whether a subject can want, own and must."""
    return not is_noun(phrase) or bool(phrase.noun.tags & {"person", "name"})


def is_definite(phrase: Participant) -> bool:
    """Tells whether a clause with `phrase` in it is negated by nicht, not by kein."""
    return (
        not is_noun(phrase)
        or "name" in phrase.noun.tags
        or (phrase.determiner.german in ("der", "dies", "mein", "dein", "unser"))
    )


def is_clear_object(phrase: Participant) -> bool:
    """Tells whether the form of `phrase` (den Hund) shows that it is no subject."""
    return (
        is_noun(phrase)
        and not phrase.plural
        and phrase.determiner.german in ("der", "dies", "mein", "dein", "unser")
        and phrase.noun.gender == "m"
        and not phrase.noun.genitive.endswith("n")
    )


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

    def determiner(
        self, noun: Noun, plural: bool, role: str, subject: Participant
    ) -> Determiner:
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
        word_en = ENGLISH_PRONOUNS[owner.english][2]
        return DETERMINERS["mein"]._replace(
            german=word, english=word_en, english_pl=word_en
        )

    def noun_phrase(
        self, tags: Set[str], role: str, subject: Optional[Participant] = None
    ) -> NounPhrase:
        """Invents a noun phrase."""
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
        """Invents a pronoun or a noun phrase; PRONOUN_MIX excludes unclear pronouns."""
        personal = tags & {"person", "living"} and (subject is None or is_noun(subject))
        if personal and self.chance(0.3):
            return Pronoun(*self.pick(PRONOUN_MIX[role]).split("="))
        return self.noun_phrase(tags, role, subject)

    def owned(self, phrase: Participant) -> Participant:
        """Adds a genitive to some definite noun phrases."""
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
        adverb = tuple(self.pick(lexicon.TIMES[kind].split("|")).split("="))
        return clause._replace(**{"often" if kind == "often" else "time": adverb})

    def draw(
        self,
        accepts: Callable,
        mode: Optional[str] = None,
        verbs: Optional[Sequence] = None,
    ) -> Clause:
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

    def statement(self) -> Sentence:
        """A main clause that opens with its subject, a time or a clear object."""
        clause = self.adorned(self.clause())
        fronts = ["subject", "time" if clause.time[0] else "subject"]
        fronts += [
            role
            for role in ("direct", "indirect")
            if is_clear_object(getattr(clause, role))
        ]
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
        return Sentence(
            self.clause(who, self.pick("present past"), active_verbs()), mark="?"
        )

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
            return Sentence(
                main._replace(subject=pronoun),
                joiner=joiner,
                lead=True,
                second=second._replace(subject=subject),
            )
        return Sentence(main._replace(subject=subject), joiner=joiner, second=second)

    def follow_up(self) -> Sentence:
        """Two clauses about one thing, which the second calls ihn, sie or es."""
        first, joiner, then, negated = self.pick(FOLLOW_UPS).split()
        mode, verbs = self.pick("present past"), verbs_named(then)
        main = self.draw(
            lambda c: is_noun(c.direct) and "thing" in c.direct.noun.tags,
            mode,
            verbs_named(first),
        )
        subject, thing = pronoun_of(main.subject), pronoun_of(main.direct)
        if thing.german == subject.german and (thing.german == "es" or not verbs):
            return self.follow_up()
        if verbs:
            second = Clause(subject, verbs[0], mode, thing)
        else:
            second = self.state(thing, mode, then)
            main = main._replace(direct=main.direct._replace(adjective=None))
        return Sentence(
            main, joiner=joiner, second=second._replace(negated=negated == "nicht")
        )

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
        if (
            verb.infinitive == "wissen"
            and is_definite(main.subject)
            and (self.chance(0.5))
        ):
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
            lambda c: (
                not c.direct
                if role == "indirect"
                else pronoun.german == "der" or index_of(pronoun) != index_of(c.subject)
            ),
            mode,
            verbs,
        )
        return head._replace(relative=(role, inner._replace(**{role: pronoun})))

    def relative(self) -> Sentence:
        """A relative clause about a subject, or an object that ends the sentence."""
        head = self.noun_phrase({self.pick("adult child animal thing")}, "head")
        if self.chance(0.5):
            return Sentence(self.state(self.related(head), self.pick("present past")))
        main = self.draw(
            lambda c: not c.phrase and "|" not in c.verb.infinitive,
            "present",
            verbs_for(head.noun, "direct"),
        )
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
            if (
                sentence.lead
                or sentence.front != "subject"
                or is_noun(subject)
                or subject.german != "sie_pl"
            ):
                return sentence
