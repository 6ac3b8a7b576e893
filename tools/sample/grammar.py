"""The grammar of the sample corpus: meanings, and how German spells them.

A sentence is a meaning (`Clause`, `Sentence`), spelled by `german` here, and by
`english` of english.py. The translation is a function of the German text: every word
has one counterpart, the perfect always becomes the simple past, and where a German form
has two readings (sie, ihr, sein) the rest of the sentence decides.

Parts that have a `mark` (see `numbered`) put it behind their words: marks.py.
"""

import itertools
import re
from collections import namedtuple
from typing import Any, Dict, Iterator, Tuple, Union

import marks
import paradigms
from lexicon import Noun, Verb
from marks import marked, plain
from paradigms import FINITE, MODALS, PRONOUNS

# Keys of the two pronoun tables, which differ: er may be "he" or "it".
Pronoun = namedtuple("Pronoun", "german english mark", defaults=("",))
# `owner` is a noun phrase in the genitive; `relative` is a (role, clause) pair.
NounPhrase = namedtuple(
    "NounPhrase",
    "determiner noun plural adjective owner relative mark",
    defaults=(False, None, None, None, ""),
)
Participant = Union[NounPhrase, Pronoun]
# A preposition, or a predicative adjective, and the noun phrase that it governs.
Phrase = namedtuple(
    "Phrase", "german case english noun_phrase mark", defaults=(None, "")
)
# `mode` is "present", "past", "um" (um ... zu) or the infinitive of a modal verb;
# `time` and `often` are (German, English) pairs.
Clause = namedtuple(
    "Clause",
    "subject verb mode direct indirect phrase negated time often mark",
    defaults=("present", None, None, None, False, ("", ""), ("", ""), ""),
)
# `front` is the role before the finite verb, "" in a yes-no question; `second` follows
# `joiner`, and opens the sentence where `lead` is true.
Sentence = namedtuple(
    "Sentence",
    "main front mark joiner second lead numbered",
    defaults=("subject", ".", "", None, False, ""),
)
PARTS = (Pronoun, NounPhrase, Phrase, Clause)


def numbered(part: Any, numbers: Iterator[int] = None) -> Any:
    """Return a sentence, or a part of it, in which each part has a mark of its own."""
    numbers = numbers or itertools.count()
    if isinstance(part, Sentence):
        main, second = numbered(part.main, numbers), numbered(part.second, numbers)
        own = marks.mark_of(next(numbers))
        return part._replace(main=main, second=second, numbered=own)
    if isinstance(part, PARTS):
        made = type(part)(*(numbered(each, numbers) for each in part))
        return made._replace(mark=marks.mark_of(next(numbers)))
    if type(part) is tuple:  # role and clause
        return tuple(numbered(each, numbers) for each in part)
    return part


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
        form = forms[("nom", "acc", "dat", "refl").index(case)]
        return marked(form, phrase.mark, marks.NOUN)
    article, adjective = phrase.determiner, phrase.adjective
    declined = ending(paradigms.ARTICLES[article.declined], case, phrase)
    first = declined if article.german == "der" else article.german + declined
    first = marked(first, phrase.mark, marks.DETERMINER, article.english)
    if article.german == "kein":
        first = marked(first, phrase.mark, marks.NEGATION)
    words = [first]
    if adjective:
        endings = paradigms.ADJECTIVE_ENDINGS[article.adjective]
        word = adjective.stem + ending(endings, case, phrase)
        words.append(marked(word, phrase.mark, marks.ADJECTIVE))
    word = german_noun(phrase.noun, case, phrase.plural)
    words.append(marked(word, phrase.mark, marks.NOUN))
    if phrase.owner:
        words.append(german_noun_phrase(phrase.owner, "gen"))
    if phrase.relative:
        role, clause = phrase.relative
        words += [",", german_subordinate(clause, "", role), ","]
    return " ".join(filter(None, words))


def german_phrase(phrase: Phrase) -> str:
    """Spell a prepositional phrase, with im for in dem, or a predicate."""
    head = marked(phrase.german, phrase.mark, marks.OTHER, phrase.english)
    if not phrase.noun_phrase:
        return head
    governed = german_noun_phrase(phrase.noun_phrase, phrase.case)
    first, *others = governed.split()
    head = f"{head} {first}"
    contraction = paradigms.CONTRACTIONS.get(plain(head))
    head = contraction + marks.marks_of(head) if contraction else head
    return " ".join([head, *others])


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
        to = marked("zu", clause.mark, marks.INFINITIVE)
        if not prefix:
            return "", "", f"{to} {marked(stem, clause.mark, marks.VERB)}"
        one = marked(prefix + "zu" + stem, clause.mark, marks.VERB)
        return "", "", marked(one, clause.mark, marks.INFINITIVE, possible=True)
    preterite = mode == "past" and {"sein": "war", "haben": "hatte"}.get(stem)
    if mode == "present" or preterite:
        finite = german_finite(preterite or stem, verb, index)
        return tuple(
            marked(word, clause.mark, marks.VERB)
            for word in (finite, prefix, prefix + finite)
        )
    if mode == "past":
        auxiliary = FINITE["sein" if verb.aux == "s" else "haben"].split()[index]
        finite = marked(auxiliary, clause.mark, marks.VERB, possible=True)
        end = marked(verb.participle, clause.mark, marks.VERB)
    else:
        finite = marked(MODALS[mode][0].split()[index], clause.mark, marks.MODAL)
        end = marked(prefix + stem, clause.mark, marks.VERB)
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
    early = [
        (role, reflexive(text, clause) if role == "reflexive" else text)
        for role, text in early
    ]
    adverbs = [
        ("often", marked(clause.often[0], clause.mark, marks.OFTEN, clause.often[1])),
        ("time", marked(clause.time[0], clause.mark, marks.TIME, clause.time[1])),
    ]
    negation = marked("nicht", clause.mark, marks.NEGATION)
    late += [
        ("not", negation if clause.negated else ""),
        ("phrase", clause.phrase and german_phrase(clause.phrase)),
    ]
    return {role: text for role, text in early + adverbs + late if text}


def reflexive(text: str, clause: Clause) -> str:
    """Return sich or the like as a part of the verb, not as the subject."""
    return marked(plain(text), clause.mark, marks.VERB, possible=True)


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
    main, front, mark, joiner, second, lead, own = sentence
    link = marked(joiner, own, marks.JOINER)
    if joiner == "um":
        link = marked(joiner, second.mark, marks.INFINITIVE, possible=True)
    if lead:
        words = [german_subordinate(second, link), ",", german_main(main, "")]
    else:
        words = [german_main(main, front), "," if joiner != "und" else ""]
        if joiner in ("und", "aber"):
            words += [link, german_main(second, "subject")]
        elif joiner:
            words += [german_subordinate(second, link)]
    return punctuate(words, mark)
