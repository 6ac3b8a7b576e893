"""What the documents say: their examples, the flags they show, tables and files.

test_commands.py runs the commands themselves, which takes minutes.
"""

import os
import re
import runpy

import corpora
import pytest
from documents import ROOT, between, blocks, commands, documents, read

from transformer import dialects, hparams

# Examples that print: what a line prints follows it as a comment. One that is in two
# documents, such as README and its Chinese twin, runs once.
EXAMPLES = {
    text: document
    for document in documents()
    for language, text in blocks(read(document))
    if language == "python" and re.search(r"print\(.*# ", text)
}

SCRIPTS = sorted(
    set(
        script
        for command in commands()
        for script in re.findall(
            r"(?:(?<=python )|(?<=python3 ))(?:\w+/)*\w+\.py|"
            r"transformer-tf [a-z]+(?= -)",
            command.text,
        )
    )
)


@pytest.mark.parametrize("example", EXAMPLES, ids=EXAMPLES.values())
def test_an_example_prints_what_it_says(example, tmp_path):
    """Outside of the checkout: what it imports has been installed."""
    done = corpora.run_python("-c", example, cwd=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == re.findall(r"print\(.*# (.*)", example)


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_command_knows_the_flags_it_is_shown_with(script):
    shown = {
        flag.replace("-", "_")
        for command in commands()
        for part in command.text.split("|")
        if f" {script}" in " " + part
        for flag in re.findall(r"(?<!\S)--[\w-]+", part.split(script, 1)[1])
    }
    program = script.replace("transformer-tf", "-m transformer").split()
    if not shown:
        pytest.skip("it is shown without flags")  # an example may have none
    text = corpora.run_python(*program, "--help").stdout
    flags = {flag.replace("-", "_") for flag in re.findall(r"--[\w-]+", text)}
    assert shown <= flags, shown - flags


@pytest.mark.parametrize("document", documents())
def test_each_preset_dialect_and_file_it_names_exists(document):
    text = read(document)
    assert set(re.findall(r"--preset (\w+)", text)) <= set(hparams.PRESETS)
    named = set(re.findall(r"--dialect (\w+)", text)) - {"NAME"}
    assert named <= set(dialects.DIALECTS)
    for path in re.findall(r"\]\((?!http)([\w./-]+)(?:#[\w-]+)?\)", text):
        folder = os.path.dirname(os.path.join(ROOT, document))
        assert os.path.exists(os.path.join(folder, path)), path


def test_the_table_of_dialects_is_the_one_that_the_rows_make(capsys):
    program = os.path.join(ROOT, "tools", "docs", "dialects.py")
    runpy.run_path(program, run_name="__main__")
    assert capsys.readouterr().out == between("docs/dialects.md", "table of dialects")
