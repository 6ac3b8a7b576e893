"""text/sentences.py: paragraphs are split where sentences end, and nothing is lost."""

import re

import hypothesis
import hypothesis.strategies as st
import pytest

from transformer.commands.translate import translate_sentences, warn_of_simple_rules
from transformer.text import sentences
from transformer.text.translations import Translation

needs_sentencex = pytest.mark.skipif(
    sentences.sentencex is None, reason="sentencex is not installed"
)


@pytest.fixture(
    params=["rules", pytest.param("sentencex", marks=needs_sentencex)], scope="module"
)
def rules(request):
    """Split with sentencex and without it."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "rules":
            patch.setattr(sentences, "sentencex", None)
        yield request.param


@pytest.mark.parametrize(
    "text, num_sentences",
    [
        ("Der Hund schläft. Die Frau kommt!", 2),
        ("Kommt sie? „Ja.“ Er geht …  Gut", 4),
        ("(Er kam.) Sie ging.", 2),
        ("eine Zeile\nnoch eine\r\n\r\nund noch eine", 3),
        ("eine Zeile\u2028noch eine\u2029und noch eine\x85 und die letzte", 4),
        ("Dr. Bach und Prof. J. S. Bach, z. B. am 3. Oktober bzw. am 4. November.", 1),
        ("Mr. Smith met Mrs. Jones in St. Louis, e.g. at 10 p.m. on Monday.", 1),
        ("Es war 1990. Dann kam er.", 2),
        ("Er sagte nichts... Sie ging.", 2),
        ("Was?! Nein!", 2),
        ("3.5 und 1.000.000 sind Zahlen. www.example.org auch.", 1),
        ("kein Ende", 1),
        ("", 0),
        (" \n\t ", 0),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text, num_sentences):
    assert len(sentences.split(text)) == num_sentences


@hypothesis.given(st.text(st.sampled_from('aB.!?…“”"() \n\t\r19é\u2028'), max_size=60))
def test_nothing_is_lost_and_no_sentence_is_empty(text):
    pairs = sentences.split(text)
    assert "".join(map("".join, pairs)) == text.lstrip()
    assert all(
        sentence.strip() == sentence != "" and not space.strip()
        for sentence, space in pairs
    )
    assert sentences.join([sentence for sentence, _ in pairs], pairs) == text.lstrip()


def test_a_translated_line_stays_one_line(rules):
    """Each white space becomes a space, as does a line end that is not \\n."""

    class Echo:
        def translate(self, lines):
            return [[Translation(line, 0.0)] for line in lines]

    lines = ["Ja.\tDas kostet 5 Mio. Euro.  Gut!\u2028 Nein", "", " Ja. "]
    texts = [
        n_best[0].text for n_best in translate_sentences(Echo(), lines, ("de", "en"))
    ]
    assert texts == ["Ja. Das kostet 5 Mio. Euro. Gut! Nein", "", "Ja."]


def test_without_sentencex_a_warning_says_what_to_install(monkeypatch):
    monkeypatch.setattr(sentences, "sentencex", None)
    warnings = []
    warn_of_simple_rules(warnings.append)
    assert warnings[0].startswith("sentencex is not installed: pip install")
    assert "transformer-tf[sentences]" in warnings[0] and len(warnings) == 1


def test_a_long_line_takes_no_long_time():
    """A time that grew with the square would be minutes."""
    assert len(sentences.split("Ja. " * 50000)) == 50000


@needs_sentencex
def test_a_long_line_without_spaces_takes_no_long_time():
    """The time of sentencex alone grows with the square: 14 seconds."""
    pairs = sentences.split("好。我不知道！" * 20000, "zh")
    assert pairs == [("好。", ""), ("我不知道！", "")] * 20000
    assert sentences.split("好" * 50000, "zh") == [("好" * 50000, "")]


@pytest.mark.parametrize(
    "text",
    [
        "Das kostet 5 Mio. Euro und 3 Mrd. Dollar.",
        "Siehe Abb. 3 und Kap. 4.",
        "Er wohnt in der Bahnhofstr. 12 in Köln.",
        "Die Fa. Müller liefert.",
        "Lt. Polizei war niemand da.",
        "Dr. med. Anna Schulz hat Dienst.",
        "Max. 20 Personen dürfen hinein.",
        "Heinrich VIII. war König.",
        "Das war im 19. Jahrhundert.",
        "Die Praxis liegt in der Hauptstr. Nr. 3.",
        "Das Lager in der Industriestr. Halle 3 ist voll.",
        "Nach Müller et al. 2010 ist das falsch, wie Schmidt et al. (2015) zeigen.",
        "Jones et al. [12] sehen das anders.",
        "Die Abt. Einkauf und der Abg. Weber stimmten dagegen.",
        "Am 3. 10. 1990 war es so weit, am 24. 12. kam er.",
        "Nimm tägl. 2 Tropfen.",
        "Die Kundennr. 17 fehlt, siehe Gl. 5 und Rdnr. 3.",
        "Das war die berühmte 9. Sinfonie.",
    ],
)
def test_a_german_abbreviation_ends_no_sentence(rules, text):
    for language in ("de", ""):
        assert sentences.split(text + " Gut!", language) == [(text, " "), ("Gut!", "")]


@pytest.mark.parametrize(
    "text",
    [
        "Smith et al. 2010 found this, as Jones et al. [12] did.",
        "She lives at 5 Main St. Apt. 3, or in Elm St. No. 4.",
        "In Ex. 3 and Thm. 4 we saw it, see App. B and Figs. A and C there.",
        "Op. 27 No. 2 is famous.",
        "The game is on Sat. June 3, the shop is open Mon. to Fri. from 9.",
        "Add 2 tbsp. of oil and 3 oz. of milk.",
    ],
)
def test_an_english_abbreviation_ends_no_sentence(rules, text):
    assert sentences.split(text + " Good!", "en") == [(text, " "), ("Good!", "")]


@pytest.mark.parametrize(
    "text",
    [
        "Das ist Max. |Er ist mein Bruder.",
        "Er fand Nr. 5. |Die anderen fehlen.",
        "Das steht auf S. 12. |Blättern Sie um.",
        "Er ist 12. |Anna ist 9.",
        "Er zog in die Karlstr. |Es gefiel ihm dort.",
        "We use the app. |5 people do.",
        "Er wurde in Wien geboren. |1990 zog er nach Rom. |2 Jahre blieb er.",
        "1 2! |3 4 5? |6",
        "Never mind. |We go.",
        "He said no. |I left, see Vol. I for more.",
        "It took 5 min. |I'm late.",
    ],
)
def test_the_same_words_at_the_end_of_a_sentence(rules, text):
    is_english = re.search(r"Never|We|\bI\b", text)
    language = "en" if is_english else "de"
    pairs = sentences.split(text.replace("|", ""), language)
    assert "|".join(map("".join, pairs)) == text


@needs_sentencex
@pytest.mark.parametrize(
    "language, text",
    [
        ("zh", "今天天气很好。|我们去公园吧！|你来吗？"),
        ("zh-CN", "价格是3.5元。|很便宜。"),
        ("zh", "他用手机。 |iPad也好。"),
        ("ja", "「こんにちは。」|彼は笑った。"),
        ("es", "El Sr. García llegó. |¿Vienes? |¡Claro que sí!"),
        ("fr", "Il va à Lat. |Elle y reste."),
        ("ru", "А. С. Пушкин родился в Москве. |Это стоит 5 млн. рублей."),
        (
            "en",
            "He lives in the U.S. |She works at Apple Inc. |We meet at 5 p.m. today.",
        ),
        # In English, who begins with a small letter may begin each sentence so.
        ("en", "i am here. |you are there."),
        ("en", "I am here. you are there."),
        ("de", "ich bin da. du bist dort."),
        ("source", "今天天气很好。|我们去公园吧！"),
    ],
)
def test_sentences_of_many_languages(language, text):
    pairs = sentences.split(text.replace("|", ""), language)
    assert "|".join(map("".join, pairs)) == text


@pytest.mark.parametrize(
    "source, target, pairs, translations, joined",
    [
        (
            "zh",
            "en",
            [("好。", ""), ("好！", "\n"), ("吗？", "")],
            "A. B! C?",
            "A. B!\nC?",
        ),
        (
            "de",
            "zh",
            [("A.", " "), ("B.", "\r\n"), ("C.", "")],
            "好。 好！ 吗？",
            "好。好！\r\n吗？",
        ),
        ("zh", "ja", [("好。", ""), ("好！", "")], "あ。 い。", "あ。い。"),
        (
            "de",
            "en",
            [("A.", "  "), ("B.", "\t"), ("C.", " ")],
            "D. E. F.",
            "D.  E.\tF. ",
        ),
    ],
)
def test_spaces_between_sentences_are_those_of_the_target(
    source, target, pairs, translations, joined
):
    assert sentences.join(translations.split(), pairs, source, target) == joined


TEXTS = st.lists(
    st.one_of(
        st.sampled_from(
            "Mio. Fa. z. B. „Ja.“ (Er) www.a.de 。 好 「い」 ？！ … \u3000 \x85 \u2028 "
            "3. . ! ? a) 1) * - • [1] VIII. Max. Dipl.-Ing. é ا. हाँ।".split(" ")
        ),
        st.sampled_from([" ", "\n", "\r\n", "  ", "\t", "\n\n", "\u00a0", "\u200b"]),
        st.text(max_size=5),
    ),
    max_size=30,
).map("".join)


@hypothesis.given(
    TEXTS, st.sampled_from(["de", "en", "zh", "ja", "es", "ru", "", "am"])
)
def test_the_pieces_of_any_text_give_it_back(rules, text, language):
    pairs = sentences.split(text, language)
    assert "".join(map("".join, pairs)) == text.lstrip()
    for sentence, space in pairs:
        assert sentence.strip() == sentence != "" and not space.strip()
        assert len(sentence.splitlines()) == 1
    translations = [sentence for sentence, _ in pairs]
    assert sentences.join(translations, pairs, language, language) == text.lstrip()
