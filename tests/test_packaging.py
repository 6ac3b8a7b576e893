"""The shape of the repository: one direction of imports, nothing that leaks."""

import ast
import glob
import os
import re
import subprocess
import sys

import corpora
import pytest

import transformer

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# The order in which text flows: a file imports only files that stand before it.
with open(os.path.join(ROOT, "docs", "files.md"), encoding="utf-8") as file:
    ORDER = [
        path.replace("/", ".")
        for path in re.findall(r"^\| \[`transformer/(.*?)\.py`\]", file.read(), re.M)
    ]

TOP = ["hparams.py", "train.py", "eval.py"]


def find_files(*patterns):
    """Find files of the repository, relative to its root, with slashes."""
    return sorted(
        os.path.relpath(path, ROOT).replace(os.sep, "/")
        for pattern in patterns
        for path in glob.glob(os.path.join(ROOT, pattern))
    )


PACKAGE = find_files("transformer/*.py", "transformer/*/*.py", "transformer/*/*/*.py")
CODE = PACKAGE + find_files("scripts/*.py", "tools/*/*.py", "examples/*.py", *TOP)
TESTS = find_files("tests/*.py")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def list_imports(path):
    """List the dotted names that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(read(path))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: expected the whole name of an import"
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def dotted_name(path):
    """Return the name of a file of the package, as in ORDER: "text.lines"."""
    return ".".join(os.path.splitext(path)[0].split("/")[1:])


# The order of reading


@pytest.mark.parametrize("path", PACKAGE)
def test_imports_go_one_way(path):
    name = dotted_name(path)
    is_folder = name.endswith("__init__")
    assert is_folder or name in ORDER, "give the file a row in docs/files.md"
    before = ORDER if is_folder else ORDER[: ORDER.index(name)]
    for other in list_imports(path):
        package, _, module = other.partition(".")
        assert package not in ("hparams", "train", "eval", "scripts", "tests"), other
        if package == "transformer" and module in ORDER:
            assert module in before, other


def test_the_reading_order_names_each_file_once():
    paths = ["transformer/" + name.replace(".", "/") + ".py" for name in ORDER]
    assert sorted(paths) == [path for path in PACKAGE if "__init__" not in path]


# What CONTRIBUTING.md says about where things are

CONTRIBUTING = read("CONTRIBUTING.md")
ROWS = re.findall(r"^\| .*`.*", CONTRIBUTING.partition("## To add")[2], re.M)


def find_cited_files(text):
    """Find the files that a text cites: of the repository, or of the package."""
    paths = re.findall(r"`([\w/]+\.(?:py|md)|[\w/]+/)`", text)
    for path in paths:
        places = [path, "transformer/" + path]
        places = [
            place for place in places if os.path.exists(os.path.join(ROOT, place))
        ]
        assert places, f"{path} is missing"
        yield from find_files(*(p + "*.py" if p.endswith("/") else p for p in places))


def refuse_missing_names(names, text):
    """Check that the files cited in `text` have the names."""
    code = "".join(map(read, find_cited_files(text)))
    for name in names:
        assert re.search(rf"\b{name}\b", code), name


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1])
def test_a_row_on_what_to_add_names_what_its_files_have(row):
    refuse_missing_names(re.findall(r"`(\w+)[`(]", row), row)


def test_what_a_file_is_said_to_have_is_there():
    for name, path in re.findall(r"`(\w+)` (?:of|in) (`[\w/]+\.py`)", CONTRIBUTING):
        refuse_missing_names([name], path)


def test_the_shared_parts_of_commands_are_where_they_are_said_to_be():
    section = CONTRIBUTING.partition("## What every command")[2].partition("##")[0]
    refuse_missing_names(re.findall(r"`(\w+)[`(]", section), section)


# What no file does


@pytest.mark.parametrize("path", PACKAGE)
def test_the_package_does_not_print(path):
    calls = [
        node.func.id
        for node in ast.walk(ast.parse(read(path)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    assert "print" not in calls


def test_importing_the_package_needs_no_tensorflow_and_the_settings_neither():
    code = (
        "import sys; import hparams, transformer; "
        "sys.exit(sorted(set(sys.modules) & {'tensorflow', 'numpy'}) or None)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_system_without_posix_has_the_library_and_a_refusal_of_the_commands():
    code = """
import os, signal, sys
sys.modules.update(fcntl=None, termios=None)
del signal.SIGHUP
from transformer import HParams, Transformer, Translator
from transformer.commands import program
os.name = "nt"
program.main(["train", "--help"])
"""
    done = corpora.run_python("-c", code)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "train.py: error: Windows is not supported; use WSL"
    )


def test_importing_the_translator_does_not_import_what_only_exports_need():
    code = (
        "import sys; from transformer import Translator; sys.exit(sorted("
        "set(sys.modules) & {'sacrebleu', 'transformer.compat.convert'}) or None)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_no_file_names_a_folder_of_one_machine():
    roots = "|".join(["home", "opt", "private", "root", "tmp", "Users", "work"])
    pattern = re.compile(r"(?<![\w./}*-])/(?:" + roots + r")/\S*")
    paths = CODE + TESTS
    paths += find_files("*.md", "*/*.md", "*.toml", "setup.*", "Makefile", ".ci/run")
    matches = [(path, match) for path in paths for match in pattern.findall(read(path))]
    assert matches == []


# What is installed


def test_every_folder_of_the_package_is_installed():
    """setup.py finds the folders that have an __init__.py."""
    for folder, _, files in os.walk(os.path.join(ROOT, "transformer")):
        if any(name.endswith(".py") for name in files):
            assert "__init__.py" in files, folder


def test_the_change_log_knows_the_version():
    assert "## [{}]".format(transformer.__version__) in read("CHANGELOG.md")
