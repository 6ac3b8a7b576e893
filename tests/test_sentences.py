"""text/sentences.py: paragraphs are split where sentences end, and nothing is lost."""

import hypothesis
import hypothesis.strategies as st
import pytest

from transformer.text import sentences


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


def test_a_long_line_takes_no_long_time():
    """A time that grew with the square would be minutes."""
    assert len(sentences.split("Ja. " * 50000)) == 50000
