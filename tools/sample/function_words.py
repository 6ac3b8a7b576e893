"""The function words of the sample corpus: determiners, prepositions, conjunctions."""

from collections import namedtuple

from lexicon import read_rows

# `declined` names the article table, `adjective` the adjective endings it calls for.
Determiner = namedtuple("Determiner", "german declined adjective english english_pl")

# Prepositional phrases by kind: preposition, case, English, tags of its noun.
PHRASES = {
    "place": (("in", "dat", "in", "inside"), ("an", "dat", "at", "stop")),
    "at": (("an", "dat", "at", "stop,opening"),),
    "with": (("mit", "dat", "with", "person"), ("ohne", "acc", "without", "family")),
    "for": (("für", "acc", "for", "person"),),
    "from": (("von", "dat", "from", "person"),),
    "under": (("unter", "dat", "under", "cover"), ("hinter", "dat", "behind", "cover")),
    "to": (("zu", "dat", "to", "landmark,stop"),),
    "into": (("in", "acc", "into", "inside"), ("an", "acc", "to", "shore,opening")),
    "out": (("aus", "dat", "out of", "inside"),),
    "through": (("durch", "acc", "through", "wide"), ("zu", "dat", "to", "stop")),
    "onto": (
        ("auf", "acc", "on", "seat,top"),
        ("in", "acc", "into", "box"),
        ("unter", "acc", "under", "cover"),
    ),
    "on": (("auf", "dat", "on", "seat,top"), ("unter", "dat", "under", "cover")),
    "near": (
        ("vor", "dat", "in front of", "landmark"),
        ("hinter", "dat", "behind", "landmark"),
        ("neben", "dat", "next to", "landmark"),
    ),
    "home": (("in", "dat", "in", "home"),),
}

DETERMINERS = {
    row.german: row
    for row in read_rows(
        Determiner,
        """
der   der    weak   the      the
dies  dieser weak   this     these
jed   dieser weak   every    every
all   dieser weak   all      all
welch dieser weak   which    which
ein   ein    mixed  a        -
kein  ein    mixed  no       no
mein  ein    mixed  my       my
dein  ein    mixed  your     your
sein  ein    mixed  his      his
ihr   ein    mixed  her      her
unser ein    mixed  our      our
viel  dieser strong much     many
wie_viel dieser strong how_much how_many
""",
    )
}
DETERMINERS["none"] = Determiner("", "", "strong", "", "")
NUMBERS = (
    "zwei=two drei=three vier=four fünf=five sechs=six sieben=seven acht=eight "
    "neun=nine zehn=ten"
)

# Times of each tense, then those of any, and how often.
TIMES = {
    "present": "jeden Tag=every day|jeden Abend=every evening|im Sommer=in summer"
    "|im Winter=in winter|jede Woche=every week|in der Nacht=at night",
    "past": "gestern=yesterday|letzte Woche=last week"
    "|wegen des Regens=because of the rain|trotz des Regens=despite the rain"
    "|letztes Jahr=last year",
    "modal": "heute=today|morgen=tomorrow|jetzt=now|nächste Woche=next week",
    "any": "am Montag=on Monday|am Freitag=on Friday|am Sonntag=on Sunday"
    "|am Morgen=in the morning|am Abend=in the evening",
    "often": "oft=often|immer=always|manchmal=sometimes|selten=rarely|nie=never",
}
JOINERS = {
    "weil": "because",
    "obwohl": "although",
    "wenn": "when",
    "dass": "that",
    "ob": "whether",
    "und": "and",
    "aber": "but",
    "um": "",
}
PARTICLES = ("away", "on", "up")  # they follow a pronoun: picks him up
