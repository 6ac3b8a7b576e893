"""The kinds of sentences of the sample corpus: functions of an `Author`.

`sentence` invents a sentence of one of PATTERNS; `german` and `english` of grammar.py
spell it.
"""

import lexicon
from author import Author, is_clear_object, is_definite, is_person
from choices import (
    ACTIVITIES,
    FEELINGS,
    FOLLOW_UPS,
    PURPOSES,
    QUESTIONS,
    STATES,
    active_verbs,
    verbs_for,
    verbs_named,
)
from function_words import DETERMINERS
from grammar import Clause, NounPhrase, Pronoun, Sentence, index_of, is_noun, pronoun_of


def statement(author: Author) -> Sentence:
    """Invent a main clause that opens with its subject, a time or a clear object."""
    clause = author.adorned(author.clause())
    fronts = ["subject", "time" if clause.time[0] else "subject"]
    fronts += [
        role
        for role in ("direct", "indirect")
        if is_clear_object(getattr(clause, role))
    ]
    return Sentence(clause, author.pick(fronts))


def description(author: Author) -> Sentence:
    """Invent: Der Mann ist (nicht) alt, war älter als ..., and as a question."""
    kind = author.pick("living living thing food place furniture")
    subject = author.participant({kind}, "subject")
    clause = author.state(subject, author.pick("present past"))
    if author.chance(0.25):
        return Sentence(clause, "", "?")
    negated = is_definite(subject) and author.chance(0.25)
    return Sentence(clause._replace(negated=negated))


def yes_no_question(author: Author) -> Sentence:
    """Invent: Hat der Mann ...?"""
    return Sentence(author.clause(), "", "?")


def object_question(author: Author) -> Sentence:
    """Invent: Wen, wem, was, welchen Hund or wie viele Hunde ...?"""
    clause = author.draw(lambda c: bool(c.direct) != bool(c.indirect))
    role = "direct" if clause.direct else "indirect"
    asked, word = getattr(clause, role), ""
    if role == "direct" and is_noun(asked) and author.chance(0.6):
        word = "welch" if is_clear_object(asked) else ""
        if asked.plural and index_of(clause.subject) < 3:
            word = "wie viel"
    if word:
        asked = asked._replace(determiner=DETERMINERS[word], owner=None)
    else:
        word = "wer" if role == "indirect" or is_person(asked) else "was"
        asked = Pronoun(word, word)
    return Sentence(clause._replace(**{role: asked}), role, "?")


def adverb_question(author: Author) -> Sentence:
    """Invent: Wann, warum, wo or wohin ...?"""
    clause = author.clause()
    kind = clause.phrase and clause.phrase.case + clause.phrase.german
    word = "warum=why"
    if kind in QUESTIONS:
        word, clause = QUESTIONS[kind], clause._replace(phrase=None)
    elif clause.verb.infinitive not in STATES and author.chance(0.5):
        word = "wann=when"
    return Sentence(clause._replace(time=tuple(word.split("="))), "time", "?")


def who_question(author: Author) -> Sentence:
    """Invent: Wer ...? The word order is that of a statement."""
    who = Pronoun("wer", "wer")
    return Sentence(
        author.clause(who, author.pick("present past"), active_verbs()), mark="?"
    )


def reason(author: Author) -> Sentence:
    """Invent: weil, obwohl, wenn ... the subject feels, must do or wants to do."""
    joiner = author.pick("weil obwohl wenn")
    mode = author.pick("present past") if joiner != "wenn" else "present"
    main = author.clause(None, mode, active_verbs())
    main = main if joiner == "wenn" else author.adorned(main)._replace(time=("", ""))
    subject, pronoun = main.subject, pronoun_of(main.subject)
    if is_person(subject) and mode == "present" and author.chance(0.5):
        mode = author.pick("müssen wollen") if joiner != "wenn" else "present"
        second = author.clause(pronoun, mode, verbs_named(ACTIVITIES))
    else:
        second = author.state(pronoun, mode, author.pick(FEELINGS))
        subject = subject._replace(adjective=None) if is_noun(subject) else subject
    if joiner == "wenn" and author.chance(0.5):
        return Sentence(
            main._replace(subject=pronoun),
            joiner=joiner,
            lead=True,
            second=second._replace(subject=subject),
        )
    return Sentence(main._replace(subject=subject), joiner=joiner, second=second)


def follow_up(author: Author) -> Sentence:
    """Invent two clauses about one thing, which the second calls ihn, sie or es."""
    first, joiner, then, negated = author.pick(FOLLOW_UPS).split()
    mode, verbs = author.pick("present past"), verbs_named(then)
    main = author.draw(
        lambda c: is_noun(c.direct) and "thing" in c.direct.noun.tags,
        mode,
        verbs_named(first),
    )
    subject, thing = pronoun_of(main.subject), pronoun_of(main.direct)
    if thing.german == subject.german and (thing.german == "es" or not verbs):
        return follow_up(author)
    if verbs:
        second = Clause(subject, verbs[0], mode, thing)
    else:
        second = author.state(thing, mode, then)
        main = main._replace(direct=main.direct._replace(adjective=None))
    return Sentence(
        main, joiner=joiner, second=second._replace(negated=negated == "nicht")
    )


def report(author: Author) -> Sentence:
    """Invent dass and ob: what somebody says, hopes, knows or asks."""
    mode, verb = author.pick("present past"), author.pick(lexicon.SPEECH)
    main = Clause(author.participant(verb.subject, "subject"), verb, mode)
    mode = mode if mode == "past" or verb.infinitive == "hoffen" else None
    if author.chance(0.3):
        second = author.clause(pronoun_of(main.subject), mode, active_verbs())
    else:
        second = author.clause(None, mode)
    if verb.infinitive == "fragen":
        return Sentence(main, joiner="ob", second=second)
    if (
        verb.infinitive == "wissen"
        and is_definite(main.subject)
        and (author.chance(0.5))
    ):
        return Sentence(main._replace(negated=True), joiner="ob", second=second)
    return Sentence(main, joiner="dass", second=author.adorned(second))


def related(author: Author, head: NounPhrase) -> NounPhrase:
    """Add a relative clause whose roles are clear from case or number."""
    pronoun = pronoun_of(head, "der die das die_pl")
    role, mode = author.pick("subject direct indirect"), author.pick("present past")
    verbs = verbs_for(head.noun, role)
    if role == "subject" or not verbs:
        inner = author.clause(pronoun, mode, verbs_for(head.noun, "subject"))
        return head._replace(relative=("subject", inner))
    inner = author.draw(
        lambda c: (
            not c.direct
            if role == "indirect"
            else pronoun.german == "der" or index_of(pronoun) != index_of(c.subject)
        ),
        mode,
        verbs,
    )
    return head._replace(relative=(role, inner._replace(**{role: pronoun})))


def relative(author: Author) -> Sentence:
    """Invent a relative clause about a subject, or an object that ends the sentence."""
    head = author.noun_phrase({author.pick("adult child animal thing")}, "head")
    if author.chance(0.5):
        return Sentence(
            author.state(related(author, head), author.pick("present past"))
        )
    main = author.draw(
        lambda c: not c.phrase and "|" not in c.verb.infinitive,
        "present",
        verbs_for(head.noun, "direct"),
    )
    return Sentence(main._replace(direct=related(author, head)))


def pairing(author: Author) -> Sentence:
    """Invent two main clauses with und or aber."""
    mode = author.pick("present past")
    first, second = author.clause(None, mode), author.clause(None, mode)
    return Sentence(first, joiner=author.pick("und aber"), second=second)


def purpose(author: Author) -> Sentence:
    """Invent: um ... zu after a verb of motion."""
    main = author.clause(None, None, verbs_named("gehen fahren"))
    second = author.clause(main.subject, "um", verbs_named(PURPOSES))
    second = second._replace(phrase=None)
    return Sentence(main, joiner="um", second=second)


# The extension point for kinds of sentences: function → its share.
PATTERNS = {
    statement: 6,
    description: 2,
    yes_no_question: 1,
    object_question: 2,
    who_question: 1,
    adverb_question: 1,
    reason: 2,
    follow_up: 1,
    report: 2,
    relative: 2,
    pairing: 1,
    purpose: 1,
}
DRAWN = [pattern for pattern, share in PATTERNS.items() for _ in range(share)]


def sentence(author: Author) -> Sentence:
    """Invent a sentence that does not begin with Sie, "they": it could mean "you"."""
    while True:
        found = author.pick(DRAWN)(author)
        subject = found.main.subject
        if (
            found.lead
            or found.front != "subject"
            or is_noun(subject)
            or subject.german != "sie_pl"
        ):
            return found
