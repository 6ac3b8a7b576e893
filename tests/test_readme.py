"""What the README says can be run: its example, its commands, its files."""

import os
import re
import subprocess
import sys

import pytest

import hparams
from transformer import dialects

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
    README = file.read()

SCRIPTS = sorted(set(re.findall(r"python ((?:scripts/)?\w+\.py)", README)))


@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", README, re.S))
def test_an_example_prints_what_it_says(example):
    [said] = re.findall(r"print\(.*# (.*)", example)
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        universal_newlines=True,
        check=True,
    )
    assert done.stdout.strip() == said


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_command_knows_the_flags_it_is_shown_with(script):
    commands = re.findall(r"python {}((?:.*\\\n)*.*)".format(re.escape(script)), README)
    shown = {flag.replace("-", "_") for flag in re.findall(r"--[\w-]+", str(commands))}
    text = subprocess.run(
        [sys.executable, script, "--help"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        universal_newlines=True,
        check=True,
    )
    known = {flag.replace("-", "_") for flag in re.findall(r"--[\w-]+", text.stdout)}
    assert shown <= known, shown - known


def test_each_preset_and_file_it_names_exists():
    presets = set(re.findall(r"--preset (\w+)", README))
    assert presets <= set(hparams.PRESETS)
    for path in re.findall(r"\]\((?!http)([\w./-]+)\)", README):
        assert os.path.exists(os.path.join(ROOT, path)), path


def test_the_table_of_dialects_is_the_one_that_the_rows_make():
    [shown] = re.findall(r"<!-- table of dialects -->\n(.*?)<!-- end", README, re.S)
    assert shown == dialects.table()
    printed = subprocess.run(
        [sys.executable, "-m", "transformer.dialects"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        universal_newlines=True,
    )
    assert printed.stdout == shown
