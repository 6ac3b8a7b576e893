"""What the documents say: their examples, the flags they show, tables and files.

test_commands.py runs the commands themselves, which takes minutes.
"""

import json
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


def list_flags(script):
    """The flags that a program is shown with, with underscores."""
    return {
        flag.replace("-", "_")
        for command in commands()
        for part in command.text.split("|")
        if f" {script}" in " " + part
        for flag in re.findall(r"(?<!\S)--[\w-]+", part.split(script, 1)[1])
    }


FLAGS = {script: list_flags(script) for script in SCRIPTS}

# Prints the help of programs, as JSON: in one process, which imports TensorFlow once.
HELP = """
import contextlib, io, json, os, runpy, sys

texts, path, modules = {}, list(sys.path), set(sys.modules)
for script in sys.argv[1:]:
    program, *words = script.split()
    sys.argv = [program, *words, "--help"]
    sys.path[:] = [os.path.dirname(program), *path]
    with contextlib.redirect_stdout(io.StringIO()) as text:
        with contextlib.suppress(SystemExit):
            if program.endswith(".py"):
                runpy.run_path(program, run_name="__main__")
            else:
                runpy.run_module("transformer", run_name="__main__")
    texts[script] = text.getvalue()
    folder = os.path.dirname(os.path.abspath(program))
    for name in set(sys.modules) - modules:  # another folder may have one of this name
        file = getattr(sys.modules[name], "__file__", None) or ""
        if os.path.dirname(os.path.abspath(file)) == folder:
            del sys.modules[name]
print(json.dumps(texts))
"""


@pytest.fixture(scope="module")
def helps():
    done = corpora.run_python("-c", HELP, *filter(FLAGS.get, SCRIPTS))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("script", filter(FLAGS.get, SCRIPTS))
def test_each_command_knows_the_flags_it_is_shown_with(script, helps):
    flags = {flag.replace("-", "_") for flag in re.findall(r"--[\w-]+", helps[script])}
    assert FLAGS[script] <= flags, FLAGS[script] - flags


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
