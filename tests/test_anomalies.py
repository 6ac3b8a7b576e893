"""text/anomalies.py: text whose score is not what it seems is named."""

import os

import corpora
import pytest

from transformer.text.anomalies import Side, find_anomalies

SOURCES, REFERENCES = (
    corpora.read_lines(
        os.path.join(corpora.ROOT, "data", "sample", f"test.{language}")
    )[:80]
    for language in ("de", "en")
)
CHINESE = ["一个人在街上骑自行车。", "两只狗在草地上玩。"] * 40


def find(lines, others=REFERENCES, is_reference=False, sources=SOURCES):
    """The anomalies of a text, in a line."""
    return "; ".join(find_anomalies(Side(lines, others, sources, is_reference)))


def tokenize(line):
    return line.replace(".", " .").replace(",", " ,")


@pytest.mark.parametrize("lines", [REFERENCES, SOURCES[::-1], CHINESE])
def test_text_as_people_write_it_has_none(lines):
    assert find(lines, others=lines) == ""
    assert find([line + " \r" for line in lines], others=lines) == ""


def test_french_has_a_space_before_some_signs():
    assert find(["Qui est là ? Personne ; rien !"] * 80) == ""
    assert find(["Der Zug kostet 5 . 000 Euro", *REFERENCES[1:]]) == ""  # a single one


@pytest.mark.parametrize(
    "change",
    [
        tokenize,
        lambda line: " ".join("▁" + word for word in line.split()),
        lambda line: line.replace("a", "a@@ ", 1),
        lambda line: line.replace(".", " &quot;."),
        lambda line: "the dog do n't sleep",
    ],
    ids=["spaces", "pieces", "joints", "entities", "words"],
)
@pytest.mark.parametrize("is_reference", [False, True])
def test_tokenized_text_is_named_on_either_side(change, is_reference):
    """Also where both sides are, and in texts shorter than sacreBLEU's 100 lines."""
    lines = [change(line) for line in REFERENCES]
    for others in (REFERENCES, lines):
        named = find(lines, others, is_reference)
        share = sum(a != b for a, b in zip(lines, REFERENCES)) / len(lines)
        assert f"{share:.0%} of the lines are tokenized" in named and share > 0.8


def test_separated_words_of_chinese_are_named():
    assert "tokenized" in find([" ".join(line) for line in CHINESE], CHINESE)


def test_empty_lines_are_named_unless_their_sources_are_empty():
    lines = ["" if i in (4, 7) else line for i, line in enumerate(REFERENCES)]
    assert find(lines) == "2 lines are empty, first line 5"
    assert "1 line is empty, first line 8; chrF2 ignores" in find(
        [*REFERENCES[:7], " ", *REFERENCES[8:]], REFERENCES, True
    )
    sources = ["" if i in (4, 7) else line for i, line in enumerate(SOURCES)]
    assert find(lines, sources=sources) == ""


@pytest.mark.parametrize("name, change", [("lower", str.lower), ("upper", str.upper)])
def test_another_case_than_the_other_side_is_named(name, change):
    lines = [change(line) for line in REFERENCES]
    assert f"100% of the lines are in {name} case, unlike the ref" in find(lines)
    assert f"in {name} case, unlike the translations" in find(lines, is_reference=True)
    assert find(lines, others=lines) == ""


def test_sources_instead_of_translations_are_named():
    assert "100% of the lines are their source" in find(SOURCES)
    assert "100% of the lines are their source" in find(SOURCES, is_reference=True)
    names = ["Berlin 2016"] * 80
    assert find(names, names, sources=names) == ""


# --- The commands ---------------------------------------------------------------------


@pytest.mark.usefixtures("one_thread_only")
def test_eval_and_doctor_name_the_file(trained, digits, tmp_path, capsys):
    logdir = corpora.copy_folder(trained, tmp_path / "logs")
    source = os.path.join(digits, "test.de")
    references = corpora.read_lines(os.path.join(digits, "test.en"))
    tokenized = [line + " ." for line in references]
    reference = corpora.write_lines(tmp_path / "ref.en", ["", *tokenized[1:]])
    other = corpora.write_lines(tmp_path / "other.en", tokenized)
    flags = ["--logdir", logdir, "--files", source, reference]
    corpora.run_command("eval", *flags, "--samples", "40", "--compare", other)
    first, second = capsys.readouterr().err.splitlines()
    assert f"{reference}: 95% of the lines are tokenized, as in" in first
    assert "1 line is empty, first line 1; chrF2 ignores" in first
    assert f"{other}: 100% of the lines are tokenized" in second
    assert corpora.exit_status("doctor", *flags) == 1
    output = capsys.readouterr().out
    assert "found: the text of the references\n  95% of the lines" in output
