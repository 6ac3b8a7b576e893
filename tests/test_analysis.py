"""analysis.py, analyse.py: where the errors are, by hand and as text and HTML."""

import html.parser
import math
import os
import re

import corpora
import pytest

import hparams
from transformer import analysis
from transformer.analysis import System, Texts
from transformer.commands import analyse
from transformer.evaluation import score
from transformer.translator import Translator
from transformer.viewer.report_page import as_text, report_page

pytestmark = pytest.mark.usefixtures("one_thread_only")

HOSTILE = (
    "</style><script>alert(1)</script> \"'><img src=x onerror=alert(2)> {{body}} &lt;"
)
SOURCES = ["eins zwei drei", "a b c d e f g", "", "Haus Hund x", "p q"]
REFERENCES = ["one two three", "A B C D E F G", "", "house dog x", "P Q"]
FIRST = ["one two three", "A A A A A A A", "", "Haus dog x", "p q"]
SECOND = ["one", "A B C D E F G", "", "house Hund x", "P Q"]
FREQUENCY = {"one": 3, "two": 70, "three": 900, "house": 3, "dog": 70, "x": 900}
FREQUENCY.update(dict.fromkeys("ABCDEFGPQ", 20000))


def report(*systems, sources=SOURCES, references=REFERENCES, frequency=FREQUENCY):
    texts = Texts(sources, references, frequency)
    return analysis.analyse("Errors", texts, systems)


@pytest.fixture(scope="module")
def two():
    sure = [0.95, 0.2, math.nan, 0.6, 0.6]
    return report(System("a.en", FIRST, sure), System("b.en", SECOND, None))


def table(found, title):
    [chosen] = [each for each in found.tables if each.title == title]
    return {row[0]: dict(zip(chosen.head[1:], row[1:])) for row in chosen.rows}


def listing(found, title):
    return next(each for each in found.listings if each.title == title)


def test_overall(two):
    rows = table(two, "Overall")
    first, second = rows["A a.en"], rows["B b.en"]
    for row, translations in ((first, FIRST), (second, SECOND)):
        wanted = score(translations, REFERENCES)
        assert row["BLEU"] == f"{wanted.bleu:.2f}"
        assert row["chrF2"] == f"{wanted.chrf:.2f}"
    assert (first["length"], second["length"]) == ("1.000", f"{13 / 15:.3f}")
    assert (first["empty"], first["repeats"]) == ("20.0 %", "20.0 %")
    # "Haus" and "p q" stand in the source alone; "p q" is all of its line.
    assert (first["copies"], first["untranslated"]) == ("40.0 %", "20.0 %")
    assert (second["copies"], second["repeats"]) == ("20.0 %", "0.0 %")


@pytest.mark.parametrize(
    "title, groups",
    [
        ("By length of the source", {"1 to 5": [0, 3, 4], "6 to 10": [1]}),
        (
            "By the rarest word of the reference",
            {"0": [2], "1 to 4": [0, 3], "10,000 or more": [1, 4]},
        ),
    ],
)
def test_groups_of_lines_have_the_scores_of_their_lines(two, title, groups):
    rows = table(two, title)
    assert list(rows) == list(groups)
    for name, lines in groups.items():
        assert rows[name]["lines"] == str(len(lines))
        for label, translations in (("A", FIRST), ("B", SECOND)):
            wanted = score(
                [translations[i] for i in lines], [REFERENCES[i] for i in lines]
            )
            assert rows[name][f"BLEU {label}"] == f"{wanted.bleu:.2f}"
            assert rows[name][f"chrF2 {label}"] == f"{wanted.chrf:.2f}"


def test_groups_by_confidence(two):
    rows = table(two, "By how sure A was")
    lines = {"0.0 to 0.3": "1", "0.5 to 0.7": "2", "0.95 or more": "1"}
    assert {name: row["lines"] for name, row in rows.items()} == lines
    assert "BLEU" in rows["0.5 to 0.7"] and rows["0.95 or more"]["chrF2"] == "100.00"
    assert [each.title for each in two.tables if "how sure" in each.title] == [
        "By how sure A was"
    ]


def test_words_by_frequency(two):
    rows = table(two, "Words, by how rare they are")
    assert rows["1 to 4"] == {  # one, house: A has one of them, B both
        "words": "2",
        "recall A": "50.0",
        "precision A": "100.0",
        "F1 A": "66.7",
        "recall B": "100.0",
        "precision B": "100.0",
        "F1 B": "100.0",
    }
    assert rows["10,000 or more"]["recall A"] == f"{100 / 9:.1f}"
    assert rows["10,000 or more"]["precision A"] == f"{100 / 7:.1f}"


def test_lines_that_are_listed(two):
    worst = listing(two, "The worst lines").lines
    assert [each.number for each in worst][-1] == 1 and len(worst) == 5
    assert worst[-1].translations[0] == ("A", "chrF2 100.0", "one two three")
    different = listing(two, "The most different lines").lines
    assert {each.number for each in different} == {1, 2, 4, 5}
    [repeated] = listing(two, "Repeated words").lines
    assert repeated.number == 2 and repeated.translations[0][1] == "A A A"
    copied = listing(two, "Copied words").lines
    assert [(each.number, each.translations[0][1]) for each in copied] == [
        (4, "Haus"),
        (5, "p, q"),
    ]


# --- As text, as HTML -----------------------------------------------------------------


class Elements(html.parser.HTMLParser):
    """The elements of a page, its text, and the texts of its marks."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.names, self.text, self.attributes = [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data):
        self.text += data


def test_nothing_of_the_text_is_interpreted_as_html(two):
    lines = [HOSTILE, HOSTILE + " x"]
    system = System(HOSTILE, [HOSTILE + " y", HOSTILE * 2], [0.5, 0.9])
    other = System("b", lines[::-1], None)
    frequency = {HOSTILE: 1}
    made = report(
        system, other, sources=lines, references=lines[::-1], frequency=frequency
    )
    made = made._replace(title=HOSTILE)
    found, harmless = Elements(report_page(made)), Elements(report_page(two))
    assert set(found.names) == set(harmless.names)
    assert not {"script", "img"} & set(found.names)
    assert not [name for name in found.attributes if name.startswith("on")]
    assert HOSTILE in found.text and "{{body}}" in found.text
    assert "<script" not in report_page(made)


def test_the_page_asks_for_nothing(two):
    page = report_page(two)
    [policy] = re.findall(r'Content-Security-Policy" content="(.*?)"', page)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert not re.findall(r'(?:src|href)="(?!data:,)', page)
    assert "{{" not in page and page.count("<style>") == 1
    text = Elements(page).text
    for each in two.tables:
        assert each.title in text and all(cell in text for cell in each.rows[0])


# --- The command ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def lines(digits):
    return [
        corpora.read_lines(os.path.join(digits, "test." + side))
        for side in ("de", "en")
    ]


def test_confidence_is_the_mean_probability_of_a_piece(trained, lines):
    """By the score of the translator: log-probability / length penalty."""
    with Translator(hparams.load(trained), trained) as translator:
        translator.restore()
        best = [row[0] for row in translator.translate([*lines[0], ""])]
        texts = [each.text for each in best]
        found = analysis.confidences(translator, [*lines[0], ""], texts)
        scores = translator.score(lines[0], texts[:-1])
        pieces = translator.vocabularies.target.encode_lines(texts)
    assert math.isnan(found[-1])
    alpha = hparams.load(trained).length_penalty
    for each, score_of, ids in zip(found, scores, pieces):
        total = score_of * ((5 + len(ids) + 1) / 6) ** alpha
        assert each == pytest.approx(math.exp(total / (len(ids) + 1)), rel=1e-4)


def test_the_command(trained, digits, lines, tmp_path, capsys):
    other = corpora.write_lines(tmp_path / "other.en", lines[1])
    page = tmp_path / "errors.html"
    flags = ["--compare", other, "--html", str(page)]
    analyse.main(["--logdir", trained, "--data", digits, *flags])
    said = capsys.readouterr().out.splitlines()
    with Translator(hparams.load(trained), trained) as translator:
        translator.restore()
        texts = [row[0].text for row in translator.translate(lines[0])]
        sure = analysis.confidences(translator, lines[0], texts)
    frequency = {}
    for line in corpora.read_lines(os.path.join(digits, "train.en")):
        for word in line.split():
            frequency[word] = frequency.get(word, 0) + 1
    wanted = analysis.analyse(
        "Errors on test",
        Texts(*lines, frequency),
        [System(trained, texts, sure), System(other, lines[1], None)],
    )
    assert said[:-2] == as_text(wanted) and said[-1] == str(page)
    assert page.read_text(encoding="utf-8") == report_page(wanted)


def test_without_the_training_data_there_is_no_table_of_words(tmp_path, capsys):
    assert analyse.frequencies(str(tmp_path)) is None
    assert "no table of rare words" in capsys.readouterr().err


def test_what_cannot_be_analysed_is_one_line(
    trained, digits, tmp_path, capsys, monkeypatch
):
    """Before anything is translated."""
    monkeypatch.setattr(Translator, "translate", None)
    short = corpora.write_lines(tmp_path / "short.en", ["1"])
    common = ["--logdir", trained, "--data", digits, "--compare"]
    for names, words in (
        ([short], "expected 20 translations"),
        ([trained], "twice"),
        (["no/such"], "no/such"),
    ):
        assert words in corpora.refusal(capsys, analyse.main, *common, *names)
