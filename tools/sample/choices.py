"""The options of the author of the sample corpus, and how often each is chosen.

An option that is listed twice in a mix is chosen twice as often.
"""

from functools import lru_cache
from typing import FrozenSet, List

import lexicon
from lexicon import Noun, Verb

# Determiners by role, for singular (False), plural (True) and mass nouns.
MIX = {
    "subject": {
        False: "der der der der ein dies jed mein dein unser",
        True: "der der der dies viel all mein unser number",
        "mass": "der dies",
    },
    "object": {
        False: "der der der ein ein ein dies own own mein",
        True: "der der none viel number number dies own own",
        "mass": "none none none der dies",
    },
    "dative": {
        False: "der der der ein dies own own mein",
        True: "der der dies own number",
        "mass": "der",
    },
    "phrase": {False: "der der der der ein own", True: "der", "mass": "der"},
    "head": {False: "der der ein dies", True: "der dies", "mass": "der"},
    "owner": {False: "der der mein", True: "der unser", "mass": "der"},
}
PRONOUN_MIX = {  # unambiguous forms: no acc. sie, ihr only in the dative
    "subject": "ich=I ich=I du=you du=you er=he sie=she wir=we sie_pl=they",
    "object": "ich=I du=you er=he wir=we",
    "dative": "ich=I du=you er=he sie=she wir=we sie_pl=they",
}
OWNABLE = frozenset({"thing", "pet", "vehicle", "family", "unique"})
FEELINGS = "glücklich hungrig krank müde traurig"
ACTIVITIES = "arbeiten auf|stehen kochen schlafen warten"
STATES = ("brauchen", "gehören", "haben", "kennen", "lieben", "verstehen", "wohnen")
PURPOSES = "ab|holen besuchen treffen suchen helfen"
QUESTIONS = {  # question words for a phrase, by its case and preposition
    "datin": "wo=where",
    "datan": "wo=where",
    "datauf": "wo=where",
    "datunter": "wo=where",
    "dathinter": "wo=where",
    "datvor": "wo=where",
    "datneben": "wo=where",
    "datzu": "wohin=where",
    "accin": "wohin=where",
    "accan": "wohin=where",
}
# What is done to a thing, joiner, second verb or describing adjective, negation.
FOLLOW_UPS = (
    "suchen aber finden nicht",
    "suchen weil brauchen -",
    "kaufen weil brauchen -",
    "kaufen aber brauchen nicht",
    "verlieren aber finden -",
    "verkaufen weil brauchen nicht",
    "vergessen obwohl brauchen -",
    "mit|nehmen weil brauchen -",
    "kaufen weil schön -",
    "kaufen obwohl teuer -",
    "verkaufen weil alt -",
    "weg|werfen weil schmutzig -",
    "suchen obwohl alt -",
)


@lru_cache(maxsize=None)
def nouns_for(tags: FrozenSet[str]) -> List[Noun]:
    """Return the nouns that carry one of `tags`, which may be names of CLASSES."""
    wanted = {
        tag for name in tags for tag in lexicon.CLASSES.get(name, name).split(",")
    }
    return [noun for noun in lexicon.NOUNS if noun.tags & wanted]


def verbs_named(infinitives: str) -> List[Verb]:
    """Return the verbs with these infinitives."""
    return [verb for verb in lexicon.VERBS if verb.infinitive in infinitives.split()]


def verbs_for(noun: Noun, role: str) -> List[Verb]:
    """Return the verbs that can have `noun` as their "subject" or "direct" object."""
    return [verb for verb in lexicon.VERBS if noun in nouns_for(getattr(verb, role))]


def active_verbs() -> List[Verb]:
    """Return the verbs for actions of living beings, not for what they have or know."""
    return [
        verb
        for verb in lexicon.VERBS
        if verb.subject & {"person", "living"} and verb.infinitive not in STATES
    ]
