"""The sample corpus: its grammar against pairs written by hand, its files by count."""
import io
import os
import re
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "scripts"))

import make_sample as ms  # noqa: E402
import sample_lexicon as lexicon  # noqa: E402

SAMPLE = os.path.join(ROOT, "data", "sample")
SIZES = {"train": 20000, "dev": 500, "test": 500}


# Meanings, built by hand


def only(rows, german):
    """The one row of a table with this German word or infinitive."""
    found, = [row for row in rows if row[0] == german]
    return found


def noun(article, german, adjective="", plural=False, owner=None, relative=None):
    """A noun phrase: noun("ein", "Apfel", "rot")."""
    return ms.NounPhrase(
        lexicon.DETERMINERS[article], only(lexicon.NOUNS, german), plural,
        only(lexicon.ADJECTIVES, adjective) if adjective else None, owner, relative)


def clause(subject, infinitive, mode="present", **roles):
    """A clause; `phrase` may be the word of a predicate."""
    if infinitive == "sein":
        verb = lexicon.COPULA
    else:
        verb = only(lexicon.VERBS + lexicon.SPEECH, infinitive)
    return ms.Clause(subject, verb, mode, **roles)


def where(kind, preposition, phrase):
    """A prepositional phrase of the lexicon."""
    german, case, english, _ = only(lexicon.PHRASES[kind], preposition)
    return ms.Phrase(german, case, english, phrase)


ICH, DU, WIR = (ms.Pronoun(*pair) for pair in (("ich", "I"), ("du", "you"), ("wir", "we")))
ER, SIE, ES = (ms.Pronoun(*pair) for pair in (("er", "he"), ("sie", "she"), ("es", "it")))
THEY, WHO, WHAT = (ms.Pronoun("sie_pl", "they"), ms.Pronoun("wer", "wer"),
                   ms.Pronoun("was", "was"))
MAN, WOMAN, CHILD = noun("der", "Mann"), noun("der", "Frau"), noun("der", "Kind")
YESTERDAY, SUMMER = ("gestern", "yesterday"), ("im Sommer", "in summer")
TIRED = ms.Phrase("müde", "", "tired")
S, C = ms.Sentence, clause

GOLDEN = [
    # Perfect, three cases, weak and mixed endings, two objects.
    (S(C(noun("der", "Mann", "alt"), "geben", "past",
         indirect=noun("der", "Kind", "klein"), direct=noun("ein", "Apfel", "rot"))),
     "Der alte Mann hat dem kleinen Kind einen roten Apfel gegeben.",
     "The old man gave the small child a red apple."),
    # A perfect with sein, im, a fronted time and verb-second order.
    (S(C(WIR, "ein|schlafen", "past", time=YESTERDAY,
         phrase=where("place", "in", noun("der", "Garten"))), "time"),
     "Gestern sind wir im Garten eingeschlafen.",
     "Yesterday we fell asleep in the garden."),
    # A separable verb in a main clause, a question, and verb-final.
    (S(C(WOMAN, "an|rufen", direct=noun("mein", "Bruder"))),
     "Die Frau ruft meinen Bruder an.", "The woman calls my brother."),
    (S(C(DU, "ab|holen", direct=ER), "", "?"),
     "Holst du ihn ab?", "Do you pick him up?"),
    (S(C(CHILD, "weinen"), joiner="weil", second=C(noun("der", "Mutter"), "an|kommen")),
     "Das Kind weint, weil die Mutter ankommt.",
     "The child cries because the mother arrives."),
    (S(C(MAN, "fahren", phrase=where("to", "zu", noun("der", "Schule"))),
       joiner="um", second=C(MAN, "um", "um")._replace(
           verb=only(lexicon.VERBS, "ab|holen"), direct=noun("der", "Junge"))),
     "Der Mann fährt zur Schule, um den Jungen abzuholen.",
     "The man drives to the school to pick up the boy."),
    # A fronted object, which only its case gives away; the genitive.
    (S(C(CHILD, "suchen", direct=noun("der", "Hund", "schwarz")), "direct"),
     "Den schwarzen Hund sucht das Kind.", "The child looks for the black dog."),
    (S(C(WOMAN, "helfen", "past", indirect=noun("der", "Onkel")), "indirect"),
     "Dem Onkel hat die Frau geholfen.", "The woman helped the uncle."),
    (S(C(noun("der", "Auto", "neu", owner=noun("der", "Lehrer", "alt")), "sein", "past",
         phrase=ms.Phrase("schöner als", "nom", "more beautiful than",
                          noun("der", "Boot") if False else noun("ein", "Fahrrad")))),
     "Das neue Auto des alten Lehrers war schöner als ein Fahrrad.",
     "The old teacher's new car was more beautiful than a bicycle."),
    (S(C(ICH, "haben", "past", direct=noun("der", "Tasche", owner=noun(
        "der", "Frau", plural=True)))),
     "Ich hatte die Tasche der Frauen.", "I had the women's bag."),
    # Negation: nicht, kein with do, kein as no, and a copula.
    (S(C(MAN, "lesen", direct=noun("der", "Buch"), negated=True)),
     "Der Mann liest das Buch nicht.", "The man does not read the book."),
    (S(C(SIE, "trinken", "past", direct=noun("kein", "Milch", "kalt"))),
     "Sie hat keine kalte Milch getrunken.", "She did not drink any cold milk."),
    (S(C(ER, "kaufen", direct=noun("kein", "Ei"))),
     "Er kauft kein Ei.", "He does not buy an egg."),
    (S(C(noun("kein", "Hund"), "schlafen")), "Kein Hund schläft.", "No dog sleeps."),
    (S(C(ICH, "sein", phrase=TIRED, negated=True)),
     "Ich bin nicht müde.", "I am not tired."),
    # Modal verbs.
    (S(C(DU, "auf|stehen", "müssen", negated=True)),
     "Du musst nicht aufstehen.", "You do not have to get up."),
    (S(C(CHILD, "schwimmen" if False else "schlafen", "können", negated=True)),
     "Das Kind kann nicht schlafen.", "The child cannot sleep."),
    (S(C(WIR, "besuchen", "möchten", direct=noun("unser", "Tante")), "", "?"),
     "Möchten wir unsere Tante besuchen?", "Would we like to visit our aunt?"),
    (S(C(ER, "gehen", "wollen", phrase=where("into", "an", noun("der", "Fenster")))),
     "Er will ans Fenster gehen.", "He wants to go to the window."),
    # Questions.
    (S(C(WHO, "sehen", "past", direct=noun("der", "Student"))._replace(), mark="?"),
     "Wer hat den Studenten gesehen?", "Who saw the student?"),
    (S(C(noun("dein", "Schwester"), "suchen", direct=WHO), "direct", "?"),
     "Wen sucht deine Schwester?", "Who does your sister look for?"),
    (S(C(MAN, "danken", "past", indirect=WHO), "indirect", "?"),
     "Wem hat der Mann gedankt?", "Who did the man thank?"),
    (S(C(noun("jed", "Junge"), "essen", direct=WHAT), "direct", "?"),
     "Was isst jeder Junge?", "What does every boy eat?"),
    (S(C(SIE, "kaufen", "past", direct=noun("wie viel", "Apfel", plural=True)),
       "direct", "?"),
     "Wie viele Äpfel hat sie gekauft?", "How many apples did she buy?"),
    (S(C(ICH, "tragen", "sollen", direct=noun("welch", "Mantel", "warm")), "direct", "?"),
     "Welchen warmen Mantel soll ich tragen?", "Which warm coat should I wear?"),
    (S(C(THEY, "wohnen", time=("wo", "where")), "time", "?"),
     "Wo wohnen sie?", "Where do they live?"),
    # Subordinate clauses; the clause may come first.
    (S(C(ER, "kochen"), joiner="wenn", lead=True, second=C(MAN, "sein", phrase=TIRED)),
     "Wenn der Mann müde ist, kocht er.", "When the man is tired, he cooks."),
    (S(C(WOMAN, "sagen", "past"), joiner="dass",
       second=C(SIE, "verlieren", "past", direct=noun("der", "Schlüssel", plural=True))),
     "Die Frau hat gesagt, dass sie die Schlüssel verloren hat.",
     "The woman said that she lost the keys."),
    (S(C(ICH, "wissen", negated=True), joiner="ob",
       second=C(ER, "auf|räumen", "müssen", direct=noun("der", "Küche"))),
     "Ich weiß nicht, ob er die Küche aufräumen muss.",
     "I do not know whether he has to tidy the kitchen."),
    # sie is she, it or they: the verb and the noun before it decide.
    (S(C(WOMAN, "kaufen", direct=noun("ein", "Lampe")), joiner="weil",
       second=C(SIE, "brauchen", direct=ms.pronoun_of(noun("ein", "Lampe")))),
     "Die Frau kauft eine Lampe, weil sie sie braucht.",
     "The woman buys a lamp because she needs it."),
    (S(C(noun("", "Hut") if False else noun("der", "Kind", plural=True), "suchen", "past",
         direct=noun("viel", "Schuh", plural=True)), joiner="aber",
       second=C(THEY, "finden", "past", direct=THEY, negated=True)),
     "Die Kinder haben viele Schuhe gesucht, aber sie haben sie nicht gefunden.",
     "The children looked for many shoes, but they did not find them."),
    # Relative clauses in three cases, and the commas around them.
    (S(C(noun("der", "Frau", relative=("subject", C(
        ms.Pronoun("die", "who"), "warten"))), "sein", phrase=TIRED)),
     "Die Frau, die wartet, ist müde.", "The woman who waits is tired."),
    (S(C(ICH, "lesen", direct=noun("der", "Brief", relative=("direct", C(
        SIE, "schreiben", "past", direct=ms.Pronoun("der", "that")))))),
     "Ich lese den Brief, den sie geschrieben hat.",
     "I read the letter that she wrote."),
    (S(C(noun("dies", "Mädchen", plural=True, relative=("indirect", C(
        ER, "helfen", indirect=ms.Pronoun("die_pl", "who")))), "lachen")),
     "Diese Mädchen, denen er hilft, lachen.", "These girls whom he helps laugh."),
    # Reflexive verbs; plurals in the dative; weak nouns.
    (S(C(DU, "sich beeilen", "past")), "Du hast dich beeilt.", "You hurried."),
    (S(C(noun("der", "Arzt"), "sich aus|ruhen")),
     "Der Arzt ruht sich aus.", "The doctor rests."),
    (S(C(noun("der", "Nachbar", plural=True), "folgen", "past",
         indirect=noun("all", "Kind", "arm", plural=True))),
     "Die Nachbarn sind allen armen Kindern gefolgt.",
     "The neighbours followed all poor children."),
    (S(C(noun("mein", "Nachbar", "nett"), "zeigen", direct=noun("none", "Bild", "alt", True),
         indirect=noun("der", "Polizist"), often=("oft", "often"))),
     "Mein netter Nachbar zeigt oft dem Polizisten alte Bilder.",
     "My nice neighbour often shows the policeman old pictures."),
    # Prepositions with the accusative of motion.
    (S(C(SIE, "legen", direct=noun("ein", "Messer"), time=SUMMER,
         phrase=where("onto", "auf", noun("der", "Tisch"))), "time"),
     "Im Sommer legt sie ein Messer auf den Tisch.",
     "In summer she puts a knife on the table."),
    (S(C(MAN, "gehen", "past", phrase=where("into", "in", noun("der", "Kino")))),
     "Der Mann ist ins Kino gegangen.", "The man went into the cinema."),
    (S(C(noun("der", "Bauer" if False else "König"), "kommen", "past",
         phrase=where("out", "aus", noun("ein", "Kirche", "dunkel" if False else "alt")))),
     "Der König ist aus einer alten Kirche gekommen.",
     "The king came out of an old church."),
]
