"""The sample corpus: its grammar against pairs written by hand, its files by count."""

import filecmp
import io
import os
import re

import function_words
import grammar
import lexicon
import make_sample
import marks
import paradigms
import patterns
import pytest
from author import Author
from english import english
from grammar import Clause, NounPhrase, Phrase, Pronoun, Sentence

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SAMPLE = os.path.join(ROOT, "data", "sample")
SIZES = {"train": 20000, "dev": 500, "test": 500}


def test_other_text_is_not_overwritten(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(make_sample, "SIZES", (("train", 9), ("dev", 1)))
    make_sample.main(["--out", str(tmp_path)])
    make_sample.main(["--out", str(tmp_path)])  # the same again
    mine = tmp_path / "dev.de"
    before = mine.read_bytes()
    mine.write_bytes(b"mine\n")
    with pytest.raises(SystemExit):
        make_sample.main(["--out", str(tmp_path)])
    assert "dev.de: found other text" in capsys.readouterr().err
    assert mine.read_bytes() == b"mine\n" != before


# Meanings, built by hand


def row(table, german):
    """The row of a table whose first cell is this German word."""
    return next(one for one in table if one[0] == german)


def noun(article, german, adjective="", plural=False, owner=None, relative=None):
    """A noun phrase: noun("ein", "Apfel", "rot")."""
    return NounPhrase(
        function_words.DETERMINERS[article],
        row(lexicon.NOUNS, german),
        plural,
        row(lexicon.ADJECTIVES, adjective) if adjective else None,
        owner,
        relative,
    )


def nouns(article, german, adjective="", **more):
    """The same in the plural."""
    return noun(article, german, adjective, True, **more)


def clause(subject, infinitive, mode="present", **roles):
    """A clause: clause(MAN, "lesen", direct=noun("ein", "Buch"))."""
    verbs = lexicon.VERBS + lexicon.SPEECH + [lexicon.COPULA]
    return Clause(subject, row(verbs, infinitive), mode, **roles)


def phrase(kind, preposition, noun_phrase):
    """A prepositional phrase out of the lexicon."""
    german, case, meaning, _ = row(function_words.PHRASES[kind], preposition)
    return Phrase(german, case, meaning, noun_phrase)


ICH, DU, ER = Pronoun("ich", "I"), Pronoun("du", "you"), Pronoun("er", "he")
SIE, WIR, THEY = Pronoun("sie", "she"), Pronoun("wir", "we"), Pronoun("sie_pl", "they")
IT, WHO, WHAT = Pronoun("sie", "it"), Pronoun("wer", "wer"), Pronoun("was", "was")
DEN, DIE = Pronoun("der", "that"), Pronoun("die", "who")
DENEN = Pronoun("die_pl", "who")
MAN, WOMAN, CHILD = noun("der", "Mann"), noun("der", "Frau"), noun("der", "Kind")
TIRED = Phrase("müde", "", "tired")

GOLDEN = {
    # The perfect; three cases; weak and mixed endings; two objects.
    (
        "Der alte Mann hat dem kleinen Kind einen roten Apfel gegeben.",
        "The old man gave the small child a red apple.",
    ): Sentence(
        clause(
            noun("der", "Mann", "alt"),
            "geben",
            "past",
            direct=noun("ein", "Apfel", "rot"),
            indirect=noun("der", "Kind", "klein"),
        )
    ),
    # A perfect with sein; im; the verb second after a fronted time.
    (
        "Gestern sind wir im Garten eingeschlafen.",
        "Yesterday we fell asleep in the garden.",
    ): Sentence(
        clause(
            WIR,
            "ein|schlafen",
            "past",
            time=("gestern", "yesterday"),
            phrase=phrase("place", "in", noun("der", "Garten")),
        ),
        "time",
    ),
    # A separable verb in a main clause, a question, verb-final and with zu.
    ("Die Frau ruft meinen Bruder an.", "The woman calls my brother."): Sentence(
        clause(WOMAN, "an|rufen", direct=noun("mein", "Bruder"))
    ),
    ("Holst du ihn ab?", "Do you pick him up?"): Sentence(
        clause(DU, "ab|holen", direct=ER), "", "?"
    ),
    (
        "Das Kind weint, weil die Mutter ankommt.",
        "The child cries because the mother arrives.",
    ): Sentence(
        clause(CHILD, "weinen"),
        joiner="weil",
        second=clause(noun("der", "Mutter"), "an|kommen"),
    ),
    (
        "Der Mann fährt zur Schule, um den Jungen abzuholen.",
        "The man drives to the school to pick up the boy.",
    ): Sentence(
        clause(MAN, "fahren", phrase=phrase("to", "zu", noun("der", "Schule"))),
        joiner="um",
        second=clause(MAN, "ab|holen", "um", direct=noun("der", "Junge")),
    ),
    # An object before the verb, which its case gives away.
    (
        "Den schwarzen Hund sucht das Kind.",
        "The child looks for the black dog.",
    ): Sentence(
        clause(CHILD, "suchen", direct=noun("der", "Hund", "schwarz")), "direct"
    ),
    ("Dem Onkel hat die Frau geholfen.", "The woman helped the uncle."): Sentence(
        clause(WOMAN, "helfen", "past", indirect=noun("der", "Onkel")), "indirect"
    ),
    # The genitive; a comparison; war and hatte.
    (
        "Das neue Auto des alten Lehrers war schöner als ein Fahrrad.",
        "The old teacher's new car was more beautiful than a bicycle.",
    ): Sentence(
        clause(
            noun("der", "Auto", "neu", owner=noun("der", "Lehrer", "alt")),
            "sein",
            "past",
            phrase=Phrase(
                "schöner als", "nom", "more beautiful than", noun("ein", "Fahrrad")
            ),
        )
    ),
    ("Ich hatte die Tasche der Frauen.", "I had the women's bag."): Sentence(
        clause(
            ICH,
            "haben",
            "past",
            direct=noun("der", "Tasche", owner=nouns("der", "Frau")),
        )
    ),
    # Negation with nicht and with kein.
    ("Der Mann liest das Buch nicht.", "The man does not read the book."): Sentence(
        clause(MAN, "lesen", direct=noun("der", "Buch"), negated=True)
    ),
    (
        "Sie hat keine kalte Milch getrunken.",
        "She did not drink any cold milk.",
    ): Sentence(clause(SIE, "trinken", "past", direct=noun("kein", "Milch", "kalt"))),
    ("Er kauft kein Ei.", "He does not buy an egg."): Sentence(
        clause(ER, "kaufen", direct=noun("kein", "Ei"))
    ),
    ("Kein Hund schläft.", "No dog sleeps."): Sentence(
        clause(noun("kein", "Hund"), "schlafen")
    ),
    ("Ich bin nicht müde.", "I am not tired."): Sentence(
        clause(ICH, "sein", phrase=TIRED, negated=True)
    ),
    # Modal verbs.
    ("Du musst nicht aufstehen.", "You do not have to get up."): Sentence(
        clause(DU, "auf|stehen", "müssen", negated=True)
    ),
    ("Das Kind kann nicht schlafen.", "The child cannot sleep."): Sentence(
        clause(CHILD, "schlafen", "können", negated=True)
    ),
    (
        "Möchten wir unsere Tante besuchen?",
        "Would we like to visit our aunt?",
    ): Sentence(
        clause(WIR, "besuchen", "möchten", direct=noun("unser", "Tante")), "", "?"
    ),
    ("Er will ans Fenster gehen.", "He wants to go to the window."): Sentence(
        clause(
            ER, "gehen", "wollen", phrase=phrase("into", "an", noun("der", "Fenster"))
        )
    ),
    # Questions.
    ("Wer hat den Studenten gesehen?", "Who saw the student?"): Sentence(
        clause(WHO, "sehen", "past", direct=noun("der", "Student")), mark="?"
    ),
    ("Wen sucht deine Schwester?", "Who does your sister look for?"): Sentence(
        clause(noun("dein", "Schwester"), "suchen", direct=WHO), "direct", "?"
    ),
    ("Wem hat der Mann gedankt?", "Who did the man thank?"): Sentence(
        clause(MAN, "danken", "past", indirect=WHO), "indirect", "?"
    ),
    ("Was isst jeder Junge?", "What does every boy eat?"): Sentence(
        clause(noun("jed", "Junge"), "essen", direct=WHAT), "direct", "?"
    ),
    ("Wie viele Äpfel hat sie gekauft?", "How many apples did she buy?"): Sentence(
        clause(SIE, "kaufen", "past", direct=nouns("wie viel", "Apfel")), "direct", "?"
    ),
    (
        "Welchen warmen Mantel soll ich tragen?",
        "Which warm coat should I wear?",
    ): Sentence(
        clause(ICH, "tragen", "sollen", direct=noun("welch", "Mantel", "warm")),
        "direct",
        "?",
    ),
    ("Wo wohnen sie?", "Where do they live?"): Sentence(
        clause(THEY, "wohnen", time=("wo", "where")), "time", "?"
    ),
    # Subordinate clauses, of which one comes first.
    ("Wenn der Mann müde ist, kocht er.", "When the man is tired, he cooks."): Sentence(
        clause(ER, "kochen"),
        joiner="wenn",
        lead=True,
        second=clause(MAN, "sein", phrase=TIRED),
    ),
    (
        "Die Frau hat gesagt, dass sie die Schlüssel verloren hat.",
        "The woman said that she lost the keys.",
    ): Sentence(
        clause(WOMAN, "sagen", "past"),
        joiner="dass",
        second=clause(SIE, "verlieren", "past", direct=nouns("der", "Schlüssel")),
    ),
    (
        "Ich weiß nicht, ob er die Küche aufräumen muss.",
        "I do not know whether he has to tidy the kitchen.",
    ): Sentence(
        clause(ICH, "wissen", negated=True),
        joiner="ob",
        second=clause(ER, "auf|räumen", "müssen", direct=noun("der", "Küche")),
    ),
    ("Er arbeitet, obwohl er müde ist.", "He works although he is tired."): Sentence(
        clause(ER, "arbeiten"), joiner="obwohl", second=clause(ER, "sein", phrase=TIRED)
    ),
    # sie is she, it or they: the verb and what it refers to decide.
    (
        "Die Frau kauft eine Lampe, weil sie sie braucht.",
        "The woman buys a lamp because she needs it.",
    ): Sentence(
        clause(WOMAN, "kaufen", direct=noun("ein", "Lampe")),
        joiner="weil",
        second=clause(SIE, "brauchen", direct=IT),
    ),
    (
        "Die Kinder haben viele Schuhe gesucht, aber sie haben sie nicht gefunden.",
        "The children looked for many shoes, but they did not find them.",
    ): Sentence(
        clause(nouns("der", "Kind"), "suchen", "past", direct=nouns("viel", "Schuh")),
        joiner="aber",
        second=clause(THEY, "finden", "past", direct=THEY, negated=True),
    ),
    # Relative clauses in three cases.
    ("Die Frau, die wartet, ist müde.", "The woman who waits is tired."): Sentence(
        clause(
            noun("der", "Frau", relative=("subject", clause(DIE, "warten"))),
            "sein",
            phrase=TIRED,
        )
    ),
    (
        "Ich lese den Brief, den sie geschrieben hat.",
        "I read the letter that she wrote.",
    ): Sentence(
        clause(
            ICH,
            "lesen",
            direct=noun(
                "der",
                "Brief",
                relative=("direct", clause(SIE, "schreiben", "past", direct=DEN)),
            ),
        )
    ),
    (
        "Diese Mädchen, denen er hilft, lachen.",
        "These girls whom he helps laugh.",
    ): Sentence(
        clause(
            nouns(
                "dies",
                "Mädchen",
                relative=("indirect", clause(ER, "helfen", indirect=DENEN)),
            ),
            "lachen",
        )
    ),
    # Reflexive verbs; an adverb between verb and objects; datives of the plural.
    ("Du hast dich beeilt.", "You hurried."): Sentence(
        clause(DU, "sich beeilen", "past")
    ),
    ("Der Arzt ruht sich aus.", "The doctor rests."): Sentence(
        clause(noun("der", "Arzt"), "sich aus|ruhen")
    ),
    (
        "Mein netter Nachbar zeigt oft dem Polizisten alte Bilder.",
        "My nice neighbour often shows the policeman old pictures.",
    ): Sentence(
        clause(
            noun("mein", "Nachbar", "nett"),
            "zeigen",
            direct=nouns("none", "Bild", "alt"),
            indirect=noun("der", "Polizist"),
            often=("oft", "often"),
        )
    ),
    (
        "Die Nachbarn sind allen armen Kindern gefolgt.",
        "The neighbours followed all poor children.",
    ): Sentence(
        clause(
            nouns("der", "Nachbar"),
            "folgen",
            "past",
            indirect=nouns("all", "Kind", "arm"),
        )
    ),
    # The accusative says whereto, the dative where.
    (
        "Im Sommer legt sie ein Messer auf den Tisch.",
        "In summer she puts a knife on the table.",
    ): Sentence(
        clause(
            SIE,
            "legen",
            direct=noun("ein", "Messer"),
            time=("im Sommer", "in summer"),
            phrase=phrase("onto", "auf", noun("der", "Tisch")),
        ),
        "time",
    ),
    ("Der Mann ist ins Kino gegangen.", "The man went into the cinema."): Sentence(
        clause(MAN, "gehen", "past", phrase=phrase("into", "in", noun("der", "Kino")))
    ),
    ("Ein Vogel sitzt auf einer neuen Bank.", "A bird sits on a new bench."): Sentence(
        clause(
            noun("ein", "Vogel"),
            "sitzen",
            phrase=phrase("on", "auf", noun("ein", "Bank", "neu")),
        )
    ),
}


@pytest.mark.parametrize("pair", sorted(GOLDEN))
def test_a_meaning_is_spelled_as_by_hand(pair):
    sentence = GOLDEN[pair]
    assert (grammar.german(sentence), english(sentence)) == pair


@pytest.mark.parametrize(
    "phrase, nominative, accusative, dative, genitive",
    [
        (
            noun("der", "Mann", "alt"),
            "der alte Mann",
            "den alten Mann",
            "dem alten Mann",
            "des alten Mannes",
        ),
        (
            noun("ein", "Junge", "klein"),
            "ein kleiner Junge",
            "einen kleinen Jungen",
            "einem kleinen Jungen",
            "eines kleinen Jungen",
        ),
        (
            noun("kein", "Frau", "arm"),
            "keine arme Frau",
            "keine arme Frau",
            "keiner armen Frau",
            "keiner armen Frau",
        ),
        (
            noun("unser", "Haus", "groß"),
            "unser großes Haus",
            "unser großes Haus",
            "unserem großen Haus",
            "unseres großen Hauses",
        ),
        (
            noun("dies", "Buch", "teuer"),
            "dieses teure Buch",
            "dieses teure Buch",
            "diesem teuren Buch",
            "dieses teuren Buches",
        ),
        (
            noun("none", "Kaffee", "kalt"),
            "kalter Kaffee",
            "kalten Kaffee",
            "kaltem Kaffee",
            "kalten Kaffees",
        ),
        (
            nouns("der", "Hund", "müde"),
            "die müden Hunde",
            "die müden Hunde",
            "den müden Hunden",
            "der müden Hunde",
        ),
        (
            nouns("viel", "Auto", "alt"),
            "viele alte Autos",
            "viele alte Autos",
            "vielen alten Autos",
            "vieler alter Autos",
        ),
    ],
)
def test_declension(phrase, nominative, accusative, dative, genitive):
    spelled = [
        grammar.german_noun_phrase(phrase, case)
        for case in ("nom", "acc", "dat", "gen")
    ]
    assert spelled == [nominative, accusative, dative, genitive]


# The files


def read(split, language):
    """The lines of one checked-in file."""
    path = os.path.join(SAMPLE, split + "." + language)
    with io.open(path, encoding="utf-8", newline="\n") as file:
        return file.read().split("\n")[:-1]


@pytest.fixture(scope="module")
def pairs():
    """{split: [(German, English)]} as checked in."""
    return {split: list(zip(read(split, "de"), read(split, "en"))) for split in SIZES}


def forms(pairs):
    """All German word forms, in lower case, one for each time they occur."""
    return re.findall(r"[^\W\d_]+", " ".join(german for german, _ in pairs).lower())


def test_the_files_are_what_the_script_writes(tmp_path):
    make_sample.main(["--out", str(tmp_path)])
    names = [split + "." + language for split in SIZES for language in ("de", "en")]
    names += ["dev.align", "test.align"]
    same = filecmp.cmpfiles(str(tmp_path), SAMPLE, names, shallow=False)
    assert same == (names, [], [])


# Pairs of words


@pytest.mark.parametrize(
    "german, english, wanted",
    [
        (
            "Was hat meine Tochter unter die schöne Brücke gelegt?",
            "What did my daughter put under the beautiful bridge?",
            "0-0 1?1 1?4 2-2 3-3 4-5 5-6 6-7 7-8 8?1 8-4",
        ),
        (
            "Der Koffer, der den Freundinnen gehört, ist teuer.",
            "The suitcase that belongs to the friends is expensive.",
            "0-0 1-1 2-2 3-5 4-6 5-3 5-4 6-7 7-8",
        ),
        (
            "Die Jungen haben mir nie geantwortet.",
            "The boys never answered me.",
            "0-0 1-1 2?3 3-4 4-2 5-3",
        ),
        (
            "Die Frau erzählt dem Jungen die lange Geschichte, wenn sie im Zimmer "
            "schläft.",
            "The woman tells the boy the long story when she sleeps in the room.",
            "0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7 8-8 9-9 10-11 10-12 11-13 12-10",
        ),
        (
            "Sie muss sich nicht beeilen.",
            "She does not have to hurry.",
            "0-0 1?1 1-3 1-4 2?5 3-2 4-5",
        ),
        (
            "Diese Männer kochen in der Nacht.",
            "These men cook at night.",
            "0-0 1-1 2-2 3-3 4-3 5-4",
        ),
    ],
)
def test_words_correspond_as_by_hand(pairs, german, english, wanted):
    number = pairs["dev"].index((german, english))
    with open(os.path.join(SAMPLE, "dev.align"), encoding="utf-8") as file:
        assert file.read().splitlines()[number] == wanted


def sentence_with(main, **more):
    return make_sample.alignment(Sentence(main, **more))


def test_words_that_negate_own_and_want_correspond():
    verb = row(lexicon.VERBS, "sehen")
    man, dog = noun("der", "Mann"), noun("kein", "Hund")
    # Der Mann sieht keinen Hund. The man does not see a dog.
    found = sentence_with(Clause(man, verb, "present", dog))
    assert found == "0-0 1-1 2?2 2-4 3-3 3-5 4-6"
    # Der Hund des Mannes kann ... nicht sehen. The man's dog cannot see the father.
    owned = noun("der", "Hund", owner=man)
    clause = Clause(owned, verb, "können", noun("der", "Vater"), negated=True)
    assert sentence_with(clause) == "0?1 1-2 2-0 3-1 4-3 5-5 6-6 7-3 8-4"
    # Der Mann geht, um den Vater zu sehen. The man goes to see the father.
    walks = Clause(man, row(lexicon.VERBS, "gehen"))
    purpose = Clause(man, verb, "um", noun("der", "Vater"))
    found = sentence_with(walks, joiner="um", second=purpose)
    assert found == "0-0 1-1 2-2 3?3 4-5 5-6 6-3 7-4"


def test_marks_change_no_text():
    author = Author(5)
    for _ in range(3000):
        sentence = patterns.sentence(author)
        numbered = grammar.numbered(sentence)
        for spell in (grammar.german, english):
            assert marks.plain(spell(numbered)) == spell(sentence)
            assert marks.marks_of(spell(numbered)) and not marks.marks_of(
                spell(sentence)
            )


def test_all_words_but_few_have_counterparts(pairs):
    """Words of one language alone are few: articles, und so weiter."""
    for split in ("dev", "test"):
        with open(os.path.join(SAMPLE, split + ".align"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        assert len(lines) == len(pairs[split])
        words, linked = 0, 0
        for pair, line in zip(pairs[split], lines):
            found = [map(int, re.split("[-?]", each)) for each in line.split()]
            for text, ends in zip(pair, zip(*found)):
                assert max(ends) < len(text.split())
                words, linked = words + len(text.split()), linked + len(set(ends))
        assert 0.98 * words < linked <= words


def test_a_sentence_has_only_so_many_parts():
    with pytest.raises(ValueError, match="found 100 parts"):
        marks.mark_of(100)


def test_the_seed_makes_the_corpus():
    first, again, other = (Author(seed) for seed in (3, 3, 4))
    drawn = [
        [grammar.german(patterns.sentence(author)) for _ in range(50)]
        for author in (first, again, other)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_sizes_and_no_sentence_twice(pairs):
    assert {split: len(lines) for split, lines in pairs.items()} == SIZES
    assert [len(read(split, "en")) for split in SIZES] == list(SIZES.values())
    german = [german for lines in pairs.values() for german, _ in lines]
    assert len(set(german)) == len(german) == sum(SIZES.values())


def test_words(pairs):
    known = set(forms(pairs["train"]))
    assert 800 <= len(known) <= 1200
    assert known.issuperset(forms(pairs["dev"] + pairs["test"]))
    count = {form: 0 for form in known}
    for form in forms(pairs["train"]):
        count[form] += 1
    for one in lexicon.NOUNS:
        spelled = {one.german, one.genitive, one.plural, one.plural + "n"}
        assert sum(count.get(form.lower(), 0) for form in spelled) >= 30, one.german
    for one in lexicon.VERBS:
        stem = one.infinitive.rpartition("|")[2].replace("sich ", "")
        spelled = {stem, stem[:-1], one.du, one.er, one.participle}
        assert sum(count.get(form, 0) for form in spelled) >= 30, one.infinitive


def test_lengths(pairs):
    lengths = [len(german.split()) for german, _ in pairs["train"]]
    assert (min(lengths), max(lengths)) == (3, 18)
    assert 7.5 <= sum(lengths) / len(lengths) <= 9


def test_spelling(pairs):
    jung = {"junge", "jungen"}  # the adjective
    nouns = {
        form.lower()
        for one in lexicon.NOUNS
        for form in (one.german, one.plural)
        if form
    } - jung
    for german, spelled in (pair for lines in pairs.values() for pair in lines):
        for text in (german, spelled):
            assert re.match(r"[A-ZÄÖÜ][^.?]*[^ ,.?][.?]$", text), text
            assert "  " not in text and " ," not in text and ",," not in text, text
        assert german[-1] == spelled[-1], german
        assert not nouns.intersection(german.split()), german
        assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]", spelled), spelled


def test_no_sentence_opens_with_a_plural_sie(pairs):
    # Sie gehen could be "they go" or a polite "you go"; Sie geht is "she goes".
    plurals = (
        {verb.infinitive.rpartition("|")[2] for verb in lexicon.VERBS}
        | {"haben", "hatten", "sind", "waren"}
        | set(paradigms.MODALS)
    )
    opened = [
        german.split()[1]
        for lines in pairs.values()
        for german, _ in lines
        if german.startswith("Sie ")
    ]
    assert opened and not plurals.intersection(opened)


@pytest.mark.parametrize(
    "pattern",
    [
        r" (den|einen|keinen|meinen) \w+en [A-Z]",
        r" (dem|einem|meinem) \w+en [A-Z]",
        r" des \w+en [A-Z]\w+s\b",
        r"^(Ein|Kein|Mein) \w+er [A-Z]",
        r"^Das \w+e [A-Z]",
        r" (im|am|zum|zur|ins|vom|ans) ",
        r" an\.$",
        r" (ab|auf)zu\w+en\.$",
        r"ge\w+t\.$",
        r" (ist|sind) .*gegangen\b",
        r"^(Gestern|Am Montag) (hat|haben) ",
        r"^Den [A-Z]",
        r"^Dem [A-Z]",
        r" nicht ",
        r" kein",
        r"\b(kann|muss|will|darf|soll|möchte) ",
        r", weil .* (ist|hat|muss|will)\.$",
        r", obwohl ",
        r"^Wenn .*, \w+",
        r", dass ",
        r", ob ",
        r", (der|den|dem|denen) .*, ",
        r"^(Hat|Ist|Kann) .*\?$",
        r"^Wer .*\?$",
        r"^Wen ",
        r"^Wem ",
        r"^Was ",
        r"^Wo ",
        r"^Wohin ",
        r"^Wann ",
        r"^Warum ",
        r"^Wie viele ",
        r"^Welchen ",
        r" (zwei|sieben|zehn) \w+e ",
        r" (mich|dich|sich) ",
        r" als ",
        r", aber ",
        r" und ",
        r" ihre[nmr]? ",
        r" seine[nmr]? ",
        r" ihnen ",
        r" war\w* ",
        r" hatte\w* ",
        r"ß",
        r"[ÄÖÜäöü]",
    ],
)
def test_the_corpus_shows(pairs, pattern):
    assert sum(bool(re.search(pattern, german)) for german, _ in pairs["train"]) >= 20
