"""The walkthrough: its snippets print what is stored, both languages say the same.

Where a number has drifted, `python docs/walkthrough/run.py --update` stores the new
one; read the chapter again before.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys

import pytest
import tensorflow.compat.v1 as tf
from documents import ROOT, blocks, read

from transformer.logdir.history import Events

WALKTHROUGH = os.path.join(ROOT, "docs", "walkthrough")
SPEC = importlib.util.spec_from_file_location(
    "walkthrough_run", os.path.join(WALKTHROUGH, "run.py")
)
book = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(book)

NAMES = [os.path.basename(path) for path in book.chapters("en")]
CODE = r"```.*?```|`[^`]*`|\$\$.*?\$\$|https?://\S+"
# Numbers of the paper; the others are printed by a snippet, told by a document, or
# measured (with the command and the commit beside them).
OF_THE_PAPER = "0.1 0.6 0.9 0.98 27.3 28.4 3.5".split()

needs_tensorflow_2 = pytest.mark.skipif(
    tf.__version__ < "2", reason="the snippets are for TensorFlow 2"
)


def run_snippets(folder, *arguments):
    environment = dict(os.environ, WALKTHROUGH=str(folder), PYTHONIOENCODING="utf-8")
    done = subprocess.run(
        [sys.executable, os.path.join(WALKTHROUGH, "run.py"), *arguments],
        cwd=str(folder),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


@needs_tensorflow_2
def test_some_quick_snippets_print_what_is_stored(tmp_path):
    run_snippets(tmp_path, "--only", "0304", "0402")


# The chapters


@pytest.mark.parametrize("language", book.LANGUAGES)
@pytest.mark.parametrize("name", NAMES)
def test_code_and_output_of_a_chapter_are_fresh(language, name):
    """python docs/walkthrough/run.py --fill"""
    text = book.read(os.path.join(WALKTHROUGH, language, name))
    assert book.filled(text) == text


def skeleton(text):
    """What two languages share: headings, places, links, rows, code, formulas."""
    return [
        re.sub(r"\s.*", "", line) if line.startswith("#") else line.count("|")
        for line in text.splitlines()
        if re.match(r"#+ |\|", line)
    ] + re.findall(r"<!-- .* -->|^\$\$.*|\]\([^)]*\)|<details", text, re.M)


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_have_the_same_sections(name):
    english, chinese = (
        book.PLACE.sub(r"\1\5", read(f"docs/walkthrough/{language}/{name}"))
        for language in book.LANGUAGES
    )
    assert skeleton(english) == skeleton(chinese)
    assert sorted(figures(english)) == sorted(figures(chinese))


def figures(text):
    """The numbers with a point in the prose, without sections of the paper."""
    text = re.sub(CODE, " ", text, flags=re.S)
    text = re.sub(r"§[\d.]+|\b1\.15\.7|\barXiv:\S+", " ", text)
    return re.findall(r"(?<![\w.])\d+\.\d+(?:e-?\d+)?", text)


@pytest.mark.parametrize("name", NAMES)
def test_each_figure_comes_from_a_snippet_or_a_document(name):
    text = read(f"docs/walkthrough/en/{name}")
    printed = "".join(book.read(book.output_path(path)) for path in book.snippets())
    documents = [f"docs/{name}.md" for name in ("performance", "multi30k", "dialects")]
    known = printed + "".join(map(read, documents))
    known = set(re.findall(r"[\d.,]*\d(?:e-?\d+)?", known)).union(OF_THE_PAPER)
    text = re.sub(r"<!-- measured -->.*?<!-- end -->", "", text, flags=re.S)
    assert set(figures(book.PLACE.sub("", text))) <= known


def test_each_snippet_is_in_a_chapter():
    shown = re.findall(
        r"<!-- run (\d+) -->", "".join(read(f"docs/walkthrough/en/{n}") for n in NAMES)
    )
    stored = [os.path.basename(path)[:4] for path in book.snippets()]
    assert sorted(shown) == stored


@pytest.mark.parametrize("language", book.LANGUAGES)
def test_answers_of_the_quiz_name_lines_and_say_why(language):
    """The lines are fresh: see `test_code_and_output_of_a_chapter_are_fresh`."""
    text = read(f"docs/walkthrough/{language}/12-quiz.md")
    answers = re.findall(r"</summary>\n(.*?)</details>", text, re.S)
    assert len(answers) == 15
    for answer in answers:
        assert re.search(r"\.py:\d+`\]", answer)
        why = book.PLACE.sub("", answer).strip()
        assert 1 <= len(re.findall(r"[.。](?:\s|$|(?=\w))", why)) <= 3, why


def test_line_numbers_of_the_paper_page_are_fresh():
    """python docs/walkthrough/run.py --fill"""
    text = read("docs/paper.md")
    assert book.filled(text) == text
    rows = re.findall(r"^\| \d.*", text, re.M)
    assert len(rows) > 20
    for row in rows:
        assert book.REFERENCE.search(row) or "| not here |" in row, row


# Numbers to expect


@pytest.mark.parametrize("language", book.LANGUAGES)
def test_the_program_that_makes_the_tables_of_minutes(language, tmp_path, capsys):
    [program] = [
        block
        for kind, block in blocks(read(f"docs/walkthrough/{language}/10-numbers.md"))
        if kind == "python" and "summary_iterator" in block
    ]
    events = Events(str(tmp_path))
    events.write(5, {"loss": 4.0, "minutes": 0.25})
    scores = {"dev/loss": 3.0, "dev/bleu": 20.0}
    events.write(10, dict(scores, loss=3.5, minutes=0.5))
    exec(program.replace("logs/sample", str(tmp_path)), {})
    assert capsys.readouterr().out.split() == "0.5 10 3.50 3.00 20.00".split()


# The notebook and the Chinese README


def test_the_notebook_is_the_english_text():
    """python docs/walkthrough/run.py --fill"""
    assert book.read(book.NOTEBOOK) == book.notebook()


# Runs the code cells of a notebook one after the other, as a kernel does; prints what
# each of them printed.
KERNEL = """
import contextlib, io, json, sys

printed = []
for source in json.load(sys.stdin):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(source, globals())
    printed.append(output.getvalue())
print(json.dumps(printed))
"""


@needs_tensorflow_2
@pytest.mark.slow
def test_the_notebook_prints_what_is_stored(tmp_path):
    """Its cells are the snippets, in the order of the chapters, after the first one."""
    cells = json.loads(book.read(book.NOTEBOOK))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    done = subprocess.run(
        [sys.executable, "-c", KERNEL],
        cwd=ROOT,
        env=dict(os.environ, WALKTHROUGH=str(tmp_path)),
        input=json.dumps(sources),
        stdout=subprocess.PIPE,
        check=True,
        encoding="utf-8",
    )
    _, *printed = json.loads(done.stdout)
    by_code = {book.code_of(path).strip(): path for path in book.snippets()}
    paths = [by_code[source] for source in sources[1:]]
    assert sorted(paths) == book.snippets()
    for path, text in zip(paths, printed):
        assert book.compare(path, text) == ""


def test_the_chinese_readme_has_the_commands_and_figures_of_the_english_one():
    english, chinese = read("README.md"), read("README.zh.md")
    without_comments = [
        [(language, re.sub(r" +#.*", "", block)) for language, block in blocks(text)]
        for text in (english, chinese)
    ]
    assert without_comments[0] == without_comments[1]
    for pattern in (
        r"^#+ ",
        r"^\|",
        r"\]\((?!README|#)[^)]*\)",
        r"(?<![\w.])\d[\d.,]*\d\b",
    ):
        found = [re.findall(pattern, text, re.M) for text in (english, chinese)]
        assert sorted(found[0]) == sorted(found[1])
    spans = [set(re.findall(r"`([^`\n]+)`", text)) for text in (english, chinese)]
    assert spans[0] == spans[1]
