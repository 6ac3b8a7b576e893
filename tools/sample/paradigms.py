"""The paradigms of the sample corpus: the forms that words take, German and English.

Articles, the endings of adjectives, pronouns, and irregular verbs. The words themselves
are in lexicon.py and function_words.py.
"""

# In each row: masculine, feminine, neuter, plural.
ARTICLES = {
    "der": {
        "nom": "der die das die",
        "acc": "den die das die",
        "dat": "dem der dem den",
        "gen": "des der des der",
    },
    "dieser": {
        "nom": "er e es e",
        "acc": "en e es e",
        "dat": "em er em en",
        "gen": "es er es er",
    },
    "ein": {
        "nom": "- e - e",
        "acc": "en e - e",
        "dat": "em er em en",
        "gen": "es er es er",
    },
    "": {case: "- - - -" for case in ("nom", "acc", "dat", "gen")},
}
ADJECTIVE_ENDINGS = {
    "weak": {
        "nom": "e e e en",
        "acc": "en e e en",
        "dat": "en en en en",
        "gen": "en en en en",
    },
    "mixed": {
        "nom": "er e es en",
        "acc": "en e es en",
        "dat": "en en en en",
        "gen": "en en en en",
    },
    "strong": {
        "nom": "er e es e",
        "acc": "en e es e",
        "dat": "em er em en",
        "gen": "en er en er",
    },
}
CONTRACTIONS = {
    "an dem": "am",
    "an das": "ans",
    "in dem": "im",
    "in das": "ins",
    "von dem": "vom",
    "zu dem": "zum",
    "zu der": "zur",
}

FINITE = {  # irregular forms: ich, du, er, wir
    "sein": "bin bist ist sind",
    "war": "war warst war waren",
    "haben": "habe hast hat haben",
    "hatte": "hatte hattest hatte hatten",
    "wissen": "weiß weißt weiß wissen",
}
# Each modal: ich, du, er, wir; an English auxiliary; the words before the infinitive,
# of which the first is conjugated where there is no auxiliary.
MODALS = {
    "dürfen": ("darf darfst darf dürfen", "may", ""),
    "können": ("kann kannst kann können", "can", ""),
    "möchten": ("möchte möchtest möchte möchten", "would", "like to"),
    "müssen": ("muss musst muss müssen", "", "have to"),
    "sollen": ("soll sollst soll sollen", "should", ""),
    "wollen": ("will willst will wollen", "", "want to"),
}
ENGLISH_FINITE = {
    "be": "am are is are",
    "was": "was were was were",
    "have": "have have has have",
}

# Row of FINITE; nominative, accusative, dative, reflexive; possessive.
PRONOUNS = {
    "ich": (0, "ich mich mir mich", "mein"),
    "du": (1, "du dich dir dich", "dein"),
    "er": (2, "er ihn ihm sich", "sein"),
    "sie": (2, "sie sie ihr sich", "ihr"),
    "es": (2, "es es ihm sich", "sein"),
    "wir": (3, "wir uns uns uns", "unser"),
    "sie_pl": (3, "sie sie ihnen sich", "ihr"),
    "wer": (2, "wer wen wem sich", ""),
    "was": (2, "was was - -", ""),
    "der": (2, "der den dem sich", ""),
    "die": (2, "die die der sich", ""),
    "das": (2, "das das dem sich", ""),
    "die_pl": (3, "die die denen sich", ""),
}
ENGLISH_PRONOUNS = {  # subject, object, possessive
    "I": ("I", "me", "my"),
    "you": ("you", "you", "your"),
    "he": ("he", "him", "his"),
    "she": ("she", "her", "her"),
    "it": ("it", "it", "its"),
    "we": ("we", "us", "our"),
    "they": ("they", "them", "their"),
    "who": ("who", "whom", ""),
    "that": ("that", "that", ""),
    "wer": ("who", "who", ""),
    "was": ("what", "what", ""),
}
